"""The mother tongue and first official language of the person at any index, consistent with the published margins.

1. First official language given census division and age: one table raked to the francophone share of each division
   and to the province's age by first official language.
2. Mother tongue given first official language and linguistic zone: the published tables of Toronto and Halton in their
   zones, and what the province leaves over elsewhere. First among four groups of mother tongues, then, within a group, whether there is a
   non-official language beside the official ones.

`long_form` has the other variables of the long form.

Invented: that the interplay of the tables is no stronger than their margins demand; that members of a household
follow it in 88 of 100 cases; and that half as many people named a non-official language beside an official one in 2006 as in 2016.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

from deploy.synthetic import published
from deploy.synthetic.arrays import Booleans, Floats, Integers
from deploy.synthetic.codes import CENSUS_DIVISIONS, bare_codes, values_of
from deploy.synthetic.dice import Dice, Stream
from deploy.synthetic.households import People
from deploy.synthetic.tables import ConditionalTable, rake

# Positions of the published values; the languages of an answer stand alike wherever they are asked for.
ENGLISH, FRENCH, OTHER, ENGLISH_FRENCH, ENGLISH_OTHER, FRENCH_OTHER, ALL_THREE = range(len(values_of("mother_tongue")))
FIRST_ENGLISH, FIRST_FRENCH, FIRST_BOTH, FIRST_NEITHER, _NOT_ASKED = range(len(values_of("first_official_language")))

LANGUAGES: Final = 7
FIRST_OFFICIAL_LANGUAGES: Final = 4
DIVISIONS: Final = len(CENSUS_DIVISIONS)

# Mother tongues without and with a non-official language beside the official ones.
_GROUPS: Final = ((ENGLISH, ENGLISH_OTHER), (FRENCH, FRENCH_OTHER), (ENGLISH_FRENCH, ALL_THREE), (OTHER,))

# Linguistic zones: the divisions that borrow a published table, and all others.
_ZONES: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("Toronto", ("Toronto", "Peel", "York")),
    ("Halton", ("Halton",)),
)
_ELSEWHERE: Final = len(_ZONES)

# Invented.
_FOLLOWS_HOUSEHOLD: Final = 0.88
_SEVERAL_MOTHER_TONGUES_OF_2016_IN_2006: Final = 0.5

# Draws lie on the unit interval in this order, so that relatives with one uniform differ least about French.
_FRENCH_FIRST: Final = (FIRST_FRENCH, FIRST_BOTH, FIRST_ENGLISH, FIRST_NEITHER)
_FRENCH_MOTHER_TONGUE_FIRST: Final = (
    FRENCH,
    FRENCH_OTHER,
    ENGLISH_FRENCH,
    ALL_THREE,
    ENGLISH,
    ENGLISH_OTHER,
    OTHER,
)


def first_official_languages(people: People, dice: Dice) -> Integers:
    """The first official language of each person."""
    age_group = np.minimum(people.age // published.AGE_GROUP_YEARS, published.AGE_GROUPS - 1)
    uniform = dice.roll(Stream.FIRST_OFFICIAL_LANGUAGE, whom_to_follow(people, dice))
    return _first_official_table().draw(people.division * published.AGE_GROUPS + age_group, uniform)


def mother_tongues(people: People, first_official: Integers, dice: Dice) -> Integers:
    """The mother tongue of each person, given their first official languages."""
    row = _zone_of_division()[people.division] * FIRST_OFFICIAL_LANGUAGES + first_official
    return _mother_tongue_table().draw(row, dice.roll(Stream.MOTHER_TONGUE, whom_to_follow(people, dice)))


def is_francophone(first_official: Integers) -> Booleans:
    """French, or English and French, as first official language."""
    francophone: Booleans = (first_official == FIRST_FRENCH) | (first_official == FIRST_BOTH)
    return francophone


@cache
def francophone_shares() -> Floats:
    """Shares by division: as published, or the one share for all others that makes the province add up."""
    by_language = published.age_by_first_official_language().sum(axis=0)
    overall = float(by_language[FIRST_FRENCH] + by_language[FIRST_BOTH])
    return _complete(published.divisions().francophone_share, overall)


@cache
def shares_of_mother_tongues() -> Floats:
    """Expected shares of the province by division, first official language and mother tongue."""
    given = _mother_tongue_by_zone()[_zone_of_division()]
    return _division_by_first_official_language()[..., np.newaxis] * given


def whom_to_follow(people: People, dice: Dice) -> Integers:
    """The index whose uniforms a person uses: the household's, or another one that no household has."""
    own = dice.roll(Stream.LANGUAGE_OWN, people.index) >= _FOLLOWS_HOUSEHOLD
    return np.where(own, -1 - people.index, people.household)


# --- 1. first official language ---------------------------------------------------------------------------------------


@cache
def _zone_of_division() -> Integers:
    zones = {division: number for number, (_place, divisions) in enumerate(_ZONES) for division in divisions}
    return np.array([zones.get(name, _ELSEWHERE) for name in bare_codes(CENSUS_DIVISIONS)])


@cache
def _population_shares() -> Floats:
    population = published.divisions().population
    shares: Floats = population / population.sum()
    return shares


