"""Enclosure: an irrational number caught between two fractions, narrowly enough to round it without doubt.

A budget is the floor of a logarithm, a margin the ceiling of one, a belief is made from an exponential. None of them is
a fraction, so each is bracketed by fractions, and the bracket is narrowed until both ends round to the same integer.

Invariants. The true value lies between `low` and `high`, whatever the number of digits. `decide` returns the rounding
of the true value itself, never of an approximation. The caller's decimal context has no influence.

Left to others: to call `decide` only where the true value does not sit on a rounding boundary. Lindemann's theorem:
e**x is transcendental for rational x != 0, and so is ln(r) for rational r > 0, r != 1; each caller says how it uses
this.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

MAX_EXPONENT = 1 << 14
"""Largest |x| that `exp_between` takes: far beyond any budget (127 nat), yet its fractions stay a few kB long."""

_FIRST_DIGITS = 40
# As far as every platform's decimal context reaches.
_MAX_DECIMAL_EXPONENT = 999_999


class Between(NamedTuple):
    """A real number known to satisfy low <= number <= high."""

    low: Fraction
    high: Fraction


def _context(digits: int, rounding: str) -> decimal.Context:
    """Every field is given, because the defaults can be changed by anybody in the process."""
    return decimal.Context(
        prec=digits,
        rounding=rounding,
        Emin=-_MAX_DECIMAL_EXPONENT,
        Emax=_MAX_DECIMAL_EXPONENT,
        capitals=1,
        clamp=0,
        flags=[],
        traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow, decimal.Underflow],
    )


def _relative_error(digits: int) -> Fraction:
    """One unit in the last place. `decimal` promises half of one for `exp` and `ln`: the other half is to spare."""
    return Fraction(10, 10**digits)


def exp_between(exponent: Fraction, digits: int) -> Between:
    """e**exponent to about `digits` significant digits. `ValueError` beyond `MAX_EXPONENT`."""
    if abs(exponent) > MAX_EXPONENT:
        raise ValueError(f"an exponent is at most {MAX_EXPONENT}, either way")
    numerator, denominator = Decimal(exponent.numerator), Decimal(exponent.denominator)
    down, up = _context(digits, decimal.ROUND_FLOOR), _context(digits, decimal.ROUND_CEILING)
    error = _relative_error(digits)
    return Between(
        Fraction(down.exp(down.divide(numerator, denominator))) * (1 - error),
        Fraction(up.exp(up.divide(numerator, denominator))) * (1 + error),
    )


def ln_between(argument: Fraction, digits: int) -> Between:
    """ln(argument), from logarithms of `digits` significant digits. `ValueError` unless argument > 0."""
    if argument <= 0:
        raise ValueError("only a positive number has a logarithm")
    context = _context(digits, decimal.ROUND_HALF_EVEN)
    # Both are at least 0, so that widening by a relative error widens in the intended direction.
    above = Fraction(context.ln(Decimal(argument.numerator)))
    below = Fraction(context.ln(Decimal(argument.denominator)))
    error = _relative_error(digits)
    return Between(above * (1 - error) - below * (1 + error), above * (1 + error) - below * (1 - error))


def decide(enclose: Callable[[int], Between], to_integer: Callable[[Fraction], int]) -> int:
    """`to_integer` (`math.floor`, `math.ceil` or `round`) of the number that `enclose(digits)` brackets, exactly.

    Both ends round alike only if everything between them does. Ends if the number is on no rounding boundary.
    """
    digits = _FIRST_DIGITS
    while True:
        low, high = enclose(digits)
        if to_integer(low) == to_integer(high):
            return to_integer(low)
        digits *= 2


def to_decimal(value: Fraction, digits: int) -> Decimal:
    """`value` rounded to nearest at `digits` significant digits."""
    return _context(digits, decimal.ROUND_HALF_EVEN).divide(Decimal(value.numerator), Decimal(value.denominator))
