"""Noise slots and held-open calls where two things happen at once: no two locks in two orders, no secret lost, no stop delayed.

Every race is brought about on purpose, at the one instant that matters.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from fakes.dictionaries import CENSUS_DICTIONARY
from fakes.links import NO_CONTEXT, arrived
from fakes.patience import until
from fakes.world import FRENCH, HEALTH, OWNER, Order, OrderedSample, World, charge_and_answer
from protocol.log_link import log_service
from tripartite.v1 import census_service_pb2, log_service_pb2

from broker_common.errors import InternalError, PeerUnavailableError
from broker_common.privacy.delays import DECLARED_STEP
from broker_common.query.question import parse_question
from broker_common.rpc.callers import set_caller
from broker_common.rpc.server import StopSignal
from broker_common.tlog.entries import Slots
from census_node.config import LimitConfig
from census_node.node import CensusNode
from census_node.release.slot_secrets import SlotSecrets
from census_node.release.slots import SlotBook
from census_node.service import CensusService

# Longer than any test waits: a call that is held open for so long ends for another reason, or the test fails.
HOUR_MS = 3_600_000


def hand_over(world: World, order: Order, *, meanwhile: Callable[[], object]) -> None:
    """One whole attempt of a health node, up to the stored answer; `meanwhile` happens while it waits in line."""
    attempt = world.census.attempt(HEALTH.organisation, arrived(world.messages(world.sample(order))))
    attempt.verify_claim()
    attempt.verify_sample()
    meanwhile()
    charge_and_answer(world.census, attempt)
    attempt.let_go()


def serve(world: World, stop: StopSignal, **limits: int) -> CensusService:
    """The census node's service."""
    return CensusService(world.census, LimitConfig(**limits), stop, people=DECLARED_STEP)


# --- locks -----------------------------------------------------------------------------------------------------------


class LockOrder:
    """Which locks were taken while which others were held."""

    def __init__(self) -> None:
        self.taken: set[tuple[str, str]] = set()
        self._held = threading.local()

    def watch(self, owner: object, attribute: str, name: str) -> None:
        """Put a lock in its owner's place that says when it is taken."""
        setattr(owner, attribute, _Watched(getattr(owner, attribute), name, self))

    def take(self, name: str) -> None:
        held = self._held.__dict__.setdefault("names", [])
        self.taken |= {(each, name) for each in held if each != name}
        held.append(name)

    def give_back(self) -> None:
        self._held.names.pop()

    def in_two_orders(self) -> set[tuple[str, str]]:
        """Pairs of locks of which either is taken while the other is held, at once or by way of further ones."""
        reached = set(self.taken)
        while more := {(a, d) for a, b in reached for c, d in reached if b == c} - reached:
            reached |= more
        return {(a, b) for a, b in reached if (b, a) in reached}


class _Watched:
    def __init__(self, lock: Any, name: str, order: LockOrder) -> None:
        self._lock, self._name, self._order = lock, name, order

    def __enter__(self) -> None:
        self._order.take(self._name)
        self._lock.__enter__()

    def __exit__(self, *error: object) -> None:
        self._lock.__exit__(*error)
        self._order.give_back()


def watched(census: CensusNode) -> LockOrder:
    """All locks that a quote or a sample may take."""
    order = LockOrder()
    for owner, attribute, name in (
        (census.journal, "_lock", "journal"),
        (census.slots, "_lock", "slots"),
        (census.publication, "_lock", "publication"),
        (census._reservations, "_lock", "reservations"),
        (census, "_reserving", "reserving"),
        (census, "_committing", "committing"),
    ):
        order.watch(owner, attribute, name)
    return order


