"""The noise of two sums of cells: what is computed from convolutions is the law as it is defined, point by point."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from broker_common.privacy import table_laplace
from researcher_node.estimates.law import (
    CONFIDENCE,
    LOST_MASS,
    CriticalValues,
    PairLaw,
    Reals,
    critical_values,
    one_table,
    two_tables,
)

# Angles of every kind of combination: each count alone, shares between 0 and 1, a sum, shares outside 0..1.
ANGLES = np.array([0.0, 0.001, 0.05, 0.3, np.pi / 4, 1.2, np.pi / 2, 1.9, 2.6, 3.1])


def defined(scale: float, cells: int, s_cells: int, r_cells: int, reach: int) -> dict[tuple[int, int], float]:
    """P(S = x, R = y) summed over every vector within reach, from P(z) = q**max(positive parts, negative parts)."""
    q = math.exp(-1 / scale)
    constant = (1 - q) ** cells / sum(math.comb(cells, i) ** 2 * q**i for i in range(cells + 1))
    found: dict[tuple[int, int], float] = {}
    for z in itertools.product(range(-reach, reach + 1), repeat=cells):
        norm = max(sum(x for x in z if x > 0), -sum(x for x in z if x < 0))
        sums = sum(z[:s_cells]), sum(z[s_cells : s_cells + r_cells])
        found[sums] = found.get(sums, 0.0) + constant * q**norm
    return found


def computed(law: PairLaw) -> dict[tuple[int, int], float]:
    """As a table of whole numbers."""
    return {(int(s), int(r)): float(mass) for s, r, mass in zip(law.s, law.r, law.mass, strict=True)}


@pytest.mark.parametrize(("cells", "s_cells", "r_cells"), [(2, 1, 1), (3, 1, 1), (3, 1, 2), (3, 2, 1), (4, 1, 2)])
def test_the_joint_law_is_the_one_defined(cells: int, s_cells: int, r_cells: int) -> None:
    """Summed over all vectors, the two sums of cells have the probabilities that the convolutions give them."""
    reach = {2: 24, 3: 18, 4: 10}[cells]
    scale = {2: 1, 3: 1, 4: 0.5}[cells]
    exact = defined(scale, cells, s_cells, r_cells, reach)
    # Scales of half steps are asked of the law itself, which is not limited to whole ones.
    law = computed(one_table.__wrapped__(scale, cells, s_cells, r_cells))
    assert sum(exact.values()) == pytest.approx(1, abs=1e-6)
    for point in exact.keys() | law.keys():
        assert law.get(point, 0.0) == pytest.approx(exact.get(point, 0.0), abs=2 * LOST_MASS)


def test_the_joint_law_is_that_of_the_mechanism() -> None:
    """The probability that the census node's own module gives."""
    law = computed(one_table(2, 2, 1, 1))
    for z in ((0, 0), (1, 0), (3, -2), (-4, -1), (5, 7)):
        assert law[z] == pytest.approx(float(table_laplace.probability(2, z)), abs=2 * LOST_MASS)


@pytest.mark.parametrize(("cells", "deviation"), [(2, 54.8), (3, 61.5), (4, 65.7), (6, 70.8), (12, 77.0)])
def test_standard_deviations_are_those_that_are_published(cells: int, deviation: float) -> None:
    """A cell of a table at scale 30."""
    assert math.sqrt(one_table(30, cells, 1, cells - 1).variances[0]) == pytest.approx(deviation, abs=0.1)


def beyond(law: PairLaw, angle: float, value: float) -> float:
    """The probability that a combination is farther from 0 than a value."""
    return float(law.mass[np.abs(np.cos(angle) * law.s - np.sin(angle) * law.r) > value * (1 + 1e-9)].sum())


@pytest.mark.parametrize("scale", [1, 2, 5, 8])
@pytest.mark.parametrize(("cells", "s_cells"), [(2, 1), (5, 1), (16, 7)])
def test_small_scales_are_never_below_95_percent(scale: int, cells: int, s_cells: int) -> None:
    """Where single numbers weigh a lot, the critical value is at least the exact quantile at every angle, and not far above."""
    law = one_table(scale, cells, s_cells, cells - s_cells)
    values = critical_values((scale, cells, s_cells, cells - s_cells)).at(ANGLES, np.zeros(len(ANGLES)))
    for angle, value in zip(ANGLES, values, strict=True):
        assert beyond(law, angle, value) <= 1 - CONFIDENCE + LOST_MASS
        # One step of the count and one of the grid less, and it is not enough.
        assert beyond(law, angle, value - 1.05 - 0.06 * scale) > 1 - CONFIDENCE


