"""The desk: charges, answers, releases and changes of what is in force are made here, one at a time, in rounds.

    in line -> taken by a round -> done in the desk's own thread, then finished -> told, all of a round together, when the schedule says

A round takes releases first, so that the order of the log's entries follows from what was in line when the round began. An exception
is the outcome of the work that raised it. One that stops the node ends the desk: nothing is done after a write whose outcome is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from broker_common.errors import BrokerError, PeerUnavailableError
from broker_common.values import Clock
from census_node.query.fair_queue import FairQueue, Place
from census_node.query.schedule import Round, Schedule

ResultT = TypeVar("ResultT")


class Desk:
    """One desk, for as long as the node serves. Made, asked and run in one event loop."""

    def __init__(
        self,
        schedule: Callable[[], Schedule],
        *,
        most_releases: int,
        clock: Clock,
        stop_node: Callable[[BrokerError], object],
    ) -> None:
        """`schedule` is asked before every round; a round takes at most so many releases beside its samples."""
        self._schedule = schedule
        self._most_releases = most_releases
        self._clock = clock
        self._stop_node = stop_node
        self._samples, self._releases = FairQueue(), FairQueue()
        # Everybody whose outcome has not left yet.
        self._places: dict[Hashable, Place[Any]] = {}
        self._has_come = asyncio.Event()
        self._stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._free_ms = 0
        self._worker = ThreadPoolExecutor(1, "desk")

    def find(self, key: Hashable) -> Place[Any] | None:
        """The place that somebody has under this key, until its outcome has left. From any thread."""
        return self._places.get(key)

    def put(
        self,
        agency: str,
        work: Callable[[Round], ResultT],
        *,
        then: Callable[[ResultT], object] = lambda _: None,
        key: Hashable = None,
        is_release: bool = False,
    ) -> Place[ResultT]:
        """A place at the end of an agency's line, or the one that there is under the same key.

        `then` is done with what came of the work, when the work of the whole round is done and before anything of it is told.

        Raises:
            PeerUnavailableError: PEER_UNAVAILABLE, the desk has been stopped.
        """
        if self._stopped.done():
            raise _gone()
        found = None if key is None else self._places.get(key)
        if found is not None:
            return found
        # Without a key nobody can join it.
        place = Place(agency, object() if key is None else key, self._clock(), work, then)
        self._places[place.key] = place
        (self._releases if is_release else self._samples).put(place)
        self._has_come.set()
        return place

    def stop(self) -> None:
        """Begin no further round; `run` returns when the outcomes of the one that is under way have left."""
        if not self._stopped.done():
            self._stopped.set_result(None)

    async def run(self) -> None:
        """Work until `stop`, or until an error that stops the node."""
        try:
            while (now := await self._next_round()) is not None:
                await self._hold(*now)
        finally:
            self.stop()
            self._worker.shutdown(wait=False)
            # SECURITY: also the work under way: told now, its outcome would say how long the work took.
            for place in self._places.values():
                place.turn_away(_gone())
            self._places.clear()

    async def _next_round(self) -> tuple[Schedule, Round] | None:
        """The round that begins now; None if the desk was stopped first."""
        coming = asyncio.ensure_future(self._coming_round())
        either: set[asyncio.Future[Any]] = {coming, self._stopped}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            return None if self._stopped.done() else coming.result()
        finally:
            coming.cancel()

    async def _coming_round(self) -> tuple[Schedule, Round]:
        while (whole_ms := self._oldest_ms) is None:
            self._has_come.clear()
            await self._has_come.wait()
        schedule = self._schedule()
        return schedule, await schedule.next_round(whole_ms, self._free_ms)

    @property
    def _oldest_ms(self) -> int | None:
        times = (self._releases.oldest_ms, self._samples.oldest_ms)
        return min((each for each in times if each is not None), default=None)

    async def _hold(self, schedule: Schedule, now: Round) -> None:
        """One round, until its outcomes have left."""
        taken = [
            *self._releases.take(self._most_releases, before_ms=now.before_ms, now_ms=self._clock()),
            *self._samples.take(now.most, before_ms=now.before_ms, now_ms=self._clock()),
        ]
        work = asyncio.get_running_loop().run_in_executor(self._worker, _do_all, now, taken)
        try:
            done = await asyncio.shield(work)
        finally:
            # Also when nobody waits for us any more: a thread is at it, and the journal must not be closed under it.
            await asyncio.wait({work})
        for place in done:
            if isinstance(place.error, BrokerError) and place.error.stops_node:
                self.stop()
                self._stop_node(place.error)
        self._free_ms = await schedule.leave(now)
        for place in done:
            del self._places[place.key]
            place.tell(self._free_ms)


def _do_all(now: Round, taken: Sequence[Place[Any]]) -> list[Place[Any]]:
    """One after the other, in the desk's thread; gives those that were done, up to one that stops the node."""
    worked = _up_to_fatal(taken, lambda place: place.do(now))
    return _up_to_fatal(worked, Place.finish)


def _up_to_fatal(places: Sequence[Place[Any]], step: Callable[[Place[Any]], None]) -> list[Place[Any]]:
    done = []
    for place in places:
        step(place)
        done.append(place)
        if place.stops_node:
            break
    return done


def _gone() -> PeerUnavailableError:
    return PeerUnavailableError("PEER_UNAVAILABLE", peer="census")
