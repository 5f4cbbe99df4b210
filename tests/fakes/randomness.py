"""Randomness that repeats: an endless stream fixed by a seed. For keys and salts in tests, never in products."""

from __future__ import annotations

import hashlib


class SeededRandomness:
    """`randomness(n)` gives the next n bytes; two instances with one seed give the same ones."""

    def __init__(self, seed: str = "tests") -> None:
        self._seed = seed.encode()
        self._drawn = 0

    def __call__(self, size: int, /) -> bytes:
        self._drawn += 1
        return hashlib.shake_256(self._seed + self._drawn.to_bytes(8, "big")).digest(size)
