"""A keyed bijection of {0, ..., size-1}, computable in both directions without a table.

It gives health rows an order unrelated to the census rows, and cards an order unrelated to people, in constant memory.
Construction: write x as (left, right) on a grid of about sqrt(size) by sqrt(size), let each half in turn be shifted by a
keyed function of the other (a Feistel network with addition), and walk on while the result lies on the few grid
points beyond `size` (cycle walking). Both steps can be undone, so the whole is a bijection whatever the keyed function is.

Good enough to look shuffled; not an encryption.
"""

from __future__ import annotations

from math import isqrt

import numpy as np

from deploy.synthetic.arrays import Integers
from deploy.synthetic.dice import Stream, mix, stream_key

LARGEST_SIZE = 2**60  # both sides of the grid stay below 2^31, so that products of two halves fit in 64 bits
_ROUNDS = 6


class Permutation:
    """The bijection of one (seed, stream, size)."""

    def __init__(self, size: int, seed: int, stream: Stream) -> None:
        if not 1 <= size <= LARGEST_SIZE:
            raise ValueError(f"a permutation needs between 1 and {LARGEST_SIZE} elements, not {size}")
        self._size = size
        self._rows = isqrt(size - 1) + 1
        self._columns = -(-size // self._rows)
        self._keys = mix(stream_key(seed, stream) + np.arange(_ROUNDS, dtype=np.uint64))

    def forward(self, x: Integers) -> Integers:
        """Where each x goes; every x must be in range."""
        y = self._encode(x)
        outside = np.flatnonzero(y >= self._size)
        while outside.size:
            y[outside] = self._encode(y[outside])
            outside = outside[y[outside] >= self._size]
        return y

    def backward(self, y: Integers) -> Integers:
        """The inverse of `forward`."""
        x = self._decode(y)
        outside = np.flatnonzero(x >= self._size)
        while outside.size:
            x[outside] = self._decode(x[outside])
            outside = outside[x[outside] >= self._size]
        return x

    def _encode(self, x: Integers) -> Integers:
        left, right = np.divmod(x, self._columns)
        for number in range(_ROUNDS):
            if number % 2 == 0:
                left += self._shift(number, right, self._rows)
                left -= self._rows * (left >= self._rows)
            else:
                right += self._shift(number, left, self._columns)
                right -= self._columns * (right >= self._columns)
        return left * self._columns + right

    def _decode(self, y: Integers) -> Integers:
        left, right = np.divmod(y, self._columns)
        for number in reversed(range(_ROUNDS)):
            if number % 2 == 0:
                left -= self._shift(number, right, self._rows)
                left += self._rows * (left < 0)
            else:
                right -= self._shift(number, left, self._columns)
                right += self._columns * (right < 0)
        return left * self._columns + right

    def _shift(self, number: int, half: Integers, side: int) -> Integers:
        """A keyed number in [0, side) for each half."""
        words = mix(half.astype(np.uint64) ^ self._keys[number]) >> np.uint64(32)
        return ((words * np.uint64(side)) >> np.uint64(32)).astype(np.int64)
