"""The steady clock: follows the wall clock forward, never goes back, and goes on when the wall clock is set back."""

from __future__ import annotations

import threading

import pytest
from fakes.clock import FakeClock
from fakes.patience import linger_here
from hypothesis import given
from hypothesis import strategies as st

from broker_common.storage.clock import SteadyClock, monotone_clock, system_clock

HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS
START_MS = 1_700_000_000_000


class Machine:
    """A wall clock and a monotone one, and the steady clock over both."""

    def __init__(self, up_ms: int = 12_345) -> None:
        self.wall, self.monotone = FakeClock(START_MS), FakeClock(up_ms)
        self.steady = SteadyClock(self.wall, self.monotone)

    def wait(self, milliseconds: int) -> None:
        """Let time pass for both."""
        self.wall.advance(milliseconds)
        self.monotone.advance(milliseconds)


@pytest.fixture
def machine() -> Machine:
    """One that nobody has set yet."""
    return Machine()


def test_it_is_the_wall_clock_as_long_as_nobody_sets_that(machine: Machine) -> None:
    """Milliseconds since 1970, from whatever the monotone clock began with."""
    for waited in (0, 1, 999, HOUR_MS):
        machine.wait(waited)
        assert machine.steady() == machine.wall()


@pytest.mark.parametrize("jump_ms", [1, HOUR_MS, YEAR_MS])
def test_a_wall_clock_set_forward_is_followed(machine: Machine, jump_ms: int) -> None:
    """An hour that the operator adds has passed."""
    machine.wall.advance(jump_ms)
    assert machine.steady() == START_MS + jump_ms
    machine.wait(7)
    assert machine.steady() == START_MS + jump_ms + 7


@pytest.mark.parametrize("jump_ms", [1, HOUR_MS, YEAR_MS])
def test_a_wall_clock_set_back_is_not_followed_and_time_goes_on(machine: Machine, jump_ms: int) -> None:
    """Neither back nor standing still: an instant a second away is a second away."""
    machine.wall.advance(-jump_ms)
    assert machine.steady() == START_MS
    machine.wait(1000)
    assert machine.steady() == START_MS + 1000


def test_time_stays_ahead_after_a_jump_that_was_corrected(machine: Machine) -> None:
    """Expired quotes stay expired; the wall clock rules again when it has caught up."""
    machine.wall.advance(HOUR_MS)
    assert machine.steady() == START_MS + HOUR_MS
    machine.wall.advance(-HOUR_MS)
    machine.wait(10)
    assert machine.steady() == START_MS + HOUR_MS + 10
    machine.wall.advance(2 * HOUR_MS)
    assert machine.steady() == machine.wall()


def test_it_goes_on_from_a_later_instant_and_from_no_earlier_one(machine: Machine) -> None:
    """A log that is ahead of the wall clock is gone on from at the monotone rate."""
    machine.steady.not_before(START_MS + HOUR_MS)
    machine.wait(5)
    assert machine.steady() == START_MS + HOUR_MS + 5
    machine.steady.not_before(START_MS)
    assert machine.steady() == START_MS + HOUR_MS + 5


@given(
    st.lists(
        st.tuples(st.sampled_from(["wait", "set", "read", "floor"]), st.integers(-2 * YEAR_MS, 2 * YEAR_MS)),
        max_size=30,
    )
)
def test_it_never_goes_back_and_is_never_behind_either_clock(steps: list[tuple[str, int]]) -> None:
    """Whatever is done to the wall clock in whatever order."""
    machine = Machine()
    last_ms = machine.steady()
    for step, milliseconds in steps:
        passed = 0
        if step == "wait":
            passed = abs(milliseconds)
            machine.wait(passed)
        elif step == "set":
            machine.wall.advance(milliseconds)
        elif step == "floor":
            machine.steady.not_before(START_MS + milliseconds)
        now_ms = machine.steady()
        assert now_ms >= max(last_ms + passed, machine.wall())
        last_ms = now_ms


def test_a_pause_between_two_readings_of_the_machines_clocks_adds_nothing() -> None:
    """A process that is stopped between the two readings, for however long, is not ahead of the time afterwards."""
    wall, monotone = FakeClock(START_MS), FakeClock(0)
    stopped_ms = 0

    def stopped_after(clock: FakeClock) -> int:
        now_ms = clock()
        wall.advance(stopped_ms)
        monotone.advance(stopped_ms)
        return now_ms

    steady = SteadyClock(lambda: stopped_after(wall), lambda: stopped_after(monotone))
    stopped_ms = HOUR_MS
    steady()
    stopped_ms = 0
    assert steady() == wall()


def test_many_threads_see_one_time() -> None:
    """Read from many threads while the wall clock is set about, no thread sees it go back."""
    wall = FakeClock(START_MS)
    steady = SteadyClock(wall, monotone_clock)
    wrong: list[tuple[int, int]] = []
    done = threading.Event()

    def read() -> None:
        last_ms = 0
        while not done.is_set():
            now_ms = steady()
            if now_ms < last_ms:
                wrong.append((last_ms, now_ms))
            last_ms = now_ms

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for number in range(500):
        wall.advance(HOUR_MS if number % 2 else -HOUR_MS)
        steady()
    done.set()
    for reader in readers:
        reader.join()
    assert not wrong


def test_the_machines_own_clocks_are_the_default() -> None:
    """Without parameters it is this machine's time, and the monotone clock runs."""
    steady = SteadyClock()
    before_ms, started_ms = system_clock(), monotone_clock()
    assert before_ms - 10_000 < steady() < system_clock() + 10_000
    linger_here()
    assert monotone_clock() > started_ms
    assert steady() > before_ms
