"""When things happen outside tells nothing of what happens inside: not the noise, the count, drops, linkage or a size.

The claims. Whatever the desk does for the samples and releases of one round ends within a tick: then none of it moves any
instant, or any place in the log, that anybody outside sees: not by one millisecond, wherever a colluding health agency places its
cosignatures and its messages, and however many questions are under way. Work that takes longer than that moves outcomes by whole
ticks; which tick is what it then tells (SECURITY.md, known limits). The work for a sample before it has its place in line is the
same for every sample. The claim does not cover a busy machine's effect on the microseconds of other calls.

How. In virtual time the real services run with work that takes a time of its own in every world; whatever is seen is
compared exactly, so that no error rate comes into it. In real time, over gRPC on loopback, the answers of two worlds are
compared by the exact Kolmogorov-Smirnov test: see `FALSE_ALARM_RATE`. How long work takes depends on how busy the machine is:
the policy's tick is measured in the same run, and where the comparison must find work, the work is counted instead of timed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random  # noqa: TID251 - the order of two worlds, no secret
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from fakes.clock import FakeClock
from fakes.dictionaries import CENSUS_DICTIONARY
from fakes.links import NO_CONTEXT, count
from fakes.patience import PATIENCE_SECONDS
from fakes.quotes import quote_of
from fakes.timed_loop import LoopClock, TimedLoop
from fakes.world import (
    FRENCH,
    HEALTH,
    OTHER_HEALTH,
    OTHER_RESEARCHER,
    RESEARCHER,
    Order,
    Pseudonyms,
    World,
    make_policy,
)
from grpc import aio
from integration.loopback import Loopback
from scipy import stats
from tripartite.v1 import census_service_pb2, census_service_pb2_grpc, inbox_service_pb2

import census_node.ledger.book
import census_node.query.answering
from broker_common.crypto.certificates import Identity
from broker_common.errors import BrokerError
from broker_common.privacy.policy import Policy
from broker_common.query.question import parse_question
from broker_common.rpc.callers import set_caller
from broker_common.rpc.channel import Peer
from broker_common.rpc.server import StopSignal
from broker_common.storage.clock import system_clock
from broker_common.values import Clock
from census_node.config import LimitConfig
from census_node.ledger.accounts import Ledger
from census_node.ledger.book import LedgerBook
from census_node.ledger.passes import Bits, CardPlaces, Passes
from census_node.ledger.samples import SampleFolder
from census_node.ledger.snapshots import SnapshotFolder
from census_node.node import CensusNode
from census_node.query.flow import Charge
from census_node.query.publishing import Publishing
from census_node.query.schedule import Round, Ticks
from census_node.release import delivery
from census_node.release.delivery import Courier
from census_node.release.released import ReleasedAnswers
from census_node.service import CensusService

pytestmark = pytest.mark.statistical

TICK_MS, DELAY_MS = 200, 1000
MINUTE_MS = 60_000
POLICY = make_policy(accounting="per_person", tick_ms=TICK_MS, delay_ms=DELAY_MS)
CountRequest = census_service_pb2.CountRequest
Seen = tuple[int, str, object]


# --- worlds that differ in secrets -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Secret:
    """One world: who is in every sample, whom the ledger drops, and how many milliseconds each step takes."""

    people: Callable[[World], Pseudonyms]
    all_dropped: bool = False
    decide_ms: int = 0
    keep_ms: int = 0
    apply_ms: int = 0
    noise_ms: int = 0
    answer_ms: int = 0
    forget_ms: int = 0


def everybody(world: World) -> Pseudonyms:
    """Those in the census and those who are not."""
    return world.people


def linked(world: World) -> Pseudonyms:
    """A hundred whom the census has."""
    people: Pseudonyms = world.in_census[:100]
    return people


def strangers(world: World) -> Pseudonyms:
    """A hundred whom it has not, so that the count is zero."""
    people: Pseudonyms = world.people[3::4]
    return people


def nobody(world: World) -> Pseudonyms:
    """An empty sample."""
    return world.people[:0]


# All work on two samples in one round is done within a tick.
SECRETS = {
    "all linked": Secret(linked, decide_ms=30, apply_ms=20, answer_ms=40),
    "all dropped": Secret(linked, all_dropped=True, decide_ms=17, answer_ms=3),
    "large noise": Secret(linked, noise_ms=83),
    "none linked, count zero": Secret(strangers, decide_ms=1),
    "empty": Secret(nobody),
    "everybody": Secret(everybody, decide_ms=29, keep_ms=21, apply_ms=10, answer_ms=25),
    "everybody, and much to forget": Secret(
        everybody, decide_ms=19, keep_ms=17, apply_ms=9, noise_ms=3, answer_ms=40, forget_ms=700
    ),
}
REFERENCE = Secret(linked)


@contextmanager
def taking_time(loop: TimedLoop, world: World, secret: Secret) -> Iterator[None]:
    """Every step whose length might depend on a secret takes as long as in that world."""
    journal = world.census.journal
    with pytest.MonkeyPatch.context() as patch:

        def slow(owner: object, name: str, milliseconds: int) -> None:
            work = getattr(owner, name)

            def slowly(*arguments: Any, **named: Any) -> Any:
                loop.work(milliseconds, journal)
                return work(*arguments, **named)

            patch.setattr(owner, name, slowly)

        slow(LedgerBook, "decide", secret.decide_ms)
        slow(SampleFolder, "write", secret.keep_ms)
        slow(LedgerBook, "charged", secret.apply_ms)
        slow(census_node.query.answering, "add_noise", secret.noise_ms)
        slow(Passes, "count", secret.answer_ms)
        slow(Ledger, "frozen", secret.forget_ms)
        # There is a snapshot after every charge, the worst case.
        patch.setattr(census_node.ledger.book, "_MOST_CHARGES", 1)
        slow(SnapshotFolder, "write", secret.forget_ms)
        slow(SnapshotFolder, "read", secret.forget_ms)
        yield


# --- an adversary who sees everything outside ------------------------------------------------------------------------

# When a colluding health agency cosigns what it was shown at an instant, by what it hopes to see.
Placement = Callable[[int], int]
PLACEMENTS: dict[str, Placement] = {
    "at once": lambda shown_ms: shown_ms,
    "just before a tick": lambda shown_ms: next_tick(shown_ms + 2) - 1,
    "exactly on a tick": lambda shown_ms: next_tick(shown_ms + 1),
    "just after a tick": lambda shown_ms: next_tick(shown_ms) + 1,
    "late": lambda shown_ms: shown_ms + 1717,
}


def next_tick(not_before_ms: int, tick_ms: int = TICK_MS) -> int:
    """The first tick from an instant on."""
    return -(-not_before_ms // tick_ms) * tick_ms


@dataclass(frozen=True)
class Asked:
    """One question: when its head and its last part come, after the start, whether that is good, and who gets the answer."""

    head_ms: int
    whole_ms: int
    good: bool = True
    collected: bool = False


# Several under way; two of one round; one whose last part is held back; one to be refused.
QUESTIONS = (
    Asked(120, 121, collected=True),
    Asked(123, 124),
    Asked(450, 451, good=False),
    Asked(2150, 2160, collected=True),
    Asked(2151, 2890),
    Asked(4399, 4400),
)
END_MS = 9000


@dataclass
class Watch:
    """Everything that is seen outside, with its millisecond."""

    loop: TimedLoop
    seen: list[Seen] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def see(self, what: str, detail: object = None) -> None:
        self.seen.append((round(self.loop.time() * 1000), what, detail))


async def at(loop: TimedLoop, instant_ms: float) -> None:
    """Wait for an instant after the start."""
    await asyncio.sleep(max(0.0, instant_ms / 1000 - loop.time()))


async def ask(watch: Watch, service: CensusService, world: World, order: Order, asked: Asked, secret: Secret) -> None:
    """A health node that speaks at instants of its own choosing."""
    head, *parts = world.messages(world.sample(order, secret.people(world)))
    if not asked.good:
        head.head.manifest.signature = bytes(64)

    async def sending() -> AsyncIterator[CountRequest]:
        yield head
        await at(watch.loop, asked.whole_ms)
        for part in parts:
            yield part

    await at(watch.loop, asked.head_ms)
    try:
        async for response in count(service, sending(), HEALTH):
            watch.see(f"Count {asked.head_ms}", (response.WhichOneof("event"), response.charged.log_index))
    except BrokerError as error:
        watch.see(f"Count {asked.head_ms}", error.code)


async def collect(watch: Watch, service: CensusService, order: Order, asked: Asked) -> None:
    """The researcher holds a call open."""
    set_caller(Identity("university", "researcher", RESEARCHER))
    request = census_service_pb2.CollectRequest(query_id=order.body.query_id, wait_ms=END_MS)
    response = await service.Collect(request, NO_CONTEXT)
    watch.see(f"Collect {asked.head_ms}", len(response.answer.sealed))


async def quote_all_the_time(watch: Watch, service: CensusService) -> None:
    """Another researcher watches how long quotes take, and how long the log is that they show."""
    set_caller(Identity("university", "researcher", OTHER_RESEARCHER))
    question = parse_question(FRENCH, CENSUS_DICTIONARY).to_wire()
    for instant_ms in range(3, END_MS, 41):
        await at(watch.loop, instant_ms)
        quoted = await service.Quote(census_service_pb2.QuoteRequest(question=question, scale=30), NO_CONTEXT)
        body = quote_of(quoted)
        remaining = body.remaining if body.HasField("remaining") else None
        size = body.noise_slot.checkpoint.splitlines()[1]
        watch.see("quote", (instant_ms, remaining, quoted.slot_index, size, len(quoted.slot_proof)))
        # Figures in a quote for the researcher with questions in progress.
        left = await service._node.journal.glance(service._node.quotes.quota_left, RESEARCHER)
        watch.see("quota", (instant_ms, left))


async def cosign(watch: Watch, world: World, placement: Placement) -> None:
    """Cosign what is shown, each time at the instant that the adversary wants."""
    size = 0
    clock = world.clock
    began_ms = clock() - round(watch.loop.now * 1000)
    news = asyncio.Event()
    world.census.publication.on_news(news.set)
    news.set()
    while True:
        await news.wait()
        news.clear()
        newer = world.census.publication.newer_than(size)
        if newer is not None:
            size = newer[0]
            watch.see("shown", size)
            await at(watch.loop, placement(clock()) - began_ms)
            world.cosign()


async def fall_silent(watch: Watch, service: CensusService, world: World, order: Order, sender: Identity) -> None:
    """An agency that begins a sample, sends all of it but the last part, and says nothing until everything is over."""
    key = world.secrets.manifest if sender == HEALTH else world.secrets.other_manifest
    messages = world.messages(world.sample(order), key)

    async def sending() -> AsyncIterator[CountRequest]:
        for message in messages[:-1]:
            yield message
        await watch.over.wait()

    await at(watch.loop, 110)
    with pytest.raises(BrokerError, match="MALFORMED_MESSAGE"):
        _ = [response async for response in count(service, sending(), sender)]


def observe(
    tmp_path: Path,
    secret: Secret,
    placement: Placement,
    questions: Sequence[Asked] = QUESTIONS,
    *,
    silent: Sequence[Identity] = (),
) -> list[Seen]:
    """Everything that is seen of one world, in which these agencies fall silent."""
    with pytest.MonkeyPatch.context() as patch:
        # Durability is not examined here.
        patch.setattr(os, "fsync", lambda _: None)
        return _observe(tmp_path, secret, placement, questions, silent)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[Seen]]:
    """Everything seen of the reference world, by placement; each is made when a test first asks for it."""

    @cache
    def observed(placement: str) -> list[Seen]:
        return observe(tmp_path_factory.mktemp("reference"), REFERENCE, PLACEMENTS[placement])

    return observed


def _observe(
    tmp_path: Path, secret: Secret, placement: Placement, questions: Sequence[Asked], silent: Sequence[Identity]
) -> list[Seen]:
    loop = TimedLoop()
    asyncio.set_event_loop(loop)
    watch = Watch(loop)
    clock = LoopClock(loop, BEGAN_MS)
    world = World(tmp_path, POLICY, census_clock=clock, health_clock=clock)
    world.clock = clock
    world.census.journal.db.execute("pragma synchronous = off")
    try:
        loop.run_until_complete(_watched(watch, world, secret, placement, questions, silent))
        start = world.clock.now_ms
        for entry in world.entries():
            watch.seen.append((entry.time_ms - start, "entry", (entry.sequence, type(entry.event).__name__)))
    finally:
        world.close()
        loop.close()
        asyncio.set_event_loop(None)
    # Within a millisecond in no order: there the loop decides.
    return sorted(watch.seen, key=lambda seen: (seen[0], str(seen)))


# The virtual clocks begin when the certificates of the test are valid.
BEGAN_MS = (system_clock() // MINUTE_MS + 1) * MINUTE_MS


async def _watched(
    watch: Watch,
    world: World,
    secret: Secret,
    placement: Placement,
    questions: Sequence[Asked],
    silent: Sequence[Identity],
) -> None:
    stop = StopSignal()
    service = CensusService(world.census, LimitConfig(quotes_per_minute=10_000), stop, people=len(world.people))
    if secret.all_dropped:
        _use_up(world.census.book)
    orders, unheard = [world.order() for _ in questions], world.order()
    world.cosigning = False
    courier = Courier(world.census, lambda: {RESEARCHER: Peer("researcher", "", ())}, Mock, LimitConfig())
    with pytest.MonkeyPatch.context() as patch, taking_time(watch.loop, world, secret):
        patch.setattr(delivery, "open_channel", lambda *_: InboxChannel(watch))
        for_ever = [
            asyncio.create_task(each) for each in (service.run(), cosign(watch, world, placement), courier.run())
        ]
        silence = [asyncio.create_task(fall_silent(watch, service, world, unheard, sender)) for sender in silent]
        watching = [quote_all_the_time(watch, service)]
        for order, asked in zip(orders, questions, strict=True):
            watching.append(ask(watch, service, world, order, asked, secret))
            if asked.collected:
                watching.append(collect(watch, service, order, asked))
        await asyncio.gather(*(asyncio.create_task(each) for each in watching))
        seen = list(watch.seen)
        watch.over.set()
        await asyncio.gather(*silence)
        watch.seen[:] = seen
        for task in for_ever:
            task.cancel()
        await asyncio.wait(for_ever)
    assert stop.error is None


class InboxChannel(contextlib.AbstractAsyncContextManager["InboxChannel"]):
    """A channel to an inbox that takes everything."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    async def __aexit__(self, *_: object) -> None:
        pass

    def unary_unary(
        self, *_: object, **_options: object
    ) -> Callable[..., Awaitable[inbox_service_pb2.DeliverResponse]]:
        """The factory of the generated stub's one call."""
        return self._deliver

    async def _deliver(
        self, request: inbox_service_pb2.DeliverRequest, **_: object
    ) -> inbox_service_pb2.DeliverResponse:
        self._watch.see("push", len(request.answer.sealed))
        return inbox_service_pb2.DeliverResponse()


