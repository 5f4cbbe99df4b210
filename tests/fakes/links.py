"""Links between parties without a socket: handlers called as the server's interceptor calls them, errors as the wire has them.

A lying peer is a link of its own: it answers whatever a test tells it to.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Generator, Iterable, Sequence
from dataclasses import replace
from typing import Any, Generic, NoReturn, TypeVar, cast

from fakes.patience import PATIENCE_SECONDS
from fakes.world import CENSUS, HEALTH, World
from google.protobuf.message import Message
from grpc import StatusCode, aio
from grpc.aio import EOF, AioRpcError, Metadata
from tripartite.v1 import (
    census_service_pb2,
    census_service_pb2_grpc,
    log_service_pb2_grpc,
    policy_pb2,
)

from broker_common.crypto.cards import VerifiedCard
from broker_common.crypto.certificates import Identity
from broker_common.crypto.sample_bits import SealedSample
from broker_common.crypto.signing import Purpose
from broker_common.errors import BrokerError
from broker_common.query.messages import refuse_unknown_fields
from broker_common.rpc.callers import set_caller
from broker_common.rpc.channel import PROCEED
from broker_common.rpc.server import StopSignal
from broker_common.rpc.status import trailing_metadata
from broker_common.values import Clock
from census_node.query.admission import Arrived
from census_node.service import CensusService
from health_node.census_link import CensusLink, CensusNow
from health_node.config import LimitConfig as HealthLimits
from health_node.flow import Flow
from health_node.node import HealthNode
from health_node.roster.sending import RosterSender
from health_node.service import HealthService

# Handlers do not use their context; the interceptor does.
NO_CONTEXT: Any = None
ItemT = TypeVar("ItemT")
MessageT = TypeVar("MessageT", bound=Message)
CountRequest = census_service_pb2.CountRequest
CountResponse = census_service_pb2.CountResponse
CountScript = Callable[
    [AsyncIterator[census_service_pb2.CountRequest]], AsyncIterator[census_service_pb2.CountResponse]
]
RosterScript = Callable[
    [AsyncIterator[census_service_pb2.SendRosterRequest], "RosterContext"],
    Awaitable[census_service_pb2.SendRosterResponse],
]


def on_the_wire(error: BrokerError) -> AioRpcError:
    """The error that a caller in another process catches."""
    code, text, trailing = trailing_metadata(error)
    return AioRpcError(code, Metadata(), Metadata(*trailing), details=text)


async def stream(items: Iterable[ItemT]) -> AsyncIterator[ItemT]:
    """The items, as a stream that ends after the last one."""
    for item in items:
        yield item


async def _checked(requests: AsyncIterable[MessageT]) -> AsyncIterator[MessageT]:
    """Messages that the server's interceptor lets pass."""
    async for request in requests:
        refuse_unknown_fields(request)
        yield request


async def count(
    service: CensusService, requests: AsyncIterable[census_service_pb2.CountRequest], sender: Identity
) -> AsyncIterator[census_service_pb2.CountResponse]:
    """Call Count as `sender`."""
    set_caller(sender)
    async for response in service.Count(_checked(requests), NO_CONTEXT):
        yield response


def arrived(messages: Sequence[census_service_pb2.CountRequest]) -> Arrived:
    """Head and parts as a sample that has come whole."""
    head = messages[0].head
    return Arrived(head.ticket, head.manifest, SealedSample(head.sealed_head, [part.bits for part in messages[1:]]))


class RosterContext:
    """As much of a call's context as the handler of a roster uses."""

    def __init__(self) -> None:
        self.proceeds = asyncio.Event()

    async def send_initial_metadata(self, metadata: tuple[tuple[str, str], ...]) -> None:
        """The sender may go on."""
        assert metadata == (PROCEED,)
        self.proceeds.set()


async def send_roster(
    service: CensusService,
    requests: AsyncIterable[census_service_pb2.SendRosterRequest],
    sender: Identity,
    context: RosterContext | None = None,
) -> census_service_pb2.SendRosterResponse:
    """Call SendRoster as `sender`."""
    set_caller(sender)
    known: Any = RosterContext() if context is None else context
    return await service.SendRoster(_checked(requests), known)


class _Call(Generic[MessageT]):
    """A client's end of one call, as gRPC hands it out: the peer's side runs in a task of its own."""

    def __init__(self) -> None:
        self._requests: asyncio.Queue[MessageT | None] = asyncio.Queue()

    async def done_writing(self) -> None:
        """Close our side; nothing happens if the call is over."""
        self._requests.put_nowait(None)

    async def _received(self) -> AsyncIterator[MessageT]:
        while (request := await self._requests.get()) is not None:
            yield request


