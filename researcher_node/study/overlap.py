"""How many of several groups one person can be in, as far as their conditions show it.

A person has one value at most in a single-valued column, so that groups over such a column whose values do not meet are
disjoint. Everything else counts as overlapping: values of a multi-valued column, and conditions that this cannot compare.
The figure is therefore never too low: it is an upper bound for everybody, whatever the data are.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from broker_common.query.condition import (
    AllOf,
    AnyOf,
    Comparison,
    Condition,
    Happened,
    Membership,
    Negation,
    Order,
    Presence,
    Under,
)
from broker_common.query.dictionary import Dictionary
from broker_common.query.normal_form import literals_of

# Alternatives of two conditions that are compared with each other, at most; beyond them they count as overlapping.
_MOST_PAIRS = 400


def most_in(groups: Sequence[Condition], dictionary: Dictionary) -> int:
    """At most so many of these groups can hold one and the same person."""
    if dictionary.linkage == "household":
        # Records are linked by home, and its people may be in one group each.
        return len(groups)
    # Groups that one person is in overlap each with each, so each of them needs a colour of its own.
    colours: list[list[Condition]] = []
    for group in groups:
        for members in colours:
            if all(are_disjoint(group, other, dictionary) for other in members):
                members.append(group)
                break
        else:
            colours.append([group])
    return len(colours)


def are_disjoint(one: Condition, other: Condition, dictionary: Dictionary) -> bool:
    """Whether no person can meet both conditions, by their text alone."""
    ones, others = _alternatives(one), _alternatives(other)
    if len(ones) * len(others) > _MOST_PAIRS:
        return False
    return all(_contradict((*left, *right), dictionary) for left in ones for right in others)


def _alternatives(condition: Condition) -> list[tuple[Condition, ...]]:
    """The condition as alternatives, each of parts that all hold; an inner `or` stays a part that nothing is known of."""
    parts = condition.parts if isinstance(condition, AnyOf) else (condition,)
    return [part.parts if isinstance(part, AllOf) else (part,) for part in parts]


def _contradict(parts: Sequence[Condition], dictionary: Dictionary) -> bool:
    """Whether these parts cannot all hold for one person."""
    stated = set(parts)
    if any(isinstance(part, Negation) and part.part in stated for part in parts):
        return True
    # not (a and b) beside a and b.
    for part in parts:
        if isinstance(part, Negation) and isinstance(part.part, AllOf) and stated.issuperset(part.part.parts):
            return True
    had = [part for part in parts if isinstance(part, Happened)]
    missed = [part.part for part in parts if isinstance(part, Negation) and isinstance(part.part, Happened)]
    if any(_are_more(one, other) for one in had for other in missed):
        return True
    columns = {part.column for part in parts if isinstance(part, Comparison | Membership | Under)}
    # No value, beside a comparison of one.
    if any(isinstance(part, Negation) and part.part in {Presence(name) for name in columns} for part in parts):
        return True
    return any(_is_empty(column, parts, dictionary) for column in columns)


def _are_more(one: Happened, other: Happened) -> bool:
    """Whether everybody who has had the one has had the other."""
    return one.events == other.events and other.where in (None, one.where) and one.at_least >= other.at_least


def _is_empty(name: str, parts: Sequence[Condition], dictionary: Dictionary) -> bool:
    """Whether no single value of the column meets all parts that are about it."""
    column = dictionary.find(name)
    if column is None or column.multi_valued:
        return False
    admitted: set[object] | None = None
    excluded: set[object] = set()
    low: int | None = None
    high: int | None = None
    for part in parts:
        match part:
            case Membership(column=each) | Under(column=each) if each == name:
                admitted = set(literals_of(part, column)) if admitted is None else admitted & literals_of(part, column)
            case Negation(part=(Membership(column=each) | Under(column=each)) as inner) if each == name:
                excluded |= literals_of(inner, column)
            case Comparison(column=each, order=order, literal=literal) if each == name:
                least, most = _bounds(order, literal)
                low = least if low is None else low if least is None else max(low, least)
                high = most if high is None else high if most is None else min(high, most)
            case _:
                pass
    if low is not None and high is not None and low > high:
        return True
    if admitted is None:
        return False
    return not any(_lies_within(value, low, high) for value in admitted - excluded)


def _bounds(order: Order, literal: int | date) -> tuple[int | None, int | None]:
    """The smallest and largest whole number, or day, that the comparison admits."""
    number = _ordinal(literal)
    match order:
        case Order.LESS:
            return None, number - 1
        case Order.LESS_OR_EQUAL:
            return None, number
        case Order.GREATER:
            return number + 1, None
        case Order.GREATER_OR_EQUAL:
            return number, None


def _lies_within(value: object, low: int | None, high: int | None) -> bool:
    if isinstance(value, str) or (low is None and high is None):
        return True
    number = _ordinal(value) if isinstance(value, int | date) else 0
    return (low is None or low <= number) and (high is None or number <= high)


def _ordinal(literal: int | date) -> int:
    return literal if isinstance(literal, int) else literal.toordinal()
