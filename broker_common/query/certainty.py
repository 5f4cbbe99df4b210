"""Criteria that match nobody, or everybody, by their text alone: whatever the data is.

    age >= 70 and age < 60                  nobody
    age > 200                               nobody, where the dictionary admits no such age
    sex = 'female' or not (sex = 'female')  everybody

Sound: what is found is so for every record that the dictionary admits. Not complete: criteria with too many ways of being true
are not looked through, and what the published columns imply about each other is not known here. `age >= 0` is not everybody:
somebody without an age does not match.

The condition is spread out into the ways in which it can be true, each a list of comparisons that hold or do not. It is
impossible if in each way one column would need a value that there cannot be, or events be had and not be had. It is true of
everybody if its negation is impossible.
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
from broker_common.query.dictionary import Column, ColumnType, Dictionary, EventTable
from broker_common.query.normal_form import all_of, literals_of, negate

# Ways of being true that are looked through, and comparisons and codes in all of them: far more than a person writes, and some
# hundredths of a second of work.
_MOST_WAYS = 1_000
_MOST_WORK = 500_000
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
    search = _Search(dictionary)
    if search.is_impossible(condition, dictionary):
        return Certainty.NOBODY
    if search.is_impossible(negate(condition), dictionary):
        return Certainty.EVERYBODY
    return None


class _Search:
    """Looks for what cannot be, and gives up without an answer when that has been much work."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._left = _MOST_WORK
        self._codes: dict[tuple[int, Membership | Under], frozenset[Literal]] = {}

    def is_impossible(self, condition: Condition, scope: Dictionary | EventTable) -> bool:
        """Whether no person, or no event of the table, can make the condition true."""
        if _count_ways(condition, True) > _MOST_WAYS:
            return False
        return not any(self._is_possible(way, scope) for way in _ways(condition, True))

    def _is_possible(self, way: _Way, scope: Dictionary | EventTable) -> bool:
        """Whether there could be one like that: columns say nothing about each other here, so each is looked at alone."""
        claims: defaultdict[str, list[_Claim]] = defaultdict(list)
        happened: list[tuple[Happened, bool]] = []
        for claim in way:
            if isinstance(claim.leaf, Happened):
                happened.append((claim.leaf, claim.holds))
            elif isinstance(claim.leaf, ColumnCondition):
                claims[claim.leaf.column].append(claim)
        self._left -= len(way)
        return self._left < 0 or (
            all(self._can_have(scope.column(name), of_column) for name, of_column in claims.items())
            and self._can_happen(happened)
        )

    def _can_happen(self, happened: Sequence[tuple[Happened, bool]]) -> bool:
        """Whether somebody can have had so many of some events, and not so many of others."""
        had = [each for each, holds in happened if holds]
        if any(each.where is not None and self.is_impossible(each.where, self._table(each)) for each in had):
            return False
        missed = [each for each, holds in happened if not holds]
        return not any(self._implies(each, other) for each, other in itertools.product(had, missed))

    def _implies(self, one: Happened, other: Happened) -> bool:
        """Whether everybody who has had the one has had the other, as far as is known here."""
        if one.events != other.events or one.at_least < other.at_least:
            return False
        if other.where is None or one.where == other.where:
            return True
        besides = negate(other.where) if one.where is None else all_of([one.where, negate(other.where)])
        return self.is_impossible(besides, self._table(one))

    def _table(self, happened: Happened) -> EventTable:
        return self._dictionary.event_table(happened.events)

    def _can_have(self, column: Column, claims: Sequence[_Claim]) -> bool:
        if not any(claim.holds for claim in claims):
            # Without a value in this column.
            return True
        if any(isinstance(claim.leaf, Presence) and not claim.holds for claim in claims):
            # A value is needed, and there must be none.
            return False
        if column.type is ColumnType.CODE:
            return self._can_have_codes(column, claims)
        tests = [(_test(claim.leaf), claim.holds) for claim in claims if not isinstance(claim.leaf, Presence)]
        return any(all(test(value) == holds for test, holds in tests) for value in _numbers(column, claims))

    def _can_have_codes(self, column: Column, claims: Sequence[_Claim]) -> bool:
        shut: set[Literal] = set()
        shut.update(*self._named(column, claims, holds=False))
        if len(shut) == len(column.codes):
            return False
        open_ = self._named(column, claims, holds=True)
        if not column.multi_valued and open_:
            open_ = [frozenset.intersection(*open_)]
        return all(codes - shut for codes in open_)

    def _named(self, column: Column, claims: Iterable[_Claim], *, holds: bool) -> list[frozenset[Literal]]:
        """The codes of each list that is claimed to hold, or not to."""
        found = []
        for claim in claims:
            if isinstance(claim.leaf, Membership | Under) and claim.holds == holds:
                # Two tables may have a column of one name.
                key = id(column), claim.leaf
                if key not in self._codes:
                    self._codes[key] = literals_of(claim.leaf, column)
                found.append(self._codes[key])
                self._left -= len(self._codes[key])
        return found


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


def _numbers(column: Column, claims: Iterable[_Claim]) -> set[int]:
    """The numbers or days to try for a person with a value in this column.

    The values that claims leave begin and end only at the column's limits and beside a literal, so no others need to be
    tried.
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
    """A test of whether a present value makes the comparison true; days are numbers."""
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
