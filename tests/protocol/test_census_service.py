"""The census service: parts of a sample in any wrong order, streams that stall, who hears what, and when."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.dictionaries import CENSUS_DICTIONARY
from fakes.links import NO_CONTEXT, count, stream
from fakes.patience import NEVER_SECONDS, PATIENCE_SECONDS
from fakes.quotes import quote_of
from fakes.timed_loop import LoopClock, TimedLoop, in_desk_time, working
from fakes.virtual_time import in_virtual_time
from fakes.world import (
    FRENCH,
    HEALTH,
    OTHER_HEALTH,
    OTHER_RESEARCHER,
    RELEASE,
    RESEARCHER,
    Order,
    World,
    make_policy,
)
from google.protobuf.message import Message
from protocol.pair import at_work
from tripartite.v1 import answer_pb2, census_service_pb2, health_service_pb2, quote_pb2, sample_pb2, ticket_pb2

from broker_common.crypto.certificates import Identity
from broker_common.errors import BrokerError, InternalError, InvalidRequestError, RefusedError
from broker_common.privacy.accounting import answers_left, price
from broker_common.privacy.delays import DECLARED_STEP
from broker_common.privacy.table_laplace import margin
from broker_common.query.answer import SEALED_ANSWER_BYTES
from broker_common.query.question import parse_question
from broker_common.query.quote import verify_quote
from broker_common.rpc.callers import set_caller
from broker_common.rpc.server import StopSignal
from broker_common.storage.clock import system_clock
from broker_common.tlog.entries import Charged
from census_node.config import LimitConfig
from census_node.ledger.passes import Passes
from census_node.ledger.samples import SampleFolder
from census_node.query.admission import SampleAttempt
from census_node.query.answering import Answers
from census_node.query.charging import Charging, Keeping
from census_node.service import CensusService

Requests = list[census_service_pb2.CountRequest]
CountRequest = census_service_pb2.CountRequest
PATIENT = LimitConfig(max_queries=8, cosignature_wait_ms=int(1000 * PATIENCE_SECONDS))
EVENTS = ["charged", "released"]


@pytest.fixture
def stop() -> StopSignal:
    """Set when the node must stop."""
    return StopSignal()


def served(world: World, stop: StopSignal, limits: LimitConfig = PATIENT) -> CensusService:
    """The service of a world's census node, whose desk a test sets to work."""
    return CensusService(world.census, limits, stop, people=DECLARED_STEP)


@pytest.fixture
async def service(world: World, stop: StopSignal) -> AsyncIterator[CensusService]:
    """The service of the world's census node at work, with eight streams an agency."""
    async with at_work(served(world, stop)) as service:
        yield service


@pytest.fixture
def wide(tmp_path: Path) -> Iterator[World]:
    """A world whose samples have three parts."""
    made = World(tmp_path / "wide", places=3 * DECLARED_STEP)
    yield made
    made.close()


async def hand_over(service: CensusService, requests: Requests | AsyncIterator[CountRequest]) -> list[str]:
    """Call Count to its end; gives the events that were said."""
    sent = requests if isinstance(requests, AsyncIterator) else stream(requests)
    return [str(response.WhichOneof("event")) async for response in count(service, sent, HEALTH)]


async def refusal(service: CensusService, requests: Requests | AsyncIterator[CountRequest]) -> BrokerError:
    """Call Count to its refusal."""
    with pytest.raises(BrokerError) as caught:
        await hand_over(service, requests)
    return caught.value


async def collect(
    service: CensusService, order: Order, researcher: str = RESEARCHER, wait_ms: int = 0
) -> census_service_pb2.CollectResponse:
    """Collect as `researcher`."""
    set_caller(Identity("university", "researcher", researcher))
    return await service.Collect(
        census_service_pb2.CollectRequest(query_id=order.body.query_id, wait_ms=wait_ms), NO_CONTEXT
    )


async def quote(service: CensusService, *, text: str = FRENCH, scale: int = 30) -> quote_pb2.Quote:
    """Quote as the first researcher."""
    set_caller(Identity("university", "researcher", RESEARCHER))
    question = parse_question(text, CENSUS_DICTIONARY).to_wire()
    return quote_of(await service.Quote(census_service_pb2.QuoteRequest(question=question, scale=scale), NO_CONTEXT))


async def test_honest_sample_is_charged_then_released(world: World, service: CensusService) -> None:
    """Three events, in this order, and afterwards the answer can be collected."""
    order = world.order()
    assert await hand_over(service, world.messages(world.sample(order))) == EVENTS
    response = await collect(service, order)
    assert world.open(order, response.answer.sealed).scale == 30


