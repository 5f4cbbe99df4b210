"""The cells that are asked, and their exact values.

A block is one query on one column: a table of strata by categories, or of strata by one number. Exact values are correctly
rounded sums, so that the order of rows does not matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policy_lab.arrays import Codes, Reals
from policy_lab.evaluate.data import Data
from policy_lab.evaluate.run import Column, Mechanism, Query, RunFile


@dataclass(frozen=True, slots=True)
class Block:
    """One query on one column."""

    column: Column
    query: Query

    @property
    def cell_names(self) -> tuple[str, ...]:
        """The categories that are counted; one cell without a name for a sum or a mean."""
        return tuple(word.text for word in self.column.categories) if self.query == "count" else ("",)


@dataclass(frozen=True, slots=True)
class Table:
    """A block's sums by stratum and cell, and what a mean is divided by."""

    sums: Reals
    # Weights of those who stated a number, by stratum; of all rows for a count.
    totals: Reals

    def answer(self, query: Query) -> Reals:
        """The exact answer; NaN for the mean of nobody."""
        return divided(self.sums, self.totals) if query == "mean" else self.sums


def blocks(run: RunFile, mechanism: Mechanism) -> tuple[Block, ...]:
    """Everything that is asked of a mechanism: categories are counted, numbers are added up or averaged."""
    return tuple(
        Block(column, query)
        for column in run.noised(mechanism)
        for query in run.queries
        if (query == "count") == column.is_category
    )


def divided(sums: Reals, totals: Reals) -> Reals:
    """Quotients by stratum; NaN where there is nobody."""
    quotients = np.full(sums.shape, np.nan)
    np.divide(sums, totals[:, None], out=quotients, where=totals[:, None] > 0)
    return quotients


def full_table(run: RunFile, data: Data, block: Block) -> Table:
    """From weights and numbers as they stand in the file."""
    return _table(run, data, block, data.full_weights, data.columns[block.column.name.text].stated)


def bounded_table(run: RunFile, data: Data, block: Block) -> Table:
    """From clipped weights and clamped numbers, as every mechanism has them."""
    return _table(run, data, block, data.weights, data.columns[block.column.name.text].numbers)


def _table(run: RunFile, data: Data, block: Block, weights: Reals, numbers: Reals | None) -> Table:
    strata = data.strata.astype(np.int64)
    count = len(run.strata_names)
    values = data.columns[block.column.name.text]
    if values.codes is not None:
        width = len(block.cell_names)
        sums = exact_sums(strata * width + values.codes, weights, count * width).reshape(count, width)
        return Table(sums, exact_sums(strata, weights, count))
    assert numbers is not None  # noqa: S101 - a column has codes or numbers
    stated = ~np.isnan(numbers)
    products = weights[stated] * numbers[stated]
    return Table(
        exact_sums(strata[stated], products, count)[:, None], exact_sums(strata[stated], weights[stated], count)
    )


def exact_sums(groups: Codes, values: Reals, count: int) -> Reals:
    """The sum of each group's values, correctly rounded."""
    order = np.argsort(groups, kind="stable")
    ends = np.cumsum(np.bincount(groups, minlength=count))
    parts = np.split(values[order], ends[:-1])
    return np.array([math.fsum(part.tolist()) for part in parts])


def quick_sums(groups: Codes, values: Reals, count: int) -> NDArray[np.float64]:
    """The same in the order of rows, for noisy values, where the last digit says nothing."""
    return np.bincount(groups, values, count).astype(np.float64)
