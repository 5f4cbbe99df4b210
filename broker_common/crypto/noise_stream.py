"""Noise stream: the uniform bits that one answer's noise is drawn from, fixed by a secret seed.

The stream is SHAKE256(seed), read as one endless string of bits, the most significant bit of each byte first. `bits(n)`
gives the next n bits as a big-endian integer, so n calls of `bits(1)` and one call of `bits(n)` read the same string.
Output is squeezed in blocks for speed; where a block ends has no influence on what is read.

Invariants. The same seed gives the same bits, in every release of this program: an auditor redraws an answer's noise
from them years later. A bit is given out once. A stream prints as a placeholder and can be neither pickled nor copied,
because two copies would draw the same noise for two answers, and their difference would be exact.

Left to others: what goes into the seed (slot secret, ticket hash, set commitment, scale, label), that it is used for one
answer only, and wiping the slot secret after use.
"""

from __future__ import annotations

from typing import NoReturn

from cryptography.hazmat.primitives.hashes import SHAKE256, XOFHash

MIN_SEED_BYTES = 32
"""A seed is at least one 256-bit hash; anything shorter could be guessed, and the noise with it."""

_BLOCK_BYTES = 64
_ENDLESS = 2**63 - 1
"""The most that the library lets one XOF squeeze. It raises afterwards; it never repeats itself."""


class NoiseStream:
    """Uniform bits from SHAKE256(seed), in the order that the module docstring fixes."""

    __slots__ = ("_buffer", "_buffered", "_xof")

    def __init__(self, seed: bytes) -> None:
        if len(seed) < MIN_SEED_BYTES:
            raise ValueError(f"a noise seed has at least {MIN_SEED_BYTES} bytes")
        self._xof = XOFHash(SHAKE256(_ENDLESS))
        self._xof.update(seed)
        self._buffer = 0
        self._buffered = 0

    def bits(self, n: int) -> int:
        """The next n bits, big-endian, in 0 .. 2**n - 1; no bits are 0. `ValueError` for a negative n."""
        if n < 0:
            raise ValueError("a number of bits is never negative")
        while self._buffered < n:
            self._buffer = self._buffer << (8 * _BLOCK_BYTES) | int.from_bytes(self._xof.squeeze(_BLOCK_BYTES), "big")
            self._buffered += 8 * _BLOCK_BYTES
        self._buffered -= n
        taken = self._buffer >> self._buffered
        # SECURITY: what was given out is cleared, so that no bit can serve twice.
        self._buffer &= (1 << self._buffered) - 1
        return taken

    def __repr__(self) -> str:
        return "NoiseStream(<secret>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a noise stream is never serialised or copied")
