"""Who stands in line behind somebody's question learns nothing of how large its sample is: not by one millisecond.

The claims. With ticks, every stage of every question, and every entry of both logs, comes at the same instant whether the
questions ahead have tiny samples or large ones, as long as a sample is drawn within the forwarding delay and a round of the census
node's desk ends within a tick (`test_release_times`). How: in virtual time the real line and both real services run; steps take a
time of their own, for the questions of one researcher alone; whatever is seen is compared exactly, so that no error rate comes
into it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest
from fakes.links import NO_CONTEXT, InMemoryCensus, health_service
from fakes.timed_loop import LoopClock, TimedLoop
from fakes.world import HEALTH, OTHER_RESEARCHER, RESEARCHER, World, make_policy
from structlog.testing import capture_logs
from tripartite.v1 import health_service_pb2

import census_node.query.answering
import health_node.flow
from broker_common.crypto.certificates import Identity
from broker_common.privacy.policy import Policy
from broker_common.rpc.callers import set_caller
from broker_common.rpc.server import StopSignal
from broker_common.storage.clock import system_clock
from broker_common.storage.journal import Journal
from broker_common.tlog.entries import parse_entry
from census_node.config import LimitConfig as CensusLimits
from census_node.ledger.book import LedgerBook
from census_node.ledger.passes import Passes
from census_node.ledger.samples import SampleFolder
from census_node.service import CensusService
from health_node import texts
from health_node.config import LimitConfig
from health_node.node import HealthNode
from health_node.query.fair_queue import FairQueue, Spot

pytestmark = pytest.mark.statistical

TICK_MS, DELAY_MS, MINUTE_MS = 200, 1000, 60_000
BEGAN_MS = (system_clock() // MINUTE_MS + 1) * MINUTE_MS
POLICY = make_policy(accounting="per_person", tick_ms=TICK_MS, delay_ms=DELAY_MS)
AT_ONCE = make_policy(accounting="per_person")
Seen = tuple[int, str, object]
# Milliseconds of each step, for the questions of the researcher who is ahead: of three samples in one round, within a tick.
Costs = Mapping[str, int]
TINY: Costs = {}
WORLDS: dict[str, Costs] = {
    "large": {"sample": 60, "commit": 45, "decide": 21, "keep": 11, "apply": 7, "noise": 3, "answer": 17},
    "slow to draw": {"sample": 200, "commit": 90},
    "slow to answer": {"noise": 20, "answer": 35},
}
# The researcher, and how many milliseconds after the start. More than there are places for, and some when a place comes free.
QUESTIONS = (
    (RESEARCHER, 40),
    (RESEARCHER, 41),
    (RESEARCHER, 45),
    (OTHER_RESEARCHER, 230),
    (RESEARCHER, 1190),
    (OTHER_RESEARCHER, 2390),
    (OTHER_RESEARCHER, 2395),
)
LIMITS = {
    "one question": LimitConfig(max_queries=1),
    "two questions": LimitConfig(max_queries=2),
    "three questions": LimitConfig(max_queries=3),
}
ONE = LIMITS["one question"]
_costs: ContextVar[Costs] = ContextVar("costs", default=TINY)


@contextmanager
def taking_time(loop: TimedLoop, world: World, node: HealthNode) -> Iterator[None]:
    """Every step whose length depends on a sample takes as long as the question's own costs say."""
    with pytest.MonkeyPatch.context() as patch:

        def slow(owner: object, name: str, cost: str, journal: Journal[Any]) -> None:
            work = getattr(owner, name)

            def slowly(*arguments: Any, **named: Any) -> Any:
                loop.work(_costs.get().get(cost, 0), journal)
                return work(*arguments, **named)

            patch.setattr(owner, name, slowly)

        slow(HealthNode, "sample", "sample", node.journal)
        # At the census node a sample is committed to before its place in line, which is the same work for every sample.
        slow(health_node.flow, "make_manifest", "commit", node.journal)
        for owner, name, cost in (
            (LedgerBook, "decide", "decide"),
            (SampleFolder, "write", "keep"),
            (LedgerBook, "charged", "apply"),
            (census_node.query.answering, "add_noise", "noise"),
            (Passes, "count", "answer"),
        ):
            slow(owner, name, cost, world.census.journal)
        yield


def observe(tmp_path: Path, costs: Costs, limits: LimitConfig = ONE, policy: Policy = POLICY) -> list[Seen]:
    """Everything that is told to anybody, and both logs, with their milliseconds."""
    loop = TimedLoop()
    asyncio.set_event_loop(loop)
    clock = LoopClock(loop, BEGAN_MS)
    seen: list[Seen] = []
    with pytest.MonkeyPatch.context() as patch:
        # Durability is not examined here.
        patch.setattr(os, "fsync", lambda _: None)
        world = World(tmp_path, policy, census_clock=clock, health_clock=clock)
        world.clock = clock
        node = world.open_health()
        try:
            loop.run_until_complete(_asked(loop, world, node, costs, limits, seen))
            for journal in (world.census.journal, node.journal):
                entries = (parse_entry(row) for (row,) in journal.db.execute("select entry from entries"))
                for entry in entries:
                    kind = type(entry.event).__name__
                    seen.append((entry.time_ms - clock.now_ms, f"entry of {journal.state.role}", kind))
        finally:
            world.close()
            loop.close()
            asyncio.set_event_loop(None)
    return sorted(seen, key=lambda each: (each[0], str(each)))


