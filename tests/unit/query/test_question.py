"""Questions: four shapes of text, one message and one canonical text each."""

from __future__ import annotations

import pytest
from fakes.dictionaries import CENSUS_DICTIONARY
from hypothesis import given
from hypothesis import strategies as st
from tripartite.v1 import ticket_pb2

from broker_common.errors import InvalidRequestError
from broker_common.query.question import (
    EVERYONE,
    REST,
    Cell,
    Question,
    parse_question,
    question_from_wire,
    read_question,
    spelled_question,
)
from broker_common.values import MOST_CELLS


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
        ("mother_tongue by ('French')", "mother_tongue = 'French'"),
        ("mother_tongue by ('French', 'English')", "mother_tongue in ('English', 'French')"),
        ("Mother_Tongue BY 'French',REST", "mother_tongue by 'French', rest"),
        ("mother_tongue by rest, ('French')", "mother_tongue by rest, 'French'"),
        ("mother_tongue by 'Other', 'French', 'English'", "mother_tongue by 'Other', 'French', 'English'"),
        (
            "mother_tongue by ('French','English and French'), 'English',rest",
            "mother_tongue by ('English and French', 'French'), 'English', rest",
        ),
    ],
)
def test_question_has_one_text_and_one_message(text: str, canonical: str) -> None:
    """Whatever way it is written, text and message are the same, and read back to the same question."""
    question = parse_question(text, CENSUS_DICTIONARY)
    assert question.text == canonical
    assert parse_question(canonical, CENSUS_DICTIONARY) == read_question(canonical) == question
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
        ("mother_tongue by", "QUESTION_SYNTAX"),
        ("mother_tongue by rest", "QUESTION_SYNTAX"),
        ("mother_tongue by rest, rest", "QUESTION_SYNTAX"),
        ("mother_tongue by all", "QUESTION_SYNTAX"),
        ("mother_tongue by 'French' rest", "QUESTION_SYNTAX"),
        ("mother_tongue by 'French',", "QUESTION_SYNTAX"),
        ("mother_tongue by , 'French'", "QUESTION_SYNTAX"),
        ("mother_tongue by 'French', ()", "QUESTION_SYNTAX"),
        ("mother_tongue by 'French', (rest)", "QUESTION_SYNTAX"),
        ("mother_tongue by ('French'", "QUESTION_SYNTAX"),
        ("mother_tongue by (('French'), 'English')", "QUESTION_SYNTAX"),
        ("mother_tongue by 'French' = 'English'", "QUESTION_SYNTAX"),
        ("mother_tongue by 'French', 'French'", "QUESTION_SYNTAX"),
        ("mother_tongue by 'French', ('English', 'French')", "QUESTION_SYNTAX"),
        ("mother_tongue by " + ", ".join(f"'{number}'" for number in range(17)), "TOO_MANY_CELLS"),
        ("mother_tongue by 'French', rest and home_language = 'French'", "QUESTION_SYNTAX"),
        ("mother_tonge by 'French', rest", "UNKNOWN_VARIABLE"),
        ("mother_tongue by 'French', 'french', rest", "UNKNOWN_VALUE"),
        ("mother_tonge = 'French'", "UNKNOWN_VARIABLE"),
        ("age = 'French'", "UNKNOWN_VARIABLE"),
        ("mother_tongue = 'french'", "UNKNOWN_VALUE"),
        ("mother_tongue = 'French only'", "UNKNOWN_VALUE"),
        ("mother_tongue in ('French', '')", "UNKNOWN_VALUE"),
    ],
)
def test_other_text_is_refused(text: str, code: str) -> None:
    """Anything else than the four shapes, and any name that is not published, is refused with its reason."""
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
    assert "'English', 'French', 'Other', 'English and French'" in caught.value.hint


def asking(variable: str, *cells: tuple[str, ...]) -> ticket_pb2.Question:
    """A question with these cells, as they stand."""
    return ticket_pb2.Question(variable=variable, cells=[ticket_pb2.Cell(values=values) for values in cells])


def language_set(variable: str, *values: str) -> ticket_pb2.Question:
    """A question of one cell with these values."""
    return asking(variable, values)


