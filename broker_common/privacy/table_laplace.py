"""Table Laplace: the noise of d cells at once, for the price of one. Integer vectors drawn exactly.

One person's record moves the counts of a table by +-e_i (present or absent) or e_i - e_j (another value). The norm whose unit ball
is the hull of these steps is g(z) = max(sum of positive parts, sum of negative parts). With q = e**(-1/scale)

    P(z) = q**g(z) * (1-q)**d / sum over i of C(d,i)**2 * q**i       for every vector z of d integers,

so a step changes no probability by more than the factor e**(1/scale). ARGUMENT.md has the proof.

Invariants. Given uniform bits the law is exact, as in `discrete_laplace`, whose law and bits are those of one cell. The bits are read
in the order below and in no other; the vectors in tests/vectors/table_laplace.json hold it.

    pick(w0, w1, ...)      x = uniform_below(w0 + w1 + ...); the least i with w0 + ... + wi > x
    subset(k, n)           for t = n-k+1 ... n: r = 1 + uniform_below(t); take r, or t if r is taken; ascending
    draw(d, b), d >= 2     1. i = pick(C(d,0)**2, ..., C(d,d)**2); i times bernoulli_exp(1/b): once it is false, start again
                           2. N = i + the sum of d+1 geometric(b)
                           3. j = pick of C(d,j) * C(N,j) * C(N+d-j, d-j) for j = 0 ... d
                           4. subset(j, d) are the cells above zero, counted from 1
                           5. subset(j, N): the distances of its members, beginning at 0, are the values of these cells
                           6. subset(d-j, N+d-j): 1 less its distances are the values of the others

Steps 1 and 2 give N with probability proportional to q**N times the number of z with g(z) <= N; steps 3 to 6 pick one of them.

Left to others: that the counts are of disjoint groups of people, and all that `discrete_laplace` leaves to others.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from math import comb

from broker_common.privacy import discrete_laplace
from broker_common.privacy.discrete_laplace import (
    PROBABILITY_DIGITS,
    UniformBits,
    bernoulli_exp,
    geometric,
    uniform_below,
)
from broker_common.privacy.enclosure import Between, decide, exp_between, to_decimal
from broker_common.values import MOST_CELLS, ExactCounts, NoisyCounts

_USUAL_CONFIDENCE = Fraction(19, 20)
_WORKING_DIGITS = 60
# The working digits hold for every scale up to here, which is far beyond any policy's.
_MAX_TABULATED_SCALE = 10**30


def draw(cells: int, scale: int, stream: UniformBits) -> tuple[int, ...]:
    """The noise of so many cells. Requires uniform, independent bits.

    `ValueError` unless scale >= 1 and there are as many cells as an answer may have. Errors of the stream pass through.
    """
    _verify(scale, cells)
    if cells == 1:
        return (discrete_laplace.draw(scale, stream),)
    return point_of_ball(cells, _radius(cells, scale, stream), stream)


def point_of_ball(cells: int, radius: int, stream: UniformBits) -> tuple[int, ...]:
    """One of all z with norm(z) <= radius, each with the same probability."""
    above = _pick(points(cells, radius), stream)
    places = _subset(above, cells, stream)
    gains = iter(_distances(_subset(above, radius, stream)))
    losses = iter(_distances(_subset(cells - above, radius + cells - above, stream)))
    return tuple(next(gains) if place in places else 1 - next(losses) for place in range(1, cells + 1))


def add_noise(exact: ExactCounts, scale: int, stream: UniformBits) -> NoisyCounts:
    """The answer: the true count of each cell plus its part of one draw. A number may be negative.

    If two worlds differ by one step in the counts, no answer moves their log-odds by more than 1/scale, either way.
    `ValueError` unless scale >= 1.
    """
    counts = exact.reveal_to_mechanism()
    # SECURITY: one draw for all cells together; one for each would leak more than the one price of an answer pays for.
    noise = draw(len(counts), scale, stream)
    return NoisyCounts(tuple(count + part for count, part in zip(counts, noise, strict=True)))


@lru_cache(maxsize=4096)
def margin(scale: int, cells: int = 1, confidence: Fraction = _USUAL_CONFIDENCE) -> int:
    """The smallest m with P(|noise of a cell| <= m) >= confidence, exactly: 90 at scale 30 for one cell, 114 for two.

    The tail P(|noise| > m) is twice q**(m+1) * sum over i of C(m+d, d-1-i) * C(d-1-m, i) * q**i, over sum over i of C(d,i)**2 * q**i.
    It never equals 1 - confidence: q would be a root of a polynomial over the rationals whose constant term is not 0.
    `ValueError` unless scale >= 1, 0 < confidence < 1, and there are as many cells as an answer may have.
    """
    _verify(scale, cells)
    if not 0 < confidence < 1:
        raise ValueError("a confidence lies strictly between 0 and 1")
    whole = _weights(cells)

    def is_enough(m: int) -> bool:
        tail = [comb(m + cells, cells - 1 - i) * _comb(cells - 1 - m, i) for i in range(cells)]

        def to_spare(digits: int) -> Between:
            q, decay = (exp_between(Fraction(-k, scale), digits) for k in (1, m + 1))
            allowed, beyond = (_polynomial(coefficients, q, digits) for coefficients in (whole, tail))
            rest = 1 - confidence
            # The tail is positive, also where too few digits leave it open.
            least = max(beyond.low, Fraction(0))
            return Between(
                rest * allowed.low - 2 * decay.high * beyond.high, rest * allowed.high - 2 * decay.low * least
            )

        return bool(decide(to_spare, lambda spare: int(spare > 0)))

    most = scale
    while not is_enough(most):
        most *= 2
    return bisect_left(range(most), True, key=is_enough)


def sum_margin(scale: int, cells: int) -> int:
    """The smallest m with P(|noise of the sum of all cells| <= m) >= 19/20: that of a cell, since both have one law.

    g is half the sum of absolute values of (z1, ..., zd, -(z1 + ... + zd)), in which every place stands for every other.
    """
    return margin(scale, cells)


_margin = margin


def largest_scale_within(margin: int, scales: Iterable[int], cells: int = 1) -> int | None:
    """The cheapest way to a wanted accuracy: the largest of `scales` whose 95 % margin is at most `margin`, or None."""
    return max((scale for scale in scales if _margin(scale, cells) <= margin), default=None)


def norm(z: Sequence[int]) -> int:
    """How many steps of one person's record lead from no change to z."""
    return max(sum(part for part in z if part > 0), -sum(part for part in z if part < 0))


