"""Card numbers: valid, distinct, and in the synthetic block."""

from __future__ import annotations

import numpy as np
import pytest

from deploy.synthetic.cards import BLOCK_SIZE, card_digits


def passes_luhn(card: str) -> bool:
    """The mod 10 test as written for people: from the right, double every second digit, add up the digits."""
    total = 0
    for place, character in enumerate(reversed(card)):
        value = int(character) * (2 if place % 2 else 1)
        total += value // 10 + value % 10
    return total % 10 == 0


def as_text(index: int) -> str:
    """The card at an index, as it is written."""
    return "".join(map(str, card_digits(np.array([index]))[0]))


@pytest.mark.parametrize("index", [0, 1, 9, 10, 12345678, BLOCK_SIZE - 1])
def test_a_card_has_ten_digits_begins_with_0_and_passes_the_check(index: int) -> None:
    """Every index of the block gives a well-formed card that carries the index."""
    card = as_text(index)
    assert len(card) == 10
    assert card[0] == "0"
    assert int(card[:9]) == index
    assert passes_luhn(card)


def test_the_check_digit_agrees_with_a_known_number() -> None:
    """The test's own check accepts the number commonly used to test medical software, and no neighbour of it."""
    assert passes_luhn("9876543217")
    assert not any(passes_luhn(f"987654321{digit}") for digit in "012345689")


def test_only_one_check_digit_is_valid() -> None:
    """Changing a card's last digit in any way breaks the check."""
    card = as_text(40_302_011)
    assert [digit for digit in "0123456789" if passes_luhn(card[:9] + digit)] == [card[9]]
