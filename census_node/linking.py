"""Linking a sample: which rows of the registry its pseudonyms have, and which census units; frame by frame as it comes.

SECURITY: before the charge, because the second ledger needs the units, and while the sample is still on its way. So nothing
of a row is looked at but its numbers, whoever is not found takes as long as whoever is, and what was found shows nowhere
until the charge is durable.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from broker_common.stages import stage
from census_node.linked import NOBODY, Linked
from census_node.registry import Registry

__all__ = ["LinkedSample", "Linking"]

Numbers = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False)
class LinkedSample:
    """A sample on one load: the units of its pseudonyms, and their rows; `NOBODY` where nobody in the registry has one."""

    load: str
    units: Linked
    rows: Numbers

    def linked_rows(self, chosen: npt.NDArray[np.bool_]) -> Numbers:
        """The rows of those chosen who are in the registry."""
        rows: Numbers = self.rows[chosen & (self.rows != NOBODY)]
        return rows


class Linking:
    """One sample on its way. Pieces may be added from several threads, in any order."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._pieces: dict[int, tuple[Linked, Numbers]] = {}

    def add(self, start: int, pseudonyms: npt.NDArray[np.uint8]) -> None:
        """Link a piece of the sample, whose first pseudonym stands at place `start` of it."""
        with stage("lookup"):
            self._pieces[start] = self._registry.link_rows(pseudonyms)

    def finish(self, pseudonyms: npt.NDArray[np.uint8]) -> LinkedSample:
        """The whole sample, every piece of which was added."""
        pieces = [piece for _, piece in sorted(self._pieces.items())]
        empty = np.empty(0, np.uint32)
        persons = np.concatenate([empty, *(linked.persons for linked, _ in pieces)])
        households = np.concatenate([empty, *(linked.households for linked, _ in pieces)])
        rows = np.concatenate([empty, *(rows for _, rows in pieces)])
        if len(rows) != len(pseudonyms):
            raise ValueError("a piece of the sample was not linked")
        return LinkedSample(self._registry.load, Linked(pseudonyms, persons, households), rows)
