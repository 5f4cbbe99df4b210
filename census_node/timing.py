"""The instants at which anything may leave the node: multiples of the policy's tick, never "as soon as it is done".

When an outcome leaves depends on when the sample's header came and on the policy, as long as the sample is there within
half the answer delay and the work takes less than the other half; the charge is made between the two. A sender who
dawdles moves the instant by whole ticks that follow from when its last message came, never from how long the work took;
work that takes longer than it may moves it to a later tick (SECURITY.md, known limits). Tick 0 means "at once": it voids
the delays and exists for tests and benchmarks.

Under per-person accounting a charge cannot be decided before the one ahead of it is made. So that how long deciding takes
shows in nobody's charge, charges have turns: in the order of headers, a quarter of the answer delay apart. Of the half of the
delay that is for the work, a quarter of the delay is then for keeping and deciding, and a quarter for the answer.
"""

from __future__ import annotations

import asyncio
import threading

from broker_common.privacy.policy import Policy
from broker_common.values import Clock

__all__ = ["ChargeTurns", "charge_time", "is_late", "next_tick", "outcome_time", "sleep_until", "sleep_until_tick"]


def next_tick(policy: Policy, not_before_ms: int) -> int:
    """The first multiple of the tick that is not before the given time."""
    tick = policy.release_tick_ms
    return not_before_ms if tick == 0 else -(-not_before_ms // tick) * tick


def charge_time(policy: Policy, *, header_ms: int, kept_ms: int) -> int:
    """When the charge of a sample that was kept at `kept_ms` is made.

    SECURITY: not as soon as it can be. The charge's place in the log is told with the answer, and whoever has entries of
    their own made meanwhile (a card, a delivery) reads from it when the charge was made, and so how large the sample was.
    """
    if policy.release_tick_ms == 0:
        return kept_ms
    planned_ms = header_ms + policy.answer_delay_ms // 2
    return planned_ms if kept_ms <= planned_ms else next_tick(policy, kept_ms)


class ChargeTurns:
    """The instants at which charges are made that have to be decided one after the other. Thread-safe.

    SECURITY: a turn is given when a header is accepted, and follows from when headers came; whether its sample is ready by
    then is not asked. Two charges closer together would show in the log how long the second one took to decide.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest_ms = -(2**62)

    def take(self, policy: Policy, header_ms: int) -> int:
        """The turn of a sample: three quarters of the delay after its header, or as soon after that as there is one."""
        return self._next(policy, header_ms + policy.answer_delay_ms // 2, on_tick=False)

    def take_late(self, policy: Policy, since_ms: int) -> int:
        """For a sample that came late, or was not ready for its turn: on a tick, when everybody else has had theirs."""
        return self._next(policy, since_ms, on_tick=True)

    def _next(self, policy: Policy, since_ms: int, *, on_tick: bool) -> int:
        with self._lock:
            turn_ms = max(since_ms, self._newest_ms) + policy.answer_delay_ms // 4
            self._newest_ms = next_tick(policy, turn_ms) if on_tick else turn_ms
            return self._newest_ms


def is_late(policy: Policy, *, header_ms: int, received_ms: int) -> bool:
    """True for a sample whose last message came after the half of the delay that is for its arrival."""
    return received_ms > header_ms + policy.answer_delay_ms // 2


def outcome_time(policy: Policy, *, header_ms: int, received_ms: int, turn_ms: int = 0) -> int:
    """When `charged`, or a refusal, may be said of a sample whose last message came at `received_ms`.

    `turn_ms` is when its charge is made, where charges have turns.
    """
    if policy.release_tick_ms == 0:
        return received_ms
    delay_ms = policy.answer_delay_ms
    return next_tick(policy, max(header_ms + delay_ms, received_ms + delay_ms // 2, turn_ms + delay_ms // 4))


async def sleep_until_tick(policy: Policy, tick_ms: int, clock: Clock) -> int:
    """Return at the given tick, or, when that has passed, at the next one; gives the tick at which it returned."""
    if policy.release_tick_ms == 0:
        return clock()
    if tick_ms < clock():
        tick_ms = next_tick(policy, clock() + 1)
    await sleep_until(tick_ms, clock)
    return tick_ms


async def sleep_until(instant_ms: int, clock: Clock) -> None:
    """Return at the given instant, or at once when it has passed."""
    await asyncio.sleep(max(0, instant_ms - clock()) / 1000)
