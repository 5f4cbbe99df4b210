"""Noise of answers with several cells, straight from its definition, many at a time."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.int64]


def draws(scale: float, cells: int, count: int, generator: np.random.Generator) -> Table:
    """`count` rows of noise with P(z) proportional to q**max(sum of positive parts, sum of negative parts), q = e**(-1/scale).

    Drawn by rejection: the exponent is half the sum of absolute values (drawn) and half the absolute sum (accepted with that
    probability).
    """
    base = math.exp(-0.5 / scale)
    accepted: list[Table] = []
    while sum(map(len, accepted)) < count:
        shape = (2 * count, cells)
        z = generator.geometric(1 - base, shape) - generator.geometric(1 - base, shape)
        accepted.append(z[generator.random(2 * count) < base ** np.abs(z.sum(axis=1))])
    found: Table = np.concatenate(accepted)[:count]
    return found
