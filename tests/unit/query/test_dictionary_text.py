"""Dictionaries as people and programs read them: everything that is published, and nothing else."""

from __future__ import annotations

import json

import pytest
from fakes.dictionaries import CENSUS_DICTIONARY, HEALTH_DICTIONARY

from broker_common.query.dictionary import (
    AskedOf,
    Code,
    Column,
    ColumnType,
    Dictionary,
    dictionary_json,
    dictionary_text,
)

SMALL = Dictionary(
    (
        Column(name="age", type=ColumnType.INTEGER, description="Age in years.", minimum=0, maximum=130),
        Column(name="birth", type=ColumnType.DATE, description="Day of birth."),
        Column(name="sex", type=ColumnType.CODE, description="Sex.", codes=(Code("F", "female"), Code("M", "male"))),
        Column(
            name="procedure",
            type=ColumnType.CODE,
            description="Procedures.",
            codes=(Code("x", "An x."),),
            multi_valued=True,
        ),
        Column(
            name="work",
            type=ColumnType.CODE,
            description="Work.",
            codes=(Code("yes", "Works"), Code("not asked", "Not asked")),
            asked_of=AskedOf(not_asked="not asked", one_in=4, design_effect_hundredths=250),
        ),
    )
)


def test_a_program_reads_every_column_with_its_limits() -> None:
    """Whole numbers alone have limits; codes keep their published order."""
    assert dictionary_json(SMALL) == {
        "columns": [
            {
                "name": "age",
                "type": "integer",
                "multi_valued": False,
                "description": "Age in years.",
                "codes": [],
                "minimum": 0,
                "maximum": 130,
            },
            {"name": "birth", "type": "date", "multi_valued": False, "description": "Day of birth.", "codes": []},
            {
                "name": "sex",
                "type": "code",
                "multi_valued": False,
                "description": "Sex.",
                "codes": [{"value": "F", "label": "female"}, {"value": "M", "label": "male"}],
            },
            {
                "name": "procedure",
                "type": "code",
                "multi_valued": True,
                "description": "Procedures.",
                "codes": [{"value": "x", "label": "An x."}],
            },
            {
                "name": "work",
                "type": "code",
                "multi_valued": False,
                "description": "Work.",
                "codes": [{"value": "yes", "label": "Works"}, {"value": "not asked", "label": "Not asked"}],
                "asked_of": {"not_asked": "not asked", "share": 0.25, "weight": 4, "design_effect": 2.5},
            },
        ]
    }


def test_a_person_reads_the_same_columns() -> None:
    """One block per column: how to name it, what it holds, its codes as they are typed."""
    age, birth, sex, procedure, work = dictionary_text(SMALL).split("\n\n")
    assert age == f"age  ({ColumnType.INTEGER.value})\n    Age in years."
    assert birth == f"birth  ({ColumnType.DATE.value})\n    Day of birth."
    assert sex == f"sex  ({ColumnType.CODE.value})\n    Sex.\n      'F'  female\n      'M'  male"
    assert procedure.splitlines()[0] == f"procedure  ({ColumnType.CODE.value}, one person may have several)"
    assert work.splitlines() == [
        f"work  ({ColumnType.CODE.value}, asked of one household in 4)",
        "    Work.",
        "      'yes'  Works",
        "      'not asked'  Not asked",
        "    A count times 4 is one of everybody; design effect 2.5.",
    ]


@pytest.mark.parametrize("dictionary", [HEALTH_DICTIONARY, CENSUS_DICTIONARY])
def test_what_is_published_stands_in_both(dictionary: Dictionary) -> None:
    """Every column and code of the real dictionaries; the text is printable and the JSON is JSON."""
    text, tree = dictionary_text(dictionary), dictionary_json(dictionary)
    assert all(line.isprintable() for line in text.splitlines())
    assert json.loads(json.dumps(tree)) == tree
    assert [column["name"] for column in tree["columns"]] == list(dictionary.names)
    for column, block in zip(dictionary.columns, text.split("\n\n"), strict=True):
        assert block.startswith(f"{column.name}  (")
        assert all(f"'{code.value}'  {code.label}" in block for code in column.codes)
