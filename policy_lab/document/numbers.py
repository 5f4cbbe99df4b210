"""How a number is shown."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction

from broker_common.language import Language
from policy_lab.document.model import Cell

# Digits shown of a float: further digits come from the arithmetic, not from the figure.
_SIGNIFICANT = 12
# Outside these a number is shown as a power of ten.
_SMALLEST_SHOWN = Decimal("1e-7")
_LARGEST_SHOWN = Decimal("1e15")
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def shown(cell: Cell, digits: int | None, t: Language) -> str:
    """A cell in the reader's language, with so many digits after the point; None: as it is."""
    if cell is None:
        return ""
    if isinstance(cell, str):
        return t(cell)
    number = _decimal(cell)
    if not number.is_finite():
        return str(cell)
    if number and not _SMALLEST_SHOWN <= abs(number) < _LARGEST_SHOWN:
        return _as_power(number, 2 if digits is None else min(max(digits, 1), 3), t)
    if digits is None:
        number = number.normalize()
        digits = max(0, -int(number.as_tuple().exponent))
    # Nothing is below zero that is shown as zero.
    return t.number(round(number, digits) or Decimal(0), digits)


def _as_power(number: Decimal, digits: int, t: Language) -> str:
    mantissa, _, exponent = f"{number:.{digits}e}".partition("e")
    return f"{t.exact(mantissa)} \N{MULTIPLICATION SIGN} 10{str(int(exponent)).translate(_RAISED)}"


def _decimal(cell: float | Fraction) -> Decimal:
    if isinstance(cell, Fraction) and cell.denominator != 1:
        return Context(prec=_SIGNIFICANT).divide(Decimal(cell.numerator), Decimal(cell.denominator))
    return Decimal(f"{cell:.{_SIGNIFICANT}g}") if isinstance(cell, float) else Decimal(int(cell))
