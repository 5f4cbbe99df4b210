"""Samples of bits: people who match and are drawn, in roster order, found with the same work no matter who they are."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
import pytest
from fakes.desk_arrays import members
from fakes.samples import whom
from fakes.watched_arrays import Notes, notes_of, watching
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_common.crypto.sampling import WHOLE_MILLIONTHS, SamplingKey
from broker_common.query.canonical import canonical_bytes
from broker_common.query.condition import Condition
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import Code, Column, ColumnType, Dictionary
from broker_common.storage.source.values import MISSING
from health_node.people.store import People, PeopleStore, build_people_store
from health_node.query.marks import mark_sample

DICTIONARY = Dictionary(
    (
        Column(name="age", type=ColumnType.INTEGER, description="Age.", maximum=130),
        Column(name="sex", type=ColumnType.CODE, description="Sex.", codes=(Code("f", "F"), Code("m", "M"))),
        Column(
            name="drug",
            type=ColumnType.CODE,
            multi_valued=True,
            description="D.",
            codes=tuple(Code(f"d{at}", "D") for at in range(5)),
        ),
    )
)
# Facts of each about one person: an age or none, a sex or none, and drugs.
CRITERIA: dict[str, Callable[[int | None, str | None, set[int]], bool]] = {
    "age >= 0": lambda age, _sex, _drugs: age is not None,
    "age > 130": lambda _age, _sex, _drugs: False,
    "age = 7": lambda age, _sex, _drugs: age == 7,
    "sex = 'f' and not drug = 'd1'": lambda _age, sex, drugs: sex == "f" and 1 not in drugs,
    "age in (1, 3, 5, 7, 9, 11, 13, 15) or drug in ('d2', 'd3') and age < 90": lambda age, _sex, drugs: (
        age in range(1, 16, 2) or (bool(drugs & {2, 3}) and age is not None and age < 90)
    ),
    "not (sex = 'm' or age between 20 and 80)": lambda age, sex, _drugs: (
        sex != "m" and not (age is not None and 20 <= age <= 80)
    ),
}
SEVERAL = list(CRITERIA)[4]
FRACTIONS = (1, 300_000, 999_999, WHOLE_MILLIONTHS)
KEY = SamplingKey(bytes(range(32)))


def condition(text: str) -> Condition:
    """The condition a text writes."""
    return parse_condition(text, DICTIONARY)


def world(seed: int, size: int) -> People:
    """People with all kinds of values, and without some."""
    generator = np.random.default_rng(seed)
    halves = np.unique(generator.integers(0, 2**64, (size, 2), np.uint64), axis=0)
    age = generator.integers(0, 131, len(halves)).astype(np.int32)
    sex = generator.integers(-1, 2, len(halves)).astype(np.int32)
    age[generator.random(len(halves)) < 0.1] = MISSING
    sex[sex < 0] = MISSING
    drug = generator.integers(0, 32, len(halves)).astype(np.uint64)
    return People(halves[:, 0], halves[:, 1], {"age": age, "sex": sex, "drug": drug})


def one_by_one(people: People, where: str, fraction: int) -> list[bytes]:
    """The sample as a list of pseudonyms: each person is looked at alone."""
    sexes = {0: "f", 1: "m"}
    ages, sex, drugs = (people.columns[name].tolist() for name in ("age", "sex", "drug"))
    return [
        pseudonym
        for at, pseudonym in enumerate(roster(people))
        if CRITERIA[where](
            None if ages[at] == MISSING else ages[at],
            sexes.get(sex[at]),
            {drug for drug in range(5) if drugs[at] >> drug & 1},
        )
        and is_drawn(pseudonym, where, fraction)
    ]


def is_drawn(pseudonym: bytes, where: str, fraction: int) -> bool:
    """Whether somebody is drawn, no matter who else there is."""
    mark = np.ones(1, np.bool_)
    row = np.frombuffer(pseudonym, np.uint8).reshape(1, 16)
    KEY.keep_drawn(row, canonical_bytes(condition(where)), fraction, mark)
    return bool(mark[0])


def roster(people: People) -> list[bytes]:
    """Everybody's pseudonym, ascending: what a place is a place in."""
    halves = np.stack([people.high, people.low], axis=1).astype(">u8")
    rows = [row.tobytes() for row in halves]
    assert rows == sorted(set(rows))
    return rows


