"""The second ledger: what each census unit was charged, a person and a household alike.

Both are charged for every answer that counts somebody; the policy says which of them decides. A person is charged once
for an answer, however many of their cards are in the sample, and a household once for each of its people who are. Charges
are summed in 64 bits and saturate at the end of 32, far beyond every cap.

A unit keeps its number and its charge for ever, in no load or in every one. When a card's unit becomes another one, that
other one takes over what the unit before was charged: whoever moves does not leave what was learned behind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from broker_common.privacy.policy import Unit

__all__ = ["Numbers", "UnitCharge", "UnitLedger"]

Numbers: TypeAlias = npt.NDArray[np.uint32]
_MOST = 2**32 - 1


@dataclass(frozen=True, slots=True, eq=False)
class UnitCharge:
    """Who is charged for one answer: distinct persons, distinct households, and how many of the persons each has."""

    persons: Numbers
    households: Numbers
    members: npt.NDArray[np.int64]


class UnitLedger:
    """Charges by number. Nothing lowers one."""

    def __init__(self, persons: Numbers | None = None, households: Numbers | None = None) -> None:
        self.persons = np.zeros(0, np.uint32) if persons is None else persons
        self.households = np.zeros(0, np.uint32) if households is None else households

    def grow(self, person_count: int, household_count: int) -> None:
        """There are so many numbers now."""
        self.persons = _grown(self.persons, person_count)
        self.households = _grown(self.households, household_count)

    def fitting(
        self, persons: Numbers, households: Numbers, *, price: int, room: int, unit: Unit
    ) -> npt.NDArray[np.bool_]:
        """Which of these linked cards, given by their units, may be counted: those whose whole unit fits.

        `room` is what a unit may be charged in all, this answer included.
        """
        if unit == "person":
            return self.persons[persons].astype(np.int64) + price <= room
        of_card, charge = _charge_of(persons, households)
        fits = self.households[charge.households].astype(np.int64) + price * charge.members <= room
        return fits[of_card]

    def charge_of(self, persons: Numbers, households: Numbers) -> UnitCharge:
        """Who is charged when these linked cards, given by their units, are counted."""
        return _charge_of(persons, households)[1]

    def charge(self, charge: UnitCharge, price: int) -> None:
        _add(self.persons, charge.persons, np.int64(price))
        _add(self.households, charge.households, price * charge.members)

    def take_over(self, unit: Unit, numbers: Numbers, before: Numbers) -> None:
        """Each of `numbers` is charged what the unit `before` at the same place was; all as it stood at the start."""
        units = self.persons if unit == "person" else self.households
        grown = np.zeros(len(units), np.int64)
        np.add.at(grown, numbers, units[before].astype(np.int64))
        units[:] = np.minimum(units + grown, _MOST).astype(np.uint32)


def _charge_of(persons: Numbers, households: Numbers) -> tuple[npt.NDArray[np.intp], UnitCharge]:
    """For each card the place of its household in the charge, and the charge."""
    distinct, first = np.unique(persons, return_index=True)
    homes, members = np.unique(households[first], return_counts=True)
    charge = UnitCharge(distinct.astype(np.uint32), homes.astype(np.uint32), members.astype(np.int64))
    return np.searchsorted(homes, households), charge


def _add(units: Numbers, numbers: Numbers, charges: npt.NDArray[np.int64] | np.int64) -> None:
    units[numbers] = np.minimum(units[numbers].astype(np.int64) + charges, _MOST).astype(np.uint32)


def _grown(units: Numbers, count: int) -> Numbers:
    if count < len(units):
        raise ValueError("a unit keeps its number for ever")
    return np.concatenate([units, np.zeros(count - len(units), np.uint32)])
