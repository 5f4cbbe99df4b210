"""Answers: one length whatever they say, readable only as the answer to one's own ticket, with a receipt that is silent."""

from __future__ import annotations

from typing import Any

import pytest
from fakes.randomness import SeededRandomness
from hypothesis import given, settings
from hypothesis import strategies as st
from tripartite.v1 import answer_pb2

from broker_common.crypto.commitments import commit_answer
from broker_common.crypto.sealing import UnsealingKey, answer_info
from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import InvalidRequestError
from broker_common.query.answer import (
    SEALED_ANSWER_BYTES,
    VerifiedAnswer,
    VerifiedReceipt,
    pad_answer,
    unseal_answer,
    verify_receipt,
)
from broker_common.values import NoisyCounts

TICKET = b"t" * 32
OTHER_TICKET = b"o" * 32
CENSUS = SigningKey(Purpose.ANSWER, bytes(32))
OPENING = UnsealingKey.generate(SeededRandomness())
PADDED_BYTES = 16 * 1024


SALT = b"s" * 32


def receipt(noisy_count: int = 123, salt: bytes = SALT, **changes: Any) -> answer_pb2.Receipt:
    """A plain receipt for an answer."""
    ticket_hash = changes.get("ticket_hash", TICKET)
    fields: dict[str, Any] = {
        "query_id": b"q" * 16,
        "ticket_hash": ticket_hash,
        "answer_hash": commit_answer(salt, ticket_hash, NoisyCounts((noisy_count,))),
        "scale": 30,
        "charged": 559_241,
        "policy_hash": b"p" * 32,
        "log_index": 7,
        "checkpoint": "note",
        "inclusion_proof": [b"n" * 32] * 5,
        "entry": b"entry",
    }
    return answer_pb2.Receipt(**fields | changes)


def sign(message: answer_pb2.Receipt, key: SigningKey = CENSUS) -> answer_pb2.SignedReceipt:
    """Signed as the census node does."""
    return sign_bytes(message.SerializeToString(deterministic=True), key)


def sign_bytes(data: bytes, key: SigningKey = CENSUS) -> answer_pb2.SignedReceipt:
    """Any bytes, signed as a receipt."""
    return answer_pb2.SignedReceipt(receipt=data, signature=key.sign(data), key_id=key.key_id)


def answer(
    signed: answer_pb2.SignedReceipt | None = None, *, noisy_count: int = 123, salt: bytes = SALT
) -> answer_pb2.SignedAnswer:
    """An answer with this receipt, by default an honest one."""
    signed = sign(receipt(noisy_count, salt)) if signed is None else signed
    return answer_pb2.SignedAnswer(receipt=signed, noisy_counts=NoisyCounts((noisy_count,)).padded, answer_salt=salt)


def seal(padded: bytes, ticket_hash: bytes = TICKET) -> bytes:
    """Sealed for the ticket."""
    return OPENING.sealing_key.seal(padded, answer_info(ticket_hash))


def opened(sealed: bytes, ticket_hash: bytes = TICKET, key: UnsealingKey = OPENING, cells: int = 1) -> VerifiedAnswer:
    """Opened as the researcher does."""
    return unseal_answer(
        sealed, unsealing_key=key, ticket_hash=ticket_hash, cells=cells, census_keys=[CENSUS.verify_key]
    )


def refusal(
    sealed: bytes, ticket_hash: bytes = TICKET, key: UnsealingKey = OPENING, cells: int = 1
) -> InvalidRequestError:
    """The error with which an answer is refused."""
    with pytest.raises(InvalidRequestError) as caught:
        opened(sealed, ticket_hash, key, cells)
    return caught.value


@given(
    count=st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, -5, 2**62]),
    index=st.integers(0, 2**53),
    proof=st.integers(0, 60),
    checkpoint=st.integers(0, 8000),
)
@settings(max_examples=40)
def test_every_answer_has_one_length(count: int, index: int, proof: int, checkpoint: int) -> None:
    """Neither the count nor the age of the log shows in the size, and the answer comes through."""
    message = receipt(count, log_index=index, inclusion_proof=[b"n" * 32] * proof, checkpoint="x" * checkpoint)
    signed = sign(message)
    padded = pad_answer(answer(signed, noisy_count=count))
    assert len(padded) == PADDED_BYTES
    sealed = seal(padded)
    assert len(sealed) == SEALED_ANSWER_BYTES
    assert opened(sealed) == VerifiedAnswer(VerifiedReceipt(message, signed), NoisyCounts((count,)), SALT)


@given(counts=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=16))
@settings(max_examples=40)
def test_answers_of_any_number_of_cells_have_one_length(counts: list[int]) -> None:
    """Sealed, an answer of one cell is as long as a table, and every number comes through at its place."""
    noisy = NoisyCounts(tuple(counts))
    signed = sign(receipt(answer_hash=commit_answer(SALT, TICKET, noisy)))
    sealed = seal(pad_answer(answer_pb2.SignedAnswer(receipt=signed, noisy_counts=noisy.padded, answer_salt=SALT)))
    assert len(sealed) == SEALED_ANSWER_BYTES
    assert opened(sealed, cells=len(counts)).noisy == noisy


