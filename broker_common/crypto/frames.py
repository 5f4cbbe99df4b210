"""Sealed frames of one length: rosters travel in them, and kept files are written in them.

Each frame is AES-256-GCM of exactly 256 KiB under the key of its roster's attempt, or of its file. Its nonce is seven zero bytes,
the index (4 bytes) and the last flag (1 byte): a fixed nonce per position is sound only because every key seals once. Other
modules define the content of the frames.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from broker_common.errors import InvalidRequestError
from broker_common.values import Randomness

FRAME_BYTES = 256 * 1024
FRAME_KEY_BYTES = 32
TAG_BYTES = 16
_U32_MAX = 2**32 - 1


class FrameSealer:
    """Seals frames under a fresh key; `frame_key` is only for those who may unseal them."""

    def __init__(self, randomness: Randomness) -> None:
        self.frame_key = randomness(FRAME_KEY_BYTES)
        self._cipher = AESGCM(self.frame_key)

    def seal_frame(self, index: int, last: bool, plaintext: bytes | memoryview) -> bytes:
        """Ciphertext and tag of the next frame. Call it once per frame, in order."""
        # Not into a buffer of ours: a message takes `bytes` and nothing else, which would be one more copy.
        return self._cipher.encrypt(_nonce(index, last), plaintext, None)


class FrameReader:
    """Unseals frames in their order; what stands in them is for others to judge."""

    def __init__(self, frame_key: bytes) -> None:
        if len(frame_key) != FRAME_KEY_BYTES:
            raise InvalidRequestError("BAD_FRAMES", problem="the frame key has the wrong length")
        self._cipher = AESGCM(frame_key)
        # How many frames were unsealed, and whether the last of them was.
        self.count = 0
        self.has_ended = False

    def unseal(
        self, index: int, last: bool, ciphertext: bytes, into: npt.NDArray[np.uint8] | None = None
    ) -> npt.NDArray[np.uint8]:
        """The plaintext of the next frame, written to `into` where that is given.

        Raises:
            InvalidRequestError: BAD_FRAMES, or SEALED_WRONGLY for a frame that does not decrypt.
        """
        if self.has_ended:
            raise _bad("a frame after the last one")
        if index != self.count or index > _U32_MAX:
            raise _bad("frames are out of order or missing")
        if len(ciphertext) != FRAME_BYTES + TAG_BYTES:
            raise _bad("a frame has the wrong length")
        try:
            if into is None:
                into = np.frombuffer(self._cipher.decrypt(_nonce(index, last), ciphertext, None), np.uint8)
            else:
                self._cipher.decrypt_into(_nonce(index, last), ciphertext, None, into.data)
        except InvalidTag as error:
            raise InvalidRequestError("SEALED_WRONGLY", subject="frame") from error
        self.count, self.has_ended = self.count + 1, last
        return into

    def verify_ended(self) -> None:
        """Return only if the last frame was unsealed.

        Raises:
            InvalidRequestError: BAD_FRAMES.
        """
        if not self.has_ended:
            raise _bad("the last frame is missing")


def verify_ascending(people: npt.NDArray[np.uint8], previous: bytes) -> bytes:
    """Return only if an (n, 16) array ascends strictly, from `previous` on unless that is empty; gives its last one.

    Raises:
        InvalidRequestError: BAD_FRAMES.
    """
    if not len(people):
        return previous
    halves = people.view(">u8").astype(np.uint64)
    high, low = halves[:, 0], halves[:, 1]
    # Two of a million distinct random pseudonyms hardly ever share a first half; a sender of others loses time itself.
    above = high[1:] > high[:-1]
    ascending = bool(above.all()) or bool((above | ((high[1:] == high[:-1]) & (low[1:] > low[:-1]))).all())
    first: bytes = people[0].tobytes()
    last: bytes = people[-1].tobytes()
    if not ascending or (previous and first <= previous):
        raise _bad("pseudonyms are not strictly ascending")
    return last


def _nonce(index: int, last: bool) -> bytes:
    return bytes(7) + index.to_bytes(4, "big") + bytes([last])


def _bad(problem: str) -> InvalidRequestError:
    return InvalidRequestError("BAD_FRAMES", problem=problem)
