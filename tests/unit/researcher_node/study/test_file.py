"""A study file that is wrong says where, what, and what to type instead."""

from __future__ import annotations

from fractions import Fraction

import pytest
from fakes.dictionaries import CENSUS_DICTIONARY, HEALTH_DICTIONARY

from broker_common.errors import InvalidRequestError
from broker_common.query.canonical import describe
from broker_common.query.question import read_question
from researcher_node.study.design import Study, design
from researcher_node.study.file import Bands, Codes, Named, parse_study_file

WHOLE = """\
study: Francophones and angioplasty
where: age >= 18
by:
  age: [18, 40, 65]
  sex: all
  region:
    Ottawa: census_division = 'Ottawa'
    elsewhere: census_division <> 'Ottawa'
count:
  French: mother_tongue = 'French'
  English: mother_tongue = 'English'
of: all
estimate:
  - share: French
  - share: French
    of: [French, English]
  - difference: French
    reference: {sex: male}
  - ratio: French
    reference: {sex: male, age: 18-39}
  - rate_ratio: French
    event: procedure = 'angioplasty'
    against: English
  - standardised_rate: French
    over: age
    weights: [0.5, 0.3, 0.2]
  - trend: French
    over: age
scale: 20
fraction: 0.5
project: official-languages
expect:
  people: 2000
  share: {French: 0.05, English: 0.6}
  groups:
    - {age: 65+, people: 3000}
    - {region: Ottawa, share: 0.15}
"""


def made(text: str) -> Study:
    """The study of a file."""
    return design(parse_study_file(text, "s.yaml"), HEALTH_DICTIONARY, CENSUS_DICTIONARY, "usual")


def test_a_whole_file_is_read() -> None:
    """Every key, with what it means."""
    study = made(WHOLE)
    file = study.file
    assert [type(split.groups) for split in file.by] == [Bands, Codes, Named]
    assert (file.scale, file.margin, file.fraction_millionths, study.project) == (
        20,
        None,
        500_000,
        "official-languages",
    )
    assert study.question == read_question("mother_tongue by 'French', 'English', rest")
    assert study.cells == ("French", "English", "rest")
    assert study.splits[0] == ("age", ("18-39", "40-64", "65+"))
    assert file.expect is not None
    assert file.expect.share == {"French": Fraction("0.05"), "English": Fraction("0.6")}
    assert [(group.people, group.share) for group in file.expect.groups] == [
        (3000, None),
        (None, {"": Fraction("0.15")}),
    ]
    # Twelve groups, and for each of them the people with the event and without it.
    assert len(study.asks) == 3 * 12
    assert len({describe(ask.where) for ask in study.asks}) == 36
    kinds = [row.kind for row in study.rows]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "share": 24,
        "difference": 6,
        "ratio": 10,
        "rate_ratio": 12,
        "standardised_rate": 4,
        "trend": 4,
    }


def test_rows_name_their_questions() -> None:
    """Which answers each row is computed from: groups, references, events, sums over groups."""
    study = made(WHOLE)
    first = {kind: next(row for row in study.rows if row.kind == kind) for kind in {row.kind for row in study.rows}}
    where = {kind: [describe(study.asks[place].where) for place in row.asks] for kind, row in first.items()}
    assert where["share"] == ["sex = 'female' and census_division = 'Ottawa' and age >= 18 and age <= 39"]
    assert (first["difference"].group, first["difference"].reference) == (
        ("18-39", "female", "Ottawa"),
        ("18-39", "male", "Ottawa"),
    )
    assert where["difference"][1] == "sex = 'male' and census_division = 'Ottawa' and age >= 18 and age <= 39"
    with_event, without = where["rate_ratio"]
    assert "and procedure = 'angioplasty'" in with_event
    assert "procedure <> 'angioplasty'" in without
    assert (first["rate_ratio"].part_cells, first["rate_ratio"].against_cells) == ((0,), (1,))
    assert first["trend"].group == (None, "female", "Ottawa")
    assert [int(number) for number in first["trend"].numbers] == [1, 2, 3]
    assert [study.asks[place].group[0] for place in first["trend"].asks] == ["18-39", "40-64", "65+"]
    assert [study.asks[place].group[1:] for place in first["trend"].asks] == [("female", "Ottawa")] * 3


