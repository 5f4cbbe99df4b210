"""Draws follow the exact law, agree with OpenDP, and a sampler that is slightly wrong is caught by the same procedure.

Error rates. A correct sampler fails this file, run with fresh randomness, with probability at most `FALSE_ALARM_RATE`:
each of the tests takes an equal share (Bonferroni). Our own draws come from fixed seeds, so those tests say the same at
every run until the sampler changes; OpenDP cannot be seeded, so its comparisons may fail at that rate. The chi-square
law is an approximation; with at least `MIN_EXPECTED` values expected in every cell it is good enough at this rate.
Power: a scale that is 5 % off, at `DRAWS` values, exceeds the threshold by many standard deviations; what is far off has to be
rejected at `FEW_DRAWS`. Faults that no
sample can show, such as a cut-off far out in the tails, are excluded by counting in
tests/unit/privacy/test_discrete_laplace.py.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache

import opendp.prelude as dp
import pytest

from broker_common.crypto.noise_stream import NoiseStream
from broker_common.privacy.discrete_laplace import UniformBits, bernoulli_exp, draw, probability, uniform_below

pytestmark = pytest.mark.statistical

FALSE_ALARM_RATE = 1e-6
LAW_SCALES = (1, 2, 30, 1000)
OPENDP_SCALES = (1, 30, 1000)
TABULATED_SCALES = (1, 2, 30)
SHARE = FALSE_ALARM_RATE / (len(LAW_SCALES) + len(OPENDP_SCALES))
DRAWS, FEW_DRAWS = 200_000, 20_000
MIN_EXPECTED = 80
FAIR_SHARE = 1 / 50
"""Of the whole law, for one cell."""
LAW_ACCURACY = 1e-12
"""Relative; above the error of a few double operations, far below what any sample could show."""

Sampler = Callable[[int, UniformBits], int]


class Cells:
    """A partition of the integers into zero, stretches on either side and two endless tails, with their exact law."""

    def __init__(self, scale: int, draws: int) -> None:
        self._scale = scale
        self._smallest = MIN_EXPECTED / draws
        self._starts = [1]
        while (start := self._next_start()) is not None:
            self._starts.append(start)

    def _next_start(self) -> int | None:
        """Where the last stretch ends: after a fair share of the whole, or of the rest, which resolves the tails.

        None when that would leave one of the two with fewer than `MIN_EXPECTED` values.
        """
        start = end = self._starts[-1]
        share = max(self._smallest, min(FAIR_SHARE, self._from(start) / 3))
        while self._from(start) - self._from(end) < share:
            end += 1
        return end if self._from(end) >= self._smallest else None

    def _from(self, start: int) -> float:
        """P(X >= start) for start >= 1: q**start / (1+q)."""
        return math.exp(-start / self._scale) / (1 + math.exp(-1 / self._scale))

    def law(self) -> dict[int, float]:
        """The probability of each cell: 0 is zero, j and -j the j-th stretches to the right and left of it."""
        ends = [*map(self._from, self._starts[1:]), 0.0]
        sides = [self._from(start) - end for start, end in zip(self._starts, ends, strict=True)]
        right = dict(enumerate(sides, start=1))
        return {0: math.tanh(1 / (2 * self._scale))} | right | {-j: mass for j, mass in right.items()}

    def cell_of(self, value: int) -> int:
        """The cell that a value falls into."""
        distance = bisect_right(self._starts, abs(value))
        return distance if value > 0 else -distance

    def tally(self, values: Iterable[int]) -> Counter[int]:
        """How many values fall into each cell."""
        return Counter(map(self.cell_of, values))


def chi_square_tail(statistic: float, degrees: int) -> float:
    """P(chi-square >= statistic), by the closed sums for even and for odd degrees of freedom."""
    half = statistic / 2
    total = 0.0 if degrees % 2 == 0 else math.erfc(math.sqrt(half))
    first = 0.0 if degrees % 2 == 0 else 0.5
    terms = (first + i for i in range(degrees // 2))
    return total + sum(math.exp(power * math.log(half) - half - math.lgamma(power + 1)) for power in terms)


def p_value_against_law(values: list[int], scale: int) -> float:
    """Chi-square goodness of fit of values to the exact law."""
    cells = Cells(scale, len(values))
    law, seen = cells.law(), cells.tally(values)
    expected = {cell: mass * len(values) for cell, mass in law.items()}
    assert min(expected.values()) >= MIN_EXPECTED
    statistic = sum((seen[cell] - mean) ** 2 / mean for cell, mean in expected.items())
    return chi_square_tail(statistic, len(law) - 1)


def p_value_between(ours: list[int], theirs: list[int], scale: int) -> float:
    """Chi-square homogeneity of two samples of equal size."""
    cells = Cells(scale, len(ours))
    seen_ours, seen_theirs = cells.tally(ours), cells.tally(theirs)
    statistic = sum(
        (seen_ours[cell] - seen_theirs[cell]) ** 2 / (seen_ours[cell] + seen_theirs[cell]) for cell in cells.law()
    )
    return chi_square_tail(statistic, len(cells.law()) - 1)


@cache
def draws_from(sampler: Sampler, scale: int, draws: int = DRAWS) -> list[int]:
    """Values from the real bit stream, under a fixed seed for each sampler and scale.

    Several tests look at some of them: their error rates add up, whether they are independent or not.
    """
    stream = NoiseStream(f"{sampler.__name__} {scale}".encode().ljust(32, b"."))
    return [sampler(scale, stream) for _ in range(draws)]


@cache
def draws_of_opendp(scale: int) -> list[int]:
    """As many of OpenDP's integer Laplace."""
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    drawn: list[int] = dp.m.make_laplace(*space, scale=float(scale))([0] * DRAWS)
    return drawn


