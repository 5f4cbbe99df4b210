"""Run files: what is wrong is said with its line and the nearest name, and nothing of a person's row is ever quoted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from unit.lab.evaluations import RUN, evaluation, respondents, write_csv

from broker_common.errors import InvalidRequestError
from policy_lab.evaluate.data import read_data
from policy_lab.evaluate.run_file import EXAMPLE_RUN, read_run_file
from policy_lab.mechanisms.neighbours import Neighbours
from policy_lab.standing import Standing


def refused(folder: Path, run: str) -> InvalidRequestError:
    """Error of a run file, data included."""
    path = evaluation(folder, run=run)
    with pytest.raises(InvalidRequestError) as caught:
        read_data(read_run_file(path), lambda _done, _total: None)
    assert caught.value.exit_code == 3
    return caught.value


def line_of(run: str, part: str) -> int:
    """The line that a part of the file stands in."""
    return run[: run.index(part)].count("\n") + 1


# The replaced text, the replacement, and the sentence.
BAD = [
    ("numbers: truncated", "numbers: truncatd", "There is no mechanism 'truncatd'; the nearest is 'truncated'."),
    ("  - global", "  - globe", "There is no mechanism 'globe'; the nearest is 'global'."),
    (
        "local: {numbers: truncated}",
        "local: {categories: randomized-response, numbers: truncated}",
        "There is no mechanism 'randomized-response'; the nearest is 'randomised_response'.",
    ),
    ("  - local: {numbers: truncated}", "  - local", "'local' says no mechanism for numbers."),
    ("  - global", "  - global: {numbers: truncated}", "'global' takes no 'numbers'."),
    ("  - global", "  - local: {numbers: truncated}", "'local.truncated' is listed twice."),
    ("along: static", "along: wait", "There is no along 'wait'; the nearest is 'weight'."),
    ("along: static", "along: static, noise: all", "Static columns cannot be noised"),
    ("  sex: {categories", "  sx: {categories", "There is no column 'sx'; the nearest is 'sex'."),
    ("column: region", "column: regoin", "There is no column 'regoin'; the nearest is 'region'."),
    ("column: weight", "column: weigth", "There is no column 'weigth'; the nearest is 'weight'."),
    (
        "east, west, north",
        "east, west, nroth",
        "Row 3 of the data has a value in 'region' that this file does not name.",
    ),
    (
        "east, west, north",
        "east, west, north, nort",
        "There is no row of the data with stratum 'nort'; the nearest is 'north'.",
    ),
    ("epsilons: [0.5, 2]", "epsilons: [0.5, 0]", "epsilon is '0'."),
    ("epsilons: [0.5, 2]", "epsilons: [-1]", "epsilon is '-1'."),
    ("epsilons: [0.5, 2]", "epsilons: 1e308", "epsilon is '1e308'."),
    ("epsilons: [0.5, 2]", "epsilons: [nan]", "epsilon is 'nan'."),
    ("epsilons: [0.5, 2]", "epsilons: [2, 2.0]", "The epsilon 2 is listed twice."),
    ("epsilons: [0.5, 2]", f"epsilons: [{', '.join(map(str, range(1, 22)))}]", "There are more than 20 epsilons."),
    ("delta: 1e-3\n", "", "Shuffling promises nothing without a delta."),
    ("delta: 1e-3", "delta: 1.0", "delta is '1.0'."),
    ("cap: 90", "cap: 0", "cap is '0'."),
    ("  cap: 90\n", "", "'cap' is missing."),
    (
        "[daily, sometimes, never]",
        "[daily, never]",
        "of the data has a value in 'smokes' that this file does not name.",
    ),
    ("[daily, sometimes, never]", "[daily]", "'smokes' has one category"),
    ("low: 1, high: 2", "low: 2, high: 1", "The bounds of 'height' do not ascend."),
    ("low: 1, high: 2, ", "low: 1, ", "'high' is missing."),
    ("not_stated: [9.99]", "not_stated: [none]", "'none' is no number."),
    ("queries: [count, sum, mean]", "queries: [count, median]", "There is no query 'median'"),
    ("queries: [count, sum, mean]", "querys: [count]", "There is no key 'querys'; the nearest is 'queries'."),
    ("standing: synthetic", "standing: assessment", "There is no standing 'assessment'"),
    ("standing: synthetic", "standing: publik", "There is no standing 'publik'; the nearest is 'public'."),
    ("data: people.csv", "data: nobody.csv", "There is no data file 'nobody.csv'."),
    ("seed: 7", "seed: -7", "seed is '-7'."),
    ("seed: 7", "seed: 7\nseed: 8", "'seed' is listed twice."),
    ("repetitions: 2", "repetitions: 0", "repetitions is '0'."),
    ("seed: 7", "seed: *x", "This is not YAML"),
    ("seed: 7", "seed: {", "This is not YAML"),
]


@pytest.mark.parametrize(("part", "instead", "sentence"), BAD, ids=[bad[1][:40].strip() for bad in BAD])
def test_bad_run_file_is_refused_with_its_line(tmp_path: Path, part: str, instead: str, sentence: str) -> None:
    """The line, what is wrong there, and what to type instead."""
    run = RUN.replace(part, instead, 1)
    error = refused(tmp_path, run)
    assert sentence in error.text
    assert error.text.startswith("run.yaml, line ")
    assert error.hint
    if instead and "is missing" not in sentence and "not YAML" not in sentence:
        name = instead.rstrip("\n").rpartition("\n")[2]
        assert abs(int(error.details["number"]) - line_of(run, name)) <= 1


# Content of a row, and the sentence about it.
BAD_ROWS = [
    ("weight", "", "Row 12 of the data has no weight above 0 in 'weight'."),
    ("weight", "0", "Row 12 of the data has no weight above 0 in 'weight'."),
    ("weight", "-3.5", "Row 12 of the data has no weight above 0 in 'weight'."),
    ("weight", "inf", "Row 12 of the data has no number in 'weight'."),
    ("weight", "secret", "Row 12 of the data has no number in 'weight'."),
    ("height", "secret", "Row 12 of the data has no number in 'height'."),
    ("smokes", "secret", "Row 12 of the data has a value in 'smokes' that this file does not name."),
    ("smokes", "", "Row 12 of the data has a value in 'smokes' that this file does not name."),
    ("region", "secret", "Row 12 of the data has a value in 'region' that this file does not name."),
]


@pytest.mark.parametrize(("column", "value", "sentence"), BAD_ROWS, ids=[f"{c}={v}" for c, v, _ in BAD_ROWS])
def test_bad_row_is_named_and_never_quoted(tmp_path: Path, column: str, value: str, sentence: str) -> None:
    """The reader looks the row up; the sentence holds nothing of it."""
    path = evaluation(tmp_path)
    rows = respondents(60)
    rows[11][["id", "region", "sex", "smokes", "height", "weight"].index(column)] = value
    write_csv(tmp_path / "people.csv", rows)
    with pytest.raises(InvalidRequestError) as caught:
        read_data(read_run_file(path), lambda _done, _total: None)
    assert sentence in caught.value.text
    assert "secret" not in caught.value.text + caught.value.hint


def test_broken_file_is_refused_without_quoting_it(tmp_path: Path) -> None:
    """A row that is too long, bytes that are no text, a Parquet file that is none, an empty file."""
    path = evaluation(tmp_path)
    for content in (
        b"1,secret,f,daily\n",
        b"id,region,sex,smokes,height,weight\n1,east,secret\n",
        b"id,region\n\xff\xfe,secret\n",
        b"",
        b"id,region,sex,smokes,height,weight\n",
    ):
        (tmp_path / "people.csv").write_bytes(content)
        with pytest.raises(InvalidRequestError) as caught:
            read_data(read_run_file(path), lambda _done, _total: None)
        assert caught.value.code == "RUN_INVALID"
        assert "secret" not in caught.value.text
    (tmp_path / "people.parquet").write_bytes(b"PAR1 secret")
    path.write_text(RUN.replace("people.csv", "people.parquet"), "utf-8")
    with pytest.raises(InvalidRequestError, match="cannot be read"):
        read_data(read_run_file(path), lambda _done, _total: None)


def test_run_that_asks_nothing_is_refused(tmp_path: Path) -> None:
    """A mean has no column if there are categories only."""
    run = RUN.replace("queries: [count, sum, mean]", "queries: [mean]").replace(
        "  height: {low: 1, high: 2, not_stated: [9.99]}\n", ""
    )
    error = refused(tmp_path, run)
    assert "No query fits a column" in error.text
    assert error.details["number"] == str(line_of(run, "queries"))


def test_run_that_asks_for_more_than_anybody_reads_is_refused(tmp_path: Path) -> None:
    """Strata times categories have a limit."""
    many = ", ".join(f"c{number}" for number in range(4000))
    run = RUN.replace("east, west, north", ", ".join(f"s{number}" for number in range(40)))
    error = refused(tmp_path, run.replace("daily, sometimes, never", many))
    assert "This mechanism would answer 160080 cells, more than 100000." in error.text


def test_rare_stratum_is_not_suggested(tmp_path: Path) -> None:
    """The nearest name comes from the run file and from strata that many rows have."""
    error = refused(tmp_path, RUN.replace("east, west, north", "east, west, north, northh"))
    assert "'north'" in error.text


def test_values_are_what_is_written(tmp_path: Path) -> None:
    """YAML's own readings of plain words are not used."""
    path = evaluation(tmp_path, run=RUN.replace("[daily, sometimes, never]", "[no, 01, 1e3]"))
    (smokes,) = (column for column in read_run_file(path).columns if column.name.text == "smokes")
    assert [word.text for word in smokes.categories] == ["no", "01", "1e3"]


