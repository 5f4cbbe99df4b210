"""Criteria that match nobody, or everybody, by their text alone: whatever the data is.

    age >= 70 and age < 60                  nobody
    age > 200                               nobody, where the dictionary admits no such age
    sex = 'female' or not (sex = 'female')  everybody

Sound: what is found is so for every record that the dictionary admits. Not complete: criteria with too many ways of being true
are not looked through, and what the published columns imply about each other is not known here. `age >= 0` is not everybody:
somebody without an age does not match.

The condition is spread out into the ways in which it can be true, each a list of comparisons that hold or do not. It is
impossible if in each way one column would need a value that there cannot be. It is true of everybody if its negation is impossible.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any, TypeAlias

from broker_common.query.condition import (
    AllOf,
    AnyOf,
    Comparison,
    Condition,
    Literal,
    Membership,
    Negation,
    Order,
    Presence,
)
from broker_common.query.dictionary import Column, ColumnType, Dictionary
from broker_common.query.normal_form import negate

# Ways of being true that are looked through: far more than a person writes, and a few milliseconds of work.
_MOST_WAYS = 1_000
_LAST_DAY = date.max.toordinal()


class Certainty(Enum):
    """Who matches, whatever the data is."""

    NOBODY = "nobody"
    EVERYBODY = "everybody"


@dataclass(frozen=True, slots=True)
class _Claim:
    """A comparison, and whether it holds."""

    leaf: Condition
    holds: bool


_Way: TypeAlias = Sequence[_Claim]


def certainty(condition: Condition, dictionary: Dictionary) -> Certainty | None:
    """Who is sure to match, or None if the text alone does not tell."""
    if _is_impossible(condition, dictionary):
        return Certainty.NOBODY
    if _is_impossible(negate(condition), dictionary):
        return Certainty.EVERYBODY
    return None


def _is_impossible(condition: Condition, dictionary: Dictionary) -> bool:
    if _count_ways(condition, True) > _MOST_WAYS:
        return False
    return not any(_is_possible(way, dictionary) for way in _ways(condition, True))


def _count_ways(condition: Condition, holds: bool) -> int:
    match condition:
        case Negation(part):
            return _count_ways(part, not holds)
        case AllOf(parts) | AnyOf(parts):
            counts = [_count_ways(part, holds) for part in parts]
            return math.prod(counts) if isinstance(condition, AllOf) == holds else sum(counts)
        case _:
            return 1


def _ways(condition: Condition, holds: bool) -> list[_Way]:
    """Every way in which the condition holds, or does not."""
    match condition:
        case Negation(part):
            return _ways(part, not holds)
        case AllOf(parts) | AnyOf(parts):
            each = [_ways(part, holds) for part in parts]
            if isinstance(condition, AllOf) == holds:
                return [list(itertools.chain.from_iterable(way)) for way in itertools.product(*each)]
            return list(itertools.chain.from_iterable(each))
        case _:
            return [[_Claim(condition, holds)]]


def _is_possible(way: _Way, dictionary: Dictionary) -> bool:
    """Whether somebody could be like that: columns say nothing about each other here, so each is looked at alone."""
    claims: defaultdict[str, list[_Claim]] = defaultdict(list)
    for claim in way:
        if isinstance(claim.leaf, Comparison | Membership | Presence):
            claims[claim.leaf.column].append(claim)
    return all(_can_have(dictionary.column(name), of_column) for name, of_column in claims.items())


def _can_have(column: Column, claims: Sequence[_Claim]) -> bool:
    if not any(claim.holds for claim in claims):
        # Somebody without a value in this column.
        return True
    if any(isinstance(claim.leaf, Presence) and not claim.holds for claim in claims):
        # A value is needed, and there must be none.
        return False
    if column.multi_valued:
        shut = set(itertools.chain.from_iterable(_literals(claims, holds=False)))
        return all(set(literals) - shut for literals in [column.values, *_literals(claims, holds=True)])
    candidates = column.values if column.type is ColumnType.CODE else _numbers(column, claims)
    tests = [(_test(claim.leaf), claim.holds) for claim in claims if not isinstance(claim.leaf, Presence)]
    return any(all(test(value) == holds for test, holds in tests) for value in candidates)


def _literals(claims: Iterable[_Claim], *, holds: bool) -> list[tuple[Literal, ...]]:
    return [claim.leaf.literals for claim in claims if isinstance(claim.leaf, Membership) and claim.holds == holds]


def _numbers(column: Column, claims: Iterable[_Claim]) -> set[int]:
    """The numbers or days to try for a person with a value in this column.

    What claims leave begins and ends only at the column's limits and beside a literal, so that no others need to be tried.
    """
    low, high = (column.minimum, column.maximum) if column.type is ColumnType.INTEGER else (1, _LAST_DAY)
    beside = {
        _number(literal) + step for claim in claims for literal in _all_literals(claim.leaf) for step in (-1, 0, 1)
    }
    return {value for value in beside if low <= value <= high} | {low, high}


def _all_literals(leaf: Condition) -> tuple[Literal, ...]:
    match leaf:
        case Comparison(_, _, literal):
            return (literal,)
        case Membership(_, literals):
            return literals
        case _:
            return ()


def _test(leaf: Condition) -> Callable[[Any], bool]:
    """What tells whether a value of somebody who has one makes the comparison true; days are numbers."""
    match leaf:
        case Comparison(_, order, literal):
            bound = _number(literal)
            return lambda value: _COMPARE[order](value, bound)
        case Membership(_, literals):
            return frozenset(
                literal if isinstance(literal, str) else _number(literal) for literal in literals
            ).__contains__
        case _:
            raise TypeError("not a comparison of one column")


def _number(literal: Literal) -> int:
    if isinstance(literal, str):
        raise TypeError("codes have no order")
    return literal.toordinal() if isinstance(literal, date) else literal


_COMPARE: Mapping[Order, Callable[[int, int], bool]] = {
    Order.LESS: operator.lt,
    Order.LESS_OR_EQUAL: operator.le,
    Order.GREATER: operator.gt,
    Order.GREATER_OR_EQUAL: operator.ge,
}
