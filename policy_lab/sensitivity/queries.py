"""SUM and AVG of a column, their sensitivities by the rules of the source, and the same answers from public bounds.

Columns are arrays in which a missing value is NaN. A row without a value adds nothing to a sum and to a mean, and is counted
in the number of rows by which the source divides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Query = Literal["sum", "avg"]
QUERIES: Final[tuple[Query, ...]] = ("sum", "avg")
# AVG divides by the rows less one.
FEWEST_ROWS: Final = 2


def exact(query: Query, values: Floats) -> float:
    """What the query gives without noise."""
    present = values[~np.isnan(values)]
    total = float(present.sum())
    return total if query == "sum" else total / present.size


def source_sensitivity(query: Query, values: Floats) -> float:
    """What the source takes for the sensitivity: the largest value, for AVG over the rows less one. It bounds nothing."""
    largest = float(np.nanmax(values))
    return largest if query == "sum" else largest / (values.size - 1)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between what a column's values lie by law or definition, whoever is in the data."""

    low: float
    high: float

    @property
    def sum_sensitivity(self) -> float:
        """How far a sum changes when one row is replaced by any other, also by one without a value."""
        return max(self.high, 0.0) - min(self.low, 0.0)

    @property
    def width(self) -> float:
        """How far one row moves a sum of differences from the middle."""
        return self.high - self.low

    def clip(self, values: Floats) -> Floats:
        """The values, those beyond the bounds set to them."""
        return np.clip(values, self.low, self.high)


def bounded_answers(
    query: Query, values: Floats, bounds: Bounds, epsilon: float, count: int, random: np.random.Generator
) -> Floats:
    """Answers that are epsilon-differentially private where one row is replaced, whatever the data are.

    SUM: Laplace of the clipped values' sum. AVG: half of epsilon for the sum of differences from the middle of the bounds, half
    for the number of rows that have a value; the ratio is kept within the bounds.
    """
    clipped = bounds.clip(values)
    if query == "sum":
        return float(np.nansum(clipped)) + random.laplace(0, bounds.sum_sensitivity / epsilon, count)
    middle = (bounds.low + bounds.high) / 2
    scale = 2 / epsilon
    sums = float(np.nansum(clipped - middle)) + random.laplace(0, bounds.width * scale, count)
    rows = float(np.count_nonzero(~np.isnan(values))) + random.laplace(0, scale, count)
    return np.clip(middle + sums / np.maximum(rows, 1.0), bounds.low, bounds.high)
