"""Data files: the same rows are the same data, whatever the file's kind; what is clipped is counted."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from unit.lab.evaluations import HEADS, RUN, evaluation, respondents, write_csv

from broker_common.errors import InvalidRequestError
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


def broken(tmp_path: Path, content: bytes, name: str = "people.csv") -> str:
    """Error about a data file."""
    path = evaluation(tmp_path, run=RUN.replace("people.csv", name))
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(InvalidRequestError) as refused:
        read(path)
    return f"{refused.value.text} {refused.value.hint}"


@pytest.mark.parametrize("name", ["people.csv", "people.csv.gz"])
def test_a_row_that_is_none_is_named(tmp_path: Path, name: str) -> None:
    """The row itself, not the batch that it is in, and never what stands in it."""
    evaluation(tmp_path)
    lines = (tmp_path / "people.csv").read_bytes().splitlines(keepends=True)
    short = [*lines[:6], b"5,Lhasa\n", *lines[7:]]
    assert "line 1: Row 6 of the data has 2 fields, and the heading has 6." in broken(tmp_path, b"".join(short), name)
    latin = [*lines[:9], lines[9].replace(b"east", b"Qu\xe9bec").replace(b"west", b"Qu\xe9bec"), *lines[10:]]
    latin[9] = latin[9].replace(b"north", b"Qu\xe9bec")
    assert "line 1: Row 9 of the data is not UTF-8 text." in broken(tmp_path, b"".join(latin), name)
    heading = [lines[0].replace(b"region", b"r\xe9gion"), *lines[1:]]
    assert "line 1: The heading of the data file is not UTF-8 text." in broken(tmp_path, b"".join(heading), name)


@pytest.mark.parametrize(("sign", "shown"), [(b";", "semicolons"), (b"\t", "tabs"), (b"|", "vertical bars")])
def test_another_separator_is_named(tmp_path: Path, sign: bytes, shown: str) -> None:
    """Known by the names that stand between it; a first row without them is somebody's, and stays unsaid."""
    evaluation(tmp_path)
    content = (tmp_path / "people.csv").read_bytes().replace(b",", sign)
    assert f"separated by {shown}, not by commas. Save it with commas" in broken(tmp_path, content)
    assert "names none of the columns" in broken(tmp_path, content.partition(b"\n")[2])


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
