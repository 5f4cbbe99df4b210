"""One finding of a doctor: whether something is as it should be, in one sentence, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from broker_common.doctor import texts
from broker_common.errors import BrokerError
from broker_common.language import hint_of, phrase, phrase_of

Level: TypeAlias = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check. Sentences are phrases: English for programs, and said in French to people."""

    check: str
    level: Level
    text: str
    # The remedy; empty where there is nothing to do.
    remedy: str = ""


def ok(check: str, text: str) -> Finding:
    """It is as it should be."""
    return Finding(check, "ok", text)


def warning(check: str, text: str, remedy: str) -> Finding:
    """It may be meant so, or is about to be a problem."""
    return Finding(check, "warning", text, remedy)


def problem(check: str, text: str, remedy: str) -> Finding:
    """Something does not work, or a promise is not kept."""
    return Finding(check, "problem", text, remedy)


def of_error(check: str, error: BrokerError) -> Finding:
    """The finding that an error of the home or of a peer stands for."""
    return Finding(check, "problem", phrase_of(error), hint_of(error))


def tried(check: str, look: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """Findings of a check; a check that fails is a finding as well, and does not end the others."""
    found = []
    try:
        for each in look():
            found.append(each)  # noqa: PERF402 - what was found before a look fails is kept
    except BrokerError as error:
        found.append(of_error(check, error))
    except OSError as error:
        file, reason = error.filename or check, error.strerror or type(error).__name__
        found.append(problem(check, phrase(texts.UNREADABLE, file=file, problem=reason), texts.UNREADABLE_REMEDY))
    return found
