"""Absolute errors by stratum, column, query and epsilon, averaged over the repetitions with standard errors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from policy_lab.arrays import Reals
from policy_lab.document.as_csv import as_csv
from policy_lab.evaluate.answers import expected_answers
from policy_lab.evaluate.cells import Block, blocks, full_table
from policy_lab.evaluate.data import Data
from policy_lab.evaluate.parts import Job, Part, Parts
from policy_lab.evaluate.run import Mechanism, RunFile

HEADS = (
    *("mechanism", "epsilon", "stratum", "column", "query", "category", "exact", "expected_answer", "bias"),
    *("mean_answer", "mean_absolute_error", "standard_error", "relative_error"),
)


@dataclass(frozen=True, slots=True)
class Errors:
    """One block under one mechanism at one epsilon; every table is of strata by cells."""

    mechanism: Mechanism
    epsilon: float
    block: Block
    # From the file as it is: weights are not clipped, numbers not clamped.
    exact: Reals
    # Over all noise; None where it is not known exactly.
    expected: Reals | None
    mean: Reals
    absolute: Reals
    # Standard error of the mean absolute error; None after one repetition.
    standard_error: Reals | None
    # Over all cells that have an exact value, and its standard error over the repetitions.
    overall: float
    overall_error: float | None

    @property
    def bias(self) -> Reals | None:
        """How far the answer is off on average, clipping included."""
        return None if self.expected is None else self.expected - self.exact

    @property
    def relative(self) -> Reals:
        """The mean absolute error as a share of the exact value; NaN where that is 0."""
        shares = np.full(self.exact.shape, np.nan)
        np.divide(self.absolute, np.abs(self.exact), out=shares, where=self.exact != 0)
        return shares


def errors(run: RunFile, data: Data, parts: Parts) -> Iterator[Errors]:
    """Every block under every mechanism at every epsilon, in the order of the run file."""
    for mechanism in run.mechanisms:
        exact = [full_table(run, data, block).answer(block.query) for block in blocks(run, mechanism)]
        for epsilon in run.epsilons:
            found = [parts.needed(Job(mechanism, epsilon, each)) for each in range(run.repetitions)]
            expected = expected_answers(run, data, mechanism, epsilon)
            for number, block in enumerate(blocks(run, mechanism)):
                yield _errors(mechanism, epsilon, block, exact[number], expected[number], _answers(found, number))


def _answers(parts: Sequence[Part], number: int) -> Reals:
    """One block's answers: repetition, stratum, cell."""
    return np.array([part.answers[number] for part in parts])


def _errors(
    mechanism: Mechanism, epsilon: float, block: Block, exact: Reals, expected: Reals | None, answers: Reals
) -> Errors:
    off = np.abs(answers - exact)
    error = _standard_error(off)
    # A stratum where nobody stated a number has no exact mean, and no error.
    known = off[:, ~np.isnan(exact)]
    each = known.mean(axis=1) if known.size else np.zeros(len(answers))
    over = _standard_error(each)
    return Errors(
        mechanism,
        epsilon,
        block,
        exact,
        expected,
        answers.mean(axis=0),
        off.mean(axis=0),
        error,
        float(each.mean()),
        None if over is None else float(over),
    )


def _standard_error(repeated: Reals) -> Reals | None:
    """The standard error of the mean over the first axis; None for one repetition."""
    repetitions = len(repeated)
    return None if repetitions == 1 else np.asarray(repeated.std(axis=0, ddof=1) / math.sqrt(repetitions))


def errors_csv(run: RunFile, found: Sequence[Errors]) -> bytes:
    """One row for each cell; what is not known is empty."""
    return as_csv(run.standing, HEADS, _rows(run, found))


def _rows(run: RunFile, found: Sequence[Errors]) -> Iterator[tuple[str | float | None, ...]]:
    for each in found:
        tables = (each.exact, each.expected, each.bias, each.mean, each.absolute, each.standard_error, each.relative)
        for row, stratum in enumerate(run.strata_names):
            for place, cell in enumerate(each.block.cell_names):
                names = (each.mechanism.key, each.epsilon, stratum, each.block.column.name.text, each.block.query, cell)
                yield (*names, *(_known(table, row, place) for table in tables))


def _known(table: Reals | None, row: int, place: int) -> float | None:
    value = math.nan if table is None else float(table[row, place])
    return None if math.isnan(value) else value
