"""A health node and a census node of one world, with a link between them where a test may do anything at any message.

Either node can die and come back: what it has left on disk at that instant is what its successor starts from.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from fakes.links import NO_CONTEXT, InMemoryCensus, health_service
from fakes.patience import PATIENCE_SECONDS
from fakes.world import HEALTH, RESEARCHER, Order, World
from grpc import StatusCode
from grpc.aio import AioRpcError, Metadata
from msgspec.structs import replace
from tripartite.v1 import census_service_pb2, health_service_pb2

from broker_common.crypto.certificates import Identity
from broker_common.errors import BrokerError
from broker_common.rpc.callers import set_caller
from broker_common.rpc.server import StopSignal
from census_node.config import LimitConfig as CensusLimits
from census_node.service import CensusService
from health_node.config import LimitConfig
from health_node.service import HealthService

Requests = AsyncIterator[census_service_pb2.CountRequest]
Responses = AsyncIterator[census_service_pb2.CountResponse]
STAGES = ["STAGE_ACCEPTED", "STAGE_FORWARDED", "STAGE_CHARGED", "STAGE_RELEASED"]
# No call is given up because the machine is busy.
_PATIENCE_MS = int(1000 * PATIENCE_SECONDS)
# Tasks are held here because the event loop itself holds them weakly.
_at_work: set[asyncio.Task[None]] = set()


def census_at_work(world: World, limits: CensusLimits, stop: StopSignal) -> CensusService:
    """The service of the world's census node, at work until the event loop ends."""
    service = CensusService(world.census, limits, stop, people=world.places)
    working = asyncio.create_task(service.run())
    _at_work.add(working)
    working.add_done_callback(_at_work.discard)
    return service


def gone() -> AioRpcError:
    """The other side's view of a node that died."""
    return AioRpcError(StatusCode.UNAVAILABLE, Metadata(), Metadata())


class Pair:
    """Both nodes and what goes on between them. Make it inside an event loop."""

    def __init__(
        self, world: World, *, max_queries: int = 16, forward_deadline_ms: int = _PATIENCE_MS, **limits: int
    ) -> None:
        """`limits` are settings of the census node."""
        self.world = world
        self.census_limits = CensusLimits(
            **{
                "max_queries": max_queries,
                "header_deadline_ms": _PATIENCE_MS,
                "sample_deadline_ms": _PATIENCE_MS,
                "cosignature_wait_ms": _PATIENCE_MS,
                **limits,
            }
        )
        self.max_queries = max_queries
        self.forward_deadline_ms = forward_deadline_ms
        self.census_stop, self.health_stop = StopSignal(), StopSignal()
        self.census = self._census_service()
        self.link = InMemoryCensus(self.census, HEALTH, self.watched)
        # Called with what is about to pass: the event of a response, or the part of a request and its number.
        self.passing: Callable[[str], None] = lambda _: None
        self.node = world.open_health()
        self.health = self._health_service()

    def _census_service(self) -> CensusService:
        return census_at_work(self.world, self.census_limits, self.census_stop)

    def _health_service(self) -> HealthService:
        limits = LimitConfig(max_queries=self.max_queries, forward_deadline_ms=self.forward_deadline_ms)
        return health_service(self.world, self.node, self.link, limits, self.health_stop)

    def be_patient(self) -> None:
        """From here on the census node waits for cosignatures as long as the machine may need."""
        self.census_limits = replace(self.census_limits, cosignature_wait_ms=_PATIENCE_MS)
        self.census._limits = self.census_limits

    async def watched(self, requests: Requests) -> Responses:
        """The link: everything passes, and `passing` is told before it does; after `said X` it has."""
        lost: list[AioRpcError] = []

        async def parts() -> Requests:
            number = 0
            async for request in requests:
                try:
                    self.passing(f"{request.WhichOneof('part')} {number}")
                except AioRpcError as error:
                    # The receiver sees the end of the stream when a connection is gone.
                    lost.append(error)
                    return
                number += 1
                yield request

        self.passing("call")
        try:
            async for response in self.link.honestly(parts()):
                event = str(response.WhichOneof("event"))
                self.passing(event)
                yield response
                self.passing(f"said {event}")
        except BrokerError:
            if lost:
                raise lost[0] from None
            raise

    async def submit(self, order: Order) -> list[str] | str:
        """Submit to the end; the stages, or the code of the error."""
        set_caller(Identity("university", "researcher", RESEARCHER))
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                responses = self.health.Submit(order.submission, NO_CONTEXT)
                return [health_service_pb2.Stage.Name(response.stage) async for response in responses]
        except BrokerError as error:
            return error.code

    async def collect(self, order: Order) -> bytes | str:
        """Collect as its researcher; the sealed answer, or the code of the error, or nothing."""
        set_caller(Identity("university", "researcher", RESEARCHER))
        request = census_service_pb2.CollectRequest(query_id=order.body.query_id, wait_ms=0)
        try:
            return (await self.census.Collect(request, NO_CONTEXT)).answer.sealed
        except BrokerError as error:
            return error.code

    def restart_census(self) -> None:
        """The census node dies here and now; another one starts from its files, and goes on as a start does."""
        self.world.crash_census()
        self.census_stop = StopSignal()
        self.census = self.link.service = self._census_service()
        self.census.go_on_with(self.world.census.recover())

    async def restart_health(self) -> None:
        """The same for the health node."""
        self.node = self.world.crash_health()
        self.health_stop = StopSignal()
        self.health = self._health_service()
        await self.health.flow.recover()

    async def settle(self) -> None:
        """Let everything that is under way come to its end."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self.health.flow.drain()
            await self.census.drain()

    def verify_nothing_held(self) -> None:
        """No price, no place and no walk is held for anybody, at either node; no sample lies about."""
        assert not self.world.census._reservations._held
        assert not self.census._streams._held
        assert self.health.flow.queue._places == self.max_queries
        assert not self.health.flow.queue._without_place
        assert not self.health.flow.walks
        assert not list((self.world.census_folder / "samples").glob("*"))

    def verify(self, order: Order, *, answered: bool) -> None:
        """Both logs replay; the order has one charge and one answer that opens, or neither."""
        self.world.verify_log()
        self.world.verify_health_log()
        charges = [charge.ticket for charge in self.world.charges()]
        assert len(charges) == len(set(charges))
        assert (order.hash.hex() in charges) == answered
        if answered:
            assert self.world.open(order, self.world.sealed(order)).scale == 30
        else:
            assert self.world.census.released.released_answer(order.body.query_id.hex(), RESEARCHER) is None

    async def verify_usable(self) -> None:
        """Another question is taken, charged and answered, with nothing but the nodes' own doing."""
        following = self.world.order()
        assert await self.submit(following) == STAGES
        await self.settle()
        self.verify(following, answered=True)
        self.verify_nothing_held()


@contextlib.asynccontextmanager
async def at_work(service: CensusService) -> AsyncIterator[CensusService]:
    """A census service whose desk works, as while its node serves; whatever ended the desk is raised."""
    working = asyncio.create_task(service.run())
    try:
        yield service
    finally:
        working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await working