def _use_up(book: LedgerBook) -> None:
    """Nobody has any budget left; what the rows say is not asked."""
    book._ledger.charged = np.full(book._ledger.persons, POLICY.cap, np.uint32)


def verify_worth_comparing(seen: list[Seen]) -> None:
    """Return only if the questions that are good were answered, and everything was watched."""
    good, collected = sum(asked.good for asked in QUESTIONS), sum(asked.collected for asked in QUESTIONS)
    assert sum(what == "push" for _, what, _ in seen) >= good - collected
    assert sum(what.startswith("Collect") for _, what, _ in seen) == collected
    assert sum(detail == ("released", 0) for _, _, detail in seen) == good
    assert {"quote", "shown", "entry"} < {what for _, what, _ in seen}


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_nothing_outside_moves_by_a_millisecond_whatever_happens_inside(
    tmp_path: Path, placement: str, reference: Callable[[str], list[Seen]]
) -> None:
    """Every instant, every place in the log and every size shown are those of the reference world, in every other one."""
    expected = reference(placement)
    verify_worth_comparing(expected)
    for number, (name, secret) in enumerate(SECRETS.items()):
        seen = observe(tmp_path / str(number), secret, PLACEMENTS[placement])
        assert seen == expected, name


@pytest.mark.parametrize("whole_ms", [123, 199, 200, 201])
def test_a_refusal_leaves_at_the_instant_of_a_charge(tmp_path: Path, whole_ms: int) -> None:
    """A refused researcher hears it at the very millisecond at which the charge would have been told, and nothing is charged."""
    told = {}
    for good in (True, False):
        asked = Asked(120, whole_ms, good=good, collected=good)
        seen = observe(tmp_path / str(good), REFERENCE, PLACEMENTS["at once"], [asked])
        told[good] = next(each for each in seen if each[1] == "Count 120")
        assert sum(what == "entry" and "Charged" in str(detail) for _, what, detail in seen) == good
    assert told[True][0] == told[False][0] == next_tick(whole_ms + 1) + TICK_MS
    assert told[False][2] == "BAD_SIGNATURE"