class RosterCall(_Call[census_service_pb2.SendRosterRequest]):
    """A call of SendRoster."""

    def __init__(self, peer: RosterScript, seconds: float | None) -> None:
        super().__init__()
        self.written = 0
        self._context = RosterContext()
        self._peer = asyncio.create_task(self._run(peer, seconds))

    async def write(self, request: census_service_pb2.SendRosterRequest) -> None:
        """Send; an error once the call is over, as in gRPC."""
        if self._peer.done():
            raise asyncio.InvalidStateError("the call is over")
        self.written += 1
        self._requests.put_nowait(request)
        await asyncio.sleep(0)

    async def initial_metadata(self) -> Metadata:
        """Wait for them, or for the end of the call."""
        waiting = asyncio.create_task(self._context.proceeds.wait())
        either: set[asyncio.Future[Any]] = {waiting, self._peer}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        return Metadata(PROCEED) if self._context.proceeds.is_set() else Metadata()

    def __await__(self) -> Generator[Any, None, census_service_pb2.SendRosterResponse]:
        return self._peer.__await__()

    def cancel(self) -> bool:
        """Hang up."""
        return self._peer.cancel()

    async def _run(self, peer: RosterScript, seconds: float | None) -> census_service_pb2.SendRosterResponse:
        try:
            async with asyncio.timeout(seconds):
                return await peer(self._received(), self._context)
        except TimeoutError as error:
            raise AioRpcError(StatusCode.DEADLINE_EXCEEDED, Metadata(), Metadata()) from error
        except BrokerError as error:
            raise on_the_wire(error) from error


