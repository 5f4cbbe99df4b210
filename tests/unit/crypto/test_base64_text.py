"""Base64: one spelling for each value, so that a key or a signature is not known under several."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_common.crypto.secret import parse_secret, secret_text
from broker_common.values import base64_text, parse_base64


@given(st.binary(max_size=100))
def test_what_is_written_is_read_back(data: bytes) -> None:
    """Writer and reader agree, and with the standard library."""
    assert parse_base64(base64_text(data)) == data
    assert base64_text(data).encode() == base64.b64encode(data)


OTHER_SPELLINGS = {
    "bits that no encoder sets": "AB==",
    "the alphabet for URLs": "-_-_",
    "a space": "AA AA",
    "a line end": "AAAA\n",
    "no padding": "AA",
    "padding in the middle": "AA==AAAA",
    "other letters": "ÀÀÀÀ",
    "a lone surrogate": "\udc80AAA",
}


@pytest.mark.parametrize("what", OTHER_SPELLINGS)
def test_other_spellings_are_refused(what: str) -> None:
    """Nothing but what the writer writes is read, and the error does not quote it: it may be a key."""
    with pytest.raises(ValueError, match="base64") as caught:
        parse_base64(OTHER_SPELLINGS[what])
    assert OTHER_SPELLINGS[what] not in str(caught.value)


def test_key_has_one_spelling() -> None:
    """A key file with bits set that no encoder sets is not the key that it looks like."""
    text = secret_text("linkage", bytes(32))
    assert parse_secret(text, "linkage") == bytes(32)
    with pytest.raises(ValueError, match="canonical"):
        parse_secret(text.removesuffix("A=") + "B=", "linkage")
