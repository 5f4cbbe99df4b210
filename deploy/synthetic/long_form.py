"""The long form: which households got it, and what their members answered, consistent with the short form and what was published.

1. Languages spoken most often at home, and knowledge of official languages, given census division, first official language and
   mother tongue, so that first official language is what Statistics Canada derives: from knowledge, then from mother tongue, then from
   the language at home.
2. Other languages spoken regularly at home, and knowledge of non-official languages, given these.
3. Languages at work, of people of 15 years and more who work, given whether they are francophone or bilingual.
4. Derived: francophone by the inclusive definition.

People whose household did not get the form were not asked any of it. Invented: every number that is named as such below. The free
parameters are solved for, so that the provincial shares come out as published; those at work nearly so, since work depends on age.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Final

import numpy as np

from deploy.synthetic import published
from deploy.synthetic.arrays import Booleans, Floats, Integers
from deploy.synthetic.codes import CENSUS_DIVISIONS, asked_share, bare_codes, values_of
from deploy.synthetic.dice import Dice, Stream
from deploy.synthetic.households import People
from deploy.synthetic.language import (
    ALL_THREE,
    DIVISIONS,
    ENGLISH,
    ENGLISH_FRENCH,
    ENGLISH_OTHER,
    FIRST_BOTH,
    FIRST_ENGLISH,
    FIRST_FRENCH,
    FIRST_NEITHER,
    FIRST_OFFICIAL_LANGUAGES,
    FRENCH,
    FRENCH_OTHER,
    LANGUAGES,
    OTHER,
    francophone_shares,
    is_francophone,
    shares_of_mother_tongues,
    whom_to_follow,
    within_unit,
)
from deploy.synthetic.tables import ConditionalTable

KNOWS_ENGLISH, KNOWS_FRENCH, KNOWS_BOTH, KNOWS_NEITHER, _NOT_ASKED = range(
    len(values_of("knowledge_of_official_languages"))
)
_KNOWLEDGE: Final = _NOT_ASKED
YES, NO = range(2)
WORKING_AGE: Final = 15

# Answers that name English, French and a non-official language.
HAS_ENGLISH: Final = np.array([True, False, False, True, True, False, True])
HAS_FRENCH: Final = np.array([False, True, False, True, False, True, True])
HAS_OTHER: Final = np.array([False, False, True, False, True, True, True])
_OF_ONE_ANSWER: Final = np.stack([HAS_ENGLISH, HAS_FRENCH, HAS_OTHER], axis=1)
# The same of other languages, whose first value is none.
_OF_OTHER_LANGUAGES: Final = np.concatenate([np.zeros((1, 3), np.bool_), _OF_ONE_ANSWER])
_NO_WORK: Final = LANGUAGES
_NO_OTHER_WORK: Final = LANGUAGES + 1

# Invented, at home.
_ENGLISH_SPEAKERS_WITH_OTHER_HOME: Final = 0.013
_FRENCH_MOTHER_TONGUE_WITH_OTHER_HOME: Final = 0.005
_ALLOPHONE_FRANCOPHONES_WITH_FRENCH_HOME: Final = 0.6
_BILINGUAL_CHILDHOOD_STILL_BILINGUAL: Final = 0.7
_RETENTION_PER_FRANCOPHONE_SHARE: Final = 0.5  # French is kept at home the more, the more francophones live around
_ENGLISH_AND_OTHER_KEPT_AT_HOME: Final = 0.25
_OTHER_KEPT_AT_HOME: Final = 0.05
_OTHER_BESIDE_FRENCH_AT_HOME: Final = 0.2
_ALL_THREE_KEPT_AT_HOME: Final = 0.6
_ALL_THREE_AMONG_BILINGUAL_ALLOPHONES: Final = 0.03
_FRENCH_REGULARLY_IF_MOTHER_TONGUE: Final = 0.45
_ENGLISH_REGULARLY: Final = 0.45
_OTHER_REGULARLY_IF_MOTHER_TONGUE: Final = 0.35
_OTHER_REGULARLY: Final = 0.01
# Invented, of non-official languages: known by these parts of the people with and without one of them as mother tongue or at home.
_KNOW_OWN_OTHER: Final = 0.95
_KNOW_LEARNT_OTHER: Final = 0.06
_GROUPS_OF_OTHER: Final = {
    "Chinese": 0.17,
    "Germanic": 0.07,
    "Indigenous": 0.01,
    "Romance": 0.23,
    "Semitic": 0.06,
    "Slavic": 0.12,
    "South Asian": 0.20,
    "Another": 0.06,
    "Several": 0.08,
}
# Invented, of work: who works by age, from the first year of each band on.
_AT_WORK: Final = ((0, 0.0), (WORKING_AGE, 0.65), (25, 0.88), (55, 0.68), (65, 0.18), (75, 0.04))
_FRANCOPHONES_WITH_ENGLISH_BESIDE_FRENCH: Final = 0.3
_WORK_IN_FRENCH_PER_FRANCOPHONE_SHARE: Final = 0.5
_FRANCOPHONES_WORKING_IN_FRENCH: Final = 0.35  # published: most often, alone or with others (SOURCES.md)
_FRANCOPHONES_WORKING_REGULARLY_IN_FRENCH: Final = 0.37  # the same
_WORK_IN_OTHER_WITHOUT_OFFICIAL: Final = 0.6
_WORK_IN_ENGLISH_AND_OTHER: Final = 0.02
_ENGLISH_BESIDE_FRENCH_WORK: Final = 0.75
_ENGLISH_BESIDE_OTHER_WORK: Final = 0.35
_OTHER_BESIDE_ENGLISH_WORK: Final = 0.06


@dataclass(frozen=True, slots=True)
class LongForm:
    """Columns of equal length, of people whose households got the form; codes are positions in the published lists."""

    knowledge: Integers
    home: Integers
    other_home: Integers
    non_official: Integers
    work: Integers
    other_work: Integers
    francophone: Integers

    def by_variable(self) -> dict[str, Integers]:
        """Answers by the names that the census node publishes."""
        return {
            "knowledge_of_official_languages": self.knowledge,
            "home_language": self.home,
            "other_home_languages": self.other_home,
            "knowledge_of_non_official_languages": self.non_official,
            "work_language": self.work,
            "other_work_languages": self.other_work,
            "francophone": self.francophone,
        }


def got_the_form(people: People, dice: Dice) -> Booleans:
    """Whether each person's household is in the sample: all its members, or none."""
    got: Booleans = dice.roll(Stream.LONG_FORM, people.household) < asked_share("home_language")
    return got


