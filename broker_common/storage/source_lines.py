"""Lines of CSV to columns of texts, many lines at a time: what an ordinary line costs is a few calls that see all of them.

A line is ordinary if it has as many commas as it must, no quote, an end, UTF-8 in it and no more than the admitted bytes;
splitting it at its commas is then all there is to do. Every other line is read by itself, or with the other quoted ones
where that comes to the same (`fields` says what one line holds). What is wrong with a file as a whole is left to `source`.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from itertools import repeat

__all__ = ["MAX_LINE_BYTES", "TOO_LONG", "Reject", "fields", "split_lines"]

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
