"""The report: its mark, its promises, its cautions, and the command as users run it."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pytest
from click.testing import Result
from fakes.invoking import invoke
from unit.lab.evaluate.made_up import write_people
from unit.lab.evaluations import RUN, evaluation, respondents, write_csv

from broker_common.cli import program
from broker_common.errors import InvalidRequestError
from broker_common.language import language
from policy_lab.document import stored, terminal
from policy_lab.document.model import Bars, Document, Heat, Lines, Table
from policy_lab.evaluate.run_file import EXAMPLE_RUN, read_run_file
from policy_lab.standing import Standing


def command(*words: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    """`tripartite lab evaluate`, run in a folder."""
    monkeypatch.chdir(folder)
    return invoke(program, ["lab", "evaluate", *words], catch_exceptions=False)


@pytest.fixture(name="folder", scope="module")
def made_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was evaluated into `out`."""
    folder = tmp_path_factory.mktemp("evaluated")
    evaluation(folder)
    with pytest.MonkeyPatch.context() as patch:
        done = command("run.yaml", "--out", "out", folder=folder, monkeypatch=patch)
    assert done.exit_code == 0, done.output
    return folder


def tables(document: Document) -> dict[str, Table]:
    """The tables by their keys."""
    return {block.key: block for section in document.sections for block in section.blocks if isinstance(block, Table)}


def test_every_file_has_the_mark_and_is_its_owners_alone(folder: Path) -> None:
    """An error beside a noisy answer gives the exact value away."""
    out = folder / "out"
    mark = Standing.SYNTHETIC.mark
    assert mark in (out / "report.html").read_text()
    assert json.loads((out / "document.json").read_text())["mark"] == mark
    written = [path for path in out.rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in written} == {0o600}
    sheets = [path for path in written if path.suffix == ".csv"]
    assert {path.name for path in sheets} >= {"errors.csv", "composition.csv", "linkage.csv"}
    assert all(path.read_text().startswith(f"# {mark}\n") for path in sheets)


def test_errors_have_a_row_for_each_cell(folder: Path) -> None:
    """Every mechanism, epsilon, stratum, column, query and category once."""
    rows = list(csv.DictReader(io.StringIO((folder / "out" / "errors.csv").read_text().partition("\n")[2])))
    keys = [
        tuple(row[name] for name in ("mechanism", "epsilon", "stratum", "column", "query", "category")) for row in rows
    ]
    assert len(keys) == len(set(keys)) == 3 * 2 * 3 * (3 + 1 + 1)
    assert {row["bias"] == "" for row in rows if (row["mechanism"], row["query"]) == ("global", "mean")} == {True}
    assert {row["bias"] == "" for row in rows if (row["mechanism"], row["query"]) != ("global", "mean")} == {False}


def test_the_report_has_all_its_parts(folder: Path) -> None:
    """Promises first, then errors, likeness, linkage and mixtures; bars, heat maps and lines."""
    document = stored.read(folder / "out")
    assert [section.key for section in document.sections] == [
        *("evaluated", "promises", "errors", "likeness", "linkage", "mixture")
    ]
    kinds = {type(block) for section in document.sections for block in section.blocks}
    assert {Bars, Heat, Lines, Table} <= kinds
    assert document.command == "tripartite lab evaluate run.yaml"
    text = terminal.text(document, language("en"))
    assert "all answers of one release together have epsilon 1.5; 6 and delta 0" in text
    assert "what one respondent sends has epsilon 1; 4 and delta 0, also against the agency" in text
    assert "what leaves the shuffler has epsilon 1; 4 and delta 0; 0 for every respondent" in text
    assert "One respondent's row is added or removed." in text
    assert text.count("It does not apply to") == 3
    assert "clipping" in text
    assert "a mean is little more than the middle of the public bounds" in text
    french = terminal.text(document, language("fr"))
    assert "Ce que promet chaque mécanisme" in french
    assert "epsilon 1,5; 6" in french


def test_the_baseline_stands_last(folder: Path) -> None:
    """Columns that were permuted one by one, beside every mechanism."""
    found = tables(stored.read(folder / "out"))
    for key in ("shapes", "pairs"):
        assert found[key].rows[-1][0] == "columns permuted one by one"
        assert len(found[key].rows) == 2 * 2 + 1


