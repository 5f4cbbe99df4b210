"""One desk: outcomes leave at ticks whatever the work took, nobody's flood or fault is somebody else's, and it stops cleanly."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Hashable
from functools import partial
from typing import TypeAlias

import pytest
from fakes.patience import NEVER_SECONDS
from fakes.timed_loop import TimedLoop, in_desk_time, timed, working
from hypothesis import given
from hypothesis import strategies as st
from unit.census_node.query.timed_desk import PERIOD_MS, TimedDesk

from broker_common.errors import PeerUnavailableError, RefusedError, StateUnknownError
from census_node.query.desk import Desk
from census_node.query.schedule import Immediate, Round, Ticks
from census_node.query.streams import Streams

# When each outcome left, and what the log has: in order, with times.
Seen: TypeAlias = tuple[dict[Hashable, int], list[tuple[Hashable, int]]]
# Agency, and when its sample is whole.
arrivals = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5 * PERIOD_MS)), max_size=12)


class AsSoonAsDone(Ticks):
    """A schedule that is wrong: outcomes leave when the work is done."""

    async def leave(self, now: Round) -> int:
        del now
        return self.clock()


class OnTheNextMillisecond(Ticks):
    """The same after an overrun alone."""

    async def leave(self, now: Round) -> int:
        return await super().leave(now) if self.clock() < now.leaves_ms else self.clock() + 1


def seen(
    comers: list[tuple[str, int]], takes_ms: Callable[[int], float], schedule: type[Ticks] = Ticks, batch: int = 4
) -> Seen:
    """The visible events of a desk at which these samples come, whose work takes so long each."""
    found: Seen = {}, []

    async def run() -> None:
        desk = TimedDesk(batch, kind=schedule)
        for number, (agency, whole_ms) in sorted(enumerate(comers), key=lambda each: each[1][1]):
            await desk.until(whole_ms)
            desk.put(agency, number, takes_ms(number))
        await desk.all_left()
        found[0].update(desk.left)
        found[1].extend(desk.entries)

    timed(run)
    return found


def verify_work_does_not_show(comers: list[tuple[str, int]], shares: list[float], schedule: type[Ticks]) -> None:
    """Nothing that anybody sees depends on how long work takes that ends within its tick."""
    # In whole milliseconds, as clocks go here: what is between two of them is rounded now up, now down.
    longest_ms = (PERIOD_MS - 1) // 4
    assert seen(comers, lambda number: round(longest_ms * shares[number]), schedule) == seen(
        comers, lambda _: 0, schedule
    )


@given(comers=arrivals, data=st.data())
def test_outcomes_leave_at_instants_that_no_work_moves(comers: list[tuple[str, int]], data: st.DataObject) -> None:
    """Neither an instant, nor the log's order, nor the time of an entry, for any work that ends within the tick."""
    shares = data.draw(st.lists(st.floats(0, 1), min_size=len(comers), max_size=len(comers)))
    verify_work_does_not_show(comers, shares, Ticks)


def test_outcomes_that_leave_as_soon_as_they_are_done_are_noticed() -> None:
    """The comparison above sees a schedule that does what it must not do."""
    with pytest.raises(AssertionError):
        verify_work_does_not_show([("a", 1)], [1.0], AsSoonAsDone)


@given(comers=arrivals)
def test_every_outcome_leaves_at_the_tick_after_the_one_that_took_it(comers: list[tuple[str, int]]) -> None:
    """Its entries carry the earlier tick, before which it was whole; nobody waits while the desk has nothing to do."""
    left, entries = seen(comers, lambda _: 1, batch=len(comers) + 1)
    assert {number for number, _ in entries} == set(range(len(comers)))
    for number, entry_ms in entries:
        assert isinstance(number, int)
        assert entry_ms % PERIOD_MS == 0
        assert comers[number][1] < entry_ms <= comers[number][1] + PERIOD_MS
        assert left[number] == entry_ms + PERIOD_MS


@pytest.mark.parametrize("flood", [1, 10, 1000])
@pytest.mark.parametrize("batch", [1, 3])
def test_flood_of_one_agency_costs_another_one_the_work_of_one_sample(flood: int, batch: int) -> None:
    """At most one sample of the flood is done before it, however many there are; without a flood nothing is."""
    comers = [*[("flooding", 1)] * flood, ("quiet", 990)]
    left, entries = seen(comers, lambda _: 1, batch=batch)
    assert [number for number, _ in entries].index(flood) <= 1
    assert left[flood] <= 2 * PERIOD_MS + (PERIOD_MS if batch == 1 else 0)


