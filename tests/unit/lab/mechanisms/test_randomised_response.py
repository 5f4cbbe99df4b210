"""Randomised response: its law, its epsilon, its estimator and the error of it, exactly."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest

from broker_common.errors import InvalidRequestError
from policy_lab.mechanisms.randomised_response import RandomisedResponse, real_epsilon

dp.enable_features("contrib")

EPSILONS = (1e-6, 0.6, 1.0, 5.99, 30.0)
CATEGORIES = (2, 3, 11, 1000)


def loss(component: Any, distance: float) -> float:
    """OpenDP's figure for what a mechanism spends, or how far a result moves; its own types are unknown here."""
    return float(component.map(distance))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("categories", CATEGORIES)
def test_the_law_spends_epsilon_exactly(categories: int, epsilon: float) -> None:
    """No message is more than e**epsilon times likelier from one respondent than from another, and one is just that."""
    response = RandomisedResponse(categories, epsilon)
    laws = np.asarray([response.law(code) for code in range(min(categories, 20))])
    assert laws.sum(axis=1) == pytest.approx(1, abs=1e-12)
    worst = max(float(np.max(np.log(one / other))) for one, other in itertools.permutations(laws, 2))
    assert worst == pytest.approx(epsilon, rel=1e-9, abs=1e-15)
    assert response.real_epsilon == epsilon
    assert real_epsilon(response.keep, categories) == pytest.approx(epsilon, abs=1e-9 if epsilon < 20 else 1e-2)


@pytest.mark.parametrize("epsilon", [0.6, 1.0, 5.99])
@pytest.mark.parametrize("categories", [2, 3, 11])
def test_keeping_as_published_spends_more(categories: int, epsilon: float) -> None:
    """e**eps / (1 + e**eps) with k categories is eps + ln(k - 1); OpenDP says the same."""
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    assert real_epsilon(keep, categories) == pytest.approx(epsilon + math.log(categories - 1))
    measured = loss(dp.m.make_randomized_response([str(each) for each in range(categories)], prob=keep), 1)
    assert real_epsilon(keep, categories) == pytest.approx(measured)


def test_opendp_spends_the_same() -> None:
    """Its k-ary randomised response with our probability spends our epsilon."""
    for categories, epsilon in itertools.product([2, 4, 11], [0.6, 1.0, 5.99]):
        keep = RandomisedResponse(categories, epsilon).keep
        measured = loss(dp.m.make_randomized_response([str(each) for each in range(categories)], prob=keep), 1)
        assert measured == pytest.approx(epsilon)


def test_what_is_never_sent_gives_everything_away() -> None:
    """Without noise, or with the true category excluded, no epsilon holds."""
    assert real_epsilon(1.0, 3) == math.inf
    assert real_epsilon(0.0, 3) == math.inf
    assert real_epsilon(1 / 3, 3) == pytest.approx(0, abs=1e-15)
    assert real_epsilon(0.3, 1) == 0
    for keep, categories in ((1.5, 3), (math.nan, 3), (0.5, 0)):
        with pytest.raises(ValueError, match="probability"):
            real_epsilon(keep, categories)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("categories", CATEGORIES)
def test_the_estimator_is_unbiased(categories: int, epsilon: float) -> None:
    """From the expected messages of any respondents it makes their true totals; totals stay what they are."""
    response = RandomisedResponse(categories, epsilon)
    true = np.random.default_rng(categories).integers(0, 50, categories).astype(np.float64)
    expected = true * response.keep + (true.sum() - true) * response.other
    assert response.estimate(expected) == pytest.approx(true, abs=1e-6 / epsilon * 1e-3)
    assert response.estimate(expected).sum() == pytest.approx(true.sum(), rel=1e-6)
    assert response.estimate(np.stack([expected, 2 * expected])).shape == (2, categories)


def test_the_standard_error_is_that_of_all_messages_enumerated() -> None:
    """Three respondents with weights: all 27 possible messages, each with its probability."""
    response = RandomisedResponse(3, 0.8)
    codes, weights = (0, 0, 2), np.asarray([1.0, 2.5, 4.0])
    mean, square = np.zeros(3), np.zeros(3)
    for sent in itertools.product(range(3), repeat=3):
        chance = math.prod(response.law(code)[message] for code, message in zip(codes, sent, strict=True))
        estimate = response.estimate(np.bincount(sent, weights, minlength=3))
        mean += chance * estimate
        square += chance * estimate**2
    assert mean == pytest.approx([3.5, 0, 4])
    squares = np.bincount(codes, weights**2, minlength=3)
    assert response.standard_error(squares) ** 2 == pytest.approx(square - mean**2)


def test_one_category_has_nothing_to_hide() -> None:
    """All messages are alike: the exact count is known, and nothing is spent."""
    response = RandomisedResponse(1, 1.0)
    assert response.keep == 1
    assert response.real_epsilon == 0
    assert response.law(0).tolist() == [1.0]
    assert response.apply(np.zeros(5, np.int64), np.random.default_rng(1)).tolist() == [0] * 5
    assert response.estimate([5.0]).tolist() == [5.0]
    assert response.standard_error([5.0]).tolist() == [0.0]


def test_nobody_sends_nothing() -> None:
    """An empty column stays empty."""
    response = RandomisedResponse(4, 1.0)
    assert response.apply(np.asarray([], np.int64), np.random.default_rng(1)).shape == (0,)
    assert response.estimate(np.zeros(4)).tolist() == [0.0] * 4


@pytest.mark.parametrize("code", [-1, 4, 2**60])
def test_a_category_that_was_not_declared_is_refused(code: int) -> None:
    """The error does not say which one: that would tell what somebody answered."""
    response = RandomisedResponse(4, 1.0)
    with pytest.raises(InvalidRequestError, match="not declared") as refusal:
        response.apply(np.asarray([0, code]), np.random.default_rng(1))
    assert str(code) not in refusal.value.text
    with pytest.raises(InvalidRequestError):
        response.law(code)


def test_no_category_is_refused() -> None:
    """A respondent has some value."""
    with pytest.raises(InvalidRequestError, match="at least 1"):
        RandomisedResponse(0, 1.0)
    with pytest.raises(ValueError, match="each category"):
        RandomisedResponse(3, 1.0).estimate([1.0, 2.0])


def test_the_same_seed_sends_the_same() -> None:
    """An evaluation can be repeated."""
    response = RandomisedResponse(5, 1.0)
    codes = np.arange(1000) % 5
    once, again = (response.apply(codes, np.random.default_rng(7)) for _ in range(2))
    assert (once == again).all()
    assert (once != codes).any()
