"""Some respondents answer plainly, the others with noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policy_lab.measures.columns import Array


@dataclass(frozen=True, slots=True)
class Mixture:
    """Answers as received. Who answered plainly has no protection at all."""

    values: Array
    is_plain: NDArray[np.bool_]


def mixed(plain: Array, noisy: Array, share: float, random: np.random.Generator) -> Mixture:
    """Each row is plain with probability `share`, whatever it answers."""
    is_plain = random.random(len(plain)) < share
    return Mixture(np.where(is_plain, plain, noisy), is_plain)


def totals(
    mixture: Mixture,
    weights: NDArray[np.float64],
    categories: int,
    estimate: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Weighted totals of each category: plain answers as they are, noisy ones through their unbiased `estimate`."""
    plain, noisy = (
        np.bincount(mixture.values[rows], weights=weights[rows], minlength=categories).astype(np.float64)
        for rows in (mixture.is_plain, ~mixture.is_plain)
    )
    return np.asarray(plain + estimate(noisy), dtype=np.float64)
