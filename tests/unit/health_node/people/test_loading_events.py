"""Loading events, long lists and households: whose they are, what is left out and why, and that all must fit what was declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fakes.disk import limited_files
from fakes.event_worlds import CHAIN, DICTIONARY, EVENTFUL, HOUSEHOLDS, SMALL, EventWorld
from fakes.samples import selected

from broker_common.errors import InternalError, InvalidRequestError
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import Dictionary
from broker_common.storage.source.plan import LINKED_ID, PlainPlan
from health_node.people.loading import LoadReport, _places_of, load_people
from health_node.people.store import People, PeopleStore, read_figures
from health_node.people.tables import Declared

HOMES = replace(SMALL, linkage="household")
ENOUGH = Declared(100, {"people": 100, "code": 100, "stay": 100})


def load(
    folder: Path, people: str, stays: str, dictionary: Dictionary = SMALL, declared: Declared = ENOUGH
) -> LoadReport:
    """Load these rows."""
    (folder / "people.csv").write_text("\n".join([f"{LINKED_ID},age,code", *people.split(), ""]), "utf-8")
    (folder / "stay.csv").write_text("\n".join([f"{LINKED_ID},days", *stays.split(), ""]), "utf-8")
    tables = {name: rows for name, rows in declared.tables.items() if name != "people" or dictionary is HOMES}
    plan = PlainPlan(folder / "people.csv")
    declared = Declared(declared.places, tables)
    return load_people(plan, folder / "store.people", CHAIN, dictionary=dictionary, declared=declared)


def found(folder: Path, criteria: str, dictionary: Dictionary = SMALL) -> set[str]:
    """Which of the ids A to F a condition selects."""
    names = {CHAIN.pseudonym(one_id): one_id for one_id in "ABCDEF"}
    with PeopleStore(folder / "store.people", dictionary) as store:
        return {names[row.tobytes()] for row in selected(store, parse_condition(criteria, dictionary))}


def test_events_belong_to_whoever_has_their_id(tmp_path: Path) -> None:
    """In any order, however the id is written; of nobody, without one and wrong ones are counted apart and left out."""
    report = load(tmp_path, "A,1, B,2, C,3,", "B,1 a,2 B,3 Z,4 ,5 A,100 C,x B, Y,1")
    stays = report.events["stay"]
    assert (report.rows, report.loaded, report.places) == (3, 3, 3)
    assert (stays.rows, stays.loaded, stays.without_card, stays.of_nobody, stays.rejected.count) == (9, 4, 1, 2, 2)
    assert stays.rejected.first == ((7, "days is not between 0 and 99"), (8, "days is not a whole number"))
    assert found(tmp_path, "any(stay)") == {"A", "B"}
    assert found(tmp_path, "count(stay) >= 3") == {"B"}
    assert found(tmp_path, "any(stay where days is null)") == {"B"}
    assert found(tmp_path, "any(stay where days = 2)") == {"A"}


def test_long_lists_are_kept_with_whoever_stays(tmp_path: Path) -> None:
    """A wrong row takes its values along, and a repeated one too; a value that stands there twice is wrong."""
    report = load(tmp_path, "B,2,c3;c64 A,200,c1 A,1,c5;c6;c7 A,1,c9 C,3,c1;c1 D,4,c65 E,5,", "A,1")
    assert (report.rows, report.loaded, report.rejected.count) == (7, 3, 4)
    assert [reason for _, reason in report.rejected.first] == [
        "age is not between 0 and 130",
        "repeats the health_card of line 4",
        "code holds a code twice",
        "code holds a code that is not published",
    ]
    assert found(tmp_path, "code in ('c3', 'c7')") == {"A", "B"}
    assert found(tmp_path, "code = 'c64'") == {"B"}
    assert found(tmp_path, "code in ('c1', 'c9')") == set()
    assert found(tmp_path, "code is null") == {"E"}
    assert read_figures(tmp_path / "store.people", SMALL).tables["code"].rows == 5


def test_all_rows_of_a_household_stay(tmp_path: Path) -> None:
    """Its place is marked if one and the same of its members meets all of the criteria; events are the household's."""
    report = load(tmp_path, "A,70, B,30,c1 A,20,c1 A,20,c2 B,71,c1", "A,1 B,2 Z,3", HOMES)
    assert (report.rows, report.loaded, report.places, report.rejected.count) == (5, 5, 2, 0)
    assert (report.events["stay"].loaded, report.events["stay"].of_nobody) == (2, 1)
    assert found(tmp_path, "age >= 70", HOMES) == {"A", "B"}
    assert found(tmp_path, "age >= 70 and code = 'c1'", HOMES) == {"B"}
    assert found(tmp_path, "not age >= 70", HOMES) == {"A", "B"}
    assert found(tmp_path, "age = 20 and any(stay where days = 1)", HOMES) == {"A"}
    assert found(tmp_path, "age = 20 and any(stay where days = 2)", HOMES) == set()
    assert found(tmp_path, "code is null", HOMES) == {"A"}