@pytest.mark.parametrize("scale", LAW_SCALES)
def test_draws_follow_the_exact_law(scale: int) -> None:
    """Over the whole line, tails included, the counts fit the exact probabilities."""
    assert p_value_against_law(draws_from(draw, scale), scale) > SHARE


@pytest.mark.parametrize("scale", OPENDP_SCALES)
def test_draws_agree_with_opendp(scale: int) -> None:
    """OpenDP's integer Laplace, an implementation by others, cannot be told from ours."""
    assert p_value_between(draws_from(draw, scale), draws_of_opendp(scale), scale) > SHARE


def five_percent_wide(scale: int, stream: UniformBits) -> int:
    """Too much noise by 5 %."""
    return draw(scale * 21 // 20, stream)


def five_percent_narrow(scale: int, stream: UniformBits) -> int:
    """Too little noise by 5 %: this one leaks."""
    return draw(scale * 19 // 20, stream)


def double_zero(scale: int, stream: UniformBits) -> int:
    """Zero accepted under both signs."""
    while True:
        remainder = uniform_below(scale, stream)
        if bernoulli_exp(remainder, scale, stream):
            break
    quotient = 0
    while bernoulli_exp(1, 1, stream):
        quotient += 1
    return (1 - 2 * stream.bits(1)) * (remainder + scale * quotient)


def shifted_by_one(scale: int, stream: UniformBits) -> int:
    """Off by one, as from rounding down instead of to nearest."""
    return draw(scale, stream) - 1


def cut_off(scale: int, stream: UniformBits) -> int:
    """Noise clamped to three scales."""
    return max(-3 * scale, min(3 * scale, draw(scale, stream)))


def rounded_continuous(scale: int, stream: UniformBits) -> int:
    """The textbook formula in floats, rounded to an integer."""
    uniform = (stream.bits(53) + 0.5) / 2**53 - 0.5
    return round(-scale * math.copysign(math.log1p(-2 * abs(uniform)), uniform))


@pytest.mark.parametrize(
    ("wrong", "scale", "draws"),
    [
        (five_percent_wide, 20, DRAWS),
        (five_percent_wide, 1000, DRAWS),
        (five_percent_narrow, 20, DRAWS),
        (five_percent_narrow, 1000, DRAWS),
        (double_zero, 1, FEW_DRAWS),
        (double_zero, 30, FEW_DRAWS),
        (shifted_by_one, 1, FEW_DRAWS),
        (shifted_by_one, 30, DRAWS),
        (cut_off, 30, FEW_DRAWS),
        (rounded_continuous, 1, FEW_DRAWS),
    ],
)
def test_a_slightly_wrong_sampler_is_rejected(wrong: Sampler, scale: int, draws: int) -> None:
    """The procedure that passes our sampler fails these, at the same threshold and no more draws."""
    assert p_value_against_law(draws_from(wrong, scale, draws), scale) < SHARE


def test_a_wrong_sampler_is_told_from_opendp() -> None:
    """The two-sample comparison has the same power: 5 % of scale is seen."""
    assert p_value_between(draws_from(five_percent_narrow, 1000), draws_of_opendp(1000), 1000) < SHARE


@pytest.mark.parametrize("scale", TABULATED_SCALES)
def test_the_law_tested_against_is_the_one_tabulated(scale: int) -> None:
    """The cells cover everything once, and their probabilities are sums of the exact ones."""
    cells = Cells(scale, DRAWS)
    law = cells.law()
    summed = dict.fromkeys(law, 0.0)
    for x in range(-40 * scale, 40 * scale + 1):
        summed[cells.cell_of(x)] += float(probability(scale, x))
    assert all(math.isclose(summed[cell], law[cell], rel_tol=LAW_ACCURACY) for cell in law)