def long_form(people: People, first_official: Integers, mother_tongue: Integers, dice: Dice) -> LongForm:
    """Answers of these people, all of whom are asked."""
    whom = whom_to_follow(people, dice)
    row = (people.division * FIRST_OFFICIAL_LANGUAGES + first_official) * LANGUAGES + mother_tongue
    at_home = _home_and_knowledge_table().draw(row, dice.roll(Stream.HOME_AND_KNOWLEDGE, whom))
    home, knowledge = np.divmod(at_home, _KNOWLEDGE)
    row = (home * LANGUAGES + mother_tongue) * _KNOWLEDGE + knowledge
    other_home = _other_home_table().draw(row, dice.roll(Stream.OTHER_HOME, whom))
    non_official = _non_official_table().draw(
        (HAS_OTHER[mother_tongue] | HAS_OTHER[home]).astype(np.int64), dice.roll(Stream.NON_OFFICIAL, whom)
    )
    work, other_work = _at_work(people, _worker(first_official, home, knowledge), dice)
    return LongForm(
        knowledge,
        home,
        other_home,
        non_official,
        work,
        other_work,
        _inclusive(mother_tongue, knowledge, home, other_home),
    )


@cache
def joint_shares() -> Floats:
    """Expected shares by division, first official language, mother tongue, home language and knowledge, of everybody asked."""
    return shares_of_mother_tongues()[..., np.newaxis, np.newaxis] * _home_and_knowledge(_solved())


@cache
def joint_shares_of_other_home() -> Floats:
    """Expected shares by home language and other languages at home."""
    at_home = joint_shares().sum(axis=(0, 1)).swapaxes(0, 1)  # home language, mother tongue, knowledge
    shares: Floats = (at_home[..., np.newaxis] * _other_home()).sum(axis=(1, 2))
    return shares


