"""The language model, short form and long form: its expected shares are the published ones, and its variables do not contradict each other."""

from __future__ import annotations

import numpy as np
import pytest

from deploy.synthetic import published
from deploy.synthetic.arrays import Floats
from deploy.synthetic.codes import CENSUS_DIVISIONS, bare_codes, values_of
from deploy.synthetic.dice import Dice
from deploy.synthetic.households import PEOPLE_PER_TILE, people_at
from deploy.synthetic.language import first_official_languages, is_francophone
from deploy.synthetic.long_form import joint_shares, joint_shares_of_other_home

EXACT = 1e-9  # the model is solved for these shares; only rounding is left
ALIKE_HOUSEMATES = 0.6  # of a francophone's housemates; 0.05 would be no coherence at all

# Axes of the joint shares.
DIVISION, FIRST_OFFICIAL, MOTHER_TONGUE, HOME, KNOWLEDGE = range(5)
VARIABLES = {
    MOTHER_TONGUE: "mother_tongue",
    HOME: "home_language",
    KNOWLEDGE: "knowledge_of_official_languages",
}
# Which languages each answer names.
ANSWERS = [{word for word in ("English", "French", "ther") if word in value} for value in values_of("mother_tongue")]


def shares_along(axis: int) -> Floats:
    """The expected shares of one variable's codes."""
    joint = joint_shares()
    shares: Floats = joint.sum(axis=tuple(other for other in range(joint.ndim) if other != axis))
    return shares


def test_the_shares_of_everybody_add_up_and_none_is_negative() -> None:
    """The joint table is a distribution."""
    joint = joint_shares()
    assert joint.min() >= 0
    assert joint.sum() == pytest.approx(1.0, abs=EXACT)


@pytest.mark.parametrize(
    ("axis", "value", "name"),
    [
        *((MOTHER_TONGUE, value, f"mother_tongue_{value}") for value in values_of("mother_tongue")),
        (HOME, "English", "home_english"),
        (HOME, "French", "home_french"),
        (HOME, "English and other", "home_english_and_other"),
        (KNOWLEDGE, "French only", "knowledge_french_only"),
        (KNOWLEDGE, "English and French", "knowledge_english_and_french"),
    ],
)
def test_a_published_share_is_met_exactly(axis: int, value: str, name: str) -> None:
    """Raking and solving leave the province where the publications have it."""
    name = name.lower().replace(",", "").replace(" ", "_")
    found = shares_along(axis)[values_of(VARIABLES[axis]).index(value)]
    assert found == pytest.approx(published.share(name), abs=EXACT)


def test_french_at_home_is_met_exactly() -> None:
    """As one of several languages spoken most often, and as one spoken regularly besides."""
    most_often = sum(share for share, answer in zip(shares_along(HOME), ANSWERS, strict=True) if "French" in answer)
    assert most_often == pytest.approx(published.share("home_french_in_any_answer"), abs=EXACT)
    others = joint_shares_of_other_home().sum(axis=0)
    values = values_of("other_home_languages")[:-1]
    regularly = sum(share for share, value in zip(others, values, strict=True) if "French" in value)
    assert regularly == pytest.approx(published.share("home_french_regularly"), abs=EXACT)


def test_first_official_language_is_met_exactly() -> None:
    """The four shares of first official language are the published ones."""
    expected = published.age_by_first_official_language().sum(axis=0)
    assert np.abs(shares_along(FIRST_OFFICIAL) - expected).max() < EXACT


def test_divisions_have_their_published_francophones() -> None:
    """Where a division's francophones are published the model has that share, exactly."""
    by_division = joint_shares().sum(axis=(MOTHER_TONGUE, HOME, KNOWLEDGE))
    found = by_division[:, is_francophone(np.arange(4))].sum(axis=1) / by_division.sum(axis=1)
    expected = published.divisions().francophone_share
    known = ~np.isnan(expected)
    assert np.abs(found - expected)[known].max() < EXACT
    names = bare_codes(CENSUS_DIVISIONS)
    assert found[names.index("Prescott and Russell")] > 0.6
    assert found[names.index("Toronto")] < 0.03


def derived(knowledge: str, mother_tongue: set[str], home: set[str]) -> str:
    """The first official language that Statistics Canada derives."""
    if knowledge in {"English only", "French only"}:
        return knowledge.removesuffix(" only")
    for answer in (mother_tongue, home):
        official = answer & {"English", "French"}
        if len(official) == 1:
            return official.pop()
    return "Neither" if knowledge == "Neither" else "English and French"


def test_first_official_language_follows_from_the_others() -> None:
    """Nobody contradicts the derivation: knowledge decides first, then mother tongue, then the language at home."""
    by_all = joint_shares().sum(axis=DIVISION)
    first = values_of("first_official_language")
    knows = values_of("knowledge_of_official_languages")
    found = {tuple(place) for place in np.argwhere(by_all > 0).tolist()}
    assert len(found) > 40
    for official, tongue, home, knowledge in found:
        assert first[official] == derived(knows[knowledge], ANSWERS[tongue], ANSWERS[home])


def test_housemates_mostly_share_the_language() -> None:
    """Those who live with a francophone are mostly francophone, far beyond chance, but not always."""
    dice = Dice(3)
    people = people_at(np.arange(400 * PEOPLE_PER_TILE), dice)
    francophone = is_francophone(first_official_languages(people, dice))
    size = np.bincount(people.household)
    speakers = np.bincount(people.household, francophone)
    alike = (speakers * (speakers - 1)).sum() / (speakers * (size - 1)).sum()
    assert ALIKE_HOUSEMATES < alike < 1.0
