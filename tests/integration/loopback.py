"""The world's three nodes behind real sockets: gRPC with mutual TLS on loopback, all in the test's own process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Self

import grpc
from fakes.patience import PATIENCE_SECONDS
from fakes.world import CENSUS, HEALTH, OTHER, OTHER_HEALTH, OWNER, RESEARCHER, World
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass
from grpc import aio
from grpc.aio import AioRpcError
from tripartite.v1 import (
    card_service_pb2_grpc,
    census_service_pb2,
    census_service_pb2_grpc,
    health_service_pb2_grpc,
    inbox_service_pb2_grpc,
    log_service_pb2_grpc,
)

from broker_common.crypto.certificates import (
    Identity,
    PeerCertificate,
    Role,
    TlsCredentials,
    server_name,
)
from broker_common.crypto.signing import Purpose
from broker_common.parties.exchange import CardExchange, CardService
from broker_common.parties.registration import renew
from broker_common.rpc.channel import Peer, open_channel
from broker_common.rpc.server import NodeServer, StopSignal
from broker_common.rpc.status import broker_error
from broker_common.storage.clock import system_clock
from broker_common.storage.journal import Journal, StateT
from broker_common.storage.witnessing import Witnessing
from broker_common.values import Clock
from census_node.config import LimitConfig as CensusLimits
from census_node.log_service import LogService
from census_node.service import CensusService
from health_node.census_link import CensusLink
from health_node.config import LimitConfig as HealthLimits
from health_node.flow import Flow
from health_node.service import HealthService
from researcher_node.answers.store import Answers
from researcher_node.asking.contact import Party
from researcher_node.asking.kept import KeptDictionaries, Policies
from researcher_node.asking.session import Session
from researcher_node.assembly import InboxService
from researcher_node.trust.cards import Trust


def registered(*parties: TlsCredentials) -> list[PeerCertificate]:
    """Registrations of these parties at a node."""
    return [PeerCertificate.parse_pem(own.certificate) for own in parties]


def add_cards(server: aio.Server, journal: Journal[StateT]) -> None:
    """The exchange of cards, as an agency's node serves it."""
    cards = CardService(CardExchange(journal, system_clock))
    card_service_pb2_grpc.add_CardServiceServicer_to_server(cards, server)


