"""Criteria on hierarchies and events: what each form means, what is refused, and what to type instead."""

from __future__ import annotations

import pytest
from fakes.dictionaries import HEALTH_DICTIONARY, STAYS
from fakes.processor_time import limited
from tripartite.v1 import condition_pb2

from broker_common.errors import InvalidRequestError
from broker_common.language import language
from broker_common.query.canonical import canonical_bytes, describe
from broker_common.query.certainty import Certainty, certainty
from broker_common.query.condition import Condition, Membership, Under
from broker_common.query.condition_wire import condition_from_wire
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import Code, Column, ColumnType, Dictionary
from broker_common.query.normal_form import MAX_AT_LEAST, MAX_LITERALS, MAX_TERMS, count_terms
from broker_common.query.scanner import MAX_TEXT_CHARACTERS

Wire = condition_pb2.Condition


def read(text: str, dictionary: Dictionary = STAYS) -> Condition:
    """The condition of a text."""
    return parse_condition(text, dictionary)


def refusal(text: str, dictionary: Dictionary = STAYS) -> InvalidRequestError:
    """The error that reading `text` ends in."""
    with pytest.raises(InvalidRequestError) as caught:
        parse_condition(text, dictionary)
    return caught.value


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("diagnosis under 'I20-I25'", "diagnosis under 'I20-I25'"),
        ("DIAGNOSIS UNDER ('I21', 'I20', 'I21')", "diagnosis under ('I20', 'I21')"),
        ("diagnosis not under 'I21'", "diagnosis not under 'I21'"),
        ("not (diagnosis) under (('I21'))", "diagnosis not under 'I21'"),
        ("diagnosis not under ('I20','I21')", "diagnosis not under ('I20', 'I21')"),
        ("any(hospitalisation)", "any(hospitalisation)"),
        ("Any ( Hospitalisation WHERE Days > 3 )", "any(hospitalisation where days > 3)"),
        ("not any(hospitalisation)", "not any(hospitalisation)"),
        (
            "any(hospitalisation where cause under 'I21' and admitted between '2005-01-01' and '2005-12-31')",
            "any(hospitalisation where admitted >= '2005-01-01' and admitted <= '2005-12-31' and cause under 'I21')",
        ),
        (
            "any(hospitalisation where cause is null or not (days < 3 and (cause = 'J45')))",
            "any(hospitalisation where not (cause = 'J45' and days < 3) or cause is null)",
        ),
        # Columns of one name: each where it stands.
        (
            "day > '1950-01-01' and any(prescription where day is not null)",
            "day > '1950-01-01' and any(prescription where day is not null)",
        ),
        ("count(hospitalisation) >= 3", "count(hospitalisation) >= 3"),
        ("count(hospitalisation where days > 3) > 2", "count(hospitalisation where days > 3) >= 3"),
        ("3 <= (count(hospitalisation))", "count(hospitalisation) >= 3"),
        ("count(hospitalisation) >= 1", "any(hospitalisation)"),
        ("count(hospitalisation) > 0", "any(hospitalisation)"),
        ("count(hospitalisation) < 3", "count(hospitalisation) < 3"),
        ("count(hospitalisation) <= 2", "count(hospitalisation) < 3"),
        ("not count(hospitalisation) >= 3", "count(hospitalisation) < 3"),
        ("not count(hospitalisation) < 3", "count(hospitalisation) >= 3"),
        ("count(hospitalisation) = 0", "not any(hospitalisation)"),
        ("count(hospitalisation) < 1", "not any(hospitalisation)"),
        ("count(hospitalisation) <> 0", "any(hospitalisation)"),
        ("count(hospitalisation) = 2", "count(hospitalisation) < 3 and count(hospitalisation) >= 2"),
        ("count(hospitalisation) != 2", "not (count(hospitalisation) < 3 and count(hospitalisation) >= 2)"),
        ("count(hospitalisation) between 2 and 4", "count(hospitalisation) < 5 and count(hospitalisation) >= 2"),
        ("count(hospitalisation) between 0 and 4", "count(hospitalisation) < 5"),
        ("count(hospitalisation) between 2 and 2", "count(hospitalisation) < 3 and count(hospitalisation) >= 2"),
        (
            "count(hospitalisation) not between 2 and 4",
            "not (count(hospitalisation) < 5 and count(hospitalisation) >= 2)",
        ),
        ("count(prescription) in (0, 1)", "not any(prescription) or (count(prescription) < 2 and any(prescription))"),
        (
            "any(hospitalisation where cause like 'I21%')",
            "any(hospitalisation where cause in ('I21', 'I21.0'))",
        ),
    ],
)
def test_admitted_text_has_its_canonical_form(text: str, canonical: str) -> None:
    """Its canonical form means the same, and so does its message."""
    condition = read(text)
    assert describe(condition) == canonical
    assert read(canonical) == condition
    assert condition_from_wire(condition.to_wire(), STAYS) == condition


