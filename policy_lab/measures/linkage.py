"""The linkage attack: somebody knows a person's unchanged columns, perhaps true answers too, and looks for the row.

Local noise changes the answers; columns such as province, sex and age group are sent as they are. Rows that agree in them
are the candidates. Who knows nothing else guesses among them; who knows true answers picks the row whose reported answers
are likeliest, because the law of the noise is public.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policy_lab.measures.columns import Array

# The log of how likely each reported value is, if this is the true one.
Law = Callable[[float, Array], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Known:
    """One column whose true values the attacker knows, what was reported, and the public law between them."""

    truth: Array
    reported: Array
    law: Law


@dataclass(frozen=True, slots=True)
class Linked:
    """Shares of the people attacked."""

    people: int
    # Nobody else has these unchanged columns: found with certainty, whatever the noise.
    alone: float
    # Found by an attacker who knows the unchanged columns and guesses among their rows.
    by_unchanged: float
    # Found by an attacker who knows true answers too; None if none were given.
    by_answers: float | None


def groups_of(columns: Sequence[Array]) -> NDArray[np.int64]:
    """A number for each row: rows that agree in every column have the same one."""
    codes = np.column_stack([np.unique(column, return_inverse=True)[1].reshape(-1) for column in columns])
    return np.unique(codes, axis=0, return_inverse=True)[1].astype(np.int64).reshape(-1)


def reidentified(groups: NDArray[np.int64], attacked: NDArray[np.int64], answers: Sequence[Known] = ()) -> Linked:
    """How many of the `attacked` rows are found again; equally likely candidates share one guess."""
    sizes = np.bincount(groups)[groups[attacked]]
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], groups[attacked])
    found = [
        _found(person, order[start : start + size], answers)
        for person, start, size in zip(attacked, starts, sizes, strict=True)
        if answers
    ]
    return Linked(
        people=len(attacked),
        alone=float((sizes == 1).mean()),
        by_unchanged=float((1 / sizes).mean()),
        by_answers=float(np.mean(found)) if answers else None,
    )


def category_law(probabilities: NDArray[np.float64]) -> Law:
    """`probabilities[true, reported]` of randomised response."""
    with np.errstate(divide="ignore"):
        logs = np.log(probabilities)
    return lambda true, reported: np.asarray(logs[int(true), reported.astype(np.int64)], dtype=np.float64)


def laplace_law(scale: float) -> Law:
    """Plain Laplace noise of this scale."""
    return lambda true, reported: np.asarray(-np.abs(reported - true) / scale, dtype=np.float64)


def _found(person: np.int64, rows: NDArray[np.int64], answers: Sequence[Known]) -> float:
    likelihood = np.zeros(len(rows))
    for known in answers:
        likelihood += known.law(known.truth[person], known.reported[rows])
    best = np.isclose(likelihood, likelihood.max(), rtol=0, atol=1e-9)
    return float(best[rows == person].any() / best.sum())
