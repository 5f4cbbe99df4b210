"""The health node's RPCs: takes a question, walks it to the census node, and tells the researcher how far it is.

What a researcher sees changes at fixed times only: the sample is forwarded a fixed delay after the question came,
however large it is, and everything after that happens at the census node's ticks. No message carries a size.
A question goes on to its end whatever becomes of the connection that brought it. It is durable before it waits for anything,
then waits out its delay, then its turn (`line`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import structlog
from grpc.aio import AioRpcError, ServicerContext, StreamStreamCall
from tripartite.v1 import census_service_pb2, health_service_pb2, health_service_pb2_grpc

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
from health_node.forwarding import Attempt, Sender, verify_charged
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
            delay_ms = policy.forward_delay_ms if policy.release_tick_ms else 0
            walk = self._start(
                ticket.hash.hex(), lambda: self._node.accept(request, ticket), spot, forward_ms=submitted_ms + delay_ms
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
                self._start(ticket_hash, partial(self._node.resume, ticket_hash), spot, forward_ms=self._node.clock())

    async def drain(self) -> None:
        """Before a stop: let questions whose turn has come get to their end. What waits has been told to end, and is durable."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_DRAIN_SECONDS)

    def _start(self, ticket_hash: str, accept: Callable[[], Accepted], spot: Spot, *, forward_ms: int) -> _Walk:
        """Start the walk of a ticket. It is known at once: two retries cannot walk twice."""
        walk = self._walks[ticket_hash] = _Walk()
        task = asyncio.create_task(self._bring_to_end(ticket_hash, accept, walk, spot, forward_ms))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return walk

    async def _bring_to_end(
        self, ticket_hash: str, accept: Callable[[], Accepted], walk: _Walk, spot: Spot, forward_ms: int
    ) -> None:
        error: BrokerError | None = None
        try:
            accepted = await asyncio.to_thread(accept)
            await walk.reach(health_service_pb2.STAGE_ACCEPTED)
            await self._sleep_until(forward_ms)
            if not accepted.settled:
                with recording(self._report_stages):
                    await self._wait_for_turn(spot)
                    await walk.reach(health_service_pb2.STAGE_FORWARDED)
                    await self._forward(accepted, walk, spot)
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

    async def _wait_for_turn(self, spot: Spot) -> None:
        """Return when a sample may be sent.

        SECURITY: who has waited goes on a fixed part of a tick later, not as soon as somebody else's charge or answer was told:
        the milliseconds that its telling took would be a clock for what the nodes were doing.
        """
        if await spot.sample_place() and self._policy is not None and self._policy.release_tick_ms:
            grid_ms = max(1, self._policy.release_tick_ms // _PARTS_OF_A_TICK)
            await self._sleep_until(-(-self._node.clock() // grid_ms) * grid_ms)

    async def _sleep_until(self, instant_ms: int) -> None:
        await self._line.pause(max(0, instant_ms - self._node.clock()) / 1000)

    async def _forward(self, accepted: Accepted, walk: _Walk, spot: Spot) -> None:
        """Hand the sample over until it is charged and released, or refused."""
        try:
            await self._retrying(lambda: self._knowing_cards(lambda: self._attempt(accepted, walk, spot)))
        except BrokerError as error:
            if error.ends_ticket:
                await asyncio.to_thread(self._node.log_refused, accepted.ticket.hash.hex(), error.code)
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

    async def _attempt(self, accepted: Accepted, walk: _Walk, spot: Spot) -> None:
        """One attempt: header, word to proceed, sample, charge, release.

        The sample is drawn only when the census node has accepted the header, so that a ticket which it refuses makes
        no work that could show in anybody's waiting.
        """
        # Held already, unless an attempt broke off between charge and release.
        await spot.sample_place()
        census = await self._census.now()
        call = census.stub.Count(timeout=self._limits.attempt_deadline_ms / 1000)
        try:
            await self._exchange(call, census, accepted, walk, spot)
        except AioRpcError as error:
            raise broker_error(error, "census") from error
        except asyncio.InvalidStateError as error:
            raise await _ending(call) from error
        finally:
            call.cancel()

    async def _exchange(self, call: CountCall, census: CensusNow, accepted: Accepted, walk: _Walk, spot: Spot) -> None:
        ticket_hash = accepted.ticket.hash.hex()
        manifest_key = await self._node.journal.glance(self._manifest_key)
        sender = Sender(census.sealing_key, manifest_key, self._randomness)
        attempt = await asyncio.to_thread(Attempt, accepted.ticket, accepted.signed_ticket, accepted.linkage, sender)
        await _write(call, attempt.header())
        await _expect(call, "proceed")
        # Its people are kept by nothing else: they are needed no more, and the answer may be long in coming.
        await _send(call, attempt.batches(await asyncio.to_thread(self._node.sample, accepted)))
        manifest_hash, manifest = attempt.manifest()
        await asyncio.to_thread(self._node.log_attempt, ticket_hash, manifest_hash)
        await _write(call, manifest)
        await call.done_writing()
        charged = (await _expect(call, "charged")).charged
        # SECURITY: now, at an instant of the policy, and not as soon as the sample is out of memory, which tells its size.
        spot.give_back_sample_place()
        handed_over = await self._node.journal.glance(self._node.handed_over, ticket_hash)
        charge = verify_charged(
            charged, accepted.ticket, attempt.set_commitment, handed_over=handed_over, census_log=census.log
        )
        await asyncio.to_thread(self._node.log_charge, ticket_hash, charge)
        await walk.reach(health_service_pb2.STAGE_CHARGED)
        await _expect(call, "released")
        await asyncio.to_thread(self._node.log_settled, ticket_hash)


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
