"""How two columns of one data set go together.

Numbers: Spearman's rank correlation, because codes such as 9.996 for "not stated" and the tails of noise would decide
Pearson's. Categories: Cramer's V, which needs no order of the codes. One of each: the correlation ratio of the ranks, the
share of their spread that lies between categories, as a root, so that it is on the same scale as the two others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from policy_lab.measures.columns import Array, Column, codes_of


def association(one: Column, other: Column) -> float:
    """How two columns of one data set go together; 0 where one of them never changes."""
    if one.kind == other.kind == "number":
        return spearman(one.values, other.values)
    if one.kind == other.kind:
        return cramers_v(one.values, other.values)
    number, category = (one, other) if one.kind == "number" else (other, one)
    return correlation_ratio(category.values, number.values)


def spearman(a: Array, b: Array) -> float:
    """The correlation of ranks; equal values share the mean of their ranks."""
    return _pearson(_ranks(a), _ranks(b))


def cramers_v(a: Array, b: Array) -> float:
    """The root of chi-square over its largest possible value, from the table of counts."""
    from scipy.stats.contingency import association as scipy_association  # noqa: PLC0415 - scipy is an extra

    counts = _contingency(codes_of(a)[0], codes_of(b)[0])
    return 0.0 if min(counts.shape) == 1 else float(scipy_association(counts, method="cramer"))


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
