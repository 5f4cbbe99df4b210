"""Whole queries over real sockets: what a researcher gets, what errors survive the wire, and what a bad peer cannot do."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fakes.patience import PATIENCE_SECONDS, until
from fakes.world import CENSUS, FRENCH, HEALTH, OTHER, OTHER_RESEARCHER, OWNER, RESEARCHER, Order, World, make_policy
from grpc import StatusCode, aio
from grpc.aio import AioRpcError, ServicerContext
from integration.loopback import Loopback, hand_over, serving
from msgspec import structs
from structlog.testing import capture_logs
from tripartite.v1 import (
    census_service_pb2,
    census_service_pb2_grpc,
    health_service_pb2,
    health_service_pb2_grpc,
    inbox_service_pb2,
    inbox_service_pb2_grpc,
    ticket_pb2,
)

from broker_common.crypto.certificates import Identity
from broker_common.errors import (
    REASONS,
    BrokerError,
    ExitCode,
    InternalError,
    InvalidRequestError,
    PeerUnavailableError,
    RefusedError,
)
from broker_common.privacy.delays import DECLARED_STEP
from broker_common.privacy.policy import Policy
from broker_common.rpc.channel import Peer
from broker_common.rpc.status import broker_error, calling, trailing_metadata
from broker_common.tlog.entries import Delivered
from census_node.release.delivery import Courier
from census_node.service import CensusService
from health_node import flow as health_flow
from health_node.config import LimitConfig as HealthLimits
from researcher_node.asking.proposal import Precision, Wanted
from researcher_node.asking.session import Session


def session(nodes: Loopback) -> Session:
    """The first researcher's session with both nodes."""
    return nodes.session()


def wanted(where: str = "age >= 0", count: str = FRENCH, scale: int = 30) -> Wanted:
    """A researcher's input."""
    return Wanted(
        where=where,
        count=count,
        precision=Precision(scale=scale),
        fraction_millionths=1_000_000,
        project="official-languages",
    )


def courier(nodes: Loopback, inboxes: Mapping[str, Peer]) -> Courier:
    """The census node's courier to these inboxes, wherever they are when it looks."""
    return Courier(nodes.world.census, lambda: inboxes, lambda: nodes.tls[CENSUS], nodes.census_limits)


async def refusal(nodes: Loopback, identity: Identity, people: int) -> str:
    """Hand over a sample of so many on a slot that nobody reserved; gives the code that arrives."""
    world = nodes.world
    sample = world.sample(world.order(slot=4711), world.people[:people])
    async with nodes.channel(identity, "census") as channel:
        try:
            await hand_over(channel, world.messages(sample))
        except BrokerError as error:
            return error.code
    return "OK"


@dataclass(frozen=True)
class Heard:
    """All that a researcher hears of one submission."""

    stages: tuple[int, ...]
    code: str = "OK"
    details: tuple[tuple[str, str], ...] = ()


async def submit(nodes: Loopback, order: Order) -> Heard:
    """Submit an order as the first researcher, and listen to the end."""
    stages: list[int] = []
    async with nodes.channel(OWNER, "health") as channel:
        stub: health_service_pb2_grpc.HealthServiceAsyncStub = health_service_pb2_grpc.HealthServiceStub(channel)
        try:
            async for response in stub.Submit(order.submission, timeout=PATIENCE_SECONDS):
                stages.append(response.stage)  # noqa: PERF401 - those before an error count too
        except AioRpcError as error:
            heard = broker_error(error, "health")
            return Heard(tuple(stages), heard.code, tuple(sorted(heard.details.items())))
    return Heard(tuple(stages))


@contextlib.contextmanager
def made(
    directory: Path, policy: Policy | None = None, *, people: int = 400, places: int | None = None
) -> Iterator[World]:
    """A world of so many people."""
    world = World(directory, policy or make_policy(), people=people, places=places)
    try:
        yield world
    finally:
        world.close()


