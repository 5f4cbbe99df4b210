"""Changes between two dictionaries: for those who ask, and for data that was loaded under the older one.

Data must be loaded again exactly if a change says so: the hashes of the two then differ. Labels, descriptions, agency and version may
change without a load.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from broker_common.language import phrase
from broker_common.query.dictionary import Code, Column, Dictionary, EventTable, listed


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is otherwise than before."""

    kind: str
    """One of `EFFECTS`, for programs."""
    place: str
    """The column, the event table, or `table.column`; empty for the dictionary as a whole."""
    sentence: str
    """What changed, as a phrase."""

    @property
    def effect(self) -> str:
        """The effect on questions and on the data, as a phrase."""
        return phrase(EFFECTS[self.kind])

    @property
    def needs_load(self) -> bool:
        return self.kind not in _WORDS_ONLY


EFFECTS: Mapping[str, str] = {
    "column_added": "Questions may name it, once the data has been loaded with it.",
    "column_removed": "Questions that name it are refused. The load leaves it out.",
    "columns_moved": "Questions stay as they are.",
    "type_changed": "Questions that compare it as before are refused. The load refuses rows whose value is of the old type.",
    "values_changed": "Questions stay as they are. The load refuses rows with several values where one is allowed.",
    "limits_changed": "Questions stay as they are. The load refuses rows outside the limits.",
    "asked_of_changed": "Researchers multiply counts by another number, or none.",
    "codes_added": "Questions may name them, once the data has been loaded with them.",
    "codes_removed": "Questions that name them are refused. The load refuses rows that hold them.",
    "codes_moved": "Questions stay as they are.",
    "hierarchy_changed": "Questions with 'under' find other people than before.",
    "labels_changed": "Researchers read other words. Questions and data stay as they are.",
    "description_changed": "Researchers read other words. Questions and data stay as they are.",
    "events_added": "Questions may name it, once the data has been loaded with it.",
    "events_removed": "Questions that name it are refused. The load leaves it out.",
    "events_moved": "Questions stay as they are.",
    "id_form_changed": "The load refuses rows whose id is not of the new form. The other agency's ids must have it, too.",
    "linkage_changed": "A place of the roster stands for something else. Both agencies must declare the same.",
    "agency_changed": "Researchers read other words. Questions and data stay as they are.",
    "version_changed": "The number itself changes neither questions nor data.",
}
"""What each kind of change means for questions and for the data."""
_WORDS_ONLY = frozenset({"labels_changed", "description_changed", "agency_changed", "version_changed"})


def changes(old: Dictionary, new: Dictionary) -> Sequence[Change]:
    """The differences of `new`, in the order of its columns; nothing for equal dictionaries."""
    return [*_whole(old, new), *_columns("", old.columns, new.columns), *_events(old.events, new.events)]


def _whole(old: Dictionary, new: Dictionary) -> Iterator[Change]:
    if old.agency != new.agency:
        sentence = phrase("The agency is called '{new}', before '{old}'.", new=new.agency, old=old.agency)
        yield Change("agency_changed", "", sentence)
    if old.version != new.version:
        sentence = phrase("The version is {new}, before {old}.", new=new.version, old=old.version)
        yield Change("version_changed", "", sentence)
    if old.id_form != new.id_form:
        sentence = phrase("Ids have the form '{new}', before '{old}'.", new=new.id_form, old=old.id_form)
        yield Change("id_form_changed", "", sentence)
    if old.linkage != new.linkage:
        sentence = phrase("The linkage is '{new}', before '{old}'.", new=new.linkage, old=old.linkage)
        yield Change("linkage_changed", "", sentence)


def _columns(table: str, old: Sequence[Column], new: Sequence[Column]) -> Iterator[Change]:
    before = {column.name: column for column in old}
    after = {column.name: column for column in new}
    for name in before:
        if name not in after:
            place = _place(table, name)
            yield Change("column_removed", place, phrase("Column '{column}' is gone.", column=place))
    for name, column in after.items():
        place = _place(table, name)
        if name in before:
            yield from _column(place, before[name], column)
        else:
            yield Change("column_added", place, phrase("Column '{column}' is new.", column=place))
    if _moved(list(before), list(after)):
        yield Change("columns_moved", table, phrase("The columns are in another order."))


