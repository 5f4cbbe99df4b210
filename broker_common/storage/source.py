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
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import repeat, takewhile
from pathlib import Path
from typing import BinaryIO, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from broker_common.errors import InvalidRequestError
from broker_common.query.dictionary import listed, shown


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


# Every code of every column in one row has some KiB.
MAX_LINE_BYTES = 64 * 1024
TOO_LONG = f"is longer than {MAX_LINE_BYTES} bytes"

Reject = Callable[[int, str], None]
"""Called with the place of a line that cannot be read, and why."""

_NOT_UTF_8 = "is not UTF-8 text"
_MISPLACED_QUOTE = "has a quote in the wrong place or one that is not closed"


def fields(text: str) -> list[str]:
    """The fields of one line; none of an empty one. A control character is for the column to refuse.

    Raises `csv.Error` for a quote in the wrong place.
    """
    text = text.removesuffix("\n").removesuffix("\r")
    if not text:
        return []
    # Splitting is several times faster than the csv module, and the same where nothing is quoted.
    return text.split(",") if '"' not in text else next(csv.reader([text], strict=True))


def split_lines(lines: Sequence[bytes], width: int, reject: Reject) -> tuple[list[list[str]], Sequence[int]]:
    """The columns of these lines, and the places of the lines that are in them; `reject` is told of the others.

    An empty line is in neither. Of a line that is too long the beginning is enough, if it is too long itself.
    """
    odd = _odd_places(lines, width)
    rows = _odd_rows(lines, odd, reject)
    cells: list[str] = []
    places: list[int] = []
    begin = 0
    for at in odd:
        cells += _cells(lines[begin:at])
        places += range(begin, at)
        begin = at + 1
        row = rows.get(at, [])
        if len(row) == width:
            cells += row
            places.append(at)
        elif row:
            reject(at, f"has {len(row)} fields instead of {width}")
    cells += _cells(lines[begin:])
    if odd:
        places += range(begin, len(lines))
    return [cells[column::width] for column in range(width)], places if odd else range(len(lines))


def _odd_places(lines: Sequence[bytes], width: int) -> list[int]:
    """The lines that are not ordinary."""
    whole = b"".join(lines)
    commas = width - 1
    # Of one column an empty line would have the right number of commas.
    odd = {at for at, count in enumerate(map(bytes.count, lines, repeat(b","))) if count != commas or not commas}
    if b'"' in whole:
        odd.update(at for at, line in enumerate(lines) if b'"' in line)
    try:
        whole.decode("utf-8")
    except UnicodeDecodeError:
        odd.update(at for at, line in enumerate(lines) if not line.isascii())
    if whole.count(b"\n") != len(lines) or len(max(lines, key=len)) > MAX_LINE_BYTES:
        odd.update(at for at, line in enumerate(lines) if len(line) > MAX_LINE_BYTES or not line.endswith(b"\n"))
    return sorted(odd)


def _cells(lines: Sequence[bytes]) -> list[str]:
    """The fields of ordinary lines, one after the other."""
    if not lines:
        return []
    text = b"".join(lines).decode("utf-8").replace("\r\n", "\n").removesuffix("\n")
    return text.replace("\n", ",").split(",")


def _odd_rows(lines: Sequence[bytes], odd: Sequence[int], reject: Reject) -> dict[int, list[str]]:
    """The fields of each line of `odd` that can be read."""
    texts: dict[int, str] = {}
    for at in odd:
        if len(lines[at]) > MAX_LINE_BYTES:
            reject(at, TOO_LONG)
            continue
        try:
            texts[at] = lines[at].decode("utf-8")
        except UnicodeDecodeError:
            reject(at, _NOT_UTF_8)
    rows = _quoted_rows([text for text in texts.values() if '"' in text])
    quoted = iter(rows if rows is not None else ())
    read: dict[int, list[str]] = {}
    for at, text in texts.items():
        try:
            read[at] = next(quoted) if rows is not None and '"' in text else fields(text)
        except csv.Error:
            reject(at, _MISPLACED_QUOTE)
    return read


