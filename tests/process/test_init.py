"""`tripartite init`: a whole deployment in a folder of its own, or nothing."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.deployment import Deployment, Outcome, run, run_here
from fakes.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.process

EXPLICIT = (
    *("--population", "50", "--seed", "7", "--accounting", "strict"),
    *("--max-belief", "0.75", "--release-tick-ms", "30"),
)
SECRET_SUFFIXES = (".key",)
DATA_OF_PEOPLE = ("people.csv", "journal.db")
# Code for `python -c`: commands of the program one after the other, where one package cannot be found.
WITHOUT_A_PACKAGE = """
import contextlib, io, json, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from broker_common.cli import main
ended = []
for words in json.loads(sys.argv[2]):
    said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said[0]), contextlib.redirect_stderr(said[1]):
        try:
            main(words)
        except SystemExit as end:
            ended.append([end.code, *(each.getvalue() for each in said)])
print(json.dumps(ended))
"""


def snapshot(directory: Path) -> dict[str, bytes]:
    """Every file below a folder with its content."""
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """A deployment made with every option."""
    directory = tmp_path_factory.mktemp("made") / "not" / "there" / "yet"
    result = run("init", directory, *EXPLICIT, "--json").result
    assert result == {
        "directory": str(directory),
        "population": 50,
        "seed": 7,
        "accounting": "strict",
        "subject": "person",
        "linkage": "complementary",
        "max_belief": "0.75",
        "policy_hash": result["policy_hash"],
        "researcher_id": "researcher-1",
        "project": "official-languages",
    }
    return Deployment(directory)


def test_init_makes_four_homes_with_both_nodes_loaded(made: Deployment) -> None:
    """After `init` nothing is left to do but `up`."""
    folders = ["auditor", "census", "health", "researcher", "witness"]
    assert sorted(path.name for path in made.directory.iterdir()) == folders
    assert made.json("health", "status")["people"] == 50
    policy = made.json("census", "policy")
    assert (policy["max_belief"], policy["release_tick_ms"]) == ("0.75", 30)
    for role in ("health", "census"):
        assert (made.home(role) / "people.csv").read_text().startswith("health_card,")


def test_people_are_charged_for_their_own_samples_unless_told_otherwise(tmp_path: Path) -> None:
    """The default is a budget per person, without an end to answers; samples are kept for an audit for 90 days."""
    result = run_here("init", tmp_path / "d", "--population", "10", "--json").result
    assert result["accounting"] == "per_person"
    policy = Deployment(tmp_path / "d").json("census", "policy")
    assert [policy[name] for name in ("accounting", "subject", "max_answers")] == ["per_person", "person", 0]
    assert policy["sample_retention_ms"] == 90 * 86_400_000


def test_the_seed_decides_who_is_made_up(made: Deployment, tmp_path: Path) -> None:
    """The same seed makes the same people, keys excepted; another one makes others."""
    for seed in ("7", "8"):
        assert run_here("init", tmp_path / seed, "--population", "50", "--seed", seed, "--json").code == 0
    for role in ("health", "census"):
        same, other, first = (d / role / "people.csv" for d in (tmp_path / "7", tmp_path / "8", made.directory))
        assert same.read_bytes() == first.read_bytes() != other.read_bytes()
    assert (tmp_path / "7/health/keys/linkage.key").read_bytes() != (
        made.home("health") / "keys/linkage.key"
    ).read_bytes()


def test_init_accepts_an_empty_folder(tmp_path: Path) -> None:
    """A folder that was made beforehand, for its rights or its disk, is as good as none."""
    assert run_here("init", tmp_path, "--population", "10", "--json").code == 0
    assert Deployment(tmp_path).json("census", "status")["state"] == "serving"


def test_init_touches_nothing_in_a_folder_that_holds_something(made: Deployment, tmp_path: Path) -> None:
    """A second `init`, or one beside somebody's files, is refused and changes not a byte."""
    (tmp_path / "thesis.txt").write_text("years of work")
    for directory in (made.directory, tmp_path):
        before = snapshot(directory)
        outcome = run_here("init", directory, *EXPLICIT, "--json")
        assert (outcome.code, outcome.error["code"]) == (3, "HOME_INVALID")
        assert "not empty" in outcome.error["text"]
        assert snapshot(directory) == before


@pytest.mark.parametrize("max_belief", ["0.5", "1", "80%", "0.8e0", "+0.8", "1.2", "", "0.500001", "0." + "9" * 60])
def test_init_refuses_a_limit_that_is_none_and_leaves_nothing(tmp_path: Path, max_belief: str) -> None:
    """`--max-belief` is an exact decimal above 0.5 and below 1 under which at least one answer fits, or nothing is made."""
    outcome = run_here("init", tmp_path / "d", "--population", "10", "--max-belief", max_belief, "--json")
    assert (outcome.code, outcome.error["code"]) == (3, "INVALID_VALUE")
    assert not (tmp_path / "d").exists()


def test_secrets_and_records_are_for_their_owner_alone(made: Deployment) -> None:
    """Private keys, sources and journals have mode 0600, and the homes 0700."""
    files = [path for path in made.directory.rglob("*") if path.is_file()]
    guarded = [path for path in files if path.suffix in SECRET_SUFFIXES or path.name in DATA_OF_PEOPLE]
    assert len(guarded) >= 14
    assert {stat.S_IMODE(path.stat().st_mode) for path in guarded} == {0o600}
    assert {stat.S_IMODE(made.home(role).stat().st_mode) for role in ("researcher", "health", "census")} == {0o700}


def test_no_home_holds_a_key_that_its_role_may_not_hold(made: Deployment) -> None:
    """The linkage key never reaches the researcher; every private key stands in one home only, the linkage key in two."""
    holders: dict[bytes, list[str]] = {}
    for path in made.directory.rglob("*.key"):
        holders.setdefault(path.read_bytes(), []).append(path.relative_to(made.directory).parts[0])
    shared = [sorted(homes) for homes in holders.values() if len(homes) > 1]
    assert shared == [["census", "health"]]
    # The key that opens sealed openings, and nothing that signs or opens anything else.
    assert [path.name for path in made.home("auditor").rglob("*.key")] == ["oversight.key"]


@pytest.mark.parametrize("package", ["census_node", "health_node", "researcher_node"])
def test_a_role_that_is_not_installed_leaves_the_others_usable(made: Deployment, package: str) -> None:
    """Without a package its commands say so and what to install; the help and the other roles are as ever."""
    group = package.removesuffix("_node")
    other = "census" if package != "census_node" else "health"
    with_all = ["init", "somewhere", "--json"], ["up", str(made.directory)]
    status = [other, "status", "--home", str(made.home(other)), "--json"]
    commands = ["--help"], status, [group, "serve", "--json"], *with_all
    words = [sys.executable, "-c", WITHOUT_A_PACKAGE, package, json.dumps(commands)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    shown, present, absent, *refused = (Outcome(*each) for each in json.loads(ended.stdout))
    assert shown.code == 0, shown.stderr
    assert f"\n  {group} " not in shown.stdout
    assert (absent.code, absent.error["code"]) == (3, "NOT_INSTALLED")
    assert package in absent.error["text"]
    assert present.result
    assert present.stderr == ""
    for command in refused:
        assert command.code == 3
        assert "NOT_INSTALLED" in command.stdout + command.stderr
        assert package in command.stdout + command.stderr
