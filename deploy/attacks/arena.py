"""Where an attack runs: a deployment with its nodes up, a researcher's session with them, and the harness's own view of it.

An arena makes a deployment of its own in a temporary folder and removes it, or uses one whose nodes are up already. Attackers
use `ask`, `ask_in_turn` and `spy`; `status`, `log` and `truth` are the harness's, to judge by.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sqlite3
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from msgspec import structs
from tripartite.v1 import ticket_pb2

from broker_common.audit.home import AuditorHome
from broker_common.crypto.signing import Purpose
from broker_common.errors import BrokerError, InvalidRequestError
from broker_common.privacy.accounting import price
from broker_common.privacy.opening import OPENING_SUFFIX, unseal_opening
from broker_common.privacy.policy import Policy, Subject
from broker_common.query.messages import parse_message
from broker_common.query.ticket import sign_ticket
from broker_common.storage.clock import system_clock
from broker_common.tlog.entries import Charged, Entry, parse_entry
from broker_common.values import QUERY_ID_BYTES
from census_node.assembly import CensusHome
from deploy.attacks import texts
from deploy.attacks.people import FRENCH, People
from deploy.attacks.transcripts import Seen, Spy
from deploy.local import PROJECT, Plan, lay_out
from deploy.supervise import Nodes, node_log
from health_node.assembly import HealthHome
from researcher_node.answers.store import AskedQuestion
from researcher_node.asking.proposal import Precision, Wanted
from researcher_node.asking.session import Session
from researcher_node.assembly import ResearcherHome

Outcome: TypeAlias = AskedQuestion | BrokerError
ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
Accounting: TypeAlias = Literal["strict", "per_person"]
Say = Callable[[str], None]

_WAIT_SECONDS = 60.0
# Questions under way together; nodes take 16.
_AT_ONCE = 8
_MAX_BELIEF = "0.8"
# The attacks are on answers. How many one researcher may have is another matter.
_ANY_QUOTES = {"quotes_per_minute": 1_000_000, "quote_burst": 1_000_000}
_WHOLE = 1_000_000
_RELEASE = "2011"
# The id and the folder of the other researcher.
_OTHER = "other"


@dataclass(frozen=True, slots=True)
class Ask:
    """One question of an attacker."""

    where: str
    scale: int
    count: str = FRENCH


@dataclass(frozen=True, slots=True)
class Terrain:
    """Settings of an attack's own deployment."""

    release_tick_ms: int = 0
    # As short as the declared figures admit, for an attack on what they cover.
    shortest_delays: bool = False
    # Besides the attacker there is a researcher who wants something else.
    other_researcher: bool = False
    subject: Subject = "person"
    # Changes DIR/census/people.csv, which is then loaded once more; told a seed.
    edit: Callable[[Path, int], None] | None = None


@dataclass(frozen=True, slots=True)
class Watched:
    """One question that was watched; no ticket where it was refused before there was one."""

    ticket: AskedQuestion | None
    seen: Seen


@dataclass(frozen=True, slots=True)
class Wish:
    """The command's request."""

    directory: Path | None
    population: int
    seed: int
    accounting: Accounting