def _inclusive(mother_tongue: Integers, knowledge: Integers, home: Integers, other_home: Integers) -> Integers:
    """Francophone by the inclusive definition, as the census dictionary words it."""
    french_at_home = HAS_FRENCH[home] | _OF_OTHER_LANGUAGES[other_home, 1]
    knows_french = (knowledge == KNOWS_FRENCH) | (knowledge == KNOWS_BOTH)
    yes = HAS_FRENCH[mother_tongue] | ((mother_tongue == OTHER) & knows_french & french_at_home)
    return np.where(yes, YES, NO)


# --- 1. home language and knowledge of official languages -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Free:
    """The parameters that the invented numbers leave open, in the order in which they are solved for."""

    french_kept: float = 0.0
    """P(French at home | French as mother tongue and first official language) without any francophones around."""
    french_and_english: float = 0.0
    """P(English and French at home | the same)."""
    english_and_other: float = 0.0
    """P(English and other at home | other mother tongue, English as first official language)."""
    english: float = 0.0
    """P(English at home | the same)."""
    only_french: float = 0.0
    """P(knows French only | French mother tongue, first official and home language)."""
    bilingual: float = 0.0
    """P(knows both | English as first official and home language) in a division of average francophone share."""


@cache
def _solved() -> _Free:
    """Each number of `_Free` moves one published share, linearly, once those before it are known."""
    free = _Free()
    for field, wanted, measure in zip(fields(_Free), _published_shares(), _MEASURES, strict=True):
        low, high = (_share(measure, replace(free, **{field.name: value})) for value in (0.0, 1.0))
        free = replace(free, **{field.name: (wanted - low) / (high - low)})
    within_unit(_home_and_knowledge(free))
    return free


def _published_shares() -> tuple[float, ...]:
    return tuple(
        published.share(name)
        for name in (
            "home_french",
            "home_french_in_any_answer",
            "home_english_and_other",
            "home_english",
            "knowledge_french_only",
            "knowledge_english_and_french",
        )
    )


# Measures of a table by home language and knowledge that must be as published, in the order of `_Free`.
_MEASURES: Final[tuple[Callable[[Floats], Floats], ...]] = (
    lambda table: table[FRENCH],
    lambda table: table[HAS_FRENCH],
    lambda table: table[ENGLISH_OTHER],
    lambda table: table[ENGLISH],
    lambda table: table[:, KNOWS_FRENCH],
    lambda table: table[:, KNOWS_BOTH],
)


def _share(measure: Callable[[Floats], Floats], free: _Free) -> float:
    joint = shares_of_mother_tongues()[..., np.newaxis, np.newaxis] * _home_and_knowledge(free)
    return float(measure(joint.sum(axis=(0, 1, 2))).sum())


def _home_and_knowledge(free: _Free) -> Floats:
    """P(home language, knowledge | division, first official language, mother tongue).

    Each group of lines below is one group of people; what they may know follows from how first official language is derived.
    """
    cells = np.zeros((DIVISIONS, FIRST_OFFICIAL_LANGUAGES, LANGUAGES, LANGUAGES, _KNOWLEDGE))
    _first_english(cells[:, FIRST_ENGLISH], free)
    _first_french(cells[:, FIRST_FRENCH], free)
    # English and French as first official language: neither knowledge nor mother tongue nor home decides.
    cells[:, FIRST_BOTH, :, OTHER, KNOWS_BOTH] = 1.0 - _ALL_THREE_AMONG_BILINGUAL_ALLOPHONES
    cells[:, FIRST_BOTH, :, ALL_THREE, KNOWS_BOTH] = _ALL_THREE_AMONG_BILINGUAL_ALLOPHONES
    cells[:, FIRST_BOTH, [ENGLISH_FRENCH, ALL_THREE]] = 0.0
    cells[:, FIRST_BOTH, ENGLISH_FRENCH, ENGLISH_FRENCH, KNOWS_BOTH] = 1.0
    cells[:, FIRST_BOTH, ALL_THREE, ENGLISH_FRENCH, KNOWS_BOTH] = 1.0 - _ALL_THREE_KEPT_AT_HOME
    cells[:, FIRST_BOTH, ALL_THREE, ALL_THREE, KNOWS_BOTH] = _ALL_THREE_KEPT_AT_HOME
    cells[:, FIRST_NEITHER, :, OTHER, KNOWS_NEITHER] = 1.0
    return cells


