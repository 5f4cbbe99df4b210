"""The audit's second reckoning of what everybody was charged says the same as the ledgers, whatever happens to both."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_common.crypto.linkage import LinkageKey
from census_node.ledgers import Ledgers, Room
from census_node.linked import NOBODY, Linked
from census_node.site_accounts import Accounts, Members, as_names
from census_node.units import Carry

# Pseudonyms that differ in their first byte alone, in their last alone, and that end in zeros, as whoever submits may choose.
PEOPLE = sorted(
    [bytes(15) + bytes([n]) for n in range(5)] + [bytes([n]) + bytes(15) for n in (1, 127, 128, 255)] + [b"\xff" * 16]
)
# Card by card: person and household. Persons 0 and 1 have two cards, household 0 three people; two are strangers.
PERSONS = np.array([0, 0, 1, 1, 2, 3, 4, NOBODY, 5, NOBODY], np.uint32)
HOUSEHOLDS = np.array([0, 0, 0, 0, 0, 1, 1, NOBODY, 2, NOBODY], np.uint32)
PRICE, MOST = 3, 10
KEY = LinkageKey(bytes(32))

Step = tuple[str, frozenset[int], int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["charge", "charge", "charge", "load", "relink"]),
        st.frozensets(st.integers(0, len(PEOPLE) - 1)),
        st.integers(1, PRICE),
    ),
    max_size=12,
)


class Both:
    """The ledgers and the accounts, side by side."""

    def __init__(self, unit: Literal["person", "household"]) -> None:
        self.unit: Literal["person", "household"] = unit
        self.ledgers, self.accounts = Ledgers(), Accounts()
        self.people = np.frombuffer(b"".join(PEOPLE), np.uint8).reshape(-1, 16)
        self.units = (PERSONS, HOUSEHOLDS)
        none = np.empty(0, np.uint32)
        self.carry(Carry(none, none, none, none, 6, 3))

    def carry(self, carry: Carry) -> None:
        """A load takes over charges."""
        self.ledgers.take_over(carry)
        self.accounts.grow(carry.person_count, carry.household_count)
        self.accounts.inherit("person", carry.person_to, carry.person_from)
        self.accounts.inherit("household", carry.household_to, carry.household_from)

    def take(self, step: Step) -> None:
        """One thing that happens, to both."""
        kind, numbers, price = step
        match kind:
            case "charge":
                self.charge(sorted(numbers), price)
            case "load":
                to, before = np.array([0, 1], np.uint32), np.array([1, 0], np.uint32)
                self.carry(Carry(to, before, to[:1], before[:1], len(self.accounts.persons) + price, 3))
            case _:
                self.ledgers = self.ledgers.relinked([KEY])
                self.accounts.step([KEY.step])
                stepped = KEY.step(self.people)
                order = np.argsort(as_names(stepped))
                self.people, self.units = stepped[order], (self.units[0][order], self.units[1][order])

    def charge(self, numbers: list[int], price: int) -> None:
        """One charge; both decide alike."""
        people = self.people[numbers]
        persons, households = (units[numbers] for units in self.units)
        linked, members = Linked(people, persons, households), Members(as_names(people), persons, households)
        decided = self.ledgers.decide(linked, Room(price, MOST, self.unit))
        fits, active = self.accounts.decide(members, price=price, room=MOST, unit=self.unit)
        assert (fits.tolist(), active.tolist()) == (decided.fits.tolist(), decided.active.tolist())
        before = self.held()
        self.ledgers.apply(linked, decided, price=price, organisation="health", digest=bytes(32))
        self.accounts.charge(members, fits, active, price=price, organisation="health")
        after = self.held()
        after.take_back(members, fits, active, price=price)
        assert after.without_strangers().is_same(before)

    def held(self) -> Accounts:
        """What the ledgers hold, as accounts."""
        column = self.ledgers.submitted.merged()
        names = as_names(np.stack([column.high, column.low], axis=1).astype(">u8"))
        units = (self.ledgers.units.persons, self.ledgers.units.households)
        charges = [array.astype(np.int64) for array in (column.units, *units)]
        return Accounts(names, charges[0], charges[1], charges[2], dict(self.ledgers.introduced))


@pytest.mark.parametrize("unit", ["person", "household"])
@settings(max_examples=300)
@given(steps=STEPS)
def test_both_reckonings_agree(unit: Literal["person", "household"], steps: list[Step]) -> None:
    """On who fits and who is counted, on every sum, after loads and new keys; and a charge taken back was never made."""
    both = Both(unit)
    for step in steps:
        both.take(step)
        assert both.accounts.is_same(both.held())


@pytest.mark.parametrize("ledger", ["submitted", "persons", "households"])
def test_one_unit_less_anywhere_is_another_sum(ledger: str) -> None:
    """What is compared is everything."""
    both = Both("person")
    both.charge(list(range(len(PEOPLE))), 1)
    other = both.held()
    getattr(other, ledger)[1] -= 1
    assert not both.accounts.is_same(other)
    assert not both.accounts.is_same(other, by_name=False)


def test_other_names_are_other_accounts() -> None:
    """Unless nobody can know them."""
    both = Both("person")
    both.charge(list(range(len(PEOPLE))), 1)
    other = both.held()
    other.step([KEY.step])
    assert not both.accounts.is_same(other)
    assert both.accounts.is_same(other, by_name=False)


def moved(before: Accounts, homes: list[int]) -> list[tuple[int, ...]]:
    """Which households follow, if the people live there now and nobody has a card that is known."""
    nobody = np.full(len(before.names), NOBODY, np.uint32)
    people, households = before.see(nobody, nobody, np.array(homes, np.uint32))
    assert not people.size
    return [tuple(pair) for pair in households.tolist()]


def test_a_household_follows_its_people_whatever_card_they_have() -> None:
    """Person 3 moves to household 2, person 5 leaves and comes back elsewhere; nobody's card is in either load."""
    both = Both("person")
    both.charge([5, 8], 1)
    gone = int(NOBODY)
    assert moved(both.accounts, [0, 0, 0, 2, 1, gone]) == [(2, 1)]
    # Whoever was never seen before moves from nowhere; person 0 was seen in the load just before.
    assert moved(both.accounts, [1, gone, gone, 2, 1, 0]) == [(0, 2), (1, 0)]


def test_what_is_forgotten_is_not_called_followed() -> None:
    """After a load that nobody can read, who lives where is open until they are seen again; of the uncharged nothing is lost."""
    both = Both("person")
    both.accounts.forget_units()
    assert both.accounts.is_followed
    both.charge([5], 1)
    assert both.accounts.is_followed
    both.accounts.forget_units()
    assert not both.accounts.is_followed
    assert moved(both.accounts, [1, 1, 1, 2, 2, 2]) == []
    # Tables that were read from a snapshot say of nobody who they are.
    assert not both.held().is_followed
