"""The courier: an inbox that fails, lies, hangs or moves keeps nobody else from their answers, and stops nobody.

Unfetched answers are kept as long as promised and then removed, which the log says.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass, field

import pytest
from fakes.links import NO_CONTEXT, on_the_wire
from fakes.patience import PATIENCE_SECONDS, linger, until
from fakes.world import OTHER_RESEARCHER, RESEARCHER, Order, World
from grpc import StatusCode
from grpc.aio import AioRpcError, Metadata
from tripartite.v1 import census_service_pb2, inbox_service_pb2

from broker_common.crypto.certificates import Identity, TlsCredentials
from broker_common.errors import BrokerError, InternalError, InvalidRequestError, StateUnknownError
from broker_common.rpc.callers import set_caller
from broker_common.rpc.channel import Peer
from broker_common.rpc.server import StopSignal
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Delivered, Entry, Expired, Released
from broker_common.tlog.replay import ReplayError, replay
from broker_common.values import Clock
from census_node.config import LimitConfig
from census_node.release import delivery
from census_node.release.delivery import Courier
from census_node.release.released import ReleasedAnswers
from census_node.service import CensusService

Deliver = Callable[[inbox_service_pb2.DeliverRequest], Awaitable[inbox_service_pb2.DeliverResponse]]
OWN = TlsCredentials(b"", b"")


class Inbox:
    """The channel to an inbox: has the one method that the courier calls."""

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver

    def unary_unary(self, *_: object, **__: object) -> Callable[..., Awaitable[inbox_service_pb2.DeliverResponse]]:
        """As a generated stub asks for it."""
        return lambda request, **_: self._deliver(request)


@dataclass
class Places:
    """Who listens at which address, which address each researcher has registered, and what came where."""

    listening: dict[str, Deliver] = field(default_factory=dict)
    registered: dict[str, str] = field(default_factory=dict)
    # Address and query, in the order of the pushes; and the addresses to which a channel was opened.
    pushed: list[tuple[str, str]] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)

    def register(self, researcher: str, deliver: Deliver, address: str = "") -> str:
        """Put an inbox where it is, in force from now on."""
        address = address or researcher
        self.listening[address] = deliver
        self.registered[researcher] = address
        return address

    def inboxes(self) -> dict[str, Peer]:
        """As a registry gives them."""
        return {name: Peer("researcher", at, ()) for name, at in self.registered.items()}

    @contextlib.asynccontextmanager
    async def open_channel(self, peer: Peer, own: TlsCredentials, clock: Clock) -> AsyncIterator[Inbox]:
        """In the place of a channel with mutual TLS."""
        del own, clock
        self.opened.append(peer.address)

        async def deliver(request: inbox_service_pb2.DeliverRequest) -> inbox_service_pb2.DeliverResponse:
            self.pushed.append((peer.address, request.answer.query_id.hex()))
            return await self.listening[peer.address](request)

        yield Inbox(deliver)

    def pushes_to(self, address: str) -> list[str]:
        """The queries that were pushed to an address."""
        return [query for at, query in self.pushed if at == address]


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> Places:
    """Nobody listens anywhere yet; pauses are short enough for a test to sit them out."""
    made = Places()
    monkeypatch.setattr(delivery, "open_channel", made.open_channel)
    monkeypatch.setattr(delivery, "_LOOK_SECONDS", 0.005)
    monkeypatch.setattr(delivery, "_FIRST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(delivery, "_MAX_PAUSE_SECONDS", 0.16)
    return made


@contextlib.asynccontextmanager
async def carrying(world: World, places: Places, limits: LimitConfig | None = None) -> AsyncIterator[Courier]:
    """A courier at work; it must still be at the end, unless the test ended it."""
    courier = Courier(world.census, places.inboxes, lambda: OWN, limits or LimitConfig())
    running = asyncio.create_task(courier.run())
    try:
        yield courier
        assert not running.done(), running.exception()
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


def query_of(order: Order) -> str:
    """As the census node names it."""
    return order.body.query_id.hex()


def answered(world: World, researcher: str = RESEARCHER) -> Order:
    """An order whose answer is out."""
    order = world.order(researcher)
    world.answer(order)
    return order


def delivery_of(order: Order) -> Delivered:
    """The log's entry when an inbox has it."""
    return Delivered(ticket=order.hash.hex(), by="inbox")


