"""Reading a source: what a row is, what is wrong with one, and when a file is the wrong file.

A fault of the file as a whole raises LOAD_REFUSED. A fault of one row rejects that row with its number and a reason, and the
load goes on without it, unless so many are rejected that it is likely the wrong file, or the fault shows that rows are
missing. Reasons name the column and the problem; they never hold a value, since they end up in terminals and tickets. Memory
depends on the chunk, not on the file. `values` interprets values, each node's loader decides what a person is, and `parquet`
reads Parquet.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple, NoReturn, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from broker_common.errors import InvalidRequestError
from broker_common.query.dictionary import MULTI_VALUE_SEPARATOR, Column, listed, nearest, shown

# How a Parquet file begins and ends.
PARQUET_MAGIC = b"PAR1"


def refuse(problem: str, remedy: str) -> NoReturn:
    """End the load.

    SECURITY: neither text may hold a value of the file; `from None` keeps what a library said of it out of tracebacks.

    Raises:
        InvalidRequestError: LOAD_REFUSED.
    """
    raise InvalidRequestError("LOAD_REFUSED", problem=problem, remedy=remedy) from None


@contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """The file at `path`, open for reading. A file that somebody writes to meanwhile is refused in the end.

    Raises:
        InvalidRequestError: LOAD_REFUSED.
    """
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            before = os.fstat(file.fileno())
            if not stat.S_ISREG(before.st_mode):
                refuse("it is not a regular file", "A pipe or a device cannot be loaded: write the data to a file.")
            yield file
            after = os.fstat(file.fileno())
            if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
                refuse("it changed while it was read", "Wait until it is written to its end, then load it again.")
    except OSError as error:
        refuse(f"{path} cannot be read ({error.strerror})", "Check the path and the permissions.")


def _without_waiting(path: str, flags: int) -> int:
    # Opening a pipe would otherwise wait for somebody to write to it, perhaps for ever.
    return os.open(path, flags | os.O_NONBLOCK)


# Read and checked at a time.
ROWS_PER_CHUNK = 50_000
# A row number is an unsigned int32, of several files together as well.
_MAX_NUMBER = 2**32 - 1
# Rows of which a report says why they were left out; the others are counted.
MAX_KEPT_REJECTIONS = 1_000
# Reasons that are told when a load has nobody left.
_TOLD_REASONS = 3
# Rejected rows up to the larger of the two do not stop a load.
TOLERATED_REJECTIONS = 100
TOLERATED_PERCENT = 1


class RowKind(NamedTuple):
    """The subject matter of a source's rows, and how many rows are certainly too many."""

    one: str
    most: int

    def refuse_none(self) -> NoReturn:
        """End the load of a source without rows.

        Raises:
            InvalidRequestError: LOAD_REFUSED.
        """
        refuse("it names columns and has no rows", f"It must have one row per {self.one}.")

    def verify_count(self, count: int) -> None:
        """Return only if that many rows are not too many.

        Raises:
            InvalidRequestError: LOAD_REFUSED.
        """
        if count > self.most:
            refuse(f"it has more than {self.most} rows", f"It must have one row per {self.one}.")


# Several times the people of any country that keeps such registries.
PEOPLE = RowKind("person", 100_000_000)
EVENTS = RowKind("event", _MAX_NUMBER)

Progress: TypeAlias = Callable[[int, int], None]
"""Called with (done, total) after each chunk, in bytes or in rows."""


class Place(NamedTuple):
    """Where a row stands: in which of several files (empty where there is one), and its number there."""

    file: str
    counted_by: str
    number: int

    def __str__(self) -> str:
        return f"{self.counted_by} {self.number}" + (f" of {self.file}" if self.file else "")


class Rejection(NamedTuple):
    """A row that was left out, and why."""

    place: Place
    reason: str


