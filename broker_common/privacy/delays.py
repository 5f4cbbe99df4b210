"""How long a node needs for everybody: one rule from a declared figure, never from how many people are loaded.

An operator declares how many people a load may hold at most, in steps. Delays, limits and prices follow from that figure, so
that nobody sees by them how many people there are.
"""

from __future__ import annotations

from broker_common.privacy.policy import Policy

__all__ = ["DECLARED_STEP", "declared_for", "least_delay_ms", "too_short", "usual_delay_ms"]

DECLARED_STEP = 524_288
"""Declared figures are multiples of this."""

# Half a delay covers the arrival of a sample of everybody, half the work on it; each was measured at well under 100 ms for a
# million people on two cores.
_LEAST_MS_PER_MILLION = 200
# By default twice that, for a machine that is slower or does something else, and never less than this.
_USUAL_FACTOR = 2
_USUAL_LEAST_MS = 400
# A tenth more people than today, so that a load may grow without a new policy.
_HEADROOM_PERCENT = 10
_DELAYS = ("forward_delay_ms", "answer_delay_ms")


def declared_for(people: int) -> int:
    """The figure to declare where there are so many people now: a tenth more, rounded up to a step."""
    room = people + -(-people * _HEADROOM_PERCENT // 100)
    return max(1, -(-room // DECLARED_STEP)) * DECLARED_STEP


def least_delay_ms(declared: int) -> int:
    """The shortest delay that covers so many people: 200 ms for each million."""
    return -(-declared * _LEAST_MS_PER_MILLION // 1_000_000)


def usual_delay_ms(declared: int) -> int:
    """The delay to choose where nobody says otherwise: twice the shortest, and 400 ms at least."""
    return max(_USUAL_LEAST_MS, _USUAL_FACTOR * least_delay_ms(declared))


def too_short(policy: Policy, declared: int, names: tuple[str, ...] = _DELAYS) -> dict[str, int]:
    """Which of the named delays of `policy` do not cover so many people, each with the shortest that would.

    Without ticks delays promise nothing: none is too short.
    """
    least_ms = least_delay_ms(declared) if policy.release_tick_ms else 0
    return {name: least_ms for name in names if getattr(policy, name) < least_ms}
