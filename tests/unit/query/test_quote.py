"""Quotes: believed as the census agency signed them, and compared with the ticket that follows."""

from __future__ import annotations

from typing import Any

import pytest
from fakes.dictionaries import CENSUS_DICTIONARY
from tripartite.v1 import quote_pb2, ticket_pb2

from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import InvalidRequestError
from broker_common.query.question import EVERYONE, parse_question
from broker_common.query.quote import VerifiedQuote, sign_quote, verify_quote
from broker_common.query.ticket import MAX_TICKET_BYTES

CENSUS = SigningKey(Purpose.ANSWER, bytes(32))
SLOT = ticket_pb2.NoiseSlot(number=7, commitment=b"c" * 32, checkpoint="note")
SAID: dict[str, Any] = {
    "researcher_id": "alice",
    "question": EVERYONE.to_wire(),
    "census_release": "2021",
    "scale": 30,
    "policy_hash": b"p" * 32,
    "noise_slot": SLOT,
    "expires_ms": 2_000,
}


def body(**changes: Any) -> quote_pb2.Quote:
    """An honest quote, but for the changes."""
    return quote_pb2.Quote(**{"charged": 559_241, "margin_95": 90, "remaining": 41, "told_ms": 1_000} | SAID | changes)


def verified(signed: quote_pb2.SignedQuote) -> VerifiedQuote:
    """The quote, as the census agency signed it."""
    return verify_quote(signed, census_keys=[CENSUS.verify_key])


def test_quote_is_carried_byte_for_byte() -> None:
    """The signature covers the bytes as they came, in whatever order of fields they are."""
    signed = sign_quote(body(), CENSUS)
    assert verified(signed).body == body()
    other = (
        body(remaining=None).SerializeToString(deterministic=True) + quote_pb2.Quote(remaining=41).SerializeToString()
    )
    signature = CENSUS.sign(other, purpose=Purpose.QUOTE)
    reordered = quote_pb2.SignedQuote(quote=other, signature=signature, key_id=CENSUS.key_id)
    assert verified(reordered).body == body()
    reordered.quote = signed.quote
    with pytest.raises(InvalidRequestError, match="BAD_SIGNATURE"):
        verified(reordered)


@pytest.mark.parametrize(
    "changes",
    [
        {"policy_hash": b"p"},
        {"scale": 0},
        {"noise_slot": None},
        {"question": None},
        {"question": ticket_pb2.Question()},
        {"told_ms": -1},
        {"told_ms": 2_000},
        {"expires_ms": 253_402_300_800_000},
        {"census_release": "x" * MAX_TICKET_BYTES},
    ],
    ids=str,
)
def test_quote_that_cannot_be_one_is_refused(changes: dict[str, Any]) -> None:
    """No matter who signed it, nobody could show it again, or compare it."""
    with pytest.raises(InvalidRequestError, match="MALFORMED_MESSAGE"):
        verified(sign_quote(body(**changes), CENSUS))


OTHERWISE: dict[str, tuple[dict[str, Any], str]] = {
    "researcher": ({"researcher_id": "bob"}, "researcher"),
    "question": ({"question": parse_question("mother_tongue = 'French'", CENSUS_DICTIONARY).to_wire()}, "question"),
    "release": ({"census_release": "2016"}, "release"),
    "scale": ({"scale": 31}, "scale"),
    "policy": ({"policy_hash": b"q" * 32}, "policy"),
    "slot number": ({"noise_slot": ticket_pb2.NoiseSlot(number=8, commitment=b"c" * 32, checkpoint="note")}, "slot"),
    "slot note": ({"noise_slot": ticket_pb2.NoiseSlot(number=7, commitment=b"c" * 32, checkpoint="other")}, "slot"),
    "later end": ({"expires_ms": 2_001}, "expiry"),
}


@pytest.mark.parametrize("what", OTHERWISE)
def test_ticket_that_says_something_else_is_told_apart(what: str) -> None:
    """Neither side can say afterwards that something else was offered."""
    changes, name = OTHERWISE[what]
    quote = verified(sign_quote(body(), CENSUS))
    assert quote.differing(ticket_pb2.Ticket(**SAID | changes)) == [name]


@pytest.mark.parametrize("expires_ms", [1_999, 2_000])
def test_ticket_may_end_before_its_quote(expires_ms: int) -> None:
    """It must not end later."""
    assert verified(sign_quote(body(), CENSUS)).differing(ticket_pb2.Ticket(**SAID | {"expires_ms": expires_ms})) == []
