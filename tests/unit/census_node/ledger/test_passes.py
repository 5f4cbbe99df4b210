"""The passes over everybody do what the reference desk does, one person after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from fakes.desk_arrays import MOST, bits_of, members, question_of
from fakes.reference_desk import ReferenceDesk, counts_of, people_here
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.census_node.ledger.random_desks import world_of

from broker_common.errors import InternalError
from census_node.ledger.passes import (
    JOINED,
    Bearings,
    CardPlaces,
    Charges,
    Homes,
    HouseholdCharges,
    Passes,
    PersonCharges,
)

# A small block, so that a small world has many.
BLOCK = 32
DECLARED = 256
QUESTIONS: Sequence[Sequence[set[int] | None]] = (
    [{1}],
    [None],
    [{0, 1}, None],
    [{0}, {1}, {2, 3}, {4}, {5}, None],
    [*({value} for value in range(15)), None],
)
WORLDS = {
    "people": st.integers(0, 150),
    "linked": st.sampled_from([0.0, 0.3, 1.0]),
    "shares": st.lists(st.sampled_from([0.0, 0.01, 0.5, 1.0]), min_size=1, max_size=4),
    "seed": st.integers(0, 2**32),
}


@given(household=st.booleans(), **WORLDS)
@settings(max_examples=100)
def test_random_worlds_are_answered_as_the_reference_desk_does(
    household: bool, people: int, linked: float, shares: list[float], seed: int
) -> None:
    """Who is here, who fits, what is charged and what is counted, from sample to sample of two agencies."""
    generator = np.random.default_rng(seed)
    world = world_of(generator, people, DECLARED, linked)
    subjects = world.home_count if household else people
    charged = world.charges(generator, subjects)
    desk = ReferenceDesk(
        world.homes.tolist() if household else range(people), Counter(dict(enumerate(charged.tolist())))
    )
    with Passes(people_in_block=BLOCK) as passes:
        charges: Charges = (
            HouseholdCharges(passes, charged, Homes(world.homes, world.home_count))
            if household
            else PersonCharges(passes, charged)
        )
        here, active = passes.bits(people), passes.bits(people)
        for at, share in enumerate(shares):
            agency = world.agencies[at % 2]
            sample = set(np.flatnonzero(generator.random(agency.people) < share).tolist())
            price, most = int(generator.integers(1, 9)), int(generator.choice([0, 3, MOST - 100, MOST]))
            question = QUESTIONS[int(generator.integers(0, len(QUESTIONS)))]
            passes.find(bits_of(sample, DECLARED), agency.places, here)
            expected_here = people_here(sample, agency.cards)
            assert members(here, people) == expected_here
            charges.fit(here, active, price=price, most=most)
            expected = desk.fitting(expected_here, price, most)
            assert members(active, people) == expected
            charges.charge(active, price)
            desk.charge(expected, price)
            assert charged.tolist() == [desk.charged[subject] for subject in range(subjects)]
            assert passes.count(active, question_of(world.values, question)) == counts_of(
                expected, world.values.tolist(), question
            )


def test_whoever_has_several_cards_is_one_person() -> None:
    """Found by any of them, charged once, counted once; also where all further cards are one person's."""
    places = np.array([JOINED | 3, 5], np.uint32)
    further = np.arange(8, 8 + 2 * BLOCK, dtype=np.uint32)
    cards = CardPlaces.of(places, np.zeros(2 * BLOCK, np.uint32), further, DECLARED)
    with Passes(people_in_block=BLOCK) as passes:
        here = passes.bits(2)
        for sample, found in (({3}, {0}), ({71}, {0}), (set(range(DECLARED)), {0}), ({5}, set()), ({4}, set())):
            passes.find(bits_of(sample, DECLARED), cards, here)
            assert members(here, 2) == found


