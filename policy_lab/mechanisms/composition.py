"""Composition: what several answers spend on one respondent, as a record that documents print line by line.

Sequential: epsilons and deltas add up. Parallel: the answers are about disjoint strata. A respondent who cannot change
stratum, or whose row is added or removed, is in one of them only: the largest counts. A row that may be replaced by one of
another stratum is in two: the two largest add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from broker_common.language import phrase
from policy_lab.mechanisms.neighbours import Neighbours


class How(Enum):
    """How a record came about."""

    ALONE = "alone"
    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"
    PARALLEL_MOVING = "parallel_moving"

    @property
    def words(self) -> str:
        """The rule as a sentence for documents."""
        return _WORDS[self]


_WORDS = {
    How.ALONE: phrase("One answer."),
    How.SEQUENTIAL: phrase("All of these answers are about the same respondent: what they spend adds up."),
    How.PARALLEL: phrase(
        "These answers are about disjoint strata, and a respondent is in one: the largest part counts."
    ),
    How.PARALLEL_MOVING: phrase(
        "These answers are about disjoint strata, and a row may be replaced by one of another: the two largest parts add up."
    ),
}


@dataclass(frozen=True, slots=True)
class Spent:
    """The most that is spent on one respondent, and the parts that make it up."""

    what: str
    epsilon: float
    neighbours: Neighbours
    delta: float = 0.0
    how: How = How.ALONE
    parts: Sequence[Spent] = ()

    def __post_init__(self) -> None:
        if not (self.epsilon >= 0 and 0 <= self.delta <= 1):
            raise ValueError("nothing negative is spent, and a delta is a probability")

    def lines(self, depth: int = 0) -> Iterator[tuple[int, Spent]]:
        """This record and its parts, each with its depth, in the order in which they are printed."""
        yield depth, self
        for part in self.parts:
            yield from part.lines(depth + 1)


def sequential(what: str, parts: Sequence[Spent]) -> Spent:
    """Answers about the same respondent. `ValueError` if the parts have different neighbour relations."""
    return _composed(what, How.SEQUENTIAL, parts, len(parts))


def parallel(what: str, parts: Sequence[Spent]) -> Spent:
    """Answers about disjoint strata. `ValueError` if the parts have different neighbour relations."""
    if _relation(parts) is Neighbours.REPLACED:
        return _composed(what, How.PARALLEL_MOVING, parts, 2)
    return _composed(what, How.PARALLEL, parts, 1)


def _composed(what: str, how: How, parts: Sequence[Spent], touched: int) -> Spent:
    """Epsilon and delta are bounded one by one, so that the pair holds whichever parts a respondent is in."""
    epsilon = math.fsum(sorted(part.epsilon for part in parts)[-touched:])
    delta = math.fsum(sorted(part.delta for part in parts)[-touched:])
    return Spent(what, epsilon, _relation(parts), min(delta, 1.0), how, tuple(parts))


def _relation(parts: Sequence[Spent]) -> Neighbours:
    relations = {part.neighbours for part in parts}
    if len(relations) != 1:
        raise ValueError("parts that compose have one neighbour relation, and there is a part")
    return relations.pop()
