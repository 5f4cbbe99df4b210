"""Joining a roster with a load of the registry: where everybody's card stands in the roster.

Invariants. For every person number there is one place. The top bit says whether the person's card is there. Otherwise the place is
pseudo-random among the used ones, so that a gather over everybody touches the same memory whether or not people are linked. Further
cards of somebody stand in a short list, ascending by person. A person with a card in the roster and in the load is joined, and
nobody else. Where households are linked, the card is their address: all who have it have its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from broker_common.values import Randomness
from census_node.ledger.passes import JOINED, CardPlaces, Numbers
from census_node.ledger.subjects import Halves, find_ascending, halves_of
from census_node.registry.registry import Registry
from census_node.registry.rosters import KeptRoster

_Further: TypeAlias = tuple[Numbers, Numbers]
_IS_JOINED = np.uint32(JOINED)
# Pseudo-random places drawn at a time.
_PEOPLE_AT_ONCE = 1 << 18


@dataclass(frozen=True, slots=True, eq=False)
class JoinedRoster:
    """One roster on one load."""

    number: int
    load: str
    # The hash of its manifest, to which samples are bound.
    manifest: bytes
    # How many are on it; `cards.declared` says how long a sample is.
    people: int
    cards: CardPlaces


def join(
    roster: KeptRoster, pieces: Iterable[npt.NDArray[np.uint8]], registry: Registry, randomness: Randomness
) -> JoinedRoster:
    """Join a roster, whose pseudonyms come in their order, with a load. Memory: the result, a piece, and the cards while it lasts."""
    cards, people = registry.cards, registry.people
    place = np.zeros(people.person_count, np.uint32)
    further: list[_Further] = []
    start = 0
    try:
        for piece in pieces:
            high, low = halves_of(piece)
            # The cards are looked for, not the roster's names: of those who are linked by an address several have one.
            here = _between(cards.high, high)
            for part, at, found in find_ascending((cards.high[here], cards.low[here]), high, low):
                persons = cards.persons[here][part][found]
                further.append(_enter(place, persons, (at[found] + start).astype(np.uint32)))
            start += len(piece)
            # Or all cards would stand in memory before the last of them is found.
            registry.let_cards_go()
    finally:
        registry.let_cards_go()
    _scatter(place, start, randomness)
    return JoinedRoster(
        number=roster.number,
        load=registry.load,
        manifest=bytes.fromhex(roster.manifest),
        people=start,
        cards=CardPlaces.of(place, *_by_person(further), roster.places),
    )


def _between(cards: Halves, piece: Halves) -> slice:
    """The cards that can stand in a piece of a roster."""
    if not len(piece):
        return slice(0)
    return slice(int(np.searchsorted(cards, piece[0])), int(np.searchsorted(cards, piece[-1], side="right")))


def _enter(place: Numbers, people: Numbers, at: Numbers) -> _Further:
    """Enter the first card of each of some people; gives the others."""
    first = np.zeros(len(people), np.bool_)
    first[np.unique(people, return_index=True)[1]] = True
    first &= place[people] & _IS_JOINED == 0
    place[people[first]] = at[first] | _IS_JOINED
    return people[~first], at[~first]


def _by_person(further: list[_Further]) -> _Further:
    none = np.empty(0, np.uint32)
    people = np.concatenate([none, *(people for people, _ in further)])
    places = np.concatenate([none, *(places for _, places in further)])
    order = np.argsort(people, kind="stable")
    return people[order], places[order]


def _scatter(place: Numbers, people: int, randomness: Randomness) -> None:
    """Give everybody who is not joined a place of one of the roster's people."""
    # SECURITY: not any declared place. Cards stand at the front, and what is read behind them would tell how many are linked.
    for start in range(0, len(place), _PEOPLE_AT_ONCE):
        part = place[start : start + _PEOPLE_AT_ONCE]
        drawn = np.frombuffer(randomness(4 * len(part)), "<u4").astype(np.uint64)
        np.copyto(part, (drawn * np.uint64(people) >> np.uint64(32)).astype(np.uint32), where=part & _IS_JOINED == 0)
