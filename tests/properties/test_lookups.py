"""What is fast says what is obvious: lookups and charges against plain Python, whoever chose the pseudonyms.

Pseudonyms come in clusters that share a prefix, a first half or neither, as the adversary may choose them; charges go through
decisions that are applied, kept for later, looked up in parts, or overtaken, with relinks and snapshots in between.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from fakes.randomness import SeededRandomness
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_common.crypto.linkage import LinkageKey
from census_node import parts
from census_node.ledgers import Decision, Ledgers, Room
from census_node.linked import NOBODY, Linked
from census_node.pseudonyms import Index, halves_of
from census_node.snapshots import SnapshotFolder
from census_node.submitted_ledger import Standing
from census_node.unit_ledger import UnitLedger

MOST = 2**32 - 1
# First halves: of one prefix, the same one, the ends of the range. Second halves: near one another, and the ends.
highs = st.sampled_from([0, 1, 2**40 - 1, 2**40, 7 * 2**40 + 3, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)
lows = st.integers(0, 40) | st.sampled_from([2**63, 2**64 - 1])
names = st.tuples(highs, lows)
Name = tuple[int, int]


def array_of(chosen: list[Name]) -> npt.NDArray[np.uint8]:
    """As they come in frames."""
    return np.array(chosen, np.uint64).reshape(-1, 2).astype(">u8").view(np.uint8).reshape(-1, 16)


@settings(max_examples=200)
@given(
    world=st.lists(names, unique=True, max_size=200),
    strangers=st.lists(names, max_size=60),
    chooser=st.randoms(use_true_random=False),
    small=st.booleans(),
)
def test_a_lookup_says_what_a_dictionary_says(
    world: list[Name], strangers: list[Name], chooser: Any, small: bool
) -> None:
    """Of all, of none, of some, in any order; with long runs of one first half; in chunks that end anywhere."""
    world = sorted(world)
    place = {name: row for row, name in enumerate(world)}
    asked = chooser.sample(world, chooser.randint(0, len(world))) + strangers
    chooser.shuffle(asked)
    index = Index(*halves_of(array_of(world)))
    with pytest.MonkeyPatch.context() as patch:
        if small:
            patch.setattr(parts, "MOST_IN_PART", 7)
        for wanted in (asked, sorted(asked), world, strangers, []):
            for places, found in (index.find(array_of(wanted)), index.locate(*halves_of(array_of(wanted)))):
                assert found.tolist() == [name in place for name in wanted]
                assert places[found].tolist() == [place[name] for name in wanted if name in place]
            would = index.places(*halves_of(array_of(wanted)))
            assert would.tolist() == [bisect.bisect_left(world, name) for name in wanted]


def test_a_million_with_one_first_half_cost_a_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever submits them cannot make the others' lookups long: the steps grow with the logarithm."""
    high, low = np.full(1 << 17, 5, np.uint64), np.arange(1 << 17, dtype=np.uint64) * np.uint64(2)
    index, take = Index(high, low), np.take
    steps: list[int] = []

    def counted(*each: Any, **named: Any) -> Any:
        steps.append(1)
        return take(*each, **named)

    monkeypatch.setattr(np, "take", counted)
    places, found = index.locate(high[:3], np.array([0, 1, 2**18 - 2], np.uint64))
    assert (found.tolist(), places[found].tolist()) == ([True, False, True], [0, 2**17 - 1])
    assert len(steps) <= 1 + 18 + 2 * 18 + 2


class Plain:
    """The rules of both ledgers, a card at a time."""

    def __init__(self, persons: int, households: int) -> None:
        self.submitted: defaultdict[Name, int] = defaultdict(int)
        self.persons = [0] * persons
        self.households = [0] * households

    def decide(
        self, cards: list[Name], units: dict[Name, tuple[int, int]], room: Room
    ) -> tuple[list[bool], list[bool]]:
        """Who is charged, and who is active."""
        fits = [self.submitted[card] + room.price <= room.most for card in cards]
        people = defaultdict(set)
        for card, each in zip(cards, fits, strict=True):
            if each and card in units:
                people[units[card][1]].add(units[card][0])
        active = []
        for card, fitting in zip(cards, fits, strict=True):
            is_active = fitting
            if fitting and card in units:
                person, home = units[card]
                charged = self.persons[person] + room.price
                if room.unit == "household":
                    charged = self.households[home] + len(people[home]) * room.price
                is_active = charged <= room.most
            active.append(is_active)
        return fits, active

    def apply(
        self, cards: list[Name], units: dict[Name, tuple[int, int]], fits: list[bool], active: list[bool], price: int
    ) -> None:
        """Charge them."""
        for card, each in zip(cards, fits, strict=True):
            self.submitted[card] += price * each
        for person, home in {units[card] for card, each in zip(cards, active, strict=True) if each and card in units}:
            self.persons[person] = min(self.persons[person] + price, MOST)
            self.households[home] = min(self.households[home] + price, MOST)


