"""The ledgers of persons against an oracle of dictionaries and exact fractions, which shares nothing with them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_common.privacy.accounting import UNITS_PER_NAT, price_units
from broker_common.privacy.policy import Unit
from census_node.ledgers import Decision, Ledgers, Room
from census_node.linked import NOBODY, Linked
from census_node.submitted_ledger import SubmittedLedger
from census_node.unit_ledger import UnitLedger, Wanted

HEALTH = "health.example"
# Pseudonyms that differ in the last byte alone, in the first alone, and in both halves: whoever chooses them may.
PEOPLE = [bytes(15) + bytes([n]) for n in range(6)] + [bytes([n]) + bytes(15) for n in range(1, 6)] + [b"\xff" * 16]
# Card by card: person and household. Persons 0 and 1 have two cards, household 0 has three people; the last are unknown.
PERSONS = [0, 0, 1, 1, 2, 3, 4, 5, NOBODY, NOBODY, 6, NOBODY]
HOUSEHOLDS = [0, 0, 0, 0, 0, 1, 1, 2, NOBODY, NOBODY, 3, NOBODY]
CAP_NATS = Fraction(7, 4)
CAP = int(CAP_NATS * UNITS_PER_NAT)


def linked(numbers: Sequence[int]) -> Linked:
    """The sample of these people, ascending as samples are."""
    chosen = sorted(set(numbers), key=lambda number: PEOPLE[number])
    pseudonyms = np.frombuffer(b"".join(PEOPLE[n] for n in chosen), np.uint8).reshape(-1, 16)
    units = [np.array([column[n] for n in chosen], np.uint32) for column in (PERSONS, HOUSEHOLDS)]
    return Linked(pseudonyms, *units)


class Oracle:
    """The rules of DESIGN 5, a person at a time, in exact nats."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.submitted: defaultdict[int, Fraction] = defaultdict(Fraction)
        self.persons: defaultdict[int, Fraction] = defaultdict(Fraction)
        self.households: defaultdict[int, Fraction] = defaultdict(Fraction)
        self.floor = Fraction(0)
        self.counted: list[tuple[Fraction, set[int]]] = []

    def answer(self, numbers: set[int], scale: int) -> tuple[set[int], set[int]]:
        """Who is charged by pseudonym, and who of them is active."""
        price = Fraction(price_units(scale), UNITS_PER_NAT)
        fits = {n for n in numbers if self.floor + self.submitted[n] + price <= CAP_NATS}
        homes: dict[int, set[int]] = {}
        for n in fits:
            if PERSONS[n] != NOBODY:
                homes.setdefault(HOUSEHOLDS[n], set()).add(PERSONS[n])
        if self.unit == "person":
            kept = {p for home in homes.values() for p in home if self.floor + self.persons[p] + price <= CAP_NATS}
        else:
            kept = {
                p
                for home, people in homes.items()
                for p in people
                if self.floor + self.households[home] + len(people) * price <= CAP_NATS
            }
        active = {n for n in fits if PERSONS[n] == NOBODY or PERSONS[n] in kept}
        for n in fits:
            self.submitted[n] += price
        for p in kept:
            self.persons[p] += price
            self.households[next(h for h, people in homes.items() if p in people)] += price
        self.counted.append((price, kept))
        return fits, active


def chosen(sample: Linked, mask: np.ndarray) -> set[int]:
    """Those of a sample whom the mask names."""
    return {PEOPLE.index(row.tobytes()) for row in sample.pseudonyms[mask]}


questions = st.lists(
    st.tuples(st.sets(st.integers(0, len(PEOPLE) - 1)), st.sampled_from([1, 2, 3, 7])), min_size=1, max_size=25
)


@pytest.mark.parametrize("unit", ["person", "household"])
@settings(max_examples=150)
@given(asked=questions)
def test_charges_and_drops_are_those_of_the_rules(unit: Unit, asked: list[tuple[set[int], int]]) -> None:
    """Every decision and every charge, whatever is asked in whichever order; no unit that decides passes the cap."""
    ledgers, oracle = Ledgers(units=UnitLedger(np.zeros(7, np.uint32), np.zeros(4, np.uint32))), Oracle(unit)
    for numbers, scale in asked:
        sample, price = linked(sorted(numbers)), price_units(scale)
        decision = ledgers.decide(sample, Room(price, CAP, unit))
        fits, active = oracle.answer(numbers, scale)
        assert (chosen(sample, decision.fits), chosen(sample, decision.active)) == (fits, active)
        assert Decision.of_bits(*decision.bits, len(sample.pseudonyms)).bits == decision.bits
        ledgers.apply(sample, decision, price=price, organisation=HEALTH, digest=b"")
    everybody = linked(range(len(PEOPLE)))
    ordered = sorted(range(len(PEOPLE)), key=lambda number: PEOPLE[number])
    assert [Fraction(int(u), UNITS_PER_NAT) for u in ledgers.submitted.units_of(everybody.pseudonyms)] == [
        oracle.submitted[n] for n in ordered
    ]
    assert [Fraction(int(u), UNITS_PER_NAT) for u in ledgers.units.persons] == [oracle.persons[p] for p in range(7)]
    assert [Fraction(int(u), UNITS_PER_NAT) for u in ledgers.units.households] == [
        oracle.households[h] for h in range(4)
    ]
    assert ledgers.introduced[HEALTH] == sum(map(bool, oracle.submitted.values()))
    deciding = ledgers.units.persons if unit == "person" else ledgers.units.households
    assert max(*ledgers.submitted.all_units(), *deciding, 0) <= CAP
    for person in range(7):
        # Invariant 2: what somebody was charged covers every answer that counted them.
        assert oracle.persons[person] == sum(price for price, kept in oracle.counted if person in kept)


