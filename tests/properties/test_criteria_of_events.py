# ruff: noqa: S608 - SQL is what criteria are compared with here
"""Criteria on hierarchies and events mean what an independent database says: DuckDB, on the same people, asked in its own words.

Every condition is drawn twice at once, as criteria and as SQL; the SQL is made beside the text, from no tree of ours. The
database finds the descendants of a code from the bare list of who stands under whom.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Any, TypeAlias

import duckdb
import numpy as np
import pytest
from fakes.obvious_criteria import ObviousPerson, Value, decoded, meets
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_common.errors import InvalidRequestError
from broker_common.query.canonical import canonical_bytes, describe
from broker_common.query.certainty import Certainty, certainty
from broker_common.query.condition_wire import condition_from_wire
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import Code, Column, ColumnType, Dictionary, EventTable

Written: TypeAlias = tuple[str, str]
"""A condition as criteria and as SQL."""

CODES = tuple(f"{letter}{number}" for letter in "ab" for number in range(6))
FIRST_DAY = date(2005, 1, 1)
PEOPLE = 60
WORLDS = 4


class World:
    """A random hierarchy, and people with events, as we keep them and as a database does."""

    def __init__(self, seed: int) -> None:
        dice = np.random.default_rng(seed)
        # A code stands under any of those before it: no cycle, and often more than one way up.
        self.above = {
            code: tuple(sorted(other for other in CODES[:place] if dice.random() < 0.2))
            for place, code in enumerate(CODES)
        }
        # Somewhere there is a hierarchy at least.
        self.above[CODES[-1]] = self.above[CODES[-1]] or (CODES[0],)
        codes = tuple(Code(code, f"Label of {code}", under=under) for code, under in self.above.items())
        day = Column(name="day", type=ColumnType.DATE, description="Day.")
        number = Column(name="number", type=ColumnType.INTEGER, description="Number.", minimum=-3, maximum=9)
        cause = Column(name="cause", type=ColumnType.CODE, description="Cause.", codes=codes)
        ill = Column(name="ill", type=ColumnType.CODE, description="Illnesses.", codes=codes, multi_valued=True)
        stay = EventTable("stay", "Stays.", (cause, day, number))
        self.dictionary = Dictionary((number, day, cause, ill), (stay, EventTable("visit", "Visits.", (day,))))
        self.people = [_person(dice) for _ in range(PEOPLE)]
        self.database = duckdb.connect()
        self._fill()

    def _fill(self) -> None:
        run = self.database.execute
        run("create table edges (code varchar, parent varchar)")
        run("create table person (id int, number int, day date, cause varchar)")
        run("create table ill (id int, code varchar)")
        run("create table stay (id int, number int, day date, cause varchar)")
        run("create table visit (id int, day date)")
        self._insert("edges", [(code, parent) for code, above in self.above.items() for parent in above])
        for place, person in enumerate(self.people):
            one = {name: next(iter(values), None) for name, values in person.values.items() if name != "ill"}
            self._insert("person", [(place, one["number"], one["day"], one["cause"])])
            self._insert("ill", [(place, code) for code in person.values["ill"]])
            stays = person.events["stay"]
            self._insert("stay", [(place, row["number"], row["day"], row["cause"]) for row in stays])
            self._insert("visit", [(place, row["day"]) for row in person.events["visit"]])
        run(f"create table every_code as select unnest({list(CODES)!r}) as code")
        run(
            "create view branch as with recursive up(code, top) as (select code, code from every_code union "
            "select up.code, edges.parent from up join edges on edges.code = up.top) select * from up"
        )

    def _insert(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        if rows:
            self.database.executemany(f"insert into {table} values ({', '.join('?' * len(rows[0]))})", rows)

    def meant(self, sql: str) -> list[int]:
        """Who is meant, by the database."""
        found = self.database.execute(f"select id from person p where {sql} order by id").fetchall()
        return [place for (place,) in found]


def _person(dice: np.random.Generator) -> ObviousPerson:
    def row() -> dict[str, Value | None]:
        return {
            "number": None if dice.random() < 0.2 else int(dice.integers(-2, 4)),
            "day": None if dice.random() < 0.2 else FIRST_DAY + timedelta(days=int(dice.integers(0, 4))),
            "cause": None if dice.random() < 0.2 else str(dice.choice(CODES)),
        }

    known = {name: () if value is None else (value,) for name, value in row().items()}
    stays = [row() for _ in range(int(dice.integers(0, 5)))]
    visits = [{"day": row()["day"]} for _ in range(int(dice.integers(0, 3)))]
    ill = {str(code) for code in dice.choice(CODES, size=int(dice.integers(0, 4)))}
    return ObviousPerson({**known, "ill": ill}, {"stay": stays, "visit": visits})


@pytest.fixture(scope="module")
def worlds() -> Iterator[list[World]]:
    """A few of them."""
    made = [World(seed) for seed in range(WORLDS)]
    yield made
    for world in made:
        world.database.close()


# --- conditions, written twice -----------------------------------------------------------------------------------------

numbers = st.integers(-3, 5).map(str)
days = st.integers(-1, 5).map(lambda day: f"'{FIRST_DAY + timedelta(days=day)}'")
codes = st.sampled_from(CODES).map(lambda code: f"'{code}'")
negations = st.sampled_from(["", "not "])


@st.composite
def of_column(draw: st.DrawFn, alias: str, name: str) -> Written:
    """Conditions on a number or a day."""
    bounds, at = [draw({"number": numbers, "day": days}[name]) for _ in range(2)], f"{alias}.{name}"
    kind = draw(st.sampled_from(["sign", "in", "between", "null"]))
    refused = draw(negations)
    if kind == "null":
        return f"{name} is {refused}null", f"{at} is {refused}null"
    if kind == "sign":
        said = f"{draw(st.sampled_from(['=', '<>', '!=', '<', '<=', '>', '>=']))} {bounds[0]}"
        # A person without a value has another one than this.
        return f"{name} {said}", f"coalesce({at} {said}, {'<>' in said or '!=' in said})"
    first, last = sorted(bounds, key=int) if name == "number" else sorted(bounds)
    inner = f"in ({first}, {last})" if kind == "in" else f"between {first} and {last}"
    return f"{name} {refused}{inner}", f"{refused}coalesce({at} {inner}, false)"


@st.composite
def of_codes(draw: st.DrawFn, alias: str, name: str) -> Written:
    """Conditions on codes, one or several."""
    chosen = ", ".join(draw(st.lists(codes, min_size=1, max_size=3)))
    kind = draw(st.sampled_from(["in", "under", "like", "null", "one"]))
    refused = draw(negations)
    if kind == "null":
        some = (
            f"exists (select 1 from ill i where i.id = {alias}.id)" if name == "ill" else f"{alias}.{name} is not null"
        )
        return f"{name} is {refused}null", f"{some}" if refused else f"not ({some})"
    beginning = draw(st.sampled_from(["a%", "b%", "a1%"]))
    one = draw(codes)
    text, among = {
        "in": (f"{refused}in ({chosen})", f"in ({chosen})"),
        "under": (f"{refused}under ({chosen})", f"in (select code from branch where top in ({chosen}))"),
        "one": (f"{refused}under {one}", f"in (select code from branch where top = {one})"),
        "like": (f"{refused}like '{beginning}'", f"like '{beginning}'"),
    }[kind]
    if name == "ill":
        some = f"exists (select 1 from ill i where i.id = {alias}.id and i.code {among})"
    else:
        some = f"coalesce({alias}.{name} {among}, false)"
    return f"{name} {text}", f"{refused}{some}"


def joined(parts: list[Written], word: str) -> Written:
    """Each part in parentheses, and all of them."""
    text, sql = (f" {word} ".join(f"({part[side]})" for part in parts) for side in (0, 1))
    return text, sql


def larger(parts: st.SearchStrategy[Written]) -> st.SearchStrategy[Written]:
    """Conditions made of these."""
    several = st.lists(parts, min_size=2, max_size=3)
    return st.one_of(
        several.map(lambda each: joined(each, "and")),
        several.map(lambda each: joined(each, "or")),
        parts.map(lambda part: (f"not ({part[0]})", f"not ({part[1]})")),
    )


of_stay = of_column("e", "number") | of_column("e", "day") | of_codes("e", "cause")
WHERE = {"stay": st.recursive(of_stay, larger, max_leaves=4), "visit": of_column("e", "day")}


@st.composite
def of_events(draw: st.DrawFn) -> Written:
    """Any event of a table, or a number of them."""
    table = draw(st.sampled_from(sorted(WHERE)))
    where = draw(st.none() | WHERE[table])
    text = table if where is None else f"{table} where {where[0]}"
    inner = f"from {table} e where e.id = p.id" + ("" if where is None else f" and ({where[1]})")
    if draw(st.booleans()):
        return f"any({text})", f"exists (select 1 {inner})"
    number, more = draw(st.integers(1, 4)), draw(st.integers(0, 2))
    compared = draw(
        st.sampled_from(
            [
                *(f"{sign} {number}" for sign in (">=", "<", "=", "<>")),
                *(f"{sign} {number - 1}" for sign in (">", "<=", "=", "!=")),
                f"between {number - 1} and {number + more}",
                f"in ({number - 1}, {number + more})",
                f"not between {number} and {number + more}",
            ]
        )
    )
    return f"count({text}) {compared}", f"(select count(*) {inner}) {compared}"


of_person = of_column("p", "number") | of_column("p", "day") | of_codes("p", "cause") | of_codes("p", "ill")
conditions = st.recursive(of_person | of_events() | of_events(), larger, max_leaves=6)


@settings(max_examples=160)
@given(world=st.integers(0, WORLDS - 1), written=conditions)
def test_criteria_mean_what_a_database_says(worlds: list[World], world: int, written: Written) -> None:
    """Person by person: every operator, gaps in records, hierarchies with more than one way up, and counts of events."""
    there, (text, sql) = worlds[world], written
    condition = parse_condition(text, there.dictionary)
    found = [place for place, person in enumerate(there.people) if meets(condition, person, there.dictionary)]
    assert found == there.meant(sql)
    # Certainties hold of these people.
    sure = certainty(condition, there.dictionary)
    assert sure is not Certainty.NOBODY or not found
    assert sure is not Certainty.EVERYBODY or len(found) == PEOPLE


@settings(max_examples=150)
@given(world=st.integers(0, WORLDS - 1), written=conditions)
def test_criteria_of_events_survive_the_wire_and_their_own_text(
    worlds: list[World], world: int, written: Written
) -> None:
    """The written, the sent and the described condition are one, with one encoding."""
    dictionary = worlds[world].dictionary
    condition = parse_condition(written[0], dictionary)
    again = condition_from_wire(condition.to_wire(), dictionary)
    assert again == condition
    assert decoded(canonical_bytes(condition)) == condition
    assert parse_condition(describe(condition), dictionary) == condition


@settings(max_examples=150)
@given(world=st.integers(0, WORLDS - 1), written=conditions, data=st.data())
def test_damaged_criteria_of_events_end_in_a_typed_error(
    worlds: list[World], world: int, written: Written, data: st.DataObject
) -> None:
    """A word lost, doubled or changed for another: a condition, or an error whose suggestion can be read."""
    dictionary = worlds[world].dictionary
    words = written[0].replace("(", " ( ").replace(")", " ) ").split()
    place = data.draw(st.integers(0, len(words) - 1))
    extra = [
        "",
        words[place],
        "any",
        "count",
        "(",
        ")",
        "where",
        "under",
        "stay",
        "cause",
        "3",
        "'a1'",
        "not",
        "and",
        "=",
    ]
    words[place] = f"{data.draw(st.sampled_from(extra))} {data.draw(st.sampled_from(['', words[place]]))}"
    try:
        parse_condition(" ".join(words), dictionary)
    except InvalidRequestError as error:
        told, _, text = error.details.get("instead", "").partition(": ")
        if told == "Type" and error.code.endswith("_SYNTAX"):
            parse_condition(text, dictionary)
