"""Laplace noise inside bounds: each form's law against numerical integration, its real epsilon, its bias."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad

from broker_common.errors import InvalidRequestError
from policy_lab.mechanisms.bounded import KINDS, BoundedLaplace, Kind

EPSILONS = (1e-6, 0.6, 1.0, 5.99, 30.0)
BOUNDS = ((1.2, 2.1), (-3.0, 4.0), (0.0, 1.0))
POINTS = 101


def density(mechanism: BoundedLaplace, value: float, x: float) -> float:
    """Density of what is sent, written a second time from what each form does."""
    low, high, spread = mechanism.low, mechanism.high, mechanism.high - mechanism.low
    scale = spread / mechanism.epsilon

    def laplace(distance: float) -> float:
        return math.exp(-abs(distance) / scale) / (2 * scale)

    if mechanism.kind == "clamped":
        return laplace(x - value)
    if mechanism.kind == "truncated":
        outside = (math.exp(-(value - low) / scale) + math.exp(-(high - value) / scale)) / 2
        return laplace(x - value) / (1 - outside)
    start = value - low if mechanism.kind == "wrapped" else value
    turns = range(-int(45 / mechanism.epsilon) - 3, int(45 / mechanism.epsilon) + 4)
    return math.fsum(laplace(x - low + turn * spread - start) for turn in turns)


def values_of(mechanism: BoundedLaplace, count: int) -> NDArray[np.float64]:
    """Values from bound to bound."""
    return np.linspace(mechanism.low, mechanism.high, count)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [0.6, 5.99, 30.0])
@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_the_distribution_is_that_of_what_each_form_does(kind: Kind, epsilon: float, low: float, high: float) -> None:
    """Truncating, clamping and both ways of wrapping, integrated numerically."""
    mechanism = BoundedLaplace(low, high, epsilon, kind)
    jump = float(mechanism.cdf(low, low)) if kind == "clamped" else 0.0
    assert jump == (0.5 if kind == "clamped" else 0.0)
    for value in values_of(mechanism, 4):
        at_low = math.exp(-(value - low) * epsilon / (high - low)) / 2 if kind == "clamped" else 0.0
        corner = low + (value - low if kind != "wrapped_as_proposed" else math.fmod(value, high - low) % (high - low))
        for x in np.linspace(low, high, 6)[:-1]:
            area, _ = quad(lambda t, v=value: density(mechanism, v, t), low, x, points=[corner], limit=200)
            assert float(mechanism.cdf(value, x)) == pytest.approx(area + at_low, abs=1e-7)
        assert mechanism.cdf(value, [low - 1, high, high + 1]).tolist() == [0.0, 1.0, 1.0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_the_mean_is_that_of_the_distribution(kind: Kind, epsilon: float, low: float, high: float) -> None:
    """The mean is low plus the integral of what lies above; the bias printed is the mean less the value."""
    mechanism = BoundedLaplace(low, high, epsilon, kind)
    values = values_of(mechanism, 7)
    middles = low + (np.arange(20_000) + 0.5) / 20_000 * (high - low)
    means = [low + (high - low) * float(np.mean(1 - mechanism.cdf(value, middles))) for value in values]
    assert mechanism.mean(values) == pytest.approx(means, abs=1e-6 * (high - low))
    assert mechanism.bias(values) == pytest.approx(mechanism.mean(values) - values, abs=1e-12)


def chances(mechanism: BoundedLaplace) -> NDArray[np.float64]:
    """The chance of each of a hundred small stretches (and of both bounds, if clamped), for many values."""
    edges = values_of(mechanism, POINTS)
    below = np.asarray([mechanism.cdf(value, edges[:-1]) for value in edges])
    stretches = np.diff(below, axis=1, append=1)
    if mechanism.kind != "clamped":
        return stretches
    # The last stretch holds the mass at the upper bound, by symmetry that at the lower bound for the opposite value.
    return np.column_stack([below[:, :1], stretches[:, :-1], stretches[:, -1] - below[::-1, 0], below[::-1, 0]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [0.6, 1.0, 5.99])
@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_the_real_epsilon_is_the_largest_ratio(kind: Kind, epsilon: float, low: float, high: float) -> None:
    """Over a hundred values and a hundred stretches none passes it, and one comes near it."""
    mechanism = BoundedLaplace(low, high, epsilon, kind)
    logs = np.log(chances(mechanism))
    worst = float(np.max(logs.max(axis=0) - logs.min(axis=0)))
    assert worst <= mechanism.real_epsilon + 1e-9
    # Messages within one stretch differ by a hundredth of epsilon, on either side.
    assert worst >= mechanism.real_epsilon - 2.5 * epsilon / (POINTS - 1)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_wrapped_noise_spends_less_than_its_epsilon(epsilon: float) -> None:
    """Half the circle is the furthest: ln cosh(epsilon/2), the same for both forms, which differ by a turn only."""
    for kind in ("wrapped", "wrapped_as_proposed"):
        found = BoundedLaplace(1.2, 2.1, epsilon, kind).real_epsilon
        assert found == pytest.approx(math.log(math.cosh(epsilon / 2)), abs=1e-15)
        assert found < epsilon / 2
    assert BoundedLaplace(1.2, 2.1, epsilon, "clamped").real_epsilon == epsilon


def test_the_form_as_proposed_is_not_the_identity_without_noise() -> None:
    """With next to no noise a height of 1.65 m in 1.2 .. 2.1 comes back as 1.95 m; the other three give it back."""
    values = np.asarray([1.3, 1.65, 2.0])
    for kind in KINDS:
        bias = BoundedLaplace(1.2, 2.1, 30.0, kind).bias(values)
        if kind == "wrapped_as_proposed":
            assert bias[1] == pytest.approx(0.3, abs=0.01)
        else:
            assert bias == pytest.approx(0, abs=0.02)
    # A lower bound that is a whole number of ranges turns nothing.
    assert BoundedLaplace(-4, 0, 2.0, "wrapped_as_proposed").bias(-1.0) == BoundedLaplace(-4, 0, 2.0, "wrapped").bias(
        -1
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_great_deal_of_noise_leaves_the_middle(kind: Kind) -> None:
    """At the smallest epsilon the mean is the middle of the range, whatever the value."""
    mechanism = BoundedLaplace(-3, 5, 1e-6, kind)
    assert mechanism.mean([-3, 0, 5]) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_messages_stay_inside_their_bounds(kind: Kind) -> None:
    """Whatever the noise, and also where floats do not add up: 0.1 + (0.7 - 0.1) is not 0.7."""
    random = np.random.default_rng(3)
    for (low, high), epsilon in itertools.product([(0.1, 0.7), (-1e100, 1e100), (1e9, 1e9 + 1e-3)], EPSILONS):
        mechanism = BoundedLaplace(low, high, epsilon, kind)
        sent = mechanism.apply(np.linspace(low, high, 1000), random)
        assert low <= sent.min() <= sent.max() <= high


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [1.19, 2.11, np.nan, np.inf, 999.99])
def test_a_value_outside_the_bounds_is_refused(kind: Kind, value: float) -> None:
    """Its noise would keep no promise; the error does not hold the value."""
    with pytest.raises(InvalidRequestError, match="outside the public bounds") as refusal:
        BoundedLaplace(1.2, 2.1, 1.0, kind).apply([1.5, value], np.random.default_rng(1))
    assert str(value) not in refusal.value.text


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_sends_nothing(kind: Kind) -> None:
    """An empty column stays empty."""
    mechanism = BoundedLaplace(0, 1, 1.0, kind)
    assert mechanism.apply([], np.random.default_rng(1)).shape == (0,)
    assert mechanism.mean([]).shape == (0,)


def test_unknown_forms_are_none() -> None:
    """A misspelt form is an error of the program: run files are checked against KINDS."""
    with pytest.raises(ValueError, match="none of"):
        BoundedLaplace(0, 1, 1.0, "folded")  # type: ignore[arg-type]
