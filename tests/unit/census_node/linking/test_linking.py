"""A whole linkage: what it leaves on disk, what it says, and what changes when it runs again."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from fakes.invoking import invoke
from fakes.nursery import PROGRAM
from unit.census_node.linking.registers import CENSUS_COLUMNS, Registers, links_in, rows_of, write_rows

from broker_common.errors import InvalidRequestError, RefusedError
from broker_common.storage.durable import exclusive
from census_node.cli import commands
from census_node.linking.report import wilson

# Each links thousands of people, some in processes of their own.
pytestmark = pytest.mark.process

FILES = {"people.csv", "review.csv", "linkage-report.json", "linkage-report.txt"}
LOCK = ".linking.lock"


@pytest.fixture(scope="module")
def registers(tmp_path_factory: pytest.TempPathFactory) -> Registers:
    """Three thousand people."""
    return Registers.made(tmp_path_factory.mktemp("linking") / "registers", 3_000, 5)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Registers:
    """Six hundred, where nothing is learned."""
    return Registers.made(tmp_path_factory.mktemp("few") / "registers", 600, 5)


def threads(folder: Path, number: int) -> Path:
    """Settings with so many."""
    settings = folder / "linking.toml"
    settings.write_text(f"threads = {number}")
    return settings


@pytest.fixture(scope="module")
def linked(registers: Registers, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Result of linking them, in one thread."""
    to = tmp_path_factory.mktemp("linked")
    registers.link(to, settings=threads(tmp_path_factory.mktemp("settings"), 1))
    return to


# --- what is left ------------------------------------------------------------------------------------------------------


def test_everything_is_its_owners_alone_and_nothing_else_is_left(linked: Path) -> None:
    """Four files, mode 0600; the private folder is gone."""
    assert {path.name for path in linked.iterdir()} == FILES | {LOCK}
    assert {stat.S_IMODE((linked / name).stat().st_mode) for name in FILES} == {0o600}


def test_names_are_in_the_review_file_alone(registers: Registers, linked: Path) -> None:
    """Neither in the table nor in the report is any surname, birth date or postal code of anybody."""
    values = {
        row[name].encode()
        for file in (registers.census, registers.register)
        for row in rows_of(file)
        for name in ("surname", "birth_date", "postal_code")
        if len(row[name]) > 6
    }
    assert len(values) > 3_000
    for name in FILES - {"review.csv"}:
        content = (linked / name).read_bytes()
        assert not [value for value in values if value in content]
    review = (linked / "review.csv").read_bytes()
    assert [value for value in values if value in review]


def test_the_table_has_every_person_of_the_census_file_as_they_were(registers: Registers, linked: Path) -> None:
    """In the order of the file, with its other columns untouched; unlinked people have no card."""
    people, census = rows_of(linked / "people.csv"), rows_of(registers.census)
    carried = [name for name in people[0] if name != "health_card"]
    assert [name for name in census[0] if name not in CENSUS_COLUMNS[2:7]] == carried
    once = {row["person_id"]: [row[name] for name in carried] for row in people}
    assert list(once.values()) == [[row[name] for name in carried] for row in census]
    links = links_in(linked)
    assert len(once) < len(people) < len(once) + 100, "some have two cards"
    assert len(links) == sum(1 for row in people if row["health_card"])


def test_a_linkage_that_fails_leaves_what_was_there(registers: Registers, tmp_path: Path) -> None:
    """The old table stands, and no names stay in a private folder."""
    (tmp_path / "people.csv").write_text("before")
    broken = Registers(tmp_path / "broken")
    broken.folder.mkdir()
    broken.census.write_bytes(registers.census.read_bytes())
    broken.register.write_text("health_card\n")
    with pytest.raises(InvalidRequestError):
        broken.link(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"broken", "people.csv", LOCK}
    assert (tmp_path / "people.csv").read_text() == "before"


def test_what_a_killed_run_left_is_erased_by_the_next(registers: Registers, tmp_path: Path) -> None:
    """Its private folder held names."""
    left = tmp_path / ".linking"
    left.mkdir()
    (left / "pairs.duckdb").write_text("names")
    registers.link(tmp_path, mode="nominative")
    assert not left.exists()


