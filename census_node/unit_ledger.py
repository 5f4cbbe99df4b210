"""The second ledger: what each census unit was charged, a person and a household alike.

Both are charged for every answer that counts somebody; the policy says which of them decides. A person is charged once
for an answer, however many of their cards are in the sample, and a household once for each of its people who are. Charges
are summed in 64 bits and saturate at the end of 32, far beyond every cap.

A unit keeps its number and its charge for ever, in no load or in every one. When a card's unit becomes another one, that
other one takes over what the unit before was charged: whoever moves does not leave what was learned behind.

Layout. A charge of 4 bytes for each number ever given to a person and to a household, and after the last one a place that is
nobody's: numbers that no unit has end there. SECURITY: so that what is done for a card takes as long whoever has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from broker_common.privacy.policy import Unit
from census_node.parts import parts_of

__all__ = ["Numbers", "UnitLedger", "Wanted", "within"]

Numbers: TypeAlias = npt.NDArray[np.uint32]
Chosen: TypeAlias = npt.NDArray[np.bool_]
_MOST = 2**32 - 1
_HALF = np.uint64(32)
# Shuffles numbers below a power of two.
_ODD = np.uint32(0x9E3779B1)


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """Cards of a sample by their units, and which of them it is about."""

    persons: Numbers
    households: Numbers
    chosen: Chosen


@dataclass(frozen=True, slots=True, eq=False)
class _Homes:
    """Cards in order of their households: whose household it is, and the how manieth distinct person of it comes with it.

    So that with the last card of a household comes how many people of it there are.
    """

    households: Numbers
    members: Numbers


class UnitLedger:
    """Charges by number. Nothing lowers one."""

    def __init__(self, persons: Numbers | None = None, households: Numbers | None = None) -> None:
        none = np.empty(0, np.uint32)
        self._persons = _with_nobodys(none if persons is None else persons, 0)
        self._households = _with_nobodys(none if households is None else households, 0)

    @property
    def persons(self) -> Numbers:
        """What each person was charged."""
        return self._persons[:-1]

    @property
    def households(self) -> Numbers:
        """What each household was charged."""
        return self._households[:-1]

    def grow(self, person_count: int, household_count: int) -> None:
        """There are so many numbers now."""
        self._persons = _grown(self.persons, person_count)
        self._households = _grown(self.households, household_count)

    def of_persons(self, persons: Numbers) -> Numbers:
        """What each of these persons was charged. What is said of a number that no person has means nothing."""
        charged = np.empty(len(persons), np.uint32)
        for part in parts_of(len(persons)):
            np.take(self._persons, persons[part], out=charged[part], mode="clip")
        return charged

    def fitting_households(self, wanted: Wanted, *, price: int, room: int) -> Chosen:
        """Which of the chosen cards may be counted: those whose whole household fits, its people in the sample counted.

        `room` is what a unit may be charged in all, this answer included. What is said of other cards means nothing.
        """
        homes = _by_household(wanted)
        places = _places(self._households, homes.households)
        charged = self._households[places] + homes.members * np.int64(price)
        fits = np.empty(len(self._households), np.bool_)
        # The last card of each household stays, which comes with all its people.
        fits[places] = charged <= room
        return np.take(fits, wanted.households, mode="clip")

    def charge(self, wanted: Wanted, price: int, before: Numbers | None = None) -> None:
        """Charge the chosen cards' persons and households. `before` is what the persons were charged, where that is known."""
        before = self.of_persons(wanted.persons) if before is None else before
        for part in parts_of(len(before)):
            # Whoever has several cards has the same charge before and after at each of them.
            after = np.minimum(before[part], np.uint32(_MOST - price)) + np.uint32(price)
            persons = _or_other(wanted.persons[part], wanted.chosen[part], np.uint32(_MOST))
            self._persons[_places(self._persons, persons)] = after
        homes = _by_household(wanted)
        places = _places(self._households, homes.households)
        charged = np.minimum(self._households[places] + homes.members * np.int64(price), _MOST).astype(np.uint32)
        # The last card of each household stays, which comes with all its people.
        self._households[places] = charged

    def take_over(self, unit: Unit, numbers: Numbers, before: Numbers) -> None:
        """Each of `numbers` is charged what the unit `before` at the same place was; all as it stood at the start."""
        units = self.persons if unit == "person" else self.households
        grown = np.zeros(len(units), np.int64)
        np.add.at(grown, numbers, units[before].astype(np.int64))
        units[:] = np.minimum(units + grown, _MOST).astype(np.uint32)


def within(units: Numbers, price: int, room: int) -> Chosen:
    """Who may be charged a price where everybody may be charged `room` in all."""
    left = room - price
    if left < 0:
        return np.zeros(len(units), np.bool_)
    return units <= np.uint32(min(left, _MOST))


def _by_household(wanted: Wanted) -> _Homes:
    """The cards in order of their households; those that are not chosen have numbers that nobody has, each its own.

    SECURITY: what is done with them takes as long as for anybody else. Left out, how long a sample takes would tell how many
    of it are linked and how many were dropped.
    """
    nobody = _nobodies(len(wanted.chosen))
    cards = _or_other(wanted.households, wanted.chosen, nobody).astype(np.uint64)
    cards <<= _HALF
    cards |= _or_other(wanted.persons, wanted.chosen, nobody)
    cards.sort()
    households = (cards >> _HALF).astype(np.uint32)
    people = np.cumsum(_is_other(cards), dtype=np.uint32)
    before = np.maximum.accumulate(_is_other(households) * (people - np.uint32(1)))
    return _Homes(households, people - before)


def _places(units: Numbers, numbers: Numbers) -> npt.NDArray[np.intp]:
    """Where numbers stand; those that no unit has, in nobody's place."""
    return np.minimum(numbers, np.uint32(len(units) - 1)).astype(np.intp)


def _is_other(ascending: npt.NDArray[np.unsignedinteger]) -> Chosen:
    """Whether each is another one than the one before it."""
    is_other = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=is_other[1:])
    return is_other


def _or_other(numbers: Numbers, chosen: Chosen, other: Numbers | np.uint32) -> Numbers:
    """These numbers where they are chosen, and the other ones elsewhere; without a choice for each of them."""
    mask = (-chosen.view(np.int8)).astype(np.uint32)
    return other ^ ((numbers ^ other) & mask)


def _nobodies(size: int) -> Numbers:
    """Numbers that no unit has, all different. In no order, as units are: sorting takes less long for what is sorted."""
    bits = size.bit_length()
    spread = np.arange(size, dtype=np.uint32)
    for _ in range(2):
        # Each step takes numbers of so many bits to others, no two to one.
        spread *= _ODD
        spread &= np.uint32((1 << bits) - 1)
        spread ^= spread >> np.uint32((bits + 1) // 2)
    return np.uint32(_MOST) - spread


def _with_nobodys(units: Numbers, more: int) -> Numbers:
    """A copy with so many more units and nobody's place after them."""
    return np.concatenate([units, np.zeros(more + 1, np.uint32)])


def _grown(units: Numbers, count: int) -> Numbers:
    if count < len(units):
        raise ValueError("a unit keeps its number for ever")
    return _with_nobodys(units, count - len(units))
