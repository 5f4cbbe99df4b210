"""Whether one person meets a condition, by the words of `condition`: slow, obvious, and without any code of the nodes.

person = ObviousPerson({"age": {70}, "drug": {"A10", "C07"}}, {"stay": [{"cause": "I21", "days": 4}, {"cause": None, "days": 1}]})
meets(condition, person, dictionary)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, TypeAlias, TypeVar

from broker_common.query.condition import (
    AllOf,
    AnyOf,
    ColumnCondition,
    Comparison,
    Condition,
    Happened,
    Literal,
    Membership,
    Negation,
    Order,
    Presence,
    Under,
)
from broker_common.query.dictionary import Column, Dictionary, EventTable

ItemT = TypeVar("ItemT")
Value: TypeAlias = int | str | date
"""A whole number, a published code, or a day."""

_COMPARE: Mapping[Order, Callable[[Any, Any], bool]] = {
    Order.LESS: operator.lt,
    Order.LESS_OR_EQUAL: operator.le,
    Order.GREATER: operator.gt,
    Order.GREATER_OR_EQUAL: operator.ge,
}


@dataclass(frozen=True)
class ObviousPerson:
    """Facts about a person: the values in each column, none if it is left out, and the rows of each event table."""

    values: Mapping[str, Collection[Value]]
    events: Mapping[str, Sequence[Mapping[str, Value | None]]] = field(default_factory=dict)


def meets(condition: Condition, person: ObviousPerson, dictionary: Dictionary) -> bool:
    """Whether the condition is true of the person."""

    def happens(happened: Happened) -> bool:
        table = dictionary.find_events(happened.events)
        assert table is not None
        rows = person.events.get(table.name, ())
        return sum(happened.where is None or _holds(happened.where, _of_event(row), table, None) for row in rows) >= (
            happened.at_least
        )

    return _holds(condition, person.values, dictionary, happens)


def _of_event(row: Mapping[str, Value | None]) -> Mapping[str, Collection[Value]]:
    return {name: () if value is None else (value,) for name, value in row.items()}


def _holds(
    condition: Condition,
    values: Mapping[str, Collection[Value]],
    scope: Dictionary | EventTable,
    happens: Callable[[Happened], bool] | None,
) -> bool:
    match condition:
        case AllOf(parts):
            return all(_holds(part, values, scope, happens) for part in parts)
        case AnyOf(parts):
            return any(_holds(part, values, scope, happens) for part in parts)
        case Negation(part):
            return not _holds(part, values, scope, happens)
        case Happened():
            assert happens is not None, "there are no events in an event"
            return happens(condition)
        case _:
            return _holds_of_column(condition, values.get(condition.column, ()), scope.column(condition.column))


def _holds_of_column(condition: ColumnCondition, values: Collection[Value], column: Column) -> bool:
    match condition:
        case Presence():
            return len(values) > 0
        case Membership(_, literals):
            return any(value in literals for value in values)
        case Comparison(_, order, literal):
            return any(_COMPARE[order](value, literal) for value in values)
        case Under(_, codes):
            return any(_stands_under(str(value), codes, column) for value in values)


def _stands_under(code: str, wanted: Collection[str], column: Column) -> bool:
    """Whether the code is one of those, or stands under a code that does."""
    above = column.codes[column.positions[code]].under
    return code in wanted or any(_stands_under(parent, wanted, column) for parent in above)


# --- the encoding, read back ---------------------------------------------------------------------------------------------


def decoded(data: bytes) -> Condition:
    """The tree that canonical bytes encode: a decoder exists, so no two trees share an encoding."""
    version = b"tripartite/criteria/v1\0"
    assert data.startswith(version)
    condition, rest = _decoded(data[len(version) :])
    assert not rest
    return condition


def _decoded(data: bytes) -> tuple[Condition, bytes]:
    tag, rest = data[:1], data[1:]
    match tag:
        case b"!":
            part, rest = _decoded(rest)
            return Negation(part), rest
        case b"&":
            parts, rest = _decoded_list(rest, _decoded)
            return AllOf(parts), rest
        case b"|":
            parts, rest = _decoded_list(rest, _decoded)
            return AnyOf(parts), rest
    name, rest = _decoded_string(rest)
    return _decoded_events(name, rest) if tag == b"h" else _decoded_of_column(tag, name, rest)


def _decoded_of_column(tag: bytes, column: str, data: bytes) -> tuple[Condition, bytes]:
    match tag:
        case b"v":
            return Presence(column), data
        case b"=":
            literals, rest = _decoded_list(data, _decoded_literal)
            return Membership(column, literals), rest
        case b"u":
            codes, rest = _decoded_list(data, _decoded_string)
            return Under(column, codes), rest
    order = {b"a": Order.GREATER_OR_EQUAL, b"b": Order.GREATER, b"c": Order.LESS_OR_EQUAL, b"d": Order.LESS}[tag]
    literal, rest = _decoded_literal(data)
    assert not isinstance(literal, str)
    return Comparison(column, order, literal), rest


def _decoded_list(data: bytes, read: Callable[[bytes], tuple[ItemT, bytes]]) -> tuple[tuple[ItemT, ...], bytes]:
    size, rest = int.from_bytes(data[:4], "big"), data[4:]
    items = []
    for _ in range(size):
        item, rest = read(rest)
        items.append(item)
    return tuple(items), rest


def _decoded_events(table: str, data: bytes) -> tuple[Condition, bytes]:
    at_least, rest = int.from_bytes(data[:4], "big"), data[4:]
    if rest[:1] == b"0":
        return Happened(table, None, at_least), rest[1:]
    assert rest[:1] == b"1"
    where, rest = _decoded(rest[1:])
    return Happened(table, where, at_least), rest


def _decoded_string(data: bytes) -> tuple[str, bytes]:
    end = 4 + int.from_bytes(data[:4], "big")
    return data[4:end].decode("utf-8"), data[end:]


def _decoded_literal(data: bytes) -> tuple[Literal, bytes]:
    tag, rest = data[:1], data[1:]
    if tag == b"C":
        return _decoded_string(rest)
    if tag == b"D":
        return date.fromisoformat(rest[:10].decode("ascii")), rest[10:]
    assert tag == b"I"
    return int.from_bytes(rest[:8], "big", signed=True), rest[8:]
