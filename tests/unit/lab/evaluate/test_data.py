"""Data files: the same rows are the same data, whatever the file's kind; what is clipped is counted."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet
from fakes.evaluations import HEADS, RUN, evaluation, respondents, write_csv

from policy_lab.evaluate.cells import blocks, bounded_table, full_table
from policy_lab.evaluate.data import Data, read_data
from policy_lab.evaluate.run_file import read_run_file


def read(path: Path) -> Data:
    """The data of a run file."""
    return read_data(read_run_file(path), lambda _done, _total: None)


def same(one: Data, other: Data) -> bool:
    """Whether two files hold the same rows."""
    return all(a == b for a, b in zip(held(one), held(other), strict=True))


def held(data: Data) -> list[bytes]:
    """All arrays of a file, bit for bit."""
    codes, numbers = data.columns["smokes"].codes, data.columns["height"].numbers
    assert codes is not None
    assert numbers is not None
    return [array.tobytes() for array in (data.strata, data.weights, codes, numbers)]


def test_csv_compressed_csv_and_parquet_are_the_same_data(tmp_path: Path) -> None:
    """Numbers of Parquet are numbers, its missing values are empty cells."""
    path = evaluation(tmp_path)
    plain = read(path)
    content = (tmp_path / "people.csv").read_bytes()
    (tmp_path / "people.csv.gz").write_bytes(gzip.compress(content))
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(tmp_path / "people.csv"), tmp_path / "people.parquet")
    (tmp_path / "bom.csv").write_bytes(b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n"))
    for name in ("people.csv.gz", "people.parquet", "bom.csv"):
        path.write_text(RUN.replace("people.csv", name), "utf-8")
        assert same(read(path), plain), name


def test_names_of_files_are_no_patterns(tmp_path: Path) -> None:
    """A star is a letter of a name."""
    path = evaluation(tmp_path, run=RUN.replace("people.csv", "p*.csv"))
    write_csv(tmp_path / "p*.csv", respondents(6))
    assert read(path).rows == 6


def test_what_is_clipped_moved_and_missing_is_counted(tmp_path: Path) -> None:
    """The cap is on the weight as it stands in the file; a code that says 'not stated' is no number outside of the bounds."""
    path = evaluation(tmp_path)
    rows = [dict(zip(HEADS, row, strict=True)) for row in respondents(60)]
    data = read(path)
    stated = [float(row["height"]) for row in rows if row["height"] not in {"", "9.99"}]
    assert data.clipped_weights == sum(float(row["weight"]) > 90 for row in rows) > 0
    assert data.clamped["height"] == sum(not 1 <= height <= 2 for height in stated) > 0
    assert data.not_stated["height"] == len(rows) - len(stated) > 0
    assert data.weights.max() == 90 * 1.5
    assert data.full_weights.max() > data.weights.max()


def test_exact_figures_do_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    """To the last bit: sums are correctly rounded."""
    path = evaluation(tmp_path, rows=500)
    run = read_run_file(path)
    first = read(path)
    rows = respondents(500)
    write_csv(tmp_path / "people.csv", [rows[i] for i in np.random.default_rng(3).permutation(500)])
    second = read(path)
    assert first.digest != second.digest
    for block in blocks(run, run.mechanisms[0]):
        for table in (full_table, bounded_table):
            one, other = table(run, first, block), table(run, second, block)
            assert one.sums.tobytes() == other.sums.tobytes()
            assert one.totals.tobytes() == other.totals.tobytes()
