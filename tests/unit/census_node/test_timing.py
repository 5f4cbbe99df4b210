"""Outcomes leave on ticks that follow from when messages came and from the policy, never from when work was done."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from fakes.clock import FakeClock
from fakes.logs import policy
from hypothesis import given
from hypothesis import strategies as st

from census_node.timing import charge_time, next_tick, outcome_time, sleep_until_tick

times = st.integers(0, 2**42)
ticks = st.integers(1, 100_000)
delays = st.integers(0, 100_000)
waits = st.integers(0, 300_000)


@given(tick=ticks, time_ms=times)
def test_the_next_tick_is_the_first_multiple_not_before(tick: int, time_ms: int) -> None:
    """On a multiple it is that one; else the one after."""
    found = next_tick(policy(release_tick_ms=tick), time_ms)
    assert found % tick == 0
    assert time_ms <= found < time_ms + tick


@given(tick=ticks, delay=delays, header_ms=times, took_ms=waits)
def test_an_outcome_is_the_first_tick_that_leaves_both_their_time(
    tick: int, delay: int, header_ms: int, took_ms: int
) -> None:
    """The whole delay after the header and half of it after the last message; the first such tick, never a later one."""
    received_ms = header_ms + took_ms
    found = outcome_time(
        policy(release_tick_ms=tick, answer_delay_ms=delay), header_ms=header_ms, received_ms=received_ms
    )
    assert found % tick == 0
    assert found >= header_ms + delay
    assert found >= received_ms + delay // 2
    assert found - tick < max(header_ms + delay, received_ms + delay // 2)


@given(tick=ticks, delay=delays, header_ms=times, data=st.data())
def test_a_sample_in_time_does_not_move_its_outcome(tick: int, delay: int, header_ms: int, data: st.DataObject) -> None:
    """Whatever a sample of any size takes within half the delay, the outcome is that of one that took nothing."""
    rules = policy(release_tick_ms=tick, answer_delay_ms=delay)
    took_ms = data.draw(st.integers(0, delay // 2))
    in_time = outcome_time(rules, header_ms=header_ms, received_ms=header_ms + took_ms)
    assert in_time == outcome_time(rules, header_ms=header_ms, received_ms=header_ms)
    assert header_ms + delay <= in_time < header_ms + delay + tick


@given(tick=ticks, delay=delays, header_ms=times, took_ms=waits)
def test_a_charge_is_made_at_an_instant_that_its_header_gave_it(
    tick: int, delay: int, header_ms: int, took_ms: int
) -> None:
    """At half the delay for every sample that is kept by then; for a later one at the first tick that is not before it."""
    rules = policy(release_tick_ms=tick, answer_delay_ms=delay)
    found = charge_time(rules, header_ms=header_ms, kept_ms=header_ms + took_ms)
    if took_ms <= delay // 2:
        assert found == header_ms + delay // 2
    else:
        assert found % tick == 0
        assert header_ms + took_ms <= found < header_ms + took_ms + tick


@given(tick=ticks, delay=delays, header_ms=times, data=st.data())
def test_a_charge_leaves_half_the_delay_for_the_work(
    tick: int, delay: int, header_ms: int, data: st.DataObject
) -> None:
    """Of a sample in time: it is made no earlier than it may be, and no later than half the delay before its outcome."""
    rules = policy(release_tick_ms=tick, answer_delay_ms=delay)
    took_ms = data.draw(st.integers(0, delay // 2))
    made_ms = charge_time(rules, header_ms=header_ms, kept_ms=header_ms + took_ms)
    told_ms = outcome_time(rules, header_ms=header_ms, received_ms=header_ms + took_ms)
    assert header_ms + took_ms <= made_ms <= told_ms - (delay - delay // 2)


@given(tick=ticks, delay=delays, header_ms=times, took_ms=waits, more_ms=waits)
def test_a_sender_who_dawdles_gets_nothing_earlier(
    tick: int, delay: int, header_ms: int, took_ms: int, more_ms: int
) -> None:
    """A later last message moves the outcome later by whole ticks, or not at all."""
    rules = policy(release_tick_ms=tick, answer_delay_ms=delay)
    one = outcome_time(rules, header_ms=header_ms, received_ms=header_ms + took_ms)
    other = outcome_time(rules, header_ms=header_ms, received_ms=header_ms + took_ms + more_ms)
    assert other >= one
    assert (other - one) % tick == 0


@given(delay=delays, time_ms=times, took_ms=waits)
def test_tick_zero_means_at_once_and_voids_the_delays(delay: int, time_ms: int, took_ms: int) -> None:
    """For tests and benchmarks."""
    rules = policy(release_tick_ms=0, answer_delay_ms=delay)
    assert next_tick(rules, time_ms) == time_ms
    assert outcome_time(rules, header_ms=time_ms, received_ms=time_ms + took_ms) == time_ms + took_ms
    assert charge_time(rules, header_ms=time_ms, kept_ms=time_ms + took_ms) == time_ms + took_ms


def test_the_times_are_functions_of_policy_and_messages_alone() -> None:
    """No parameter could carry a sample, a count or a linkage figure."""
    assert list(inspect.signature(outcome_time).parameters) == ["policy", "header_ms", "received_ms", "turn_ms"]
    assert list(inspect.signature(charge_time).parameters) == ["policy", "header_ms", "kept_ms"]
    assert list(inspect.signature(next_tick).parameters) == ["policy", "not_before_ms"]
    assert list(inspect.signature(sleep_until_tick).parameters) == ["policy", "tick_ms", "clock"]


class SleepingClock(FakeClock):
    """A clock that sleeping moves; keeps how long each sleep was."""

    def __init__(self, now_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(now_ms)
        self.slept: list[float] = []
        monkeypatch.setattr(asyncio, "sleep", self.sleep)

    async def sleep(self, seconds: float) -> None:
        """What `asyncio.sleep` does here."""
        self.slept.append(seconds)
        self.advance(round(seconds * 1000))


@pytest.mark.parametrize(
    ("now_ms", "tick_ms", "leaves_ms"),
    [
        (0, 5000, 5000),
        (4999, 5000, 5000),
        (5000, 5000, 5000),
        (5001, 5000, 6000),
        (5999, 5000, 6000),
        (6000, 5000, 7000),
        (86_400_001, 5000, 86_401_000),
    ],
)
async def test_work_leaves_on_its_tick_or_when_late_on_a_later_one(
    monkeypatch: pytest.MonkeyPatch, now_ms: int, tick_ms: int, leaves_ms: int
) -> None:
    """Sleeps exactly until then; work that finishes late, even on a tick to the millisecond, never leaves "now"."""
    clock = SleepingClock(now_ms, monkeypatch)
    assert await sleep_until_tick(policy(release_tick_ms=1000), tick_ms, clock) == leaves_ms
    assert clock() == leaves_ms
    assert sum(clock.slept) == pytest.approx((leaves_ms - now_ms) / 1000)


@given(tick=ticks, number=st.integers(0, 2**20), late_ms=st.integers(1, 300_000))
async def test_late_work_leaves_on_the_next_tick_never_now(tick: int, number: int, late_ms: int) -> None:
    """When it was done shows in no more than which tick it missed."""
    due_ms = number * tick
    now_ms = due_ms + late_ms
    with pytest.MonkeyPatch.context() as monkeypatch:
        clock = SleepingClock(now_ms, monkeypatch)
        left_ms = await sleep_until_tick(policy(release_tick_ms=tick), due_ms, clock)
    assert left_ms % tick == 0
    assert now_ms < left_ms <= now_ms + tick
    assert clock() == left_ms


@pytest.mark.parametrize("tick_ms", [0, 1000, 99_000])
async def test_tick_zero_does_not_sleep(monkeypatch: pytest.MonkeyPatch, tick_ms: int) -> None:
    """Whatever instant is named, the answer leaves at once."""
    clock = SleepingClock(50_000, monkeypatch)
    assert await sleep_until_tick(policy(release_tick_ms=0), tick_ms, clock) == 50_000
    assert not clock.slept