def _quoted_rows(texts: list[str]) -> list[list[str]] | None:
    """The fields of lines that hold quotes, read all at once; None if that might differ from reading each by itself."""
    try:
        rows = list(csv.reader((text.removesuffix("\n").removesuffix("\r") for text in texts), strict=True))
    except csv.Error:
        return None
    # A row that goes on in the next line takes one away.
    return rows if len(rows) == len(texts) else None


# Read and checked at a time.
ROWS_PER_CHUNK = 50_000
# Several times the people of any country that keeps such registries in one file; a line number is an unsigned int32.
MAX_ROWS = 100_000_000
# Rows of which a report says why they were left out; the others are counted.
MAX_KEPT_REJECTIONS = 1_000
# Rejected rows up to the larger of the two do not stop a load.
TOLERATED_REJECTIONS = 100
TOLERATED_PERCENT = 1

NO_ROWS = ("it names columns and has no rows", "It must have one row per person.")
TOO_MANY_ROWS = (f"it has more than {MAX_ROWS} rows", "It must have one row per person.")

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
            line = 2
            while lines := _next_lines(file, rows_per_chunk, line, rejected):
                columns, places = split_lines(lines, len(names), partial(_reject, rejected, line))
                if places:
                    yield Chunk(_numbered(places, line), dict(zip(names, columns, strict=True)))
                line += len(lines)
                if len(lines) == rows_per_chunk:
                    _report(progress, file, total)
            if file.tell() == header_end:
                refuse(*NO_ROWS)
            _report(progress, file, total)

    def _header(self, file: BinaryIO) -> list[str]:
        raw = file.readline(MAX_LINE_BYTES + 1)
        if not raw:
            refuse("it is empty", "Its first line must name the columns.")
        _verify_written(raw, 1)
        try:
            names = fields(raw.decode("utf-8-sig")) if len(raw) <= MAX_LINE_BYTES else None
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


def _next_lines(file: BinaryIO, count: int, first: int, rejected: RejectedRows) -> list[bytes]:
    """The next `count` lines, the first of them number `first`; fewer at the end of the file.

    Of a line that is too long only the beginning, one byte longer than the longest that is not.
    """
    # Up to the end of the file, where every further call would ask the system again.
    pieces = list(takewhile(len, map(file.readline, repeat(MAX_LINE_BYTES + 1, count))))
    is_ended = not pieces or pieces[-1].endswith(b"\n")
    lines = pieces
    if len(max(pieces, key=len, default=b"")) > MAX_LINE_BYTES:
        lines = _beginnings(pieces)
        if not is_ended:
            is_ended = _rest_of_line(file, pieces[-1]).endswith(b"\n")
    last = first + len(lines) - 1
    if last > MAX_ROWS:
        refuse(*TOO_MANY_ROWS)
    if not is_ended:
        rejected.unended_line = last
    if b"\0" in b"".join(lines):
        for line, raw in enumerate(lines, first):
            _verify_written(raw, line)
    return lines


def _beginnings(pieces: list[bytes]) -> list[bytes]:
    """The first piece of each line."""
    return [piece for before, piece in zip([b"\n", *pieces], pieces, strict=False) if before.endswith(b"\n")]


def _reject(rejected: RejectedRows, first: int, place: int, reason: str) -> None:
    rejected.add(first + place, reason)


def _numbered(places: Sequence[int], first: int) -> Sequence[int]:
    if isinstance(places, range):
        return range(first, first + len(places))
    return [first + place for place in places]


def _verify_written(raw: bytes, line: int) -> None:
    # Not a fault of one row: a block of zeros takes the place of as many rows as fit into it.
    if b"\0" in raw:
        refuse(
            f"line {line} holds NUL bytes",
            "It is damaged, or no text in UTF-8: write it again, as CSV in UTF-8 or as Parquet.",
        )


def _rest_of_line(file: BinaryIO, raw: bytes) -> bytes:
    """The last piece of a line that is too long to keep."""
    while not raw.endswith(b"\n") and (more := file.readline(MAX_LINE_BYTES)):
        raw = more
    return raw


def _report(progress: Progress | None, file: BinaryIO, total: int) -> None:
    if progress is not None:
        progress(file.tell(), total)


def _named(names: set[str]) -> str:
    return listed(shown(name) for name in sorted(names))
