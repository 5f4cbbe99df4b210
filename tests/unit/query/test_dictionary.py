"""Dictionaries: what may be published, how it travels, and how names are suggested."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from fractions import Fraction

import pytest
from fakes.dictionaries import CENSUS_DICTIONARY, CHANGES, HEALTH_DICTIONARY, relabelled

from broker_common.errors import InvalidRequestError
from broker_common.query.canonical import describe
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import (
    AskedOf,
    Code,
    Column,
    ColumnType,
    Dictionary,
    EventTable,
    listed,
    nearest,
    shown,
)
from broker_common.query.dictionary_document import dictionary_document, parse_dictionary_document
from broker_common.query.question import parse_question, read_question


def column(name: str = "age", **changed: object) -> Column:
    """An integer column, with changes."""
    settings: dict[str, object] = {"type": ColumnType.INTEGER, "description": "Age.", "maximum": 130, **changed}
    return Column(name=name, **settings)  # type: ignore[arg-type]


YES_OR_NOT_ASKED = (Code("yes", "Yes"), Code("not asked", "Not asked"))


def asked_of(**changed: object) -> AskedOf:
    """One household in five was asked, with changes."""
    settings: dict[str, object] = {"not_asked": "not asked", "one_in": 5, "design_effect_hundredths": 280, **changed}
    return AskedOf(**settings)  # type: ignore[arg-type]


def asked_column(codes: tuple[Code, ...] = YES_OR_NOT_ASKED, **changed: object) -> Column:
    """A coded column that was asked of a part of the people, with changes."""
    return column("work", **{"type": ColumnType.CODE, "maximum": 0, "codes": codes, "asked_of": asked_of(), **changed})


@pytest.mark.parametrize("dictionary", [HEALTH_DICTIONARY, CENSUS_DICTIONARY])
def test_dictionary_survives_the_wire(dictionary: Dictionary) -> None:
    """One node reads what the other publishes."""
    assert parse_dictionary_document(dictionary_document(dictionary)) == dictionary


@pytest.mark.parametrize(
    "make",
    [
        lambda: column("Age"),
        lambda: column("a; drop table people"),
        lambda: column("_high"),
        lambda: column("and"),
        lambda: column("a" * 64),
        lambda: column(description=""),
        lambda: column(description="clear \x1b[2J"),
        lambda: column(codes=(Code("a", "A"),)),
        lambda: column(type=ColumnType.CODE, maximum=0),
        lambda: column(type=ColumnType.CODE, maximum=0, codes=(Code("a", "A"), Code("a", "B"))),
        lambda: column(multi_valued=True),
        lambda: column(minimum=131),
        lambda: column(type=ColumnType.DATE),
        lambda: column(asked_of=asked_of()),
        lambda: asked_column(codes=YES_OR_NOT_ASKED[:1]),
        lambda: asked_column(codes=YES_OR_NOT_ASKED[1:]),
        lambda: asked_column(multi_valued=True),
        lambda: asked_of(one_in=1),
        lambda: asked_of(one_in=1001),
        lambda: asked_of(design_effect_hundredths=99),
        lambda: asked_of(design_effect_hundredths=10_001),
        lambda: Code("", "A"),
        lambda: Code("a;b", "A"),
        lambda: Code(" a", "A"),
        lambda: Code("a" * 101, "A"),
        lambda: Code("a\nb", "A"),
        lambda: Dictionary(()),
        lambda: Dictionary((column(), column())),
        lambda: Dictionary(tuple(column(f"c{number}") for number in range(201))),
    ],
)
def test_unfit_dictionary_cannot_be_made(make: Callable[[], object]) -> None:
    """Names that SQL or the language could misread, and lists that contradict themselves, do not come into being."""
    with pytest.raises(ValueError, match=r".+"):
        make()


@pytest.mark.parametrize(
    "column",
    [
        b"",
        b'{"description":"Age.","name":"age","type":"text"}',
        b'{"description":"Age.","name":"\\u001b[2J","type":"date"}',
        b'{"asked_of":{"design_effect_hundredths":280,"not_asked":"not asked","one_in":5},"description":"Age.","name":"age","type":"date"}',
    ],
)
def test_peer_cannot_publish_an_unfit_dictionary(column: bytes) -> None:
    """A dictionary that comes over the wire obeys the same rules."""
    good = b'{"description":"Age.","name":"age","type":"date"}'
    document = b'{"columns":[%b],"format":1,"version":1}'
    assert parse_dictionary_document(document % good).names == ("age",)
    with pytest.raises(ValueError, match=r".+"):
        parse_dictionary_document(document % column)


def test_column_of_another_name_is_refused_with_the_nearest() -> None:
    """Looking up a column that does not exist names those most like it."""
    assert HEALTH_DICTIONARY.column("age").maximum == 130
    with pytest.raises(InvalidRequestError) as caught:
        HEALTH_DICTIONARY.column("ages")
    assert caught.value.code == "UNKNOWN_COLUMN"
    assert caught.value.details["nearest"].startswith("age")


def test_nearest_names_ignore_letter_case_and_length() -> None:
    """Suggestions look past letter case, and past what a hostile word adds at its end."""
    assert nearest("FRENCH", ["English", "French"], quote=True) == "'French', 'English'"
    assert nearest("French" + "h" * 100_000, ["English", "French"]).startswith("French")


def test_long_lists_are_cut() -> None:
    """A dozen names, then dots."""
    assert listed(["a", "b"]) == "a, b"
    assert listed(str(number) for number in range(12)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11"
    assert listed(str(number) for number in range(13)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ..."


def test_shown_text_is_short_and_printable() -> None:
    """A stranger's text is harmless in a sentence."""
    assert shown("a\x1b\x00b") == "a??b"
    assert shown("x" * 41) == "x" * 40 + "..."


