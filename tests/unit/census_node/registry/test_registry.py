"""The registry: what is read is what was written, what is counted is what was asked, and cards take memory while they are read."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from fakes.desk_arrays import bits_of
from fakes.dictionaries import CENSUS_DICTIONARY, CHANGES
from fakes.disk import limited_files
from fakes.registries import made_registry, write_registry
from hypothesis import given
from hypothesis import strategies as st

from broker_common.agency.linkage import rekey
from broker_common.crypto.linkage import LinkageKey
from broker_common.errors import InternalError
from broker_common.query.dictionary import Dictionary
from broker_common.query.question import EVERYONE, REST, Cell, Question
from census_node.ledger.passes import Passes
from census_node.ledger.subjects import halves_of
from census_node.registry import NO_VALUE, Registry
from census_node.registry.registry import counted

People: TypeAlias = npt.NDArray[np.uint8]

# Few distinct halves, extremes among them, so that equal first halves and near misses are common.
halves = st.sampled_from([0, 1, 2, 255, 256, 2**32, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1])
pseudonyms = st.tuples(halves, halves).map(lambda pair: pair[0].to_bytes(8, "big") + pair[1].to_bytes(8, "big"))
worlds = st.lists(pseudonyms | st.binary(min_size=16, max_size=16), unique=True, max_size=60)


def rows_from(names: list[bytes]) -> People:
    """Pseudonyms as an array."""
    rows: People = np.frombuffer(b"".join(names), np.uint8).reshape(-1, 16)
    return rows


def registry_of(world: list[bytes], values: dict[str, list[int]] | None = None) -> Registry:
    """A registry of these people, one card each, numbered in ascending order; values by variable and person."""
    by_person = {
        name: np.array((values or {}).get(name, [NO_VALUE] * len(world)), np.uint8) for name in CENSUS_DICTIONARY.names
    }
    return made_registry("load1", *halves_of(rows_from(sorted(world))), by_person)


def count(registry: Registry, people: list[int], question: Question) -> tuple[int, ...]:
    """How many of these persons are in each cell of the question."""
    size = registry.people.person_count
    with Passes(people_in_block=32) as passes:
        return tuple(passes.count(bits_of(people, size), counted(registry, question)))


@given(data=st.data())
def test_every_question_is_counted_like_a_plain_loop(data: st.DataObject) -> None:
    """For each variable and any set of its values, those of the given people who gave one of them."""
    size = data.draw(st.integers(1, 30))
    values = {
        name: data.draw(
            st.lists(
                st.integers(0, len(CENSUS_DICTIONARY.column(name).values) - 1) | st.just(NO_VALUE),
                min_size=size,
                max_size=size,
            )
        )
        for name in CENSUS_DICTIONARY.names
    }
    registry = registry_of([number.to_bytes(16, "big") for number in range(size)], values)
    chosen = data.draw(st.lists(st.integers(0, size - 1), unique=True))
    assert count(registry, chosen, EVERYONE) == (len(chosen),)
    for name in CENSUS_DICTIONARY.names:
        published = list(CENSUS_DICTIONARY.column(name).values)
        asked = data.draw(st.sets(st.sampled_from(published), min_size=1))
        positions = {published.index(value) for value in asked}
        expected = sum(values[name][person] in positions for person in chosen)
        assert count(registry, chosen, Question(name, (Cell(tuple(sorted(asked))),))) == (expected,)


@given(
    given_values=st.lists(st.integers(0, 6) | st.just(NO_VALUE), min_size=1, max_size=40),
    places=st.lists(st.integers(0, 4), min_size=7, max_size=7),
    rest=st.none() | st.integers(0, 4),
)
def test_every_cell_of_a_table_has_its_own_people(given_values: list[int], places: list[int], rest: int | None) -> None:
    """Each person is in one cell, in the order asked for; the rest are all others, those without an answer among them."""
    published = CENSUS_DICTIONARY.column("mother_tongue").values
    found: dict[int, set[str]] = {}
    for value, place in zip(published, places, strict=True):
        # Place 4 is in no cell.
        if place < 4:
            found.setdefault(place, set()).add(value)
    cells = [Cell(tuple(sorted(values))) for values in found.values()]
    if rest is not None and cells:
        cells.insert(rest, REST)
    if not cells:
        return
    everybody = list(range(len(given_values)))
    registry = registry_of([number.to_bytes(16, "big") for number in everybody], {"mother_tongue": given_values})
    counts = count(registry, everybody, Question("mother_tongue", tuple(cells)))
    said = [None if code == NO_VALUE else published[code] for code in given_values]
    named = {value for cell in cells for value in cell.values}
    expected = [sum(value in cell.values if cell.values else value not in named for value in said) for cell in cells]
    assert list(counts) == expected


def test_people_without_an_answer_are_in_no_value() -> None:
    """They count in the denominator only: asking for all values of a variable leaves them out."""
    registry = registry_of([bytes(16), b"\1" * 16], {"mother_tongue": [0, NO_VALUE]})
    every_value = Question("mother_tongue", (Cell(tuple(sorted(CENSUS_DICTIONARY.column("mother_tongue").values))),))
    assert count(registry, [0, 1], every_value) == (1,)
    assert count(registry, [0, 1], EVERYONE) == (2,)


@given(world=worlds, households=st.integers(1, 5), data=st.data())
def test_a_registry_survives_its_file(
    world: list[bytes], households: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The file is read as it was written, again after its cards were let go of; a person may have several cards, or none."""
    file = tmp_path_factory.mktemp("registry") / "load1.npz"
    persons = data.draw(st.lists(st.integers(0, 70), min_size=len(world), max_size=len(world)))
    count = 1 + max(persons, default=-1)
    values = {
        name: np.array(data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count)), np.uint8)
        for name in CENSUS_DICTIONARY.names
    }
    registry = made_registry(
        "load1",
        *halves_of(rows_from(sorted(world))),
        values,
        persons=persons,
        households=[person % households for person in persons],
    )
    write_registry(registry, file)
    again = Registry.read(file, "load1")
    for _ in range(2):
        for name, column in registry.cards.columns().items():
            assert again.cards.columns()[name].tolist() == column.tolist()
        again.let_cards_go()
    assert (again.load, again.size) == ("load1", len(world))
    assert (again.people.person_count, again.people.household_count) == (
        registry.people.person_count,
        registry.people.household_count,
    )
    assert {name: column.tolist() for name, column in again.people.values.items()} == {
        name: column.tolist() for name, column in values.items()
    }
    assert again.people.homes.of_person.tolist() == registry.people.homes.of_person.tolist()
    assert [path.name for path in file.parent.iterdir()] == ["load1.npz"]


