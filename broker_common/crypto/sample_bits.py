"""A sample as it travels: one bit for each declared place of a roster, sealed, always of the same length.

    payload    salt (32 bytes) || bits (declared / 8 bytes, the most significant bit of the first byte is place 0)
    sealed     HPKE of the payload; `info` names the ticket and the roster's manifest; a fresh encapsulation for every attempt
    on the way the first 1,168 bytes as the head, then a part of 65,536 bytes for each 524,288 declared places
    committed  H(salt || ticket hash || hash of the roster's manifest || bits), signed once per ticket

Bits behind the place of the roster's last person are zero. SECURITY: declared places alone say how long everything is. The people in
the sample change no length, and duplicates, wrong orders, unknown ids and wrong counts cannot be expressed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt

from broker_common.crypto.commitments import SALT_BYTES, commit_sample, verify_commitment
from broker_common.crypto.sealing import (
    SEALING_OVERHEAD_BYTES,
    SealingKey,
    UnsealingKey,
    sample_bits_info,
    unseal_with_any,
)
from broker_common.errors import InvalidRequestError

Bits: TypeAlias = npt.NDArray[np.uint8]
PART_BYTES = 64 * 1024
PLACES_IN_PART = 8 * PART_BYTES
"""Declared places are a multiple of this."""
HEAD_BYTES = SEALING_OVERHEAD_BYTES + SALT_BYTES
"""What is sealed beside the bits: with the head taken off, whole parts are left."""
_HASH_BYTES = 32


@dataclass(frozen=True, slots=True)
class Bound:
    """The context to which a sample is bound: its ticket, and its roster's manifest, which holds number, linkage and salted commitment."""

    ticket_hash: bytes
    roster_manifest_hash: bytes

    def __post_init__(self) -> None:
        # SECURITY: `info` puts one after the other; with other lengths two bounds could read the same.
        if len(self.ticket_hash) != _HASH_BYTES or len(self.roster_manifest_hash) != _HASH_BYTES:
            raise ValueError(f"a hash has {_HASH_BYTES} bytes")

    @property
    def info(self) -> bytes:
        return sample_bits_info(self.ticket_hash, self.roster_manifest_hash)


@dataclass(frozen=True, slots=True)
class SealedSample:
    """One attempt at sending a sample."""

    head: bytes
    parts: Sequence[bytes | memoryview]

    def verify_lengths(self, declared: int) -> None:
        """Return only if it is as long as every sample of so many declared places.

        Raises:
            InvalidRequestError: BAD_SAMPLE.
        """
        if len(self.head) != HEAD_BYTES:
            raise _bad("its head has the wrong length")
        if len(self.parts) != part_count(declared):
            raise _bad("it has another number of parts than the declared places make")
        if any(len(part) != PART_BYTES for part in self.parts):
            raise _bad("a part has the wrong length")


@dataclass(frozen=True, slots=True, eq=False)
class SampleBits:
    """One ticket's sample: the same at every attempt."""

    bits: Bits = field(repr=False)
    salt: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.salt) != SALT_BYTES:
            raise ValueError(f"a salt has {SALT_BYTES} bytes")
        part_count(self.declared)

    @property
    def declared(self) -> int:
        """How many places it has a bit for."""
        return 8 * len(self.bits)

    def commitment(self, bound: Bound) -> bytes:
        """The commitment of a manifest and a charge to it."""
        return commit_sample(self.salt, bound.ticket_hash, bound.roster_manifest_hash, self.bits.data)

    def seal(self, key: SealingKey, bound: Bound) -> SealedSample:
        """Sealed for one attempt. Two attempts share no byte that means anything."""
        sealed = key.seal(self.salt + self.bits.tobytes(), bound.info)
        starts = range(HEAD_BYTES, len(sealed), PART_BYTES)
        return SealedSample(sealed[:HEAD_BYTES], [sealed[start : start + PART_BYTES] for start in starts])

    @classmethod
    def unseal(
        cls,
        sealed: SealedSample,
        keys: Sequence[UnsealingKey],
        bound: Bound,
        commitment: bytes,
        *,
        declared: int,
        people: int,
    ) -> Self:
        """The sample that was committed to, of a roster of so many `people` for whom `declared` places were declared.

        Raises:
            InvalidRequestError: BAD_SAMPLE, SEALED_WRONGLY, COMMITMENT_MISMATCH.
        """
        sealed.verify_lengths(declared)
        payload = unseal_with_any(keys, b"".join((sealed.head, *sealed.parts)), bound.info, subject="sample")
        sample = cls(np.frombuffer(payload, np.uint8, offset=SALT_BYTES), payload[:SALT_BYTES])
        if _has_bits_behind(sample.bits, people):
            raise _bad("there are bits behind the last person of the roster")
        verify_commitment(commitment, sample.commitment(bound), subject="sample")
        return sample


def part_count(declared: int) -> int:
    """How many parts every sample of so many declared places has."""
    parts, over = divmod(declared, PLACES_IN_PART)
    if over or parts < 1:
        raise ValueError(f"declared places are a multiple of {PLACES_IN_PART}")
    return parts


def _has_bits_behind(bits: Bits, people: int) -> bool:
    whole, odd = divmod(people, 8)
    behind = bits[whole:]
    # The bits after the last person, in that person's byte.
    return bool(behind[1:].any()) or bool(behind.size and behind[0] & (0xFF >> odd))


def _bad(problem: str) -> InvalidRequestError:
    return InvalidRequestError("BAD_SAMPLE", problem=problem)