@in_desk_time
async def test_slow_item_within_its_tick_delays_nobody() -> None:
    """Others of its round leave when they would have left."""
    desk = TimedDesk()
    await desk.until(10)
    desk.put("a", "slow", takes_ms=990)
    desk.put("b", "quick")
    await desk.all_left()
    assert desk.left == {"slow": 2000, "quick": 2000}
    assert desk.alerts == 0


@pytest.mark.parametrize(
    ("takes_ms", "left_ms"), [(1000, 3000), (1001, 3000), (1999, 3000), (2000, 4000), (7300, 9000)]
)
@in_desk_time
async def test_overrun_moves_everybody_by_whole_ticks_and_alerts_the_operator(takes_ms: int, left_ms: int) -> None:
    """Samples taken with it leave with it, waiting ones are taken at that tick: which tick is all that it tells."""
    desk = TimedDesk()
    await desk.until(10)
    desk.put("a", "too slow", takes_ms)
    desk.put("b", "taken with it", 0)
    await desk.until(1500)
    desk.put("b", "behind it", 0)
    await desk.all_left()
    assert desk.left == {"too slow": left_ms, "taken with it": left_ms, "behind it": left_ms + PERIOD_MS}
    assert desk.entries == [("too slow", 1000), ("taken with it", 1000), ("behind it", left_ms)]
    assert desk.alerts == 1


def test_overrun_that_leaves_when_it_is_done_is_noticed() -> None:
    """Work of one or of three hundred milliseconds beyond the tick would be told apart."""
    late = [seen([("a", 1)], lambda _, ms=ms: PERIOD_MS + ms, OnTheNextMillisecond)[0] for ms in (1, 300)]  # type: ignore[misc]
    right = [seen([("a", 1)], lambda _, ms=ms: PERIOD_MS + ms)[0] for ms in (1, 300)]  # type: ignore[misc]
    assert late[0] != late[1]
    assert right[0] == right[1] == {0: 3 * PERIOD_MS}


@in_desk_time
async def test_silent_sender_holds_nobody_up() -> None:
    """Samples that never become whole have no place; their agency loses their streams at the deadline, another one nothing."""
    desk, streams = TimedDesk(), Streams(most=2, deadline_ms=5000)
    silent = asyncio.Event()

    class Silence:
        def __aiter__(self) -> Silence:
            return self

        async def __anext__(self) -> bytes:
            await silent.wait()
            raise StopAsyncIteration

    async def begin() -> None:
        with streams.held("silent"):
            await streams.received(Silence(), size=100, part_size=10)

    begun = [asyncio.create_task(begin()) for _ in range(2)]
    await desk.until(10)
    with pytest.raises(RefusedError, match="BUSY"), streams.held("silent"):
        pass
    with streams.held("other"):
        desk.put("other", "sample")
        await desk.all_left()
    assert desk.left == {"sample": 2000}
    results = await asyncio.gather(*begun, return_exceptions=True)
    assert all(isinstance(each, PeerUnavailableError) for each in results)
    assert desk.now_ms == 5000
    with streams.held("silent"), streams.held("silent"):
        pass


@in_desk_time
async def test_tick_that_a_round_changes_holds_from_the_next_round_on() -> None:
    """The change's own round leaves by the old tick, everything after it by the new one."""
    desk = TimedDesk(batch=1)
    await desk.until(10)
    desk.put("a", "slower ticks", then=lambda: setattr(desk, "period_ms", 4000))
    desk.put("a", "sample")
    await desk.all_left()
    assert desk.entries == [("slower ticks", 1000), ("sample", 4000)]
    assert desk.left == {"slower ticks": 2000, "sample": 8000}


@in_desk_time
async def test_tick_that_is_given_up_leaves_nobody_waiting() -> None:
    """From ticks to none, and back."""
    desk = TimedDesk(batch=1)
    await desk.until(10)
    desk.put("a", "no ticks", then=lambda: setattr(desk, "has_ticks", False))
    desk.put("a", "ticks", takes_ms=5, then=lambda: setattr(desk, "has_ticks", True))
    desk.put("a", "again")
    await desk.until(2100)
    desk.put("a", "later")
    await desk.all_left()
    assert desk.entries == [("no ticks", 1000), ("ticks", 2000), ("again", 2000), ("later", 3000)]
    assert desk.left == {"no ticks": 2000, "ticks": 2006, "again": 2006, "later": 4000}


