"""The inbox's RPC: takes a sealed answer, verifies and keeps it, then says so."""

from __future__ import annotations

import asyncio

from grpc.aio import ServicerContext
from tripartite.v1 import inbox_service_pb2, inbox_service_pb2_grpc

from researcher_node.answers import Answers

__all__ = ["InboxService"]

Context = ServicerContext[object, object]


class InboxService(inbox_service_pb2_grpc.InboxServiceServicer):
    """tripartite.v1.InboxService."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    async def Deliver(
        self, request: inbox_service_pb2.DeliverRequest, context: Context
    ) -> inbox_service_pb2.DeliverResponse:
        del context
        await asyncio.to_thread(self._answers.receive, request.answer)
        return inbox_service_pb2.DeliverResponse()
