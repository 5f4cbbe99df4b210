"""Arguments that no mechanism accepts, and that a refusal says so in a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from broker_common.errors import ExitCode, InvalidRequestError
from policy_lab.mechanisms.bounded import KINDS, BoundedLaplace
from policy_lab.mechanisms.central import Laplace, NoisyMean
from policy_lab.mechanisms.limits import MOST_EPSILON, checked_bounds, checked_delta, checked_number
from policy_lab.mechanisms.neighbours import Neighbours
from policy_lab.mechanisms.randomised_response import RandomisedResponse

NO_EPSILON = (0, -1.0, 1e-7, MOST_EPSILON + 1e-9, 1e308, 10**400, math.nan, math.inf, -math.inf, Decimal("NaN"))
MECHANISMS: tuple[Callable[[float], object], ...] = (
    lambda epsilon: RandomisedResponse(4, epsilon),
    lambda epsilon: Laplace(1, epsilon),
    lambda epsilon: NoisyMean((0, 1), epsilon, Neighbours.ADDED),
    *(lambda epsilon, kind=kind: BoundedLaplace(0, 1, epsilon, kind) for kind in KINDS),
)


@pytest.mark.parametrize("epsilon", NO_EPSILON, ids=str)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_an_epsilon_that_nobody_can_keep_is_refused(mechanism: Callable[[float], object], epsilon: float) -> None:
    """Zero, negative, endless and enormous ones are one typed error that names the limits."""
    with pytest.raises(InvalidRequestError) as refusal:
        mechanism(epsilon)
    assert refusal.value.exit_code is ExitCode.INVALID_REQUEST
    assert refusal.value.text == "epsilon must lie between 0.000001 and 30."


@pytest.mark.parametrize("epsilon", [1e-6, 30.0])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_limits_themselves_are_accepted(mechanism: Callable[[float], object], epsilon: float) -> None:
    """Both ends belong to what is accepted; a mean with noise in both parts draws it, too."""
    made = mechanism(epsilon)
    if isinstance(made, NoisyMean):
        assert 0 <= made.apply(0.5, 10, np.random.default_rng(1)) <= 1


@pytest.mark.parametrize("delta", [0, 1, 1.0, -1e-9, 2, math.nan, math.inf])
def test_a_delta_that_promises_nothing_is_refused(delta: float) -> None:
    """`delta: 1.0`, as published, would hold for anything whatever."""
    with pytest.raises(InvalidRequestError, match="both excluded"):
        checked_delta(delta)


@pytest.mark.parametrize(
    ("low", "high"), [(1, 1), (2, 1), (math.nan, 1), (0, math.inf), (-math.inf, 0), (0, 1e308), (Decimal("NaN"), 1)]
)
def test_bounds_that_are_none_are_refused(low: float, high: float) -> None:
    """Equal, reversed, endless or missing bounds bound nothing."""
    with pytest.raises(InvalidRequestError):
        checked_bounds(low, high)


def test_numbers_stay_exact() -> None:
    """A decimal of a run file is the number that was written."""
    assert checked_number("x", Decimal("0.1")) == Fraction(1, 10)
    assert checked_bounds(Fraction(1, 3), 2) == (Fraction(1, 3), Fraction(2))