def test_encoding_is_fixed() -> None:
    """Old commitments must open for ever: these bytes never change under this version."""
    assert canonical_bytes(read("diagnosis not under ('I21', 'I20')")) == (
        b"tripartite/criteria/v1\0!u\0\0\0\x09diagnosis\0\0\0\x02\0\0\0\x03I20\0\0\0\x03I21"
    )
    assert canonical_bytes(read("any(prescription)")) == (b"tripartite/criteria/v1\0h\0\0\0\x0cprescription\0\0\0\x010")
    assert canonical_bytes(read("count(hospitalisation where days > 3) >= 300")) == (
        b"tripartite/criteria/v1\0h\0\0\0\x0fhospitalisation\0\0\x01\x2c1b\0\0\0\x04daysI\0\0\0\0\0\0\0\x03"
    )


@pytest.mark.parametrize(
    ("text", "code", "sentence", "hint"),
    [
        # Columns where they do not belong.
        (
            "cause under 'I21'",
            "UNKNOWN_COLUMN",
            "There is no column 'cause'.",
            "'cause' is a column of the events 'hospitalisation'. Type: any(hospitalisation where cause under 'I21')",
        ),
        (
            "age >= 65 and (admitted) >= '2005-01-01'",
            "UNKNOWN_COLUMN",
            "There is no column 'admitted'.",
            "Type: any(hospitalisation where (admitted) >= '2005-01-01')",
        ),
        (
            "any(prescription where age >= 65)",
            "UNKNOWN_COLUMN",
            "There is no column 'age'.",
            "'age' is a column of people and stands outside any(...) and count(...). The events 'prescription' have: drug, day",
        ),
        ("any(prescription where drog = 'C07')", "UNKNOWN_COLUMN", "'drog'", "Did you mean: drug"),
        ("any(prescription where days > 3)", "UNKNOWN_COLUMN", "'days'", "Did you mean: day"),
        # Events.
        ("any(prescriptions)", "UNKNOWN_EVENTS", "There are no events 'prescriptions'.", "Did you mean: prescription"),
        ("hospitalisation > 3", "UNKNOWN_COLUMN", "'hospitalisation'", "Type: count(hospitalisation) > 3"),
        ("hospitalisation = 'I21'", "UNKNOWN_COLUMN", "'hospitalisation'", "Type: any(hospitalisation)"),
        ("hospitalisation", "CRITERIA_SYNTAX", "stands alone", "Type: any(hospitalisation)"),
        ("any(age)", "CRITERIA_SYNTAX", "'age' is a column, and any(...) takes events", ""),
        ("any(cause = 'I21')", "CRITERIA_SYNTAX", "begin with the name of events", "any(hospitalisation where cause ="),
        ("any()", "CRITERIA_SYNTAX", "begin with the name of events", ""),
        (
            "any(hospitalisation where any(prescription))",
            "CRITERIA_SYNTAX",
            "any(...) and count(...) hold no other any(...) or count(...)",
            "",
        ),
        ("any(hospitalisation where count(prescription) > 2)", "CRITERIA_SYNTAX", "hold no other", ""),
        ("exists(prescription where drug = 'C07')", "CRITERIA_SYNTAX", "'exists' is written 'any'", "Type: any(presc"),
        ("any(prescription, drug = 'C07')", "CRITERIA_SYNTAX", "begins with 'where'", "any(prescription where drug ="),
        ("any(prescription and drug = C07)", "CRITERIA_SYNTAX", "begins with 'where'", "where drug = 'C07')"),
        (
            "any prescription where drug = 'C07'",
            "CRITERIA_SYNTAX",
            "inside the parentheses",
            "Type: any(prescription where",
        ),
        (
            "any(prescription) where drug = 'C07'",
            "CRITERIA_SYNTAX",
            "inside the parentheses",
            "Type: any(prescription where",
        ),
        (
            "any(prescription where prescription.drug = 'C07')",
            "CRITERIA_SYNTAX",
            "without that of its table",
            "where drug",
        ),
        ("any(prescription where drug = 'C07'", "CRITERIA_SYNTAX", "a ( is not closed", "Type: any(prescription where"),
        ("any(prescription where drug == 'C07' && day > 2010-01-02)", "CRITERIA_SYNTAX", "'=='", "day > '2010-01-02')"),
        # Counts.
        ("count(prescription)", "CRITERIA_SYNTAX", "compared with a number", "Type: count(prescription) >= 2"),
        ("count prescription >= 3", "CRITERIA_SYNTAX", "inside the parentheses", "Type: count(prescription) >= 3"),
        ("any(prescription) >= 3", "CRITERIA_SYNTAX", "true or false by itself", "Type: count(prescription) >= 3"),
        ("(3) <= (any(prescription))", "CRITERIA_SYNTAX", "true or false by itself", "Type: count(prescription) >= 3"),
        ("count(prescription) >= 0", "CRITERIA_SYNTAX", "so that everybody would match", ""),
        ("count(prescription) > -1", "CRITERIA_SYNTAX", "so that everybody would match", ""),
        ("count(prescription) < 0", "CRITERIA_SYNTAX", "nobody has fewer than 0 events", ""),
        ("count(prescription) = -1", "CRITERIA_SYNTAX", "nobody has fewer than 0 events", ""),
        (
            "count(prescription) between 4 and 2",
            "CRITERIA_SYNTAX",
            "above the second",
            "< 5 and count(prescription) >= 2",
        ),
        (f"count(prescription) > {MAX_AT_LEAST}", "CRITERIA_SYNTAX", "up to 1000", ""),
        (f"count(prescription) >= {'9' * 3_000}", "CRITERIA_SYNTAX", "up to 1000", ""),
        ("count(prescription) >= 2.5", "CRITERIA_SYNTAX", "whole numbers", ""),
        ("count(prescription) >= 'C07'", "CRITERIA_SYNTAX", "whole numbers", ""),
        ("count(prescription) = age", "CRITERIA_SYNTAX", "cannot be compared with each other, or with columns", ""),
        ("count(prescription) = count(hospitalisation)", "CRITERIA_SYNTAX", "cannot be compared with each other", ""),
        ("2 in (count(prescription))", "CRITERIA_SYNTAX", "cannot be compared with each other", ""),
        ("2 between 1 and count(prescription)", "CRITERIA_SYNTAX", "cannot be compared with each other", ""),
        ("count(prescription) is null", "CRITERIA_SYNTAX", "compared with a number", ""),
        ("count(*) > 3", "CRITERIA_SYNTAX", "what is counted is said with --count", ""),
        # Hierarchies.
        ("diagnosis under I21", "CRITERIA_SYNTAX", "single quotes", "Type: diagnosis under 'I21'"),
        ("diagnosis under (I20, I21)", "CRITERIA_SYNTAX", "single quotes", "Type: diagnosis under ('I20', 'I21')"),
        ("diagnosis under 'I20', 'I21'", "CRITERIA_SYNTAX", "need parentheses", "Type: diagnosis under ('I20', 'I21')"),
        ("diagnosis under in ('I20')", "CRITERIA_SYNTAX", "is written 'under'", "Type: diagnosis under ('I20')"),
        ("diagnosis under ()", "CRITERIA_SYNTAX", "a list of values is empty", ""),
        ("diagnosis under 5", "CRITERIA_SYNTAX", "codes in single quotes", ""),
        (
            "diagnosis under 'I2%'",
            "UNKNOWN_CODE",
            "no code 'I2%'",
            "begin so are named with like: diagnosis like 'I2%'",
        ),
        ("diagnosis under 'I99'", "UNKNOWN_CODE", "no code 'I99'", "Did you mean: "),
        ("diagnosis under 'acute myocardial infarction'", "UNKNOWN_CODE", "no code", "letter for letter: 'I21'"),
        ("sex under 'male'", "WRONG_OPERATOR", "codes, none of which is under another; 'under' is not defined", ""),
        ("age under 'I21'", "WRONG_OPERATOR", "whole numbers; 'under' is not defined", ""),
        ("'I21' under diagnosis", "CRITERIA_SYNTAX", "a column on one side and values on the other", ""),
        ("diagnosis under 'I21' under 'I20'", "CRITERIA_SYNTAX", "makes no sense near 'under' (character 23)", ""),
    ],
)
def test_mistake_is_told_with_what_to_type(text: str, code: str, sentence: str, hint: str) -> None:
    """And what it says to type for a mistake of the grammar can be read."""
    error = refusal(text)
    assert error.code == code
    assert sentence in error.text
    assert hint in error.hint
    told, _, instead = error.hint.partition(": ")
    if told == "Type":
        read(instead)