@in_desk_time
async def test_switch_of_a_roster_waits_for_its_agencys_earlier_samples() -> None:
    """So that nobody with a place is refused; the other agency's samples go on beside it."""
    desk = TimedDesk(batch=2)
    await desk.until(10)
    for name in ("a1", "a2", "switch of a", "a3"):
        desk.put("a", name)
    for name in ("b1", "b2"):
        desk.put("b", name)
    await desk.all_left()
    order = [name for name, _ in desk.entries]
    assert [name for name in order if name not in {"b1", "b2"}] == ["a1", "a2", "switch of a", "a3"]
    assert desk.left["b2"] == desk.left["a2"] == 3000


@in_desk_time
async def test_releases_come_first_and_take_nobodys_turn() -> None:
    """An answer leaves a full period after its cosignature, however many samples are in line."""
    desk = TimedDesk(batch=1)
    await desk.until(10)
    for number in range(3):
        desk.put("a", number)
    await desk.until(500)
    desk.put("a", "release", is_release=True)
    await desk.all_left()
    assert desk.entries == [("release", 1000), (0, 1000), (1, 2000), (2, 3000)]
    assert desk.left["release"] == 2000


@in_desk_time
async def test_exception_is_the_outcome_of_whoever_raised_it() -> None:
    """Told at the tick like any other; the round goes on."""
    desk = TimedDesk()
    await desk.until(10)
    failing = desk.put("a", "failing", error=LookupError("a mistake"))
    other = desk.put("b", "other")
    await desk.all_left()
    with pytest.raises(LookupError, match="a mistake"):
        await failing.outcome()
    assert await other.outcome() == "other"
    assert desk.left == {"failing": 2000, "other": 2000}
    assert desk.stopped_by is None


@in_desk_time
async def test_nothing_is_done_after_a_write_whose_outcome_is_unknown() -> None:
    """The node stops; what was durable before it is told at its tick, everybody else that the node is gone."""
    desk, unknown = TimedDesk(), StateUnknownError("STATE_UNKNOWN")
    await desk.until(10)
    before = desk.put("a", "before")
    uncertain = desk.put("b", "uncertain", error=unknown)
    after, later = desk.put("a", "after"), desk.put("b", "later")
    await desk.running
    assert [name for name, _ in desk.entries] == ["before", "uncertain"]
    assert desk.stopped_by is unknown
    assert await before.outcome() == "before"
    with pytest.raises(StateUnknownError):
        await uncertain.outcome()
    for place in (after, later):
        with pytest.raises(PeerUnavailableError):
            await place.outcome()
    with pytest.raises(PeerUnavailableError):
        desk.put("a", "too late")


@in_desk_time
async def test_work_of_the_whole_round_comes_before_what_follows_it() -> None:
    """Nothing follows a failure; a failure then is the outcome, too, and all of it ends before anything is told."""
    desk, order = TimedDesk(), list[str]()
    await desk.until(10)

    def followed(name: object) -> None:
        order.append(f"{name} followed")
        working(100)
        if name == "fails later":
            raise LookupError(name)

    for name in ("first", "fails", "fails later", "last"):
        error = LookupError(name) if name == "fails" else None
        desk.put("a", name, error=error, then=partial(order.append, name), followed=followed)
    await desk.all_left()
    assert order == ["first", "fails", "fails later", "last", "first followed", "fails later followed", "last followed"]
    assert desk.left == dict.fromkeys(("first", "fails", "fails later", "last"), 2000)
    assert desk.failed == {"fails", "fails later"}


@in_desk_time
async def test_nothing_follows_where_the_outcome_of_a_write_is_unknown() -> None:
    """If the second part of a round cannot be done, only its own caller is told, and the node stops."""
    desk, unknown = TimedDesk(), StateUnknownError("STATE_UNKNOWN")
    await desk.until(10)

    def fail(_: object) -> None:
        raise unknown

    first, second = (desk.put("a", name, followed=fail) for name in ("first", "second"))
    await desk.running
    assert desk.stopped_by is unknown
    with pytest.raises(StateUnknownError):
        await first.outcome()
    with pytest.raises(PeerUnavailableError):
        await second.outcome()


