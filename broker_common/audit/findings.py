"""What an audit has found: problems, what is under way, and what could not be checked. Bounded, whatever it is fed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from broker_common.audit.codes import CODES, PENDING, REPLAY

__all__ = ["MOST_PROBLEMS", "Findings", "Problem", "printable"]

# Listed; all are counted.
MOST_PROBLEMS = 1000
_MOST_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that does not hold, and where."""

    code: str
    # `census`, `health` or `researcher`; empty for what is handed in as a whole.
    log: str
    # Number of the entry; None where it is not about one.
    entry: int | None
    text: str


@dataclass(slots=True)
class Findings:
    """Collects. Texts are made printable: whatever they quote was handed in by somebody."""

    problems: list[Problem] = field(default_factory=list)
    # Of all problems, listed or not.
    count: int = 0
    # By code and log.
    pending: Counter[tuple[str, str]] = field(default_factory=Counter)
    not_checked: list[str] = field(default_factory=list)

    def problem(self, code: str, log: str, entry: int | None = None, detail: str = "") -> None:
        """Note a problem."""
        text = printable(detail) if code in REPLAY else CODES[code]
        if code not in REPLAY and detail:
            text += f": {printable(detail)}"
        self.count += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(Problem(code, log, entry, text))
        elif len(self.problems) == MOST_PROBLEMS:
            self.problems.append(Problem("TOO_MANY_PROBLEMS", "", None, CODES["TOO_MANY_PROBLEMS"]))

    def wait(self, code: str, log: str, count: int = 1) -> None:
        """Note something that is under way."""
        if code not in PENDING:
            raise KeyError(code)
        if count:
            self.pending[code, log] += count

    def skip(self, text: str) -> None:
        """Note that something could not be checked."""
        if text not in self.not_checked:
            self.not_checked.append(printable(text))


def printable(text: str) -> str:
    """The text as a terminal may be shown it, and no longer than anybody reads."""
    shown = "".join(character if character.isprintable() else "\ufffd" for character in text[:_MOST_CHARACTERS])
    return shown if len(text) <= _MOST_CHARACTERS else f"{shown} ..."