@contextlib.asynccontextmanager
async def running(serve: Callable[[Callable[[str], None]], Awaitable[None]]) -> AsyncIterator[None]:
    """A node as its home serves it, ready."""
    ready = asyncio.Event()
    served = asyncio.ensure_future(serve(lambda _: ready.set()))
    waiting = asyncio.ensure_future(ready.wait())
    await asyncio.wait({served, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not ready.is_set():
        await served
    try:
        yield
    finally:
        served.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await served


@contextlib.asynccontextmanager
async def serving(
    role: Role,
    own: TlsCredentials,
    peers: Sequence[PeerCertificate],
    register: Callable[[aio.Server], None],
    *,
    clock: Clock = system_clock,
    stop: StopSignal | None = None,
    reflection: bool = False,
) -> AsyncIterator[Peer]:
    """A node's server on a free port; gives what a client must know of it."""
    stop = StopSignal() if stop is None else stop
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    server = NodeServer(
        address="127.0.0.1:0",
        tls=lambda: own,
        peers=lambda: peers,
        service="tripartite.v1",
        clock=clock,
        reflection=reflection,
    )
    running = asyncio.create_task(server.run(register, stop=stop, on_ready=ready.set_result))
    either: set[asyncio.Future[Any]] = {running, ready}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if not ready.done():
        await running
    try:
        yield Peer(role, ready.result(), tuple(registered(own)))
    finally:
        stop.stop()
        # A node's stop signal says what stopped it, and the test has it.
        await asyncio.wait({running})
        running.exception()


class Loopback:
    """Three servers. Each has registered every party of this world, so that only roles and identities decide."""

    def __init__(self, world: World, *, clock: Clock = system_clock) -> None:
        self.world = world
        self.clock = clock
        self.tls = {identity: world.parties[identity].tls for identity in (CENSUS, HEALTH, OTHER_HEALTH, OWNER, OTHER)}
        self.stops: dict[Role, StopSignal] = {role: StopSignal() for role in ("census", "health", "researcher")}
        self.peers: dict[Role, Peer] = {}
        self.answers: Answers = world.open_answers()
        self.health = world.open_health()
        # Nobody is given up because the machine is busy, and quotes are as many as a test asks for.
        patience_ms = int(1000 * PATIENCE_SECONDS)
        self.census_limits = CensusLimits(
            header_deadline_ms=patience_ms,
            sample_deadline_ms=patience_ms,
            quotes_per_minute=1_000_000,
            quote_burst=1_000_000,
        )
        self.health_limits = HealthLimits(forward_deadline_ms=patience_ms)
        # As an operator may switch it on.
        self.reflection = False
        self.census_type = CensusService
        self.census: CensusService
        self._stack = contextlib.AsyncExitStack()

    @property
    def registered(self) -> list[PeerCertificate]:
        return registered(*self.tls.values())

    async def __aenter__(self) -> Self:
        census = self.census = self.census_type(
            self.world.census, self.census_limits, self.stops["census"], people=self.world.places
        )
        await self._stack.enter_async_context(_at_work(census))

        log = self.log_service()

        def add_census(server: aio.Server) -> None:
            census_service_pb2_grpc.add_CensusServiceServicer_to_server(census, server)
            log_service_pb2_grpc.add_LogServiceServicer_to_server(log, server)
            add_cards(server, self.world.census.journal)

        await self._serve("census", CENSUS, add_census)
        health = self.health_service(HealthService)

        def add_health(server: aio.Server) -> None:
            health_service_pb2_grpc.add_HealthServiceServicer_to_server(health, server)
            add_cards(server, self.health.journal)

        await self._serve("health", HEALTH, add_health)
        inbox = InboxService(self.answers)
        await self._serve(
            "researcher", OWNER, lambda server: inbox_service_pb2_grpc.add_InboxServiceServicer_to_server(inbox, server)
        )
        self._stack.push_async_callback(census.drain)
        self._stack.push_async_callback(health.flow.drain)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _serve(self, role: Role, identity: Identity, register: Callable[[aio.Server], None]) -> None:
        server = serving(
            role,
            self.tls[identity],
            self.registered,
            register,
            clock=self.clock,
            stop=self.stops[role],
            reflection=self.reflection,
        )
        self.peers[role] = await self._stack.enter_async_context(server)

    def log_service(self) -> LogService:
        """The census node's log service."""
        journal = self.world.census.journal
        witnessing = Witnessing(journal, cosigner=lambda: self.world.cosigner(CENSUS), clock=self.clock)
        return LogService(self.world.census, witnessing, self.world.known(journal), self.census_limits, StopSignal())

    def health_service(self, kind: type[HealthService]) -> HealthService:
        """The health node's service, or one that differs from it, in front of the census node."""
        known = self.world.known(self.health.journal)
        link = CensusLink(
            self.peers["census"].address,
            card=lambda: known.card("census", CENSUS.organisation),
            own_card=lambda: known.own().signed,
            take=lambda card: renew(self.health.journal, card),
            tls=lambda: self.tls[HEALTH],
            clock=system_clock,
        )
        self._stack.push_async_callback(link.close)
        return kind(
            self.health,
            Flow(
                self.health,
                census=link,
                manifest_key=lambda: self.world.parties[HEALTH].signing(Purpose.MANIFEST),
                limits=self.health_limits,
                stop=self.stops["health"],
            ),
        )

    def session(
        self, *, answers: Answers | None = None, census: Peer | None = None, health: Peer | None = None
    ) -> Session:
        """The first researcher's session, to be entered, with both nodes or with what stands in their places."""
        party, trust = self.world.parties[OWNER], Trust(self.world.directory / "trust", system_clock)
        for agency in (CENSUS, HEALTH):
            trust.put(self.world.parties[agency].card)
        return Session(
            researcher_id=RESEARCHER,
            ticket_key=lambda: party.signing(Purpose.TICKET),
            health=Party("health", (health or self.peers["health"]).address),
            census=Party("census", (census or self.peers["census"]).address),
            own_card=lambda: party.card,
            trust=trust,
            tls=lambda: self.tls[OWNER],
            answers=answers or self.answers,
            policies=Policies(self.world.directory / "policies"),
            dictionaries=KeptDictionaries(self.world.directory / "dictionaries"),
            clock=system_clock,
            randomness=self.world.randomness,
        )

    def channel(self, identity: Identity, role: Role) -> aio.Channel:
        """A channel of `identity` to the node of `role`, as the product opens it."""
        return open_channel(self.peers[role], self.tls[identity], system_clock)


@contextlib.asynccontextmanager
async def _at_work(service: CensusService) -> AsyncIterator[None]:
    """The service works at its desk."""
    working = asyncio.create_task(service.run())
    try:
        yield
    finally:
        working.cancel()
        await asyncio.wait({working})


def raw_channel(
    peer: Peer, own: TlsCredentials | None, *, name: str | None = None, trusted: bytes | None = None
) -> aio.Channel:
    """A channel without the product's own checks; without `own`, one that shows no certificate."""
    credentials = grpc.ssl_channel_credentials(
        b"".join(each.pem for each in peer.certificates) if trusted is None else trusted,
        None if own is None else own.private_key,
        None if own is None else own.certificate,
    )
    options = [
        ("grpc.ssl_target_name_override", name or server_name(peer.role)),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", -1),
        ("grpc.enable_http_proxy", 0),
    ]
    return aio.secure_channel(peer.address, credentials, options)


async def hand_over(channel: aio.Channel, messages: Sequence[census_service_pb2.CountRequest]) -> list[str | None]:
    """Call Count as an honest health node does; gives the events.

    Raises:
        BrokerError: what the census node says instead.
    """
    stub: census_service_pb2_grpc.CensusServiceAsyncStub = census_service_pb2_grpc.CensusServiceStub(channel)
    sending = stub.Count(timeout=PATIENCE_SECONDS)
    events: list[str | None] = []
    try:
        # A stream that ends meanwhile says why when it is read.
        with contextlib.suppress(asyncio.InvalidStateError):
            for message in messages:
                await sending.write(message)
            await sending.done_writing()
        while isinstance(response := await sending.read(), census_service_pb2.CountResponse):
            events.append(response.WhichOneof("event"))
    except AioRpcError as error:
        raise broker_error(error, "census") from error
    finally:
        sending.cancel()
    return events


async def call(channel: aio.Channel, method: MethodDescriptor, *wire: bytes) -> str:
    """Call any RPC with these bytes as its requests; gives the code of the error, or `OK` when it ends well.

    Without bytes, a stream of requests is empty, and any other request has no content. The standard
    health probe's watch never ends: its first response will do.
    """
    path = f"/{method.containing_service.full_name}/{method.name}"
    response_type = GetMessageClass(method.output_type)
    coders: dict[str, Any] = {"request_serializer": bytes, "response_deserializer": response_type.FromString}
    never_ends = method.full_name == "grpc.health.v1.Health.Watch"
    try:
        if method.client_streaming and not method.server_streaming:
            await channel.stream_unary(path, **coders)(_each(wire), timeout=PATIENCE_SECONDS)
        elif method.client_streaming:
            streamed = channel.stream_stream(path, **coders)(timeout=PATIENCE_SECONDS)
            await _converse(streamed, wire)
        elif method.server_streaming:
            watched = channel.unary_stream(path, **coders)(*(wire or (b"",)), timeout=PATIENCE_SECONDS)
            while await watched.read() is not aio.EOF and not never_ends:
                pass
            watched.cancel()
        else:
            await channel.unary_unary(path, **coders)(*(wire or (b"",)), timeout=PATIENCE_SECONDS)
    except AioRpcError as error:
        return broker_error(error, "remote").code
    return "OK"


async def _each(wire: Sequence[bytes]) -> AsyncIterator[bytes]:
    """The requests of a stream that ends in one response."""
    for message in wire:
        yield message


async def _converse(streamed: Any, wire: Sequence[bytes]) -> None:
    """Say everything and hear everything; raises how it ended."""
    try:
        for message in wire:
            await streamed.write(message)
        await streamed.done_writing()
    except asyncio.InvalidStateError:
        # The stream ended while we were writing. How, the next read says.
        pass
    while await streamed.read() is not aio.EOF:
        pass
