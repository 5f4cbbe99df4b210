"""Declared figures and the delays that follow from them: one rule, of declared figures only."""

from __future__ import annotations

import pytest
from fakes.world import make_policy

from broker_common.privacy.delays import DECLARED_STEP, declared_for, least_delay_ms, too_short, usual_delay_ms


@pytest.mark.parametrize(
    ("people", "declared"),
    [(1, 1), (10, 1), (100_000, 1), (476_625, 1), (476_626, 2), (1_000_000, 3), (15_000_000, 32), (20_000_000, 42)],
)
def test_what_is_declared_leaves_a_tenth_for_growth(people: int, declared: int) -> None:
    """A multiple of the step, with a tenth more than there are within it."""
    assert declared_for(people) == declared * DECLARED_STEP
    assert declared_for(people) >= people + people // 10


@pytest.mark.parametrize(
    ("steps", "least_ms", "usual_ms"), [(1, 105, 400), (2, 210, 420), (3, 315, 630), (32, 3356, 6712)]
)
def test_delays_follow_from_what_is_declared(steps: int, least_ms: int, usual_ms: int) -> None:
    """200 ms for each million, twice that by default, and 400 ms at least."""
    assert least_delay_ms(steps * DECLARED_STEP) == least_ms
    assert usual_delay_ms(steps * DECLARED_STEP) == usual_ms


def test_delay_that_does_not_cover_everybody_is_named() -> None:
    """With the shortest that would; the default does, and so does exactly the shortest."""
    assert too_short(make_policy(tick_ms=250, delay_ms=314), 3 * DECLARED_STEP) == {
        "forward_delay_ms": 315,
        "answer_delay_ms": 315,
    }
    assert too_short(make_policy(tick_ms=250, delay_ms=315), 3 * DECLARED_STEP) == {}
    one = make_policy(tick_ms=250, delay_ms=630, answer_delay_ms=10)
    assert too_short(one, 3 * DECLARED_STEP) == {"answer_delay_ms": 315}
    assert too_short(one, 3 * DECLARED_STEP, ("forward_delay_ms",)) == {}


def test_without_ticks_no_delay_is_too_short() -> None:
    """They promise nothing then."""
    assert too_short(make_policy(tick_ms=0, delay_ms=0), 40 * DECLARED_STEP) == {}
