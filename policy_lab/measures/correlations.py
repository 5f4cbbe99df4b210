"""How two columns go together, and whether they still do in noisy data.

Numbers: Spearman's rank correlation, because codes such as 9.996 for "not stated" and the tails of noise would decide
Pearson's. Categories: Cramer's V, which needs no order of the codes. One of each: the correlation ratio of the ranks, the
share of their spread that lies between categories, as a root, so that it is on the same scale as the two others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from policy_lab.measures.columns import Array, Column, codes_of

Pair = tuple[str, str]


def pairs(table: Sequence[Column]) -> dict[Pair, float]:
    """The association of every two columns: between -1 and 1 for two numbers, between 0 and 1 otherwise."""
    return {(one.name, other.name): association(one, other) for one, other in combinations(table, 2)}


def association(one: Column, other: Column) -> float:
    """How two columns of one data set go together; 0 where one of them never changes."""
    if one.kind == other.kind == "number":
        return spearman(one.values, other.values)
    if one.kind == other.kind:
        return cramers_v(one.values, other.values)
    number, category = (one, other) if one.kind == "number" else (other, one)
    return correlation_ratio(category.values, number.values)


def kept(before: Mapping[Pair, float], after: Mapping[Pair, float]) -> dict[Pair, float]:
    """How much of each association is left: 1 - half the difference, so that 1 is the same and 0 is the opposite."""
    return {pair: 1 - abs(before[pair] - after[pair]) / 2 for pair in before}


def spearman(a: Array, b: Array) -> float:
    """The correlation of ranks; equal values share the mean of their ranks."""
    return _pearson(_ranks(a), _ranks(b))


def cramers_v(a: Array, b: Array) -> float:
    """The root of chi-square over its largest possible value, from the table of counts."""
    from scipy.stats.contingency import association as scipy_association  # noqa: PLC0415 - scipy is an extra

    counts = _contingency(codes_of(a)[0], codes_of(b)[0])
    return 0.0 if min(counts.shape) == 1 else float(scipy_association(counts, method="cramer"))


def contingency_similarity(before: tuple[Array, Array], after: tuple[Array, Array]) -> float:
    """1 - total variation between the two joint distributions of a pair of categories."""
    first_before, first_after = codes_of(before[0], after[0])
    second_before, second_after = codes_of(before[1], after[1])
    width = int(max(second_before.max(), second_after.max())) + 1
    one, other = first_before * width + second_before, first_after * width + second_after
    size = int(max(one.max(), other.max())) + 1
    shares = [np.bincount(cells, minlength=size) / len(cells) for cells in (one, other)]
    return 1 - float(np.abs(shares[0] - shares[1]).sum()) / 2


def correlation_ratio(categories: Array, numbers: Array) -> float:
    """The root of the share of the ranks' spread that lies between categories."""
    (codes,), ranks = codes_of(categories), _ranks(numbers)
    rows = np.bincount(codes)
    means = np.bincount(codes, weights=ranks) / rows
    whole = float(((ranks - ranks.mean()) ** 2).sum())
    between = float((rows * (means - ranks.mean()) ** 2).sum())
    return float(np.sqrt(between / whole)) if whole else 0.0


def _contingency(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    rows, columns = int(a.max()) + 1, int(b.max()) + 1
    return np.bincount(a * columns + b, minlength=rows * columns).reshape(rows, columns)


def _ranks(values: Array) -> NDArray[np.float64]:
    from scipy.stats import rankdata  # noqa: PLC0415 - scipy is an extra

    return np.asarray(rankdata(values), dtype=np.float64)


def _pearson(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    a, b = a - a.mean(), b - b.mean()
    spread = float(np.sqrt((a**2).sum() * (b**2).sum()))
    return float((a * b).sum()) / spread if spread else 0.0
