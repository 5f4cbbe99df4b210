"""An independent witness for exponentials: Taylor sums of fractions, sharing nothing with the code under test."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

TAYLOR_ACCURACY = Fraction(1, 10**90)

ExpSeries = Callable[[Fraction], tuple[Fraction, Fraction]]


def exp_bounds(exponent: Fraction) -> tuple[Fraction, Fraction]:
    """Fractions below and above e**exponent, by the Taylor sum: once the terms halve, the rest is below twice a term."""
    if exponent < 0:
        low, high = exp_bounds(-exponent)
        return 1 / high, 1 / low
    total, term, n = Fraction(0), Fraction(1), 0
    while 2 * exponent > n or term > TAYLOR_ACCURACY:
        total += term
        n += 1
        term *= exponent / n
    return total, total + 2 * term


@pytest.fixture(scope="session")
def exp_series() -> ExpSeries:
    """The witness, as a fixture because test folders are no packages."""
    return exp_bounds
