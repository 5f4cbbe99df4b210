"""Dictionaries as people and programs read them: everything that is published, of a length that can be read, in two languages."""

from __future__ import annotations

import json

import pytest
from fakes.dictionaries import CENSUS_DICTIONARY, HEALTH_DICTIONARY

from broker_common.errors import InvalidRequestError
from broker_common.language import language
from broker_common.query.dictionary import AskedOf, Code, Column, ColumnType, Dictionary, EventTable
from broker_common.query.dictionary_pages import (
    MOST_LINES,
    MOST_LINES_EACH,
    dictionary_text,
    excerpt,
    excerpt_json,
    excerpt_text,
    levels,
    looked_up,
)

ENGLISH, FRENCH = language("en"), language("fr")
CHAPTERS = (
    Code("I", "Circulatory", "Circulatoire"),
    Code("I20-I25", "Ischaemic", "Ischémique", ("I",)),
    Code("I21", "Infarction", "Infarctus", ("I20-I25",)),
    Code("J", "Respiratory", "Respiratoire"),
    Code("J10", "Influenza", "Grippe", ("I20-I25", "J")),
)
SMALL = Dictionary(
    (
        Column(name="age", type=ColumnType.INTEGER, description="Age in years.", minimum=0, maximum=130),
        Column(name="birth", type=ColumnType.DATE, description="Day of birth."),
        Column(
            name="diagnosis",
            type=ColumnType.CODE,
            description="Diagnoses.",
            description_fr="Diagnostics.",
            codes=CHAPTERS,
            multi_valued=True,
        ),
        Column(
            name="work",
            type=ColumnType.CODE,
            description="Work.",
            codes=(Code("yes", "Works"), Code("not asked", "Not asked")),
            asked_of=AskedOf(not_asked="not asked", one_in=4, design_effect_hundredths=250),
        ),
    ),
    (
        EventTable(
            "stay",
            "Stays in hospital.",
            (
                Column(name="admitted", type=ColumnType.DATE, description="Day of admission.", description_fr="Jour."),
                Column(name="cause", type=ColumnType.CODE, description="Cause.", codes=CHAPTERS[:2]),
            ),
            "Séjours hospitaliers.",
        ),
    ),
    agency="Agency",
    version=4,
)


def test_a_program_reads_everything_that_is_published() -> None:
    """Whole numbers alone have limits; codes keep their published order, and say what they stand under."""
    assert excerpt_json(excerpt(SMALL)) == {
        "agency": "Agency",
        "version": 4,
        "id_form": "ontario_health_card",
        "linkage": "complementary",
        "hash": SMALL.hash.hex(),
        "columns": [
            {
                "name": "age",
                "type": "integer",
                "multi_valued": False,
                "description": "Age in years.",
                "description_fr": "",
                "codes": [],
                "minimum": 0,
                "maximum": 130,
            },
            {
                "name": "birth",
                "type": "date",
                "multi_valued": False,
                "description": "Day of birth.",
                "description_fr": "",
                "codes": [],
            },
            {
                "name": "diagnosis",
                "type": "code",
                "multi_valued": True,
                "description": "Diagnoses.",
                "description_fr": "Diagnostics.",
                "codes": [
                    {"value": "I", "label": "Circulatory", "label_fr": "Circulatoire", "under": []},
                    {"value": "I20-I25", "label": "Ischaemic", "label_fr": "Ischémique", "under": ["I"]},
                    {"value": "I21", "label": "Infarction", "label_fr": "Infarctus", "under": ["I20-I25"]},
                    {"value": "J", "label": "Respiratory", "label_fr": "Respiratoire", "under": []},
                    {"value": "J10", "label": "Influenza", "label_fr": "Grippe", "under": ["I20-I25", "J"]},
                ],
            },
            {
                "name": "work",
                "type": "code",
                "multi_valued": False,
                "description": "Work.",
                "description_fr": "",
                "codes": [
                    {"value": "yes", "label": "Works", "label_fr": "", "under": []},
                    {"value": "not asked", "label": "Not asked", "label_fr": "", "under": []},
                ],
                "asked_of": {"not_asked": "not asked", "share": 0.25, "weight": 4, "design_effect": 2.5},
            },
        ],
        "events": [
            {
                "name": "stay",
                "description": "Stays in hospital.",
                "description_fr": "Séjours hospitaliers.",
                "columns": [
                    {
                        "name": "admitted",
                        "type": "date",
                        "multi_valued": False,
                        "description": "Day of admission.",
                        "description_fr": "Jour.",
                        "codes": [],
                    },
                    {
                        "name": "cause",
                        "type": "code",
                        "multi_valued": False,
                        "description": "Cause.",
                        "description_fr": "",
                        "codes": [
                            {"value": "I", "label": "Circulatory", "label_fr": "Circulatoire", "under": []},
                            {"value": "I20-I25", "label": "Ischaemic", "label_fr": "Ischémique", "under": ["I"]},
                        ],
                    },
                ],
            }
        ],
    }


