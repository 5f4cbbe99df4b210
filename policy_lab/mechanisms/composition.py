"""Composition: what several answers spend on one respondent, as a record that names its parts.

Sequential: epsilons and deltas add up. Parallel: the answers are about disjoint strata. A respondent who cannot change
stratum, or whose row is added or removed, is in one of them only: the largest counts. A row that may be replaced by one of
another stratum is in two: the two largest add up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from policy_lab.mechanisms.neighbours import Neighbours


@dataclass(frozen=True, slots=True)
class Spent:
    """The most that is spent on one respondent, and the parts that make it up."""

    what: str
    epsilon: float
    neighbours: Neighbours
    delta: float = 0.0
    parts: Sequence[Spent] = ()

    def __post_init__(self) -> None:
        if not (self.epsilon >= 0 and 0 <= self.delta <= 1):
            raise ValueError("nothing negative is spent, and a delta is a probability")


def sequential(what: str, parts: Sequence[Spent]) -> Spent:
    """Answers about the same respondent. `ValueError` if the parts have different neighbour relations."""
    return _composed(what, parts, len(parts))


def parallel(what: str, parts: Sequence[Spent]) -> Spent:
    """Answers about disjoint strata. `ValueError` if the parts have different neighbour relations."""
    return _composed(what, parts, 2 if _relation(parts) is Neighbours.REPLACED else 1)


def _composed(what: str, parts: Sequence[Spent], touched: int) -> Spent:
    """Epsilon and delta are bounded one by one, so that the pair holds whichever parts a respondent is in."""
    epsilon = math.fsum(sorted(part.epsilon for part in parts)[-touched:])
    delta = math.fsum(sorted(part.delta for part in parts)[-touched:])
    return Spent(what, epsilon, _relation(parts), min(delta, 1.0), tuple(parts))


def _relation(parts: Sequence[Spent]) -> Neighbours:
    relations = {part.neighbours for part in parts}
    if len(relations) != 1:
        raise ValueError("parts that compose have one neighbour relation, and there is a part")
    return relations.pop()
