"""Where randomness comes from: the seed and the name of what is drawn, never the order of work."""

from __future__ import annotations

import hashlib

import numpy as np

_WORD_BYTES = 4


def generator(seed: int, *names: str | float) -> np.random.Generator:
    """The generator of what has these names: mechanism, epsilon, column, repetition."""
    # Lengths stand before the names: no two lists of names read the same.
    joined = "".join(f"{len(text)}:{text}" for text in map(str, names))
    hashed = hashlib.sha256(joined.encode()).digest()
    key = [int.from_bytes(hashed[i : i + _WORD_BYTES], "big") for i in range(0, len(hashed), _WORD_BYTES)]
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
