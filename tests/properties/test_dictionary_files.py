"""Dictionary files: any dictionary that can be published is written and read back, and a change is told exactly if there is one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_common.query.dictionary import AskedOf, Code, Column, ColumnType, Dictionary, EventTable
from broker_common.query.dictionary_changes import changes
from broker_common.query.dictionary_document import dictionary_document, parse_dictionary_document
from broker_common.storage.dictionary.file import dictionary_toml, parse_dictionary

# Everything printable: quotes, backslashes, letters of other scripts.
PRINTABLE = st.characters(exclude_categories=["C", "Z"]).filter(str.isprintable)
WORDS = st.text(PRINTABLE | st.just(" "), min_size=1, max_size=12)
FRENCH = st.text(PRINTABLE | st.sampled_from([" ", "\u00a0"]), max_size=12)
VALUES = st.text(PRINTABLE.filter(lambda each: each != ";"), min_size=1, max_size=4)
NAMES = st.from_regex(r"c[a-z0-9_]{0,5}", fullmatch=True).filter(lambda name: name != "count")


@st.composite
def code_lists(draw: st.DrawFn) -> tuple[Code, ...]:
    """Codes of which some stand under earlier ones."""
    values = draw(st.lists(VALUES, min_size=1, max_size=6, unique=True))
    return tuple(
        Code(
            value,
            draw(WORDS),
            draw(FRENCH),
            tuple(sorted(draw(st.sets(st.sampled_from(values[:place]))))) if place else (),
        )
        for place, value in enumerate(values)
    )


@st.composite
def columns(draw: st.DrawFn, name: str, *, of_events: bool = False) -> Column:
    """A column of any type."""
    kind = draw(st.sampled_from(ColumnType))
    codes = draw(code_lists()) if kind is ColumnType.CODE else ()
    least, most = (
        sorted(draw(st.tuples(*[st.integers(-(2**31) + 1, 2**31 - 1)] * 2))) if kind is ColumnType.INTEGER else (0, 0)
    )
    several = kind is ColumnType.CODE and not of_events and draw(st.booleans())
    asked_of = None
    if len(codes) > 1 and not several and not of_events and draw(st.booleans()):
        asked_of = AskedOf(
            not_asked=codes[0].value,
            one_in=draw(st.integers(2, 1000)),
            design_effect_hundredths=draw(st.integers(100, 10_000)),
        )
    return Column(
        name=name,
        type=kind,
        description=draw(WORDS),
        description_fr=draw(FRENCH),
        multi_valued=several,
        codes=codes,
        minimum=least,
        maximum=most,
        asked_of=asked_of,
    )


def several_columns(draw: st.DrawFn, *, of_events: bool) -> tuple[Column, ...]:
    """Columns of different names."""
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    return tuple(draw(columns(name, of_events=of_events)) for name in names)


@st.composite
def dictionaries(draw: st.DrawFn) -> Dictionary:
    """Any dictionary, small."""
    tables = draw(st.lists(NAMES.map("e".__add__), max_size=2, unique=True))
    return Dictionary(
        several_columns(draw, of_events=False),
        tuple(EventTable(name, draw(WORDS), several_columns(draw, of_events=True), draw(FRENCH)) for name in tables),
        draw(WORDS | st.just("")),
        draw(st.integers(1, 2**31 - 1)),
        draw(st.sampled_from(["ontario_health_card", "text"])),
        draw(st.sampled_from(["complementary", "household", "nominative"])),
    )


@settings(max_examples=40)
@given(dictionaries())
def test_what_is_written_is_read_back(dictionary: Dictionary) -> None:
    """Every column, code, label, hierarchy and number, in the same order."""
    read = parse_dictionary(dictionary_toml(dictionary), Path("dictionary.toml"))
    assert read == dictionary
    assert [column.values for column in read.columns] == [column.values for column in dictionary.columns]


@settings(max_examples=40)
@given(dictionaries())
def test_what_is_published_is_read_back(dictionary: Dictionary) -> None:
    """On the wire, and of its meaning what counts."""
    assert parse_dictionary_document(dictionary_document(dictionary)) == dictionary
    assert Dictionary.parse_meaning(dictionary.meaning).hash == dictionary.hash


@settings(max_examples=40)
@given(dictionaries(), dictionaries(), st.data())
def test_a_load_is_needed_exactly_if_the_hashes_differ(old: Dictionary, other: Dictionary, data: st.DataObject) -> None:
    """Between dictionaries that have nothing in common, and between those that share most."""
    for new in (other, nearly(old, other, data)):
        found = changes(old, new)
        assert bool(found) == (old != new)
        assert any(change.needs_load for change in found) == (old.hash != new.hash)


def nearly(old: Dictionary, other: Dictionary, data: st.DataObject) -> Dictionary:
    """The old one with a part of the other."""
    column = data.draw(st.sampled_from(other.columns))
    kept = [each for each in old.columns if each.name != column.name]
    with_codes = [each for each in old.columns if each.codes and each.asked_of is None]
    again = [replace(each, codes=each.codes[::-1], description="New") for each in with_codes[:1]]
    return data.draw(
        st.sampled_from(
            [
                old,
                replace(old, columns=old.columns[::-1]),
                replace(old, columns=(*kept, column)),
                replace(old, columns=(*(each for each in old.columns if each not in with_codes[:1]), *again)),
                replace(old, events=other.events),
                replace(old, events=old.events[::-1]),
                replace(old, version=old.version + 1),
                replace(old, id_form=other.id_form, linkage=other.linkage, agency=other.agency),
            ]
        )
    )


def test_a_document_has_one_spelling() -> None:
    """A blank more, or a default written out, is no document: its bytes are what is signed."""
    column = Column(name="age", type=ColumnType.INTEGER, description="Age.", maximum=130)
    document = dictionary_document(Dictionary((column,)))
    for other in (document + b" ", document.replace(b'"format":1', b'"events":[],"format":1')):
        assert other != document
        with pytest.raises(ValueError, match="canonical"):
            parse_dictionary_document(other)
