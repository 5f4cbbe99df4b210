"""Replicates follow the law that is printed beside them, and a uniform number gives the noise that inversion gives."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from unit.lab.farms import TOTALS, farm_cells

from policy_lab.tables.cells import tabulated
from policy_lab.tables.drawing import by_uniform, exact, replicates
from policy_lab.tables.plan import METHODS, Method, plan

ONE = Fraction(1)
# Level of each cell's test; sixteen of them are made here.
ERROR_RATE = 1e-8


@pytest.mark.parametrize("method", METHODS)
def test_replicates_have_the_law_of_their_cell(method: Method) -> None:
    """Kolmogorov and Smirnov: each cell's noise is Laplace with its own scale. Error rate 1e-8 a cell."""
    cells = farm_cells()
    chosen = plan(cells, "total", "bootstrap", method, Fraction(1, 2))
    drawn = replicates(chosen, cells, 20_000, np.random.default_rng(5))
    for at, scale in enumerate(chosen.main.scales):
        assert stats.kstest(drawn[:, at] - TOTALS[at], stats.laplace(scale=float(scale)).cdf).pvalue > ERROR_RATE


def test_cells_have_noise_of_their_own() -> None:
    """Two cells do not share one draw: their correlation is within six standard errors of none. Error rate 2e-9."""
    cells = farm_cells()
    drawn = replicates(plan(cells, "total", "bootstrap", "split", ONE), cells, 20_000, np.random.default_rng(6))
    noise = np.corrcoef(drawn.T)
    assert np.abs(noise - np.eye(4)).max() < 6 / np.sqrt(20_000)


def test_a_seed_gives_the_same_tables_again() -> None:
    """And another one others."""
    cells = farm_cells()
    chosen = plan(cells, "total", "bootstrap", "split", ONE)
    first, again, other = (replicates(chosen, cells, 3, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.isclose(first, other).any()


@pytest.mark.parametrize("uniform", [0.001, 0.25, 0.287577520124614, 0.5, 0.75, 0.999])
def test_a_uniform_gives_the_quantile_of_the_noise(uniform: float) -> None:
    """As scipy inverts the distribution; totals are rounded to two decimals."""
    cells = farm_cells()
    chosen = plan(cells, "total", "bootstrap", "split", ONE)
    wanted = [
        total + stats.laplace(scale=float(b)).ppf(uniform) for total, b in zip(TOTALS, chosen.main.scales, strict=True)
    ]
    assert by_uniform(chosen, cells, uniform) == pytest.approx(wanted, abs=0.0051)


def test_averages_without_noise_are_averages() -> None:
    """With a public divisor and with a noisy one; an empty cell has none."""
    cells = farm_cells()
    means = [500, 122.5, 1250 / 3, 75]
    for method in METHODS:
        chosen = plan(cells, "average", "laplace", method, ONE, (Fraction(0), Fraction(2000)))
        assert exact(chosen, cells) == pytest.approx(means)
    gap = tabulated(["a", "b"], ["x", "y"], np.array([1.0, 2.0]))
    public = plan(gap, "average", "laplace", "public-membership", ONE, (Fraction(0), Fraction(2)))
    assert np.isnan(exact(public, gap)).tolist() == [False, True, True, False]


def test_noisy_averages_stay_within_the_bounds() -> None:
    """A quotient of two noisy figures would go anywhere."""
    cells = farm_cells()
    chosen = plan(cells, "average", "laplace", "split", Fraction(1, 100), (Fraction(0), Fraction(2000)))
    drawn = replicates(chosen, cells, 2000, np.random.default_rng(7))
    assert (drawn.min(), drawn.max()) == (0, 2000)
