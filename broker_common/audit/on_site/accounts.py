"""Everybody's charges, computed a second time for an audit on site, with plain tables and nothing of the node's ledger.

    charged     by number, what each subject was charged: persons, or households where budgets are theirs
    names       ascending, the pseudonyms that were in a sample, each with the person it last belonged to

The rules are DESIGN's, written down once more: every linked person of a sample is charged who still fits, once however many of
their cards are in it; with a budget for each household its people in the sample are charged together, or none of them.

The tables hold the charges that should have been made, plus the counts that the census agency shows to have made anyway: where
these differ, they show how much can have been learned, not what its ledger admits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from broker_common.privacy.policy import Subject
from broker_common.values import PSEUDONYM_BYTES

Names: TypeAlias = npt.NDArray[np.bytes_]
# A mark for each person, by number.
Chosen: TypeAlias = npt.NDArray[np.bool_]
_Charges: TypeAlias = npt.NDArray[np.int64]
Numbers: TypeAlias = npt.NDArray[np.uint32]
_Pairs: TypeAlias = npt.NDArray[np.int64]
_NAME = np.dtype(f"S{PSEUDONYM_BYTES}")
# Where the ledger's 32 bits end; also the number of no person and no household.
_MOST = NOBODY = 2**32 - 1


def as_names(pseudonyms: npt.NDArray[np.uint8]) -> Names:
    """An (n, 16) array as one text of bytes for each."""
    return np.ascontiguousarray(pseudonyms).reshape(-1).view(_NAME)


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """A sample, ascending, with person and household of each pseudonym; `NOBODY` for those whom the registry does not have."""

    names: Names
    persons: Numbers
    households: Numbers

    def here(self, count: int) -> Chosen:
        """The persons, out of so many, with any card in the sample."""
        here = np.zeros(count, np.bool_)
        here[self.persons[self.persons != NOBODY]] = True
        return here


@dataclass(slots=True, eq=False)
class Accounts:
    """All charges to subjects, as one audit has followed them."""

    # How many numbers there are.
    persons: int = 0
    households: int = 0
    # Nobody's before the first charge.
    charged: _Charges = field(default_factory=lambda: np.zeros(0, np.int64))
    names: Names = field(init=False)
    # For each name its last known person. For each person the household, `NOBODY` where it was never seen.
    last_persons: Numbers = field(init=False)
    last_households: Numbers = field(init=False)
    homes: Numbers = field(init=False)
    # Whether that is so for everybody who was charged.
    is_followed: bool = field(init=False)

    def __post_init__(self) -> None:
        self.forget_names()

    def forget_names(self) -> None:
        self.names = np.empty(0, _NAME)
        self.last_persons, self.last_households = (np.zeros(0, np.uint32) for _ in range(2))
        self.homes = np.full(self.persons, NOBODY, np.uint32)
        self.is_followed = not self.people_charged

    def is_of(self, subject: Subject | None) -> bool:
        """Whether it is such subjects who were charged here; None before the first charge, when nobody was."""
        counts = {None: 0, "person": self.persons, "household": self.households}
        return len(self.charged) in {0, counts[subject]}

    # --- one charge ------------------------------------------------------------------------------------------------

    def decide(self, here: Chosen, homes: Numbers, *, price: int, room: int, subject: Subject) -> Chosen:
        """Who of those that are here is to be charged and counted. `room` is what anybody may be charged in all.

        `homes` has the household of each person, `NOBODY` for those without one; empty where persons are charged.
        """
        reached = self._charged(subject) + price * self._members(here, homes, subject)
        by_person = reached if subject == "person" else np.append(reached, 0)[self._clamped(homes)]
        return here & (by_person <= room)

    def charge(self, active: Chosen, homes: Numbers, *, price: int, subject: Subject) -> None:
        self.charged = np.minimum(self._charged(subject) + price * self._members(active, homes, subject), _MOST)

    def meet(self, sample: Members) -> None:
        """Everybody in a sample was seen to be whose they are in it."""
        # SECURITY: those too who were left out: a load may make a spent person's second card somebody else's.
        cards = np.flatnonzero(sample.persons != NOBODY)
        self.homes[sample.persons[cards]] = sample.households[cards]
        # Several people have one address: the first of them stands for it.
        names, first = np.unique(sample.names[cards], return_index=True)
        cards = cards[first]
        place, known = self._find(names)
        self.names = np.insert(self.names, place[~known], names[~known])
        self.last_persons = np.insert(self.last_persons, place[~known], NOBODY)
        self.last_households = np.insert(self.last_households, place[~known], NOBODY)
        place, known = self._find(names)
        self.last_persons[place[known]] = sample.persons[cards[known]]
        self.last_households[place[known]] = sample.households[cards[known]]

    def take_back(self, active: Chosen, homes: Numbers, *, price: int, subject: Subject) -> None:
        """Undo a charge, to find out what was charged before it; ValueError if it is not in this table."""
        before = self._charged(subject) - price * self._members(active, homes, subject)
        if int(self.charged.max(initial=0)) >= _MOST or int(before.min(initial=0)) < 0:
            raise ValueError("this table cannot be gone back in")
        self.charged = before

    def _members(self, chosen: Chosen, homes: Numbers, subject: Subject) -> _Charges:
        """How many of the chosen persons each subject has."""
        if subject == "person":
            return chosen.astype(np.int64)
        return np.bincount(self._clamped(homes)[chosen], minlength=self.households + 1)[:-1].astype(np.int64)

    def _clamped(self, homes: Numbers) -> Numbers:
        """Households by person; the number after the last one for nobody's."""
        return np.minimum(homes, np.uint32(self.households))

    def _charged(self, subject: Subject) -> _Charges:
        if len(self.charged):
            return self.charged
        return np.zeros(self.persons if subject == "person" else self.households, np.int64)

    def _find(self, names: Names) -> tuple[npt.NDArray[np.intp], Chosen]:
        """Where each name stands, or would stand, and whether it does."""
        place = np.searchsorted(self.names, names)
        known = np.zeros(len(names), np.bool_)
        inside = place < len(self.names)
        known[inside] = self.names[place[inside]] == names[inside]
        return place, known

    # --- loads and linkage keys ------------------------------------------------------------------------------------

    def grow(self, persons: int, households: int, subject: Subject | None) -> None:
        """A load has so many numbers; ValueError if it has fewer than there were. `subject` is None before the first charge."""
        if persons < self.persons or households < self.households:
            raise ValueError("a load has fewer subjects than the one before")
        if subject is not None and len(self.charged):
            more = (persons if subject == "person" else households) - len(self.charged)
            self.charged = np.append(self.charged, np.zeros(more, np.int64))
        self.homes = np.append(self.homes, np.full(persons - self.persons, NOBODY, np.uint32))
        self.persons, self.households = persons, households

    def inherit(self, heirs: Numbers, before: Numbers) -> None:
        """Each of `heirs` takes over what the subject `before` at the same place was charged until now."""
        if len(self.charged):
            np.add.at(self.charged, heirs, self.charged[before])
            np.minimum(self.charged, _MOST, out=self.charged)

    def see(self, persons: Numbers, households: Numbers, homes: Numbers) -> tuple[_Pairs, _Pairs]:
        """Every name is theirs from now on, and every person in this household, `NOBODY` who has left.

        Gives the pairs (subject, subject before) that follow. A household follows its people too, under any of their cards.
        """
        count = min(len(homes), len(self.homes))
        people = _moved(persons, self.last_persons)
        cards = _moved(households, self.last_households)
        return people, np.unique(np.concatenate([cards, _moved(homes[:count], self.homes[:count])]), axis=0)

    def step(self, steps: Sequence[Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.uint8]]]) -> None:
        pseudonyms = self.names.view(np.uint8).reshape(-1, PSEUDONYM_BYTES)
        for step in steps:
            pseudonyms = step(pseudonyms)
        names = as_names(pseudonyms)
        order = np.argsort(names, kind="stable")
        self.names = names[order]
        self.last_persons, self.last_households = self.last_persons[order], self.last_households[order]

    # --- comparing -------------------------------------------------------------------------------------------------

    def is_same(self, other: Accounts) -> bool:
        """Whether both hold the same charges of as many subjects."""
        counts = [(each.persons, each.households) for each in (self, other)]
        # Before the first charge there is no table, or one of nothing.
        is_empty = not self.charged.any() and not other.charged.any()
        return counts[0] == counts[1] and (is_empty or np.array_equal(self.charged, other.charged))

    @property
    def people_charged(self) -> int:
        """Subjects with a charge of their own."""
        return int(np.count_nonzero(self.charged))

    @property
    def most_charged(self) -> int:
        """The most that one subject was charged, without what everybody was."""
        return int(self.charged.max(initial=0))


def _moved(now: Numbers, last: Numbers) -> _Pairs:
    """The distinct pairs of those who were somebody else's before; the last one becomes that of now."""
    is_here = now != NOBODY
    moved = is_here & (last != NOBODY) & (now != last)
    pairs = np.unique(np.stack([now[moved], last[moved]], axis=1).astype(np.int64), axis=0)
    last[is_here] = now[is_here]
    return pairs
