"""Rows of people under the made-up dictionaries, and other dictionaries: what a node's program may have after its data was loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from broker_common.query.dictionary import Code, Column, ColumnType, Dictionary, EventTable
from deploy.synthetic.dictionaries import CENSUS_DICTIONARY, HEALTH_DICTIONARY
from deploy.synthetic.population import CENSUS_COLUMNS, HEALTH_COLUMNS

__all__ = [
    "CENSUS_DICTIONARY",
    "CHANGES",
    "HEALTH_DICTIONARY",
    "LANGUAGES",
    "STAYS",
    "census_row",
    "health_row",
    "relabelled",
]


_PATIENT: Final = {
    "birth_year": "1950",
    "age": "61",
    "sex": "female",
    "census_division": "Ottawa",
    "diagnosis": "asthma;copd",
    "procedure": "angioplasty",
    "last_admission_date": "2010-12-31",
    "hospital_visits": "2",
    "emergency_visits": "1",
}


def health_row(card: str, **values: str) -> str:
    """A line of the health agency's file: one usual patient but for these values. A column that is not named here is empty."""
    return _line(HEALTH_COLUMNS, {"health_card": card} | _PATIENT | values)


def census_row(card: str, person: str, household: str, **values: str) -> str:
    """A line of the census agency's file; a variable that is not named has its first code."""
    first = {column.name: column.codes[0].value for column in CENSUS_DICTIONARY.columns}
    return _line(CENSUS_COLUMNS, first | {"health_card": card, "person_id": person, "household_id": household} | values)


def _line(columns: Sequence[str], values: Mapping[str, str]) -> str:
    quoted = {name: f'"{value}"' if "," in value else value for name, value in values.items()}
    if unknown := quoted.keys() - {*columns}:
        raise ValueError(f"no column {sorted(unknown)}")
    return ",".join(quoted.get(name, "") for name in columns)


def _each(change: Callable[[Column], Column]) -> Callable[[Dictionary], Dictionary]:
    """A change of every column with codes."""

    def changed(dictionary: Dictionary) -> Dictionary:
        columns = (change(column) if column.type is ColumnType.CODE else column for column in dictionary.columns)
        return Dictionary(tuple(columns))

    return changed


def _renamed(column: Column) -> Column:
    first, *others = column.codes
    return replace(column, codes=(Code(f"{first.value} again", first.label), *others))


# The meaning of a number in the data changes: wholly, for the first code, for those behind a new one, for one that is new.
CHANGES: Final[dict[str, Callable[[Dictionary], Dictionary]]] = {
    "reordered": _each(lambda column: replace(column, codes=column.codes[::-1])),
    "renamed": _each(_renamed),
    "put_in_front": _each(lambda column: replace(column, codes=(Code("new", "New"), *column.codes))),
    "added_behind": _each(lambda column: replace(column, codes=(*column.codes, Code("new", "New")))),
}


def relabelled(dictionary: Dictionary) -> Dictionary:
    """Nothing changes but what people read."""

    def changed(column: Column) -> Column:
        codes = tuple(Code(code.value, f"{code.label}!") for code in column.codes)
        return replace(column, codes=codes, description="Mended.")

    return Dictionary(tuple(map(changed, dictionary.columns)))


def _variable(name: str, description: str, *codes: tuple[str, str]) -> Column:
    return Column(
        name=name, type=ColumnType.CODE, description=description, codes=tuple(map(Code, *zip(*codes, strict=True)))
    )


LANGUAGES: Final = Dictionary(
    (
        _variable(
            "mother_tongue",
            "Language first learned at home.",
            ("English", "English"),
            ("French", "French"),
            ("English and French", "English and French equally"),
            ("Other", "A non-official language"),
        ),
        _variable(
            "first_official_language",
            "First official language spoken.",
            ("English", "English"),
            ("French", "French"),
            ("English and French", "English and French equally"),
            ("Neither", "Neither English nor French"),
        ),
        _variable(
            "home_language",
            "Language spoken most often at home.",
            ("English", "English spoken most often at home"),
            ("French", "French spoken most often at home"),
            ("Other", "A non-official language spoken most often at home"),
        ),
    )
)
"""Few language variables with few values, for tests that name all of them."""


_HEART: Final = (
    Code("I20-I25", "Ischaemic heart diseases"),
    Code("I20", "Angina pectoris", under=("I20-I25",)),
    Code("I21", "Acute myocardial infarction", under=("I20-I25",)),
    Code("I21.0", "Of the anterior wall", under=("I21",)),
    # Two ways up.
    Code("I25.5", "Ischaemic cardiomyopathy", under=("I20-I25", "I42")),
    Code("I42", "Cardiomyopathy"),
    Code("J45", "Asthma"),
)
# Hierarchies and events, and a column of one name in people, and in both tables.
STAYS: Final = Dictionary(
    (
        Column(name="age", type=ColumnType.INTEGER, description="Age.", maximum=130),
        Column(name="sex", type=ColumnType.CODE, description="Sex.", codes=(Code("female", "F"), Code("male", "M"))),
        Column(name="diagnosis", type=ColumnType.CODE, description="Ever had.", multi_valued=True, codes=_HEART),
        Column(name="day", type=ColumnType.DATE, description="Of birth."),
    ),
    (
        EventTable(
            "hospitalisation",
            "Stays in hospital.",
            (
                Column(name="cause", type=ColumnType.CODE, description="Main cause.", codes=_HEART),
                Column(name="admitted", type=ColumnType.DATE, description="Day of admission."),
                Column(name="days", type=ColumnType.INTEGER, description="Length of stay.", maximum=1_000),
                Column(name="day", type=ColumnType.DATE, description="Day of discharge."),
            ),
        ),
        EventTable(
            "prescription",
            "Drugs that were dispensed.",
            (
                Column(
                    name="drug",
                    type=ColumnType.CODE,
                    description="By class.",
                    codes=(Code("C07", "Beta blockers"), Code("C10", "Statins")),
                ),
                Column(name="day", type=ColumnType.DATE, description="Day."),
            ),
        ),
    ),
)
