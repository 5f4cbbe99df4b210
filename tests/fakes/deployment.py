"""Real deployments for tests: made, run and asked as anybody would, and read afterwards without the product's code.

Everything a test starts is started here and is gone when its `with` block ends. The journals are read with plain SQL and
JSON, and the true counts with plain Python, so that a fault of the product cannot hide behind itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import csv
import io
import json
import os
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from fakes import ledger_rules, nursery
from fakes.nursery import PROGRAM
from fakes.patience import PATIENCE_SECONDS

from broker_common.cli import _run
from broker_common.errors import BrokerError
from census_node.assembly import CensusHome
from census_node.operator.operating import Confirmation
from census_node.operator.proposals import draft, make_proposal
from researcher_node.answers.store import AskedQuestion
from researcher_node.asking.proposal import Precision, Wanted
from researcher_node.asking.session import Session
from researcher_node.assembly import ResearcherHome

ROLES = ("census", "health", "researcher")
FRENCH = "mother_tongue = 'French'"
_LOOK_SECONDS = 0.02
# Looks cost something, too: after a long wait they are further apart, at most this far.
_LONGEST_PAUSE_SECONDS = 0.25

Person: TypeAlias = dict[str, str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended and what it said."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        """The one object that stdout holds; anything else on stdout fails the test."""
        assert self.stdout.count("\n") == 1, f"not one line on stdout: {self.stdout!r}; stderr: {self.stderr!r}"
        value = json.loads(self.stdout)
        assert isinstance(value, dict)
        return value

    @property
    def result(self) -> dict[str, Any]:
        """The object of a command that succeeded."""
        assert self.code == 0, f"exit {self.code}: {self.stdout}{self.stderr}"
        return self.json

    @property
    def error(self) -> dict[str, str]:
        """The error object, in exactly the promised shape."""
        assert self.code != 0, f"succeeded: {self.stdout}"
        assert list(self.json) == ["error"]
        error = self.json["error"]
        assert list(error) == ["code", "text", "hint"]
        assert all(isinstance(value, str) and value for value in error.values())
        return dict(error)


def run(
    *words: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None, is_forked: bool = True
) -> Outcome:
    """Run one command of the program to its end, in a process of its own; not forked: as a user starts it."""
    if not is_forked:
        ended = subprocess.run(
            [PROGRAM, *words],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        return Outcome(ended.returncode, ended.stdout, ended.stderr)
    return run_words(PROGRAM, *words, cwd=cwd, env=env)


def run_words(*words: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> Outcome:
    """The same for the program or a script of ours that stands in for it: `sys.executable`, the script, its arguments."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        ended = nursery.start(words, stdout.fileno(), stderr.fileno(), cwd=cwd, env=env)
        try:
            code = ended.wait(PATIENCE_SECONDS)
        finally:
            ended.kill()
        said = [(file.seek(0), file.read().decode())[1] for file in (stdout, stderr)]
    return Outcome(code, *said)


def run_here(*words: str | Path) -> Outcome:
    """The same command without a process of its own: where many are needed, and a second of start-up each is too much."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        code = _run([str(word) for word in words])
    return Outcome(code, stdout.getvalue(), stderr.getvalue())


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Return as soon as `holds()`; fail the test when it never does."""
    began = time.monotonic()
    while not holds():
        waited = time.monotonic() - began
        assert waited < PATIENCE_SECONDS, f"after {PATIENCE_SECONDS} s still not: {what}"
        time.sleep(min(max(_LOOK_SECONDS, waited / 10), _LONGEST_PAUSE_SECONDS))


def persons(records: Iterable[Person]) -> int:
    """How many people these linked records are about."""
    return len({record["person_id"] for record in records})


