"""Dictionaries: what may be published, how it travels, and how names are suggested."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest
from fakes.dictionaries import CHANGES, relabelled
from tripartite.v1 import dictionary_pb2

from broker_common.errors import InvalidRequestError
from broker_common.query.dictionary import Code, Column, ColumnType, Dictionary, listed, nearest, shown
from census_node.registry.dictionary import CENSUS_DICTIONARY
from health_node.dictionary import HEALTH_DICTIONARY


def column(name: str = "age", **changed: object) -> Column:
    """An integer column, with changes."""
    settings: dict[str, object] = {"type": ColumnType.INTEGER, "description": "Age.", "maximum": 130, **changed}
    return Column(name=name, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("dictionary", [HEALTH_DICTIONARY, CENSUS_DICTIONARY])
def test_dictionary_survives_the_wire(dictionary: Dictionary) -> None:
    """What one node publishes is what the other reads."""
    message = dictionary_pb2.Dictionary.FromString(dictionary.to_wire().SerializeToString())
    assert Dictionary.from_wire(message) == dictionary


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
    "message",
    [
        dictionary_pb2.Dictionary(),
        dictionary_pb2.Dictionary(columns=[dictionary_pb2.Column(name="age", description="Age.")]),
        dictionary_pb2.Dictionary(
            columns=[dictionary_pb2.Column(name="\x1b[2J", description="Age.", type=dictionary_pb2.COLUMN_TYPE_DATE)]
        ),
    ],
)
def test_peer_cannot_publish_an_unfit_dictionary(message: dictionary_pb2.Dictionary) -> None:
    """A dictionary that comes over the wire obeys the same rules, or is malformed."""
    with pytest.raises(InvalidRequestError) as caught:
        Dictionary.from_wire(message)
    assert caught.value.code == "MALFORMED_MESSAGE"
    assert caught.value.text.isprintable()


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


# --- what a load is bound to -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dictionary", [HEALTH_DICTIONARY, CENSUS_DICTIONARY], ids=["health", "census"])
def test_every_change_of_what_a_stored_number_means_changes_the_hash(dictionary: Dictionary) -> None:
    """Codes and their order, names, types, limits, several values or one, the order of columns; labels do not."""
    hashes = {change(dictionary).hash for change in CHANGES.values()}
    assert len(hashes) == len(CHANGES)
    assert dictionary.hash not in hashes
    assert relabelled(dictionary).hash == dictionary.hash == Dictionary.from_wire(dictionary.to_wire()).hash


@pytest.mark.parametrize("dictionary", [HEALTH_DICTIONARY, CENSUS_DICTIONARY], ids=["health", "census"])
def test_a_meaning_is_read_back_by_whoever_has_nothing_else(dictionary: Dictionary) -> None:
    """A load that holds it says what its numbers mean, under the hash that the log names, without any program's dictionary."""
    read = Dictionary.parse_meaning(dictionary.meaning)
    assert (read.hash, read.meaning) == (dictionary.hash, dictionary.meaning)
    assert [(each.name, each.positions) for each in read.columns] == [
        (each.name, each.positions) for each in dictionary.columns
    ]


@pytest.mark.parametrize("damage", [b"", b"[]", b"{}", b"\xff", b'[["a","codes",false,0,0,["x"]]]', b"[" * 100_000])
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
