"""A roster on its way: the sealed payload that comes first, and the plaintext of its frames.

A roster is an agency's distinct pseudonyms, strictly ascending. Payload, sealed by HPKE:

    8 bytes   "tripROS1"
    32 bytes  frame key, fresh for every attempt
    32 bytes  salt of the roster's commitment
    8 bytes   declared places, big-endian
    8 bytes   number of pseudonyms, big-endian

Plaintext of the frames: 16 bytes each pseudonym, then zeros up to 16 bytes for each declared place. An observer learns from
their number how many places were declared, and nothing of how many people there are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from broker_common.crypto.commitments import SALT_BYTES, SET_DOMAIN, commit_roster
from broker_common.crypto.frames import FRAME_BYTES, FRAME_KEY_BYTES, FrameReader, verify_ascending
from broker_common.errors import InvalidRequestError
from broker_common.values import PSEUDONYM_BYTES

PLACES_PER_FRAME: Final = FRAME_BYTES // PSEUDONYM_BYTES
MOST_PLACES: Final = 2**31
"""A place takes 31 bits: the census node keeps one more beside it."""
ROSTER_DOMAIN: Final = b"tripartite/roster-manifest/v1\0"
"""What a roster's manifest is signed under, after the prefix for manifests: no manifest of a sample begins so."""

_MAGIC = b"tripROS1"
_COUNT_BYTES = 8
_PAYLOAD_BYTES = len(_MAGIC) + FRAME_KEY_BYTES + SALT_BYTES + 2 * _COUNT_BYTES
# Pseudonyms hashed at once.
_PEOPLE_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class RosterPayload:
    """The sealed part of one attempt, which only the census node reads."""

    frame_key: bytes = field(repr=False)
    salt: bytes = field(repr=False)
    places: int
    people: int

    def to_bytes(self) -> bytes:
        counts = (self.places.to_bytes(_COUNT_BYTES, "big"), self.people.to_bytes(_COUNT_BYTES, "big"))
        return b"".join([_MAGIC, self.frame_key, self.salt, *counts])

    @classmethod
    def parse(cls, data: bytes) -> RosterPayload:
        """The payload that `data` spells; whether its places may be declared is left to the reader.

        Raises:
            InvalidRequestError: BAD_FRAMES.
        """
        if len(data) != _PAYLOAD_BYTES or not data.startswith(_MAGIC):
            raise _bad("the payload is not one of a roster")
        at = len(_MAGIC) + FRAME_KEY_BYTES
        counts = data[at + SALT_BYTES :]
        payload = cls(
            frame_key=data[len(_MAGIC) : at],
            salt=data[at : at + SALT_BYTES],
            places=int.from_bytes(counts[:_COUNT_BYTES], "big"),
            people=int.from_bytes(counts[_COUNT_BYTES:], "big"),
        )
        if not 0 < payload.places <= MOST_PLACES or payload.places % PLACES_PER_FRAME:
            raise _bad("so many places cannot be declared")
        if payload.people > payload.places:
            raise _bad("there are more people than declared places")
        return payload


class RosterFrames:
    """The plaintexts of one roster."""

    def __init__(self, people: npt.NDArray[np.uint8], places: int) -> None:
        """`people` is an ascending (n, 16) array; at most `places` rows."""
        if len(people) > places or places % PLACES_PER_FRAME:
            raise ValueError("the people do not fit the places")
        self._people = people
        self._frames = places // PLACES_PER_FRAME

    def __iter__(self) -> Iterator[tuple[int, bool, memoryview]]:
        """Index, last flag and `FRAME_BYTES` of plaintext, which the next frame is written over."""
        plaintext = np.empty((PLACES_PER_FRAME, PSEUDONYM_BYTES), np.uint8)
        for index in range(self._frames):
            part = self._people[index * PLACES_PER_FRAME : (index + 1) * PLACES_PER_FRAME]
            plaintext[: len(part)] = part
            # SECURITY: what is left over of the frame before would be people who stand behind the last one.
            plaintext[len(part) :] = 0
            yield index, index == self._frames - 1, plaintext.reshape(-1).data


class RosterOpener:
    """Opens the frames of one roster in their order; whatever is wrong with one, it is refused here.

    Nothing that `unseal_frame` returned may be joined before `finish` has returned.
    """

    def __init__(self, payload: RosterPayload) -> None:
        self._payload = payload
        self._frames = FrameReader(payload.frame_key)
        self._set = hashlib.sha256(SET_DOMAIN)
        self._read = 0
        self._previous = b""

    def unseal_frame(self, index: int, last: bool, ciphertext: bytes) -> npt.NDArray[np.uint8]:
        """The pseudonyms of the next frame as an (n, 16) array, which is empty behind the last one.

        Raises:
            InvalidRequestError: BAD_FRAMES, or SEALED_WRONGLY for a frame that does not decrypt.
        """
        if self._frames.count * PLACES_PER_FRAME >= self._payload.places:
            raise _bad("the roster goes on beyond its declared places")
        body = self._frames.unseal(index, last, ciphertext)
        used = min(self._payload.people - self._read, PLACES_PER_FRAME) * PSEUDONYM_BYTES
        if body[used:].any():
            raise _bad("the padding is not zero, or there are more people than the payload says")
        people = body[:used].reshape(-1, PSEUDONYM_BYTES)
        self._previous = verify_ascending(people, self._previous)
        self._set.update(body[:used].data)
        # SECURITY: what nobody stands in is hashed too, and forgotten: every frame is the same work.
        hashlib.sha256(body[used:].data)
        self._read += len(people)
        return people

    def finish(self) -> bytes:
        """The commitment to what was unsealed, if that was all of it.

        Raises:
            InvalidRequestError: BAD_FRAMES.
        """
        self._frames.verify_ended()
        if self._frames.count * PLACES_PER_FRAME != self._payload.places:
            raise _bad("the roster was cut short")
        return commit_roster(self._payload.salt, self._payload.places, self._set.digest())


def roster_hash(people: npt.NDArray[np.uint8]) -> bytes:
    """The set hash of a roster's commitment, for everybody in an (n, 16) array."""
    digest = hashlib.sha256(SET_DOMAIN)
    for start in range(0, len(people), _PEOPLE_AT_ONCE):
        digest.update(np.ascontiguousarray(people[start : start + _PEOPLE_AT_ONCE]).reshape(-1).data)
    return digest.digest()


def _bad(problem: str) -> InvalidRequestError:
    return InvalidRequestError("BAD_FRAMES", problem=problem)
