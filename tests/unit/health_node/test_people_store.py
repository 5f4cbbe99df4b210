"""The people store: order, integrity, confinement, and use from several threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import numpy as np
import pytest

from broker_common.errors import InternalError, RefusedError
from broker_common.query.condition import Condition
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import Code, Column, ColumnType, Dictionary
from broker_common.storage.source_values import MISSING, Values
from health_node import people_store
from health_node.dictionary import HEALTH_DICTIONARY
from health_node.people_store import People, PeopleStore, build_people_store

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
    build_people_store(tmp_path / "store.people", people(1000), DICTIONARY)
    return tmp_path / "store.people"


def damage(path: Path, statement: str) -> None:
    """Change a store behind its back."""
    with duckdb.connect(path) as connection:
        connection.execute(statement)


def test_cohort_is_ascending_contiguous_bytes(path: Path) -> None:
    """Sixteen big-endian bytes each, in the order of the bytes."""
    with PeopleStore(path, DICTIONARY) as store:
        assert store.size == 1000
        selected = store.select(condition("age = 98"))
        assert selected.shape == (10, 16)
        assert selected.dtype == np.uint8
        assert selected.flags.c_contiguous
        rows = [row.tobytes() for row in selected]
        assert rows == sorted(rows)
        assert rows[0] == (98 // 4 * 2**40).to_bytes(8, "big") + (98 * 2**50).to_bytes(8, "big")


def test_empty_and_full_cohorts_are_cohorts(path: Path) -> None:
    """Nobody and everybody come out in the same shape."""
    with PeopleStore(path, DICTIONARY) as store:
        assert store.select(condition("age > 130")).shape == (0, 16)
        assert store.select(condition("age >= 0")).shape == (1000, 16)


def test_missing_value_makes_comparisons_false_and_negations_true(path: Path) -> None:
    """Two-valued logic: a person is selected by a condition or by its negation, never by neither."""
    with PeopleStore(path, DICTIONARY) as store:
        sizes = [len(store.select(condition(text))) for text in ("sex = 'f'", "sex <> 'f'", "sex in ('f', 'm')")]
        assert sizes == [333, 667, 666]


def test_cohort_is_a_copy(path: Path) -> None:
    """Whoever overwrites a cohort does not change the store."""
    with PeopleStore(path, DICTIONARY) as store:
        store.select(condition("age >= 0"))[:] = 0
        assert store.select(condition("age >= 0")).any()


def test_store_serves_several_threads(path: Path) -> None:
    """Queries at the same time do not disturb one another."""
    with PeopleStore(path, DICTIONARY) as store, ThreadPoolExecutor(8) as threads:
        sizes = list(threads.map(lambda age: len(store.select(condition(f"age < {age}"))), range(100)))
    assert sizes == [age * 10 for age in range(100)]


def test_large_store_is_written_in_pieces(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows keep their order across the pieces they are written in."""
    monkeypatch.setattr(people_store, "_ROWS_PER_INSERT", 7)
    whole = path.with_name("pieces.duckdb")
    build_people_store(whole, people(1000), DICTIONARY)
    with PeopleStore(path, DICTIONARY) as one, PeopleStore(whole, DICTIONARY) as pieces:
        assert np.array_equal(one.select(condition("sex = 'm'")), pieces.select(condition("sex = 'm'")))


def test_store_is_for_its_owner_only(path: Path) -> None:
    """Health records are not readable by other users of the machine."""
    assert path.stat().st_mode & 0o077 == 0


def test_rows_out_of_order_are_not_written(tmp_path: Path) -> None:
    """Descending or repeated pseudonyms are our own fault, and stop the load."""
    some = people(3)
    for order in ([1, 0, 2], [0, 1, 1]):
        columns = {name: values[order] for name, values in some.columns.items()}
        with pytest.raises(InternalError) as caught:
            build_people_store(
                tmp_path / "store.people", People(some.high[order], some.low[order], columns), DICTIONARY
            )
        assert caught.value.code == "INTEGRITY"


