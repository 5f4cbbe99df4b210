"""A whole deployment in one thread: the product's own homes and servers on a made-up network, in made-up time.

Each party is what `tripartite init` makes and is served by the composition root that `serve` calls. Whatever a party does
belongs to one of its processes; a kill ends them all at one instant, and what is started next finds a copy of the bytes that
the party's files held then. Nothing else of the product is replaced: journals, stores, key files and cards are real.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random  # noqa: TID251 - a seeded simulation, no secret
import shutil
import sqlite3
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pytest
import structlog
from fakes.connections import break_statements
from fakes.copies import copy_home
from fakes.dictionaries import CENSUS_DICTIONARY
from fakes.ledger_rules import cap, price
from fakes.obvious_ledger import Link, ObviousLedger
from fakes.samples import whom
from fakes.virtual_time import Killed, Process, VirtualLoop, current_process, in_process
from faults.memory_grpc import Network
from grpc import aio
from tripartite.v1 import ticket_pb2

import broker_common.storage.journal as journal_module
import census_node.assembly
import researcher_node.assembly
from broker_common.agency.home import AgencyHome
from broker_common.crypto.commitments import commit_active, commit_sample, noise_seed
from broker_common.crypto.noise_stream import NoiseStream
from broker_common.errors import BrokerError, StateUnknownError
from broker_common.monitoring import Monitor
from broker_common.privacy.table_laplace import add_noise
from broker_common.query.question import Question, question_from_wire
from broker_common.storage.clock import SteadyClock, system_clock
from broker_common.storage.home import Home
from broker_common.storage.journal import Journal, Transaction
from broker_common.tlog.census_state import CensusState
from broker_common.values import ExactCounts
from census_node.assembly import CensusHome
from census_node.ledger.samples import SampleFolder
from census_node.operator.operating import Confirmation
from census_node.operator.proposals import draft, make_proposal
from census_node.registry.registry import Registry
from census_node.registry.rosters import KeptRoster, RosterFolder
from census_node.release.slot_secrets import SlotSecrets
from deploy.local import PROJECT, Plan, lay_out
from health_node.assembly import HealthHome
from researcher_node.assembly import ResearcherHome
from researcher_node.config import AgencyPeer, ResearcherConfig

ResultT = TypeVar("ResultT")
Begin: TypeAlias = Callable[[Journal[Any]], AbstractContextManager[Transaction[Any]]]
AGENCIES = ("census", "health")
RESEARCHERS = ("researcher-1", "researcher-2")
PARTIES = (*AGENCIES, *RESEARCHERS)
_HOMES = {"census": CensusHome, "health": HealthHome, "researcher": ResearcherHome}
# Where a clock is made that is not the one of `AgencyHome`.
_CLOCKS = {"census": census_node.assembly, "researcher": researcher_node.assembly}
# A node that stopped by itself is started again after this long, as a supervisor does.
_RESTART_SECONDS = 0.5
_MINUTE_MS = 60_000
_POPULATION = 120
Fault: TypeAlias = Literal["lost", "stored"]
When: TypeAlias = Literal["before", "after"]


def make_template(folder: Path, accounting: str = "strict") -> Path:
    """A deployment with two researchers; simulations begin with copies of it."""
    plan = Plan(
        population=_POPULATION,
        seed=1,
        accounting="strict",
        max_belief="0.75",
        release_tick_ms=200,
        forward_delay_ms=250,
    )
    lay_out(folder, plan, lambda _: lambda _done, _total: None)
    (folder / "researcher").rename(folder / "researcher-1")
    shutil.rmtree(folder / "auditor")
    first = ResearcherHome(folder / "researcher-1")
    config = ResearcherConfig(
        role="researcher",
        researcher_id="researcher-2",
        organisation="university",
        project=PROJECT,
        health=AgencyPeer(address=first.config.health.address),
        census=AgencyPeer(address=first.config.census.address),
    )
    second = ResearcherHome.create(folder / "researcher-2", config)
    (folder / "researcher-2" / "trust").mkdir(exist_ok=True)
    for role in ("census", "health"):
        second.trust.put(first.trust.card(role))
    census = CensusHome(folder / "census")
    census.register(second.own_card(), projects=[PROJECT])
    # Short enough that answers expire, and memberships.
    rules = {"answer_retention_ms": 3_600_000, "sample_retention_ms": 600_000, "accounting": accounting}
    with census.journal() as journal:
        assert journal.state.policy is not None
        policy = draft(journal.state.policy, rules)
        is_weaker = bool(policy.weakens(journal.state.policy))
    confirmation = Confirmation("how it begins", census.private_operator_key()) if is_weaker else None
    census.adopt(make_proposal(policy, census.private_policy_key()), confirmation)
    HealthHome(folder / "health").register(second.own_card(), projects=[PROJECT])
    for role, limits in (
        ("census", "header_deadline_ms = 1000\nsample_deadline_ms = 5000\n"),
        ("health", "forward_deadline_ms = 5000\nattempt_deadline_ms = 20000\nengine_threads = 1\n"),
    ):
        with (folder / role / "config.toml").open("a") as file:
            file.write(f"\n[limits]\n{limits}")
        # Loads are kept elsewhere: a kill copies the home.
        (folder / role / "people.csv").rename(folder / f"{role}.csv")
    return folder


# So many seeds in a row begin under per-person accounting, and as many after them under strict accounting.
SEEDS_OF_ONE_TEMPLATE = 10


class Templates:
    """A template under each accounting, made when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, accounting: str) -> Path:
        template = self._folder / accounting
        return template if template.exists() else make_template(template, accounting)

    def for_seed(self, seed: int) -> Path:
        """The same accounting for the same seed, wherever it is run."""
        return self.of("strict" if seed // SEEDS_OF_ONE_TEMPLATE % 2 else "per_person")


@dataclass(eq=False)
class Party:
    """One organisation, its home, and the processes that run in it."""

    name: str
    folder: Path
    # The one that serves, if one does.
    node: Process | None = None
    serving: asyncio.Task[None] | None = None
    # Whether it is to be started again when it has stopped.
    wanted: bool = True
    processes: set[Process] = field(default_factory=set)
    # Fate of its next commit.
    fault: Fault | None = None
    # Countdown to its kill: so many commits, or messages, from now.
    kill_at_commit: tuple[int, When] | None = None
    kill_at_message: int | None = None
    # How long it is down after a kill that waits for its moment.
    down_seconds: float = 0.0

    @property
    def role(self) -> Literal["census", "health", "researcher"]:
        return self.name if self.name in AGENCIES else "researcher"  # type: ignore[return-value]  # one of three

    @property
    def is_up(self) -> bool:
        return self.node is not None and self.node.is_alive


@dataclass(eq=False)
class _Cut:
    """A link that is to be cut."""

    pair: frozenset[str]
    messages: int
    seconds: float


class Simulation:
    """One deployment and everything that happens to it. Use it inside `running`."""

    def __init__(self, template: Path, folder: Path, seed: int) -> None:
        self.chance = random.Random(f"events of {seed}")
        self.loop = VirtualLoop(self.chance)
        self.network = Network(self.chance)
        self.network.passing = self._passing
        self.folder = folder
        self.sources = template
        self.parties: dict[str, Party] = {}
        for name in PARTIES:
            home = folder / name
            copy_home(template / name, home)
            self.parties[name] = Party(name, home)
        # On another disk: no kill takes it back, and no copy of a home has one of its own.
        shutil.copytree(template / "witness", folder / "witness")
        # On the minute, after everything in the template: ticks fall alike in every run of a sequence.
        self._began_ms = (system_clock() // _MINUTE_MS + 1) * _MINUTE_MS
        # Time that passed without anything happening, and how far each party's wall clock is off.
        self.skipped_ms = 0
        self.shift_ms = dict.fromkeys(PARTIES, 0)
        self._copies = itertools.count(1)
        self._cuts: list[_Cut] = []
        # The next command of an operator is killed at its commit.
        self.kill_command: When | None = None
        # Journals in a transaction.
        self._writing: list[Journal[Any]] = []
        # How many entries the census log had when its node was started, each time.
        self.census_starts: list[int] = []
        # The required answer of each ticket, as its newest charge fixed it.
        self.expected: dict[str, tuple[int, ...]] = {}
        # Name and key of the sample of each ticket's charge.
        self.references: dict[str, str] = {}
        # Charges of every subject.
        self.ledger = ObviousLedger()
        # Violations, as soon as they are seen.
        self.problems: list[str] = []
        self._background: set[asyncio.Task[Any]] = set()

    # --- clocks ----------------------------------------------------------------------------------------------------

    def monotone_ms(self) -> int:
        return int(self.loop.seconds * 1000) + self.skipped_ms

    def wall_ms(self, party: str) -> int:
        return self._began_ms + self.monotone_ms() + self.shift_ms[party]

    def _steady(self, role: str) -> SteadyClock:
        # Both researchers' machines have the first one's clock.
        party = role if role in AGENCIES else RESEARCHERS[0]
        return SteadyClock(partial(self.wall_ms, party), self.monotone_ms)

    # --- running ---------------------------------------------------------------------------------------------------

    def run(self, main: Callable[[], Awaitable[None]]) -> None:
        """Run `main` in this simulation, to its end."""
        with self._replacing():
            try:
                self.loop.run_until_complete(self._whole(main))
            finally:
                self.loop.close()

    async def _whole(self, main: Callable[[], Awaitable[None]]) -> None:
        self.loop.set_exception_handler(self._unhandled)
        try:
            await main()
        finally:
            await self.end()

    @contextlib.contextmanager
    def _replacing(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            self.network.install(patch)
            for role, opening in _CLOCKS.items():
                patch.setattr(opening, "SteadyClock", partial(self._steady, role))
            begin: Callable[..., None] = AgencyHome.__init__

            def beginning(home: AgencyHome[Any], opened: Home, *arguments: Any) -> None:
                *others, _ = arguments
                begin(home, opened, *others, self._steady(opened.role))

            patch.setattr(AgencyHome, "__init__", beginning)
            # Nobody else runs while somebody waits for a lock: it is not let go before.
            patch.setattr(journal_module, "_BUSY_TIMEOUT_SECONDS", 0)
            # Every second of simulated time, and nobody reads them.
            patch.setattr(Monitor, "write", lambda *_: None)
            patch.setattr(Journal, "transaction", self._watched(Journal.transaction))
            before = structlog.get_config()
            structlog.configure(processors=[self._logged])
            try:
                yield
            finally:
                structlog.configure(**before)

    def _logged(self, _logger: object, _method: str, line: Any) -> Any:
        process = current_process()
        if process is None or process.is_alive:
            # Codes that stand for a fault of our own, whatever happened outside.
            if line["event"] == "unforeseen" or line.get("code") in {"INTERNAL", "INTEGRITY", "ROLLED_BACK"}:
                self.problems.append(f"{process}: {dict(line)}")
            if "another history" in line["event"] or "not the one that was seen" in line["event"]:
                self.problems.append(f"a log was disowned that nobody took back: {dict(line)}")
            if line["event"] == "a charged answer cannot be made":
                self.problems.append(f"a sample was lost that nobody took away: {dict(line)}")
        raise structlog.DropEvent

    def _unhandled(self, _loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        error = context.get("exception")
        # A refusal of a call whose caller is gone ends in the library itself.
        if not isinstance(error, Killed | aio.AbortError):
            self.problems.append(f"unhandled: {context.get('message')}: {error!r}")

    def spawn(self, party: str, name: str, work: Callable[[], Coroutine[Any, Any, ResultT]]) -> asyncio.Task[ResultT]:
        """Begin the work of a new process of a party."""
        process = Process(party, name)
        self.parties[party].processes.add(process)

        async def whole() -> ResultT:
            try:
                return await work()
            finally:
                self.parties[party].processes.discard(process)

        task = self.loop.create_task(whole(), context=in_process(process))
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    def command(self, party: str, work: Callable[[], ResultT]) -> ResultT:
        """Run an operator's command from beginning to end, as a process of its own.

        Raises:
            Killed: it was killed at its commit.
        """
        return in_process(Process(party, "command")).run(work)

    async def end(self) -> None:
        """Nobody does anything any more."""
        for party in self.parties.values():
            party.wanted = False
            for process in [*party.processes, *([party.node] if party.node else [])]:
                process.end()
                self.network.drop(process)
        for task in self._background:
            task.cancel()
        if others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others, timeout=60)

    # --- nodes -----------------------------------------------------------------------------------------------------

    def home(self, party: str) -> Any:
        """A party's home, opened as a command opens it."""
        return _HOMES[self.parties[party].role](self.parties[party].folder)

    async def start(self, name: str) -> None:
        """Start a party's node, if it is down; returns when it serves, or has stopped again."""
        party = self.parties[name]
        if party.is_up:
            return
        process = party.node = Process(name, "node")
        if name == "census":
            self.census_starts += [count for (count,) in self.rows(name, "select count(*) from entries")]
        ready = self.loop.create_future()

        def on_ready(_address: str) -> None:
            if not ready.done():
                ready.set_result(None)

        async def serve() -> None:
            await self.home(name).serve(on_ready)

        task = party.serving = self.loop.create_task(serve(), context=in_process(process))
        task.add_done_callback(lambda done: self._ended(party, process, done))
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()

    def _ended(self, party: Party, process: Process, done: asyncio.Task[None]) -> None:
        error = None if done.cancelled() else done.exception()
        if not process.is_alive:
            return
        process.end()
        self.network.drop(process)
        if isinstance(error, BrokerError):
            # No home is put back here, so that no log is older than what anybody has seen of it.
            if not (process.may_stop and error.stops_node) or error.code == "ROLLED_BACK":
                self.problems.append(f"{process} stopped by itself: {error!r}")
        elif error is not None:
            self.problems.append(f"{process} ended: {error!r}")
        if party.wanted:
            self._start_later(party, _RESTART_SECONDS)

    def _start_later(self, party: Party, seconds: float) -> None:
        async def later() -> None:
            await asyncio.sleep(seconds)
            if party.wanted:
                await self.start(party.name)

        task = self.loop.create_task(later(), context=in_process(None))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def stop(self, name: str) -> None:
        """Stop a party's node as a signal does."""
        party = self.parties[name]
        serving = party.serving
        if party.is_up and serving is not None:
            serving.cancel()
            await asyncio.wait({serving})

    def kill(self, name: str, *, down_seconds: float) -> None:
        """Kill every process of a party here and now. The next process finds the bytes of this instant."""
        party = self.parties[name]
        party.kill_at_commit = party.kill_at_message = None
        doomed = [*party.processes, *([party.node] if party.node else [])]
        for process in doomed:
            process.is_alive = False
        copy = self.folder / f"{name}-{next(self._copies)}"
        party.folder = copy_home(party.folder, copy)
        for process in doomed:
            process.end()
            self.network.drop(process)
        party.processes.clear()
        if party.wanted:
            self._start_later(party, down_seconds)

    # --- what goes wrong -------------------------------------------------------------------------------------------

    def cut(self, one: str, other: str, *, messages: int, seconds: float) -> None:
        """Cut a link after so many messages, for so long."""
        cut = _Cut(frozenset({one, other}), messages, seconds)
        if messages:
            self._cuts.append(cut)
        else:
            self._cut_now(cut)

    def _cut_now(self, cut: _Cut) -> None:
        one, other = sorted(cut.pair)
        self.network.cut(one, other)
        self.loop.call_later(cut.seconds, self.network.mend)

    def _passing(self, sender: str, receiver: str) -> None:
        for name in (sender, receiver):
            party = self.parties.get(name)
            if party is not None and party.kill_at_message is not None:
                party.kill_at_message -= 1
                if party.kill_at_message <= 0:
                    self.kill(name, down_seconds=party.down_seconds)
        for cut in [cut for cut in self._cuts if cut.pair == {sender, receiver}]:
            cut.messages -= 1
            if cut.messages <= 0:
                self._cuts.remove(cut)
                self._cut_now(cut)

    def disarm(self) -> None:
        """Nothing goes wrong from here on."""
        self._cuts.clear()
        self.kill_command = None
        self.network.mend()
        for party in self.parties.values():
            party.fault = party.kill_at_commit = party.kill_at_message = None

    def _watched(self, begin: Begin) -> Begin:
        return lambda journal: self._transaction(begin, journal)

    @contextlib.contextmanager
    def _transaction(self, begin: Begin, journal: Journal[Any]) -> Iterator[Transaction[Any]]:
        """A journal's transaction, at whose commit a process is killed or its disk fails if that is due."""
        if journal in self._writing:
            # A part of the one that is under way.
            with begin(journal) as part:
                yield part
            return
        self._writing.append(journal)
        process, fault = None, None
        try:
            with begin(journal) as transaction:
                yield transaction
                process = current_process()
                if process is not None and not process.is_alive:
                    process = None
                when, kill = self._death(process)
                if when == "before":
                    kill()
                    raise Killed
                fault = self._fault(process)
                if fault:
                    break_statements(journal.db, happens=fault == "stored")
        except StateUnknownError:
            if process is not None and fault == "stored":
                self.remember(self.parties[process.party], journal)
            raise
        finally:
            self._writing.remove(journal)
        if process is not None:
            self.remember(self.parties[process.party], journal)
        if when:
            kill()
            raise Killed

    def _death(self, process: Process | None) -> tuple[str, Callable[[], None]]:
        """Whether a process is to die `before` or `after` its commit, and what kills it."""
        if process is None:
            return "", lambda: None
        party = self.parties[process.party]
        if self.kill_command is not None and process.name == "command":
            when, self.kill_command = self.kill_command, None
            return when, lambda: None
        if party.kill_at_commit is not None:
            left, when = party.kill_at_commit
            party.kill_at_commit = (left - 1, when)
            if left <= 1:
                return when, lambda: self.kill(party.name, down_seconds=party.down_seconds)
        return "", lambda: None

    def _fault(self, process: Process | None) -> Fault | None:
        """The disk's fault at the commit of a process, if any."""
        if process is None:
            return None
        party = self.parties[process.party]
        fault, party.fault = party.fault, None
        process.may_stop |= fault is not None
        return fault

    def remember(self, party: Party, journal: Journal[Any]) -> None:
        """The noisy count that every charge fixed when it became durable, from its kept sample."""
        if party.name != "census":
            return
        for row in journal.db.query("select * from pending order by rowid"):
            if row["ticket"] in self.expected:
                continue
            body, ticket_hash = ticket_pb2.Ticket.FromString(row["signed_ticket"]), bytes.fromhex(row["ticket"])
            charge = journal.state.tickets[row["ticket"]].charge
            self.references[row["ticket"]] = row["sample"]
            sample = SampleFolder(party.folder / "samples").read(row["sample"])
            registry = Registry.read(party.folder / "registries" / f"{row['load']}.npz", row["load"])
            ((*roster,),) = journal.db.execute(
                "select * from rosters where health = ? and number = ?", [charge.health, row["roster"]]
            )
            kept = KeptRoster(*roster)
            submitted = commit_sample(sample.salt, ticket_hash, bytes.fromhex(kept.manifest), sample.bits.data)
            if submitted.hex() != charge.submitted:
                self.problems.append(f"another sample is kept than was charged: {row['ticket']}")
            people = np.concatenate([*RosterFolder(party.folder / "rosters").pieces(kept)])
            active = self._active(journal.state, _links(registry, whom(sample.bits, people)), body.scale, registry)
            if commit_active(sample.active_salt, ticket_hash, np.packbits(active).data).hex() != charge.active:
                self.problems.append(f"others are counted than may be: {row['ticket']}")
            seed = noise_seed(
                SlotSecrets(party.folder / "slots").read(row["slot"], row["slot_commitment"]),
                ticket_hash=ticket_hash,
                set_commitment=submitted,
                scale=body.scale,
                cells=len(body.question.cells),
            )
            exact = _counted(registry, active, question_from_wire(body.question, CENSUS_DICTIONARY))
            self.expected[row["ticket"]] = add_noise(exact, body.scale, NoiseStream(seed)).values

    def _active(self, state: CensusState, links: list[Link], scale: int, registry: Registry) -> npt.NDArray[np.bool_]:
        """Who is counted of a sample of these cards that has just been charged under the policy in force, by number."""
        policy = state.policy
        assert policy is not None
        active = {person for person, _ in links}
        if policy.accounting != "strict":
            self.ledger.subject = policy.subject
            room, cost = cap(policy.max_belief) - state.common_units, price(scale)
            active = self.ledger.decide(links, price=cost, room=room)
            self.ledger.charge(links, active, price=cost)
        marks = np.zeros(registry.person_count, np.bool_)
        marks[list(active)] = True
        return marks

    # --- what is on disk -------------------------------------------------------------------------------------------

    def rows(self, party: str, statement: str) -> list[tuple[Any, ...]]:
        """Rows of a database, read by a separate connection."""
        name = "answers.db" if party in RESEARCHERS else "journal.db"
        path = self.parties[party].folder / name
        if not path.is_file():
            return []
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return connection.execute(statement).fetchall()


def _links(registry: Registry, people: npt.NDArray[np.uint8]) -> list[Link]:
    """Person and household of those of these pseudonyms that the load has."""
    cards = registry.cards
    names = [
        high.to_bytes(8, "big") + low.to_bytes(8, "big")
        for high, low in zip(cards.high.tolist(), cards.low.tolist(), strict=True)
    ]
    known = dict(zip(names, zip(cards.persons.tolist(), cards.households.tolist(), strict=True), strict=True))
    return [known[name] for name in map(bytes, people) if name in known]


def _counted(registry: Registry, active: npt.NDArray[np.bool_], question: Question) -> ExactCounts:
    """How many of the active persons are in each cell of a question without a cell for all the others."""
    if question.variable is None:
        return ExactCounts([int(active.sum())])
    positions = CENSUS_DICTIONARY.column(question.variable).positions
    values = registry.people.values[question.variable][active].tolist()
    return ExactCounts(
        sum(value in {positions[each] for each in cell.values} for value in values) for cell in question.cells
    )
