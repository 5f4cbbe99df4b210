"""Usual mistakes: each is named, and what is said to type instead is a condition or a question that can be read."""

from __future__ import annotations

import pytest
from fakes.dictionaries import HEALTH_DICTIONARY, LANGUAGES
from fakes.processor_time import limited

from broker_common.errors import InvalidRequestError
from broker_common.language import language
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import Code, Column, ColumnType, Dictionary
from broker_common.query.question import parse_question
from broker_common.query.scanner import MAX_TEXT_CHARACTERS


def of_condition(text: str) -> InvalidRequestError:
    """The error of a condition."""
    with pytest.raises(InvalidRequestError) as caught:
        parse_condition(text, HEALTH_DICTIONARY)
    return caught.value


def of_question(text: str) -> InvalidRequestError:
    """The error of a question."""
    with pytest.raises(InvalidRequestError) as caught:
        parse_question(text, LANGUAGES)
    return caught.value


MALADIES = Dictionary(
    columns=(
        Column(
            name="tumour",
            type=ColumnType.CODE,
            description="Tumour on record.",
            codes=(Code("Kahler's", "Myeloma"), Code("Crohn's", "Ileitis"), Code("none", "None", under=("Kahler's",))),
        ),
    )
)


@pytest.mark.parametrize(
    ("text", "to_type"),
    [
        ("tumour = 'Kahler's'", "tumour = 'Kahler''s'"),
        ("tumour under 'Kahler's'", "tumour under 'Kahler''s'"),
        ("tumour = 'Kahler's' or tumour = 'Crohn's'", "tumour = 'Kahler''s' or tumour = 'Crohn''s'"),
        ("tumour in ('Kahler's', 'none')", "tumour in ('Kahler''s', 'none')"),
    ],
)
def test_a_quote_inside_a_code_is_doubled(text: str, to_type: str) -> None:
    """Whatever else of the text the quote seems to close or to open."""
    with pytest.raises(InvalidRequestError) as caught:
        parse_condition(text, MALADIES)
    assert caught.value.details["problem"] == "a quote inside a code is doubled, as in 'Kahler''s'"
    assert to_type in caught.value.hint
    parse_condition(to_type, MALADIES)


