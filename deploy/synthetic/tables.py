"""Conditional distributions: raking a table to published margins, and drawing from one with given uniforms.

Raking (iterative proportional fitting) finds the table with the wanted margins that keeps the odds ratios of the
starting table: all that is published is met, and nothing is added beyond the starting table. A cell that starts at zero
stays there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deploy.synthetic.arrays import Floats, Integers

_RAKING_TOLERANCE = 1e-12
_MOST_ROUNDS = 10_000


def rake(start: Floats, margins: Sequence[tuple[tuple[int, ...], Floats]]) -> Floats:
    """`start` scaled until its sums over all but the named axes equal each margin; ValueError if margins conflict."""
    table: Floats = start / start.sum()
    for _ in range(_MOST_ROUNDS):
        deviation = 0.0
        for kept, wanted in margins:
            summed = tuple(axis for axis in range(table.ndim) if axis not in kept)
            sums = table.sum(axis=summed)
            deviation = max(deviation, float(np.abs(sums - wanted).max()))
            factor = np.divide(wanted, sums, out=np.zeros_like(sums), where=sums > 0)
            table = table * np.expand_dims(factor, summed)
        if deviation < _RAKING_TOLERANCE:
            return table
    raise ValueError("the margins cannot be met from this starting table")


class ConditionalTable:
    """One distribution over the last axis per combination of the others (rows numbered in C order).

    Categories are laid on the unit interval in `order`, so that two draws with one uniform but neighbouring
    distributions mostly agree: this is how members of a household come to share a language.
    """

    def __init__(self, weights: Floats, order: Sequence[int] | None = None) -> None:
        rows = weights.reshape(-1, weights.shape[-1])
        self._order = np.arange(rows.shape[1]) if order is None else np.array(order)
        cumulative = rows[:, self._order].cumsum(axis=1)
        cumulative /= cumulative[:, -1:]
        cumulative[:, -1] = 1.0
        self._width = rows.shape[1]
        # Row r occupies (r, r + 1], so that one sorted array serves all rows. Uniforms are multiples of 2^-32
        # and rows few, so r + uniform is exact and never reaches the next row.
        self._steps = (cumulative + np.arange(len(rows))[:, np.newaxis]).ravel()

    def draw(self, row: Integers, uniform: Floats) -> Integers:
        """The category of each (row, uniform)."""
        position = np.searchsorted(self._steps, row + uniform, side="right")
        categories: Integers = self._order[position - row * self._width]
        return categories
