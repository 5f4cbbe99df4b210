"""The health dictionary: what researchers may use, and its agreement with the synthetic source."""

from __future__ import annotations

import pytest
from fakes.dictionaries import HEALTH_DICTIONARY

from broker_common.storage.source.plan import LINKED_ID
from deploy.synthetic import codes
from deploy.synthetic.population import HEALTH_COLUMNS


@pytest.mark.parametrize(
    ("column", "published"),
    [
        ("sex", codes.SEXES),
        ("census_division", codes.CENSUS_DIVISIONS),
        ("diagnosis", codes.DIAGNOSES),
        ("procedure", codes.PROCEDURES),
    ],
)
def test_codes_cover_the_synthetic_source(column: str, published: codes.Codes) -> None:
    """Each list is the generator's, in its order and with its labels."""
    assert tuple((code.value, code.label) for code in HEALTH_DICTIONARY.column(column).codes) == published


def test_columns_are_those_of_the_source_without_the_card() -> None:
    """Everything in the source can be asked for, except who somebody is."""
    assert {LINKED_ID, *HEALTH_DICTIONARY.names} == set(HEALTH_COLUMNS)
    assert HEALTH_DICTIONARY.find(LINKED_ID) is None


def test_only_diagnoses_and_procedures_have_several_values() -> None:
    """Multi-valued columns are the two that people have many of."""
    assert [column.name for column in HEALTH_DICTIONARY.columns if column.multi_valued] == ["diagnosis", "procedure"]
