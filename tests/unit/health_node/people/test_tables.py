"""Tables of events, long lists and members: stored whole, counted with the same work no matter who has which rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fakes.event_worlds import DICTIONARY, HOUSEHOLDS, EventWorld
from fakes.samples import selected
from fakes.watched_arrays import Notes, notes_of, watching

from broker_common.crypto.sampling import SamplingKey
from broker_common.errors import InternalError, InvalidRequestError
from broker_common.privacy.delays import DECLARED_STEP
from broker_common.query.condition import Condition
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import Code, Column, ColumnType, Dictionary, EventTable
from health_node.people import tables
from health_node.people.encoding import Stored
from health_node.people.store import Extent, Figures, People, PeopleStore, build_people_store, read_figures
from health_node.people.tables import MEMBERS, Declared, Rows, declared_of, offsets_of
from health_node.query.marks import mark_sample

SMALL = Dictionary(
    (
        Column(name="age", type=ColumnType.INTEGER, description="Age.", maximum=130),
        Column(
            name="diagnosis",
            type=ColumnType.CODE,
            multi_valued=True,
            description="Many codes.",
            codes=tuple(Code(f"c{at}", "C") for at in range(65)),
        ),
    ),
    (EventTable("stay", "S.", (Column(name="days", type=ColumnType.INTEGER, description="D.", maximum=254),)),),
)
BY_HOUSEHOLD = replace(SMALL, linkage="household", id_form="postal_address")
DECLARED = 40_000
KEY = SamplingKey(bytes(range(32)))


def rows_of(counts: np.ndarray, columns: Mapping[str, np.ndarray], *, declared: int = DECLARED) -> Rows:
    """Rows of owners who have so many each."""

    def pieces() -> list[Mapping[str, Stored]]:
        return [{name: column.astype(np.uint8) for name, column in columns.items()}]

    return Rows(offsets_of(counts), declared, pieces)


def people(counts: np.ndarray, days: np.ndarray, codes: np.ndarray | None = None, **more: Rows) -> People:
    """People who have so many events each, of so many days, and as many codes."""
    size = len(counts)
    codes = days % 65 if codes is None else codes
    columns = {"age": (np.arange(size) % 100).astype(np.int32)}
    tables = {
        "diagnosis": rows_of(counts, {"diagnosis": codes + 1}),
        "stay": rows_of(counts, {"days": days + 1}),
        **more,
    }
    return People(np.arange(size, dtype=np.uint64), np.zeros(size, np.uint64), columns, tables)


def condition(text: str, dictionary: Dictionary = SMALL) -> Condition:
    """The condition that a text writes."""
    return parse_condition(text, dictionary)


# --- equal work ----------------------------------------------------------------------------------------------------------

SIZE, ROWS = 1000, 20_000
ASKED = "count(stay where days > 3 and days <> 7) >= 2 and age > 10 or diagnosis in ('c1', 'c3', 'c5') or any(stay)"
SPREADS = {
    "evenly": np.full(SIZE, ROWS // SIZE),
    "all of one": np.eye(1, SIZE, 500, dtype=np.int64)[0] * ROWS,
    "all of the first": np.eye(1, SIZE, 0, dtype=np.int64)[0] * ROWS,
    "of every tenth": np.where(np.arange(SIZE) % 10 == 0, 10 * ROWS // SIZE, 0),
    "of nobody": np.zeros(SIZE, np.int64),
}


def work(folder: Path, counts: np.ndarray, days: np.ndarray, dictionary: Dictionary = SMALL) -> Notes:
    """All that is done to mark a sample of these."""
    path = folder / "store.people"
    path.unlink(missing_ok=True)
    made = people(counts, days)
    if dictionary is BY_HOUSEHOLD:
        made = replace(made, high=made.high[: SIZE // 2], low=made.low[: SIZE // 2])
        halves = counts[: SIZE // 2]
        members = Rows(offsets_of(np.full(SIZE // 2, 2)), 2 * SIZE, lambda: ())
        stays = rows_of(halves, {"days": np.ones(int(halves.sum()))})
        made = replace(made, tables={**made.tables, "stay": stays, MEMBERS: members})
    build_people_store(path, made, dictionary, places=2000)
    with watching(), PeopleStore(path, dictionary, threads=2) as store:
        return notes_of(lambda: mark_sample(store, condition(ASKED, dictionary), 300_000, KEY, block=64))


@pytest.mark.parametrize("dictionary", [SMALL, BY_HOUSEHOLD], ids=["people", "households"])
def test_work_is_the_same_whoever_has_the_events(tmp_path: Path, dictionary: Dictionary) -> None:
    """Spread evenly, all of one person, or of nobody at all: NumPy's calls, their shapes and what memory they make are equal."""
    usual, *others = [
        work(tmp_path, counts, np.arange(int(counts.sum())) % 50, dictionary) for counts in SPREADS.values()
    ]
    assert all(other == usual for other in others)