def test_events_of_an_agency_without_any() -> None:
    """Nothing is suggested where there is nothing."""
    error = refusal("any(hospitalisation)", HEALTH_DICTIONARY)
    assert (error.code, error.hint) == ("UNKNOWN_EVENTS", "The published data has no events.")


def test_mistake_is_told_in_french() -> None:
    """With what is typed as it is."""
    text, hint = refusal("any(prescription) >= 3").said(language("fr"))
    assert text.endswith("any(...) est vrai ou faux en soi, et c’est count(...) qui se compare.")  # noqa: RUF001
    assert hint == "Tapez\u00a0: count(prescription) >= 3"
    text, _ = refusal("sex under 'male'").said(language("fr"))
    assert "contient des codes dont aucun n’est placé sous un autre" in text  # noqa: RUF001  # noqa: RUF001


# --- limits ------------------------------------------------------------------------------------------------------------


def test_what_is_asked_of_events_counts_as_a_term() -> None:
    """And each comparison inside as one more."""
    assert count_terms(read("any(hospitalisation)")) == 1
    assert count_terms(read("any(hospitalisation where cause under 'I21' and days > 3)")) == 3
    assert count_terms(read("count(hospitalisation where days > 3) between 2 and 5 and age > 3")) == 5
    many = " or ".join(f"any(hospitalisation where days = {days})" for days in range(MAX_TERMS // 2 + 1))
    assert refusal(many).code == "CRITERIA_TOO_LARGE"


def _long_list(*, with_chapters: bool) -> Dictionary:
    """A list of 60,000 codes that begin with I among 100,000; every hundredth may stand above those that follow it."""

    def code(number: int) -> Code:
        letter, top = "IX"[number >= 60_000], number - number % 100
        above = (f"{letter}{top:05}",) if with_chapters and number != top else ()
        return Code(f"{letter}{number:05}", "Disease", under=above)

    codes = tuple(map(code, range(100_000)))
    return Dictionary(
        (Column(name="ill", type=ColumnType.CODE, description="Illness.", multi_valued=True, codes=codes),)
    )


@pytest.fixture(scope="module")
def flat() -> Dictionary:
    """No code stands above another."""
    return _long_list(with_chapters=False)


@pytest.fixture(scope="module")
def chapters() -> Dictionary:
    """Every hundredth code stands above those that follow it."""
    return _long_list(with_chapters=True)


def test_short_beginning_in_a_long_list_stays_a_list_of_codes(flat: Dictionary, chapters: Dictionary) -> None:
    """As it is in a short one, so that its bytes do not depend on the length of the list."""
    condition = read("ill like 'I001%'", flat)
    assert isinstance(condition, Membership)
    assert len(condition.literals) == 100
    assert read("ill like 'I00%'", flat) == read("ill like 'I00%'", chapters)


def test_long_beginning_of_whole_branches_travels_as_their_tops(chapters: Dictionary) -> None:
    """60,000 codes are 600 names on the wire, and mean the same people."""
    condition = read("ill like 'I%'", chapters)
    assert isinstance(condition, Under)
    assert len(condition.codes) == 600
    assert len(condition.to_wire().SerializeToString()) < 6_000
    column = chapters.column("ill")
    below = frozenset[str]().union(*map(column.descendants, condition.codes))
    assert below == {code for code in column.values if code.startswith("I")}
    assert condition_from_wire(condition.to_wire(), chapters) == condition


def test_long_beginning_without_branches_is_refused_with_a_way_out(flat: Dictionary) -> None:
    """A ticket of megabytes is never made."""
    error = refusal("ill like 'I%'", flat)
    assert error.code == "CRITERIA_TOO_LARGE"
    assert "'I%' stands for 60000 codes, and it may name 1000 values" in error.text
    assert error.hint == "Type a longer beginning, or split the study into several questions."


def test_long_beginning_of_half_a_branch_is_not_the_whole_of_it() -> None:
    """A top that has other codes under it would mean more than what was typed."""
    codes = [
        Code("A", "Top"),
        *(Code(f"{'AB'[at % 2]}{at:04}", "Below", under=("A",)) for at in range(2 * MAX_LITERALS)),
    ]
    column = Column(name="ill", type=ColumnType.CODE, description="Illness.", codes=tuple(codes))
    error = refusal("ill like 'A%'", Dictionary((column,)))
    assert error.code == "CRITERIA_TOO_LARGE"
    assert error.hint == "Type: ill under 'A'"


@pytest.mark.parametrize("kind", ["flat", "chapters"])
@pytest.mark.parametrize(
    "text",
    [
        "ill = 'I0000O' and ill under 'I00000'",
        " or ".join(["ill like 'I0001%'"] * 200),
        " or ".join(f"ill like 'I{number:03}%'" for number in range(200)),
        "ill like 'I%' and ill not like 'I%' or " * 90 + "ill = I00001",
        ("ill = and " * 500)[: MAX_TEXT_CHARACTERS - 5],
    ],
)
def test_long_list_is_read_soon(text: str, kind: str, request: pytest.FixtureRequest) -> None:
    """Texts at the limits, with mistakes, in five seconds of processor time."""
    dictionary: Dictionary = request.getfixturevalue(kind)
    with limited(5.0):
        try:
            read(text, dictionary)
        except InvalidRequestError as error:
            assert len(error.text) + len(error.hint) < 1_500  # noqa: PT017 - it may be read as well


# --- messages of strangers ---------------------------------------------------------------------------------------------


def happened(events: str, at_least: int, where: condition_pb2.Condition | None = None) -> condition_pb2.Condition:
    """Asks for events."""
    return Wire(happened=condition_pb2.Happened(events=events, at_least=at_least, where=where))


def under(column: str, *codes: str) -> condition_pb2.Condition:
    """Asks for codes and what stands under them."""
    return Wire(under=condition_pb2.Under(column=column, codes=codes))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (under("diagnosis"), "MALFORMED_MESSAGE"),
        (under("diagnosis", "I21", "I21"), "MALFORMED_MESSAGE"),
        (under("diagnosis", "i21"), "UNKNOWN_CODE"),
        (under("sex", "male"), "WRONG_OPERATOR"),
        (under("age", "65"), "WRONG_OPERATOR"),
        (under("cause", "I21"), "UNKNOWN_COLUMN"),
        (under("diagnosis", *map(str, range(MAX_LITERALS + 1))), "CRITERIA_TOO_LARGE"),
        (happened("", 1), "UNKNOWN_EVENTS"),
        (happened("Hospitalisation", 1), "UNKNOWN_EVENTS"),
        (happened("age", 1), "UNKNOWN_EVENTS"),
        (happened("hospitalisation", 0), "MALFORMED_MESSAGE"),
        (happened("hospitalisation", MAX_AT_LEAST + 1), "MALFORMED_MESSAGE"),
        (happened("hospitalisation", 1, Wire()), "MALFORMED_MESSAGE"),
        (happened("hospitalisation", 1, under("diagnosis", "I21")), "UNKNOWN_COLUMN"),
        (happened("hospitalisation", 1, happened("hospitalisation", 1)), "MALFORMED_MESSAGE"),
        (happened("hospitalisation", 1, Wire(negation=happened("prescription", 1))), "MALFORMED_MESSAGE"),
        (
            Wire(all_of=condition_pb2.AllOf(parts=[happened("hospitalisation", number + 1) for number in range(101)])),
            "CRITERIA_TOO_LARGE",
        ),
    ],
)
def test_wrong_message_is_refused(message: condition_pb2.Condition, expected: str) -> None:
    """A stranger's program may have skipped every check."""
    with pytest.raises(InvalidRequestError) as caught:
        condition_from_wire(message, STAYS)
    assert caught.value.code == expected