def test_values_keep_the_published_order() -> None:
    """A code's position, which stores rely on, is its place in the published list."""
    sex = HEALTH_DICTIONARY.column("sex")
    assert [sex.positions[value] for value in sex.values] == list(range(len(sex.codes)))


def test_who_was_asked_is_told_of_each_variable() -> None:
    """A variable of a part has a value for everybody else, a weight, and the values of those who were asked."""
    part = asked_column()
    assert (part.asked, part.not_asked) == (("yes",), "not asked")
    assert part.asked_of is not None
    assert (part.asked_of.share, part.asked_of.weight, part.asked_of.design_effect) == (
        Fraction(1, 5),
        5,
        Fraction(14, 5),
    )
    sex = HEALTH_DICTIONARY.column("sex")
    assert (sex.asked, sex.not_asked, sex.asked_of) == (sex.values, None, None)


# --- what a load is bound to -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dictionary", [HEALTH_DICTIONARY, CENSUS_DICTIONARY], ids=["health", "census"])
def test_every_change_of_what_a_stored_number_means_changes_the_hash(dictionary: Dictionary) -> None:
    """Codes and their order, names, types, limits, several values or one, the order of columns; labels do not."""
    hashes = {change(dictionary).hash for change in CHANGES.values()}
    assert len(hashes) == len(CHANGES)
    assert dictionary.hash not in hashes
    assert relabelled(dictionary).hash == dictionary.hash


@pytest.mark.parametrize("dictionary", [HEALTH_DICTIONARY, CENSUS_DICTIONARY], ids=["health", "census"])
def test_a_meaning_is_read_back_by_whoever_has_nothing_else(dictionary: Dictionary) -> None:
    """A load that holds it says what its numbers mean, under the hash that the log names, without any program's dictionary."""
    read = Dictionary.parse_meaning(dictionary.meaning)
    assert (read.hash, read.meaning) == (dictionary.hash, dictionary.meaning)
    assert [(each.name, each.positions) for each in read.columns] == [
        (each.name, each.positions) for each in dictionary.columns
    ]


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'[["a","codes",false,0,0,["x"]]]',
        b"[" * 100_000,
        b'[["a","code",false,0,0,["x"],null]]',
    ],
)
def test_what_is_no_meaning_is_refused(damage: bytes) -> None:
    """With the one error that readers of files expect."""
    with pytest.raises(ValueError, match=r"mean|dictionary"):
        Dictionary.parse_meaning(damage)


def test_another_spelling_of_a_meaning_is_refused() -> None:
    """It would have another hash."""
    with pytest.raises(ValueError, match="written in one way"):
        Dictionary.parse_meaning(CENSUS_DICTIONARY.meaning.replace(b",", b", "))


