"""Households: sizes, ages and places fit together, and the ages of all are the published ones."""

from __future__ import annotations

import numpy as np
import pytest

from deploy.synthetic import published
from deploy.synthetic.dice import Dice
from deploy.synthetic.households import HOUSEHOLDS_BY_SIZE, PEOPLE_PER_TILE, People, people_at

TILES = 800
# Members' ages hang together, so a sample of n people tells less than n independent ones: at most this factor, the
# largest household. A test that compares 17 groups at 6 sigmas fails by chance less than once in 10^7 runs.
DESIGN_EFFECT = 6.0
SIGMAS = 6.0
PATTERN_DIFFERENCE = 0.02  # the tile rounds shares of households to whole percents and follows a 2011 average size
ADULT_AGE = 20
PARENT_CHILD_GAP = 15
GAPS_TOO_SMALL = 0.05  # members who are not children of the first: siblings, friends, late partners


@pytest.fixture(scope="module")
def people() -> People:
    """Whole tiles of people, hence whole households."""
    return people_at(np.arange(TILES * PEOPLE_PER_TILE), Dice(3))


def test_a_tile_holds_the_published_household_sizes() -> None:
    """The fixed pattern is within rounding of the published shares of household sizes."""
    counts = np.array(list(HOUSEHOLDS_BY_SIZE.values()), dtype=np.float64)
    pattern = np.array([*counts[:4], counts[4:].sum()]) / counts.sum()
    assert np.abs(pattern - published.household_sizes()).max() < PATTERN_DIFFERENCE


def test_members_are_neighbours_and_share_the_division(people: People) -> None:
    """Households are runs of one to six consecutive people, all in one census division."""
    sizes = np.bincount(people.household)
    assert set(sizes.tolist()) == {1, 2, 3, 4, 5, 6}
    assert np.all(np.diff(people.household) >= 0)
    same_household = np.diff(people.household) == 0
    assert np.all(people.division[1:][same_household] == people.division[:-1][same_household])


def test_every_household_has_an_adult(people: People) -> None:
    """The first member is grown up, in every household."""
    first = np.flatnonzero(np.diff(people.household, prepend=-1))
    assert people.age[first].min() >= ADULT_AGE


def test_children_are_mostly_a_generation_younger(people: People) -> None:
    """In large households the members after the second are seldom close in age to the first."""
    first = np.flatnonzero(np.diff(people.household, prepend=-1))
    head_age = people.age[first][people.household]
    position = people.index - first[people.household]
    young = (position >= 2) & (people.age < ADULT_AGE)
    assert (head_age - people.age)[young].min() > 0
    assert np.mean((head_age - people.age)[young] < PARENT_CHILD_GAP) < GAPS_TOO_SMALL


def test_ages_follow_the_published_distribution(people: People) -> None:
    """Every five-year group has its published share, within the stated error."""
    expected = published.age_by_first_official_language().sum(axis=1)
    group = np.minimum(people.age // published.AGE_GROUP_YEARS, published.AGE_GROUPS - 1)
    found = np.bincount(group, minlength=published.AGE_GROUPS) / len(group)
    error = np.sqrt(DESIGN_EFFECT * expected * (1 - expected) / len(group))
    assert np.all(np.abs(found - expected) < SIGMAS * error)


def test_a_person_is_the_same_in_any_order(people: People) -> None:
    """Looking people up backwards gives the same people: no hidden sequence."""
    backwards = people_at(people.index[::-1].copy(), Dice(3))
    assert np.array_equal(backwards.age[::-1], people.age)
    assert np.array_equal(backwards.sex[::-1], people.sex)
    assert np.array_equal(backwards.division[::-1], people.division)