@settings(max_examples=100)
@given(asked=questions, split=st.integers(0, 25))
def test_a_ledger_that_was_frozen_and_merged_goes_on_like_one_that_was_not(
    asked: list[tuple[set[int], int]], split: int
) -> None:
    """Where the last snapshot was made decides nothing, and what is frozen does not change under anybody's hands."""
    whole, parts, frozen = SubmittedLedger(), SubmittedLedger(), None
    for place, (numbers, scale) in enumerate(asked):
        if place == split:
            frozen = parts.frozen()
            before = frozen.merged()
            parts = SubmittedLedger(parts.merged())
        for ledger in (whole, parts):
            ledger.charge(linked(sorted(numbers)).pseudonyms, price_units(scale))
    everybody = linked(range(len(PEOPLE))).pseudonyms
    assert (whole.units_of(everybody) == parts.units_of(everybody)).all()
    assert whole.size == parts.size
    if frozen is not None:
        assert (frozen.merged().units == before.units).all()


def test_strict_charges_leave_less_room_for_everybody() -> None:
    """What everybody was charged under strict accounting is a floor: the cap less it is what there is room for."""
    ledgers, price = Ledgers(units=UnitLedger(np.zeros(7, np.uint32), np.zeros(4, np.uint32))), price_units(2)
    sample = linked([4])
    for room, fits in ((price, True), (price - 1, False), (-1, False)):
        assert ledgers.decide(sample, Room(price, room, "person")).fits.tolist() == [fits]


def test_nobody_is_charged_for_an_empty_sample() -> None:
    """It is answered like any other."""
    ledgers, sample = Ledgers(), linked([])
    decision = ledgers.decide(sample, Room(price_units(1), CAP, "person"))
    ledgers.apply(sample, decision, price=price_units(1), organisation=HEALTH, digest=b"")
    assert decision.active.tolist() == []
    assert ledgers.submitted.size == 0


def test_a_unit_takes_over_what_its_cards_units_were_charged() -> None:
    """Whoever moves does not leave behind what was learned; the unit before keeps its charge; sums saturate."""
    units = UnitLedger(np.array([5, 7, 0], np.uint32), np.array([2**32 - 2, 9], np.uint32))
    units.grow(4, 2)
    units.take_over("person", np.array([3, 3, 0], np.uint32), np.array([0, 1, 1], np.uint32))
    assert units.persons.tolist() == [12, 7, 0, 12]
    units.take_over("household", np.array([0, 1], np.uint32), np.array([1, 0], np.uint32))
    assert units.households.tolist() == [2**32 - 1, 2**32 - 1]
    with pytest.raises(ValueError, match="for ever"):
        units.grow(3, 2)


def test_a_charge_beyond_32_bits_saturates() -> None:
    """A household of many is charged in 64 bits: nothing wraps around to nothing."""
    units = UnitLedger(np.zeros(300, np.uint32), np.array([2**32 - 10], np.uint32))
    everybody = np.arange(300, dtype=np.uint32)
    at_home = np.zeros(300, np.uint32)
    wanted = Wanted(everybody, at_home, np.ones(300, np.bool_))
    units.charge(wanted, price_units(1))
    assert units.households.tolist() == [2**32 - 1]
    assert set(units.persons.tolist()) == {price_units(1)}
    fits = units.fitting_households(wanted, price=price_units(1), room=2**32)
    assert not fits.any()


def test_what_a_decision_saw_is_not_put_back_over_later_charges() -> None:
    """A decision that is applied after another charge adds to that charge: nothing lowers one."""
    ledgers = Ledgers(units=UnitLedger(np.zeros(7, np.uint32), np.zeros(4, np.uint32)))
    sample, price = linked([4]), price_units(8)
    decision = ledgers.decide(sample, Room(price, CAP, "person"))
    for _ in range(2):
        ledgers.apply(sample, decision, price=price, organisation=HEALTH, digest=b"")
    assert ledgers.units.persons[PERSONS[4]] == ledgers.submitted.units_of(sample.pseudonyms)[0] == 2 * price
