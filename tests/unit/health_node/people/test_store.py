"""The people store: order, integrity, and use from several threads."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from fakes.dictionaries import HEALTH_DICTIONARY
from fakes.samples import selected

from broker_common.errors import InternalError, RefusedError
from broker_common.query.condition import Condition
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import Code, Column, ColumnType, Dictionary
from broker_common.storage.source.values import MISSING, Values
from health_node.people import store as people_store
from health_node.people.store import Figures, People, PeopleStore, build_people_store, read_figures

DICTIONARY = Dictionary(
    (
        Column(name="age", type=ColumnType.INTEGER, description="Age.", maximum=130),
        Column(name="sex", type=ColumnType.CODE, description="Sex.", codes=(Code("f", "F"), Code("m", "M"))),
    )
)


def people(size: int) -> People:
    """`size` people aged 0, 1, 2, ... 99, 0, ..., of whom every third has no sex."""
    places = np.arange(size, dtype=np.uint64)
    age = np.arange(size, dtype=np.int32) % 100
    sex = np.where(np.arange(size) % 3 == 0, MISSING, np.arange(size) % 2).astype(np.int32)
    return People(places // 4 * 2**40, places * 2**50, {"age": age, "sex": sex})


def condition(text: str) -> Condition:
    """The condition a text writes."""
    return parse_condition(text, DICTIONARY)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of a thousand people."""
    build_people_store(tmp_path / "store.people", people(1000), DICTIONARY, places=2000)
    return tmp_path / "store.people"


def rewrite(path: Path, content: bytes) -> None:
    """Put other content into a store, with a sum that fits."""
    path.write_bytes(content + hashlib.sha256(content).digest())


