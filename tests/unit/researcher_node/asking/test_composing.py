"""Several --count, a whole variable and --of all become one question, or a sentence that says why they cannot."""

from __future__ import annotations

import re

import pytest
from fakes.dictionaries import CENSUS_DICTIONARY

from broker_common.errors import InvalidRequestError
from broker_common.query.dictionary import Code, Column, ColumnType, Dictionary
from broker_common.query.question import parse_question
from broker_common.values import MOST_CELLS
from researcher_node.asking.composing import compose_question

FRENCH = "mother_tongue = 'French'"
ENGLISH = "mother_tongue = 'English'"
KNOWLEDGE = "knowledge_of_official_languages by 'English only', 'French only', 'English and French'"
OTHERS = "mother_tongue in ('Other', 'English and French')"


def variable(values: int, *, characters: int = 2) -> Dictionary:
    """A dictionary of one variable with so many values."""
    codes = tuple(Code(f"{number:0{characters}}", "a value") for number in range(values))
    return Dictionary((Column(name="tongue", type=ColumnType.CODE, description="tongue", codes=codes),))


@pytest.mark.parametrize(
    ("counts", "of_all", "text"),
    [
        (["all"], False, "all"),
        ([" ALL "], False, "all"),
        ([FRENCH], False, FRENCH),
        ([FRENCH], True, "mother_tongue by 'French', rest"),
        ([FRENCH, ENGLISH], False, "mother_tongue by 'French', 'English'"),
        ([ENGLISH, FRENCH], False, "mother_tongue by 'English', 'French'"),
        ([OTHERS, FRENCH], True, "mother_tongue by ('English and French', 'Other'), 'French', rest"),
        (["knowledge_of_official_languages"], False, f"{KNOWLEDGE}, 'Neither'"),
        ([" Francophone "], True, "francophone by 'Yes', 'No'"),
        # All others who were asked, and nobody else.
        (["francophone = 'Yes'"], True, "francophone by 'Yes', 'No'"),
        ([f"{KNOWLEDGE}"], True, f"{KNOWLEDGE}, 'Neither'"),
        (
            ["knowledge_of_official_languages by rest, 'Neither'"],
            False,
            "knowledge_of_official_languages by ('English and French', 'English only', 'French only'), 'Neither'",
        ),
        ([f"{KNOWLEDGE}, 'Neither', rest"], False, f"{KNOWLEDGE}, 'Neither'"),
        # Named, it is a cell like any other.
        (["francophone = 'not asked'"], False, "francophone = 'not asked'"),
        (["francophone", "francophone = 'not asked'"], True, "francophone by 'Yes', 'No', 'not asked'"),
        (["mother_tongue by 'French', 'English'"], True, "mother_tongue by 'French', 'English', rest"),
        (["mother_tongue by 'French', rest"], True, "mother_tongue by 'French', rest"),
        (["mother_tongue by rest, 'French'", ENGLISH], False, "mother_tongue by rest, 'French', 'English'"),
    ],
)
def test_counts_become_one_question(counts: list[str], of_all: bool, text: str) -> None:
    """Cells in the order in which they were asked for, the rest that is added last; its text reads back."""
    question = compose_question(counts, of_all, CENSUS_DICTIONARY)
    assert question.text == text
    assert parse_question(text, CENSUS_DICTIONARY) == question


@pytest.mark.parametrize(
    ("counts", "of_all", "sentence"),
    [
        ([], False, "--count names nothing to count."),
        ([], True, "--count names nothing to count."),
        (
            ["all"],
            True,
            "--of all adds the rest of everybody to other cells, and --count all counts everybody already.",
        ),
        (["all", FRENCH], False, "--count all counts everybody, and cannot stand beside another --count."),
        (["all", "all"], False, "--count all counts everybody, and cannot stand beside another --count."),
        ([FRENCH, FRENCH], False, "--count names 'French' in two cells, so that one person would be counted twice."),
        (
            ["mother_tongue", OTHERS],
            False,
            "--count names 'Other', 'English and French' in two cells, so that one person would be counted twice.",
        ),
        (
            ["mother_tongue by 'French', rest", "mother_tongue by 'English', rest"],
            False,
            "--count names the rest twice, so that one person would be counted twice.",
        ),
        (
            [FRENCH, "home_language = 'French'"],
            False,
            "--count names several variables (mother_tongue, home_language), and the cells of one question are values of one.",
        ),
    ],
)
def test_counts_that_do_not_go_together_are_refused(counts: list[str], of_all: bool, sentence: str) -> None:
    """With a sentence about what was typed, and one that says what to type instead."""
    with pytest.raises(InvalidRequestError) as caught:
        compose_question(counts, of_all, CENSUS_DICTIONARY)
    assert (caught.value.code, caught.value.text) == ("INVALID_VALUE", sentence)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("counts", "code"),
    [
        (["mother_tonge"], "UNKNOWN_VARIABLE"),
        (["mother_tonge = 'French'"], "UNKNOWN_VARIABLE"),
        (["mother_tongue = 'Frensh'", FRENCH], "UNKNOWN_VALUE"),
        ([FRENCH, ""], "QUESTION_SYNTAX"),
        (["count(*)"], "QUESTION_SYNTAX"),
    ],
)
def test_a_count_that_cannot_be_read_is_refused_as_it_would_be_alone(counts: list[str], code: str) -> None:
    """Also where others beside it can be read."""
    with pytest.raises(InvalidRequestError) as caught:
        compose_question(counts, False, CENSUS_DICTIONARY)
    assert caught.value.code == code


@pytest.mark.parametrize("values", [MOST_CELLS + 1, 100])
def test_a_variable_with_too_many_values_is_refused_with_groups_that_can_be_asked_for(values: int) -> None:
    """The proposed groups are a question of every value, each in one cell."""
    dictionary = variable(values)
    with pytest.raises(InvalidRequestError) as caught:
        compose_question(["tongue"], False, dictionary)
    assert caught.value.code == "INVALID_VALUE"
    proposed = re.search('"(.*)"', caught.value.hint)
    assert proposed is not None
    question = compose_question([proposed[1]], False, dictionary)
    assert sorted(value for cell in question.cells for value in cell.values) == sorted(dictionary.columns[0].values)


def test_groups_that_no_question_could_hold_are_not_proposed() -> None:
    """Fewer values and the rest are, instead."""
    with pytest.raises(InvalidRequestError) as caught:
        compose_question(["tongue"], False, variable(100, characters=100))
    assert "--of all" in caught.value.hint


def test_sixteen_values_are_a_table_and_leave_no_cell_for_the_rest() -> None:
    """The rest is a cell like any other."""
    dictionary = variable(MOST_CELLS)
    assert len(compose_question(["tongue"], False, dictionary).cells) == MOST_CELLS
    with pytest.raises(InvalidRequestError) as caught:
        compose_question(["tongue"], True, dictionary)
    assert (caught.value.code, caught.value.details["cells"]) == ("TOO_MANY_CELLS", str(MOST_CELLS + 1))


def test_a_question_that_no_log_could_hold_is_refused() -> None:
    """Values of a hundred characters fit the cells, and not the text."""
    dictionary = variable(50, characters=100)
    halves = [f"tongue in ({', '.join(repr(v) for v in half)})" for half in _halves(dictionary.columns[0].values)]
    with pytest.raises(InvalidRequestError) as caught:
        compose_question(halves, False, dictionary)
    assert caught.value.text.startswith("--count makes a question of more than")


def _halves(values: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return values[: len(values) // 2], values[len(values) // 2 :]
