"""Hiding commitments and the hashes that everything else refers to.

A commitment is SHA-256 over a domain, a 32-byte random salt and length-prefixed parts. Without the salt it shows
nothing, even when the content is guessable (an empty sample, a popular criterion); with it, it binds.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

from broker_common.crypto.secret import Secret
from broker_common.errors import InvalidRequestError
from broker_common.values import NoisyCounts

SALT_BYTES = 32
# The hash of a roster's pseudonyms begins with this.
SET_DOMAIN = b"tripartite/set/v1\0"
SUBJECT_HASH_BYTES = 16
_LENGTH_BYTES = 8


class SlotSecret(Secret):
    """The secret behind the noise of one slot's answer: known before the answer is out, it takes the noise off."""

    def __init__(self, secret: bytes) -> None:
        super().__init__(secret, exact_bytes=SALT_BYTES)


def hash_bytes(data: bytes) -> bytes:
    """SHA-256: the name by which tickets, policies and sealed answers are known."""
    return hashlib.sha256(data).digest()


def commit_criteria(nonce: bytes, canonical_criteria: bytes) -> bytes:
    """A ticket's commitment to its criteria: hides them from the census node, binds the health node."""
    return _commit(b"tripartite/commit-criteria/v1\0", nonce, canonical_criteria)


def commit_sample(salt: bytes, ticket_hash: bytes, roster_manifest_hash: bytes, bits: bytes | memoryview) -> bytes:
    """The commitment of a manifest and a charge to a sample of one bit for each declared place of the manifest's roster."""
    return _commit(b"tripartite/commit-set/v2\0", salt, ticket_hash, roster_manifest_hash, bits)


def commit_roster(salt: bytes, places: int, set_hash: bytes) -> bytes:
    """The commitment of a manifest and both logs to a roster: its declared places and its set of pseudonyms."""
    return _commit(b"tripartite/commit-roster/v1\0", salt, places.to_bytes(8, "big"), set_hash)


def commit_active(salt: bytes, ticket_hash: bytes, bits: bytes | memoryview) -> bytes:
    """A charge's commitment to the counted persons: one bit for each person of the census, by number.

    Salted on its own, so that whether everybody was active does not show, and because a small set could be guessed after it was erased.
    """
    return _commit(b"tripartite/commit-active/v1\0", salt, ticket_hash, bits)


def commit_load(salt: bytes, content_hash: bytes) -> bytes:
    """A log entry's commitment to a loaded store: no size, no content, yet the store cannot be swapped."""
    return _commit(b"tripartite/commit-load/v1\0", salt, content_hash)


def hash_subjects(salt: bytes, kind: bytes, subject_ids: Iterable[str]) -> bytes:
    """Hashes by which a load remembers persons or households whose ids it does not keep: 16 bytes each, one after the other.

    At 2^27 subjects two of them collide with probability below 2^-74. A holder of the salt can try ids.
    """
    # The common beginning is hashed once.
    begun = _begin(b"tripartite/subject/v1\0", salt, kind).copy
    lengths: dict[int, bytes] = {}
    hashes = bytearray()
    for subject_id in subject_ids:
        digest, part = begun(), subject_id.encode()
        size = len(part)
        if size not in lengths:
            lengths[size] = size.to_bytes(_LENGTH_BYTES, "big")
        digest.update(lengths[size] + part)
        hashes += digest.digest()[:SUBJECT_HASH_BYTES]
    return bytes(hashes)


def commit_slot(secret: SlotSecret, slot: int) -> bytes:
    """The log's commitment to a noise slot's secret, made before anyone asks for the slot."""
    return _commit(b"tripartite/commit-slot/v1\0", secret.expose(), slot.to_bytes(8, "big"))


def answer_salt(secret: SlotSecret, ticket_hash: bytes) -> bytes:
    """The salt of an answer's hash: nobody can guess the answer from the hash.

    Another function of the slot's secret, so that an auditor who is shown the secret can check the receipt.
    """
    return _commit(b"tripartite/answer-salt/v1\0", secret.expose(), ticket_hash)


def commit_answer(salt: bytes, ticket_hash: bytes, noisy: NoisyCounts) -> bytes:
    """A receipt's commitment to an answer: always the same number of numbers, whatever the number of its cells."""
    numbers = [str(value).encode("ascii") for value in noisy.padded]
    return _commit(b"tripartite/commit-answer/v2\0", salt, ticket_hash, *numbers)


def verify_commitment(claimed: bytes, opened: bytes, *, subject: str) -> None:
    """Return only if both are the same commitment.

    Raises:
        InvalidRequestError: COMMITMENT_MISMATCH.
    """
    if not hmac.compare_digest(claimed, opened):
        raise InvalidRequestError("COMMITMENT_MISMATCH", subject=subject)


def noise_seed(slot_secret: SlotSecret, *, ticket_hash: bytes, set_commitment: bytes, scale: int, cells: int) -> bytes:
    """The seed of one answer's noise: the slot's secret, and what others than the census agency have fixed.

    SECURITY: the census agency can neither choose nor foresee it. The set commitment has a salt of the health agency's that
    arrives with the sample; the set's own hash would be known from an earlier sample of the same criteria. The id of a load
    and the active set are the census agency's to choose.
    """
    return _commit(
        b"tripartite/noise/v2\0",
        slot_secret.expose(),
        ticket_hash,
        set_commitment,
        scale.to_bytes(8, "big"),
        b"count" if cells == 1 else b"table",
    )


def _commit(domain: bytes, salt: bytes, *parts: bytes | memoryview) -> bytes:
    return _begin(domain, salt, *parts).digest()


def _begin(domain: bytes, salt: bytes, *parts: bytes | memoryview) -> hashlib._Hash:
    if len(salt) != SALT_BYTES:
        raise ValueError(f"a salt has {SALT_BYTES} bytes")
    digest = hashlib.sha256(domain)
    digest.update(salt)
    for part in parts:
        # Length prefixes: two different lists of parts never hash the same bytes.
        digest.update(len(part).to_bytes(_LENGTH_BYTES, "big"))
        digest.update(part)
    return digest
