"""The first ledger: what each submitted pseudonym was charged, whether anybody in the census has it or not.

SECURITY: decided from the submitted set alone. Nothing of the registry is known in this module, so that neither a drop nor
the time it takes nor the space it needs can tell who is in the census.

Layout. `_kept` is what a snapshot left, its pseudonyms mapped from the file and only its charges in memory: 4 bytes for
each. `_new` is who was submitted for the first time since. Both ascend by pseudonym, and nobody is in both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from census_node.pseudonyms import Halves, halves_of, locate, longest_run

__all__ = ["Column", "SubmittedLedger"]

Pseudonyms = npt.NDArray[np.uint8]
Units = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Ascending pseudonyms with a charge each."""

    high: Halves
    low: Halves
    units: Units

    @classmethod
    def empty(cls) -> Column:
        return cls(np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.uint32))

    def copy(self) -> Column:
        """The same people with charges of its own."""
        return Column(self.high, self.low, self.units.copy())


class SubmittedLedger:
    """Charges by submitted pseudonym. Nothing lowers one."""

    def __init__(self, kept: Column | None = None, new: Column | None = None) -> None:
        self._kept = Column.empty() if kept is None else kept
        self._new = Column.empty() if new is None else new
        self._kept_run = longest_run(self._kept.high)
        self._new_run = longest_run(self._new.high)

    @property
    def size(self) -> int:
        """How many pseudonyms were ever charged."""
        return len(self._kept.high) + len(self._new.high)

    @property
    def new_size(self) -> int:
        """How many of them since the last snapshot."""
        return len(self._new.high)

    def units_of(self, pseudonyms: Pseudonyms) -> Units:
        """What each of them was charged; 0 for one that never was."""
        high, low = halves_of(pseudonyms)
        units = np.zeros(len(high), np.uint32)
        for column, run in ((self._kept, self._kept_run), (self._new, self._new_run)):
            at, found = locate(column.high, column.low, run, high, low)
            units[found] = column.units[at[found]]
        return units

    def charge(self, pseudonyms: Pseudonyms, price: int) -> int:
        """Charge each of these ascending, distinct pseudonyms; gives how many of them are new."""
        high, low = halves_of(pseudonyms)
        kept_at, in_kept = locate(self._kept.high, self._kept.low, self._kept_run, high, low)
        new_at, in_new = locate(self._new.high, self._new.low, self._new_run, high, low)
        self._kept.units[kept_at[in_kept]] += np.uint32(price)
        self._new.units[new_at[in_new]] += np.uint32(price)
        first_time = ~(in_kept | in_new)
        if first_time.any():
            self._insert(new_at[first_time], high[first_time], low[first_time], price)
        return int(np.count_nonzero(first_time))

    def _insert(self, at: npt.NDArray[np.intp], high: Halves, low: Halves, price: int) -> None:
        new = self._new
        self._new = Column(
            np.insert(new.high, at, high), np.insert(new.low, at, low), np.insert(new.units, at, np.uint32(price))
        )
        self._new_run = longest_run(self._new.high)

    def merged(self) -> Column:
        """Everybody, in one column of its own."""
        kept, new = self._kept, self._new
        at, _ = locate(kept.high, kept.low, self._kept_run, new.high, new.low)
        return Column(
            np.insert(kept.high, at, new.high),
            np.insert(kept.low, at, new.low),
            np.insert(kept.units, at, new.units),
        )

    def frozen(self) -> SubmittedLedger:
        """This ledger as it is now, whatever is charged meanwhile."""
        return SubmittedLedger(self._kept.copy(), self._new.copy())

    def all_units(self) -> Units:
        """What each of them was charged, in no order that means anything."""
        return np.concatenate([self._kept.units, self._new.units])
