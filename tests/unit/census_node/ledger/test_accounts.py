"""The ledger against the obvious one of sets and dictionaries, which shares nothing with it."""

from __future__ import annotations

import random  # noqa: TID251 - seeded worlds, no secret
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from fakes.desk_arrays import bits_of, members
from fakes.obvious_ledger import Link, ObviousLedger

from broker_common.errors import InternalError
from broker_common.privacy.policy import Subject
from census_node.ledger.accounts import Ledger
from census_node.ledger.passes import Homes, Numbers, Passes, People
from census_node.ledger.subjects import Carry

PERSONS, HOUSEHOLDS = 200, 60
SUBJECTS: tuple[Subject, ...] = ("person", "household")


@pytest.fixture
def passes() -> Iterator[Passes]:
    """Small blocks: several of them in a world."""
    with Passes(people_in_block=32) as made:
        yield made


def carry(persons: Sequence[Link], households: Sequence[Link], counts: Link) -> Carry:
    """A carry of these pairs of heir and subject before."""
    to, before, home_to, home_before = (
        np.array([pair[which] for pair in pairs], np.uint32) for pairs in (persons, households) for which in (0, 1)
    )
    return Carry(to, before, home_to, home_before, *counts)


def nobody_asks() -> Homes:
    """Where persons are charged, it makes no difference where they live."""
    raise AssertionError


def people_of(load: str, links: dict[int, Link]) -> People:
    """Everybody of these cards."""

    def numbers() -> tuple[Numbers, Numbers]:
        persons, households = (np.array([link[which] for link in links.values()], np.uint32) for which in range(2))
        return persons, households

    return People(load, PERSONS, HOUSEHOLDS, {}, numbers)


def homes_of(people: People) -> Callable[[], Homes]:
    """Where they live."""
    return lambda: people.homes


@pytest.mark.parametrize("subject", SUBJECTS)
@pytest.mark.parametrize("seed", range(20))
def test_large_random_worlds_are_those_of_the_obvious_ledger(subject: Subject, seed: int, passes: Passes) -> None:
    """Samples of nobody, some and everybody among hundreds of people with several cards, load after load."""
    chance, ledger, obvious = random.Random(seed), Ledger(), ObviousLedger(subject)
    last: dict[int, Link] = {}
    homes: dict[int, int] = {}
    for number in range(4):
        of_person = [chance.randrange(HOUSEHOLDS) for _ in range(PERSONS)]
        links = {card: (who, of_person[who]) for card in range(300) if (who := chance.randrange(PERSONS)) < 190}
        persons = [(now[0], then[0]) for card, now in links.items() if (then := last.get(card, now))[0] != now[0]]
        moved = [(now[1], then[1]) for card, now in links.items() if (then := last.get(card, now))[1] != now[1]]
        moved += [(home, homes[person]) for person, home in links.values() if homes.get(person, home) != home]
        pairs = [sorted(set(each)) for each in (persons, moved)]
        ledger = ledger.after_load(carry(pairs[0], pairs[1], (PERSONS, HOUSEHOLDS)), subject)
        obvious.load(links)
        last |= links
        homes.update(links.values())
        people, active = people_of(f"load{number}", links), passes.bits(PERSONS)
        for share in (0, 0.1, 0.5, 1):
            here = [links[card] for card in links if chance.random() < share]
            cost, room = chance.choice([1, 2, 5]), chance.choice([3, 8, 30])
            charges = ledger.charges(subject, passes, people.load, homes_of(people))
            charges.fit(bits_of({person for person, _ in here}, PERSONS), active, price=cost, most=room)
            assert members(active, PERSONS) == obvious.decide(here, price=cost, room=room)
            charges.charge(active, cost)
            obvious.charge(here, members(active, PERSONS), price=cost)
        assert +Counter(dict(enumerate(ledger.charged.tolist()))) == +obvious.charged


def test_whoever_is_not_in_the_load_lives_somewhere() -> None:
    """Every pass goes over them, too; people in it live where they do."""
    homes = people_of("load", {0: (3, 50), 1: (3, 50), 2: (199, 7)}).homes
    assert homes.count == HOUSEHOLDS
    expected = [number % HOUSEHOLDS for number in range(PERSONS)]
    expected[3], expected[199] = 50, 7
    assert homes.of_person.tolist() == expected


def test_homes_are_made_once() -> None:
    """They take a while."""
    people = people_of("load", {0: (0, 0)})
    assert people.homes is people.homes


def test_a_subject_takes_over_what_those_before_it_were_charged() -> None:
    """A person who moves does not leave behind what was learned; the subject before keeps its charge; sums saturate."""
    ledger = Ledger(3, 2, np.array([5, 7, 0], np.uint32))
    after = ledger.after_load(carry([(3, 0), (3, 1), (0, 1)], [], (4, 2)), "person")
    assert (after.persons, after.charged.tolist()) == (4, [12, 7, 0, 12])
    # As it was charged by then, in whichever order pairs stand.
    chain = ledger.after_load(carry([(1, 0), (0, 1)], [], (3, 2)), "person")
    assert chain.charged.tolist() == [12, 12, 0]
    homes = Ledger(3, 2, np.array([2**32 - 2, 9], np.uint32))
    assert homes.after_load(carry([(0, 1)], [(0, 1), (1, 0)], (3, 2)), "household").charged.tolist() == [2**32 - 1] * 2


@pytest.mark.parametrize("subject", [*SUBJECTS, None])
@pytest.mark.parametrize("counts", [(2, 2), (3, 1)])
def test_a_load_with_fewer_subjects_is_refused(counts: Link, subject: Subject | None) -> None:
    """This holds even if those missing are not charged."""
    ledger = Ledger(3, 2) if subject != "person" else Ledger(3, 2, np.array([5, 7, 0], np.uint32))
    with pytest.raises(ValueError, match="fewer subjects"):
        ledger.after_load(carry([], [], counts), subject)


def test_before_the_first_charge_anybody_may_become_the_subject(passes: Passes) -> None:
    """Afterwards nobody else: charges of persons are not those of households."""
    ledger = Ledger(9, 3)
    everybody = np.array([0xFF, 0x80], np.uint8)
    active = passes.bits(9)

    def thirds() -> Homes:
        return Homes(np.arange(9, dtype=np.uint32) % 3, 3)

    order: tuple[Subject, ...] = ("household", "person", "household")
    for subject in order:
        ledger.charges(subject, passes, "load", thirds).fit(everybody, active, price=1, most=9)
        assert members(active, 9) == set(range(9))
    ledger.charges("household", passes, "load", thirds).charge(active, 1)
    assert ledger.charged.tolist() == [3, 3, 3]
    with pytest.raises(InternalError, match="INTEGRITY"):
        ledger.charges("person", passes, "load", nobody_asks)


def test_what_is_frozen_does_not_change_under_anybodys_hands(passes: Passes) -> None:
    """A snapshot is written while charges go on."""
    ledger, one = Ledger(8, 2), np.array([0b00100000], np.uint8)
    ledger.charges("person", passes, "load", nobody_asks).charge(one, 1)
    frozen = ledger.frozen()
    ledger.charges("person", passes, "load", nobody_asks).charge(one, 1)
    assert (frozen.charged[2], ledger.charged[2]) == (1, 2)
