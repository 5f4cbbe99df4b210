"""The noise of tables follows its exact law, agrees with another way of drawing it, and wrong samplers are caught by the same procedure.

Error rates. Each comparison has `SHARE`, so that a correct sampler fails this file, run with fresh randomness, with probability at
most `FALSE_ALARM_RATE` (Bonferroni); our draws come from fixed seeds. With at least `MIN_EXPECTED` values expected in every bin the
chi-square law is good enough at this rate.

The comparison covers the norm together with the number of parts above zero, of which the exact law counts points; and the statistics
of single cells and of sums, beside d + 1 independent discrete Laplace values of twice the scale, drawn with NumPy until they sum to 0:
their first d have the law of a table (ARGUMENT.md). Exactness itself is counted in tests/unit/privacy/test_table_laplace.py.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pytest

from broker_common.crypto.noise_stream import NoiseStream
from broker_common.privacy import discrete_laplace, table_laplace
from broker_common.privacy.discrete_laplace import UniformBits
from broker_common.privacy.table_laplace import draw, norm

pytestmark = pytest.mark.statistical

FALSE_ALARM_RATE = 1e-6
LAWS = ((2, 30), (2, 2), (4, 30), (4, 2), (16, 30))
"""Cells and scale."""
VIEWS: dict[str, Callable[[Sequence[int]], int]] = {
    "the first cell": lambda z: z[0],
    "the last cell": lambda z: z[-1],
    "the sum of all": sum,
    "the sum of half": lambda z: sum(z[: len(z) // 2]),
    "a difference": lambda z: z[0] - z[-1],
}
SHARE = FALSE_ALARM_RATE / (len(LAWS) * (1 + len(VIEWS)))
DRAWS, FEW_DRAWS = 20_000, 4_000
"""Few are enough to find what is far off: a fifth of the draws has to reach the same threshold."""
MIN_EXPECTED = 80
FAIR_SHARE = 1 / 30

Vector: TypeAlias = tuple[int, ...]
Sampler: TypeAlias = Callable[[int, int, UniformBits], Vector]


def chi_square_tail(statistic: float, degrees: int) -> float:
    """P(chi-square >= statistic), by the closed sums for even and for odd degrees of freedom."""
    half = statistic / 2
    total = 0.0 if degrees % 2 == 0 else math.erfc(math.sqrt(half))
    first = 0.0 if degrees % 2 == 0 else 0.5
    terms = (first + i for i in range(degrees // 2))
    return total + sum(math.exp(power * math.log(half) - half - math.lgamma(power + 1)) for power in terms)


def draws_from(sampler: Sampler, cells: int, scale: int, name: str, draws: int = DRAWS) -> list[Vector]:
    """Vectors from the real bit stream, under a fixed seed for each name."""
    stream = NoiseStream(f"{name} {cells} {scale}".encode().ljust(32, b"."))
    return [sampler(cells, scale, stream) for _ in range(draws)]


@cache
def drawn(cells: int, scale: int) -> list[Vector]:
    """Our sampler's draws. Two tests look at them: their error rates add up, whether they are independent or not."""
    return draws_from(draw, cells, scale, "law")


def shells(cells: int, scale: int) -> dict[tuple[int, int], float]:
    """P(norm = g, j parts above zero), exactly but for the rounding of floats, until nothing is left."""

    def inside(g: int, j: int) -> int:
        return math.comb(cells, j) * math.comb(g, j) * math.comb(g + cells - j, cells - j) if g >= 0 else 0

    at_zero = float(table_laplace.probability(scale, (0,) * cells))
    return {
        (g, j): (inside(g, j) - inside(g - 1, j)) * math.exp(-g / scale) * at_zero
        for g in range(60 * scale)
        for j in range(cells + 1)
    }