def test_nobody_waits_for_an_agency_that_begins_a_sample_and_falls_silent(
    tmp_path: Path, reference: Callable[[str], list[Seen]]
) -> None:
    """Neither its own samples, if it has a stream left, nor another agency's: nothing of theirs moves by a millisecond."""
    silent = [OTHER_HEALTH, HEALTH]
    seen = observe(tmp_path, REFERENCE, PLACEMENTS["at once"], silent=silent)
    assert seen == reference("at once")


# --- the same comparison finds what is planted -----------------------------------------------------------------------


def outcomes_when_ready(patch: pytest.MonkeyPatch) -> None:
    """No outcome waits for its tick."""

    async def at_once(self: Ticks, now: Round) -> int:
        del now
        return self.clock()

    patch.setattr(Ticks, "leave", at_once)


def rounds_when_free(patch: pytest.MonkeyPatch) -> None:
    """The next round begins as soon as the one before it is done."""
    leave = Ticks.leave

    async def early(self: Ticks, now: Round) -> int:
        return await leave(self, replace(now, leaves_ms=self.clock() + 1))

    patch.setattr(Ticks, "leave", early)


def charges_shown_when_made(patch: pytest.MonkeyPatch) -> None:
    """The health agency is shown a charge as soon as the witness outside has it."""
    entrust = Publishing.entrust

    def shown(self: Publishing, charge: Charge) -> None:
        entrust(self, charge)
        loop = asyncio.get_event_loop()
        assert isinstance(loop, TimedLoop)
        # A job's work counts from its beginning in this loop; this is to be seen when the work before it is done.
        loop.call_later(loop.took, self.show, charge)

    patch.setattr(Publishing, "entrust", shown)


