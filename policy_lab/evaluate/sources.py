"""Data files: the names of their columns, and some of these in batches."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

_BATCH_ROWS = 65_536
_BLOCK_BYTES = 1 << 20
# How Python keeps a byte that is no UTF-8.
_BYTES = re.compile("[\udc80-\udcff]")
_OTHER_SEPARATORS = (";", "\t", "|")

Opened = tuple[list[str], Callable[[Sequence[str]], Iterator[pa.RecordBatch]], Callable[[], tuple[int, int]]]


@contextmanager
def opened(path: Path) -> Iterator[Opened]:
    """The names of a file's columns, what reads some of them in batches, and how far that is."""
    if path.suffix.lower() == ".parquet":
        with pq.ParquetFile(path) as file:
            done = [0]

            def batches(wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
                for batch in file.iter_batches(_BATCH_ROWS, columns=list(wanted), use_threads=False):
                    done[0] += batch.num_rows
                    yield batch

            yield list(file.schema_arrow.names), batches, lambda: (done[0], file.metadata.num_rows)
        return
    with path.open("rb") as raw:
        size = path.stat().st_size

        def csv_batches(wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
            raw.seek(0)
            yield from _csv_batches(_plain(path, raw), list(wanted))

        yield _heading(path), csv_batches, lambda: (raw.tell(), size)


@dataclass(frozen=True, slots=True)
class Fault:
    """Where a CSV file stops being one: its row, 0 for the heading."""

    row: int
    # How many fields it has and should have, or neither where its text is not UTF-8.
    found: int | None = None
    expected: int | None = None


def fault_of(path: Path) -> Fault | None:
    """The first row that is no text, or that is not as long as the heading; None if there is none before the file breaks off."""
    if path.suffix.lower() == ".parquet":
        return None
    with path.open("rb") as raw:
        text = io.TextIOWrapper(_plain(path, raw), "utf-8-sig", errors="surrogateescape", newline="")
        rows = csv.reader(text)
        try:
            return _first_fault(row for row in rows if row)
        except (csv.Error, OSError, EOFError, zlib.error):
            return None


def _first_fault(rows: Iterator[list[str]]) -> Fault | None:
    width = 0
    for number, row in enumerate(rows):
        if any(map(_BYTES.search, row)):
            return Fault(number)
        width = width or len(row)
        if len(row) != width:
            return Fault(number, len(row), width)
    return None


def separator_of(heading: str, wanted: Collection[str]) -> str | None:
    """The separator of a heading without a comma, if the wanted names have it between them."""
    for sign in _OTHER_SEPARATORS:
        if any(name.strip(' "') in wanted for name in heading.split(sign)):
            return sign
    return None


def _plain(path: Path, raw: Any) -> Any:
    return gzip.GzipFile(fileobj=raw) if path.suffix.lower() == ".gz" else raw


def _csv_batches(source: Any, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
    reader = pa_csv.open_csv(
        pa.PythonFile(source, mode="r"),
        read_options=pa_csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
        parse_options=pa_csv.ParseOptions(newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(
            column_types=dict.fromkeys(wanted, pa.string()), include_columns=list(wanted), strings_can_be_null=False
        ),
    )
    yield from reader


def _heading(path: Path) -> list[str]:
    """The names in the first row of a CSV file."""
    with path.open("rb") as raw:
        text = io.TextIOWrapper(_plain(path, raw), "utf-8-sig", newline="")
        return next(csv.reader(text), [])