@pytest.mark.parametrize(
    ("text", "problem", "to_type"),
    [
        ("age == 65", "'==' is written '='", "age = 65"),
        ("age => 65", "'=>' is written '>='", "age >= 65"),
        ("age =< 65", "'=<' is written '<='", "age <= 65"),
        ("age ≥ 65", "'≥' is written '>='", "age >= 65"),
        ("age ≠ 65", "'≠' is written '<>'", "age <> 65"),
        ("age >= 65 && sex = 'male'", "'&&' is written 'and'", "age >= 65 and sex = 'male'"),
        ("age >= 65 || sex = 'male'", "'||' is written 'or'", "age >= 65 or sex = 'male'"),
        ("! (age = 5)", "'!' is written 'not'", "not (age = 5)"),
        ("age in [1, 2]", "'[' is written '('", "age in (1, 2)"),
        ('sex = "female"', "values need straight single quotes", "sex = 'female'"),
        ("sex = ’female’", "values need straight single quotes", "sex = 'female'"),  # noqa: RUF001
        ("sex = «female»", "values need straight single quotes", "sex = 'female'"),
        ('"age" >= 65', "names of columns take no quotes", "age >= 65"),
        ("'age' >= 65", "names of columns take no quotes", "age >= 65"),
        ("sex = female", "codes and values need single quotes", "sex = 'female'"),
        ("sex = Female and age = 5", "codes and values need single quotes", "sex = 'female' and age = 5"),
        ("sex in (male, female)", "codes and values need single quotes", "sex in ('male', 'female')"),
        (
            "census_division = prescott and russell and age = 5",
            "codes and values need single quotes",
            "census_division = 'Prescott and Russell' and age = 5",
        ),
        (
            "last_admission_date > 2011-12-31",
            "dates need single quotes, like '2011-12-31'",
            "last_admission_date > '2011-12-31'",
        ),
        ("last_admission_date > 2011-2-3", "dates need single quotes", "last_admission_date > '2011-02-03'"),
        ("age >= 65;", "it must not end with a semicolon", "age >= 65"),
        ("where age >= 65", "only the condition is typed", "age >= 65"),
        ("select count(*) from people where age >= 65;", "only the condition is typed", "age >= 65"),
        ("sex = null", "a missing value is found with 'is null'", "sex is null"),
        ("sex <> null", "any value at all is found with 'is not null'", "sex is not null"),
        ("sex not null", "any value at all is found with 'is not null'", "sex is not null"),
        ("sex is 'female'", "'is' stands before null only; equal is written =", "sex = 'female'"),
        ("sex is not female", "codes and values need single quotes", "sex <> 'female'"),
        ("sex not = 'female'", "'not =' is written '<>'", "sex <> 'female'"),
        ("diagnosis contains 'asthma'", "'contains' is written '='", "diagnosis = 'asthma'"),
        ("sex = ('male', 'female')", "several values need 'in' and parentheses", "sex in ('male', 'female')"),
        ("sex <> ('male', 'female')", "several values need 'in' and parentheses", "sex not in ('male', 'female')"),
        ("sex = 'male', 'female'", "several values need 'in' and parentheses", "sex in ('male', 'female')"),
        ("age in 1, 2", "several values need 'in' and parentheses", "age in (1, 2)"),
        ("sex = 'male' or 'female'", "the column is repeated in every comparison", "sex = 'male' or sex = 'female'"),
        ("age > 1 and 5 or 7", "the column is repeated in every comparison", "age > 1 and age > 5 or age > 7"),
        ("65 <= age <= 80", "a comparison has one sign", "65 <= age and age <= 80"),
        ("age >= 65 <= 80", "a comparison has one sign", "age >= 65 and age <= 80"),
        ("age between 65, 80", "the bounds of between are joined with 'and'", "age between 65 and 80"),
        ("age between (65 and 80)", "the bounds of between are joined with 'and'", "age between 65 and 80"),
        ("age between 80 and 65", "the first bound of between is above the second", "age between 65 and 80"),
        (
            "last_admission_date between '2011-01-01' and '2010-01-01'",
            "the first bound of between is above the second",
            "last_admission_date between '2010-01-01' and '2011-01-01'",
        ),
        ("age = 5 sex = 'male'", "'and' or 'or' stands between two comparisons", "age = 5 and sex = 'male'"),
        ("age = 5, sex = 'male'", "'and' or 'or' stands between two comparisons", "age = 5 and sex = 'male'"),
        ("(age = 5 or (age = 6", "a ( is not closed", "(age = 5 or (age = 6))"),
        ("age = 5) or age = 6", "a ) has no (", "age = 5 or age = 6"),
        ("sex ilike 'm%'", "'ilike' is written 'like'", "sex like 'm%'"),
        ("sex like '%'", "like takes the beginning of a code", "sex is not null"),
        ("sex like 'male'", "like takes the beginning of a code, with one % at its end", "sex = 'male'"),
        ('age >= 65 && sex = "female"', "'&&' is written 'and'", "age >= 65 and sex = 'female'"),
        ('age == 5 or census_division = "it\'s"', "'==' is written '='", None),
        ("COUNT(*)", "what is counted is said with --count", None),
        ("age = 3 - 2", "- may only stand before a whole number", None),
        ("age = 3-2", "there is no arithmetic", None),
    ],
)
def test_mistake_in_a_condition_is_named_with_what_to_type(text: str, problem: str, to_type: str | None) -> None:
    """The error stays one of syntax; where something can be suggested it is whole, and can be read."""
    error = of_condition(text)
    assert error.code == "CRITERIA_SYNTAX"
    assert problem in error.details["problem"]
    assert (error.hint == f"Type: {to_type}") == (to_type is not None)
    if to_type is None:
        assert error.hint.startswith("Write it like: ")
    else:
        parse_condition(to_type, HEALTH_DICTIONARY)


