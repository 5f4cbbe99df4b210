"""Random operations on a simulated deployment, and what must hold after each of them.

`draw(seed)` makes a list of operations, `Sequence(...)` carries one out. An operation is its name and its arguments, so that
a list that failed can be pasted into a test, shortened, and run again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import random  # noqa: TID251 - seeded operations, no secret
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fakes import ledger_rules
from fakes.dictionaries import CENSUS_DICTIONARY, HEALTH_DICTIONARY
from fakes.ledger_rules import CensusLedger, HealthLedger, Json
from fakes.virtual_time import Killed
from faults.simulation import AGENCIES, RESEARCHERS, Simulation
from grpc.aio import AioRpcError
from tripartite.v1 import census_service_pb2, condition_pb2, health_service_pb2, ticket_pb2

from broker_common.agency.linkage import NextKey
from broker_common.commands.keys import _rotate
from broker_common.crypto.cards import PURPOSES
from broker_common.crypto.linkage import LinkageChain
from broker_common.crypto.signing import Purpose, VerifyKey
from broker_common.errors import REASONS, BrokerError, InvalidRequestError
from broker_common.privacy.policy import Policy
from broker_common.query.criteria import parse_condition
from broker_common.query.messages import parse_message
from broker_common.query.question import question_from_wire
from broker_common.rpc.status import broker_error, calling
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import parse_entry
from broker_common.tlog.health_state import HealthState
from broker_common.tlog.replay import LogState
from census_node.operator import operating
from census_node.operator.operating import Confirmation
from census_node.operator.proposals import draft, make_proposal
from deploy.local import PROJECT, RELEASE
from researcher_node.answers.store import AskedQuestion
from researcher_node.asking.proposal import Precision, Wanted
from researcher_node.asking.session import Session

ResultT = TypeVar("ResultT")
_DAY = 86_400
_OTHER_RELEASE = "2016"
_WHERES = ("age >= 0", "age >= 65", "sex = 'female' and age < 40", "procedure = 'angioplasty'", "age >= 140", "aeg = 1")
_COUNTS = ("all", "mother_tongue = 'French'", "home_language by 'French', 'English'", "mother_tongue = 'Klingon'")
_FRENCH = _COUNTS[1]
_PATIENCE_STEPS = 4
_STEP_SECONDS = 10.0
# Longer than any walk from a sample's first byte to its charge.
_LONGEST_WALK_SECONDS = 30.0
# Time left of a quote for a question to be submitted and its sample to arrive.
_LEAST_ASKING_MS = 500
_WITH_INBOX, _WITHOUT_INBOX = RESEARCHERS
_NODES = (*AGENCIES, _WITH_INBOX)


@dataclass(frozen=True)
class Operation:
    """One thing that somebody does."""

    name: str
    arguments: dict[str, Any]

    def __str__(self) -> str:
        return f"op({', '.join([repr(self.name), *(f'{name}={value!r}' for name, value in self.arguments.items())])})"


def op(name: str, /, **arguments: Any) -> Operation:
    """As failures print it."""
    return Operation(name, arguments)


class SequenceError(AssertionError):
    """Something happened that must not."""


@dataclass
class Outcome:
    """Result of a sequence: how often which operation ended how, and the ledger's content."""

    ended: Counter[tuple[str, str]]
    charged: int
    answered: int
    kills: int


# --- which operations ------------------------------------------------------------------------------------------------

_Maker = Callable[[random.Random], dict[str, Any]]


def _who(chance: random.Random) -> str:
    return chance.choices(RESEARCHERS, (3, 1))[0]


def _question(chance: random.Random) -> dict[str, Any]:
    scale: int | None = chance.choice((20, 25, 30, 30, 40, 50))
    if chance.random() < 0.15:
        scale = chance.choice((1, 2, 5, 10, 60, None))
    return {
        "who": _who(chance),
        "where": chance.choices(_WHERES, (6, 4, 4, 2, 2, 1))[0],
        "count": chance.choices(_COUNTS, (3, 6, 3, 1))[0],
        "scale": scale,
        "millionths": chance.choice((1_000_000, 1_000_000, 500_000, 1)),
    }


def _ask(chance: random.Random) -> dict[str, Any]:
    return _question(chance) | {
        "wait": chance.choice((0.0, 1.0, 5.0, 15.0)),
        # How long until the next operation begins, whatever has become of this one. Its sample is handed over after about
        # a third of a second, and its answer leaves after about one.
        "apart": round(
            chance.choice((0.0, chance.uniform(0, 0.1), chance.uniform(0.27, 0.4), chance.uniform(0, 1.5), 5.0)), 3
        ),
    }


def _again(chance: random.Random) -> dict[str, Any]:
    return {
        "ticket": chance.randrange(30),
        "times": chance.choice((1, 1, 2, 3)),
        "wait": chance.choice((0.0, 2.0, 10.0)),
        "apart": chance.choice((0.0, 0.05, 1.0, 5.0)),
    }


def _ticket(chance: random.Random) -> dict[str, Any]:
    return {"ticket": chance.randrange(30)}