class Arena:
    """One attack's place: the people whom it knows, and the nodes that it asks."""

    def __init__(
        self, directory: Path, people: People, home: ResearcherHome, session: Session, spy: Spy, other: Session | None
    ) -> None:
        """`other` is a session of another researcher, where there is one."""
        self._other = other
        self.directory = directory
        self.people = people
        self.session = session
        self.spy = spy
        self.home = home
        self.policy = _policy_in_force(directory)
        # Every question that was answered here, in the order of the answers.
        self.asked: list[tuple[Ask, AskedQuestion]] = []

    @property
    def is_strict(self) -> bool:
        """Whether every answer is charged to everybody, so that one budget is all there is."""
        return self.policy.accounting == "strict"

    def rounds_within(self, units: int, rounds: int) -> int:
        """How many rounds of this price the budget pays for: under strict accounting one budget pays for all."""
        return max(1, min(rounds, self.policy.cap // units)) if self.is_strict else rounds

    # --- what attackers do -----------------------------------------------------------------------------------------

    async def prepare(self, ask: Ask) -> AskedQuestion:
        """A ticket for this question, signed and not submitted."""
        return await self.session.prepare(_wanted(ask), wait_seconds=_WAIT_SECONDS)

    def again_with_its_slot(self, asked: AskedQuestion) -> AskedQuestion:
        """A new ticket for an answered question that names the slot of the old one: the census node refuses it with its sample."""
        body = parse_message(ticket_pb2.Ticket, asked.ticket_message.ticket)
        body.query_id = os.urandom(QUERY_ID_BYTES)
        key = self.home.keyring.signing(self.home.own_card(), Purpose.TICKET, system_clock())
        signed = sign_ticket(body, key).SerializeToString(deterministic=True)
        return replace(asked, query=body.query_id.hex(), signed_ticket=signed)

    @asynccontextmanager
    async def another_asks(self, ask: Ask) -> AsyncIterator[None]:
        """Meanwhile another researcher asks this again and again, if there is one."""
        if self._other is None:
            yield
            return
        asking = asyncio.create_task(_ask_on(self._other, ask))
        try:
            yield
        finally:
            asking.cancel()
            await asyncio.wait({asking})
        if not asking.cancelled():
            asking.result()

    async def ask(self, ask: Ask) -> Outcome:
        """Outcome of one question."""
        try:
            asked = await self.prepare(ask)
            answered = await self.session.ask(asked, wait_seconds=_WAIT_SECONDS, on_stage=lambda _: None)
        except BrokerError as error:
            return error
        self.asked.append((ask, answered))
        return answered

    async def answer(self, ask: Ask) -> int:
        """The noisy count; a refusal is raised."""
        return sum(await self.numbers(ask))

    async def numbers(self, ask: Ask) -> tuple[int, ...]:
        """The noisy counts of all cells, none of an answer that is still out; a refusal is raised."""
        outcome = await self.ask(ask)
        if isinstance(outcome, BrokerError):
            raise outcome
        return () if outcome.noisy is None else outcome.noisy.values

    async def watch(self, ask: Ask) -> Watched:
        """One question, and everything that could be seen of it."""
        try:
            prepared = await self.prepare(ask)
        except BrokerError as error:
            return Watched(None, Seen([f"prepare {error.code} {error.text!r} {error.hint!r}"]))
        seen = await self.spy.submit(prepared)
        if seen.answered is not None:
            self.asked.append((ask, seen.answered))
        return Watched(prepared, seen)

    async def answers_in_turn(self, turns: Sequence[Sequence[Ask]]) -> list[list[int]]:
        """The noisy counts of several lists of questions: each list in its order, the lists side by side."""

        async def one(asks: Sequence[Ask]) -> list[int]:
            return [await self.answer(ask) for ask in asks]

        return await side_by_side(turns, one)

    # --- what the harness knows ------------------------------------------------------------------------------------

    def log(self) -> list[Entry]:
        """The census log's entries, oldest first."""
        place = f"file:{self.directory / 'census' / 'journal.db'}?mode=ro"
        with contextlib.closing(sqlite3.connect(place, uri=True)) as db:
            rows = db.execute("select entry from entries order by sequence").fetchall()
        return [parse_entry(bytes(row[0])) for row in rows]

    def counted_units(self, targets: Sequence[Collection[str]]) -> int | None:
        """The most units of answers here that did count one of these targets, each known by the criteria that match it alone.

        Read with the overseer's key, which no attacker has; None where nobody oversees the noise.
        """
        counts = self.exact_counts()
        if counts is None:
            return None
        return max(
            sum(
                counts[asked.query] * price(asked.scale)
                for ask, asked in self.asked
                if ask.where in target and asked.query in counts
            )
            for target in targets
        )

    def exact_counts(self) -> dict[str, int] | None:
        """The exact count of every answer by its query, of all cells of a table together, read with the overseer's key; None where nobody oversees."""
        if not CensusHome(self.directory / "census").config.keys.oversight:
            return None
        folder, key = self.directory / "census" / "openings", AuditorHome(self.directory / "auditor").oversight_key()
        charges = {charge.ticket: charge for charge in self.charges()}
        found = {}
        for file in folder.glob(f"*{OPENING_SUFFIX}"):
            ticket = file.name.removesuffix(OPENING_SUFFIX)
            found[charges[ticket].query] = sum(unseal_opening(file.read_bytes(), ticket, key).counts)
        return found

    async def status(self) -> dict[str, Any]:
        """Output of `census status --json`."""
        home = str(self.directory / "census")
        command = ("-m", "broker_common", "census", "status", "--home", home, "--json")
        child = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.PIPE)
        stdout, _ = await child.communicate()
        status: dict[str, Any] = json.loads(stdout)
        return status

    def charges(self) -> list[Charged]:
        """Every charge in the census log, oldest first."""
        return [entry.event for entry in self.log() if isinstance(entry.event, Charged)]


async def side_by_side(items: Sequence[ItemT], work: Callable[[ItemT], Awaitable[ResultT]]) -> list[ResultT]:
    """The results of `work` on each item, some of them at the same time."""
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(item: ItemT) -> ResultT:
        async with places:
            return await work(item)

    return await asyncio.gather(*(one(item) for item in items))


def _wanted(ask: Ask) -> Wanted:
    return Wanted(ask.where, ask.count, Precision(scale=ask.scale), _WHOLE, PROJECT)


async def _ask_on(session: Session, ask: Ask) -> None:
    while True:
        asked = await session.prepare(_wanted(ask), wait_seconds=_WAIT_SECONDS)
        await session.ask(asked, wait_seconds=_WAIT_SECONDS, on_stage=lambda _: None)


@asynccontextmanager
async def opened(wish: Wish, attack: str, terrain: Terrain, say: Say) -> AsyncIterator[Arena]:
    """An arena for one attack; nothing of it is left afterwards unless the deployment was there before.

    Raises:
        InvalidRequestError: HOME_INVALID, the named folder holds no deployment.
    """
    if wish.directory is not None:
        say(texts.SPENDS.format(directory=wish.directory))
        async with _entered(wish.directory, wish.seed, attack) as arena:
            yield arena
        return
    with tempfile.TemporaryDirectory(prefix="tripartite-attack-") as folder:
        directory = Path(folder) / "deployment"
        _lay_out(directory, wish, terrain)
        with node_log(Path(folder) / "nodes.log", say) as log:
            async with Nodes(directory, say=lambda _: None, log=log), _entered(directory, wish.seed, attack) as arena:
                yield arena


@asynccontextmanager
async def _entered(directory: Path, seed: int, attack: str) -> AsyncIterator[Arena]:
    async with AsyncExitStack() as stack:
        home = ResearcherHome(directory / "researcher")
        answers = stack.enter_context(contextlib.closing(home.open_answers()))
        session = await stack.enter_async_context(home.session(answers))
        spy = await stack.enter_async_context(Spy(home, answers))
        other = None
        if (directory / _OTHER).is_dir():
            other_home = ResearcherHome(directory / _OTHER)
            other_answers = stack.enter_context(contextlib.closing(other_home.open_answers()))
            other = await stack.enter_async_context(other_home.session(other_answers))
        yield Arena(directory, People(directory, seed, attack), home, session, spy, other)


def _lay_out(directory: Path, wish: Wish, terrain: Terrain) -> None:
    plan = Plan(
        population=wish.population,
        seed=wish.seed,
        max_belief=_MAX_BELIEF,
        release_tick_ms=terrain.release_tick_ms,
        accounting=wish.accounting,
        subject="person" if wish.accounting == "strict" else terrain.subject,
        researcher_answers=0,
        census_limits=_ANY_QUOTES,
    )
    if terrain.shortest_delays:
        plan = replace(plan, forward_delay_ms=plan.least_forward_delay_ms)
    lay_out(directory, plan, lambda _: _quietly)
    if terrain.other_researcher:
        _welcome_another(directory)
    if terrain.edit is not None and wish.accounting != "strict":
        terrain.edit(directory, wish.seed)
        CensusHome(directory / "census").load(directory / "census" / "people.csv", _RELEASE)


def _welcome_another(directory: Path) -> None:
    known = ResearcherHome(directory / "researcher")
    config = structs.replace(
        known.config, researcher_id=_OTHER, organisation=f"{_OTHER}-university", address="127.0.0.1:0"
    )
    home = ResearcherHome.create(directory / _OTHER, config)
    agencies = HealthHome(directory / "health"), CensusHome(directory / "census")
    for agency in agencies:
        home.trust.put(agency.own_card())
        agency.register(home.own_card(), projects=[PROJECT])


def _quietly(done: int, total: int) -> None:
    del done, total


def _policy_in_force(directory: Path) -> Policy:
    policy = CensusHome(directory / "census").read(lambda state: state.policy)
    if policy is None:
        raise InvalidRequestError("INVALID_VALUE", name="--deployment", problem="has no policy", remedy=texts.MAKE_ONE)
    return policy