def test_one_run_at_a_time_works_in_a_folder(registers: Registers, tmp_path: Path) -> None:
    """A second one would erase what the first is about."""
    with exclusive(tmp_path / LOCK), pytest.raises(RefusedError) as caught:
        registers.link(tmp_path)
    assert caught.value.code == "LOADING"


def test_no_spreadsheet_runs_what_somebody_typed_as_a_name(registers: Registers, tmp_path: Path) -> None:
    """A formula in the review file would be run by the clerk who opens it."""
    found = Registers(tmp_path / "typed")
    found.folder.mkdir()
    found.register.write_bytes(registers.register.read_bytes())
    rows = rows_of(registers.census)
    write_rows(found.census, list(rows[0]), [row | {"given_name": f" ={row['given_name']}"} for row in rows])
    found.link(tmp_path / "linked", mode="nominative")
    shown = [value for row in rows_of(tmp_path / "linked" / "review.csv") for value in row.values()]
    assert [value for value in shown if value.startswith("' =")]
    assert not [value for value in shown if value.lstrip().startswith(("=", "+", "-", "@"))]


# --- again -------------------------------------------------------------------------------------------------------------


def test_the_same_files_give_the_same_bytes(registers: Registers, linked: Path, tmp_path: Path) -> None:
    """However many threads add up."""
    again = tmp_path / "again"
    registers.link(again, settings=threads(tmp_path, 3))
    assert {name: (again / name).read_bytes() for name in FILES} == {
        name: (linked / name).read_bytes() for name in FILES
    }


def test_decisions_change_exactly_their_pairs(registers: Registers, linked: Path, tmp_path: Path) -> None:
    """A pair below the threshold is linked, a link that was drawn is undone, and nothing else differs."""
    rows = rows_of(linked / "review.csv")
    one = next(row for row in rows if row["why"] == "differs")
    other = next(row for row in rows if row["why"] == "sample")
    decided = write_rows(
        tmp_path / "decided.csv",
        list(one),
        [row | {"decision": {id(one): "link", id(other): "no"}.get(id(row), "")} for row in rows],
    )
    report = registers.link(tmp_path / "again", decisions=decided)
    pair, undone = ((row["health_card"], row["person_id"]) for row in (one, other))
    assert links_in(tmp_path / "again") == links_in(linked) - {undone} | {pair}
    assert (report["by_clerk"], report["review"]["decided"]) == (1, 2)
    # The new review file carries them on, so that it can be given again.
    carried = {
        (row["health_card"], row["person_id"]): row["decision"] for row in rows_of(tmp_path / "again/review.csv")
    }
    assert (carried[pair], carried[undone]) == ("link", "no")
    assert carried.keys() == {(row["health_card"], row["person_id"]) for row in rows}
    registers.link(tmp_path / "third", decisions=tmp_path / "again" / "review.csv")
    assert links_in(tmp_path / "third") == links_in(tmp_path / "again")


# --- what cannot be learned --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "told"),
    [("postal_code", "no pairs agree in surname, postal_code"), ("sex", "anything of the column sex")],
)
def test_a_column_that_tells_nothing_is_named(few: Registers, tmp_path: Path, column: str, told: str) -> None:
    """Nobody has a value in it, so nothing can be learned of it; the document is named that says what to do."""
    found = Registers(tmp_path / "without")
    found.folder.mkdir()
    for file in ("census.csv", "register.csv"):
        rows = rows_of(few.folder / file)
        write_rows(found.folder / file, list(rows[0]), [row | {column: ""} for row in rows])
    with pytest.raises(InvalidRequestError) as caught:
        found.link(tmp_path)
    assert caught.value.code == "LINKING_NOT_LEARNED"
    assert told in caught.value.text
    assert "docs/linkage.md" in caught.value.hint


