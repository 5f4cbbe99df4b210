"""The census dictionary: the four language variables, in agreement with the synthetic source."""

from __future__ import annotations

import pytest

from census_node.registry.dictionary import CENSUS_DICTIONARY
from deploy.synthetic import codes


@pytest.mark.parametrize(
    ("variable", "published"),
    [
        ("mother_tongue", codes.MOTHER_TONGUES),
        ("first_official_language", codes.FIRST_OFFICIAL_LANGUAGES),
        ("knowledge_of_official_languages", codes.KNOWLEDGE_OF_OFFICIAL_LANGUAGES),
        ("home_language", codes.HOME_LANGUAGES),
    ],
)
def test_values_cover_the_synthetic_source(variable: str, published: codes.Codes) -> None:
    """Each list is the generator's, in its order and with its labels."""
    assert tuple((code.value, code.label) for code in CENSUS_DICTIONARY.column(variable).codes) == published


def test_variables_have_one_value_per_person() -> None:
    """Four variables, none multi-valued: a person is counted at most once in any set of values."""
    assert len(CENSUS_DICTIONARY.columns) == 4
    assert not any(variable.multi_valued for variable in CENSUS_DICTIONARY.columns)
