"""Agencies take turns: whatever one of them puts into its line, another one loses no more than the work of one sample."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from census_node.query.fair_queue import FairQueue, Place

AGENCIES = ("a", "b", "c", "d")
# Who puts something into line before each round, and how many the round takes.
rounds = st.lists(st.tuples(st.lists(st.sampled_from(AGENCIES), max_size=8), st.integers(1, 5)), max_size=30)


def placed(line: FairQueue, agency: str, name: object, whole_ms: int) -> Place[object]:
    """Something in line."""
    place: Place[object] = Place(agency, name, whole_ms, lambda _: name)
    line.put(place)
    return place


def taken(line: FairQueue, most: int, tick_ms: int) -> list[Place[object]]:
    """Samples that a round takes at a tick."""
    return line.take(most, before_ms=tick_ms, now_ms=tick_ms)


@given(history=rounds)
async def test_nobody_waits_for_more_than_one_item_of_each_other_agency(
    history: list[tuple[list[str], int]],
) -> None:
    """An item with n of its own agency before it is done before anybody else's (n + 2)nd since it was whole."""
    line, order, put_at = FairQueue(), list[Place[object]](), dict[Place[object], tuple[int, int]]()
    waiting: defaultdict[str, int] = defaultdict(int)
    for tick, (comers, most) in enumerate([*history, *[([], 5)] * 60], start=1):
        for agency in comers:
            place = placed(line, agency, object(), tick * 1000 - 1)
            put_at[place] = (len(order), waiting[agency])
            waiting[agency] += 1
        for place in taken(line, most, tick * 1000):
            since, before = put_at.pop(place)
            for other in set(AGENCIES) - {place.agency}:
                assert sum(each.agency == other for each in order[since:]) <= before + 1
            order.append(place)
            waiting[place.agency] -= 1
    assert not put_at
    assert line.oldest_ms is None


@given(history=rounds)
async def test_each_agencys_line_moves_oldest_first(history: list[tuple[list[str], int]]) -> None:
    """Nothing of one agency overtakes something of its own: a roster's switch stays behind the samples before it."""
    line, put, done = FairQueue(), defaultdict[str, list[object]](list), defaultdict[str, list[object]](list)
    for tick, (comers, most) in enumerate([*history, *[([], 5)] * 60], start=1):
        for agency in comers:
            put[agency].append(placed(line, agency, object(), tick * 1000 - 1).key)
        for place in taken(line, most, tick * 1000):
            done[place.agency].append(place.key)
    assert put == done


@given(history=rounds)
async def test_a_round_leaves_nobody_waiting_that_it_could_take(history: list[tuple[list[str], int]]) -> None:
    """As many as it may, or everything that was whole before it."""
    line, waiting = FairQueue(), 0
    for tick, (comers, most) in enumerate(history, start=1):
        for agency in comers:
            placed(line, agency, object(), tick * 1000 - 1)
        waiting += len(comers)
        found = len(taken(line, most, tick * 1000))
        assert found == min(most, waiting)
        waiting -= found


async def test_what_was_not_whole_before_the_tick_waits_for_the_next() -> None:
    """Strictly before, however late the desk looks; samples behind it in the same line wait with it."""
    line = FairQueue()
    placed(line, "a", "early", 999)
    placed(line, "a", "on the tick", 1000)
    placed(line, "b", "late", 1030)
    assert [each.key for each in line.take(5, before_ms=1000, now_ms=1040)] == ["early"]
    assert line.oldest_ms == 1000
    assert {each.key for each in line.take(5, before_ms=2000, now_ms=2000)} == {"on the tick", "late"}


async def test_clock_that_was_set_back_keeps_nobody_in_line() -> None:
    """A sample that is whole since an instant to come was whole before."""
    line = FairQueue()
    placed(line, "a", "of before", 3_600_000)
    assert [each.key for each in line.take(5, before_ms=1000, now_ms=1001)] == ["of before"]


async def test_an_outcome_is_told_when_it_leaves_and_not_when_it_is_done() -> None:
    """It is told to everybody who waits for it; a caller that gives up waiting takes it from nobody."""
    place = placed(FairQueue(), "a", "result", 1)
    first, second = asyncio.create_task(place.outcome()), asyncio.create_task(place.outcome())
    place.do(None)  # type: ignore[arg-type]  # this work does not look at its round
    for _ in range(3):
        await asyncio.sleep(0)
    assert not first.done()
    first.cancel()
    place.tell(0)
    assert await second == "result"
    assert await place.outcome() == "result"


async def test_a_failure_is_an_outcome_and_may_interest_nobody() -> None:
    """An error of the work is raised for its waiters; no waiter is no error."""

    def work(_: object) -> None:
        raise LookupError("of the work")

    place: Place[None] = Place("a", "key", 1, work)
    place.do(None)  # type: ignore[arg-type]  # this work does not look at its round
    place.tell(0)
    with pytest.raises(LookupError, match="of the work"):
        await place.outcome()
