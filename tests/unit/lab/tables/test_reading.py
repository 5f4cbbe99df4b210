"""Files as people have them: what is wrong is said by line, and never by value."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from broker_common.errors import InvalidRequestError
from policy_lab.tables.reading import read

PRIVATE = "48151623"


def refusal(path: Path, name: str = "income", *others: str) -> str:
    """The sentence and the hint."""
    with pytest.raises(InvalidRequestError) as error:
        read(path, [name, *others]).numbers(name)
    text = f"{error.value.text} {error.value.hint}"
    assert PRIVATE not in text
    return text


def test_csv_with_quotes_a_mark_and_empty_lines(tmp_path: Path) -> None:
    """Lines are those of the file, also after an empty one and a value of two lines."""
    path = tmp_path / "people.csv"
    path.write_bytes('\ufeffname,income\n\n"Mo,\nJo",5\nAda, 7.5 \n'.encode())
    found = read(path, ["income", "name"])
    assert found.numbers("income").tolist() == [5.0, 7.5]
    assert found.labels("name") == ["Mo,\nJo", "Ada"]
    assert list(found.places) == [4, 5]


def test_parquet_is_read_as_csv_is(tmp_path: Path) -> None:
    """Whole numbers as labels, and rows counted from one."""
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table({"kind": [1, 2, None], "income": [1.5, None, float("nan")]}), path)
    found = read(path, ["kind", "income"])
    assert found.labels("kind") == ["1", "2", "(empty)"]
    assert "no number in column 'income' in 2 of its rows: row 2, 3" in refusal(path)


@pytest.mark.parametrize("value", [f"x{PRIVATE}", "", "nan", "inf", "-inf", "1e999", "1_0", "5;3"])
def test_what_is_no_number_is_named_by_line(tmp_path: Path, value: str) -> None:
    """The value itself stays in the file."""
    path = tmp_path / "people.csv"
    path.write_text(f"name,income\na,1\nb,{value}\nc,2\n")
    text = refusal(path)
    assert "no number in column 'income' in 1 of its rows: line 3" in text
    assert value == "" or value not in text.replace("income", "")


def test_many_bad_lines_are_counted_and_the_first_shown(tmp_path: Path) -> None:
    """Nobody needs a million line numbers."""
    path = tmp_path / "people.csv"
    path.write_text("income\n" + "x\n" * 1000)
    assert "no number in column 'income' in 1000 of its rows: line 2, 3, 4, 5, 6, ..." in refusal(path)


def test_a_missing_column_is_answered_by_the_nearest_names(tmp_path: Path) -> None:
    """A spelling mistake is seen at once."""
    path = tmp_path / "people.csv"
    path.write_text("id,Income,Race\n1,2,3\n")
    assert "has no column 'incom'. Did you mean: Income" in refusal(path, "incom", "id")
    table = tmp_path / "people.parquet"
    pq.write_table(pa.table({"Income": [1]}), table)
    assert "has no column 'incom'. Did you mean: Income" in refusal(table, "incom")


def test_somebodys_row_is_never_quoted_as_a_heading(tmp_path: Path) -> None:
    """A file without names has a person in its first line."""
    path = tmp_path / "people.csv"
    path.write_text(f"Alice {PRIVATE},HIV,52000\nBob,flu,41000\n")
    text = refusal(path, "income", "name")
    assert "first line that names none of the columns that are asked for" in text
    assert not any(word in text for word in ("Alice", "HIV", "52000", "Did you mean"))


def test_what_may_never_end_is_not_read(tmp_path: Path) -> None:
    """A pipe nobody writes to would hang, a device would fill the memory."""
    for ending in ("csv", "parquet"):
        pipe = tmp_path / f"pipe.{ending}"
        os.mkfifo(pipe)
        assert "is not a regular file" in refusal(pipe)
    assert "is not a regular file" in refusal(Path("/dev/zero"))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "no first line"),
        (b"income,income\n1,2\n", "two columns named 'income'"),
        (b"a,income\n1\n", "1 fields in line 2, and 2 names"),
        (b'a,income\n"1,2\n', "not CSV from line 2"),
        (b"a,income\n\xff,2\n", "not UTF-8 text at or after line"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    """With the line where it stops being one."""
    path = tmp_path / "people.csv"
    path.write_bytes(content)
    assert problem in refusal(path)


def test_a_file_that_is_no_parquet_is_refused(tmp_path: Path) -> None:
    """Its name would make it one."""
    path = tmp_path / "people.parquet"
    path.write_text("income\n1\n")
    assert "is not a Parquet file" in refusal(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """A folder, too."""
    assert "No such file" in refusal(tmp_path / "none.csv")
    assert "Is a directory" in refusal(tmp_path)


def test_a_large_file_says_how_far_it_is(tmp_path: Path) -> None:
    """From its beginning to its end, and a small one nothing."""
    large, small = tmp_path / "large.csv", tmp_path / "small.csv"
    large.write_text("income\n" + "1234567\n" * 600_000)
    small.write_text("income\n1\n")
    told: list[tuple[int, int]] = []
    assert len(read(large, ["income"], lambda *done: told.append(done)).places) == 600_000
    size = large.stat().st_size
    assert told == sorted(told)
    assert (len(told) > 20, told[-1], {total for _, total in told}) == (True, (size, size), {size})
    told.clear()
    read(small, ["income"], lambda *done: told.append(done))
    assert told == []
