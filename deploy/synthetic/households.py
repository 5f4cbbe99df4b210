"""Who lives where and with whom: household, age, sex and census division of the person at any index.

People are numbered household by household. Every 256 of them form a tile of exactly 100 households with a fixed
pattern of sizes (close to the published sizes, and 2.56 on average against a published 2.56 to 2.59), so that the
household of an index follows by division and two small tables, without walking from the start.

Invariants: members share the census division; position 0 is an adult of 20 or more; the age distribution is the published
one, because the ages of each role in a household are raked to it. Invented: the roles' starting weights, how close
the ages within a household lie, and the share of women in each role.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Final

import numpy as np

from deploy.synthetic import published
from deploy.synthetic.arrays import Booleans, Floats, Integers
from deploy.synthetic.dice import Dice, Stream
from deploy.synthetic.tables import ConditionalTable, rake

HOUSEHOLDS_BY_SIZE: Final = {1: 25, 2: 33, 3: 16, 4: 16, 5: 7, 6: 3}
_HOUSEHOLDS_PER_TILE: Final = sum(HOUSEHOLDS_BY_SIZE.values())
PEOPLE_PER_TILE: Final = sum(size * count for size, count in HOUSEHOLDS_BY_SIZE.items())

OLDEST_AGE: Final = 104
_OLDEST_GROUP_AGE: Final = (published.AGE_GROUPS - 1) * published.AGE_GROUP_YEARS
_SURVIVAL_AFTER_80: Final = 0.88  # each year of age from 80 on is this much rarer than the one before (invented)

# How many households with at least two people have no second adult (invented).
_LONE_PARENT_SHARE_OF_TWO: Final = 0.17
_LONE_PARENT_SHARE_OF_MORE: Final = 0.12

# How far, as a part of their own age distribution, members may lie from the household's (invented).
_PARTNER_SPREAD: Final = 0.06
_CHILD_SPREAD: Final = 0.12

# Shares of women (invented; together with 51 % of women overall in mind).
_WOMEN_AMONG_LONE_PARENTS: Final = 0.8
_WOMEN_AMONG_ALONE: Final = 0.50
_WOMEN_AMONG_ALONE_SENIORS: Final = 0.72
_WOMEN_AMONG_CHILDREN: Final = 0.488
_WOMEN_AMONG_SENIOR_RELATIVES: Final = 0.65
_COUPLES_OF_TWO_SEXES: Final = 0.985
_SENIOR_AGE: Final = 65


class Role(IntEnum):
    """A role in a household, on which an age distribution depends. CHILD stands for every further member, grandparents included."""

    ALONE = 0
    PARTNER = 1
    PARENT = 2
    CHILD = 3


# Starting weights of the age groups 0-4, ..., 80+ in each role (invented); raking turns them into distributions.
_ROLE_AGES: Final = np.array(
    [
        [0, 0, 0, 0, 0.4, 0.8, 0.9, 0.8, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.6, 2.2, 3.0],
        [0, 0, 0, 0, 0.4, 1.0, 0.7, 0.4, 0.4, 0.6, 1.1, 1.6, 2.0, 2.2, 2.2, 1.8, 0.9],
        [0, 0, 0, 0, 0.3, 0.7, 1.3, 1.6, 1.6, 1.6, 1.5, 1.0, 0.6, 0.3, 0.2, 0.1, 0.05],
        [1, 1, 1, 1, 0.8, 0.4, 0.15, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.1, 0.15, 0.2, 0.2],
    ]
)


@dataclass(frozen=True, slots=True)
class People:
    """Columns of equal length; codes are positions in `codes`."""

    index: Integers
    household: Integers
    age: Integers
    sex: Integers
    division: Integers

    def at(self, places: Integers) -> People:
        """Some of them."""
        return People(
            self.index[places], self.household[places], self.age[places], self.sex[places], self.division[places]
        )


@dataclass(frozen=True, slots=True)
class _Standing:
    """Each person's position in the household."""

    position: Integers
    role: Integers
    lone_parent: Booleans
    """Whether the household has one, on every member."""


def people_at(index: Integers, dice: Dice) -> People:
    """The people at these indices, in this order; the same index always gives the same person."""
    tile, slot = np.divmod(index, PEOPLE_PER_TILE)
    household = tile * _HOUSEHOLDS_PER_TILE + _slot_household()[slot]
    standing = _standings(slot, dice.roll(Stream.HOUSEHOLD_TYPE, household))
    age = _ages(standing.role, index, household, dice)
    return People(
        index=index,
        household=household,
        age=age,
        sex=_sexes(standing, age, index, household, dice),
        division=_division_table().draw(np.zeros_like(index), dice.roll(Stream.HOUSEHOLD_DIVISION, household)),
    )


