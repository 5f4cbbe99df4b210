"""The census service: parts of a sample in any wrong order, streams that stall, who hears what, and when."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes.links import NO_CONTEXT, count, stream
from fakes.patience import NEVER_SECONDS, PATIENCE_SECONDS
from fakes.virtual_time import in_virtual_time
from fakes.world import (
    FRENCH,
    HEALTH,
    OTHER_HEALTH,
    OTHER_RESEARCHER,
    OWNER,
    RESEARCHER,
    Order,
    Pseudonyms,
    World,
    make_policy,
    make_pseudonyms,
)
from google.protobuf.message import Message
from tripartite.v1 import answer_pb2, census_service_pb2, health_service_pb2, sample_pb2, ticket_pb2

from broker_common.crypto.certificates import Identity
from broker_common.errors import BrokerError, InternalError, InvalidRequestError, RefusedError
from broker_common.privacy.accounting import answers_left, price_units
from broker_common.query.answer import SEALED_ANSWER_BYTES
from broker_common.query.question import parse_question
from broker_common.rpc.callers import set_caller
from broker_common.rpc.server import StopSignal
from broker_common.storage.clock import system_clock
from broker_common.storage.registration import CardExchange
from broker_common.tlog.entries import Charged
from census_node.admission import Admission
from census_node.config import LimitConfig
from census_node.dictionary import CENSUS_DICTIONARY
from census_node.linking import Linking
from census_node.node import CensusNode
from census_node.samples import SampleFolder
from census_node.service import CensusService
from census_node.timing import charge_time, next_tick, outcome_time

Requests = list[census_service_pb2.CountRequest]
CountRequest = census_service_pb2.CountRequest
PATIENT = LimitConfig(max_queries=8)
EVENTS = ["proceed", "charged", "released"]


@pytest.fixture
def stop() -> StopSignal:
    """Set when the node must stop."""
    return StopSignal()


@pytest.fixture
async def service(world: World, stop: StopSignal) -> CensusService:
    """The service of the world's census node, with eight places."""
    return CensusService(world.census, PATIENT, stop)


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


async def quote(service: CensusService, *, text: str = FRENCH, scale: int = 30) -> census_service_pb2.QuoteResponse:
    """Quote as the first researcher."""
    set_caller(Identity("university", "researcher", RESEARCHER))
    question = parse_question(text, CENSUS_DICTIONARY).to_wire()
    return await service.Quote(census_service_pb2.QuoteRequest(question=question, scale=scale), NO_CONTEXT)


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
        Admission: ["add_frame"],
        Linking: ["add", "finish"],
        CensusNode: ["keep", "decide", "charge", "answer_charged"],
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
    "the header alone": (lambda sent: sent[:1], "MALFORMED_MESSAGE"),
    "no manifest": (lambda sent: sent[:-1], "MALFORMED_MESSAGE"),
    "no header": (lambda sent: sent[1:], "MALFORMED_MESSAGE"),
    "a frame before the header": (lambda sent: [sent[1], sent[0], *sent[1:]], "MALFORMED_MESSAGE"),
    "the manifest first": (lambda sent: [sent[-1], *sent[:-1]], "MALFORMED_MESSAGE"),
    "the manifest before the frames": (lambda sent: [sent[0], sent[-1], *sent[1:-1]], "BAD_FRAMES"),
    "the manifest between the frames": (lambda sent: [*sent[:2], sent[-1], *sent[2:]], "BAD_FRAMES"),
    "two headers": (lambda sent: [sent[0], *sent], "MALFORMED_MESSAGE"),
    "a header in the middle": (lambda sent: [*sent[:2], sent[0], *sent[2:]], "MALFORMED_MESSAGE"),
    "a header instead of the manifest": (lambda sent: [*sent[:-1], sent[0]], "MALFORMED_MESSAGE"),
    "an empty message in the middle": (lambda sent: [*sent[:2], CountRequest(), *sent[2:]], "MALFORMED_MESSAGE"),
    "an empty header": (lambda sent: [CountRequest(header=sample_pb2.SampleHeader()), *sent[1:]], "MALFORMED_MESSAGE"),
    "an empty manifest": (
        lambda sent: [*sent[:-1], CountRequest(manifest=sample_pb2.SignedManifest())],
        "UNKNOWN_KEY",
    ),
}