def _column(place: str, old: Column, new: Column) -> Iterator[Change]:
    if old.type is not new.type:
        sentence = phrase(
            "Column '{column}' holds {new}, before {old}.", column=place, new=new.type.value, old=old.type.value
        )
        yield Change("type_changed", place, sentence)
    if old.multi_valued != new.multi_valued:
        several = phrase("Column '{column}' may have several values of one person, before one.", column=place)
        one = phrase("Column '{column}' has one value of one person, before perhaps several.", column=place)
        yield Change("values_changed", place, several if new.multi_valued else one)
    if old.type is new.type and (old.minimum, old.maximum) != (new.minimum, new.maximum):
        sentence = phrase(
            "Column '{column}' goes from {least} to {most}, before from {old_least} to {old_most}.",
            column=place,
            least=str(new.minimum),
            most=str(new.maximum),
            old_least=str(old.minimum),
            old_most=str(old.maximum),
        )
        yield Change("limits_changed", place, sentence)
    if old.asked_of != new.asked_of:
        sentence = phrase("Column '{column}' was asked of another part of the households.", column=place)
        yield Change("asked_of_changed", place, sentence)
    if old.type is new.type:
        yield from _codes(place, old.codes, new.codes)
    if (old.description, old.description_fr) != (new.description, new.description_fr):
        yield Change("description_changed", place, phrase("Column '{column}' has another description.", column=place))


def _codes(place: str, old: Sequence[Code], new: Sequence[Code]) -> Iterator[Change]:
    before = {code.value: code for code in old}
    after = {code.value: code for code in new}
    kept = [(before[value], code) for value, code in after.items() if value in before]
    if removed := [value for value in before if value not in after]:
        sentence = phrase("Column '{column}' has lost {n:,} codes: {codes}.", **_named(place, removed))
        yield Change("codes_removed", place, sentence)
    if added := [value for value in after if value not in before]:
        sentence = phrase("Column '{column}' has {n:,} new codes: {codes}.", **_named(place, added))
        yield Change("codes_added", place, sentence)
    if moved := [code.value for was, code in kept if was.under != code.under]:
        sentence = phrase(
            "In column '{column}' {n:,} codes stand under others than before: {codes}.", **_named(place, moved)
        )
        yield Change("hierarchy_changed", place, sentence)
    if renamed := [code.value for was, code in kept if (was.label, was.label_fr) != (code.label, code.label_fr)]:
        sentence = phrase("In column '{column}' {n:,} codes have another label: {codes}.", **_named(place, renamed))
        yield Change("labels_changed", place, sentence)
    if _moved(list(before), list(after)):
        yield Change("codes_moved", place, phrase("The codes of column '{column}' are in another order.", column=place))


def _named(place: str, codes: Sequence[str]) -> dict[str, Any]:
    return {"column": place, "n": len(codes), "codes": listed(codes, quote=True)}


def _events(old: Sequence[EventTable], new: Sequence[EventTable]) -> Iterator[Change]:
    before = {table.name: table for table in old}
    after = {table.name: table for table in new}
    for name in before:
        if name not in after:
            yield Change("events_removed", name, phrase("The event table '{table}' is gone.", table=name))
    for name, table in after.items():
        was = before.get(name)
        if was is None:
            yield Change("events_added", name, phrase("The event table '{table}' is new.", table=name))
            continue
        yield from _columns(name, was.columns, table.columns)
        if (was.description, was.description_fr) != (table.description, table.description_fr):
            sentence = phrase("The event table '{table}' has another description.", table=name)
            yield Change("description_changed", name, sentence)
    if _moved(list(before), list(after)):
        yield Change("events_moved", "", phrase("The event tables are in another order."))


def _moved(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether what is in both stands in another order."""
    both = set(old) & set(new)
    return [each for each in old if each in both] != [each for each in new if each in both]


def _place(table: str, column: str) -> str:
    return f"{table}.{column}" if table else column
