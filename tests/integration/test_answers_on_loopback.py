"""Two ways for an answer over real sockets: the inbox and Collect, whichever is first, whatever becomes of the other one."""

from __future__ import annotations

import asyncio
import contextlib
import random  # noqa: TID251 - no secret
from collections.abc import AsyncIterator
from typing import Any, NoReturn

import pytest
from fakes.patience import NEVER_SECONDS, PATIENCE_SECONDS, linger, until
from fakes.virtual_time import VirtualLoop
from fakes.world import CENSUS, HEALTH, OTHER, OTHER_RESEARCHER, OWNER, RESEARCHER, Order, World
from grpc import aio
from grpc.aio import AioRpcError
from integration.loopback import Loopback, add_cards, serving
from tripartite.v1 import (
    answer_pb2,
    health_service_pb2,
    health_service_pb2_grpc,
    inbox_service_pb2,
    inbox_service_pb2_grpc,
)

from broker_common.errors import InvalidRequestError, PeerUnavailableError, RefusedError
from broker_common.rpc.channel import Peer
from broker_common.rpc.status import broker_error
from broker_common.tlog.entries import Delivered, Expired
from census_node.query.quoting import QuoteRate
from census_node.release import delivery
from census_node.release.delivery import Courier
from health_node.service import HealthService
from researcher_node.answers.store import Answers
from researcher_node.asking import contact
from researcher_node.asking import session as asking_module
from researcher_node.asking.proposal import Precision, Wanted
from researcher_node.asking.session import Session
from researcher_node.assembly import InboxService

WANTED = Wanted("age >= 0", "all", Precision(scale=30), 1_000_000, "official-languages")


def session(
    nodes: Loopback, *, answers: Answers | None = None, census: Peer | None = None, health: Peer | None = None
) -> Session:
    """The first researcher's session, with the world's nodes or what stands in for them."""
    return nodes.session(answers=answers, census=census, health=health)


@contextlib.asynccontextmanager
async def frozen(peer: Peer) -> AsyncIterator[Peer]:
    """Something that takes connections in the place of a peer, and never says a word."""
    held: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: held.append(writer), "127.0.0.1", 0)
    try:
        port = server.sockets[0].getsockname()[1]
        yield Peer(peer.role, f"127.0.0.1:{port}", peer.certificates)
    finally:
        server.close()
        for writer in held:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


def away(peer: Peer) -> Peer:
    """The peer where nobody listens."""
    return Peer(peer.role, "127.0.0.1:1", peer.certificates)


@contextlib.asynccontextmanager
async def inbox(nodes: Loopback, answers: Answers) -> AsyncIterator[Peer]:
    """An inbox of the first researcher, on a port of its own."""
    own = InboxService(answers)
    async with serving(
        "researcher",
        nodes.tls[OWNER],
        nodes.registered,
        lambda server: inbox_service_pb2_grpc.add_InboxServiceServicer_to_server(own, server),
    ) as peer:
        yield peer


@contextlib.asynccontextmanager
async def carrying(nodes: Loopback, inboxes: dict[str, Peer]) -> AsyncIterator[None]:
    """The census node's courier, at work on inboxes that may change."""
    courier = Courier(nodes.world.census, lambda: inboxes, lambda: nodes.tls[CENSUS], nodes.census_limits)
    running = asyncio.create_task(courier.run())
    try:
        yield
        assert not running.done()
    finally:
        running.cancel()
        await asyncio.wait({running})


async def submitted(nodes: Loopback) -> tuple[Order, str]:
    """A question whose answer is out; its order and id."""
    order = nodes.world.order()
    query = nodes.world.remember(nodes.answers, order)
    await asyncio.to_thread(nodes.world.answer, order)
    return order, query


async def arrive_later(nodes: Loopback, order: Order) -> None:
    """The inbox receives the answer, in another process, after a while."""
    await linger()
    other = nodes.world.open_answers()
    sealed = answer_pb2.SealedAnswer(query_id=order.body.query_id, sealed=nodes.world.sealed(order))
    await asyncio.to_thread(other.receive, sealed)


