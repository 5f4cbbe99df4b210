"""Language in --where and health in --count: the error says which option it belongs to, and what to type there."""

from __future__ import annotations

import pytest
from fakes.dictionaries import HEALTH_DICTIONARY, LANGUAGES

from broker_common.crypto.certificates import Role
from broker_common.errors import InvalidRequestError
from broker_common.query.criteria import parse_condition
from broker_common.query.question import parse_question
from researcher_node.asking.other_side import may_be_for_other, pointed

LANGUAGE = "'mother_tongue' is a language variable and belongs to --count. Type: "
AGE = "'age' is a health column and belongs to --where. Type: "


def error_of(role: Role, text: str) -> InvalidRequestError:
    """Error of a text in --where (health) or --count (census)."""
    parse, own, other = (
        (parse_condition, HEALTH_DICTIONARY, LANGUAGES)
        if role == "health"
        else (parse_question, LANGUAGES, HEALTH_DICTIONARY)
    )
    with pytest.raises(InvalidRequestError) as caught:
        parse(text, own)
    assert may_be_for_other(caught.value)
    return pointed(caught.value, role, text, own, other)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("mother_tongue = 'French'", LANGUAGE + "--count \"mother_tongue = 'French'\""),
        (
            "age >= 65 and Mother_Tongue in ('French', 'Other') AND sex = 'male'",
            LANGUAGE + "--where \"age >= 65 and sex = 'male'\" --count \"Mother_Tongue in ('French', 'Other')\"",
        ),
        # An example shows two questions, or one that cannot be taken out.
        ("mother_tongue = 'French' or age = 3", LANGUAGE + "--count \"mother_tongue = 'English'\""),
        ("mother_tongue = 'French' and mother_tongue = 'Other'", LANGUAGE + "--count \"mother_tongue = 'English'\""),
    ],
)
def test_language_in_where_is_sent_to_count(text: str, hint: str) -> None:
    """The code stays that of an unknown column; the rest of the condition is kept where it is."""
    error = error_of("health", text)
    assert (error.code, error.hint) == ("UNKNOWN_COLUMN", hint)


@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        ("age >= 65", "QUESTION_SYNTAX", AGE + '--where "age >= 65"'),
        (
            "mother_tongue = 'French' and age >= 65 and sex = 'male'",
            "QUESTION_SYNTAX",
            AGE + "--where \"age >= 65 and sex = 'male'\" --count \"mother_tongue = 'French'\"",
        ),
        ("age = 'French'", "UNKNOWN_VARIABLE", AGE + '--where "age >= 1"'),
        (
            "sex = 'male'",
            "UNKNOWN_VARIABLE",
            "'sex' is a health column and belongs to --where. Type: --where \"sex = 'male'\"",
        ),
        (
            "last_admission_date",
            "QUESTION_SYNTAX",
            "'last_admission_date' is a health column and belongs to --where. Type: --where \"last_admission_date >= '2010-01-01'\"",
        ),
    ],
)
def test_health_in_count_is_sent_to_where(text: str, code: str, hint: str) -> None:
    """The code stays what it was."""
    error = error_of("census", text)
    assert (error.code, error.hint) == (code, hint)


@pytest.mark.parametrize(
    ("role", "text"), [("health", "aeg >= 65"), ("health", "agee = 'mother_tongue'"), ("census", "'age' in sex_")]
)
def test_other_mistakes_are_left_as_they_are(role: Role, text: str) -> None:
    """A name in quotes is no name, and a misspelt one is of neither side."""
    error = error_of(role, text)
    assert not error.details.get("instead")
    assert "belongs to" not in error.hint


def test_error_that_says_what_to_type_is_not_looked_at_again() -> None:
    """No dictionary is fetched for it."""
    with pytest.raises(InvalidRequestError) as caught:
        parse_condition("age == 5", HEALTH_DICTIONARY)
    assert not may_be_for_other(caught.value)
    with pytest.raises(InvalidRequestError) as caught:
        parse_condition("age = 'mother_tongue'", HEALTH_DICTIONARY)
    assert not may_be_for_other(caught.value)