def test_columns_of_people_are_meant_again_after_events() -> None:
    """The scope of a condition on events ends with it."""
    parts = [happened("hospitalisation", 1, under("cause", "I21")), under("diagnosis", "I21")]
    condition = condition_from_wire(Wire(all_of=condition_pb2.AllOf(parts=parts)), STAYS)
    assert describe(condition) == "any(hospitalisation where cause under 'I21') and diagnosis under 'I21'"


# --- certainty ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("any(hospitalisation where cause under 'I21' and cause = 'J45')", Certainty.NOBODY),
        ("any(hospitalisation where days > 1000)", Certainty.NOBODY),
        ("any(hospitalisation where days < 3) and not any(hospitalisation)", Certainty.NOBODY),
        ("any(hospitalisation where days < 3) and not any(hospitalisation where days < 5)", Certainty.NOBODY),
        (
            "any(hospitalisation where cause = 'I21.0') and not any(hospitalisation where cause under 'I21')",
            Certainty.NOBODY,
        ),
        ("count(hospitalisation) = 2 and count(hospitalisation) > 4", Certainty.NOBODY),
        ("any(hospitalisation) or count(hospitalisation) = 0", Certainty.EVERYBODY),
        ("not any(hospitalisation where day > '2010-01-01' and day < '2010-01-01')", Certainty.EVERYBODY),
        (
            "any(hospitalisation where cause under 'I21') or not any(hospitalisation where cause = 'I21')",
            Certainty.EVERYBODY,
        ),
        ("diagnosis under 'I21' and not diagnosis under 'I20-I25'", Certainty.NOBODY),
        # Other events, more of them, or codes under one and not under the other.
        ("any(hospitalisation) and not any(prescription)", None),
        ("any(hospitalisation where days < 5) and not any(hospitalisation where days < 3)", None),
        ("count(hospitalisation where days < 3) >= 2 and not count(hospitalisation) >= 3", None),
        ("diagnosis under 'I42' and not diagnosis under 'I21'", None),
        ("diagnosis under 'I21' and diagnosis = 'J45'", None),
    ],
)
def test_what_is_sure_by_the_text_alone(text: str, expected: Certainty | None) -> None:
    """Events and branches included."""
    assert certainty(read(text), STAYS) is expected


def test_certainty_of_long_lists_ends_soon(chapters: Dictionary) -> None:
    """It gives up rather than look for long, and says nothing then."""
    either = " or ".join(f"ill under 'I{number:03}00' and ill not under 'X60000'" for number in range(20))
    text = f"({either}) and ({either.replace('X6', 'X7')})"
    with limited(5.0):
        assert certainty(read(text, chapters), chapters) is None
