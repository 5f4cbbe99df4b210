"""Whatever a command or a node makes is for its owner alone, from the first byte and under any umask; but for what is shared."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pytest
from fakes.deployment import FRENCH, ROLES, Deployment, make, node_pids, run

pytestmark = pytest.mark.process

OPEN = 0o077


def mode(path: Path) -> int:
    """Who may do what with a file or folder; nobody anything with one that is gone."""
    try:
        return stat.S_IMODE(path.lstat().st_mode)
    except FileNotFoundError:
        return 0


def open_to_others(folders: Iterable[Path]) -> set[str]:
    """Every file and folder here that somebody else may do something with."""
    found = [path for folder in folders for path in (folder, *folder.rglob("*"))]
    return {f"{path} {mode(path):o}" for path in found if mode(path) & OPEN}


@dataclass
class Watch:
    """Looks at folders all the time, for what is there for a moment only."""

    folders: list[Path]
    seen: set[str] = field(default_factory=set)
    _done: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._done.wait(0.005):
            try:
                self.seen |= open_to_others(folder for folder in self.folders if folder.exists())
            except FileNotFoundError:
                # A folder was removed while it was listed.
                continue

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


@dataclass(frozen=True)
class Lived:
    """Files of a deployment's life."""

    deployment: Deployment
    exports: Path
    card: Path
    plot: Path
    # Open to others at some instant, and in the middle of serving; what processes were started with; what was beside journals.
    at_times: set[str]
    meanwhile: set[str]
    umasks: dict[str, str]
    beside: set[str]


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Lived:
    """Every kind of command, and every node, started under the usual umask, which lets everybody read."""
    place = tmp_path_factory.mktemp("modes")
    directory, exports, card, plot = place / "deployment", place / "exports", place / "my.card", place / "beliefs.png"
    colleague = place / "a" / "colleague"
    before = os.umask(0o022)
    try:
        with Watch([directory, colleague]) as watch:
            deployment = make(directory, population=200, accounting="per_person")
            home = deployment.home
            with deployment.nodes():
                asked = deployment.ask("age >= 65", FRENCH).result["query_id"]
                assert deployment.ask("age >= 66", "all", "--project", "none").code == 3
                make_colleague(deployment, colleague, card)
                succeed("researcher", "answers", "--collect", "--check", "--home", home("researcher"))
                succeed("researcher", "ask", "--again", asked, "--home", home("researcher"))
                succeed("keys", "rotate", "ticket", "--home", home("researcher"))
                succeed("census", "status", "--report", "--plot", plot, "--home", home("census"))
                succeed("census", "policy", "propose", "--open-quotes", "63", "--home", home("census"))
                for role in ("health", "census"):
                    succeed(role, "load", "--home", home(role))
                    succeed("keys", "rotate", "log", "--home", home(role))
                assert deployment.ask("age >= 67", FRENCH).code == 0
                meanwhile = open_to_others([directory, colleague])
                umasks = {role: umask(pid) for role, pid in node_pids(directory).items()}
                beside = {path.name for path in directory.rglob("*.db-*")}
                for role in ("researcher", "health", "census"):
                    options = ("--criteria",) if role == "health" else ()
                    succeed("audit", "export", "--home", home(role), "--to", exports / role, *options)
            for words in ((), ("--openings", home("census") / "openings"), ("--on-site", home("census"))):
                succeed("audit", "replay", exports, "--home", home("auditor"), *words)
            succeed("census", "shutdown", "--home", home("census"))
    finally:
        os.umask(before)
    return Lived(deployment, exports, card, plot, watch.seen, meanwhile, umasks, beside)


def succeed(*words: str | Path) -> None:
    """Run a command in a process of its own."""
    outcome = run(*words)
    assert outcome.code == 0, outcome


def make_colleague(deployment: Deployment, home: Path, card: Path) -> None:
    """A second researcher, registered at the agencies."""
    addresses = ("--health", "127.0.0.1:1", "--census", "127.0.0.1:1")
    names = ("--id", "colleague", "--organisation", "college", "--project", "study")
    succeed("researcher", "create", "--home", home, *names, *addresses)
    succeed("keys", "card", "--home", home, "--to", card)
    for role in ("health", "census"):
        succeed(role, "register", "--home", deployment.home(role), card, "--project", "study")


def umask(pid: int) -> str:
    """A process's umask, as the system says."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("Umask:"))


def test_nothing_in_a_home_is_open_to_others(lived: Lived) -> None:
    """After all of it: no file and no folder, whatever it holds."""
    assert open_to_others([lived.deployment.directory, lived.plot]) == set()


def test_nothing_in_a_home_is_open_to_others_while_nodes_serve(lived: Lived) -> None:
    """Write-ahead logs and their indexes among it, which are there only then."""
    assert lived.beside == {f"{name}.db-{kind}" for name in ("journal", "answers") for kind in ("wal", "shm")}
    assert lived.meanwhile == set()


def test_nothing_in_a_home_was_open_to_others_at_any_time_that_was_looked_at(lived: Lived) -> None:
    """Temporary files and files that were just made among it. That none can be is what the next test says."""
    assert lived.at_times == set()


def test_no_library_in_a_node_can_make_a_file_that_others_may_read(lived: Lived) -> None:
    """The system says so itself: every file that a node opens without a thought for modes is for its owner alone."""
    assert lived.umasks == dict.fromkeys(ROLES, "0077")


def test_criteria_that_were_opened_are_for_their_owner_alone(lived: Lived) -> None:
    """They are the researcher's and the health agency's, and opened for an auditor on site."""
    folder = lived.exports / "health" / "criteria"
    assert mode(folder) == 0o700
    assert {mode(path) for path in folder.iterdir()} == {0o600}


def test_what_is_handed_on_can_be_read_as_its_owner_lets_others_read(lived: Lived) -> None:
    """Logs and receipts for an auditor, and a card for its peers, under the umask that the user has."""
    secret = lived.exports / "health" / "criteria"
    shared = [path for path in (lived.exports, *lived.exports.rglob("*")) if secret not in (path, *path.parents)]
    assert {mode(path) for path in shared if path.is_dir()} == {0o755}
    assert {mode(path) for path in shared if path.is_file()} == {0o644}
    assert len(shared) > 20
    assert mode(lived.card) == 0o644


def test_the_program_as_a_user_starts_it_shares_what_is_handed_on(lived: Lived, tmp_path: Path) -> None:
    """It learns the user's umask before it sets its own: a process that is forked has learnt it already."""
    card = tmp_path / "own.card"
    before = os.umask(0o022)
    try:
        ended = run("keys", "card", "--home", lived.deployment.home("health"), "--to", card, is_forked=False)
    finally:
        os.umask(before)
    assert ended.code == 0
    assert mode(card) == 0o644
