"""The distinguisher: its bound is a Clopper-Pearson bound, wrong as rarely as it says, and finds what it can."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from policy_lab.mechanisms.distinguisher import epsilon_from_below
from policy_lab.mechanisms.randomised_response import RandomisedResponse

DRAWS = 20_000


def test_the_bound_is_that_of_clopper_and_pearson() -> None:
    """From its own counts, with scipy's exact intervals, half of the error rate on each side."""
    random = np.random.default_rng(1)
    response = RandomisedResponse(3, 1.0)
    a, b = (response.apply(np.full(DRAWS, code), random) for code in (0, 1))
    for delta in (0.0, 0.05):
        found = epsilon_from_below(a, b, delta=delta, error_rate=0.02)
        low = binomtest(found.hits, found.of_likely).proportion_ci(0.98, "exact").low
        high = binomtest(found.misses, found.of_unlikely).proportion_ci(0.98, "exact").high
        assert found.epsilon == pytest.approx(math.log((low - delta) / high))
        assert found.of_likely == found.of_unlikely == DRAWS // 2


def test_the_bound_is_wrong_as_rarely_as_it_says() -> None:
    """Stated: once in twenty times. A thousand measurements; the test itself errs with probability 1e-9 at most."""
    random = np.random.default_rng(2)
    response = RandomisedResponse(3, 0.5)
    wrong = 0
    for _ in range(1000):
        a, b = (response.apply(np.full(200, code), random) for code in (0, 1))
        wrong += epsilon_from_below(a, b, error_rate=0.05).epsilon > 0.5
    assert wrong <= binom.isf(1e-9, 1000, 0.05)


def test_the_same_world_twice_shows_nothing() -> None:
    """Searching a thousand events finds something in one half; the other half does not confirm it."""
    random = np.random.default_rng(3)
    for draw in (lambda: random.integers(0, 1000, DRAWS), lambda: random.normal(size=DRAWS)):
        assert epsilon_from_below(draw(), draw()).epsilon == 0


def test_it_looks_in_both_directions() -> None:
    """An event that never happens in one world gives the other away, whichever is named first."""
    common, rare = np.zeros(DRAWS), np.repeat([0.0, 1.0], DRAWS // 2)
    rare = np.random.default_rng(4).permutation(rare)
    one, other = epsilon_from_below(common, rare), epsilon_from_below(rare, common)
    assert one.epsilon == pytest.approx(other.epsilon, rel=0.05)
    assert one.epsilon > 5
    assert one.is_reversed
    assert not other.is_reversed
    assert (other.hits > 4000, other.misses) == (True, 0)


def test_it_finds_a_mass_between_continuous_values() -> None:
    """Worlds that differ in one value of a density: how often exactly 0 is said."""
    random = np.random.default_rng(5)
    worlds = [np.where(random.random(DRAWS) < mass, 0.0, random.normal(size=DRAWS)) for mass in (0.2, 0.05)]
    found = epsilon_from_below(*worlds)
    assert 0.9 < found.epsilon < math.log(4)


def test_it_finds_what_is_rare() -> None:
    """One message in five hundred that only one respondent ever sends, among messages that tell nothing."""
    random = np.random.default_rng(7)
    for draw in (lambda: random.integers(0, 5, 10 * DRAWS) * 1.0, lambda: random.normal(size=10 * DRAWS)):
        gives_away = np.where(random.random(10 * DRAWS) < 0.002, 2.5, draw())
        assert epsilon_from_below(gives_away, draw()).epsilon > 1.5


def test_a_delta_is_taken_off() -> None:
    """An event with probability delta at most does not count."""
    random = np.random.default_rng(6)
    worlds = [random.random(DRAWS) < chance for chance in (0.02, 0.0)]
    assert epsilon_from_below(*worlds).epsilon > 1
    assert epsilon_from_below(*worlds, delta=0.03).epsilon == 0


@pytest.mark.parametrize(
    ("samples", "delta", "error_rate"), [(3, 0.0, 0.1), (10, 1.0, 0.1), (10, -0.1, 0.1), (10, 0.0, 0.0)]
)
def test_it_needs_samples_and_rates(samples: int, delta: float, error_rate: float) -> None:
    """Both halves of both samples hold something, and rates are probabilities."""
    with pytest.raises(ValueError, match=r"samples|probabilities"):
        epsilon_from_below(np.zeros(samples), np.zeros(10), delta=delta, error_rate=error_rate)


def test_a_missing_number_is_no_sample() -> None:
    """It would count for neither world."""
    with pytest.raises(ValueError, match="all of them numbers"):
        epsilon_from_below([0.0] * 9 + [math.nan], np.zeros(10))
