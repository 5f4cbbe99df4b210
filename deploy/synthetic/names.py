"""Names of people who never existed: given names by year of birth and sex, surnames by language.

Given names are as frequent as they were among births in Ontario; surnames begin with published ones and go on with invented ones,
since no list of real people may be used. Sources and doubts: `figures/names/PROVENANCE.md`. Invented: how the frequencies of
surnames fall off, how many surnames there are, and the share of people whose given name was not among the commonest of its decade.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from deploy.synthetic.arrays import Booleans, Integers

Texts = NDArray[np.object_]

FEMALE: Final = 0
"""The position of this sex in `codes.SEXES`."""

_SEX_LETTERS: Final = ("F", "M")
_FIRST_DECADE: Final = 1910
_DECADES: Final = 10
# The published list counts newborns without a name among names.
_NO_NAMES: Final = frozenset({"BABY", "INFANT", "UNKNOWN", "UNNAMED"})
_FROM_ANOTHER_DECADE: Final = 0.15

_PUBLISHED_SHARE: Final = 0.3  # of people of either side, how many bear one of the published surnames
_INVENTED_SURNAMES: Final = 30_000
_FLATTENING: Final = 50  # the surname of rank r is borne in proportion to 1 / (r + this)
_ONSETS: Final = (*"bdfghjklmnprstvwz", "br", "ch", "dr", "fr", "gr", "kr", "pr", "sh", "st", "tr")
_VOWELS: Final = ("a", "e", "i", "o", "u", "ai", "ou")
_ENDINGS: Final = ("n", "r", "l", "s", "t", "rd", "nd", "ski", "son", "ette", "ault", "mi", "o", "ez", "ing")


class NamePool:
    """Names, each drawn in proportion to its weight."""

    def __init__(self, names: list[str], weights: NDArray[np.floating[Any]]) -> None:
        self._names: Texts = np.array(names, dtype=np.object_)
        self._steps = np.cumsum(weights / weights.sum())

    def draw(self, count: int, generator: np.random.Generator) -> Texts:
        """So many names, independent of each other."""
        places = np.searchsorted(self._steps, generator.random(count), side="right")
        drawn: Texts = self._names[np.minimum(places, len(self._names) - 1)]
        return drawn


def given_names(birth_years: Integers, sexes: Integers, generator: np.random.Generator) -> Texts:
    """A given name for each person."""
    own = np.clip((birth_years - _FIRST_DECADE) // 10, 0, _DECADES - 1)
    other = generator.integers(0, _DECADES, len(own))
    decades = np.where(generator.random(len(own)) < _FROM_ANOTHER_DECADE, other, own)
    names: Texts = np.empty(len(own), dtype=np.object_)
    for decade in range(_DECADES):
        for sex, letter in enumerate(_SEX_LETTERS):
            places = np.flatnonzero((decades == decade) & (sexes == sex))
            names[places] = _given_pools()[decade, letter].draw(len(places), generator)
    return names


def surnames(francophone: Booleans, generator: np.random.Generator) -> Texts:
    """A surname for each person, or for each head of a family."""
    names = _invented_pool().draw(len(francophone), generator)
    has_published = generator.random(len(francophone)) < _PUBLISHED_SHARE
    for is_french, pool in ((True, _quebec_pool()), (False, _ontario_pool())):
        places = np.flatnonzero(has_published & (francophone == is_french))
        names[places] = pool.draw(len(places), generator)
    return names


@cache
def _given_pools() -> dict[tuple[int, str], NamePool]:
    counts: dict[tuple[int, str], dict[str, float]] = {}
    for row in _rows("ontario_first_names_1917_2006.csv"):
        if row["name"] in _NO_NAMES:
            continue
        decade = (int(row["decade"]) - _FIRST_DECADE) // 10
        counts.setdefault((decade, row["sex"]), {})[row["name"].title()] = float(row["count"])
    return {key: NamePool(list(names), np.array(list(names.values()))) for key, names in counts.items()}


@cache
def _ontario_pool() -> NamePool:
    names = [row["surname"] for row in _rows("ontario_surnames_1911_rank.csv")]
    return NamePool(names, 1.0 / (np.arange(len(names)) + 3.0))


@cache
def _quebec_pool() -> NamePool:
    rows = _rows("quebec_surnames_2006_share.csv")
    return NamePool([row["surname"] for row in rows], np.array([float(row["percent_of_population"]) for row in rows]))


@cache
def _invented_pool() -> NamePool:
    # The same surnames for every seed: only who bears them differs.
    generator = np.random.Generator(np.random.Philox(0))
    names: dict[str, None] = {}
    while len(names) < _INVENTED_SURNAMES:
        syllables = "".join(
            _ONSETS[generator.integers(len(_ONSETS))] + _VOWELS[generator.integers(len(_VOWELS))]
            for _ in range(generator.integers(1, 3))
        )
        names[(syllables + _ENDINGS[generator.integers(len(_ENDINGS))]).title()] = None
    return NamePool(list(names), 1.0 / (np.arange(_INVENTED_SURNAMES) + float(_FLATTENING)))


def _rows(name: str) -> list[dict[str, str]]:
    with files("deploy.synthetic").joinpath("figures", "names", name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))