def test_large_charges_do_not_wrap_around() -> None:
    """At the end of 32 bits nobody fits by mistake; a household's charge is compared in 64 bits."""
    top = 2**32 - 1
    with Passes(people_in_block=BLOCK) as passes:
        here, active = bits_of({0, 1, 2}, 3), passes.bits(3)
        persons = PersonCharges(passes, np.array([0, top - 5, top], np.uint32))
        for price, most, fit in (
            (5, top, {0, 1}),
            (6, top, {0}),
            (top, top, {0}),
            (6, 5, set()),
            (1, 10 * top, {0, 1, 2}),
        ):
            persons.fit(here, active, price=price, most=most)
            assert members(active, 3) == fit
        home = Homes(np.zeros(3, np.uint32), 1)
        households = HouseholdCharges(passes, np.array([top - 5], np.uint32), home)
        for price, fit in ((1, {0, 1, 2}), (2, set()), (2**31, set()), (2**32 // 3 + 1, set())):
            households.fit(here, active, price=price, most=top)
            assert members(active, 3) == fit


def test_household_fits_whole_or_not_at_all() -> None:
    """One member would fit alone, and is dropped with the others; those who are not in the sample do not count."""
    with Passes(people_in_block=BLOCK) as passes:
        charged = np.array([0, 0, 8], np.uint32)
        households = HouseholdCharges(passes, charged, Homes(np.array([0, 0, 0, 2, 2], np.uint32), 3))
        active = passes.bits(5)
        households.fit(bits_of({0, 1, 2, 3}, 5), active, price=1, most=2)
        assert members(active, 5) == set()
        households.fit(bits_of({0, 2}, 5), active, price=1, most=2)
        assert members(active, 5) == {0, 2}
        households.charge(active, 1)
        assert charged.tolist() == [2, 0, 8]


def test_a_large_household_is_one_block() -> None:
    """Everybody in one home, many times a block: they are counted together."""
    people = 40 * BLOCK + 5
    with Passes(people_in_block=BLOCK) as passes:
        charged = np.zeros(9, np.uint32)
        households = HouseholdCharges(passes, charged, Homes(np.full(people, 8, np.uint32), 9))
        everybody = bits_of(range(people), people)
        active = passes.bits(people)
        households.fit(everybody, active, price=3, most=3 * people)
        households.charge(active, 3)
        assert charged.tolist() == [0] * 8 + [3 * people]
        households.fit(everybody, active, price=1, most=4 * people - 1)
        assert members(active, people) == set()


@pytest.mark.parametrize("subject", ["person", "household"])
def test_memory_is_at_most_24_bytes_a_person(subject: str) -> None:
    """With one agency and four variables; what grows with people, not the buffers of the threads."""
    people, homes = 100_000, 40_000
    generator = np.random.default_rng(1)
    arrays: list[npt.NDArray[Any]] = [np.empty(people, np.uint8) for _ in range(4)]
    with Passes() as passes:
        cards = Bearings.of(generator.permutation(people).astype(np.uint32))
        arrays += [cards.octets, cards.masks, passes.bits(people), passes.bits(people)]
        if subject == "household":
            home = Homes(generator.integers(0, homes, people).astype(np.uint32), homes)
            charges = HouseholdCharges(passes, np.zeros(homes, np.uint32), home)
            arrays += [home.of_person, home.by_home, home.starts, charges.charged, passes.bits(homes)]
        else:
            arrays.append(PersonCharges(passes, np.zeros(people, np.uint32)).charged)
    assert sum(array.nbytes for array in arrays) / people <= 24


U32 = np.uint32


@pytest.mark.parametrize(
    ("places", "persons", "further"),
    [
        ([DECLARED], [], []),
        ([JOINED | DECLARED], [], []),
        ([0, 1], [0], [DECLARED]),
        ([0, 1], [2], [3]),
        ([0, 1], [1, 0], [3, 4]),
        ([0, 1], [1], []),
    ],
)
def test_places_that_no_roster_has_are_refused(places: list[int], persons: list[int], further: list[int]) -> None:
    """Beyond the declared ones, of nobody, or in another order: a damaged file never becomes a wrong count."""
    with pytest.raises(InternalError, match="INTEGRITY"):
        CardPlaces.of(np.array(places, U32), np.array(persons, U32), np.array(further, U32), DECLARED)


def test_sample_of_another_length_is_no_sample() -> None:
    """A shorter one would be read beyond its end."""
    cards = CardPlaces.of(np.zeros(1, U32), np.zeros(0, U32), np.zeros(0, U32), DECLARED)
    with Passes(people_in_block=BLOCK) as passes:
        for size in (0, DECLARED - 8, DECLARED + 8):
            with pytest.raises(InternalError, match="INTEGRITY"):
                passes.find(passes.bits(size), cards, passes.bits(1))


def test_homes_that_were_never_numbered_are_refused() -> None:
    """They would share the charge of the last one."""
    with pytest.raises(InternalError, match="INTEGRITY"):
        Homes(np.array([0, 2], U32), 2)


@pytest.mark.parametrize("cells", [0, 17])
def test_questions_have_1_to_16_cells(cells: int) -> None:
    """More would be answered at the price of sixteen."""
    question = question_of(np.zeros(1, np.uint8), [{value} for value in range(cells)])
    with Passes(people_in_block=BLOCK) as passes, pytest.raises(InternalError, match="INTEGRITY"):
        passes.count(passes.bits(1), question)
