"""The four language variables of the person at any index, consistent with one another and with the published margins.

1. First official language given census division and age: one table raked to the francophone share of each division
   and to the province's age by first official language.
2. Mother tongue given first official language and linguistic zone: the published tables of Toronto and Halton in their
   zones, and what the province leaves over elsewhere.
3. Home language and knowledge of official languages given the two and the division, respecting how Statistics Canada
   derives first official language: first from knowledge, then from mother tongue, then from home language.

Invented: that the interplay of the tables is no stronger than their margins demand; that members of a household
follow it in 88 of 100 cases; and in step 3 every number that is named as such below. What remains free there is solved for
so that the provincial shares come out as published.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from deploy.synthetic import published
from deploy.synthetic.arrays import Booleans, Floats, Integers
from deploy.synthetic.codes import (
    CENSUS_DIVISIONS,
    FIRST_OFFICIAL_LANGUAGES,
    HOME_LANGUAGES,
    KNOWLEDGE_OF_OFFICIAL_LANGUAGES,
    MOTHER_TONGUES,
    bare_codes,
)
from deploy.synthetic.dice import Dice, Stream
from deploy.synthetic.households import People
from deploy.synthetic.tables import ConditionalTable, rake

# Positions in the code lists. English, French and both stand alike in mother tongue and first official language.
_ENGLISH, _FRENCH, _BOTH, _OTHER = range(len(MOTHER_TONGUES))
_NEITHER: Final = _OTHER
_HOME_ENGLISH, _HOME_FRENCH, _HOME_OTHER = range(len(HOME_LANGUAGES))
_KNOWS_ENGLISH, _KNOWS_FRENCH, _KNOWS_BOTH, _KNOWS_NEITHER = range(len(KNOWLEDGE_OF_OFFICIAL_LANGUAGES))

# Linguistic zones: the divisions that borrow a published table, and all others.
_ZONES: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("Toronto", ("Toronto", "Peel", "York")),
    ("Halton", ("Halton",)),
)
_ELSEWHERE: Final = len(_ZONES)

# Invented.
_FOLLOWS_HOUSEHOLD: Final = 0.88
_ENGLISH_SPEAKERS_WITH_OTHER_HOME: Final = 0.013
_FRENCH_MOTHER_TONGUE_WITH_OTHER_HOME: Final = 0.005
_ALLOPHONE_FRANCOPHONES_WITH_FRENCH_HOME: Final = 0.6
_BILINGUAL_CHILDHOOD_STILL_BILINGUAL: Final = 0.7
_RETENTION_PER_FRANCOPHONE_SHARE: Final = 0.5  # French is kept at home the more, the more francophones live around

# Draws lie on the unit interval in this order, so that relatives with one uniform differ least about French.
_FRENCH_FIRST: Final = (_FRENCH, _BOTH, _ENGLISH, _NEITHER)

_DIVISIONS: Final = len(CENSUS_DIVISIONS)
_KNOWLEDGE_CODES: Final = len(KNOWLEDGE_OF_OFFICIAL_LANGUAGES)


@dataclass(frozen=True, slots=True)
class Languages:
    """Columns of equal length; codes are positions in `codes`."""

    mother_tongue: Integers
    first_official: Integers
    knowledge: Integers
    home: Integers


def first_official_languages(people: People, dice: Dice) -> Integers:
    """The first official language of each person."""
    age_group = np.minimum(people.age // published.AGE_GROUP_YEARS, published.AGE_GROUPS - 1)
    uniform = dice.roll(Stream.FIRST_OFFICIAL_LANGUAGE, _whom_to_follow(people, dice))
    return _first_official_table().draw(people.division * published.AGE_GROUPS + age_group, uniform)


def languages(people: People, dice: Dice) -> Languages:
    """All four language variables of each person."""
    whom = _whom_to_follow(people, dice)
    first_official = first_official_languages(people, dice)
    mother_tongue = _mother_tongue_table().draw(
        _zone_of_division()[people.division] * len(FIRST_OFFICIAL_LANGUAGES) + first_official,
        dice.roll(Stream.MOTHER_TONGUE, whom),
    )
    row = (people.division * len(FIRST_OFFICIAL_LANGUAGES) + first_official) * len(MOTHER_TONGUES) + mother_tongue
    home, knowledge = np.divmod(
        _home_and_knowledge_table().draw(row, dice.roll(Stream.HOME_AND_KNOWLEDGE, whom)), _KNOWLEDGE_CODES
    )
    return Languages(mother_tongue, first_official, knowledge, home)


def is_francophone(first_official: Integers) -> Booleans:
    """French, or English and French, as first official language."""
    francophone: Booleans = (first_official == _FRENCH) | (first_official == _BOTH)
    return francophone


@cache
def joint_shares() -> Floats:
    """Expected shares by division, first official language, mother tongue, home language and knowledge."""
    return _division_language_mother_tongue()[..., np.newaxis, np.newaxis] * _home_and_knowledge()


def _whom_to_follow(people: People, dice: Dice) -> Integers:
    """The index whose uniforms a person uses: the household's, or an own one that no household has."""
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
def _francophone_shares() -> Floats:
    """By division: as published, or the one share for all others that makes the province add up."""
    by_language = published.age_by_first_official_language().sum(axis=0)
    return _complete(published.divisions().francophone_share, float(by_language[_FRENCH] + by_language[_BOTH]))


