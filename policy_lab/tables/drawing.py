"""Answers for evaluation: replicates from a seeded generator, and one answer by a uniform number that is given by hand.

Neither is for release: floating-point noise and a known seed or uniform keep no promise.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import copysign, log

import numpy as np
from numpy.typing import NDArray

from policy_lab.tables.cells import Cells
from policy_lab.tables.plan import Noisy, Plan


def exact(plan: Plan, cells: Cells) -> NDArray[np.float64]:
    """The statistic of each cell without noise; NaN for an average of nobody."""
    return _answers(plan, cells, [_figures(each, plan, cells) for each in plan.noisy])


def replicates(plan: Plan, cells: Cells, repetitions: int, random: np.random.Generator) -> NDArray[np.float64]:
    """So many noisy tables, one a row."""
    noisy = []
    for each in plan.noisy:
        scales = np.array([float(scale) for scale in each.scales])
        noisy.append(_figures(each, plan, cells) + random.laplace(0.0, scales, (repetitions, len(scales))))
    return _answers(plan, cells, noisy)


def by_uniform(plan: Plan, cells: Cells, uniform: float) -> NDArray[np.float64]:
    """One answer with the noise that inversion makes of this number between 0 and 1, the same for each cell.

    Counts are rounded to whole numbers, averages and totals to two decimals.
    """
    side = uniform - 0.5
    unit = -copysign(1.0, side) * log(1 - 2 * abs(side))
    noisy = [
        _figures(each, plan, cells) + unit * np.array([float(scale) for scale in each.scales]) for each in plan.noisy
    ]
    return np.round(_answers(plan, cells, noisy), 0 if plan.statistic == "count" else 2)


def _figures(noisy: Noisy, plan: Plan, cells: Cells) -> NDArray[np.float64]:
    members = np.array(cells.members, dtype=np.float64)
    if noisy.figure == "count":
        return members
    return np.array(cells.totals) - float(plan.centre) * members


def _answers(plan: Plan, cells: Cells, figures: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The answers that the noisy figures make: a noisy count below one member divides by one, a quotient is cut to the bounds."""
    if plan.statistic != "average":
        return figures[0]
    members = np.array(cells.members, dtype=np.float64)
    if plan.counts_are_public:
        return figures[0] / np.where(members > 0, members, np.nan)
    quotients = figures[0] / np.maximum(figures[1], 1.0) + float(plan.centre)
    if plan.bounds is None:
        return quotients
    low, high = map(float, plan.bounds)
    return np.clip(quotients, low, high)