def test_what_is_mapped_stays_when_the_file_is_removed(tmp_path: Path) -> None:
    """Another load is in force, and an answer on this one is still to be made."""
    file = tmp_path / "load1.npz"
    write_registry(registry_of([bytes(16), b"\1" * 16], {"mother_tongue": [0, 1]}), file)
    registry = Registry.read(file, "load1")
    file.unlink()
    assert registry.cards.low.tolist() == [0, 0x0101010101010101]
    assert registry.people.values["mother_tongue"].tolist() == [0, 1]


def resident(memory: int) -> int:
    """Bytes in memory of the mapping that begins here or before."""
    smaps = Path("/proc/self/smaps").read_text("ascii")
    for entry in re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", smaps):
        first, last = (int(each, 16) for each in entry.split(" ", 1)[0].split("-"))
        if first <= memory < last:
            return 1024 * int(re.findall(r"^Rss: +(\d+) kB", entry, re.MULTILINE)[0])
    raise AssertionError


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="how much of a mapping is in memory shows on Linux")
def test_cards_take_no_memory_but_while_they_are_read(tmp_path: Path) -> None:
    """Neither after a start, which checks every card, nor after a roster was joined."""
    size = 1 << 18
    high, low = np.arange(size, dtype=np.uint64), np.zeros(size, np.uint64)
    values = {name: np.zeros(size, np.uint8) for name in CENSUS_DICTIONARY.names}
    write_registry(made_registry("load1", high, low, values), tmp_path / "load1.npz")
    registry = Registry.read(tmp_path / "load1.npz", "load1")
    columns = registry.cards.columns().values()
    for _ in range(2):
        assert [resident(column.ctypes.data) for column in columns] == [0] * 4
        assert all(column.sum() >= 0 for column in columns)
        assert any(resident(column.ctypes.data) for column in columns)
        registry.let_cards_go()


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_registry_says_what_its_values_mean(tmp_path: Path, change: Callable[[Dictionary], Dictionary]) -> None:
    """The file itself tells under which dictionary its numbers were made; nobody else is asked when they are counted."""
    dictionary = change(CENSUS_DICTIONARY)
    values = {name: np.zeros(1, np.uint8) for name in dictionary.names}
    write_registry(
        made_registry("load1", *halves_of(rows_from([bytes(16)])), values, dictionary=dictionary),
        tmp_path / "load1.npz",
    )
    read = Registry.read(tmp_path / "load1.npz", "load1")
    assert read.dictionary.hash == dictionary.hash
    first = dictionary.column("mother_tongue").values[0]
    assert count(read, [0], Question("mother_tongue", (Cell((first,)),))) == (1,)


