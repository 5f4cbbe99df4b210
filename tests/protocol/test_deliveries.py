"""The courier: an inbox that fails, lies or hangs keeps nobody else from their answers, and stops nobody."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from fakes.links import on_the_wire
from fakes.world import OTHER_RESEARCHER, RESEARCHER, World
from grpc import StatusCode
from grpc.aio import AioRpcError, Metadata
from tripartite.v1 import inbox_service_pb2

from broker_common.crypto.certificates import TlsCredentials
from broker_common.errors import InternalError, InvalidRequestError, StateUnknownError
from broker_common.rpc.channel import Peer
from broker_common.tlog.entries import Delivered
from broker_common.values import Clock
from census_node.delivery import Courier

Deliver = Callable[[inbox_service_pb2.DeliverRequest], Awaitable[inbox_service_pb2.DeliverResponse]]
OWN = TlsCredentials(b"", b"")


class Inbox:
    """The channel to an inbox: has the one method that the courier calls."""

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver

    def unary_unary(self, *_: object, **__: object) -> Callable[..., Awaitable[inbox_service_pb2.DeliverResponse]]:
        """As a generated stub asks for it."""
        return lambda request, **_: self._deliver(request)


async def take(request: inbox_service_pb2.DeliverRequest) -> inbox_service_pb2.DeliverResponse:
    """An honest inbox."""
    del request
    return inbox_service_pb2.DeliverResponse()


async def hang(request: inbox_service_pb2.DeliverRequest) -> inbox_service_pb2.DeliverResponse:
    """Never says anything."""
    del request
    await asyncio.Event().wait()
    raise AssertionError


def failing(error: AioRpcError) -> Deliver:
    """Says this."""

    async def fail(request: inbox_service_pb2.DeliverRequest) -> inbox_service_pb2.DeliverResponse:
        del request
        raise error

    return fail


TROUBLES: dict[str, Deliver] = {
    "hangs": hang,
    "is away": failing(AioRpcError(StatusCode.UNAVAILABLE, Metadata(), Metadata())),
    "is somebody else": failing(AioRpcError(StatusCode.INTERNAL, Metadata(), Metadata(), details="17")),
    "has a damaged store": failing(on_the_wire(InternalError("INTEGRITY", problem="of my own making"))),
    "has a full disk": failing(on_the_wire(InternalError("STORE_FAILED"))),
    "does not know what it wrote": failing(on_the_wire(StateUnknownError("STATE_UNKNOWN"))),
    "refuses": failing(on_the_wire(InvalidRequestError("UNKNOWN_QUERY", query="0" * 32))),
}


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_failing_inbox_stops_nobody(world: World, monkeypatch: pytest.MonkeyPatch, trouble: str) -> None:
    """Whatever an inbox says, even that its store is broken: the courier goes on, and others have their answers."""
    inboxes = {RESEARCHER: TROUBLES[trouble], OTHER_RESEARCHER: take}
    peers = {name: Peer("researcher", name, ()) for name in inboxes}

    @contextlib.asynccontextmanager
    async def open_channel(peer: Peer, own: TlsCredentials, clock: Clock) -> AsyncIterator[Inbox]:
        del own, clock
        yield Inbox(inboxes[peer.address])

    monkeypatch.setattr("census_node.delivery.open_channel", open_channel)
    troubled, other = world.order(), world.order(OTHER_RESEARCHER)
    world.answer(troubled)
    world.answer(other)
    courier = asyncio.create_task(Courier(world.census, lambda: peers, lambda: OWN).run())
    try:
        async with asyncio.timeout(10):
            while not world.events(Delivered):  # noqa: ASYNC110 - no event tells of a delivery
                await asyncio.sleep(0.005)
        assert world.events(Delivered) == [Delivered(ticket=other.hash.hex(), by="inbox")]
        assert not courier.done()
    finally:
        courier.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await courier
    # The sealed answer waits for its researcher all the same.
    assert world.census.undelivered([RESEARCHER]) == [troubled.body.query_id.hex()]
    assert world.open(troubled, world.sealed(troubled)).scale == 30
