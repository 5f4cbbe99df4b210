"""The probabilities behind verdicts, against another library and against plain counting."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

from broker_common.privacy import table_laplace
from broker_common.privacy.accounting import cap_units, param_of
from broker_common.privacy.discrete_laplace import probability
from broker_common.privacy.table_laplace import norm
from deploy.attacks.chances import (
    at_least,
    cell_law,
    fails_above,
    interval,
    lower_tail,
    magnitude_law,
    norm_law,
    same_law,
    shifted,
    sum_law,
)
from deploy.attacks.spending import (
    best_guess,
    boldly,
    ceiling,
    chance_above,
    evenly,
    hardly_above,
    units_of,
)


@pytest.mark.parametrize("cells", [1, 2, 3])
def test_the_laws_of_tables_are_those_of_their_vectors(cells: int) -> None:
    """Norm, single cells and sums, added up over all vectors near 0."""
    around = list(product(range(-24, 25), repeat=cells))
    near = [z for z in around if norm(z) <= 24]
    of_norm = [float(table_laplace.probability(1, (size, *[0] * (cells - 1)))) for size in range(25)]
    chances = [of_norm[norm(z)] for z in near]
    norms, of_cell, of_sum = norm_law(1, cells), cell_law(1, cells), cell_law(1, cells)
    for size in range(4):
        for law, view in ((norms, norm), (of_cell, lambda z: abs(z[0])), (of_sum, lambda z: abs(sum(z)))):
            summed = math.fsum(chance for z, chance in zip(near, chances, strict=True) if view(z) == size)
            assert law[size] == pytest.approx(summed, rel=1e-6)


CAP = cap_units(param_of(Fraction(4, 5)))
SCALES = tuple(range(1, 51))


@pytest.mark.parametrize(("successes", "trials", "rate"), [(46, 60, 0.731), (0, 5, 0.5), (5, 5, 0.2), (900, 2000, 0.4)])
def test_a_tail_is_the_binomial_law(successes: int, trials: int, rate: float) -> None:
    """As SciPy has it; certain where nothing is asked for or everything is allowed, impossible where nothing is."""
    assert at_least(successes, trials, rate) == pytest.approx(stats.binom.sf(successes - 1, trials, rate), rel=1e-9)
    assert at_least(successes, trials, 1.0) == 1
    assert at_least(successes, trials, 0.0) == (1 if successes == 0 else 0)


@pytest.mark.parametrize(
    ("trials", "rate"), [(60, 0.731), (50, 0.5), (150, 0.0), (3, 0.5), (40, 1.0), (0, 0.5), (20, 0.5)]
)
def test_a_verdict_fails_above_the_largest_share_that_luck_explains(trials: int, rate: float) -> None:
    """One success more is too unlikely, and this many are not, as plain counting has it."""
    holding = [right for right in range(trials + 1) if at_least(right, trials, rate) >= 1e-6]
    share = fails_above(trials, rate, 1e-6)
    assert share == (None if holding[-1] == trials else holding[-1] / trials)


@pytest.mark.parametrize(("successes", "trials"), [(0, 10), (10, 10), (3, 10), (46, 60)])
def test_an_interval_is_clopper_and_pearsons(successes: int, trials: int) -> None:
    """As SciPy has it; without trials everything is possible."""
    wanted = stats.binomtest(successes, trials).proportion_ci(method="exact")
    assert interval(successes, trials) == pytest.approx((wanted.low, wanted.high), abs=1e-9)
    assert interval(0, 0) == (0, 1)


@pytest.mark.parametrize("scales", [(1,), (30,), (1, 3), (2, 2, 2)])
def test_the_law_of_a_sum_adds_up_the_published_law(scales: tuple[int, ...]) -> None:
    """Each value as counted out of `probability`, all of them together certain."""
    law = sum_law(scales)
    assert law.sum() == pytest.approx(1, abs=1e-12)
    if len(scales) == 1:
        assert law[:4] == pytest.approx([float((1 + (x > 0)) * probability(scales[0], x)) for x in range(4)], rel=1e-12)
    if scales == (1, 3):
        exactly_two = sum(
            float(probability(1, x) * probability(3, y)) for x, y in product(range(-60, 61), repeat=2) if x + y == 2
        )
        assert law[2] == pytest.approx(2 * exactly_two, rel=1e-9)


def test_a_lower_tail_counts_every_way_to_so_little_noise() -> None:
    """Three magnitudes of at most 4 together, counted out; nothing is below zero, and everything below enough."""
    law = magnitude_law(2)
    counted = sum(law[a] * law[b] * law[c] for a, b, c in product(range(5), repeat=3) if a + b + c <= 4)
    assert lower_tail((law,) * 3, 4) == pytest.approx(counted, rel=1e-12)
    assert lower_tail((law,), -1) == 0
    assert lower_tail((law,) * 3, 1000) == pytest.approx(1)


def test_the_typical_case_and_the_ceiling_are_the_published_figures() -> None:
    """41 answers at scale 30 from even odds: at most 79.7 %, above 70 % in 2e-5 of cases, the best guess right in 54 %."""
    paper = evenly(CAP, 30)
    assert len(paper) == 41
    assert ceiling(paper) == 0.79685
    # Above 70 % means at least 34 of 41 coins for the truth, each with the odds of one answer.
    coin = 1 / (1 + math.exp(-1 / 30))
    assert chance_above(paper, 0.7) == pytest.approx(stats.binom.sf(33, 41, coin), rel=1e-9)
    assert chance_above(paper, 0.7) == pytest.approx(2e-5, rel=0.01)
    assert best_guess(paper) == pytest.approx(0.543, abs=0.001)
    assert best_guess(paper) < hardly_above(paper) < ceiling(paper)


def test_a_bold_budget_fits_and_leaves_no_room_for_another_answer() -> None:
    """Under 80 %: one answer at scale 1, one at 3, one at 19."""
    bold = boldly(CAP, SCALES)
    assert bold == (1, 3, 19)
    assert units_of(bold) <= CAP < units_of((*bold, SCALES[-1]))
    # The two later ones together say less than the first.
    assert best_guess(bold) == pytest.approx(math.e / (1 + math.e))
    assert best_guess((2, 2)) == pytest.approx(best_guess((2,)))
    assert not np.isclose(best_guess(bold), ceiling(bold))


@pytest.mark.parametrize(
    ("one", "other"), [([0] * 14, [1] * 10 + [0] * 4), ([1, 0, 0], [0, 1, 1]), ([1] * 5, [0] * 9), ([0, 1], [1, 0])]
)
def test_two_samples_of_two_values_are_told_apart_as_by_fishers_test(one: list[int], other: list[int]) -> None:
    """As SciPy has it, on either side, and twice that for having looked at both."""
    table = [[sum(one), len(one) - sum(one)], [sum(other), len(other) - sum(other)]]
    sides = [stats.fisher_exact(table, alternative=side).pvalue for side in ("less", "greater")]
    assert same_law(one, other) == pytest.approx(min(1.0, 2 * min(sides)), rel=1e-9)
    assert same_law(one, other) == pytest.approx(same_law(other, one), rel=1e-9)


def test_samples_that_cannot_be_told_apart_never_are() -> None:
    """Nobody, everybody at one instant."""
    assert same_law([], []) == same_law([3] * 20, [3] * 20) == same_law([1], []) == 1


def test_samples_drawn_by_lot_are_told_apart_no_more_often_than_said() -> None:
    """Over every way of drawing, with three values: the chance of a figure as small is at most the figure."""
    values = [0, 0, 0, 1, 1, 2, 2, 2]
    figures = [
        same_law([values[at] for at in lot], [value for at, value in enumerate(values) if at not in lot])
        for lot in combinations(range(len(values)), 4)
    ]
    assert all(sum(other <= figure for other in figures) <= figure * len(figures) + 1e-9 for figure in figures)


def test_a_shift_is_found_as_another_library_finds_it() -> None:
    """Wilcoxon's exact test of SciPy, without equal values; whichever comes first, and at the sizes of an attack."""
    generator = np.random.default_rng(4)
    for sizes, shift in (((5, 7), 0), ((20, 20), 30), ((80, 40), 60), ((1, 9), 50)):
        values = generator.permutation(1000)[: sum(sizes)] * 2
        one, other = values[: sizes[0]], values[sizes[0] :] + 2 * shift + 1
        expected = stats.mannwhitneyu(one, other, method="exact").pvalue
        assert shifted(one.tolist(), other.tolist()) == pytest.approx(expected, rel=1e-6)
        assert shifted(other.tolist(), one.tolist()) == pytest.approx(expected, rel=1e-6)


def test_shifts_that_are_drawn_by_lot_are_found_no_more_often_than_said() -> None:
    """Over every way of drawing, with equal values: the chance of a figure as small is at most the figure."""
    assert shifted([], [1]) == shifted([3] * 20, [3] * 20) == 1
    values = [0, 0, 0, 1, 1, 2, 2, 2]
    figures = [
        shifted([values[at] for at in lot], [value for at, value in enumerate(values) if at not in lot])
        for lot in combinations(range(len(values)), 3)
    ]
    assert min(figures) < 0.1
    assert all(sum(other <= figure for other in figures) <= figure * len(figures) + 1e-9 for figure in figures)
