"""The sealed frames of a sample, and the only code that lays out or reads their plaintext.

Plaintext, before it is cut into frames of exactly 256 KiB:

    8 bytes   "tripSMP1"
    8 bytes   number of pseudonyms, big-endian
    32 bytes  salt of the set commitment
    16 bytes  zero
    16 bytes  each pseudonym, strictly ascending
    zeros     up to a multiple of 256 KiB

Each frame is AES-256-GCM under the attempt's frame key. Its nonce is seven zero bytes, the index (4 bytes) and the last
flag (1 byte): a fixed nonce per position is sound only because the key is fresh for every attempt and never stored.
The count stands inside the encryption, so an observer learns the number of frames and nothing finer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from broker_common.crypto.commitments import SALT_BYTES, SET_DOMAIN
from broker_common.crypto.pseudonyms import Pseudonyms
from broker_common.errors import InvalidRequestError, RefusedError
from broker_common.values import PSEUDONYM_BYTES, Randomness

__all__ = ["FRAME_BYTES", "FRAME_KEY_BYTES", "TAG_BYTES", "FrameOpener", "FrameSealer", "SampleFrames"]

FRAME_BYTES = 256 * 1024
FRAME_KEY_BYTES = 32
TAG_BYTES = 16
_MAGIC = b"tripSMP1"
_HEADER_BYTES = 64
_COUNT = slice(8, 16)
_SALT = slice(16, 16 + SALT_BYTES)
_RESERVED = slice(16 + SALT_BYTES, _HEADER_BYTES)
_U32_MAX = 2**32 - 1
# For a sample that there is no memory for now.
_RETRY_SECONDS = 1


class SampleFrames:
    """The plaintexts of one sample."""

    def __init__(self, people: Pseudonyms, salt: bytes) -> None:
        if len(salt) != SALT_BYTES:
            raise ValueError(f"a salt has {SALT_BYTES} bytes")
        self._people = people
        self._header = _MAGIC + len(people).to_bytes(8, "big") + salt + bytes(_HEADER_BYTES - 16 - SALT_BYTES)

    def __iter__(self) -> Iterator[tuple[int, bool, memoryview]]:
        """Index, last flag and `FRAME_BYTES` of plaintext, which the next frame is written over."""
        plaintext = np.empty(FRAME_BYTES, dtype=np.uint8)
        frames = _frame_count(len(self._people))
        plaintext[:_HEADER_BYTES] = np.frombuffer(self._header, dtype=np.uint8)
        body, read = plaintext[_HEADER_BYTES:], 0
        for index in range(frames):
            room = body.reshape(-1, PSEUDONYM_BYTES)
            people = room[: len(self._people) - read]
            self._people.copy_into(read, people)
            read += len(people)
            # SECURITY: what is left over of the frame before would be people who stand behind the last one.
            room[len(people) :] = 0
            yield index, index == frames - 1, plaintext.data
            body = plaintext


class FrameSealer:
    """Seals the frames of one attempt under a fresh key; `frame_key` is what gets sealed to the census node."""

    def __init__(self, randomness: Randomness) -> None:
        self.frame_key = randomness(FRAME_KEY_BYTES)
        self._cipher = AESGCM(self.frame_key)

    def seal_frame(self, index: int, last: bool, plaintext: bytes | memoryview) -> bytes:
        """Ciphertext and tag of the next frame. Call it once per frame, in order."""
        # Not into a buffer of ours: a message takes `bytes` and nothing else, which would be one more copy.
        return self._cipher.encrypt(_nonce(index, last), plaintext, None)


class FrameOpener:
    """Opens frames one by one and hands out pseudonyms; whatever is wrong with a sample, it is refused here.

    Call `open_frame` for each frame in the order received, then `finish` once. Nothing that `open_frame` returned may
    be used for a charge before `finish` has returned.

    The plaintexts of all frames lie in one buffer, one after the other, and what is handed out are views of it: a sample
    is in memory once. The buffer is as long as the header says, and memory is taken as frames come.
    """

    def __init__(self, frame_key: bytes, *, max_people: int) -> None:
        if len(frame_key) != FRAME_KEY_BYTES:
            raise InvalidRequestError("BAD_FRAMES", problem="the frame key has the wrong length")
        self._cipher = AESGCM(frame_key)
        self._max_people = max_people
        self._set = hashlib.sha256(SET_DOMAIN)
        self._next_index = 0
        self._seen_last = False
        self._declared = 0
        self._read = 0
        self._salt = b""
        self._previous = b""
        self._buffer: npt.NDArray[np.uint8] = np.empty(0, np.uint8)

    def open_frame(self, index: int, last: bool, ciphertext: bytes) -> npt.NDArray[np.uint8]:
        """The pseudonyms of the next frame as an (n, 16) array.

        Raises:
            InvalidRequestError: BAD_FRAMES, or SEALED_WRONGLY for a frame that does not decrypt.
        """
        if self._seen_last:
            raise _bad("a frame after the last one")
        if index != self._next_index or index > _U32_MAX:
            raise _bad("frames are out of order or missing")
        if len(ciphertext) != FRAME_BYTES + TAG_BYTES:
            raise _bad("a frame has the wrong length")
        body = self._decrypted(index, last, ciphertext)
        self._next_index += 1
        self._seen_last = last
        people = self._take(body)
        if not last and self._read == self._declared:
            raise _bad("the sample goes on after its end")
        return people

    def finish(self) -> None:
        """Return only if the sample is whole.

        Raises:
            InvalidRequestError: BAD_FRAMES.
        """
        if not self._seen_last:
            raise _bad("the last frame is missing")
        if self._read != self._declared:
            raise _bad("there are fewer people than declared")

    @property
    def declared(self) -> int:
        """How many people the header says there are; none before it."""
        return self._declared

    @property
    def pseudonyms(self) -> npt.NDArray[np.uint8]:
        """Everything handed out so far, as one (n, 16) array."""
        return self._people(0, self._read)

    @property
    def set_hash(self) -> bytes:
        """The same as `hash_set` of everything handed out so far."""
        return self._set.digest()

    @property
    def salt(self) -> bytes:
        """The salt of the set commitment, from the sealed header."""
        return self._salt

    def _decrypted(self, index: int, last: bool, ciphertext: bytes) -> npt.NDArray[np.uint8]:
        """What stands in a frame, without the header that the first one begins with."""
        try:
            if index == 0:
                plaintext = np.frombuffer(self._cipher.decrypt(_nonce(index, last), ciphertext, None), np.uint8)
                self._read_header(plaintext[:_HEADER_BYTES].tobytes())
                self._buffer = _buffer(_frame_count(self._declared) * FRAME_BYTES)
                self._buffer[:FRAME_BYTES] = plaintext
                return self._buffer[_HEADER_BYTES:FRAME_BYTES]
            # There is room: whatever comes after the frame that completes the sample was refused with that frame.
            body = self._buffer[index * FRAME_BYTES : (index + 1) * FRAME_BYTES]
            self._cipher.decrypt_into(_nonce(index, last), ciphertext, None, body.data)
        except InvalidTag as error:
            raise InvalidRequestError("SEALED_WRONGLY", subject="frame") from error
        return body

    def _read_header(self, header: bytes) -> None:
        if header[: len(_MAGIC)] != _MAGIC or any(header[_RESERVED]):
            raise _bad("the header is not one of a sample")
        self._declared = int.from_bytes(header[_COUNT], "big")
        self._salt = header[_SALT]
        if self._declared > self._max_people:
            raise _bad("more people are declared than the policy admits")

    def _take(self, body: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        wanted = min(self._declared - self._read, len(body) // PSEUDONYM_BYTES)
        used = wanted * PSEUDONYM_BYTES
        if body[used:].any():
            raise _bad("the padding is not zero, or there are more people than declared")
        people = self._people(self._read, self._read + wanted)
        self._verify_ascending(people)
        self._read += wanted
        self._set.update(body[:used].data)
        return people

    def _people(self, start: int, end: int) -> npt.NDArray[np.uint8]:
        places = slice(_HEADER_BYTES + start * PSEUDONYM_BYTES, _HEADER_BYTES + end * PSEUDONYM_BYTES)
        return self._buffer[places].reshape(-1, PSEUDONYM_BYTES)

    def _verify_ascending(self, people: npt.NDArray[np.uint8]) -> None:
        """Strictly ascending within the frame and across frames, which also excludes duplicates."""
        if not len(people):
            return
        halves = people.view(">u8").astype(np.uint64)
        high, low = halves[:, 0], halves[:, 1]
        # Two of a million distinct random pseudonyms hardly ever share a first half; whoever sends others costs themselves time.
        above = high[1:] > high[:-1]
        ascending = bool(above.all()) or bool((above | ((high[1:] == high[:-1]) & (low[1:] > low[:-1]))).all())
        first, last = people[0].tobytes(), people[-1].tobytes()
        if not ascending or (self._previous and first <= self._previous):
            raise _bad("pseudonyms are not strictly ascending")
        self._previous = last


def _frame_count(people: int) -> int:
    """How many frames a sample of so many people has."""
    return max(1, -(-(_HEADER_BYTES + people * PSEUDONYM_BYTES) // FRAME_BYTES))


def _buffer(size: int) -> npt.NDArray[np.uint8]:
    try:
        return np.empty(size, np.uint8)
    except MemoryError as error:
        # SECURITY: no verdict on the sample, which may be a good one: its size must not make a refusal.
        raise RefusedError("BUSY", retry_seconds=_RETRY_SECONDS) from error


def _nonce(index: int, last: bool) -> bytes:
    return bytes(7) + index.to_bytes(4, "big") + bytes([last])


def _bad(problem: str) -> InvalidRequestError:
    return InvalidRequestError("BAD_FRAMES", problem=problem)
