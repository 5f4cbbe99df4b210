"""The language model: its expected shares are the published ones, and its variables do not contradict each other."""

from __future__ import annotations

import numpy as np
import pytest

from deploy.synthetic import published
from deploy.synthetic.arrays import Floats
from deploy.synthetic.codes import CENSUS_DIVISIONS, bare_codes
from deploy.synthetic.dice import Dice
from deploy.synthetic.households import PEOPLE_PER_TILE, people_at
from deploy.synthetic.language import is_francophone, joint_shares, languages

EXACT = 1e-9  # the model is solved for these shares; only rounding is left
ENGLISH, FRENCH, BOTH, LAST = range(4)
ALIKE_HOUSEMATES = 0.6  # of a francophone's housemates; 0.05 would be no coherence at all

# Axes of the joint shares.
DIVISION, FIRST_OFFICIAL, MOTHER_TONGUE, HOME, KNOWLEDGE = range(5)


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
    ("axis", "code", "name"),
    [
        (MOTHER_TONGUE, ENGLISH, "mother_tongue_english"),
        (MOTHER_TONGUE, FRENCH, "mother_tongue_french"),
        (MOTHER_TONGUE, BOTH, "mother_tongue_english_and_french"),
        (HOME, ENGLISH, "home_english"),
        (HOME, FRENCH, "home_french"),
        (KNOWLEDGE, FRENCH, "knowledge_french_only"),
        (KNOWLEDGE, BOTH, "knowledge_english_and_french"),
    ],
)
def test_a_published_share_is_met_exactly(axis: int, code: int, name: str) -> None:
    """Raking and solving leave the province where the publications have it."""
    assert shares_along(axis)[code] == pytest.approx(published.share(name), abs=EXACT)


def test_first_official_language_is_met_exactly() -> None:
    """The four shares of first official language are the published ones."""
    expected = published.age_by_first_official_language().sum(axis=0)
    assert np.abs(shares_along(FIRST_OFFICIAL) - expected).max() < EXACT


def test_divisions_have_their_published_francophones() -> None:
    """Where a division's francophones are published the model has that share, exactly."""
    by_division = joint_shares().sum(axis=(MOTHER_TONGUE, HOME, KNOWLEDGE))
    found = by_division[:, [FRENCH, BOTH]].sum(axis=1) / by_division.sum(axis=1)
    expected = published.divisions().francophone_share
    known = ~np.isnan(expected)
    assert np.abs(found - expected)[known].max() < EXACT
    names = bare_codes(CENSUS_DIVISIONS)
    assert found[names.index("Prescott and Russell")] > 0.6
    assert found[names.index("Toronto")] < 0.03


def test_first_official_language_follows_from_the_others() -> None:
    """Nobody contradicts the derivation: knowledge decides first, then mother tongue."""
    by_knowledge = joint_shares().sum(axis=(DIVISION, MOTHER_TONGUE, HOME))  # first official language, knowledge
    assert by_knowledge[ENGLISH, [FRENCH, LAST]].sum() == 0
    assert by_knowledge[FRENCH, [ENGLISH, LAST]].sum() == 0
    assert by_knowledge[BOTH, [ENGLISH, FRENCH, LAST]].sum() == 0
    assert by_knowledge[LAST, [ENGLISH, FRENCH, BOTH]].sum() == 0
    knows_both = joint_shares().sum(axis=(DIVISION, HOME))[:, :, BOTH]  # first official language, mother tongue
    assert knows_both[[FRENCH, BOTH], ENGLISH].sum() == 0
    assert knows_both[[ENGLISH, BOTH], FRENCH].sum() == 0


def test_housemates_mostly_share_the_language() -> None:
    """Those who live with a francophone are mostly francophone, far beyond chance, but not always."""
    dice = Dice(3)
    people = people_at(np.arange(400 * PEOPLE_PER_TILE), dice)
    francophone = is_francophone(languages(people, dice).first_official)
    size = np.bincount(people.household)
    speakers = np.bincount(people.household, francophone)
    alike = (speakers * (speakers - 1)).sum() / (speakers * (size - 1)).sum()
    assert ALIKE_HOUSEMATES < alike < 1.0