@pytest.mark.parametrize(
    ("declared", "problem", "remedy"),
    [
        (Declared(1, ENOUGH.tables), "2 people, and 1 places", "Set places to 524288 or more in config"),
        (
            Declared(100, {"code": 2, "stay": 100}),
            "3 rows of code, and 2 rows",
            "Set code to 524288 or more under [rows]",
        ),
        (
            Declared(100, {"code": 3, "stay": 3}),
            "4 rows of stay, and 3 rows",
            "Set stay to 524288 or more under [rows]",
        ),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, declared: Declared, problem: str, remedy: str) -> None:
    """To the operator, who is told what to declare; what was loaded before stays, and no file is left beside it."""
    rows = "A,1,c1;c2 B,2,c3", "A,1 A,2 B,1 B,2"
    load(tmp_path, *rows, declared=Declared(2, {"code": 3, "stay": 4}))
    before = (tmp_path / "store.people").read_bytes()
    with pytest.raises(InvalidRequestError, match="LOAD_REFUSED") as caught:
        load(tmp_path, *rows, declared=declared)
    assert problem in caught.value.text
    assert remedy in caught.value.hint
    assert (tmp_path / "store.people").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"people.csv", "stay.csv", "store.people"}


def test_more_members_than_were_declared_are_refused(tmp_path: Path) -> None:
    """Households have a number of their own, and so have the people in them."""
    with pytest.raises(InvalidRequestError, match="LOAD_REFUSED") as caught:
        load(tmp_path, "A,1, A,2, B,3,", "A,1", HOMES, Declared(2, {"people": 2, "code": 5, "stay": 5}))
    assert "Set people to 524288 or more under [rows]" in caught.value.hint


def test_too_many_wrong_events_stop_the_load(tmp_path: Path) -> None:
    """Each source is judged by its own rows."""
    world = EventWorld.made(2, 300)
    assert world.load(tmp_path).events["stay"].rejected.count == 0
    wrong = tuple((one_id, {**row, "days": 6}) for one_id, row in world.events["stay"])
    with pytest.raises(InvalidRequestError, match="LOAD_REFUSED") as caught:
        EventWorld(DICTIONARY, world.people, {**world.events, "stay": wrong}).load(tmp_path)
    assert "days is not between 0 and 5" in caught.value.text


def test_order_of_rows_changes_nothing(tmp_path: Path) -> None:
    """A source that gives its rows in another order next time gives the same answers: of lists, events and households."""
    for dictionary in (DICTIONARY, HOUSEHOLDS):
        world = EventWorld.made(4, 60, dictionary)
        events = {name: rows[::-1] for name, rows in world.events.items()}
        answers = []
        for each in (world, EventWorld(dictionary, world.people[::-1], events)):
            report = each.load(tmp_path)
            with PeopleStore(tmp_path / "store.people", dictionary) as store:
                asked = (
                    "any(stay where cause under 'c001')",
                    "diagnosis is null",
                    f"count(visit) >= {EVENTFUL}",
                    "age < 5",
                )
                marked = [selected(store, parse_condition(text, dictionary)).tobytes() for text in asked]
            answers.append((report.places, report.events["stay"].of_nobody, marked))
        assert answers[0] == answers[1]


def test_full_disk_leaves_the_store_before(tmp_path: Path) -> None:
    """Also where only the file in which events are sorted becomes too large."""
    EventWorld.made(5, 50).load(tmp_path)
    before = (tmp_path / "store.people").read_bytes()
    with limited_files(20_000), pytest.raises(InternalError, match="STORE_FAILED"):
        EventWorld.made(6, 50).load(tmp_path)
    assert (tmp_path / "store.people").read_bytes() == before
    assert not list(tmp_path.glob(".*"))


def test_people_are_told_apart_by_their_whole_pseudonyms() -> None:
    """Also those whose first halves are the same, before, between and behind others."""
    high = np.array([1, 5, 5, 5, 7, 2**64 - 1, 2**64 - 1], np.uint64)
    low = np.array([9, 1, 4, 8, 0, 3, 2**64 - 1], np.uint64)
    people = People(high, low, {})
    asked = [
        (h, half + more)
        for h, half in zip(high.tolist(), low.tolist(), strict=True)
        for more in (0, 1)
        if half + more < 2**64
    ]
    asked += [(0, 0), (5, 0), (7, 1), (6, 5), (2**64 - 1, 0)]
    rows = b"".join(half.to_bytes(8, "big") for pair in asked for half in pair)
    places, is_known = _places_of(np.frombuffer(rows, np.uint8).reshape(-1, 16), people)
    known = {pair: place for place, pair in enumerate(zip(high.tolist(), low.tolist(), strict=True))}
    assert is_known.tolist() == [pair in known for pair in asked]
    assert places[is_known].tolist() == [known[pair] for pair in asked if pair in known]