async def _asked(
    loop: TimedLoop, world: World, node: HealthNode, costs: Costs, limits: LimitConfig, seen: list[Seen]
) -> None:
    stops = StopSignal(), StopSignal()
    census = CensusService(world.census, CensusLimits(), stops[0], people=len(world.people))
    service = health_service(world, node, InMemoryCensus(census, HEALTH), limits, stops[1])
    orders = [world.order(researcher) for researcher, _ in QUESTIONS]

    async def ask(number: int) -> None:
        researcher, instant_ms = QUESTIONS[number]
        if researcher == RESEARCHER:
            _costs.set(costs)
        await asyncio.sleep(instant_ms / 1000 - loop.time())
        set_caller(Identity("university", "researcher", researcher))
        async for response in service.Submit(orders[number].submission, NO_CONTEXT):
            stage = health_service_pb2.Stage.Name(response.stage)
            seen.append((round(loop.time() * 1000), f"question {number}", stage))

    with taking_time(loop, world, node):
        desk = asyncio.create_task(census.run())
        await asyncio.gather(*(asyncio.create_task(ask(number)) for number in range(len(QUESTIONS))))
        desk.cancel()
        await asyncio.wait({desk})
    assert [stop.error for stop in stops] == [None, None]


def forwarded(seen: list[Seen]) -> list[int]:
    """When questions went on, one after the other."""
    return [instant_ms for instant_ms, _, what in seen if what == "STAGE_FORWARDED"]


def entries_of_forwarding(seen: list[Seen]) -> list[int]:
    """When the health log says so."""
    return [instant_ms for instant_ms, _, what in seen if what == "Forwarded"]


@pytest.mark.parametrize("limits", LIMITS)
def test_nobody_in_line_sees_how_large_the_samples_ahead_are(tmp_path: Path, limits: str) -> None:
    """Stages and entries of all questions, one's own and others', are at the same milliseconds in every world."""
    expected = observe(tmp_path / "tiny", TINY, LIMITS[limits])
    assert sum(what == "STAGE_RELEASED" for _, _, what in expected) == len(QUESTIONS)
    # Some have waited for others: without a line all would have gone on a delay after they came.
    assert forwarded(expected)[-1] > next_tick(QUESTIONS[-1][1] + DELAY_MS)
    assert entries_of_forwarding(expected) == forwarded(expected)
    for number, (name, costs) in enumerate(WORLDS.items()):
        assert observe(tmp_path / str(number), costs, LIMITS[limits]) == expected, name


def test_a_sample_that_left_when_it_was_drawn_would_show_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same comparison finds a sample that does not wait for its instant."""

    async def at_once(*_: object) -> None:
        pass

    monkeypatch.setattr(FairQueue, "pause", at_once)
    told = [observe(tmp_path / name, costs) for name, costs in {"tiny": TINY, **WORLDS}.items()]
    assert len({tuple(forwarded(seen)) for seen in told}) > 1


def test_a_sample_that_is_late_leaves_at_a_whole_tick_and_its_operator_hears_of_it(tmp_path: Path) -> None:
    """A machine that is too slow tells which tick it missed, and not by how much; the log names no size and no criteria."""
    due_ms = next_tick(QUESTIONS[0][1] + DELAY_MS)
    assert forwarded(observe(tmp_path / "in time", TINY))[0] == due_ms
    for took_ms in (1_201, 1_317, 1_590):
        with capture_logs() as said:
            seen = observe(tmp_path / str(took_ms), {"sample": took_ms})
        late = forwarded(seen)[0]
        assert late == next_tick(QUESTIONS[0][1] + took_ms) > due_ms
        assert entries_of_forwarding(seen) == forwarded(seen)
        warnings = [each for each in said if each["event"] == texts.LATE]
        assert warnings
        assert all(set(each) == {"event", "log_level", "remedy"} for each in warnings)


def next_tick(not_before_ms: int) -> int:
    """The first tick from an instant on."""
    return -(-not_before_ms // TICK_MS) * TICK_MS


def test_a_line_that_moved_when_work_ended_would_show_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same comparison finds a place that is given back when the sample is drawn, and one at tick 0."""
    slow = WORLDS["slow to draw"]
    at_once = [
        observe(tmp_path / f"at once {number}", costs, policy=AT_ONCE) for number, costs in enumerate((TINY, slow))
    ]
    assert forwarded(at_once[0]) != forwarded(at_once[1])
    pause = FairQueue.pause
    held: list[Spot] = []
    place = Spot.place

    async def noting(self: Spot) -> bool:
        waited = await place(self)
        held.append(self)
        return waited

    async def early(line: FairQueue, seconds: float) -> None:
        held.pop(0).leave()
        await pause(line, seconds)

    monkeypatch.setattr(Spot, "place", noting)
    monkeypatch.setattr(FairQueue, "pause", early)
    monkeypatch.setattr(Spot, "leave", partialmethod(leave_once, Spot.leave))
    told = [observe(tmp_path / str(number), costs) for number, costs in enumerate((TINY, slow))]
    assert forwarded(told[0]) != forwarded(told[1])


def leave_once(spot: Spot, leave: Callable[[Spot], None]) -> None:
    """A question that has left is not there to leave again."""
    if spot.has_place:
        leave(spot)