@cache
def _division_by_first_official_language() -> Floats:
    """Shares of the province by division and first official language; both margins as published."""
    by_language = published.age_by_first_official_language().sum(axis=0)
    zone = _zone_of_division()
    both = np.full(_DIVISIONS, np.nan)
    neither = np.full(_DIVISIONS, np.nan)
    for number, (place, _divisions) in enumerate(_ZONES):
        columns = published.mother_tongue_by_first_official_language(place).sum(axis=0)
        both[zone == number] = columns[_BOTH] / columns.sum()
        neither[zone == number] = columns[_NEITHER] / columns.sum()
    # The metropolitan figure covers more of the zone, and the right year.
    neither[zone == 0] = published.share("toronto_cma_neither")
    both = _complete(both, float(by_language[_BOTH]))
    neither = _complete(neither, float(by_language[_NEITHER]))
    french = _francophone_shares() - both
    english = 1.0 - french - both - neither
    return np.stack([english, french, both, neither], axis=1) * _population_shares()[:, np.newaxis]


def _complete(shares: Floats, overall: float) -> Floats:
    """Gaps (NaN) filled with the one share that gives the province `overall`."""
    weights = _population_shares()
    gaps = np.isnan(shares)
    rest = (overall - float((weights * shares)[~gaps].sum())) / float(weights[gaps].sum())
    return np.where(gaps, _within_unit(rest), shares)


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
def _mother_tongue_by_zone() -> Floats:
    """P(mother tongue | zone, first official language), mother tongue on the last axis."""
    places = [published.mother_tongue_by_first_official_language(place) for place, _divisions in _ZONES]
    given = [(table / table.sum(axis=0)).T for table in places]
    mass = _division_by_first_official_language()
    zone = _zone_of_division()
    left_over = _mother_tongue_shares()
    for number, table in enumerate(given):
        left_over = left_over - mass[zone == number].sum(axis=0) @ table
    # Halton's structural zeros, e.g. nobody of English mother tongue with both as first official language.
    elsewhere = rake(
        places[-1].T, [((0,), _normalised(mass[zone == _ELSEWHERE].sum(axis=0))), ((1,), _normalised(left_over))]
    )
    return np.stack([*given, elsewhere / elsewhere.sum(axis=1, keepdims=True)])


@cache
def _mother_tongue_shares() -> Floats:
    single = [published.share(f"mother_tongue_{name}") for name in ("english", "french", "english_and_french")]
    return np.array([*single, 1.0 - sum(single)])


@cache
def _mother_tongue_table() -> ConditionalTable:
    return ConditionalTable(_mother_tongue_by_zone(), order=_FRENCH_FIRST)


@cache
def _division_language_mother_tongue() -> Floats:
    """Expected shares by division, first official language and mother tongue."""
    given = _mother_tongue_by_zone()[_zone_of_division()]
    return _division_by_first_official_language()[..., np.newaxis] * given


# --- 3. home language and knowledge of official languages -------------------------------------------------------------


