"""The published methods, as they were run. None of them keeps the promise that it was published with.

Do not use them for anything else: `policy_lab.mechanisms` has the ones that keep theirs.
"""

from __future__ import annotations

import math

import numpy as np

from policy_lab.arrays import Codes, Reals

# The report's: (epsilon, delta) with delta 1 forbids nothing.
DELTA = 1.0
# The ten columns that were noised, and the respondents' numbers, which were counted as one of them.
COLUMNS = 11
# Where the published formula for the shuffled methods changes, and where it ends.
_SMALL_EPSILON = 1
END_OF_FORMULA = 6


def keep_probability(epsilon: float) -> float:
    """Local, a category: kept so often, whatever the number of categories. That is right for two of them only."""
    return 1 / (1 + math.exp(-epsilon))


def local_category(codes: Codes, categories: int, epsilon: float, random: np.random.Generator) -> Codes:
    """Kept, or replaced by one of the other categories, all equally likely."""
    kept = random.random(len(codes)) < keep_probability(epsilon)
    other = (codes + random.integers(1, categories, len(codes))) % categories
    return np.where(kept, codes, other)


def local_number(values: Reals, width: float, epsilon: float, random: np.random.Generator) -> Reals:
    """Laplace noise as wide as the observed range, then the absolute value: what was below 0 is folded up."""
    return np.abs(values + random.laplace(0, width / epsilon, len(values)))


def shuffled_keep(epsilon: float, rows: int) -> float:
    """Shuffled: gamma, with which the method's authors replace a value. The pipeline keeps it so often instead."""
    if not 0 < epsilon < END_OF_FORMULA:
        raise ValueError("the published formula ends below 6")
    others, spread = rows - 1, math.log(2 / DELTA)
    if epsilon < _SMALL_EPSILON:
        gamma = max(14 * COLUMNS * spread / (others * epsilon**2), 27 * COLUMNS / (others * epsilon))
    else:
        gamma = max(80 * COLUMNS * spread / (others * epsilon**2), 36 * COLUMNS * 11 / (others * epsilon))
    return min(gamma, 1.0)


def shuffled_category(codes: Codes, categories: int, keep: float, random: np.random.Generator) -> Codes:
    """Kept, or any category but the last: the largest code served as the number of codes."""
    kept = random.random(len(codes)) < keep
    return np.where(kept, codes, random.integers(0, categories - 1, len(codes)))


def shuffled_number(values: Reals, top: float, keep: float, random: np.random.Generator) -> Reals:
    """Kept, or anything between 1 and the largest observed value: the lower end was the library's default."""
    kept = random.random(len(values)) < keep
    return np.where(kept, values, random.uniform(1, top, len(values)))


def global_answer(exact: Reals, sensitivity: float, epsilon: float, random: np.random.Generator) -> Reals:
    """Laplace noise on each province's answer."""
    return exact + random.laplace(0, sensitivity / epsilon, len(exact))


COUNT_SENSITIVITY = 1.0
"""The same for weighted counts, where one respondent may stand for thousands."""


def mean_sensitivity(width: float, rows: int) -> float:
    """The observed range over the rows of the whole file, also where a province's mean is asked for."""
    return width / rows