def p_value_against_law(values: Sequence[Vector], scale: int) -> float:
    """Chi-square goodness of fit of norms and numbers of parts above zero; neighbours share a bin until it is full enough."""
    law = shells(len(values[0]), scale)
    seen = Counter((norm(z), sum(part > 0 for part in z)) for z in values)
    assert math.isclose(sum(law.values()), 1, rel_tol=1e-9)
    bins: list[list[float]] = []
    for j in range(len(values[0]) + 1):
        column = [(mass * len(values), seen[g, k]) for (g, k), mass in law.items() if k == j]
        bins += _bins(column, max(MIN_EXPECTED, FAIR_SHARE * len(values)))
    # Columns too thin for a bin of their own are one.
    thin = [each for each in bins if each[0] < MIN_EXPECTED]
    full = [each for each in bins if each[0] >= MIN_EXPECTED]
    full[0] = [math.fsum(each[part] for each in [full[0], *thin]) for part in range(2)]
    return chi_square_tail(sum((count - mean) ** 2 / mean for mean, count in full), len(full) - 1)


def _bins(column: Iterable[tuple[float, int]], least: float) -> list[list[float]]:
    """Neighbours together until so many are expected; what is left at the end belongs to the last bin."""
    bins: list[list[float]] = [[0.0, 0.0]]
    for mean, count in column:
        if bins[-1][0] >= least:
            bins.append([0.0, 0.0])
        bins[-1] = [bins[-1][0] + mean, bins[-1][1] + count]
    if len(bins) > 1 and bins[-1][0] < MIN_EXPECTED:
        last = bins.pop()
        bins[-1] = [bins[-1][0] + last[0], bins[-1][1] + last[1]]
    return bins