def _first_english(cells: Floats, free: _Free) -> None:
    bilingual = _bilingual_english_speakers(free)
    english_homes = (
        (ENGLISH, 1.0 - _ENGLISH_SPEAKERS_WITH_OTHER_HOME, _ENGLISH_SPEAKERS_WITH_OTHER_HOME, 0.0),
        (
            ENGLISH_OTHER,
            1.0 - _ENGLISH_AND_OTHER_KEPT_AT_HOME - _OTHER_KEPT_AT_HOME,
            _OTHER_KEPT_AT_HOME,
            _ENGLISH_AND_OTHER_KEPT_AT_HOME,
        ),
        (OTHER, free.english, 1.0 - free.english - free.english_and_other, free.english_and_other),
    )
    for mother_tongue, english, other, both in english_homes:
        group = cells[:, mother_tongue]
        group[:, ENGLISH, KNOWS_BOTH] = english * bilingual
        group[:, ENGLISH, KNOWS_ENGLISH] = english * (1.0 - bilingual)
        group[:, OTHER, KNOWS_ENGLISH] = other
        group[:, ENGLISH_OTHER, KNOWS_ENGLISH] = both
    # With French they would count as French.
    cells[:, [FRENCH, FRENCH_OTHER], ENGLISH, KNOWS_ENGLISH] = 1.0
    cells[:, [ENGLISH_FRENCH, ALL_THREE], ENGLISH, KNOWS_BOTH] = _BILINGUAL_CHILDHOOD_STILL_BILINGUAL
    cells[:, [ENGLISH_FRENCH, ALL_THREE], ENGLISH, KNOWS_ENGLISH] = 1.0 - _BILINGUAL_CHILDHOOD_STILL_BILINGUAL


def _first_french(cells: Floats, free: _Free) -> None:
    # With English they would count as English.
    cells[:, [ENGLISH, ENGLISH_OTHER], FRENCH, KNOWS_FRENCH] = 1.0
    kept = free.french_kept + _RETENTION_PER_FRANCOPHONE_SHARE * francophone_shares()
    for mother_tongue, beside_other in ((FRENCH, 0.0), (FRENCH_OTHER, _OTHER_BESIDE_FRENCH_AT_HOME)):
        group = cells[:, mother_tongue]
        group[:, FRENCH, KNOWS_FRENCH] = kept * (1.0 - beside_other) * free.only_french
        group[:, FRENCH, KNOWS_BOTH] = kept * (1.0 - beside_other) * (1.0 - free.only_french)
        group[:, FRENCH_OTHER, KNOWS_BOTH] = kept * beside_other
        group[:, ENGLISH_FRENCH, KNOWS_BOTH] = free.french_and_english
        group[:, OTHER, KNOWS_BOTH] = _FRENCH_MOTHER_TONGUE_WITH_OTHER_HOME
        group[:, ENGLISH, KNOWS_BOTH] = 1.0 - kept - free.french_and_english - _FRENCH_MOTHER_TONGUE_WITH_OTHER_HOME
    cells[:, ENGLISH_FRENCH, FRENCH, KNOWS_BOTH] = 1.0
    cells[:, ALL_THREE, FRENCH, KNOWS_BOTH] = 1.0 - _OTHER_BESIDE_FRENCH_AT_HOME
    cells[:, ALL_THREE, FRENCH_OTHER, KNOWS_BOTH] = _OTHER_BESIDE_FRENCH_AT_HOME
    french_homes = _ALLOPHONE_FRANCOPHONES_WITH_FRENCH_HOME
    cells[:, OTHER, FRENCH, KNOWS_BOTH] = french_homes * (1.0 - _OTHER_BESIDE_FRENCH_AT_HOME)
    cells[:, OTHER, FRENCH_OTHER, KNOWS_BOTH] = french_homes * _OTHER_BESIDE_FRENCH_AT_HOME
    cells[:, OTHER, OTHER, KNOWS_FRENCH] = 1.0 - french_homes


def _bilingual_english_speakers(free: _Free) -> Floats:
    """P(knows both | English as first official and home language) by division.

    Linear in the root of the francophone share (invented; the share itself would send Prescott and Russell beyond 1), through
    Ottawa's published share.
    """
    around = np.sqrt(francophone_shares())
    average = float((published.divisions().population * around).sum() / published.divisions().population.sum())
    ottawa = around[bare_codes(CENSUS_DIVISIONS).index("Ottawa")]
    rise = published.share("ottawa_english_mother_tongue_knowing_both") - free.bilingual * (
        1.0 - _ENGLISH_SPEAKERS_WITH_OTHER_HOME
    )
    shares: Floats = free.bilingual + rise / (1.0 - _ENGLISH_SPEAKERS_WITH_OTHER_HOME) * (around - average) / (
        ottawa - average
    )
    return shares