@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        ("sex = 'Female'", "UNKNOWN_CODE", "Type it letter for letter: 'female'"),
        ("diagnosis = 'Type 2 diabetes'", "UNKNOWN_CODE", "Type it letter for letter: 'type_2_diabetes'"),
        ("diagnosis = 'Parkinson''s disease'", "UNKNOWN_CODE", "Type it letter for letter: 'parkinson_disease'"),
        (
            "diagnosis like 'E11%'",
            "UNKNOWN_CODE",
            "No published code of 'diagnosis' begins with 'E11'. The nearest are ",
        ),
        ("diagnosis like '%diabetes'", "CRITERIA_SYNTAX", "diagnosis in ('type_1_diabetes', 'type_2_diabetes')"),
        ("age >= 65.5", "WRONG_TYPE", "Type a whole number: above 65.5 is >= 66, below it is <= 65."),
        ("age > -0.5", "WRONG_TYPE", "Type a whole number: above -0.5 is >= 0, below it is <= -1."),
        ("age = 65.0", "WRONG_TYPE", "Type it without decimals: 65"),
        ("age = '65'", "WRONG_TYPE", "Whole numbers stand without quotes. Type: 65"),
        ("sex = 1", "WRONG_TYPE", "Type one of its codes: 'female', 'male'"),
        ("last_admission_date = 2010", "WRONG_TYPE", "between '2010-01-01' and '2010-12-31'"),
        ("last_admission_date = 20100331", "WRONG_TYPE", "Type: '2010-03-31'"),
        ("last_admission_date = '2010/3/1'", "WRONG_TYPE", "Type: '2010-03-01'"),
        ("last_admission_date = '31.3.2010'", "WRONG_TYPE", "Type: '2010-03-31'"),
        ("last_admission_date = '3/31/2010'", "WRONG_TYPE", "Type: '2010-03-31'"),
        # Day and month may have changed places: nothing is guessed.
        ("last_admission_date = '3/4/2010'", "WRONG_TYPE", "Dates are written '2010-03-31', whole numbers without"),
        ("last_admission_date = '2011-02-30'", "WRONG_TYPE", "Dates are written '2010-03-31', whole numbers without"),
    ],
)
def test_wrong_value_is_answered_with_the_one_that_is_meant(text: str, code: str, hint: str) -> None:
    """Where it can be told from the value itself; the code stays what it was."""
    error = of_condition(text)
    assert error.code == code
    assert hint in error.hint


