"""Linkage: cards are read strictly, and both agencies turn one card into one pseudonym, for ever."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_common.crypto.linkage import LinkageKey, parse_health_card

VECTORS = Path(__file__).parents[2] / "vectors" / "linkage.json"


def luhn_digit(nine: str) -> str:
    """The check digit that makes nine digits a card: every second digit from the right counts double."""
    total = 0
    for place, digit in enumerate(reversed(nine)):
        value = int(digit) * (2 if place % 2 == 0 else 1)
        total += value - 9 if value > 9 else value
    return str(-total % 10)


@pytest.mark.parametrize("text", ["9876543217", "9876-543-217", "9876 543 217", "9876-543 217", "9876543-217"])
def test_every_usual_spelling_gives_the_same_digits(text: str) -> None:
    """Hyphens and spaces where cards print them do not make another person."""
    assert parse_health_card(text) == "9876543217"


@given(nine=st.text("0123456789", min_size=9, max_size=9))
def test_exactly_one_check_digit_is_valid(nine: str) -> None:
    """Of the ten possible last digits one makes a card, and it is the one of the published algorithm."""
    valid = []
    for digit in "0123456789":
        try:
            valid.append(parse_health_card(nine + digit))
        except ValueError as error:
            assert str(error) == "health_card has a wrong check digit"  # noqa: PT017 - nine of ten raise
    assert valid == [nine + luhn_digit(nine)]


@given(nine=st.text("0123456789", min_size=9, max_size=9), place=st.integers(0, 9), by=st.integers(1, 9))
def test_one_mistyped_digit_is_noticed(nine: str, place: int, by: int) -> None:
    """A single wrong digit never turns one person's card into another's."""
    card = nine + luhn_digit(nine)
    wrong = card[:place] + str((int(card[place]) + by) % 10) + card[place + 1 :]
    with pytest.raises(ValueError, match="wrong check digit"):
        parse_health_card(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "987654321",
        "98765432170",
        "9876--543-217",
        "987-6543-217",
        "9876.543.217",
        " 9876543217",
        "9876543217 ",
        "9876543217\n",
        "9876543217ON",
        "987654321x",
        "９８７６５４３２１７",  # noqa: RUF001 - digits of another alphabet
        "\u0669876543217",
        "-987654321",
    ],
)
def test_anything_else_is_refused_without_quoting_it(text: str) -> None:
    """The message names the reason and no digit, because it ends up in load reports."""
    with pytest.raises(ValueError, match=r"^health_card is not ten digits$"):
        parse_health_card(text)


def test_pseudonyms_are_the_recorded_ones() -> None:
    """Recorded keys and cards give the recorded pseudonyms; Python's own hmac is the witness."""
    vectors = json.loads(VECTORS.read_text())["vectors"]
    assert len(vectors) >= 10
    for vector in vectors:
        key, card = bytes.fromhex(vector["key"]), vector["card"]
        assert parse_health_card(card) == card
        assert LinkageKey(key).pseudonym(card).hex() == vector["pseudonym"]
        assert hmac.digest(key, card.encode(), hashlib.sha256)[:16].hex() == vector["pseudonym"]


@given(key=st.binary(min_size=32, max_size=32), cards=st.lists(st.text("0123456789", min_size=10), max_size=4))
def test_one_key_serves_many_cards(key: bytes, cards: list[str]) -> None:
    """Computing one pseudonym leaves nothing behind in the next."""
    linkage = LinkageKey(key)
    assert [linkage.pseudonym(card) for card in cards] == [LinkageKey(key).pseudonym(card) for card in cards]
    assert all(len(linkage.pseudonym(card)) == 16 for card in cards)


def test_another_key_gives_another_pseudonym() -> None:
    """Without the key nobody can try cards."""
    assert LinkageKey(bytes(32)).pseudonym("9876543217") != LinkageKey(b"\1" * 32).pseudonym("9876543217")