def test_cohort_is_ascending_contiguous_bytes(path: Path) -> None:
    """Sixteen big-endian bytes each, in the order of the bytes."""
    with PeopleStore(path, DICTIONARY) as store:
        assert store.size == 1000
        cohort = selected(store, condition("age = 98"))
        assert cohort.shape == (10, 16)
        rows = [row.tobytes() for row in cohort]
        assert rows == sorted(rows)
        assert rows[0] == (98 // 4 * 2**40).to_bytes(8, "big") + (98 * 2**50).to_bytes(8, "big")


def test_empty_and_full_cohorts_are_cohorts(path: Path) -> None:
    """Nobody and everybody come out in the same shape."""
    with PeopleStore(path, DICTIONARY) as store:
        assert selected(store, condition("age > 130")).shape == (0, 16)
        assert selected(store, condition("age >= 0")).shape == (1000, 16)


def test_missing_value_makes_comparisons_false_and_negations_true(path: Path) -> None:
    """Two-valued logic: a person is selected by a condition or by its negation, never by neither."""
    with PeopleStore(path, DICTIONARY) as store:
        sizes = [len(selected(store, condition(text))) for text in ("sex = 'f'", "sex <> 'f'", "sex in ('f', 'm')")]
        assert sizes == [333, 667, 666]


def test_store_serves_several_threads(path: Path) -> None:
    """Queries at the same time do not disturb one another."""
    with PeopleStore(path, DICTIONARY) as store, ThreadPoolExecutor(8) as threads:
        sizes = list(threads.map(lambda age: len(selected(store, condition(f"age < {age}"))), range(100)))
    assert sizes == [age * 10 for age in range(100)]


def test_large_store_is_written_and_read_in_pieces(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store is the same file whatever pieces it was written in, and is checked across their borders."""
    monkeypatch.setattr(people_store, "_PIECE", 7)
    pieces = path.with_name("pieces.people")
    build_people_store(pieces, people(1000), DICTIONARY, places=2000)
    assert pieces.read_bytes() == path.read_bytes()
    with PeopleStore(path, DICTIONARY) as store:
        assert store.size == 1000
    some = people(14)
    some.high[7], some.low[7] = some.high[6], some.low[6]
    with pytest.raises(InternalError, match="INTEGRITY"):
        build_people_store(pieces, some, DICTIONARY, places=1000)
    content, at = path.read_bytes()[:-32], 64 + 7 * 16
    rewrite(path, content[:at] + content[at - 16 : at] + content[at + 16 :])
    with pytest.raises(InternalError, match="INTEGRITY"):
        PeopleStore(path, DICTIONARY)


@pytest.mark.parametrize(
    ("name", "value"), [("age", 131), ("age", -1), ("sex", 2), ("sex", -1), ("age", MISSING + 1), ("age", 2**31 - 1)]
)
def test_value_that_is_not_admitted_is_not_written(tmp_path: Path, name: str, value: int) -> None:
    """It would come back as another one: our own fault, which stops the load."""
    some = people(3)
    some.columns[name][1] = value
    with pytest.raises(InternalError, match="INTEGRITY"):
        build_people_store(tmp_path / "store.people", some, DICTIONARY, places=1000)


def test_store_is_for_its_owner_only(path: Path) -> None:
    """Health records are not readable by other users of the machine."""
    assert path.stat().st_mode & 0o077 == 0


def test_more_people_than_places_are_not_written(tmp_path: Path) -> None:
    """Whatever the loader let through: nobody could say any more what everything public follows from."""
    with pytest.raises(InternalError, match="INTEGRITY"):
        build_people_store(tmp_path / "store.people", people(3), DICTIONARY, places=2)


def test_rows_out_of_order_are_not_written(tmp_path: Path) -> None:
    """Descending or repeated pseudonyms are our own fault, and stop the load."""
    some = people(3)
    for order in ([1, 0, 2], [0, 1, 1]):
        columns = {name: values[order] for name, values in some.columns.items()}
        with pytest.raises(InternalError) as caught:
            build_people_store(
                tmp_path / "store.people",
                People(some.high[order], some.low[order], columns),
                DICTIONARY,
                places=3,
            )
        assert caught.value.code == "INTEGRITY"


def columns_at(size: int) -> int:
    """Where the columns begin."""
    return -(-(64 + 16 * size) // 64) * 64


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a person gone": lambda content: content[:64] + content[80:],
    "two people exchanged": lambda content: content[:64] + content[80:96] + content[64:80] + content[96:],
    "somebody twice": lambda content: content[:80] + content[64:80] + content[96:],
    "a number above the greatest": lambda content: (
        content[: columns_at(1000)] + b"\xff" + content[columns_at(1000) + 1 :]
    ),
    "more people than there are": lambda content: content[:8] + (1001).to_bytes(8, "big") + content[16:],
    "more people than there can be": lambda content: content[:8] + bytes([255]) * 8 + content[16:],
    "fewer places than people": lambda content: content[:16] + (999).to_bytes(8, "big") + content[24:],
    "no columns": lambda content: content[: columns_at(1000)],
    "another format": lambda content: b"tripPPL3" + content[8:],
    "half a header": lambda content: content[:20],
    "something behind": lambda content: content + bytes(64),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
def test_damaged_store_is_not_served(path: Path, damage: Callable[[bytes], bytes]) -> None:
    """A store that does not keep its promises is noticed when it is opened, even where its sum fits."""
    rewrite(path, damage(path.read_bytes()[:-32]))
    with pytest.raises(InternalError) as caught:
        PeopleStore(path, DICTIONARY)
    assert caught.value.code == "INTEGRITY"


@pytest.mark.parametrize("place", [0, 12, 40, 64, 100, 16_064, 17_500, -33, -1])
def test_one_changed_bit_is_noticed(path: Path, place: int) -> None:
    """Wherever it is, also where every content would do."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(InternalError) as caught:
        PeopleStore(path, DICTIONARY)
    assert caught.value.code == "INTEGRITY"


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 63, 64, 100])
def test_store_that_was_cut_is_not_served(path: Path, size: int) -> None:
    """However little is left."""
    path.write_bytes(path.read_bytes()[:size])
    for read in (PeopleStore, read_figures):
        with pytest.raises(InternalError) as caught:
            read(path, DICTIONARY)
        assert caught.value.code == "INTEGRITY"


def test_file_of_another_kind_is_not_served(tmp_path: Path) -> None:
    """Bytes that are no store end in a typed error."""
    path = tmp_path / "store.people"
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(InternalError) as caught:
        PeopleStore(path, DICTIONARY)
    assert caught.value.code == "INTEGRITY"


