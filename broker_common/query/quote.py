"""Quotes: the census node's signed offer for one answer.

Signatures cover the exact bytes carried, never a re-encoding. A quote carries an instant and no size of the log: a size would
say when others are charged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tripartite.v1 import quote_pb2, ticket_pb2

from broker_common.crypto.signing import Purpose, SigningKey, VerifyKey, key_named
from broker_common.errors import InvalidRequestError
from broker_common.query.messages import parse_message
from broker_common.query.question import spelled_question
from broker_common.query.ticket import MAX_TICKET_BYTES
from broker_common.values import HASH_BYTES

# The year 10000, which no date can name.
_END_OF_TIME_MS = 253_402_300_800_000


@dataclass(frozen=True, slots=True)
class VerifiedQuote:
    """A quote whose signature and form hold."""

    body: quote_pb2.Quote
    signed: quote_pb2.SignedQuote

    def differing(self, ticket: ticket_pb2.Ticket) -> list[str]:
        """Names of what a ticket says otherwise than this quote offers."""
        body = self.body
        compared = (
            ("researcher", ticket.researcher_id == body.researcher_id),
            ("question", ticket.question == body.question),
            ("release", ticket.census_release == body.census_release),
            ("scale", ticket.scale == body.scale),
            ("policy", ticket.policy_hash == body.policy_hash),
            ("slot", ticket.noise_slot == body.noise_slot),
            ("expiry", ticket.expires_ms <= body.expires_ms),
        )
        return [name for name, is_same in compared if not is_same]


def sign_quote(body: quote_pb2.Quote, key: SigningKey) -> quote_pb2.SignedQuote:
    """The quote as it travels; `key` is the census agency's answer key."""
    signed_bytes = body.SerializeToString(deterministic=True)
    signature = key.sign(signed_bytes, purpose=Purpose.QUOTE)
    return quote_pb2.SignedQuote(quote=signed_bytes, signature=signature, key_id=key.key_id)


def verify_quote(signed: quote_pb2.SignedQuote, *, census_keys: Iterable[VerifyKey]) -> VerifiedQuote:
    """The quote, if the census agency signed it and it can be one.

    Raises:
        InvalidRequestError: MALFORMED_MESSAGE, UNKNOWN_KEY or BAD_SIGNATURE.
    """
    if len(signed.quote) > MAX_TICKET_BYTES:
        raise InvalidRequestError("MALFORMED_MESSAGE", problem="the quote is too long")
    key = key_named(census_keys, signed.key_id, subject="quote")
    key.verify_signature(signed.quote, signed.signature, purpose=Purpose.QUOTE)
    body = parse_message(quote_pb2.Quote, signed.quote)
    _verify_form(body)
    return VerifiedQuote(body, signed)


def _verify_form(body: quote_pb2.Quote) -> None:
    problem = ""
    if len(body.policy_hash) != HASH_BYTES:
        problem = "the policy's hash is not 32 bytes"
    elif body.scale < 1:
        problem = "the scale is not positive"
    elif not body.HasField("noise_slot") or not body.HasField("question"):
        problem = "the question or the noise slot is missing"
    elif not 0 <= body.told_ms < body.expires_ms < _END_OF_TIME_MS:
        problem = "it ends before it was told, or at no time that can be shown"
    if problem:
        raise InvalidRequestError("MALFORMED_MESSAGE", problem=problem)
    spelled_question(body.question)
