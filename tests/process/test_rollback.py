"""An older copy of a home does not serve: the witness store shuts it out, and without one the other agency's node does.

A backup is a copy of a home that was made while its node was down, which is the best kind there is. In every test something
has happened since that was shown to somebody.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fakes.deployment import FRENCH, Deployment, Node, Outcome, make, wait_until
from fakes.homes import forget_witness_store, witness_store
from fakes.ledger_rules import Note
from fakes.nursery import PROGRAM
from fakes.patience import PATIENCE_SECONDS

from researcher_node.answers.store import AskedQuestion

pytestmark = pytest.mark.process

INTERNAL = 6
STOPPED = 7
INVALID_REQUEST = 3
QUESTION = ("age >= 65", FRENCH)


def ask(deployment: Deployment) -> None:
    """A question that is charged and answered."""
    (asked,) = deployment.ask_all([QUESTION], wait_seconds=PATIENCE_SECONDS)
    assert isinstance(asked, AskedQuestion), asked


class Backups:
    """A deployment, and its agencies' homes as they were before the last question."""

    def __init__(self, folder: Path) -> None:
        self.deployment = Deployment(folder / "deployment")
        self._folder = folder

    def make(self) -> None:
        for role in ("census", "health"):
            shutil.copytree(self.deployment.home(role), self._folder / "old" / role)

    def put_back(self, role: str) -> None:
        """Yesterday's copy in the place of today's, which is kept."""
        self.deployment.home(role).rename(self._folder / role)
        shutil.copytree(self._folder / "old" / role, self.deployment.home(role))

    def mend(self, role: str) -> None:
        """Today's again."""
        shutil.rmtree(self.deployment.home(role))
        (self._folder / role).rename(self.deployment.home(role))


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One question before the backup and one after it; both nodes are down."""
    folder = tmp_path_factory.mktemp("lived")
    deployment = make(folder / "deployment", population=200)
    made = Backups(folder)
    for end in (made.make, lambda: None):
        with deployment.node("census"), deployment.node("health"):
            ask(deployment)
        end()
    return folder


@pytest.fixture
def backups(lived: Path, tmp_path: Path) -> Iterator[Backups]:
    """A copy for every test. Whatever it does, at the end nothing is forgotten and the nodes serve."""
    made = Backups(shutil.copytree(lived, tmp_path / "copy"))
    yield made
    deployment = made.deployment
    charged = deployment.json("census", "status")["answers"]
    assert charged >= 2, "a charge was forgotten"
    with deployment.node("census"), deployment.node("health"):
        ask(deployment)
    deployment.verify_ledger()
    assert deployment.json("census", "status")["answers"] == charged + 1


def refused_start(deployment: Deployment, role: str, code: str) -> Outcome:
    """`serve`, which must end by itself with this code; nothing of it may stand in its log."""
    before = deployment.entries(role)
    outcome = deployment.run(role, "serve")
    assert deployment.entries(role) == before
    assert f"[{code}]" in outcome.stderr, outcome
    assert not outcome.stdout
    return outcome


@contextmanager
def serving(deployment: Deployment, role: str) -> Iterator[Node]:
    """A node that may end by itself after it was ready."""
    node = Node(
        deployment.directory, [PROGRAM, role, "serve", "--home", deployment.home(role)], ready_lines=1, is_forked=True
    )
    try:
        wait_until(lambda: bool(node.ready), "ready")
        yield node
    finally:
        node.end()


def test_yesterdays_census_home_does_not_serve(backups: Backups) -> None:
    """ROLLED_BACK, exit 7, naming the store and how far back it is; nothing is committed to, and today's copy serves on."""
    deployment = backups.deployment
    store = witness_store(deployment.directory)
    seen = Note((store / "checkpoint").read_text(encoding="utf-8"))
    backups.put_back("census")
    outcome = refused_start(deployment, "census", "ROLLED_BACK")
    assert outcome.code == STOPPED
    assert str(store) in outcome.stderr
    assert f"has {len(deployment.entries('census'))} entries and had {seen.size}" in outcome.stderr
    # Views of its operator are not shut.
    assert deployment.json("census", "status")["answers"] == 1
    backups.mend("census")


def test_yesterdays_census_home_that_has_grown_again_does_not_serve(backups: Backups) -> None:
    """Entries of its own make it longer than what was seen, and another log: it is refused as well."""
    deployment = backups.deployment
    size = len(deployment.entries("census"))
    backups.put_back("census")
    while len(deployment.entries("census")) <= size:
        deployment.json("census", "shutdown", "--reason", "a test")
        deployment.json("census", "reopen", "--reason", "a test")
    outcome = refused_start(deployment, "census", "ROLLED_BACK")
    assert outcome.code == STOPPED
    assert "are not those that were seen" in outcome.stderr
    backups.mend("census")


