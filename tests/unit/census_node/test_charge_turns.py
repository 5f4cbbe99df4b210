"""Turns of charges: in the order of headers, far enough apart, and a function of when headers came."""

from __future__ import annotations

import inspect

from fakes.logs import policy
from hypothesis import given
from hypothesis import strategies as st

from census_node.timing import ChargeTurns, is_late, outcome_time

times = st.integers(0, 2**42)
ticks = st.integers(1, 100_000)
delays = st.integers(0, 100_000)


@given(tick=ticks, delay=delays, headers=st.lists(times, min_size=1, max_size=12))
def test_turns_leave_each_charge_the_time_to_be_decided(tick: int, delay: int, headers: list[int]) -> None:
    """A quarter of the delay between any two, in the order in which headers came, and as early as that allows."""
    rules, turns = policy(release_tick_ms=tick, answer_delay_ms=delay), ChargeTurns()
    newest_ms = -(2**62)
    for header_ms in sorted(headers):
        turn_ms = turns.take(rules, header_ms)
        assert turn_ms == max(header_ms + delay // 2, newest_ms) + delay // 4
        newest_ms = turn_ms


@given(tick=ticks, delay=delays, headers=st.lists(times, min_size=1, max_size=12), since_ms=times)
def test_a_late_turn_lies_on_a_tick_behind_everybody_elses(
    tick: int, delay: int, headers: list[int], since_ms: int
) -> None:
    """Whoever was not ready takes nobody's turn away, and shows no more than which tick it missed."""
    rules, turns = policy(release_tick_ms=tick, answer_delay_ms=delay), ChargeTurns()
    newest_ms = max(turns.take(rules, header_ms) for header_ms in sorted(headers))
    late_ms = turns.take_late(rules, since_ms)
    assert late_ms % tick == 0
    assert late_ms >= max(newest_ms, since_ms) + delay // 4
    assert late_ms - tick < max(newest_ms, since_ms) + delay // 4


@given(tick=ticks, delay=delays, header_ms=times, data=st.data())
def test_a_question_alone_is_told_when_it_would_be_without_turns(
    tick: int, delay: int, header_ms: int, data: st.DataObject
) -> None:
    """Its turn leaves a quarter of the delay for the answer; nothing is told later for it."""
    rules = policy(release_tick_ms=tick, answer_delay_ms=delay)
    received_ms = header_ms + data.draw(st.integers(0, delay // 2))
    turn_ms = ChargeTurns().take(rules, header_ms)
    assert not is_late(rules, header_ms=header_ms, received_ms=received_ms)
    told_ms = outcome_time(rules, header_ms=header_ms, received_ms=received_ms, turn_ms=turn_ms)
    assert told_ms == outcome_time(rules, header_ms=header_ms, received_ms=received_ms)
    assert told_ms >= turn_ms + delay // 4


def test_a_turn_is_a_function_of_policy_and_header_alone() -> None:
    """No parameter could carry a sample, or how long anything took."""
    assert list(inspect.signature(ChargeTurns.take).parameters) == ["self", "policy", "header_ms"]