@cache
def _home_and_knowledge_table() -> ConditionalTable:
    cells = _home_and_knowledge(_solved())
    return ConditionalTable(cells.reshape(*cells.shape[:3], -1))


# --- 2. other languages at home, and non-official ones ----------------------------------------------------------------


@cache
def _other_home_table() -> ConditionalTable:
    return ConditionalTable(_other_home())


@cache
def _other_home() -> Floats:
    """P(other languages at home | home language, mother tongue, knowledge).

    How many bilingual people speak French without having it as mother tongue is solved for, so that French comes out as published.
    """
    at_home = joint_shares().sum(axis=(0, 1)).swapaxes(0, 1)
    low, high = (
        float((at_home[..., np.newaxis] * _other_home_given(learnt))[..., _OF_OTHER_LANGUAGES[:, 1]].sum())
        for learnt in (0.0, 1.0)
    )
    learnt = float(within_unit((published.share("home_french_regularly") - low) / (high - low)))
    return _other_home_given(learnt)


def _other_home_given(learnt: float) -> Floats:
    home, mother_tongue, knowledge = np.ogrid[:LANGUAGES, :LANGUAGES, :_KNOWLEDGE]
    knows_french = (knowledge == KNOWS_FRENCH) | (knowledge == KNOWS_BOTH)
    knows_english = (knowledge == KNOWS_ENGLISH) | (knowledge == KNOWS_BOTH)
    french = np.where(HAS_FRENCH[mother_tongue], _FRENCH_REGULARLY_IF_MOTHER_TONGUE, learnt)
    other = np.where(HAS_OTHER[mother_tongue], _OTHER_REGULARLY_IF_MOTHER_TONGUE, _OTHER_REGULARLY)
    # Another non-official language than the one spoken most often is rare.
    other = np.where(HAS_OTHER[home], _OTHER_REGULARLY, other)
    return _several(
        np.where(knows_english & ~HAS_ENGLISH[home], _ENGLISH_REGULARLY, 0.0),
        np.where(knows_french & ~HAS_FRENCH[home], french, 0.0),
        other,
    )


def _several(english: Floats, french: Floats, other: Floats) -> Floats:
    """P(each set of other languages), the languages being named independently of one another."""
    named = np.stack(np.broadcast_arrays(english, french, other), axis=-1)[..., np.newaxis, :]
    shares: Floats = np.where(_OF_OTHER_LANGUAGES, named, 1.0 - named).prod(axis=-1)
    return shares


@cache
def _non_official_table() -> ConditionalTable:
    """P(known groups of non-official languages | whether one is mother tongue or spoken at home)."""
    _none, *groups = values_of("knowledge_of_non_official_languages")[:-1]
    weights = np.array([_GROUPS_OF_OTHER[group] for group in groups])
    known = np.array([[_KNOW_LEARNT_OTHER], [_KNOW_OWN_OTHER]])
    return ConditionalTable(np.concatenate([1.0 - known, known * weights / weights.sum()], axis=1))


# --- 3. work ----------------------------------------------------------------------------------------------------------

# Groups that languages at work depend on.
_FRANCOPHONE, _BILINGUAL, _WITHOUT_OFFICIAL, _OTHER_AT_HOME, _ANYBODY_ELSE = range(5)
_WORKERS: Final = 5


def _worker(first_official: Integers, home: Integers, knowledge: Integers) -> Integers:
    kinds: Sequence[Booleans] = (
        is_francophone(first_official),
        knowledge == KNOWS_BOTH,
        knowledge == KNOWS_NEITHER,
        HAS_OTHER[home],
    )
    return np.select(kinds, range(len(kinds)), _ANYBODY_ELSE)


