"""A health node's link to the log of the census node, where either side may say anything."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

from fakes.links import NO_CONTEXT, NoChannel, link_to, on_the_wire
from fakes.world import CENSUS, HEALTH, World
from grpc import StatusCode, aio
from grpc.aio import AioRpcError, Metadata
from tripartite.v1 import census_service_pb2_grpc, log_service_pb2, log_service_pb2_grpc

from broker_common.crypto.certificates import Identity
from broker_common.errors import BrokerError
from broker_common.query.messages import refuse_unknown_fields
from broker_common.rpc.callers import set_caller
from broker_common.rpc.server import StopSignal
from broker_common.storage.witnessing import Witnessing
from census_node.config import LimitConfig
from census_node.log_service import LogService
from census_node.node import CensusNode
from health_node.node import HealthNode
from health_node.witness import CensusWitness

WitnessScript = Callable[[log_service_pb2.WitnessRequest], Awaitable[log_service_pb2.WitnessResponse]]


class LogLink:
    """A health node's stub of the log service: the real one in the same process, or a scripted one."""

    def __init__(self, service: LogService, sender: Identity) -> None:
        self.service = service
        self._sender = sender
        # The answering side; every request, in order, and how many of them are over.
        self.script: WitnessScript = self.honestly
        # How many seconds a call is given that its caller gives so many.
        self.deadline: Callable[[float | None], float | None] = lambda timeout: timeout
        self.requests: list[log_service_pb2.WitnessRequest] = []
        self.answered = 0

    @property
    def stub(self) -> log_service_pb2_grpc.LogServiceAsyncStub:
        return cast("log_service_pb2_grpc.LogServiceAsyncStub", self)

    async def Witness(  # noqa: N802 - the name that the proto gives it
        self,
        request: log_service_pb2.WitnessRequest,
        timeout: float,  # noqa: ASYNC109 - as stubs have it
        *,
        wait_for_ready: bool = False,
    ) -> log_service_pb2.WitnessResponse:
        """Answer of the script; foreign errors as a caller in another process has them."""
        del wait_for_ready
        self.requests.append(request)
        try:
            async with asyncio.timeout(self.deadline(timeout)):
                return await self.script(request)
        except TimeoutError as error:
            raise AioRpcError(StatusCode.DEADLINE_EXCEEDED, Metadata(), Metadata()) from error
        except BrokerError as error:
            raise on_the_wire(error) from error
        finally:
            self.answered += 1

    async def honestly(self, request: log_service_pb2.WitnessRequest) -> log_service_pb2.WitnessResponse:
        """A script: what the real service says."""
        refuse_unknown_fields(request)
        set_caller(self._sender)
        return await self.service.Witness(request, NO_CONTEXT)


def census_witness(world: World, node: HealthNode, link: LogLink) -> CensusWitness:
    """The health agency's witness of the census log, over a link."""
    known = world.known(node.journal)
    stub = census_service_pb2_grpc.CensusServiceStub(cast("aio.Channel", NoChannel()))
    return CensusWitness(
        link_to(world, node, stub, link.stub),
        node.journal,
        known=known,
        witnessing=Witnessing(node.journal, cosigner=lambda: world.cosigner(HEALTH), clock=world.health_clock),
        census=CENSUS.organisation,
    )


def log_service(world: World, node: CensusNode, limits: LimitConfig, stop: StopSignal | None = None) -> LogService:
    """The census node's log service; without `stop` nothing stops it."""
    witnessing = Witnessing(node.journal, cosigner=lambda: world.cosigner(CENSUS), clock=world.census_clock)
    return LogService(node, witnessing, world.known(node.journal), limits, StopSignal() if stop is None else stop)
