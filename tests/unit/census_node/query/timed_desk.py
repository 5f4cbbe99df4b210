"""A desk in virtual time, whose work takes the time that a test gives it, and a record of when its outcomes left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from fakes.timed_loop import LoopClock, TimedLoop, working

from broker_common.errors import BrokerError
from census_node.query.desk import Desk
from census_node.query.fair_queue import Place
from census_node.query.schedule import Immediate, Round, Schedule, Ticks

PERIOD_MS = 1000
# A tick, as the wall clock has it.
BEGAN_MS = 1_700_000_000_000


@dataclass
class TimedDesk:
    """A desk, its clock, and what happened at it. Times are milliseconds since the test began."""

    batch: int = 4
    period_ms: int = PERIOD_MS
    # A replacement for ticks.
    kind: type[Ticks] = Ticks
    has_ticks: bool = True
    most_releases: int = 100
    # Work in order, with the time of its log entries; when each outcome left; how often a tick was overrun.
    entries: list[tuple[Hashable, int]] = field(default_factory=list)
    left: dict[Hashable, int] = field(default_factory=dict)
    failed: set[Hashable] = field(default_factory=set)
    alerts: int = 0
    # How often the schedule was asked.
    asked: int = 0
    stopped_by: BrokerError | None = None
    waiting: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, TimedLoop)
        self.clock = LoopClock(loop, BEGAN_MS)
        self.desk = Desk(self.schedule, most_releases=self.most_releases, clock=self.clock, stop_node=self.stop_by)
        self.running = asyncio.create_task(self.desk.run())

    @property
    def now_ms(self) -> int:
        return self.clock() - BEGAN_MS

    def schedule(self) -> Schedule:
        """The schedule that is in force now."""
        self.asked += 1
        if not self.has_ticks:
            return Immediate(self.clock)
        return self.kind(self.period_ms, self.batch, self.clock, self.alert)

    def alert(self) -> None:
        self.alerts += 1

    def stop_by(self, error: BrokerError) -> None:
        self.stopped_by = error

    def put(
        self,
        agency: str,
        name: Hashable,
        takes_ms: float = 1,
        *,
        error: Exception | None = None,
        is_release: bool = False,
        then: Callable[[], object] = lambda: None,
        followed: Callable[[Hashable], object] = lambda _: None,
    ) -> Place[Hashable]:
        """Something to be done that takes so long, and what follows the round's work; what came of it is noted when it leaves."""

        def work(now: Round) -> Hashable:
            self.entries.append((name, now.entries_ms - BEGAN_MS))
            working(takes_ms)
            then()
            if error is not None:
                raise error
            return name

        place = self.desk.put(agency, work, then=followed, key=name, is_release=is_release)
        task = asyncio.create_task(self._note(place, name))
        self.waiting.add(task)
        return place

    async def _note(self, place: Place[Hashable], name: Hashable) -> None:
        try:
            await place.outcome()
        except Exception:
            self.failed.add(name)
            raise
        finally:
            self.left[name] = self.now_ms

    async def all_left(self) -> None:
        """Return when every outcome has left."""
        await asyncio.gather(*self.waiting, return_exceptions=True)

    async def pause(self, milliseconds: float) -> None:
        """Let so much time pass."""
        await asyncio.sleep(milliseconds / 1000)

    async def until(self, instant_ms: float) -> None:
        """Let time pass until an instant."""
        await self.pause(instant_ms - self.now_ms)