# --- honest ----------------------------------------------------------------------------------------------------------


async def test_question_is_asked_charged_answered_and_opened(loopback: Loopback) -> None:
    """From a researcher's text to a verified number, through three nodes and mutual TLS."""
    stages: list[health_service_pb2.Stage.ValueType] = []
    async with session(loopback) as asking:
        asked = await asking.prepare(wanted())
        answered = await asking.ask(asked, wait_seconds=PATIENCE_SECONDS, on_stage=stages.append)
    assert answered.state == "answered"
    assert stages == [1, 2, 3, 4]
    (charge,) = loopback.world.charges()
    assert charge.query == asked.query
    assert answered.noisy_count is not None
    # 75 of 300 linked people; at scale 30 the noise passes 1000 with a probability below 10^-14.
    assert abs(answered.noisy_count - 75) < 1000
    # The answer may be here before the health node has heard that it is out.
    await until(lambda: loopback.world.verify_health_log().tickets[charge.ticket].settled)


async def test_same_question_submitted_again_is_the_same_answer(loopback: Loopback) -> None:
    """A researcher who asks again with the same ticket gets what was charged, once."""
    async with session(loopback) as asking:
        asked = await asking.prepare(wanted())
        first, again = [
            await asking.ask(asked, wait_seconds=PATIENCE_SECONDS, on_stage=lambda _: None) for _ in range(2)
        ]
    assert first == again
    assert len(loopback.world.charges()) == 1


@pytest.mark.parametrize(
    ("question", "code"),
    [
        (wanted(count="langue = 'Français'"), "UNKNOWN_VARIABLE"),
        (wanted(count="mother_tongue = 'Français 🍁'"), "UNKNOWN_VALUE"),
        (wanted(where="procedure = 'angioplastie à ballonnet'"), "UNKNOWN_CODE"),
        (wanted(scale=51), "SCALE_REFUSED"),
    ],
)
async def test_refused_question_charges_nothing(loopback: Loopback, question: Wanted, code: str) -> None:
    """An impossible question is refused with its own code, before anything is signed, sampled or charged."""
    async with session(loopback) as asking:
        with loopback.world.unchanged(), pytest.raises(BrokerError) as caught:
            await asking.prepare(question)
    assert caught.value.code == code
    assert not loopback.world.verify_health_log().tickets


async def test_details_in_any_letters_survive_the_wire(loopback: Loopback) -> None:
    """A refusal names what was asked, in the asker's letters, and rebuilds the same sentence on their machine."""
    question = ticket_pb2.Question(
        variable="mother_tongue", cells=[ticket_pb2.Cell(values=["Français 🍁\n\x1b[2J%41"])]
    )
    async with loopback.channel(OWNER, "census") as channel:
        stub: census_service_pb2_grpc.CensusServiceAsyncStub = census_service_pb2_grpc.CensusServiceStub(channel)
        with pytest.raises(InvalidRequestError) as caught:
            await calling("census", stub.Quote(census_service_pb2.QuoteRequest(question=question, scale=30)))
    assert caught.value.code == "UNKNOWN_VALUE"
    assert "'Français 🍁??[2J%41'" in caught.value.text, "with nothing in it that a terminal would obey"


async def test_researchers_identity_comes_from_their_certificate(loopback: Loopback) -> None:
    """Another registered researcher neither collects the answer nor submits the ticket of the first."""
    world = loopback.world
    order = world.order()
    world.answer(order)
    async with loopback.channel(OTHER, "census") as channel:
        census: census_service_pb2_grpc.CensusServiceAsyncStub = census_service_pb2_grpc.CensusServiceStub(channel)
        request = census_service_pb2.CollectRequest(query_id=order.body.query_id)
        nothing = await calling("census", census.Collect(request))
        unheard = census_service_pb2.CollectRequest(query_id=os.urandom(16))
        assert nothing == await calling("census", census.Collect(unheard)) == census_service_pb2.CollectResponse()
    async with loopback.channel(OTHER, "health") as channel:
        health: health_service_pb2_grpc.HealthServiceAsyncStub = health_service_pb2_grpc.HealthServiceStub(channel)
        with pytest.raises(AioRpcError) as caught:
            async for _ in health.Submit(world.order().submission):
                pass
    assert broker_error(caught.value, "health").code == "UNKNOWN_RESEARCHER"
    assert not world.verify_health_log().tickets