@pytest.mark.parametrize(
    "numbers", [(), (5,), (5,) + (0,) * 14, (5,) + (0,) * 16, (5, 1) + (0,) * 14, (0,) * 15 + (1,)]
)
def test_an_answer_with_another_number_of_cells_is_refused(numbers: tuple[int, ...]) -> None:
    """One number for each cell of the ticket and nothing beyond: an answer is no place for anything else."""
    signed = sign(receipt(5))
    sealed = seal(pad_answer(answer_pb2.SignedAnswer(receipt=signed, noisy_counts=numbers, answer_salt=SALT)))
    assert refusal(sealed).code == "MALFORMED_MESSAGE"


def test_two_numbers_of_a_table_cannot_change_places() -> None:
    """The receipt commits to each number at its cell."""
    signed = sign(receipt(answer_hash=commit_answer(SALT, TICKET, NoisyCounts((5, 7)))))
    exchanged = answer_pb2.SignedAnswer(receipt=signed, noisy_counts=NoisyCounts((7, 5)).padded, answer_salt=SALT)
    assert refusal(seal(pad_answer(exchanged)), cells=2).code == "COMMITMENT_MISMATCH"


# --- receipts --------------------------------------------------------------------------------------------------------


def test_a_receipt_proves_itself_to_others() -> None:
    """It is kept byte for byte: a holder of the census agency's key can check it without the seal and the answer."""
    kept = opened(seal(pad_answer(answer()))).receipt
    CENSUS.verify_key.verify_signature(kept.signed.receipt, kept.signed.signature)
    assert kept.signed.key_id == CENSUS.key_id
    assert verify_receipt(kept.signed, ticket_hash=TICKET, census_keys=[CENSUS.verify_key]) == kept
    assert kept.body == receipt()


def test_a_receipt_tells_nothing_of_the_count() -> None:
    """The same count under another salt is another hash, and no other field of a receipt depends on the count."""
    assert receipt(salt=b"a" * 32).answer_hash != receipt(salt=b"b" * 32).answer_hash
    few, many = receipt(-3), receipt(2**62)
    few.answer_hash = many.answer_hash = b""
    assert few == many
    lengths = {len(sign(receipt(count)).SerializeToString()) for count in (0, -1, 123, 2**63 - 1, -(2**63))}
    assert len(lengths) == 1


def test_the_hash_of_an_answer_is_its_tickets() -> None:
    """With salt and count of one's own nobody can open the receipt of another ticket."""
    assert commit_answer(SALT, TICKET, NoisyCounts((5,))) != commit_answer(SALT, OTHER_TICKET, NoisyCounts((5,)))


@pytest.mark.parametrize("count", [122, 124, -123, 0, 1230, 12, -(2**63)])
def test_an_answer_that_is_not_what_its_receipt_commits_to_is_refused(count: int) -> None:
    """The census agency cannot tell the researcher one count and commit to another."""
    error = refusal(seal(pad_answer(answer(sign(receipt(123)), noisy_count=count))))
    assert (error.code, error.details) == ("COMMITMENT_MISMATCH", {"subject": "answer"})


@pytest.mark.parametrize("salt", [b"", b"s" * 31, b"s" * 33, b"t" * 32, bytes(32)])
def test_a_salt_that_does_not_open_the_receipt_is_refused(salt: bytes) -> None:
    """A salt has one length, so that it leaves no room for anything else, and opens the hash or is none."""
    code = "COMMITMENT_MISMATCH" if len(salt) == len(SALT) else "MALFORMED_MESSAGE"
    assert refusal(seal(pad_answer(answer(sign(receipt()), salt=salt)))).code == code


@pytest.mark.parametrize("hashed", [b"", b"h" * 32, commit_answer(SALT, TICKET, NoisyCounts((123,)))[:-1]])
def test_a_receipt_that_commits_to_nothing_is_refused(hashed: bytes) -> None:
    """An empty or a foreign hash would leave the agency free to claim another answer later."""
    assert refusal(seal(pad_answer(answer(sign(receipt(answer_hash=hashed)))))).code == "COMMITMENT_MISMATCH"


def test_a_signature_covers_the_bytes_carried_not_a_re_encoding() -> None:
    """The same fields in another order are other bytes; they come through as they were signed."""
    canonical = receipt().SerializeToString(deterministic=True)
    # Field 1 (query id, 18 bytes with its tag) moved to the end.
    moved = canonical[18:] + canonical[:18]
    signed = sign_bytes(moved)
    assert opened(seal(pad_answer(answer(signed)))).receipt == VerifiedReceipt(receipt(), signed)
    signed.receipt = canonical
    assert refusal(seal(pad_answer(answer(signed)))).code == "BAD_SIGNATURE"


# --- seal and padding ------------------------------------------------------------------------------------------------