def test_what_is_left_out_is_the_careful_choice(tmp_path: Path) -> None:
    """Data are internal unless declared otherwise; a row is added or removed."""
    path = evaluation(tmp_path, run=RUN.replace("standing: synthetic\n", ""))
    run = read_run_file(path)
    assert run.standing is Standing.INTERNAL
    assert run.neighbours is Neighbours.ADDED


def test_the_example_is_read() -> None:
    """It comes with the lab, and so do its people."""
    run = read_run_file(EXAMPLE_RUN)
    data = read_data(run, lambda _done, _total: None)
    assert data.rows == 10_000
    assert run.standing is Standing.SYNTHETIC


@pytest.mark.parametrize("profile", ["", "profile: as-published\n"])
def test_data_that_may_never_end_are_refused(tmp_path: Path, profile: str) -> None:
    """A device, a pipe or a folder is no data file; nothing is read from it."""
    os.mkfifo(tmp_path / "pipe")
    for name in ("/dev/zero", "pipe", "."):
        path = evaluation(tmp_path, run=profile + RUN.replace("people.csv", name))
        with pytest.raises(InvalidRequestError, match="is no regular file") as caught:
            read_run_file(path)
        assert f"line {2 if profile else 1}" in caught.value.text


def test_a_run_file_without_an_end_is_refused() -> None:
    """No more is read than a run file may have."""
    with pytest.raises(InvalidRequestError, match="longer than 262144 characters"):
        read_run_file(Path("/dev/zero"))


def test_example_names_stay_inside_the_lab(tmp_path: Path) -> None:
    """'example:' reaches no other file."""
    path = evaluation(tmp_path, run=RUN.replace("people.csv", "example:../../../../etc/passwd"))
    assert read_run_file(path).data.parent != Path("/etc")