# --- samples of one size ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("places", [DECLARED_STEP, 4 * DECLARED_STEP])
async def test_refusal_is_heard_whoever_is_in_a_sample_and_however_many_parts_it_has(
    tmp_path: Path, places: int
) -> None:
    """A refusal reaches the sender of many parts as surely as that of a single one, nobody's sample as everybody's."""
    with made(tmp_path, places=places) as world:
        async with Loopback(world) as nodes:
            with world.unchanged():
                assert {await refusal(nodes, HEALTH, people) for people in (0, 1, 400) * 3} == {"SLOT_UNUSABLE"}


async def test_what_a_query_sends_has_one_size_whoever_is_in_its_sample(tmp_path: Path) -> None:
    """On the wire nobody, one in a hundred and everybody are as many messages of the same lengths, in both directions."""
    with made(tmp_path, places=2 * DECLARED_STEP) as world:
        nodes = Loopback(world)
        nodes.census_type = MeasuredCensus
        async with nodes:
            for where in ("age > 200", "age = 7", "age >= 0"):
                assert await submit(nodes, world.order(where=where)) == Heard((1, 2, 3, 4))
            assert isinstance(nodes.census, MeasuredCensus)
            nobody, few, everybody = nodes.census.measured
            assert nobody == few == everybody
            assert [kind for kind, _ in nobody] == ["bits", "bits"]


async def test_refused_ticket_says_the_same_of_nobody_and_of_everybody(tmp_path: Path) -> None:
    """A ticket that is refused costs nothing; what its sender hears does not depend on who would match."""
    with made(tmp_path, people=2_000) as world:
        async with Loopback(world) as nodes:
            heard: dict[str, list[Heard]] = {where: [] for where in ("age > 200", "age = 7", "age >= 0")}
            with world.unchanged():
                for _ in range(5):
                    for where, said in heard.items():
                        order = world.order(slot=4711, where=where)
                        said += [await submit(nodes, order), await submit(nodes, order)]
            assert heard["age > 200"] == heard["age = 7"] == heard["age >= 0"]
            first, again = set(heard["age >= 0"][::2]), set(heard["age >= 0"][1::2])
            assert first == {Heard((1, 2), "SLOT_UNUSABLE")}
            assert {(said.stages, said.code) for said in again} == {((), "SLOT_UNUSABLE")}
            # The same people in an honest question: nobody, one in a hundred, everybody.
            for where in heard:
                assert await submit(nodes, world.order(where=where)) == Heard((1, 2, 3, 4))
        world.verify_log()


async def test_policy_that_is_too_narrow_is_said_of_the_load_and_not_of_a_sample(tmp_path: Path) -> None:
    """Were samples refused by size, the refusal would tell the size: all are refused, before anything is looked for."""
    with made(tmp_path, make_policy(tick_ms=250, delay_ms=36), people=200, places=2 * DECLARED_STEP) as world:
        async with Loopback(world) as nodes:
            orders = [world.order(where=where) for where in ("age > 200", "age >= 0")]
            with world.unchanged():
                heard = {await submit(nodes, order) for order in orders}
            said = {"problem": "forward_delay_ms is 36", "remedy": "--forward-delay-ms 37"}
            assert heard == {Heard((), "POLICY_TOO_NARROW", tuple(said.items()))}
            assert not world.verify_health_log().tickets
            world.policy = make_policy(tick_ms=250, delay_ms=37)
            world.adopt(world.policy)
            assert await submit(nodes, world.order()) == Heard((1, 2, 3, 4))