@pytest.mark.parametrize("what", OUT_OF_ORDER)
async def test_parts_out_of_order_are_refused(world: World, service: CensusService, what: str) -> None:
    """Header, frames, manifest: anything else is refused, charges nothing, and gives its place back."""
    change, code = OUT_OF_ORDER[what]
    people = make_pseudonyms(20_000)
    for _ in range(PATIENT.max_queries + 1):
        sent = world.messages(world.sample(world.order(), people))
        with world.unchanged():
            assert (await refusal(service, change(sent))).code == code
    assert await hand_over(service, world.messages(world.sample(world.order()))) == EVENTS


UNKNOWN = b"\xf8\x07\x01"
INSIDE: dict[str, Callable[[Requests], object]] = {
    "the request": lambda sent: sent[0].MergeFromString(UNKNOWN),
    "the header": lambda sent: sent[0].header.MergeFromString(UNKNOWN),
    "the signed ticket": lambda sent: sent[0].header.ticket.MergeFromString(UNKNOWN),
    "a frame": lambda sent: sent[1].frame.MergeFromString(UNKNOWN),
    "the signed manifest": lambda sent: sent[-1].manifest.MergeFromString(UNKNOWN),
}


@pytest.mark.parametrize("where", INSIDE)
async def test_unknown_fields_are_refused_wherever_they_stand(world: World, service: CensusService, where: str) -> None:
    """What this version does not know it does not obey."""
    sent = world.messages(world.sample(world.order()))
    INSIDE[where](sent)
    with world.unchanged():
        assert (await refusal(service, sent)).code == "MALFORMED_MESSAGE"
    world.verify_honest_query()


async def test_what_follows_the_manifest_changes_nothing(world: World, service: CensusService) -> None:
    """The sample ends with its manifest: another manifest, header or sample behind it is never read."""
    first, second = world.order(), world.order()
    sent = world.messages(world.sample(first))
    behind = [sent[-1], *world.messages(world.sample(second)), CountRequest()]
    assert await hand_over(service, [*sent, *behind]) == EVENTS
    assert [charge.ticket for charge in world.charges()] == [first.hash.hex()]


# --- time ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [0, 1, 2])
@in_virtual_time
async def test_stalled_stream_is_refused_at_its_deadline(world: World, stop: StopSignal, sent: int) -> None:
    """Whoever opens a call and sends nothing more loses their place after the deadline; that is no verdict on it."""
    service = CensusService(
        world.census, LimitConfig(max_queries=1, header_deadline_ms=50, sample_deadline_ms=50), stop
    )
    requests = world.messages(world.sample(world.order()))

    async def stalling() -> AsyncIterator[census_service_pb2.CountRequest]:
        for request in requests[:sent]:
            yield request
        await asyncio.Event().wait()

    with world.unchanged():
        assert (await refusal(service, stalling())).code == "PEER_UNAVAILABLE"
    assert await hand_over(service, world.messages(world.sample(world.order()))) == EVENTS


async def test_streams_that_say_nothing_take_no_place(world: World, stop: StopSignal) -> None:
    """However many calls are opened and left silent, samples find the places that there are."""
    service = CensusService(world.census, LimitConfig(max_queries=1, header_deadline_ms=60_000), stop)
    asked = asyncio.Event()

    async def silent() -> AsyncIterator[CountRequest]:
        asked.set()
        await asyncio.Event().wait()
        yield CountRequest()

    opened = [asyncio.create_task(hand_over(service, silent())) for _ in range(5)]
    await asked.wait()
    assert await hand_over(service, world.messages(world.sample(world.order()))) == EVENTS
    for call in opened:
        assert not call.done()
        call.cancel()
    await asyncio.wait(opened)


async def test_one_sample_too_many_is_told_to_come_back(world: World, stop: StopSignal) -> None:
    """Beyond its places the node says BUSY at once, holds nothing, and serves again when a place is free."""
    service = CensusService(world.census, LimitConfig(max_queries=1), stop)
    held_now, go_on = asyncio.Event(), asyncio.Event()
    requests = world.messages(world.sample(world.order()))

    async def held() -> AsyncIterator[census_service_pb2.CountRequest]:
        held_now.set()
        yield requests[0]
        await go_on.wait()
        for request in requests[1:]:
            yield request

    first = asyncio.create_task(hand_over(service, held()))
    await held_now.wait()
    with world.unchanged():
        assert (await refusal(service, world.messages(world.sample(world.order())))).code == "BUSY"
    go_on.set()
    assert await first == EVENTS
    await service.drain()
    assert await hand_over(service, world.messages(world.sample(world.order()))) == EVENTS