class CountCall(_Call[census_service_pb2.CountRequest]):
    """A call of Count."""

    def __init__(self, peer: CountScript, seconds: float | None) -> None:
        super().__init__()
        self.sent: list[census_service_pb2.CountRequest] = []
        self._responses: asyncio.Queue[census_service_pb2.CountResponse | None] = asyncio.Queue()
        self._error: Exception | None = None
        self._unread = 0
        self._writing = True
        self._peer = asyncio.create_task(self._run(peer, seconds))

    @property
    def parts(self) -> list[str]:
        """Messages sent to the peer, part by part."""
        return [str(request.WhichOneof("part")) for request in self.sent]

    async def write(self, request: census_service_pb2.CountRequest) -> None:
        """Send; an error once the call is over, as in gRPC."""
        if self._over() or not self._writing:
            raise asyncio.InvalidStateError("the call is over, or closed for writing")
        self.sent.append(request)
        self._requests.put_nowait(request)
        await asyncio.sleep(0)

    async def done_writing(self) -> None:
        self._writing = False
        await super().done_writing()

    async def read(self) -> census_service_pb2.CountResponse | object:
        """The next message, or the end of the call, or the error that ended it."""
        response = None if self._over() else await self._responses.get()
        if response is not None:
            self._unread -= 1
            return response
        await asyncio.wait({self._peer})
        if self._error is not None:
            raise self._error
        return EOF

    async def code(self) -> StatusCode:
        """Wait for the end of the call; how it ended."""
        await asyncio.wait({self._peer})
        if self._error is None:
            return StatusCode.OK
        return self._error.code() if isinstance(self._error, AioRpcError) else StatusCode.UNKNOWN

    def cancel(self) -> bool:
        """Hang up."""
        self._requests.put_nowait(None)
        return self._peer.cancel()

    def _over(self) -> bool:
        # The peer's last words before it ended the call are read first.
        return self._peer.done() and not self._unread

    async def _run(self, peer: CountScript, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                async for response in peer(self._received()):
                    self._unread += 1
                    self._responses.put_nowait(response)
        except TimeoutError:
            self._error = AioRpcError(StatusCode.DEADLINE_EXCEEDED, Metadata(), Metadata())
        except BrokerError as error:
            self._error = on_the_wire(error)
        except Exception as error:  # noqa: BLE001 - raised again where the test reads
            self._error = error
        finally:
            self._responses.put_nowait(None)


class InMemoryCensus:
    """A health node's stub, over a census service in the same process.

    Its Count may follow a script, one function per attempt; the last one is repeated. `policy` takes the real one's place.
    """

    def __init__(
        self,
        service: CensusService,
        sender: Identity,
        *scripts: CountScript,
        policy: Callable[[], Awaitable[policy_pb2.SignedPolicy]] | None = None,
    ) -> None:
        self.service = service
        self.scripts = list(scripts)
        self._sender = sender
        self._policy = policy
        # Every call of Count, in order.
        self.calls: list[CountCall] = []

    @property
    def stub(self) -> census_service_pb2_grpc.CensusServiceAsyncStub:
        return cast("census_service_pb2_grpc.CensusServiceAsyncStub", self)

    @property
    def attempts(self) -> int:
        """How often Count was called."""
        return len(self.calls)

    async def GetPolicy(  # noqa: N802 - the name that the proto gives it
        self,
        request: census_service_pb2.GetPolicyRequest,
        timeout: float,  # noqa: ASYNC109 - as stubs have it
        *,
        wait_for_ready: bool = False,
    ) -> census_service_pb2.GetPolicyResponse:
        """The scripted policy, or else the real one."""
        del timeout, wait_for_ready
        if self._policy is None:
            return await self.service.GetPolicy(request, NO_CONTEXT)
        return census_service_pb2.GetPolicyResponse(policy=await self._policy())

    def Count(self, timeout: float | None = None) -> CountCall:  # noqa: N802 - the name that the proto gives it
        """A call that follows the script for this attempt."""
        script = self.scripts[min(self.attempts, len(self.scripts) - 1)] if self.scripts else self.honestly
        self.calls.append(CountCall(script, timeout))
        return self.calls[-1]

    def SendRoster(self, timeout: float | None = None) -> RosterCall:  # noqa: N802 - the name that the proto gives it
        """A call to the real service."""
        return RosterCall(self.take_roster, timeout)

    async def take_roster(
        self, requests: AsyncIterator[census_service_pb2.SendRosterRequest], context: RosterContext
    ) -> census_service_pb2.SendRosterResponse:
        """Answer of the real service."""
        return await send_roster(self.service, requests, self._sender, context)

    def honestly(
        self, requests: AsyncIterator[census_service_pb2.CountRequest]
    ) -> AsyncIterator[census_service_pb2.CountResponse]:
        """A script: what the real service says."""
        return count(self.service, requests, self._sender)


def health_service(
    world: World, node: HealthNode, link: InMemoryCensus, limits: HealthLimits, stop: StopSignal
) -> HealthService:
    """The health agency's service over a link, which knows the census node by the card in the health node's log."""
    return HealthService(
        node,
        Flow(
            node,
            census=link_to(world, node, link.stub),
            manifest_key=lambda: world.parties[HEALTH].signing(Purpose.MANIFEST),
            limits=limits,
            stop=stop,
        ),
    )


def roster_sender(world: World, node: HealthNode, stub: census_service_pb2_grpc.CensusServiceAsyncStub) -> RosterSender:
    """Sender of the health agency's rosters, to any stub."""
    return RosterSender(
        node,
        link_to(world, node, stub),
        manifest_key=lambda: world.parties[HEALTH].signing(Purpose.MANIFEST),
        randomness=os.urandom,
        deadline_ms=int(1000 * PATIENCE_SECONDS),
    )


def link_to(
    world: World,
    node: HealthNode,
    stub: census_service_pb2_grpc.CensusServiceAsyncStub,
    logs: log_service_pb2_grpc.LogServiceAsyncStub | None = None,
) -> InMemoryLink:
    """The node's link to the census node that answers at these stubs."""
    known = world.known(node.journal)
    return InMemoryLink(stub, lambda: known.card("census", CENSUS.organisation), world.health_clock, logs)


class InMemoryLink(CensusLink):
    """A health node's way to a census node; the channel alone is not the product's."""

    def __init__(
        self,
        stub: census_service_pb2_grpc.CensusServiceAsyncStub,
        card: Callable[[], VerifiedCard],
        clock: Clock,
        logs: log_service_pb2_grpc.LogServiceAsyncStub | None = None,
    ) -> None:
        def no_channel() -> NoReturn:
            raise AssertionError("there is no channel here")

        super().__init__("in memory", card=card, own_card=no_channel, take=lambda _: None, tls=no_channel, clock=clock)
        self._stub = stub
        self._logs = logs

    async def tell_card(self) -> None:
        """Cards do not change here."""

    async def has_news(self, since: int) -> bool:
        """Cards do not change here."""
        del since
        return False

    async def now(self) -> CensusNow:
        now = replace(await super().now(), stub=self._stub)
        return now if self._logs is None else replace(now, logs=self._logs)

    async def _channel(self, card: VerifiedCard) -> aio.Channel:
        del card
        return cast("aio.Channel", NoChannel())


class NoChannel:
    """A channel whose methods are never called: the stub that is made of it is replaced."""

    def _method(self, *_: object, **__: object) -> None:
        """No method: calling what it gives fails."""

    unary_unary = unary_stream = stream_unary = stream_stream = _method