async def test_refused_samples_hinder_no_good_one(loopback: Loopback) -> None:
    """Whole samples whose slot nobody reserved charge nothing; on the same connection a good one passes."""
    world = loopback.world
    async with loopback.channel(HEALTH, "census") as channel:
        stub: census_service_pb2_grpc.CensusServiceAsyncStub = census_service_pb2_grpc.CensusServiceStub(channel)
        with world.unchanged():
            for _ in range(5):
                with pytest.raises(AioRpcError):
                    async for _ in stub.Count(iter(world.messages(world.sample(world.order(slot=4711))))):
                        pass
        call = stub.Count(iter(world.messages(world.sample(world.order()))))
        assert [response.WhichOneof("event") async for response in call] == ["charged", "released"]


class MeasuredCensus(CensusService):
    """A census node that notes what every sample takes on the wire behind its head, whose ticket has the asker's words."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.measured: list[list[tuple[str | None, int]]] = []
        self.begun = asyncio.Event()

    async def Count(  # noqa: N802 - the name that the proto gives it
        self, requests: AsyncIterator[census_service_pb2.CountRequest], context: ServicerContext[object, object]
    ) -> AsyncIterator[census_service_pb2.CountResponse]:
        """Note and behave."""
        sizes: list[tuple[str | None, int]] = []
        self.measured.append(sizes)

        async def noted() -> AsyncIterator[census_service_pb2.CountRequest]:
            async for request in requests:
                self.begun.set()
                if request.WhichOneof("part") != "head":
                    sizes.append((request.WhichOneof("part"), request.ByteSize()))
                yield request

        async for response in super().Count(noted(), context):
            yield response


class FlakyCensus(CensusService):
    """A census node that goes away in the middle of the first samples, every time in another way."""

    broken = 0
    failures = 30

    async def Count(  # noqa: N802 - the name that the proto gives it
        self, requests: AsyncIterator[census_service_pb2.CountRequest], context: ServicerContext[object, object]
    ) -> AsyncIterator[census_service_pb2.CountResponse]:
        """Break off after the first part, or behave."""
        if self.broken < self.failures:
            self.broken += 1
            await anext(requests)
            await anext(requests)
            if self.broken % 2:
                await context.abort(StatusCode.UNAVAILABLE, "going away")
            raise RefusedError("BUSY", retry_seconds=1)
        async for response in super().Count(requests, context):
            yield response


@pytest.mark.parametrize("places", [DECLARED_STEP, 8 * DECLARED_STEP])
async def test_census_node_that_goes_away_in_the_middle_of_a_sample_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, places: int
) -> None:
    """However many parts were still to be said: gRPC puts an error of its own into the place of a peer's word then."""
    monkeypatch.setattr(health_flow, "_FIRST_BACKOFF_SECONDS", 0.0)
    with made(tmp_path, places=places) as world:
        nodes = Loopback(world)
        nodes.census_type = FlakyCensus
        async with nodes:
            assert await submit(nodes, world.order()) == Heard((1, 2, 3, 4))
            assert isinstance(nodes.census, FlakyCensus)
            assert nodes.census.broken == FlakyCensus.failures
        assert len(world.charges()) == 1
        world.verify_log()