def two_cells(scale: int) -> PairLaw:
    """The law of a table of two cells at any scale, on all whole numbers, from its definition."""
    x = np.arange(-25 * scale, 25 * scale + 1)
    s, r = np.meshgrid(x, x, indexing="ij")
    norm = np.maximum(np.maximum(s, 0) + np.maximum(r, 0), np.maximum(-s, 0) + np.maximum(-r, 0))
    mass: Reals = np.exp(-norm / scale)
    return PairLaw(s.ravel().astype(float), r.ravel().astype(float), mass.ravel() / mass.sum(), scale, 1.0)


@pytest.mark.parametrize("scale", [10, 30])
def test_large_scales_are_stretched_within_the_stated_accuracy(scale: int) -> None:
    """Against the exact law at that scale: 95 % are never undercut by more than 0.05 points, nor exceeded by more than 0.6."""
    exact = two_cells(scale)
    values = critical_values((scale, 2, 1, 1)).at(ANGLES, np.zeros(len(ANGLES)))
    missed = [beyond(exact, angle, value) for angle, value in zip(ANGLES, values, strict=True)]
    assert max(missed) < 1 - CONFIDENCE + 0.0005
    assert min(missed) > 1 - CONFIDENCE - 0.006
    assert one_table(scale, 2, 1, 1).variances[0] == pytest.approx(exact.variances[0], rel=0.002)


def test_independent_laplace_noise_of_the_same_price_is_another_law() -> None:
    """The law if each cell of a table were noised by itself at the table's scale: its quantiles are far from ours."""
    x = np.arange(-200, 201)
    s, r = np.meshgrid(x, x, indexing="ij")
    mass = np.exp(-(np.abs(s) + np.abs(r)) / 8)
    independent = PairLaw(s.ravel().astype(float), r.ravel().astype(float), mass.ravel() / mass.sum(), 8, 1.0)
    values = critical_values((8, 2, 1, 1)).at(ANGLES, np.zeros(len(ANGLES)))
    assert all(beyond(independent, angle, value) < 0.03 for angle, value in zip(ANGLES[:5], values[:5], strict=True))


def test_noises_of_two_tables_are_independent() -> None:
    """The joint law of two tables is the product of its sides', each the law of its own table and scale."""
    law = two_tables(4, 2, 1, 8, 3, 2)
    s, r, both = law.variances
    assert both == pytest.approx(0, abs=1e-6)
    assert s == pytest.approx(one_table(4, 2, 1, 1).variances[0], rel=1e-3)
    assert r == pytest.approx(one_table(8, 3, 1, 2).variances[1], rel=1e-3)


def test_sampling_adds_its_variance() -> None:
    """With more and more sampling variance the quantile becomes the normal one of both together."""
    noise = critical_values((10, 5, 1, 4))
    variance = noise.variance(ANGLES)
    for times in (0.1, 1.0, 10.0, 1000.0):
        values = noise.at(ANGLES, times * variance) / np.sqrt((1 + times) * variance)
        assert np.all(np.abs(values - 1.96) < 0.2 / (1 + times) + 0.02)
    draws = np.random.default_rng(1)
    law = one_table(8, 5, 1, 4)
    drawn = draws.choice(len(law.mass), 200_000, p=law.mass)
    blurred = 0.6 * law.s[drawn] - 0.8 * law.r[drawn] + 15.0 * draws.standard_normal(len(drawn))
    angle = math.atan2(0.8, 0.6)
    value = CriticalValues(law).at(np.array([angle]), np.array([225.0]))[0]
    # Five standard errors: a correct table fails once in two million seeds.
    assert abs(np.mean(np.abs(blurred) <= value) - CONFIDENCE - 0.001) < 0.001 + 5 * math.sqrt(0.0475 / len(drawn))