def longest(extra: int = 0) -> answer_pb2.SignedAnswer:
    """The longest answer that fits, and so many bytes more."""
    room = PADDED_BYTES - 4
    message = answer_pb2.SignedAnswer(answer_salt=bytes(room - 100))
    while message.ByteSize() < room + extra:
        message.answer_salt += bytes(1)
    assert message.ByteSize() == room + extra
    return message


def test_an_answer_that_does_not_fit_is_not_cut() -> None:
    """One byte too many is our own bug, found before anything is sealed."""
    assert len(pad_answer(longest())) == PADDED_BYTES
    with pytest.raises(ValueError, match="longer than the fixed length"):
        pad_answer(longest(1))


def test_an_answer_to_another_ticket_does_not_open() -> None:
    """The seal binds the ticket; answers cannot be swapped between one's own questions either."""
    sealed = seal(pad_answer(answer(sign(receipt(ticket_hash=OTHER_TICKET)))), OTHER_TICKET)
    assert refusal(sealed).code == "SEALED_WRONGLY"
    other_key = UnsealingKey.generate(SeededRandomness("other"))
    assert refusal(seal(pad_answer(answer())), key=other_key).code == "SEALED_WRONGLY"


def test_an_answer_signed_for_another_ticket_is_refused() -> None:
    """Anybody can seal to the ticket's key; a genuine answer sealed anew for another ticket is not accepted."""
    error = refusal(seal(pad_answer(answer(sign(receipt(ticket_hash=OTHER_TICKET))))))
    assert (error.code, error.details) == ("COMMITMENT_MISMATCH", {"subject": "receipt's ticket"})


def test_an_answer_of_anybody_else_is_refused() -> None:
    """The health node, which knows the ticket, cannot answer it."""
    forger = SigningKey(Purpose.ANSWER, b"f" * 32)
    forged = sign(receipt(), forger)
    assert refusal(seal(pad_answer(answer(forged)))).code == "UNKNOWN_KEY"
    forged.key_id = CENSUS.key_id
    assert refusal(seal(pad_answer(answer(forged)))).code == "BAD_SIGNATURE"
    ticket_key = SigningKey(Purpose.TICKET, bytes(32))
    forged = sign(receipt(), ticket_key)
    forged.key_id = CENSUS.key_id
    assert refusal(seal(pad_answer(answer(forged)))).code == "BAD_SIGNATURE"


def test_an_altered_hash_is_refused() -> None:
    """The signature covers what the answer is opened against."""
    signed = sign(receipt())
    signed.receipt = receipt(124).SerializeToString(deterministic=True)
    assert refusal(seal(pad_answer(answer(signed, noisy_count=124)))).code == "BAD_SIGNATURE"


GOOD = pad_answer(answer())
LENGTH = int.from_bytes(GOOD[:4], "big")
MISPADDED = {
    "empty": b"",
    "shorter": GOOD[:-1],
    "longer": GOOD + b"\0",
    "without padding": GOOD[: 4 + LENGTH],
    "padding not zero at the end": GOOD[:-1] + b"\1",
    "padding not zero at its start": GOOD[: 4 + LENGTH] + b"\1" + GOOD[5 + LENGTH :],
    "length one less": (LENGTH - 1).to_bytes(4, "big") + GOOD[4:],
    "length beyond the end": PADDED_BYTES.to_bytes(4, "big") + GOOD[4:],
    "length 2^32 - 1": b"\xff" * 4 + GOOD[4:],
    "only a length": b"\0\0",
    "not a message": (5).to_bytes(4, "big") + b"\xff" * 5 + bytes(PADDED_BYTES - 9),
    "unknown field": (3).to_bytes(4, "big") + b"\xf8\x7f\x01" + bytes(PADDED_BYTES - 7),
}


@pytest.mark.parametrize("padded", MISPADDED.values(), ids=list(MISPADDED))
def test_anything_but_the_padding_of_answers_is_refused(padded: bytes) -> None:
    """A sealed answer cannot carry anything beside the answer."""
    assert refusal(seal(padded)).code == "MALFORMED_MESSAGE"


def test_an_empty_message_is_no_answer() -> None:
    """A length of zero is well-formed padding of an answer by nobody."""
    assert refusal(seal(bytes(PADDED_BYTES))).code == "UNKNOWN_KEY"


def test_a_signed_message_that_is_no_receipt_is_refused() -> None:
    """Even the census key's signature does not make other bytes a receipt."""
    for data in (b"\xff", receipt().SerializeToString() + b"\xf8\x7f\x01"):
        assert refusal(seal(pad_answer(answer(sign_bytes(data))))).code == "MALFORMED_MESSAGE"


def test_the_name_of_an_unknown_key_is_cut() -> None:
    """A stranger's words are not shown at length."""
    signed = sign(receipt())
    signed.key_id = "k" * 1000
    assert refusal(seal(pad_answer(answer(signed)))).details == {"key": "k" * 64, "subject": "answer"}