@cache
def _home_and_knowledge() -> Floats:
    """P(home language, knowledge | division, first official language, mother tongue).

    Each line below is one group of people; what they may know follows from how first official language is derived.
    """
    french_home = _french_kept_at_home()[:, np.newaxis]
    english_home = 1.0 - french_home - _FRENCH_MOTHER_TONGUE_WITH_OTHER_HOME
    bilingual = _bilingual_english_speakers()
    only_french = _french_only_given_french_home()
    allophones_at_home = _allophones_with_english_home()
    french, bilingual_home = french_home[:, 0], english_home[:, 0]

    cells = np.zeros(
        (_DIVISIONS, len(FIRST_OFFICIAL_LANGUAGES), len(MOTHER_TONGUES), len(HOME_LANGUAGES), _KNOWLEDGE_CODES)
    )
    # First official language English.
    group = cells[:, _ENGLISH, _ENGLISH]
    group[:, _HOME_ENGLISH, _KNOWS_BOTH] = bilingual
    group[:, _HOME_OTHER, _KNOWS_ENGLISH] = _ENGLISH_SPEAKERS_WITH_OTHER_HOME
    group[:, _HOME_ENGLISH, _KNOWS_ENGLISH] = 1.0 - bilingual - _ENGLISH_SPEAKERS_WITH_OTHER_HOME
    cells[:, _ENGLISH, _FRENCH, _HOME_ENGLISH, _KNOWS_ENGLISH] = 1.0  # with French they would count as French
    group = cells[:, _ENGLISH, _BOTH, _HOME_ENGLISH]
    group[:, _KNOWS_BOTH] = _BILINGUAL_CHILDHOOD_STILL_BILINGUAL
    group[:, _KNOWS_ENGLISH] = 1.0 - _BILINGUAL_CHILDHOOD_STILL_BILINGUAL
    group = cells[:, _ENGLISH, _OTHER]
    group[:, _HOME_ENGLISH, _KNOWS_BOTH] = allophones_at_home * bilingual
    group[:, _HOME_ENGLISH, _KNOWS_ENGLISH] = allophones_at_home * (1.0 - bilingual)
    group[:, _HOME_OTHER, _KNOWS_ENGLISH] = 1.0 - allophones_at_home
    # First official language French.
    cells[:, _FRENCH, _ENGLISH, _HOME_FRENCH, _KNOWS_FRENCH] = 1.0  # with English they would count as English
    group = cells[:, _FRENCH, _FRENCH]
    group[:, _HOME_FRENCH, _KNOWS_FRENCH] = french * only_french
    group[:, _HOME_FRENCH, _KNOWS_BOTH] = french * (1.0 - only_french)
    group[:, _HOME_ENGLISH, _KNOWS_BOTH] = bilingual_home
    group[:, _HOME_OTHER, _KNOWS_BOTH] = _FRENCH_MOTHER_TONGUE_WITH_OTHER_HOME
    cells[:, _FRENCH, _BOTH, _HOME_FRENCH, _KNOWS_BOTH] = 1.0
    cells[:, _FRENCH, _OTHER, _HOME_FRENCH, _KNOWS_BOTH] = _ALLOPHONE_FRANCOPHONES_WITH_FRENCH_HOME
    cells[:, _FRENCH, _OTHER, _HOME_OTHER, _KNOWS_FRENCH] = 1.0 - _ALLOPHONE_FRANCOPHONES_WITH_FRENCH_HOME
    # English and French, or neither, as first official language.
    cells[:, _BOTH, :, _HOME_OTHER, _KNOWS_BOTH] = 1.0
    cells[:, _BOTH, _BOTH, _HOME_OTHER, _KNOWS_BOTH] = 0.0
    cells[:, _BOTH, _BOTH, _HOME_ENGLISH, _KNOWS_BOTH] = 0.5
    cells[:, _BOTH, _BOTH, _HOME_FRENCH, _KNOWS_BOTH] = 0.5
    cells[:, _NEITHER, :, _HOME_OTHER, _KNOWS_NEITHER] = 1.0
    return cells


@cache
def _home_and_knowledge_table() -> ConditionalTable:
    cells = _home_and_knowledge()
    return ConditionalTable(cells.reshape(*cells.shape[:3], -1))