def test_a_stratum_of_one_row_is_evaluated_with_a_caution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its exact figure is one person's answer; a mean of nobody who stated a number is empty."""
    evaluation(tmp_path)
    rows = [row for row in respondents(60) if row[1] != "north"]
    write_csv(tmp_path / "people.csv", [*rows, ["60", "north", "f", "daily", "", "10"]])
    done = command("run.yaml", folder=tmp_path, monkeypatch=monkeypatch)
    assert done.exit_code == 0, done.output
    assert "Stratum 'north' has one respondent" in done.output


def test_a_check_draws_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promises are known before; errors are not."""
    evaluation(tmp_path)
    monkeypatch.setattr("policy_lab.evaluate.running.run_all", None)
    done = command("run.yaml", "--check", "--json", folder=tmp_path, monkeypatch=monkeypatch)
    assert done.exit_code == 0, done.output
    shown = json.loads(done.stdout)
    assert [section["key"] for section in shown["sections"]] == ["evaluated", "promises"]
    assert shown["command"] == "tripartite lab evaluate --check run.yaml"
    assert "12 parts: 3 mechanisms, 2 epsilons, 2 repetitions; 90 cells" in done.stdout


def test_clipped_weights_and_moved_numbers_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On standard error, so that --json keeps standard output for itself."""
    evaluation(tmp_path)
    done = command("run.yaml", "--check", "--json", folder=tmp_path, monkeypatch=monkeypatch)
    assert "of 60 weights are above the cap of 90 and were clipped to it." in done.stderr
    assert "numbers in 'height' lie outside of the public bounds" in done.stderr
    json.loads(done.stdout)


def test_the_example_prints_and_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It prints a run file; its people are the ones that the program makes."""
    done = command("--example", folder=tmp_path, monkeypatch=monkeypatch)
    (tmp_path / "run.yaml").write_text(done.stdout, "utf-8")
    assert read_run_file(tmp_path / "run.yaml").columns == read_run_file(EXAMPLE_RUN).columns
    checked = command("run.yaml", "--check", folder=tmp_path, monkeypatch=monkeypatch)
    assert checked.exit_code == 0, checked.output
    made = io.StringIO()
    write_people(made)
    shipped = gzip.decompress((EXAMPLE_RUN.parent / "people.csv.gz").read_bytes()).decode()
    assert made.getvalue() == shipped


def test_a_run_file_that_does_not_fit_is_exit_code_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence, never a traceback."""
    evaluation(tmp_path, run=RUN.replace("  - global", "  - central"))
    with pytest.raises(InvalidRequestError, match="line 21: There is no mechanism 'central'"):
        command("run.yaml", folder=tmp_path, monkeypatch=monkeypatch)


@pytest.mark.parametrize(
    "words", [[], ["run.yaml", "--example"], ["run.yaml", "--check", "--out", "x"], ["run.yaml", "--pdf"]]
)
def test_options_that_do_not_go_together_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """Before anything is read."""
    evaluation(tmp_path)
    assert command(*words, folder=tmp_path, monkeypatch=monkeypatch).exit_code == 2


def test_mechanisms_that_send_nothing_leave_their_sections_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise on results alone: no file is sent that could look like the true one. Without strata and weights, too."""
    text = RUN[: RUN.index("weights:")] + RUN[RUN.index("static:") : RUN.index("  - local")]
    evaluation(tmp_path, run=text.replace("repetitions: 2", "repetitions: 1"))
    done = command("run.yaml", "--json", folder=tmp_path, monkeypatch=monkeypatch)
    assert [section["key"] for section in json.loads(done.stdout)["sections"]] == ["evaluated", "promises", "errors"]


def test_a_profile_has_no_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would draw noise all the same."""
    evaluation(tmp_path, run="profile: as-published\nseed: 1\nrepetitions: 1\nepsilons: [0.6]\ndata: people.csv\n")
    done = command("run.yaml", "--check", folder=tmp_path, monkeypatch=monkeypatch)
    assert (done.exit_code, "a profile has its methods" in done.output) == (2, True)


def test_the_published_profile_names_the_line_of_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile needs no columns of its own; a file that is not the survey's is refused where the run file names it."""
    profile = "profile: as-published\nseed: 1\nrepetitions: 1\nepsilons: [0.6]\ndata: people.csv\n"
    evaluation(tmp_path, run=profile)
    with pytest.raises(InvalidRequestError, match=r"run\.yaml, line 5: "):
        command("run.yaml", folder=tmp_path, monkeypatch=monkeypatch)
