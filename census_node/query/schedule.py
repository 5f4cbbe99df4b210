"""When the desk takes what waits, and when the outcomes leave. Nothing else knows whether there are ticks.

    whole before a tick -> taken at that tick, whose time its log entries carry -> its outcome leaves at the next tick

A release is taken in the same way as a sample. So an answer leaves at the first tick that is a whole period after its
cosignature, and what is written for it ends inside that period, never at the instant at which it leaves.

SECURITY: every instant follows from the policy, from when something was whole and from what else was in line. How long work took
moves nothing, unless it took longer than a period: then everything moves by whole ticks, and the operator hears of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from broker_common.privacy.policy import Policy
from broker_common.values import Clock

# The most samples of a round without ticks.
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Round:
    """One turn of the desk."""

    # It takes what was whole before this instant.
    before_ms: int
    # The time of the log entries that it makes.
    entries_ms: int
    # When its outcomes leave, if its work is done before.
    leaves_ms: int
    # The most samples that it takes.
    most: int


class Schedule(Protocol):
    """Says when a round begins and when its outcomes leave."""

    async def next_round(self, whole_ms: int, free_ms: int) -> Round:
        """Return when the next round begins.

        `whole_ms` is since when the oldest in line has been whole; the desk is free from the instant `free_ms` on.
        """

    async def leave(self, now: Round) -> int:
        """Return at the instant at which the outcomes of a round may leave, its work being done; gives that instant."""

    async def hold_until(self, not_before_ms: int) -> None:
        """Return at the first instant, from this one on, at which anything may leave that is not made at the desk."""


@dataclass(frozen=True, slots=True)
class Ticks:
    """Rounds begin, and outcomes leave, on multiples of `period_ms`."""

    period_ms: int
    # The most samples of one round.
    batch: int
    clock: Clock
    # Called when the work of a round took longer than its period.
    alert: Callable[[], object]

    async def next_round(self, whole_ms: int, free_ms: int) -> Round:
        now_ms = self.clock()
        tick_ms = self._tick(max(whole_ms + 1, free_ms))
        if not now_ms - self.period_ms < tick_ms <= now_ms + self.period_ms:
            # Somebody has set the clock, or the machine stood still.
            tick_ms = self._tick(now_ms + 1)
        await self._sleep_until(tick_ms)
        return Round(before_ms=tick_ms, entries_ms=tick_ms, leaves_ms=tick_ms + self.period_ms, most=self.batch)

    async def leave(self, now: Round) -> int:
        now_ms, leaves_ms = self.clock(), now.leaves_ms
        if now_ms >= leaves_ms:
            self.alert()
        if not now_ms < leaves_ms <= now_ms + self.period_ms:
            # SECURITY: never "now", or the instant would say when the work was done.
            leaves_ms = self._tick(now_ms + 1)
        await self._sleep_until(leaves_ms)
        return leaves_ms

    async def hold_until(self, not_before_ms: int) -> None:
        await self._sleep_until(self._tick(max(not_before_ms, self.clock())))

    def _tick(self, not_before_ms: int) -> int:
        return -(-not_before_ms // self.period_ms) * self.period_ms

    async def _sleep_until(self, instant_ms: int) -> None:
        await asyncio.sleep(max(0, instant_ms - self.clock()) / 1000)


@dataclass(frozen=True, slots=True)
class Immediate:
    """A round as soon as the desk is free, its outcomes as soon as it is done: for tests and benchmarks."""

    clock: Clock

    async def next_round(self, whole_ms: int, free_ms: int) -> Round:
        del whole_ms, free_ms
        now_ms = self.clock()
        return Round(before_ms=now_ms + 1, entries_ms=now_ms, leaves_ms=now_ms, most=_AT_ONCE)

    async def leave(self, now: Round) -> int:
        del now
        return self.clock()

    async def hold_until(self, not_before_ms: int) -> None:
        """At once."""


def schedule_of(
    policy: Policy | None, *, batch: Callable[[Policy], int], clock: Clock, alert: Callable[[], object]
) -> Schedule:
    """The schedule that a policy asks for; ask again before every round, since a round may change the policy.

    `batch` says how many samples the work of one round may be. Without a policy nothing is answered.
    """
    if policy is None or policy.release_tick_ms == 0:
        return Immediate(clock)
    return Ticks(policy.release_tick_ms, batch(policy), clock, alert)