@cache
def _division_by_first_official_language() -> Floats:
    """Shares of the province by division and first official language; both margins as published."""
    by_language = published.age_by_first_official_language().sum(axis=0)
    zone = _zone_of_division()
    both = np.full(DIVISIONS, np.nan)
    neither = np.full(DIVISIONS, np.nan)
    for number, (place, _divisions) in enumerate(_ZONES):
        columns = published.mother_tongue_by_first_official_language(place).sum(axis=0)
        both[zone == number] = columns[FIRST_BOTH] / columns.sum()
        neither[zone == number] = columns[FIRST_NEITHER] / columns.sum()
    # The metropolitan figure covers more of the zone, and the right year.
    neither[zone == 0] = published.share("toronto_cma_neither")
    both = _complete(both, float(by_language[FIRST_BOTH]))
    neither = _complete(neither, float(by_language[FIRST_NEITHER]))
    french = francophone_shares() - both
    english = 1.0 - french - both - neither
    return np.stack([english, french, both, neither], axis=1) * _population_shares()[:, np.newaxis]


def _complete(shares: Floats, overall: float) -> Floats:
    """Gaps (NaN) filled with the one share that gives the province `overall`."""
    weights = _population_shares()
    gaps = np.isnan(shares)
    rest = (overall - float((weights * shares)[~gaps].sum())) / float(weights[gaps].sum())
    return np.where(gaps, within_unit(rest), shares)


@cache
def _first_official_table() -> ConditionalTable:
    by_age = published.age_by_first_official_language()
    by_division = _division_by_first_official_language()
    ages = by_age.sum(axis=1)
    start = by_division[:, np.newaxis, :] * by_age[np.newaxis, :, :]
    table = rake(start, [((0, 1), np.outer(_population_shares(), ages)), ((0, 2), by_division), ((1, 2), by_age)])
    return ConditionalTable(table, order=_FRENCH_FIRST)


# --- 2. mother tongue -------------------------------------------------------------------------------------------------


@cache
def _mother_tongue_table() -> ConditionalTable:
    return ConditionalTable(_mother_tongue_by_zone(), order=_FRENCH_MOTHER_TONGUE_FIRST)


@cache
def _mother_tongue_by_zone() -> Floats:
    """P(mother tongue | zone, first official language), mother tongue on the last axis."""
    groups, with_other = _group_by_zone(), _with_other_by_zone()
    table = np.zeros((*groups.shape[:2], LANGUAGES))
    for number, (alone, *beside_other) in enumerate(_GROUPS):
        table[..., alone] = groups[..., number]
        for several in beside_other:
            table[..., several] = groups[..., number] * with_other[..., number]
            table[..., alone] -= table[..., several]
    return table


@cache
def _group_by_zone() -> Floats:
    """P(group of mother tongues | zone, first official language), groups on the last axis."""
    places = [_by_group(published.mother_tongue_by_first_official_language(place)) for place, _divisions in _ZONES]
    given = [(table / table.sum(axis=0)).T for table in places]
    mass = _mass_by_zone()
    left_over = _by_group(_mother_tongue_shares()[:, np.newaxis])[:, 0]
    for number, table in enumerate(given):
        left_over = left_over - mass[number] @ table
    # Halton's structural zeros, e.g. nobody of English mother tongue with both as first official language.
    elsewhere = rake(places[-1].T, [((0,), _normalised(mass[_ELSEWHERE])), ((1,), _normalised(left_over))])
    return np.stack([*given, elsewhere / elsewhere.sum(axis=1, keepdims=True)])


@cache
def _with_other_by_zone() -> Floats:
    """P(a non-official language beside the official ones | zone, first official language, group); none in the last group.

    Half of what was published for 2016 in the two zones; elsewhere Halton's pattern at a level that gives the province its shares.
    """
    zones = np.zeros((len(_ZONES) + 1, FIRST_OFFICIAL_LANGUAGES, len(_GROUPS)))
    mass = _mass_by_zone()[..., np.newaxis] * _group_by_zone()
    for number, group in enumerate(_GROUPS[:-1]):
        for zone, (place, _divisions) in enumerate(_ZONES):
            alone, several = published.mother_tongue_by_first_official_language(place)[list(group)]
            answered = np.divide(several, alone + several, out=np.zeros_like(several), where=alone + several > 0)
            zones[zone, :, number] = _SEVERAL_MOTHER_TONGUES_OF_2016_IN_2006 * answered
        pattern = zones[_ELSEWHERE - 1, :, number]
        found = (mass[:_ELSEWHERE, :, number] * zones[:_ELSEWHERE, :, number]).sum()
        level = (_mother_tongue_shares()[group[1]] - found) / (mass[_ELSEWHERE, :, number] * pattern).sum()
        zones[_ELSEWHERE, :, number] = within_unit(level * pattern)
    return zones


def _by_group(mother_tongues: Floats) -> Floats:
    """Rows of mother tongues as rows of their groups."""
    return np.stack([mother_tongues[list(group)].sum(axis=0) for group in _GROUPS])


@cache
def _mass_by_zone() -> Floats:
    """Shares of the province by zone and first official language."""
    mass, zone = _division_by_first_official_language(), _zone_of_division()
    return np.stack([mass[zone == number].sum(axis=0) for number in range(len(_ZONES) + 1)])


@cache
def _mother_tongue_shares() -> Floats:
    names = [value.lower().replace(",", "").replace(" ", "_") for value in values_of("mother_tongue")]
    return np.array([published.share(f"mother_tongue_{name}") for name in names])


def _normalised(mass: Floats) -> Floats:
    shares: Floats = mass / mass.sum()
    return shares


def within_unit(probabilities: Floats | float) -> Floats:
    """The probabilities, unless one is none: then the figures contradict one another."""
    values = np.asarray(probabilities, dtype=np.float64)
    if not np.all((values >= 0.0) & (values <= 1.0)):
        raise ValueError("the published figures leave no probability between 0 and 1")
    return values
