"""The document that `lab explain` shows: one figure, or all of them, for the settings that are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from shlex import quote

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.query.dictionary import nearest
from policy_lab.document.model import Document
from policy_lab.figures.figure import FIGURES, Figure
from policy_lab.standing import Standing

# Longest quotation of a typed word.
_SHOWN_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class Wish:
    """The request: a figure or all, and the settings that differ from the usual ones."""

    figure: str | None
    settings: Mapping[str, str]


def parse_settings(words: Sequence[str]) -> dict[str, str]:
    """Settings from words like `cap=90`; the last of several for one key counts.

    Raises:
        InvalidRequestError: INVALID_VALUE.
    """
    settings = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise InvalidRequestError(
                "INVALID_VALUE",
                name=f"--set {word[:_SHOWN_CHARACTERS]}",
                problem=phrase("is not KEY=VALUE"),
                remedy=phrase("Write it like --set cap=90; 'tripartite lab explain --list' shows what may be moved."),
            )
        settings[key] = value
    return settings


def asked(figure: str | None) -> tuple[Figure, ...]:
    """The figure of this name, or all of them.

    Raises:
        InvalidRequestError: INVALID_VALUE, with the nearest names.
    """
    if figure is None:
        return tuple(FIGURES.values())
    if figure not in FIGURES:
        raise InvalidRequestError(
            "INVALID_VALUE",
            name=figure[:_SHOWN_CHARACTERS],
            problem=phrase("is no figure"),
            remedy=phrase(
                "Did you mean: {nearest}? All: {all}.", nearest=nearest(figure, FIGURES), all=", ".join(FIGURES)
            ),
        )
    return (FIGURES[figure],)


def make_report(wish: Wish) -> tuple[Document, dict[str, dict[str, str]]]:
    """The document, and the value of every setting of every figure in it.

    Raises:
        InvalidRequestError: INVALID_VALUE.
    """
    figures = asked(wish.figure)
    _verify_known(wish, figures)
    values = {figure.key: figure.values(_given(figure, wish)) for figure in figures}
    document = Document(
        key="explain",
        title=figures[0].title if wish.figure else phrase("What a policy buys and costs"),
        standing=Standing.NO_DATA,
        command=_command(wish),
        sections=[figure.draw(values[figure.key]) for figure in figures],
    )
    return document, {key: {name: str(each) for name, each in of.items()} for key, of in values.items()}


def _verify_known(wish: Wish, figures: Sequence[Figure]) -> None:
    """Return only if every setting is one of some figure; a figure that is named refuses what it does not have itself."""
    known = sorted({setting.key for figure in figures for setting in figure.settings})
    for key in wish.settings:
        if wish.figure is None and key not in known:
            raise InvalidRequestError(
                "INVALID_VALUE",
                name=key[:_SHOWN_CHARACTERS],
                problem=phrase("is no setting of any figure"),
                remedy=phrase(
                    "Did you mean: {nearest}? All: {all}.", nearest=nearest(key, known), all=", ".join(known)
                ),
            )


def _given(figure: Figure, wish: Wish) -> dict[str, str]:
    """The settings that are meant for this figure: all of them where it is named, otherwise those that it has."""
    own = {setting.key for setting in figure.settings}
    return {key: value for key, value in wish.settings.items() if wish.figure or key in own}


def _command(wish: Wish) -> str:
    words = ["tripartite lab explain", *([wish.figure] if wish.figure else [])]
    return " ".join([*words, *(f"--set {quote(f'{key}={value}')}" for key, value in sorted(wish.settings.items()))])
