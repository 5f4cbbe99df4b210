"""Draws follow the stated law: messages, bounded numbers, results, permutations.

Error rate: a correct program fails a test of this file with probability at most 1e-9 (`RATE`), 1e-7 in all. Seeds are fixed, so
that the tests say the same at every run until the program changes.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chi2, kstest, norm

from policy_lab.mechanisms.bounded import KINDS, BoundedLaplace, Kind
from policy_lab.mechanisms.central import Laplace
from policy_lab.mechanisms.randomised_response import RandomisedResponse
from policy_lab.mechanisms.shuffling import shuffle

pytestmark = pytest.mark.statistical

RATE = 1e-9
DRAWS = 200_000
HEIGHTS = (1.2, 2.1)


def passes_chi_square(
    counts: np.ndarray[tuple[int], np.dtype[np.int64]], law: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> bool:
    """Whether counts are like draws from the law, at the file's error rate."""
    expected = counts.sum() * law
    assert expected.min() > 80, "too few for the approximation"
    return bool(((counts - expected) ** 2 / expected).sum() <= chi2.isf(RATE, len(law) - 1))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("categories", [2, 3, 11])
def test_messages_follow_their_law(categories: int, epsilon: float) -> None:
    """Each category by itself; keeping as published would be seen."""
    response = RandomisedResponse(categories, epsilon)
    random = np.random.default_rng(11)
    for code in range(categories):
        sent = np.bincount(response.apply(np.full(DRAWS, code), random), minlength=categories)
        assert passes_chi_square(sent, response.law(code))
    if categories > 2:
        published = math.exp(epsilon) / (1 + math.exp(epsilon))
        wrong = np.full(categories, (1 - published) / (categories - 1))
        wrong[code] = published
        assert not passes_chi_square(sent, wrong)


@pytest.mark.parametrize("epsilon", [0.6, 5.99])
def test_estimates_scatter_around_the_truth_by_their_standard_error(epsilon: float) -> None:
    """Weighted totals by category, 2,000 evaluations: the mean is the truth, the variance is the one printed."""
    random, repetitions = np.random.default_rng(12), 2000
    codes = random.choice(4, 500, p=[0.6, 0.25, 0.1, 0.05])
    weights = random.uniform(1, 30, 500)
    response = RandomisedResponse(4, epsilon)
    reported = np.asarray(
        [np.bincount(response.apply(codes, random), weights, minlength=4) for _ in range(repetitions)]
    )
    errors = response.estimate(reported) - np.bincount(codes, weights, minlength=4)
    z = errors / response.standard_error(np.bincount(codes, weights**2, minlength=4))
    assert np.abs(z.mean(axis=0)).max() * math.sqrt(repetitions) < norm.isf(RATE / 8)
    assert (z**2).sum(axis=0) == pytest.approx(repetitions, abs=norm.isf(RATE / 8) * math.sqrt(2 * repetitions) * 1.1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [1e-6, 0.6, 3.0, 30.0])
def test_bounded_numbers_follow_their_law_and_have_the_bias_that_is_printed(kind: Kind, epsilon: float) -> None:
    """Kolmogorov and Smirnov's distance (masses at the bounds counted), and the mean within its standard error."""
    mechanism, random = BoundedLaplace(*HEIGHTS, epsilon, kind), np.random.default_rng(13)
    grid = np.linspace(*HEIGHTS, 2001)[1:-1]
    for value in (1.2, 1.3, 1.65, 2.05, 2.1):
        sent = np.sort(mechanism.apply(np.full(DRAWS, value), random))
        below = np.searchsorted(sent, grid, "right") / DRAWS
        # Dvoretzky, Kiefer and Wolfowitz's bound holds for any law, masses or not.
        assert np.abs(below - mechanism.cdf(value, grid)).max() < math.sqrt(math.log(2 / RATE) / (2 * DRAWS))
        error = max(float(sent.std()), 1e-12) / math.sqrt(DRAWS)
        assert float(sent.mean()) - value == pytest.approx(float(mechanism.bias(value)), abs=norm.isf(RATE / 2) * error)


def test_results_follow_their_law() -> None:
    """Laplace noise around the exact result, with the scale that is printed; a scale that is 5 % off is seen."""
    noise = Laplace(7.5, 0.6)
    drawn = noise.apply(np.full(DRAWS, 40.0), np.random.default_rng(14))
    assert kstest(drawn, lambda x: noise.cdf(40.0, x)).pvalue > RATE
    assert kstest(drawn, lambda x: Laplace(7.5 * 1.05, 0.6).cdf(40.0, x)).pvalue < RATE


def test_every_order_is_as_likely_as_any_other() -> None:
    """Four messages have 24 orders."""
    random = np.random.default_rng(15)
    names = {order: name for name, order in enumerate(itertools.permutations(range(4)))}
    drawn = [names[tuple(shuffle(np.arange(4), random).tolist())] for _ in range(DRAWS // 2)]
    assert passes_chi_square(np.bincount(drawn, minlength=24), np.full(24, 1 / 24))