async def test_agency_that_takes_all_its_places_keeps_no_other_out(world: World, stop: StopSignal) -> None:
    """Places are each agency's own: another one's sample is taken while this one is told to come back."""
    service = CensusService(world.census, LimitConfig(max_queries=1), stop)
    await service._places[OTHER_HEALTH.organisation].acquire()
    other = stream(world.messages(world.sample(world.order()), world.secrets.other_manifest))
    with pytest.raises(BrokerError, match="BUSY"):
        _ = [response async for response in count(service, other, OTHER_HEALTH)]
    assert await hand_over(service, world.messages(world.sample(world.order()))) == EVENTS


async def test_samples_of_one_agency_in_memory_are_bounded_in_bytes(world: World, stop: StopSignal) -> None:
    """A frame too many is BUSY, its sample is forgotten, and what was charged or refused gives its bytes back."""
    service = CensusService(world.census, LimitConfig(max_sample_bytes=2**20), stop)
    header, frame, *rest = world.messages(world.sample(world.order()))
    size = len(frame.frame.ciphertext)
    places = 2**20 // size
    came, go_on = asyncio.Semaphore(0), asyncio.Event()

    async def held() -> AsyncIterator[census_service_pb2.CountRequest]:
        requests = world.messages(world.sample(world.order()))
        yield requests[0]
        yield requests[1]
        came.release()
        await go_on.wait()
        for request in requests[2:]:
            yield request

    holding = [asyncio.create_task(hand_over(service, held())) for _ in range(places)]
    for _ in holding:
        await came.acquire()
    assert (await refusal(service, [header, frame, *rest])).code == "BUSY"
    assert service._sample_bytes[HEALTH.organisation] == places * size
    go_on.set()
    assert await asyncio.gather(*holding) == [EVENTS] * places
    await service.drain()
    assert service._sample_bytes[HEALTH.organisation] == 0
    assert await hand_over(service, [header, frame, *rest]) == EVENTS


async def test_query_goes_on_when_its_connection_is_gone(world: World, service: CensusService) -> None:
    """A sample that has arrived is charged, answered and released although nobody listens any more."""
    order = world.order()
    requests = world.messages(world.sample(order))
    sent = asyncio.Event()

    async def sending() -> AsyncIterator[census_service_pb2.CountRequest]:
        for request in requests:
            yield request
            if request.HasField("manifest"):
                break

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
DELAY_MS = 50


@pytest.fixture
def ticking(tmp_path: Path) -> Iterator[World]:
    """A world in which everything leaves at multiples of 200 ms, at least 50 ms after the header."""
    made = World(tmp_path / "ticking", make_policy(tick_ms=TICK_MS, delay_ms=DELAY_MS))
    yield made
    made.close()


@dataclass(frozen=True)
class Wait:
    """One wait of the service: from when, and until when."""

    from_ms: int
    until_ms: int


@pytest.fixture
def waits(ticking: World, monkeypatch: pytest.MonkeyPatch) -> list[Wait]:
    """Virtual time: waiting for an instant sets the clock to it. Gives every wait there was."""
    made: list[Wait] = []

    async def sleep(seconds: float) -> None:
        now_ms = ticking.clock.now_ms
        ticking.clock.advance(round(seconds * 1000))
        made.append(Wait(now_ms, ticking.clock.now_ms))

    monkeypatch.setattr("census_node.timing.asyncio", SimpleNamespace(sleep=sleep))
    return made


def wrong_samples(world: World) -> Iterator[Requests]:
    """Samples that fail at different depths: at the header, in the frames, at the manifest, at the charge."""
    good = world.messages(world.sample(world.order()))
    yield []
    yield [CountRequest()]
    yield world.messages(world.sample(world.order(scale=51)))
    yield good[:-1]
    yield [*good[:-1], CountRequest(manifest=sample_pb2.SignedManifest(key_id=world.secrets.manifest.key_id))]
    used = world.order()
    world.charge(used)
    yield world.messages(world.sample(used))


