"""The registry finds exactly those who are in it, and counts exactly what was asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from fakes.dictionaries import CHANGES, put_in_place
from fakes.disk import limited_files
from fakes.registries import made_registry, write_registry
from hypothesis import given
from hypothesis import strategies as st

from broker_common.crypto.linkage import LinkageKey
from broker_common.errors import InternalError, RefusedError
from broker_common.query.dictionary import Dictionary
from broker_common.query.question import EVERYONE, Question
from broker_common.storage.relinking import rekey
from census_node.dictionary import CENSUS_DICTIONARY
from census_node.registry import NO_VALUE, Registry

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
    """A registry of these people, in ascending order; values by variable and row."""
    numbers = np.frombuffer(b"".join(sorted(world)), dtype=">u8").reshape(-1, 2).astype(np.uint64)
    columns = {
        name: np.array((values or {}).get(name, [NO_VALUE] * len(world)), np.uint8) for name in CENSUS_DICTIONARY.names
    }
    return made_registry("load1", numbers[:, 0].copy(), numbers[:, 1].copy(), columns)


@given(world=worlds, asked=worlds)
def test_the_rows_are_those_of_a_plain_dictionary(world: list[bytes], asked: list[bytes]) -> None:
    """Whoever is in the registry is found at their row, in the order asked; nobody else is."""
    place = {name: row for row, name in enumerate(sorted(world))}
    found = registry_of(world).rows_of(rows_from(asked))
    assert found.dtype == np.uint32
    assert found.tolist() == [place[name] for name in asked if name in place]


@given(world=worlds)
def test_everybody_is_found(world: list[bytes]) -> None:
    """Asked for all, ascending or descending, each is found once."""
    registry = registry_of(world)
    everybody = rows_from(sorted(world))
    assert registry.size == len(world)
    assert registry.rows_of(everybody).tolist() == list(range(len(world)))
    assert registry.rows_of(everybody[::-1]).tolist() == list(range(len(world)))[::-1]


@pytest.mark.parametrize("n", [1, 2, 3, 10])
def test_people_with_equal_first_halves_are_told_apart(n: int) -> None:
    """Each of several who share a first half is found; their neighbours who are not there are not."""
    names = [b"h" * 8 + (2 * number + 1).to_bytes(8, "big") for number in range(n)]
    registry = registry_of(names)
    absent = [b"h" * 8 + (2 * number).to_bytes(8, "big") for number in range(n + 1)]
    mixed = [name for pair in zip(absent, names, strict=False) for name in pair]
    assert registry.rows_of(rows_from(mixed)).tolist() == list(range(n))
    assert registry.rows_of(rows_from(absent)).tolist() == []


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[bytes], list[bytes], int]:
    """People some of whom share a first half with one to three others; whom to ask for; the longest such run.

    The first halves are those that ordering bytes as numbers could get wrong, first and last ones among them.
    """
    world: list[bytes] = []
    strangers: list[bytes] = []
    longest = 1
    lows = st.integers(0, 12)
    for high in draw(st.sets(st.sampled_from([0, 1, 255, 256, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]), min_size=1)):
        run = draw(st.sets(lows, min_size=1, max_size=4))
        longest = max(longest, len(run))
        for low in range(13):
            # Numbers below, between and above those of the run, up to both ends of the range.
            name = high.to_bytes(8, "big") + (2**64 - 1 if low == 12 else low).to_bytes(8, "big")
            (world if low in run else strangers).append(name)
    asked = draw(st.permutations(world + draw(st.lists(st.sampled_from(strangers), unique=True))))
    return world, asked, longest


@given(case=runs())
def test_runs_of_equal_first_halves_are_those_of_a_plain_dictionary(case: tuple[list[bytes], list[bytes], int]) -> None:
    """Two, three or four who share a first half are each found at their row, whoever else is asked for."""
    world, asked, longest = case
    registry = registry_of(world)
    assert registry.longest_run == longest
    place = {name: row for row, name in enumerate(sorted(world))}
    assert registry.rows_of(rows_from(asked)).tolist() == [place[name] for name in asked if name in place]


@pytest.mark.parametrize(
    ("highs", "longest"), [("", 1), ("a", 1), ("abc", 1), ("aab", 2), ("abb", 2), ("aabbbc", 3), ("aaaa", 4)]
)
def test_the_longest_run_is_that_of_the_registry(highs: str, longest: int) -> None:
    """Wherever it lies, at either end too; nobody shares a first half with nobody."""
    names = [high.encode() * 8 + place.to_bytes(8, "big") for place, high in enumerate(highs)]
    assert registry_of(names).longest_run == longest


@pytest.mark.parametrize("longest", [1, 2, 4])
def test_looking_up_takes_the_same_steps_whoever_is_asked_for(monkeypatch: pytest.MonkeyPatch, longest: int) -> None:
    """Members of a run, members outside it, strangers and nobody: the number of steps tells none of them apart."""
    run = [b"r" * 8 + (2 * place).to_bytes(8, "big") for place in range(longest)]
    others = [bytes([place]) * 16 for place in range(5)]
    registry = registry_of([*run, *others])
    steps: list[int] = []
    take = np.take

    def counted(*arguments: Any, **named: Any) -> Any:
        steps[-1] += 1
        return take(*arguments, **named)

    monkeypatch.setattr(np, "take", counted)
    strangers = [b"r" * 8 + b"\xff" * 8, b"r" * 8 + (1).to_bytes(8, "big"), b"z" * 16, b"\0" * 15 + b"\1"]
    for asked in (run, run[-1:], others, strangers, strangers[:1]):
        steps.append(0)
        registry.rows_of(rows_from(asked))
    # The directory; by halving, the five who share a prefix, and those who share a first half, by both halves; both halves of
    # whoever stands there.
    among_run = longest.bit_length() if longest > 1 else 0
    assert set(steps) == {1 + 3 + 2 * among_run + 2}


def test_an_empty_registry_finds_nobody() -> None:
    """And an empty sample finds nobody anywhere."""
    assert registry_of([]).rows_of(rows_from([b"x" * 16, b"y" * 16])).tolist() == []
    assert registry_of([]).rows_of(rows_from([])).tolist() == []
    assert registry_of([b"x" * 16]).rows_of(rows_from([])).tolist() == []
    assert registry_of([]).count(np.empty(0, np.uint32), EVERYONE).reveal_to_mechanism() == 0


def test_a_strided_sample_is_read_like_a_packed_one() -> None:
    """Rows that are not contiguous in memory are the same people."""
    names = [bytes([number]) * 16 for number in range(20)]
    registry = registry_of(names)
    assert registry.rows_of(rows_from(names)[::3]).tolist() == list(range(0, 20, 3))


@given(data=st.data())
def test_every_question_is_counted_like_a_plain_loop(data: st.DataObject) -> None:
    """For each variable and any set of its values, those of the given rows who gave one of them."""
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
    rows = np.array(chosen, np.uint32)
    assert registry.count(rows, EVERYONE).reveal_to_mechanism() == len(chosen)
    for name in CENSUS_DICTIONARY.names:
        published = list(CENSUS_DICTIONARY.column(name).values)
        asked = data.draw(st.sets(st.sampled_from(published), min_size=1))
        positions = {published.index(value) for value in asked}
        counted = registry.count(rows, Question(name, tuple(sorted(asked))))
        assert counted.reveal_to_mechanism() == sum(values[name][row] in positions for row in chosen)


def test_people_without_an_answer_are_in_no_value() -> None:
    """They count in the denominator only: asking for all values of a variable leaves them out."""
    registry = registry_of([bytes(16), b"\1" * 16], {"mother_tongue": [0, NO_VALUE]})
    every_value = Question("mother_tongue", tuple(sorted(CENSUS_DICTIONARY.column("mother_tongue").values)))
    rows = np.array([0, 1], np.uint32)
    assert registry.count(rows, every_value).reveal_to_mechanism() == 1
    assert registry.count(rows, EVERYONE).reveal_to_mechanism() == 2


@given(world=worlds)
def test_a_registry_survives_its_file(world: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    """What is read is what was written."""
    file = tmp_path_factory.mktemp("registry") / "load1.npz"
    registry = registry_of(world)
    write_registry(registry, file)
    again = Registry.read(file, "load1")
    assert np.array_equal(again.high, registry.high)
    assert np.array_equal(again.low, registry.low)
    assert again.longest_run == registry.longest_run
    assert all(np.array_equal(again.columns[name], registry.columns[name]) for name in CENSUS_DICTIONARY.names)
    assert [path.name for path in file.parent.iterdir()] == ["load1.npz"]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_registry_of_another_dictionary_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Dictionary], Dictionary]
) -> None:
    """Whatever the log says: the file itself tells under which dictionary its numbers were made."""
    file = tmp_path / "load1.npz"
    write_registry(registry_of([bytes(16)]), file)
    put_in_place("CENSUS_DICTIONARY", change(CENSUS_DICTIONARY), monkeypatch.setattr)
    with pytest.raises(RefusedError) as caught:
        Registry.read(file, "load1")
    assert caught.value.code == "DICTIONARY_CHANGED"


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "rubbish", "pickle", "another archive"])
def test_a_damaged_file_is_refused(tmp_path: Path, damage: str) -> None:
    """Missing, cut or foreign files raise our own error, and nothing in them is executed."""
    file = tmp_path / "load1.npz"
    write_registry(registry_of([bytes(16)]), file)
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


@given(world=worlds, data=st.data())
def test_relinked_registry_holds_the_same_people_under_their_next_pseudonyms(
    world: list[bytes], data: st.DataObject
) -> None:
    """Each person is found by the new pseudonym with all their values, and every count about anybody stays what it was."""
    key = LinkageKey(bytes(range(32)))
    values = {
        column.name: data.draw(
            st.lists(st.sampled_from([NO_VALUE, *range(len(column.codes))]), min_size=len(world), max_size=len(world))
        )
        for column in CENSUS_DICTIONARY.columns
    }
    before = registry_of(world, values)
    after = before.relinked("load2", rekey(before.high, before.low, [key]))
    assert after.load == "load2"
    people = rows_from(sorted(world))
    rows = after.rows_of(key.step(people))
    assert sorted(rows.tolist()) == list(range(len(world)))
    for name in CENSUS_DICTIONARY.names:
        assert after.columns[name][rows].tolist() == before.columns[name].tolist()
        assert after.columns[name].dtype == np.uint8
    everybody = after.rows_of(key.step(people[::2]))
    for question in (EVERYONE, Question("mother_tongue", ("French",))):
        counts = [
            registry.count(found, question).reveal_to_mechanism()
            for registry, found in ((before, before.rows_of(people[::2])), (after, everybody))
        ]
        assert counts[0] == counts[1]


def test_whoever_is_not_found_is_read_like_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units are read where each one would stand: all of the unknown at one place would be faster by a multiple."""
    registry = registry_of([bytes([at]) * 16 for at in range(1, 200, 2)])
    read: list[set[int]] = []
    take = np.take

    def watched(numbers: Any, places: Any, **named: Any) -> Any:
        if numbers is registry.persons or numbers is registry.households:
            read.append(set(places.tolist()))
        return take(numbers, places, **named)

    monkeypatch.setattr(np, "take", watched)
    for asked in (range(1, 200, 2), range(0, 200, 2)):
        registry.link(rows_from([bytes([at]) * 16 for at in asked]))
    assert [len(places) for places in read] == [100] * 4
