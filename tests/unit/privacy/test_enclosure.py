"""Enclosures hold the true value, and roundings are decided on it."""

from __future__ import annotations

import ast
import decimal
import inspect
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_common.privacy import accounting, belief, discrete_laplace, enclosure, table_laplace
from broker_common.privacy.enclosure import MAX_EXPONENT, Between, decide, exp_between, ln_between, to_decimal

ExpSeries = Callable[[Fraction], tuple[Fraction, Fraction]]

exponents = st.fractions(min_value=-40, max_value=40, max_denominator=1 << 24)
digits = st.integers(5, 60)


@given(exponent=exponents, digits=digits)
def test_an_exponential_lies_in_its_enclosure(exp_series: ExpSeries, exponent: Fraction, digits: int) -> None:
    """The enclosure overlaps the Taylor witness for every exponent and number of digits, and is narrow."""
    low, high = exp_between(exponent, digits)
    witness_low, witness_high = exp_series(exponent)
    assert low <= witness_high
    assert witness_low <= high
    assert high - low <= low * Fraction(1000, 10**digits)


@given(logarithm=st.fractions(min_value=-20, max_value=20, max_denominator=1000), digits=digits)
def test_a_logarithm_lies_in_its_enclosure(exp_series: ExpSeries, logarithm: Fraction, digits: int) -> None:
    """The logarithm of a number below e**x is enclosed below x or around it, and likewise above."""
    below, above = exp_series(logarithm)
    assert ln_between(below, digits).low <= logarithm <= ln_between(above, digits).high


def test_the_logarithm_of_one_is_exactly_zero() -> None:
    """No width is added to a value that is exact, or a denominator of 1 would blur every integer's logarithm."""
    assert ln_between(Fraction(1), 40) == Between(Fraction(0), Fraction(0))


@pytest.mark.parametrize("argument", [Fraction(0), Fraction(-1)])
def test_only_positive_numbers_have_a_logarithm(argument: Fraction) -> None:
    """A bug that asks for another logarithm is stopped, not answered."""
    with pytest.raises(ValueError, match="positive"):
        ln_between(argument, 40)


@pytest.mark.parametrize("exponent", [Fraction(MAX_EXPONENT + 1), Fraction(-MAX_EXPONENT - 1)])
def test_exponents_that_would_exhaust_memory_are_refused(exponent: Fraction) -> None:
    """Fractions of e**x grow with x, so x has a limit."""
    with pytest.raises(ValueError, match="at most"):
        exp_between(exponent, 40)


@pytest.mark.parametrize("to_integer", [math.floor, math.ceil, round])
def test_a_rounding_is_not_decided_before_it_is_certain(to_integer: Callable[[Fraction], int]) -> None:
    """A value a hair's breadth from a boundary raises the precision until both ends round alike."""
    hair = Fraction(1, 10**300)
    value = Fraction(7, 2) + hair if to_integer is round else 4 + hair
    asked: list[int] = []

    def enclose(digits: int) -> Between:
        asked.append(digits)
        width = Fraction(1, 10**digits)
        return Between(value - width, value + width)

    assert decide(enclose, to_integer) == to_integer(value)
    assert len(asked) > 1
    assert asked[-1] > len("1" + "0" * 300)


def test_the_callers_decimal_context_has_no_influence() -> None:
    """Whatever precision, rounding and traps another part of the process has set, figures stay the same."""
    figures: list[Callable[[], object]] = [
        lambda: accounting.cap_units(Fraction(4)),
        lambda: belief.belief_of_units(12_345_678),
        lambda: belief.belief_after(41, 30),
        lambda: table_laplace.margin.__wrapped__(30, 16),
        lambda: table_laplace.probability(30, (17, -3)),
    ]
    usual = [figure() for figure in figures]
    hostile = decimal.Context(prec=1, rounding=decimal.ROUND_UP, Emin=-2, Emax=2, traps=[decimal.Inexact])
    with decimal.localcontext(hostile):
        assert [figure() for figure in figures] == usual


def test_a_fraction_is_written_to_the_digits_asked_for() -> None:
    """Rounding to nearest at a number of significant digits."""
    assert to_decimal(Fraction(2, 300), 5) == Decimal("0.0066667")


@pytest.mark.parametrize("module", [accounting, discrete_laplace, enclosure, table_laplace])
def test_no_float_decides_anything(module: ModuleType) -> None:
    """The modules that decide name no float and hold no float literal."""
    nodes = list(ast.walk(ast.parse(inspect.getsource(module))))
    assert not [node for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, float)]
    assert not [node for node in nodes if isinstance(node, ast.Name) and node.id == "float"]
