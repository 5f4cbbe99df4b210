"""The first ledger: what each submitted pseudonym was charged, whether anybody in the census has it or not.

SECURITY: decided from the submitted set alone. Nothing of the registry is known in this module, so that neither a drop nor
the time it takes nor the space it needs can tell who is in the census.

Layout. Runs of ascending pseudonyms with a charge each; nobody is in two. The first run is what a snapshot left: its
pseudonyms are mapped from the file, in memory are 4 bytes for each and its directory (`pseudonyms`). Whoever is submitted for
the first time after it comes in a run with those of the same sample; of four such runs the two smallest become one, so that a
small sample never moves what large ones brought, and a search never goes through more than four runs. These have 20 bytes and
their directory for each pseudonym, until the next snapshot takes them over.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from census_node.parts import parts_of
from census_node.pseudonyms import Found, Halves, Index, halves_of

__all__ = ["Column", "Standing", "SubmittedLedger"]

Pseudonyms = npt.NDArray[np.uint8]
Units = npt.NDArray[np.uint32]
# Runs of those who came after the snapshot.
_MOST_NEW_RUNS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Ascending pseudonyms with a charge each."""

    high: Halves
    low: Halves
    units: Units

    @classmethod
    def empty(cls) -> Column:
        return cls(np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.uint32))


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """A column that can be searched."""

    index: Index
    units: Units

    @classmethod
    def of(cls, column: Column) -> _Run:
        return cls(Index(column.high, column.low), column.units)

    @property
    def column(self) -> Column:
        return Column(self.index.high, self.index.low, self.units)

    @property
    def size(self) -> int:
        return self.index.size

    def copy(self) -> _Run:
        """The same people with charges of their own."""
        return _Run(self.index, self.units.copy())


class Standing:
    """Where the pseudonyms of a sample stand as long as the runs are these: looked up all at once, or a part at a time.

    In each run the place of each of them, and whether it is there.
    """

    def __init__(self, runs: tuple[_Run, ...], size: int) -> None:
        self.runs = runs
        self.places = tuple((np.empty(size, np.uint32), np.empty(size, np.bool_)) for _ in runs)

    def locate(self, start: int, pseudonyms: Pseudonyms) -> None:
        """Look up a part, whose first pseudonym stands at place `start` of the sample. From any thread."""
        for run, (places, found) in zip(self.runs, self.places, strict=True):
            for part, at, there in run.index.find_each(pseudonyms):
                into = slice(start + part.start, start + part.stop)
                places[into], found[into] = at, there


class SubmittedLedger:
    """Charges by submitted pseudonym. Nothing lowers one."""

    def __init__(self, kept: Column | None = None) -> None:
        # Replaced as a whole, since somebody may be searching; the first is what was kept, empty or not.
        self._runs: tuple[_Run, ...] = (_Run.of(Column.empty() if kept is None else kept),)

    @property
    def size(self) -> int:
        """How many pseudonyms were ever charged."""
        return sum(run.size for run in self._runs)

    @property
    def new_size(self) -> int:
        """How many of them since the last snapshot."""
        return self.size - self._runs[0].size

    def locate(self, pseudonyms: Pseudonyms) -> Standing:
        """Where these pseudonyms stand. Needs no lock."""
        standing = self.standing(len(pseudonyms))
        standing.locate(0, pseudonyms)
        return standing

    def standing(self, size: int) -> Standing:
        """For a sample of this size, none of which is looked up yet. Needs no lock."""
        return Standing(self._runs, size)

    def is_current(self, standing: Standing) -> bool:
        """Whether that is where they stand now."""
        return standing.runs is self._runs

    def units_of(self, pseudonyms: Pseudonyms) -> Units:
        """What each of them was charged; 0 for one that never was."""
        return self.units_at(self.locate(pseudonyms))

    @staticmethod
    def units_at(standing: Standing) -> Units:
        """What each of those who stand there was charged; 0 for one that never was."""
        units = np.zeros(len(standing.places[0][0]), np.uint32)
        for part in parts_of(len(units)):
            for run, (at, found) in zip(standing.runs, standing.places, strict=True):
                if run.size:
                    charged = np.take(run.units, at[part], mode="clip")
                    # Nobody is in two runs. Every bit of what was charged to those who are in this one, without a choice for each.
                    charged &= (-found[part].view(np.int8)).astype(np.uint32)
                    units[part] |= charged
        return units

    def charge(
        self, pseudonyms: Pseudonyms, price: int, fits: Found | None = None, standing: Standing | None = None
    ) -> int:
        """Charge those of these ascending, distinct pseudonyms that fit; gives how many of them are new.

        `standing` is where they stand, if that is known; it is of no use once there are other runs.
        """
        if standing is None or not self.is_current(standing):
            standing = self.locate(pseudonyms)
        first_time = np.ones(len(pseudonyms), np.bool_) if fits is None else fits.copy()
        for run, (at, found) in zip(standing.runs, standing.places, strict=True):
            charged = found if fits is None else found & fits
            run.units[at if charged.all() else at[charged]] += np.uint32(price)
            first_time &= ~found
        new = int(np.count_nonzero(first_time))
        if new:
            high, low = halves_of(pseudonyms if new == len(pseudonyms) else pseudonyms[first_time])
            self._insert(_Run.of(Column(high, low, np.full(new, price, np.uint32))))
        return new

    def _insert(self, run: _Run) -> None:
        kept, *new = self._runs
        new = sorted([*new, run], key=lambda each: each.size, reverse=True)
        if len(new) > _MOST_NEW_RUNS:
            *new, second, smallest = new
            new.append(_Run.of(_merged(second, smallest)))
        self._runs = (kept, *new)

    def merged(self) -> Column:
        """Everybody, in one column of its own."""
        kept, *new = self._runs
        column = Column.empty()
        for run in new:
            column = _merged(run, _Run.of(column))
        return _merged(kept, _Run.of(column))

    def frozen(self) -> SubmittedLedger:
        """This ledger as it is now, whatever is charged meanwhile."""
        frozen = SubmittedLedger()
        frozen._runs = tuple(run.copy() for run in self._runs)
        return frozen

    def all_units(self) -> Units:
        """What each of them was charged, in no order that means anything."""
        return np.concatenate([run.units for run in self._runs])


def _merged(run: _Run, other: _Run) -> Column:
    """Both, in one column of its own."""
    at, into, column = run.index.places(other.index.high, other.index.low).astype(np.intp), run.column, other.column
    return Column(
        np.insert(into.high, at, column.high),
        np.insert(into.low, at, column.low),
        np.insert(into.units, at, column.units),
    )
