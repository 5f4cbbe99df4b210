"""The set of shares p that two noisy counts do not contradict, in the manner of Fieller (1954).

For p the right share of A among A + R, the statistic (1 - p) a - p r has mean 0 whatever A + R is. p is in the set if the statistic
is within the 95 % quantile of its own law: the noise's, or that of noise plus binomial sampling with the variance that p itself
would cause, n p (1 - p) design effect (a score test, as Wilson's). No other quantity is estimated but n = a + r in that variance.

Shares are written as angles, p = sin t / (sin t + cos t): p = 0 is angle 0, p = 1 a quarter turn, and the set is one arc around the
angle where the statistic is 0. It may be the whole half turn, or pass through p = infinity.

Everything here takes arrays, one element for each repetition: a simulation runs what the product runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from researcher_node.estimates.law import CriticalValues, Reals

_BISECTIONS = 48
_QUARTER = np.pi / 2


@dataclass(frozen=True, slots=True)
class Shares:
    """Sets of shares. `estimate`, `low` and `high` are of the unbounded line, before anything is clipped to 0..1.

    `bounded` is False where the set reaches infinity; low and high are then infinite. `unit_low` and `unit_high` are the ends of
    what lies in 0..1, at most 0 and 1.
    """

    estimate: Reals
    low: Reals
    high: Reals
    bounded: NDArray[np.bool_]
    unit_low: Reals
    unit_high: Reals


def shares(noise: CriticalValues, a: Reals, r: Reals, sampling: float) -> Shares:
    """The sets for counts a and r; `sampling` is the design effect, or 0 for noise only."""
    angle = np.mod(np.arctan2(a, r), np.pi)
    below = _reach(noise, a, r, angle, -1.0, sampling)
    above = _reach(noise, a, r, angle, 1.0, sampling)
    is_whole = np.isnan(below) | np.isnan(above)
    low, high = angle - np.where(is_whole, np.pi, below), angle + np.where(is_whole, np.pi, above)
    # The line runs from an eighth of a turn before p = 0 to an eighth after p = 1.
    end = 1.5 * _QUARTER
    turned = angle > end
    low, high, angle = low - np.pi * turned, high - np.pi * turned, angle - np.pi * turned
    bounded = (low > end - np.pi) & (high < end) & ~is_whole
    unit_low, unit_high = _within_unit(low, high)
    unit_low, unit_high = _not_empty(noise, a, r, sampling, unit_low, unit_high)
    return Shares(
        estimate=_share_at(angle),
        low=np.where(bounded, _share_at(low), -np.inf),
        high=np.where(bounded, _share_at(high), np.inf),
        bounded=bounded,
        unit_low=unit_low,
        unit_high=unit_high,
    )


def _share_at(angle: Reals) -> Reals:
    with np.errstate(divide="ignore"):
        share: Reals = np.sin(angle) / (np.sin(angle) + np.cos(angle))
    return share


def _excess(noise: CriticalValues, a: Reals, r: Reals, angle: Reals, sampling: float) -> Reals:
    """How far the statistic is beyond its critical value; at most 0 in the set."""
    statistic = np.abs(np.cos(angle) * a - np.sin(angle) * r)
    variance = sampling * np.maximum(a + r, 0.0) * np.maximum(np.sin(angle) * np.cos(angle), 0.0)
    excess: Reals = statistic - noise.at(angle, variance)
    return excess


def _reach(noise: CriticalValues, a: Reals, r: Reals, centre: Reals, sign: float, sampling: float) -> Reals:
    """How far the arc reaches from its centre on one side; nan if nothing on that side is excluded."""
    inside, outside = np.zeros_like(centre), np.full_like(centre, _QUARTER)
    is_whole = _excess(noise, a, r, centre + sign * _QUARTER, sampling) <= 0
    for _ in range(_BISECTIONS):
        middle = (inside + outside) / 2
        within = _excess(noise, a, r, centre + sign * middle, sampling) <= 0
        inside, outside = np.where(within, middle, inside), np.where(within, outside, middle)
    return np.where(is_whole, np.nan, outside)


def _within_unit(low: Reals, high: Reals) -> tuple[Reals, Reals]:
    """The hull of what an arc has in 0..1, as shares; nan if it has nothing there. An arc is at most two half turns long."""
    found_low, found_high = np.full_like(low, np.inf), np.full_like(low, -np.inf)
    for turn in (-np.pi, 0.0, np.pi):
        first, last = np.maximum(low + turn, 0.0), np.minimum(high + turn, _QUARTER)
        some = first <= last
        found_low = np.where(some, np.minimum(found_low, first), found_low)
        found_high = np.where(some, np.maximum(found_high, last), found_high)
    none = found_low > found_high
    return np.where(none, np.nan, _share_at(np.where(none, 0.0, found_low))), np.where(
        none, np.nan, _share_at(np.where(none, 0.0, found_high))
    )


def _not_empty(
    noise: CriticalValues, a: Reals, r: Reals, sampling: float, low: Reals, high: Reals
) -> tuple[Reals, Reals]:
    """Where no share in 0..1 is in the set: what the nearest possible counts would give, which is never empty.

    An answer is as far out as that about once in forty. An empty set would cover nothing; this one is honest about how little
    such an answer says.
    """
    empty = np.isnan(low)
    if not empty.any():
        return low, high
    nearest = shares(noise, np.maximum(a[empty], 0.0), np.maximum(r[empty], 0.0), sampling)
    low, high = low.copy(), high.copy()
    low[empty], high[empty] = nearest.unit_low, nearest.unit_high
    return low, high
