"""Criteria that match nobody or everybody by their text are found, and nothing else is said to."""

from __future__ import annotations

import itertools
from datetime import date

import pytest
from fakes.dictionaries import HEALTH_DICTIONARY
from fakes.obvious_criteria import ObviousPerson, Value, meets
from hypothesis import given
from hypothesis import strategies as st

from broker_common.query.certainty import Certainty, certainty
from broker_common.query.condition import Condition, Order
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import Code, Column, ColumnType, Dictionary, EventTable
from broker_common.query.normal_form import all_of, any_of, compare, equal, happened, negate, present, under

# Every value that a person can have in each column, no value included: everybody who there can be.
N = Column(name="n", type=ColumnType.INTEGER, description="n", minimum=0, maximum=3)
SEX = Column(name="sex", type=ColumnType.CODE, description="sex", codes=(Code("f", "f"), Code("m", "m")))
DRUG = Column(
    name="drug",
    type=ColumnType.CODE,
    description="drug",
    multi_valued=True,
    codes=(Code("a", "a"), Code("b", "b", under=("a",))),
)
KIND = Column(
    name="kind", type=ColumnType.CODE, description="kind", codes=(Code("k", "k"), Code("l", "l", under=("k",)))
)
STAY = EventTable("stay", "stay", (KIND,))
SMALL = Dictionary((N, SEX, DRUG), (STAY,))
_SOME: dict[str, tuple[tuple[Value, ...], ...]] = {
    "n": ((), (0,), (1,), (2,), (3,)),
    "sex": ((), ("f",), ("m",)),
    "drug": ((), ("a",), ("b",), ("a", "b")),
}
# Up to three events of a kind are more than a condition here can tell apart.
_EVENTS: list[list[dict[str, Value | None]]] = [
    [{"kind": kind} for kind, times in zip((None, "k", "l"), each, strict=True) for _ in range(times)]
    for each in itertools.product(range(4), repeat=3)
]
WITHOUT_EVENTS = [ObviousPerson(dict(zip(_SOME, values, strict=True))) for values in itertools.product(*_SOME.values())]
WITH_EVENTS = [ObviousPerson({}, {"stay": events}) for events in _EVENTS]

presences = st.builds(present, st.sampled_from((N, SEX, DRUG)))
comparisons = st.builds(compare, st.just(N), st.sampled_from(Order), st.integers(-1, 4))
memberships = st.one_of(
    st.builds(equal, st.just(N), st.lists(st.integers(-1, 4), min_size=1, max_size=3)),
    st.builds(equal, st.just(SEX), st.lists(st.sampled_from("fm"), min_size=1)),
    st.builds(equal, st.just(DRUG), st.lists(st.sampled_from("ab"), min_size=1)),
    st.builds(under, st.just(DRUG), st.lists(st.sampled_from("ab"), min_size=1)),
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


kinds = st.recursive(
    st.just(present(KIND))
    | st.builds(equal, st.just(KIND), st.lists(st.sampled_from("kl"), min_size=1))
    | st.builds(under, st.just(KIND), st.lists(st.sampled_from("kl"), min_size=1)),
    lambda parts: st.one_of(
        st.lists(parts, min_size=2, max_size=3).map(all_of),
        st.lists(parts, min_size=2, max_size=3).map(any_of),
        parts.map(negate),
    ),
    max_leaves=3,
)
stays = st.builds(happened, st.just(STAY), st.none() | kinds, st.integers(1, 3))
conditions_on_events = st.recursive(
    stays,
    lambda parts: st.one_of(
        st.lists(parts, min_size=2, max_size=2).map(all_of),
        st.lists(parts, min_size=2, max_size=2).map(any_of),
        parts.map(negate),
    ),
    max_leaves=3,
)


def expected_of(condition: Condition, people: list[ObviousPerson]) -> Certainty | None:
    """Who matches of everybody who there can be."""
    matching = sum(meets(condition, person, SMALL) for person in people)
    return {0: Certainty.NOBODY, len(people): Certainty.EVERYBODY}.get(matching)


@given(conditions)
def test_what_is_said_is_so_for_everybody_who_there_can_be(condition: Condition) -> None:
    """And what is so of this small world is said: its conditions are short, and its columns are independent."""
    assert certainty(condition, SMALL) is expected_of(condition, WITHOUT_EVENTS)


@given(conditions_on_events)
def test_what_is_said_of_events_is_so_for_everybody_who_there_can_be(condition: Condition) -> None:
    """Not all that is so is said: two kinds of events together may be more than is admitted of either."""
    assert certainty(condition, SMALL) in (None, expected_of(condition, WITH_EVENTS))


@given(stays, stays)
def test_what_is_so_of_two_conditions_on_events_is_said(one: Condition, other: Condition) -> None:
    """The one without the other: nobody, where everyone who has had the one must have had the other."""
    condition = all_of([one, negate(other)])
    assert certainty(condition, SMALL) is expected_of(condition, WITH_EVENTS)


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