def test_people_are_counted_without_being_read(path: Path) -> None:
    """Figures of the status command."""
    assert read_figures(path, DICTIONARY) == Figures(people=1000, places=2000)
    with pytest.raises(RefusedError, match="NOTHING_LOADED"):
        read_figures(path.with_name("none.people"), DICTIONARY)
    # Not where the numbers of its columns could not be read.
    with pytest.raises(InternalError, match="INTEGRITY"):
        read_figures(path, HEALTH_DICTIONARY)


def test_nobody_can_be_stored(tmp_path: Path) -> None:
    """A store of no people is a store."""
    build_people_store(tmp_path / "store.people", people(0), DICTIONARY, places=0)
    with PeopleStore(tmp_path / "store.people", DICTIONARY) as store:
        assert (store.size, len(selected(store, condition("age >= 0")))) == (0, 0)
        assert len(store.column("age")) == 0


def test_missing_store_says_that_nothing_is_loaded(tmp_path: Path) -> None:
    """Before the first load the operator is told to load."""
    with pytest.raises(RefusedError) as caught:
        PeopleStore(tmp_path / "store.people", DICTIONARY)
    assert caught.value.code == "NOTHING_LOADED"
    assert "tripartite health load" in caught.value.hint


def test_store_of_another_dictionary_is_not_served(path: Path) -> None:
    """A changed code list would give old numbers new meanings."""
    sex = Column(name="sex", type=ColumnType.CODE, description="Sex.", codes=(Code("m", "M"), Code("f", "F")))
    with pytest.raises(InternalError) as caught:
        PeopleStore(path, Dictionary((DICTIONARY.column("age"), sex)))
    assert caught.value.code == "INTEGRITY"


def test_store_of_other_limits_is_not_served(path: Path) -> None:
    """Numbers are kept as their distance from the least one that is admitted."""
    age = Column(name="age", type=ColumnType.INTEGER, description="Age.", minimum=-1, maximum=129)
    with pytest.raises(InternalError) as caught:
        PeopleStore(path, Dictionary((age, DICTIONARY.column("sex"))))
    assert caught.value.code == "INTEGRITY"


def test_new_labels_do_not_void_a_store(path: Path) -> None:
    """Names of codes may change without a new load."""
    sex = Column(name="sex", type=ColumnType.CODE, description="Gender.", codes=(Code("f", "Woman"), Code("m", "Man")))
    with PeopleStore(path, Dictionary((DICTIONARY.column("age"), sex))) as store:
        assert store.size == 1000


def test_full_disk_is_our_fault_and_said_to_be(tmp_path: Path) -> None:
    """A store that cannot be written is an error of ours with its own code."""
    with pytest.raises(InternalError) as caught:
        build_people_store(tmp_path / "no such directory" / "store.people", people(3), DICTIONARY, places=3)
    assert caught.value.code == "STORE_FAILED"


def test_everything_that_was_written_is_read_back(tmp_path: Path) -> None:
    """Column by column, missing values and extremes included, in the order of the store: what a change of the key copies."""
    size = 500
    rng = np.random.default_rng(1)
    columns: dict[str, Values] = {}
    for column in HEALTH_DICTIONARY.columns:
        if column.multi_valued:
            columns[column.name] = rng.integers(0, 2 ** len(column.codes), size, np.uint64)
            columns[column.name][:3] = 0, 2 ** len(column.codes) - 1, 1
            continue
        low, high = (0, len(column.codes) - 1) if column.codes else (column.minimum, column.maximum)
        if column.type is ColumnType.DATE:
            low, high = -20_000, 20_000
        columns[column.name] = rng.integers(low, high, size, np.int32)
        columns[column.name][:3] = low, high, MISSING
    written = People(np.arange(size, dtype=np.uint64), rng.integers(0, 2**64, size, np.uint64), columns)
    build_people_store(tmp_path / "store.people", written, HEALTH_DICTIONARY, places=written.size)
    with PeopleStore(tmp_path / "store.people", HEALTH_DICTIONARY) as store:
        high_half, low_half = store.halves
        assert np.array_equal(high_half, written.high)
        assert np.array_equal(low_half, written.low)
        for name, values in columns.items():
            read = store.column(name)
            assert read.dtype == values.dtype
            assert type(read) is np.ndarray
            assert np.array_equal(read, values), name
