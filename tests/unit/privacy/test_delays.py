"""Declared figures and the times that follow from them: rules of declared figures only."""

from __future__ import annotations

import pytest
from fakes.logs import policy

from broker_common.privacy.delays import (
    DECLARED_STEP,
    declared_for,
    desk_batch,
    least_forward_delay_ms,
    least_tick_ms,
    roster_delay_ms,
    too_short,
    usual_forward_delay_ms,
    usual_tick_ms,
)
from broker_common.privacy.policy import Subject

SUBJECTS: tuple[Subject, ...] = ("person", "household")


@pytest.mark.parametrize(
    ("people", "declared"),
    [(1, 1), (10, 1), (100_000, 1), (476_625, 1), (476_626, 2), (1_000_000, 3), (15_000_000, 32), (20_000_000, 42)],
)
def test_what_is_declared_leaves_a_tenth_for_growth(people: int, declared: int) -> None:
    """A multiple of the step, with a tenth more than there are within it."""
    assert declared_for(people) == declared * DECLARED_STEP
    assert declared_for(people) >= people + people // 10


@pytest.mark.parametrize(
    ("places", "least_ms", "usual_ms"),
    [(300, 20, 100), (DECLARED_STEP, 20, 100), (3 * DECLARED_STEP, 56, 131), (32 * DECLARED_STEP, 588, 663)],
)
def test_forward_delay_follows_from_the_declared_places(places: int, least_ms: int, usual_ms: int) -> None:
    """35 ms for each million; by default 75 ms more, and 100 ms at least."""
    assert (least_forward_delay_ms(places), usual_forward_delay_ms(places)) == (least_ms, usual_ms)


@pytest.mark.parametrize(
    ("steps", "subject", "least_ms", "usual_ms"),
    [
        (1, "person", 26, 250),
        (1, "household", 36, 250),
        (14, "household", 241, 250),
        (15, "household", 256, 300),
        (32, "person", 188, 250),
        (32, "household", 524, 550),
        (48, "person", 272, 300),
    ],
)
def test_tick_follows_from_the_declared_people_and_from_who_is_charged(
    steps: int, subject: Subject, least_ms: int, usual_ms: int
) -> None:
    """20 ms, and 10 or 30 ms for each million; by default 250 ms, unless the work takes longer."""
    people = steps * DECLARED_STEP
    assert (least_tick_ms(people, subject), usual_tick_ms(people, subject)) == (least_ms, usual_ms)


def test_fifteen_million_people_have_answers_within_two_seconds() -> None:
    """At the usual times: the delay, a tick until the sample leaves, four until its answer does."""
    people = declared_for(15_000_000)
    assert usual_forward_delay_ms(people) + 5 * usual_tick_ms(people, "person") <= 2000


@pytest.mark.parametrize("subject", SUBJECTS)
@pytest.mark.parametrize("steps", [1, 3, 32, 80])
def test_desk_takes_as_many_samples_as_fit_in_a_tick(steps: int, subject: Subject) -> None:
    """Never less than one, or nobody would be served; never more than 64."""
    people = steps * DECLARED_STEP
    least_ms = least_tick_ms(people, subject)
    ticks = (0, 1, least_ms, 2 * least_ms - 1, 2 * least_ms, 64 * least_ms, 86_400_000)
    assert [desk_batch(tick_ms, people, subject) for tick_ms in ticks] == [1, 1, 1, 1, 2, 64, 64]


def test_roster_delay_follows_from_the_declared_places() -> None:
    """400 ms for each million, and 400 ms at least."""
    assert [roster_delay_ms(steps * DECLARED_STEP) for steps in (1, 2, 3, 32)] == [400, 420, 630, 6711]


def test_time_that_does_not_cover_what_is_declared_is_named() -> None:
    """With the shortest that would; exactly the shortest does. A question about places gets no tick."""
    figures = {"places": 3 * DECLARED_STEP, "people": 3 * DECLARED_STEP}
    short = policy(release_tick_ms=35, forward_delay_ms=55)
    assert too_short(short, **figures) == {"forward_delay_ms": 56, "release_tick_ms": 36}
    assert too_short(short, 3 * DECLARED_STEP) == {"forward_delay_ms": 56}
    assert too_short(short, people=3 * DECLARED_STEP) == {"release_tick_ms": 36}
    assert too_short(policy(release_tick_ms=36, forward_delay_ms=56), **figures) == {}
    households = policy(release_tick_ms=36, forward_delay_ms=56, accounting="per_person", subject="household")
    assert too_short(households, **figures) == {"release_tick_ms": 68}


def test_without_ticks_no_time_is_too_short() -> None:
    """They promise nothing then."""
    assert (
        too_short(policy(release_tick_ms=0, forward_delay_ms=0), places=40 * DECLARED_STEP, people=40 * DECLARED_STEP)
        == {}
    )
