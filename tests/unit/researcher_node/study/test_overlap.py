"""How many groups one person can be in: never too few, and one for groups of a single-valued column."""

from __future__ import annotations

import itertools
import random  # noqa: TID251 - seeded conditions, no secret
from dataclasses import replace

import pytest
from fakes.dictionaries import HEALTH_DICTIONARY, STAYS
from fakes.obvious_criteria import ObviousPerson, Value, meets

from broker_common.query.condition import Condition
from broker_common.query.criteria import parse_condition
from broker_common.query.normal_form import all_of, any_of, negate
from researcher_node.study.overlap import are_disjoint, most_in

SEED = 20_110_516
TRIES = 300


def read(text: str) -> Condition:
    """The condition of a text."""
    return parse_condition(text, HEALTH_DICTIONARY)


DISJOINT = [
    ("sex = 'male'", "sex = 'female'"),
    ("sex = 'male'", "sex <> 'male'"),
    ("age between 18 and 39", "age >= 40"),
    ("age < 18", "age > 17"),
    ("age in (1, 2)", "age >= 3"),
    ("age = 5 and sex = 'male'", "sex = 'female' or age = 6"),
    ("procedure = 'angioplasty'", "not (procedure = 'angioplasty')"),
    ("diagnosis = 'stroke' and age >= 65", "not (diagnosis = 'stroke' and age >= 65)"),
    ("procedure is null", "procedure = 'angioplasty'"),
    ("age is null", "age >= 3"),
    ("age is null", "age is not null"),
    ("last_admission_date < '2010-01-01'", "last_admission_date >= '2010-01-01'"),
]
OVERLAPPING = [
    ("procedure = 'angioplasty'", "procedure = 'colonoscopy'"),
    ("age between 18 and 40", "age >= 40"),
    ("sex = 'male'", "age >= 40"),
    ("age is not null", "age >= 3"),
    ("age is null", "sex = 'male'"),
    ("sex = 'male' or age = 3", "sex = 'female' or age = 3"),
    ("age in (1, 9)", "age >= 3"),
    ("census_division = 'Ottawa'", "census_division in ('Ottawa', 'Toronto')"),
]


@pytest.mark.parametrize(("one", "other"), DISJOINT)
def test_groups_that_nobody_is_in_together(one: str, other: str) -> None:
    """Values of a single-valued column that do not meet, and a condition beside its negation."""
    assert are_disjoint(read(one), read(other), HEALTH_DICTIONARY)
    assert are_disjoint(read(other), read(one), HEALTH_DICTIONARY)
    assert most_in([read(one), read(other)], HEALTH_DICTIONARY) == 1


@pytest.mark.parametrize(("one", "other"), OVERLAPPING)
def test_groups_that_somebody_may_be_in_together(one: str, other: str) -> None:
    """Values of a multi-valued column, and whatever cannot be compared."""
    assert not are_disjoint(read(one), read(other), HEALTH_DICTIONARY)
    assert most_in([read(one), read(other)], HEALTH_DICTIONARY) == 2


def test_a_cross_product_counts_its_overlapping_side_alone() -> None:
    """Three procedures by four bands of age: one person is in three groups at most."""
    procedures = [read(f"procedure = '{code}'") for code in ("angioplasty", "colonoscopy", "dialysis")]
    bands = [read(text) for text in ("age < 20", "age between 20 and 39", "age between 40 and 64", "age >= 65")]
    groups = [all_of(pair) for pair in itertools.product(procedures, bands)]
    assert most_in(groups, HEALTH_DICTIONARY) == 3
    assert most_in(groups[::-1], HEALTH_DICTIONARY) == 3


@pytest.mark.parametrize(
    ("one", "other", "disjoint"),
    [
        ("any(hospitalisation)", "not any(hospitalisation)", True),
        ("count(hospitalisation) = 0", "any(hospitalisation where days > 3)", True),
        ("count(prescription) between 1 and 2", "count(prescription) >= 3", True),
        ("diagnosis under 'I21'", "not (diagnosis under 'I21')", True),
        ("count(prescription) between 1 and 3", "count(prescription) >= 3", False),
        ("any(hospitalisation where days < 3)", "any(hospitalisation where days >= 3)", False),
        ("diagnosis under 'I21'", "diagnosis under 'J45'", False),
    ],
)
def test_groups_by_events_and_branches(one: str, other: str, *, disjoint: bool) -> None:
    """Groups by number exclude each other, by kind they do not: one person has many events, and many diagnoses."""
    left, right = parse_condition(one, STAYS), parse_condition(other, STAYS)
    assert are_disjoint(left, right, STAYS) == disjoint
    assert are_disjoint(right, left, STAYS) == disjoint


def test_people_of_one_home_are_in_a_group_each() -> None:
    """Where homes are linked, a home is in every group that somebody of it is in."""
    groups = [read("sex = 'male'"), read("sex = 'female'")]
    assert most_in(groups, HEALTH_DICTIONARY) == 1
    assert most_in(groups, replace(HEALTH_DICTIONARY, linkage="household")) == 2


def some_condition(chance: random.Random, depth: int) -> Condition:
    """A condition about few values, so that many of them meet."""
    if depth:
        parts = [some_condition(chance, depth - 1) for _ in range(chance.randint(1, 3))]
        together = chance.choice([all_of, any_of])(parts)
        return negate(together) if chance.random() < 1 / 3 else together
    return read(
        chance.choice(
            [
                f"sex = '{chance.choice(['male', 'female'])}'",
                f"age {chance.choice(['<', '<=', '>', '>=', '=', '<>'])} {chance.randint(0, 4)}",
                f"age in ({chance.randint(0, 4)}, {chance.randint(0, 4)})",
                f"{chance.choice(['age', 'procedure'])} is {chance.choice(['null', 'not null'])}",
                f"procedure {chance.choice(['=', '<>'])} '{chance.choice(['angioplasty', 'dialysis'])}'",
            ]
        )
    )


def test_never_fewer_than_somebody_is_in() -> None:
    """Against every person that a small world can hold; no value in a column included."""
    chance = random.Random(SEED)
    sexes: list[set[Value]] = [set(), {"male"}, {"female"}]
    ages: list[set[Value]] = [set(), {-1}, {0}, {1}, {2}, {3}, {4}, {5}]
    procedures: list[set[Value]] = [set(), {"angioplasty"}, {"dialysis"}, {"angioplasty", "dialysis"}]
    people = [
        ObviousPerson({"sex": sex, "age": age, "procedure": procedure})
        for sex, age, procedure in itertools.product(sexes, ages, procedures)
    ]
    found_one = 0
    for _ in range(TRIES):
        groups = [some_condition(chance, chance.randint(0, 2)) for _ in range(chance.randint(2, 6))]
        truth = max(sum(meets(group, person, HEALTH_DICTIONARY) for group in groups) for person in people)
        found = most_in(groups, HEALTH_DICTIONARY)
        assert truth <= found <= len(groups)
        found_one += found < len(groups)
    # The bound is worth something: it is below the number of groups often enough.
    assert found_one > TRIES / 5