def deliveries_after_housekeeping(patch: pytest.MonkeyPatch) -> None:
    """Answers are pushed when everything that is to be forgotten has been."""
    forget, undelivered, nodes = CensusNode.forget_expired, ReleasedAnswers.undelivered, list[CensusNode]()

    def forgetting(node: CensusNode) -> None:
        nodes[:] = [node]
        forget(node)

    def late(answers: ReleasedAnswers, researchers: Collection[str]) -> dict[str, list[str]]:
        for node in nodes:
            forget(node)
        return undelivered(answers, researchers)

    patch.setattr(CensusNode, "forget_expired", forgetting)
    patch.setattr(ReleasedAnswers, "undelivered", late)


def ledgers_read_under_the_journals_lock(patch: pytest.MonkeyPatch) -> None:
    """Nobody is served while the ledgers are written anew."""
    maintain = LedgerBook.maintain

    def locked(book: LedgerBook, *arguments: Any) -> None:
        with book._journal.reading():
            maintain(book, *arguments)

    patch.setattr(LedgerBook, "maintain", locked)


@pytest.mark.parametrize(
    "plant",
    [
        outcomes_when_ready,
        rounds_when_free,
        charges_shown_when_made,
        deliveries_after_housekeeping,
        ledgers_read_under_the_journals_lock,
    ],
)
def test_a_planted_dependence_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    """Each way in which a secret used to show, or would, is found by the comparison above."""
    plant(monkeypatch)
    expected = observe(tmp_path / "reference", REFERENCE, PLACEMENTS["at once"])
    other = SECRETS["everybody, and much to forget"]
    assert observe(tmp_path / "other", other, PLACEMENTS["at once"]) != expected