def test_learning_that_does_not_end_is_an_error(
    few: Registers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figures that still move are no figures."""
    monkeypatch.setattr("census_node.linking.model._MOST_ITERATIONS", 1)
    with pytest.raises(InvalidRequestError) as caught:
        few.link(tmp_path)
    assert caught.value.code == "LINKING_NOT_LEARNED"
    assert "still changed after 1 rounds" in caught.value.text


def test_a_command_that_is_told_to_end_leaves_no_names(registers: Registers, tmp_path: Path) -> None:
    """Wherever it is told, and whatever the library makes of that: its exit code is that of an interrupt."""
    words = [str(PROGRAM), "census", "link", str(registers.census), str(registers.register), "--to", str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("Linking: ")
        assert (tmp_path / ".linking").is_dir()
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate()
    assert process.returncode == 130
    assert "unforeseen" not in told
    assert {path.name for path in tmp_path.iterdir()} == {LOCK}


def test_too_little_memory_is_said_as_that(
    registers: Registers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library's error may hold a query, and is not shown."""
    connect, little = duckdb.connect, {"memory_limit": "4MB", "max_temp_directory_size": "1MB"}
    monkeypatch.setattr(duckdb, "connect", lambda path, *, config: connect(path, config=config | little))
    with pytest.raises(InvalidRequestError) as caught:
        registers.link(tmp_path)
    assert "memory_mib" in caught.value.text


# --- the command -------------------------------------------------------------------------------------------------------


def test_the_command_prints_the_report_and_where_the_files_are(registers: Registers, tmp_path: Path) -> None:
    """As one object, or for people; marked as internal both times."""
    words = ["link", str(registers.census), str(registers.register), "--to", str(tmp_path), "--mode", "nominative"]
    shown = invoke(commands, words, catch_exceptions=False)
    assert shown.exit_code == 0
    assert shown.stdout.startswith("INTERNAL: for the linkage staff")
    assert str(tmp_path / "review.csv") in shown.stdout
    assert (tmp_path / "linkage-report.txt").read_text() in shown.stdout
    told = json.loads(invoke(commands, [*words, "--json"]).stdout)
    assert told["internal"] is True
    assert told | json.loads((tmp_path / "linkage-report.json").read_text()) == told


def test_settings_are_found_in_the_home(registers: Registers, tmp_path: Path) -> None:
    """And results go there, where 'census load' looks for them."""
    (tmp_path / "linking.toml").write_text('mode = "nominative"\nthreshold = 0.9\n')
    words = ["link", str(registers.census), str(registers.register), "--home", str(tmp_path), "--json"]
    told = json.loads(invoke(commands, words, catch_exceptions=False).stdout)
    assert (told["mode"], told["threshold"]) == ("nominative", 0.9)
    assert Path(told["files"]["people"]) == tmp_path / "people.csv"


def test_without_a_folder_there_is_nothing_to_do(
    registers: Registers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The current folder is no home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRIPARTITE_HOME", raising=False)
    outcome = invoke(commands, ["link", str(registers.census), str(registers.register)])
    assert outcome.exit_code == 2
    assert "Give --to, or --home." in outcome.output


WITHOUT = """
import sys
sys.modules["splink"] = None
from broker_common.cli import main
main(sys.argv[1:])
"""


def test_without_the_extra_the_command_says_how_to_install_it(registers: Registers, tmp_path: Path) -> None:
    """And every other command works."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-c", WITHOUT, *words]
        return subprocess.run(program, capture_output=True, text=True, check=False, env=dict(os.environ))

    assert run("census", "--help").returncode == 0
    ended = run("census", "link", str(registers.census), str(registers.register), "--to", str(tmp_path), "--json")
    error = json.loads(ended.stdout)["error"]
    assert (ended.returncode, error["code"]) == (3, "LINKING_NOT_INSTALLED")
    assert "tripartite[link]" in error["hint"]
    assert list(tmp_path.iterdir()) == []


def test_wilsons_interval_is_his() -> None:
    """Figures from his formula, worked out elsewhere: 95 of 100, and both ends."""
    assert [round(value, 4) for value in wilson(95, 100)] == [0.95, 0.8882, 0.9785]
    assert wilson(0, 10)[1] == 0.0
    assert wilson(10, 10)[2] == 1.0
    assert wilson(0, 0) == (0.0, 0.0, 1.0)
