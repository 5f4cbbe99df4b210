"""A CSV file as columns: numbers, or words. A cell with `?`, or an empty one, has no value.

A column is one of numbers if its author names it, or if most of its cells are numbers. Remaining non-numbers are errors
with their lines; no error quotes a cell.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol

import numpy as np

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.query.dictionary import listed, nearest, shown
from policy_lab.arrays import Reals
from policy_lab.data_file import is_heading, verify_ends
from policy_lab.sensitivity import texts
from policy_lab.sensitivity.queries import FEWEST_ROWS

MISSING = frozenset({"", "?"})
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")
# Beyond it sums of a million rows lose whole units.
_MOST_VALUE = 1e15
# Largest size of a file that is held in memory whole.
_MOST_ROWS = 20_000_000
# Lines that an error names.
_MOST_LINES = 5


class _Lines(Protocol):
    """The library's reader: rows, and the line of the file that it has come to."""

    @property
    def line_num(self) -> int: ...

    def __iter__(self) -> Iterator[list[str]]: ...

    def __next__(self) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class Table:
    """The columns of a file; where a number is missing there is NaN, where a word is missing `?`."""

    file: str
    rows: int
    numbers: Mapping[str, Reals]
    words: Mapping[str, Sequence[str]]
    digest: str

    @property
    def columns(self) -> list[str]:
        """All names."""
        return [*self.numbers, *self.words]


def read_table(path: Path, wanted: Sequence[str] = (), without: Sequence[str] = ()) -> Table:
    """The table in a CSV file with a line of names, UTF-8.

    Args:
        path: the file.
        wanted: columns that must be there and hold numbers.
        without: columns that are left out.

    Raises:
        InvalidRequestError: FILE_UNUSABLE, or SENSITIVITY_REFUSED with lines.
    """
    content, text = _content(path)
    lines = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True, strict=True)
    names = _names(path, lines)
    if not is_heading(names, (*wanted, *without)):
        raise wrong(f"{path.name}:1", texts.NO_HEADING, texts.HEADING_REMEDY)
    for column in (*wanted, *without):
        if column not in names:
            raise wrong(path.name, phrase(texts.NO_COLUMN, column=shown(column)), nearest_column(column, names))
    cells, numbered = _cells(path, lines, len(names))
    if len(numbered) < FEWEST_ROWS:
        raise wrong(path.name, phrase(texts.FEW_ROWS, rows=len(numbered)), texts.FEW_ROWS_REMEDY)
    numbers: dict[str, Reals] = {}
    words: dict[str, Sequence[str]] = {}
    for name, given in zip(names, cells, strict=True):
        if name in without:
            continue
        if name in wanted or _is_of_numbers(given):
            numbers[name] = _numbers(path.name, name, given, numbered)
        else:
            words[name] = ["?" if cell in MISSING else cell for cell in given]
    return Table(path.name, len(numbered), numbers, words, hashlib.sha256(content).hexdigest())


def wrong(file: str, problem: str, remedy: str) -> InvalidRequestError:
    """The fault of a file, or of a choice about it."""
    return InvalidRequestError("SENSITIVITY_REFUSED", file=file, problem=problem, remedy=remedy)


def nearest_column(column: str, names: Iterable[str]) -> str:
    """The remedy for a name that is not there."""
    return phrase(texts.NEAREST, nearest=nearest(column, names))


def _content(path: Path) -> tuple[bytes, str]:
    try:
        verify_ends(path)
        content = path.read_bytes()
    except OSError as error:
        raise InvalidRequestError("FILE_UNUSABLE", file=str(path), problem=error.strerror or "") from error
    try:
        return content, content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise wrong(f"{path.name}:{line}", texts.NOT_UTF8, texts.NOT_UTF8_REMEDY) from error


def _names(path: Path, lines: _Lines) -> list[str]:
    try:
        names = [name.strip() for name in next(lines, [])]
    except csv.Error as error:
        raise wrong(f"{path.name}:1", texts.NO_CSV, texts.NO_CSV_REMEDY) from error
    if not names or "" in names or not all(map(str.isprintable, names)):
        raise wrong(f"{path.name}:1", texts.NO_NAMES, texts.NO_NAMES_REMEDY)
    twice = [place for place, name in enumerate(names, start=1) if names.count(name) > 1]
    if twice:
        problem = phrase(texts.NAMES_TWICE, places=listed(map(str, twice)))
        raise wrong(f"{path.name}:1", problem, texts.NO_NAMES_REMEDY)
    return names


def _cells(path: Path, lines: _Lines, width: int) -> tuple[list[list[str]], list[int]]:
    """The columns, and the line that each row begins in."""
    cells: list[list[str]] = [[] for _ in range(width)]
    numbered: list[int] = []
    before = lines.line_num
    try:
        for row in islice(lines, _MOST_ROWS):
            line, before = before + 1, lines.line_num
            if not row:
                continue
            if len(row) != width:
                problem = phrase(texts.OTHER_WIDTH, found=len(row), expected=width)
                raise wrong(f"{path.name}:{line}", problem, texts.OTHER_WIDTH_REMEDY)
            numbered.append(line)
            for column, cell in zip(cells, row, strict=True):
                column.append(cell.strip())
    except csv.Error as error:
        raise wrong(f"{path.name}:{lines.line_num}", texts.NO_CSV, texts.NO_CSV_REMEDY) from error
    return cells, numbered


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None and abs(float(cell)) <= _MOST_VALUE


def _is_of_numbers(column: Sequence[str]) -> bool:
    """Whether most of its cells that are not missing are numbers."""
    present = [cell for cell in column if cell not in MISSING]
    return sum(map(_is_number, present)) * 2 > len(present)


def _numbers(file: str, name: str, column: Sequence[str], numbered: Sequence[int]) -> Reals:
    bad = [line for cell, line in zip(column, numbered, strict=True) if cell not in MISSING and not _is_number(cell)]
    if bad:
        shown_lines = ", ".join(map(str, bad[:_MOST_LINES])) + ", ..." * (len(bad) > _MOST_LINES)
        problem = phrase(texts.NO_NUMBER, column=shown(name), lines=shown_lines)
        raise wrong(f"{file}:{bad[0]}", problem, phrase(texts.NO_NUMBER_REMEDY, column=shown(name)))
    values = np.array([math.nan if cell in MISSING else float(cell) for cell in column])
    if np.isnan(values).all():
        raise wrong(file, phrase(texts.NO_VALUES, column=shown(name)), texts.NO_VALUES_REMEDY)
    return values