@pytest.mark.parametrize("slow", ["decide_ms", "keep_ms", "answer_ms"])
def test_work_that_outlasts_its_time_moves_outcomes_by_whole_ticks(
    tmp_path: Path, slow: str, reference: Callable[[str], list[Seen]]
) -> None:
    """A machine that is too slow tells which tick it missed, and not by how much."""
    expected = dict(outcomes(reference("at once")))
    moved = 0
    for took_ms in (301, 1317):
        secret = Secret(linked, **{slow: took_ms})  # type: ignore[arg-type]  # the steps' times
        seen = outcomes(observe(tmp_path / str(took_ms), secret, PLACEMENTS["at once"]))
        assert {key for key, _ in seen} == set(expected)
        for key, instant_ms in seen:
            slip_ms = instant_ms - expected[key]
            assert slip_ms % TICK_MS == 0
            moved += slip_ms > 0
    assert moved


def outcomes(seen: list[Seen]) -> list[tuple[tuple[str, object], int]]:
    """When each question's outcomes were told, and its answer came."""
    told = []
    for instant_ms, what, detail in seen:
        event = detail[0] if isinstance(detail, tuple) else detail
        if what.startswith(("Count", "Collect")):
            told.append(((what, event), instant_ms))
    return told


# --- in real time ----------------------------------------------------------------------------------------------------

