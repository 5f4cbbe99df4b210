"""How a question goes on its way: the whole order of steps, from a verified ticket to the release of its answer.

    accept -> wait for the roster and a place -> draw -> commit -> leave at a tick -> charge -> release

A researcher's view changes at fixed times only. A question is durable before it waits for anything. It waits until the census node
has the roster of its load, and for a place (`fair_queue`); the sample is drawn and committed to; and it leaves at the first tick that
is not before a fixed delay after the question came. Everything after that happens at the census node's ticks. No message has a length
that anybody's record decides. A question goes on to its end whatever becomes of the connection that brought it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import structlog
from grpc.aio import AioRpcError, StreamStreamCall
from tripartite.v1 import census_service_pb2, health_service_pb2, sample_pb2

from broker_common.crypto.signing import SigningKey
from broker_common.errors import BrokerError, InternalError, InvalidRequestError, PeerUnavailableError
from broker_common.logs import log_unforeseen
from broker_common.monitoring import Monitor
from broker_common.privacy.policy import Policy
from broker_common.query.messages import refuse_unknown_fields
from broker_common.rpc.server import StopSignal
from broker_common.rpc.status import broker_error
from broker_common.storage.writing import Writer
from broker_common.tracing import Report, recording, span
from health_node import texts
from health_node.census_link import CensusLink, CensusNow, fetch_policy
from health_node.config import LimitConfig
from health_node.node import Accepted, HealthNode, LoadReplacedError, Verified
from health_node.query.fair_queue import FairQueue, Spot
from health_node.query.forwarding import Sample, make_manifest, seal_attempt, verify_charged, verify_refused

_log = structlog.get_logger()
CountCall = StreamStreamCall[census_service_pb2.CountRequest, census_service_pb2.CountResponse]
ResultT = TypeVar("ResultT")
# Before a stop: for questions under way to come to their end, or at least to a durable step.
_DRAIN_SECONDS = 3.0
# How often a question that waits for its roster looks whether the census node has it.
_ROSTER_LOOK_SECONDS = 0.5
# Between attempts: doubled every time, up to the longest.
_FIRST_BACKOFF_SECONDS = 0.2
_MAX_BACKOFF_SECONDS = 5.0
# A census node that says one of these will take the same ticket later.
_RETRIED = frozenset({"BUSY", "PEER_FAILED", "PEER_UNAVAILABLE"})
# Errors that name a key which one of the agencies has not heard of yet.
_OF_A_KEY = frozenset({"BAD_SIGNATURE", "PEER_MISBEHAVED", "SEALED_WRONGLY", "UNKNOWN_KEY"})


class TicketWalk:
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
    manifest: sample_pb2.Manifest
    signed_manifest: sample_pb2.SignedManifest


@dataclass(frozen=True, slots=True)
class _Question:
    """One accepted ticket on its way to the census node."""

    accepted: Accepted
    walk: TicketWalk
    spot: Spot
    # The policy at the time of submission; unknown for a question that goes on after a start.
    policy: Policy | None
    # Unknown after a start as well.
    submitted_ms: int | None


class Flow:
    """The questions of one node that are on their way."""

    def __init__(
        self,
        node: HealthNode,
        *,
        census: CensusLink,
        manifest_key: Callable[[], SigningKey],
        limits: LimitConfig,
        stop: StopSignal,
        offer_roster: Callable[[], None] = lambda: None,
        report_spans: Report | None = None,
        monitor: Monitor | None = None,
    ) -> None:
        """`offer_roster` is called when the census node does not know the roster that a sample names."""
        self._monitor = Monitor("health", node.clock) if monitor is None else monitor
        self._node = node
        self._writer = Writer(node.journal)
        self._report_spans = report_spans
        self._census = census
        self._manifest_key = manifest_key
        self._offer_roster = offer_roster
        self._limits = limits
        self._stop = stop
        # The one that was in force when it was last asked for.
        self.policy: Policy | None = None
        self.queue = FairQueue(limits)
        stop.on_stop(self.queue.close)
        # One cohort at a time, with all threads: two at once would slow each other down.
        self._drawing = asyncio.Lock()
        self.walks: dict[str, TicketWalk] = {}
        # Tasks are held here because the event loop itself holds them weakly.
        self._tasks: set[asyncio.Task[None]] = set()

    def take(
        self,
        request: health_service_pb2.SubmitRequest,
        verified: Verified,
        researcher: str,
        policy: Policy,
        submitted_ms: int,
    ) -> TicketWalk:
        """Start a researcher's question, which was verified under `policy`."""
        spot = self.queue.join(verified.ticket.body.researcher_id)
        accept = partial(self._accept, request, verified, researcher, policy)
        return self._start(verified.ticket.hash.hex(), accept, spot, policy=policy, submitted_ms=submitted_ms)

    async def recover(self) -> None:
        """After a start: go on with every ticket that was accepted and is not at its end, in turns like everybody."""
        for ticket_hash in await asyncio.to_thread(self._node.unfinished):
            researcher = await asyncio.to_thread(self._node.researcher_of, ticket_hash)
            if ticket_hash not in self.walks:
                spot = self.queue.join(researcher, recovered=True)
                self._start(ticket_hash, partial(self._writer.write, self._node.resume, ticket_hash), spot)

    async def drain(self) -> None:
        """Before a stop: let questions whose turn has come get to their end. All waiting work was told to end, and is durable."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_DRAIN_SECONDS)

    async def _accept(
        self, request: health_service_pb2.SubmitRequest, verified: Verified, researcher: str, policy: Policy
    ) -> Accepted:
        """Take a question on the load that it was verified on; verified again on each that has taken its place meanwhile."""
        while True:
            try:
                return await self._writer.write(self._node.accept, request, verified)
            except LoadReplacedError:
                verified = await asyncio.to_thread(self._node.verify, request, researcher, policy)

    def _start(
        self,
        ticket_hash: str,
        accept: Callable[[], Awaitable[Accepted]],
        spot: Spot,
        *,
        policy: Policy | None = None,
        submitted_ms: int | None = None,
    ) -> TicketWalk:
        """Start the walk of a ticket. It is known at once: two retries cannot walk twice."""
        walk = self.walks[ticket_hash] = TicketWalk()
        # Before it is accepted: a round that sees another load in force, and no question of this one, sends that load's roster.
        self._node.under_way.add(ticket_hash)
        task = asyncio.create_task(self._bring_to_end(ticket_hash, accept, walk, spot, policy, submitted_ms))
        self._tasks.add(task)
        self._count_questions()
        task.add_done_callback(self._tasks.discard)
        return walk

    async def _bring_to_end(
        self,
        ticket_hash: str,
        accept: Callable[[], Awaitable[Accepted]],
        walk: TicketWalk,
        spot: Spot,
        policy: Policy | None,
        submitted_ms: int | None,
    ) -> None:
        error: BrokerError | None = None
        try:
            accepted = await accept()
            await walk.reach(health_service_pb2.STAGE_ACCEPTED)
            if not accepted.settled:
                started_ms = self._node.clock() if submitted_ms is None else submitted_ms
                with recording(self._report_spans):
                    await self._forward(_Question(accepted, walk, spot, policy, submitted_ms))
                self._monitor.answered((self._node.clock() - started_ms) / 1000)
                _log.info("answered")
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
        except Exception as failure:  # noqa: BLE001 - the watcher gets INTERNAL, the operator the place
            log_unforeseen(failure)
            error = InternalError("INTERNAL")
        finally:
            del self.walks[ticket_hash]
            self._node.under_way.discard(ticket_hash)
            spot.leave()
            self._count_questions()
            await walk.end(error)

    def _count_questions(self) -> None:
        self._monitor.in_hand(len(self.walks))
        self._monitor.in_line(self.queue.waiting)

    async def _forward(self, question: _Question) -> None:
        """Hand the sample over until it is charged and released, or refused."""
        try:
            # Outside the deadline of attempts: a question may wait for long until it is drawn.
            ready = await self._made_ready(question)
            await self._retrying(lambda: self._knowing_cards(lambda: self._attempt(question, ready)))
        except BrokerError as error:
            if error.ends_ticket:
                await self._writer.write(self._node.log_refused, question.accepted.ticket.hash.hex(), error)
            if error.code == "ROSTER_NOT_IN_FORCE":
                self._offer_roster()
            raise _for_researcher(error) from error

    async def _made_ready(self, question: _Question) -> _Ready:
        """Draw the sample and commit to it; return at the tick at which it leaves, with its manifest in our log."""
        policy, delayed_ms = await self._place(question)
        async with self._drawing:
            sample, manifest, size = await asyncio.to_thread(self._drawn, question.accepted)
        await self._wait_to_leave(policy, delayed_ms)
        key = await self._node.journal.glance(self._manifest_key)
        # SECURITY: durable before the first byte leaves, and once for each ticket: nobody holds any of a sample that our log
        # does not name.
        signed = await self._writer.write(self._node.log_forwarded, manifest, key, people=size)
        return _Ready(sample, manifest, signed)

    async def _place(self, question: _Question) -> tuple[Policy, int]:
        """Wait for the roster and a place; gives the policy that times the question, and before when its sample does not leave.

        SECURITY: a delay after the question came; for one that had to wait, a delay after it had its place. Nothing that is done
        for it meanwhile decides at which tick it leaves.
        """
        # Before its place: questions that stand for an older load need one, and the roster waits for their end.
        had_to_wait = await self._wait_for_roster(question.accepted)
        had_to_wait |= await question.spot.place()
        self._count_questions()
        policy = question.policy
        if policy is None:
            policy = await self._retrying(self.fetch_policy)
        came_ms = question.submitted_ms
        if came_ms is None or had_to_wait:
            came_ms = self._node.clock()
        return policy, came_ms + policy.forward_delay_ms

    async def _wait_for_roster(self, accepted: Accepted) -> bool:
        """Return when the census node has the roster that the sample is places of; whether that had to be waited for."""
        waited = False
        while not await self._node.journal.glance(self._node.may_be_sampled, accepted):
            waited = True
            await self.queue.pause(_ROSTER_LOOK_SECONDS)
        return waited

    def _drawn(self, accepted: Accepted) -> tuple[Sample, sample_pb2.Manifest, int]:
        sample = self._node.sample(accepted)
        return sample, make_manifest(sample), sample.size

    async def _wait_to_leave(self, policy: Policy, delayed_ms: int) -> None:
        """Return at the first tick not before the given time, and not before now; at once without ticks."""
        tick_ms = policy.release_tick_ms
        if not tick_ms:
            return
        now_ms, leave_ms = self._node.clock(), _next_multiple(tick_ms, delayed_ms)
        if now_ms > leave_ms:
            self._monitor.missed_tick()
            _log.warning(texts.LATE, remedy=texts.LATE_REMEDY)
            leave_ms = _next_multiple(tick_ms, now_ms)
        await self.queue.pause((leave_ms - now_ms) / 1000)

    async def fetch_policy(self) -> Policy:
        """Ask the census node for the policy in force."""
        self.policy = await self._knowing_cards(self._ask_policy)
        return self.policy

    async def _ask_policy(self) -> Policy:
        try:
            return await fetch_policy(await self._census.now(), wait_for_ready=True)
        except InvalidRequestError as error:
            raise _for_researcher(error) from error

    async def _retrying(self, attempt: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """The result of `attempt`, tried again while the census node is away or busy, until the deadline passes."""
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
        """The result of `attempt`, tried once more if an exchange of cards makes an unknown key known."""
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

    async def _attempt(self, question: _Question, ready: _Ready) -> None:
        """One attempt: the sample sealed anew, charge, release.

        Raises:
            BrokerError: what the census node said, its refusals signed.
        """
        await question.walk.reach(health_service_pb2.STAGE_FORWARDED)
        census = await self._census.now()
        try:
            await self._hand_over(question, ready, census)
        except BrokerError as error:
            ticket = question.accepted.ticket
            handed_over = await self._node.journal.glance(self._node.handed_over, ticket.hash.hex())
            verify_refused(
                error,
                ticket,
                ready.signed_manifest,
                organisation=handed_over.organisation,
                census_log=census.log.name,
                census_keys=census.refusal_keys,
            )
            raise

    async def _hand_over(self, question: _Question, ready: _Ready, census: CensusNow) -> None:
        parts = await asyncio.to_thread(
            seal_attempt, question.accepted.signed_ticket, ready.signed_manifest, ready.sample, census.sealing_key
        )
        call = census.stub.Count(timeout=self._limits.attempt_deadline_ms / 1000)
        try:
            with span("sending"):
                for part in parts:
                    await _write(call, part)
                await call.done_writing()
            await self._follow(call, census, question, ready.manifest)
        except AioRpcError as error:
            raise broker_error(error, "census") from error
        except asyncio.InvalidStateError as error:
            raise await _ending(call) from error
        finally:
            call.cancel()

    async def _follow(
        self, call: CountCall, census: CensusNow, question: _Question, manifest: sample_pb2.Manifest
    ) -> None:
        """The census node's messages about a sample that it has: the charge, then the release."""
        ticket = question.accepted.ticket
        charged = (await _expect(call, "charged")).charged
        handed_over = await self._node.journal.glance(self._node.handed_over, ticket.hash.hex())
        charge = verify_charged(charged, ticket, manifest, handed_over=handed_over, census_log=census.log)
        await self._writer.write(self._node.log_charge, ticket.hash.hex(), charge)
        await question.walk.reach(health_service_pb2.STAGE_CHARGED)
        await _expect(call, "released")
        await self._writer.write(self._node.log_settled, ticket.hash.hex())


def _next_multiple(step_ms: int, not_before_ms: int) -> int:
    """The first multiple of the step that is not before the given time."""
    return -(-not_before_ms // step_ms) * step_ms


def _for_researcher(error: BrokerError) -> BrokerError:
    """The researcher's error for a failure on the way to the census node.

    A key, a card or a message that is wrong between the agencies is theirs to mend: the question is as good as it was.
    """
    if not isinstance(error, InvalidRequestError) or error.ends_ticket or error.for_operator:
        return error
    _log.warning("the agencies do not agree", code=error.code)
    return PeerUnavailableError("PEER_FAILED", peer="health", reason=error.code)


async def _write(call: CountCall, part: census_service_pb2.CountRequest) -> None:
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
