"""The set of shares p that two noisy counts do not contradict, in the manner of Fieller (1954).

For p the right share of A among A + R, the statistic (1 - p) a - p r has mean 0 whatever A + R is. p is in the set if the statistic
is within the 95 % quantile of its own law: the noise's, or that of noise plus binomial sampling with the variance that p itself
would cause, n p (1 - p) design effect (a score test, as Wilson's). No other quantity is estimated but n = a + r in that variance.

Shares are written as angles, p = sin t / (sin t + cos t): p = 0 is angle 0, p = 1 a quarter turn, and the set is one arc around the
angle where the statistic is 0. It may be the whole half turn, or pass through p = infinity.

Everything here takes arrays, one element for each repetition: a simulation runs what the product runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from researcher_node.estimates.law import CriticalValues, Reals

_BISECTIONS = 40
_QUARTER = np.pi / 2
# The line runs from an eighth of a turn before p = 0 to an eighth after p = 1.
_END = 1.5 * _QUARTER


@dataclass(frozen=True, slots=True)
class Shares:
    """Sets of shares. `estimate`, `low` and `high` are of the unbounded line, before anything is clipped to 0..1.

    `bounded` is False where the set reaches infinity; low and high are then infinite. `unit_low` and `unit_high` are the ends of
    what lies in 0..1; nan where nothing does.
    """

    estimate: Reals
    low: Reals
    high: Reals
    bounded: NDArray[np.bool_]
    unit_low: Reals
    unit_high: Reals


@dataclass(frozen=True, slots=True)
class Tally:
    """Noisy counts of a part and of the rest of its whole, with their noise."""

    noise: CriticalValues
    part: Reals
    rest: Reals
    design_effect: float = 1.0

    @property
    def total(self) -> Reals:
        return self.part + self.rest

    @property
    def impossible(self) -> NDArray[np.bool_]:
        """Whether no group of people has these counts."""
        found: NDArray[np.bool_] = (self.part < 0) | (self.rest < 0)
        return found

    def nearest(self) -> Tally:
        """The nearest counts that can be: none is below 0."""
        return replace(self, part=np.maximum(self.part, 0.0), rest=np.maximum(self.rest, 0.0))

    def shares(self, *, sampled: bool) -> Shares:
        """The set of shares, for the people counted or for the population that they are sampled from."""
        angle = np.mod(np.arctan2(self.part, self.rest), np.pi)
        below = self._reach(angle, -1.0, sampled=sampled)
        above = self._reach(angle, 1.0, sampled=sampled)
        is_whole = np.isnan(below) | np.isnan(above)
        low, high = angle - np.where(is_whole, np.pi, below), angle + np.where(is_whole, np.pi, above)
        turn = np.where(angle > _END, np.pi, 0.0)
        angle, low, high = angle - turn, low - turn, high - turn
        bounded = (low > _END - np.pi) & (high < _END)
        unit_low, unit_high = _within_unit(low, high)
        return Shares(
            estimate=_share_at(angle),
            low=np.where(bounded, _share_at(low), -np.inf),
            high=np.where(bounded, _share_at(high), np.inf),
            bounded=bounded,
            unit_low=unit_low,
            unit_high=unit_high,
        )

    def _reach(self, centre: Reals, sign: float, *, sampled: bool) -> Reals:
        """How far the arc reaches from its centre on one side; nan if nothing on that side is excluded."""
        inside, outside = np.zeros_like(centre), np.full_like(centre, _QUARTER)
        is_whole = self._excess(centre + sign * _QUARTER, sampled=sampled) <= 0
        for _ in range(_BISECTIONS):
            middle = (inside + outside) / 2
            within = self._excess(centre + sign * middle, sampled=sampled) <= 0
            inside, outside = np.where(within, middle, inside), np.where(within, outside, middle)
        return np.where(is_whole, np.nan, outside)

    def _excess(self, angle: Reals, *, sampled: bool) -> Reals:
        """How far the statistic is beyond its critical value; at most 0 in the set."""
        sine, cosine = np.sin(angle), np.cos(angle)
        spread = np.maximum(self.total, 0.0) * np.maximum(sine * cosine, 0.0) * self.design_effect
        excess: Reals = np.abs(cosine * self.part - sine * self.rest) - self.noise.at(
            angle, spread if sampled else np.zeros_like(angle)
        )
        return excess


def _share_at(angle: Reals) -> Reals:
    with np.errstate(divide="ignore"):
        share: Reals = np.sin(angle) / (np.sin(angle) + np.cos(angle))
    return share


def _within_unit(low: Reals, high: Reals) -> tuple[Reals, Reals]:
    """The hull of what an arc has in 0..1, as shares; nan if it has nothing there."""
    first, last = np.full_like(low, np.inf), np.full_like(low, -np.inf)
    for turn in (-np.pi, 0.0, np.pi):
        start, stop = np.maximum(low + turn, 0.0), np.minimum(high + turn, _QUARTER)
        some = start <= stop
        first, last = np.where(some, np.minimum(first, start), first), np.where(some, np.maximum(last, stop), last)
    nothing = first > last
    low_share, high_share = (np.where(nothing, np.nan, _share_at(np.where(nothing, 0.0, end))) for end in (first, last))
    return low_share, high_share