def test_no_two_locks_of_a_census_node_are_taken_in_two_orders(world: World) -> None:
    """A sample takes the journal's lock and then the slots': a quote that did it the other way round would stop the node."""
    order = watched(world.census)
    world.use_up_slots()
    batches, asked = len(world.events(Slots)), world.order()
    hand_over(world, asked, meanwhile=lambda: None)
    world.release(asked)
    # The observed events have happened: a batch was committed to, and a sample claimed its slot.
    assert len(world.events(Slots)) == batches + 1
    assert {("committing", "slots"), ("reserving", "journal"), ("journal", "slots")} <= order.taken
    assert not order.in_two_orders()


def test_journal_is_never_asked_under_the_lock_of_the_slots(world: World) -> None:
    """A caller for a quote waits for the journal, which a backup may hold for long, and keeps no sample waiting meanwhile."""
    order = watched(world.census)
    world.use_up_slots()
    for _ in range(3):
        world.reserve()
    # Which tickets are in hand takes a glance at memory.
    assert {taken for held, taken in order.taken if held == "slots"} == {"reservations"}


def test_lock_order_notices_two_orders() -> None:
    """The detector used above does detect, also by way of a third lock."""
    order = LockOrder()
    for pair in (("a", "b"), ("b", "c"), ("b", "b")):
        for name in pair:
            order.take(name)
        for _ in pair:
            order.give_back()
    assert not order.in_two_orders()
    order.take("c")
    order.take("a")
    assert order.in_two_orders() == {(one, other) for one in "abc" for other in "abc"}


# --- a charge while others' secrets are wiped ------------------------------------------------------------------------


class PowerCutError(Exception):
    """Raised where the power goes."""


def charge_only(world: World, monkeypatch: pytest.MonkeyPatch, sample: OrderedSample) -> None:
    """Charge durably, and spend the slot; the answer has not been made yet."""

    def cut(*_: object) -> None:
        raise PowerCutError

    with monkeypatch.context() as patch:
        patch.setattr(world.census.answers, "make", cut)
        with pytest.raises(PowerCutError):
            charge_and_answer(world.census, world.admit(world.messages(sample)))


INSTANTS = ["before the slots are looked at", "after the slots are looked at", "before anything is wiped"]


@pytest.mark.parametrize("instant", INSTANTS)
@pytest.mark.parametrize("answered", ["at once", "after a restart"])
def test_charge_amid_the_wiping_of_others_keeps_its_noise_secret(
    world: World, monkeypatch: pytest.MonkeyPatch, instant: str, answered: str
) -> None:
    """Whenever it commits: its slot is among those held or among those charged, and its paid answer can be made."""
    # The lowest slot of all: once it is spent nothing but the charge keeps its secret.
    sample = world.sample(world.order())
    order, slot = sample.order, sample.order.body.noise_slot
    assert slot.number == min(world.offered)
    unused = world.sample(world.order())
    world.use_up_slots()
    lowest, sweep = SlotBook.lowest, SlotSecrets.sweep
    charged: list[str] = []

    def charge_once(now: str) -> None:
        if now == instant and not charged:
            charged.append(now)
            charge_only(world, monkeypatch, sample)

    def looked_at(book: SlotBook) -> int:
        charge_once(INSTANTS[0])
        found = lowest(book)
        charge_once(INSTANTS[1])
        return found

    def swept(secrets: SlotSecrets, kept: Any) -> None:
        charge_once(INSTANTS[2])
        sweep(secrets, kept)

    with monkeypatch.context() as patch:
        patch.setattr(SlotBook, "lowest", looked_at)
        patch.setattr(SlotSecrets, "sweep", swept)
        world.census.commit_slots()
    assert charged == [instant]
    secrets = SlotSecrets(world.census_folder / "slots")
    secrets.read(slot.number, slot.commitment)
    if answered == "after a restart":
        world.crash_census().recover()
        secrets = SlotSecrets(world.census_folder / "slots")
    else:
        charge_and_answer(world.census, world.admit(world.messages(sample)))
        # Nobody else's secret was wiped either.
        world.answer(unused.order, unused)
    world.release(order)
    assert world.open(order, world.sealed(order)).scale == 30
    with pytest.raises(InternalError, match="SAMPLE_LOST"):
        secrets.read(slot.number, slot.commitment)
    world.verify_honest_query()