def _policy(chance: random.Random) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for name, values in (
        ("max_belief", ("0.6", "0.7", "0.75", "0.8", "0.9", "0.99")),
        ("scales", ((30,), (20, 30, 50), (40, 50), (1, 2, 5, 10, 20, 25, 30, 40, 50, 60))),
        ("release_tick_ms", (0, 50, 1000)),
        ("forward_delay_ms", (110, 500, 2000)),
        ("answer_retention_ms", (60_000, 3_600_000, 2 * _DAY * 1000)),
        ("quote_lifetime_ms", (1_000, 60_000, 600_000)),
        ("open_quotes", (1, 2, 64)),
        ("accounting", ("strict", "per_person", "per_person")),
        ("subject", ("person", "household")),
        ("sample_retention_ms", (0, 60_000, _DAY * 1000)),
        ("max_answers", (0, 0, 30)),
    ):
        if chance.random() < 0.35:
            changes[name] = chance.choice(values)
    return {"changes": changes, "confirm": chance.random() < 0.5}


def _party_of(chance: random.Random) -> str:
    return chance.choices(("census", "health", "researcher-1", "researcher-2"), (4, 4, 2, 1))[0]


def _peer_of_agency(chance: random.Random) -> dict[str, Any]:
    at = chance.choice(AGENCIES)
    whom = chance.choices((*RESEARCHERS, "health" if at == "census" else "census"), (2, 4, 1))[0]
    return {"at": at, "whom": whom}


def _kill(chance: random.Random) -> dict[str, Any]:
    moment: tuple[Any, ...] = chance.choice(
        (
            ("now",),
            ("message", chance.randrange(1, 40)),
            ("commit", chance.randrange(1, 6), "before"),
            ("commit", chance.randrange(1, 6), "after"),
            ("commit", chance.randrange(1, 6), "after"),
        )
    )
    return {"party": _party_of(chance), "moment": moment, "down": chance.choice((0.0, 0.0, 0.3, 3.0))}


def _rotation(chance: random.Random) -> dict[str, Any]:
    party = _party_of(chance)
    role = party if party in AGENCIES else "researcher"
    purposes = PURPOSES[role]  # type: ignore[index]  # one of three
    return {"party": party, "purpose": chance.choice(purposes), "wait": chance.choice((0, 0, 3600, 7 * _DAY))}


_KINDS: tuple[tuple[str, int, _Maker], ...] = (
    ("ask", 60, _ask),
    ("prepare", 4, _question),
    ("again", 14, _again),
    ("steal", 2, lambda chance: {"ticket": chance.randrange(30)}),
    ("alter", 2, lambda chance: {"ticket": chance.randrange(30), "where": chance.choice(_WHERES[:5])}),
    ("quote", 3, lambda chance: {"who": _who(chance), "count": _FRENCH, "scale": chance.choice((5, 30, 50))}),
    ("collect", 4, _ticket),
    ("refetch", 4, _ticket),
    ("inbox", 3, lambda chance: {"what": chance.choice(("down", "up", "moved"))}),
    ("load_health", 2, lambda chance: {"what": chance.choice(("whole", "half", "broken"))}),
    ("load_census", 3, lambda chance: {"release": chance.choice((RELEASE, RELEASE, _OTHER_RELEASE)), "broken": chance.random() < 0.2}),
    ("relink", 2, lambda chance: {"party": chance.choice(AGENCIES), "both": chance.random() < 0.6}),
    ("adopt", 5, _policy),
    ("shut_down", 1, lambda _: {}),
    ("reopen", 3, lambda _: {}),
    ("revoke", 2, _peer_of_agency),
    ("register", 3, lambda chance: _peer_of_agency(chance) | {"replace": chance.random() < 0.5}),
    ("rotate", 4, _rotation),
    ("hand_over_cards", 4, lambda _: {}),
    ("meet", 2, lambda chance: {"who": chance.choice(RESEARCHERS)}),
    ("advance", 5, lambda chance: {"seconds": chance.choice((2, 70, 700, 4000, _DAY, 3 * _DAY))}),
    ("wait", 5, lambda chance: {"seconds": chance.choice((0.1, 1.0, 4.0, 12.0))}),
    ("set_clock", 3, lambda chance: {"party": chance.choice(("census", "health", "researcher-1")), "seconds": chance.choice((-_DAY, -3600, -5, 0, 5, 3600, _DAY))}),
    ("kill", 10, _kill),
    ("kill_command", 2, lambda chance: {"when": chance.choice(("before", "after"))}),
    ("restart", 2, lambda chance: {"party": _party_of(chance)}),
    ("fail_commit", 4, lambda chance: {"party": chance.choice(AGENCIES), "fault": chance.choice(("lost", "stored"))}),
    ("cut", 4, lambda chance: {"pair": chance.choice((("census", "health"), ("census", "health"), ("health", "researcher-1"), ("census", "researcher-1"))), "messages": chance.choice((0, chance.randrange(1, 25))), "seconds": chance.choice((0.05, 1.0, 8.0))}),
)  # fmt: skip


