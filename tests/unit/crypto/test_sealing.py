"""Sealing: opens with the right key and the right purpose, and a failure says nothing about why."""

from __future__ import annotations

from base64 import b64encode

import pytest
from fakes.randomness import SeededRandomness
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_common.crypto.sealing import (
    SEALING_KEY_BYTES,
    SEALING_OVERHEAD_BYTES,
    SealingKey,
    UnsealingKey,
    answer_info,
    roster_info,
    sample_bits_info,
)
from broker_common.errors import InvalidRequestError

KEY = UnsealingKey.generate(SeededRandomness("sealing"))
OTHER = UnsealingKey.generate(SeededRandomness("other"))
TICKET, ROSTER = b"t" * 32, b"r" * 32
INFO = sample_bits_info(TICKET, ROSTER)
PLAINTEXT = b"frame key" * 3
SEALED = KEY.sealing_key.seal(PLAINTEXT, INFO)

# Points of order 1, 2, 4 and 8 on Curve25519 and its twist (https://cr.yp.to/ecdh.html, "contributory behaviour").
LOW_ORDER = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
]


def refusal(key: UnsealingKey, sealed: bytes, info: bytes) -> str:
    """Everything that a failed opening shows."""
    with pytest.raises(InvalidRequestError) as caught:
        key.unseal(sealed, info, subject="frame key")
    return f"{caught.value.code} {caught.value.text} {caught.value.hint} {caught.value.details}"


REFUSAL = refusal(OTHER, SEALED, INFO)


def test_what_was_sealed_opens() -> None:
    """The right key with the right info gives the plaintext back, and the overhead is the published constant."""
    assert KEY.unseal(SEALED, INFO, subject="frame key") == PLAINTEXT
    assert len(SEALED) == len(PLAINTEXT) + SEALING_OVERHEAD_BYTES


def test_every_sealing_has_its_own_encapsulation() -> None:
    """Two sealings of one plaintext share neither encapsulation nor ciphertext, so queries cannot be linked."""
    again = KEY.sealing_key.seal(PLAINTEXT, INFO)
    encapsulation = SEALING_OVERHEAD_BYTES - 16
    assert again[:1088] != SEALED[:1088]
    assert again[1088:encapsulation] != SEALED[1088:encapsulation]
    assert again[encapsulation:] != SEALED[encapsulation:]


@pytest.mark.parametrize(
    "info",
    [
        b"",
        INFO[:-1],
        INFO + b"\0",
        answer_info(TICKET),
        roster_info(ROSTER),
        sample_bits_info(ROSTER, TICKET),
        sample_bits_info(b"x" * 32, ROSTER),
        sample_bits_info(TICKET, b"x" * 32),
    ],
)
def test_a_sealing_moved_to_another_ticket_roster_or_purpose_stays_shut(info: bytes) -> None:
    """The info binds: nothing sealed for one place opens in another."""
    assert refusal(KEY, SEALED, info) == REFUSAL


@pytest.mark.parametrize("length", [0, 1, 16, 1088, 1120, 1121, SEALING_OVERHEAD_BYTES - 1, len(SEALED) - 1])
def test_a_truncated_sealing_is_refused_in_the_same_words(length: int) -> None:
    """The sender cannot tell length errors and wrong keys apart."""
    assert refusal(KEY, SEALED[:length], INFO) == REFUSAL
    assert REFUSAL.startswith("SEALED_WRONGLY ")


@pytest.mark.parametrize("point", LOW_ORDER)
def test_a_hostile_encapsulation_is_refused_in_the_same_words(point: str) -> None:
    """A low-order point in the encapsulation is no other failure than a wrong key."""
    assert refusal(KEY, SEALED[:1088] + bytes.fromhex(point) + SEALED[1120:], INFO) == REFUSAL


def test_an_extended_sealing_is_refused() -> None:
    """Nothing can be appended."""
    assert refusal(KEY, SEALED + b"\0", INFO) == REFUSAL


@settings(max_examples=60)
@given(bit=st.integers(0, 8 * len(SEALED) - 1))
def test_a_flipped_bit_is_refused(bit: int) -> None:
    """No bit of encapsulation, ciphertext or tag is idle."""
    # The top bit of an X25519 coordinate is ignored by its standard, but hashed into the key all the same.
    altered = bytearray(SEALED)
    altered[bit // 8] ^= 1 << bit % 8
    assert refusal(KEY, bytes(altered), INFO) == REFUSAL


@pytest.mark.parametrize("point", LOW_ORDER)
def test_a_key_that_nothing_can_be_sealed_to_is_refused_when_it_is_read(point: str) -> None:
    """Else a researcher could have a ticket charged whose answer can never be sealed, and no restart would help."""
    with pytest.raises(ValueError, match=r"."):
        SealingKey(KEY.sealing_key.raw[:1184] + bytes.fromhex(point))


@pytest.mark.parametrize("raw", [b"", bytes(SEALING_KEY_BYTES - 1), bytes(SEALING_KEY_BYTES + 1), b"\xff" * 1216])
def test_a_malformed_public_key_is_refused(raw: bytes) -> None:
    """Wrong lengths and coefficients outside ML-KEM's modulus make no key."""
    with pytest.raises(ValueError, match=r"."):
        SealingKey(raw)


def test_keys_survive_their_text_form() -> None:
    """Key files give back the keys that were written."""
    assert UnsealingKey.parse_text(KEY.to_text() + "\n") == KEY
    assert SealingKey.parse_text(KEY.sealing_key.to_text() + "\n").raw == KEY.sealing_key.raw
    assert len(KEY.sealing_key.raw) == SEALING_KEY_BYTES


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mlkem768-x25519-private",
        f"mlkem768-x25519-private {b64encode(bytes(95)).decode()}",
        f"mlkem768-x25519-public {b64encode(bytes(96)).decode()}",
        f"mlkem768-x25519-private {b64encode(bytes(96)).decode()} x",
        f"mlkem768-x25519-private !{b64encode(bytes(96)).decode()}",
    ],
)
def test_a_malformed_private_key_text_is_refused(text: str) -> None:
    """A public key file, a truncated one, or trailing words make no opening key."""
    with pytest.raises(ValueError, match=r"."):
        UnsealingKey.parse_text(text)