def _at_work(people: People, worker: Integers, dice: Dice) -> tuple[Integers, Integers]:
    """Languages used most often at work, and the others used regularly."""
    first_years, at_work = np.array(_AT_WORK).T
    works = dice.roll(Stream.WORKS, people.index) < at_work[np.searchsorted(first_years, people.age, side="right") - 1]
    row = people.division * _WORKERS + worker
    work = _work_table().draw(row, dice.roll(Stream.WORK, people.index))
    other_work = _other_work_table().draw(work * _WORKERS + worker, dice.roll(Stream.OTHER_WORK, people.index))
    return np.where(works, work, _NO_WORK), np.where(works, other_work, _NO_OTHER_WORK)


@cache
def _workers() -> Floats:
    """Expected shares by division and kind of worker."""
    joint = joint_shares().sum(axis=2)  # division, first official language, home language, knowledge
    kind = _worker(*np.broadcast_arrays(*np.ogrid[:FIRST_OFFICIAL_LANGUAGES, :LANGUAGES, :_KNOWLEDGE]))
    return np.stack([(joint * (kind == worker)).sum(axis=(1, 2, 3)) for worker in range(_WORKERS)], axis=1)


@cache
def _work() -> Floats:
    """P(languages most often at work | division, kind of worker).

    How many francophones, other bilingual people, and people of other languages work in theirs is solved for.
    """
    mass, around = _workers(), francophone_shares()
    slope = _WORK_IN_FRENCH_PER_FRANCOPHONE_SHARE
    french_speakers = mass[:, _FRANCOPHONE]
    francophones = slope * around
    francophones = (
        francophones + _FRANCOPHONES_WORKING_IN_FRENCH - (french_speakers * francophones).sum() / french_speakers.sum()
    )
    in_french = published.share("work_french_in_any_answer")
    learnt = (in_french - (french_speakers * francophones).sum()) / mass[:, _BILINGUAL].sum()
    beside = _FRANCOPHONES_WITH_ENGLISH_BESIDE_FRENCH
    without_english = 1.0 - published.share("work_english_in_any_answer")
    without_english -= in_french * (1.0 - beside) + _WORK_IN_OTHER_WITHOUT_OFFICIAL * mass[:, _WITHOUT_OFFICIAL].sum()
    table = np.zeros((DIVISIONS, _WORKERS, LANGUAGES))
    for worker, in_french_by_division in ((_FRANCOPHONE, francophones), (_BILINGUAL, np.full(DIVISIONS, learnt))):
        table[:, worker, FRENCH] = in_french_by_division * (1.0 - beside)
        table[:, worker, ENGLISH_FRENCH] = in_french_by_division * beside
    table[:, _WITHOUT_OFFICIAL, OTHER] = _WORK_IN_OTHER_WITHOUT_OFFICIAL
    table[:, _OTHER_AT_HOME, OTHER] = without_english / mass[:, _OTHER_AT_HOME].sum()
    table[:, _OTHER_AT_HOME, ENGLISH_OTHER] = _WORK_IN_ENGLISH_AND_OTHER
    table[..., ENGLISH] = 1.0 - table.sum(axis=-1)
    return within_unit(table)


@cache
def _work_table() -> ConditionalTable:
    return ConditionalTable(_work())


@cache
def _other_work_table() -> ConditionalTable:
    """P(other languages at work | languages most often at work, kind of worker).

    How many bilingual people use French beside English is solved for, francophones having their published share.
    """
    mass, in_english = _workers().sum(axis=0), (_workers()[..., np.newaxis] * _work())[..., ENGLISH].sum(axis=0)
    francophones = _FRANCOPHONES_WORKING_REGULARLY_IN_FRENCH
    learnt = published.share("work_french_regularly") - francophones * mass[_FRANCOPHONE]
    french = np.zeros((LANGUAGES, _WORKERS))
    french[ENGLISH, _FRANCOPHONE] = francophones * mass[_FRANCOPHONE] / in_english[_FRANCOPHONE]
    french[ENGLISH, _BILINGUAL] = learnt / in_english[_BILINGUAL]
    english = np.zeros((LANGUAGES, _WORKERS))
    english[FRENCH] = _ENGLISH_BESIDE_FRENCH_WORK
    english[OTHER] = _ENGLISH_BESIDE_OTHER_WORK
    other = np.zeros((LANGUAGES, _WORKERS))
    other[ENGLISH, _OTHER_AT_HOME] = _OTHER_BESIDE_ENGLISH_WORK
    return ConditionalTable(_several(english, within_unit(french), other))