def test_without_a_store_the_health_nodes_note_stops_yesterdays_census_home(backups: Backups) -> None:
    """It starts and gives no quote, since nobody cosigns; as soon as the health node shows what it has seen, it ends."""
    deployment = backups.deployment
    backups.put_back("census")
    forget_witness_store(deployment.home("census"))
    with serving(deployment, "census") as census:
        quoted = deployment.run("researcher", "quote", "--json")
        assert (quoted.code, quoted.error["code"]) == (5, "NOT_WITNESSED")
        with deployment.node("health"):
            wait_until(lambda: census.process.poll() is not None, "ended by itself")
            assert census.process.returncode == STOPPED
        assert "[ROLLED_BACK]" in census.stderr
        assert "health.example/tripartite" in census.stderr
    assert len(deployment.tickets("census", "charged")) == 1
    backups.mend("census")


@pytest.mark.parametrize("first", ["census", "health"])
def test_yesterdays_health_home_ends_when_it_hears_what_the_census_node_has_seen(backups: Backups, first: str) -> None:
    """ROLLED_BACK, exit 7, naming the census agency, whichever of the two was started first; the census node serves on."""
    deployment = backups.deployment
    backups.put_back("health")
    second = "health" if first == "census" else "census"
    with serving(deployment, first) as one, serving(deployment, second) as other:
        health, census = (one, other) if first == "health" else (other, one)
        wait_until(lambda: health.process.poll() is not None, "ended by itself")
        assert health.process.returncode == STOPPED
        assert "[ROLLED_BACK]" in health.stderr
        assert "census.example/tripartite" in health.stderr
        assert census.process.poll() is None
    backups.mend("health")


def emptied(store: Path) -> None:
    """The note is gone."""
    (store / "checkpoint").unlink()


def of_another_log(store: Path) -> None:
    """The note is of a log that is not this one."""
    text = (store / "checkpoint").read_text(encoding="utf-8")
    (store / "checkpoint").write_text(text.replace("census.example", "another.example"), encoding="utf-8")


def damaged(store: Path) -> None:
    """The note is none."""
    (store / "checkpoint").write_bytes(b"\xff" * 10)


@pytest.mark.parametrize("harm", [emptied, of_another_log, damaged], ids=lambda harm: harm.__name__)
def test_a_store_that_has_forgotten_shuts_the_node(backups: Backups, harm: Callable[[Path], None]) -> None:
    """Nobody gets past the store by emptying it, or by putting something else there."""
    deployment, store = backups.deployment, witness_store(backups.deployment.directory)
    kept = store.with_name("kept")
    shutil.copytree(store, kept)
    harm(store)
    outcome = refused_start(deployment, "census", "ROLLED_BACK")
    assert outcome.code == STOPPED
    assert str(store) in outcome.stderr
    shutil.rmtree(store)
    kept.rename(store)


def test_a_store_that_is_not_mounted_shuts_the_node(backups: Backups) -> None:
    """A folder that is not there is no empty store: FILE_UNUSABLE, and nothing makes one in its place."""
    deployment, store = backups.deployment, witness_store(backups.deployment.directory)
    kept = store.rename(store.with_name("kept"))
    outcome = refused_start(deployment, "census", "FILE_UNUSABLE")
    assert outcome.code == INVALID_REQUEST
    assert str(store) in outcome.stderr
    assert not store.exists()
    kept.rename(store)


def test_a_store_that_goes_away_stops_the_node_before_anybody_sees_more(backups: Backups) -> None:
    """Unmounted while the node serves: the charge stands, its answer stays inside, the node ends; both come back."""
    deployment, store = backups.deployment, witness_store(backups.deployment.directory)
    kept = store.with_name("kept")
    with serving(deployment, "census") as census, deployment.node("health"):
        # Whatever is written there fails, as on a disk that is gone.
        wait_until(lambda: deployment.run("researcher", "quote", "--json").code == 0, "quoted")
        store.rename(kept)
        outcome = deployment.ask(*QUESTION, "--wait", "1")
        assert outcome.code == 5
        wait_until(lambda: census.process.poll() is not None, "ended by itself")
        assert census.process.returncode == INTERNAL
        assert "[STORE_FAILED]" in census.stderr
        assert len(deployment.tickets("census", "charged")) == 3
        assert len(deployment.tickets("census", "released")) == 2
        kept.rename(store)
        with deployment.node("census"):
            wait_until(lambda: len(deployment.tickets("census", "released")) == 3, "released")
