"""Looking something up in both nodes' dictionaries: one column or variable, or every place where a word stands.

What is found has the shape of the whole, so that it is shown in the same way: the columns of each node that match, and of a column
that matches by its codes alone only those.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase, said
from broker_common.query.dictionary import (
    Column,
    Dictionary,
    dictionary_json,
    dictionary_text,
    folded,
    nearest,
    shown,
)
from broker_common.query.remedies import example
from researcher_node import texts
from researcher_node.asking import Dictionaries


def looked_up(found: Dictionaries, name: str | None, word: str | None) -> tuple[dict[str, Any], str]:
    """What is published of this column or variable, and where this word stands in names, descriptions, codes and labels.

    Raises:
        InvalidRequestError: UNKNOWN_COLUMN, neither node publishes anything of this name.
    """
    health, census = (_of_name(each, name) for each in (found.health, found.census))
    if name is not None and health is None and census is None:
        raise _unknown(name, found)
    health, census = (_with_word(each, word) for each in (health, census))
    result = {"health": _json(health), "census": _json(census), "census_release": found.census_release}
    return result, _text(health, census, found.census_release, name, word)


def _of_name(dictionary: Dictionary, name: str | None) -> Dictionary | None:
    if name is None:
        return dictionary
    column = dictionary.find(name.strip().lower())
    return None if column is None else Dictionary((column,))


def _with_word(dictionary: Dictionary | None, word: str | None) -> Dictionary | None:
    if dictionary is None or word is None:
        return dictionary
    columns = tuple(found for column in dictionary.columns if (found := _column_with(column, folded(word).split())))
    return Dictionary(columns) if columns else None


def _column_with(column: Column, words: list[str]) -> Column | None:
    """The column if its name or description has all the words; or with the codes that have them, if there are any."""
    if _has_all(f"{column.name} {column.description}", words):
        return column
    codes = tuple(code for code in column.codes if _has_all(f"{code.value} {code.label}", words))
    return replace(column, codes=codes) if codes else None


def _has_all(text: str, words: list[str]) -> bool:
    text = folded(text)
    return all(word in text for word in words)


def _unknown(name: str, found: Dictionaries) -> InvalidRequestError:
    near = nearest(name, [*found.health.names, *found.census.names])
    instead = phrase(
        "Did you mean: {nearest}? 'tripartite researcher dictionary --search WORD' looks through names, codes and labels of both "
        "nodes.",
        nearest=near,
    )
    return InvalidRequestError("UNKNOWN_COLUMN", column=shown(name), nearest=near, instead=instead)


def _json(dictionary: Dictionary | None) -> dict[str, Any]:
    return {"columns": []} if dictionary is None else dictionary_json(dictionary)


def _text(
    health: Dictionary | None, census: Dictionary | None, release: str, name: str | None, word: str | None
) -> str:
    if name is None and word is None and health is not None and census is not None:
        return said(texts.DICTIONARIES, health=dictionary_text(health), release=release, census=dictionary_text(census))
    parts = []
    if health is not None:
        parts += [said(texts.HEALTH_FOUND), dictionary_text(health), *_typed_like(texts.TYPED_WHERE, health, name)]
    if census is not None:
        found = said(texts.CENSUS_FOUND, release=release)
        parts += [found, dictionary_text(census), *_typed_like(texts.TYPED_COUNT, census, name)]
    return "\n\n".join(parts) or said(texts.NOTHING_FOUND, word=shown(word or ""))


def _typed_like(text: str, dictionary: Dictionary, name: str | None) -> list[str]:
    """How the one column that was asked for is typed."""
    return [] if name is None else [said(text, example=example(dictionary.columns[0]))]
