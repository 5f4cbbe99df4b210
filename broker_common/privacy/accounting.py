"""Accounting: a policy's belief limit as an integer budget, an answer's leakage as an integer price.

The unit is 2**-24 nat of log-odds. A limit p on belief (from a prior of 1/2) lets the odds move by param = p/(1-p), so
the budget is ln(param); one count at scale b moves the log-odds by at most 1/b.

Invariants. Prices are rounded up and the budget is rounded down, both exactly, so that a set of answers that fits in
units fits in nats. No float takes part. A budget stays below 127 nat and a price is at most 1 nat, so that charged plus
price stays below 2**31 and a 32-bit ledger cannot wrap.

Left to others: keeping the ledger, charging before anything is released, and which people a charge falls on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from fractions import Fraction

from broker_common.errors import InvalidRequestError
from broker_common.privacy.enclosure import Between, decide, ln_between
from broker_common.values import MOST_CELLS

UNITS_PER_NAT = 1 << 24
MAX_CAP_NATS = 127
"""Budgets from here on are refused: u32 ledgers must not wrap (DESIGN 5)."""
# The longest `max_belief` as a text; exact arithmetic on more digits would only take longer.
MAX_BELIEF_CHARS = 64
DEFAULT_MAX_SCALE = 50
USUAL_SCALE = 30
"""The paper's scale: what is asked for where nobody says otherwise."""

_PLAIN_DECIMAL = re.compile(r"0\.[0-9]+")


def parse_max_belief(text: str) -> Fraction:
    """The belief limit that an exact decimal string names, strictly between 1/2 and 1. `INVALID_VALUE` otherwise."""
    if len(text) <= MAX_BELIEF_CHARS and _PLAIN_DECIMAL.fullmatch(text):
        max_belief = Fraction(text)
        if Fraction(1, 2) < max_belief < 1:
            return max_belief
    raise InvalidRequestError(
        "INVALID_VALUE",
        name="max_belief",
        problem=f"must be a decimal above 0.5 and below 1, at most {MAX_BELIEF_CHARS} characters long",
        remedy='Write it in plain digits like "0.8": no sign, no exponent, no percent sign.',
    )


def param_of(max_belief: Fraction) -> Fraction:
    """The factor by which the odds may move, p/(1-p). `ValueError` unless 1/2 < max_belief < 1."""
    if not Fraction(1, 2) < max_belief < 1:
        raise ValueError("a belief limit lies strictly between 1/2 and 1")
    return max_belief / (1 - max_belief)


def cap_units(param: Fraction) -> int:
    """floor(2**24 * ln(param)), exactly: the whole budget. `INVALID_VALUE` from 127 nat on, `ValueError` if param <= 1.

    The rounding is always decided, because ln(param) is transcendental and thus never a multiple of 2**-24.
    """
    if param <= 1:
        raise ValueError("the odds must be allowed to move: param is above 1")

    def budget(digits: int) -> Between:
        nats = ln_between(param, digits)
        return Between(nats.low * UNITS_PER_NAT, nats.high * UNITS_PER_NAT)

    # SECURITY: down, so that the integer budget never exceeds the real one.
    cap = decide(budget, math.floor)
    if cap >= MAX_CAP_NATS * UNITS_PER_NAT:
        raise InvalidRequestError(
            "INVALID_VALUE",
            name="max_belief",
            problem=f"is so close to 1 that the budget reaches {MAX_CAP_NATS} nat, more than a ledger can count",
            remedy="Choose a lower limit; 0.8 is usual.",
        )
    return cap


def price(scale: int, *, cells: int = 1) -> int:
    """ceil(2**24 / scale): what one answer at this scale costs, whatever the number of its cells.

    `ValueError` unless scale >= 1 and there are as many cells as an answer may have.
    """
    if scale < 1:
        raise ValueError("a scale is at least 1")
    if not 1 <= cells <= MOST_CELLS:
        raise ValueError(f"an answer has 1 to {MOST_CELLS} cells")
    # SECURITY: up, so that the integer price never understates the real one.
    return -(-UNITS_PER_NAT // scale)


def fits(cap: int, charged: int, scale: int) -> bool:
    """Whether one more answer at this scale stays within the budget. `ValueError` for a negative charge."""
    if charged < 0:
        raise ValueError("a charge is never negative")
    return charged + price(scale) <= cap


def answers_left(cap: int, charged: int, scale: int) -> int:
    """How many more answers at this scale fit one after the other; 0 when none does."""
    if charged < 0:
        raise ValueError("a charge is never negative")
    return max(0, cap - charged) // price(scale)


def any_fits(cap: int, charged: int, scales: Iterable[int]) -> bool:
    """Whether an admissible scale still fits. When none does, the strict service shuts down."""
    return any(fits(cap, charged, scale) for scale in scales)


def default_scales(cap: int) -> tuple[int, ...]:
    """The scales of a policy that names none: those of 1..50 whose price fits the whole budget, possibly none."""
    return tuple(scale for scale in range(1, DEFAULT_MAX_SCALE + 1) if fits(cap, 0, scale))


def epsilon_text(scale: int) -> str:
    """The leakage of one answer in nats, as an exact fraction: "1/30", and "1" at scale 1."""
    return str(Fraction(1, scale))
