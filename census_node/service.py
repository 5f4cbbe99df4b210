"""The census node's RPCs: wire messages in, wire messages out. `query` decides, in which order and when.

A query goes on to its release whatever becomes of the connection that brought it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any, ParamSpec, TypeVar

import structlog
from grpc.aio import ServicerContext
from tripartite.v1 import answer_pb2, census_service_pb2, census_service_pb2_grpc, sample_pb2

from broker_common.crypto.sample_bits import PART_BYTES, SealedSample, part_count
from broker_common.errors import BrokerError, InvalidRequestError, PeerUnavailableError
from broker_common.logs import log_unforeseen
from broker_common.monitoring import Monitor
from broker_common.privacy.delays import desk_batch
from broker_common.privacy.policy import Policy
from broker_common.query.messages import parse_message
from broker_common.rpc.callers import caller
from broker_common.rpc.channel import PROCEED
from broker_common.rpc.news import News, NewsOf
from broker_common.rpc.server import StopSignal
from broker_common.rpc.signed_documents import adoption_to_wire, parts_of
from broker_common.storage.journal import Checkpointed
from broker_common.storage.writing import Writer
from broker_common.tracing import Report, recording
from census_node.config import LimitConfig
from census_node.node import CensusNode
from census_node.query.admission import Arrived, BrokenOff, Recovered, SampleAttempt
from census_node.query.desk import Desk
from census_node.query.flow import answer_query
from census_node.query.quoting import QuoteRate
from census_node.query.schedule import Schedule, schedule_of
from census_node.query.streams import Streams
from census_node.roster_rounds import RosterRounds

_log = structlog.get_logger()
Context = ServicerContext[object, object]
ParametersT = ParamSpec("ParametersT")
ResultT = TypeVar("ResultT")
# Before a stop: for queries under way to come to a durable step.
_DRAIN_SECONDS = 3.0
# Releases that one round takes, beside its samples; they are small.
_MOST_RELEASES = 64


class _Call:
    """The callers of one query, and what they are told: the charge, then the release, or what ended it."""

    def __init__(self, on_outcome: Callable[[], object]) -> None:
        """`on_outcome` is called when the sample has had its outcome; once more does no harm."""
        loop = asyncio.get_running_loop()
        self.proof: asyncio.Future[Checkpointed] = loop.create_future()
        self.release: asyncio.Future[None] = loop.create_future()
        self._on_outcome = on_outcome

    def charged(self, proof: Checkpointed) -> None:
        self._on_outcome()
        self.proof.set_result(proof)

    def released(self) -> None:
        self.release.set_result(None)

    def failed(self, error: Exception) -> None:
        """Tell the waiting callers of the failure."""
        self._on_outcome()
        for future in (self.proof, self.release):
            if not future.done():
                future.set_exception(error)
                # Marks the exception as seen: the connection may be long gone.
                future.exception()


class CensusService(census_service_pb2_grpc.CensusServiceServicer):
    """tripartite.v1.CensusService."""

    def __init__(
        self,
        node: CensusNode,
        limits: LimitConfig,
        stop: StopSignal,
        report_spans: Report | None = None,
        *,
        people: int,
        monitor: Monitor | None = None,
    ) -> None:
        """`people` are declared for the registry: how much a round may do follows from them."""
        self._people = people
        self._loop = asyncio.get_running_loop()
        self._node = node
        self._writer = Writer(node.journal)
        self._limits = limits
        self._stop = stop
        self._report_spans = report_spans
        self._monitor = Monitor("census", node.clock) if monitor is None else monitor
        self._streams = Streams(most=limits.max_queries, deadline_ms=limits.sample_deadline_ms)
        self._parts = node.parts()
        self._desk = Desk(self._schedule, most_releases=_MOST_RELEASES, clock=node.clock, stop_node=stop.stop)
        self._quote_rate = QuoteRate(limits.quotes_per_minute, limits.quote_burst, self._loop.time)
        # However many quotes are asked for, they leave the threads that charges and releases need alone.
        self._quoters = ThreadPoolExecutor(1, "quotes")
        self._committer = ThreadPoolExecutor(1, "slots")
        # The batch of noise slots that is being committed to.
        self._batch: asyncio.Future[None] | None = None
        # Tasks are held here because the event loop itself holds them weakly.
        self._queries: set[asyncio.Task[None]] = set()
        # Each caller waits for the release of its own answer: many wait at once.
        self._out = NewsOf()
        node.on_out(self._out.tell)
        stop.on_stop(self._out.tell_all)
        # A caller without a noise slot waits for the next cosignature, whatever it covers, and looks again.
        self._cosigned = News()
        node.publication.on_news(self._cosigned.tell)
        stop.on_stop(self._cosigned.tell)
        # Received and joined beside the questions, which never wait for them.
        self._rosters = RosterRounds(
            node.rosters,
            limits,
            desk=self._desk,
            schedule=self._schedule,
            policy=lambda: node.in_force().policy,
            publication=node.publication,
            clock=node.clock,
        )

    def _schedule(self) -> Schedule:
        # As of the last transaction or reading: a round begins by looking at the journal.
        policy = self._node.journal.state.policy
        return schedule_of(policy, batch=self._batch_of, clock=self._node.clock, alert=self._overrun)

    def _batch_of(self, policy: Policy) -> int:
        return desk_batch(policy.release_tick_ms, self._people, policy.subject)

    def _overrun(self) -> None:
        self._monitor.missed_tick()
        _log.warning("the work of a round took longer than a tick")

    async def run(self) -> None:
        """Work at the desk, and put rosters in force, for as long as the node serves."""
        desk = asyncio.create_task(self._desk.run())
        rosters = asyncio.create_task(self._rosters.run())
        try:
            await asyncio.wait({desk, rosters}, return_when=asyncio.FIRST_COMPLETED)
            if rosters.done():
                rosters.result()
            await asyncio.shield(desk)
        finally:
            rosters.cancel()
            self._desk.stop()
            await asyncio.gather(desk, rosters, return_exceptions=True)

    # --- what may be asked -----------------------------------------------------------------------------------------

    async def GetPolicy(
        self, request: census_service_pb2.GetPolicyRequest, context: Context
    ) -> census_service_pb2.GetPolicyResponse:
        del request, context
        return census_service_pb2.GetPolicyResponse(policy=await self._node.journal.glance(self._node.signed_policy))

    async def GetDictionary(
        self, request: census_service_pb2.CensusServiceGetDictionaryRequest, context: Context
    ) -> AsyncIterator[census_service_pb2.CensusServiceGetDictionaryResponse]:
        del context
        adoption, document, release = await asyncio.to_thread(self._node.dictionary_to_publish, request.known)
        yield census_service_pb2.CensusServiceGetDictionaryResponse(
            adoption=adoption_to_wire(adoption), census_release=release
        )
        for part in parts_of(document):
            yield census_service_pb2.CensusServiceGetDictionaryResponse(part=part)

    async def Quote(
        self, request: census_service_pb2.QuoteRequest, context: Context
    ) -> census_service_pb2.QuoteResponse:
        del context
        # Before anything is looked up: a researcher who asks too often makes no work.
        self._quote_rate.take(caller().name)
        return await self._quoted(request, caller().name)

    async def _glance(
        self, look: Callable[ParametersT, ResultT], /, *args: ParametersT.args, **kwargs: ParametersT.kwargs
    ) -> ResultT:
        """A glance for a quote, which waits for the journal among quotes alone."""
        return await self._node.journal.glance_in(self._quoters, look, *args, **kwargs)

    async def _quoted(
        self, request: census_service_pb2.QuoteRequest, researcher: str
    ) -> census_service_pb2.QuoteResponse:
        """A quote, as soon as there is a cosigned slot for it.

        Raises:
            PeerUnavailableError: NOT_WITNESSED, none was within the time that a quote may wait.
            BrokerError: what may not be asked, or no further slots can be committed to.
        """
        deadline = self._loop.time() + self._limits.quote_wait_ms / 1000
        while True:
            news = self._cosigned.next()
            quote = await self._glance(self._node.quotes.quote, request.question, request.scale, researcher)
            batch = self._next_batch()
            if quote is not None:
                return quote
            left = deadline - self._loop.time()
            if left <= 0 or self._stop.is_set:
                raise PeerUnavailableError("NOT_WITNESSED")
            if batch is not None:
                await asyncio.wait([news, batch], timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if batch.done():
                    batch.result()
            else:
                await asyncio.wait([news], timeout=left)

    def _next_batch(self) -> asyncio.Future[None] | None:
        """The batch of slots that is being committed to; begun here if one is due. Nobody waits for it who has a slot."""
        if self._batch is None and self._node.slots.is_low:
            self._batch = self._loop.run_in_executor(self._committer, self._node.commit_slots)
            self._batch.add_done_callback(self._end_batch)
        return self._batch

    def _end_batch(self, batch: asyncio.Future[None]) -> None:
        self._batch = None
        error = None if batch.cancelled() else batch.exception()
        if isinstance(error, BrokerError) and error.stops_node:
            self._stop.stop(error)
        elif error is not None and not isinstance(error, BrokerError):
            log_unforeseen(error)

    # --- one sample in, one charge out -----------------------------------------------------------------------------

    async def Count(
        self, requests: AsyncIterator[census_service_pb2.CountRequest], context: Context
    ) -> AsyncIterator[census_service_pb2.CountResponse]:
        del context
        # Without a policy in force nobody knows when anything may be said: it is said at once.
        await self._node.journal.glance(self._node.in_force)
        call = self._begin(requests, caller().organisation)
        proof = await asyncio.shield(call.proof)
        yield census_service_pb2.CountResponse(
            charged=sample_pb2.Charged(
                checkpoint=proof.note, log_index=proof.index, inclusion_proof=proof.proof, entry=proof.entry
            )
        )
        await asyncio.wait({call.release}, timeout=self._limits.cosignature_wait_ms / 1000)
        if not call.release.done():
            # When its agency cosigns, the answer goes out.
            raise PeerUnavailableError("NOT_WITNESSED")
        call.release.result()
        yield census_service_pb2.CountResponse(released=sample_pb2.Released())

    def _begin(self, requests: AsyncIterator[census_service_pb2.CountRequest], agency: str) -> _Call:
        """Begin a query, which goes on whatever becomes of its connection.

        Raises:
            RefusedError: BUSY, the agency has all of its streams.
        """
        stream = ExitStack()
        stream.enter_context(self._streams.held(agency))
        call = _Call(stream.close)
        self._start(self._received(requests, agency), call)
        return call

    def _start(self, attempt: Coroutine[Any, Any, SampleAttempt], call: _Call) -> None:
        query = asyncio.create_task(self._bring_to_release(attempt, call))
        self._queries.add(query)
        query.add_done_callback(self._end)
        self._monitor.in_hand(len(self._queries))

    def _end(self, query: asyncio.Task[None]) -> None:
        self._queries.discard(query)
        self._monitor.in_hand(len(self._queries))

    async def _bring_to_release(self, attempt: Coroutine[Any, Any, SampleAttempt], call: _Call) -> None:
        try:
            with recording(self._report_spans):
                started_ms = self._node.clock()
                await answer_query(self._parts, self._desk, await attempt, call)
            self._monitor.answered((self._node.clock() - started_ms) / 1000)
            _log.info("answered")
        except BrokerError as error:
            if error.stops_node:
                self._stop.stop(error)
            call.failed(error)
        except Exception as error:  # noqa: BLE001 - handed to the caller's handler, which says INTERNAL
            log_unforeseen(error)
            call.failed(error)
        finally:
            # Also of a query that was cancelled, with its connection or with the node: it holds its stream no longer.
            call.failed(PeerUnavailableError("PEER_UNAVAILABLE", peer="census"))

    async def _received(self, requests: AsyncIterator[census_service_pb2.CountRequest], agency: str) -> SampleAttempt:
        """A sample that has come whole; or why it has not, which is told when anything else would be."""
        refusing = None
        try:
            head = await self._read_head(requests)
            refusing = self._node.refusing(agency, head)
            manifest = parse_message(sample_pb2.Manifest, head.manifest.manifest)
            declared = await self._node.journal.glance(self._node.rosters.declared, agency, manifest.roster)
            size = part_count(declared) * PART_BYTES
            bits = memoryview(await self._streams.received(_parts(requests), size=size, part_size=PART_BYTES))
        except Exception as error:  # noqa: BLE001 - raised again at its instant
            return BrokenOff(agency, error, refusing)
        parts = [bits[start : start + PART_BYTES] for start in range(0, size, PART_BYTES)]
        arrived = Arrived(head.ticket, head.manifest, SealedSample(head.sealed_head, parts))
        return self._node.attempt(agency, arrived, refusing)

    async def _read_head(self, requests: AsyncIterator[census_service_pb2.CountRequest]) -> sample_pb2.SampleHead:
        try:
            async with asyncio.timeout(self._limits.header_deadline_ms / 1000):
                first = await anext(requests, None)
        except TimeoutError as error:
            raise PeerUnavailableError("PEER_UNAVAILABLE", peer="health") from error
        if first is None or first.WhichOneof("part") != "head":
            raise InvalidRequestError("MALFORMED_MESSAGE", problem="the sample does not begin with its head")
        return first.head

    # --- rosters ---------------------------------------------------------------------------------------------------

    async def SendRoster(
        self, requests: AsyncIterator[census_service_pb2.SendRosterRequest], context: Context
    ) -> census_service_pb2.SendRosterResponse:
        await self._rosters.receive(requests, caller(), partial(context.send_initial_metadata, (PROCEED,)))
        return census_service_pb2.SendRosterResponse()

    # --- the answer to its researcher ------------------------------------------------------------------------------

    async def Collect(
        self, request: census_service_pb2.CollectRequest, context: Context
    ) -> census_service_pb2.CollectResponse:
        del context
        query, researcher = request.query_id.hex(), caller().name
        wait_ms = min(request.wait_ms, self._limits.collect_wait_ms)
        deadline = self._loop.time() + wait_ms / 1000
        while True:
            news = self._out.next(query)
            answer = await self._node.journal.glance(self._node.released.released_answer, query, researcher)
            left = deadline - self._loop.time()
            if answer is not None or left <= 0 or self._stop.is_set:
                break
            await asyncio.wait([news], timeout=left)
        if answer is None:
            return census_service_pb2.CollectResponse()
        await self._writer.write(self._node.released.delivered, answer.ticket_hash, "collect")
        return census_service_pb2.CollectResponse(
            answer=answer_pb2.SealedAnswer(query_id=request.query_id, sealed=answer.sealed)
        )

    async def drain(self) -> None:
        """Before a stop: let queries that are under way be released, or at least come to a durable step."""
        self._node.stopping.set()
        waiting: set[asyncio.Future[Any]] = {*self._queries}
        if self._batch is not None:
            waiting.add(self._batch)
        if waiting:
            await asyncio.wait(waiting, timeout=_DRAIN_SECONDS)
        for query in self._queries:
            # Taken up at the next start.
            query.cancel()

    def go_on_with(self, recovered: Sequence[Recovered]) -> None:
        """After a start: what was charged before goes out, once it is cosigned."""
        for attempt in recovered:
            self._start(_at_once(attempt), _Call(lambda: None))


async def _at_once(attempt: SampleAttempt) -> SampleAttempt:
    return attempt


async def _parts(requests: AsyncIterator[census_service_pb2.CountRequest]) -> AsyncIterator[bytes]:
    async for request in requests:
        if request.WhichOneof("part") != "bits":
            raise InvalidRequestError("MALFORMED_MESSAGE", problem="a part of the sample is out of order")
        yield request.bits