def test_a_person_reads_the_same_columns() -> None:
    """One block per column: how to name it, what it holds, its codes as they are typed and as they stand under each other."""
    assert dictionary_text(SMALL).split("\n\n") == [
        "age  (whole numbers from 0 to 130)\n    Age in years.",
        "birth  (dates)\n    Day of birth.",
        (
            "diagnosis  (codes, one person may have several)\n"
            "    Diagnoses.\n"
            "      'I'  Circulatory\n"
            "        'I20-I25'  Ischaemic\n"
            "          'I21'  Infarction\n"
            "          'J10'  Influenza\n"
            "      'J'  Respiratory\n"
            "        'J10'  Influenza"
        ),
        (
            "work  (codes, asked of one household in 4)\n"
            "    Work.\n"
            "      'yes'  Works\n"
            "      'not asked'  Not asked\n"
            "    A count times 4 is one of everybody; design effect 2.5."
        ),
        "stay  (events, any number of one person)\n    Stays in hospital.",
        "  admitted  (dates)\n      Day of admission.",
        "  cause  (codes)\n      Cause.\n        'I'  Circulatory\n          'I20-I25'  Ischaemic",
    ]


def test_a_french_reader_reads_french_where_there_is_some() -> None:
    """Labels, descriptions and what is said of a column; what an agency wrote in English alone stays English."""
    assert dictionary_text(SMALL, FRENCH).split("\n\n")[2:] == [
        (
            "diagnosis  (des codes, une personne peut en avoir plusieurs)\n"
            "    Diagnostics.\n"
            "      'I'  Circulatoire\n"
            "        'I20-I25'  Ischémique\n"
            "          'I21'  Infarctus\n"
            "          'J10'  Grippe\n"
            "      'J'  Respiratoire\n"
            "        'J10'  Grippe"
        ),
        (
            "work  (des codes, demandé à un ménage sur 4)\n"
            "    Work.\n"
            "      'yes'  Works\n"
            "      'not asked'  Not asked\n"
            "    Un compte multiplié par 4 vaut pour tout le monde; effet de plan 2,5."
        ),
        "stay  (événements, en nombre quelconque par personne)\n    Séjours hospitaliers.",
        "  admitted  (des dates)\n      Jour.",
        "  cause  (des codes)\n      Cause.\n        'I'  Circulatoire\n          'I20-I25'  Ischémique",
    ]


@pytest.mark.parametrize("dictionary", [HEALTH_DICTIONARY, CENSUS_DICTIONARY])
def test_what_is_published_stands_in_both(dictionary: Dictionary) -> None:
    """Every column and code of the real dictionaries; the text is printable and the JSON is JSON."""
    text, tree = dictionary_text(dictionary), excerpt_json(excerpt(dictionary))
    assert all(line.isprintable() for line in text.splitlines())
    assert json.loads(json.dumps(tree)) == tree
    assert [column["name"] for column in tree["columns"]] == list(dictionary.names)
    for column, block in zip(dictionary.columns, text.split("\n\n"), strict=True):
        assert block.startswith(f"{column.name}  (")
        assert all(f"'{code.value}'  {code.label}" in block for code in column.codes)


def found(name: str | None = None, word: str | None = None, under: str | None = None) -> dict[str, list[str]]:
    """The columns that a look-up shows, and which of their codes."""
    shown = looked_up(SMALL, name, word, under)
    parts = {part.column.name: part for part in shown.columns}
    parts |= {f"{table.name}.{part.column.name}": part for table, own in shown.events for part in own}
    return {place: [code.value for code in part.codes] for place, part in parts.items()}


EVERYTHING = ["I", "I20-I25", "I21", "J", "J10"]


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ({"name": "diagnosis"}, {"diagnosis": EVERYTHING}),
        ({"name": " STAY "}, {"stay.admitted": [], "stay.cause": ["I", "I20-I25"]}),
        ({"name": "stay.cause"}, {"stay.cause": ["I", "I20-I25"]}),
        ({"under": "I20-I25"}, {"diagnosis": ["I20-I25", "I21", "J10"], "stay.cause": ["I20-I25"]}),
        ({"name": "diagnosis", "under": "J"}, {"diagnosis": ["J", "J10"]}),
        ({"word": "GRIPPE"}, {"diagnosis": ["J10"]}),
        ({"word": "ischemique"}, {"diagnosis": ["I20-I25"], "stay.cause": ["I20-I25"]}),
        ({"word": "infarction", "under": "I"}, {"diagnosis": ["I21"]}),
        ({"word": "hospital"}, {"stay.admitted": [], "stay.cause": ["I", "I20-I25"]}),
        ({"word": "admission"}, {"stay.admitted": []}),
        ({"word": "diagnostics", "under": "J"}, {"diagnosis": ["J", "J10"]}),
        ({"word": "no such word"}, {}),
    ],
)
def test_names_words_and_branches_narrow_what_is_shown(asked: dict[str, str], shown: dict[str, list[str]]) -> None:
    """A column, an event table, one of its columns; a word in either language; a branch of codes; all of them together."""
    assert found(**asked) == shown


