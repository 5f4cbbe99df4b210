"""Census units: a person keeps one number for ever, and what moves between units with a card is told exactly."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from fakes.dictionaries import CENSUS_DICTIONARY
from fakes.disk import limited_files
from fakes.registries import SALT, made_names, made_registry, write_registry
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_common.agency.linkage import rekey
from broker_common.crypto.linkage import LinkageChain, LinkageKey
from broker_common.errors import InternalError
from broker_common.storage.source.plan import PlainPlan
from census_node.ledger import subjects
from census_node.ledger.subjects import Cards, Carry, Known, Names, number_subjects
from census_node.registry import Registry
from census_node.registry.loading import id_columns, read_registry
from deploy.synthetic.cards import card_digits

CARDS = ["".join(map(str, digits)) for digits in card_digits(np.arange(8)).tolist()]
PERSONS, HOUSEHOLDS = "pqrstu", "hijk"
# Person and household of each card.
World: TypeAlias = dict[str, tuple[str, str]]
Pairs: TypeAlias = set[tuple[str, str]]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A load: some cards, each of a person, each person in one household."""
    owners = draw(st.dictionaries(st.sampled_from(CARDS), st.sampled_from(PERSONS), min_size=1))
    homes = draw(st.fixed_dictionaries({person: st.sampled_from(HOUSEHOLDS) for person in PERSONS}))
    return {card: (person, homes[person]) for card, person in owners.items()}


@dataclass
class Agency:
    """Loads one after the other, each from the file of the one before, as a census home does."""

    folder: Path
    linkage: LinkageChain = field(default_factory=lambda: LinkageChain([LinkageKey(bytes(range(32)))]))
    loads: int = 0

    @property
    def file(self) -> Path:
        return self.folder / f"{self.loads}.npz"

    @property
    def names(self) -> Names:
        return Names.read(self.file, "load") if self.loads else Names.none(SALT)

    @property
    def known(self) -> Known:
        return Known.read(self.file, "load") if self.loads else Known.none()

    @property
    def registry(self) -> Registry:
        return Registry.read(self.file, "load")

    def load(self, world: World) -> Carry:
        """Put a world in force."""
        source = self.folder / "people.csv"
        header = ",".join(["health_card", "person_id", "household_id", *CENSUS_DICTIONARY.names])
        unsaid = "," * len(CENSUS_DICTIONARY.names)
        lines = [f"{card},{person},{household}{unsaid}" for card, (person, household) in world.items()]
        source.write_text("\n".join([header, *lines, ""]), "utf-8")
        known = self.known
        registry, names, report = read_registry(
            PlainPlan(source, id_columns(CENSUS_DICTIONARY)),
            "load",
            self.linkage,
            self.names,
            dictionary=CENSUS_DICTIONARY,
        )
        assert report.rejected.count == 0
        self.loads += 1
        registry.write(self.file, names, known.former_after(registry.cards))
        return Carry.between(known, registry.cards, registry.person_count, registry.household_count)

    def relink(self) -> None:
        """Change the linkage key."""
        key = LinkageKey(bytes([len(self.linkage.keys)]) * 32)
        names, known, registry = self.names, self.known, self.registry
        self.linkage = self.linkage.with_key(key)
        self.loads += 1
        rekeyed = rekey(registry.cards.high, registry.cards.low, [key])
        registry.relinked("load", rekeyed).write(self.file, names, known.former.relinked([key]))

    def cards(self, cards: Cards) -> World:
        """Cards by what they were, with the ids of the units whose numbers they have."""
        pseudonyms = np.stack([cards.high, cards.low], axis=1).astype(">u8").tobytes()
        assert sorted(pseudonyms[at : at + 16] for at in range(0, len(pseudonyms), 16)) == [
            pseudonyms[at : at + 16] for at in range(0, len(pseudonyms), 16)
        ]
        by_name = {self.linkage.pseudonym(card): card for card in CARDS}
        persons, households = self.ids
        return {
            by_name[pseudonyms[16 * at : 16 * at + 16]]: (persons[person], households[household])
            for at, (person, household) in enumerate(
                zip(cards.persons.tolist(), cards.households.tolist(), strict=True)
            )
        }

    @property
    def ids(self) -> tuple[list[str], list[str]]:
        """Ids of persons and households, by number."""
        names = self.names
        persons = {names.of_persons([person]): person for person in PERSONS}
        households = {names.of_households([household]): household for household in HOUSEHOLDS}
        return (
            [persons[name.tobytes()] for name in names.persons],
            [households[name.tobytes()] for name in names.households],
        )

    def pairs(self, carry: Carry) -> tuple[Pairs, Pairs]:
        """A carry by ids."""
        persons, households = self.ids
        assert (carry.person_count, carry.household_count) == (len(persons), len(households))
        found = (
            [(persons[to], persons[before]) for to, before in zip(carry.person_to, carry.person_from, strict=True)],
            [
                (households[to], households[before])
                for to, before in zip(carry.household_to, carry.household_from, strict=True)
            ],
        )
        assert [len(set(pairs)) for pairs in found] == [len(pairs) for pairs in found]
        return set(found[0]), set(found[1])