async def take(request: inbox_service_pb2.DeliverRequest) -> inbox_service_pb2.DeliverResponse:
    """An honest inbox, as far as the courier can see; or one that lies and keeps nothing."""
    del request
    return inbox_service_pb2.DeliverResponse()


async def hang(request: inbox_service_pb2.DeliverRequest) -> inbox_service_pb2.DeliverResponse:
    """Never says anything."""
    del request
    await asyncio.Event().wait()
    raise AssertionError


def failing(error: Exception) -> Deliver:
    """Says this."""

    async def fail(request: inbox_service_pb2.DeliverRequest) -> inbox_service_pb2.DeliverResponse:
        del request
        raise error

    return fail


AWAY = failing(AioRpcError(StatusCode.UNAVAILABLE, Metadata(), Metadata()))
REFUSING = failing(on_the_wire(InvalidRequestError("UNKNOWN_QUERY", query="0" * 32)))
TROUBLES: dict[str, Deliver] = {
    "hangs": hang,
    "is away": AWAY,
    "is somebody else": failing(AioRpcError(StatusCode.INTERNAL, Metadata(), Metadata(), details="17")),
    "has a damaged store": failing(on_the_wire(InternalError("INTEGRITY", problem="of my own making"))),
    "has a full disk": failing(on_the_wire(InternalError("STORE_FAILED"))),
    "does not know what it wrote": failing(on_the_wire(StateUnknownError("STATE_UNKNOWN"))),
    "refuses": REFUSING,
    "speaks nonsense": failing(
        AioRpcError(StatusCode.OK, Metadata(), Metadata(("grpc-status-details-bin", b"\xff\xff")))
    ),
    "does what no library foresees": failing(ValueError("17 people")),
}


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_failing_inbox_stops_nobody(world: World, places: Places, trouble: str) -> None:
    """Whatever an inbox says, even that its store is broken: the courier goes on, and others have their answers."""
    places.register(RESEARCHER, TROUBLES[trouble])
    places.register(OTHER_RESEARCHER, take)
    troubled, other = answered(world), answered(world, OTHER_RESEARCHER)
    async with carrying(world, places):
        await until(lambda: world.events(Delivered))
        await until(lambda: len(places.pushes_to(RESEARCHER)) > (trouble != "hangs"))
        assert world.events(Delivered) == [delivery_of(other)]
    # The sealed answer waits for its researcher all the same.
    assert world.census.released.undelivered([RESEARCHER]) == {RESEARCHER: [query_of(troubled)]}
    assert world.open(troubled, world.sealed(troubled)).scale == 30


async def test_answers_are_pushed_one_after_the_other_oldest_first(world: World, places: Places) -> None:
    """One channel, one push at a time: a researcher's inbox is never asked to take two answers at once."""
    at_once, most = 0, 0

    async def slow(request: inbox_service_pb2.DeliverRequest) -> inbox_service_pb2.DeliverResponse:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await linger()
        at_once -= 1
        return await take(request)

    places.register(RESEARCHER, slow)
    orders = [answered(world) for _ in range(5)]
    async with carrying(world, places):
        await until(lambda: len(world.events(Delivered)) == 5)
    assert places.pushes_to(RESEARCHER) == [query_of(order) for order in orders]
    assert world.events(Delivered) == [delivery_of(order) for order in orders]
    assert (most, places.opened) == (1, [RESEARCHER])


async def test_no_more_researchers_are_pushed_to_at_once_than_the_setting_says(world: World, places: Places) -> None:
    """One that hangs takes a place for a while; it does not take two, and the next one comes when it has given up."""
    gone = asyncio.Event()

    async def hang_a_while(request: inbox_service_pb2.DeliverRequest) -> inbox_service_pb2.DeliverResponse:
        del request
        await gone.wait()
        raise AioRpcError(StatusCode.DEADLINE_EXCEEDED, Metadata(), Metadata())

    places.register(RESEARCHER, hang_a_while)
    answered(world)
    async with carrying(world, places, LimitConfig(max_pushes=1)):
        await until(lambda: places.pushed)
        places.register(OTHER_RESEARCHER, take)
        other = await asyncio.to_thread(answered, world, OTHER_RESEARCHER)
        await linger()
        assert places.pushes_to(OTHER_RESEARCHER) == []
        gone.set()
        await until(lambda: world.events(Delivered) == [delivery_of(other)])


