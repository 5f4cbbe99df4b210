"""The one place that reads the machine's clocks; everything else takes a clock as a parameter.

The wall clock may be set, forward or back, while a node serves. A process that serves reads it through a `SteadyClock`,
so that no instant comes twice and nothing waits for an hour that has been once.
"""

from __future__ import annotations

import threading
import time

from broker_common.values import Clock

_NANOSECONDS = 1_000_000
# Counts on while the machine sleeps, where there is such a clock.
_MONOTONE = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def system_clock() -> int:
    """Milliseconds since 1970 UTC."""
    return time.time_ns() // _NANOSECONDS


def monotone_clock() -> int:
    """Milliseconds since some instant in the past; nobody can set it."""
    return time.clock_gettime_ns(_MONOTONE) // _NANOSECONDS


class SteadyClock:
    """The wall clock, but it never goes back: where the wall clock is set back, it goes on at the monotone rate.

    Set forward, the wall clock is followed, and when that is corrected the time stays ahead for as long as the process
    lives. Thread-safe.
    """

    def __init__(self, wall: Clock = system_clock, monotone: Clock = monotone_clock) -> None:
        self._wall = wall
        self._monotone = monotone
        self._lock = threading.Lock()
        self._ahead_ms = self._wall() - self._monotone()

    def __call__(self) -> int:
        with self._lock:
            # The wall clock first: read second, whatever time passes in between would be added for good.
            wall_ms = self._wall()
            monotone_ms = self._monotone()
            self._ahead_ms = max(self._ahead_ms, wall_ms - monotone_ms)
            return monotone_ms + self._ahead_ms

    def not_before(self, time_ms: int) -> None:
        """Go on from `time_ms` if that is later than now."""
        with self._lock:
            self._ahead_ms = max(self._ahead_ms, time_ms - self._monotone())
