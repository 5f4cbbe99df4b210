"""The long form: whole households, in the published proportion, with answers that do not contradict each other.

Statistical limits are SIGMAS standard errors; seeds are fixed, so a passing test stays passing. For a fresh seed one comparison fails by
chance about twice in 10^9.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from fakes.dictionaries import CENSUS_DICTIONARY

from deploy.synthetic import published
from deploy.synthetic.arrays import Booleans, Floats, Integers
from deploy.synthetic.codes import asked_share, values_of
from deploy.synthetic.dice import Dice
from deploy.synthetic.households import PEOPLE_PER_TILE, People, people_at
from deploy.synthetic.language import first_official_languages, mother_tongues
from deploy.synthetic.long_form import WORKING_AGE, got_the_form, long_form

SIGMAS = 6.0
TILES = 1000
# Deviation of a share at work from the published one: who works depends on age, which the model leaves out.
AT_WORK = 0.005
# An effect is measured in the people themselves; a rare value's is not worth a comparison.
ENOUGH_PEOPLE = 2_000
DICE = Dice(11)


@pytest.fixture(scope="module")
def people() -> People:
    """A quarter of a million."""
    return people_at(np.arange(TILES * PEOPLE_PER_TILE), DICE)


@pytest.fixture(scope="module")
def answers(people: People) -> dict[str, Integers]:
    """Their answers if everybody were asked, and their mother tongues."""
    first_official = first_official_languages(people, DICE)
    mother_tongue = mother_tongues(people, first_official, DICE)
    form = long_form(people, first_official, mother_tongue, DICE).by_variable()
    return {"mother_tongue": mother_tongue, "first_official_language": first_official, **form}


def naming(language: str, variable: str) -> Booleans:
    """Which values of a variable name a language; 'ther' is a non-official one, also in combined values."""
    return np.array([language in value for value in values_of(variable)])


def names(answers: dict[str, Integers], language: str, variable: str) -> Booleans:
    """Who named a language."""
    named: Booleans = naming(language, variable)[answers[variable]]
    return named


def test_every_published_variable_is_answered_with_a_published_value(answers: dict[str, Integers]) -> None:
    """No variable is missing, and nobody who is asked has the value of those who are not."""
    assert set(answers) == set(CENSUS_DICTIONARY.names)
    for variable, numbers in answers.items():
        assert numbers.min() >= 0
        assert numbers.max() < len(CENSUS_DICTIONARY.column(variable).asked)


def test_whole_households_get_the_form_in_the_published_proportion(people: People) -> None:
    """All members or none, one household in five."""
    got = got_the_form(people, DICE)
    members, asked = np.bincount(people.household), np.bincount(people.household, got)
    assert set(np.unique(asked / members)) == {0.0, 1.0}
    share = asked_share("home_language")
    assert abs((asked > 0).mean() - share) < SIGMAS * sqrt(share * (1 - share) / len(members))


def test_no_language_is_spoken_regularly_besides_itself(answers: dict[str, Integers]) -> None:
    """An official language most often named is not named again."""
    for most_often, besides in (("home_language", "other_home_languages"), ("work_language", "other_work_languages")):
        for language in ("English", "French"):
            assert not np.any(names(answers, language, most_often) & names(answers, language, besides))


def test_only_speakers_speak(answers: dict[str, Integers]) -> None:
    """A person who speaks an official language at home besides another can converse in it."""
    knowledge = "knowledge_of_official_languages"
    for language in ("English", "French"):
        speaks = names(answers, language, "other_home_languages")
        assert speaks.sum() > ENOUGH_PEOPLE
        assert np.all(names(answers, language, knowledge)[speaks])


def test_those_who_do_not_work_are_the_same_in_both_questions(people: People, answers: dict[str, Integers]) -> None:
    """And all children are among them."""
    idle, again = (names(answers, "No work", variable) for variable in ("work_language", "other_work_languages"))
    assert np.array_equal(idle, again)
    assert np.all(idle[people.age < WORKING_AGE])
    assert 0.5 < (~idle).mean() < 0.65


def test_francophone_is_what_the_dictionary_says(answers: dict[str, Integers]) -> None:
    """Worked out from the published words of the values, person by person."""
    tongue_is_french = names(answers, "French", "mother_tongue")
    tongue_is_other = ~tongue_is_french & ~names(answers, "English", "mother_tongue")
    at_home = names(answers, "French", "home_language") | names(answers, "French", "other_home_languages")
    converses = names(answers, "French", "knowledge_of_official_languages")
    expected = tongue_is_french | (tongue_is_other & at_home & converses)
    assert np.array_equal(names(answers, "Yes", "francophone"), expected)
    # Neither part of the definition is empty.
    assert min(tongue_is_french.sum(), (expected & tongue_is_other).sum()) > 500


@pytest.mark.parametrize(
    ("variable", "language", "figure"),
    [
        ("work_language", "English", "work_english_in_any_answer"),
        ("work_language", "French", "work_french_in_any_answer"),
        ("other_work_languages", "English", "work_english_regularly"),
        ("other_work_languages", "French", "work_french_regularly"),
    ],
)
def test_languages_at_work_are_about_as_published(
    answers: dict[str, Integers], variable: str, language: str, figure: str
) -> None:
    """Within half a percentage point and chance."""
    works = ~names(answers, "No work", variable)
    found = names(answers, language, variable)[works].mean()
    chance = SIGMAS * sqrt(found * (1 - found) * 2 / works.sum())
    assert abs(found - published.share(figure)) < AT_WORK + chance


def design_effect(named: Floats, household: Integers) -> float:
    """How much more the share varies if households are drawn than if people are."""
    apart = named - named.mean()
    return float((np.bincount(household, apart) ** 2).sum() / (apart**2).sum())


@pytest.mark.parametrize("variable", [column.name for column in CENSUS_DICTIONARY.columns if column.asked_of])
def test_the_declared_design_effect_is_neither_too_small_nor_far_too_large(
    people: People, answers: dict[str, Integers], variable: str
) -> None:
    """For each value that is not rare: intervals widened by it cover at least what is promised."""
    column = CENSUS_DICTIONARY.column(variable)
    assert column.asked_of is not None
    effects = [
        design_effect((answers[variable] == number).astype(np.float64), people.household)
        for number in range(len(column.asked))
        if np.count_nonzero(answers[variable] == number) > ENOUGH_PEOPLE
    ]
    assert len(effects) > 1
    declared = float(column.asked_of.design_effect)
    # The measured ones have an error of their own, of about a twentieth.
    assert 0.8 * declared < max(effects) < 1.05 * declared
