"""The instants at which anything may leave the node: multiples of the policy's tick, far enough after the header.

An instant depends on when a sample's header arrived and on the policy, never on the sample, the count or the linkage.
Tick 0 means "at once": it voids the delays and exists for tests and benchmarks.
"""

from __future__ import annotations

import asyncio

from broker_common.privacy.policy import Policy
from broker_common.values import Clock

__all__ = ["first_answer_time", "next_tick", "sleep_until"]


def next_tick(policy: Policy, not_before_ms: int) -> int:
    """The first multiple of the tick that is not before the given time."""
    tick = policy.release_tick_ms
    return not_before_ms if tick == 0 else -(-not_before_ms // tick) * tick


def first_answer_time(policy: Policy, header_ms: int) -> int:
    """When `charged`, or a refusal, may be said of a sample whose header arrived at `header_ms`."""
    if policy.release_tick_ms == 0:
        return header_ms
    return next_tick(policy, header_ms + policy.answer_delay_ms)


async def sleep_until(time_ms: int, clock: Clock) -> None:
    """Return at `time_ms` by `clock`, or at once if it has passed."""
    wait_ms = time_ms - clock()
    if wait_ms > 0:
        await asyncio.sleep(wait_ms / 1000)