@in_desk_time
async def test_same_ticket_twice_joins_its_place() -> None:
    """In line, while it is worked on and until its outcome leaves: done once, told to both; afterwards it is a new place."""
    desk = TimedDesk()
    await desk.until(10)
    place = desk.put("a", "ticket", takes_ms=500)
    for instant_ms in (600, 1200, 1700):
        await desk.until(instant_ms)
        assert desk.desk.find("ticket") is place
        assert desk.put("a", "ticket") is place
    await desk.until(2001)
    assert desk.desk.find("ticket") is None
    assert [name for name, _ in desk.entries] == ["ticket"]
    assert await place.outcome() == "ticket"
    assert desk.put("a", "ticket") is not place


@in_desk_time
async def test_nobody_joins_a_place_without_a_name() -> None:
    """A refusal is told to the refused caller."""
    desk = TimedDesk()
    assert desk.put("a", None) is not desk.put("a", None)
    assert desk.desk.find(None) is None


@pytest.mark.parametrize("instant_ms", [0, 500], ids=["nobody in line", "waiting for the tick"])
@in_desk_time
async def test_stop_of_an_idle_desk_is_at_once(instant_ms: int) -> None:
    """Nothing is begun; callers in line hear that the node is gone, which tells nothing of anybody."""
    desk = TimedDesk()
    await desk.until(10)
    place = desk.put("a", "in line") if instant_ms else None
    await desk.until(max(10, instant_ms))
    stopped_ms = desk.now_ms
    desk.desk.stop()
    await desk.running
    assert desk.now_ms == stopped_ms
    assert desk.entries == []
    if place is not None:
        with pytest.raises(PeerUnavailableError):
            await place.outcome()


@in_desk_time
async def test_stop_lets_the_outcomes_of_the_round_leave_at_their_tick() -> None:
    """Neither at once, which would tell how long the work took, nor never."""
    desk = TimedDesk(batch=1)
    await desk.until(10)
    desk.put("a", "being done", takes_ms=300)
    desk.put("a", "in line")
    await desk.until(1100)
    desk.desk.stop()
    await desk.running
    await desk.all_left()
    assert desk.left == {"being done": 2000, "in line": 2000}
    assert [name for name, _ in desk.entries] == ["being done"]


@in_desk_time
async def test_end_of_patience_waits_for_the_thread_and_tells_no_outcome() -> None:
    """Cancelled in the middle of work: the thread comes to its end first, and nobody hears what it found."""
    desk = TimedDesk()
    await desk.until(10)
    place = desk.put("a", "being done", takes_ms=300)
    await desk.until(1100)
    desk.running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await desk.running
    assert desk.now_ms == 1300
    with pytest.raises(PeerUnavailableError):
        await place.outcome()


@in_desk_time
async def test_desk_without_work_sleeps() -> None:
    """It wakes for nothing: in an hour without samples there is no round."""
    desk = TimedDesk()
    await desk.pause(NEVER_SECONDS * 1000)
    assert desk.asked == 0
    desk.put("a", "sample")
    await desk.all_left()
    assert desk.asked == 1


@in_desk_time
async def test_without_ticks_a_round_begins_as_soon_as_the_desk_is_free() -> None:
    """It takes who is in line by then, and their outcomes leave as soon as all of it is done: the same order of steps."""
    desk = TimedDesk(has_ticks=False)
    await desk.until(10)
    for name in ("first", "second"):
        desk.put("a", name, takes_ms=30)
    await desk.until(20)
    desk.put("a", "third", takes_ms=30)
    await desk.all_left()
    assert desk.entries == [("first", 10), ("second", 10), ("third", 70)]
    assert desk.left == {"first": 70, "second": 70, "third": 100}


async def test_work_is_done_in_one_thread_and_not_in_the_loops() -> None:
    """In real threads: one after the other, while the event loop goes on."""
    desk = Desk(lambda: Immediate(lambda: 0), most_releases=1, clock=lambda: 0, stop_node=lambda _: None)
    running = asyncio.create_task(desk.run())
    goes_on, threads = threading.Event(), list[str]()

    def work(_: Round) -> None:
        goes_on.wait()
        threads.append(threading.current_thread().name)

    places = [desk.put("a", work) for _ in range(3)]
    await asyncio.sleep(0)
    goes_on.set()
    for place in places:
        await place.outcome()
    desk.stop()
    await running
    assert len(set(threads)) == 1
    assert threads[0].startswith("desk")


def test_working_takes_virtual_time() -> None:
    """The helper that says how long work takes does so; otherwise no time test would find anything."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, TimedLoop)
        await loop.run_in_executor(None, working, 250)
        assert loop.time() == pytest.approx(0.25)

    timed(run)
