"""Laplace noise on the result of a query, and the sensitivity that weights and public bounds imply.

A respondent contributes multiplier * min(weight, cap) to a count, and that times the value to a sum. Without a cap every
respondent counts for the multiplier. A sensitivity is exact; the noise is a float, for evaluation only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from broker_common.language import phrase
from policy_lab.arrays import Reals
from policy_lab.mechanisms.limits import Number, checked_bounds, checked_epsilon, checked_number, refused
from policy_lab.mechanisms.neighbours import Neighbours

Kind = Literal["count", "sum", "mean"]

NOISY_MEAN_ASSUMES = phrase(
    "Neither the number of respondents nor the sum of their weights is public: half of epsilon goes to the sum and half to "
    "the number by which it is divided. The quotient is biased."
)


def contributions(weights: Reals, *, weight_cap: Number, multiplier: Number = 1) -> Reals:
    """How much each respondent counts: weights above the cap are clipped. Refused unless every weight is above 0."""
    most = _most(weight_cap, multiplier)
    if not np.all((weights > 0) & np.isfinite(weights)):
        raise refused(
            "weights",
            phrase("must all be numbers above 0"),
            phrase("Leave out rows whose weight is missing, zero or negative, and say how many they were."),
        )
    # Clipped first: an enormous weight must not overflow.
    return np.minimum(np.minimum(weights, float(weight_cap)) * float(multiplier), float(most))


def sensitivity(
    kind: Kind,
    *,
    neighbours: Neighbours,
    weight_cap: Number | None = None,
    multiplier: Number = 1,
    bounds: tuple[Number, Number] | None = None,
    is_filtered: bool = False,
    total: Number | None = None,
) -> Fraction:
    """How far the result can move between two neighbouring tables, exactly.

    `is_filtered`: the query has a condition that a respondent may fulfil or not. `total`: the sum of contributions by which a mean
    is divided. It is public, and so is each weight: neither changes when a row is replaced. Without it a mean is a `NoisyMean`.
    """
    most = _most(weight_cap, multiplier)
    if kind == "count":
        return most
    if bounds is None:
        raise refused(
            "bounds",
            phrase("are missing: noise for a sum or a mean needs public ones"),
            phrase("Give the smallest and the largest value that anybody could have, not those in the data."),
        )
    low, high = checked_bounds(*bounds)
    is_still_counted = not is_filtered and _keeps_weight(neighbours, weight_cap)
    if kind == "mean":
        _verify_mean(is_still_counted)
        return most * (high - low) / _checked_total(total)
    if not is_still_counted:
        # A respondent who is not counted, or has next to no weight, contributes 0.
        low, high = min(low, Fraction(0)), max(high, Fraction(0))
    if neighbours is Neighbours.ADDED:
        return most * max(-low, high)
    return most * (high - low)


@dataclass(frozen=True, slots=True)
class Laplace:
    """Noise with density proportional to e**(-|noise| * epsilon / sensitivity). A sensitivity of 0 needs no noise."""

    sensitivity: Number
    epsilon: float

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon)
        if checked_number("sensitivity", self.sensitivity) < 0:
            raise refused(
                "sensitivity", phrase("must be at least 0"), phrase("Give the largest change, without a sign.")
            )

    @property
    def scale(self) -> float:
        """The mean absolute error."""
        return float(self.sensitivity) / self.epsilon

    def apply(self, exact: ArrayLike, random: np.random.Generator) -> Reals:
        """Each result with noise of its own."""
        results = np.asarray(exact, np.float64)
        return results + random.laplace(0.0, self.scale, results.shape)

    def cdf(self, exact: float, x: ArrayLike) -> Reals:
        """The probability that the noisy result is at most x."""
        distance = np.asarray(x, np.float64) - exact
        if self.scale == 0:
            return np.where(distance >= 0, 1.0, 0.0)
        with np.errstate(over="ignore"):
            # An endless number of scales away, where the tail is 0.
            tail = np.exp(-np.abs(distance) / self.scale) / 2
        return np.where(distance >= 0, 1 - tail, tail)


@dataclass(frozen=True, slots=True)
class NoisyMean:
    """A mean whose divisor is not public: a noisy sum of distances to the middle, over a noisy sum of contributions.

    Each has half of epsilon, which is the noise of twice its sensitivity. The quotient is clipped to the bounds, and its divisor
    is at least one respondent's largest contribution.
    """

    bounds: tuple[Number, Number]
    epsilon: float
    neighbours: Neighbours
    weight_cap: Number | None = None
    multiplier: Number = 1

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon)
        checked_bounds(*self.bounds)
        _most(self.weight_cap, self.multiplier)

    @property
    def middle(self) -> Fraction:
        """Values are measured from here: adding a respondent then moves the sum by half the range at most."""
        low, high = checked_bounds(*self.bounds)
        return (low + high) / 2

    @property
    def of_sum(self) -> Laplace:
        """The noise of the sum of distances."""
        low, high = checked_bounds(*self.bounds)
        moved = _most(self.weight_cap, self.multiplier) * (high - low)
        return Laplace(2 * (moved / 2 if self.neighbours is Neighbours.ADDED else moved), self.epsilon)

    @property
    def of_total(self) -> Laplace:
        """The noise of the sum of contributions."""
        return Laplace(2 * _most(self.weight_cap, self.multiplier), self.epsilon)

    def apply(self, mean: ArrayLike, total: ArrayLike, random: np.random.Generator) -> Reals:
        """Noisy means, from the exact means and exact sums of contributions; the mean of nobody may be anything, NaN too."""
        middle, (low, high) = float(self.middle), map(float, self.bounds)
        totals = np.asarray(total, np.float64)
        from_middle = np.where(totals > 0, np.asarray(mean, np.float64) - middle, 0.0)
        distances = self.of_sum.apply(from_middle * totals, random)
        divisors = np.maximum(self.of_total.apply(totals, random), float(_most(self.weight_cap, self.multiplier)))
        return np.clip(middle + distances / divisors, low, high)


def largest_pair(sensitivities: Sequence[Fraction]) -> Fraction:
    """How far a whole table of disjoint cells can move when a row of one cell is replaced by a row of another."""
    return sum(sorted(sensitivities)[-2:], Fraction(0))


def _most(weight_cap: Number | None, multiplier: Number) -> Fraction:
    """The most that one respondent contributes to a count."""
    most = checked_number("multiplier", multiplier)
    if weight_cap is not None:
        most *= checked_number("weight cap", weight_cap)
    if most <= 0 or checked_number("multiplier", multiplier) <= 0:
        raise refused(
            "weight cap",
            phrase("and multiplier must be above 0"),
            phrase("Declare the largest weight that a respondent may have; larger weights are clipped to it."),
        )
    return most


def _keeps_weight(neighbours: Neighbours, weight_cap: Number | None) -> bool:
    """Whether the other row counts for as much in the same stratum: it does if weights are not replaced, or all alike."""
    return neighbours is Neighbours.ANSWERS_REPLACED or (
        neighbours is Neighbours.REPLACED_WITHIN and weight_cap is None
    )


def _verify_mean(is_still_counted: bool) -> None:
    """A public divisor stays as it is only if nobody comes, goes, changes stratum or weight, or stops being counted."""
    if not is_still_counted:
        raise refused(
            "mean",
            phrase(
                "can have a public divisor only if a row is replaced by one that counts for as much in the same stratum"
            ),
            phrase("Add noise to both the sum and the number of respondents."),
        )


def _checked_total(total: Number | None) -> Fraction:
    value = Fraction(0) if total is None else checked_number("total", total)
    if value <= 0:
        raise refused(
            "mean",
            phrase("needs a public total above 0 to divide by"),
            phrase("Give the public number of rows or sum of weights, or add noise to both the sum and the number."),
        )
    return value
