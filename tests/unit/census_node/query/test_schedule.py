"""Rounds and outcomes come at ticks that follow from when something was whole, never from how long work took."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from fakes.clock import FakeClock
from fakes.logs import policy
from hypothesis import given
from hypothesis import strategies as st

from census_node.query import schedule as schedule_module
from census_node.query.schedule import Immediate, Round, Schedule, Ticks, schedule_of

periods = st.integers(1, 100_000)
times = st.integers(2**40, 2**41)


class SleepingClock(FakeClock):
    """A clock that sleeping moves."""

    async def sleep(self, seconds: float) -> None:
        """Replacement of `asyncio.sleep`."""
        self.advance(round(seconds * 1000))


class Alarm:
    """Counts alerts."""

    def __init__(self) -> None:
        self.alerts = 0

    def __call__(self) -> None:
        self.alerts += 1


async def next_round(schedule: Schedule, clock: SleepingClock, whole_ms: int, free_ms: int = 0) -> Round:
    """The next round; sleeping takes no time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("asyncio.sleep", clock.sleep)
        return await schedule.next_round(whole_ms, free_ms)


async def leave(schedule: Schedule, clock: SleepingClock, now: Round) -> int:
    """When the outcomes of a round leave whose work is done now."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("asyncio.sleep", clock.sleep)
        return await schedule.leave(now)


@given(period=periods, whole_ms=times)
async def test_what_is_whole_is_taken_at_the_first_tick_after_it(period: int, whole_ms: int) -> None:
    """Strictly after; its entries carry that tick's time, and its outcome is due one period later."""
    clock = SleepingClock(whole_ms)
    found = await next_round(Ticks(period, 4, clock, Alarm()), clock, whole_ms)
    assert clock() == found.before_ms == found.entries_ms == found.leaves_ms - period
    assert found.before_ms % period == 0
    assert whole_ms < found.before_ms <= whole_ms + period
    assert found.most == 4


@given(period=periods, tick=st.integers(2**20, 2**24), data=st.data())
async def test_an_outcome_leaves_one_period_later_whatever_the_work_took(
    period: int, tick: int, data: st.DataObject
) -> None:
    """Also to the last millisecond of the period; the operator is told nothing."""
    alarm, took_ms = Alarm(), data.draw(st.integers(0, period - 1))
    clock = SleepingClock(tick * period)
    ticks = Ticks(period, 4, clock, alarm)
    now = await next_round(ticks, clock, clock() - 1)
    clock.advance(took_ms)
    assert await leave(ticks, clock, now) == clock() == (tick + 1) * period
    assert alarm.alerts == 0


@given(period=periods, tick=st.integers(2**20, 2**24), late_ms=st.integers(0, 300_000))
async def test_an_overrun_moves_everything_by_whole_ticks(period: int, tick: int, late_ms: int) -> None:
    """Never "now", also where the work ends on a tick to the millisecond; the operator hears of it, once."""
    alarm, clock = Alarm(), SleepingClock(tick * period)
    ticks = Ticks(period, 4, clock, alarm)
    now = await next_round(ticks, clock, clock() - 1)
    clock.advance(period + late_ms)
    done_ms = clock()
    left_ms = await leave(ticks, clock, now)
    assert left_ms == clock()
    assert left_ms % period == 0
    assert done_ms < left_ms <= done_ms + period
    assert alarm.alerts == 1
    following = await next_round(ticks, clock, now.before_ms - 1, left_ms)
    assert following.before_ms == left_ms == clock()


@given(period=periods, tick=st.integers(2**20, 2**24), data=st.data())
async def test_what_waited_is_taken_at_the_tick_at_which_the_desk_is_free(
    period: int, tick: int, data: st.DataObject
) -> None:
    """Without losing a tick, though a moment has passed since; what came in that moment waits for the next one."""
    moment_ms = data.draw(st.integers(0, period - 1))
    free_ms = tick * period
    clock = SleepingClock(free_ms + moment_ms)
    ticks = Ticks(period, 4, clock, Alarm())
    whole_ms = data.draw(st.integers(free_ms - 300_000, free_ms - 1))
    assert (await next_round(ticks, clock, whole_ms, free_ms)).before_ms == free_ms
    assert clock() == free_ms + moment_ms
    assert (await next_round(ticks, clock, clock(), free_ms)).before_ms == free_ms + period


@given(period=periods, whole_ms=times, jump_ms=st.integers(-(2**39), 2**39))
async def test_a_clock_that_is_set_holds_nobody_up(period: int, whole_ms: int, jump_ms: int) -> None:
    """Either way: the next round is within a period of the clock as it is now, and so are its outcomes."""
    clock = SleepingClock(whole_ms + jump_ms)
    ticks = Ticks(period, 4, clock, Alarm())
    before_ms = clock()
    now = await next_round(ticks, clock, whole_ms, whole_ms)
    assert now.before_ms % period == 0
    assert before_ms - period < now.before_ms <= before_ms + period
    clock.advance(jump_ms)
    before_ms = clock()
    left_ms = await leave(ticks, clock, now)
    assert left_ms % period == 0
    assert before_ms < left_ms <= before_ms + period


@given(first=periods, second=periods, tick=st.integers(2**20, 2**24))
async def test_a_changed_tick_holds_from_the_next_round_on(first: int, second: int, tick: int) -> None:
    """The desk is free at a tick of the old period; the next round begins at one of the new."""
    free_ms = tick * first
    clock = SleepingClock(free_ms)
    now = await next_round(Ticks(second, 4, clock, Alarm()), clock, free_ms - 1, free_ms)
    assert now.before_ms % second == 0
    assert free_ms <= now.before_ms < free_ms + second
    assert now.leaves_ms == now.before_ms + second


@given(whole_ms=times, waited_ms=st.integers(0, 100_000), took_ms=st.integers(0, 100_000))
async def test_tick_zero_means_at_once(whole_ms: int, waited_ms: int, took_ms: int) -> None:
    """As soon as the desk is free; the outcome as soon as it is done. For tests and benchmarks."""
    clock = SleepingClock(whole_ms + waited_ms)
    immediate = Immediate(clock)
    now = await next_round(immediate, clock, whole_ms, 2**50)
    assert (now.before_ms, now.entries_ms) == (whole_ms + waited_ms + 1, whole_ms + waited_ms)
    assert now.most > 1
    clock.advance(took_ms)
    assert await leave(immediate, clock, now) == clock() == whole_ms + waited_ms + took_ms


def test_the_policy_says_which_schedule_there_is() -> None:
    """Ticks of its length, or none."""
    clock, alarm = FakeClock(), Alarm()
    at_once = schedule_of(policy(release_tick_ms=0), batch=lambda _: 4, clock=clock, alert=alarm)
    assert at_once == Immediate(clock)
    assert schedule_of(policy(release_tick_ms=700), batch=lambda _: 4, clock=clock, alert=alarm) == Ticks(
        700, 4, clock, alarm
    )


def test_nothing_else_of_a_query_asks_whether_there_are_ticks() -> None:
    """One module knows; everything else is told instants."""
    room = Path(inspect.getfile(schedule_module)).parent
    assert {path.name for path in room.glob("*.py") if "release_tick_ms" in path.read_text()} == {"schedule.py"}


def test_no_instant_could_carry_a_sample() -> None:
    """A schedule's arguments have no room for a size, a count or a linkage figure."""
    for each in (Ticks, Immediate):
        assert list(inspect.signature(each.next_round).parameters) == ["self", "whole_ms", "free_ms"]
        assert list(inspect.signature(each.leave).parameters) == ["self", "now"]
