"""Answers about people who were asked: which questions are, and what is said of the others."""

from __future__ import annotations

import pytest
from fakes.dictionaries import CENSUS_DICTIONARY

from broker_common.query.question import parse_question
from researcher_node.answers.counted import part_of
from researcher_node.asking.composing import compose_question

AT_HOME = CENSUS_DICTIONARY.column("home_language").asked_of


@pytest.mark.parametrize(
    ("counts", "of_all"),
    [
        (["home_language = 'French'"], False),
        (["home_language = 'French'"], True),
        (["home_language"], True),
        (["home_language by 'French', rest"], False),
    ],
)
def test_a_question_about_people_who_were_asked_says_so(counts: list[str], of_all: bool) -> None:
    """Its weight and design effect are those of the dictionary."""
    assert AT_HOME is not None
    assert part_of(compose_question(counts, of_all, CENSUS_DICTIONARY), CENSUS_DICTIONARY) == AT_HOME


@pytest.mark.parametrize(
    "text",
    [
        "all",
        "mother_tongue by 'French', rest",
        "home_language = 'not asked'",
        "home_language by 'French', 'not asked'",
        # As it stands in a ticket: this rest is of everybody.
        "home_language by 'French', rest",
    ],
)
def test_a_question_that_counts_anybody_else_does_not(text: str) -> None:
    """Nobody multiplies a count by five that holds people who stand for themselves."""
    assert part_of(parse_question(text, CENSUS_DICTIONARY), CENSUS_DICTIONARY) is None
