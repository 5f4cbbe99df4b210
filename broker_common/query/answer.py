"""Answers: what the census node signs, how it is padded to one length, and how the researcher verifies it.

The length of a sealed answer is a constant, so that its size says nothing about the count or the age of the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tripartite.v1 import answer_pb2

from broker_common.crypto.commitments import SALT_BYTES, commit_answer, verify_commitment
from broker_common.crypto.sealing import SEALING_OVERHEAD_BYTES, UnsealingKey, answer_info
from broker_common.crypto.signing import VerifyKey, key_named
from broker_common.errors import InvalidRequestError
from broker_common.query.messages import parse_message
from broker_common.values import MOST_CELLS, NoisyCounts

_PADDED_BYTES = 16 * 1024
_LENGTH_BYTES = 4
SEALED_ANSWER_BYTES = _PADDED_BYTES + SEALING_OVERHEAD_BYTES


def pad_answer(signed: answer_pb2.SignedAnswer) -> bytes:
    """Length, message, zeros: always the same number of bytes."""
    message = signed.SerializeToString(deterministic=True)
    if len(message) > _PADDED_BYTES - _LENGTH_BYTES:
        raise ValueError("the answer is longer than the fixed length of answers")
    return (len(message).to_bytes(_LENGTH_BYTES, "big") + message).ljust(_PADDED_BYTES, b"\0")


@dataclass(frozen=True, slots=True)
class VerifiedReceipt:
    """The census agency's signed statement about one answer, without the answer."""

    body: answer_pb2.Receipt
    signed: answer_pb2.SignedReceipt


@dataclass(frozen=True, slots=True)
class VerifiedAnswer:
    """An answer to one's own ticket, and the receipt that proves to others that it was paid for."""

    receipt: VerifiedReceipt
    noisy: NoisyCounts
    salt: bytes


def unseal_answer(
    sealed: bytes, *, unsealing_key: UnsealingKey, ticket_hash: bytes, cells: int, census_keys: Sequence[VerifyKey]
) -> VerifiedAnswer:
    """The answer to one's own ticket, if the census agency signed a receipt for exactly that ticket and answer.

    `cells` is how many the ticket's question has.

    Raises:
        InvalidRequestError: SEALED_WRONGLY, MALFORMED_MESSAGE, UNKNOWN_KEY, BAD_SIGNATURE or COMMITMENT_MISMATCH.
    """
    padded = unsealing_key.unseal(sealed, answer_info(ticket_hash), subject="answer")
    length = int.from_bytes(padded[:_LENGTH_BYTES], "big")
    message, padding = padded[_LENGTH_BYTES : _LENGTH_BYTES + length], padded[_LENGTH_BYTES + length :]
    if len(padded) != _PADDED_BYTES or len(message) != length or any(padding):
        raise InvalidRequestError("MALFORMED_MESSAGE", problem="the answer is not padded as answers are")
    answer = parse_message(answer_pb2.SignedAnswer, message)
    receipt = verify_receipt(answer.receipt, ticket_hash=ticket_hash, census_keys=census_keys)
    if len(answer.answer_salt) != SALT_BYTES:
        raise InvalidRequestError("MALFORMED_MESSAGE", problem="the answer's salt is not 32 bytes")
    numbers = tuple(answer.noisy_counts)
    if len(numbers) != MOST_CELLS or any(numbers[cells:]):
        raise InvalidRequestError("MALFORMED_MESSAGE", problem="the answer has not one number for each cell")
    noisy = NoisyCounts(numbers[:cells])
    opened = commit_answer(answer.answer_salt, ticket_hash, noisy)
    verify_commitment(receipt.body.answer_hash, opened, subject="answer")
    return VerifiedAnswer(receipt, noisy, answer.answer_salt)


def verify_receipt(
    signed: answer_pb2.SignedReceipt, *, ticket_hash: bytes, census_keys: Sequence[VerifyKey]
) -> VerifiedReceipt:
    """The receipt, if the census agency signed it for exactly this ticket.

    Raises:
        InvalidRequestError: MALFORMED_MESSAGE, UNKNOWN_KEY, BAD_SIGNATURE or COMMITMENT_MISMATCH.
    """
    key_named(census_keys, signed.key_id, subject="answer").verify_signature(signed.receipt, signed.signature)
    receipt = parse_message(answer_pb2.Receipt, signed.receipt)
    verify_commitment(receipt.ticket_hash, ticket_hash, subject="receipt's ticket")
    return VerifiedReceipt(receipt, signed)