@pytest.mark.parametrize(
    "statement",
    [
        "insert into people select * from people limit 1",
        "insert into people values (0, 0, 5, 0)",
        "create or replace table people as select * from people order by _low desc",
        "alter table people drop column _low",
        "drop table about",
    ],
)
def test_damaged_store_is_not_served(path: Path, statement: str) -> None:
    """A store that no longer keeps its promises is noticed when it is opened."""
    damage(path, statement)
    with pytest.raises(InternalError) as caught:
        PeopleStore(path, DICTIONARY)
    assert caught.value.code == "INTEGRITY"


def test_file_of_another_kind_is_not_served(tmp_path: Path) -> None:
    """Bytes that are no store end in a typed error."""
    path = tmp_path / "store.people"
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(InternalError) as caught:
        PeopleStore(path, DICTIONARY)
    assert caught.value.code == "INTEGRITY"


def test_cohort_in_another_order_is_never_returned(path: Path) -> None:
    """Should the engine ever give rows in another order, the query fails instead of the census node's check."""
    with PeopleStore(path, DICTIONARY) as store:
        hostile = condition("age >= 0")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(people_store, "compile_condition", lambda *_: ("true order by rowid desc", []))
            with pytest.raises(InternalError) as caught:
                store.select(hostile)
        assert caught.value.code == "INTEGRITY"


def test_missing_store_says_that_nothing_is_loaded(tmp_path: Path) -> None:
    """Before the first load the operator is told to load."""
    with pytest.raises(RefusedError) as caught:
        PeopleStore(tmp_path / "store.people", DICTIONARY)
    assert caught.value.code == "NOTHING_LOADED"
    assert "tripartite health load" in caught.value.hint


def test_store_of_another_dictionary_is_not_served(path: Path) -> None:
    """A changed code list would give old numbers new meanings."""
    sex = Column(name="sex", type=ColumnType.CODE, description="Sex.", codes=(Code("m", "M"), Code("f", "F")))
    with pytest.raises(RefusedError) as caught:
        PeopleStore(path, Dictionary((DICTIONARY.column("age"), sex)))
    assert caught.value.code == "NOTHING_LOADED"


def test_new_labels_do_not_void_a_store(path: Path) -> None:
    """What codes are called may change without a new load."""
    sex = Column(name="sex", type=ColumnType.CODE, description="Gender.", codes=(Code("f", "Woman"), Code("m", "Man")))
    with PeopleStore(path, Dictionary((DICTIONARY.column("age"), sex))) as store:
        assert store.size == 1000


@pytest.mark.parametrize(
    "statement",
    [
        "select * from read_csv('/etc/hostname')",
        "copy people to 'stolen.csv'",
        "attach 'other.duckdb'",
        "install httpfs",
        "load httpfs",
        "set threads = 1",
        "set enable_external_access = true",
        "delete from people",
    ],
)
def test_engine_can_reach_nothing_but_the_store(path: Path, statement: str) -> None:
    """SQL that got through all the same could read no file, load no code, write nothing and change no setting."""
    with PeopleStore(path, DICTIONARY) as store, store._cursor() as cursor, pytest.raises(duckdb.Error):
        cursor.execute(statement)


def test_full_disk_is_our_fault_and_said_to_be(tmp_path: Path) -> None:
    """A store that cannot be written is an error of ours with its own code."""
    with pytest.raises(InternalError) as caught:
        build_people_store(tmp_path / "no such directory" / "store.people", people(3), DICTIONARY)
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
    build_people_store(tmp_path / "store.people", written)
    with PeopleStore(tmp_path / "store.people") as store:
        high_half, low_half = store.halves
        assert np.array_equal(high_half, written.high)
        assert np.array_equal(low_half, written.low)
        for name, values in columns.items():
            read = store.column(name)
            assert read.dtype == values.dtype
            assert type(read) is np.ndarray
            assert np.array_equal(read, values), name
