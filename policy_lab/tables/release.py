"""A table that may leave the house: integers on a stated grid, noise from the exact sampler and the operating system's randomness.

Each value is rounded to the grid and cut to the bounds before it is counted, so that a cell's total is a whole number of steps. Scales are
whole numbers too, rounded up. Cells of one or two members are refused; which those are depends on the data, and the promise does not cover it.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.privacy.discrete_laplace import UniformBits, draw
from policy_lab.tables import texts
from policy_lab.tables.cells import Cells
from policy_lab.tables.plan import Bounds, Noisy, Plan, plan
from policy_lab.tables.question import Question

REFUSED_MEMBERS = frozenset({1, 2})
# Floats are exact whole numbers up to here.
_MOST_STEPS = 2**53


class SystemBits:
    """Uniform bits of the operating system."""

    def bits(self, n: int, /) -> int:
        """The next n bits."""
        return secrets.randbits(n)


@dataclass(frozen=True, slots=True)
class Grid:
    """The steps that values and answers are whole numbers of."""

    step: Fraction
    # In steps.
    bounds: Bounds | None

    @classmethod
    def checked(cls, step: Fraction, question: Question, cells: Cells) -> Grid:
        """The grid, if everything that is counted on it is exact.

        Raises:
            InvalidRequestError: INVALID_VALUE.
        """
        if step <= 0:
            raise _unfit(texts.GRID_NOT_POSITIVE, texts.GRID_REMEDY)
        bounds = None
        if question.bounds is not None:
            low, high = (bound / step for bound in question.bounds)
            if low.denominator != 1 or high.denominator != 1:
                raise _unfit(texts.GRID_DIVIDES, texts.GRID_DIVIDES_REMEDY)
            bounds = low, high
        largest = max(map(abs, question.bounds)) if question.bounds else cells.largest
        if largest / step > _MOST_STEPS:
            raise _unfit(texts.GRID_TOO_FINE, texts.GRID_REMEDY)
        return cls(step, bounds)

    def rounded(self, cells: Cells) -> Cells:
        """The same table with every value in steps, the nearest whole number of them within the bounds."""
        return replace(cells, parts=[self._steps(part) for part in cells.parts])

    def _steps(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        # A quotient of floats can be a step beyond the bounds that the noise is for.
        steps = np.array([round(Fraction(value) / self.step) for value in values.tolist()], dtype=np.float64)
        if self.bounds is None:
            return steps
        low, high = map(float, self.bounds)
        return np.clip(steps, low, high)


@dataclass(frozen=True, slots=True)
class Release:
    """The answers, cell by cell, None where one is refused; the plan counts in steps of the grid."""

    plan: Plan
    grid: Grid
    answers: Sequence[Fraction | None]

    @property
    def refused(self) -> int:
        """How many cells are refused."""
        return sum(answer is None for answer in self.answers)


def released(question: Question, cells: Cells, grid: Grid, stream: UniformBits) -> Release:
    """One answer for each cell that is not refused."""
    on_grid = grid.rounded(cells)
    chosen = _whole_scales(question, on_grid, grid)
    answers = [_answer(chosen, on_grid, at, grid, stream) for at in range(len(cells.parts))]
    return Release(chosen, grid, answers)


def _whole_scales(question: Question, cells: Cells, grid: Grid) -> Plan:
    """The plan in steps. Scales are rounded up, which only lowers epsilon."""
    bounds = grid.bounds
    centre = Fraction(floor(sum(bounds) / 2)) if bounds is not None and question.rule == "laplace" else None
    exact = plan(cells, question.statistic, question.rule, question.method, question.epsilon, bounds, centre=centre)
    noisy = [replace(each, scales=[Fraction(ceil(scale)) for scale in each.scales]) for each in exact.noisy]
    return replace(exact, noisy=noisy)


def _unfit(problem: str, remedy: str) -> InvalidRequestError:
    return InvalidRequestError("INVALID_VALUE", name="--grid", problem=phrase(problem), remedy=phrase(remedy))


def _answer(plan: Plan, cells: Cells, at: int, grid: Grid, stream: UniformBits) -> Fraction | None:
    if is_refused(plan, cells, at):
        return None
    drawn = [_drawn(each, plan, cells, at, stream) for each in plan.noisy]
    if plan.statistic == "count":
        return Fraction(drawn[0])
    if plan.statistic == "total":
        return drawn[0] * grid.step
    divisor = cells.members[at] if plan.counts_are_public else max(drawn[1], 1)
    if divisor == 0:
        return None
    average = Fraction(drawn[0], divisor) + plan.centre
    if plan.bounds is not None and not plan.counts_are_public:
        average = min(max(average, plan.bounds[0]), plan.bounds[1])
    return average * grid.step


def is_refused(plan: Plan, cells: Cells, at: int) -> bool:
    """Whether a cell is too small, or would be published without noise although a row can change it."""
    is_bare = any(each.scales[at] == 0 for each in plan.noisy) and plan.rule == "bootstrap"
    return cells.members[at] in REFUSED_MEMBERS or (is_bare and cells.members[at] > 0)


def _drawn(noisy: Noisy, plan: Plan, cells: Cells, at: int, stream: UniformBits) -> int:
    """The exact figure in steps, plus its noise."""
    members = cells.members[at]
    exact = members if noisy.figure == "count" else _total(cells, at) - int(plan.centre) * members
    scale = int(noisy.scales[at])
    return exact + (draw(scale, stream) if scale else 0)


def _total(cells: Cells, at: int) -> int:
    # Python's whole numbers: a sum of floats would lose steps.
    return sum(map(int, cells.parts[at].tolist()))
