"""One mechanism's answers in one repetition, and on average."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from policy_lab.arrays import Reals
from policy_lab.evaluate import messages
from policy_lab.evaluate.cells import Block, Table, blocks, bounded_table
from policy_lab.evaluate.data import Data
from policy_lab.evaluate.run import Mechanism, RunFile
from policy_lab.evaluate.seeds import generator
from policy_lab.mechanisms.central import Laplace, NoisyMean, sensitivity


def sensitivity_of(run: RunFile, block: Block) -> Fraction:
    """How far one respondent can move one cell of a count or a sum."""
    column = block.column
    return sensitivity(
        "count" if block.query == "count" else "sum",
        neighbours=run.neighbours,
        weight_cap=run.weights.cap if run.weights else None,
        multiplier=run.weights.multiplier if run.weights else 1,
        bounds=None if column.is_category else (column.low, column.high),
        # Respondents who state no number are not counted.
        is_filtered=True,
    )


def noisy_mean(run: RunFile, block: Block, epsilon: float) -> NoisyMean:
    """The mechanism of a mean whose divisor is not public."""
    return NoisyMean(
        (block.column.low, block.column.high),
        epsilon,
        run.neighbours,
        run.weights.cap if run.weights else None,
        run.weights.multiplier if run.weights else 1,
    )


def central_answers(
    run: RunFile, mechanism: Mechanism, epsilon: float, repetition: int, tables: Sequence[Table]
) -> list[Reals]:
    """Every block with Laplace noise on its cells. `tables` are those of `bounded_table`, block by block."""
    answers = []
    for block, table in zip(blocks(run, mechanism), tables, strict=True):
        names = (mechanism.key, epsilon, block.column.name.text, block.query, repetition)
        random = generator(run.seed, *names)
        if block.query == "mean":
            noisy = noisy_mean(run, block, epsilon)
            means = np.where(table.totals > 0, table.answer("mean")[:, 0], float(noisy.middle))
            answers.append(noisy.apply(means, table.totals, random)[:, None])
        else:
            answers.append(Laplace(sensitivity_of(run, block), epsilon).apply(table.sums, random))
    return answers


def central_tables(run: RunFile, data: Data, mechanism: Mechanism) -> list[Table]:
    """The tables to which noise is added."""
    return [bounded_table(run, data, block) for block in blocks(run, mechanism)]


def expected_answers(run: RunFile, data: Data, mechanism: Mechanism, epsilon: float) -> list[Reals | None]:
    """The exact expectation of every answer; None for a quotient of two noisy numbers, which is not known exactly."""
    if mechanism.place == "global":
        return [
            None if block.query == "mean" else table.sums
            for block, table in zip(blocks(run, mechanism), central_tables(run, data, mechanism), strict=True)
        ]
    weights = messages.groups(run, data, mechanism).weights
    return list(messages.expected(run, data, mechanism, epsilon, weights))