FALSE_ALARM_RATE = 1e-6
"""Of this file, when nothing depends on the world: two comparisons share it (Bonferroni), each by the exact law of the
Kolmogorov-Smirnov distance of two samples."""
# Samples of each world; worlds that never overlap would give a p-value of 3e-9.
ROUNDS = 16
# How often a round's work would fit into the tick, as it takes here and now: the machine must become much slower during the run,
# and stay so for nearly every question, before ticks are missed.
TICK_FOR_ROUNDS = 4
LEAST_TICK_MS = 100
CALIBRATING = 5


@dataclass(frozen=True)
class Late:
    """How many milliseconds after the first instant that is allowed two events came."""

    charged: int
    released: int


async def heard(call: Any, event: str, clock: Clock) -> int:
    """When the next message came, which is this one."""
    response = await call.read()
    now_ms = clock()
    assert response.WhichOneof("event") == event
    return now_ms


async def measured(channel: aio.Channel, world: World, people: Pseudonyms, researcher: str = RESEARCHER) -> Late:
    """Ask one question as a health node does, and look at the clock."""
    clock, tick_ms = world.census_clock, world.policy.release_tick_ms
    messages = world.messages(world.sample(world.order(researcher), people))
    stub: census_service_pb2_grpc.CensusServiceAsyncStub = census_service_pb2_grpc.CensusServiceStub(channel)
    call = stub.Count(timeout=PATIENCE_SECONDS)
    sent_ms = clock()
    for message in messages:
        await call.write(message)
    await call.done_writing()
    charged_ms = await heard(call, "charged", clock)
    released_ms = await heard(call, "released", clock)
    due_ms = next_tick(sent_ms + 1, tick_ms) + tick_ms if tick_ms else sent_ms
    return Late(charged_ms - due_ms, released_ms - due_ms)