@settings(max_examples=150)
@given(data=st.data())
def test_charges_are_those_of_plain_rules(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """In any order of deciding, applying, snapshots and relinks; several cards a person, several people a household."""
    everybody = sorted(data.draw(st.lists(names, unique=True, min_size=1, max_size=30)))
    chooser = data.draw(st.randoms(use_true_random=False))
    homes = [chooser.randrange(4) for _ in range(8)]
    units: dict[Name, tuple[int, int]] = {}
    for card in everybody:
        if chooser.random() < 0.8:
            person = chooser.randrange(8)
            units[card] = (person, homes[person])
    plain = Plain(8, 4)
    ledgers = Ledgers(units=UnitLedger(np.zeros(8, np.uint32), np.zeros(4, np.uint32)))
    folder = SnapshotFolder(Path(tmp_path_factory.mktemp("census")))
    kept: tuple[Linked, Decision] | None = None
    for _ in range(data.draw(st.integers(1, 25))):
        step = chooser.choice(["charge"] * 8 + ["decide", "snapshot", "relink", "freeze"])
        if step == "snapshot":
            ledgers = folder.read(*folder.write(ledgers, SeededRandomness(str(chooser.random()))))
        elif step == "freeze":
            ledgers.frozen().apply(*_of_everybody(everybody, units), price=3, organisation="health", digest=b"")
        elif step == "relink":
            key = LinkageKey(bytes([chooser.randrange(256)]) * 32)
            after = {card: _halves(key.step(array_of([card]))) for card in everybody}
            ledgers = ledgers.relinked([key])
            units = {after[card]: each for card, each in units.items()}
            plain.submitted = defaultdict(int, {after[card]: each for card, each in plain.submitted.items()})
            everybody, kept = sorted(after.values()), None
        else:
            cards = sorted(chooser.sample(everybody, chooser.randint(0, len(everybody))))
            sample = _sample(cards, units)
            room = Room(
                chooser.choice([1, 2, 5]), chooser.choice([0, 4, 12, 2**40]), chooser.choice(["person", "household"])
            )
            decision = ledgers.decide(sample, room, _in_parts(ledgers, sample, chooser))
            fits, active = plain.decide(cards, units, room)
            assert (decision.fits.tolist(), decision.active.tolist()) == (fits, active)
            if step == "decide":
                kept = (sample, decision)
                continue
            if kept is not None and chooser.random() < 0.5:
                # One that others have overtaken; who is charged is what it says, on the ledgers as they are.
                sample, decision = kept
                fits, active, cards = (
                    decision.fits.tolist(),
                    decision.active.tolist(),
                    [_halves(row) for row in sample.pseudonyms],
                )
            new = sum(1 for card, each in zip(cards, fits, strict=True) if each and not plain.submitted[card])
            before = ledgers.introduced.get("health", 0)
            ledgers.apply(sample, decision, price=room.price, organisation="health", digest=b"")
            assert ledgers.introduced["health"] == before + new
            plain.apply(cards, units, fits, active, room.price)
        assert ledgers.submitted.units_of(array_of(everybody)).tolist() == [plain.submitted[card] for card in everybody]
        assert ledgers.units.persons.tolist() == plain.persons
        assert ledgers.units.households.tolist() == plain.households
        assert ledgers.submitted.size == sum(map(bool, plain.submitted.values()))


def _halves(pseudonym: npt.NDArray[np.uint8]) -> Name:
    high, low = halves_of(pseudonym.reshape(-1, 16))
    return int(high[0]), int(low[0])


def _sample(cards: list[Name], units: dict[Name, tuple[int, int]]) -> Linked:
    persons, households = (
        np.array([units.get(card, (NOBODY, NOBODY))[each] for card in cards], np.uint32) for each in (0, 1)
    )
    return Linked(array_of(cards), persons, households)


def _of_everybody(cards: list[Name], units: dict[Name, tuple[int, int]]) -> tuple[Linked, Decision]:
    return _sample(cards, units), Decision(np.ones(len(cards), np.bool_), np.ones(len(cards), np.bool_))


def _in_parts(ledgers: Ledgers, sample: Linked, chooser: Any) -> Standing | None:
    """As frames are looked up while the next one is on its way, sometimes."""
    if chooser.random() < 0.5:
        return None
    standing = ledgers.submitted.standing(len(sample.pseudonyms))
    for at in range(0, len(sample.pseudonyms), 3):
        standing.locate(at, sample.pseudonyms[at : at + 3])
    return standing