async def test_charges_and_refusals_leave_at_the_same_instant(
    ticking: World, stop: StopSignal, waits: list[Wait]
) -> None:
    """When a word leaves depends on the header's time and the policy: not on the sample, its size, or the outcome."""
    service = CensusService(ticking.census, PATIENT, stop)
    start = (ticking.clock.now_ms // TICK_MS + 1) * TICK_MS + 120

    async def instants(requests: Requests) -> list[int]:
        ticking.clock.now_ms = start
        waits.clear()
        with contextlib.suppress(BrokerError):
            await hand_over(service, requests)
        return [wait.until_ms - start for wait in waits]

    for people in (0, 1, 400, 20_000):
        sample = ticking.sample(ticking.order(), make_pseudonyms(people))
        # The charge is made at half the delay. 120 + 50 ms lies in the first period: it is told at its end, the answer a
        # full period later.
        assert await instants(ticking.messages(sample)) == [25, 80, 280]
    for requests in wrong_samples(ticking):
        # What only the charge refuses is refused when it is made, and told when everything is.
        assert await instants(requests) in ([80], [25, 80])


async def test_sample_that_outlasts_the_delay_waits_for_a_tick(
    ticking: World, stop: StopSignal, waits: list[Wait], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long a sample takes, nothing leaves between two ticks: the time it took would be its size."""
    service = CensusService(ticking.census, PATIENT, stop)
    add_frame = Admission.add_frame

    def slowly(admission: Admission, frame: sample_pb2.SampleFrame) -> Pseudonyms:
        ticking.clock.advance(3 * TICK_MS + 17)
        return add_frame(admission, frame)

    monkeypatch.setattr(Admission, "add_frame", slowly)
    good = ticking.messages(ticking.sample(ticking.order()))
    assert await hand_over(service, good) == EVENTS
    await refusal(service, ticking.messages(ticking.sample(ticking.order()))[:-1])
    # For the charge, two words and a refusal.
    assert len(waits) == 4
    assert all(wait.until_ms % TICK_MS == 0 for wait in waits)
    assert all(wait.until_ms >= wait.from_ms for wait in waits)


@pytest.mark.parametrize("withheld_ms", [0, 1, 120, 199, 200, 201, 617, 5003])
async def test_answer_leaves_at_the_first_tick_a_full_period_after_its_cosignature(
    ticking: World, stop: StopSignal, waits: list[Wait], withheld_ms: int
) -> None:
    """However long the health agency withholds it: the answer leaves on a tick, and never within a period of it."""
    ticking.cosigning = False
    service = CensusService(ticking.census, PATIENT, stop)
    order = ticking.order()
    said = count(service, stream(ticking.messages(ticking.sample(order))), HEALTH)
    assert [str((await anext(said)).WhichOneof("event")) for _ in range(2)] == EVENTS[:2]
    ticking.clock.advance(withheld_ms)
    waits.clear()
    cosigned_ms = ticking.clock.now_ms
    assert (await collect(service, order)) == NOTHING_YET
    ticking.cosign()
    assert (await anext(said)).HasField("released")
    assert [wait.until_ms for wait in waits] == [next_tick(ticking.policy, cosigned_ms + TICK_MS)]
    assert (await collect(service, order)).HasField("answer")


@pytest.mark.parametrize("held_ms", [0, 20, 79, 80, 81, 200, 617, 5003])
async def test_late_manifest_moves_outcomes_by_whole_ticks_only(
    ticking: World, stop: StopSignal, waits: list[Wait], held_ms: int
) -> None:
    """A sender who holds the manifest back learns nothing of the work: charge and refusal leave at the same tick."""
    service = CensusService(ticking.census, PATIENT, stop)
    start = (ticking.clock.now_ms // TICK_MS + 1) * TICK_MS + 120
    charge_ms = charge_time(ticking.policy, header_ms=start, kept_ms=start + held_ms)
    due_ms = outcome_time(ticking.policy, header_ms=start, received_ms=start + held_ms)
    assert due_ms % TICK_MS == 0

    async def holding_back(requests: Requests) -> AsyncIterator[CountRequest]:
        for request in requests:
            if request.HasField("manifest"):
                ticking.clock.advance(held_ms)
            yield request

    for people in (0, 400, 20_000):
        good, bad = (ticking.messages(ticking.sample(ticking.order(), make_pseudonyms(people))) for _ in range(2))
        bad[-1].manifest.signature = bytes(64)
        ticking.clock.now_ms = start
        waits.clear()
        assert await hand_over(service, holding_back(good)) == EVENTS
        assert [wait.until_ms for wait in waits] == [charge_ms, due_ms, due_ms + TICK_MS]
        ticking.clock.now_ms = start
        waits.clear()
        assert (await refusal(service, holding_back(bad))).code == "BAD_SIGNATURE"
        assert [wait.until_ms for wait in waits] == [due_ms]


@pytest.mark.parametrize("work_ms", [0, 30, 55, 56, 617])
async def test_work_of_any_length_leaves_on_a_tick(
    ticking: World, stop: StopSignal, waits: list[Wait], monkeypatch: pytest.MonkeyPatch, work_ms: int
) -> None:
    """Work within its time moves nothing; work that outlasts it moves the charge to a later tick, never in between."""
    service = CensusService(ticking.census, PATIENT, stop)
    start = (ticking.clock.now_ms // TICK_MS + 1) * TICK_MS + 120
    slow_down(monkeypatch, CensusNode, "charge", lambda: ticking.clock.advance(work_ms))
    good = ticking.messages(ticking.sample(ticking.order()))
    ticking.clock.now_ms = start
    assert await hand_over(service, good) == EVENTS
    # The charge is made 25 ms after the start. 80 ms after it is the tick; whoever misses it leaves at the next one.
    done_ms = 25 + work_ms
    late_ticks = -(-(done_ms - 80 + 1) // TICK_MS) if done_ms > 80 else 0
    assert [wait.until_ms - start for wait in waits] == [25, 80 + late_ticks * TICK_MS, 280 + late_ticks * TICK_MS]


@pytest.mark.parametrize(("keep_ms", "charge_ms"), [(0, 25), (25, 25), (26, 80), (80, 80), (81, 280), (617, 680)])
async def test_charge_is_made_at_half_the_delay_or_when_late_on_a_tick(
    ticking: World,
    stop: StopSignal,
    waits: list[Wait],
    monkeypatch: pytest.MonkeyPatch,
    keep_ms: int,
    charge_ms: int,
) -> None:
    """However long it takes to put a sample down: never as soon as that is done, which would be the sample's size."""
    service = CensusService(ticking.census, PATIENT, stop)
    start = (ticking.clock.now_ms // TICK_MS + 1) * TICK_MS + 120
    slow_down(monkeypatch, SampleFolder, "write", lambda: ticking.clock.advance(keep_ms))
    good = ticking.messages(ticking.sample(ticking.order()))
    ticking.clock.now_ms = start
    assert await hand_over(service, good) == EVENTS
    assert waits[0].until_ms - start == charge_ms
    assert [entry.time_ms - start for entry in ticking.entries() if isinstance(entry.event, Charged)] == [charge_ms]
    assert all((wait.until_ms - start - 80) % TICK_MS == 0 for wait in waits[1:])


def slow_down(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, pause: Callable[[], None]) -> None:
    """Have a step of the node's work take its time."""
    work = getattr(owner, name)

    def slowly(*arguments: object) -> object:
        pause()
        return work(*arguments)

    monkeypatch.setattr(owner, name, slowly)


async def test_charge_lies_where_its_header_put_it_among_what_others_log_meanwhile(
    ticking: World, stop: StopSignal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A researcher who has the node log an entry a millisecond reads from an answer's place when it was charged.

    For a sample of nobody, of everybody, and of any time that reading and keeping it takes within half the delay, the
    place is the same one. Virtual time: whatever waits or works lets it pass, entry by entry. Nothing is allowed for.
    """
    service = CensusService(ticking.census, PATIENT, stop)
    exchange = CardExchange(ticking.census.journal, ticking.clock)
    serials = itertools.count(2)
    start = ticking.clock.now_ms // TICK_MS * TICK_MS

    def pass_time(milliseconds: int) -> None:
        for _ in range(milliseconds):
            ticking.clock.advance(1)
            if len(ticking.charges()) == len(places):
                exchange(OWNER, ticking.parties[OWNER].changed(serial=next(serials)))

    async def sleep(seconds: float) -> None:
        pass_time(round(seconds * 1000))

    monkeypatch.setattr("census_node.timing.asyncio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr("broker_common.storage.registration._MOST_CARDS", 10**6)
    places: list[int] = []
    for people, frame_ms, keep_ms in ((0, 0, 0), (400, 3, 2), (400, 12, 13), (20_000, 1, 10), (0, 25, 0)):
        order = ticking.order()
        messages = ticking.messages(ticking.sample(order, make_pseudonyms(people)))
        with monkeypatch.context() as patch:
            slow_down(patch, Admission, "finish", partial(pass_time, frame_ms))
            slow_down(patch, SampleFolder, "write", partial(pass_time, keep_ms))
            start += 10 * TICK_MS
            ticking.clock.now_ms = start
            before = len(ticking.entries())
            assert await hand_over(service, messages) == EVENTS
        answer = ticking.open(order, (await collect(service, order)).answer.sealed)
        places.append(answer.log_index - before)
    assert places == [DELAY_MS // 2] * 5


async def test_held_manifest_leaves_on_the_tick_by_the_wall_clock(tmp_path: Path, stop: StopSignal) -> None:
    """Real time, manifests held back past the delay: neither charge nor refusal is heard before the tick it has."""
    world = World(tmp_path, make_policy(tick_ms=TICK_MS, delay_ms=DELAY_MS))
    world.census.clock = system_clock
    service = CensusService(world.census, PATIENT, stop)

    async def heard_after_its_tick(requests: Requests, held_ms: int) -> None:
        last_ms = start_ms = system_clock()

        async def holding_back() -> AsyncIterator[CountRequest]:
            nonlocal last_ms
            for request in requests:
                if request.HasField("manifest"):
                    await asyncio.sleep(held_ms / 1000)
                    last_ms = system_clock()
                yield request

        heard: list[int] = []
        try:
            async for _ in count(service, holding_back(), HEALTH):
                heard.append(system_clock())  # noqa: PERF401 - what was heard before a refusal counts too
        except InvalidRequestError:
            heard.append(system_clock())
        # The first word is the one to proceed, which does not wait.
        events = heard[1:]
        due_ms = outcome_time(world.policy, header_ms=start_ms, received_ms=last_ms)
        assert events[0] >= due_ms
        assert all(event >= due_ms + number * TICK_MS for number, event in enumerate(events))

    async with asyncio.TaskGroup() as group:
        for held_ms in (0, 90, 230):
            good, bad = (world.messages(world.sample(world.order())) for _ in range(2))
            bad[-1].manifest.signature = bytes(64)
            group.create_task(heard_after_its_tick(good, held_ms))
            group.create_task(heard_after_its_tick(bad, held_ms))
    assert len(world.charges()) == 3
    world.close()


async def test_busy_is_said_at_a_tick_and_no_sample_is_read(
    ticking: World, stop: StopSignal, waits: list[Wait]
) -> None:
    """A sender for whom there is no place hears BUSY when a refusal would leave, whatever it meant to send."""
    service = CensusService(ticking.census, LimitConfig(max_queries=1), stop)
    await service._places[HEALTH.organisation].acquire()
    start = ticking.clock.now_ms = (ticking.clock.now_ms // TICK_MS + 1) * TICK_MS + 120

    async def sending() -> AsyncIterator[CountRequest]:
        yield ticking.messages(ticking.sample(ticking.order()))[0]
        raise AssertionError("the sample of a refused sender is read")

    assert (await refusal(service, sending())).code == "BUSY"
    assert [wait.until_ms - start for wait in waits] == [80]


async def test_neither_refusal_nor_charge_leaves_early(tmp_path: Path, stop: StopSignal) -> None:
    """By the wall clock: no word before the first tick after the delay, no answer before the tick after that."""
    world = World(tmp_path, make_policy(tick_ms=TICK_MS, delay_ms=DELAY_MS))
    # Real time from here on; the node reads this attribute at every look.
    world.census.clock = system_clock
    service = CensusService(world.census, PATIENT, stop)
    order = world.order()
    good = world.messages(world.sample(order))
    # The answer stays inside until it has been looked for.
    world.cosigning = False
    start = system_clock()
    refused = asyncio.create_task(refusal(service, [CountRequest()]))
    said = count(service, stream(good), HEALTH)
    assert (await anext(said)).HasField("proceed")
    assert (await anext(said)).HasField("charged")
    charged_ms = system_clock()
    assert charged_ms >= outcome_time(world.policy, header_ms=start, received_ms=start)
    assert (await collect(service, order)).answer == answer_pb2.SealedAnswer()
    world.cosign()
    assert (await anext(said)).HasField("released")
    assert system_clock() >= next_tick(world.policy, charged_ms + 1)
    assert (await collect(service, order)).HasField("answer")
    assert (await refused).code == "MALFORMED_MESSAGE"
    world.close()


async def test_refusal_waits_as_long_as_a_charge(tmp_path: Path, stop: StopSignal) -> None:
    """By the wall clock: a refusal at the very first message is not said before its tick either."""
    world = World(tmp_path, make_policy(tick_ms=TICK_MS, delay_ms=DELAY_MS))
    world.census.clock = system_clock
    service = CensusService(world.census, LimitConfig(max_queries=1), stop)
    for requests in ([], [CountRequest()]):
        start = system_clock()
        await refusal(service, requests)
        assert system_clock() >= outcome_time(world.policy, header_ms=start, received_ms=start)
    world.close()


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
            world.census.release(order.hash.hex())
        assert await collect(service, order, OTHER_RESEARCHER) == NOTHING_YET
    assert (await collect(service, order)).HasField("answer")


async def test_charge_shows_to_nobody_before_its_answer_is_out(world: World, stop: StopSignal) -> None:
    """Not asked, admitted, charged, answered, or somebody else's and out: Collect says the same, after the same wait."""
    service = CensusService(world.census, LimitConfig(collect_wait_ms=HOLD_MS), stop)
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
    service = CensusService(world.census, LimitConfig(collect_wait_ms=HOLD_MS), stop)
    set_caller(Identity("university", "researcher", RESEARCHER))
    request = census_service_pb2.CollectRequest(query_id=query, wait_ms=2**32 - 1)
    assert await service.Collect(request, NO_CONTEXT) == NOTHING_YET


async def test_collect_waits_for_the_release_and_no_longer(world: World, stop: StopSignal) -> None:
    """A held call is answered by the release itself; one that is not held comes back empty."""
    never_ms = int(1000 * NEVER_SECONDS)
    service, order = CensusService(world.census, LimitConfig(collect_wait_ms=never_ms), stop), world.order()
    world.charge(order)
    assert not (await collect(service, order)).HasField("answer")
    held = asyncio.create_task(collect(service, order, wait_ms=never_ms))
    # Another query's release wakes the held call too; it looks, and goes on waiting.
    world.answer(world.order())
    await asyncio.sleep(0)
    assert not held.done()
    await asyncio.to_thread(world.census.release, order.hash.hex())
    assert (await asyncio.wait_for(held, PATIENCE_SECONDS)).HasField("answer")


async def test_sealed_answers_have_one_length(world: World, service: CensusService) -> None:
    """Neither the count nor the age of the log shows in the size of an answer."""
    lengths = set()
    for people in (make_pseudonyms(0), world.people, make_pseudonyms(30_000)):
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
    assert {quoted.charged for quoted in quotes} == {price_units(30)}


@pytest.mark.parametrize("scale", [0, 51, 2**32 - 1])
async def test_quote_at_a_scale_outside_the_policy_is_refused(world: World, service: CensusService, scale: int) -> None:
    """What cannot be asked is not quoted, and no slot is reserved for it."""
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
        question = ticket_pb2.Question(language_set=ticket_pb2.LanguageSet(variable=variable, values=[value]))
        with world.unchanged(), pytest.raises(InvalidRequestError) as caught:
            await service.Quote(census_service_pb2.QuoteRequest(question=question, scale=30), NO_CONTEXT)
        assert caught.value.code == code


async def test_what_remains_does_not_show_a_charge_before_its_answer_is_out(
    world: World, service: CensusService
) -> None:
    """Whoever keeps quoting sees the release, at its tick, and not the instant of the charge."""
    order = world.order()
    said = []
    steps: list[Callable[[], object]] = [
        lambda: None,
        lambda: world.charge(order),
        lambda: world.census.release(order.hash.hex()),
    ]
    for step in steps:
        step()
        said.append((await quote(service)).remaining)
    assert said == [41, 41, 40]


async def test_last_charge_shows_to_nobody_before_its_answer_is_out(tmp_path: Path, stop: StopSignal) -> None:
    """Nor does the shutdown that comes with it: quotes go on until the tick, and then they end."""
    world = World(tmp_path, make_policy(max_belief="0.75", scales=(1,)))
    service = CensusService(world.census, PATIENT, stop)
    order = world.order(scale=1)
    world.charge(order)
    assert world.verify_log().shut_down
    assert (await quote(service, scale=1)).remaining == 1
    world.census.release(order.hash.hex())
    with pytest.raises(RefusedError, match="SERVICE_SHUT_DOWN"):
        await quote(service, scale=1)
    world.close()


async def test_what_remains_depends_on_charges_alone(world: World, service: CensusService) -> None:
    """The same number follows an empty sample, a full one, and one of strangers."""
    for number, people in enumerate((make_pseudonyms(0), world.people, make_pseudonyms(300, seed=9)), start=1):
        await hand_over(service, world.messages(world.sample(world.order(), people)))
        quoted = await quote(service)
        assert quoted.remaining == answers_left(world.policy.cap, number * price_units(30), 30)


async def test_what_remains_is_not_told_where_people_differ(tmp_path: Path, stop: StopSignal) -> None:
    """Under per-person accounting the field is absent, not 0; the price and the margin are told as ever."""
    world = World(tmp_path, make_policy(accounting="per_person"))
    quoted = await quote(CensusService(world.census, PATIENT, stop))
    assert not quoted.HasField("remaining")
    assert (quoted.charged, quoted.margin_95) == (price_units(30), 90)
    world.close()


# --- shut ------------------------------------------------------------------------------------------------------------


async def test_shut_service_refuses_quotes_and_samples_and_still_delivers(tmp_path: Path, stop: StopSignal) -> None:
    """After the last answer: no quote, no charge, even on a slot reserved before; what was charged is collected."""
    world = World(tmp_path, make_policy(max_belief="0.75", scales=(1,)))
    service = CensusService(world.census, PATIENT, stop)
    last, too_late = world.order(scale=1), world.order(scale=1)
    assert await hand_over(service, world.messages(world.sample(last))) == EVENTS
    for restart in range(2):
        if restart:
            service = CensusService(world.crash_census(), PATIENT, stop)
            service.release_recovered(world.census.recover())
        with world.unchanged(), pytest.raises(RefusedError, match="SERVICE_SHUT_DOWN"):
            await quote(service, scale=1)
        if not restart:
            with world.unchanged():
                error = await refusal(service, world.messages(world.sample(too_late)))
            assert error.code == "SERVICE_SHUT_DOWN"
        answer = (await collect(service, last)).answer
        assert world.open(last, answer.sealed).charged == price_units(1)
    assert not stop.error
    world.close()


async def test_sixteen_calls_racing_for_the_last_answer(tmp_path: Path, stop: StopSignal) -> None:
    """Through the service: one call is charged and released, fifteen are refused at their header, the log verifies."""
    world = World(tmp_path, make_policy(max_belief="0.75", scales=(1,)))
    service = CensusService(world.census, LimitConfig(max_queries=16), stop)
    orders = [world.order(scale=1) for _ in range(16)]

    async def ask(order: Order) -> str:
        try:
            return "+".join(await hand_over(service, world.messages(world.sample(order))))
        except BrokerError as error:
            return error.code

    outcomes = await asyncio.gather(*map(ask, orders))
    assert sorted(outcomes) == ["BUDGET_EXHAUSTED"] * 15 + ["+".join(EVENTS)]
    assert (await refusal(service, world.messages(world.sample(world.order(scale=1))))).code == "SERVICE_SHUT_DOWN"
    assert world.verify_log().charged_units <= world.policy.cap
    world.close()


async def test_recovery_answers_and_releases_what_a_crash_left(world: World, stop: StopSignal) -> None:
    """A service that starts on a journal with a stored answer releases it; whoever holds a call open gets it."""
    order = world.order()
    world.charge(order)
    service = CensusService(world.crash_census(), PATIENT, stop)
    held = asyncio.create_task(collect(service, order, wait_ms=20_000))
    service.release_recovered(world.census.recover())
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
    census_service_pb2.QuoteResponse: [
        *("scale", "charged", "margin_95", "remaining", "policy_hash", "census_release", "noise_slot", "expires_ms"),
        *("slot_entry", "slot_index", "slot_proof", "quota", "quota_left"),
    ],
    answer_pb2.SignedAnswer: ["receipt", "noisy_count", "answer_salt"],
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