def node_pids(directory: Path) -> dict[str, int]:
    """The processes that serve a home of this deployment, by role; found by their command lines, but for forked ones."""
    found = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().decode().split("\0") if entry.name.isdecimal() else []
            if "serve" in words and "--home" in words:
                home = (entry / "cwd").readlink() / words[words.index("--home") + 1]
                if home.parent == directory:
                    found[home.name] = int(entry.name)
    for process in nursery.running():
        home = Path(process.args[process.args.index("--home") + 1]) if "serve" in process.args else Path()
        if home.parent == directory:
            found[home.name] = process.pid
    return found


def make(
    directory: Path, *options: str, population: int = 2000, tick_ms: int = 0, accounting: str = "strict"
) -> Deployment:
    """`tripartite init`; tick 0 and strict unless told otherwise: most tests are about neither time nor single people."""
    words = ["--population", str(population), "--release-tick-ms", str(tick_ms), "--accounting", accounting, *options]
    assert run("init", directory, *words, "--json").result["directory"] == str(directory)
    return Deployment(directory)


class Deployment:
    """The four homes under one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def home(self, role: str) -> Path:
        return self.directory / role

    def run(self, role: str, command: str, *words: str | Path) -> Outcome:
        """A role's command with its home."""
        return run(role, command, "--home", self.home(role), *words)

    def json(self, role: str, command: str, *words: str | Path) -> dict[str, Any]:
        """JSON of a role's command, which must succeed. Without a process of its own."""
        return run_here(role, command, "--home", self.home(role), "--json", *words).result

    def ask(self, where: str, count: str = FRENCH, *words: str) -> Outcome:
        """`researcher ask --json`."""
        wait = ("--wait", str(PATIENCE_SECONDS))
        return self.run("researcher", "ask", "--where", where, "--count", count, *wait, *words, "--json")

    def order_policy(self, **changes: Any) -> None:
        """The census operator adopts another policy, and confirms it where it is weaker."""
        home = CensusHome(self.home("census"))
        before = home.read(lambda state: state.policy)
        assert before is not None
        policy = draft(before, changes)
        confirmation = Confirmation("for a test", home.private_operator_key()) if policy.weakens(before) else None
        home.adopt(make_proposal(policy, home.private_policy_key()), confirmation)

    # --- asking in bulk --------------------------------------------------------------------------------------------

    def in_session(self, work: Callable[[Session], Any]) -> Any:
        """Run `await work(session)` with the researcher's own code, without starting a program for every question."""

        async def opened() -> Any:
            home = ResearcherHome(self.home("researcher"))
            answers = home.open_answers()
            try:
                async with home.session(answers) as session:
                    return await work(session)
            finally:
                answers.close()

        return asyncio.run(opened())

    def ask_all(
        self,
        questions: Sequence[tuple[str, str]],
        *,
        scale: int = 30,
        at_once: int = 1,
        wait_seconds: float = PATIENCE_SECONDS,
    ) -> list[AskedQuestion | BrokerError]:
        """Ask every (where, count), some of them at once; what became of each, in order."""

        async def work(session: Session) -> list[AskedQuestion | BrokerError]:
            places = asyncio.Semaphore(at_once)

            async def one(where: str, count: str) -> AskedQuestion | BrokerError:
                async with places:
                    try:
                        asked = await session.prepare(
                            Wanted(where, count, Precision(scale), 1_000_000, "official-languages")
                        )
                        return await session.ask(asked, wait_seconds=wait_seconds, on_stage=lambda _: None)
                    except BrokerError as error:
                        return error

            return await asyncio.gather(*(one(*question) for question in questions))

        outcomes: list[AskedQuestion | BrokerError] = self.in_session(work)
        return outcomes

    def leave(self, where: str, count: str) -> None:
        """Ask to the release of the answer, which nobody collects."""

        async def work(session: Session) -> None:
            asked = await session.prepare(Wanted(where, count, Precision(30), 1_000_000, "official-languages"))
            await session._submit(asked, asyncio.get_running_loop().time() + PATIENCE_SECONDS, lambda _: None)

        self.in_session(work)

    # --- reading what is stored ------------------------------------------------------------------------------------

    def events(self, role: str) -> list[dict[str, Any]]:
        """The events of a node's log, oldest first, each with its kind under `type`."""
        return [json.loads(entry)["event"] for entry in self.entries(role)]

    def entries(self, role: str) -> list[bytes]:
        """The entries of a node's log, oldest first."""
        with contextlib.closing(sqlite3.connect(f"file:{self.home(role)}/journal.db?mode=ro", uri=True)) as db:
            rows = db.execute("select entry from entries order by sequence").fetchall()
        return [bytes(row[0]) for row in rows]

    def tickets(self, role: str, kind: str) -> Counter[str]:
        """How often a log holds an event of this kind for each ticket."""
        return Counter(event["ticket"] for event in self.events(role) if event["type"] == kind)

    def ticket_of(self, query: str) -> str:
        """The ticket hash that the health node accepted under a query id; empty if it did not."""
        tickets = [event["ticket"] for event in self.events("health") if event.get("query") == query]
        return tickets[0] if tickets else ""

    def verify_ledger(self) -> None:
        """The invariants of DESIGN 5, from the entries alone, and then the product's own replay of both logs."""
        entries = self.entries("census")
        census = ledger_rules.read_census([json.loads(entry) for entry in entries])
        health = ledger_rules.read_health([json.loads(entry) for entry in self.entries("health")])
        assert census.answers.keys() <= health.questions.keys(), "charged a ticket that the health node does not know"
        released = [answer for answer in census.answers.values() if answer.released]
        notes = [ledger_rules.verify_release(census, entries, answer, health.origin) for answer in released]
        if notes:
            seen = self.witnessed("health", census.origin)
            # A roster may have come into force since the log was read.
            entries = self.entries("census")
            assert seen.size >= max(note.size for note in notes), "released, and the health agency has not seen it"
            assert seen.root == ledger_rules.root_of(entries[: seen.size]), "the health agency has seen another log"
        status = self.json("census", "status")
        assert (status["answers"], status["worst_charged"]) == (len(census.answers), census.charged)
        assert self.json("health", "status")["tickets"] == len(health.questions)

    def witnessed(self, role: str, log: str) -> ledger_rules.Note:
        """The newest checkpoint of a log that a role's node has kept, with whose cosignature ever."""
        with contextlib.closing(sqlite3.connect(f"file:{self.home(role)}/journal.db?mode=ro", uri=True)) as db:
            rows = db.execute("select note from cosigned where log = ? order by size desc", [log]).fetchall()
        return ledger_rules.Note(rows[0][0])

    def people(self) -> list[Person]:
        """Every health record that links, health and census columns side by side, from the source files."""
        with (self.home("census") / "people.csv").open(encoding="utf-8", newline="") as file:
            census = {row["health_card"]: row for row in csv.DictReader(file) if row["health_card"]}
        with (self.home("health") / "people.csv").open(encoding="utf-8", newline="") as file:
            return [row | census[row["health_card"]] for row in csv.DictReader(file) if row["health_card"] in census]

    # --- running ---------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def up(self) -> Iterator[Up]:
        """`tripartite up`, ready; stopped at the end of the block if it still runs."""
        up = Up(self.directory)
        try:
            while not up.became_ready():
                # A connection of another test has one of our ports as its own end, until it is closed.
                up.end()
                up = Up(self.directory)
            yield up
        finally:
            up.end()

    def wait_until_closed(self) -> None:
        """Return when the health node knows how every question ended: an answer may be here before. Keeps no older load."""
        wait_until(lambda: self.json("health", "status")["open"] == 0, "closed")

    def wait_until_still(self) -> None:
        """Both nodes serve: return when nothing is open and the roster of the load in force is in force, too.

        After that the health node's log does not grow by itself; the census node may still log what it delivers.
        """

        def is_in_force() -> bool:
            roster = self.json("health", "status")["roster"]
            numbers = [event["number"] for event in self.events("census") if event["type"] == "rostered"]
            # Both nodes say so: the health node hears of it a moment later.
            return roster is not None and roster["number"] in numbers and bool(roster["acknowledged"])

        wait_until(is_in_force, "a roster in force")
        self.wait_until_closed()

    def charged_status(self) -> dict[str, Any]:
        """The census node's status but for what moves by itself: rosters, deliveries, and batches of noise slots."""
        return self.json("census", "status") | {"log_size": 0, "rosters": []}

    @contextlib.contextmanager
    def nodes(self) -> Iterator[None]:
        """All three nodes, ready: what `up` runs, where a test is not about `up`."""
        with contextlib.ExitStack() as stack:
            for role in ROLES:
                stack.enter_context(self.node(role))
            yield

    @contextlib.contextmanager
    def node(self, role: str, *, launcher: Sequence[str | Path] = (PROGRAM,), is_forked: bool = True) -> Iterator[Node]:
        """One node alone, ready; started by the program, or by something that stands in for it."""
        words = [*launcher, role, "serve", "--home", self.home(role)]
        node = Node(self.directory, words, ready_lines=1, is_forked=is_forked)
        try:
            node.wait_ready()
            yield node
        finally:
            node.end()