class RejectedRows:
    """Counts the rows a load leaves out, and keeps number and reason of the first of them.

    The source says what its rows are counted by, and, before it hands out that line, which one does not end. Several
    files are counted through: each begins where the one before ended.
    """

    def __init__(self, column: str = "") -> None:
        """Figures of people or events, or of the values of this column in a separate table."""
        self.counted_by = "line"
        self.count = 0
        # The values of columns that have a table of their own, beside these rows.
        self.values: dict[str, ValueRows] = {}
        self._column = column
        self._unended_lines: set[int] = set()
        self._kept: list[tuple[int, str]] = []
        self._files: list[RowsOfFile] = []
        self._report: Report | None = None

    def ends_at(self, line: int) -> None:
        """The file stops within this line, whose row is about to be handed out."""
        self._unended_lines.add(line)

    def report_to(self, report: Report) -> None:
        """From here on every rejected row is written there."""
        self._report = report

    def of_values(self, column: str) -> ValueRows:
        """Figures for the values of a column in a separate table."""
        self.values[column] = ValueRows(column)
        if self._report is not None:
            self.values[column].rejected.report_to(self._report.of(column))
        return self.values[column]

    def file(self, name: str) -> RowsOfFile:
        """The rejections of the next of several files."""
        self._files.append(RowsOfFile(self, name, self._files[-1].end if self._files else 0))
        return self._files[-1]

    def add(self, line: int, reason: str) -> None:
        """SECURITY: `reason` names columns and problems, never a value of the person.

        Raises:
            InvalidRequestError: LOAD_REFUSED, the line does not end: nobody knows how many rows are missing.
        """
        self._verify_ended(line, reason)
        self.count += 1
        if len(self._kept) < MAX_KEPT_REJECTIONS:
            self._kept.append((line, reason))
        if self._report is not None:
            self._report.write(Rejection(self.place(line), reason))

    def add_repeats(self, lines: NDArray[np.uint32], first_lines: NDArray[np.uint32]) -> None:
        """Rejects the rows of `lines`, each of which repeats the card of the row beside it in `first_lines`.

        Raises:
            InvalidRequestError: LOAD_REFUSED, as in `add`.
        """
        in_file_order = np.argsort(lines)
        told = in_file_order if self._report is not None else in_file_order[:MAX_KEPT_REJECTIONS]
        for line, first_line in zip(lines[told].tolist(), first_lines[told].tolist(), strict=True):
            self.add(line, f"repeats the health_card of {self.place(first_line)}")
        for line in self._unended_lines.intersection(lines.tolist()):
            self._verify_ended(line, "repeats a health_card")
        self.count += len(lines) - len(told)

    def place(self, line: int) -> Place:
        """Where the row of this number stands."""
        if not self._files:
            return Place("", self.counted_by, line)
        file = self._files[bisect_right(self._files, line - 1, key=lambda file: file.begin) - 1]
        return Place(file.name, file.counted_by, line - file.begin)

    @property
    def first(self) -> tuple[tuple[int, str], ...]:
        """Number, of all files together, and reason of the rejected rows that were kept, in that order."""
        return tuple(sorted(self._kept))

    @property
    def placed(self) -> tuple[Rejection, ...]:
        """The rejected rows that were kept, with their places."""
        return tuple(Rejection(self.place(line), reason) for line, reason in self.first)

    def verify_few(self, rows: int, max_rejected: int | None = None) -> None:
        """Stops a load that rejects more than `max_rejected`, or, without one, more than the tolerated share.

        Verify the values beside these rows as well, each table by its own rows.

        Raises:
            InvalidRequestError: LOAD_REFUSED.
        """
        tolerated = max(TOLERATED_REJECTIONS, rows * TOLERATED_PERCENT // 100)
        allowed = tolerated if max_rejected is None else max_rejected
        if self.count > allowed:
            place, reason = self.placed[0]
            whose = f"the {rows} rows of {self._column}" if self._column else f"its {rows} rows"
            refuse(
                f"{self.count} of {whose} are wrong and {allowed} would be tolerated; {place}: {reason}",
                f"It may be the wrong file. If it is the right one, --max-rejected admits more wrong rows.{self._told_where}",
            )
        for values in self.values.values():
            values.rejected.verify_few(values.rows, max_rejected)

    def refuse_everybody(self) -> NoReturn:
        """End a load that nobody is left of: with the reasons, if rows were wrong.

        Raises:
            InvalidRequestError: LOAD_REFUSED.
        """
        problem = "none of its rows can be linked"
        firsts: dict[str, Place] = {}
        for place, reason in self.placed:
            firsts.setdefault(reason, place)
        if not firsts:
            refuse(problem, "Rows need the id that people are linked on.")
        told = "; ".join(f"{place}: {reason}" for reason, place in list(firsts.items())[:_TOLD_REASONS])
        refuse(f"{problem}; {self.count} rows are wrong; {told}", f"Mend what is wrong with them.{self._told_where}")

    @property
    def _told_where(self) -> str:
        return f" Every wrong row stands in {self._report.path}." if self._report is not None else ""

    def _verify_ended(self, line: int, reason: str) -> None:
        if line in self._unended_lines:
            refuse(
                f"it ends in the middle of a row; {self.place(line)}: {reason}",
                "Write it again, to its end. If that row is whole and merely wrong, end its line.",
            )


class RowsOfFile(RejectedRows):
    """One file's rows among those of several: its source counts them from its own beginning."""

    def __init__(self, whole: RejectedRows, name: str, begin: int) -> None:
        self.name = name
        self.begin = begin
        self.end = begin
        self._whole = whole
        super().__init__()

    def ends_at(self, line: int) -> None:
        self._whole.ends_at(self.begin + line)

    def add(self, line: int, reason: str) -> None:
        self.saw(line)
        self._whole.add(self.begin + line, reason)

    def saw(self, line: int) -> None:
        """The file has a row of this number.

        Raises:
            InvalidRequestError: LOAD_REFUSED, there are too many of all files together.
        """
        self.end = max(self.end, self.begin + line)
        EVENTS.verify_count(self.end)


class Report(Protocol):
    """Takes every rejected row."""

    @property
    def path(self) -> Path:
        """Where the operator finds them."""
        ...

    def of(self, column: str) -> Report:
        """The report of a table that holds the values of this column."""
        ...

    def write(self, rejection: Rejection) -> None: ...


class ValueRows:
    """Counts the rows of a table that holds the values of one column: one for each value that a person has."""

    def __init__(self, column: str) -> None:
        self.rejected = RejectedRows(column)
        # Rows whose id some row of people has.
        self.of_people = 0
        self.without_card = 0
        # With an id, and nothing wrong.
        self.without_value = 0

    @property
    def rows(self) -> int:
        return self.of_people + self.without_card + self.without_value + self.rejected.count


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows, column by column: the line (or row) number of each, and its texts under each column name."""

    lines: Sequence[int]
    columns: Mapping[str, Sequence[str]]
    # The bytes that all of it was read from, if it was bytes and nothing was left out.
    raw: bytes = field(default=b"", repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A column that a source is to give, under the name that it has there."""

    name: str
    # The column's type and codes; None for an id, which is text.
    column: Column | None = None
    # Its texts are an agency's own words, which somebody turns into published ones: they may be written as numbers.
    is_own: bool = False
    # Joins the values of a list.
    separator: str = MULTI_VALUE_SEPARATOR


def published(ids: Collection[str], columns: Collection[Column]) -> list[Wanted]:
    """Ids, and columns of a dictionary under their own names."""
    return [*map(Wanted, ids), *(Wanted(column.name, column) for column in columns)]


@dataclass(frozen=True, slots=True)
class Manner:
    """How the files of a source are written."""

    kind: RowKind = PEOPLE
    # May have other columns than the wanted ones, which are not read.
    has_others: bool = False
    # May have no rows: it is one of several.
    may_be_empty: bool = False
    # For CSV.
    separator: str = ","
    encoding: str = "utf-8"


PLAIN = Manner()


def verify_names(names: Sequence[str], wanted: Collection[str], *, has_others: bool = False) -> None:
    """Return only if a file's columns are the wanted ones, in any order, and, unless it may have others, no others.

    Raises:
        InvalidRequestError: LOAD_REFUSED.
    """
    repeated = {name for name in names if names.count(name) > 1}
    if has_others:
        repeated &= set(wanted)
    if repeated:
        refuse(f"it names columns twice: {_named(repeated)}", "Each column stands in the file once.")
    missing = set(wanted).difference(names)
    if missing and has_others:
        # SECURITY: the first line of a file without a header is a person. One that names a wanted column is a header.
        near = nearest(min(missing), names) if len(missing) < len(wanted) else ""
        hint = f" Nearest to {shown(min(missing))}: {shown(near)}." if near else ""
        refuse(f"it lacks columns: {_named(missing)}", f"Its first line, or the database, must name them.{hint}")
    if missing:
        refuse(f"it lacks columns: {_named(missing)}", f"It must have: {', '.join(wanted)}.")
    unknown = set(names).difference(wanted)
    if unknown and not has_others:
        refuse(f"it has columns that are not published: {_named(unknown)}", "Leave them out of the file.")


def ascending_without_repeats(
    high: NDArray[np.uint64], low: NDArray[np.uint64], lines: NDArray[np.uint32], rejected: RejectedRows
) -> NDArray[np.intp]:
    """The order that sorts pseudonyms (as two big-endian halves) ascending, without the rows that repeat one.

    The first of several rows with the same pseudonym stays; the others are added to `rejected`. Sorting finds them
    with a few bytes per row, where a dictionary would need hundreds. `lines` is ascending.
    """
    order = ascending_order(high, low)
    sorted_high = high[order]
    repeats = np.zeros(len(order), dtype=np.bool_)
    repeats[1:] = sorted_high[1:] == sorted_high[:-1]
    del sorted_high
    if not repeats.any():
        return order
    sorted_low = low[order]
    repeats[1:] &= sorted_low[1:] == sorted_low[:-1]
    if not repeats.any():
        return order
    stays = ~repeats
    first_of_group = np.flatnonzero(stays)[np.cumsum(stays) - 1]
    rejected.add_repeats(lines[order[repeats]], lines[order[first_of_group[repeats]]])
    return order[stays]


def ascending_order(high: NDArray[np.uint64], low: NDArray[np.uint64]) -> NDArray[np.intp]:
    """The order that sorts hashes (as two big-endian halves) ascending; of equal ones the earlier comes first."""
    order = np.argsort(high, kind="stable")
    sorted_high, sorted_low = high[order], low[order]
    # Two hashes that share a first half and are not the same one hardly exist: one sort is enough.
    wrong = (sorted_high[1:] == sorted_high[:-1]) & (sorted_low[1:] < sorted_low[:-1])
    return np.lexsort((low, high)) if wrong.any() else order


def _named(names: set[str]) -> str:
    return listed(shown(name) for name in sorted(names))


class Source(Protocol):
    """Rows of people, or of one event table."""

    def chunks(self, rejected: RejectedRows, *, progress: Progress | None = None) -> Iterator[Chunk]:
        """The rows that can be read, in order. The others are added to `rejected`; give each source one of its own.

        Raises:
            InvalidRequestError: LOAD_REFUSED.
        """
        ...
