"""`tripartite lab sensitivity`: the warning comes first and is everywhere, files are private, mistakes have sentences."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from fakes.invoking import invoke
from unit.lab.sensitivity.made_up import made_up_people

from broker_common.errors import BrokerError
from policy_lab.cli import lab
from policy_lab.document import stored
from policy_lab.sensitivity import licence, texts
from policy_lab.standing import Standing

ROWS = 400


@pytest.fixture
def files(undrawn: None, tmp_path: Path) -> tuple[Path, Path]:
    """A table, and synthetic rows of some generator; no plots."""
    del undrawn
    return make_files(tmp_path)


def make_files(tmp_path: Path) -> tuple[Path, Path]:
    """A table, and synthetic rows of some generator."""
    table, generated = tmp_path / "people.csv", tmp_path / "generated.csv"
    table.write_text(made_up_people(rows=ROWS, seed=1))
    generated.write_text(made_up_people(rows=ROWS + 100, seed=2))
    return table, generated


def run(*words: str | Path) -> Result:
    """The command, as its errors leave it."""
    return invoke(lab, ["sensitivity", *map(str, words)], standalone_mode=False)


def evaluated(files: tuple[Path, Path], out: Path, *words: str) -> dict[str, Any]:
    """Output of `--json` about the synthetic rows."""
    table, generated = files
    done = run(table, "--generated", generated, "--out", out, "--json", "--samples", "3", "--repetitions", "20", *words)
    assert done.exception is None, done.exception
    assert done.stdout.count("\n") == 1
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def error_of(*words: str | Path) -> BrokerError:
    """The error that a command ends with."""
    error = run(*words).exception
    assert isinstance(error, BrokerError), error
    assert error.exit_code == 3
    return error


def test_the_warning_comes_first_and_is_on_every_output(tmp_path: Path) -> None:
    """On the terminal before anything is computed, in the first section, in JSON, and in the name of each table and plot."""
    out = tmp_path / "out"
    table, generated = make_files(tmp_path)
    done = run(table, "--generated", generated, "--out", out, "--column", "age", "--samples", "2", "--repetitions", "5")
    assert done.stderr.startswith(texts.NOT_PRIVATE)
    assert done.stdout.index("not differentially private") < done.stdout.index("Settings")
    document = stored.read(out)
    assert document.sections[0].title == texts.WARNING
    assert "not differentially private" in document.title
    page = (out / "report.html").read_text()
    assert page.index("not differentially private") < page.index("Settings")
    drawn = [path.name for part in ("tables", "plots") for path in (out / part).iterdir()]
    assert len(drawn) == 7
    assert all(name.startswith("not-differentially-private") for name in drawn)


def test_the_bounds_are_said_to_be_those_of_an_idealised_listing(files: tuple[Path, Path], tmp_path: Path) -> None:
    """The rows that training gives depend on the table, and nothing is proven about them."""
    out = tmp_path / "out"
    evaluated(files, out, "--column", "age")
    page = (out / "report.html").read_text()
    assert "for a trained generator they are not proven" in page
    assert "any epsilon that could hold" not in page
    assert "best case" not in page


def test_the_arithmetic_of_0_575_percent_is_printed_exactly(files: tuple[Path, Path], tmp_path: Path) -> None:
    """The rounded figure, the exact one, and what both leave out."""
    table, generated = files
    shown = run(table, "--generated", generated, "--out", tmp_path / "out", "--column", "age").stdout
    steps = [re.findall(r"[\d.]+$", line)[0] for line in shown.split(texts.ARITHMETIC)[1].splitlines()[2:8]]
    assert steps == ["25.000000", "2.300000", "0.575000", "2.275013", "0.568753", "24.431247"]


def test_everything_is_for_its_owner_alone_and_marked(files: tuple[Path, Path], tmp_path: Path) -> None:
    """Exact results stand in it: mode 0600 in folders of 0700, internal unless the holder declares otherwise."""
    out = tmp_path / "out"
    found = evaluated(files, out, "--column", "age")
    assert found["mark"] == str(Standing.INTERNAL.mark)
    assert {stat.S_IMODE(path.stat().st_mode) for path in out.rglob("*") if path.is_file()} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (out, *(p for p in out.rglob("*") if p.is_dir()))} == {0o700}
    for path in (out / "tables").iterdir():
        assert path.read_text().startswith(f"# {Standing.INTERNAL.mark}\n")
    assert not stored.read(out).standing.may_be_assessed
    assert evaluated(files, tmp_path / "public", "--column", "age", "--standing", "synthetic")["mark"] == str(
        Standing.SYNTHETIC.mark
    )
    assert stored.read(tmp_path / "public").standing.may_be_assessed


def test_json_says_what_was_found(files: tuple[Path, Path], tmp_path: Path) -> None:
    """Each column, query and number of rows; that it is not private; and the neighbours."""
    found = evaluated(files, tmp_path / "out", "--column", "age", "--column", "income", "--bounds", "age=0:120")
    assert found["differentially_private"] is False
    assert found["arithmetic"]["argued"] == 0.00575
    assert len(found["trials"]) == 2 * 2 * 4
    assert {each["rows"] for each in found["trials"]} == {50, 100, 200, 400}
    assert {each["column"] for each in found["trials"] if each["bounded_error"] is not None} == {"age"}
    assert all(each["epsilon_at_least"] > 2 for each in found["neighbours"])
    assert len(found["neighbours"]) == 2 * 2 * 2


def test_the_same_seed_gives_the_same_document(files: tuple[Path, Path], tmp_path: Path) -> None:
    """And another one another: the noise is drawn from it."""
    first, again = (evaluated(files, tmp_path / name, "--column", "age") for name in "ab")
    other = evaluated(files, tmp_path / "c", "--column", "age", "--seed", "2")
    assert first["trials"] == again["trials"] != other["trials"]
    assert (tmp_path / "a" / "document.json").read_bytes() == (tmp_path / "b" / "document.json").read_bytes()


def test_the_command_in_the_report_makes_it_again(files: tuple[Path, Path], tmp_path: Path) -> None:
    """Everything that matters stands in it, in any folder."""
    found = evaluated(files, tmp_path / "out", "--column", "age", "--bounds", "age=0:120", "--epsilon", "0.5")
    words = found["command"].split()[3:]
    assert words[words.index("--out") + 1] == "DIR"
    words[words.index("--out") + 1] = str(tmp_path / "again")
    again = json.loads(run("--json", *words).stdout)
    assert again["trials"] == found["trials"]


def test_refused_estimates_are_counted_and_in_no_mean(tmp_path: Path) -> None:
    """A generated maximum far above the real one makes estimates negative: about a quarter is refused."""
    table, generated = tmp_path / "table.csv", tmp_path / "generated.csv"
    table.write_text("x\n" + "1\n" * 50)
    generated.write_text("x\n" + "1000\n" * 50)
    found = evaluated((table, generated), tmp_path / "out", "--rows", "50", "--repetitions", "1000")
    trial = found["trials"][0]
    assert 0.2 < trial["refused"] < 0.25
    assert abs(trial["refused_here"] / 3000 - trial["refused"]) < 0.05
    assert trial["estimate"] > 1


def test_a_column_below_zero_is_answered_never_and_the_report_says_so(tmp_path: Path) -> None:
    """The source's sensitivity is negative, all estimates are refused, and nothing in the files is NaN."""
    table = tmp_path / "table.csv"
    table.write_text("x\n" + "-5\n" * 50)
    found = evaluated((table, table), tmp_path / "out")
    assert [each["answer_error"] for each in found["trials"]] == [None] * len(found["trials"])
    assert found["neighbours"] == []
    page = (tmp_path / "out" / "report.html").read_text()
    assert "nan" not in page.lower().replace("nanosecond", "")
    assert "has values below zero" in page
    assert "every estimate was refused" in page


