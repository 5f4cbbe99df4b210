"""Changes of a newer dictionary are said in sentences, with what they mean for questions and data."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker_common.language import language
from broker_common.query.dictionary import AskedOf, Code, Column, ColumnType, Dictionary, EventTable
from broker_common.query.dictionary_changes import EFFECTS, changes

AGE = Column(name="age", type=ColumnType.INTEGER, description="Age.", maximum=130)
BORN = Column(name="born", type=ColumnType.DATE, description="Born.")
CODES = (Code("I", "Heart"), Code("I21", "Infarction", under=("I",)), Code("J", "Lung"))
ILL = Column(name="ill", type=ColumnType.CODE, description="Diagnoses.", codes=CODES)
STAY = EventTable("stay", "Stays.", (BORN,))
OLD = Dictionary((AGE, ILL), (STAY,), "Agency", 1)
PART = AskedOf(not_asked="J", one_in=5, design_effect_hundredths=130)


def ill(**changed: object) -> Dictionary:
    """The old one with another column of diagnoses."""
    return replace(OLD, columns=(AGE, replace(ILL, **changed)))  # type: ignore[arg-type]


CASES: dict[str, tuple[Dictionary, str, str]] = {
    "agency_changed": (replace(OLD, agency="Ministry"), "", "The agency is called 'Ministry', before 'Agency'."),
    "version_changed": (replace(OLD, version=2), "", "The version is 2, before 1."),
    "id_form_changed": (replace(OLD, id_form="text"), "", "Ids have the form 'text', before 'ontario_health_card'."),
    "linkage_changed": (
        replace(OLD, linkage="household"),
        "",
        "The linkage is 'household', before 'complementary'.",
    ),
    "column_added": (replace(OLD, columns=(AGE, ILL, BORN)), "born", "Column 'born' is new."),
    "column_removed": (replace(OLD, columns=(ILL,)), "age", "Column 'age' is gone."),
    "columns_moved": (replace(OLD, columns=(ILL, AGE)), "", "The columns are in another order."),
    "type_changed": (
        replace(OLD, columns=(replace(BORN, name="age", description="Age."), ILL)),
        "age",
        "Column 'age' holds dates, before whole numbers.",
    ),
    "limits_changed": (
        replace(OLD, columns=(replace(AGE, minimum=1), ILL)),
        "age",
        "Column 'age' goes from 1 to 130, before from 0 to 130.",
    ),
    "values_changed": (
        ill(multi_valued=True),
        "ill",
        "Column 'ill' may have several values of one person, before one.",
    ),
    "asked_of_changed": (ill(asked_of=PART), "ill", "Column 'ill' was asked of another part of the households."),
    "description_changed": (ill(description_fr="Diagnostics."), "ill", "Column 'ill' has another description."),
    "codes_added": (ill(codes=(*CODES, Code("K", "Gut"))), "ill", "Column 'ill' has 1 new codes: 'K'."),
    "codes_removed": (ill(codes=CODES[:2]), "ill", "Column 'ill' has lost 1 codes: 'J'."),
    "codes_moved": (ill(codes=CODES[::-1]), "ill", "The codes of column 'ill' are in another order."),
    "hierarchy_changed": (
        ill(codes=(CODES[0], replace(CODES[1], under=("J",)), CODES[2])),
        "ill",
        "In column 'ill' 1 codes stand under others than before: 'I21'.",
    ),
    "labels_changed": (
        ill(codes=(replace(CODES[0], label_fr="Cœur"), *CODES[1:])),
        "ill",
        "In column 'ill' 1 codes have another label: 'I'.",
    ),
    "events_added": (
        replace(OLD, events=(STAY, replace(STAY, name="visit"))),
        "visit",
        "The event table 'visit' is new.",
    ),
    "events_removed": (replace(OLD, events=()), "stay", "The event table 'stay' is gone."),
}


@pytest.mark.parametrize("kind", CASES)
def test_each_change_is_said_by_itself(kind: str) -> None:
    """With its place, in both languages, and with what it means."""
    new, place, sentence = CASES[kind]
    (change,) = changes(OLD, new)
    assert (change.kind, change.place, str(change.sentence)) == (kind, place, sentence)
    assert change.needs_load == (OLD.hash != new.hash)
    french = language("fr")
    assert french(change.sentence) != sentence
    assert french(change.effect) == french.catalogue[EFFECTS[kind]]


def test_event_tables_that_change_places_are_said_to() -> None:
    """Their order is part of what stored events mean."""
    both = replace(OLD, events=(STAY, replace(STAY, name="visit")))
    (change,) = changes(both, replace(both, events=both.events[::-1]))
    assert (change.kind, change.needs_load) == ("events_moved", True)


def test_a_column_of_events_is_named_with_its_table() -> None:
    """A column of people may have the same name."""
    new = replace(OLD, events=(replace(STAY, columns=(replace(BORN, name="ended"),)),))
    assert [(each.kind, each.place) for each in changes(OLD, new)] == [
        ("column_removed", "stay.born"),
        ("column_added", "stay.ended"),
    ]


def test_equal_dictionaries_have_no_changes() -> None:
    """Not even to read."""
    assert changes(OLD, replace(OLD)) == []


def test_long_lists_are_cut() -> None:
    """A dozen codes stand for a thousand; the number is exact."""
    new = ill(codes=(*CODES, *(Code(f"K{n}", "Gut") for n in range(1234))))
    (change,) = changes(OLD, new)
    assert str(change.sentence).startswith("Column 'ill' has 1,234 new codes: 'K0', 'K1', ")
    assert str(change.sentence).endswith(", ....")
