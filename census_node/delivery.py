"""The courier: pushes released answers to the inboxes of researchers who have one.

A push is a courtesy. Whoever has no inbox, or a closed one, collects; the sealed answer waits either way. Failed pushes
are tried again with growing pauses, and start afresh when the node does.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping

import structlog
from tripartite.v1 import answer_pb2, inbox_service_pb2, inbox_service_pb2_grpc

from broker_common.crypto.certificates import TlsCredentials
from broker_common.errors import BrokerError
from broker_common.rpc.channel import Peer, open_channel
from broker_common.rpc.status import calling
from census_node.node import CensusNode
from census_node.outbox import WaitingAnswer

__all__ = ["Courier"]

_log = structlog.get_logger()
_TIMEOUT_SECONDS = 10.0
_FIRST_PAUSE_SECONDS = 1.0
_MAX_PAUSE_SECONDS = 300.0
# Also looks without being told: a pause may have ended.
_LOOK_SECONDS = 1.0


class Courier:
    """One task per node: `run` until cancelled."""

    def __init__(
        self, node: CensusNode, inboxes: Callable[[], Mapping[str, Peer]], tls: Callable[[], TlsCredentials]
    ) -> None:
        self._node = node
        self._inboxes = inboxes
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        # By query: when the next push is due, and the pause after it fails.
        self._pauses: dict[str, tuple[float, float]] = {}
        node.on_release(lambda: self._loop.call_soon_threadsafe(self._wake.set))

    async def run(self) -> None:
        """Push what is released, for as long as the node serves."""
        # Each on its own, so that an inbox that hangs keeps only its own answers waiting.
        pushes: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                self._wake.clear()
                for query in await asyncio.to_thread(self._node.undelivered, self._inboxes().keys()):
                    if query not in pushes:
                        pushes[query] = asyncio.create_task(self._push_if_due(query))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), _LOOK_SECONDS)
                for query in [query for query, push in pushes.items() if push.done()]:
                    # Raises what stops the node.
                    pushes.pop(query).result()
        finally:
            for push in pushes.values():
                push.cancel()
            await asyncio.gather(*pushes.values(), return_exceptions=True)

    async def _push_if_due(self, query: str) -> None:
        due, pause = self._pauses.get(query, (0.0, _FIRST_PAUSE_SECONDS))
        if self._loop.time() < due:
            return
        answer = await asyncio.to_thread(self._node.waiting_answer, query)
        if answer is None:
            # Expired: nothing to push any more.
            self._pauses[query] = (self._loop.time() + _MAX_PAUSE_SECONDS, _MAX_PAUSE_SECONDS)
            return
        try:
            await self._push(answer)
        except BrokerError as error:
            if error.stops_node:
                raise
            _log.info("inbox did not take an answer", code=error.code, retry_seconds=pause)
            self._pauses[query] = (self._loop.time() + pause, min(2 * pause, _MAX_PAUSE_SECONDS))
        else:
            self._pauses.pop(query, None)

    async def _push(self, answer: WaitingAnswer) -> None:
        sealed = answer_pb2.SealedAnswer(query_id=bytes.fromhex(answer.query), sealed=answer.sealed)
        async with open_channel(self._inboxes()[answer.researcher], self._tls(), self._node.clock) as channel:
            inbox = inbox_service_pb2_grpc.InboxServiceStub(channel)
            request = inbox_service_pb2.DeliverRequest(answer=sealed)
            await calling("researcher", inbox.Deliver(request, timeout=_TIMEOUT_SECONDS))
        await asyncio.to_thread(self._node.delivered, answer.ticket_hash, "inbox")
