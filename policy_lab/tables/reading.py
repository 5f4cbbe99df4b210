"""The columns of a CSV or Parquet file that one table needs. Errors name lines, never values."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.query.dictionary import nearest, shown
from policy_lab.data_file import is_heading, verify_ends
from policy_lab.tables import texts

_PARQUET = frozenset({".parquet", ".pq"})
_SHOWN_LINES = 5
EMPTY = "(empty)"
_LARGE_BYTES = 4 << 20
_PROGRESS_LINES = 10_000
Done: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns by name, each with one value a row; `places` says where the rows stand in the file."""

    file: str
    columns: Mapping[str, Sequence[Any]]
    places: Sequence[int]
    is_parquet: bool

    def labels(self, name: str) -> Sequence[str]:
        """A column as labels; an empty cell has a label of its own."""
        return [EMPTY if each is None or each == "" else str(each) for each in self.columns[name]]

    def numbers(self, name: str) -> NDArray[np.float64]:
        """A column as numbers.

        Raises:
            InvalidRequestError: INVALID_VALUE, with the lines that hold none.
        """
        found = [_number(each) for each in self.columns[name]]
        bad = [place for place, each in zip(self.places, found, strict=True) if each is None]
        if bad:
            lines = ", ".join(map(str, bad[:_SHOWN_LINES])) + ", ..." * (len(bad) > _SHOWN_LINES)
            text = texts.NO_NUMBER_IN_ROWS if self.is_parquet else texts.NO_NUMBER_IN_LINES
            problem = phrase(text, n=len(bad), lines=lines, column=shown(name))
            raise InvalidRequestError(
                "INVALID_VALUE", name=self.file, problem=problem, remedy=phrase(texts.NUMBER_REMEDY)
            )
        return np.array(found, dtype=np.float64)


def read(path: Path, names: Sequence[str], progress: Done | None = None) -> Columns:
    """These columns of the file; `progress` is told how many bytes of a large CSV file are read, and of how many.

    Raises:
        InvalidRequestError: FILE_UNUSABLE, INVALID_VALUE.
    """
    try:
        verify_ends(path)
        return _parquet(path, names) if path.suffix.lower() in _PARQUET else _csv(path, names, progress)
    except OSError as error:
        raise InvalidRequestError(
            "FILE_UNUSABLE", file=str(path), problem=error.strerror or type(error).__name__
        ) from None


def _csv(path: Path, names: Sequence[str], progress: Done | None) -> Columns:
    with path.open("rb") as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
        lines = csv.reader(_lines(text, file, progress), strict=True)
        try:
            head = next(lines, None)
            if not head:
                _refuse(path, phrase(texts.NO_HEADER), phrase(texts.HEADER_REMEDY))
            if not is_heading([each.strip() for each in head], names):
                _refuse(path, phrase(texts.NO_HEADING), phrase(texts.HEADING_REMEDY))
            wanted = [_position(path, head, name) for name in names]
            rows = list(_rows(path, lines, len(head), wanted))
        except csv.Error:
            _refuse(path, phrase(texts.NOT_CSV, line=lines.line_num), phrase(texts.CSV_REMEDY))
        except UnicodeDecodeError:
            _refuse(path, phrase(texts.NOT_UTF_8, line=lines.line_num + 1), phrase(texts.UTF_8_REMEDY))
    places = [line for line, _ in rows]
    return Columns(str(path), {name: [row[at] for _, row in rows] for at, name in enumerate(names)}, places, False)


def _lines(text: Iterable[str], file: BinaryIO, progress: Done | None) -> Iterator[str]:
    """The file's lines. A small file is read before anybody would look how far it is."""
    size = os.fstat(file.fileno()).st_size
    for number, line in enumerate(text):
        if progress is not None and size > _LARGE_BYTES and number % _PROGRESS_LINES == 0:
            progress(file.tell(), size)
        yield line
    if progress is not None and size > _LARGE_BYTES:
        progress(size, size)


def _rows(path: Path, lines: Any, width: int, wanted: Sequence[int]) -> Iterator[tuple[int, Sequence[str]]]:
    """The wanted values of each row, with its line; an empty line is none."""
    for row in lines:
        if not row:
            continue
        if len(row) != width:
            problem = phrase(texts.OTHER_WIDTH, line=lines.line_num, found=len(row), expected=width)
            _refuse(path, problem, phrase(texts.CSV_REMEDY))
        yield lines.line_num, [row[at].strip() for at in wanted]


def _parquet(path: Path, names: Sequence[str]) -> Columns:
    # Imported here: only Parquet files need the library of the extra.
    try:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise InvalidRequestError("LAB_NOT_INSTALLED", package="pyarrow") from error
    try:
        with pq.ParquetFile(path) as file:
            head = list(file.schema_arrow.names)
            for name in names:
                _position(path, head, name)
            table = file.read(columns=list(dict.fromkeys(names)))
    except pa.ArrowException:
        _refuse(path, phrase(texts.NOT_PARQUET), phrase(texts.PARQUET_REMEDY))
    found = {name: table.column(name).to_pylist() for name in names}
    return Columns(str(path), found, range(1, table.num_rows + 1), True)


def _position(path: Path, head: Sequence[str], name: str) -> int:
    names = [each.strip() for each in head]
    if name not in names:
        problem = phrase(texts.NO_COLUMN, column=shown(name))
        _refuse(path, problem, phrase(texts.COLUMN_REMEDY, nearest=nearest(name, map(shown, names))))
    if names.count(name) > 1:
        _refuse(path, phrase(texts.COLUMN_TWICE, column=shown(name)), phrase(texts.TWICE_REMEDY))
    return names.index(name)


def _number(value: Any) -> float | None:
    """A finite number; None for anything else. Forms of programming languages, such as 1_000, are not numbers."""
    if isinstance(value, bool) or value is None or (isinstance(value, str) and "_" in value):
        return None
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if isfinite(found) else None


def _refuse(path: Path, problem: str, remedy: str) -> NoReturn:
    raise InvalidRequestError("INVALID_VALUE", name=str(path), problem=problem, remedy=remedy) from None