def points(cells: int, radius: int) -> list[int]:
    """How many z have norm(z) <= radius, by how many of their parts are above zero."""
    return [comb(cells, j) * comb(radius, j) * comb(radius + cells - j, cells - j) for j in range(cells + 1)]


def probability(scale: int, z: Sequence[int]) -> Decimal:
    """P(noise = z), for tests, plots and estimates, with a relative error below 10**-25.

    `ValueError` unless 1 <= scale <= 10**30, norm(z) <= `MAX_EXPONENT` * scale, and z has as many cells as an answer may.
    """
    _verify(scale, len(z))
    if scale > _MAX_TABULATED_SCALE:
        raise ValueError("a scale is at most 10**30 here")
    # At most 30 of the digits are lost in 1-q, which is about 1/scale.
    q = exp_between(Fraction(-1, scale), _WORKING_DIGITS).low
    decay = exp_between(Fraction(-norm(z), scale), _WORKING_DIGITS).low
    whole = sum(weight * q**i for i, weight in enumerate(_weights(len(z))))
    return to_decimal(decay * (1 - q) ** len(z) / whole, PROBABILITY_DIGITS + 1)


def _verify(scale: int, cells: int) -> None:
    if scale < 1:
        raise ValueError("a scale is at least 1")
    if not 1 <= cells <= MOST_CELLS:
        raise ValueError(f"an answer has 1 to {MOST_CELLS} cells")


def _weights(cells: int) -> list[int]:
    """So many z have norm(z) <= N: the sum of each of these times C(N-i+d, d)."""
    return [comb(cells, i) ** 2 for i in range(cells + 1)]


def _radius(cells: int, scale: int, stream: UniformBits) -> int:
    """N with a probability proportional to q**N times how many z have norm(z) <= N."""
    while True:
        i = _pick(_weights(cells), stream)
        if all(bernoulli_exp(1, scale, stream) for _ in range(i)):
            return i + sum(geometric(scale, stream) for _ in range(cells + 1))


def _pick(weights: Sequence[int], stream: UniformBits) -> int:
    """A place in `weights`, with a probability proportional to the integer there."""
    sums = list(accumulate(weights))
    return bisect_right(sums, uniform_below(sums[-1], stream))


def _subset(size: int, bound: int, stream: UniformBits) -> list[int]:
    """A uniform subset of 1 ... bound of this size, ascending (Floyd's algorithm: each is reached in `size`! ways)."""
    taken: set[int] = set()
    for last in range(bound - size + 1, bound + 1):
        chosen = 1 + uniform_below(last, stream)
        taken.add(last if chosen in taken else chosen)
    return sorted(taken)


def _distances(ascending: Sequence[int]) -> list[int]:
    return [after - before for before, after in pairwise([0, *ascending])]


def _comb(n: int, k: int) -> int:
    """C(n, k), also for negative n: n (n-1) ... (n-k+1) / k!."""
    return comb(n, k) if n >= 0 else (-1) ** k * comb(k - n - 1, k)


def _polynomial(coefficients: Sequence[int], q: Between, digits: int) -> Between:
    """The sum of coefficient i times q**i, for 0 < q < 1."""
    power = 10**digits
    low, high = math.floor(q.low * power), math.ceil(q.high * power)
    degree = len(coefficients) - 1
    least = most = 0
    for i, coefficient in enumerate(coefficients):
        ends = (coefficient * end**i * power ** (degree - i) for end in (low, high))
        smaller, larger = sorted(ends)
        least, most = least + smaller, most + larger
    return Between(Fraction(least, power**degree), Fraction(most, power**degree))
