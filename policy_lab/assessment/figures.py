"""Shares as sentences of an assessment say them."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction


def percent(share: str) -> float:
    """An exact decimal share, in percent."""
    return float(100 * Fraction(share))


def rounded_up(share: Fraction | Decimal) -> float:
    """A share in percent with one decimal that never understates."""
    return math.ceil(1000 * Fraction(share)) / 10