def with_unknown_field() -> ticket_pb2.Question:
    """A question that carries more than we understand."""
    message = language_set("mother_tongue", "French")
    message.cells[0].MergeFromString(b"\xf8\x7f\x01")
    return message


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (ticket_pb2.Question(), "MALFORMED_MESSAGE"),
        (language_set("mother_tongue"), "MALFORMED_MESSAGE"),
        (language_set("mother_tongue", "French", "English"), "MALFORMED_MESSAGE"),
        (language_set("mother_tongue", "French", "French"), "MALFORMED_MESSAGE"),
        (with_unknown_field(), "MALFORMED_MESSAGE"),
        (language_set("", "French"), "MALFORMED_MESSAGE"),
        (ticket_pb2.Question(variable="mother_tongue"), "MALFORMED_MESSAGE"),
        (asking("mother_tongue", ("French",), ("French",)), "MALFORMED_MESSAGE"),
        (asking("mother_tongue", ("English", "French"), ("French",)), "MALFORMED_MESSAGE"),
        (asking("mother_tongue", ("French",), (), ()), "MALFORMED_MESSAGE"),
        (asking("", (), ()), "MALFORMED_MESSAGE"),
        (asking("", ("French",), ()), "MALFORMED_MESSAGE"),
        (asking("mother_tongue", *((f"{number:02}",) for number in range(17))), "MALFORMED_MESSAGE"),
        (asking("mother_tongue", ("French" * 700,)), "MALFORMED_MESSAGE"),
        (asking("mother_tongue", ("French",), ("Frenchh",)), "UNKNOWN_VALUE"),
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
    """The denominator is a question of its own, the rest of no other cell."""
    assert question_from_wire(EVERYONE.to_wire(), CENSUS_DICTIONARY) == EVERYONE


@pytest.mark.parametrize(
    ("variable", "cells"),
    [
        (None, (("French",),)),
        ("mother_tongue", ((),)),
        ("mother_tongue", ()),
        (None, ()),
        ("mother_tongue", (("b", "a"),)),
        ("mother_tongue", (("a", "a"),)),
        ("mother_tongue", (("a",), ("a", "b"))),
        ("mother_tongue", (("a",), (), ())),
        ("mother_tongue", tuple((f"{number}",) for number in range(17))),
        ("mother_tongue", (("a" * 4000,),)),
    ],
)
def test_contradictory_question_cannot_be_made(variable: str | None, cells: tuple[tuple[str, ...], ...]) -> None:
    """A question is everyone, or a variable with cells of ascending values, no value in two and one rest at most."""
    with pytest.raises(ValueError, match=r"question|cell"):
        Question(variable, tuple(map(Cell, cells)))


@given(
    values=st.lists(st.text("ab'é, ", min_size=1, max_size=4), min_size=1, max_size=20, unique=True),
    places=st.lists(st.integers(0, 14), min_size=20, max_size=20),
    rest=st.none() | st.integers(0, 15),
)
def test_every_question_has_one_text_and_one_message_of_its_own(
    values: list[str], places: list[int], rest: int | None
) -> None:
    """Both are read back to the same question, cells in their order; another order of cells is another question."""
    found: dict[int, set[str]] = {}
    for value, place in zip(values, places, strict=False):
        found.setdefault(place, set()).add(value)
    cells = [Cell(tuple(sorted(each))) for each in found.values()]
    if rest is not None:
        cells.insert(rest, REST)
    question, turned = (Question("mother_tongue", tuple(order)) for order in (cells, cells[::-1]))
    assert read_question(question.text) == question
    assert spelled_question(ticket_pb2.Question.FromString(question.to_wire().SerializeToString())) == question
    assert (question.text == turned.text) == (question == turned) == (len(cells) == 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ALL",
        "all ",
        "mother_tongue='French'",
        "mother_tongue in ('French')",
        "mother_tongue in ('b', 'a')",
        "mother_tongue by 'French'",
        "mother_tongue by ('French'), rest",
        "mother_tongue by 'French',rest",
        "Mother_tongue = 'French'",
        "mother_tongue by rest",
        "nobody",
    ],
)
def test_a_log_has_one_spelling_of_a_question(text: str) -> None:
    """Two spellings of one question would be two questions when a ticket is compared with its charge."""
    with pytest.raises(ValueError, match=r"question|read|empty"):
        read_question(text)


def test_more_cells_than_an_answer_has_are_refused_plainly() -> None:
    """The error says how many are asked for and how many there may be; its hint says what to do."""
    most = ", ".join(f"'{number}'" for number in range(MOST_CELLS))
    assert len(read_question(f"mother_tongue by {most}").cells) == MOST_CELLS
    with pytest.raises(InvalidRequestError) as caught:
        parse_question(f"mother_tongue by {most}, rest", CENSUS_DICTIONARY)
    assert (caught.value.code, caught.value.details) == ("TOO_MANY_CELLS", {"cells": "17", "served": "16"})


def test_cells_have_names_for_people() -> None:
    """Headings of a table's rows."""
    assert [cell.label for cell in (Cell(("French",)), Cell(("English", "French")), REST)] == [
        "French",
        "English, French",
        "rest",
    ]
