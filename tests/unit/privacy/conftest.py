"""An independent witness for exponentials: Taylor sums in integers, sharing nothing with the code under test."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import pytest

FIXED_POINT = 10**150
"""One, in the integers that the sums are kept in."""

ExpSeries = Callable[[Fraction], tuple[Fraction, Fraction]]


@lru_cache(maxsize=4096)
def exp_bounds(exponent: Fraction) -> tuple[Fraction, Fraction]:
    """Fractions below and above e**exponent: once the Taylor terms halve, the rest is below twice a term."""
    if exponent < 0:
        low, high = exp_bounds(-exponent)
        return 1 / high, 1 / low
    low_sum = high_sum = n = 0
    low_term = high_term = FIXED_POINT
    while 2 * exponent > n or high_term > 1:
        low_sum, high_sum, n = low_sum + low_term, high_sum + high_term, n + 1
        low_term = low_term * exponent.numerator // (exponent.denominator * n)
        high_term = -(-high_term * exponent.numerator // (exponent.denominator * n))
    return Fraction(low_sum, FIXED_POINT), Fraction(high_sum + 2 * high_term, FIXED_POINT)


@pytest.fixture(scope="session")
def exp_series() -> ExpSeries:
    """The witness, as a fixture because test folders are no packages."""
    return exp_bounds
