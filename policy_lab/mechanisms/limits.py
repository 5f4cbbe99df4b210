"""Which epsilons, deltas and bounds are accepted; everything else is refused with a sentence."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase

Number = int | float | Decimal | Fraction

LEAST_EPSILON = 1e-6
# At 30 odds may change by a factor of 10**13; the random numbers here are steps of 2**-53 and keep no weaker promise.
MOST_EPSILON = 30.0
# Far beyond any weight, income or height, and far enough from where a float ends that no noise overflows.
_MOST_NUMBER = 1e100


def refused(name: str, problem: str, remedy: str) -> InvalidRequestError:
    """The error for a value that cannot be used; the sentence never holds what a data file says of somebody."""
    return InvalidRequestError("INVALID_VALUE", name=name, problem=problem, remedy=remedy)


def checked_epsilon(epsilon: Number) -> float:
    """The epsilon of one mechanism, as a float."""
    value = _finite_or_nan(epsilon)
    if not LEAST_EPSILON <= value <= MOST_EPSILON:
        raise refused(
            "epsilon",
            phrase("must lie between 0.000001 and 30"),
            phrase("At 0 nothing can be learned, and above 30 a promise is none. Usual values lie between 0.1 and 5."),
        )
    return value


def checked_delta(delta: Number) -> float:
    """The probability with which a promise may fail."""
    value = _finite_or_nan(delta)
    if not 0 < value < 1:
        raise refused(
            "delta",
            phrase("must lie between 0 and 1, both excluded"),
            phrase("Use much less than 1 divided by the number of respondents. A delta of 1 promises nothing."),
        )
    return value


def checked_bounds(low: Number, high: Number) -> tuple[Fraction, Fraction]:
    """Public bounds of a column."""
    exact = checked_number("bounds", low), checked_number("bounds", high)
    if exact[0] >= exact[1]:
        raise refused(
            "bounds",
            phrase("must have the lower one first, and the two must differ"),
            phrase("A column whose only possible value is public needs no noise: leave it out."),
        )
    return exact


def checked_number(name: str, value: Number) -> Fraction:
    """A finite number, exactly."""
    if not abs(_finite_or_nan(value)) <= _MOST_NUMBER:
        raise refused(
            name,
            phrase("must be a finite number"),
            phrase("Write digits, with a point before decimals if there are any."),
        )
    return Fraction(value)


def _finite_or_nan(value: Number) -> float:
    """The number as a float; NaN, which no comparison accepts, if it is none or too large for one."""
    try:
        return float(value)
    except OverflowError:
        return math.nan
