"""Looking something up: one column or variable with all its codes, or a word wherever it stands at either node."""

from __future__ import annotations

import pytest
from fakes.dictionaries import HEALTH_DICTIONARY, LANGUAGES

from broker_common.errors import InvalidRequestError
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import Code, Column, ColumnType, Dictionary
from broker_common.query.dictionary_pages import excerpt, excerpt_json
from broker_common.query.question import parse_question
from broker_common.query.remedies import example
from researcher_node.asking.contact import Dictionaries
from researcher_node.asking.lookup import looked_up

FOUND = Dictionaries(HEALTH_DICTIONARY, LANGUAGES, "2011")


def names_and_codes(columns: list[dict[str, object]]) -> dict[str, list[str]]:
    """Matches, column by column."""
    found = {}
    for column in columns:
        codes = column["codes"]
        assert isinstance(codes, list)
        found[str(column["name"])] = [code["value"] for code in codes]
    return found


def test_without_a_name_or_a_word_everything_is_shown() -> None:
    """As both nodes publish it."""
    result, text = looked_up(FOUND, None, None)
    assert result == {
        "health": excerpt_json(excerpt(HEALTH_DICTIONARY)),
        "census": excerpt_json(excerpt(LANGUAGES)),
        "census_release": "2011",
    }
    assert text.startswith("--where: health columns\n\nage  (")
    assert "--count: language variables of census release 2011, or all\n\nmother_tongue  (" in text


@pytest.mark.parametrize(("name", "side"), [("diagnosis", "health"), ("Mother_Tongue", "census"), (" age ", "health")])
def test_one_column_or_variable_is_shown_with_all_its_codes(name: str, side: str) -> None:
    """In any letter case, of the node that publishes it, with a line that can be typed."""
    result, text = looked_up(FOUND, name, None)
    column = (FOUND.health if side == "health" else FOUND.census).column(name.strip().lower())
    other = "census" if side == "health" else "health"
    assert result[other]["columns"] == []
    assert names_and_codes(result[side]["columns"]) == {column.name: list(column.values)}
    assert all(f"'{code.value}'  {code.label}" in text for code in column.codes)
    assert example(column) in text.splitlines()[-1]


@pytest.mark.parametrize("name", ["aeg", "asthma", "", "x" * 500, "\x1b[2J"])
def test_unknown_name_is_answered_with_the_nearest_of_both_nodes(name: str) -> None:
    """And with the option that finds codes."""
    with pytest.raises(InvalidRequestError) as caught:
        looked_up(FOUND, name, None)
    assert caught.value.code == "UNKNOWN_COLUMN"
    assert caught.value.hint.startswith("Did you mean: ")
    assert "dictionary --search WORD" in caught.value.hint
    assert (caught.value.text + caught.value.hint).isprintable()


@pytest.mark.parametrize(
    ("word", "health", "census"),
    [
        ("DIABETES", {"diagnosis": ["type_1_diabetes", "type_2_diabetes"]}, {}),
        ("type 2", {"diagnosis": ["type_2_diabetes"]}, {}),
        ("magnetic imaging", {"procedure": ["mri_scan"]}, {}),
        ("équally", {}, {"mother_tongue": ["English and French"], "first_official_language": ["English and French"]}),
        ("tongue first", {}, {"mother_tongue": ["English", "French", "English and French", "Other"]}),
        (
            "census day",
            {name: [] for name in ("age", "last_admission_date", "hospital_visits", "emergency_visits")},
            {},
        ),
        ("no such word", {}, {}),
    ],
)
def test_word_is_found_in_names_codes_and_labels(
    word: str, health: dict[str, list[str]], census: dict[str, list[str]]
) -> None:
    """Letter case, accents and _ left aside, all words of it; a column that matches itself is shown whole."""
    result, text = looked_up(FOUND, None, word)
    assert names_and_codes(result["health"]["columns"]) == health
    found = names_and_codes(result["census"]["columns"])
    assert {name: found[name] for name in census} == census
    assert bool(found) == bool(census)
    if not health and not census:
        assert text == f"'{word}' is in no name, description, code or label of either node."


def test_accents_of_a_label_do_not_matter() -> None:
    """A search without them finds what is published with them."""
    accented = Dictionary(
        (
            Column(
                name="place", type=ColumnType.CODE, description="Lieu.", codes=(Code("qc", "Québec"), Code("on", "O"))
            ),
        )
    )
    result, text = looked_up(Dictionaries(accented, LANGUAGES, "2011"), None, "QUEBEC")
    assert names_and_codes(result["health"]["columns"]) == {"place": ["qc"]}
    assert "'qc'  Québec" in text


def test_word_is_looked_for_in_one_column() -> None:
    """A name and a word together narrow each other."""
    result, _ = looked_up(FOUND, "procedure", "kidney")
    assert names_and_codes(result["health"]["columns"]) == {"procedure": ["dialysis", "kidney_transplant"]}
    assert looked_up(FOUND, "sex", "kidney")[0]["health"]["columns"] == []


@pytest.mark.parametrize("column", HEALTH_DICTIONARY.columns, ids=lambda column: column.name)
def test_example_of_a_column_can_be_typed(column: Column) -> None:
    """It is a condition."""
    parse_condition(example(column), HEALTH_DICTIONARY)


@pytest.mark.parametrize("column", LANGUAGES.columns, ids=lambda column: column.name)
def test_example_of_a_variable_can_be_typed(column: Column) -> None:
    """It is a question."""
    parse_question(example(column), LANGUAGES)
