"""Made-up people with lists of codes and events, as sources, as a store, and as `obvious_criteria` sees them."""

from __future__ import annotations

import csv
import random  # noqa: TID251 - seeded, no secret
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

from fakes.obvious_criteria import ObviousPerson, Value

from broker_common.crypto.linkage import LinkageChain, LinkageKey
from broker_common.query.dictionary import Code, Column, ColumnType, Dictionary, EventTable
from broker_common.storage.source.plan import LINKED_ID, PlainPlan
from health_node.people.loading import LoadReport, load_people
from health_node.people.tables import Declared, shapes_of

FIRST_DAY: Final = date(2005, 1, 1)
_DAYS = 400
CHAIN: Final = LinkageChain([LinkageKey(bytes(range(32)))], "text")
# Events of a person with far more of them than all others.
EVENTFUL: Final = 200
# Places, and rows of each table: fewer than an operator may declare, so that small blocks are soon gone over.
ROOM: Final = 4096


def _codes(count: int, parents: int = 2) -> tuple[Code, ...]:
    """Codes in a graph: each but the first stands under up to two before it."""
    chosen = random.Random(count)
    codes = []
    for number in range(count):
        under = (
            {f"c{chosen.randrange(max(1, number // 3)):03}" for _ in range(chosen.randint(0, parents))}
            if number
            else set()
        )
        codes.append(Code(f"c{number:03}", f"Code {number}", under=tuple(sorted(under))))
    return tuple(codes)


DICTIONARY: Final = Dictionary(
    (
        Column(name="age", type=ColumnType.INTEGER, description="Age.", maximum=9),
        Column(name="sex", type=ColumnType.CODE, description="Sex.", codes=(Code("f", "F"), Code("m", "M"))),
        Column(name="drug", type=ColumnType.CODE, multi_valued=True, description="Few codes.", codes=_codes(10)),
        Column(name="diagnosis", type=ColumnType.CODE, multi_valued=True, description="Many codes.", codes=_codes(90)),
        Column(name="symptom", type=ColumnType.CODE, multi_valued=True, description="More.", codes=_codes(300)),
    ),
    (
        EventTable(
            "stay",
            "In a hospital.",
            (
                Column(name="cause", type=ColumnType.CODE, description="Cause.", codes=_codes(300)),
                Column(name="admitted", type=ColumnType.DATE, description="First day."),
                Column(name="days", type=ColumnType.INTEGER, description="Length.", maximum=5),
            ),
        ),
        EventTable(
            "visit", "To a doctor.", (Column(name="days", type=ColumnType.INTEGER, description="L.", maximum=5),)
        ),
    ),
    id_form="text",
)
"""With masks, lists, a graph of codes, and two event tables that have a column of one name."""
HOUSEHOLDS: Final = replace(DICTIONARY, linkage="household")
"""The same, where the id is a household's."""


SMALL: Final = Dictionary(
    (
        Column(name="age", type=ColumnType.INTEGER, description="Age.", maximum=130),
        Column(
            name="code",
            type=ColumnType.CODE,
            multi_valued=True,
            description="Many codes.",
            codes=tuple(Code(f"c{at}", "C") for at in range(65)),
        ),
    ),
    (EventTable("stay", "S.", (Column(name="days", type=ColumnType.INTEGER, description="D.", maximum=99),)),),
    id_form="text",
)
"""One column, one list, one event table, for tests that write rows by hand."""


@dataclass(frozen=True)
class EventWorld:
    """People by the id that they are linked on, and events by the same."""

    dictionary: Dictionary
    people: Sequence[tuple[str, Mapping[str, Sequence[Value]]]]
    events: Mapping[str, Sequence[tuple[str, Mapping[str, Value | None]]]]

    @classmethod
    def made(cls, seed: int, size: int, dictionary: Dictionary = DICTIONARY) -> EventWorld:
        """As many people, one of whom has many events; some events are of nobody."""
        chosen = random.Random(seed)
        ids = [f"ID {number}" for number in chosen.sample(range(10 * size + 10), size)]
        people = [
            (one_id, {column.name: _values(chosen, column) for column in dictionary.columns})
            for one_id in ids
            for _ in range(chosen.choice((1, 1, 2, 5)) if dictionary.linkage == "household" else 1)
        ]
        chosen.shuffle(people)
        events = {}
        for table in dictionary.events:
            owners = (
                [*chosen.choices([*ids, "NOBODY"], k=4 * size), *[ids[0]] * (EVENTFUL if size else 0)] if ids else []
            )
            chosen.shuffle(owners)
            events[table.name] = [
                (one_id, {column.name: next(iter(_values(chosen, column)), None) for column in table.columns})
                for one_id in owners
            ]
        return cls(dictionary, people, events)

    def write(self, folder: Path) -> Path:
        """The files of a plan; gives that of people."""
        _write(folder / "people.csv", self.dictionary.names, self.people)
        for table in self.dictionary.events:
            rows = [
                (one_id, {name: () if value is None else (value,) for name, value in row.items()})
                for one_id, row in self.events[table.name]
            ]
            _write(folder / f"{table.name}.csv", table.names, rows)
        return folder / "people.csv"

    def load(self, folder: Path, **settings: Any) -> LoadReport:
        """Load the files of `write` into `store.people` of the folder."""
        return load_people(
            PlainPlan(self.write(folder)),
            folder / "store.people",
            CHAIN,
            dictionary=self.dictionary,
            declared=Declared(ROOM, {shape.name: ROOM for shape in shapes_of(self.dictionary)}),
            **settings,
        )

    def obvious(self) -> dict[bytes, list[ObviousPerson]]:
        """Who stands at each place, by its pseudonym."""
        found: dict[bytes, list[ObviousPerson]] = {}
        events: dict[str, dict[str, list[Mapping[str, Value | None]]]] = {}
        for name, rows in self.events.items():
            for one_id, row in rows:
                events.setdefault(one_id, {}).setdefault(name, []).append(row)
        for one_id, values in self.people:
            found.setdefault(CHAIN.pseudonym(one_id), []).append(ObviousPerson(values, events.get(one_id, {})))
        return found


def _values(chosen: random.Random, column: Column) -> Sequence[Value]:
    if column.multi_valued:
        return chosen.sample(column.values, chosen.choice((0, 1, 1, 2, 5)))
    if chosen.random() < 0.1:
        return ()
    match column.type:
        case ColumnType.CODE:
            return (chosen.choice(column.values),)
        case ColumnType.DATE:
            return (FIRST_DAY + timedelta(days=chosen.randrange(_DAYS)),)
        case _:
            return (chosen.randint(column.minimum, column.maximum),)


def _write(path: Path, names: Sequence[str], rows: Sequence[tuple[str, Mapping[str, Sequence[Value]]]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([LINKED_ID, *names])
        for one_id, values in rows:
            writer.writerow([one_id, *(";".join(map(str, values[name])) for name in names)])
