"""Synthetic health card numbers: ten digits, the first a 0, the last a Luhn check digit.

Real Ontario numbers are believed never to begin with 0 (from memory, unverified), so the block that does is taken as
reserved here: nobody's number can be hit by accident. Eight digits are free, which makes 10^8 distinct cards.
"""

from __future__ import annotations

import numpy as np

from deploy.synthetic.arrays import Digits, Integers

CARD_DIGITS = 10
_FREE_DIGITS = 8
BLOCK_SIZE = 10**_FREE_DIGITS

# The digit sum of twice a digit, which is what Luhn adds for every second digit.
_DOUBLED = np.array([0, 2, 4, 6, 8, 1, 3, 5, 7, 9], dtype=np.uint8)


def decimal_digits(numbers: Integers, width: int) -> Digits:
    """The last `width` decimal digits of each number, most significant first, one row per number."""
    digits = np.empty((len(numbers), width), dtype=np.uint8)
    rest = numbers.astype(np.uint32)
    for column in reversed(range(width)):
        quotient = rest // np.uint32(10)
        digits[:, column] = rest - quotient * np.uint32(10)
        rest = quotient
    return digits


def luhn_check_digits(payload: Digits) -> Digits:
    """The check digit that makes each row followed by it pass the mod 10 test (ISO/IEC 7812-1, annex B)."""
    from_right = payload[:, ::-1]
    total = _DOUBLED[from_right[:, 0::2]].sum(axis=1, dtype=np.uint8)
    total += from_right[:, 1::2].sum(axis=1, dtype=np.uint8)
    checks: Digits = (-total.astype(np.int16) % 10).astype(np.uint8)
    return checks


def card_digits(index: Integers) -> Digits:
    """The card at each index of the block, one row of ten digits; distinct for distinct indices below BLOCK_SIZE."""
    cards = np.empty((len(index), CARD_DIGITS), dtype=np.uint8)
    cards[:, : CARD_DIGITS - 1] = decimal_digits(index, CARD_DIGITS - 1)
    cards[:, CARD_DIGITS - 1] = luhn_check_digits(cards[:, : CARD_DIGITS - 1])
    return cards