def test_a_single_question_is_a_study() -> None:
    """Without `by` there is one group; without estimates, counts alone."""
    study = made("where: procedure = 'angioplasty'\ncount: mother_tongue\n")
    assert [describe(ask.where) for ask in study.asks] == ["procedure = 'angioplasty'"]
    assert study.cells == CENSUS_DICTIONARY.column("mother_tongue").values
    assert study.rows == ()
    assert study.project == "usual"


def test_a_variable_that_a_part_was_asked_of() -> None:
    """`of: all` is everybody who was asked, and the study knows how they were drawn."""
    study = made("where: age >= 45\ncount: home_language = 'French'\nof: all\nestimate:\n  - share: French\n")
    assert study.cells == ("French", "rest")
    column = CENSUS_DICTIONARY.column("home_language")
    assert study.part == column.asked_of
    assert study.part is not None
    assert study.part.not_asked not in {value for cell in study.question.cells for value in cell.values}
    assert made("where: age >= 45\ncount: mother_tongue = 'French'\n").part is None


def test_where_there_is_one_entry_its_name_need_not_be_said() -> None:
    """`reference: male` is as good as `reference: {sex: male}`."""
    text = (
        "by:\n  sex: all\ncount: mother_tongue = 'French'\nof: all\nestimate:\n  - ratio: French\n    reference: {}\n"
    )
    assert made(text.format("male")).rows == made(text.format("{sex: male}")).rows


def test_only_what_estimates_take_is_asked() -> None:
    """A rate ratio takes people with the event and without it, and not all of them a third time."""
    text = "where: age >= 45\ncount: mother_tongue = 'French'\nof: all\nestimate:\n  - rate_ratio: French\n    event: procedure = 'angioplasty'\n"
    assert [describe(ask.where) for ask in made(text).asks] == [
        "procedure = 'angioplasty' and age >= 45",
        "procedure <> 'angioplasty' and age >= 45",
    ]


def test_the_key_follows_the_meaning() -> None:
    """Spelling, order, titles, estimates and expectations do not make another study; what is asked does."""
    text = "where: age >= 65 and sex = 'male'\ncount: mother_tongue = 'French'\n"
    key = made(text).key
    same = [
        "study: a title\n" + text,
        text.replace("age >= 65 and sex = 'male'", "SEX = 'male'   and age >= 65"),
        text + "expect: {people: 10, share: 0.5}\n",
        text.replace("mother_tongue = 'French'", "{francophone: \"mother_tongue in ('French')\"}"),
    ]
    other = [
        text.replace("65", "66"),
        text.replace("'French'", "'English'"),
        text + "of: all\n",
        text + "scale: 20\n",
        text + "fraction: 0.5\n",
        text + "project: another\n",
    ]
    assert {made(each).key for each in same} == {key}
    assert len({made(each).key for each in other} | {key}) == len(other) + 1