async def test_work_on_a_sample_keeps_the_loop_free(
    world: World, service: CensusService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever takes longer for a larger sample is done in threads: everybody's calls wait for the loop."""
    threads: dict[str, threading.Thread] = {}

    def watched(owner: type, name: str) -> None:
        work = getattr(owner, name)

        def working(*arguments: Any, **named: Any) -> Any:
            threads[name] = threading.current_thread()
            return work(*arguments, **named)

        monkeypatch.setattr(owner, name, working)

    steps = {
        SampleAttempt: ["verify_claim", "verify_sample"],
        Keeping: ["keep"],
        Charging: ["charge"],
        Answers: ["make", "release"],
    }
    for owner, names in steps.items():
        for name in names:
            watched(owner, name)
    assert await hand_over(service, world.messages(world.sample(world.order()))) == EVENTS
    assert set(threads) == {name for names in steps.values() for name in names}
    assert threading.main_thread() not in threads.values()


OUT_OF_ORDER: dict[str, tuple[Callable[[Requests], Requests], str]] = {
    "nothing at all": (lambda _: [], "MALFORMED_MESSAGE"),
    "an empty message": (lambda _: [CountRequest()], "MALFORMED_MESSAGE"),
    "the head alone": (lambda sent: sent[:1], "MALFORMED_MESSAGE"),
    "a part less": (lambda sent: sent[:-1], "MALFORMED_MESSAGE"),
    "no head": (lambda sent: sent[1:], "MALFORMED_MESSAGE"),
    "a part before the head": (lambda sent: [sent[1], sent[0], *sent[1:]], "MALFORMED_MESSAGE"),
    "two heads": (lambda sent: [sent[0], *sent], "MALFORMED_MESSAGE"),
    "a head in the middle": (lambda sent: [*sent[:2], sent[0], *sent[2:]], "MALFORMED_MESSAGE"),
    "a head instead of the last part": (lambda sent: [*sent[:-1], sent[0]], "MALFORMED_MESSAGE"),
    "an empty message in the middle": (lambda sent: [*sent[:2], CountRequest(), *sent[2:]], "MALFORMED_MESSAGE"),
    "an empty part": (lambda sent: [*sent[:2], CountRequest(bits=b""), *sent[2:]], "MALFORMED_MESSAGE"),
    "a short part": (lambda sent: [*sent[:2], CountRequest(bits=sent[2].bits[1:]), *sent[3:]], "MALFORMED_MESSAGE"),
    "a long part": (lambda sent: [*sent[:2], CountRequest(bits=sent[2].bits + b"0"), *sent[3:]], "MALFORMED_MESSAGE"),
    "two parts in the wrong order": (lambda sent: [sent[0], sent[2], sent[1], *sent[3:]], "SEALED_WRONGLY"),
    "a part twice": (lambda sent: [*sent[:3], sent[2]], "SEALED_WRONGLY"),
    "an empty head": (lambda sent: [CountRequest(head=sample_pb2.SampleHead()), *sent[1:]], "ROSTER_NOT_IN_FORCE"),
}


@pytest.mark.parametrize("what", OUT_OF_ORDER)
async def test_parts_out_of_order_are_refused(wide: World, stop: StopSignal, what: str) -> None:
    """Head and parts: anything else is refused, charges nothing, and gives its stream back."""
    change, code = OUT_OF_ORDER[what]
    async with at_work(served(wide, stop, LimitConfig(max_queries=1))) as service:
        for _ in range(2):
            sent = wide.messages(wide.sample(wide.order()))
            with wide.unchanged():
                assert (await refusal(service, change(sent))).code == code
        assert await hand_over(service, wide.messages(wide.sample(wide.order()))) == EVENTS


UNKNOWN = b"\xf8\x07\x01"
INSIDE: dict[str, Callable[[Requests], object]] = {
    "the request": lambda sent: sent[0].MergeFromString(UNKNOWN),
    "the head": lambda sent: sent[0].head.MergeFromString(UNKNOWN),
    "the signed ticket": lambda sent: sent[0].head.ticket.MergeFromString(UNKNOWN),
    "the signed manifest": lambda sent: sent[0].head.manifest.MergeFromString(UNKNOWN),
    "a part": lambda sent: sent[1].MergeFromString(UNKNOWN),
}


@pytest.mark.parametrize("where", INSIDE)
async def test_unknown_fields_are_refused_wherever_they_stand(world: World, service: CensusService, where: str) -> None:
    """This version does not obey what it does not know."""
    sent = world.messages(world.sample(world.order()))
    INSIDE[where](sent)
    with world.unchanged():
        assert (await refusal(service, sent)).code == "MALFORMED_MESSAGE"
    world.verify_honest_query()


async def test_what_follows_the_last_part_changes_nothing(world: World, service: CensusService) -> None:
    """The sample ends with its last part: another part, head or sample behind it is never read."""
    first, second = world.order(), world.order()
    sent = world.messages(world.sample(first))
    behind = [sent[-1], *world.messages(world.sample(second)), CountRequest()]
    assert await hand_over(service, [*sent, *behind]) == EVENTS
    assert [charge.ticket for charge in world.charges()] == [first.hash.hex()]


@pytest.mark.parametrize("people", [0, 1, 400])
async def test_samples_of_one_agency_are_read_to_one_length(world: World, service: CensusService, people: int) -> None:
    """Only the length of a sample is read of a longer stream, no matter who is in it."""
    sent = world.messages(world.sample(world.order(), world.people[:people]))
    read: list[int] = []

    async def endless() -> AsyncIterator[CountRequest]:
        for request in [*sent, *sent]:
            read.append(request.ByteSize())
            yield request

    assert await hand_over(service, endless()) == EVENTS
    assert read == [request.ByteSize() for request in sent]


async def test_retries_join_the_sample_that_is_in_line(world: World, stop: StopSignal) -> None:
    """Before the desk has taken it and after: one charge, and everybody who asked hears it."""
    order = world.order()
    sample = world.sample(order)
    service = served(world, stop)
    waiting = [asyncio.create_task(hand_over(service, world.messages(sample))) for _ in range(4)]
    async with at_work(service):
        assert await asyncio.gather(*waiting) == [EVENTS] * 4
        assert await hand_over(service, world.messages(sample)) == EVENTS
    assert len(world.charges()) == 1


async def test_sample_that_comes_while_a_load_is_joined_is_told_to_come_back(
    world: World, stop: StopSignal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BUSY, no matter who is in it; when the roster is joined with the new load, the same sample is charged on that."""
    sample = world.sample(world.order())
    with monkeypatch.context() as patch:
        patch.setattr(world.census.rosters, "join_due", list)
        load = world.load_census()
        async with at_work(served(world, stop)) as service:
            for people in (world.people, world.people[:0]):
                other = world.sample(world.order(), people)
                with world.unchanged():
                    assert (await refusal(service, world.messages(other))).code == "BUSY"
    world.census.rosters.join_due()
    async with at_work(served(world, stop)) as service:
        assert await hand_over(service, world.messages(sample)) == EVENTS
    assert [charge.load for charge in world.charges()] == [load]


# --- time ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [0, 1, 2])
@in_virtual_time
async def test_stalled_stream_is_refused_at_its_deadline(wide: World, stop: StopSignal, sent: int) -> None:
    """A caller that sends nothing more loses the stream after the deadline; that is no verdict on the sample."""
    limits = LimitConfig(max_queries=1, header_deadline_ms=100, sample_deadline_ms=1000)
    requests = wide.messages(wide.sample(wide.order()))

    async def stalling() -> AsyncIterator[CountRequest]:
        for request in requests[:sent]:
            yield request
        await asyncio.Event().wait()

    async with at_work(served(wide, stop, limits)) as service:
        with wide.unchanged():
            assert (await refusal(service, stalling())).code == "PEER_UNAVAILABLE"
        assert await hand_over(service, wide.messages(wide.sample(wide.order()))) == EVENTS


async def test_stream_that_is_cancelled_with_its_connection_is_given_back(wide: World, stop: StopSignal) -> None:
    """However the transport ends a call that is still sending, its agency's next sample has a place."""
    requests = wide.messages(wide.sample(wide.order()))

    async def cancelled() -> AsyncIterator[CountRequest]:
        yield requests[0]
        raise asyncio.CancelledError

    async with at_work(served(wide, stop, LimitConfig(max_queries=1))) as service:
        with wide.unchanged():
            assert (await refusal(service, cancelled())).code == "PEER_UNAVAILABLE"
        assert await hand_over(service, wide.messages(wide.sample(wide.order()))) == EVENTS


async def silent(asked: asyncio.Event) -> AsyncIterator[CountRequest]:
    """A stream that says nothing."""
    asked.set()
    await asyncio.Event().wait()
    yield CountRequest()


async def hear(said: AsyncIterator[census_service_pb2.CountResponse]) -> list[str]:
    """Messages until the call ends."""
    return [str(response.WhichOneof("event")) async for response in said]


async def test_one_sample_too_many_is_told_to_come_back(world: World, stop: StopSignal) -> None:
    """Beyond its streams an agency hears BUSY at once, nothing of it is read, and it is served when a stream is free."""
    requests = world.messages(world.sample(world.order()))
    held_now, go_on = asyncio.Event(), asyncio.Event()

    async def held() -> AsyncIterator[CountRequest]:
        yield requests[0]
        held_now.set()
        await go_on.wait()
        for request in requests[1:]:
            yield request

    async def unread() -> AsyncIterator[CountRequest]:
        raise AssertionError("the sample of a refused sender is read")
        yield CountRequest()

    async with at_work(served(world, stop, LimitConfig(max_queries=1))) as service:
        first = asyncio.create_task(hand_over(service, held()))
        await held_now.wait()
        with world.unchanged():
            assert (await refusal(service, unread())).code == "BUSY"
        go_on.set()
        assert await first == EVENTS
        assert await hand_over(service, world.messages(world.sample(world.order()))) == EVENTS


async def test_agency_that_takes_all_its_streams_keeps_no_other_out(world: World, stop: StopSignal) -> None:
    """Streams are each agency's own: another one's sample is taken while this one is told to come back."""
    asked = asyncio.Event()
    async with at_work(served(world, stop, LimitConfig(max_queries=1))) as service:
        theirs = asyncio.create_task(hear(count(service, silent(asked), OTHER_HEALTH)))
        await asked.wait()
        other = stream(world.messages(world.sample(world.order()), world.secrets.other_manifest))
        with pytest.raises(BrokerError, match="BUSY"):
            _ = [response async for response in count(service, other, OTHER_HEALTH)]
        assert await hand_over(service, world.messages(world.sample(world.order()))) == EVENTS
        theirs.cancel()


async def test_query_goes_on_when_its_connection_is_gone(world: World, service: CensusService) -> None:
    """A sample that has arrived is charged, answered and released although nobody listens any more."""
    order = world.order()
    requests = world.messages(world.sample(order))
    sent = asyncio.Event()

    async def sending() -> AsyncIterator[census_service_pb2.CountRequest]:
        for request in requests:
            yield request

    async def call() -> None:
        async for response in count(service, sending(), HEALTH):
            if response.HasField("charged"):
                sent.set()
                await asyncio.Event().wait()

    calling = asyncio.create_task(call())
    await sent.wait()
    calling.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await calling
    await service.drain()
    assert world.open(order, world.sealed(order)).scale == 30
    assert len(world.charges()) == 1


TICK_MS = 200
# Before a tick, so that everything lies within one period.
BEFORE_MS = 80


class Ticking:
    """A world in virtual time whose words leave at multiples of 200 ms, and its service at work. Made in the loop."""

    def __init__(self, directory: Path, stop: StopSignal) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, TimedLoop)
        self.clock = LoopClock(loop, -(-system_clock() // TICK_MS) * TICK_MS)
        policy = make_policy(tick_ms=TICK_MS)
        self.world = World(directory / "ticking", policy, census_clock=self.clock, health_clock=self.clock)
        self.service = served(self.world, stop)

    async def start(self) -> int:
        """Return a little before a tick; gives that instant."""
        await asyncio.sleep((TICK_MS - BEFORE_MS - self.clock() % TICK_MS) % TICK_MS / 1000 + TICK_MS / 100)
        await asyncio.sleep((TICK_MS - BEFORE_MS - self.clock() % TICK_MS) % TICK_MS / 1000)
        return self.clock()

    async def heard(self, requests: Requests | AsyncIterator[CountRequest]) -> list[int]:
        """When the words on one sample leave, in milliseconds from when its call begins."""
        began_ms, at = await self.start(), list[int]()
        sent = requests if isinstance(requests, AsyncIterator) else stream(requests)
        try:
            async for _ in count(self.service, sent, HEALTH):
                at.append(self.clock() - began_ms)
        except BrokerError:
            at.append(self.clock() - began_ms)
        return at


@contextlib.asynccontextmanager
async def ticking(directory: Path, stop: StopSignal) -> AsyncIterator[Ticking]:
    """Such a world, for as long as the block."""
    made = Ticking(directory, stop)
    try:
        async with at_work(made.service):
            yield made
    finally:
        made.world.close()


def wrong_samples(world: World) -> Iterator[Requests]:
    """Samples that fail at different depths: before the head, at the ticket, on the way, when opened, at the charge."""
    good = world.messages(world.sample(world.order()))
    yield []
    yield [CountRequest()]
    yield world.messages(world.sample(world.order(scale=51)))
    yield good[:-1]
    yield [*good[:-1], CountRequest(bits=good[-1].bits[1:])]
    yield [*good[:-1], CountRequest(bits=bytes(len(good[-1].bits)))]
    yield world.messages(world.sample(world.order()), change=lambda manifest: setattr(manifest, "roster", 2))
    used = world.order()
    world.charge(used)
    yield world.messages(world.sample(used))


# At the tick after the one that takes it; the answer a full period after the tick at which its cosignature is here.
TOLD_MS, RELEASED_MS = BEFORE_MS + TICK_MS, BEFORE_MS + 3 * TICK_MS


@in_desk_time
async def test_charges_and_refusals_leave_at_the_same_instant(tmp_path: Path, stop: StopSignal) -> None:
    """When a word leaves depends on when the sample was whole and on the policy: not on who is in it, or the outcome."""
    async with ticking(tmp_path, stop) as here:
        world = here.world
        for people in (0, 1, 400):
            sample = world.sample(world.order(), world.people[:people])
            assert await here.heard(world.messages(sample)) == [TOLD_MS, RELEASED_MS]
        for requests in wrong_samples(world):
            assert await here.heard(requests) == [TOLD_MS]


@pytest.mark.parametrize("held_ms", [0, 20, 79, 80, 81, 200, 617, 5003])
@in_desk_time
async def test_late_part_moves_outcomes_by_whole_ticks_only(tmp_path: Path, stop: StopSignal, held_ms: int) -> None:
    """A sender who holds the last part back learns nothing of the work: charge and refusal leave at the same tick."""
    async with ticking(tmp_path, stop) as here:
        world = here.world
        late = max(0, -(-(held_ms + 1 - BEFORE_MS) // TICK_MS)) * TICK_MS

        async def holding_back(requests: Requests) -> AsyncIterator[CountRequest]:
            for request in requests:
                if request.HasField("bits"):
                    await asyncio.sleep(held_ms / 1000)
                yield request

        for people in (0, 400):
            good, bad = (world.messages(world.sample(world.order(), world.people[:people])) for _ in range(2))
            bad[0].head.manifest.signature = bytes(64)
            assert await here.heard(holding_back(good)) == [TOLD_MS + late, RELEASED_MS + late]
            assert await here.heard(holding_back(bad)) == [TOLD_MS + late]


def slow_down(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, takes_ms: int) -> None:
    """Have a step of the node's work take its time."""
    work = getattr(owner, name)

    def slowly(*arguments: object, **named: object) -> object:
        working(takes_ms)
        return work(*arguments, **named)

    monkeypatch.setattr(owner, name, slowly)


@pytest.mark.parametrize("step", ["write", "count"])
@pytest.mark.parametrize("work_ms", [0, 30, 199, 200, 617])
def test_work_of_any_length_leaves_on_a_tick(
    tmp_path: Path, stop: StopSignal, monkeypatch: pytest.MonkeyPatch, step: str, work_ms: int
) -> None:
    """Work within its period moves nothing; work that outlasts it moves the outcome by whole ticks, never in between."""
    slow_down(monkeypatch, SampleFolder if step == "write" else Passes, step, work_ms)

    @in_desk_time
    async def ask() -> None:
        async with ticking(tmp_path, stop) as here:
            sample = here.world.sample(here.world.order())
            late = work_ms // TICK_MS * TICK_MS
            began_ms = here.clock() - here.clock() % TICK_MS
            assert await here.heard(here.world.messages(sample)) == [TOLD_MS + late, RELEASED_MS + late]
            (charged,) = (entry for entry in here.world.entries() if isinstance(entry.event, Charged))
            # The time of its entry is the tick that took it, however long it took.
            assert (charged.time_ms - began_ms) % TICK_MS == 0
            assert charged.time_ms == here.clock() - late - RELEASED_MS + BEFORE_MS

    ask()


@pytest.mark.parametrize("withheld_ms", [0, 1, 120, 199, 200, 201, 617, 5003])
@in_desk_time
async def test_answer_leaves_at_the_first_tick_a_full_period_after_its_cosignature(
    tmp_path: Path, stop: StopSignal, withheld_ms: int
) -> None:
    """However long the health agency withholds it: the answer leaves on a tick, and never within a period of it."""
    async with ticking(tmp_path, stop) as here:
        world = here.world
        world.cosigning = False
        order = world.order()
        await here.start()
        said = count(here.service, stream(world.messages(world.sample(order))), HEALTH)
        assert (await anext(said)).HasField("charged")
        await asyncio.sleep(withheld_ms / 1000)
        assert await collect(here.service, order) == NOTHING_YET
        cosigned_ms = here.clock()
        world.cosign()
        assert (await anext(said)).HasField("released")
        taken_ms = (cosigned_ms // TICK_MS + 1) * TICK_MS
        assert here.clock() == taken_ms + TICK_MS
        assert (await collect(here.service, order)).HasField("answer")


# --- collecting ------------------------------------------------------------------------------------------------------


NOTHING_YET = census_service_pb2.CollectResponse()
# As long as the node holds a call open in the tests below.
HOLD_MS = 100


async def test_researcher_cannot_collect_anothers_answer(world: World, service: CensusService) -> None:
    """To everybody but its researcher a query that is out is like one that nobody asked."""
    order = world.order()
    world.charge(order)
    for release in (False, True):
        if release:
            world.release(order)
        assert await collect(service, order, OTHER_RESEARCHER) == NOTHING_YET
    assert (await collect(service, order)).HasField("answer")


async def test_charge_shows_to_nobody_before_its_answer_is_out(world: World, stop: StopSignal) -> None:
    """Not asked, admitted, charged, answered, or somebody else's and out: Collect says the same, after the same wait."""
    service = served(world, stop, LimitConfig(collect_wait_ms=HOLD_MS))
    charged, not_charged, others = world.order(), world.order(), world.order(OTHER_RESEARCHER)
    world.charge(charged)
    world.answer(others)
    loop = asyncio.get_running_loop()
    for order in (charged, not_charged, others):
        assert await collect(service, order) == NOTHING_YET
        start = loop.time()
        assert await collect(service, order, wait_ms=2**32 - 1) == NOTHING_YET
        # Timers may fire within the clock's resolution of their time.
        assert loop.time() - start >= HOLD_MS / 1000 - 0.01


@pytest.mark.parametrize("query", [b"", b"\0" * 15, b"\0" * 16, b"\0" * 17, b"\xff" * 1000])
async def test_collecting_what_nobody_asked_gives_nothing(world: World, stop: StopSignal, query: bytes) -> None:
    """Any bytes may stand for a query id; they are like a query that is not out, and no error of ours."""
    service = served(world, stop, LimitConfig(collect_wait_ms=HOLD_MS))
    set_caller(Identity("university", "researcher", RESEARCHER))
    request = census_service_pb2.CollectRequest(query_id=query, wait_ms=2**32 - 1)
    assert await service.Collect(request, NO_CONTEXT) == NOTHING_YET


async def test_collect_waits_for_the_release_and_no_longer(world: World, stop: StopSignal) -> None:
    """A held call is answered by the release itself; one that is not held comes back empty."""
    never_ms = int(1000 * NEVER_SECONDS)
    service, order = served(world, stop, LimitConfig(collect_wait_ms=never_ms)), world.order()
    world.charge(order)
    assert not (await collect(service, order)).HasField("answer")
    held = asyncio.create_task(collect(service, order, wait_ms=never_ms))
    # Another query's release wakes the held call too; it looks, and goes on waiting.
    world.answer(world.order())
    await asyncio.sleep(0)
    assert not held.done()
    await asyncio.to_thread(world.release, order)
    assert (await asyncio.wait_for(held, PATIENCE_SECONDS)).HasField("answer")


async def test_sealed_answers_have_one_length(world: World, service: CensusService) -> None:
    """Neither the count nor the age of the log shows in the size of an answer."""
    lengths = set()
    for people in (world.people[:0], world.people, world.people[:7]):
        order = world.order()
        await hand_over(service, world.messages(world.sample(order, people)))
        lengths.add(len((await collect(service, order)).answer.sealed))
    assert lengths == {SEALED_ANSWER_BYTES}


# --- quotes ----------------------------------------------------------------------------------------------------------


async def test_quote_charges_nothing_and_reserves_a_slot_each(world: World, service: CensusService) -> None:
    """Prices are looked at for free; every quote has a noise slot of its own."""
    with world.unchanged():
        quotes = [await quote(service) for _ in range(5)]
    assert len({quoted.noise_slot.number for quoted in quotes}) == 5
    assert {quoted.remaining for quoted in quotes} == {41}
    assert {quoted.charged for quoted in quotes} == {price(30)}


async def test_quote_is_signed_for_its_researcher_and_says_when_it_was_told(
    world: World, service: CensusService
) -> None:
    """Signed with the answer key, over everything that is quoted: any reader can hold the census agency to it."""
    set_caller(Identity("university", "researcher", RESEARCHER))
    question = parse_question(FRENCH, CENSUS_DICTIONARY).to_wire()
    before_ms = world.census.journal.now()
    shown = await service.Quote(census_service_pb2.QuoteRequest(question=question, scale=30), NO_CONTEXT)
    body = verify_quote(shown.quote, census_keys=[world.secrets.answer.verify_key]).body
    assert (body.researcher_id, body.question, body.scale) == (RESEARCHER, question, 30)
    assert (body.policy_hash, body.census_release) == (world.policy.hash, RELEASE)
    assert before_ms <= body.told_ms <= world.census.journal.now()
    assert body.expires_ms == body.told_ms + world.policy.quote_lifetime_ms


@pytest.mark.parametrize("scale", [0, 51, 2**32 - 1])
async def test_quote_at_a_scale_outside_the_policy_is_refused(world: World, service: CensusService, scale: int) -> None:
    """An impossible question is not quoted, and no slot is reserved for it."""
    before = (await quote(service)).noise_slot.number
    with world.unchanged(), pytest.raises(RefusedError) as caught:
        await quote(service, scale=scale)
    assert caught.value.code == "SCALE_REFUSED"
    assert (await quote(service)).noise_slot.number == before + 1


async def test_quote_for_an_unknown_question_is_refused(world: World, service: CensusService) -> None:
    """Unknown variables and values are refused when quoted, before a sample is drawn."""
    set_caller(Identity("university", "researcher", RESEARCHER))
    for variable, value, code in (
        ("religion", "French", "UNKNOWN_VARIABLE"),
        ("mother_tongue", "Klingon", "UNKNOWN_VALUE"),
    ):
        question = ticket_pb2.Question(variable=variable, cells=[ticket_pb2.Cell(values=[value])])
        with world.unchanged(), pytest.raises(InvalidRequestError) as caught:
            await service.Quote(census_service_pb2.QuoteRequest(question=question, scale=30), NO_CONTEXT)
        assert caught.value.code == code


async def test_quote_for_a_table_has_the_price_of_a_count_and_the_margin_of_its_cells(service: CensusService) -> None:
    """Sixteen cells cost what one costs; the noise of each reaches farther the more there are."""
    quoted = {}
    values = CENSUS_DICTIONARY.column("mother_tongue").values[:16]
    for cells in (1, 2, len(values)):
        shown = [f"'{value}'" for value in values[:cells]]
        body = await quote(service, text=f"mother_tongue by {', '.join(shown)}" if cells > 1 else FRENCH)
        assert (len(body.question.cells), body.charged) == (cells, price(30))
        quoted[cells] = body.margin_95
    assert quoted == {1: 90, 2: 114, len(values): margin(30, len(values))}


async def test_what_remains_does_not_show_a_charge_before_its_answer_is_out(
    world: World, service: CensusService
) -> None:
    """A researcher who keeps quoting sees the release, at its tick, and not the instant of the charge."""
    order = world.order()
    said = []
    steps: list[Callable[[], object]] = [
        lambda: None,
        lambda: world.charge(order),
        lambda: world.release(order),
    ]
    for step in steps:
        step()
        said.append((await quote(service)).remaining)
    assert said == [41, 41, 40]


async def test_last_charge_shows_to_nobody_before_its_answer_is_out(tmp_path: Path, stop: StopSignal) -> None:
    """Nor does the shutdown that comes with it: quotes go on until the tick, and then they end."""
    world = World(tmp_path, make_policy(max_belief="0.75", scales=(1,)))
    service = served(world, stop)
    order = world.order(scale=1)
    world.charge(order)
    assert world.verify_log().shut_down
    assert (await quote(service, scale=1)).remaining == 1
    world.release(order)
    with pytest.raises(RefusedError, match="SERVICE_SHUT_DOWN"):
        await quote(service, scale=1)
    world.close()


async def test_what_remains_depends_on_charges_alone(world: World, service: CensusService) -> None:
    """The same number follows an empty sample, a full one, and one of strangers."""
    for number, people in enumerate((world.people[:0], world.people, world.people[3::4]), start=1):
        await hand_over(service, world.messages(world.sample(world.order(), people)))
        quoted = await quote(service)
        assert quoted.remaining == answers_left(world.policy.cap, number * price(30), 30)


async def test_what_remains_is_not_told_where_people_differ(tmp_path: Path, stop: StopSignal) -> None:
    """Under per-person accounting the field is absent, not 0; the price and the margin are told as ever."""
    world = World(tmp_path, make_policy(accounting="per_person"))
    quoted = await quote(served(world, stop))
    assert not quoted.HasField("remaining")
    assert (quoted.charged, quoted.margin_95) == (price(30), 90)
    world.close()


# --- shut ------------------------------------------------------------------------------------------------------------


async def test_shut_service_refuses_quotes_and_samples_and_still_delivers(tmp_path: Path, stop: StopSignal) -> None:
    """After the last answer: no quote, no charge, even on a slot reserved before; what was charged is collected.

    A ticket that has expired is told so as well: a new quote would not help.
    """
    world = World(tmp_path, make_policy(max_belief="0.75", scales=(1,)))
    last, too_late = world.order(scale=1), world.order(scale=1)
    expired = world.order(scale=1, change=lambda body: setattr(body, "expires_ms", 1))
    async with at_work(served(world, stop)) as service:
        assert await hand_over(service, world.messages(world.sample(last))) == EVENTS
        for refused in (too_late, expired):
            with world.unchanged():
                error = await refusal(service, world.messages(world.sample(refused)))
            assert error.code == "SERVICE_SHUT_DOWN"
        await verify_shut(world, service, last)
    world.crash_census()
    recovered = world.census.recover()
    async with at_work(served(world, stop)) as service:
        service.go_on_with(recovered)
        await verify_shut(world, service, last)
    assert not stop.error
    world.close()


async def verify_shut(world: World, service: CensusService, last: Order) -> None:
    """Nothing is quoted, and the last answer is there."""
    with world.unchanged(), pytest.raises(RefusedError, match="SERVICE_SHUT_DOWN"):
        await quote(service, scale=1)
    answer = (await collect(service, last)).answer
    assert world.open(last, answer.sealed).charged == price(1)


async def test_recovery_answers_and_releases_what_a_crash_left(world: World, stop: StopSignal) -> None:
    """A service that starts on a journal with a stored answer releases it; a caller that holds a call open gets it."""
    order = world.order()
    world.charge(order)
    world.crash_census()
    recovered = world.census.recover()
    async with at_work(served(world, stop)) as service:
        held = asyncio.create_task(collect(service, order, wait_ms=20_000))
        service.go_on_with(recovered)
        assert world.open(order, (await held).answer.sealed).scale == 30


async def test_store_that_fails_stops_the_node(world: World, service: CensusService, stop: StopSignal) -> None:
    """No answer, no further serving: the node says why and stops."""
    world.census.journal.db.execute(
        "create trigger full before insert on pending begin select raise(abort, 'disk full'); end"
    )
    with world.unchanged():
        error = await refusal(service, world.messages(world.sample(world.order())))
    assert isinstance(error, InternalError)
    assert error.code == "STORE_FAILED"
    await asyncio.wait_for(stop.wait(), PATIENCE_SECONDS)
    assert stop.error is not None


# --- nothing more is said --------------------------------------------------------------------------------------------


SAID_TO_RESEARCHERS = {
    health_service_pb2.SubmitResponse: ["stage"],
    census_service_pb2.CollectResponse: ["answer"],
    answer_pb2.SealedAnswer: ["query_id", "sealed"],
    census_service_pb2.QuoteResponse: ["slot_index", "slot_entry", "slot_proof", "quote"],
    quote_pb2.SignedQuote: ["quote", "signature", "key_id"],
    quote_pb2.Quote: [
        *("researcher_id", "question", "census_release", "scale", "charged", "margin_95", "remaining", "quota"),
        *("quota_left", "policy_hash", "noise_slot", "told_ms", "expires_ms"),
    ],
    answer_pb2.SignedAnswer: ["receipt", "answer_salt", "noisy_counts"],
    answer_pb2.SignedReceipt: ["receipt", "signature", "key_id"],
    answer_pb2.Receipt: [
        *("query_id", "ticket_hash", "answer_hash", "scale", "charged", "policy_hash", "log_index", "checkpoint"),
        *("inclusion_proof", "entry"),
    ],
}


@pytest.mark.parametrize("message", SAID_TO_RESEARCHERS)
def test_no_message_to_a_researcher_has_room_for_a_size(message: type[Message]) -> None:
    """Every field that a researcher can see is listed here: none holds a sample's size, an exact count or a drop."""
    assert [field.name for field in message.DESCRIPTOR.fields] == SAID_TO_RESEARCHERS[message]


def test_stages_are_four() -> None:
    """Progress is a place in one fixed list."""
    assert [value.name for value in health_service_pb2.Stage.DESCRIPTOR.values] == [
        *("STAGE_UNSPECIFIED", "STAGE_ACCEPTED", "STAGE_FORWARDED", "STAGE_CHARGED", "STAGE_RELEASED")
    ]