# --- whichever is first ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", ["frozen", "away"])
async def test_census_node_that_says_nothing_does_not_hide_what_is_in_the_inbox(
    loopback: Loopback, trouble: str
) -> None:
    """The answer that another process puts into our store is seen at once, not after the call that never returns."""
    order, query = await submitted(loopback)
    census = loopback.peers["census"]
    async with (
        frozen(census) if trouble == "frozen" else contextlib.nullcontext(away(census)) as silent,
        session(loopback, census=silent) as asking,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        arriving = asyncio.create_task(arrive_later(loopback, order))
        assert (await asking.collect(query, wait_seconds=NEVER_SECONDS)).state == "answered"
        await arriving


async def test_frozen_nodes_do_not_hide_from_ask_what_is_in_the_inbox(loopback: Loopback) -> None:
    """Submitted again while neither node says a word: the answer is there as soon as the inbox has it."""
    order, query = await submitted(loopback)
    async with (
        frozen(loopback.peers["census"]) as census,
        frozen(loopback.peers["health"]) as health,
        session(loopback, census=census, health=health) as asking,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        arriving = asyncio.create_task(arrive_later(loopback, order))
        asked = loopback.answers.get(query)
        assert (await asking.ask(asked, wait_seconds=NEVER_SECONDS, on_stage=lambda _: None)).state == "answered"
        await arriving


async def test_health_node_that_is_away_does_not_hide_an_answer_that_is_out(loopback: Loopback) -> None:
    """A resubmission gets the answer from the node that has it."""
    _, query = await submitted(loopback)
    async with session(loopback, health=away(loopback.peers["health"])) as asking:
        asked = loopback.answers.get(query)
        assert (await asking.ask(asked, wait_seconds=NEVER_SECONDS, on_stage=lambda _: None)).state == "answered"


class SilentAfterAccepting(HealthService):
    """A health node whose stream of stages says the first one and then nothing, though the question goes on."""

    async def Submit(  # noqa: N802 - the name that the proto gives it
        self, request: health_service_pb2.SubmitRequest, context: object
    ) -> AsyncIterator[health_service_pb2.SubmitResponse]:
        """As the real one, but for what is said."""
        async for response in super().Submit(request, context):  # type: ignore[arg-type]
            if response.stage == health_service_pb2.STAGE_ACCEPTED:
                yield response
        await asyncio.Event().wait()


async def test_answer_comes_although_the_health_node_falls_silent_after_it_took_the_question(
    loopback: Loopback,
) -> None:
    """Collect is tried from the start, not only when the health node has nothing more to say."""
    health = loopback.health_service(SilentAfterAccepting)
    stages: list[int] = []

    def add_services(server: aio.Server) -> None:
        health_service_pb2_grpc.add_HealthServiceServicer_to_server(health, server)
        add_cards(server, loopback.health.journal)

    async with (
        serving("health", loopback.tls[HEALTH], loopback.registered, add_services) as silent,
        session(loopback, health=silent) as asking,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        answered = await asking.ask(await asking.prepare(WANTED), wait_seconds=NEVER_SECONDS, on_stage=stages.append)
        await health.flow.drain()
    assert answered.state == "answered"
    # All four are true of an answer that is here, and each is said once.
    assert stages == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (InvalidRequestError("UNKNOWN_KEY", key="0" * 16, subject="manifest"), "pending"),
        (InvalidRequestError("CERTIFICATE_EXPIRED", subject="client"), "pending"),
        (InvalidRequestError("SLOT_UNUSABLE"), "refused"),
    ],
    ids=lambda each: getattr(each, "code", each),
)
async def test_only_a_verdict_on_a_question_is_kept_as_its_refusal(
    loopback: Loopback, error: InvalidRequestError, state: str
) -> None:
    """Whatever else goes wrong, here or between the agencies: the ticket may still be answered, and is listed so."""

    class Failing(HealthService):
        async def Submit(  # noqa: N802 - the name that the proto gives it
            self, request: health_service_pb2.SubmitRequest, context: object
        ) -> AsyncIterator[health_service_pb2.SubmitResponse]:
            del request, context
            raise error
            yield health_service_pb2.SubmitResponse()

    def add_services(server: aio.Server) -> None:
        service = loopback.health_service(Failing)
        health_service_pb2_grpc.add_HealthServiceServicer_to_server(service, server)
        add_cards(server, loopback.health.journal)

    async with (
        serving("health", loopback.tls[HEALTH], loopback.registered, add_services) as failing,
        session(loopback, health=failing) as asking,
    ):
        asked = await asking.prepare(WANTED)
        with pytest.raises(InvalidRequestError, match=error.code):
            await asking.ask(asked, wait_seconds=NEVER_SECONDS, on_stage=lambda _: None)
    assert loopback.answers.get(asked.query).state == state


async def test_busy_health_node_is_asked_again_within_the_wait(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BUSY is waited out, and said each time; without time for it, it is the end."""
    monkeypatch.setattr("researcher_node.asking.session._BUSY_SECONDS", (0.1, 0.1))

    class Busy(HealthService):
        refusals = 2

        async def Submit(  # noqa: N802 - the name that the proto gives it
            self, request: health_service_pb2.SubmitRequest, context: Any
        ) -> AsyncIterator[health_service_pb2.SubmitResponse]:
            if self.refusals:
                self.refusals -= 1
                raise RefusedError("BUSY", retry_seconds=1)
            async for response in super().Submit(request, context):
                yield response

    service = loopback.health_service(Busy)
    assert isinstance(service, Busy)

    def add_services(server: aio.Server) -> None:
        health_service_pb2_grpc.add_HealthServiceServicer_to_server(service, server)
        add_cards(server, loopback.health.journal)

    pauses: list[float] = []
    async with (
        serving("health", loopback.tls[HEALTH], loopback.registered, add_services) as busy,
        session(loopback, health=busy) as asking,
    ):
        asked = await asking.prepare(WANTED)
        with pytest.raises(RefusedError, match="BUSY"):
            await asking.ask(asked, wait_seconds=0, on_stage=lambda _: None, on_busy=pauses.append)
        assert pauses == []
        answered = await asking.ask(asked, wait_seconds=NEVER_SECONDS, on_stage=lambda _: None, on_busy=pauses.append)
    assert (answered.state, pauses) == ("answered", [0.1])


async def test_quotes_beyond_the_rate_are_asked_for_again_within_the_wait(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOO_MANY_QUOTES is waited out, and said each time; without time for it, it is the end, and no ticket is made."""
    monkeypatch.setattr("researcher_node.asking.session._BUSY_SECONDS", (0.1, 0.1))
    refusals, take = 2, QuoteRate.take

    def limited(rate: QuoteRate, researcher: str) -> None:
        nonlocal refusals
        if refusals:
            refusals -= 1
            raise RefusedError("TOO_MANY_QUOTES", retry_seconds=7)
        take(rate, researcher)

    monkeypatch.setattr(QuoteRate, "take", limited)
    pauses: list[float] = []
    async with session(loopback) as asking:
        with pytest.raises(RefusedError, match="TOO_MANY_QUOTES"):
            await asking.prepare(WANTED, on_busy=pauses.append)
        assert (pauses, loopback.answers.all()) == ([], [])
        asked = await asking.prepare(WANTED, wait_seconds=NEVER_SECONDS, on_busy=pauses.append)
    assert (asked.state, pauses) == ("pending", [0.1])


async def test_inbox_that_is_down_never_matters_to_who_waits(loopback: Loopback) -> None:
    """The answer comes by Collect while the courier knocks at a closed door; it is logged once, as collected."""
    async with carrying(loopback, {RESEARCHER: away(loopback.peers["researcher"])}), session(loopback) as asking:
        answered = await asking.ask(await asking.prepare(WANTED), wait_seconds=NEVER_SECONDS, on_stage=lambda _: None)
    assert answered.state == "answered"
    assert [event.by for event in loopback.world.events(Delivered)] == ["collect"]


async def test_without_an_inbox_the_answer_is_collected_as_soon_as_it_is_out(loopback: Loopback) -> None:
    """Behind a firewall: nobody can call the researcher, and the held call brings the answer at its release."""
    world, order = loopback.world, loopback.world.order()
    query = world.remember(loopback.answers, order)
    await asyncio.to_thread(world.charge, order)
    async with carrying(loopback, {}), session(loopback) as asking, asyncio.timeout(PATIENCE_SECONDS):
        collecting = asyncio.create_task(asking.collect(query, wait_seconds=NEVER_SECONDS))
        await linger()
        assert not collecting.done()
        await asyncio.to_thread(world.release, order)
        assert (await collecting).state == "answered"


async def test_two_that_wait_for_one_query_both_have_its_answer(loopback: Loopback) -> None:
    """Two processes of one researcher, each with its own store open: one answer, kept once, delivered once."""
    other = loopback.world.open_answers()
    async with session(loopback) as first, session(loopback, answers=other) as second:
        asked = await first.prepare(WANTED)
        answered = await asyncio.gather(
            *(asking.ask(asked, wait_seconds=NEVER_SECONDS, on_stage=lambda _: None) for asking in (first, second))
        )
    assert answered[0] == answered[1] == loopback.answers.get(asked.query)
    assert (len(loopback.world.charges()), len(loopback.world.events(Delivered))) == (1, 1)


async def test_no_time_to_wait_is_enough_for_what_is_there(loopback: Loopback) -> None:
    """`--wait 0` takes one look each way: pending, and answered when it is out or in the store."""
    world, order = loopback.world, loopback.world.order()
    query = world.remember(loopback.answers, order)
    await asyncio.to_thread(world.charge, order)
    async with session(loopback) as asking:
        with pytest.raises(PeerUnavailableError, match="ANSWER_PENDING"):
            await asking.collect(query, wait_seconds=0)
        await asyncio.to_thread(world.release, order)
        assert (await asking.collect(query, wait_seconds=0)).state == "answered"
    async with frozen(loopback.peers["census"]) as census, session(loopback, census=census) as asking:
        assert (await asking.collect(query, wait_seconds=0)).state == "answered"


@pytest.mark.parametrize("wait_seconds", [0.0, 3.0, 70.0])
def test_frozen_census_node_does_not_make_anybody_wait_longer_than_they_wanted(
    world: World, monkeypatch: pytest.MonkeyPatch, wait_seconds: float
) -> None:
    """In virtual time: the wait, or the time of one call, whichever is longer; not both."""
    call_seconds = 3.0

    @contextlib.asynccontextmanager
    async def frozen(*_: object) -> AsyncIterator[NoReturn]:
        await asyncio.Event().wait()
        raise AssertionError("nothing wakes it")
        yield

    for module in (contact, asking_module):
        monkeypatch.setattr(module, "CALL_SECONDS", call_seconds)
    monkeypatch.setattr(contact, "open_channel", frozen)
    nodes, loop = Loopback(world), VirtualLoop(random.Random(0))
    query = world.remember(nodes.answers, world.order())
    census, health = Peer("census", "", ()), Peer("health", "", ())

    async def collect() -> None:
        async with session(nodes, census=census, health=health) as asking:
            with pytest.raises(PeerUnavailableError, match="ANSWER_PENDING"):
                await asking.collect(query, wait_seconds=wait_seconds)

    loop.run_until_complete(collect())
    loop.close()
    assert loop.seconds == pytest.approx(max(wait_seconds, call_seconds))


# --- what has expired ------------------------------------------------------------------------------------------------


async def test_expired_answer_is_said_to_be_gone_and_remembered(loopback: Loopback) -> None:
    """At the first look, from then on without asking, and with the key wiped; the charge stands."""
    world = loopback.world
    order, query = await submitted(loopback)
    world.clock.advance(world.policy.answer_retention_ms)
    world.census.forget_expired()
    assert world.events(Expired) == [Expired(ticket=order.hash.hex())]
    async with session(loopback) as asking, asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(InvalidRequestError, match="ANSWER_EXPIRED") as caught:
            await asking.collect(query, wait_seconds=NEVER_SECONDS)
        assert query in caught.value.text
        assert loopback.answers.get(query).state == "expired"
    async with session(loopback, census=away(loopback.peers["census"])) as asking:
        with pytest.raises(InvalidRequestError, match="ANSWER_EXPIRED"):
            await asking.ask(loopback.answers.get(query), wait_seconds=NEVER_SECONDS, on_stage=lambda _: None)


async def test_ticket_submitted_again_after_its_answer_expired_ends_at_once(loopback: Loopback) -> None:
    """It was charged and is not charged again; no wait can bring the answer back."""
    world = loopback.world
    async with session(loopback) as asking:
        asked = await asking.prepare(WANTED)
        # The answer stays inside until nobody waits for it any more.
        world.cosigning = False
        with pytest.raises(PeerUnavailableError, match="ANSWER_PENDING"):
            await asking.ask(asked, wait_seconds=0, on_stage=lambda _: None)
        await until(lambda: bool(world.charges()))
        world.cosigning = True
        await asyncio.to_thread(world.cosign)
        await until(lambda: bool(world.census.released.undelivered([RESEARCHER])))
        world.clock.advance(world.policy.answer_retention_ms)
        world.census.forget_expired()
        async with asyncio.timeout(PATIENCE_SECONDS):
            with pytest.raises(InvalidRequestError, match="ANSWER_EXPIRED"):
                await asking.ask(asked, wait_seconds=NEVER_SECONDS, on_stage=lambda _: None)
    assert len(world.charges()) == 1


# --- inboxes over real sockets ---------------------------------------------------------------------------------------


async def test_inbox_that_was_down_gets_what_it_missed_and_one_that_moved_is_found(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Down and up again on another port, without a restart of the census node."""
    monkeypatch.setattr(delivery, "_FIRST_PAUSE_SECONDS", 3600.0)
    monkeypatch.setattr(delivery, "_MAX_PAUSE_SECONDS", 3600.0)
    inboxes = {RESEARCHER: away(loopback.peers["researcher"])}
    _, first = await submitted(loopback)
    async with carrying(loopback, inboxes):
        await linger()
        assert loopback.answers.get(first).state == "pending"
        async with inbox(loopback, loopback.answers) as up:
            inboxes[RESEARCHER] = up
            await until(lambda: loopback.answers.get(first).state == "answered")
        async with inbox(loopback, loopback.answers) as moved:
            # The answer may come out before or after the move is registered.
            order = loopback.world.order()
            second = loopback.world.remember(loopback.answers, order)
            await asyncio.to_thread(loopback.world.answer, order)
            inboxes[RESEARCHER] = moved
            await until(lambda: loopback.answers.get(second).state == "answered")
        await until(lambda: len(loopback.world.events(Delivered)) == 2)


async def test_inbox_that_only_takes_connections_delays_nobody_else(loopback: Loopback) -> None:
    """TCP is accepted and nothing is ever said, not even TLS: the other researcher's answer arrives meanwhile."""
    world = loopback.world
    stuck = world.order(OTHER_RESEARCHER)
    world.answer(stuck)
    other = Peer("researcher", "", (loopback.registered[list(loopback.tls).index(OTHER)],))
    async with frozen(other) as silent:
        inboxes = {OTHER_RESEARCHER: silent, RESEARCHER: loopback.peers["researcher"]}
        async with carrying(loopback, inboxes):
            await linger()
            _, query = await submitted(loopback)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await until(lambda: loopback.answers.get(query).state == "answered")
    assert world.census.released.undelivered([OTHER_RESEARCHER]) == {OTHER_RESEARCHER: [stuck.body.query_id.hex()]}


async def deliver(nodes: Loopback, query: bytes, sealed: bytes) -> str:
    """Deliver as the census node; the code of the refusal, or nothing."""
    async with nodes.channel(CENSUS, "researcher") as channel:
        stub: inbox_service_pb2_grpc.InboxServiceAsyncStub = inbox_service_pb2_grpc.InboxServiceStub(channel)
        request = inbox_service_pb2.DeliverRequest(answer=answer_pb2.SealedAnswer(query_id=query, sealed=sealed))
        try:
            await stub.Deliver(request, timeout=PATIENCE_SECONDS)
        except AioRpcError as error:
            return broker_error(error, "researcher").code
        return ""


async def test_inbox_refuses_wrong_answers_with_a_reason_and_keeps_nothing(loopback: Loopback) -> None:
    """To a query of nobody's, of another query, garbage, nothing at all; the right one is taken, twice without harm."""
    order, query = await submitted(loopback)
    another, _ = await submitted(loopback)
    right = loopback.world.sealed(order)
    assert await deliver(loopback, bytes(16), right) == "UNKNOWN_QUERY"
    assert await deliver(loopback, b"", b"") == "UNKNOWN_QUERY"
    for wrong in (b"", right[:-1], bytes(len(right)), loopback.world.sealed(another)):
        assert await deliver(loopback, order.body.query_id, wrong) == "PEER_MISBEHAVED"
    assert {asked.state for asked in loopback.answers.all()} == {"pending"}
    assert [await deliver(loopback, order.body.query_id, right) for _ in range(2)] == ["", ""]
    assert loopback.answers.get(query).state == "answered"
    assert loopback.stops["researcher"].error is None


async def test_inbox_whose_disk_is_full_refuses_so_that_the_census_node_keeps_the_answer(
    loopback: Loopback, capfd: pytest.CaptureFixture[str]
) -> None:
    """STORE_FAILED, and the inbox stops; nothing is logged as delivered, and with room again the answer arrives."""
    world = loopback.world
    order, query = await submitted(loopback)
    full = world.open_answers()
    # Trigger of this connection alone: every write about a question finds the disk full.
    full._db.execute("create temp trigger full before update on questions begin select raise(abort, 'disk full'); end")
    inboxes: dict[str, Peer] = {}
    async with carrying(loopback, inboxes):
        async with inbox(loopback, full) as failing:
            inboxes[RESEARCHER] = failing
            said: list[str] = []

            def heard() -> bool:
                said.append(capfd.readouterr().out)
                return "PEER_FAILED" in "".join(said)

            await until(heard)
            assert "researcher=researcher-1" in "".join(said)
            assert "STORE_FAILED" in "".join(said)
        assert world.events(Delivered) == []
        assert loopback.answers.get(query).state == "pending"
        inboxes[RESEARCHER] = loopback.peers["researcher"]
        await until(lambda: loopback.answers.get(query).state == "answered")
        await until(lambda: world.events(Delivered) == [Delivered(ticket=order.hash.hex(), by="inbox")])


async def test_what_an_inbox_and_a_courier_log_names_no_answer(
    loopback: Loopback, capfd: pytest.CaptureFixture[str]
) -> None:
    """Codes and researcher ids, never a query, a key or what was sealed."""
    order, query = await submitted(loopback)
    await deliver(loopback, order.body.query_id, b"wrong")
    inboxes, heard = {RESEARCHER: away(loopback.peers["researcher"])}, [""]

    def said_so() -> bool:
        heard.extend(capfd.readouterr())
        return "inbox did not take an answer" in "".join(heard)

    async with carrying(loopback, inboxes):
        await until(said_so)
        inboxes[RESEARCHER] = loopback.peers["researcher"]
        await until(lambda: loopback.answers.get(query).state == "answered")
    said = "".join([*heard, *capfd.readouterr()])
    count = str(loopback.answers.get(query).noisy_count)
    for secret in (query, order.unsealing_key.to_text(), order.hash.hex(), f"count={count}", f" {count} "):
        assert secret not in said
