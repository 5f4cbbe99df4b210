"""Questions: three shapes of text, one message and one canonical text each."""

from __future__ import annotations

import pytest
from tripartite.v1 import ticket_pb2

from broker_common.errors import InvalidRequestError
from broker_common.query.question import EVERYONE, Question, parse_question, question_from_wire
from census_node.dictionary import CENSUS_DICTIONARY


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("all", "all"),
        (" ALL ", "all"),
        ("mother_tongue = 'French'", "mother_tongue = 'French'"),
        ("Mother_Tongue='French'", "mother_tongue = 'French'"),
        ("mother_tongue in ('French')", "mother_tongue = 'French'"),
        ("mother_tongue in ('French', 'French')", "mother_tongue = 'French'"),
        ("mother_tongue in ('French','English and French')", "mother_tongue in ('English and French', 'French')"),
    ],
)
def test_question_has_one_text_and_one_message(text: str, canonical: str) -> None:
    """Whatever way it is written, text and message are the same, and read back to the same question."""
    question = parse_question(text, CENSUS_DICTIONARY)
    assert question.text == canonical
    assert parse_question(canonical, CENSUS_DICTIONARY) == question
    message = ticket_pb2.Question.FromString(question.to_wire().SerializeToString())
    assert question_from_wire(message, CENSUS_DICTIONARY) == question


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "QUESTION_SYNTAX"),
        ("everyone", "QUESTION_SYNTAX"),
        ("*", "QUESTION_SYNTAX"),
        ("all all", "QUESTION_SYNTAX"),
        ("(all)", "QUESTION_SYNTAX"),
        ("not all", "QUESTION_SYNTAX"),
        ("mother_tongue", "QUESTION_SYNTAX"),
        ("mother_tongue = French", "QUESTION_SYNTAX"),
        ("mother_tongue = 1", "QUESTION_SYNTAX"),
        ("mother_tongue <> 'French'", "QUESTION_SYNTAX"),
        ("mother_tongue not in ('French')", "QUESTION_SYNTAX"),
        ("mother_tongue like 'F%'", "QUESTION_SYNTAX"),
        ("mother_tongue in ()", "QUESTION_SYNTAX"),
        ("mother_tongue in ('French',)", "QUESTION_SYNTAX"),
        ("mother_tongue in ('French' 'English')", "QUESTION_SYNTAX"),
        ("mother_tongue in ('French' = 'English')", "QUESTION_SYNTAX"),
        ("mother_tongue in (French)", "QUESTION_SYNTAX"),
        ("mother_tongue in (('French'))", "QUESTION_SYNTAX"),
        ("mother_tongue = 'French' and home_language = 'French'", "QUESTION_SYNTAX"),
        ("mother_tongue = 'French' or 1 = 1", "QUESTION_SYNTAX"),
        ("mother_tongue = 'French'; drop table ledger", "QUESTION_SYNTAX"),
        ("mother_tongue = 'French' -- all", "QUESTION_SYNTAX"),
        ("mother_tongue = 'French", "QUESTION_SYNTAX"),
        ("count(mother_tongue) = 'French'", "QUESTION_SYNTAX"),
        ("(" * 500, "QUESTION_SYNTAX"),
        ("x" * 5000, "QUESTION_SYNTAX"),
        ("mother_tonge = 'French'", "UNKNOWN_VARIABLE"),
        ("age = 'French'", "UNKNOWN_VARIABLE"),
        ("mother_tongue = 'french'", "UNKNOWN_VALUE"),
        ("mother_tongue = 'French only'", "UNKNOWN_VALUE"),
        ("mother_tongue in ('French', '')", "UNKNOWN_VALUE"),
    ],
)
def test_other_text_is_refused(text: str, code: str) -> None:
    """Anything else than the three shapes, and any name that is not published, is refused with its reason."""
    with pytest.raises(InvalidRequestError) as caught:
        parse_question(text, CENSUS_DICTIONARY)
    assert caught.value.code == code


def test_unknown_names_come_with_the_nearest() -> None:
    """Misspelt variables and values are answered with those that exist."""
    with pytest.raises(InvalidRequestError) as caught:
        parse_question("mother_tonge = 'French'", CENSUS_DICTIONARY)
    assert "Did you mean: mother_tongue" in caught.value.hint
    with pytest.raises(InvalidRequestError) as caught:
        parse_question("mother_tongue = 'Frensh'", CENSUS_DICTIONARY)
    assert "Did you mean: 'French'" in caught.value.hint
    assert "'English', 'French', 'English and French', 'Other'" in caught.value.hint


def language_set(variable: str, *values: str) -> ticket_pb2.Question:
    """A question about these values, as they stand."""
    return ticket_pb2.Question(language_set=ticket_pb2.LanguageSet(variable=variable, values=values))


def with_unknown_field() -> ticket_pb2.Question:
    """A question that carries more than we understand."""
    message = language_set("mother_tongue", "French")
    message.language_set.MergeFromString(b"\xf8\x7f\x01")
    return message


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (ticket_pb2.Question(), "MALFORMED_MESSAGE"),
        (language_set("mother_tongue"), "MALFORMED_MESSAGE"),
        (language_set("mother_tongue", "French", "English"), "MALFORMED_MESSAGE"),
        (language_set("mother_tongue", "French", "French"), "MALFORMED_MESSAGE"),
        (with_unknown_field(), "MALFORMED_MESSAGE"),
        (language_set("", "French"), "UNKNOWN_VARIABLE"),
        (language_set("Mother_tongue", "French"), "UNKNOWN_VARIABLE"),
        (language_set("age", "1"), "UNKNOWN_VARIABLE"),
        (language_set("mother_tongue", "French", "Frenchh"), "UNKNOWN_VALUE"),
    ],
)
def test_other_message_is_refused(message: ticket_pb2.Question, code: str) -> None:
    """A stranger's question has one encoding and published names only."""
    with pytest.raises(InvalidRequestError) as caught:
        question_from_wire(message, CENSUS_DICTIONARY)
    assert caught.value.code == code


def test_everyone_survives_the_wire() -> None:
    """The denominator is a question of its own, not an empty set."""
    assert question_from_wire(EVERYONE.to_wire(), CENSUS_DICTIONARY) == EVERYONE


@pytest.mark.parametrize(
    ("variable", "values"), [(None, ("French",)), ("mother_tongue", ()), ("mother_tongue", ("b", "a"))]
)
def test_contradictory_question_cannot_be_made(variable: str | None, values: tuple[str, ...]) -> None:
    """A question is everyone, or a variable with ascending values."""
    with pytest.raises(ValueError, match="question"):
        Question(variable, values)