@cache
def _tile_sizes() -> Integers:
    """The size of each household of a tile, small and large ones mixed (37 has no factor in common with 100)."""
    ascending = [size for size, count in HOUSEHOLDS_BY_SIZE.items() for _ in range(count)]
    return np.array([ascending[(37 * place) % _HOUSEHOLDS_PER_TILE] for place in range(_HOUSEHOLDS_PER_TILE)])


@cache
def _slot_household() -> Integers:
    return np.repeat(np.arange(_HOUSEHOLDS_PER_TILE), _tile_sizes())


@cache
def _slot_position() -> Integers:
    return np.concatenate([np.arange(size) for size in _tile_sizes()])


@cache
def _slot_size() -> Integers:
    return np.repeat(_tile_sizes(), _tile_sizes())


def _standings(slot: Integers, household_type: Floats) -> _Standing:
    size, position = _slot_size()[slot], _slot_position()[slot]
    lone = household_type < _lone_share(size)
    adults = np.where(lone, 1, 2)
    childless = np.where(size == 1, Role.ALONE, Role.PARTNER)
    with_children = np.where(position < adults, Role.PARENT, Role.CHILD)
    return _Standing(position, np.where(size <= adults, childless, with_children), lone)


def _lone_share(size: Integers) -> Floats:
    return np.array([0.0, 0.0, _LONE_PARENT_SHARE_OF_TWO, *[_LONE_PARENT_SHARE_OF_MORE] * 4])[size]


@cache
def _role_shares() -> Floats:
    """The share of the population with each role, from the tile and the shares of lone parents."""
    shares = np.zeros(len(Role))
    for slot in range(PEOPLE_PER_TILE):
        lone_share = _lone_share(_slot_size()[[slot]])[0]
        for household_type, weight in ((0.0, lone_share), (1.0, 1.0 - lone_share)):
            if weight > 0:
                shares[_standings(np.array([slot]), np.array([household_type])).role[0]] += weight
    return shares / PEOPLE_PER_TILE


@cache
def _age_table() -> ConditionalTable:
    """Single years of age by role: groups raked to role shares and published ages, then spread over their years."""
    by_group = rake(
        _ROLE_AGES,
        [((0,), _role_shares()), ((1,), published.age_by_first_official_language().sum(axis=1))],
    )
    years = np.repeat(by_group[:, :-1] / published.AGE_GROUP_YEARS, published.AGE_GROUP_YEARS, axis=1)
    fading = _SURVIVAL_AFTER_80 ** np.arange(OLDEST_AGE + 1 - _OLDEST_GROUP_AGE)
    oldest = by_group[:, -1:] * (fading / fading.sum())
    return ConditionalTable(np.concatenate([years, oldest], axis=1))


def _ages(role: Integers, index: Integers, household: Integers, dice: Dice) -> Integers:
    """Members stand near one place in their roles' age distributions: partners alike, old parents with old children.

    The place is reflected at 0 and 1, which leaves a uniform number uniform: nobody's age distribution changes.
    """
    spread = np.array([0.0, _PARTNER_SPREAD, _PARTNER_SPREAD, _CHILD_SPREAD])[role]
    place = dice.roll(Stream.HOUSEHOLD_AGE, household)
    place += spread * (2.0 * dice.roll(Stream.PERSON_AGE, index) - 1.0)
    place = np.abs(place)
    place = np.where(place >= 1.0, 2.0 - place, place)
    # Back to multiples of 2^-32 below 1, as tables expect.
    place = np.minimum(np.floor(place * 2.0**32), 2.0**32 - 1.0) * 2.0**-32
    return _age_table().draw(role, place)


def _sexes(standing: _Standing, age: Integers, index: Integers, household: Integers, dice: Dice) -> Integers:
    """0 for women, 1 for men; adults of a couple mostly of two sexes."""
    senior = age >= _SENIOR_AGE
    own = dice.roll(Stream.PERSON_SEX, index)
    women_among_heads = np.where(standing.lone_parent, _WOMEN_AMONG_LONE_PARENTS, 0.5)
    head_is_woman = dice.roll(Stream.HOUSEHOLD_HEAD_SEX, household) < women_among_heads
    alone = own < np.where(senior, _WOMEN_AMONG_ALONE_SENIORS, _WOMEN_AMONG_ALONE)
    child = own < np.where(senior, _WOMEN_AMONG_SENIOR_RELATIVES, _WOMEN_AMONG_CHILDREN)
    couple = np.where(standing.position == 0, head_is_woman, head_is_woman ^ (own < _COUPLES_OF_TWO_SEXES))
    woman = np.select([standing.role == Role.ALONE, standing.role == Role.CHILD], [alone, child], couple)
    return np.where(woman, 0, 1)


@cache
def _division_table() -> ConditionalTable:
    return ConditionalTable(published.divisions().population[np.newaxis, :])