class Node:
    """A serving process of our own, what it prints, and its standard error in a file beside the deployment."""

    def __init__(
        self,
        directory: Path,
        words: Sequence[str | Path],
        *,
        ready_lines: int,
        is_forked: bool = False,
        cwd: Path | None = None,
    ) -> None:
        """Forked: of a process that has imported the program (`fakes.nursery`), and with its command line and environment."""
        self._ready_lines = ready_lines
        self.lines: list[str] = []
        self.stderr_file = directory.with_name(f"{directory.name}.stderr")
        self._said_before = self.stderr_file.stat().st_size if self.stderr_file.exists() else 0
        reading, writing = os.pipe()
        self._stdout = os.fdopen(reading, encoding="utf-8")
        self.process: subprocess.Popen[bytes] | nursery.Process
        with self.stderr_file.open("ab") as stderr:
            try:
                if is_forked:
                    self.process = nursery.start(words, writing, stderr.fileno(), cwd=cwd)
                else:
                    # A session of its own: a signal to the test run is not a signal to the nodes.
                    self.process = subprocess.Popen(
                        words,
                        cwd=cwd,
                        stdin=subprocess.DEVNULL,
                        stdout=writing,
                        stderr=stderr,
                        start_new_session=True,
                    )
            finally:
                os.close(writing)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._stdout:
            self.lines.append(line.rstrip("\n"))

    @property
    def ready(self) -> list[str]:
        """The lines that say so."""
        return [line for line in self.lines if "ready" in line]

    def became_ready(self) -> bool:
        """Wait for it; False if it ended since somebody else had its port."""
        wait_until(lambda: len(self.ready) >= self._ready_lines or self.process.poll() is not None, "ready")
        if self.process.poll() is not None and b"PORT_TAKEN" in self.stderr_file.read_bytes()[self._said_before :]:
            return False
        self.wait_ready()
        return True

    def wait_ready(self) -> None:
        wait_until(lambda: len(self.ready) >= self._ready_lines or self.process.poll() is not None, "ready")
        assert self.process.poll() is None, f"ended before it was ready: {self.stderr}"

    @property
    def stderr(self) -> str:
        return self.stderr_file.read_text(encoding="utf-8")

    def signal(self, number: int) -> int:
        """Send a signal and wait for the end; gives the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_SECONDS)
        self._reader.join(PATIENCE_SECONDS)
        return code

    def end(self) -> None:
        """Whatever state it is in, it is gone afterwards, with nothing left open."""
        try:
            if self.process.poll() is None:
                self.signal(signal.SIGTERM)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        finally:
            self._reader.join(PATIENCE_SECONDS)
            self._stdout.close()


class Up(Node):
    """`tripartite up`: three nodes as its children."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        super().__init__(directory, [PROGRAM, "up", directory], ready_lines=len(ROLES))

    def end(self) -> None:
        super().end()
        wait_until(lambda: not node_pids(self.directory), "every node has ended")