def test_no_two_columns_have_one_hash() -> None:
    """Each field counts."""
    codes = (Code("a", "A"), Code("b", "B"))
    columns = [
        column(),
        column("years"),
        column(minimum=1),
        column(maximum=131),
        column(type=ColumnType.DATE, maximum=0),
        column(type=ColumnType.CODE, maximum=0, codes=codes),
        column(type=ColumnType.CODE, maximum=0, codes=codes[::-1]),
        column(type=ColumnType.CODE, maximum=0, codes=codes, multi_valued=True),
        asked_column(asked_of=None),
        asked_column(),
        asked_column(asked_of=asked_of(not_asked="yes")),
        asked_column(asked_of=asked_of(one_in=4)),
        asked_column(asked_of=asked_of(design_effect_hundredths=281)),
    ]
    dictionaries = [Dictionary((each,)) for each in columns]
    dictionaries += [Dictionary((column(), column("years"))), Dictionary((column("years"), column()))]
    assert len({dictionary.hash for dictionary in dictionaries}) == len(dictionaries)


def test_the_hash_of_a_dictionary_is_the_one_that_the_format_page_tells() -> None:
    """Worked out by hand from FORMAT.md, so that an auditor can do the same."""
    french = Column(
        name="tongue", type=ColumnType.CODE, description="Any.", codes=(Code("Français", "F"), Code("b", "B"))
    )
    told = b'tripartite/dictionary/v1\0[["tongue","code",false,0,0,["Fran\\u00e7ais","b"]],["age","integer",false,0,130,[]]]'
    assert Dictionary((french, column())).hash == hashlib.sha256(told).digest()
    of_a_part = b'tripartite/dictionary/v1\0[["work","code",false,0,0,["yes","not asked"],["not asked",5,280]]]'
    assert Dictionary((asked_column(),)).hash == hashlib.sha256(of_a_part).digest()


# Words of SQL, of the condition language and of questions, and what a column may well be called.
NAMES = [
    "select",
    "from",
    "group",
    "order",
    "by",
    "having",
    "limit",
    "user",
    "values",
    "case",
    "when",
    "end",
    "join",
    "on",
    "as",
    "desc",
    "asc",
    "table",
    "column",
    "index",
    "key",
    "primary",
    "set",
    "update",
    "delete",
    "insert",
    "union",
    "all",
    "any",
    "count",
    "sum",
    "min",
    "max",
    "avg",
    "exists",
    "cast",
    "integer",
    "text",
    "date",
    "timestamp",
    "time",
    "year",
    "month",
    "day",
    "interval",
    "true",
    "false",
    "null",
    "is",
    "not",
    "and",
    "or",
    "in",
    "like",
    "between",
    "under",
    "where",
    "escape",
    "distinct",
    "with",
    "rest",
    "of",
    "first",
    "last",
    "people",
    "e",
    "x",
    "event",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_may_be_published_may_be_asked_for(name: str) -> None:
    """As a column, as an event table, and as a column of one; a word of the language itself is refused when it is published."""
    codes = (Code("it's", "It is"), Code("all", "All"))
    try:
        coded = column(name, type=ColumnType.CODE, maximum=0, codes=codes)
        dictionary = Dictionary((coded,), (EventTable(f"{name}_stay", "Stays.", (coded,)),))
        tables = Dictionary((column("visits"),), (EventTable(name, "Events.", (coded,)),))
    except ValueError:
        assert name in {
            *[
                "all",
                "and",
                "any",
                "between",
                "by",
                "count",
                "date",
                "false",
                "in",
                "is",
                "like",
                "not",
                "null",
                "or",
                "people",
                "true",
                "under",
                "where",
            ]
        }
        return
    for asked, known in (
        (f"{name} = 'it''s' and not {name} is null", dictionary),
        (f"any({name}_stay where {name} in ('it''s', 'all'))", dictionary),
        (f"any({name}) and count({name} where {name} = 'all') >= 2", tables),
    ):
        condition = parse_condition(asked, known)
        assert parse_condition(describe(condition), known) == condition
    question = parse_question(f"{name} = 'all'", Dictionary((coded,)))
    assert read_question(question.text) == question
