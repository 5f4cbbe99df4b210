"""The listing does not protect anybody: one answer tells two neighbouring tables apart, and how well is computed exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from policy_lab.mechanisms.distinguisher import epsilon_from_below
from policy_lab.sensitivity.listing import estimates
from policy_lab.sensitivity.queries import QUERIES, Query, exact, source_sensitivity
from policy_lab.sensitivity.told_apart import ToldApart, neighbour, told_apart

EPSILON = 1.0
SAMPLES = 200_000
ERROR_RATE = 1e-9
# Hoeffding: a share of so many draws is no further from its probability, but in so few cases.
TOLERANCE = math.sqrt(math.log(2 / ERROR_RATE) / (2 * SAMPLES))
VALUES = np.array([20.0, 31.0, math.nan, 47.0, 52.0, 66.0, 90.0])
# Below the real sensitivities, and above them: estimates may then be refused.
GENERATED = {"below": (80.0, 14.0), "above": (150.0, 26.0)}

Floats = NDArray[np.float64]


def answers(query: Query, values: Floats, generated: float, seed: int) -> Floats:
    """Answers as the listing gives them; a refused one is a number far from all others."""
    random = np.random.default_rng(seed)
    scale = estimates(source_sensitivity(query, values), generated, SAMPLES, random)
    noisy = exact(query, values) + random.laplace(0, np.where(scale > 0, scale, 1.0) / EPSILON)
    return np.where(scale > 0, noisy, -1e12)


def pairs(case: str) -> list[ToldApart]:
    """All neighbours of the column."""
    return list(told_apart("age", VALUES, GENERATED[case], EPSILON))


def test_there_is_a_pair_for_each_query_and_factor() -> None:
    """SUM and AVG, ten times and a thousand times the largest value."""
    assert [(each.query, each.factor) for each in pairs("below")] == [
        ("sum", 10),
        ("sum", 1000),
        ("avg", 10),
        ("avg", 1000),
    ]


def test_neighbours_differ_in_one_row() -> None:
    """The row of the largest value, and no other."""
    other = neighbour(VALUES, 10)
    assert other[-1] == 900
    assert np.array_equal(other[:-1], VALUES[:-1], equal_nan=True)


@pytest.mark.statistical
@pytest.mark.parametrize("case", GENERATED)
def test_the_printed_chances_are_those_of_answers(case: str) -> None:
    """Both probabilities of each pair, counted among 200,000 answers, within the tolerance for an error rate of 1e-9."""
    for pair in pairs(case):
        generated = GENERATED[case][QUERIES.index(pair.query)]
        truth, within = exact(pair.query, VALUES), pair.real / EPSILON
        here = answers(pair.query, VALUES, generated, 5)
        there = answers(pair.query, neighbour(VALUES, pair.factor), generated, 6)
        assert abs(float(np.mean(np.abs(here - truth) <= within)) - pair.near) <= TOLERANCE
        assert abs(float(np.mean(np.abs(there - truth) <= within)) - pair.near_of_neighbour) <= TOLERANCE


@pytest.mark.statistical
@pytest.mark.parametrize("case", GENERATED)
@pytest.mark.parametrize("query", QUERIES)
def test_one_answer_tells_two_neighbouring_tables_apart(query: Query, case: str) -> None:
    """Measured from answers alone, epsilon is above 4 where the listing's is 1: a wrong claim in one of 10**9 runs."""
    generated = GENERATED[case][QUERIES.index(query)]
    measured = epsilon_from_below(
        answers(query, VALUES, generated, 7),
        answers(query, neighbour(VALUES, 1000), generated, 8),
        error_rate=ERROR_RATE,
    )
    assert measured.epsilon > 4 * EPSILON


def test_epsilon_grows_without_limit() -> None:
    """Each tenfold value of the newcomer adds about ln 10."""
    near = [pair.epsilon for pair in pairs("below") if pair.query == "sum"]
    assert near[1] - near[0] == pytest.approx(math.log(100), abs=0.2)
    assert near[0] > 2.5


def test_no_delta_of_any_use_saves_the_promise() -> None:
    """At the nominal epsilon, more than half of all answers from one table are beyond what the other one may give."""
    assert all(0.4 < pair.delta(EPSILON) < 1 for pair in pairs("below"))


def test_a_column_without_a_value_above_zero_has_no_pairs() -> None:
    """There the source's sensitivity is none."""
    assert list(told_apart("loss", np.array([-3.0, 0.0]), (0.0, 0.0), EPSILON)) == []
