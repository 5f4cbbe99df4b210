"""Rosters and the outside: one is received at a time from each agency, and is acknowledged when it is in force.

    received -> staged -> joined (beside the desk) -> in force (at the desk, in its agency's line) -> acknowledged

SECURITY: when a roster is acknowledged follows from its header, from the policy and from declared places. Only work that overruns the
time planned for it moves that, by whole ticks. Joins have a thread of their own, so that nobody's header waits for one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

import structlog
from tripartite.v1 import census_service_pb2, roster_pb2

from broker_common.crypto.certificates import Identity
from broker_common.errors import BrokerError, InvalidRequestError, PeerUnavailableError, RefusedError
from broker_common.logs import log_unforeseen
from broker_common.privacy.delays import roster_delay_ms
from broker_common.privacy.policy import Policy
from broker_common.rpc.news import News
from broker_common.values import Clock
from census_node.config import LimitConfig
from census_node.query.desk import Desk
from census_node.query.schedule import Round, Schedule
from census_node.registry.reception import HOUR_MS, AdmittedRoster, RosterReception
from census_node.registry.staging import RosterName, Rosters
from census_node.release.publication import Publication

_log = structlog.get_logger()
Requests = AsyncIterator[census_service_pb2.SendRosterRequest]
ResultT = TypeVar("ResultT")
# BUSY asks the agency to wait this long while another roster of its own is on its way.
_RETRY_SECONDS = 1
# How often it is looked whether another load or policy is in force.
_LOOK_SECONDS = 1.0
# How long a roster that is here may wait to be joined before its agency is told to ask again.
_JOINING_SECONDS = 60.0
# For checking a header, before a refusal of it may leave.
_CHECKING_MS = 50


class RosterRounds:
    """The processing of rosters while the node serves. Made in its event loop."""

    def __init__(
        self,
        rosters: Rosters,
        limits: LimitConfig,
        *,
        desk: Desk,
        schedule: Callable[[], Schedule],
        policy: Callable[[], Policy],
        publication: Publication,
        clock: Clock,
    ) -> None:
        """`policy` is the one in force, or raises NOTHING_LOADED; `schedule` is what follows from it."""
        self._rosters = rosters
        self._limits = limits
        self._desk = desk
        self._schedule = schedule
        self._policy = policy
        self._publication = publication
        self._clock = clock
        # Beside those who charge and release; and joining beside receiving.
        self._receiver = ThreadPoolExecutor(1, "rosters")
        self._joiner = ThreadPoolExecutor(1, "joins")
        self._receiving: set[str] = set()
        self._staged = News()
        self._switched = News()
        # The times at which each agency began to send a roster in the last hour.
        self._begun_ms: dict[str, list[int]] = {}

    async def receive(self, requests: Requests, sender: Identity, proceed: Callable[[], Awaitable[object]]) -> None:
        """Return when a roster is in force, at an instant at which that may be said.

        `proceed` lets the sender go on after a header that was admitted.

        Raises:
            InvalidRequestError, RefusedError: the first check that fails. The roster in force serves.
            PeerUnavailableError: it did not come in time.
        """
        policy = await asyncio.to_thread(self._policy)
        if sender.organisation in self._receiving:
            raise RefusedError("BUSY", retry_seconds=_RETRY_SECONDS)
        self._receiving.add(sender.organisation)
        try:
            async with asyncio.timeout(self._limits.roster_deadline_ms / 1000):
                told_ms, admitted = await self._received(policy, requests, sender, proceed)
            await self._in_force(admitted.health, admitted.number)
            await self._schedule().hold_until(told_ms)
        except TimeoutError as error:
            raise PeerUnavailableError("PEER_UNAVAILABLE", peer="health") from error
        finally:
            self._receiving.discard(sender.organisation)

    async def _received(
        self, policy: Policy, requests: Requests, sender: Identity, proceed: Callable[[], Awaitable[object]]
    ) -> tuple[int, AdmittedRoster]:
        """Receive a roster, unless it is here; with it from when on that may be said."""
        header = await self._header(requests)
        header_ms = self._clock()
        checked_ms = header_ms + _CHECKING_MS
        async with self._refusing_at_ticks(checked_ms):
            begun = [at_ms for at_ms in self._begun_ms.get(sender.organisation, []) if at_ms > header_ms - HOUR_MS]
            admitted = await self._in(
                self._receiver,
                partial(
                    self._rosters.admit,
                    attempts=len(begun),
                    most_per_hour=self._limits.rosters_per_hour,
                    most_places=self._limits.max_places,
                ),
                header,
                sender,
                policy,
            )
            if admitted.payload is not None:
                await self._schedule().hold_until(checked_ms)
                # Whatever comes of it.
                self._begun_ms[sender.organisation] = [*begun, header_ms]
                await proceed()
                await self._take(admitted, requests)
                self._staged.tell()
        return header_ms + roster_delay_ms(admitted.places), admitted

    async def _in_force(self, health: str, number: int) -> None:
        """Return when an agency's roster of this number is in force, or a later one."""
        try:
            async with asyncio.timeout(_JOINING_SECONDS):
                while not await asyncio.to_thread(self._rosters.is_in_force, health, number):
                    await asyncio.wait([self._switched.next()], timeout=_LOOK_SECONDS)
        except TimeoutError as error:
            raise RefusedError("BUSY", retry_seconds=_RETRY_SECONDS) from error

    @asynccontextmanager
    async def _refusing_at_ticks(self, first_ms: int) -> AsyncGenerator[None]:
        """Hold a refusal back until a tick, which is this one at the earliest."""
        try:
            yield
        except BrokerError as error:
            if not error.stops_node:
                await self._schedule().hold_until(first_ms)
            raise

    async def _header(self, requests: Requests) -> roster_pb2.RosterHeader:
        async with asyncio.timeout(self._limits.header_deadline_ms / 1000):
            first = await anext(requests, None)
        if first is None or first.WhichOneof("part") != "header":
            raise InvalidRequestError("MALFORMED_MESSAGE", problem="the roster does not begin with its header")
        return first.header

    async def _take(self, admitted: AdmittedRoster, requests: Requests) -> None:
        begun: list[RosterReception] = []
        try:
            # In a list, so that a cancelled call still knows what to erase.
            await self._in(self._receiver, lambda: begun.append(self._rosters.begin(admitted)))
            (reception,) = begun
            async for request in requests:
                # One that is not set is an empty one, which is refused.
                await self._in(self._receiver, reception.add, request.frame)
            await self._in(self._receiver, self._rosters.keep, reception)
        except BaseException:
            for reception in begun:
                await self._in(self._receiver, self._rosters.abandon, reception)
            raise

    async def run(self) -> None:
        """Join what has come, put it in force, erase what was replaced. Ends when cancelled, or with an error that stops the node."""
        switching: dict[RosterName, asyncio.Task[None]] = {}
        try:
            while True:
                staged = self._staged.next()
                for name in [name for name, task in switching.items() if task.done()]:
                    await _unless_it_stops(switching.pop(name))
                await _unless_it_stops(self._join(switching))
                await _unless_it_stops(self._in(self._joiner, self._rosters.erase_replaced))
                await asyncio.wait([staged], timeout=_LOOK_SECONDS)
        finally:
            for task in switching.values():
                task.cancel()
            await asyncio.gather(*switching.values(), return_exceptions=True)

    async def round(self) -> None:
        """Once: whatever can be done now, and what follows from it.

        Raises:
            BrokerError: NOTHING_LOADED, BUSY; or one that stops the node.
        """
        switching: dict[RosterName, asyncio.Task[None]] = {}
        await self._join(switching)
        await asyncio.gather(*switching.values())
        await self._in(self._joiner, self._rosters.erase_replaced)

    async def _join(self, switching: dict[RosterName, asyncio.Task[None]]) -> None:
        for name in await self._in(self._joiner, self._rosters.join_due):
            if name not in switching:
                switching[name] = asyncio.create_task(self._switch(*name))

    async def _switch(self, health: str, number: int) -> None:
        """Put a joined roster in force: behind the samples of its agency that are in line."""

        def switch(now: Round) -> int | None:
            index = self._rosters.switch(health, number, at_ms=now.entries_ms)
            if index is not None:
                self._publication.entrust(index + 1)
            return index

        index = await self._desk.put(health, switch, key=("roster", health, number)).outcome()
        if index is not None:
            _log.info("a roster is in force", agency=health)
            self._publication.show(index + 1)
        self._switched.tell()

    async def _in(self, threads: ThreadPoolExecutor | None, work: Callable[..., ResultT], *args: object) -> ResultT:
        """The result of `work`; a cancelled caller waits until it is done, because the next step closes what it uses."""
        doing = asyncio.get_running_loop().run_in_executor(threads, partial(work, *args))
        try:
            return await asyncio.shield(doing)
        finally:
            await asyncio.wait({doing})
            if not doing.cancelled():
                doing.exception()


async def _unless_it_stops(work: Awaitable[None]) -> None:
    """Wait for `work`; of its errors only one that stops the node is raised."""
    try:
        await work
    except BrokerError as error:
        if error.stops_node:
            raise
        _log.info("rosters wait", code=error.code)
    except Exception as error:  # noqa: BLE001 - SECURITY: nothing that a peer sends may stop the node
        log_unforeseen(error)
