"""Who is next: turns between researchers, bounds on what is in hand, and nothing lost no matter who leaves when."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from fakes.patience import PATIENCE_SECONDS

from broker_common.errors import BrokerError, PeerUnavailableError
from health_node.config import LimitConfig
from health_node.query.fair_queue import FairQueue, Spot

ONE = LimitConfig(max_queries=1, max_waiting_each=2000, max_waiting=4000)


class Queue:
    """A line, and the order in which its spots had their turns."""

    def __init__(self, limits: LimitConfig) -> None:
        self.line = FairQueue(limits)
        self.served: list[str] = []
        self.waited: list[bool] = []
        self.holders: list[Spot] = []
        self.tasks: list[asyncio.Task[None]] = []

    def ask(self, name: str) -> Spot:
        """One more question of this researcher."""
        spot = self.line.join(name)

        async def wait() -> None:
            self.waited.append(await spot.place())
            self.served.append(name)
            self.holders.append(spot)

        self.tasks.append(asyncio.create_task(wait()))
        return spot

    async def settle(self) -> None:
        """Everybody has done what they can."""
        for _ in range(5):
            await asyncio.sleep(0)

    async def end_one(self) -> None:
        """The question that was served first is done."""
        await self.settle()
        self.holders.pop(0).leave()
        await self.settle()


async def test_single_question_waits_for_one_of_a_thousand() -> None:
    """A thousand questions of one researcher are before nobody else's single one: it is next after the one in hand."""
    queue = Queue(ONE)
    for _ in range(1000):
        queue.ask("busy")
    await queue.settle()
    queue.ask("quiet")
    await queue.settle()
    for _ in range(3):
        await queue.end_one()
    # One was in hand, and one was before the newcomer.
    assert queue.served == ["busy", "busy", "quiet", "busy"]


async def test_researchers_have_turns_whatever_they_bring() -> None:
    """Three researchers with 50, 5 and 5 questions are served in rotation until somebody has none left."""
    queue = Queue(ONE)
    for name, number in (("a", 50), ("b", 5), ("c", 5)):
        for _ in range(number):
            queue.ask(name)
    await queue.settle()
    for _ in range(59):
        await queue.end_one()
    assert len(queue.served) == 60
    # The first one of "a" was alone when it came.
    assert sorted(queue.served[1:16]) == ["a"] * 5 + ["b"] * 5 + ["c"] * 5
    assert all(set(queue.served[at : at + 3]) == {"a", "b", "c"} for at in range(1, 16, 3))


async def test_line_is_as_long_as_it_may_be_and_nobody_is_locked_out() -> None:
    """One researcher cannot wait with more than their share; when the line is full, who has nothing in it still comes in."""
    limits = LimitConfig(max_queries=1, max_waiting_each=3, max_waiting=4)
    queue = Queue(limits)
    for _ in range(4):
        # The first one has its turn at once.
        queue.ask("a")
        await queue.settle()
    for name in ("a", "b", "c"):
        if name != "a":
            queue.ask(name)
        with pytest.raises(BrokerError) as caught:
            queue.ask(name)
        assert caught.value.code == "BUSY"


async def test_question_that_was_turned_away_takes_no_room() -> None:
    """Asking in vain, however often, leaves nothing behind."""
    queue = Queue(LimitConfig(max_queries=1, max_waiting_each=1))
    queue.ask("a")
    await queue.settle()
    queue.ask("a")
    for _ in range(100):
        with pytest.raises(BrokerError):
            queue.ask("a")
    for _ in range(2):
        await queue.end_one()
    assert queue.served == ["a", "a"]
    assert not queue.line._without_place
    assert not queue.line._turns


async def test_as_many_have_places_as_there_are() -> None:
    """The next one comes when somebody leaves, and not before; a question that finds a place free did not wait."""
    queue = Queue(LimitConfig(max_queries=2))
    for name in ("a", "b", "c"):
        queue.ask(name)
    await queue.settle()
    assert queue.served == ["a", "b"]
    assert queue.waited == [False, False]
    await queue.end_one()
    assert queue.served == ["a", "b", "c"]
    assert queue.waited == [False, False, True]


async def test_who_leaves_without_a_place_frees_none() -> None:
    """A question that ends while it waits is forgotten; what it never held is given to nobody."""
    queue = Queue(ONE)
    spots = [queue.ask(name) for name in ("a", "b", "c")]
    await queue.settle()
    spots[1].leave()
    await queue.settle()
    assert queue.served == ["a"]
    await queue.end_one()
    assert queue.served == ["a", "c"]
    queue.tasks[1].cancel()


async def test_close_wakes_everybody_and_serves_nobody() -> None:
    """At a stop those in line hear it at once, and places that come free are given to nobody."""
    queue = Queue(ONE)
    for name in ("a", "b", "b", "c"):
        queue.ask(name)
    await queue.settle()
    pausing = asyncio.create_task(queue.line.pause(3600))
    await queue.settle()
    queue.line.close()
    ends = await asyncio.gather(*queue.tasks, pausing, return_exceptions=True)
    assert [type(end) for end in ends] == [type(None), *[PeerUnavailableError] * 4]
    queue.holders.pop().leave()
    await queue.settle()
    assert queue.served == ["a"]
    with pytest.raises(PeerUnavailableError):
        queue.line.join("d")


@pytest.mark.parametrize("seed", range(20))
async def test_bounds_hold_and_nobody_is_forgotten_in_any_order_of_events(seed: int) -> None:
    """Random arrivals and departures: never too many at once, and in the end everybody was served."""
    chance = np.random.default_rng(seed)
    limits = LimitConfig(max_queries=int(chance.integers(1, 6)), max_waiting=30, max_waiting_each=10)
    line = FairQueue(limits)
    now = most = done = refused = 0

    async def question(name: str) -> None:
        nonlocal now, most, done, refused
        try:
            spot = line.join(name)
        except BrokerError:
            refused += 1
            return
        try:
            # As one does whose roster is not there yet.
            for _ in range(int(chance.integers(0, 3))):
                await asyncio.sleep(0)
            await spot.place()
            now += 1
            most = max(most, now)
            for _ in range(int(chance.integers(0, 5))):
                await asyncio.sleep(0)
            now -= 1
        finally:
            spot.leave()
        done += 1

    async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as group:
        for _ in range(200):
            group.create_task(question(str(chance.choice(list("abcdef")))))
            if chance.random() < 0.5:
                await asyncio.sleep(0)
    assert done + refused == 200
    assert done > 0
    assert most <= limits.max_queries
    assert not line._without_place
    assert not line._turns
    assert line._places == limits.max_queries