def draw(seed: int) -> list[Operation]:
    """The operations of a seed: 20 to 40 of them."""
    chance = random.Random(f"operations of {seed}")
    names = [name for name, _, _ in _KINDS]
    weights = [weight for _, weight, _ in _KINDS]
    makers = {name: make for name, _, make in _KINDS}
    drawn = chance.choices(names, weights, k=chance.randint(20, 40))
    return [Operation(name, makers[name](chance)) for name in drawn]


# --- carrying them out -----------------------------------------------------------------------------------------------


class _Logs:
    """Both logs as they were last read, and what they came to."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.bytes: dict[str, list[bytes]] = {name: [] for name in AGENCIES}
        self.json: dict[str, list[Json]] = {name: [] for name in AGENCIES}
        roots = {name: _root(simulation, name) for name in AGENCIES}
        self._states: dict[str, LogState] = {
            "census": CensusState(roots["census"]),
            "health": HealthState(roots["health"]),
        }
        self.census = CensusLedger()
        self.health = HealthLedger()

    def read(self) -> None:
        """Read what is new; both the product's replay and our own rules must hold of the whole."""
        changed = False
        for name in AGENCIES:
            known = self.bytes[name]
            rows = self._simulation.rows(name, "select entry from entries order by sequence")
            entries = [bytes(row[0]) for row in rows]
            if entries[: len(known)] != known:
                raise SequenceError(f"the {name} log does not go on from what it was")
            for data in entries[len(known) :]:
                # A fold: what was replayed once need not be replayed again to know the state after one more entry.
                self._states[name].apply(parse_entry(data))
                known.append(data)
                self.json[name].append(json.loads(data))
                changed = True
        if changed:
            self.census = ledger_rules.read_census(self.json["census"])
            self.health = ledger_rules.read_health(self.json["health"])
            ledger_rules.verify_agreement(self.census, self.health)


def _root(simulation: Simulation, name: str) -> VerifyKey:
    text = (simulation.parties[name].folder / "keys" / "identity.pub").read_text()
    return VerifyKey.parse_text(text.strip(), Purpose.IDENTITY)


