"""A study on made-up people, whose true numbers are known: nothing real is asked, and nobody is charged.

A deployment is made in a folder of its own by the program's own commands, as child processes that end with this one, however
that ends. The truth is counted from the files of people that the two nodes were loaded with, without any of their code.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path

from broker_common.crypto.id_forms import ID_FORMS
from broker_common.errors import InternalError
from broker_common.privacy.policy import Policy
from broker_common.query.condition import (
    AllOf,
    AnyOf,
    ColumnCondition,
    Comparison,
    Condition,
    Happened,
    Membership,
    Negation,
    Order,
    Presence,
    Under,
)
from broker_common.query.dictionary import MULTI_VALUE_SEPARATOR, Column, ColumnType, Dictionary, EventTable
from broker_common.query.normal_form import literals_of
from broker_common.query.question import REST
from researcher_node.study.design import Row, Study

# For a node to say that it is ready, and to end.
_END_SECONDS = 30.0
# A row of a file: a person, or an event.
Person = Mapping[str, str]
Predicate = Callable[[Person], bool]


def make_deployment(directory: Path, population: int, seed: int, policy: Policy | None) -> Path:
    """Homes of both agencies with made-up people, under the rules of `policy` if it is given; gives the researcher's home."""
    rules = (
        []
        if policy is None
        else [
            *("--accounting", policy.accounting, "--max-belief", policy.max_belief),
            *("--subject", policy.subject, "--linkage", policy.linkage),
        ]
    )
    words = ["init", str(directory), "--population", str(population), "--seed", str(seed), *rules, "--json"]
    made = subprocess.run([*_PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603 - our own program
    if made.returncode:
        raise _failed(made.stdout)
    return directory / "researcher"


@contextmanager
def served(directory: Path) -> Iterator[None]:
    """Both agencies' nodes serve a deployment."""
    with ExitStack() as stack:
        for role in ("census", "health"):
            stack.enter_context(_serving(directory / role, role))
        yield


_PROGRAM = (sys.executable, "-m", "broker_common")


@contextmanager
def _serving(home: Path, role: str) -> Iterator[None]:
    """A node that serves during the block."""
    with (home / "rehearsal.log").open("ab") as log:
        words = [*_PROGRAM, role, "serve", "--home", str(home), "--while-stdin-open"]
        node = subprocess.Popen(  # noqa: S603 - as above
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
        )
    try:
        assert node.stdout is not None  # noqa: S101 - it is a pipe
        if not node.stdout.readline():
            raise _failed(f"{role}: {(home / 'rehearsal.log').read_text(encoding='utf-8', errors='replace')}")
        yield
    finally:
        node.terminate()
        try:
            node.communicate(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            node.kill()
            node.communicate()


def _failed(said: str) -> InternalError:
    """A child has failed; it has told its reason on standard error, or as the object of --json."""
    sys.stderr.write(said)
    return InternalError("INTERNAL")


# --- the truth -------------------------------------------------------------------------------------------------------


def true_counts(study: Study, directory: Path, health: Dictionary) -> list[tuple[int, ...]]:
    """For each question of the study the exact number of people in each cell, from the sources of both nodes.

    Where households are linked, everybody of an address counts if anybody there matches.
    """
    one_spelling: Callable[[str], str] = ID_FORMS[health.id_form] if health.linkage == "household" else str
    census: dict[str, list[Person]] = defaultdict(list)
    with (directory / "census" / "people.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["health_card"]:
                census[one_spelling(row["health_card"])].append(row)
    sources = _Sources(directory / "health", health)
    predicates = [sources.predicate(ask.where) for ask in study.asks]
    cell_of = _cell_of(study)
    # One person may have several cards, and is counted once.
    found: list[list[set[str]]] = [[set() for _ in study.cells] for _ in study.asks]
    with (directory / "health" / "people.csv").open(encoding="utf-8", newline="") as file:
        for person in csv.DictReader(file):
            members = census.get(one_spelling(person["health_card"]), ()) if person["health_card"] else ()
            linked = [(member, cell) for member in members if (cell := cell_of(member)) is not None]
            for cells, holds in zip(found, predicates, strict=True):
                if linked and holds(person):
                    for member, cell in linked:
                        cells[cell].add(member.get("person_id") or member["health_card"])
    return [tuple(map(len, cells)) for cells in found]


def _cell_of(study: Study) -> Callable[[Person], int | None]:
    """Which cell of the question somebody of the census stands in; None for none."""
    question = study.question
    places = {value: place for place, cell in enumerate(question.cells) for value in cell.values}
    rest = question.cells.index(REST) if REST in question.cells else None
    variable = question.variable
    return (lambda _: rest) if variable is None else lambda row: places.get(row[variable], rest)


class _Sources:
    """Conditions evaluated on the rows of a folder's files."""

    def __init__(self, folder: Path, health: Dictionary) -> None:
        self._folder = folder
        self._health = health

    def predicate(self, condition: Condition, scope: Dictionary | EventTable | None = None) -> Predicate:
        """Whether a row of `scope` meets the condition; by default a person."""
        match condition:
            case Negation(part):
                holds = self.predicate(part, scope)
                return lambda person: not holds(person)
            case AllOf(parts):
                each = [self.predicate(part, scope) for part in parts]
                return lambda person: all(holds(person) for holds in each)
            case AnyOf(parts):
                each = [self.predicate(part, scope) for part in parts]
                return lambda person: any(holds(person) for holds in each)
            case Happened():
                return self._happened(condition)
            case _:
                return _of_column(condition, (scope or self._health).column(condition.column))

    def _happened(self, happened: Happened) -> Predicate:
        table = self._health.event_table(happened.events)
        holds = (lambda _: True) if happened.where is None else self.predicate(happened.where, table)
        times: Counter[str] = Counter()
        with (self._folder / f"{table.name}.csv").open(encoding="utf-8", newline="") as file:
            times.update(event["health_card"] for event in csv.DictReader(file) if holds(event))
        return lambda person: times[person["health_card"]] >= happened.at_least


def _of_column(condition: ColumnCondition, column: Column) -> Predicate:
    match condition:
        case Comparison(_, order, literal):
            return _comparison(column, order, literal)
        case Membership() | Under():
            wanted = literals_of(condition, column)
            return lambda person: not wanted.isdisjoint(_values(column, person[column.name]))
        case Presence(name):
            return lambda person: bool(person[name])


def _comparison(column: Column, order: Order, literal: int | date) -> Predicate:
    compare: Callable[[int, int], bool] = {
        Order.LESS: int.__lt__,
        Order.LESS_OR_EQUAL: int.__le__,
        Order.GREATER: int.__gt__,
        Order.GREATER_OR_EQUAL: int.__ge__,
    }[order]
    bound = _number(literal)
    return lambda person: any(compare(_number(value), bound) for value in _values(column, person[column.name]))


def _values(column: Column, text: str) -> list[int | str | date]:
    """A person's values in a column: none, one, or several."""
    if not text:
        return []
    match column.type:
        case ColumnType.INTEGER:
            return [int(text)]
        case ColumnType.DATE:
            return [date.fromisoformat(text)]
        case _:
            return [*(text.split(MULTI_VALUE_SEPARATOR) if column.multi_valued else (text,))]


def _number(value: int | str | date) -> int:
    return value.toordinal() if isinstance(value, date) else int(value)


# --- against what was found ------------------------------------------------------------------------------------------


def true_value(row: Row, counts: Sequence[Sequence[int]]) -> float | None:
    """The number that a row estimates, from exact counts; None where it divides by nothing."""
    here = [counts[place] for place in row.asks]
    try:
        if row.kind == "rate_ratio":
            return _rate_ratio(row, here[0], here[1])
        return _of_shares(row, [_sum(each, row.part_cells) / _sum(each, row.whole_cells) for each in here])
    except ZeroDivisionError:
        return None


def _of_shares(row: Row, shares: Sequence[float]) -> float:
    numbers = [float(number) for number in row.numbers]
    match row.kind:
        case "share":
            return shares[0]
        case "difference":
            return shares[0] - shares[1]
        case "ratio":
            return shares[0] / shares[1]
        case "standardised_rate":
            return sum(map(float.__mul__, shares, numbers)) / sum(numbers)
        case _:
            return _slope(shares, numbers)


def _rate_ratio(row: Row, inside: Sequence[int], outside: Sequence[int]) -> float:
    against = row.against_cells or tuple(place for place in range(len(inside)) if place not in row.part_cells)

    def rate(cells: Sequence[int]) -> float:
        return _sum(inside, cells) / (_sum(inside, cells) + _sum(outside, cells))

    return rate(row.part_cells) / rate(against)


def _slope(shares: Sequence[float], scores: Sequence[float]) -> float:
    middle = sum(scores) / len(scores)
    return sum((score - middle) * share for score, share in zip(scores, shares, strict=True)) / sum(
        (score - middle) ** 2 for score in scores
    )


def _sum(counts: Sequence[int], cells: Sequence[int] | None) -> int:
    return sum(counts) if cells is None else sum(counts[cell] for cell in cells)
