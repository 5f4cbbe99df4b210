"""Events, hierarchies and long lists mean for a store what they mean for one person, by the obvious reading and by DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias

import duckdb
import numpy as np
import pytest
from fakes.event_worlds import CHAIN, DICTIONARY, FIRST_DAY, HOUSEHOLDS, EventWorld
from fakes.obvious_criteria import ObviousPerson, meets
from fakes.samples import selected
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties.counted_passes import passes_made

from broker_common.query import normal_form
from broker_common.query.condition import Condition, Literal, Order
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import ColumnType
from health_node.people import sorting, tables
from health_node.people.cohort import compile_condition
from health_node.people.encoding import Encoding
from health_node.people.store import PeopleStore

SIZE = 60
World: TypeAlias = tuple[EventWorld, PeopleStore, dict[bytes, list[ObviousPerson]]]


@st.composite
def of_columns(draw: st.DrawFn, events: str = "") -> Condition:
    """Anything that can be said of one column, of people or of events."""
    scope = DICTIONARY.find_events(events) or DICTIONARY
    column = scope.column(draw(st.sampled_from(scope.names)))
    if column.type is ColumnType.CODE:
        codes = draw(st.lists(st.sampled_from(column.values), min_size=1, max_size=12))
        saying = [normal_form.equal(column, codes), normal_form.present(column)]
        return draw(st.sampled_from([*saying, normal_form.under(column, codes)] if column.has_hierarchy else saying))
    literal: st.SearchStrategy[Literal] = (
        st.integers(column.minimum, column.maximum)
        if column.type is ColumnType.INTEGER
        else st.integers(0, 400).map(lambda day: FIRST_DAY + timedelta(days=day))
    )
    if draw(st.booleans()):
        return normal_form.between(column, draw(literal), draw(literal))
    return normal_form.compare(column, draw(st.sampled_from(list(Order))), draw(literal))


def of_parts(parts: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    """Groups and negations."""
    several = st.lists(parts, min_size=1, max_size=3)
    return several.map(normal_form.all_of) | several.map(normal_form.any_of) | parts.map(normal_form.negate)


@st.composite
def counted(draw: st.DrawFn) -> Condition:
    """At least so many events."""
    table = DICTIONARY.find_events(draw(st.sampled_from(["stay", "visit"])))
    assert table is not None
    where = draw(st.none() | st.recursive(of_columns(table.name), of_parts, max_leaves=4))
    return normal_form.happened(table, where, draw(st.sampled_from([1, 1, 2, 3, 7, 150, 1000])))


conditions = st.recursive(of_columns() | counted(), of_parts, max_leaves=6)


@pytest.fixture(scope="module", params=[DICTIONARY, HOUSEHOLDS], ids=["people", "households"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world as it was loaded, of people or of households, sorted in small runs."""
    made = EventWorld.made(7, SIZE, request.param)
    folder = Path(tmp_path_factory.mktemp("world"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "_ROWS_IN_RUN", 500)
        patch.setattr(tables, "_ROWS_IN_PIECE", 100)
        made.load(folder)
    with PeopleStore(folder / "store.people", request.param, threads=2) as store:
        yield made, store, made.obvious()


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(condition=conditions)
def test_store_selects_exactly_whom_the_condition_holds_for(world: World, condition: Condition) -> None:
    """Marked people meet the condition and unmarked ones do not; of a household, one member does."""
    made, store, people = world
    expected = sorted(
        pseudonym
        for pseudonym, members in people.items()
        if any(meets(condition, member, made.dictionary) for member in members)
    )
    assert [row.tobytes() for row in selected(store, condition, block=64)] == expected


UNDER = "with recursive below(code) as (select 'c001' union select value from above join below on under = code) "
IN_SQL = {
    "any(stay)": "exists (from stay where stay.health_card = person.health_card)",
    "not any(visit where days > 4)": "not exists (from visit where visit.health_card = person.health_card and days > 4)",
    "count(stay where days >= 2 and admitted between '2005-03-01' and '2005-09-30') >= 2": (
        "(select count(*) from stay where stay.health_card = person.health_card and days >= 2 "
        "and admitted between '2005-03-01' and '2005-09-30') >= 2"
    ),
    "count(stay where cause is null) between 1 and 3": (
        "(select count(*) from stay where stay.health_card = person.health_card and cause is null) between 1 and 3"
    ),
    "any(stay where cause under 'c001') and age >= 3": (
        "exists (from stay where stay.health_card = person.health_card and cause in (from below)) and age >= 3"
    ),
    "diagnosis in ('c003', 'c040', 'c089') or symptom under 'c001'": (
        "len(list_intersect(string_split(diagnosis, ';'), ['c003', 'c040', 'c089'])) > 0 "
        "or len(list_intersect(string_split(symptom, ';'), (select list(code) from below))) > 0"
    ),
    "diagnosis is null and not drug = 'c002'": (
        "diagnosis is null and not coalesce(list_contains(string_split(drug, ';'), 'c002'), false)"
    ),
}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[duckdb.DuckDBPyConnection, PeopleStore]]:
    """The files of a world as DuckDB reads them, and the store that they were loaded into."""
    made, folder = EventWorld.made(8, 6 * SIZE), Path(tmp_path_factory.mktemp("files"))
    made.load(folder)
    with duckdb.connect(config={"threads": 1}) as connection, PeopleStore(folder / "store.people", DICTIONARY) as store:
        for view, name in (("person", "people"), ("stay", "stay"), ("visit", "visit")):
            connection.execute(f"create view {view} as from read_csv('{folder / name}.csv', header = true)")
        codes = made.dictionary.column("symptom").codes
        connection.execute("create table above (value varchar, under varchar)")
        connection.executemany("insert into above values (?, ?)", [(c.value, u) for c in codes for u in c.under])
        yield connection, store


@pytest.mark.parametrize("criteria", IN_SQL)
def test_store_selects_whom_duckdb_selects(
    database: tuple[duckdb.DuckDBPyConnection, PeopleStore], criteria: str
) -> None:
    """Both select the same people of the same files: somebody, not everybody."""
    connection, store = database
    rows = connection.execute(f"{UNDER} select health_card from person where {IN_SQL[criteria]}").fetchall()  # noqa: S608
    expected = sorted(CHAIN.pseudonym(one_id) for (one_id,) in rows)
    assert 0 < len(expected) < store.size
    assert [row.tobytes() for row in selected(store, parse_condition(criteria, DICTIONARY))] == expected


@settings(max_examples=100)
@given(condition=conditions)
def test_price_bounds_the_passes_that_are_made(condition: Condition) -> None:
    """Over people and over the rows of each table, whatever is stored."""
    predicate = compile_condition(condition, DICTIONARY)
    looked_at = [(predicate, DICTIONARY.columns)]
    for counting in predicate.countings:
        table = DICTIONARY.find_events(counting.table)
        columns = (DICTIONARY.column(counting.table),) if table is None else table.columns
        looked_at += [(counting.where, columns)] if counting.where is not None else []
    for each, columns in looked_at:
        made = {
            passes_made(each, {column.name: np.full(8, value, Encoding.of(column).kind) for column in columns})
            for value in (0, 1, 3)
        }
        assert len(made) == 1
        assert made.pop() <= each.passes