@settings(max_examples=50)
@given(steps=st.lists(worlds() | st.none(), min_size=1, max_size=6))
def test_units_and_carries_are_those_of_plain_dictionaries(
    steps: list[World | None], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Cards move, vanish and return, ids change, the linkage key changes in between (None): numbers stay, every pair is told."""
    agency = Agency(tmp_path_factory.mktemp("agency"))
    last: World = {}
    # Each person's last seen household.
    homes: dict[str, str] = {"p": "h"}
    ids: tuple[list[str], list[str]] = ([], [])
    agency.load(first := {CARDS[0]: ("p", "h")})
    last |= first
    for world in steps:
        if world is None:
            agency.relink()
            assert agency.ids == ids or not ids[0]
            in_force = dict(agency.cards(agency.registry.cards))
        else:
            persons, households = agency.pairs(agency.load(world))
            moved = [(world[card], last[card]) for card in world if card in last]
            assert persons == {(now[0], before[0]) for now, before in moved if now[0] != before[0]}
            at_home = [(home, homes[person]) for person, home in world.values() if person in homes]
            assert households == {
                (now, before)
                for now, before in [*((now[1], before[1]) for now, before in moved), *at_home]
                if now != before
            }
            last |= world
            homes |= dict(world.values())
            in_force = world
        for numbered, before in zip(agency.ids, ids, strict=True):
            # SECURITY: a number that changed hands would be a charge that is forgotten.
            assert numbered[: len(before)] == before
        ids = agency.ids
        known = agency.known
        assert agency.cards(known.cards) == in_force
        assert agency.cards(known.former) == {card: of for card, of in last.items() if card not in in_force}
        assert agency.names.salt == SALT


def test_first_load_carries_nothing(tmp_path: Path) -> None:
    """Nobody was charged before."""
    carry = Agency(tmp_path).load({CARDS[0]: ("p", "h"), CARDS[1]: ("q", "h")})
    assert [len(column) for column in (carry.person_to, carry.household_to)] == [0, 0]
    assert (carry.person_count, carry.household_count) == (2, 1)


def test_whoever_comes_back_under_another_id_inherits(tmp_path: Path) -> None:
    """Leaving for some loads, and changes of the linkage key meanwhile, do not make a new person of anybody."""
    agency = Agency(tmp_path)
    agency.load({CARDS[0]: ("p", "h"), CARDS[1]: ("q", "i")})
    agency.load({CARDS[1]: ("q", "i")})
    agency.relink()
    agency.load({CARDS[1]: ("q", "i"), CARDS[2]: ("r", "h")})
    agency.relink()
    carry = agency.load({CARDS[0]: ("s", "j"), CARDS[1]: ("q", "i")})
    assert agency.pairs(carry) == ({("s", "p")}, {("j", "h")})
    assert set(agency.cards(agency.known.former)) == {CARDS[2]}


def test_two_people_who_turn_out_to_be_one_are_charged_for_both(tmp_path: Path) -> None:
    """And the other way round: who turn out to be two are each charged for all."""
    agency = Agency(tmp_path)
    agency.load({CARDS[0]: ("p", "h"), CARDS[1]: ("q", "h"), CARDS[2]: ("q", "h")})
    assert agency.pairs(agency.load(dict.fromkeys(CARDS[:3], ("p", "h")))) == ({("p", "q")}, set())
    back = agency.load({CARDS[0]: ("p", "h"), CARDS[1]: ("q", "i"), CARDS[2]: ("r", "h")})
    assert agency.pairs(back) == ({("q", "p"), ("r", "p")}, {("i", "h")})


def test_numbers_are_found_among_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lookups go piece by piece; nobody at the edge of a piece is lost."""
    monkeypatch.setattr(subjects, "_MOST_AT_ONCE", 7)
    size = 40
    high, low = np.arange(size, dtype=np.uint64) // np.uint64(3), np.arange(size, dtype=np.uint64)
    numbers = np.arange(size, dtype=np.uint32)
    before = Cards(high, low, numbers, numbers)
    now = Cards(high[1::2], low[1::2], numbers[1::2] + np.uint32(1), numbers[1::2])
    carry = Carry.between(Known(before.rows(low < 20), before.rows(low >= 20), numbers[:0]), now, size + 1, size)
    assert carry.person_to.tolist() == list(range(2, size + 1, 2))
    assert carry.person_from.tolist() == list(range(1, size, 2))
    assert carry.household_to.tolist() == []
    assert before.without(now).low.tolist() == list(range(0, size, 2))
    former = Known(before, Cards.none(), numbers).former_after(now)
    assert (former.low.tolist(), former.persons.tolist()) == (list(range(0, size, 2)), list(range(0, size, 2)))


def test_a_name_is_known_by_all_its_bytes() -> None:
    """Names that end in zeros, or differ in their last byte alone, are told apart."""
    known = np.frombuffer(bytes(16) + b"a" + bytes(15) + b"a" * 15 + b"\0" + b"a" * 16, "S16")
    asked = np.frombuffer(bytes(16) + b"\0" * 15 + b"a" + b"a" + bytes(15) + b"a" * 15 + b"\0" + b"a" * 16, "S16")
    grown, numbers = number_subjects(known, asked, np.ones(5, bool))
    assert numbers.tolist() == [0, 4, 1, 2, 3]
    assert len(grown) == 5
    assert number_subjects(known, asked, np.zeros(5, bool))[0].tolist() == known.tolist()


def test_ids_stand_in_no_file_and_their_names_depend_on_the_salt(tmp_path: Path) -> None:
    """Neither ids nor cards are kept; another agency's names tell nothing about these."""
    agency = Agency(tmp_path)
    agency.load({CARDS[0]: ("p", "h")})
    assert CARDS[0].encode() not in agency.file.read_bytes()
    ours, others = Names.none(SALT), Names.none(bytes(32))
    names = {ours.of_persons(["1"]), ours.of_households(["1"]), others.of_persons(["1"]), others.of_households(["1"])}
    assert len(names) == 4
    assert ours.salt.hex() not in repr(ours)
    assert repr(ours.salt) not in repr(ours)


# --- files -----------------------------------------------------------------------------------------------------------


def small_carry() -> Carry:
    """Two persons inherit, one household does."""
    return Carry(
        np.array([0, 2], np.uint32),
        np.array([1, 0], np.uint32),
        np.array([1], np.uint32),
        np.array([0], np.uint32),
        3,
        2,
    )


def spoil(path: Path, changed: Mapping[str, Any]) -> None:
    """Write the file anew with other columns; None leaves one out."""
    with np.load(path) as stored:
        columns = {name: stored[name] for name in stored.files}
    kept = {name: column for name, column in (columns | dict(changed)).items() if column is not None}
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **kept)