@pytest.mark.parametrize(
    ("text", "problem", "to_type"),
    [
        ("COUNT(*)", "everyone is counted with 'all'", "all"),
        ("*", "everyone is counted with 'all'", "all"),
        ("everybody", "everyone is counted with 'all'", "all"),
        ("select count(*) from people", "everyone is counted with 'all'", "all"),
        ("SELECT COUNT(*) FROM t WHERE mother_tongue = 'French'", "only what is counted", "mother_tongue = 'French'"),
        ("count(mother_tongue = 'French')", "only what is counted is typed", "mother_tongue = 'French'"),
        ("French", "a value needs the name of its variable", "mother_tongue = 'French'"),
        ("'Neither'", "a value needs the name of its variable", "first_official_language = 'Neither'"),
        ("mother_tongue = French", "codes and values need single quotes", "mother_tongue = 'French'"),
        ('mother_tongue == "French"', "'==' is written '='", "mother_tongue = 'French'"),
        ("mother_tongue = 'French';", "it must not end with a semicolon", "mother_tongue = 'French'"),
        (
            "mother_tongue <> 'French'",
            "a question names what is counted, not what is left out",
            "mother_tongue in ('English', 'English and French', 'Other')",
        ),
        (
            "not mother_tongue in ('French', 'Other')",
            "a question names what is counted, not what is left out",
            "mother_tongue in ('English', 'English and French')",
        ),
        (
            "mother_tongue = 'French' or mother_tongue = 'English'",
            "several values need 'in' and parentheses",
            "mother_tongue in ('French', 'English')",
        ),
        (
            "mother_tongue = 'French' or 'English'",
            "the column is repeated in every comparison",
            "mother_tongue in ('French', 'English')",
        ),
        (
            "mother_tongue = 'French', 'English'",
            "several values need 'in' and parentheses",
            "mother_tongue in ('French', 'English')",
        ),
        ("mother_tongue in 'French'", "several values need 'in' and parentheses", "mother_tongue in ('French')"),
        ("mother_tongue = 'French', rest", "cells are listed after 'by'", "mother_tongue by 'French', rest"),
        ("mother_tongue by French, rest", "codes and values need single quotes", "mother_tongue by 'French', rest"),
        ("mother_tongue like 'Fr%'", "'like' is for health codes, in --where", "mother_tongue in ('French')"),
        ("mother_tongue in ('French'", "a ( is not closed", "mother_tongue in ('French')"),
        ("mother_tongue = 'French' and sex = 'male'", "a question is of one language variable", None),
        ("mother_tongue in ('French' 'English')", "the list of values is not separated by commas", None),
    ],
)
def test_mistake_in_a_question_is_named_with_what_to_type(text: str, problem: str, to_type: str | None) -> None:
    """The same for what is counted."""
    error = of_question(text)
    assert error.code == "QUESTION_SYNTAX"
    assert problem in error.details["problem"]
    assert (error.hint == f"Type: {to_type}") == (to_type is not None)
    if to_type is not None:
        parse_question(to_type, LANGUAGES)


def test_value_in_another_spelling_is_answered_with_the_published_one() -> None:
    """The code stays that of an unknown value."""
    error = of_question("mother_tongue = 'french'")
    assert (error.code, error.hint) == ("UNKNOWN_VALUE", "Type it letter for letter: 'French'")


def test_value_where_a_variable_belongs_is_answered_with_both() -> None:
    """Somebody who types French means a variable that has it, and sees which one is suggested."""
    error = of_question("french = 'French'")
    assert (error.code, error.hint) == ("UNKNOWN_VARIABLE", "Type: mother_tongue = 'French'")


def test_help_is_said_in_french_with_what_is_typed_as_it_is() -> None:
    """Sentences are translated, codes and columns never; 'French' is a code here, and a word of the catalogue elsewhere."""
    text, hint = of_question("mother_tongue == French").said(language("fr"))
    assert text == "La question est illisible\u00a0: les codes et les valeurs s’écrivent entre apostrophes droites."  # noqa: RUF001
    assert hint == "Tapez\u00a0: mother_tongue = 'French'"


MANY = Dictionary(
    (
        Column(
            name="code",
            type=ColumnType.CODE,
            description="A long list.",
            codes=tuple(Code(f"C{number:05}", f"Label of {number}") for number in range(20_000)),
        ),
    )
)


@pytest.mark.parametrize(
    "text",
    [
        "code = a " * (MAX_TEXT_CHARACTERS // 9),
        "code = " + "a " * 900,
        "code = 'a' or 'b' " * 200,
        "select " * 500 + "where",
        "(" * 16 + "code == 'a' " * 300,
        "code in (" + "a , " * 900 + "b c",
        "1 , " * 900 + "1",
        "a not null " * 300,
        "code = C00001 C00002",
    ],
)
def test_help_with_a_text_full_of_mistakes_ends_soon(text: str) -> None:
    """At the limits of length, and with the longest dictionary that is admitted, in five seconds of processor time."""
    with limited(5.0):
        for parse, dictionary in ((parse_condition, MANY), (parse_question, MANY)):
            with pytest.raises(InvalidRequestError):
                parse(text, dictionary)


def test_suggestion_too_long_to_be_read_is_left_out() -> None:
    """A page of text is no help."""
    text = " and ".join(f"age == {age}" for age in range(60))
    error = of_condition(text)
    assert error.details["problem"] == "'==' is written '='"
    assert error.hint.startswith("Write it like: ")
