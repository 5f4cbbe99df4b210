"""Reading a source: what a row is, what is wrong with one, and when a file is the wrong file. Here CSV.

A CSV source is UTF-8 text (a byte-order mark is allowed) with one header line and one line per person, fields separated
by commas and quoted where they hold one (RFC 4180, except that no value spans lines: a forgotten quote then costs one
row, not the rest of the file). Empty lines are skipped.

A fault of the file as a whole raises LOAD_REFUSED. A fault of one row rejects that row with its number and a reason, and
the load goes on without it, unless so many are rejected that it is likely the wrong file, or the fault shows that rows
are missing: NUL bytes are what a disk leaves where nothing was written, and a last line that is wrong and does not end
is where the writing stopped. Reasons name the column and the problem; they never hold a value, since they end up in
terminals and tickets. Memory depends on the chunk, not on the file. What a value means is left to `source_values`, what
a person is to each node's loader, Parquet to `source_parquet`.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from broker_common.query.dictionary import listed, shown
from broker_common.storage.source_file import reading, refuse

__all__ = [
    "MAX_KEPT_REJECTIONS",
    "MAX_LINE_BYTES",
    "MAX_ROWS",
    "NO_ROWS",
    "ROWS_PER_CHUNK",
    "TOO_LONG",
    "TOO_MANY_ROWS",
    "Chunk",
    "CsvSource",
    "Progress",
    "RejectedRows",
    "ascending_without_repeats",
    "verify_names",
]

# Read and checked at a time.
ROWS_PER_CHUNK = 50_000
# Of a CSV file; every code of every column in one row has some KiB.
MAX_LINE_BYTES = 64 * 1024
# Several times the people of any country that keeps such registries in one file; a line number is an unsigned int32.
MAX_ROWS = 100_000_000
# Rows of which a report says why they were left out; the others are counted.
MAX_KEPT_REJECTIONS = 1_000
# Rejected rows up to the larger of the two do not stop a load.
TOLERATED_REJECTIONS = 100
TOLERATED_PERCENT = 1

NO_ROWS = ("it names columns and has no rows", "It must have one row per person.")
TOO_MANY_ROWS = (f"it has more than {MAX_ROWS} rows", "It must have one row per person.")
TOO_LONG = f"is longer than {MAX_LINE_BYTES} bytes"

Progress: TypeAlias = Callable[[int, int], None]
"""Called with (done, total) after each chunk, in bytes or in rows."""


class RejectedRows:
    """Counts the rows a load leaves out, and keeps number and reason of the first of them.

    The source says what its rows are counted by, and, before it hands out that line, which one does not end.
    """

    def __init__(self) -> None:
        self.counted_by = "line"
        self.unended_line: int | None = None
        self.count = 0
        self._kept: list[tuple[int, str]] = []

    def add(self, line: int, reason: str) -> None:
        """SECURITY: `reason` names columns and problems, never a value of the person.

        Raises:
            InvalidRequestError: LOAD_REFUSED, the line does not end: nobody knows how many rows are missing.
        """
        self._verify_ended(line, reason)
        self.count += 1
        if len(self._kept) < MAX_KEPT_REJECTIONS:
            self._kept.append((line, reason))

    def add_repeats(self, lines: NDArray[np.uint32], first_lines: NDArray[np.uint32]) -> None:
        """Rejects the rows of `lines`, each of which repeats the card of the row beside it in `first_lines`.

        Raises:
            InvalidRequestError: LOAD_REFUSED, as in `add`.
        """
        in_file_order = np.argsort(lines)
        kept = in_file_order[:MAX_KEPT_REJECTIONS]
        for line, first_line in zip(lines[kept].tolist(), first_lines[kept].tolist(), strict=True):
            self.add(line, f"repeats the health_card of {self.counted_by} {first_line}")
        self._verify_ended(int(lines[in_file_order[-1]]), "repeats a health_card")
        self.count += len(lines) - len(kept)

    @property
    def first(self) -> tuple[tuple[int, str], ...]:
        """Line and reason of the rejected rows that were kept, by line."""
        return tuple(sorted(self._kept))

    def verify_few(self, rows: int, max_rejected: int | None = None) -> None:
        """Stops a load that rejects more than `max_rejected`, or, without one, more than the tolerated share.

        Raises:
            InvalidRequestError: LOAD_REFUSED.
        """
        tolerated = max(TOLERATED_REJECTIONS, rows * TOLERATED_PERCENT // 100)
        allowed = tolerated if max_rejected is None else max_rejected
        if self.count > allowed:
            line, reason = self.first[0]
            refuse(
                f"{self.count} of its {rows} rows are wrong and {allowed} would be tolerated; "
                f"{self.counted_by} {line}: {reason}",
                "It may be the wrong file. If it is the right one, --max-rejected admits more wrong rows.",
            )

    def _verify_ended(self, line: int, reason: str) -> None:
        if line == self.unended_line:
            refuse(
                f"it ends in the middle of a row; line {line}: {reason}",
                "Write it again, to its end. If that row is whole and merely wrong, end its line.",
            )


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows, column by column: the line (or row) number of each, and its texts under each column name."""

    lines: Sequence[int]
    columns: Mapping[str, Sequence[str]]


