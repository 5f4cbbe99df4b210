"""Exact probabilities behind the verdicts: how good a guesser may be by luck, how small noise may be by luck.

All are one-sided tests of "no better than allowed": a p-value is the chance of a result at least as good for the attacker, if
the promise holds. The law of the noise and what it does to odds come from `broker_common.privacy`; here they are only added up.
Floats: they decide a verdict on an experiment, never anything about a person.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from broker_common.privacy import table_laplace
from broker_common.privacy.discrete_laplace import probability
from broker_common.privacy.table_laplace import points

Law = npt.NDArray[np.float64]
"""Probabilities of 0, 1, 2, ... up to where nothing is left that a verdict could feel."""

_BISECTIONS = 60
# Noise beyond so many scales has a probability below e**-45 of ever mattering.
_SCALES_SHOWN = 45


class Interval(NamedTuple):
    """Both ends of a confidence interval of a rate."""

    low: float
    high: float


def at_least(successes: int, trials: int, rate: float) -> float:
    """P(X >= successes) for X successes of independent trials, each with at most this rate."""
    if successes <= 0 or rate >= 1:
        return 1.0
    if rate <= 0:
        return 0.0
    logs = [
        math.lgamma(trials + 1)
        - math.lgamma(k + 1)
        - math.lgamma(trials - k + 1)
        + k * math.log(rate)
        + (trials - k) * math.log1p(-rate)
        for k in range(successes, trials + 1)
    ]
    return min(1.0, math.fsum(math.exp(log) for log in logs))


def fails_above(trials: int, rate: float, chance: float) -> float | None:
    """The largest share of successes that is at least this likely under `rate`; None where all of them are."""
    low, high = 0, trials + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if at_least(middle, trials, rate) >= chance else (low, middle)
    return low / trials if low < trials else None


def interval(successes: int, trials: int, confidence: float = 0.95) -> Interval:
    """Clopper and Pearson's exact interval: holds the rate with at least this confidence."""
    if trials == 0:
        return Interval(0.0, 1.0)
    side = (1 - confidence) / 2
    low = 0.0 if successes == 0 else _solve(lambda rate: at_least(successes, trials, rate) < side)
    high = 1.0 if successes == trials else _solve(lambda rate: 1 - at_least(successes + 1, trials, rate) > side)
    return Interval(low, high)


def _solve(is_below: Callable[[float], bool]) -> float:
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return (low + high) / 2


def same_law(one: Sequence[int], other: Sequence[int]) -> float:
    """The chance of samples that differ so much by any threshold, if which is which was drawn by lot and does not matter.

    For each threshold Fisher's exact test, on either side; their smallest chance times their number, which is no less than the
    chance of any of them.
    """
    together = sorted([*one, *other])
    thresholds = sorted(set(together))[1:]
    chances = []
    for threshold in thresholds:
        above = sum(value >= threshold for value in together)
        found = sum(value >= threshold for value in one)
        ways = [
            math.comb(above, k) * math.comb(len(together) - above, len(one) - k)
            for k in range(min(above, len(one)) + 1)
        ]
        chances += [sum(ways[found:]) / sum(ways), sum(ways[: found + 1]) / sum(ways)]
    return min(1.0, len(chances) * min(chances)) if chances else 1.0


def shifted(one: Sequence[int], other: Sequence[int]) -> float:
    """The chance of ranks that lie so far to one side, if which is which was drawn by lot and does not matter.

    Wilcoxon's exact test on both sides; equal values share the middle of their ranks.
    """
    if len(other) < len(one):
        one, other = other, one
    together = sorted([*one, *other])
    # Twice the rank, so that a middle is an integer.
    ranks = {value: bisect_left(together, value) + bisect_right(together, value) + 1 for value in set(together)}
    # The number of ways to choose so many, whose ranks add up to so much.
    ways = np.zeros((len(one) + 1, sum(ranks[value] for value in together) + 1))
    ways[0, 0] = 1.0
    for value in together:
        ways[1:, ranks[value] :] += ways[:-1, : -ranks[value]].copy()
    law = ways[-1] / ways[-1].sum()
    found = sum(ranks[value] for value in one)
    return float(min(1.0, 2 * min(law[: found + 1].sum(), law[found:].sum())))


@cache
def _signed_law(scale: int) -> Law:
    """P(noise = x) for x from -reach to reach."""
    reach = _SCALES_SHOWN * scale
    first, second = float(probability(scale, 0)), float(probability(scale, 1))
    right = first * (second / first) ** np.arange(reach + 1)
    law: Law = np.concatenate([right[:0:-1], right])
    return law


def sum_law(scales: Sequence[int]) -> Law:
    """The law of |sum| of independent draws at these scales."""
    law = np.ones(1)
    for scale in scales:
        law = np.convolve(law, _signed_law(scale))
    middle = len(law) // 2
    folded: Law = law[middle:].copy()
    folded[1:] += law[:middle][::-1]
    return folded


def magnitude_law(scale: int) -> Law:
    """The law of |noise| of one draw."""
    return sum_law((scale,))


def norm_law(scale: int, cells: int) -> Law:
    """The law of the norm of a table's noise."""
    balls = [sum(points(cells, radius)) for radius in range(_SCALES_SHOWN * scale)]
    at_zero = float(table_laplace.probability(scale, (0,) * cells))
    shells = [1, *(outer - inner for inner, outer in pairwise(balls))]
    return np.array([count * math.exp(-radius / scale) * at_zero for radius, count in enumerate(shells)])


def cell_law(scale: int, cells: int) -> Law:
    """The law of |noise| of one cell of a table, and of the sum of all of them: see "Margins" in ARGUMENT.md."""
    weights = sum_law((2 * scale,) * cells)
    weights = weights * np.exp(-np.arange(len(weights)) / (2 * scale))
    law: Law = weights / weights.sum()
    return law


def lower_tail(laws: Sequence[Law], observed: int) -> float:
    """P(S <= observed) for S the sum of independent magnitudes, one of each law: small when noise is smaller than it should be."""
    if observed < 0:
        return 0.0
    total = np.zeros(observed + 1)
    total[0] = 1.0
    for law in laws:
        # Magnitudes are not negative: what passes `observed` never comes back.
        total = np.convolve(total, law[: observed + 1])[: observed + 1]
    return float(min(1.0, total.sum()))