@given(
    persons=st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda pair: pair[0] != pair[1])),
    households=st.sets(st.tuples(st.integers(0, 2**32 - 2), st.integers(0, 2**32 - 2))),
)
def test_a_carry_survives_its_file(persons: Pairs, households: Pairs, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The file is read as it was written, with the same hash, and one file alone is left."""
    path = tmp_path_factory.mktemp("carry") / "a.carry"
    columns = [
        np.array([pair[at] for pair in sorted(pairs)], np.uint32) for pairs in (persons, households) for at in (0, 1)
    ]
    carry = Carry(columns[0], columns[1], columns[2], columns[3], 10, 2**32 - 1)
    carry.write(path)
    again = Carry.read(path)
    for name in ("person_to", "person_from", "household_to", "household_from"):
        assert getattr(again, name).tolist() == getattr(carry, name).tolist()
        assert getattr(again, name).dtype == np.uint32
    assert (again.person_count, again.household_count, again.content_hash) == (10, 2**32 - 1, carry.content_hash)
    assert list(path.parent.iterdir()) == [path]


def test_every_part_of_a_carry_is_in_its_hash() -> None:
    """Another pair, another unit, another count: another hash."""
    one, none = np.array([1], np.uint32), np.empty(0, np.uint32)
    variants = [
        Carry(none, none, none, none, 3, 3),
        Carry(none, none, none, none, 4, 3),
        Carry(none, none, none, none, 3, 4),
        Carry(one, one + 1, none, none, 3, 3),
        Carry(one + 1, one, none, none, 3, 3),
        Carry(none, none, one, one + 1, 3, 3),
    ]
    assert len({carry.content_hash for carry in variants}) == len(variants)


CARRY_DAMAGES: dict[str, Callable[[Path], None]] = {
    "missing": Path.unlink,
    "cut": lambda path: os.truncate(path, path.stat().st_size - 30),
    "changed": lambda path: spoil(path, {"person_from": np.array([1, 1], np.uint32)}),
    "length": lambda path: spoil(path, {"person_from": np.array([1], np.uint32)}),
    "number": lambda path: spoil(path, {"household_to": np.array([2], np.uint32)}),
    "hash": lambda path: spoil(path, {"hash": np.zeros(32, np.uint8)}),
    "no counts": lambda path: spoil(path, {"counts": None}),
}


@pytest.mark.parametrize("damage", CARRY_DAMAGES)
def test_a_damaged_carry_is_refused(tmp_path: Path, damage: str) -> None:
    """A charge that went to another unit, or to nobody, would break the limit."""
    path = tmp_path / "a.carry"
    small_carry().write(path)
    CARRY_DAMAGES[damage](path)
    with pytest.raises(InternalError) as caught:
        Carry.read(path)
    assert caught.value.code == "INTEGRITY"


def test_a_full_disk_leaves_no_half_carry(tmp_path: Path) -> None:
    """STORE_FAILED, and nothing is left."""
    with limited_files(100), pytest.raises(InternalError) as caught:
        small_carry().write(tmp_path / "a.carry")
    assert caught.value.code == "STORE_FAILED"
    assert list(tmp_path.iterdir()) == []


Reader: TypeAlias = Callable[[Path, str], object]
ALL: tuple[Reader, ...] = (Names.read, Known.read, Registry.read)
# The change, and who notices.
LOAD_DAMAGES: dict[str, tuple[dict[str, Any], tuple[Reader, ...]]] = {
    "salt": ({"salt": np.zeros(16, np.uint8)}, ALL[:1]),
    "no salt": ({"salt": None}, ALL[:1]),
    "names": ({"person_names": np.zeros(2, "S16")}, ALL[:1]),
    "household names": ({"household_names": np.zeros(3, "S15")}, ALL[:1]),
    "counts": ({"counts": np.array([2, 3], np.uint64)}, ALL),
    "too many": ({"counts": np.array([2**33, 3], np.uint64)}, ALL),
    "number": ({"persons": np.array([0, 1, 3], np.uint32)}, ALL[1:]),
    "household": ({"households": np.array([0, 1, 2**32 - 1], np.uint32)}, ALL[1:]),
    "signed": ({"persons": np.array([0, 1, 2], np.int32)}, ALL[1:]),
    "former number": ({"former_persons": np.array([3], np.uint32)}, ALL[1:2]),
    "values": ({"value.mother_tongue": np.zeros(2, np.uint8)}, ALL[2:]),
    "no values": ({"value.mother_tongue": None}, ALL[2:]),
    "former length": ({"former_low": np.zeros(0, np.uint64)}, ALL[1:2]),
}


@pytest.mark.parametrize("damage", LOAD_DAMAGES)
def test_a_damaged_load_gives_no_units(tmp_path: Path, damage: str) -> None:
    """Missing, short, of another type, or naming a unit that was never numbered: INTEGRITY."""
    path = tmp_path / "load.npz"
    ascending = np.arange(3, dtype=np.uint64)
    columns = {name: np.zeros(3, np.uint8) for name in CENSUS_DICTIONARY.names}
    former = Cards(ascending[:1] + np.uint64(9), ascending[:1], np.zeros(1, np.uint32), np.zeros(1, np.uint32))
    write_registry(made_registry("load", ascending, ascending, columns), path, former)
    assert Names.read(path, "load").persons.tolist() == made_names(3, 3).persons.tolist()
    assert Known.read(path, "load").former.size == 1
    changed, readers = LOAD_DAMAGES[damage]
    spoil(path, changed)
    for read in readers:
        with pytest.raises(InternalError) as caught:
            read(path, "load")
        assert caught.value.code == "INTEGRITY"