@pytest.mark.parametrize("epsilon", ["0", "-1", "1e308", "nan", "inf", "one", "1e-400", ""])
def test_epsilon_of_no_use_is_refused(epsilon: str, files: tuple[Path, Path], tmp_path: Path) -> None:
    """Before anything is read or written."""
    out = tmp_path / "out"
    error = error_of(files[0], "--generated", files[1], "--out", out, "--epsilon", epsilon)
    assert "epsilon" in error.text
    assert not out.exists()


BAD = {
    "unknown column": (["--column", "age", "--column", "agee"], "there is no column agee"),
    "column of words": (["--column", "sector"], "not numbers"),
    "bounds without a column": (["--bounds", "0:10"], "is not COLUMN=LOW:HIGH"),
    "bounds of an unknown column": (["--bounds", "agee=0:10"], "names no column"),
    "bounds of a column that is not asked about": (["--column", "income", "--bounds", "age=0:10"], "names no column"),
    "bounds twice": (["--bounds", "age=0:10", "--bounds", "age=0:11"], "is not COLUMN=LOW:HIGH"),
    "bounds that descend": (["--bounds", "age=10:0"], "lower one first"),
    "bounds that are no numbers": (["--bounds", "age=young:old"], "not a number"),
    "more rows than there are": (["--rows", "401"], "more than the 400 rows"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_option_is_refused_with_a_sentence(what: str, files: tuple[Path, Path], tmp_path: Path) -> None:
    """Exit code 3, and what to do."""
    words, problem = BAD[what]
    error = error_of(files[0], "--generated", files[1], "--out", tmp_path / "out", *words)
    assert problem in error.text
    assert error.hint


def test_files_that_cannot_be_used_are_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    """No column of numbers, too few generated rows, generated rows without the column."""
    words, short, other = (tmp_path / f"{name}.csv" for name in ("words", "short", "other"))
    words.write_text("town\nAyr\nEly\n")
    short.write_text(made_up_people(rows=50, seed=2))
    other.write_text("a,b\n1,2\n3,4\n")
    out = tmp_path / "out"
    assert "no column of numbers" in error_of(words, "--generated", words, "--out", out).text
    assert "50 rows, and 400 are needed" in error_of(files[0], "--generated", short, "--out", out).text
    assert "names none of the columns that are asked for" in error_of(files[0], "--generated", other, "--out", out).text


def test_rows_without_any_value_are_refused(tmp_path: Path) -> None:
    """So few were asked for that none of them has a value."""
    table = tmp_path / "table.csv"
    table.write_text("x,y\n" + "?,1\n" * 199 + "7,1\n")
    error = error_of(table, "--generated", table, "--out", tmp_path / "out", "--column", "x", "--rows", "2")
    assert "no value at all" in error.text


def test_french_environment_is_answered_in_french(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The warning and the report."""
    monkeypatch.setenv("TRIPARTITE_LANG", "fr")
    done = run(files[0], "--generated", files[1], "--out", tmp_path / "out", "--column", "age")
    assert "n\N{RIGHT SINGLE QUOTATION MARK}offre pas de confidentialité différentielle" in done.stderr
    assert "0,575000" in done.stdout
    assert "not differentially" not in done.stdout


def pretend(folder: Path, name: str, version: str, text: str) -> None:
    """An installed distribution with this licence, as far as its metadata go."""
    info = folder / f"{name}-{version}.dist-info"
    (info / "licenses").mkdir(parents=True)
    (info / "licenses" / "LICENSE").write_text(text)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nProject-URL: Source Code, https://example.org/{name}\n"
    )
    (info / "RECORD").write_text(f"{info.name}/METADATA,,\n{info.name}/licenses/LICENSE,,\n")


@pytest.fixture
def pretended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two distributions under a licence, that are there instead of CTGAN's."""
    folder = tmp_path / "site"
    for name in ("pretended-gan", "pretended-part"):
        pretend(folder, name.replace("-", "_"), "1.0", "Business Source License 1.1\n\n" + "Parameters\n" * 60)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(licence, "LICENSED", ("pretended_gan", "pretended_part"))
    return folder


def test_licence_is_shown_before_use_and_not_taken_for_accepted(pretended: Path, tmp_path: Path) -> None:
    """Name, version, first lines, the file and the address; nobody at a terminal says yes, so it ends there."""
    del pretended
    shown: list[str] = []
    with pytest.raises(BrokerError) as caught:
        licence.accept(tmp_path / "out", is_accepted=False, show=shown.append)
    assert (caught.value.code, caught.value.exit_code) == ("LICENCE_NOT_ACCEPTED", 3)
    assert len(shown) == 2
    for part in ("pretended_gan 1.0", "| Business Source License 1.1", "https://example.org/pretended_gan", "LICENSE"):
        assert part in shown[0]
    assert not (tmp_path / "out").exists()


def test_accepted_licence_is_remembered_until_its_text_changes(pretended: Path, tmp_path: Path) -> None:
    """In the output folder, for its owner alone; another version or text is asked about again."""
    out, shown = tmp_path / "out", list[str]()
    licence.accept(out, is_accepted=True, show=shown.append)
    assert len(shown) == 2
    remembered = out / licence.REMEMBERED
    assert stat.S_IMODE(remembered.stat().st_mode) == 0o600
    assert set(json.loads(remembered.read_text())) == {"pretended_gan 1.0", "pretended_part 1.0"}
    licence.accept(out, is_accepted=False, show=shown.append)
    assert len(shown) == 2
    (pretended / "pretended_part-1.0.dist-info" / "licenses" / "LICENSE").write_text("Another licence\n")
    with pytest.raises(BrokerError, match="LICENCE_NOT_ACCEPTED"):
        licence.accept(out, is_accepted=False, show=shown.append)
    assert "Another licence" in shown[-1]


def test_without_ctgan_the_error_says_how_to_go_on(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not installed with the lab: the hint names the install, and rows of any generator instead."""
    monkeypatch.setattr(licence, "LICENSED", ("no_such_distribution",))
    error = error_of(files[0], "--out", tmp_path / "out", "--accept-licence")
    assert error.code == "CTGAN_NOT_INSTALLED"
    assert "--generated" in error.hint


def test_generated_rows_and_a_model_cannot_be_combined(files: tuple[Path, Path], tmp_path: Path) -> None:
    """A wrong command line."""
    done = invoke(
        lab,
        ["sensitivity", str(files[0]), "--generated", str(files[1]), "--model", str(tmp_path), "--out", str(tmp_path)],
    )
    assert done.exit_code == 2


def test_bounds_quote_no_first_line_that_may_be_somebodys_row(tmp_path: Path) -> None:
    """Nearest names are given once a column that was asked for is there."""
    table, out = tmp_path / "people.csv", tmp_path / "out"
    table.write_text("Alice,52000\nBob,41000\nCarol,7\n")
    error = error_of(table, "--generated", table, "--out", out, "--bounds", "income=0:10")
    assert "52000" not in f"{error.text} {error.hint}"
    table.write_text("name,income\nBob,41000\nCarol,7\n")
    error = error_of(table, "--generated", table, "--out", out, "--column", "income", "--bounds", "incom=0:10")
    assert "nearest names are: income" in error.hint
