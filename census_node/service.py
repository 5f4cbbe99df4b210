"""The census node's RPCs: wire messages in, wire messages out, and the fixed instants between them.

What is decided, and in which order, stands in `admission`, `charging` and `node`; here is only who hears of it, and when.
A query goes on to its release whatever becomes of the connection that brought it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, TypeVar

from grpc.aio import ServicerContext
from tripartite.v1 import answer_pb2, census_service_pb2, census_service_pb2_grpc, sample_pb2, ticket_pb2

from broker_common.crypto.certificates import Identity
from broker_common.errors import BrokerError, InvalidRequestError, PeerUnavailableError, RefusedError
from broker_common.privacy.accounting import price_units
from broker_common.privacy.discrete_laplace import margin
from broker_common.privacy.policy import Policy
from broker_common.query.question import question_from_wire
from broker_common.rpc.callers import caller
from broker_common.rpc.news import News, NewsOf
from broker_common.rpc.server import StopSignal, log_unforeseen
from broker_common.stages import Report, recording
from broker_common.storage.journal import Checkpointed
from broker_common.tlog.note import parse_note
from census_node.admission import Admission, AdmittedSample, scales_text
from census_node.charging import Decided, Kept, quotable_answers
from census_node.config import LimitConfig
from census_node.dictionary import CENSUS_DICTIONARY
from census_node.linking import LinkedSample, Linking
from census_node.node import CensusNode
from census_node.quote_rate import QuoteRate
from census_node.receiving import Reception
from census_node.slots import OfferedSlot
from census_node.timing import ChargeTurns, charge_time, is_late, next_tick, outcome_time, sleep_until, sleep_until_tick

__all__ = ["CensusService"]

Context = ServicerContext[object, object]
ParametersT = ParamSpec("ParametersT")
ResultT = TypeVar("ResultT")
# Before a stop: for queries under way to come to a durable step.
_DRAIN_SECONDS = 3.0
# What BUSY says; the health node tries again by itself.
_RETRY_SECONDS = 1
# Without ticks: for an answer that is out to be fetched.
_ASIDE_SECONDS = 0.05
# Threads for the linking of all samples.
_LINKERS = 2


@dataclass(slots=True)
class _Walk:
    """One query on its way: what it came with, and what becomes of it.

    The three futures are set in this order, or fail together with the query.
    """

    header: sample_pb2.SampleHeader
    requests: AsyncIterator[census_service_pb2.CountRequest]
    sender: Identity
    policy: Policy
    header_ms: int
    proceed: asyncio.Future[None]
    charged: asyncio.Future[Checkpointed]
    released: asyncio.Future[None]
    # Hash of the ticket while its slot and price are held; empty before.
    held: str = ""
    # When its charge is to be made, where charges have turns; 0 before its header is accepted.
    turn_ms: int = 0
    # Of its sample, as far as it has come and while it may be in memory.
    sample_bytes: int = 0

    @property
    def has_turn(self) -> bool:
        return self.policy.accounting == "per_person" and self.policy.release_tick_ms > 0


class CensusService(census_service_pb2_grpc.CensusServiceServicer):
    """tripartite.v1.CensusService."""

    def __init__(
        self, node: CensusNode, limits: LimitConfig, stop: StopSignal, report_stages: Report | None = None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._node = node
        self._limits = limits
        self._stop = stop
        self._report_stages = report_stages
        # By health agency, so that none can keep another one out; so are the bytes of samples in memory.
        self._places: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(limits.max_queries))
        self._sample_bytes: Counter[str] = Counter()
        self._linkers = ThreadPoolExecutor(_LINKERS, "linking")
        self._quote_rate = QuoteRate(limits.quotes_per_minute, limits.quote_burst, self._loop.time)
        # However many quotes are asked for, they leave the threads that charges and releases need alone.
        self._quoters = ThreadPoolExecutor(1, "quotes")
        self._committer = ThreadPoolExecutor(1, "slots")
        # The batch of noise slots that is being committed to.
        self._batch: asyncio.Future[None] | None = None
        # Tasks are held here because the event loop itself holds them weakly.
        self._walks: set[asyncio.Task[None]] = set()
        # Refused samples of which something is still being linked, and ledgers that are brought up to date.
        self._aside: set[asyncio.Task[None]] = set()
        # By ticket: charged answers on their way out, which wait for a cosignature and then for a tick.
        self._releases: dict[str, asyncio.Task[None]] = {}
        # Whoever waits for an answer waits for its release, and not for anybody else's: many wait at once.
        self._released = NewsOf()
        node.on_release(self._released.tell)
        stop.on_stop(self._released.tell_all)
        # Whoever waits for a cosignature waits for the next one, whatever it covers, and looks again.
        self._cosigned = News()
        node.publication.on_news(self._cosigned.tell)
        stop.on_stop(self._cosigned.tell)
        # The same for whoever has decided who fits.
        self._charged = News()
        node.on_charge(self._charged.tell)
        self._turns = ChargeTurns()

    # --- what may be asked -----------------------------------------------------------------------------------------

    async def GetPolicy(
        self, request: census_service_pb2.GetPolicyRequest, context: Context
    ) -> census_service_pb2.GetPolicyResponse:
        del request, context
        return census_service_pb2.GetPolicyResponse(policy=await self._node.journal.glance(self._node.signed_policy))

    async def GetDictionary(
        self, request: census_service_pb2.CensusServiceGetDictionaryRequest, context: Context
    ) -> census_service_pb2.CensusServiceGetDictionaryResponse:
        del request, context
        now = await self._node.journal.glance(self._node.in_force)
        return census_service_pb2.CensusServiceGetDictionaryResponse(
            dictionary=CENSUS_DICTIONARY.to_wire(), census_release=now.census_release
        )

    async def Quote(
        self, request: census_service_pb2.QuoteRequest, context: Context
    ) -> census_service_pb2.QuoteResponse:
        del context
        # Before anything is looked up: whoever asks too often makes no work.
        self._quote_rate.take(caller().name)
        policy, response = await self._glance(self._price, request, caller().name)
        # Last, so that nothing that is refused reserves a slot.
        offered, response.expires_ms = await self._offered_slot(caller().name, policy)
        slot, batch = offered.slot, offered.batch
        response.noise_slot.MergeFrom(
            ticket_pb2.NoiseSlot(number=slot.number, commitment=slot.commitment, checkpoint=slot.checkpoint)
        )
        response.slot_entry, response.slot_index = batch.entry, batch.index
        size = parse_note(slot.checkpoint)[0].size
        response.slot_proof.extend(await self._glance(self._node.journal.inclusion_proof, batch.index, size))
        return response

    async def _glance(
        self, look: Callable[ParametersT, ResultT], /, *args: ParametersT.args, **kwargs: ParametersT.kwargs
    ) -> ResultT:
        """A glance for a quote, which waits for the journal among quotes alone."""
        return await self._node.journal.glance_in(self._quoters, look, *args, **kwargs)

    async def _offered_slot(self, researcher: str, policy: Policy) -> tuple[OfferedSlot, int]:
        """A slot for a quote, as soon as one is cosigned.

        Raises:
            PeerUnavailableError: NOT_WITNESSED, none was within the time that a quote may wait.
            BrokerError: no further slots can be committed to.
        """
        deadline = self._loop.time() + self._limits.quote_wait_ms / 1000
        while True:
            news = self._cosigned.next()
            offered = await self._glance(self._node.offer_slot, researcher, policy)
            batch = self._next_batch()
            if offered is not None:
                return offered
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

    def _price(
        self, request: census_service_pb2.QuoteRequest, researcher: str
    ) -> tuple[Policy, census_service_pb2.QuoteResponse]:
        """What an answer would cost, without a slot for it."""
        now = self._node.in_force()
        with self._node.journal.reading() as state:
            # Said before anything is said of the question: nothing will be answered any more.
            quotable_answers(state, now.policy, now.policy.scales[-1], lost=self._node.lost)
        self._node.verify_dictionary()
        question_from_wire(request.question, CENSUS_DICTIONARY)
        policy, scale = now.policy, request.scale
        if scale not in policy.scales:
            raise RefusedError("SCALE_REFUSED", scale=scale, scales=scales_text(policy.scales))
        with self._node.journal.reading() as state:
            remaining = quotable_answers(state, policy, scale, lost=self._node.lost)
        quota_left = self._node.quota_left(researcher)
        return policy, census_service_pb2.QuoteResponse(
            scale=scale,
            charged=price_units(scale),
            margin_95=margin(scale),
            remaining=remaining,
            quota=policy.quota or None,
            quota_left=quota_left,
            policy_hash=policy.hash,
            census_release=now.census_release,
        )

    # --- one sample in, one charge out -----------------------------------------------------------------------------

    async def Count(
        self, requests: AsyncIterator[census_service_pb2.CountRequest], context: Context
    ) -> AsyncIterator[census_service_pb2.CountResponse]:
        del context
        header_ms = self._node.clock()
        policy = (await self._node.journal.glance(self._node.in_force)).policy
        try:
            # Before the place: a stream that says nothing takes none, and one that is refused has been listened to.
            header = await self._read_header(requests)
            # Not when the stream was opened: a sample would be due before its header was due an answer.
            header_ms = self._node.clock()
            if self._stop.is_set:
                raise PeerUnavailableError("PEER_UNAVAILABLE", peer="census")
            places = self._places[caller().organisation]
            if places.locked():
                raise RefusedError("BUSY", retry_seconds=_RETRY_SECONDS)
        except BrokerError:
            due_ms = outcome_time(policy, header_ms=header_ms, received_ms=header_ms)
            await sleep_until_tick(policy, due_ms, self._node.clock)
            raise
        # The place is held until the release, so that how long a query takes shows in nobody's waiting.
        await places.acquire()
        future = self._loop.create_future
        walk = _Walk(header, requests, caller(), policy, header_ms, future(), future(), future())
        self._start(walk)
        await asyncio.shield(walk.proceed)
        yield census_service_pb2.CountResponse(proceed=sample_pb2.Proceed())
        charged = await asyncio.shield(walk.charged)
        yield census_service_pb2.CountResponse(
            charged=sample_pb2.Charged(
                checkpoint=charged.note, log_index=charged.index, inclusion_proof=charged.proof, entry=charged.entry
            )
        )
        await asyncio.shield(walk.released)
        yield census_service_pb2.CountResponse(released=sample_pb2.Released())

    async def _read_header(self, requests: AsyncIterator[census_service_pb2.CountRequest]) -> sample_pb2.SampleHeader:
        try:
            async with asyncio.timeout(self._limits.header_deadline_ms / 1000):
                first = await anext(requests, None)
        except TimeoutError as error:
            raise PeerUnavailableError("PEER_UNAVAILABLE", peer="health") from error
        if first is None or first.WhichOneof("part") != "header":
            raise InvalidRequestError("MALFORMED_MESSAGE", problem="the sample does not begin with its header")
        return first.header

    def _start(self, walk: _Walk) -> None:
        _hold(self._walks, self._bring_to_release(walk))

    async def _bring_to_release(self, walk: _Walk) -> None:
        try:
            with recording(self._report_stages):
                ticket_hash = await self._bring_to_charge(walk)
                await self._patiently_released(ticket_hash)
            walk.released.set_result(None)
            if not walk.policy.release_tick_ms:
                # Not before, and nobody waits for it: neither this answer nor who gets its place.
                _hold(self._aside, self._settle_aside())
        except BrokerError as error:
            if error.stops_node:
                self._stop.stop(error)
            _fail(walk, error)
        except Exception as error:  # noqa: BLE001 - handed to the caller's handler, which says INTERNAL and logs
            _fail(walk, error)
        finally:
            if walk.held:
                self._node.let_go(walk.held)
            self._let_go_of_sample(walk)
            self._places[walk.sender.organisation].release()

    async def _patiently_released(self, ticket_hash: str) -> None:
        """Return when the answer is out.

        Raises:
            PeerUnavailableError: NOT_WITNESSED, the health agency does not cosign; when it does, the answer goes out.
        """
        release = self._start_release(ticket_hash)
        await asyncio.wait({release}, timeout=self._limits.cosignature_wait_ms / 1000)
        if not release.done():
            raise PeerUnavailableError("NOT_WITNESSED")
        release.result()

    def _start_release(self, ticket_hash: str) -> asyncio.Task[None]:
        """The one task that releases a charged ticket."""
        release = self._releases.get(ticket_hash)
        if release is None:
            release = self._releases[ticket_hash] = asyncio.create_task(self._release(ticket_hash))
            release.add_done_callback(lambda done: self._end_release(ticket_hash, done))
        return release

    def _end_release(self, ticket_hash: str, done: asyncio.Task[None]) -> None:
        del self._releases[ticket_hash]
        error = None if done.cancelled() else done.exception()
        if isinstance(error, BrokerError) and error.stops_node:
            self._stop.stop(error)
        elif error is not None and not isinstance(error, BrokerError):
            log_unforeseen(error)

    async def _release(self, ticket_hash: str) -> None:
        """Wait for the cosignature of the charge, then for the first tick that is a full period later."""
        while not await self._released_when_cosigned(ticket_hash):
            # Its health agency was replaced in between: the cosignature of another one is waited for.
            continue

    async def _released_when_cosigned(self, ticket_hash: str) -> bool:
        """False where the cosignature that was waited for does not count any more."""
        while True:
            news = self._cosigned.next()
            if await self._node.journal.glance(self._node.cosigned_for, ticket_hash) is not None:
                break
            await asyncio.wait([news])
        policy = (await self._node.journal.glance(self._node.in_force)).policy
        await sleep_until_tick(policy, next_tick(policy, self._node.clock() + policy.release_tick_ms), self._node.clock)
        try:
            await asyncio.to_thread(self._node.release, ticket_hash)
        except PeerUnavailableError as error:
            if error.code != "NOT_WITNESSED":
                raise
            return False
        return True

    async def _bring_to_charge(self, walk: _Walk) -> str:
        """Receive, charge and answer, and show the log up to the charge; gives the ticket's hash.

        However it ends, it ends at a tick: refusals at the same one as charges.
        """
        clock = self._node.clock
        due_ms = walk.header_ms
        try:
            try:
                reception = await self._begin(walk)
                sample = await self._received(walk, reception)
            finally:
                # Half the delay after the turn, too: that of a sample which was early is not told before its time.
                received_ms = clock()
                # Also of one that is refused, or it would be told at another tick.
                if walk.turn_ms and is_late(walk.policy, header_ms=walk.header_ms, received_ms=received_ms):
                    walk.turn_ms = self._turns.take_late(walk.policy, received_ms)
                due_ms = outcome_time(
                    walk.policy, header_ms=walk.header_ms, received_ms=received_ms, turn_ms=walk.turn_ms
                )
            # From here on the query no longer depends on the connection.
            ticket_hash = sample.ticket.hash.hex()
            proof = await self._charged_and_answered(walk, sample, await reception.linked(sample))
            # Nobody holds any of it any more when the agency hears of the charge, and may send the next one.
            del sample, reception
            if walk.policy.release_tick_ms:
                # SECURITY: before the instant of the charge. Done after it, it would show in whoever comes next.
                await self._settle()
        finally:
            await sleep_until_tick(walk.policy, due_ms, clock)
        if walk.policy.release_tick_ms:
            await asyncio.to_thread(self._node.publish_charge, ticket_hash)
        # SECURITY: before the charge is told, at an instant of the policy; its agency may send another one as soon as it is.
        self._let_go_of_sample(walk)
        walk.charged.set_result(proof)
        return ticket_hash

    async def _settle_aside(self) -> None:
        """When the answer has left: bringing the ledgers up to date keeps everything else waiting for milliseconds at a time."""
        await asyncio.sleep(_ASIDE_SECONDS)
        await self._settle()

    async def _settle(self) -> None:
        """Bring the ledgers up to the charge; where that fails, whoever charges next begins from the rows."""
        await asyncio.to_thread(self._node.settle)

    async def _charged_and_answered(self, walk: _Walk, sample: AdmittedSample, linked: LinkedSample) -> Checkpointed:
        """Keep, decide, charge and answer; gives the proof of the charge, which the log shows where there are no ticks."""
        # At once, and begun first: writing the sample down leaves the processor to the decision on it.
        keeping = self._loop.run_in_executor(None, copy_context().run, self._node.keep, linked)
        try:
            decided = await self._wait_to_charge(walk, sample, linked, keeping)
        except BaseException:
            # No charge will name its file.
            await asyncio.to_thread(self._node.forget, await keeping)
            raise
        rows = await asyncio.to_thread(self._node.charge, sample, await keeping, decided)
        ticket_hash = sample.ticket.hash.hex()
        answering = asyncio.to_thread(self._node.answer_charged, ticket_hash, rows)
        if walk.policy.release_tick_ms:
            return await answering
        # With no instant to wait for, the log is shown and cosigned while the answer is made. Begun first: it takes longer, and
        # mostly waits for disks and for the other agency.
        _, proof = await asyncio.gather(asyncio.to_thread(self._node.publish_charge, ticket_hash), answering)
        return proof

    async def _wait_to_charge(
        self, walk: _Walk, sample: AdmittedSample, linked: LinkedSample, keeping: asyncio.Future[Kept]
    ) -> Decided | None:
        """Return when the charge of a sample is to be made and it is kept, with what has been decided by then."""
        clock, policy = self._node.clock, walk.policy
        while True:
            overtaken = self._charged.next()
            decided = await asyncio.to_thread(self._node.decide, sample, linked)
            await asyncio.wait({keeping})
            if not walk.has_turn:
                await sleep_until(charge_time(policy, header_ms=walk.header_ms, kept_ms=clock()), clock)
                return decided
            if clock() > walk.turn_ms:
                walk.turn_ms = self._turns.take_late(policy, clock())
            turn = asyncio.create_task(sleep_until(walk.turn_ms, clock))
            await asyncio.wait({turn, overtaken}, return_when=asyncio.FIRST_COMPLETED)
            if turn.done():
                return decided
            turn.cancel()

    async def _begin(self, walk: _Walk) -> Reception:
        """Admit the header, and say so."""
        # Outside the deadline: a hold whose admission was given up half way would never be let go.
        admission, linking = await asyncio.to_thread(self._begin_admission, walk)
        walk.held = admission.ticket_hash
        if walk.has_turn:
            walk.turn_ms = self._turns.take(walk.policy, walk.header_ms)
        walk.proceed.set_result(None)
        return Reception(admission, linking, self._linkers)

    async def _received(self, walk: _Walk, reception: Reception) -> AdmittedSample:
        """The sample, with every check made. What is still being linked of one that fails is not waited for."""
        try:
            async with asyncio.timeout(self._limits.sample_deadline_ms / 1000):
                return await reception.admitted(walk.requests, partial(self._hold, walk))
        except BaseException as error:
            _hold(self._aside, reception.stop())
            if isinstance(error, TimeoutError):
                # No verdict on the sample: a slow link must not make a refusal of a large one.
                raise PeerUnavailableError("PEER_UNAVAILABLE", peer="health") from error
            raise

    def _begin_admission(self, walk: _Walk) -> tuple[Admission, Linking]:
        linking = self._node.linking()
        return Admission(walk.header, walk.sender, self._node.gate()), linking

    def _hold(self, walk: _Walk, size: int) -> None:
        """Take so many more bytes of a sample into memory.

        Raises:
            RefusedError: BUSY. SECURITY: it depends on sizes of samples, which the agency knows that sent them; one whose
                researchers must not learn them sends fewer samples at once (`max_samples` of the health node).
        """
        agency = walk.sender.organisation
        if self._sample_bytes[agency] + size > self._limits.max_sample_bytes:
            raise RefusedError("BUSY", retry_seconds=_RETRY_SECONDS)
        walk.sample_bytes += size
        self._sample_bytes[agency] += size

    def _let_go_of_sample(self, walk: _Walk) -> None:
        self._sample_bytes[walk.sender.organisation] -= walk.sample_bytes
        walk.sample_bytes = 0

    # --- the answer to its researcher ------------------------------------------------------------------------------

    async def Collect(
        self, request: census_service_pb2.CollectRequest, context: Context
    ) -> census_service_pb2.CollectResponse:
        del context
        query, researcher = request.query_id.hex(), caller().name
        wait_ms = min(request.wait_ms, self._limits.collect_wait_ms)
        deadline = self._loop.time() + wait_ms / 1000
        while True:
            news = self._released.next(query)
            answer = await self._node.journal.glance(self._node.released_answer, query, researcher)
            left = deadline - self._loop.time()
            if answer is not None or left <= 0 or self._stop.is_set:
                break
            await asyncio.wait([news], timeout=left)
        if answer is None:
            return census_service_pb2.CollectResponse()
        await asyncio.to_thread(self._node.delivered, answer.ticket_hash, "collect")
        return census_service_pb2.CollectResponse(
            answer=answer_pb2.SealedAnswer(query_id=request.query_id, sealed=answer.sealed)
        )

    async def drain(self) -> None:
        """Before a stop: let queries that are under way be released, or at least come to a durable step."""
        self._node.stopping.set()
        if self._walks:
            await asyncio.wait(self._walks, timeout=_DRAIN_SECONDS)
        if self._batch is not None:
            await asyncio.wait({self._batch}, timeout=_DRAIN_SECONDS)
        for release in self._releases.values():
            # Taken up at the next start.
            release.cancel()

    def release_recovered(self, tickets: Sequence[str]) -> None:
        """After a start: what was answered before or while starting goes out, once its charge is cosigned."""
        for ticket_hash in tickets:
            self._start_release(ticket_hash)


def _hold(tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
    """Begin some work, and hold its task until it is done."""
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)


def _fail(walk: _Walk, error: Exception) -> None:
    """Give the failure to whoever still waits; log it if it is a bug and nobody does."""
    for future in (walk.proceed, walk.charged, walk.released):
        if not future.done():
            future.set_exception(error)
            # Marks the exception as seen: the connection may be long gone.
            future.exception()
    if not isinstance(error, BrokerError):
        log_unforeseen(error)
