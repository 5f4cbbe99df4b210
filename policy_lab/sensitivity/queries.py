"""SUM and AVG of a column, their sensitivities by the rules of the source, and the same answers from public bounds.

Columns are arrays in which a missing value is NaN. A row without a value adds nothing to a sum and to a mean, and is counted
in the number of rows by which the source divides.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final, Literal

import numpy as np

from policy_lab.arrays import Reals
from policy_lab.mechanisms.central import Laplace, NoisyMean, sensitivity
from policy_lab.mechanisms.neighbours import Neighbours

Query = Literal["sum", "avg"]
QUERIES: Final[tuple[Query, ...]] = ("sum", "avg")
Bounds = tuple[Fraction, Fraction]
NEIGHBOURS: Final = Neighbours.REPLACED
# AVG divides by the rows less one.
FEWEST_ROWS: Final = 2


def exact(query: Query, values: Reals) -> float:
    """The query's exact result."""
    present = values[~np.isnan(values)]
    total = float(present.sum())
    return total if query == "sum" else total / present.size


def source_sensitivity(query: Query, values: Reals) -> float:
    """The source's sensitivity: the largest value, for AVG over the rows less one. It bounds nothing."""
    largest = float(np.nanmax(values))
    return largest if query == "sum" else largest / (values.size - 1)


def bounded_answers(
    query: Query, values: Reals, bounds: Bounds, epsilon: float, count: int, random: np.random.Generator
) -> Reals:
    """Answers from clipped values, epsilon-differentially private where a row is replaced by any other.

    SUM has Laplace noise for the bounds. AVG is a `NoisyMean`, since how many rows have a value is not public.
    """
    present = np.clip(values[~np.isnan(values)], float(bounds[0]), float(bounds[1]))
    if query == "sum":
        return bounded_sum(bounds, epsilon).apply(np.full(count, present.sum()), random)
    mean = NoisyMean(bounds, epsilon, NEIGHBOURS)
    return mean.apply(np.full(count, present.mean()), np.full(count, float(present.size)), random)


def bounded_sum(bounds: Bounds, epsilon: float) -> Laplace:
    """The noise of a sum within public bounds; a row without a value adds zero to it."""
    return Laplace(sensitivity("sum", neighbours=NEIGHBOURS, bounds=bounds), epsilon)