@cache
def _french_kept_at_home() -> Floats:
    """P(French at home | French mother tongue and first official language) by division.

    Linear in the francophone share; the constant is solved for so that French at home comes out as published.
    """
    mass = _division_language_mother_tongue()
    kept = mass[:, _FRENCH, _FRENCH]
    certain = mass[:, _FRENCH, _ENGLISH] + mass[:, _FRENCH, _BOTH] + 0.5 * mass[:, _BOTH, _BOTH]
    certain = certain + _ALLOPHONE_FRANCOPHONES_WITH_FRENCH_HOME * mass[:, _FRENCH, _OTHER]
    slope = _RETENTION_PER_FRANCOPHONE_SHARE * _francophone_shares()
    constant = (published.share("home_french") - certain.sum() - (kept * slope).sum()) / kept.sum()
    return _within_unit(constant + slope)


@cache
def _allophones_with_english_home() -> float:
    """P(English at home | other mother tongue, English as first official language), so that English at home fits."""
    mass = _division_language_mother_tongue()
    certain = (
        (1.0 - _ENGLISH_SPEAKERS_WITH_OTHER_HOME) * mass[:, _ENGLISH, _ENGLISH]
        + mass[:, _ENGLISH, _FRENCH]
        + mass[:, _ENGLISH, _BOTH]
        + 0.5 * mass[:, _BOTH, _BOTH]
        + (1.0 - _french_kept_at_home() - _FRENCH_MOTHER_TONGUE_WITH_OTHER_HOME) * mass[:, _FRENCH, _FRENCH]
    )
    wanted = (published.share("home_english") - certain.sum()) / mass[:, _ENGLISH, _OTHER].sum()
    return float(_within_unit(wanted))


@cache
def _french_only_given_french_home() -> float:
    """P(knows French only | French mother tongue, first official and home language), so that French only fits."""
    mass = _division_language_mother_tongue()
    certain = mass[:, _FRENCH, _ENGLISH] + (1.0 - _ALLOPHONE_FRANCOPHONES_WITH_FRENCH_HOME) * mass[:, _FRENCH, _OTHER]
    at_home = (_french_kept_at_home() * mass[:, _FRENCH, _FRENCH]).sum()
    return float(_within_unit((published.share("knowledge_french_only") - certain.sum()) / at_home))


@cache
def _bilingual_english_speakers() -> Floats:
    """P(knows both | English as first official and home language) by division.

    Linear in the root of the francophone share (invented; the share itself would send Prescott and Russell beyond 1):
    slope and constant give Ottawa's published share and the province's.
    """
    mass = _division_language_mother_tongue()
    may = mass[:, _ENGLISH, _ENGLISH] + _allophones_with_english_home() * mass[:, _ENGLISH, _OTHER]
    french = _french_kept_at_home() * _french_only_given_french_home()
    certain = (
        _BILINGUAL_CHILDHOOD_STILL_BILINGUAL * mass[:, _ENGLISH, _BOTH]
        + (1.0 - french) * mass[:, _FRENCH, _FRENCH]
        + mass[:, _FRENCH, _BOTH]
        + _ALLOPHONE_FRANCOPHONES_WITH_FRENCH_HOME * mass[:, _FRENCH, _OTHER]
        + mass[:, _BOTH].sum(axis=1)
    )
    average = (published.share("knowledge_english_and_french") - certain.sum()) / may.sum()
    around = np.sqrt(_francophone_shares())
    ottawa = bare_codes(CENSUS_DIVISIONS).index("Ottawa")
    average_around = (may * around).sum() / may.sum()
    slope = (published.share("ottawa_english_mother_tongue_knowing_both") - average) / (around[ottawa] - average_around)
    return _within_unit(average + slope * (around - average_around))


def _normalised(mass: Floats) -> Floats:
    shares: Floats = mass / mass.sum()
    return shares


def _within_unit(probabilities: Floats | float) -> Floats:
    """The probabilities, unless one is none: then the figures contradict one another."""
    values = np.asarray(probabilities, dtype=np.float64)
    if not np.all((values >= 0.0) & (values <= 1.0)):
        raise ValueError("the published figures leave no probability between 0 and 1")
    return values
