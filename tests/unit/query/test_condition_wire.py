"""Condition messages from a stranger: every way of being wrong has its error, and limits hold while reading."""

from __future__ import annotations

import pytest
from fakes.dictionaries import HEALTH_DICTIONARY
from tripartite.v1 import condition_pb2

from broker_common.errors import InvalidRequestError
from broker_common.query.canonical import describe
from broker_common.query.condition_wire import condition_from_wire
from broker_common.query.criteria import parse_condition
from broker_common.query.normal_form import MAX_DEPTH, MAX_LITERALS, MAX_TERMS

Wire = condition_pb2.Condition


def number(value: int) -> condition_pb2.Literal:
    """A whole number on the wire."""
    return condition_pb2.Literal(integer=value)


def code(value: str) -> condition_pb2.Literal:
    """A code on the wire."""
    return condition_pb2.Literal(code=value)


def day(value: str) -> condition_pb2.Literal:
    """A date on the wire."""
    return condition_pb2.Literal(date=value)


def comparison(
    column: str, literal: condition_pb2.Literal, operator: str = "OPERATOR_EQUAL"
) -> condition_pb2.Condition:
    """Compares a column with a literal."""
    return Wire(
        comparison=condition_pb2.Comparison(
            column=column, operator=condition_pb2.Operator.Value(operator), literal=literal
        )
    )


def membership(column: str, *literals: condition_pb2.Literal) -> condition_pb2.Condition:
    """Looks for a column in a list."""
    return Wire(membership=condition_pb2.Membership(column=column, literals=literals))


def span(column: str, low: condition_pb2.Literal, high: condition_pb2.Literal) -> condition_pb2.Condition:
    """Looks for a column between two ends."""
    return Wire(range=condition_pb2.Range(column=column, low=low, high=high))


def presence(column: str) -> condition_pb2.Condition:
    """Asks for any value in a column."""
    return Wire(presence=condition_pb2.Presence(column=column))


def all_of(*parts: condition_pb2.Condition) -> condition_pb2.Condition:
    """A conjunction."""
    return Wire(all_of=condition_pb2.AllOf(parts=parts))


def any_of(*parts: condition_pb2.Condition) -> condition_pb2.Condition:
    """A disjunction."""
    return Wire(any_of=condition_pb2.AnyOf(parts=parts))


def refusal(message: condition_pb2.Condition) -> InvalidRequestError:
    """The error that reading `message` ends in."""
    with pytest.raises(InvalidRequestError) as caught:
        condition_from_wire(message, HEALTH_DICTIONARY)
    return caught.value


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (comparison("age", number(5)), "age = 5"),
        (comparison("age", number(5), "OPERATOR_NOT_EQUAL"), "age <> 5"),
        (comparison("age", number(5), "OPERATOR_LESS"), "age < 5"),
        (comparison("age", number(5), "OPERATOR_LESS_OR_EQUAL"), "age <= 5"),
        (comparison("age", number(5), "OPERATOR_GREATER"), "age > 5"),
        (comparison("age", number(5), "OPERATOR_GREATER_OR_EQUAL"), "age >= 5"),
        (comparison("last_admission_date", day("2010-03-31")), "last_admission_date = '2010-03-31'"),
        (membership("procedure", code("dialysis"), code("angioplasty")), "procedure in ('angioplasty', 'dialysis')"),
        (span("age", number(80), number(65)), "age >= 80 and age <= 65"),
        (presence("sex"), "sex is not null"),
        (Wire(negation=presence("last_admission_date")), "last_admission_date is null"),
        (Wire(negation=Wire(negation=comparison("age", number(5)))), "age = 5"),
        (
            all_of(comparison("age", number(5)), any_of(comparison("age", number(5)), comparison("age", number(5)))),
            "age = 5",
        ),
    ],
)
def test_message_means_what_its_text_means(message: condition_pb2.Condition, text: str) -> None:
    """Every kind of node is read, into the same normal form as text."""
    condition = condition_from_wire(message, HEALTH_DICTIONARY)
    assert describe(condition) == text
    assert condition == parse_condition(text, HEALTH_DICTIONARY)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (Wire(), "MALFORMED_MESSAGE"),
        (Wire(negation=Wire()), "MALFORMED_MESSAGE"),
        (Wire(comparison=condition_pb2.Comparison()), "UNKNOWN_COLUMN"),
        (comparison("Age", number(5)), "UNKNOWN_COLUMN"),
        (comparison('age" or 1=1 --', number(5)), "UNKNOWN_COLUMN"),
        (comparison("health_card", code("1234567897")), "UNKNOWN_COLUMN"),
        (Wire(presence=condition_pb2.Presence()), "UNKNOWN_COLUMN"),
        (presence("health_card"), "UNKNOWN_COLUMN"),
        (comparison("age", condition_pb2.Literal()), "MALFORMED_MESSAGE"),
        (comparison("age", number(5), "OPERATOR_UNSPECIFIED"), "MALFORMED_MESSAGE"),
        (comparison("sex", code("Male")), "UNKNOWN_CODE"),
        (comparison("sex", code("male\0")), "UNKNOWN_CODE"),
        (comparison("sex", number(0)), "WRONG_TYPE"),
        (comparison("age", code("5")), "WRONG_TYPE"),
        (comparison("age", day("2010-03-31")), "WRONG_TYPE"),
        (comparison("age", code("5"), "OPERATOR_LESS"), "WRONG_TYPE"),
        (comparison("last_admission_date", day("2010-3-31")), "WRONG_TYPE"),
        (comparison("last_admission_date", day("2010-02-30")), "WRONG_TYPE"),
        (comparison("last_admission_date", code("2010-03-31")), "WRONG_TYPE"),
        (comparison("sex", code("male"), "OPERATOR_LESS"), "WRONG_OPERATOR"),
        (span("sex", code("female"), code("male")), "WRONG_OPERATOR"),
        (span("age", number(1), condition_pb2.Literal()), "MALFORMED_MESSAGE"),
        (membership("age"), "MALFORMED_MESSAGE"),
        (membership("age", number(1), number(1)), "MALFORMED_MESSAGE"),
        (membership("age", number(1), code("1")), "WRONG_TYPE"),
        (all_of(), "MALFORMED_MESSAGE"),
        (all_of(comparison("age", number(5))), "MALFORMED_MESSAGE"),
        (any_of(comparison("age", number(5))), "MALFORMED_MESSAGE"),
        (any_of(comparison("age", number(5)), Wire()), "MALFORMED_MESSAGE"),
    ],
)
def test_wrong_message_is_refused(message: condition_pb2.Condition, expected: str) -> None:
    """Whatever a client skipped checking, the node checks."""
    assert refusal(message).code == expected


