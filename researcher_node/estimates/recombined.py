"""Intervals of shares, of sums of shares and of ratios of two, out of the Fieller set of each share.

The method for sums is that of variance estimates recovered (MOVER: Zou and Donner 2008; for ratios Donner and Zou 2012): the
distance from a share's estimate to the end of its own 95 % set says how far it may be off on that side, and independent distances
add up like standard deviations. Nothing is clipped before the end: shares below 0 and above 1 go into a sum as they are, or every
sum of small shares would be too large.

A share whose set reaches infinity (its total is not to be told from 0) leaves the sum or ratio untold. If the estimate itself is
impossible, as a share below 0 is, the set would be small or empty, and the smaller the farther off the answer is. Then the interval
also takes in that of the nearest possible counts: it can only grow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from researcher_node.estimates.fieller import Shares, Tally
from researcher_node.estimates.law import Reals

_BISECTIONS = 44
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Ends:
    """Ends of intervals, one for each repetition; before `with_nearest`, nan where no possible value is left."""

    low: Reals
    high: Reals
    # Where the estimate is none that can be.
    impossible: NDArray[np.bool_]

    def with_nearest(self, nearest: Callable[[], Ends]) -> Ends:
        """Together with the interval of the nearest possible counts, where the estimate is impossible."""
        if not self.impossible.any():
            return self
        there = nearest()
        return Ends(
            np.where(self.impossible, np.fmin(self.low, there.low), self.low),
            np.where(self.impossible, np.fmax(self.high, there.high), self.high),
            self.impossible,
        )


def of_share(tally: Tally, *, sampled: bool) -> Ends:
    """A share, in 0..1."""

    def ends(counts: Tally) -> Ends:
        found = counts.shares(sampled=sampled)
        return Ends(found.unit_low, found.unit_high, counts.impossible)

    return ends(tally).with_nearest(lambda: ends(tally.nearest()))


def of_sum(tallies: Sequence[Tally], coefficients: Sequence[float], *, sampled: bool) -> Ends:
    """A sum of coefficient times share, within what shares in 0..1 can make of it; no coefficient is 0."""

    def ends(counts: Sequence[Tally]) -> Ends:
        return _sum([each.shares(sampled=sampled) for each in counts], coefficients)

    return ends(tallies).with_nearest(lambda: ends([tally.nearest() for tally in tallies]))


def of_ratio(a: Tally, b: Tally, correlation: Reals, *, sampled: bool) -> Ends:
    """Share a over share b, in 0..inf; `correlation` is that of their two estimates."""

    def ends(upper: Tally, lower: Tally) -> Ends:
        found = _ratio(upper.shares(sampled=sampled), lower.shares(sampled=sampled), correlation)
        return replace(found, impossible=upper.impossible | lower.impossible)

    return ends(a, b).with_nearest(lambda: ends(a.nearest(), b.nearest()))


def correlation(a: Tally, b: Tally, inside_both: float, outside_both: float, *, sampled: bool) -> Reals:
    """That of two rates' estimates whose noises come from the same two tables.

    The rate p of N people errs by ((1-p) noise inside - p noise outside) / N; `..._both` are the covariances of part and against.
    """
    a_rate, b_rate = (np.clip(each.part / np.maximum(each.total, 1.0), 0.0, 1.0) for each in (a, b))
    shared = (1 - a_rate) * (1 - b_rate) * inside_both + a_rate * b_rate * outside_both
    a_variance, b_variance = (_error_variance(each, rate, sampled=sampled) for each, rate in ((a, a_rate), (b, b_rate)))
    found: Reals = shared / np.sqrt(a_variance * b_variance)
    return found


def _error_variance(rate: Tally, p: Reals, *, sampled: bool) -> Reals:
    """Variance of N times the error of a rate's estimate."""
    noise = rate.noise.variance(np.arctan2(p, 1 - p)) * (p**2 + (1 - p) ** 2)
    sampling = np.maximum(rate.total, 0.0) * p * (1 - p) * rate.design_effect
    variance: Reals = noise + sampling if sampled else noise
    return variance


def _sum(terms: Sequence[Shares], coefficients: Sequence[float]) -> Ends:
    centre, below, above = (np.zeros_like(terms[0].estimate) for _ in range(3))
    bounded: NDArray[np.bool_] = np.ones(centre.shape, np.bool_)
    for term, coefficient in zip(terms, coefficients, strict=True):
        bounded &= term.bounded
        estimate, low, high = (np.where(term.bounded, x, 0.0) for x in (term.estimate, term.low, term.high))
        to_low, to_high = coefficient * (estimate - low), coefficient * (high - estimate)
        centre += coefficient * estimate
        below += (to_low if coefficient > 0 else to_high) ** 2
        above += (to_high if coefficient > 0 else to_low) ** 2
    least, most = sum(min(c, 0.0) for c in coefficients), sum(max(c, 0.0) for c in coefficients)
    low, high = (
        np.where(bounded, centre - np.sqrt(below), least),
        np.where(bounded, centre + np.sqrt(above), most),
    )
    nothing = (high < least) | (low > most)
    low, high = (np.where(nothing, np.nan, np.clip(end, least, most)) for end in (low, high))
    return Ends(low, high, bounded & ((centre < least) | (centre > most)))


def _ratio(a: Shares, b: Shares, correlation: Reals) -> Ends:
    """All R = tan(t) for which a - R b may be 0: the interval of a cos(t) - b sin(t) holds 0."""
    bounded = a.bounded & b.bounded
    a_estimate, a_low, a_high, b_estimate, b_low, b_high = (
        np.where(bounded, x, 0.0) for x in (a.estimate, a.low, a.high, b.estimate, b.low, b.high)
    )

    def excess(angle: Reals) -> Reals:
        """How far that interval is from 0; at most 0 in the set."""
        cosine, sine = np.cos(angle), np.sin(angle)
        value = a_estimate * cosine - b_estimate * sine
        is_above = value >= 0
        x = cosine * np.where(is_above, a_estimate - a_low, a_high - a_estimate)
        y = sine * np.where(is_above, b_high - b_estimate, b_estimate - b_low)
        found: Reals = np.abs(value) - np.sqrt(np.maximum(x**2 + y**2 - 2 * correlation * x * y, 0.0)) - _ROUNDING
        return found

    centre = np.arctan2(np.maximum(a_estimate, 0.0), np.maximum(b_estimate, 0.0))
    nothing = bounded & (excess(centre) > 0)
    zero, infinity = np.zeros_like(centre), np.full_like(centre, np.pi / 2)
    last = _last_accepted(excess, centre, infinity)
    low = np.where(bounded, np.tan(_last_accepted(excess, centre, zero)), 0.0)
    high = np.where(bounded & (last < infinity), np.tan(last), np.inf)
    low, high = (np.where(nothing, np.nan, end) for end in (low, high))
    return Ends(low, high, nothing)


def _last_accepted(excess: Callable[[Reals], Reals], centre: Reals, end: Reals) -> Reals:
    """From the centre towards the end: the end itself if it is accepted, or else where acceptance stops."""
    inside, outside = centre, end
    for _ in range(_BISECTIONS):
        middle = (inside + outside) / 2
        within = excess(middle) <= 0
        inside, outside = np.where(within, middle, inside), np.where(within, outside, middle)
    return np.where(excess(end) <= 0, end, outside)