async def test_refused_answer_does_not_keep_the_next_one_waiting(world: World, places: Places) -> None:
    """An inbox that refuses one answer, because it does not know the query, still gets the others."""
    lost, wanted = answered(world), answered(world)

    async def choosy(request: inbox_service_pb2.DeliverRequest) -> inbox_service_pb2.DeliverResponse:
        refused = request.answer.query_id == lost.body.query_id
        return await (REFUSING(request) if refused else take(request))

    places.register(RESEARCHER, choosy)
    async with carrying(world, places):
        await until(lambda: world.events(Delivered) == [delivery_of(wanted)])


@pytest.mark.parametrize("trouble", ["is away", "refuses", "has a full disk", "does what no library foresees"])
async def test_pauses_grow_up_to_a_ceiling(
    world: World, places: Places, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    """Nobody is asked for ever at full rate, not even who refuses an answer for what it is; and nobody is given up."""
    places.register(RESEARCHER, TROUBLES[trouble])
    for _ in range(3):
        answered(world)
    pauses: list[float] = []
    pause = delivery._Pause

    def noted(peer: Peer, queries: frozenset[str], due: float, seconds: float) -> delivery._Pause:
        pauses.append(seconds)
        return pause(peer, queries, due, seconds)

    monkeypatch.setattr(delivery, "_Pause", noted)
    async with carrying(world, places):
        await until(lambda: len(places.opened) >= 6)
    assert pauses[:5] == [0.02, 0.04, 0.08, 0.16, 0.16]
    # One visit after each pause, whatever the number of answers, and not one in between.
    assert len(places.opened) <= len(pauses) + 1


async def test_pause_is_ended_by_a_new_answer_and_by_a_new_address(
    world: World, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who comes back, or moves, does not wait for a pause that was meant for who they were."""
    monkeypatch.setattr(delivery, "_FIRST_PAUSE_SECONDS", 3600.0)
    monkeypatch.setattr(delivery, "_MAX_PAUSE_SECONDS", 3600.0)
    places.register(RESEARCHER, AWAY)
    first = answered(world)
    async with carrying(world, places) as courier:
        await until(lambda: courier._pauses)
        await linger()
        assert len(places.opened) == 1, "paused"
        second = await asyncio.to_thread(answered, world)
        await until(lambda: len(places.opened) == 2 and courier._pauses)
        await linger()
        assert len(places.opened) == 2, "paused again"
        places.register(RESEARCHER, take, "elsewhere")
        await until(lambda: len(world.events(Delivered)) == 2)
    assert places.pushes_to("elsewhere") == [query_of(first), query_of(second)]


async def test_inbox_that_moves_while_it_hangs_is_served_where_it_is_now(world: World, places: Places) -> None:
    """The push to the old address is given up at once, and nothing is lost or restarted."""
    places.register(RESEARCHER, hang)
    order = answered(world)
    async with carrying(world, places):
        await until(lambda: places.pushed)
        places.register(RESEARCHER, take, "elsewhere")
        await until(lambda: world.events(Delivered) == [delivery_of(order)])
    assert places.opened == [RESEARCHER, "elsewhere"]


async def test_inbox_that_appears_is_found_and_one_that_disappears_is_left_alone(world: World, places: Places) -> None:
    """The registry is asked at every push; who is no longer in it gets nothing more, from the middle of a visit on."""
    first = answered(world)

    async def take_and_leave(request: inbox_service_pb2.DeliverRequest) -> inbox_service_pb2.DeliverResponse:
        del places.registered[RESEARCHER]
        return await take(request)

    async with carrying(world, places):
        await linger()
        assert places.opened == []
        second = await asyncio.to_thread(answered, world)
        places.register(RESEARCHER, take_and_leave)
        await until(lambda: RESEARCHER not in places.registered)
        await linger()
        assert places.pushes_to(RESEARCHER) == [query_of(first)]
        places.register(RESEARCHER, take)
        await until(lambda: query_of(second) in places.pushes_to(RESEARCHER))
        await until(lambda: not world.census.released.undelivered([RESEARCHER]))


async def test_looking_for_what_waits_keeps_nobody_waiting(
    world: World, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many answers nobody fetches: they are gone through beside the loop, which serves everybody."""
    looked: list[int] = []
    undelivered = ReleasedAnswers.undelivered

    def noting(released: ReleasedAnswers, researchers: Collection[str]) -> dict[str, list[str]]:
        looked.append(threading.get_ident())
        return undelivered(released, researchers)

    monkeypatch.setattr(ReleasedAnswers, "undelivered", noting)
    places.register(RESEARCHER, take)
    async with carrying(world, places):
        await until(lambda: len(looked) > 0)
    assert threading.get_ident() not in looked


async def test_inbox_that_disappears_between_two_pushes_gets_no_second_one(
    world: World, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an inbox is, and whether there is one, is asked before every push of a visit, not only when it begins."""
    monkeypatch.setattr(delivery, "_LOOK_SECONDS", 3600.0)
    first, second = answered(world), answered(world)

    async def take_and_leave(request: inbox_service_pb2.DeliverRequest) -> inbox_service_pb2.DeliverResponse:
        places.registered.clear()
        return await take(request)

    places.register(RESEARCHER, take_and_leave)
    async with carrying(world, places) as courier:
        await until(lambda: courier._visits and courier._visits[RESEARCHER].task.done())
    assert places.pushes_to(RESEARCHER) == [query_of(first)]
    assert world.census.released.undelivered([RESEARCHER]) == {RESEARCHER: [query_of(second)]}


async def test_lying_inbox_costs_its_owner_nothing(world: World, places: Places) -> None:
    """One that says thanks and keeps nothing: the answer can still be collected, until its retention ends."""
    places.register(RESEARCHER, take)
    order = answered(world)
    async with carrying(world, places):
        await until(lambda: world.events(Delivered) == [delivery_of(order)])
        world.clock.advance(world.policy.answer_retention_ms - 1)
        assert world.open(order, world.sealed(order)).scale == 30
        world.clock.advance(1)
        await until(lambda: world.census.released.waiting_answer(query_of(order)) is None)
    # Delivered as far as anybody can know: no second delivery, and no expiry.
    assert (world.events(Delivered), world.events(Expired)) == ([delivery_of(order)], [])
    world.verify_log()


async def test_census_node_that_dies_before_it_logs_a_delivery_delivers_again(world: World, places: Places) -> None:
    """Acknowledged and not logged: after the start it comes again, the inbox keeps it once, and it is logged once."""
    answers, order = world.open_answers(), world.order()
    query = world.remember(answers, order)
    received: list[int | None] = []

    async def inbox(request: inbox_service_pb2.DeliverRequest) -> inbox_service_pb2.DeliverResponse:
        received.append(answers.receive(request.answer).noisy_count)
        return inbox_service_pb2.DeliverResponse()

    async def inbox_then_power_cut(request: inbox_service_pb2.DeliverRequest) -> inbox_service_pb2.DeliverResponse:
        await inbox(request)
        return await hang(request)

    places.register(RESEARCHER, inbox_then_power_cut)
    world.answer(order)
    async with carrying(world, places):
        await until(lambda: received)
    kept = answers.get(query)
    world.crash_census()
    assert world.events(Delivered) == []
    places.register(RESEARCHER, inbox)
    async with carrying(world, places):
        await until(lambda: world.events(Delivered) == [delivery_of(order)])
    assert received == [kept.noisy_count] * 2
    assert answers.all() == [kept]
    world.verify_log()


async def test_courier_ends_when_our_own_store_fails(
    world: World, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our own disk can do what no inbox can: the node must stop, and hears of it."""

    def disk_full(ticket_hash: str, by: str) -> None:
        del ticket_hash, by
        raise InternalError("STORE_FAILED")

    places.register(RESEARCHER, take)
    answered(world)
    monkeypatch.setattr(world.census.released, "delivered", disk_full)
    with pytest.raises(InternalError, match="STORE_FAILED"):
        async with asyncio.timeout(PATIENCE_SECONDS):
            await Courier(world.census, places.inboxes, lambda: OWN, LimitConfig()).run()


# --- what nobody fetches ---------------------------------------------------------------------------------------------


async def test_running_node_removes_what_nobody_fetched_and_says_so(world: World, places: Places) -> None:
    """Nothing needs to be asked or released for it; to the millisecond the retention after the release."""
    first = answered(world)
    world.clock.advance(1000)
    second = answered(world)
    async with carrying(world, places):
        world.clock.advance(world.policy.answer_retention_ms - 1001)
        await linger()
        assert world.events(Expired) == []
        world.clock.advance(1)
        await until(lambda: world.events(Expired) == [Expired(ticket=first.hash.hex())])
        assert world.open(second, world.sealed(second)).scale == 30
    with pytest.raises(InvalidRequestError, match="ANSWER_EXPIRED"):
        world.sealed(first)
    world.verify_log()


async def test_expired_answer_is_removed_at_the_next_start(world: World, places: Places) -> None:
    """A node that was down when a retention ended has not forgotten that it ended."""
    order = answered(world)
    world.clock.advance(world.policy.answer_retention_ms)
    world.crash_census()
    async with carrying(world, places):
        await until(lambda: world.events(Expired) == [Expired(ticket=order.hash.hex())])
    world.verify_log()


def test_clock_that_is_set_back_expires_nothing_early_and_stops_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set back between the look and the entry, the log still has the instant at which the answer was due."""
    order = answered(world)
    world.clock.advance(world.policy.answer_retention_ms)
    real = world.census.journal.now

    def then_set_back() -> int:
        now_ms = real()
        world.clock.advance(-world.policy.answer_retention_ms)
        return now_ms

    monkeypatch.setattr(world.census.journal, "now", then_set_back)
    world.census.forget_expired()
    assert world.events(Expired) == [Expired(ticket=order.hash.hex())]
    world.verify_log()


def test_entry_and_removal_of_an_expired_answer_stand_together(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the removal fails there is no entry either, and the answer is still there."""
    order = answered(world)
    world.clock.advance(world.policy.answer_retention_ms)
    with monkeypatch.context() as patch, world.unchanged():

        def cut(*_: object) -> None:
            raise KeyError

        patch.setattr("census_node.release.outbox.Outbox.forget_expired", cut)
        with pytest.raises(KeyError):
            world.census.forget_expired()
        assert world.open(order, world.sealed(order)).scale == 30
    world.census.forget_expired()
    assert world.events(Expired) == [Expired(ticket=order.hash.hex())]


def test_node_that_threw_an_answer_away_early_is_found_out(world: World) -> None:
    """Replay refuses a log in which an answer expired before the time that the policy at its release promised."""
    order = answered(world)
    log = world.entries()
    due_ms = log[-1].time_ms + world.policy.answer_retention_ms
    assert isinstance(log[-1].event, Released)

    def replayed(time_ms: int) -> CensusState:
        expiry = Expired(ticket=order.hash.hex())
        entry = Entry(sequence=len(log), time_ms=time_ms, policy=world.policy.hash.hex(), event=expiry)
        return replay([*log, entry], world.census_state())

    with pytest.raises(ReplayError) as caught:
        replayed(due_ms - 1)
    assert caught.value.code == "EXPIRED_EARLY"
    assert replayed(due_ms).tickets[order.hash.hex()].expired


def test_delivery_that_comes_too_late_for_an_answer_is_not_logged(world: World) -> None:
    """Removed while it was on its way: the log does not say both."""
    order = answered(world)
    world.clock.advance(world.policy.answer_retention_ms)
    world.census.forget_expired()
    with pytest.raises(InvalidRequestError, match="ANSWER_EXPIRED"):
        world.census.released.delivered(order.hash.hex(), "collect")
    assert world.events(Delivered) == []
    world.verify_log()


async def test_only_its_owner_is_told_that_an_answer_has_expired(world: World) -> None:
    """For anybody else, and for what is not out, Collect says what it says of a query that nobody asked."""
    service = CensusService(world.census, LimitConfig(), StopSignal(), people=world.places)
    expired, pending = answered(world), world.order()
    world.charge(pending)
    world.clock.advance(world.policy.answer_retention_ms)
    world.census.forget_expired()

    async def collect(query: bytes, researcher: str) -> bytes | str:
        set_caller(Identity("university", "researcher", researcher))
        try:
            request = census_service_pb2.CollectRequest(query_id=query)
            return (await service.Collect(request, NO_CONTEXT)).SerializeToString()
        except BrokerError as error:
            return error.code

    assert await collect(expired.body.query_id, RESEARCHER) == "ANSWER_EXPIRED"
    for query, researcher in (
        (expired.body.query_id, OTHER_RESEARCHER),
        (pending.body.query_id, RESEARCHER),
        (pending.body.query_id, OTHER_RESEARCHER),
        (bytes(16), RESEARCHER),
        (b"", RESEARCHER),
    ):
        assert await collect(query, researcher) == b""
