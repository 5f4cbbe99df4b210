"""How alike two distributions of one column are: 1 if they are the same, 0 if they share nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from policy_lab.measures.columns import Array, Column, codes_of


def shape(before: Column, after: Column) -> float:
    """The measure that fits the kind of the column."""
    if before.kind == "category":
        return total_variation_complement(before.values, after.values)
    return ks_complement(before.values, after.values)


def total_variation_complement(a: Array, b: Array) -> float:
    """1 - half the sum of differences between the two shares of each category."""
    a_codes, b_codes = codes_of(a, b)
    size = int(max(a_codes.max(), b_codes.max())) + 1
    return 1 - float(np.abs(_shares(a_codes, size) - _shares(b_codes, size)).sum()) / 2


def ks_complement(a: Array, b: Array) -> float:
    """1 - the largest distance between the two cumulative distributions (Kolmogorov and Smirnov)."""
    a_sorted, b_sorted = np.sort(a), np.sort(b)
    where = np.concatenate([a_sorted, b_sorted])
    below_a = np.searchsorted(a_sorted, where, side="right") / len(a)
    below_b = np.searchsorted(b_sorted, where, side="right") / len(b)
    return 1 - float(np.abs(below_a - below_b).max())


def _shares(codes: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    counts = np.bincount(codes, minlength=size)
    return np.asarray(counts / counts.sum(), dtype=np.float64)
