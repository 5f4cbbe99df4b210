"""Forecasts: intervals that hold as often as they say, nothing where there is nothing to go by, and sooner for who has less."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_common.privacy.accounting import price
from broker_common.privacy.forecast import FORECAST_REACH, MIN_ANSWERS, MIN_PEOPLE, Milestone, milestones, waiting_time

CAP = 23_258_159
PRICE = price(30)
RUNS = 20_000
# Five standard errors of a share of 90 % in so many runs: a correct forecast fails with probability below 1e-6.
SLACK = 5 * (0.9 * 0.1 / RUNS) ** 0.5


def foretold(hits: list[int], answers: int, floor: int = 0) -> tuple[Milestone, ...]:
    """The milestones of people who were in so many of the past answers at the usual scale."""
    charges, people = np.unique(np.array(hits, np.int64) * PRICE, return_counts=True)
    return milestones(charges, people, past_units=answers * PRICE, floor=floor, cap=CAP, scale=30)


def test_the_interval_holds_nine_times_out_of_ten() -> None:
    """Over people whose share of studies is anything at all, the waiting time is within the interval as often as said."""
    rng = np.random.default_rng(20)
    answers, room = 60, 9
    shares = rng.beta(0.5, 0.5, RUNS)
    hits = rng.binomial(answers, shares)
    waits = room + np.array([rng.negative_binomial(room, max(share, 1e-12)) for share in shares])
    intervals = {count: waiting_time(room, count, answers) for count in set(hits.tolist())}
    within = above_middle = 0
    for count, wait in zip(hits.tolist(), waits.tolist(), strict=True):
        early, middle, late = (FORECAST_REACH if end is None else end for end in intervals[count])
        within += early <= wait and (wait <= late or late == FORECAST_REACH)
        above_middle += wait > middle
    # A waiting time is a whole number, so that both ends hold a little more than they have to.
    assert 0.9 - SLACK <= within / RUNS <= 0.96
    assert 0.4 <= above_middle / RUNS <= 0.52


@settings(max_examples=50)
@given(room=st.integers(1, 69), hits=st.integers(1, 60), more=st.integers(0, 1000))
def test_the_ends_are_in_order_and_the_room_has_to_be_used(room: int, hits: int, more: int) -> None:
    """A person with room for so many answers is in that many at least."""
    early, middle, late = (FORECAST_REACH + 1 if end is None else end for end in waiting_time(room, hits, hits + more))
    assert room <= early <= middle <= late


def test_who_was_in_nearly_no_sample_is_beyond_what_is_foretold() -> None:
    """One of many thousand answers says: more than the reach, and not a number."""
    assert waiting_time(40, 1, 1_000_000) == (None, None, None)


def test_more_room_takes_longer_and_more_hits_are_quicker() -> None:
    """The median follows what it is made of."""
    medians = [waiting_time(room, 10, 100)[1] for room in (1, 5, 20)]
    assert medians == sorted(medians, key=lambda median: median or 0)
    quicker = [waiting_time(5, hits, 100)[1] for hits in (50, 20, 5)]
    assert quicker == sorted(quicker, key=lambda median: median or 0)


def test_a_person_in_every_sample_needs_as_many_answers_as_there_is_room() -> None:
    """Forty of forty past answers, one more fits: one more answer."""
    (one, five, half) = foretold([40] * 200, 40)
    assert (one.early, one.middle, one.late) == (1, 1, 1)
    assert one.middle == five.middle == half.middle


def test_the_share_is_that_of_the_most_charged() -> None:
    """One of a hundred has none left, the others were in one sample of a hundred: 1 % is reached, 5 % is far."""
    one, five, half = foretold([41] + [1] * 99, 100)
    assert (one.early, one.middle, one.late) == (0, 0, 0)
    assert five.early is not None
    assert five.early > 100
    assert five.early == half.early


def test_the_share_is_rounded_up_to_whole_people() -> None:
    """One of a hundred and one is less than 1 %: the second has to be exhausted as well."""
    one, *_ = foretold([41] + [1] * 100, 100)
    assert one.early != 0


def test_everybodys_charge_takes_room() -> None:
    """Earlier strict charges count for each person."""
    without, *_ = foretold([10] * 200, 100)
    within, *_ = foretold([10] * 200, 100, floor=20 * PRICE)
    assert without.middle is not None
    assert within.middle is not None
    assert within.middle < without.middle
    exhausted, *_ = foretold([10] * 200, 100, floor=31 * PRICE)
    assert exhausted.late == 0


@pytest.mark.parametrize(
    ("hits", "answers"),
    [([], 100), ([3] * (MIN_PEOPLE - 1), 100), ([3] * MIN_PEOPLE, MIN_ANSWERS - 1), ([], 0)],
)
def test_nothing_is_foretold_from_too_little(hits: list[int], answers: int) -> None:
    """Few people, few answers or none at all: no number, instead of a wrong one."""
    assert foretold(hits, answers) == ()


def test_just_enough_is_enough() -> None:
    """The limits themselves suffice."""
    assert len(foretold([3] * MIN_PEOPLE, MIN_ANSWERS)) == 3