def p_value_between(ours: Sequence[int], theirs: Sequence[int]) -> float:
    """Chi-square homogeneity of two samples of equal size, in bins that hold equal shares of both together."""
    together = np.sort(np.concatenate([ours, theirs]))
    share = int(2 * FAIR_SHARE * len(ours))
    edges = np.unique(together[share : len(together) - share // 2 : share])
    seen = [
        np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1) for values in (ours, theirs)
    ]
    both = seen[0] + seen[1]
    assert both.min() >= MIN_EXPECTED
    return chi_square_tail(float((((seen[0] - seen[1]) ** 2) / both).sum()), len(edges))


def others(cells: int, scale: int) -> list[Vector]:
    """Independent discrete Laplace values of twice the scale, d + 1 in number and with the sum 0; the first d of them.

    One of them is made to fit the others, and kept with its probability: the usual rejection, without waiting for a sum of 0.
    """
    chance = np.random.default_rng(cells * 1000 + scale)
    r = math.exp(-1 / (2 * scale))
    found: list[Any] = []
    while len(found) < DRAWS:
        sizes = chance.geometric(1 - r, size=(2, 200_000, cells)) - 1
        z = sizes[0] - sizes[1]
        found += z[chance.random(len(z)) < r ** np.abs(z.sum(axis=1))].tolist()
    return [tuple(z) for z in found[:DRAWS]]


@pytest.mark.parametrize(("cells", "scale"), LAWS)
def test_draws_follow_the_exact_law(cells: int, scale: int) -> None:
    """Norms and signs fit the numbers of points, far out as well as near 0."""
    assert p_value_against_law(drawn(cells, scale), scale) > SHARE


@pytest.mark.parametrize(("cells", "scale"), LAWS)
def test_draws_agree_with_another_way_of_drawing(cells: int, scale: int) -> None:
    """Single cells, sums and differences cannot be told from those of a sampler that shares no step with ours."""
    ours, theirs = drawn(cells, scale), others(cells, scale)
    for name, view in VIEWS.items():
        assert p_value_between(list(map(view, ours)), list(map(view, theirs))) > SHARE, name


# --- wrong samplers --------------------------------------------------------------------------------------------------------


def independent_cells(cells: int, scale: int, stream: UniformBits) -> Vector:
    """A draw of its own for each cell: leaks as many prices as a person can move cells."""
    return tuple(discrete_laplace.draw(scale, stream) for _ in range(cells))


def independent_cells_for_two_steps(cells: int, scale: int, stream: UniformBits) -> Vector:
    """The textbook answer for a person who changes cells: private, and far too wide."""
    return tuple(discrete_laplace.draw(2 * scale, stream) for _ in range(cells))


def five_percent_narrow(cells: int, scale: int, stream: UniformBits) -> Vector:
    """Too little noise by 5 %: this one leaks."""
    return draw(cells, scale * 19 // 20, stream)


def cells_in_a_fixed_order(cells: int, scale: int, stream: UniformBits) -> Vector:
    """The cells above zero first."""
    return tuple(sorted(draw(cells, scale, stream), reverse=True))


def as_if_signs_were_fair(cells: int, scale: int, stream: UniformBits) -> Vector:
    """The norm of the sum of absolute values: its ball, with our radius."""
    z = draw(cells, scale, stream)
    return tuple(abs(part) if stream.bits(1) else -abs(part) for part in z)


def simple_weights(cells: int) -> list[int]:
    """C(d,i) where C(d,i)**2 belongs."""
    return [math.comb(cells, i) for i in range(cells + 1)]


def no_weights(cells: int) -> list[int]:
    """The volume of the ball in place of its number of points: i is always 0."""
    return [1] + [0] * cells


def short_subset(size: int, bound: int, stream: UniformBits) -> list[int]:
    """Never the last number, where there is room for that."""
    return _SUBSET(size, max(size, bound - 1), stream)


def late_subset(size: int, bound: int, stream: UniformBits) -> list[int]:
    """Never the first number, where there is room for that."""
    members = _SUBSET(size, max(size, bound - 1), stream)
    return [member + 1 for member in members] if bound > size else members


def missing_part(cells: int, scale: int, stream: UniformBits) -> int:
    """A geometric value too few."""
    return max(0, _RADIUS(cells, scale, stream) - discrete_laplace.geometric(scale, stream))


_SUBSET, _RADIUS = table_laplace._subset, table_laplace._radius


@pytest.mark.parametrize(
    ("wrong", "cells", "scale", "draws"),
    [
        (independent_cells, 2, 30, FEW_DRAWS),
        (independent_cells, 16, 30, FEW_DRAWS),
        (independent_cells_for_two_steps, 2, 30, FEW_DRAWS),
        (independent_cells_for_two_steps, 4, 2, FEW_DRAWS),
        (five_percent_narrow, 2, 20, DRAWS),
        (five_percent_narrow, 4, 20, DRAWS),
        (five_percent_narrow, 16, 20, FEW_DRAWS),
        (as_if_signs_were_fair, 2, 30, FEW_DRAWS),
        (as_if_signs_were_fair, 4, 30, FEW_DRAWS),
    ],
)
def test_a_wrong_sampler_is_rejected(wrong: Sampler, cells: int, scale: int, draws: int) -> None:
    """The procedure that passes our sampler fails these, at the same threshold and no more draws."""
    assert p_value_against_law(draws_from(wrong, cells, scale, wrong.__name__, draws), scale) < SHARE


@pytest.mark.parametrize(
    ("name", "wrong", "cells", "scale", "draws"),
    [
        ("_weights", simple_weights, 2, 1, DRAWS),
        ("_weights", simple_weights, 4, 1, FEW_DRAWS),
        ("_weights", no_weights, 2, 2, FEW_DRAWS),
        ("_weights", no_weights, 16, 3, FEW_DRAWS),
        ("_subset", short_subset, 2, 2, FEW_DRAWS),
        ("_subset", short_subset, 4, 2, FEW_DRAWS),
        ("_subset", late_subset, 2, 2, FEW_DRAWS),
        ("_subset", late_subset, 4, 2, DRAWS),
        ("_radius", missing_part, 2, 30, FEW_DRAWS),
        ("_radius", missing_part, 16, 30, FEW_DRAWS),
    ],
)
def test_a_sampler_with_one_wrong_step_is_rejected(
    monkeypatch: pytest.MonkeyPatch, name: str, wrong: object, cells: int, scale: int, draws: int
) -> None:
    """Wrong weights, subsets off by one, a part of the radius left out: each is seen."""
    # The law is computed with the right weights.
    law = shells(cells, scale)
    monkeypatch.setattr(table_laplace, name, wrong)
    values = draws_from(draw, cells, scale, f"wrong {name}", draws)
    monkeypatch.undo()
    assert law == shells(cells, scale)
    assert p_value_against_law(values, scale) < SHARE


def test_cells_that_are_not_alike_are_told_by_their_own_law() -> None:
    """Norm and signs of a sorted vector are right; what it says of its first cell is not."""
    wrong = draws_from(cells_in_a_fixed_order, 4, 30, "sorted")
    assert p_value_against_law(wrong, 30) > SHARE
    assert p_value_between([z[0] for z in wrong], [z[0] for z in others(4, 30)]) < SHARE
