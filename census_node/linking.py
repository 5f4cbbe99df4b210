"""Linking a sample piece by piece as it comes: its rows of the registry, its census units, its places in the first ledger.

SECURITY: before the charge, because the second ledger needs the units, and while the sample is still on its way. So nothing
of a row is looked at but its numbers, whoever is not found takes as long as whoever is, and what was found shows nowhere
until the charge is durable. The first ledger's half knows nothing of the registry's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from broker_common.stages import stage
from census_node.linked import NOBODY, Linked
from census_node.registry import Registry
from census_node.submitted_ledger import Standing, SubmittedLedger

__all__ = ["LinkedSample", "Linking"]

Numbers = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False)
class LinkedSample:
    """A sample on one load: the units of its pseudonyms, and their rows; `NOBODY` where nobody in the registry has one.

    And where they stood in the first ledger; None if that has changed on the way.
    """

    load: str
    units: Linked
    rows: Numbers
    standing: Standing | None = None

    def linked_rows(self, chosen: npt.NDArray[np.bool_]) -> Numbers:
        """The rows of those chosen who are in the registry."""
        rows: Numbers = self.rows[chosen & (self.rows != NOBODY)]
        return rows


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    rows: Numbers
    persons: Numbers
    households: Numbers
    standing: Standing


class Linking:
    """One sample on its way. Pieces may be added from several threads, in any order."""

    def __init__(self, registry: Registry, submitted: SubmittedLedger) -> None:
        self._registry = registry
        self._submitted = submitted
        self._pieces: dict[int, _Piece] = {}

    def add(self, start: int, pseudonyms: npt.NDArray[np.uint8]) -> None:
        """Link a piece of the sample, whose first pseudonym stands at place `start` of it."""
        with stage("lookup"):
            self._pieces[start] = _Piece(*self._registry.link(pseudonyms), self._submitted.locate(pseudonyms))

    def add_all(self, pieces: Iterable[tuple[int, npt.NDArray[np.uint8]]]) -> None:
        """Link several pieces."""
        for start, pseudonyms in pieces:
            self.add(start, pseudonyms)

    def finish(self, pseudonyms: npt.NDArray[np.uint8]) -> LinkedSample:
        """The whole sample, every piece of which was added."""
        with stage("lookup"):
            pieces = [piece for _, piece in sorted(self._pieces.items())]
            empty = np.empty(0, np.uint32)
            rows = np.concatenate([empty, *(piece.rows for piece in pieces)])
            persons = np.concatenate([empty, *(piece.persons for piece in pieces)])
            households = np.concatenate([empty, *(piece.households for piece in pieces)])
            if len(rows) != len(pseudonyms):
                raise ValueError("a piece of the sample was not linked")
            return LinkedSample(
                load=self._registry.load,
                units=Linked(pseudonyms, persons, households),
                rows=rows,
                standing=Standing.joined([piece.standing for piece in pieces]),
            )
