"""The dictionaries in a notebook: columns of people and of events, and the parents of their codes."""

from __future__ import annotations

from fakes.dictionaries import LANGUAGES

from broker_common.query.dictionary import Code, Column, ColumnType, Dictionary, EventTable
from researcher_node.client.results import Published

CAUSE = Column(
    name="cause",
    type=ColumnType.CODE,
    description="Cause.",
    codes=(Code("I", "Heart"), Code("I21", "Infarction", under=("I",))),
)
AGE = Column(name="age", type=ColumnType.INTEGER, description="Age.", maximum=130)
PUBLISHED = Published(Dictionary((AGE,), (EventTable("stay", "Stays.", (CAUSE,)),)), LANGUAGES, "2011")


def test_every_column_and_code_has_a_row() -> None:
    """A column of events has its table's name before its own."""
    age, heart, infarction, *languages = PUBLISHED.rows()
    assert (age["side"], age["column"], age["code"], age["under"]) == ("where", "age", "", "")
    assert (heart["side"], heart["column"], heart["code"], heart["under"]) == ("where", "stay.cause", "I", "")
    assert (infarction["code"], infarction["meaning"], infarction["under"]) == ("I21", "Infarction", "I")
    assert {row["side"] for row in languages} == {"count"}


def test_codes_are_found_by_the_name_of_their_column() -> None:
    """Codes of people, of events, of a variable; none of numbers."""
    assert PUBLISHED.codes("stay.cause") == {"I": "Heart", "I21": "Infarction"}
    assert PUBLISHED.codes("age") == {}
    assert PUBLISHED.codes("home_language")["French"] == "French spoken most often at home"
