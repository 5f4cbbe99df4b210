"""The two written files: their shape, their overlap, and their agreement with the published marginals.

Statistical limits are SIGMAS standard errors. Seeds are fixed, so a passing test stays passing; for a fresh seed one
comparison fails by chance about twice in 10^9. Members of a household resemble each other, which multiplies the variance of a
share by at most the largest household, DESIGN_EFFECT.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import date
from math import sqrt
from pathlib import Path

import numpy as np
import pytest

from deploy.synthetic import codes, population, published
from deploy.synthetic.codes import bare_codes
from deploy.synthetic.linkage import (
    CENSUS_ROWS_WITH_STRANGE_CARD,
    CENSUS_ROWS_WITHOUT_CARD,
    HEALTH_PEOPLE_WITHOUT_LINK,
)
from deploy.synthetic.population import CENSUS_COLUMNS, HEALTH_COLUMNS, REFERENCE_DATE, write_sources

SIGMAS = 6.0
DESIGN_EFFECT = 6.0
SIZES = [1, 2, 17, 1000]

# Wanted sizes of the interesting groups (invented, as is all that concerns health).
ANGIOPLASTY = (0.010, 0.015)
SENIORS_WITH_TYPE_2_DIABETES = (0.18, 0.22)
SMALLEST_BAND_OF_VISITS = 0.08
WOMEN = (0.50, 0.53)
SENIOR = 65

Row = dict[str, str]


def passes_luhn(card: str) -> bool:
    """The mod 10 test, written independently of the generator."""
    doubled = [int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(card))]
    return sum(value // 10 + value % 10 for value in doubled) % 10 == 0


def close(found: float, expected: float, size: int, design_effect: float = DESIGN_EFFECT) -> bool:
    """Whether a share found among `size` people is compatible with the expected one."""
    return abs(found - expected) < SIGMAS * sqrt(design_effect * expected * (1 - expected) / size)


def share(rows: list[Row], test: Callable[[Row], bool]) -> float:
    return sum(map(test, rows)) / len(rows)


def write(folder: Path, size: int, seed: int) -> tuple[bytes, bytes]:
    health, census = folder / f"health-{size}-{seed}.csv", folder / f"census-{size}-{seed}.csv"
    write_sources(health, census, population=size, seed=seed)
    return health.read_bytes(), census.read_bytes()


# --- shape ------------------------------------------------------------------------------------------------------------


def check_health_row(row: Row) -> None:
    """Every field is well formed, a published code where it should be, and consistent with the others."""
    assert list(row) == list(HEALTH_COLUMNS)
    assert re.fullmatch(r"0[0-9]{9}", row["health_card"])
    assert passes_luhn(row["health_card"])
    assert 0 <= int(row["age"]) <= 104
    assert REFERENCE_DATE.year - int(row["birth_year"]) - int(row["age"]) in {0, 1}
    assert row["sex"] in bare_codes(codes.SEXES)
    assert row["census_division"] in bare_codes(codes.CENSUS_DIVISIONS)
    for column, known in (("diagnosis", codes.DIAGNOSES), ("procedure", codes.PROCEDURES)):
        listed = row[column].split(";") if row[column] else []
        assert len(set(listed)) == len(listed)
        assert set(listed) <= set(bare_codes(known))
    assert int(row["emergency_visits"]) >= 0
    assert (row["last_admission_date"] == "") == (int(row["hospital_visits"]) == 0)
    if row["last_admission_date"]:
        assert date(2010, 5, 10) <= date.fromisoformat(row["last_admission_date"]) <= date(2011, 5, 9)


def check_census_row(row: Row) -> None:
    """Every field is well formed and a published code where it should be."""
    assert list(row) == list(CENSUS_COLUMNS)
    assert row["health_card"] == "" or re.fullmatch(r"0[0-9]{9}", row["health_card"])
    assert row["health_card"] == "" or passes_luhn(row["health_card"])
    assert re.fullmatch(r"P[0-9]{8}", row["person_id"])
    assert re.fullmatch(r"H[0-9]{8}", row["household_id"])
    assert row["mother_tongue"] in bare_codes(codes.MOTHER_TONGUES)
    assert row["first_official_language"] in bare_codes(codes.FIRST_OFFICIAL_LANGUAGES)
    assert row["knowledge_of_official_languages"] in bare_codes(codes.KNOWLEDGE_OF_OFFICIAL_LANGUAGES)
    assert row["home_language"] in bare_codes(codes.HOME_LANGUAGES)


@pytest.mark.parametrize("size", SIZES)
def test_any_population_gives_exactly_that_many_valid_health_rows(size: int, tmp_path: Path) -> None:
    """From one person on, the health file has the population asked for, and both files are well formed."""
    sources = type_sources(tmp_path, size)
    health, census = sources
    assert len(health) == size
    for row in health:
        check_health_row(row)
    for row in census:
        check_census_row(row)
    assert len({row["health_card"] for row in health}) == size


def type_sources(folder: Path, size: int) -> tuple[list[Row], list[Row]]:
    raise NotImplementedError