class _Run:
    """One sequence under way."""

    def __init__(self, simulation: Simulation, operations: Sequence[Operation]) -> None:
        self.simulation = simulation
        self.operations = operations
        self.ended: Counter[tuple[str, str]] = Counter()
        self.kills = 0
        # Every question that was prepared: whose, and its id.
        self.tickets: list[tuple[str, str]] = []
        # Sealed bytes of every answer that anybody was handed, by query.
        self.fetched: dict[str, bytes] = {}
        self.logs = _Logs(simulation)
        self._running: set[asyncio.Task[None]] = set()
        self._inbox_address: str = simulation.home(_WITH_INBOX).config.address
        # When each operation began: time that had passed, and the census node's wall clock.
        self._moments: list[tuple[float, int]] = []
        self._verified: set[str] = set()
        self._verified_releases: set[str] = set()

    async def whole(self) -> None:
        """Everything, and then the end."""
        self.verify()
        self.simulation.parties[_WITHOUT_INBOX].wanted = False
        for name in _NODES:
            await self.simulation.start(name)
        for number, operation in enumerate(self.operations):
            self._note_moment()
            try:
                await getattr(self, f"_{operation.name}")(**operation.arguments)
                await asyncio.sleep(0.001)
                self.verify()
            except Exception as error:
                raise SequenceError(f"after operation {number}, {operation}: {error!r}") from error
        try:
            await self._heal()
        except Exception as error:
            raise SequenceError(f"at the end: {error!r}") from error

    # --- how things end --------------------------------------------------------------------------------------------

    def _begin(self, name: str, party: str, work: Callable[[], Coroutine[Any, Any, object]]) -> asyncio.Task[None]:
        """Begin a researcher's command. It ends well or in a typed error; anything else is a failure."""

        async def whole() -> None:
            try:
                await work()
                code = "OK"
            except BrokerError as error:
                code = error.code
            self.ended[name, code] += 1
            if code != "OK" and code not in REASONS:
                self.simulation.problems.append(f"{name} ended with {code}")

        def done(task: asyncio.Task[None]) -> None:
            self._running.discard(task)
            if task.cancelled():
                self.ended[name, "killed"] += 1
            elif (error := task.exception()) is not None:
                self.simulation.problems.append(f"{name} ended with {error!r}")

        task = self.simulation.spawn(party, name, whole)
        self._running.add(task)
        task.add_done_callback(done)
        return task

    async def _finish(self, *tasks: asyncio.Task[None]) -> None:
        await asyncio.wait(tasks)

    def _order(self, name: str, party: str, work: Callable[[], ResultT]) -> ResultT | str:
        """Carry out an operator's command; what it gives, or the code of its error."""
        try:
            result = self.simulation.command(party, work)
        except BrokerError as error:
            self.ended[name, error.code] += 1
            return error.code
        except Killed:
            self.ended[name, "killed"] += 1
            return "killed"
        self.ended[name, "OK"] += 1
        return result

    # --- researchers -----------------------------------------------------------------------------------------------

    def _session(
        self, who: str, use: Callable[[Session], Coroutine[Any, Any, ResultT]]
    ) -> Callable[[], Coroutine[Any, Any, ResultT]]:
        async def whole() -> ResultT:
            home = self.simulation.home(who)
            with closing(home.open_answers()) as store:
                async with home.session(store) as session:
                    return await use(session)

        return whole

    async def _prepared(self, session: Session, who: str, wanted: Wanted) -> AskedQuestion:
        asked = await session.prepare(wanted)
        self.tickets.append((who, asked.query))
        return asked

    def _asking(self, who: str, wanted: Wanted, wait: float) -> Callable[[], Coroutine[Any, Any, object]]:
        async def use(session: Session) -> None:
            try:
                asked = await self._prepared(session, who, wanted)
                await session.ask(asked, wait_seconds=wait, on_stage=lambda _: None)
            except InvalidRequestError as error:
                if error.code != "SLOT_UNUSABLE":
                    raise
                # As the command does, once.
                asked = await self._prepared(session, who, wanted)
                await session.ask(asked, wait_seconds=wait, on_stage=lambda _: None)

        return self._session(who, use)

    async def _ask(
        self, who: str, where: str, count: str, scale: int | None, millionths: int, wait: float, apart: float
    ) -> None:
        wanted = Wanted(where, count, Precision(scale=scale), millionths, PROJECT)
        self._begin("ask", who, self._asking(who, wanted, wait))
        await asyncio.sleep(apart)

    async def _prepare(self, who: str, where: str, count: str, scale: int | None, millionths: int) -> None:
        wanted = Wanted(where, count, Precision(scale=scale), millionths, PROJECT)
        await self._finish(
            self._begin("prepare", who, self._session(who, lambda session: self._prepared(session, who, wanted)))
        )

    def _chosen(self, ticket: int) -> tuple[str, str] | None:
        return self.tickets[ticket % len(self.tickets)] if self.tickets else None

    async def _again(self, ticket: int, times: int, wait: float, apart: float) -> None:
        chosen = self._chosen(ticket)
        if chosen is None:
            return
        who, query = chosen

        async def use(session: Session) -> None:
            await session.ask(session._answers.get(query), wait_seconds=wait, on_stage=lambda _: None)

        for _ in range(times):
            self._begin("again", who, self._session(who, use))
        await asyncio.sleep(apart)

    def _stored(self, who: str, query: str) -> AskedQuestion | None:
        """The question as its researcher holds it; None if the kill of a node took it along."""
        home = self.simulation.home(who)
        with closing(home.open_answers()) as store, contextlib.suppress(InvalidRequestError):
            found: AskedQuestion = store.get(query)
            return found
        return None

    async def _submit_by_hand(self, name: str, who: str, request: health_service_pb2.SubmitRequest) -> None:
        async def use(session: Session) -> None:
            call = (await session._health()).Submit(request, timeout=20)
            try:
                while isinstance(await call.read(), health_service_pb2.SubmitResponse):
                    pass
            except Exception as error:
                raise _foreign(error) from error
            finally:
                call.cancel()
            raise SequenceError(f"{name}: the question was taken to its end")

        await self._finish(self._begin(name, who, self._session(who, use)))

    async def _steal(self, ticket: int) -> None:
        """Another researcher submits a ticket."""
        chosen = self._chosen(ticket)
        asked = None if chosen is None else self._stored(*chosen)
        if chosen is None or asked is None:
            return
        thief = next(name for name in RESEARCHERS if name != chosen[0])
        await self._submit_by_hand("steal", thief, _submission(asked, asked.criteria))

    async def _alter(self, ticket: int, where: str) -> None:
        """The same ticket with other criteria."""
        chosen = self._chosen(ticket)
        asked = None if chosen is None else self._stored(*chosen)
        criteria = parse_condition(where, HEALTH_DICTIONARY).to_wire().SerializeToString(deterministic=True)
        if chosen is None or asked is None or criteria == asked.criteria:
            return
        await self._submit_by_hand("alter", chosen[0], _submission(asked, criteria))

    async def _quote(self, who: str, count: str, scale: int) -> None:
        use = self._session(who, lambda session: session.quote(count, Precision(scale=scale)))
        await self._finish(self._begin("quote", who, use))

    async def _collect(self, ticket: int) -> None:
        chosen = self._chosen(ticket)
        if chosen is not None:
            await self._finish(self._begin("collect", chosen[0], self._collecting(*chosen)))

    def _collecting(self, who: str, query: str) -> Callable[[], Coroutine[Any, Any, object]]:
        return self._session(who, lambda session: session.collect(query, wait_seconds=0))

    async def _refetch(self, ticket: int) -> None:
        """Collect, whether it was collected before or not: always the same bytes."""
        chosen = self._chosen(ticket)
        if chosen is not None:
            await self._finish(self._begin("refetch", chosen[0], self._fetching(*chosen)))

    def _fetching(self, who: str, query: str) -> Callable[[], Coroutine[Any, Any, object]]:
        async def use(session: Session) -> None:
            request = census_service_pb2.CollectRequest(query_id=bytes.fromhex(query), wait_ms=0)
            response = await calling("census", (await session._census()).Collect(request, timeout=15))
            if response.HasField("answer"):
                sealed = response.answer.sealed
                if self.fetched.setdefault(query, sealed) != sealed:
                    raise SequenceError("the same ticket has two answers")

        return self._session(who, use)

    async def _meet(self, who: str) -> None:
        async def use(session: Session) -> None:
            for role in ("health", "census"):
                await session.meet(role)

        await self._finish(self._begin("meet", who, self._session(who, use)))

    async def _inbox(self, what: str) -> None:
        party = self.simulation.parties[_WITH_INBOX]
        if what == "down":
            party.wanted = False
            await self.simulation.stop(party.name)
        elif what == "up":
            party.wanted = True
            await self.simulation.start(party.name)
        else:
            await self.simulation.stop(party.name)
            old = self._inbox_address
            host, _, port = old.rpartition(":")
            self._inbox_address = f"{host}:{int(port) % 60_000 + 1}"
            config = party.folder / "config.toml"
            config.write_text(config.read_text().replace(f'address = "{old}"', f'address = "{self._inbox_address}"', 1))
            await self.simulation.start(party.name)
            await self._register("census", party.name, replace=False)

    # --- operators -------------------------------------------------------------------------------------------------

    async def _load_health(self, what: str) -> None:
        source = self.simulation.folder / f"health-{what}.csv"
        lines = (self.simulation.sources / "health.csv").read_text().splitlines(keepends=True)
        kept = {"whole": lines, "half": lines[: len(lines) // 2], "broken": [*lines, "NaN,,"]}[what]
        source.write_text("".join(kept))
        ended = self._order("load_health", "health", lambda: self.simulation.home("health").load(source, RELEASE))
        if what == "broken" and ended != "LOAD_REFUSED":
            raise SequenceError(f"a broken file was loaded: {ended}")

    async def _load_census(self, release: str, broken: bool) -> None:
        source = self.simulation.folder / "census-source.csv"
        text = (self.simulation.sources / "census.csv").read_text()
        source.write_text(text[: len(text) // 2] + "\0" if broken else text)
        ended = self._order("load_census", "census", lambda: self.simulation.home("census").load(source, release))
        if broken and ended != "LOAD_REFUSED":
            raise SequenceError(f"a broken file was loaded: {ended}")

    async def _relink(self, party: str, both: bool) -> None:
        self._relink_one(party)
        if both:
            self._relink_one(next(name for name in AGENCIES if name != party))

    def _relink_one(self, party: str) -> None:
        other = next(name for name in AGENCIES if name != party)
        own_file, other_file = (
            self.simulation.parties[name].folder / "keys" / "linkage.key" for name in (party, other)
        )
        # Two keys made at once would never come together again; operators agree on whose it is.
        behind = len(other_file.read_text().splitlines()) > len(own_file.read_text().splitlines())
        source = NextKey(file=other_file) if behind else NextKey(new=True)
        self._order("relink", party, lambda: self.simulation.home(party).relink(source))

    async def _adopt(self, changes: dict[str, Any], confirm: bool) -> None:
        def adopt() -> None:
            home = self.simulation.home("census")
            before: Policy = home.read(lambda state: state.policy)
            policy = draft(before, changes)
            confirmation = Confirmation("a test", home.private_operator_key()) if confirm else None
            home.adopt(make_proposal(policy, home.private_policy_key()), confirmation)

        self._order("adopt", "census", adopt)

    async def _shut_down(self) -> None:
        def order() -> None:
            home = self.simulation.home("census")
            with home.journal() as journal:
                operating.shut_down(journal, "a test", home.private_operator_key())

        self._order("shut_down", "census", order)

    async def _reopen(self) -> None:
        def order() -> None:
            home = self.simulation.home("census")
            with home.journal() as journal:
                operating.reopen(journal, "a test", home.private_operator_key())

        self._order("reopen", "census", order)

    async def _revoke(self, at: str, whom: str) -> None:
        identity = self.simulation.home(whom).own_card().card.identity
        name = identity.name if identity.role == "researcher" else identity.organisation
        self._order("revoke", at, lambda: self.simulation.home(at).revoke(identity.role, name, "a test"))

    async def _register(self, at: str, whom: str, replace: bool) -> None:
        card = self.simulation.home(whom).own_card()
        terms: dict[str, Any] = {"replace_because": "another card" if replace else ""}
        if whom in RESEARCHERS:
            terms |= {
                "projects": [PROJECT],
                "inbox": self._inbox_address if at == "census" and whom == _WITH_INBOX else None,
            }
        self._order("register", at, lambda: self.simulation.home(at).register(card, **terms))

    async def _hand_over_cards(self) -> None:
        """Everybody's operator hands everybody else the present card, fingerprints compared."""
        for at in AGENCIES:
            for whom in self.simulation.parties:
                if whom != at:
                    await self._register(at, whom, replace=True)
        for who in RESEARCHERS:
            for role in AGENCIES:
                self.simulation.home(who).trust.put(self.simulation.home(role).own_card(), replace=True)

    async def _rotate(self, party: str, purpose: str, wait: int) -> None:
        def rotate() -> None:
            home = self.simulation.home(party)
            before, now_ms = home.own_card(), self.simulation.wall_ms(party)
            from_ms = now_ms + wait * 1000
            # The command's default time of honour is longer than any sequence.
            until_ms = from_ms + 400 * _DAY * 1000
            _rotate(home, before, purpose, now_ms=now_ms, from_ms=from_ms, until_ms=until_ms)
            home.after_rotation(purpose)

        self._order("rotate", party, rotate)

    # --- time, and what goes wrong ---------------------------------------------------------------------------------

    async def _advance(self, seconds: int) -> None:
        self.simulation.skipped_ms += seconds * 1000
        # The courier looks for what has expired.
        await asyncio.sleep(1.5)

    async def _wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _set_clock(self, party: str, seconds: int) -> None:
        self.simulation.shift_ms[party] = seconds * 1000

    async def _kill(self, party: str, moment: tuple[Any, ...], down: float) -> None:
        self.kills += 1
        target = self.simulation.parties[party]
        target.down_seconds = down
        match moment:
            case ("now",):
                self.simulation.kill(party, down_seconds=down)
            case ("message", number):
                target.kill_at_message = number
            case ("commit", number, when):
                target.kill_at_commit = (number, when)

    async def _kill_command(self, when: str) -> None:
        self.simulation.kill_command = when  # type: ignore[assignment]  # one of two

    async def _restart(self, party: str) -> None:
        await self.simulation.stop(party)
        await self.simulation.start(party)

    async def _fail_commit(self, party: str, fault: str) -> None:
        self.simulation.parties[party].fault = fault  # type: ignore[assignment]  # one of two

    async def _cut(self, pair: tuple[str, str], messages: int, seconds: float) -> None:
        self.simulation.cut(*pair, messages=messages, seconds=seconds)

    # --- what must hold --------------------------------------------------------------------------------------------

    def verify(self) -> None:
        """After every operation."""
        if self.simulation.problems or self.simulation.network.escaped:
            raise SequenceError(f"{self.simulation.problems} {self.simulation.network.escaped!r}")
        self.logs.read()
        answers = self.logs.census.answers
        for query, ticket, sealed in self.simulation.rows("census", "select query, ticket, sealed from answers"):
            released = answers[ticket].released
            if released and hashlib.sha256(sealed).hexdigest() != released:
                raise SequenceError(f"the answer to {query} is not the one that was released")
        for query, sealed in self.fetched.items():
            (released,) = [answer.released for answer in answers.values() if answer.charge["query"] == query]
            if hashlib.sha256(sealed).hexdigest() != released:
                raise SequenceError(f"the answer to {query} that was handed out is not the one that was released")
        tickets = self._tickets_held()
        for ticket, answer in answers.items():
            if ticket not in self._verified:
                self._verify_charge(tickets.get(ticket), answer)
                self._verify_slot(answer)
                self._verified.add(ticket)
            if answer.released and ticket not in self._verified_releases:
                self._verify_release(answer)
                self._verified_releases.add(ticket)
        for who in RESEARCHERS:
            self._verify_held(who)

    def _tickets_held(self) -> dict[str, ticket_pb2.Ticket]:
        """Every ticket that a researcher signed, by its hash: they are kept before they leave."""
        signed = [
            ticket_pb2.SignedTicket.FromString(row[0]).ticket
            for who in RESEARCHERS
            for row in self.simulation.rows(who, "select signed_ticket from questions")
        ]
        return {hashlib.sha256(ticket).hexdigest(): ticket_pb2.Ticket.FromString(ticket) for ticket in signed}

    def _verify_charge(self, body: ticket_pb2.Ticket | None, answer: ledger_rules.Answer) -> None:
        """A new charge is what its ticket says, and the ticket was good when its sample came."""
        charge = answer.charge
        if body is None:
            raise SequenceError(f"a ticket was charged that nobody signed: {charge}")
        said = (
            body.query_id.hex(),
            body.researcher_id,
            body.scale,
            body.noise_slot.number,
            question_from_wire(body.question, CENSUS_DICTIONARY).text,
            body.policy_hash.hex(),
            body.census_release,
        )
        done = tuple(charge[name] for name in ("query", "researcher", "scale", "slot", "question"))
        if said != (*done, answer.policy, answer.release):
            raise SequenceError(f"charged: {done}, under {answer.policy} on {answer.release}; the ticket says {said}")
        now = self.simulation.loop.seconds
        earlier = [wall_ms for seconds, wall_ms in self._moments if seconds >= now - _LONGEST_WALK_SECONDS]
        before = [wall_ms for seconds, wall_ms in self._moments if seconds < now - _LONGEST_WALK_SECONDS][-1:]
        if body.expires_ms <= min([*before, *earlier], default=0):
            raise SequenceError(f"charged for a ticket that had expired: {charge}")

    def _verify_slot(self, answer: ledger_rules.Answer) -> None:
        """The node that charged committed to the noise of a new charge, not one before a restart."""
        started = max(size for size in self.simulation.census_starts if size <= answer.index)
        events = [entry["event"] for entry in self.logs.json["census"][:started]]
        committed = sum(len(event["commitments"]) for event in events if event["type"] == "slots")
        if answer.charge["slot"] < committed:
            raise SequenceError(f"a noise slot of before a restart serves after it: {answer.charge}")

    def _verify_release(self, answer: ledger_rules.Answer) -> None:
        """Before an answer is out, two others hold that it was charged: the health agency and the witness store."""
        census, entries = self.logs.census, self.logs.bytes["census"]
        note = ledger_rules.verify_release(census, entries, answer, self.logs.health.origin)
        rows = self.simulation.rows("health", "select log, note from cosigned")
        held = [ledger_rules.Note(text) for log, text in rows if log == census.origin]
        stored = ledger_rules.Note((self.simulation.folder / "witness" / "checkpoint").read_text())
        for who, seen in (("the health node", held), ("the witness store", [stored])):
            if not any(
                each.size >= note.size and each.root == ledger_rules.root_of(entries[: each.size]) for each in seen
            ):
                raise SequenceError(f"released, and {who} does not hold a checkpoint of it: {answer.charge}")

    def _verify_held(self, who: str) -> None:
        statement = (
            "select query, signed_ticket, noisy_counts, charged, scale from questions where noisy_counts is not null"
        )
        for query, signed_ticket, noisy_counts, charged, scale in self.simulation.rows(who, statement):
            ticket = hashlib.sha256(ticket_pb2.SignedTicket.FromString(signed_ticket).ticket).hexdigest()
            answer = self.logs.census.answers.get(ticket)
            if answer is None or not answer.released or answer.charge["query"] != query:
                raise SequenceError(f"{who} holds an answer to {query} that was never released")
            if (answer.charge["researcher"], charged, scale) != (
                who,
                ledger_rules.price(scale),
                answer.charge["scale"],
            ):
                raise SequenceError(f"{who} holds an answer to {query} of another ticket")
            if list(self.simulation.expected.get(ticket, ())) != json.loads(noisy_counts):
                raise SequenceError(f"the answer to {query} is not the one that its charge fixed")

    async def _heal(self) -> None:
        """Everything is mended; then everything that was begun comes to its end, and another question is answered."""
        simulation = self.simulation
        simulation.disarm()
        for party in simulation.shift_ms:
            simulation.shift_ms[party] = 0
        for name in _NODES:
            await simulation.stop(name)
            simulation.parties[name].wanted = True
        await self._hand_over_cards()
        files = [simulation.parties[name].folder / "keys" / "linkage.key" for name in AGENCIES]
        newest = max((LinkageChain.parse_text(file.read_text()) for file in files), key=lambda chain: len(chain.keys))
        for name in AGENCIES:
            if simulation.home(name).linkage != newest.chain_id:
                self._relink_one(name)
        for name in _NODES:
            await simulation.start(name)
        # Whatever a node had taken up again and given up for now is taken up once more by the next start.
        await self._have_patience()
        for name in AGENCIES:
            await simulation.stop(name)
            await simulation.start(name)
        await self._have_patience()
        self._verify_settled()
        await self._verify_collectable()
        await self._verify_serving()
        self.verify()
        self._verify_whole()

    async def _have_patience(self) -> None:
        """Until everything that was begun is over, or has had time enough to be."""
        for _ in range(_PATIENCE_STEPS):
            self._note_moment()
            await asyncio.sleep(_STEP_SECONDS)
            self.verify()
            if not self._unsettled():
                return

    def _note_moment(self) -> None:
        self._moments.append((self.simulation.loop.seconds, self.simulation.wall_ms("census")))

    def _unsettled(self) -> str:
        """The first problem with what was begun and is not over, if any."""
        if self._running:
            return f"commands that do not end: {self._running}"
        stuck = [ticket[:8] for ticket, answer in self.logs.census.answers.items() if not answer.released]
        if stuck:
            return f"charged and not released: {stuck}"
        for question in self.logs.health.questions.values():
            is_over = question.settled or question.refused
            if not is_over and question.submission["ticket"] in self.logs.census.answers:
                return f"charged, and the health node has not heard of it: {question}"
        return ""

    def _verify_settled(self) -> None:
        if problem := self._unsettled():
            raise SequenceError(problem)
        samples = {path.stem for path in (self.simulation.parties["census"].folder / "samples").glob("*")}
        files = self.simulation.rows("census", "select file from ledger_steps where kind = 'charge' and file != ''")
        # A reference is a file's name and its key.
        kept = {file.partition(":")[0] for (file,) in files}
        if samples != kept:
            raise SequenceError(f"samples are left, or lost: {samples ^ kept}")
        home = self.simulation.parties["census"].folder
        journal = b"".join((home / name).read_bytes() for name in ("journal.db", "journal.db-wal"))
        for ticket, reference in self.simulation.references.items():
            name, _, key = reference.partition(":")
            if name not in kept and key.encode() in journal:
                raise SequenceError(f"the journal holds the key of an erased sample: {ticket[:8]}")

    async def _verify_collectable(self) -> None:
        """Every answer that is out and kept can be fetched by its researcher, and is held after that."""
        kept = {row[0] for row in self.simulation.rows("census", "select query from answers")}
        asked = {
            (who, query) for who in RESEARCHERS for (query,) in self.simulation.rows(who, "select query from questions")
        }
        for answer in self.logs.census.answers.values():
            who, query = answer.charge["researcher"], answer.charge["query"]
            if query not in kept or (who, query) not in asked:
                continue
            await self._finish(self._begin("last fetch", who, self._fetching(who, query)))
            await self._finish(self._begin("last collect", who, self._collecting(who, query)))
            stored = self._stored(who, query)
            if stored is None or stored.state != "answered":
                raise SequenceError(f"the answer to {query} is out and cannot be had: {self.ended}")

    async def _verify_serving(self) -> None:
        """An honest question is answered; if the service is shut, after an operator has raised the cap and reopened it."""
        census = self.logs.census
        if census.is_shut:
            before = self.ended["ask", "OK"]
            wanted = Wanted("age >= 0", "all", Precision(scale=max(census.rules["scales"])), 1_000_000, PROJECT)
            await self._finish(self._begin("ask", RESEARCHERS[0], self._asking(RESEARCHERS[0], wanted, 10)))
            if self.ended["ask", "OK"] != before:
                raise SequenceError("a service that is shut down answered")
            await self._adopt({"max_belief": "0.9999", "max_answers": 0}, confirm=True)
            await self._adopt({"max_belief": "0.9999", "max_answers": 0}, confirm=False)
            await self._reopen()
            self.logs.read()
        rules = self.logs.census.rules
        if rules["quote_lifetime_ms"] - rules["forward_delay_ms"] - rules["release_tick_ms"] < _LEAST_ASKING_MS:
            # As an operator is told who confirms such a policy: every quote ends before its sample leaves.
            await self._adopt({"quote_lifetime_ms": 600_000}, confirm=False)
            self.logs.read()
        scale = max(self.logs.census.rules["scales"])
        before = self.ended["ask", "OK"]
        wanted = Wanted("age >= 65", _FRENCH, Precision(scale=scale), 1_000_000, PROJECT)
        await self._finish(self._begin("ask", RESEARCHERS[0], self._asking(RESEARCHERS[0], wanted, 20)))
        if self.ended["ask", "OK"] != before + 1:
            raise SequenceError(f"an honest question was not answered: {dict(self.ended)}")

    def _verify_whole(self) -> None:
        """From nothing: the product opens both journals, which replays them and compares them with their checkpoints."""
        for name in AGENCIES:
            with self.simulation.home(name).journal() as journal, journal.reading() as state:
                if state.size != len(self.logs.json[name]):
                    raise SequenceError(f"the {name} log has another size")
        self._verify_persons()

    def _verify_persons(self) -> None:
        """Every subject was charged what the answers that could count them cost."""
        home = self.simulation.home("census")
        with home.journal() as journal:
            book = home.ledger(journal)
            book.open()
            charges = book.charges()
            charged = Counter() if charges is None else Counter(dict(enumerate(charges.subjects.tolist())))
            if +charged != +self.simulation.ledger.charged:
                raise SequenceError("the ledger holds other charges")


def _foreign(error: Exception) -> Exception:
    return broker_error(error, "health") if isinstance(error, AioRpcError) else error


def _submission(asked: AskedQuestion, criteria: bytes) -> health_service_pb2.SubmitRequest:
    return health_service_pb2.SubmitRequest(
        ticket=asked.ticket_message,
        criteria=parse_message(condition_pb2.Condition, criteria),
        criteria_nonce=asked.criteria_nonce,
    )


# --- whole sequences -------------------------------------------------------------------------------------------------


def _folder() -> str | None:
    # Nothing here depends on what a disk does after a power cut, so that memory will do.
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - a fresh folder inside it


def run_sequence(template: Path, seed: int, operations: Sequence[Operation] | None = None) -> Outcome:
    """Carry out a seed's operations, or these in their place.

    Raises:
        SequenceError: what went wrong, with everything that is needed to do it again.
    """
    operations = draw(seed) if operations is None else operations
    with tempfile.TemporaryDirectory(prefix="sequence-", dir=_folder()) as folder:
        simulation = Simulation(template, Path(folder), seed)
        run = _Run(simulation, operations)
        try:
            simulation.run(run.whole)
        except SequenceError as error:
            raise SequenceError(f"{error}\n{describe(seed, operations)}") from error
    answers = run.logs.census.answers.values()
    return Outcome(run.ended, len(answers), sum(answer.delivered for answer in answers), run.kills)


def describe(seed: int, operations: Sequence[Operation]) -> str:
    """A call that does it again."""
    lines = "".join(f"        {operation},\n" for operation in operations)
    return f"run_sequence(\n    template,\n    seed={seed},\n    operations=[\n{lines}    ],\n)"


def shrink(template: Path, seed: int, operations: Sequence[Operation]) -> list[Operation]:
    """A shorter list that fails as well: operations are left out, many at once and then one by one."""
    kept = list(operations)
    size = len(kept) // 2
    while size:
        start = 0
        while start < len(kept):
            shorter = kept[:start] + kept[start + size :]
            try:
                run_sequence(template, seed, shorter)
            except SequenceError:
                kept = shorter
            else:
                start += size
        size //= 2
    return kept
