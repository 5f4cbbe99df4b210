"""Homes that must not be served: every command says so with exit code 7, and a service manager starts the node once.

test_rollback has the homes that were rolled back.
"""

from __future__ import annotations

import configparser
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from fakes.deployment import Deployment, Outcome, make, run, run_here

from broker_common.tlog.replay import FORMAT_VERSION

pytestmark = pytest.mark.process

STOPPED = 7
UNIT = Path(__file__).parents[2] / "deploy" / "monitoring" / "tripartite-census.service"
# More starts than any of these tests expects.
ENOUGH = 3
FORMAT = f'"format":{FORMAT_VERSION}'.encode()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """Two loaded nodes that do not run."""
    return make(tmp_path_factory.mktemp("stopped") / "deployment", population=10)


@pytest.fixture
def deployment(made: Deployment, tmp_path: Path) -> Deployment:
    """A copy for one test."""
    return Deployment(shutil.copytree(made.directory, tmp_path / "deployment"))


def change_entry(home: Path, sequence: int, old: bytes, new: bytes) -> None:
    """Put other bytes into an entry of a home's log."""
    with closing(sqlite3.connect(home / "journal.db")) as db, db:
        ((entry,),) = db.execute("select entry from entries where sequence = ?", [sequence])
        assert old in bytes(entry)
        changed = bytes(entry).replace(old, new)
        db.execute("update entries set entry = ? where sequence = ?", [changed, sequence])


def of_another_format(home: Path) -> None:
    """Made by another version of the program."""
    change_entry(home, 0, FORMAT, b'"format":5')


def with_a_damaged_entry(home: Path) -> None:
    """The load's dictionary has another name."""
    change_entry(home, 0, b".example/", b".exbmple/")


def with_a_broken_file(home: Path) -> None:
    """The journal's first page is gone."""
    with (home / "journal.db").open("r+b") as file:
        file.write(bytes(4096))


HARMS = [of_another_format, with_a_damaged_entry, with_a_broken_file]


@pytest.mark.parametrize("role", ["census", "health"])
@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
def test_every_command_ends_with_seven(deployment: Deployment, role: str, harm: Callable[[Path], None]) -> None:
    """The same code, whatever is tried; and no ready line."""
    home = deployment.home(role)
    harm(home)
    code = "FORMAT_UNKNOWN" if harm is of_another_format else "INTEGRITY"
    served = run(role, "serve", "--home", home)
    assert (served.code, served.stdout) == (STOPPED, "")
    assert f"[{code}]" in served.stderr
    if harm is of_another_format:
        assert "was made by another version of this program: format 5, " in served.stderr
        assert "Continue with the version that made it" in served.stderr
    orders = [("census", "shutdown"), ("census", "reopen", "--reason", "a test")] if role == "census" else []
    for words in ((role, "status"), (role, "load"), ("keys", "list"), *orders):
        outcome = run_here(*words, "--home", home, "--json")
        assert (outcome.code, outcome.error["code"]) == (STOPPED, code), words


def test_a_researchers_store_of_before_is_refused_with_what_to_do(deployment: Deployment) -> None:
    """Its rows mean something else now: no command guesses what, and none changes the file."""
    home = deployment.home("researcher")
    assert run_here("researcher", "answers", "--home", home).code == 0
    with closing(sqlite3.connect(home / "answers.db")) as db:
        db.execute("PRAGMA user_version=0")
    before = (home / "answers.db").read_bytes()
    for words in (("researcher", "answers"), ("audit", "export", "--to", deployment.directory / "export")):
        outcome = run_here(*words, "--home", home, "--json")
        assert (outcome.code, outcome.error["code"]) == (STOPPED, "FORMAT_UNKNOWN"), words
        assert "format 0, " in outcome.error["text"]
        assert "Continue with the version that made it" in outcome.error["hint"]
    served = run("researcher", "serve", "--home", home)
    assert (served.code, served.stdout) == (STOPPED, "")
    assert (home / "answers.db").read_bytes() == before


def starts(command: Callable[[], Outcome]) -> int:
    """How often systemd would start a command, by the rules of our unit: on failure, unless the exit code prevents it."""
    parser = configparser.RawConfigParser(strict=False)
    parser.read(UNIT, "utf-8")
    service = parser["Service"]
    assert service["Restart"] == "on-failure"
    prevented = {int(word) for word in service["RestartPreventExitStatus"].split()}
    for started in range(1, ENOUGH + 1):
        code = command().code
        if code == 0 or code in prevented:
            return started
    return ENOUGH


def test_a_service_manager_starts_a_damaged_home_once_and_what_may_pass_again(deployment: Deployment) -> None:
    """Trying for ever would hide that somebody has to look; a home that is served at the moment is tried again."""
    home = deployment.home("census")

    def serve() -> Outcome:
        return run("census", "serve", "--home", home)

    with deployment.node("census"):
        assert starts(serve) == ENOUGH
    with_a_damaged_entry(home)
    assert starts(serve) == 1
