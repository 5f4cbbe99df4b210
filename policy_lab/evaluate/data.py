"""The data file as arrays, checked against the run file: read in batches, so that memory holds codes and numbers, never texts.

No error quotes what a row holds: it says which row, counted from 1 without the heading, and the reader looks it up.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from broker_common.language import phrase
from policy_lab.arrays import Reals
from policy_lab.data_file import is_heading
from policy_lab.evaluate.lined import LinedFile, Word
from policy_lab.evaluate.run import Column, RunFile
from policy_lab.evaluate.sources import fault_of, opened, separator_of
from policy_lab.mechanisms.central import contributions

SmallCodes = NDArray[np.int16]
Progress = Callable[[int, int], None]

_HASHED_BYTES = 1 << 20
# A stratum's or category's name is shown only if so many rows have it: a rare one may be somebody's.
_LEAST_SHOWN = 10
_SIGNS = {";": phrase("semicolons"), "\t": phrase("tabs"), "|": phrase("vertical bars")}


@dataclass(frozen=True, slots=True)
class Values:
    """One column of every row: codes of its categories, or numbers within bounds."""

    codes: SmallCodes | None = None
    # Clamped to the public bounds; NaN where nothing was stated.
    numbers: Reals | None = None
    # As they stand in the file.
    stated: Reals | None = None


@dataclass(frozen=True, slots=True)
class Data:
    """Every row of the file."""

    digest: str
    rows: int
    strata: SmallCodes
    # How much each row counts: clipped, then multiplied; and the same without clipping.
    weights: Reals
    full_weights: Reals
    columns: Mapping[str, Values]
    clipped_weights: int
    # Numbers outside of the public bounds, and rows without a number, by column.
    clamped: Mapping[str, int]
    not_stated: Mapping[str, int]

    @property
    def stratum_rows(self) -> NDArray[np.int64]:
        """Rows in each stratum, up to the last one that has any."""
        return np.bincount(self.strata)


def read_data(run: RunFile, progress: Progress) -> Data:
    """The data file.

    Raises:
        InvalidRequestError: RUN_INVALID, with the line of the run file that the data do not fit; FILE_UNUSABLE.
    """
    return _Reading(run).data(progress)


def digest_of(path: Path) -> str:
    """The hash of a file's bytes."""
    hashed = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_HASHED_BYTES):
            hashed.update(piece)
    return hashed.hexdigest()


