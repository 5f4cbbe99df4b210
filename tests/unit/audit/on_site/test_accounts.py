"""The audit's second reckoning of what everybody was charged says the same as plain sets, whatever happens to both."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.reference_desk import ReferenceDesk
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_common.audit.on_site.accounts import NOBODY, Accounts, Chosen, Members, Numbers, as_names
from broker_common.crypto.linkage import LinkageKey
from broker_common.privacy.policy import Subject

# Pseudonyms that differ in their first byte alone, in their last alone, and that end in zeros, as a submitter may choose.
PEOPLE = sorted(
    [bytes(15) + bytes([n]) for n in range(5)] + [bytes([n]) + bytes(15) for n in (1, 127, 128, 255)] + [b"\xff" * 16]
)
# Card by card: person and household. Persons 0 and 1 have two cards, household 0 three people; two are strangers. Person 6 is gone.
PERSONS = np.array([0, 0, 1, 1, 2, 3, 4, NOBODY, 5, NOBODY], np.uint32)
HOUSEHOLDS = np.array([0, 0, 0, 0, 0, 1, 1, NOBODY, 2, NOBODY], np.uint32)
HOMES = np.array([0, 0, 0, 1, 1, 2, NOBODY], np.uint32)
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
    """The reference and the accounts, side by side."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.accounts = Accounts()
        self.people = np.frombuffer(b"".join(PEOPLE), np.uint8).reshape(-1, 16)
        self.numbers = (PERSONS, HOUSEHOLDS)
        self.is_charged = False
        self.accounts.grow(7, 3, None)
        self.desk = ReferenceDesk(range(7) if subject == "person" else HOMES.tolist())

    @property
    def homes(self) -> Numbers:
        """Where everybody lives whom there is a number of; nobody has moved in since the first load."""
        homes = np.full(self.accounts.persons, NOBODY, np.uint32)
        homes[: len(HOMES)] = HOMES
        return homes

    def take(self, step: Step) -> None:
        """One thing that happens, to both."""
        kind, numbers, price = step
        match kind:
            case "charge":
                self.charge(sorted(numbers), price)
            case "load":
                self.load(price)
            case _:
                self.accounts.step([KEY.step])
                stepped = KEY.step(self.people)
                order = np.argsort(as_names(stepped))
                self.people, self.numbers = stepped[order], (self.numbers[0][order], self.numbers[1][order])

    def load(self, more: int) -> None:
        """Persons 0 and 1 change places, and household 0 takes over from household 1."""
        pairs = [(0, 1), (1, 0)] if self.subject == "person" else [(0, 1)]
        before = self.desk.charged.copy()
        for to, heir_of in pairs:
            self.desk.charged[to] += before[heir_of]
        count = self.accounts.persons + more
        self.accounts.grow(count, 3, self.subject if self.is_charged else None)
        self.accounts.inherit(*np.array(pairs, np.uint32).T)
        if self.subject == "person":
            self.desk.subject_of = range(count)

    def charge(self, numbers: list[int], price: int) -> None:
        """One charge; both decide alike."""
        self.is_charged = True
        sample = self.sample(numbers)
        here = sample.here(self.accounts.persons)
        active = self.accounts.decide(here, self.homes, price=price, room=MOST, subject=self.subject)
        people = {int(person) for person in sample.persons if person != NOBODY}
        fitting = self.desk.fitting(people, price, MOST)
        assert set(np.flatnonzero(active).tolist()) == fitting
        before = self.held()
        self.accounts.charge(active, self.homes, price=price, subject=self.subject)
        self.accounts.meet(sample)
        self.desk.charge(fitting, price)
        after = self.held()
        after.take_back(active, self.homes, price=price, subject=self.subject)
        assert after.is_same(before)

    def sample(self, numbers: list[int]) -> Members:
        """These cards, as they stand in the load."""
        return Members(as_names(self.people[numbers]), *(each[numbers] for each in self.numbers))

    def held(self) -> Accounts:
        """A copy of the accounts' charges."""
        return Accounts(self.accounts.persons, self.accounts.households, self.accounts.charged.copy())

    def expected(self) -> Accounts:
        """Charges of the reference, as accounts."""
        subjects = self.accounts.persons if self.subject == "person" else self.accounts.households
        charged = [self.desk.charged[subject] for subject in range(subjects)]
        return Accounts(self.accounts.persons, self.accounts.households, np.array(charged, np.int64))


@pytest.mark.parametrize("subject", ["person", "household"])
@settings(max_examples=120)
@given(steps=STEPS)
def test_both_reckonings_agree(subject: Subject, steps: list[Step]) -> None:
    """On who is active, on every sum, after loads and new keys; and a charge taken back was never made."""
    both = Both(subject)
    for step in steps:
        both.take(step)
        assert both.accounts.is_same(both.expected())


@pytest.mark.parametrize("subject", ["person", "household"])
def test_one_unit_less_anywhere_is_another_sum(subject: Subject) -> None:
    """The comparison covers everything."""
    both = Both(subject)
    both.charge(list(range(len(PEOPLE))), 1)
    for number in range(len(both.accounts.charged)):
        other = both.held()
        other.charged[number] -= 1
        assert not both.accounts.is_same(other)
    assert not both.accounts.is_same(Accounts(8, 3, both.accounts.charged))


def test_a_charge_that_is_not_in_the_table_cannot_be_taken_back() -> None:
    """A snapshot that holds less than a charge that is kept is no snapshot of it."""
    both = Both("person")
    active: Chosen = np.arange(7) == 3
    with pytest.raises(ValueError, match="gone back"):
        both.held().take_back(active, both.homes, price=1, subject="person")


def test_whoever_has_no_home_in_a_load_charges_no_household() -> None:
    """A mark of somebody who has left falls on nobody, and not on the last household of all."""
    both = Both("household")
    gone: Chosen = np.arange(7) == 6
    both.accounts.charge(gone, both.homes, price=1, subject="household")
    assert not both.accounts.people_charged


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
    # A person never seen before moves from nowhere; person 0 was seen in the load just before.
    assert moved(both.accounts, [1, gone, gone, 2, 1, 0]) == [(0, 2), (1, 0)]


def test_what_is_forgotten_is_not_called_followed() -> None:
    """After a load that nobody can read, who lives where is open until they are seen again; of the uncharged nothing is lost."""
    both = Both("person")
    both.accounts.forget_names()
    assert both.accounts.is_followed
    both.charge([5], 1)
    assert both.accounts.is_followed
    both.accounts.forget_names()
    assert not both.accounts.is_followed
    assert moved(both.accounts, [1, 1, 1, 2, 2, 2]) == []
    # A table that was read from a snapshot says of nobody who they are.
    assert not both.held().is_followed
