"""Findings of an audit: problems, pending items, and items that could not be checked. Bounded, whatever it is fed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from broker_common.audit.codes import CODES, PENDING

Report: TypeAlias = Callable[[int, int], None]
"""Told now and then how much of something is done, and of how much."""

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


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence with `{names}`, and what they stand for: another language can say it, too."""

    text: str
    values: Mapping[str, str]


@dataclass(slots=True)
class Findings:
    """Collects. Texts are made printable: whatever they quote was handed in by somebody."""

    problems: list[Problem] = field(default_factory=list)
    # The number of all problems, listed or not.
    count: int = 0
    # Pending findings by code and log.
    pending: Counter[tuple[str, str]] = field(default_factory=Counter)
    # Things that could not be checked, in the order in which they were found.
    remarks: list[Remark] = field(default_factory=list)

    def problem(self, code: str, log: str, entry: int | None = None, detail: str = "") -> None:
        text = f"{CODES[code]}: {printable(detail)}" if detail else CODES[code]
        self.count += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(Problem(code, log, entry, text))
        elif len(self.problems) == MOST_PROBLEMS:
            self.problems.append(Problem("TOO_MANY_PROBLEMS", "", None, CODES["TOO_MANY_PROBLEMS"]))

    def wait(self, code: str, log: str, count: int = 1) -> None:
        if code not in PENDING:
            raise KeyError(code)
        if count:
            self.pending[code, log] += count

    def skip(self, text: str, **values: str | int) -> None:
        """Note that something could not be checked: a sentence, and what its `{names}` stand for."""
        remark = Remark(text, {name: printable(str(value)) for name, value in values.items()})
        if remark not in self.remarks:
            self.remarks.append(remark)

    @property
    def not_checked(self) -> list[str]:
        """Items that could not be checked, in English."""
        return [remark.text.format_map(remark.values) for remark in self.remarks]


def printable(text: str, most: int = _MOST_CHARACTERS) -> str:
    """The text as a terminal or a page may be shown it, and no longer than anybody reads."""
    # A no-break space is no danger, and French is full of them.
    shown = "".join(each if each.isprintable() or each == "\u00a0" else "\ufffd" for each in text[:most])
    return shown if len(text) <= most else f"{shown} ..."
