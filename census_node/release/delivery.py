"""The courier: what becomes of released answers. Pushed to researchers who have an inbox, removed when they expire.

A push is a courtesy. A researcher with no inbox, or a closed one, collects; the sealed answer waits either way. Answers for one
researcher are pushed one after the other, oldest first; what fails is tried again with growing pauses, at once when
another answer comes out or the inbox moves, and afresh when the node starts. Where inboxes are is asked at every push.

An inbox has acknowledged an answer when it has stored it; only then is the delivery logged. A crash in between delivers
it again.

SECURITY: what is removed is removed beside that, in a task of its own, and not because an answer came out. Wiping samples and
writing the ledger anew takes longer the larger it is; no answer may wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog
from tripartite.v1 import answer_pb2, inbox_service_pb2, inbox_service_pb2_grpc

from broker_common.crypto.certificates import TlsCredentials
from broker_common.errors import BrokerError
from broker_common.logs import log_unforeseen
from broker_common.rpc.channel import Peer, open_channel
from broker_common.rpc.status import calling
from broker_common.storage.journal import Journal
from broker_common.tlog.census_state import CensusState
from broker_common.values import Clock
from census_node.config import LimitConfig
from census_node.release.outbox import WaitingAnswer
from census_node.release.released import ReleasedAnswers

_log = structlog.get_logger()
# For one push.
_TIMEOUT_SECONDS = 10.0
# A slow inbox gives its place to another one after this long, and comes again.
_VISIT_SECONDS = 30.0
# After a push that was not taken: doubled every time, up to the longest.
_FIRST_PAUSE_SECONDS = 1.0
_MAX_PAUSE_SECONDS = 300.0
# Also looks without being told: a pause or a retention may have ended, an inbox may have moved.
_LOOK_SECONDS = 1.0
# After a release: a researcher who waits on a call has the answer by then, and it need not be pushed.
_COLLECT_SECONDS = 0.05
# After these, the inbox is silent: the next answer would only wait as long again.
_NOBODY_THERE = frozenset({"PEER_UNAVAILABLE", "CERTIFICATE_EXPIRED"})


@dataclass(frozen=True, slots=True)
class _Visit:
    """The pushes to one researcher that are under way."""

    peer: Peer
    task: asyncio.Task[None]


@dataclass(frozen=True, slots=True)
class _Pause:
    """After pushes that failed: when the researcher is visited again, unless an answer or an address is new."""

    peer: Peer
    queries: frozenset[str]
    due: float
    seconds: float


class Serving(Protocol):
    """The parts of the node that a courier needs."""

    journal: Journal[CensusState]
    released: ReleasedAnswers
    clock: Clock

    def on_out(self, notify: Callable[[str], object]) -> None:
        """Call `notify` with the query of every answer that is let out."""

    def forget_expired(self) -> None:
        """Remove what has been kept long enough."""


class Courier:
    """One task per node: `run` until cancelled."""

    def __init__(
        self,
        node: Serving,
        inboxes: Callable[[], Mapping[str, Peer]],
        tls: Callable[[], TlsCredentials],
        limits: LimitConfig,
    ) -> None:
        """`inboxes` gives the inboxes as they are registered now, by researcher."""
        self._node = node
        self._inboxes = inboxes
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._places = asyncio.Semaphore(limits.max_pushes)
        self._visits: dict[str, _Visit] = {}
        self._pauses: dict[str, _Pause] = {}
        node.on_out(lambda _: self._loop.call_soon_threadsafe(self._wake.set))

    async def run(self) -> None:
        """Push what is released and remove what has expired, for as long as the node serves.

        Raises:
            BrokerError: our own store failed; no inbox can bring this about.
        """
        forgetting = asyncio.create_task(self._forget())
        forgetting.add_done_callback(lambda _: self._wake.set())
        try:
            while not forgetting.done():
                self._wake.clear()
                try:
                    await self._look()
                except BrokerError as error:
                    if error.stops_node:
                        raise
                    # Another process holds the journal, for a backup perhaps.
                    _log.info("nothing delivered for now", code=error.code)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), _LOOK_SECONDS)
                    await asyncio.sleep(_COLLECT_SECONDS)
            # Raises what our own store said.
            forgetting.result()
        finally:
            tasks = [forgetting, *(visit.task for visit in self._visits.values())]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _forget(self) -> None:
        """Remove what has been kept long enough, again and again."""
        while True:
            try:
                await asyncio.to_thread(self._node.forget_expired)
            except BrokerError as error:
                if error.stops_node:
                    raise
                _log.info("nothing removed for now", code=error.code)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _look(self) -> None:
        """Begin the visits that are due, and end those that have come to the wrong place."""
        for researcher in [name for name, visit in self._visits.items() if visit.task.done()]:
            visit = self._visits.pop(researcher)
            if not visit.task.cancelled():
                # Raises what our own store said.
                visit.task.result()
        inboxes = await self._node.journal.glance(self._inboxes)
        for researcher, visit in self._visits.items():
            if inboxes.get(researcher) != visit.peer:
                visit.task.cancel()
        if not inboxes:
            return
        # In a thread: it looks at every answer that nobody has fetched, and everybody waits for the loop.
        waiting = await asyncio.to_thread(self._node.released.undelivered, inboxes.keys())
        self._pauses = {name: pause for name, pause in self._pauses.items() if name in waiting}
        for researcher, queries in waiting.items():
            peer = inboxes[researcher]
            if researcher not in self._visits and self._is_due(researcher, peer, queries):
                task = asyncio.create_task(self._visit(researcher, peer, queries))
                self._visits[researcher] = _Visit(peer, task)

    def _is_due(self, researcher: str, peer: Peer, queries: Sequence[str]) -> bool:
        pause = self._pauses.get(researcher)
        return (
            pause is None
            or self._loop.time() >= pause.due
            or peer != pause.peer
            or not pause.queries.issuperset(queries)
        )

    async def _visit(self, researcher: str, peer: Peer, queries: Sequence[str]) -> None:
        """Push what waits for one researcher; whatever goes wrong there is a reason for a pause and for nothing else."""
        async with self._places:
            try:
                code = await self._push_in_turn(researcher, peer, queries)
            except BrokerError:
                # Said by our own store.
                raise
            except Exception as error:  # noqa: BLE001 - SECURITY: nothing that an inbox does may stop the node
                log_unforeseen(error, researcher=researcher)
                code = "INTERNAL"
        before = self._pauses.pop(researcher, None)
        if code:
            seconds = _FIRST_PAUSE_SECONDS
            if before is not None and before.peer == peer:
                seconds = min(2 * before.seconds, _MAX_PAUSE_SECONDS)
            self._pauses[researcher] = _Pause(peer, frozenset(queries), self._loop.time() + seconds, seconds)
            _log.info("inbox did not take an answer", researcher=researcher, code=code, retry_seconds=seconds)

    async def _push_in_turn(self, researcher: str, peer: Peer, queries: Sequence[str]) -> str:
        """One after the other, over one channel; gives the code of the last failure, or nothing if there was none."""
        failure, until = "", self._loop.time() + _VISIT_SECONDS
        try:
            opening = open_channel(peer, await asyncio.to_thread(self._tls), self._node.clock)
        except BrokerError as error:
            return error.code
        async with opening as channel:
            inbox = inbox_service_pb2_grpc.InboxServiceStub(channel)
            for query in queries:
                if failure in _NOBODY_THERE or self._loop.time() > until:
                    break
                if (await self._node.journal.glance(self._inboxes)).get(researcher) != peer:
                    break
                answer = await asyncio.to_thread(self._node.released.waiting_answer, query)
                if answer is not None:
                    # An answer that is refused for what it is keeps the next one waiting no longer than this.
                    failure = await self._push(inbox, answer) or failure
        return failure

    async def _push(self, inbox: inbox_service_pb2_grpc.InboxServiceAsyncStub, answer: WaitingAnswer) -> str:
        """Hand one answer over and log it; gives the code of what went wrong, if anything did."""
        sealed = answer_pb2.SealedAnswer(query_id=bytes.fromhex(answer.query), sealed=answer.sealed)
        request = inbox_service_pb2.DeliverRequest(answer=sealed)
        try:
            await calling("researcher", inbox.Deliver(request, timeout=_TIMEOUT_SECONDS))
        except BrokerError as error:
            return error.code
        # CRASH: the inbox has it and the log does not say so; it is delivered again, and kept once.
        try:
            await asyncio.to_thread(self._node.released.delivered, answer.ticket_hash, "inbox")
        except BrokerError as error:
            # Our own store; but the journal may be held by another process, or the answer removed meanwhile.
            if error.stops_node:
                raise
            return error.code
        return ""