def test_sample_under_way_keeps_its_slot_when_its_quote_ends(world: World) -> None:
    """Expired slots are quoted again meanwhile, but none of an admitted sample, which is in progress."""
    expired, order = world.reserve(), world.order()
    quoted: list[int] = []

    def next_batch() -> None:
        world.clock.advance(world.policy.quote_lifetime_ms)
        quoted.extend(world.reserve() for _ in range(3))
        world.use_up_slots()
        world.census.commit_slots()

    hand_over(world, order, meanwhile=next_batch)
    assert order.body.noise_slot.number == expired + 1
    assert quoted == [expired, expired + 2, expired + 3]
    world.release(order)
    assert world.open(order, world.sealed(order)).scale == 30
    world.verify_honest_query()


# --- calls that are held open ----------------------------------------------------------------------------------------


Call = Callable[[World, StopSignal], Awaitable[object]]


async def witness(world: World, stop: StopSignal) -> object:
    """The health node's Witness, when everything that is shown has been cosigned."""
    set_caller(HEALTH)
    seen = world.census.publication.cosigned()
    assert seen is not None
    service = log_service(world, world.census, LimitConfig(witness_wait_ms=HOUR_MS), stop)
    return await service.Witness(log_service_pb2.WitnessRequest(cosigned=seen.note, wait_ms=HOUR_MS), NO_CONTEXT)


async def collect(world: World, stop: StopSignal) -> object:
    """A researcher's Collect of an answer that is not out."""
    set_caller(OWNER)
    service = serve(world, stop, collect_wait_ms=HOUR_MS)
    return await service.Collect(census_service_pb2.CollectRequest(query_id=bytes(16), wait_ms=HOUR_MS), NO_CONTEXT)


async def quote(world: World, stop: StopSignal) -> object:
    """A researcher's Quote while no slot is cosigned; gives the code of its refusal."""
    set_caller(OWNER)
    service = serve(world, stop, quote_wait_ms=HOUR_MS)
    question = parse_question(FRENCH, CENSUS_DICTIONARY).to_wire()
    with pytest.raises(PeerUnavailableError) as caught:
        await service.Quote(census_service_pb2.QuoteRequest(question=question, scale=30), NO_CONTEXT)
    return caught.value.code


HELD_OPEN: dict[str, tuple[Call, object]] = {
    "Witness": (witness, log_service_pb2.WitnessResponse()),
    "Collect": (collect, census_service_pb2.CollectResponse()),
    "Quote": (quote, "NOT_WITNESSED"),
}


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """For every call that is held open from now on: the longest that it would wait."""
    waits: list[float | None] = []
    wait = asyncio.wait

    def noted(things: Any, *, timeout: float | None = None) -> Coroutine[Any, Any, Any]:
        waits.append(timeout)
        return wait(things, timeout=timeout)

    monkeypatch.setattr(asyncio, "wait", noted)
    return waits


@pytest.mark.parametrize("name", HELD_OPEN)
@pytest.mark.parametrize("when", ["while it waits", "before it waits"])
async def test_call_that_is_held_open_ends_when_the_node_stops(
    world: World, held: list[float | None], name: str, when: str
) -> None:
    """It says what it would say at the end of its wait, and says it now: cut off, its caller would take the node for broken."""
    call, said = HELD_OPEN[name]
    # Slots that nobody has cosigned yet.
    world.cosigning = False
    if name == "Quote":
        world.crash_census().recover()
    stop = StopSignal()
    if when == "before it waits":
        stop.stop()
    calling = asyncio.ensure_future(call(world, stop))
    if when == "while it waits":
        await until(lambda: bool(held))
        assert not calling.done()
        stop.stop()
    await until(calling.done)
    assert calling.result() == said
    # It was told once, and did not look again and again.
    assert len(held) == (when == "while it waits")
    assert all(wait is not None and wait > HOUR_MS / 2000 for wait in held)
