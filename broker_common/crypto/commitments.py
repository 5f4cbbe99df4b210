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

__all__ = [
    "SALT_BYTES",
    "SET_DOMAIN",
    "UNIT_HASH_BYTES",
    "SlotSecret",
    "answer_salt",
    "commit_answer",
    "commit_charge",
    "commit_criteria",
    "commit_load",
    "commit_set",
    "commit_slot",
    "hash_active",
    "hash_bytes",
    "hash_set",
    "hash_unit",
    "hash_units",
    "noise_seed",
    "verify_commitment",
]

SALT_BYTES = 32
# What the hash of a set of pseudonyms begins with; frames hash the set as they are opened.
SET_DOMAIN = b"tripartite/set/v1\0"
UNIT_HASH_BYTES = 16
_LENGTH_BYTES = 8


class SlotSecret(Secret):
    """What the noise of one slot's answer comes from: whoever has it before the answer is out can take the noise off."""

    def __init__(self, secret: bytes) -> None:
        super().__init__(secret, exact_bytes=SALT_BYTES)


def hash_bytes(data: bytes) -> bytes:
    """SHA-256: the name by which tickets, policies and sealed answers are known."""
    return hashlib.sha256(data).digest()


def hash_set(pseudonyms: bytes | memoryview) -> bytes:
    """The hash of a set of pseudonyms, given in ascending order."""
    digest = hashlib.sha256(SET_DOMAIN)
    digest.update(pseudonyms)
    return digest.digest()


def hash_active(set_hash: bytes, active: bytes) -> bytes:
    """The hash of those of a set who are counted: the set's own hash, and one bit for each of it, in its order."""
    return hash_bytes(b"tripartite/active-set/v1\0" + set_hash + active)


def commit_criteria(nonce: bytes, canonical_criteria: bytes) -> bytes:
    """What a ticket says of its criteria: hides them from the census node, binds the health node."""
    return _commit(b"tripartite/commit-criteria/v1\0", nonce, canonical_criteria)


def commit_set(salt: bytes, ticket_hash: bytes, set_hash: bytes) -> bytes:
    """What a manifest and a charge say of a set of pseudonyms."""
    return _commit(b"tripartite/commit-set/v1\0", salt, ticket_hash, set_hash)


def commit_charge(salt: bytes, ticket_hash: bytes, units_hash: bytes, fits: bytes, active: bytes) -> bytes:
    """What the digest of the ledgers says of one charge: who was charged and who was counted, of which census units.

    Salted, because a small sample could be guessed from its digest after it was erased.
    """
    return _commit(b"tripartite/commit-charge/v1\0", salt, ticket_hash, units_hash, fits, active)


def commit_load(salt: bytes, content_hash: bytes) -> bytes:
    """What a log entry says of a loaded store: no size, no content, yet the store cannot be swapped."""
    return _commit(b"tripartite/commit-load/v1\0", salt, content_hash)


def hash_unit(salt: bytes, kind: bytes, unit_id: str) -> bytes:
    """By what a load remembers a person or a household whose id it does not keep, cut to 16 bytes.

    At 2^27 units two of them collide with probability below 2^-74. Whoever holds the salt can try ids.
    """
    return _commit(b"tripartite/unit/v1\0", salt, kind, unit_id.encode())[:UNIT_HASH_BYTES]


def hash_units(salt: bytes, kind: bytes, unit_ids: Iterable[str]) -> bytes:
    """`hash_unit` of each id, one after the other: what is the same for all of them is hashed once."""
    begun = _begin(b"tripartite/unit/v1\0", salt, kind).copy
    lengths: dict[int, bytes] = {}
    hashes = bytearray()
    for unit_id in unit_ids:
        digest, part = begun(), unit_id.encode()
        size = len(part)
        if size not in lengths:
            lengths[size] = size.to_bytes(_LENGTH_BYTES, "big")
        digest.update(lengths[size] + part)
        hashes += digest.digest()[:UNIT_HASH_BYTES]
    return bytes(hashes)


def commit_slot(secret: SlotSecret, slot: int) -> bytes:
    """What the log says of a noise slot's secret before anybody asks for the slot."""
    return _commit(b"tripartite/commit-slot/v1\0", secret.expose(), slot.to_bytes(8, "big"))


def answer_salt(secret: SlotSecret, ticket_hash: bytes) -> bytes:
    """What salts the hash of an answer: nobody can guess the answer from it.

    Another function of the slot's secret, so that an auditor who is shown the secret can check the receipt.
    """
    return _commit(b"tripartite/answer-salt/v1\0", secret.expose(), ticket_hash)


def commit_answer(salt: bytes, ticket_hash: bytes, noisy_count: int) -> bytes:
    """What a receipt says of an answer."""
    return _commit(b"tripartite/commit-answer/v1\0", salt, ticket_hash, str(noisy_count).encode("ascii"))


def verify_commitment(claimed: bytes, opened: bytes, *, subject: str) -> None:
    """Return only if both are the same commitment.

    Raises:
        InvalidRequestError: COMMITMENT_MISMATCH.
    """
    if not hmac.compare_digest(claimed, opened):
        raise InvalidRequestError("COMMITMENT_MISMATCH", subject=subject)


def noise_seed(slot_secret: SlotSecret, *, ticket_hash: bytes, set_commitment: bytes, scale: int) -> bytes:
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
        b"count",
    )


def _commit(domain: bytes, salt: bytes, *parts: bytes) -> bytes:
    return _begin(domain, salt, *parts).digest()


def _begin(domain: bytes, salt: bytes, *parts: bytes) -> hashlib._Hash:
    if len(salt) != SALT_BYTES:
        raise ValueError(f"a salt has {SALT_BYTES} bytes")
    digest = hashlib.sha256(domain)
    digest.update(salt)
    for part in parts:
        # Length prefixes: two different lists of parts never hash the same bytes.
        digest.update(len(part).to_bytes(_LENGTH_BYTES, "big"))
        digest.update(part)
    return digest
