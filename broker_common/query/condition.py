"""Conditions: the typed tree that health criteria become, always in one normal form.

A condition is a total predicate over one person: true or false for every record, never an error. A person without a
value in a column makes every comparison on it false, and so its negation true; `is null` is true of that person alone.

Invariants, kept by the functions of `normal_form`, which are the only ones that build these classes:
- `=`, `in` and their repetitions are one `Membership` whose literals are ascending and distinct;
- `between` is the conjunction of `>=` and `<=`; `<>`, `not in` and `is null` are negations; no negation stands under a
  negation;
- the codes of `Under` are ascending and distinct;
- `like` is the `Membership` of the published codes that it matches, or `Under` if they are too many to be named and are whole branches;
- `any` is one event at least; every comparison of a count is made of `Happened` and its negation;
- the parts of `AllOf` and `AnyOf` are two or more, distinct, ascending by canonical bytes, never of their parent's kind.

Equal trees therefore have equal canonical bytes (`canonical`) and equal messages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import TypeAlias

from tripartite.v1 import condition_pb2

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def parse_date(text: str) -> date:
    """The date that `text` writes.

    Raises:
        ValueError: it is not YYYY-MM-DD, or the calendar has no such day.
    """
    # `fromisoformat` alone would admit week dates and other spellings.
    if not _DATE.fullmatch(text):
        raise ValueError("not written YYYY-MM-DD")
    return date.fromisoformat(text)


Literal: TypeAlias = int | str | date
"""A whole number, a published code, or a calendar date."""


class Order(Enum):
    """How a number or a date is compared; the value is how it is written."""

    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="


@dataclass(frozen=True, slots=True)
class Comparison:
    """True when the person has a value in the column that stands in this order to the literal."""

    column: str
    order: Order
    literal: int | date

    def to_wire(self) -> condition_pb2.Condition:
        operator = condition_pb2.Operator.Value(f"OPERATOR_{self.order.name}")
        literal = _literal_to_wire(self.literal)
        return condition_pb2.Condition(
            comparison=condition_pb2.Comparison(column=self.column, operator=operator, literal=literal)
        )


@dataclass(frozen=True, slots=True)
class Membership:
    """True when the person's value is, or values include, one of the literals."""

    column: str
    literals: tuple[Literal, ...]

    def to_wire(self) -> condition_pb2.Condition:
        literals = [_literal_to_wire(literal) for literal in self.literals]
        return condition_pb2.Condition(membership=condition_pb2.Membership(column=self.column, literals=literals))


@dataclass(frozen=True, slots=True)
class Presence:
    """True when the person has a value in the column, or several."""

    column: str

    def to_wire(self) -> condition_pb2.Condition:
        return condition_pb2.Condition(presence=condition_pb2.Presence(column=self.column))


@dataclass(frozen=True, slots=True)
class Under:
    """True when the person's value is, or values include, one of the codes or one that stands under one of them."""

    column: str
    codes: tuple[str, ...]

    def to_wire(self) -> condition_pb2.Condition:
        return condition_pb2.Condition(under=condition_pb2.Under(column=self.column, codes=self.codes))


@dataclass(frozen=True, slots=True)
class Happened:
    """True when at least so many of the person's events in a table satisfy a condition on the table's columns."""

    events: str
    where: Condition | None
    """Holds no other `Happened`; None for any event."""
    at_least: int

    def to_wire(self) -> condition_pb2.Condition:
        where = None if self.where is None else self.where.to_wire()
        return condition_pb2.Condition(
            happened=condition_pb2.Happened(events=self.events, where=where, at_least=self.at_least)
        )


@dataclass(frozen=True, slots=True)
class Negation:
    """True when the part is false."""

    part: Condition

    def to_wire(self) -> condition_pb2.Condition:
        return condition_pb2.Condition(negation=self.part.to_wire())


@dataclass(frozen=True, slots=True)
class AllOf:
    """True when every part is true."""

    parts: tuple[Condition, ...]

    def to_wire(self) -> condition_pb2.Condition:
        return condition_pb2.Condition(all_of=condition_pb2.AllOf(parts=[part.to_wire() for part in self.parts]))


@dataclass(frozen=True, slots=True)
class AnyOf:
    """True when any part is true."""

    parts: tuple[Condition, ...]

    def to_wire(self) -> condition_pb2.Condition:
        return condition_pb2.Condition(any_of=condition_pb2.AnyOf(parts=[part.to_wire() for part in self.parts]))


ColumnCondition: TypeAlias = Comparison | Membership | Presence | Under
Condition: TypeAlias = ColumnCondition | Happened | Negation | AllOf | AnyOf


def _literal_to_wire(literal: Literal) -> condition_pb2.Literal:
    match literal:
        case date():
            return condition_pb2.Literal(date=literal.isoformat())
        case str():
            return condition_pb2.Literal(code=literal)
        case _:
            return condition_pb2.Literal(integer=literal)