def test_unknown_field_in_a_condition_is_refused() -> None:
    """A condition that carries more than we understand is not obeyed."""
    message = all_of(comparison("age", number(5)), comparison("age", number(6)))
    message.all_of.parts[0].comparison.MergeFromString(b"\xf8\x7f\x01")
    assert refusal(message).code == "MALFORMED_MESSAGE"


def test_depth_is_limited_while_reading() -> None:
    """Nesting is refused at the limit, even where the normal form would be flat."""
    message = comparison("age", number(5), "OPERATOR_LESS")
    for _ in range(MAX_DEPTH):
        message = Wire(negation=message)
    assert describe(condition_from_wire(message, HEALTH_DICTIONARY)) == "age < 5"
    assert refusal(Wire(negation=message)).code == "CRITERIA_TOO_LARGE"


def test_depth_is_limited_in_the_normal_form_too() -> None:
    """Depth added by normalisation counts as well: <> is a negation."""
    message = comparison("age", number(0), "OPERATOR_NOT_EQUAL")
    for level in range(1, MAX_DEPTH + 1):
        combine = all_of if level % 2 else any_of
        message = combine(message, comparison("age", number(level)))
    assert refusal(message).code == "CRITERIA_TOO_LARGE"


@pytest.mark.parametrize("repeated", [True, False])
def test_number_of_comparisons_is_limited_while_reading(*, repeated: bool) -> None:
    """A million parts are not read to the end, whether or not they would melt into one."""
    parts = [comparison("age", number(0 if repeated else at)) for at in range(MAX_TERMS)]
    condition_from_wire(any_of(*parts), HEALTH_DICTIONARY)
    assert refusal(any_of(*parts, parts[0])).code == "CRITERIA_TOO_LARGE"
    assert refusal(any_of(*parts, presence("age"))).code == "CRITERIA_TOO_LARGE"


def test_number_of_literals_is_limited_while_reading() -> None:
    """All lists together hold a bounded number of values."""
    half = [number(at) for at in range(MAX_LITERALS // 2)]
    message = any_of(membership("age", *half), membership("hospital_visits", *half))
    condition_from_wire(message, HEALTH_DICTIONARY)
    message.any_of.parts.append(comparison("age", number(0)))
    assert refusal(message).code == "CRITERIA_TOO_LARGE"


def test_ranges_count_twice_in_the_normal_form() -> None:
    """A range is two comparisons: a tree of ranges cannot double the limit."""
    ranges = [span("age", number(at), number(at + 200)) for at in range(MAX_TERMS // 2 + 1)]
    assert refusal(any_of(*ranges)).code == "CRITERIA_TOO_LARGE"
