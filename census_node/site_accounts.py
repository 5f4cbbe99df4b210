"""What everybody was charged, worked out a second time for an audit on site: plain tables, and nothing of `ledgers` in them.

    names       every pseudonym that was ever charged, ascending, with what it was charged
    persons     by number, what each person was charged; `households` the same

The rules are DESIGN's, written down once more: a pseudonym is charged if it fits by itself; of those charged and linked the
whole unit fits or drops; every linked person who is counted is charged once, and their household once for each of them.

What is charged is what should have been, and beside it what the census agency shows to have counted anyhow: where it did
otherwise, the tables say how much can have been learned, not what its ledgers admit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from broker_common.values import PSEUDONYM_BYTES
from census_node.linked import NOBODY

__all__ = ["Accounts", "Members", "Names", "as_names"]

Names: TypeAlias = npt.NDArray[np.bytes_]
Chosen: TypeAlias = npt.NDArray[np.bool_]
_Charges: TypeAlias = npt.NDArray[np.int64]
_Numbers: TypeAlias = npt.NDArray[np.uint32]
_Pairs: TypeAlias = npt.NDArray[np.int64]
_NAME = np.dtype(f"S{PSEUDONYM_BYTES}")
# Where the ledgers' 32 bits end.
_MOST = 2**32 - 1


def as_names(pseudonyms: npt.NDArray[np.uint8]) -> Names:
    """An (n, 16) array as one text of bytes for each."""
    return np.ascontiguousarray(pseudonyms).reshape(-1).view(_NAME)


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """A sample, ascending, with the units of its pseudonyms; `NOBODY` for those whom the registry does not have."""

    names: Names
    persons: _Numbers
    households: _Numbers


@dataclass(slots=True, eq=False)
class Accounts:
    """All charges to persons, as one audit has followed them."""

    names: Names = field(default_factory=lambda: np.empty(0, _NAME))
    submitted: _Charges = field(default_factory=lambda: np.zeros(0, np.int64))
    persons: _Charges = field(default_factory=lambda: np.zeros(0, np.int64))
    households: _Charges = field(default_factory=lambda: np.zeros(0, np.int64))
    # By health agency: how many pseudonyms it was the first to submit; None where that is not known.
    introduced: dict[str, int] | None = field(default_factory=dict)
    # By name: the units that it was last seen to have, `NOBODY` where it never was. By person: the household.
    last_persons: _Numbers = field(init=False)
    last_households: _Numbers = field(init=False)
    homes: _Numbers = field(init=False)
    # Whether that is so for everybody who was charged.
    is_followed: bool = field(init=False)

    def __post_init__(self) -> None:
        self.forget_units()

    def forget_units(self) -> None:
        """Nobody was seen to have any unit."""
        self.last_persons, self.last_households = (np.full(len(self.names), NOBODY, np.uint32) for _ in range(2))
        self.homes = np.full(len(self.persons), NOBODY, np.uint32)
        self.is_followed = not self.people_charged

    # --- one charge ------------------------------------------------------------------------------------------------

    def decide(
        self, sample: Members, *, price: int, room: int, unit: Literal["person", "household"]
    ) -> tuple[Chosen, Chosen]:
        """Who of a sample is to be charged, and who of them is to be counted. `room` is what anybody may be charged in all."""
        fits = self._charged(sample.names) + price <= room
        active = fits.copy()
        cards = np.flatnonzero(fits & (sample.persons != NOBODY))
        persons, households = sample.persons[cards], sample.households[cards]
        if unit == "person":
            active[cards] = self.persons[persons] + price <= room
        else:
            members = self._members(persons, households)
            active[cards] = self.households[households] + price * members[households] <= room
        return fits, active

    def charge(self, sample: Members, fits: Chosen, active: Chosen, *, price: int, organisation: str) -> None:
        """Charge everybody chosen by `fits`, and the units of everybody chosen by `active`."""
        names = sample.names[fits]
        place, known = self._find(names)
        self.submitted[place[known]] += price
        if not known.all():
            self.names = np.insert(self.names, place[~known], names[~known])
            self.submitted = np.insert(self.submitted, place[~known], price)
            self.last_persons = np.insert(self.last_persons, place[~known], NOBODY)
            self.last_households = np.insert(self.last_households, place[~known], NOBODY)
        if self.introduced is not None:
            self.introduced[organisation] = self.introduced.get(organisation, 0) + int(np.count_nonzero(~known))
        place, known = self._find(sample.names)
        is_linked = sample.persons != NOBODY
        self.last_persons[place[known & is_linked]] = sample.persons[known & is_linked]
        self.last_households[place[known & is_linked]] = sample.households[known & is_linked]
        self.homes[sample.persons[is_linked]] = sample.households[is_linked]
        cards = np.flatnonzero(active & is_linked)
        is_charged = np.zeros(len(self.persons), np.bool_)
        is_charged[sample.persons[cards]] = True
        self.persons = np.minimum(self.persons + price * is_charged, _MOST)
        members = self._members(sample.persons[cards], sample.households[cards])
        self.households = np.minimum(self.households + price * members, _MOST)

    def take_back(self, sample: Members, fits: Chosen, active: Chosen, *, price: int) -> None:
        """Undo a charge, to find out what was charged before it; ValueError if it is not in these tables.

        Who introduced whom is not known any more.
        """
        place, known = self._find(sample.names[fits])
        cards = np.flatnonzero(active & (sample.persons != NOBODY))
        persons, households = sample.persons[cards], sample.households[cards]
        for units, charges in ((persons, self.persons), (households, self.households)):
            if int(units.max(initial=0)) >= max(len(charges), 1) or int(charges.max(initial=0)) >= _MOST:
                raise ValueError("these tables cannot be gone back in")
        self.submitted[place[known]] -= price
        self.persons[np.unique(persons)] -= price
        self.households -= price * self._members(persons, households)
        if not known.all() or any(
            int(charges.min(initial=0)) < 0 for charges in (self.submitted, self.persons, self.households)
        ):
            raise ValueError("less is charged than this charge alone")
        self.introduced = None

    def without_strangers(self) -> Accounts:
        """The same without names that were charged nothing."""
        charged = self.submitted > 0
        return Accounts(self.names[charged], self.submitted[charged], self.persons, self.households, self.introduced)

    def _members(self, persons: _Numbers, households: _Numbers) -> _Charges:
        """How many distinct persons of these cards each household has."""
        home = np.full(len(self.persons), -1, np.int64)
        # The first card of a person says where they live; the last one to be written stays.
        home[persons[::-1]] = households[::-1]
        return np.bincount(home[home >= 0], minlength=len(self.households)).astype(np.int64)

    def _charged(self, names: Names) -> _Charges:
        place, known = self._find(names)
        charged = np.zeros(len(names), np.int64)
        charged[known] = self.submitted[place[known]]
        return charged

    def _find(self, names: Names) -> tuple[npt.NDArray[np.intp], Chosen]:
        """Where each name stands, or would stand, and whether it does."""
        place = np.searchsorted(self.names, names)
        known = np.zeros(len(names), np.bool_)
        inside = place < len(self.names)
        known[inside] = self.names[place[inside]] == names[inside]
        return place, known

    # --- loads and linkage keys ------------------------------------------------------------------------------------

    def grow(self, persons: int, households: int) -> None:
        """A load has so many numbers; ValueError if it has fewer than there were."""
        if persons < len(self.persons) or households < len(self.households):
            raise ValueError("a load has fewer units than the one before")
        self.persons = np.concatenate([self.persons, np.zeros(persons - len(self.persons), np.int64)])
        self.households = np.concatenate([self.households, np.zeros(households - len(self.households), np.int64)])
        self.homes = np.concatenate([self.homes, np.full(persons - len(self.homes), NOBODY, np.uint32)])

    def inherit(self, unit: Literal["person", "household"], heirs: _Numbers, before: _Numbers) -> None:
        """Each of `heirs` takes over what the unit `before` at the same place was charged until now."""
        charges = self.persons if unit == "person" else self.households
        np.add.at(charges, heirs, charges[before])
        np.minimum(charges, _MOST, out=charges)

    def see(self, persons: _Numbers, households: _Numbers, homes: _Numbers) -> tuple[_Pairs, _Pairs]:
        """Every name has these units from now on, and every person this household, `NOBODY` who has left.

        Gives the pairs (unit, unit before) that follow. A household follows its people too: by whichever card they go.
        """
        count = min(len(homes), len(self.homes))
        people = _moved(persons, self.last_persons)
        cards = _moved(households, self.last_households)
        return people, np.unique(np.concatenate([cards, _moved(homes[:count], self.homes[:count])]), axis=0)

    def step(self, steps: Sequence[Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.uint8]]]) -> None:
        """Everybody goes by their next pseudonym."""
        pseudonyms = self.names.view(np.uint8).reshape(-1, PSEUDONYM_BYTES)
        for step in steps:
            pseudonyms = step(pseudonyms)
        names = as_names(pseudonyms)
        order = np.argsort(names, kind="stable")
        self.names, self.submitted = names[order], self.submitted[order]
        self.last_persons, self.last_households = self.last_persons[order], self.last_households[order]

    # --- comparing -------------------------------------------------------------------------------------------------

    def is_same(self, other: Accounts, *, by_name: bool = True) -> bool:
        """Whether both hold the same charges; `by_name` false: under whichever pseudonyms."""
        pairs = [(self.persons, other.persons), (self.households, other.households)]
        if by_name:
            pairs.append((self.submitted, other.submitted))
        else:
            pairs.append((np.sort(self.submitted), np.sort(other.submitted)))
        same = all(np.array_equal(mine, theirs) for mine, theirs in pairs)
        if None not in (self.introduced, other.introduced):
            same = same and _counts(self.introduced) == _counts(other.introduced)
        return same and (not by_name or np.array_equal(self.names, other.names))

    @property
    def people_charged(self) -> int:
        """Pseudonyms with a charge of their own."""
        return int(np.count_nonzero(self.submitted))

    def most_charged(self, unit: Literal["person", "household"]) -> int:
        """The most that one pseudonym, or its unit, was charged, without what everybody was."""
        units = self.persons if unit == "person" else self.households
        return max(int(charges.max(initial=0)) for charges in (self.submitted, units))


def _moved(now: _Numbers, last: _Numbers) -> _Pairs:
    """The distinct pairs of those who had another unit before; the last one becomes that of now."""
    is_here = now != NOBODY
    moved = is_here & (last != NOBODY) & (now != last)
    pairs = np.unique(np.stack([now[moved], last[moved]], axis=1).astype(np.int64), axis=0)
    last[is_here] = now[is_here]
    return pairs


def _counts(introduced: dict[str, int] | None) -> dict[str, int]:
    return {agency: count for agency, count in (introduced or {}).items() if count}
