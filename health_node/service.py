"""The health node's RPCs: takes a question, walks it to the census node, and tells the researcher how far it is.

What a researcher sees changes at fixed times only. A question is durable before it waits for anything. It waits for a place
for its sample (`line`); the sample is drawn and committed to; and a fixed delay after the question had its place, however
large the sample is, it leaves. Everything after that happens at the census node's ticks. No message carries a size.
A question goes on to its end whatever becomes of the connection that brought it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import structlog
from grpc.aio import AioRpcError, ServicerContext, StreamStreamCall
from tripartite.v1 import census_service_pb2, health_service_pb2, health_service_pb2_grpc, sample_pb2

from broker_common.crypto.signing import SigningKey
from broker_common.errors import BrokerError, InternalError, InvalidRequestError, PeerUnavailableError
from broker_common.privacy.policy import Policy
from broker_common.query.messages import refuse_unknown_fields
from broker_common.query.ticket import VerifiedTicket
from broker_common.rpc.callers import caller
from broker_common.rpc.server import StopSignal, log_unforeseen
from broker_common.rpc.status import broker_error
from broker_common.stages import Report, recording, stage
from broker_common.values import Randomness
from health_node import texts
from health_node.census_link import CensusLink, CensusNow, fetch_policy
from health_node.config import LimitConfig
from health_node.dictionary import HEALTH_DICTIONARY
from health_node.forwarding import Attempt, Sample, Sender, make_manifest, verify_charged
from health_node.line import Line, Spot
from health_node.node import Accepted, HealthNode

__all__ = ["HealthService"]

_log = structlog.get_logger()
Context = ServicerContext[object, object]
CountCall = StreamStreamCall[census_service_pb2.CountRequest, census_service_pb2.CountResponse]
ResultT = TypeVar("ResultT")
# Before a stop: for questions under way to come to their end, or at least to a durable step.
_DRAIN_SECONDS = 3.0
# Who has waited goes on at the next of so many parts of a tick.
_PARTS_OF_A_TICK = 4
# Between attempts: doubled every time, up to the longest.
_FIRST_BACKOFF_SECONDS = 0.2
_MAX_BACKOFF_SECONDS = 5.0
# A census node that says one of these will take the same ticket later.
_RETRIED = frozenset({"BUSY", "PEER_FAILED", "PEER_UNAVAILABLE"})
# What is heard of a key that one of the agencies has not heard of yet.
_OF_A_KEY = frozenset({"BAD_SIGNATURE", "PEER_MISBEHAVED", "SEALED_WRONGLY", "UNKNOWN_KEY"})


class _Walk:
    """How far one question has come. Any number of connections may watch."""

    def __init__(self) -> None:
        self._stages: list[health_service_pb2.Stage.ValueType] = []
        self._error: BrokerError | None = None
        self._done = False
        self._changed = asyncio.Condition()

    async def reach(self, stage: health_service_pb2.Stage.ValueType) -> None:
        async with self._changed:
            # A second attempt goes through stages that were reached before.
            if stage not in self._stages:
                self._stages.append(stage)
                self._changed.notify_all()

    async def end(self, error: BrokerError | None = None) -> None:
        async with self._changed:
            self._error, self._done = error, True
            self._changed.notify_all()

    async def watch(self) -> AsyncIterator[health_service_pb2.Stage.ValueType]:
        """Every stage, past and to come; raises the error that ended the walk, if one did."""
        seen = 0
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: self._done or len(self._stages) > seen)  # noqa: B023 - awaited here
                new, self_done = self._stages[seen:], self._done
            for reached in new:
                seen += 1
                yield reached
            if self_done and seen == len(self._stages):
                if self._error is not None:
                    raise self._error
                return


@dataclass(frozen=True, slots=True)
class _Ready:
    """A sample that may leave: our log says that it does."""

    sample: Sample
    set_commitment: bytes
    manifest: sample_pb2.SignedManifest


@dataclass(slots=True)
class _Question:
    """One accepted ticket on its way to the census node."""

    accepted: Accepted
    walk: _Walk
    spot: Spot
    # Of the time at which it was submitted; not known of a question that goes on after a start.
    policy: Policy | None
    # None as soon as it is not the submission that the delay counts from.
    submitted_ms: int | None
    # Kept for the next attempt until the charge is told.
    ready: _Ready | None = None


class HealthService(health_service_pb2_grpc.HealthServiceServicer):
    """tripartite.v1.HealthService."""

    def __init__(
        self,
        node: HealthNode,
        *,
        census: CensusLink,
        manifest_key: Callable[[], SigningKey],
        randomness: Randomness,
        limits: LimitConfig,
        stop: StopSignal,
        report_stages: Report | None = None,
    ) -> None:
        self._node = node
        self._report_stages = report_stages
        self._census = census
        self._manifest_key = manifest_key
        self._randomness = randomness
        self._limits = limits
        self._stop = stop
        self._policy: Policy | None = None
        self._line = Line(limits)
        stop.on_stop(self._line.close)
        # One cohort at a time: two at once would slow each other down by how large they are.
        self._drawing = asyncio.Lock()
        self._walks: dict[str, _Walk] = {}
        # Tasks are held here because the event loop itself holds them weakly.
        self._tasks: set[asyncio.Task[None]] = set()

    # --- RPCs ------------------------------------------------------------------------------------------------------

    async def GetDictionary(
        self, request: health_service_pb2.HealthServiceGetDictionaryRequest, context: Context
    ) -> health_service_pb2.HealthServiceGetDictionaryResponse:
        del request, context
        return health_service_pb2.HealthServiceGetDictionaryResponse(dictionary=HEALTH_DICTIONARY.to_wire())

    async def Submit(
        self, request: health_service_pb2.SubmitRequest, context: Context
    ) -> AsyncIterator[health_service_pb2.SubmitResponse]:
        del context
        submitted_ms = self._node.clock()
        ticket, policy = await self._verify(request, caller().name)
        walk = self._walks.get(ticket.hash.hex())
        if walk is None:
            spot = self._line.join(ticket.body.researcher_id)
            walk = self._start(
                ticket.hash.hex(),
                lambda: self._node.accept(request, ticket),
                spot,
                policy=policy,
                submitted_ms=submitted_ms,
            )
        async for reached in walk.watch():
            yield health_service_pb2.SubmitResponse(stage=reached)

    # --- the policy in force ---------------------------------------------------------------------------------------

    async def _verify(
        self, request: health_service_pb2.SubmitRequest, researcher: str
    ) -> tuple[VerifiedTicket, Policy]:
        """The ticket, checked under the policy in force; one that names another policy may have seen a newer one."""
        if self._policy is not None:
            try:
                return await asyncio.to_thread(self._node.verify, request, researcher, self._policy), self._policy
            except InvalidRequestError as error:
                if error.code != "POLICY_MISMATCH":
                    raise
        policy = self._policy = await self._knowing_cards(self._fetch_policy)
        return await asyncio.to_thread(self._node.verify, request, researcher, policy), policy

    async def _fetch_policy(self) -> Policy:
        try:
            return await fetch_policy(await self._census.now(), wait_for_ready=True)
        except InvalidRequestError as error:
            raise _for_researcher(error) from error

    # --- the walk --------------------------------------------------------------------------------------------------

    async def recover(self) -> None:
        """After a start: go on with every ticket that was accepted and is not at its end, in turns like everybody."""
        for ticket_hash in await asyncio.to_thread(self._node.unfinished):
            researcher = await asyncio.to_thread(self._node.researcher_of, ticket_hash)
            if ticket_hash not in self._walks:
                spot = self._line.join(researcher, recovered=True)
                self._start(ticket_hash, partial(self._node.resume, ticket_hash), spot)

    async def drain(self) -> None:
        """Before a stop: let questions whose turn has come get to their end. What waits has been told to end, and is durable."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_DRAIN_SECONDS)

    def _start(
        self,
        ticket_hash: str,
        accept: Callable[[], Accepted],
        spot: Spot,
        *,
        policy: Policy | None = None,
        submitted_ms: int | None = None,
    ) -> _Walk:
        """Start the walk of a ticket. It is known at once: two retries cannot walk twice."""
        walk = self._walks[ticket_hash] = _Walk()
        task = asyncio.create_task(self._bring_to_end(ticket_hash, accept, walk, spot, policy, submitted_ms))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return walk

    async def _bring_to_end(
        self,
        ticket_hash: str,
        accept: Callable[[], Accepted],
        walk: _Walk,
        spot: Spot,
        policy: Policy | None,
        submitted_ms: int | None,
    ) -> None:
        error: BrokerError | None = None
        try:
            accepted = await asyncio.to_thread(accept)
            await walk.reach(health_service_pb2.STAGE_ACCEPTED)
            if not accepted.settled:
                with recording(self._report_stages):
                    await self._forward(_Question(accepted, walk, spot, policy, submitted_ms))
            for passed in (
                health_service_pb2.STAGE_FORWARDED,
                health_service_pb2.STAGE_CHARGED,
                health_service_pb2.STAGE_RELEASED,
            ):
                await walk.reach(passed)
        except BrokerError as failure:
            error = failure
            if failure.stops_node:
                self._stop.stop(failure)
        except Exception as failure:  # noqa: BLE001 - whoever watches gets INTERNAL, the operator the place
            log_unforeseen(failure)
            error = InternalError("INTERNAL")
        finally:
            del self._walks[ticket_hash]
            spot.leave()
            await walk.end(error)

    async def _make_ready(self, question: _Question) -> None:
        """Draw the sample and commit to it; return at the instant at which it may leave, with its manifest in our log."""
        policy, leave_ms = await self._place(question)
        async with self._drawing:
            sample, manifest = await asyncio.to_thread(self._drawn, question.accepted)
        await self._wait_to_leave(policy, leave_ms)
        key = await self._node.journal.glance(self._manifest_key)
        # SECURITY: durable before the first byte leaves, and once for each ticket: nobody holds any of a sample that our log
        # does not name.
        signed = await asyncio.to_thread(self._node.log_forwarded, manifest, key)
        question.ready = _Ready(sample, manifest.set_commitment, signed)

    async def _place(self, question: _Question) -> tuple[Policy, int]:
        """Wait for a sample place; gives the policy that times the question, and when its sample leaves.

        SECURITY: a delay after the question came. A question that had to wait leaves a delay after it got its place, on a grid,
        not at the millisecond at which somebody else's charge was told: that would be a clock for what the nodes were doing.
        """
        had_to_wait = await question.spot.sample_place()
        submitted_ms, question.submitted_ms = question.submitted_ms, None
        if question.policy is None:
            question.policy = self._policy = await self._retrying(lambda: self._knowing_cards(self._fetch_policy))
        policy = question.policy
        if submitted_ms is not None and not had_to_wait:
            return policy, submitted_ms + policy.forward_delay_ms
        grid_ms = max(1, policy.release_tick_ms // _PARTS_OF_A_TICK)
        return policy, _next_multiple(grid_ms, self._node.clock() + policy.forward_delay_ms)

    def _drawn(self, accepted: Accepted) -> tuple[Sample, sample_pb2.Manifest]:
        sample = self._node.sample(accepted)
        return sample, make_manifest(accepted.ticket.hash, sample)

    async def _wait_to_leave(self, policy: Policy, leave_ms: int) -> None:
        """Return at the given instant, or, when that has passed, at the next tick; at once without ticks."""
        if not policy.release_tick_ms:
            return
        now_ms = self._node.clock()
        if now_ms > leave_ms:
            _log.warning(texts.LATE, remedy=texts.LATE_REMEDY)
            leave_ms = _next_multiple(policy.release_tick_ms, now_ms)
        await self._line.pause(max(0, leave_ms - now_ms) / 1000)

    async def _forward(self, question: _Question) -> None:
        """Hand the sample over until it is charged and released, or refused."""
        try:
            # Outside the deadline of attempts: a question may wait for long until it is drawn.
            await self._make_ready(question)
            await self._retrying(lambda: self._knowing_cards(lambda: self._attempt(question)))
        except BrokerError as error:
            if error.ends_ticket:
                await asyncio.to_thread(self._node.log_refused, question.accepted.ticket.hash.hex(), error.code)
            raise _for_researcher(error) from error

    async def _retrying(self, attempt: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """What `attempt` gives; tried again while the census node is away or busy, until the deadline passes."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._limits.forward_deadline_ms / 1000
        backoff = _FIRST_BACKOFF_SECONDS
        while True:
            try:
                return await attempt()
            except BrokerError as error:
                if error.code not in _RETRIED or loop.time() + backoff > deadline or self._stop.is_set:
                    raise
            await asyncio.sleep(backoff)
            backoff = min(2 * backoff, _MAX_BACKOFF_SECONDS)

    async def _knowing_cards(self, attempt: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """What `attempt` gives; tried once more if a key fails in it that an exchange of cards makes known."""
        before = self._census.news
        try:
            return await attempt()
        except BrokerError as error:
            if error.code not in _OF_A_KEY:
                raise
            if not await self._census.has_news(before):
                _log.warning(texts.DISAGREE, code=error.code, remedy=texts.DISAGREE_REMEDY)
                raise
            _log.warning(texts.DISAGREED, code=error.code)
        return await attempt()

    async def _attempt(self, question: _Question) -> None:
        """One attempt: header, word to proceed, sample, charge, release.

        The sample is drawn before the header leaves, also for a ticket that the census node then refuses: a header at a fixed
        instant needs a sample that is ready. What that costs is bounded by what its researcher may ask anyway.
        """
        if question.ready is None:
            # The attempt before broke off between charge and release.
            await self._make_ready(question)
        await question.walk.reach(health_service_pb2.STAGE_FORWARDED)
        census = await self._census.now()
        call = census.stub.Count(timeout=self._limits.attempt_deadline_ms / 1000)
        try:
            await self._exchange(call, census, question)
        except AioRpcError as error:
            raise broker_error(error, "census") from error
        except asyncio.InvalidStateError as error:
            raise await _ending(call) from error
        finally:
            call.cancel()

    async def _exchange(self, call: CountCall, census: CensusNow, question: _Question) -> None:
        accepted, ready = question.accepted, question.ready
        assert ready is not None  # noqa: S101 - `_attempt` made it
        ticket_hash, set_commitment = accepted.ticket.hash.hex(), ready.set_commitment
        sender = Sender(census.sealing_key, self._randomness)
        attempt = await asyncio.to_thread(Attempt, accepted.ticket, accepted.signed_ticket, accepted.linkage, sender)
        await _write(call, attempt.header())
        await _expect(call, "proceed")
        await _send(call, attempt.batches(ready.sample))
        # SECURITY: last. The noise follows from the manifest and the slot's secret: before the sample, it would tell the
        # census node the noise while it can still refuse the header.
        await _write(call, census_service_pb2.CountRequest(manifest=ready.manifest))
        await call.done_writing()
        charged = (await _expect(call, "charged")).charged
        # The people are needed no more, and the answer may be long in coming.
        question.ready = None
        del ready
        # SECURITY: now, at an instant of the policy, and not as soon as the sample is out of memory, which tells its size.
        question.spot.give_back_sample_place()
        handed_over = await self._node.journal.glance(self._node.handed_over, ticket_hash)
        charge = verify_charged(
            charged, accepted.ticket, set_commitment, handed_over=handed_over, census_log=census.log
        )
        await asyncio.to_thread(self._node.log_charge, ticket_hash, charge)
        await question.walk.reach(health_service_pb2.STAGE_CHARGED)
        await _expect(call, "released")
        await asyncio.to_thread(self._node.log_settled, ticket_hash)


def _next_multiple(step_ms: int, not_before_ms: int) -> int:
    """The first multiple of the step that is not before the given time."""
    return -(-not_before_ms // step_ms) * step_ms


def _for_researcher(error: BrokerError) -> BrokerError:
    """What the researcher is told of a failure on the way to the census node.

    A key, a card or a message that is wrong between the agencies is theirs to mend: the question is as good as it was.
    """
    if not isinstance(error, InvalidRequestError) or error.ends_ticket or error.for_operator:
        return error
    _log.warning("the agencies do not agree", code=error.code)
    return PeerUnavailableError("PEER_FAILED", peer="health", reason=error.code)


async def _send(call: CountCall, batches: Iterator[Sequence[census_service_pb2.CountRequest]]) -> None:
    """Say all frames of a sample; while some are on their way the next ones are sealed in a thread."""
    sealing = asyncio.create_task(asyncio.to_thread(next, batches))
    try:
        is_last = False
        while not is_last:
            frames = await sealing
            is_last = frames[-1].frame.last
            if not is_last:
                sealing = asyncio.create_task(asyncio.to_thread(next, batches))
            with stage("sending"):
                for frame in frames:
                    await _write(call, frame)
    finally:
        sealing.cancel()


async def _write(call: CountCall, part: census_service_pb2.CountRequest) -> None:
    """Say one part of a sample."""
    try:
        await call.write(part)
    except AioRpcError as error:
        failure = broker_error(error, "census")
        if failure.code == "PEER_MISBEHAVED":
            # When a stream ends while we write, the library may put a status of its own in place of its peer's.
            failure = PeerUnavailableError("PEER_UNAVAILABLE", peer="census")
        raise failure from error


async def _ending(call: CountCall) -> BrokerError:
    """Why the stream ended while we were writing: it says when read."""
    try:
        await call.read()
    except AioRpcError as error:
        return broker_error(error, "census")
    return PeerUnavailableError("PEER_UNAVAILABLE", peer="census")


async def _expect(call: CountCall, event: str) -> census_service_pb2.CountResponse:
    """The next message of the census node, which must be this event."""
    response = await call.read()
    if not isinstance(response, census_service_pb2.CountResponse):
        raise PeerUnavailableError("PEER_UNAVAILABLE", peer="census")
    refuse_unknown_fields(response)
    if response.WhichOneof("event") != event:
        raise PeerUnavailableError("PEER_MISBEHAVED", peer="census", problem=f"something else than '{event}'")
    return response