class CsvSource:
    """A CSV file that has exactly the given columns, in any order."""

    def __init__(self, path: Path, columns: Collection[str]) -> None:
        self._path = path
        self._columns = columns

    def chunks(
        self, rejected: RejectedRows, *, rows_per_chunk: int = ROWS_PER_CHUNK, progress: Progress | None = None
    ) -> Iterator[Chunk]:
        """The file's well-formed rows, in order. The others are added to `rejected`.

        Raises:
            InvalidRequestError: LOAD_REFUSED.
        """
        with reading(self._path) as file:
            total = os.fstat(file.fileno()).st_size
            names = self._header(file)
            header_end = file.tell()
            lines: list[int] = []
            rows: list[list[str]] = []
            for line, fields in _records(file, len(names), rejected):
                lines.append(line)
                rows.append(fields)
                if len(rows) == rows_per_chunk:
                    yield _chunk(names, lines, rows)
                    lines, rows = [], []
                    _report(progress, file, total)
            if rows:
                yield _chunk(names, lines, rows)
            if file.tell() == header_end:
                refuse(*NO_ROWS)
            _report(progress, file, total)

    def _header(self, file: BinaryIO) -> list[str]:
        raw = file.readline(MAX_LINE_BYTES + 1)
        if not raw:
            refuse("it is empty", "Its first line must name the columns.")
        _verify_written(raw, 1)
        try:
            names = _fields(raw.decode("utf-8-sig")) if len(raw) <= MAX_LINE_BYTES else None
        except (UnicodeDecodeError, csv.Error):
            names = None
        if names is None:
            refuse("its first line does not name columns in UTF-8", "Save the file as CSV in UTF-8.")
        if len(names) == 1 < len(self._columns):
            refuse("its first line names one column only", "Separate the columns with commas.")
        verify_names(names, self._columns)
        return names


def verify_names(names: Sequence[str], wanted: Collection[str]) -> None:
    """Return only if a file's columns are the wanted ones, in any order.

    Raises:
        InvalidRequestError: LOAD_REFUSED.
    """
    if repeated := {name for name in names if names.count(name) > 1}:
        refuse(f"it names columns twice: {_named(repeated)}", "Each column stands in the file once.")
    if missing := set(wanted).difference(names):
        refuse(f"it lacks columns: {_named(missing)}", f"It must have: {', '.join(wanted)}.")
    if unknown := set(names).difference(wanted):
        refuse(f"it has columns that are not published: {_named(unknown)}", "Leave them out of the file.")


def ascending_without_repeats(
    high: NDArray[np.uint64], low: NDArray[np.uint64], lines: NDArray[np.uint32], rejected: RejectedRows
) -> NDArray[np.intp]:
    """The order that sorts pseudonyms (as two big-endian halves) ascending, without the rows that repeat one.

    Of several rows with the same pseudonym the first in the file stays; the others are added to `rejected`. Sorting
    finds them with a few bytes per row, where a dictionary would need hundreds. `lines` is ascending.
    """
    order = np.lexsort((low, high))  # stable: rows of one pseudonym stay in file order
    sorted_high, sorted_low = high[order], low[order]
    repeats = np.zeros(len(order), dtype=np.bool_)
    repeats[1:] = (sorted_high[1:] == sorted_high[:-1]) & (sorted_low[1:] == sorted_low[:-1])
    if not repeats.any():
        return order
    stays = ~repeats
    first_of_group = np.flatnonzero(stays)[np.cumsum(stays) - 1]
    rejected.add_repeats(lines[order[repeats]], lines[order[first_of_group[repeats]]])
    return order[stays]


def _records(file: BinaryIO, width: int, rejected: RejectedRows) -> Iterator[tuple[int, list[str]]]:
    line = 1
    while raw := file.readline(MAX_LINE_BYTES + 1):
        line += 1
        if line > MAX_ROWS:
            refuse(*TOO_MANY_ROWS)
        end = raw if len(raw) <= MAX_LINE_BYTES else _rest_of_line(file, raw)
        if not end.endswith(b"\n"):
            rejected.unended_line = line
        _verify_written(raw, line)
        if len(raw) > MAX_LINE_BYTES:
            rejected.add(line, TOO_LONG)
            continue
        try:
            fields = _fields(raw.decode("utf-8"))
        except UnicodeDecodeError:
            rejected.add(line, "is not UTF-8 text")
        except csv.Error:
            rejected.add(line, "has a quote in the wrong place or one that is not closed")
        else:
            if len(fields) == width:
                yield line, fields
            elif fields:
                rejected.add(line, f"has {len(fields)} fields instead of {width}")


def _verify_written(raw: bytes, line: int) -> None:
    # Not a fault of one row: a block of zeros takes the place of as many rows as fit into it.
    if b"\0" in raw:
        refuse(
            f"line {line} holds NUL bytes",
            "It is damaged, or no text in UTF-8: write it again, as CSV in UTF-8 or as Parquet.",
        )


def _fields(text: str) -> list[str]:
    """The fields of one line; none of an empty one. A control character is for the column to refuse."""
    text = text.removesuffix("\n").removesuffix("\r")
    if not text:
        return []
    # Splitting is several times faster than the csv module, and the same where nothing is quoted.
    return text.split(",") if '"' not in text else next(csv.reader([text], strict=True))


def _rest_of_line(file: BinaryIO, raw: bytes) -> bytes:
    """The last piece of a line that is too long to keep."""
    while not raw.endswith(b"\n") and (more := file.readline(MAX_LINE_BYTES)):
        raw = more
    return raw


def _chunk(names: list[str], lines: list[int], rows: list[list[str]]) -> Chunk:
    return Chunk(lines, dict(zip(names, zip(*rows, strict=True), strict=True)))


def _report(progress: Progress | None, file: BinaryIO, total: int) -> None:
    if progress is not None:
        progress(file.tell(), total)


def _named(names: set[str]) -> str:
    return listed(shown(name) for name in sorted(names))