@given(
    seed=st.integers(0, 2**32),
    size=st.integers(0, 300),
    spare=st.sampled_from([0, 1, 8, 100]),
    where=st.sampled_from(list(CRITERIA)),
    fraction=st.sampled_from(FRACTIONS),
    block=st.sampled_from([8, 64, 4096]),
    threads=st.integers(1, 3),
)
@settings(max_examples=100)
def test_a_bit_says_whoever_matches_and_is_drawn(
    seed: int, size: int, spare: int, where: str, fraction: int, block: int, threads: int
) -> None:
    """People with a bit match and are drawn, and those without do not; behind the last place nobody is."""
    people = world(seed, size)
    declared = people.size + spare
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store.people"
        build_people_store(path, people, DICTIONARY, places=declared)
        with PeopleStore(path, DICTIONARY, threads=threads) as store:
            bits = mark_sample(store, condition(where), fraction, KEY, block=block)
            assert len(bits) == -(-declared // 8)
            assert not np.unpackbits(bits)[people.size :].any()
            assert [row.tobytes() for row in whom(bits, store.pseudonyms)] == one_by_one(people, where, fraction)


def test_the_same_criteria_give_the_same_bits(tmp_path: Path) -> None:
    """Asking again averages nothing away; a larger fraction contains the smaller one."""
    people = world(5, 1000)
    build_people_store(tmp_path / "store.people", people, DICTIONARY, places=1000)
    with PeopleStore(tmp_path / "store.people", DICTIONARY) as store:
        samples = [
            members(mark_sample(store, condition(SEVERAL), fraction, KEY), 1000)
            for fraction in (*FRACTIONS, *FRACTIONS)
        ]
    assert samples[:4] == samples[4:]
    assert all(less <= more for less, more in pairwise(samples[:4]))
    assert 0 < len(samples[1]) < len(samples[3])


def work(folder: Path, ages: np.ndarray, fraction: int) -> Notes:
    """All that is done to mark a sample of people of these ages."""
    people = world(5, len(ages))
    path = folder / "store.people"
    columns = {**people.columns, "age": ages.astype(np.int32)}
    path.unlink(missing_ok=True)
    build_people_store(path, People(people.high, people.low, columns), DICTIONARY, places=2000)
    with watching(), PeopleStore(path, DICTIONARY, threads=2) as store:
        return notes_of(lambda: mark_sample(store, condition("age >= 65 and drug <> 'd1'"), fraction, KEY, block=64))


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_work_is_the_same_whoever_matches(tmp_path: Path, fraction: int) -> None:
    """Nobody, everybody, half, one or a cluster: NumPy's calls, their shapes and what memory they make are equal."""
    at = np.arange(1000)
    worlds = [at * 0, at * 0 + 90, at % 2 * 90, (at == 700) * 90, (at // 100 == 3) * 90]
    usual, *others = [work(tmp_path, ages, fraction) for ages in worlds]
    assert all(other == usual for other in others)


def test_work_that_follows_from_who_matches_is_found(tmp_path: Path) -> None:
    """Drawing those alone who are marked: what tells how many they are is seen by the test above."""
    build_people_store(tmp_path / "store.people", world(5, 1000), DICTIONARY, places=2000)

    def draw_marked(people: npt.NDArray[np.uint8], marks: npt.NDArray[np.bool_]) -> None:
        np.add(people[np.flatnonzero(marks)], 1)

    with watching(), PeopleStore(tmp_path / "store.people", DICTIONARY, threads=2) as store:
        many, nobody = (
            notes_of(lambda where=where: store.mark(condition(where), draw_marked))  # type: ignore[misc]
            for where in ("age >= 0", "age > 129")
        )
    assert many != nobody