async def test_full_node_is_asked_again_with_a_sample_of_many_parts(tmp_path: Path) -> None:
    """BUSY is said before a sample is looked at, while most of it is still to be written: its sender tries again and is served."""
    with made(tmp_path, places=4 * DECLARED_STEP) as world:
        nodes = Loopback(world)
        nodes.census_type = MeasuredCensus
        nodes.census_limits = structs.replace(nodes.census_limits, max_queries=1)
        go_on = asyncio.Event()
        head, *rest = world.messages(world.sample(world.order()))

        async def holding() -> AsyncIterator[census_service_pb2.CountRequest]:
            yield head
            await go_on.wait()
            for message in rest:
                yield message

        async def listening(channel: aio.Channel) -> list[str | None]:
            stub: census_service_pb2_grpc.CensusServiceAsyncStub = census_service_pb2_grpc.CensusServiceStub(channel)
            return [response.WhichOneof("event") async for response in stub.Count(holding())]

        async with nodes, nodes.channel(HEALTH, "census") as channel:
            census = nodes.census
            assert isinstance(census, MeasuredCensus)
            call = asyncio.create_task(listening(channel))
            await asyncio.wait_for(census.begun.wait(), PATIENCE_SECONDS)
            asked = asyncio.create_task(submit(nodes, world.order()))
            await until(lambda: len(census.measured) > 3)
            # None of it was read.
            assert not any(census.measured)
            assert len(world.charges()) == 0
            go_on.set()
            assert await call == ["charged", "released"]
            assert await asked == Heard((1, 2, 3, 4))


# --- nodes whose own store fails, and peers that say that theirs does ------------------------------------------------


