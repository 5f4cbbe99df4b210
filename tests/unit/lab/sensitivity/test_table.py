"""Files as they come: `?` is missing, and what is wrong is said by line and never by value."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
from unit.lab.sensitivity.made_up import made_up_people

from broker_common.errors import InvalidRequestError
from policy_lab.sensitivity.table import read_table

GOOD = "age,town\n30,Ayr\n ?, Ely\n,?\n45.5,Ayr\n"


def table_file(folder: Path, content: str | bytes) -> Path:
    """A file with this content."""
    path = folder / "people.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def refused(folder: Path, content: str | bytes, wanted: tuple[str, ...] = (), without: tuple[str, ...] = ()) -> str:
    """Sentence and hint of the refusal."""
    with pytest.raises(InvalidRequestError) as caught:
        read_table(table_file(folder, content), wanted, without)
    assert caught.value.exit_code == 3
    return f"{caught.value.text} {caught.value.hint}"


def test_question_marks_and_empty_cells_are_missing(tmp_path: Path) -> None:
    """Blanks around a cell do not count; words keep the question mark."""
    table = read_table(table_file(tmp_path, GOOD))
    assert np.array_equal(table.numbers["age"], [30, math.nan, math.nan, 45.5], equal_nan=True)
    assert list(table.words["town"]) == ["Ayr", "Ely", "?", "Ayr"]
    assert (table.rows, table.columns) == (4, ["age", "town"])


def test_a_mark_of_utf_8_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    """As spreadsheets write them."""
    table = read_table(table_file(tmp_path, "\ufeffage\r\n1\r\n2\r\n"))
    assert table.numbers["age"].tolist() == [1, 2]


BAD: dict[str, tuple[str | bytes, str, str]] = {
    "text in numbers": ("age\n1\n2\nMUNRO\n4\n", "people.csv:4", "not numbers, in lines 4"),
    "a number that is none": ("age\n1\n2\nnan\ninf\n5\n6\n7\n", "people.csv:4", "in lines 4, 5"),
    "a number too large to sum": ("age\n1\n2\n1e308\n", "people.csv:4", "not numbers"),
    "digits of a program": ("age\n1\n2\n1_000\n", "people.csv:4", "not numbers"),
    "many wrong lines": ("age\n" + "1\n" * 10 + "x\n" * 7, "people.csv:12", "12, 13, 14, 15, 16, ..."),
    "one row": ("age\n1\n", "people.csv", "1 rows"),
    "no row": ("age\n", "people.csv", "0 rows"),
    "nothing at all": ("", "people.csv:1", "does not name every column"),
    "a column without a name": ("age,\n1,2\n1,2\n", "people.csv:1", "does not name every column"),
    "a column whose name moves the cursor": ("age,\x1b[2J\n1,2\n1,2\n", "people.csv:1", "printable"),
    "two columns of one name": ("age,age\n1,2\n3,4\n", "people.csv:1", "same name: those at places 1, 2"),
    "a row too short": ("age,town\n1,Ayr\n2\n", "people.csv:3", "1 cells"),
    "an open quotation": ('age,town\n1,"Ayr\n2,Ely\n', "people.csv:3", "not CSV"),
    "another encoding": (b"age,town\n1,Ayr\n2,Orl\xe9ans\n", "people.csv:3", "not UTF-8"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_file_is_refused_by_line(what: str, tmp_path: Path) -> None:
    """The sentence says where, the hint what to do."""
    content, place, problem = BAD[what]
    said = refused(tmp_path, content)
    assert place in said
    assert problem in said
    assert "MUNRO" not in said


def test_unknown_column_is_answered_with_the_nearest_names(tmp_path: Path) -> None:
    """For wanted columns, and for columns to leave out."""
    assert "nearest names are: age, town" in refused(tmp_path, GOOD, wanted=("agee", "age"))
    assert "there is no column towns" in refused(tmp_path, GOOD, wanted=("age",), without=("towns",))


@pytest.mark.parametrize("asked", ["wanted", "without"])
def test_somebodys_row_is_never_quoted_as_a_heading(tmp_path: Path, asked: str) -> None:
    """A file without names has a person in its first line, also one with the same value twice."""
    without_names = "Alice,HIV,52000\nBob,flu,41000\nCarol,flu,7\n"
    text = refused(tmp_path, without_names, **{asked: ("income",)})
    assert "names none of the columns that are asked for" in text
    text += refused(tmp_path, "Alice,HIV,HIV\nBob,flu,cold\nCarol,flu,flu\n", **{asked: ("income",)})
    assert not any(word in text for word in ("Alice", "HIV", "52000", "nearest"))


def test_what_may_never_end_is_not_read(tmp_path: Path) -> None:
    """A pipe nobody writes to would hang, a device would fill the memory."""
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(InvalidRequestError, match="FILE_UNUSABLE") as caught:
            read_table(path)
        assert "not a regular file" in caught.value.text


def test_a_column_of_words_that_is_wanted_is_refused(tmp_path: Path) -> None:
    """Its author may have meant another."""
    assert "town has cells that are not numbers" in refused(tmp_path, GOOD, wanted=("town",))


def test_a_wanted_column_without_a_value_is_refused(tmp_path: Path) -> None:
    """There is nothing to sum."""
    assert "no value in any row" in refused(tmp_path, "age,town\n?,Ayr\n?,Ely\n", wanted=("age",))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With the reason that the system gives."""
    with pytest.raises(InvalidRequestError) as caught:
        read_table(tmp_path / "nobody.csv")
    assert caught.value.code == "FILE_UNUSABLE"


def test_left_out_columns_are_not_read(tmp_path: Path) -> None:
    """Whatever stands in them."""
    table = read_table(table_file(tmp_path, "age,note\n1,9\n2,8\n3,free text\n"), without=("note",))
    assert table.columns == ["age"]


def test_the_example_is_what_its_program_makes() -> None:
    """Nobody is in it: it comes from a seed."""
    example = Path(__file__).parents[4] / "policy_lab" / "examples" / "sensitivity" / "people.csv"
    assert example.read_text("utf-8") == made_up_people()
    table = read_table(example)
    assert list(table.numbers) == ["age", "years_of_education", "hours_per_week", "capital_gain", "income"]
    assert np.isnan(table.numbers["hours_per_week"]).any()