class _Reading:
    """Reads one data file."""

    def __init__(self, run: RunFile) -> None:
        self._run = run
        self._file = LinedFile(run.path.name)
        self._parts: dict[str, list[Any]] = {}
        self._row = 0

    def data(self, progress: Progress) -> Data:
        run = self._run
        with self._readable():
            digest = digest_of(run.data)
            with opened(run.data) as (names, batches, position):
                self._verify_names(names)
                for batch in batches(list(self._wanted())):
                    self._take(batch)
                    progress(*position())
        if self._row == 0:
            raise self._file.problem(
                run.data_line, phrase("The data file has no row."), phrase("Name a file with a heading and rows.")
            )
        progress(1, 1)
        return self._collected(digest)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise self._file.problem(
                self._run.data_line,
                phrase("There is no data file {file}.", file=f"'{self._run.data.name}'"),
                phrase("Name it as it is reached from the folder of the run file."),
            ) from None
        except (pa.ArrowException, csv.Error, gzip.BadGzipFile, zlib.error, EOFError, UnicodeDecodeError):
            # The library's errors may quote a person's row.
            raise self._file.problem(
                self._run.data_line,
                self._fault(),
                phrase(
                    "Give a CSV file in UTF-8 with commas and a heading, or Parquet; every row as long as the heading."
                ),
            ) from None

    def _fault(self) -> str:
        """The fault of the file; the library does not know the row in its batches."""
        fault = fault_of(self._run.data)
        if fault is None:
            return phrase("The data file cannot be read on after row {row}.", row=self._row)
        if fault.found is not None:
            return phrase(
                "Row {row} of the data has {found} fields, and the heading has {expected}.",
                row=fault.row,
                found=fault.found,
                expected=fault.expected,
            )
        if fault.row == 0:
            return phrase("The heading of the data file is not UTF-8 text.")
        return phrase("Row {row} of the data is not UTF-8 text.", row=fault.row)

    def _wanted(self) -> dict[str, Word]:
        run = self._run
        words = [column.name for column in run.columns]
        words += [run.weights.column] if run.weights else []
        words += [run.strata.column] if run.strata else []
        return {word.text: word for word in words}

    def _verify_names(self, names: Sequence[str]) -> None:
        wanted = self._wanted()
        if not is_heading(names, wanted):
            # A first row that is no heading is somebody's: it is not quoted.
            separator = separator_of(names[0], wanted) if len(names) == 1 else None
            if separator is not None:
                raise self._file.problem(
                    self._run.data_line,
                    phrase(
                        "The fields of the data file are separated by {signs}, not by commas.", signs=_SIGNS[separator]
                    ),
                    phrase("Save it with commas between the fields."),
                )
            raise self._file.problem(
                self._run.data_line,
                phrase("The first row of the data file names none of the columns of this file."),
                phrase("Give a file whose first row has the names of its columns."),
            )
        for text, word in wanted.items():
            if text not in names:
                raise self._file.unknown(phrase("column"), word, names)
            if names.count(text) > 1:
                raise self._file.problem(
                    word.line,
                    phrase("The data file has two columns of this name."),
                    phrase("Rename one of them."),
                )

    # --- one batch -------------------------------------------------------------------------------------------------

    def _take(self, batch: pa.RecordBatch) -> None:
        run = self._run
        for column in run.columns:
            self._add(column.name.text, self._values(column, batch.column(column.name.text)))
        if run.strata:
            names = [word.text for word in run.strata.values]
            self._add("strata", self._codes(run.strata.column, names, batch.column(run.strata.column.text)), own=True)
        if run.weights:
            self._add("weights", self._weights(run.weights.column, batch.column(run.weights.column.text)), own=True)
        self._row += batch.num_rows

    def _add(self, key: str, values: Any, *, own: bool = False) -> None:
        self._parts.setdefault(f"{'own' if own else 'column'}:{key}", []).append(values)

    def _values(self, column: Column, array: pa.Array) -> Any:
        if column.is_category:
            return self._codes(column.name, [word.text for word in column.categories], array)
        return self._numbers(column.name, column.not_stated, array)

    def _codes(self, name: Word, known: Sequence[str], array: pa.Array) -> SmallCodes:
        found = pc.index_in(_texts(array), pa.array(list(known), pa.string()))
        if found.null_count:
            self._raise_unnamed(name, known, found)
        return np.asarray(found.to_numpy(zero_copy_only=False), np.int16)

    def _raise_unnamed(self, name: Word, known: Sequence[str], found: pa.Array) -> None:
        missing = np.flatnonzero(found.is_null().to_numpy(zero_copy_only=False))
        raise self._file.problem(
            name.line,
            phrase(
                "Row {row} of the data has a value in {column} that this file does not name.",
                row=self._row + int(missing[0]) + 1,
                column=f"'{name.text}'",
            ),
            phrase(
                'Look it up there, and name every value that a row may have, also an empty one, as "". Named are {names}.',
                names=", ".join(known[:20]),
            ),
        )

    def _numbers(self, name: Word, not_stated: frozenset[str], array: pa.Array) -> Reals:
        """Numbers, NaN where there is none."""
        codes = np.array([float(code) for code in not_stated])
        numbers = self._parsed(name, array)
        return np.where(np.isin(numbers, codes), np.nan, numbers)

    def _parsed(self, name: Word, array: pa.Array) -> Reals:
        if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
            trimmed = pc.utf8_trim_whitespace(array)
            array = pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, trimmed.type), trimmed)
        is_missing = array.is_null().to_numpy(zero_copy_only=False)
        try:
            numbers = np.asarray(pc.cast(array, pa.float64()).to_numpy(zero_copy_only=False), np.float64)
        except pa.ArrowException:
            numbers = np.array([_number(each) for each in array.to_pylist()])
        bad = np.flatnonzero(~np.isfinite(numbers) & ~is_missing)
        if bad.size:
            raise self._file.problem(
                name.line,
                phrase(
                    "Row {row} of the data has no number in {column}.",
                    row=self._row + int(bad[0]) + 1,
                    column=f"'{name.text}'",
                ),
                phrase("Write numbers with a point before decimals; an empty cell says that nothing was stated."),
            )
        return numbers

    def _weights(self, name: Word, array: pa.Array) -> Reals:
        weights = self._parsed(name, array)
        bad = np.flatnonzero(~(weights > 0))
        if bad.size:
            raise self._file.problem(
                name.line,
                phrase(
                    "Row {row} of the data has no weight above 0 in {column}.",
                    row=self._row + int(bad[0]) + 1,
                    column=f"'{name.text}'",
                ),
                phrase(
                    "A weight says how many people a respondent stands for: leave out rows without one, and say how many."
                ),
            )
        return weights

    # --- the whole -------------------------------------------------------------------------------------------------

    def _collected(self, digest: str) -> Data:
        run, rows = self._run, self._row
        raw = self._joined("own:weights") if run.weights else np.ones(rows)
        multiplier = run.weights.multiplier if run.weights else 1.0
        cap = run.weights.cap if run.weights else 1.0
        columns, clamped, not_stated = {}, {}, {}
        for column in run.columns:
            name = column.name.text
            values = self._joined(f"column:{name}")
            if column.is_category:
                columns[name] = Values(codes=values)
                continue
            columns[name] = Values(numbers=np.clip(values, column.low, column.high), stated=values)
            clamped[name] = int(np.sum((values < column.low) | (values > column.high)))
            not_stated[name] = int(np.sum(np.isnan(values)))
        strata = self._joined("own:strata") if run.strata else np.zeros(rows, np.int16)
        self._verify_strata(strata)
        return Data(
            digest=digest,
            rows=rows,
            strata=strata,
            weights=contributions(raw, weight_cap=cap, multiplier=multiplier),
            full_weights=raw * multiplier,
            columns=columns,
            clipped_weights=int(np.sum(raw > cap)),
            clamped=clamped,
            not_stated=not_stated,
        )

    def _joined(self, key: str) -> Any:
        """All batches of a column; they are let go."""
        return np.concatenate(self._parts.pop(key))

    def _verify_strata(self, strata: SmallCodes) -> None:
        """Every stratum that the run file names has a row: one that has none is most often misspelt."""
        if self._run.strata is None:
            return
        words = self._run.strata.values
        rows = np.bincount(strata, minlength=len(words))
        for word, count in zip(words, rows, strict=True):
            if count == 0:
                held = [each.text for each, number in zip(words, rows, strict=True) if number >= _LEAST_SHOWN]
                raise self._file.unknown(phrase("row of the data with stratum"), word, held)


def _number(text: Any) -> float:
    """The number that a text writes, NaN if it is none."""
    try:
        return float(text)
    except (TypeError, ValueError):
        return math.nan


def _texts(array: pa.Array) -> pa.Array:
    """Every value as text; the empty text where there is none."""
    return pc.fill_null(pc.cast(array, pa.string()), "")