BASE = "where: age >= 18\nby:\n  sex: all\ncount: mother_tongue = 'French'\nof: all\n"
# The file, the line and sentence of its error, and a part of what it says to type.
BAD = [
    ("", 1, "The file is empty.", "docs/studies.md"),
    ("- 1\n", 1, "The file is not a list of keys with values.", "Write KEY: VALUE lines."),
    ("where: age >= 18\n", 1, "There is no 'count'.", "count: mother_tongue = 'French'"),
    ("count: all\n", 1, "There is neither 'where' nor 'by'.", "where: procedure = 'angioplasty'"),
    ("where: age >= 18\ncuont: all\n", 2, "The file has no key 'cuont'.", "Did you mean: count"),
    ("where: age >= 18\ncount: all\nwhere: age >= 19\n", 3, "'where' is listed twice.", "Remove or rename"),
    ("where: 'age >= 18\ncount: all\n", 3, "This is not YAML: found unexpected end of stream.", "double quotes"),
    ("where: age: 18\ncount: all\n", 1, "This is not YAML: mapping values are not allowed here.", "double quotes"),
    ("where: &a age >= 18\ncount: *a\n", 2, "This is not YAML: an alias (*) is used.", "double quotes"),
    ("a\0b", 1, "This is not YAML: a character or a nesting that no study file has.", "UTF-8"),
    ("[" * 5000, 1, "This is not YAML: a character or a nesting that no study file has.", "UTF-8"),
    ("x" * 70_000, 1, "The file is longer than 65536 characters.", "several files"),
    ("where: []\ncount: all\n", 1, "A word is missing here.", "Write one value"),
    ("where: agee >= 18\ncount: all\n", 1, "'where': There is no column 'agee'.", "Did you mean: age"),
    ("where: age >= 18 and\ncount: all\n", 1, "'where': The condition cannot be read: ", "Write it like: age >= 65"),
    ("where: procedure = 'angioplastie'\ncount: all\n", 1, "'where': Column 'procedure' has no code 'angioplastie'.", "'angioplasty'"),
    ("where: age >= 18\ncount: mother_tongue = 'Frnch'\n", 2, "'count': Language variable 'mother_tongue' has no value 'Frnch'.", "'French'"),
    ("where: age >= 18\ncount:\n  - mother_tongue = 'French'\n  - home_language = 'French'\n", 3, "'count': --count names several variables", "each variable"),
    ("where: age >= 18\ncount: {a: mother_tongue}\n", 2, "'a' names 7 cells.", "in (...)"),
    ("where: age >= 18\ncount:\n  - mother_tongue = 'French'\n  - mother_tongue = 'French'\n", 3, "'count': --count names 'French' in two cells", "one cell only"),
    ("where: age >= 18\ncount: mother_tongue = 'French'\nof: everybody\n", 3, "'of' is 'everybody'.", "of: all"),
    ("by: {age: [40, 18]}\ncount: all\n", 1, "The bands of 'age' do not ascend: 18 follows 40.", "smallest first"),
    ("by: {sex: [0, 18]}\ncount: all\n", 1, "Column 'sex' holds codes.", "Bands need a column of whole numbers"),
    ("by: {age: all}\ncount: all\n", 1, "Column 'age' holds whole numbers.", "'all' and codes a column of codes"),
    ("by: {agee: all}\ncount: all\n", 1, "'by': There is no column 'agee'.", "Did you mean: age"),
    ("by: {sex: [female, mal]}\ncount: all\n", 1, "'sex': Column 'sex' has no code 'mal'.", "'male'"),
    ("by: {sex: some}\ncount: all\n", 1, "'sex' says no groups.", "[0, 18, 40, 65]"),
    ("by: {people: {a: age >= 3}}\ncount: all\n", 1, "An entry of 'by' cannot be called 'people'.", "another name"),
    ("by:\n  a:\n    young: agee < 3\ncount: all\n", 3, "'young': There is no column 'agee'.", "age"),
    ("by: {census_division: all, procedure: all}\ncount: all\n", 1, "'by' makes 980 groups, and a study has at most 256.", "fewer entries"),
    (BASE + "estimate: share\n", 6, "'estimate' is not a list.", "- share: French"),
    (BASE + "estimate:\n  - shares: French\n", 7, "An estimate has no key 'shares'.", "Did you mean: share"),
    (BASE + "estimate:\n  - share: French\n    ratio: French\n", 7, "An estimate has one kind, and this has 2.", "share, difference"),
    (BASE + "estimate:\n  - share: Frnch\n", 7, "No cell is called 'Frnch'.", "Did you mean: French"),
    (BASE + "estimate:\n  - share: French\n    over: sex\n", 8, "'share' takes no 'over'.", "It takes: of"),
    (BASE + "estimate:\n  - ratio: French\n", 7, "'ratio' needs 'reference'.", "reference: male"),
    (BASE + "estimate:\n  - ratio: French\n    reference: mail\n", 8, "No group of 'sex' is called 'mail'.", "Did you mean: male"),
    (BASE + "estimate:\n  - ratio: French\n    reference: {region: male}\n", 8, "No entry of 'by' is called 'region'.", "Entries: sex"),
    (BASE.replace("of: all\n", "") + "estimate:\n  - share: French\n", 6, "A share of all that is counted is always 1", "'of: all'"),
    (BASE.replace("of: all\n", "") + "estimate:\n  - rate_ratio: French\n    event: age >= 65\n", 6, "The rate among 'French' is compared with itself.", "'against'"),
    (BASE + "estimate:\n  - rate_ratio: French\n    event: agee >= 65\n", 8, "'event': There is no column 'agee'.", "age"),
    (BASE + "estimate:\n  - standardised_rate: French\n    over: sex\n    weights: [1, 2, 3]\n", 7, "There are 3 numbers for the 2 groups of 'sex'.", "female, male"),
    (BASE + "estimate:\n  - standardised_rate: French\n    over: sex\n    weights: [0, 0]\n", 7, "All weights are zero.", "standard population"),
    (BASE + "estimate:\n  - standardised_rate: French\n    over: sex\n    weights: [1, -2]\n", 9, "'weights' holds '-2'.", "not below zero"),
    (BASE + "estimate:\n  - trend: French\n    over: sex\n    scores: [3, 3]\n", 7, "A trend needs two groups or more, with different scores.", "[1, 2, 3]"),
    (BASE + "scale: 1e3\n", 6, "'scale' is '1e3'.", "in digits alone"),
    (BASE + "scale: 0\n", 6, "'scale' is '0'.", "from 1 to 1000000"),
    (BASE + "scale: 30\nmargin: 90\n", 7, "'scale' and 'margin' are both given.", "Keep one"),
    (BASE + "fraction: 1.5\n", 6, "'fraction' is '1.5'.", "0.25"),
    (BASE + "fraction: 0.0000001\n", 6, "'fraction' is '0.0000001'.", "six decimals"),
    (BASE + "expect: {people: 10}\n", 6, "'expect' does not say 'share'.", "people: 3000"),
    (BASE + "expect: {people: many, share: 0.1}\n", 6, "'people' is 'many'.", "whole number"),
    (BASE + "expect: {people: 10, share: 5%}\n", 6, "'share' is '5%'.", "0.05"),
    (BASE + "expect: {people: 10, share: {Frnch: 0.1}}\n", 6, "No cell is called 'Frnch'.", "French"),
    (BASE + "expect:\n  people: 10\n  share: 0.1\n  groups:\n    - {sex: mail, people: 3}\n", 10, "No group of 'sex' is called 'mail'.", "male"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "sentence", "remedy"), BAD, ids=[bad[2][:50] for bad in BAD])
def test_error_says_where_what_and_what_to_type(text: str, line: int, sentence: str, remedy: str) -> None:
    """File and line first, as editors and people look for them."""
    with pytest.raises(InvalidRequestError) as caught:
        made(text)
    error = caught.value
    assert error.code == "STUDY_INVALID"
    assert error.text.startswith(f"s.yaml:{line}: {sentence}"), error.text
    assert remedy in error.hint, error.hint


def test_conditions_may_stand_on_several_lines() -> None:
    """As YAML folds them."""
    study = made("where: >\n  age >= 65\n  and sex = 'male'\ncount: all\n")
    assert describe(study.asks[0].where) == "sex = 'male' and age >= 65"