@pytest.mark.parametrize("name", ["diagnoses", "stay.caus", "age.cause", "", "x" * 500, "\x1b[2J"])
def test_unknown_name_is_answered_with_the_nearest(name: str) -> None:
    """Columns of events among them."""
    with pytest.raises(InvalidRequestError) as caught:
        found(name)
    assert caught.value.code == "UNKNOWN_COLUMN"
    assert caught.value.hint.startswith("Did you mean: ")
    assert (caught.value.text + caught.value.hint).isprintable()


def test_unknown_code_is_answered_with_the_nearest() -> None:
    """The suggestions are columns that are shown."""
    with pytest.raises(InvalidRequestError) as caught:
        found(under="I20-25")
    assert caught.value.code == "INVALID_VALUE"
    assert "Did you mean: 'I20-I25'" in caught.value.hint
    with pytest.raises(InvalidRequestError) as caught:
        found("stay", under="J10")
    assert "'J10'" in caught.value.text


def tree(width: int, depth: int) -> Dictionary:
    """A hierarchy in which so many codes stand under each one, and as many at the top."""
    codes: list[Code] = []
    level: list[tuple[str, ...]] = [()]
    for _ in range(depth):
        made = [(f"{above[0] if above else ''}{each:x}", above) for above in level for each in range(width)]
        codes += [Code(value, f"Label of {value}", under=above) for value, above in made]
        level = [(value,) for value, _ in made]
    column = Column(name="tree", type=ColumnType.CODE, description="A tree.", codes=tuple(codes))
    return Dictionary((column, Column(name="born", type=ColumnType.DATE, description="Born.")))


def lines_of(dictionary: Dictionary, **asked: str) -> list[str]:
    """The page of a look-up."""
    return excerpt_text(excerpt(dictionary, **asked), ENGLISH).splitlines()


def test_a_page_shows_as_many_levels_as_can_be_read_and_says_how_to_see_more() -> None:
    """Two levels of this tree; what is below stands on the page of a code."""
    dictionary = tree(8, 4)
    hidden = "more codes are not shown: add tree and --under CODE for those under one, or --search WORD."
    whole = lines_of(dictionary)
    assert f"    {8**4 + 8**3:,} {hidden}" in whole
    assert sum("Label of" in line for line in whole) == 8 + 64 <= MOST_LINES_EACH
    # A page for one column has more room, and this tree's third level still does not fit.
    alone = lines_of(dictionary, name="tree")
    assert sum("Label of" in line for line in alone) == 8 + 64 <= MOST_LINES
    assert sum("Label of" in line for line in lines_of(dictionary, under="7")) == 1 + 8 + 64
    branch = lines_of(dictionary, name="tree", under="77")
    assert sum("Label of" in line for line in branch) == 1 + 8 + 64
    assert f"{10 * ' '}'7777'  Label of 7777" in branch
    assert not any("not shown" in line for line in branch)


def test_the_beginning_of_a_long_list_is_shown() -> None:
    """Where none stands under another, a word finds the others."""
    whole = lines_of(tree(MOST_LINES + 3, 1), name="tree")
    assert sum("Label of" in line for line in whole) == MOST_LINES
    assert whole[-1] == "    3 more codes are not shown: add tree and --search WORD, or --json for all of them."


def test_a_page_is_made_at_once_however_codes_stand_under_each_other() -> None:
    """Each of twenty codes stands under all before it: a million ways lead to the last one."""
    codes = tuple(Code(f"{n:02}", "X", under=tuple(f"{m:02}" for m in range(n))) for n in range(20))
    column = Column(name="dag", type=ColumnType.CODE, description="A graph.", codes=codes)
    page = lines_of(Dictionary((column,)))
    assert len(page) <= MOST_LINES + 3
    assert levels(column) == 20


def test_levels_are_those_of_the_longest_branch() -> None:
    """None without codes, one without a hierarchy."""
    assert [levels(column) for column in SMALL.columns] == [0, 0, 3, 1]
