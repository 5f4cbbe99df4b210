"""Random worlds for the desk: people with any number of cards at two agencies, households, values, and what was charged.

The same world as arrays, for the passes, and as sets and dictionaries, for the reference desk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from fakes.desk_arrays import MOST

from census_node.ledger.passes import JOINED, CardPlaces

_VALUES = 6
_NO_VALUE = 255
_MOST_FURTHER = 3


@dataclass(frozen=True, slots=True, eq=False)
class Agency:
    """Places of cards in one roster, both ways."""

    places: CardPlaces
    cards: dict[int, int]
    # How many are on the roster: they stand at its front.
    people: int


@dataclass(frozen=True, slots=True, eq=False)
class DeskWorld:
    """Everybody of a census."""

    people: int
    agencies: Sequence[Agency]
    homes: npt.NDArray[np.uint32]
    home_count: int
    values: npt.NDArray[np.uint8]

    def charges(self, generator: np.random.Generator, subjects: int) -> npt.NDArray[np.uint32]:
        """Some subjects without a charge, some just below the limit and at it, some between."""
        kinds = np.array([0, MOST, MOST - 1, MOST - 7, MOST // 2], np.uint32)
        return generator.choice(kinds, subjects)


def world_of(generator: np.random.Generator, people: int, declared: int, linked: float) -> DeskWorld:
    """`people` of whom a share is linked, with up to four cards each, in rosters of `declared` places, some taken."""
    homes = max(1, people // 3)
    values = generator.integers(0, _VALUES, people).astype(np.uint8)
    values[generator.random(people) < 0.1] = _NO_VALUE
    return DeskWorld(
        people,
        [_agency(generator, people, declared, linked) for _ in range(2)],
        # Some households are of the whole world, some are empty.
        np.minimum(generator.integers(0, homes + 2, people), homes - 1).astype(np.uint32),
        homes + 1,
        values,
    )


def _agency(generator: np.random.Generator, people: int, declared: int, linked: float) -> Agency:
    on_roster = int(generator.integers(1, declared + 1))
    free = iter(generator.permutation(on_roster).tolist())
    places = generator.integers(0, on_roster, people).astype(np.uint32)
    cards: dict[int, int] = {}
    further: list[tuple[int, int]] = []
    for person in np.flatnonzero(generator.random(people) < linked).tolist():
        first = next(free, None)
        if first is None:
            break
        places[person] = first | JOINED
        cards[first] = person
        for place, _ in zip(free, range(int(generator.integers(0, _MOST_FURTHER + 1))), strict=False):
            cards[place] = person
            further.append((person, place))
    persons, more = np.array(further, np.uint32).reshape(-1, 2).T
    card_places = CardPlaces.of(places, np.ascontiguousarray(persons), np.ascontiguousarray(more), declared)
    return Agency(card_places, cards, on_roster)
