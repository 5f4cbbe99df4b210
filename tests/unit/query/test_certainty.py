"""Criteria that match nobody or everybody by their text are found, and nothing else is said to."""

from __future__ import annotations

import itertools
from datetime import date
from typing import Any

import pytest
from fakes.dictionaries import HEALTH_DICTIONARY
from hypothesis import given
from hypothesis import strategies as st

from broker_common.query.certainty import Certainty, certainty
from broker_common.query.condition import AllOf, AnyOf, Comparison, Condition, Membership, Negation, Order, Presence
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import Code, Column, ColumnType, Dictionary
from broker_common.query.normal_form import all_of, any_of, compare, equal, negate, present

# Of each column everything that a person can have, no value included: everybody who there can be.
N = Column(name="n", type=ColumnType.INTEGER, description="n", minimum=0, maximum=3)
SEX = Column(name="sex", type=ColumnType.CODE, description="sex", codes=(Code("f", "f"), Code("m", "m")))
DRUG = Column(
    name="drug", type=ColumnType.CODE, description="drug", multi_valued=True, codes=(Code("a", "a"), Code("b", "b"))
)
SMALL = Dictionary((N, SEX, DRUG))
Person = tuple[int | None, str | None, frozenset[str]]
EVERYBODY: list[Person] = list(
    itertools.product((None, *range(4)), (None, "f", "m"), map(frozenset, ((), ("a",), ("b",), ("a", "b"))))
)

presences = st.builds(present, st.sampled_from((N, SEX, DRUG)))
comparisons = st.builds(compare, st.just(N), st.sampled_from(Order), st.integers(-1, 4))
memberships = st.one_of(
    st.builds(equal, st.just(N), st.lists(st.integers(-1, 4), min_size=1, max_size=3)),
    st.builds(equal, st.just(SEX), st.lists(st.sampled_from("fm"), min_size=1)),
    st.builds(equal, st.just(DRUG), st.lists(st.sampled_from("ab"), min_size=1)),
)
conditions = st.recursive(
    comparisons | memberships | presences,
    lambda parts: st.one_of(
        st.lists(parts, min_size=1, max_size=3).map(all_of),
        st.lists(parts, min_size=1, max_size=3).map(any_of),
        parts.map(negate),
    ),
    max_leaves=8,
)


def matches(condition: Condition, person: Person) -> bool:
    """Whether the person matches, by the words of `condition`."""
    n, _, drugs = person
    values: dict[str, set[Any]] = {"n": {n}, "sex": {person[1]}, "drug": set(drugs)}
    match condition:
        case AllOf(parts):
            return all(matches(part, person) for part in parts)
        case AnyOf(parts):
            return any(matches(part, person) for part in parts)
        case Negation(part):
            return not matches(part, person)
        case Presence(column):
            return bool(values[column] - {None})
        case Membership(column, literals):
            return bool(values[column] & set(literals))
        case Comparison(_, order, int(bound)):
            return n is not None and {"<": n < bound, "<=": n <= bound, ">": n > bound, ">=": n >= bound}[order.value]
        case _:
            raise AssertionError(condition)


@given(conditions)
def test_what_is_said_is_so_for_everybody_who_there_can_be(condition: Condition) -> None:
    """And what is so of this small world is said: its conditions are short, and its columns are independent."""
    matching = sum(matches(condition, person) for person in EVERYBODY)
    expected = {0: Certainty.NOBODY, len(EVERYBODY): Certainty.EVERYBODY}.get(matching)
    assert certainty(condition, SMALL) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("age >= 70 and age < 60", Certainty.NOBODY),
        ("age is null and age >= 65", Certainty.NOBODY),
        ("procedure is null and procedure is not null", Certainty.NOBODY),
        ("age is null or age <= 130", Certainty.EVERYBODY),
        ("age > 130", Certainty.NOBODY),
        ("sex = 'female' and sex = 'male'", Certainty.NOBODY),
        ("procedure = 'angioplasty' and procedure <> 'angioplasty'", Certainty.NOBODY),
        ("(age > 60 and age < 50) or (age > 60 and age in (1, 2))", Certainty.NOBODY),
        ("last_admission_date > '2011-03-31' and not last_admission_date >= '2011-04-01'", Certainty.NOBODY),
        ("age >= 65 or not age >= 65", Certainty.EVERYBODY),
        ("not (age >= 70 and age < 60)", Certainty.EVERYBODY),
        (
            "procedure <> 'angioplasty' or procedure <> 'hip_replacement' or age < 200 or not age < 150",
            Certainty.EVERYBODY,
        ),
        # Somebody without an age.
        ("age >= 0", None),
        ("age >= 65 or age < 65", None),
        # One person may have had both.
        ("procedure = 'angioplasty' and procedure = 'hip_replacement'", None),
        ("procedure = 'angioplasty'", None),
        ("age > 64 and age < 66", None),
    ],
)
def test_criteria_of_the_published_columns(text: str, expected: Certainty | None) -> None:
    """As a researcher writes them."""
    assert certainty(parse_condition(text, HEALTH_DICTIONARY), HEALTH_DICTIONARY) is expected


def test_a_day_is_between_its_neighbours() -> None:
    """Days are looked at one by one, and not only those that are named."""
    column = Column(name="day", type=ColumnType.DATE, description="day")
    dictionary = Dictionary((column,))
    first, last = compare(column, Order.GREATER, date(2011, 1, 1)), compare(column, Order.LESS, date(2011, 1, 3))
    assert certainty(all_of([first, last]), dictionary) is None
    assert certainty(all_of([first, last, negate(equal(column, [date(2011, 1, 2)]))]), dictionary) is Certainty.NOBODY


def test_criteria_with_too_many_ways_of_being_true_are_left_alone() -> None:
    """Impossible all the same: nothing is said rather than looked for at length."""
    either = [any_of([equal(N, [0]), compare(N, Order.GREATER, number)]) for number in range(-60, 0)]
    assert certainty(all_of([*either, compare(N, Order.LESS, 0)]), SMALL) is None