def test_work_is_the_same_whichever_events_match(tmp_path: Path) -> None:
    """None, all, one, a cluster."""
    at = np.arange(ROWS)
    days = [at * 0, at * 0 + 9, (at == 7000) * 9, (at // 1000 == 3) * 9]
    usual, *others = [work(tmp_path, SPREADS["evenly"], each) for each in days]
    assert all(other == usual for other in others)


def test_work_follows_from_what_was_declared(tmp_path: Path) -> None:
    """Twice as many declared rows are more work: the tests above would see it."""
    counts, days = SPREADS["evenly"], np.arange(ROWS) % 50
    usual = work(tmp_path, counts, days)
    more = people(counts, days, stay=rows_of(counts, {"days": days + 1}, declared=2 * DECLARED))
    (tmp_path / "store.people").unlink()
    build_people_store(tmp_path / "store.people", more, SMALL, places=2000)
    with watching(), PeopleStore(tmp_path / "store.people", SMALL, threads=2) as store:
        assert notes_of(lambda: mark_sample(store, condition(ASKED), 300_000, KEY, block=64)) != usual


# --- stored --------------------------------------------------------------------------------------------------------------


def test_rows_that_belong_to_nobody_mark_nobody(tmp_path: Path) -> None:
    """Declared and missing rows satisfy a negation, and the last person is not marked by them."""
    counts = np.array([1, 0, 0])
    build_people_store(tmp_path / "s", people(counts, np.array([5])), SMALL, places=3)
    with PeopleStore(tmp_path / "s", SMALL) as store:
        assert not len(selected(store, condition("any(stay where not days = 5)")))
        assert len(selected(store, condition("any(stay where not days = 4)"))) == 1
        assert len(selected(store, condition("not any(stay where days is null)"))) == 3
        assert len(selected(store, condition("diagnosis is not null"))) == 1


@pytest.mark.parametrize("count", [63, 64, 65, 128, 1000])
def test_counts_are_right_at_the_borders_of_words(tmp_path: Path, count: int) -> None:
    """Counts of a person with so many rows, behind one who has one and before one who has none; all rows that were declared are there."""
    counts = np.array([1, count, 0, 64 - (1 + count) % 64])
    days = np.full(int(counts.sum()), 9)
    made = people(counts, days, stay=rows_of(counts, {"days": days + 1}, declared=int(counts.sum())))
    build_people_store(tmp_path / "s", made, SMALL, places=4)
    with PeopleStore(tmp_path / "s", SMALL) as store:
        for least in {1, 2, count, count + 1} - {1001}:
            bits = store.mark(condition(f"count(stay where days = 9) >= {least}"), lambda _people, _marks: None)
            assert np.unpackbits(bits, count=4).tolist() == (counts >= least).tolist()


def test_everything_that_was_loaded_is_there_in_another_order(tmp_path: Path) -> None:
    """Under other pseudonyms everybody has the values, codes, events and members as before: what a change of the key writes."""
    for dictionary in (DICTIONARY, HOUSEHOLDS):
        EventWorld.made(3, 50, dictionary).load(tmp_path)
        asked = [
            condition(text, dictionary)
            for text in ("age < 3", "drug = 'c002'", "diagnosis under 'c001'", "count(stay where days > 2) >= 2")
        ]
        with PeopleStore(tmp_path / "store.people", dictionary) as store:
            high, low = store.halves
            order = np.random.default_rng(1).permutation(store.size)
            moved = store.in_order(np.sort(high), low[order], order)
            build_people_store(tmp_path / "moved.people", moved, dictionary, places=store.places)
            before = [np.unpackbits(selected_bits(store, each))[: store.size][order] for each in asked]
            figures = read_figures(tmp_path / "store.people", dictionary)
        assert read_figures(tmp_path / "moved.people", dictionary) == figures
        with PeopleStore(tmp_path / "moved.people", dictionary) as store:
            after = [np.unpackbits(selected_bits(store, each))[: store.size] for each in asked]
        assert all(each.any() for each in after)
        assert np.array_equal(before, after)


def selected_bits(store: PeopleStore, asked: Condition) -> np.ndarray:
    """One bit for each place."""
    return store.mark(asked, lambda _people, _marks: None)


def test_rows_are_put_in_another_order_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the pieces are, also where one person has more rows than a piece."""
    offsets, order = offsets_of(np.array([3, 0, 25, 1])), np.array([2, 3, 1, 0])
    expected = [*range(3, 28), 28, 0, 1, 2]
    for size in (1, 2, 7, 29, 1000):
        monkeypatch.setattr(tables, "_ROWS_IN_PIECE", size)
        pieces = list(tables.row_pieces(offsets, order))
        assert max(map(len, pieces)) <= size
        assert np.concatenate(pieces).tolist() == expected
    del tmp_path


def test_a_store_says_how_large_its_tables_are(tmp_path: Path) -> None:
    """Figures of the status command, without reading them."""
    build_people_store(tmp_path / "s", people(SPREADS["evenly"], np.zeros(ROWS, np.int64)), SMALL, places=2000)
    extent = Extent(ROWS, DECLARED)
    assert read_figures(tmp_path / "s", SMALL) == Figures(SIZE, 2000, {"diagnosis": extent, "stay": extent})
    with PeopleStore(tmp_path / "s", SMALL) as store:
        assert store.declared == Declared(2000, {"diagnosis": DECLARED, "stay": DECLARED})
        assert (store.declared.people, store.declared.events) == (2000, 2 * DECLARED)


def test_more_rows_than_were_declared_are_not_written(tmp_path: Path) -> None:
    """Whatever the loader let through; nor pieces that are shorter or longer than what belongs to somebody."""
    counts, days = SPREADS["evenly"], np.zeros(ROWS, np.int64)
    short = replace(rows_of(counts, {"days": days}), pieces=lambda: [{"days": np.zeros(ROWS - 1, np.uint8)}])
    for wrong in (rows_of(counts, {"days": days}, declared=ROWS - 1), short):
        with pytest.raises(InternalError, match="INTEGRITY"):
            build_people_store(tmp_path / "s", people(counts, days, stay=wrong), SMALL, places=2000)


def test_a_list_of_many_codes_takes_four_bytes_a_row(tmp_path: Path) -> None:
    """A hundred thousand codes are looked up like few: a person with one of every other code is found."""
    codes = tuple(Code(f"{at:06}", "C") for at in range(100_000))
    many = Dictionary((Column(name="code", type=ColumnType.CODE, multi_valued=True, description="C.", codes=codes),))
    counts = np.array([1, 2, 0, 1])
    numbers = np.array([1, 99_999, 100_000, 2], np.uint32)
    rows = Rows(offsets_of(counts), 64, lambda: [{"code": numbers}])
    made = People(np.arange(4, dtype=np.uint64), np.zeros(4, np.uint64), {}, {"code": rows})
    build_people_store(tmp_path / "s", made, many, places=4)
    listed = ",".join(f"'{at:06}'" for at in range(0, 200, 2))
    with PeopleStore(tmp_path / "s", many) as store:
        assert np.unpackbits(selected_bits(store, condition(f"code in ({listed})", many)), count=4).tolist() == [
            1,
            0,
            0,
            0,
        ]
        assert np.unpackbits(selected_bits(store, condition("code like '0999%'", many)), count=4).tolist() == [
            0,
            1,
            0,
            0,
        ]


# --- declared ------------------------------------------------------------------------------------------------------------


def test_what_nothing_is_said_of_has_a_step() -> None:
    """Every table has one; a table that the dictionary does not have is refused by name."""
    assert declared_of(SMALL, 7, {"stay": 5}) == Declared(7, {"diagnosis": DECLARED_STEP, "stay": 5})
    by_household = declared_of(BY_HOUSEHOLD, 7, {"people": 9})
    assert (by_household.people, by_household.places, by_household.by_household) == (9, 7, True)
    with pytest.raises(InvalidRequestError, match="CONFIG_INVALID") as caught:
        declared_of(SMALL, 7, {"people": 5})
    assert "people" in caught.value.text


def test_members_of_households_have_a_name_of_their_own() -> None:
    """A list of that name could not be declared beside them."""
    clashing = replace(BY_HOUSEHOLD, columns=(replace(SMALL.columns[1], name=MEMBERS),))
    with pytest.raises(InvalidRequestError, match="DICTIONARY_UNUSABLE"):
        declared_of(clashing, 7, {})
