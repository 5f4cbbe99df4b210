"""Two tables that differ in one row, told apart by one answer: how large an epsilon the listing has at least.

In the neighbour, the row with the largest value has one that is `factor` times as large. The listing is idealised: it generates
the same rows from both. Even so its noise follows the real sensitivity of the table, so that an answer near the
exact one is likely from the one table and very unlikely from the other. The bound is the idealised listing's: for a trained
generator, whose rows depend on the table, it is not proven. Probabilities are integrals over the listing's law.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np

from policy_lab.arrays import Reals
from policy_lab.sensitivity.listing import ADDED_HIGH, ADDED_LOW, REAL_SHARE, SHIFT
from policy_lab.sensitivity.queries import QUERIES, Query, exact, source_sensitivity

FACTORS: Final = (10, 1000)
# Steps of the integrals: equally likely parts of the normal and of the uniform number.
_NORMAL_PARTS = 4000
_UNIFORM_PARTS = 32


@dataclass(frozen=True, slots=True)
class ToldApart:
    """One pair of neighbours. `near` is an answer within the table's own sensitivity, over epsilon, of its exact result."""

    column: str
    query: Query
    factor: int
    real: float
    real_of_neighbour: float
    near: float
    near_of_neighbour: float

    @property
    def epsilon(self) -> float:
        """No smaller epsilon holds for the idealised listing."""
        return math.log(self.near / self.near_of_neighbour)

    def delta(self, epsilon: float) -> float:
        """No smaller delta holds for it beside this epsilon."""
        return max(0.0, self.near - math.exp(epsilon) * self.near_of_neighbour)


def told_apart(column: str, values: Reals, generated: Sequence[float], epsilon: float) -> Iterator[ToldApart]:
    """The neighbours of a column whose largest value is above zero; `generated` has a sensitivity for each query."""
    if not np.nanmax(values) > 0:
        return
    for query, sensitivity in zip(QUERIES, generated, strict=True):
        for factor in FACTORS:
            other = neighbour(values, factor)
            truth, real = exact(query, values), source_sensitivity(query, values)
            real_of_other = source_sensitivity(query, other)
            yield ToldApart(
                column=column,
                query=query,
                factor=factor,
                real=real,
                real_of_neighbour=real_of_other,
                near=near(real, sensitivity, epsilon, 0.0, real / epsilon),
                near_of_neighbour=near(
                    real_of_other, sensitivity, epsilon, exact(query, other) - truth, real / epsilon
                ),
            )


def neighbour(values: Reals, factor: float) -> Reals:
    """The column with another value in the row of the largest one."""
    changed = values.copy()
    changed[np.nanargmax(values)] *= factor
    return changed


def near(real: float, generated: float, epsilon: float, shift: float, within: float) -> float:
    """How likely an answer lies `within` of a number that is `shift` below the exact result."""
    estimate, weight = _law_in_parts(real, generated)
    answered = estimate > 0
    scale = estimate[answered] / epsilon
    likely = _laplace_law((within - shift) / scale) - _laplace_law((-within - shift) / scale)
    return float(np.sum(likely * weight[answered]))


def _law_in_parts(real: float, generated: float) -> tuple[Reals, Reals]:
    """Estimates, and how likely each is."""
    low, high = float(ADDED_LOW), float(ADDED_HIGH)
    added = (low + (high - low) * _middles(_UNIFORM_PARTS)) * generated
    normal = np.array([NormalDist().inv_cdf(part) for part in _middles(_NORMAL_PARTS)])
    drawn = (generated + (real - generated) * (normal + SHIFT))[:, None] + added
    share = float(REAL_SHARE)
    weights = (np.full(added.size, share / added.size), np.full(drawn.size, (1 - share) / drawn.size))
    return np.concatenate([real + added, drawn.ravel()]), np.concatenate(weights)


def _middles(parts: int) -> Reals:
    return (np.arange(parts) + 0.5) / parts


def _laplace_law(x: Reals) -> Reals:
    half = np.exp(-np.abs(x)) / 2
    return np.where(x < 0, half, 1 - half)
