"""The health node's RPCs: takes a question, and tells the researcher how far it is. What happens to it stands in `flow`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from grpc.aio import ServicerContext
from tripartite.v1 import health_service_pb2, health_service_pb2_grpc

from broker_common.crypto.commitments import hash_bytes
from broker_common.errors import InvalidRequestError
from broker_common.privacy.policy import Policy
from broker_common.rpc.callers import caller
from broker_common.rpc.signed_documents import adoption_to_wire, parts_of
from health_node.flow import Flow
from health_node.node import HealthNode, Verified

Context = ServicerContext[object, object]


class HealthService(health_service_pb2_grpc.HealthServiceServicer):
    """tripartite.v1.HealthService."""

    def __init__(self, node: HealthNode, flow: Flow) -> None:
        self._node = node
        self.flow = flow

    async def GetDictionary(
        self, request: health_service_pb2.HealthServiceGetDictionaryRequest, context: Context
    ) -> AsyncIterator[health_service_pb2.HealthServiceGetDictionaryResponse]:
        del context
        adoption, document = await asyncio.to_thread(self._node.dictionary_to_publish, request.known)
        yield health_service_pb2.HealthServiceGetDictionaryResponse(adoption=adoption_to_wire(adoption))
        for part in parts_of(document):
            yield health_service_pb2.HealthServiceGetDictionaryResponse(part=part)

    async def Submit(
        self, request: health_service_pb2.SubmitRequest, context: Context
    ) -> AsyncIterator[health_service_pb2.SubmitResponse]:
        del context
        submitted_ms = self._node.clock()
        if hash_bytes(request.ticket.ticket).hex() not in self.flow.walks:
            # Asked again and again while it is full, the queue answers before any work is done.
            self.flow.queue.refuse_if_full(caller().name)
        verified, policy = await self._verify(request, caller().name)
        walk = self.flow.walks.get(verified.ticket.hash.hex())
        if walk is None:
            walk = self.flow.take(request, verified, caller().name, policy, submitted_ms)
        async for reached in walk.watch():
            yield health_service_pb2.SubmitResponse(stage=reached)

    async def _verify(self, request: health_service_pb2.SubmitRequest, researcher: str) -> tuple[Verified, Policy]:
        """The ticket, checked under the policy in force; one that names another policy may have seen a newer one."""
        policy = self.flow.policy
        if policy is not None:
            try:
                return await asyncio.to_thread(self._node.verify, request, researcher, policy), policy
            except InvalidRequestError as error:
                if error.code != "POLICY_MISMATCH":
                    raise
        policy = await self.flow.fetch_policy()
        return await asyncio.to_thread(self._node.verify, request, researcher, policy), policy
