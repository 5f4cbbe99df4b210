"""The source's rules for sensitivities, and answers from public bounds that keep their promise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from policy_lab.mechanisms.distinguisher import epsilon_from_below
from policy_lab.sensitivity.queries import QUERIES, Query, bounded_answers, exact, source_sensitivity

VALUES = np.array([3.0, math.nan, 10.0, 5.0])
BOUNDS = (Fraction(0), Fraction(20))
SAMPLES = 200_000


def test_results_leave_missing_values_out() -> None:
    """A sum and a mean of the rows that have a value."""
    assert exact("sum", VALUES) == 18
    assert exact("avg", VALUES) == 6


def test_sensitivities_follow_the_source() -> None:
    """SUM: the maximum. AVG: the maximum over the rows less one, the row with `?` counted."""
    assert source_sensitivity("sum", VALUES) == 10
    assert source_sensitivity("avg", VALUES) == pytest.approx(10 / 3)


@pytest.mark.statistical
@pytest.mark.parametrize("query", QUERIES)
def test_public_bounds_keep_their_promise(query: Query) -> None:
    """No event is more than e**epsilon times as likely from a neighbour, also where a value goes missing or is beyond the bounds.

    The measured lower bound exceeds a true epsilon in one of 10**9 runs.
    """
    for changed in (20.0, 0.0, 500.0, math.nan):
        other = VALUES.copy()
        other[2] = changed
        here = bounded_answers(query, VALUES, BOUNDS, 1.0, SAMPLES, np.random.default_rng(1))
        there = bounded_answers(query, other, BOUNDS, 1.0, SAMPLES, np.random.default_rng(2))
        assert epsilon_from_below(here, there).epsilon <= 1.0


def test_the_error_of_a_bounded_sum_is_the_bound_over_epsilon() -> None:
    """Mean absolute Laplace noise is its scale; within five standard errors, which one in a million runs passes."""
    errors = np.abs(bounded_answers("sum", VALUES, BOUNDS, 0.5, SAMPLES, np.random.default_rng(3)) - 18)
    assert abs(float(errors.mean()) - 40) < 5 * 40 / math.sqrt(SAMPLES)


def test_a_bounded_mean_stays_within_its_bounds() -> None:
    """Whatever the noise."""
    answers = bounded_answers("avg", VALUES, BOUNDS, 0.01, 1000, np.random.default_rng(4))
    assert 0 <= float(answers.min()) <= float(answers.max()) <= 20
