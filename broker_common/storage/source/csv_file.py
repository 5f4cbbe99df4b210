"""CSV as a source.

It is UTF-8 text (a byte-order mark is allowed) with one header line and one line per row, fields separated by commas and quoted
where they hold one (RFC 4180, except that no value spans lines: a forgotten quote then costs one row, not the rest of the file).
Empty lines are skipped. An agency's own files may have another separator or encoding. Two faults show that rows are missing and
refuse the file: NUL bytes are what a disk leaves where nothing was written, and a last line that is wrong and does not end is where
the writing stopped.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import repeat, takewhile
from pathlib import Path
from typing import BinaryIO

from broker_common.query.dictionary import shown
from broker_common.storage.source.rows import (
    PLAIN,
    ROWS_PER_CHUNK,
    Chunk,
    Manner,
    Progress,
    RejectedRows,
    RowKind,
    reading,
    refuse,
    verify_names,
)

# Every code of every column in one row has some KiB.
MAX_LINE_BYTES = 64 * 1024
TOO_LONG = f"is longer than {MAX_LINE_BYTES} bytes"

Reject = Callable[[int, str], None]
"""Called with the place of a line that cannot be read, and why."""

_NOT_UTF_8 = "is not UTF-8 text"
_MISPLACED_QUOTE = "has a quote in the wrong place or one that is not closed"


def fields(text: str, separator: str = ",") -> list[str]:
    """The fields of one line; none of an empty one. A control character is for the column to refuse.

    Raises `csv.Error` for a quote in the wrong place.
    """
    text = text.removesuffix("\n").removesuffix("\r")
    if not text:
        return []
    # Splitting is several times faster than the csv module, and the same where nothing is quoted.
    return text.split(separator) if '"' not in text else next(csv.reader([text], delimiter=separator, strict=True))


def split_lines(
    lines: Sequence[bytes], width: int, reject: Reject, separator: str = ","
) -> tuple[list[list[str]], Sequence[int]]:
    """The columns of these lines, and the places of the lines that are in them; `reject` is told of the others.

    An empty line is in neither. The beginning of a line that is too long is enough, if it is too long itself.
    """
    odd = _odd_places(lines, width, separator.encode("ascii"))
    rows = _odd_rows(lines, odd, reject, separator)
    cells: list[str] = []
    places: list[int] = []
    begin = 0
    for at in odd:
        cells += _cells(lines[begin:at], separator)
        places += range(begin, at)
        begin = at + 1
        row = rows.get(at, [])
        if len(row) == width:
            cells += row
            places.append(at)
        elif row:
            reject(at, f"has {len(row)} fields instead of {width}")
    cells += _cells(lines[begin:], separator)
    if odd:
        places += range(begin, len(lines))
    return [cells[column::width] for column in range(width)], places if odd else range(len(lines))


def _odd_places(lines: Sequence[bytes], width: int, separator: bytes) -> list[int]:
    """The lines that are not ordinary."""
    whole = b"".join(lines)
    usual = width - 1
    # With one column an empty line would have the right number of separators.
    odd = {at for at, count in enumerate(map(bytes.count, lines, repeat(separator))) if count != usual or not usual}
    if b'"' in whole:
        odd.update(at for at, line in enumerate(lines) if b'"' in line)
    try:
        whole.decode("utf-8")
    except UnicodeDecodeError:
        odd.update(at for at, line in enumerate(lines) if not line.isascii())
    if whole.count(b"\n") != len(lines) or len(max(lines, key=len)) > MAX_LINE_BYTES:
        odd.update(at for at, line in enumerate(lines) if len(line) > MAX_LINE_BYTES or not line.endswith(b"\n"))
    return sorted(odd)


def _cells(lines: Sequence[bytes], separator: str) -> list[str]:
    """The fields of ordinary lines, one after the other."""
    if not lines:
        return []
    text = b"".join(lines).decode("utf-8").replace("\r\n", "\n").removesuffix("\n")
    return text.replace("\n", separator).split(separator)


def _odd_rows(lines: Sequence[bytes], odd: Sequence[int], reject: Reject, separator: str) -> dict[int, list[str]]:
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
    rows = _quoted_rows([text for text in texts.values() if '"' in text], separator)
    quoted = iter(rows if rows is not None else ())
    read: dict[int, list[str]] = {}
    for at, text in texts.items():
        try:
            read[at] = next(quoted) if rows is not None and '"' in text else fields(text, separator)
        except csv.Error:
            reject(at, _MISPLACED_QUOTE)
    return read


def _quoted_rows(texts: list[str], separator: str) -> list[list[str]] | None:
    """The fields of lines that hold quotes, read all at once; None if that might differ from reading each by itself."""
    try:
        bare = (text.removesuffix("\n").removesuffix("\r") for text in texts)
        rows = list(csv.reader(bare, delimiter=separator, strict=True))
    except csv.Error:
        return None
    # A row that goes on in the next line takes one away.
    return rows if len(rows) == len(texts) else None


class CsvSource:
    """A CSV file that has the given columns, in any order."""

    def __init__(self, path: Path, columns: Collection[str], manner: Manner = PLAIN) -> None:
        self._path = path
        self._columns = columns
        self._manner = manner

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
            while lines := _next_lines(file, rows_per_chunk, line, rejected, self._manner.kind):
                reject = partial(_reject, rejected, line)
                columns, places = split_lines(self._utf_8(lines), len(names), reject, self._manner.separator)
                if places:
                    raw = b"" if self._manner.has_others else b"".join(lines)
                    yield Chunk(_numbered(places, line), self._wanted(names, columns), raw)
                line += len(lines)
                if len(lines) == rows_per_chunk:
                    _report(progress, file, total)
            if file.tell() == header_end and not self._manner.may_be_empty:
                self._manner.kind.refuse_none()
            _report(progress, file, total)

    def _header(self, file: BinaryIO) -> list[str]:
        raw = file.readline(MAX_LINE_BYTES + 1)
        if not raw:
            refuse("it is empty", "Its first line must name the columns.")
        _verify_written(raw, 1)
        (raw,) = self._utf_8([raw])
        try:
            names = fields(raw.decode("utf-8-sig"), self._manner.separator) if len(raw) <= MAX_LINE_BYTES else None
        except (UnicodeDecodeError, csv.Error):
            names = None
        if names is None:
            refuse("its first line does not name columns in UTF-8", "Save the file as CSV in UTF-8.")
        if len(names) == 1 < len(self._columns):
            refuse("its first line names one column only", self._separate)
        verify_names(names, self._columns, has_others=self._manner.has_others)
        return names

    @property
    def _separate(self) -> str:
        if self._manner.has_others:
            return f"Say what separates them, as in delimiter = \";\"; now it is '{shown(self._manner.separator)}'."
        return "Separate the columns with commas."

    def _utf_8(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        encoding = self._manner.encoding
        if encoding == "utf-8":
            return lines
        # A byte that the encoding does not know makes a value that nothing is equal to.
        return [line.decode(encoding, "replace").encode("utf-8") for line in lines]

    def _wanted(self, names: Sequence[str], columns: Sequence[list[str]]) -> dict[str, Sequence[str]]:
        wanted = set(self._columns)
        return {name: texts for name, texts in zip(names, columns, strict=True) if name in wanted}


def _next_lines(file: BinaryIO, count: int, first: int, rejected: RejectedRows, kind: RowKind) -> list[bytes]:
    """The next `count` lines, the first of them number `first`; fewer at the end of the file.

    A line that is too long is cut one byte after the longest allowed length.
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
    kind.verify_count(last)
    if not is_ended:
        rejected.ends_at(last)
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
