"""Seeded randomness for made-up answers. For evaluation, never for release: anybody who knows the seed knows the noise."""

from __future__ import annotations

import numpy as np


class SeededBits:
    """Uniform bits for the product's sampler, from a numpy generator."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def bits(self, n: int, /) -> int:
        """The next n bits."""
        size = -(-n // 8)
        return int.from_bytes(self._generator.bytes(size), "big") >> (8 * size - n)
