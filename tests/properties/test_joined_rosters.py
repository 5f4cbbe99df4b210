"""Places in a roster say what a dictionary of cards says, on random worlds.

With several cards a person, cards that nobody has in the census, two agencies, and a load of the registry between them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from fakes.desk_arrays import cards_by_person, members
from fakes.randomness import SeededRandomness
from fakes.registries import made_registry
from hypothesis import given, settings
from hypothesis import strategies as st

from census_node.ledger.passes import Passes
from census_node.registry import Registry
from census_node.registry.joining import JoinedRoster, join
from census_node.registry.rosters import KeptRoster

PLACES = 1 << 20
Rows = npt.NDArray[np.uint8]
# Cards are small numbers, so that agencies and loads share many; a person has several.
cards = st.integers(0, 15)
agencies = st.lists(cards, unique=True)
loads = st.dictionaries(cards, st.integers(0, 3))


def rows_of(numbers: Sequence[int]) -> Rows:
    """Ascending pseudonyms: some share their first half."""
    pairs = [(number // 4 * 2**50, number * 2**40) for number in sorted(numbers)]
    return np.array(pairs, np.uint64).reshape(-1, 2).astype(">u8").view(np.uint8).reshape(-1, 16)


def registry_of(load: str, people: dict[int, int]) -> Registry:
    """These cards, and whose they are."""
    numbers = sorted(people)
    halves = rows_of(numbers).view(">u8").reshape(-1, 2).astype(np.uint64)
    persons = [people[number] for number in numbers]
    return made_registry(load, halves[:, 0].copy(), halves[:, 1].copy(), {}, persons=persons, households=persons)


def joined_with(rows: Rows, registry: Registry, piece: int) -> JoinedRoster:
    """A roster on a load, joined in pieces of this size."""
    pieces = (rows[start : start + piece] for start in range(0, len(rows), piece))
    roster = KeptRoster(
        health="agency",
        number=3,
        linkage="",
        commitment="",
        salt="",
        manifest="ab" * 32,
        places=PLACES,
        people=len(rows),
        file="file",
        received_ms=0,
    )
    return join(roster, pieces, registry, SeededRandomness())


def people_by_places(bits: npt.NDArray[np.bool_], joined: JoinedRoster) -> set[int]:
    """Whom a bit for each place finds, as the desk looks them up."""
    size = len(joined.cards.first)
    with Passes(people_in_block=32) as passes:
        here = passes.bits(size)
        passes.find(np.packbits(bits), joined.cards, here)
    return members(here, size)


@settings(max_examples=100)
@given(
    rosters=st.lists(agencies, min_size=2, max_size=2),
    worlds=st.lists(loads, min_size=2, max_size=2),
    chooser=st.data(),
)
def test_places_link_whom_a_dictionary_links(
    rosters: list[list[int]], worlds: list[dict[int, int]], chooser: st.DataObject
) -> None:
    """Two agencies, each on two loads: any sample of a roster finds the persons of its cards."""
    for cards_of_agency in rosters:
        rows = rows_of(cards_of_agency)
        chosen = chooser.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
        bits = np.zeros(PLACES, np.bool_)
        bits[: len(rows)] = chosen
        piece = chooser.draw(st.integers(1, 12))
        for load, people in zip(("before", "after"), worlds, strict=True):
            registry = registry_of(load, people)
            joined = joined_with(rows, registry, piece)
            sample = [card for card, is_in in zip(sorted(cards_of_agency), chosen, strict=True) if is_in]
            assert people_by_places(bits, joined) == {people[card] for card in sample if card in people}
            assert (joined.number, joined.load) == (3, load)
            assert (joined.manifest, joined.people, joined.cards.declared) == (b"\xab" * 32, len(rows), PLACES)


@given(roster=agencies, people=loads)
def test_everybody_has_one_place_and_every_card_is_known_once(roster: list[int], people: dict[int, int]) -> None:
    """A place for each number, joined or not; every linked card is there exactly once, at its own place."""
    registry, rows = registry_of("load", people), rows_of(roster)
    joined = joined_with(rows, registry, 7)
    first, further = joined.cards.first, joined.cards.further_persons
    assert len(first) == registry.people.person_count
    assert 8 * int(first.octets.max(initial=0)) < max(1, len(roster))
    assert np.all(further[1:] >= further[:-1])
    expected: dict[int, set[int]] = {}
    for place, number in enumerate(sorted(roster)):
        if number in people:
            expected.setdefault(people[number], set()).add(place)
    assert cards_by_person(joined.cards) == expected
    standing = int(np.count_nonzero(first.masks))
    assert standing + len(further) == sum(map(len, expected.values()))


def test_further_cards_ascend_by_person() -> None:
    """A person whose cards come later in the roster may have the smaller number: the desk looks them up by person, block by block."""
    roster = list(range(12))
    registry = registry_of("load", {number: 2 - number // 4 for number in roster})
    joined = joined_with(rows_of(roster), registry, 5)
    assert joined.cards.further_persons.tolist() == [0] * 3 + [1] * 3 + [2] * 3
    assert cards_by_person(joined.cards) == {0: {8, 9, 10, 11}, 1: {4, 5, 6, 7}, 2: {0, 1, 2, 3}}


ON_ROSTER, IN_CENSUS = 4_000, 16_000


@pytest.mark.parametrize("linked", [0, 2_000, 4_000])
def test_places_of_those_who_are_not_joined_are_spread_over_the_people_of_the_roster(linked: int) -> None:
    """Where anybody is looked up says nothing of how many are linked: at the front, where people stand, and evenly there."""
    roster = list(range(ON_ROSTER))
    # Linked people have cards all over the roster, in no order.
    cards_of_linked = np.random.default_rng(2).permutation(ON_ROSTER)[:linked].tolist()
    strangers = range(ON_ROSTER, ON_ROSTER + IN_CENSUS - linked)
    people = {card: person for person, card in enumerate([*cards_of_linked, *strangers])}
    first = joined_with(rows_of(roster), registry_of("load", people), 700).cards.first
    assert int(np.count_nonzero(first.masks)) == linked
    # Where they are looked up, which no mask lets through.
    drawn, octets = first.octets[first.masks == 0], ON_ROSTER // 8
    assert int(drawn.max()) < octets
    quarters, expected = np.bincount(drawn * np.uint32(4) // np.uint32(octets), minlength=4), len(drawn) / 4
    # Ten deviations of a quarter's count.
    assert np.all(np.abs(quarters - expected) < 10 * (expected * 3 / 4) ** 0.5)
    assert len(np.unique(drawn)) > 0.9 * octets


def test_nobody_is_looked_up_beyond_a_roster_of_nobody() -> None:
    """Everybody has the first place, where no bit is."""
    registry = registry_of("load", {number: number for number in range(100)})
    joined = joined_with(rows_of([]), registry, 7)
    assert joined.cards.first.octets.tolist() == [0] * registry.people.person_count
