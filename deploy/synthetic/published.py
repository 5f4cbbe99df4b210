"""Reading `figures/`: the published aggregates, as arrays in the order of `codes`.

Sources and doubts stand in `figures/SOURCES.md`. Nothing outside this package's own folder is read.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from deploy.synthetic.arrays import Floats
from deploy.synthetic.codes import CENSUS_DIVISIONS, bare_codes, values_of

AGE_GROUP_YEARS = 5
AGE_GROUPS = 17  # 0-4, 5-9, ..., 75-79, 80+

_LANGUAGE_COLUMNS = ("english", "french", "english_and_french", "neither")


@dataclass(frozen=True, slots=True)
class Divisions:
    """Census divisions in the order of `codes.CENSUS_DIVISIONS`."""

    population: Floats
    """People in 2011."""
    francophone_share: Floats
    """French, or English and French, as first official language; NaN where nothing was found."""


@cache
def divisions() -> Divisions:
    """The census divisions; ValueError if file and code list name different ones."""
    rows = _rows("census_divisions.csv")
    if tuple(row["census_division"] for row in rows) != bare_codes(CENSUS_DIVISIONS):
        raise ValueError("figures/census_divisions.csv and codes.CENSUS_DIVISIONS differ")
    return Divisions(
        population=np.array([float(row["population_2011"]) for row in rows]),
        francophone_share=np.array([_optional_share(row) for row in rows]),
    )


@cache
def age_by_first_official_language() -> Floats:
    """Shares of the province by age group and first official language; they sum to 1."""
    counts = np.array([_language_counts(row) for row in _rows("first_official_language_by_age_2011.csv")])
    if counts.shape != (AGE_GROUPS, len(_LANGUAGE_COLUMNS)):
        raise ValueError("figures/first_official_language_by_age_2011.csv has another shape than the age groups")
    shares: Floats = counts / counts.sum()
    return shares


@cache
def mother_tongue_by_first_official_language(place: str) -> Floats:
    """Counts by mother tongue (rows) and first official language (columns) in Toronto or Halton."""
    found = {
        row["mother_tongue"]: _language_counts(row)
        for row in _rows("mother_tongue_by_first_official_language_2016.csv")
        if row["place"] == place
    }
    return np.array([found[value] for value in values_of("mother_tongue")])


@cache
def share(name: str) -> float:
    """One row of `language_shares.csv` as a fraction; KeyError for an unknown name."""
    return {row["name"]: float(row["numerator"]) / float(row["denominator"]) for row in _rows("language_shares.csv")}[
        name
    ]


@cache
def household_sizes() -> Floats:
    """Shares of households with 1, 2, 3, 4, and 5 or more persons."""
    counts = np.array([float(row["households"]) for row in _rows("household_sizes.csv")])
    shares: Floats = counts / counts.sum()
    return shares


def _rows(name: str) -> list[dict[str, str]]:
    text = (files("deploy.synthetic") / "figures" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _language_counts(row: dict[str, str]) -> list[float]:
    return [float(row[column]) for column in _LANGUAGE_COLUMNS]


def _optional_share(row: dict[str, str]) -> float:
    return float(row["francophones"]) / float(row["francophones_among"]) if row["francophones"] else float("nan")
