"""Canonical bytes and text: fixed for ever, equal exactly for what is documented as equal."""

from __future__ import annotations

import pytest
from fakes.dictionaries import HEALTH_DICTIONARY

from broker_common.errors import InvalidRequestError
from broker_common.query.canonical import canonical_bytes
from broker_common.query.criteria import parse_condition
from broker_common.query.normal_form import MAX_LITERALS, equal, verify_size


def encoded(text: str) -> bytes:
    """The canonical bytes of a text."""
    return canonical_bytes(parse_condition(text, HEALTH_DICTIONARY))


def test_encoding_is_fixed() -> None:
    """Old commitments must open for ever: these bytes never change under this version."""
    text = "age >= 65 and not (sex = 'male' or last_admission_date < '2010-03-31') and age in (1, -1)"
    assert encoded(text) == (
        b"tripartite/criteria/v1\0&\0\0\0\x03"
        b"!|\0\0\0\x02=\0\0\0\x03sex\0\0\0\x01C\0\0\0\x04maled\0\0\0\x13last_admission_dateD2010-03-31"
        b"=\0\0\0\x03age\0\0\0\x02I\xff\xff\xff\xff\xff\xff\xff\xffI\0\0\0\0\0\0\0\x01"
        b"a\0\0\0\x03ageI\0\0\0\0\0\0\0\x41"
    )


def test_encoding_of_a_present_value_is_fixed() -> None:
    """A tag of its own, so that nothing that was encoded before it has other bytes."""
    assert encoded("sex is not null") == b"tripartite/criteria/v1\0v\0\0\0\x03sex"
    assert encoded("sex is null") == b"tripartite/criteria/v1\0!v\0\0\0\x03sex"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("age = 1 and sex = 'male'", "sex = 'male' and age = 1"),
        ("age = 1 or sex = 'male'", "sex = 'male' or age = 1 or age = 1"),
        ("age = 1 and (age > 0 and sex = 'male')", "(age = 1 and age > 0) and sex = 'male'"),
        ("age in (2, 1)", "age in (1, 2, 2)"),
        ("age in (1)", "age = 1"),
        ("not not age = 1", "age = 1"),
        ("age <> 1", "not age = 1"),
        ("age is null", "not age is not null"),
        ("sex like 'm%'", "sex = 'male'"),
        ("diagnosis not like 'type_%'", "diagnosis not in ('type_2_diabetes', 'type_1_diabetes')"),
        ("age not in (1, 2)", "not age in (2, 1)"),
        ("age between 1 and 2", "age <= 2 and age >= 1"),
        ("age > 1 and age between 1 and 2", "1 < age and (1 <= age) and 2 >= age"),
        ("last_admission_date = date '2010-03-31'", "LAST_ADMISSION_DATE = '2010-03-31'"),
    ],
)
def test_rephrased_criteria_are_equal(left: str, right: str) -> None:
    """Everything that is documented as normalised is normalised."""
    assert encoded(left) == encoded(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("age = 1", "age = 2"),
        ("age is null", "age is not null"),
        ("age is null", "sex is null"),
        ("sex is not null", "sex in ('male', 'female')"),
        ("age = 1", "birth_year = 1"),
        ("age < 1", "age <= 1"),
        ("age >= 1", "age > 1"),
        ("age = 1 and age = 2", "age = 1 or age = 2"),
        ("age in (1, 2)", "age not in (1, 2)"),
        ("not (age = 1 and age = 2)", "age <> 1 and age <> 2"),
        ("age = 1 or age = 2", "age in (1, 2)"),
        ("age > 64", "age >= 65"),
        ("not age < 65", "age >= 65"),
    ],
)
def test_other_criteria_are_different(left: str, right: str) -> None:
    """Different conditions, and equivalent ones that are not claimed to be recognised, have different bytes."""
    assert encoded(left) != encoded(right)


def test_literals_are_counted_in_the_finished_condition() -> None:
    """The limit on values holds for a condition however it was built."""
    condition = equal(HEALTH_DICTIONARY.column("age"), range(MAX_LITERALS + 1))
    with pytest.raises(InvalidRequestError) as caught:
        verify_size(condition)
    assert caught.value.code == "CRITERIA_TOO_LARGE"
