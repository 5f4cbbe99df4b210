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

from broker_common.errors import RefusedError
from broker_common.stages import stage
from census_node.linked import NOBODY, Linked
from census_node.registry import Registry
from census_node.submitted_ledger import Standing, SubmittedLedger

__all__ = ["LinkedSample", "Linking"]

Numbers = npt.NDArray[np.uint32]
# For a sample that there is no memory for now.
_RETRY_SECONDS = 1


@dataclass(frozen=True, slots=True, eq=False)
class LinkedSample:
    """A sample on one load: the units of its pseudonyms, and their rows; `NOBODY` where nobody in the registry has one.

    And where they stood in the first ledger when the sample began to come.
    """

    load: str
    units: Linked
    rows: Numbers
    standing: Standing | None = None

    def linked_rows(self, chosen: npt.NDArray[np.bool_]) -> Numbers:
        """The rows of those chosen who are in the registry."""
        rows: Numbers = self.rows[chosen & (self.rows != NOBODY)]
        return rows


class Linking:
    """One sample on its way: `expect`, then its pieces, from several threads and in any order, then `finish`."""

    def __init__(self, registry: Registry, submitted: SubmittedLedger) -> None:
        self._registry = registry
        self._submitted = submitted
        self._places: _Places | None = None

    def expect(self, people: int) -> None:
        """So many are coming. Memory is taken as they come.

        Raises:
            RefusedError: BUSY, there is no memory for so many now.
        """
        try:
            self._places = _Places(people, self._submitted.standing(people))
        except MemoryError as error:
            # SECURITY: no verdict on the sample, which may be a good one: its size must not make a refusal.
            raise RefusedError("BUSY", retry_seconds=_RETRY_SECONDS) from error

    def add(self, start: int, pseudonyms: npt.NDArray[np.uint8]) -> None:
        """Link a piece of the sample, whose first pseudonym stands at place `start` of it."""
        places = self._expected
        with stage("lookup"):
            part = slice(start, start + len(pseudonyms))
            self._registry.link_into(pseudonyms, *(each[part] for each in places.numbers))
            places.standing.locate(start, pseudonyms)
        places.linked.append(len(pseudonyms))

    def add_all(self, pieces: Iterable[tuple[int, npt.NDArray[np.uint8]]]) -> None:
        """Link several pieces."""
        for start, pseudonyms in pieces:
            self.add(start, pseudonyms)

    def finish(self, pseudonyms: npt.NDArray[np.uint8]) -> LinkedSample:
        """The whole sample, every piece of which was added."""
        places = self._expected
        rows, persons, households = places.numbers
        if sum(places.linked) != len(pseudonyms) or len(rows) != len(pseudonyms):
            raise ValueError("a piece of the sample was not linked")
        return LinkedSample(self._registry.load, Linked(pseudonyms, persons, households), rows, places.standing)

    @property
    def _expected(self) -> _Places:
        if self._places is None:
            raise ValueError("nothing was expected")
        return self._places


class _Places:
    """What is found, at the place of each in its sample."""

    def __init__(self, people: int, standing: Standing) -> None:
        # Rows, persons, households.
        self.numbers = tuple(np.empty(people, np.uint32) for _ in range(3))
        self.standing = standing
        # How many each piece had.
        self.linked: list[int] = []
