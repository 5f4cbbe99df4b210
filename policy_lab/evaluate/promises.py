"""Each mechanism's promise: epsilon, delta and neighbour relation of one respondent's whole contribution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policy_lab.evaluate.cells import Block, blocks
from policy_lab.evaluate.data import Data
from policy_lab.evaluate.messages import groups, law
from policy_lab.evaluate.run import Mechanism, RunFile
from policy_lab.mechanisms.composition import Spent, parallel, sequential
from policy_lab.mechanisms.neighbours import Neighbours
from policy_lab.mechanisms.shuffling import Promise, promise


@dataclass(frozen=True, slots=True)
class Shuffling:
    """Shuffling's promise to the respondents of one stratum."""

    rows: int
    # Messages in the smallest and the largest group that nothing else tells apart.
    least: int
    most: int
    promise: Promise
    best: Promise
    # Respondents in groups that are large enough for shuffling to promise more than their messages did.
    hidden: int


@dataclass(frozen=True, slots=True)
class Promised:
    """One mechanism at one epsilon."""

    # Epsilon of one cell or one column, as in the run file.
    epsilon: float
    # Epsilon that all answers or messages together spend on one respondent; for shuffling, before it.
    composed: Spent
    shuffling: tuple[Shuffling, ...] = ()

    @property
    def weakest(self) -> Promise | None:
        """The promise of shuffling that holds for everybody, whatever the stratum: epsilon and delta may be of two strata."""
        return max((each.promise for each in self.shuffling), key=lambda each: each.epsilon, default=None)

    @property
    def real_epsilon(self) -> float:
        """Epsilon that holds for every respondent."""
        weakest = self.weakest
        return self.composed.epsilon if weakest is None else weakest.epsilon

    @property
    def real_delta(self) -> float:
        """The probability with which it may fail."""
        return max((each.promise.delta for each in self.shuffling), default=0.0)


def promised(run: RunFile, data: Data, mechanism: Mechanism, epsilon: float) -> Promised:
    """The promise of one mechanism at one epsilon."""
    if mechanism.place == "global":
        return Promised(epsilon, _central(run, mechanism, epsilon))
    composed = _sent(run, mechanism, epsilon)
    if mechanism.place == "local":
        return Promised(epsilon, composed)
    return Promised(epsilon, composed, _shuffling(run, data, mechanism, composed.epsilon))


def _central(run: RunFile, mechanism: Mechanism, epsilon: float) -> Spent:
    """Strata and categories are disjoint; queries and columns are about the same respondent."""
    return sequential("", [_block(run, block, epsilon) for block in blocks(run, mechanism)])


def _block(run: RunFile, block: Block, epsilon: float) -> Spent:
    what = f"{block.query}({block.column.name.text})"
    cell = Spent(what, epsilon, run.neighbours)
    if run.neighbours is Neighbours.REPLACED_WITHIN:
        # The other row is of the same stratum; its category may be another one.
        return sequential(what, [cell] * min(2, len(block.cell_names)))
    return parallel(what, [cell] * len(block.cell_names) * len(run.strata_names))


def _sent(run: RunFile, mechanism: Mechanism, epsilon: float) -> Spent:
    """One message a column, about the same respondent; answers to all queries are made from the same messages."""
    return sequential(
        "",
        [
            Spent(column.name.text, law(column, mechanism, epsilon).real_epsilon, Neighbours.ANSWERS_REPLACED)
            for column in run.noised(mechanism)
        ],
    )


def _shuffling(run: RunFile, data: Data, mechanism: Mechanism, local: float) -> tuple[Shuffling, ...]:
    assert run.delta is not None  # noqa: S101 - a run file with a shuffled mechanism has a delta
    among = groups(run, data, mechanism)
    found: list[Shuffling] = []
    for number in range(len(run.strata_names)):
        rows = np.sort(among.rows[among.stratum == number])
        least, most = int(rows[0]), int(rows[-1])
        promises = {size: promise(local, size, run.delta) for size in set(rows.tolist())}
        hidden = sum(size for size in rows.tolist() if promises[size].is_amplified)
        found.append(Shuffling(int(rows.sum()), least, most, promises[least], promises[most], hidden))
    return tuple(found)