async def test_health_store_that_fails_while_sending_is_not_hidden(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error in the middle of a stream reaches the researcher as the health node's and stops it; it is not swallowed."""

    def disk_full(*_: object, **__: object) -> None:
        raise InternalError("STORE_FAILED")

    monkeypatch.setattr(loopback.health, "log_forwarded", disk_full)
    order = loopback.world.order()
    with loopback.world.unchanged():
        heard = await submit(loopback, order)
    assert heard == Heard((1,), "PEER_FAILED", (("peer", "health"), ("reason", "STORE_FAILED")))
    await asyncio.wait_for(loopback.stops["health"].wait(), PATIENCE_SECONDS)
    error = loopback.stops["health"].error
    assert error is not None
    assert error.code == "STORE_FAILED"
    assert loopback.stops["census"].error is None


def failing(code: str) -> Callable[..., None]:
    """A call that fails with this code, naming a secret of its node's where the code names a problem."""

    def fail(*_: object, **__: object) -> None:
        details = {"problem": "secret-7391"} if code == "INTEGRITY" else {}
        raise REASONS[code].family(code, **details)

    return fail


# Errors that stop a node, and a stranger's view of them.
STOPPING = {"INTEGRITY": "INTERNAL", "STORE_FAILED": "STORE_FAILED", "STATE_UNKNOWN": "STATE_UNKNOWN"}


@pytest.mark.parametrize("code", STOPPING)
async def test_census_node_whose_store_fails_stops_alone(
    world: World, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """The health node goes on and calls it the census node's fault, whose exit code is a peer's; nothing was charged."""
    nodes = Loopback(world)
    nodes.health_limits = HealthLimits(forward_deadline_ms=0)
    monkeypatch.setattr(world.census.charging, "charge", failing(code))
    order = world.order()
    async with nodes:
        with world.unchanged():
            heard = await submit(nodes, order)
        assert heard == Heard((1, 2), "PEER_FAILED", (("peer", "census"), ("reason", STOPPING[code])))
        assert REASONS[heard.code].family.exit_code == ExitCode.PEER_UNAVAILABLE
        await asyncio.wait_for(nodes.stops["census"].wait(), PATIENCE_SECONDS)
        error = nodes.stops["census"].error
        assert error is not None
        assert error.code == code
        # The health node serves on, and did not take the fault for a refusal of the ticket.
        assert nodes.stops["health"].error is None
        assert nodes.stops["researcher"].error is None
        (ticket,) = world.verify_health_log().open_tickets
        assert not world.verify_health_log().tickets[ticket].refused


@pytest.mark.parametrize("code", STOPPING)
async def test_what_is_wrong_with_a_store_is_not_told_to_strangers(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """A caller hears that the node failed; what does not match is for its operator, in the error that stops it."""
    monkeypatch.setattr(loopback.world.census.quotes, "quote", failing(code))
    async with loopback.channel(OWNER, "census") as channel:
        stub: census_service_pb2_grpc.CensusServiceAsyncStub = census_service_pb2_grpc.CensusServiceStub(channel)
        with pytest.raises(AioRpcError) as caught:
            await stub.Quote(census_service_pb2.QuoteRequest(scale=30), timeout=PATIENCE_SECONDS)
    said = (caught.value.details(), *caught.value.trailing_metadata())
    assert "secret-7391" not in repr(said)
    assert "INTEGRITY" not in repr(said)
    assert caught.value.code() is StatusCode.INTERNAL
    heard = broker_error(caught.value, "census")
    assert (type(heard), heard.code, heard.details["reason"]) == (PeerUnavailableError, "PEER_FAILED", STOPPING[code])
    error = loopback.stops["census"].error
    assert error is not None
    assert error.code == code
    assert ("secret-7391" in error.text) == (code == "INTEGRITY")


async def test_missing_key_is_named_to_the_operator_alone(loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller hears that the node failed; the node's log says, as an error, which key is not where."""

    def missing(*_: object) -> None:
        raise InvalidRequestError("SECRET_MISSING", reference="file:keys/secret-7391", problem="No such file")

    monkeypatch.setattr(loopback.world.census.quotes, "quote", missing)
    with capture_logs() as logs:
        async with loopback.channel(OWNER, "census") as channel:
            stub: census_service_pb2_grpc.CensusServiceAsyncStub = census_service_pb2_grpc.CensusServiceStub(channel)
            with pytest.raises(AioRpcError) as caught:
                await stub.Quote(census_service_pb2.QuoteRequest(scale=30), timeout=PATIENCE_SECONDS)
    assert "secret-7391" not in repr((caught.value.details(), *caught.value.trailing_metadata()))
    (line,) = logs
    assert (line["log_level"], line["code"]) == ("error", "SECRET_MISSING")
    assert "file:keys/secret-7391" in line["text"]
    assert "Put the key back" in line["remedy"]


class HostileInbox(inbox_service_pb2_grpc.InboxServiceServicer):
    """A researcher's inbox that answers every delivery with an error of its choice."""

    def __init__(self, code: str) -> None:
        self._code = code
        self.deliveries = 0
        self.visited = asyncio.Event()

    async def Deliver(  # noqa: N802 - the name that the proto gives it
        self,
        request: inbox_service_pb2.DeliverRequest,
        context: ServicerContext[inbox_service_pb2.DeliverRequest, inbox_service_pb2.DeliverResponse],
    ) -> inbox_service_pb2.DeliverResponse:
        """Refuse."""
        del request
        self.deliveries += 1
        self.visited.set()
        if self._code == "GARBAGE":
            await context.abort(StatusCode.INTERNAL, "", (("grpc-status-details-bin", b"\xff\xff"),))
        # Raised by hand: an honest node would not say INTEGRITY to anybody.
        error = REASONS[self._code].family(self._code, problem="of the researcher's own making")
        await context.abort(*trailing_metadata(error))
        raise AssertionError("abort raises")


@pytest.mark.parametrize(
    "code",
    ["STATE_UNKNOWN", "STORE_FAILED", "INTEGRITY", "INTERNAL", "SAMPLE_LOST", "BUSY", "SERVICE_SHUT_DOWN", "GARBAGE"],
)
async def test_inbox_that_claims_a_broken_store_does_not_stop_the_census_node(loopback: Loopback, code: str) -> None:
    """A researcher cannot stop the service by the errors of their own inbox; their answer goes on waiting."""
    world, order, inbox = loopback.world, loopback.world.order(), HostileInbox(code)
    world.answer(order)
    own = loopback.tls[OTHER]
    async with serving(
        "researcher",
        own,
        loopback.registered,
        lambda server: inbox_service_pb2_grpc.add_InboxServiceServicer_to_server(inbox, server),
    ) as peer:
        carrying = courier(loopback, {RESEARCHER: peer})
        running = asyncio.create_task(carrying.run())
        await asyncio.wait_for(inbox.visited.wait(), PATIENCE_SECONDS)
        # The visit is over when the courier has noted when to come again.
        await until(lambda: bool(carrying._pauses) or running.done())
        assert not running.done()
        running.cancel()
        await asyncio.wait({running})
    assert world.census.released.undelivered([RESEARCHER]) == {RESEARCHER: [order.body.query_id.hex()]}


async def test_answer_is_pushed_to_the_inbox_and_logged_once(loopback: Loopback) -> None:
    """The courier delivers what is released to the registered inbox, which verifies before it says thanks."""
    world, order = loopback.world, loopback.world.order()
    query = world.remember(loopback.answers, order)
    carrying = courier(loopback, {RESEARCHER: loopback.peers["researcher"]})
    running = asyncio.create_task(carrying.run())
    await asyncio.to_thread(world.answer, order)
    await until(lambda: not world.census.released.undelivered([RESEARCHER]))
    running.cancel()
    await asyncio.wait({running})
    assert loopback.answers.get(query).state == "answered"
    assert world.events(Delivered) == [Delivered(ticket=order.hash.hex(), by="inbox")]


class HangingInbox(inbox_service_pb2_grpc.InboxServiceServicer):
    """A researcher's inbox that takes every delivery and never says anything."""

    def __init__(self) -> None:
        self.visited = asyncio.Event()

    async def Deliver(  # noqa: N802 - the name that the proto gives it
        self, request: inbox_service_pb2.DeliverRequest, context: ServicerContext[object, object]
    ) -> inbox_service_pb2.DeliverResponse:
        """Say nothing."""
        del request, context
        self.visited.set()
        await asyncio.Event().wait()
        raise AssertionError("nothing wakes it")


async def test_inbox_that_hangs_keeps_only_its_own_answers_waiting(loopback: Loopback) -> None:
    """An answer that comes out while one researcher's inbox hangs reaches another researcher at once."""
    world, inbox = loopback.world, HangingInbox()
    stuck = world.order(OTHER_RESEARCHER)
    world.answer(stuck)
    async with serving(
        "researcher",
        loopback.tls[OTHER],
        loopback.registered,
        lambda server: inbox_service_pb2_grpc.add_InboxServiceServicer_to_server(inbox, server),
    ) as hanging:
        inboxes = {OTHER_RESEARCHER: hanging, RESEARCHER: loopback.peers["researcher"]}
        carrying = courier(loopback, inboxes)
        running = asyncio.create_task(carrying.run())
        await asyncio.wait_for(inbox.visited.wait(), PATIENCE_SECONDS)
        order = world.order()
        query = world.remember(loopback.answers, order)
        await asyncio.to_thread(world.answer, order)
        await until(lambda: loopback.answers.get(query).state == "answered")
        assert world.census.released.undelivered([OTHER_RESEARCHER]) == {OTHER_RESEARCHER: [stuck.body.query_id.hex()]}
        running.cancel()
        await asyncio.wait({running})


async def test_answer_is_not_given_to_an_impostors_inbox(loopback: Loopback) -> None:
    """A listener at the inbox's address without the registered certificate's key gets nothing."""
    world, order, inbox = loopback.world, loopback.world.order(), HostileInbox("INTERNAL")
    world.answer(order)
    async with serving(
        "researcher",
        loopback.tls[OTHER],
        loopback.registered,
        lambda server: inbox_service_pb2_grpc.add_InboxServiceServicer_to_server(inbox, server),
    ) as impostor:
        registered = Peer("researcher", impostor.address, loopback.peers["researcher"].certificates)
        carrying = courier(loopback, {RESEARCHER: registered})
        running = asyncio.create_task(carrying.run())
        await until(lambda: bool(carrying._pauses))
        running.cancel()
        await asyncio.wait({running})
    assert inbox.deliveries == 0
    assert world.census.released.undelivered([RESEARCHER]) == {RESEARCHER: [order.body.query_id.hex()]}