@pytest.mark.parametrize(
    "damage", ["missing", "empty", "cut", "rubbish", "pickle", "another archive", "a changed value"]
)
def test_a_damaged_file_is_refused(tmp_path: Path, damage: str) -> None:
    """Missing, cut or foreign files raise our own error, and nothing in them is executed."""
    file = tmp_path / "load1.npz"
    write_registry(registry_of([bytes(16)], {name: [77] for name in CENSUS_DICTIONARY.names}), file)
    match damage:
        case "missing":
            file.unlink()
        case "empty":
            file.write_bytes(b"")
        case "cut":
            file.write_bytes(file.read_bytes()[:-30])
        case "rubbish":
            file.write_bytes(b"rubbish")
        case "pickle":
            with file.open("wb") as stream:
                np.savez(stream, high=np.array([{}], dtype=object))
        case "a changed value":
            # Behind the header of the array, which ends with a new line.
            file.write_bytes(re.sub(rb"\n\x4d", b"\n\x4e", file.read_bytes(), count=1))
        case _:
            with file.open("wb") as stream:
                np.savez(stream, other=np.zeros(1))
    with pytest.raises(InternalError) as caught:
        Registry.read(file, "load1")
    assert caught.value.code == "INTEGRITY"


def test_disk_that_takes_no_more_leaves_the_old_load(tmp_path: Path) -> None:
    """A write that fails, at the first byte or later, is STORE_FAILED, and the file that was there is as it was."""
    path = tmp_path / "load1.npz"
    write_registry(registry_of([bytes(16)]), path)
    before = path.read_bytes()
    for most in (0, 100, len(before) - 1):
        with limited_files(most), pytest.raises(InternalError) as caught:
            write_registry(registry_of([bytes(15) + bytes([number]) for number in range(99)]), path)
        assert caught.value.code == "STORE_FAILED"
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]


@given(world=worlds)
def test_relinked_registry_holds_the_same_people_under_their_next_pseudonyms(world: list[bytes]) -> None:
    """Each card is the one of the person it was; nothing that goes by person numbers changes."""
    key = LinkageKey(bytes(range(32)))
    before = registry_of(world)
    after = before.relinked("load2", rekey(before.cards.high, before.cards.low, [key]))
    assert after.load == after.people.load == "load2"
    stepped = [row.tobytes() for row in key.step(rows_from(sorted(world)))]
    now = [row.tobytes() for row in np.stack([after.cards.high, after.cards.low], axis=1).astype(">u8")]
    assert now == sorted(stepped)
    assert [stepped.index(name) for name in now] == after.cards.persons.tolist() == after.cards.households.tolist()
    assert after.people.values is before.people.values
    assert after.people.homes.of_person.tolist() == before.people.homes.of_person.tolist()