@asynccontextmanager
async def another_asking(channel: aio.Channel, world: World) -> AsyncIterator[None]:
    """Meanwhile another researcher has one question after the other, about half of everybody."""
    asked = []

    async def ask_on() -> None:
        while True:
            await measured(channel, world, world.people[::2], OTHER_RESEARCHER)
            asked.append(1)

    asking = asyncio.create_task(ask_on())
    try:
        yield
    finally:
        asking.cancel()
        await asyncio.wait({asking})
    assert asking.cancelled()
    assert asked


async def two_worlds(tmp_path: Path, policy: Policy, clock: Clock = system_clock) -> tuple[list[Late], list[Late]]:
    """A sample of few linked people and one of everybody, in an order that a coin decides."""
    world = World(tmp_path, policy, census_clock=clock, health_clock=clock)
    if isinstance(clock, FakeClock):
        world.clock = clock
    samples = (linked(world)[:10], everybody(world))
    order = [0, 1] * ROUNDS
    random.shuffle(order)
    late: tuple[list[Late], list[Late]] = ([], [])
    async with AsyncExitStack() as stack:
        nodes = await stack.enter_async_context(Loopback(world))
        channel = await stack.enter_async_context(nodes.channel(HEALTH, "census"))
        await measured(channel, world, samples[1])
        if policy.release_tick_ms:
            await stack.enter_async_context(another_asking(channel, world))
        for which in order:
            if policy.release_tick_ms:
                # Not on the edge of a tick, where a sample of the same moment may fall on either side of it.
                now_ms = system_clock()
                tick_ms = next_tick(now_ms + 1, policy.release_tick_ms)
                await asyncio.sleep((tick_ms + random.uniform(15, 25) - now_ms) / 1000)
            late[which].append(await measured(channel, world, samples[which]))
    world.close()
    return late


def p_values(late: tuple[list[Late], list[Late]]) -> list[float]:
    """How likely such a distance of the two worlds is when nothing depends on the world."""
    pairs = (([getattr(each, name) for each in world] for world in late) for name in ("charged", "released"))
    return [float(stats.ks_2samp(*pair, method="exact").pvalue) for pair in pairs]


async def tick_for_this_machine(tmp_path: Path) -> int:
    """A tick into which the work of a question fits many times, as busy as the machine is now."""
    world = World(tmp_path, PROMPT, census_clock=system_clock, health_clock=system_clock)
    async with Loopback(world) as nodes, nodes.channel(HEALTH, "census") as channel:
        # At tick 0: how long it took.
        took = [(await measured(channel, world, everybody(world))).released for _ in range(CALIBRATING)]
    world.close()
    return max(LEAST_TICK_MS, TICK_FOR_ROUNDS * max(took))


PROMPT = make_policy(accounting="per_person")


async def test_two_worlds_are_not_told_apart_by_the_clock(tmp_path: Path) -> None:
    """Over gRPC with mutual TLS: when charges and answers come is the same for few linked people and for everybody.

    While another researcher asks, too. Fails by chance with `FALSE_ALARM_RATE`, on a machine that keeps up: its tick is measured just before.
    """
    tick_ms = await tick_for_this_machine(tmp_path / "before")
    policy = make_policy(accounting="per_person", tick_ms=tick_ms)
    assert min(p_values(await two_worlds(tmp_path, policy))) > FALSE_ALARM_RATE / 2


class CountedClock(FakeClock):
    """Goes on by the work of a desk that looks up one after the other who is in a sample, and by nothing else."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        super().__init__(BEGAN_MS)
        self._lock = threading.Lock()
        find = Passes.find

        def counted(passes: Passes, sample: Bits, cards: CardPlaces, here: Bits) -> None:
            self.advance(int(np.bitwise_count(sample).sum()))
            find(passes, sample, cards, here)

        patch.setattr(Passes, "find", counted)

    def advance(self, milliseconds: int) -> None:
        with self._lock:
            super().advance(milliseconds)


async def test_the_clock_tells_them_apart_where_work_depends_on_the_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same comparison, at tick 0, of a desk with a millisecond of work for each person: it is found at the same rate."""
    late = await two_worlds(tmp_path, PROMPT, CountedClock(monkeypatch))
    assert max(p_values(late)) < FALSE_ALARM_RATE / 2
