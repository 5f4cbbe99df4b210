"""The census dictionary: which variables there are, whom they were asked of, and what combined values are for."""

from __future__ import annotations

from fractions import Fraction

import pytest
from fakes.dictionaries import CENSUS_DICTIONARY

from broker_common.values import MOST_CELLS


def test_variables_have_one_value_per_person() -> None:
    """None is multi-valued: a person is counted at most once in any set of values, and a table has a cell for each value."""
    for variable in CENSUS_DICTIONARY.columns:
        assert not variable.multi_valued
        assert len(variable.asked) <= MOST_CELLS


def test_the_mother_tongue_alone_is_about_everybody() -> None:
    """All others were asked of one household in five, or need answers that were, and have a value for everybody else."""
    tongue, *others = CENSUS_DICTIONARY.columns
    assert (tongue.name, tongue.asked_of) == ("mother_tongue", None)
    assert len(others) == 8
    for variable in others:
        assert variable.asked_of is not None
        assert (variable.not_asked, variable.asked_of.share) == ("not asked", Fraction(1, 5))
        assert variable.values[-1] == "not asked"


@pytest.mark.parametrize("name", ["mother_tongue", "home_language", "work_language"])
def test_french_and_not_english_is_a_set_of_values(name: str) -> None:
    """Each combination of languages is a value of its own."""
    values = CENSUS_DICTIONARY.column(name).asked
    named = [(value, {word for word in ("English", "French", "ther") if word in value}) for value in values]
    languages = [answer for _, answer in named if answer]
    assert len(languages) == 7 == len({frozenset(answer) for answer in languages})
    assert [value for value, answer in named if "French" in answer and "English" not in answer] == [
        "French",
        "French and other",
    ]
