"""The two written files: their shape, their overlap, and their agreement with the published marginals.

Statistical limits are SIGMAS standard errors. Seeds are fixed, so a passing test stays passing; for a fresh seed one
comparison fails by chance about twice in 10^9. Members of a household resemble each other, which multiplies the variance of a
share by at most the largest household, DESIGN_EFFECT.
"""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from fakes.dictionaries import CENSUS_DICTIONARY

from deploy.synthetic import codes, population, published
from deploy.synthetic.codes import bare_codes, values_of
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

PROVINCE = 100_000
SEED = 20110510


@dataclass(frozen=True)
class Sources:
    """Both files of one (population, seed), read back by the standard library."""

    health: list[Row]
    census: list[Row]

    @cached_property
    def linked(self) -> list[tuple[Row, Row]]:
        """Health and census row of everyone whose card stands in both files."""
        by_card = {row["health_card"]: row for row in self.census if row["health_card"]}
        return [(row, by_card[row["health_card"]]) for row in self.health if row["health_card"] in by_card]

    @cached_property
    def asked(self) -> list[tuple[Row, Row]]:
        """Those of them who answered the long form."""
        return [(health, census) for health, census in self.linked if census["home_language"] != "not asked"]


def sources(folder: Path, size: int, seed: int = SEED) -> Sources:
    """Both files, written and read back."""
    return Sources(
        *(list(csv.DictReader(text.decode().splitlines(), strict=True)) for text in write(folder, size, seed))
    )


@pytest.fixture(scope="module")
def province(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    """A population large enough for marginals."""
    return sources(tmp_path_factory.mktemp("province"), PROVINCE)


def passes_luhn(card: str) -> bool:
    """The mod 10 test, written independently of the generator."""
    doubled = [int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(card))]
    return sum(value // 10 + value % 10 for value in doubled) % 10 == 0


def close(found: float, expected: float, size: int, design_effect: float = DESIGN_EFFECT) -> bool:
    """Whether a share found among `size` people is compatible with the expected one."""
    return abs(found - expected) < SIGMAS * sqrt(design_effect * expected * (1 - expected) / size)


def share(rows: list[Row], test: Callable[[Row], bool]) -> float:
    """The part of the rows that passes."""
    return sum(map(test, rows)) / len(rows)


def write(folder: Path, size: int, seed: int) -> tuple[bytes, bytes]:
    """The bytes of both files."""
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
    for variable in CENSUS_DICTIONARY.columns:
        assert row[variable.name] in variable.values
    # The long form is answered as a whole or not at all.
    assert len({row[variable.name] == variable.not_asked for variable in CENSUS_DICTIONARY.columns[1:]}) == 1


@pytest.mark.parametrize("size", SIZES)
def test_any_population_gives_exactly_that_many_valid_health_rows(size: int, tmp_path: Path) -> None:
    """From one person on, the health file has the population asked for, and both files are well formed."""
    written = sources(tmp_path, size)
    assert len(written.health) == size
    assert len({row["health_card"] for row in written.health}) == size
    for row in written.health:
        check_health_row(row)
    for row in written.census:
        check_census_row(row)


def test_the_whole_province_is_well_formed(province: Sources) -> None:
    """No row of a large population breaks the format either."""
    for row in province.health:
        check_health_row(row)
    for row in province.census:
        check_census_row(row)


def test_the_same_population_and_seed_give_the_same_bytes(tmp_path: Path) -> None:
    """The sources are a function of population and seed, and the seed matters."""
    first = write(tmp_path, 1000, 7)
    assert first == write(tmp_path, 1000, 7)
    other = write(tmp_path, 1000, 8)
    assert first[0] != other[0]
    assert first[1] != other[1]


def test_the_work_is_done_in_chunks_that_leave_the_census_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody's household, language or card depends on how the work is cut; progress counts up to each file's total."""
    whole = write(tmp_path, 1000, 7)
    monkeypatch.setattr(population, "_CHUNK_ROWS", 64)
    seen: list[tuple[int, int]] = []
    health, census = tmp_path / "health.csv", tmp_path / "census.csv"
    write_sources(health, census, population=1000, seed=7, progress=lambda done, total: seen.append((done, total)))
    assert census.read_bytes() == whole[1]
    assert [line[:10] for line in health.read_bytes().splitlines()] == [line[:10] for line in whole[0].splitlines()]
    # The files come one after the other, each with a count of its own; what comes first of each is its header.
    second = [done for done, _total in seen].index(0, 1)
    for steps in (seen[:second], seen[second:]):
        done = [step for step, _total in steps]
        assert done == sorted(done)
        assert max(np.diff(done)) <= 64
        assert {total for _step, total in steps} == {done[-1]}


@pytest.mark.parametrize(("size", "seed"), [(0, 1), (-5, 1), (100_000_000, 1), (10, -1)])
def test_impossible_requests_are_refused_before_anything_is_written(size: int, seed: int, tmp_path: Path) -> None:
    """A population without people, or beyond the synthetic cards, or a negative seed raises and leaves no file."""
    with pytest.raises(ValueError, match=r"population|seed|non-negative"):
        write_sources(tmp_path / "health.csv", tmp_path / "census.csv", population=size, seed=seed)
    assert list(tmp_path.iterdir()) == []


# --- overlap of the two files -----------------------------------------------------------------------------------------


def test_identifiers_are_unique(province: Sources) -> None:
    """No card repeats within a file, and no person id at all."""
    health_cards = [row["health_card"] for row in province.health]
    census_cards = [row["health_card"] for row in province.census if row["health_card"]]
    for identifiers in (health_cards, census_cards, [row["person_id"] for row in province.census]):
        assert len(set(identifiers)) == len(identifiers)


def test_linkage_is_imperfect_both_ways_at_the_stated_rates(province: Sources) -> None:
    """Unlinked health people, census rows without card, and census rows with a strange card are as frequent as stated."""
    people, rows = len(province.health), len(province.census)
    cards = sum(row["health_card"] != "" for row in province.census)
    independent = 1.0
    assert close(1 - len(province.linked) / people, HEALTH_PEOPLE_WITHOUT_LINK, people, independent)
    assert close(1 - cards / rows, CENSUS_ROWS_WITHOUT_CARD, rows, independent)
    assert close((cards - len(province.linked)) / rows, CENSUS_ROWS_WITH_STRANGE_CARD, rows, independent)


def test_the_files_and_the_cards_are_in_unrelated_orders(province: Sources) -> None:
    """Neither the place in the other file nor the card tells where a row stands."""
    census_place = {row["health_card"]: place for place, row in enumerate(province.census)}
    pairs = [
        (place, census_place[row["health_card"]], int(row["health_card"]))
        for place, row in enumerate(province.health)
        if row["health_card"] in census_place
    ]
    health_places, census_places, cards = np.array(pairs, dtype=np.float64).T
    limit = SIGMAS / sqrt(len(pairs))
    for one, other in ((health_places, census_places), (health_places, cards), (census_places, cards)):
        assert abs(np.corrcoef(one, other)[0, 1]) < limit


def test_households_keep_together_across_the_files(province: Sources) -> None:
    """Members of a census household live in one census division of the health data, and are at most six."""
    divisions = defaultdict(set)
    for health, census in province.linked:
        divisions[census["household_id"]].add(health["census_division"])
    assert all(len(found) == 1 for found in divisions.values())
    sizes = Counter(Counter(row["household_id"] for row in province.census).values())
    assert set(sizes) == {1, 2, 3, 4, 5, 6}


# --- marginals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "code", "figure"),
    [
        ("mother_tongue", "English", "mother_tongue_english"),
        ("mother_tongue", "French", "mother_tongue_french"),
        ("mother_tongue", "Other", "mother_tongue_other"),
        ("mother_tongue", "English and French", "mother_tongue_english_and_french"),
        ("mother_tongue", "English and other", "mother_tongue_english_and_other"),
        ("mother_tongue", "French and other", "mother_tongue_french_and_other"),
        ("mother_tongue", "English, French and other", "mother_tongue_english_french_and_other"),
        ("home_language", "English", "home_english"),
        ("home_language", "French", "home_french"),
        ("home_language", "English and other", "home_english_and_other"),
        ("knowledge_of_official_languages", "French only", "knowledge_french_only"),
        ("knowledge_of_official_languages", "English and French", "knowledge_english_and_french"),
    ],
)
def test_language_shares_are_the_published_ones(province: Sources, column: str, code: str, figure: str) -> None:
    """Each published share of a language variable is met within the stated error, among those who were asked."""
    asked = [row for row in province.census if row[column] != "not asked"]
    found = share(asked, lambda row: row[column] == code)
    assert close(found, published.share(figure), len(asked))


def test_one_household_in_five_got_the_long_form_as_a_whole(province: Sources) -> None:
    """So a count of people who were asked, times five, is one of everybody."""
    households = defaultdict(set)
    for row in province.census:
        households[row["household_id"]].add(row["home_language"] == "not asked")
    assert all(len(found) == 1 for found in households.values())
    asked = sum(found == {False} for found in households.values())
    independent = 1.0
    assert close(asked / len(households), 0.2, len(households), independent)


def test_first_official_language_by_age_is_the_published_one(province: Sources) -> None:
    """In every age group each first official language has its published share within the stated error."""
    names = values_of("first_official_language")[:-1]
    found = np.zeros((published.AGE_GROUPS, len(names)))
    for health, census in province.asked:
        group = min(int(health["age"]) // published.AGE_GROUP_YEARS, published.AGE_GROUPS - 1)
        found[group, names.index(census["first_official_language"])] += 1
    table = published.age_by_first_official_language()
    for counts, wanted in zip(found, table, strict=True):
        for count, expected in zip(counts, wanted / wanted.sum(), strict=True):
            assert close(count / counts.sum(), expected, int(counts.sum()))


def test_divisions_have_their_published_size_and_francophones(province: Sources) -> None:
    """Census divisions have their share of people, and those with a figure their share of francophones."""
    people = Counter(health["census_division"] for health, _census in province.linked)
    asked = Counter(health["census_division"] for health, _census in province.asked)
    francophones = Counter(
        health["census_division"]
        for health, census in province.asked
        if census["first_official_language"] in {"French", "English and French"}
    )
    figures = published.divisions()
    expected = figures.population / figures.population.sum()
    for name, size, wanted in zip(bare_codes(codes.CENSUS_DIVISIONS), expected, figures.francophone_share, strict=True):
        assert close(people[name] / len(province.linked), size, len(province.linked))
        if not np.isnan(wanted):
            assert close(francophones[name] / asked[name], wanted, asked[name])


def test_women_are_a_slight_majority(province: Sources) -> None:
    """The share of women lies where it was aimed at."""
    low, high = WOMEN
    assert low < share(province.health, lambda row: row["sex"] == "female") < high


def test_health_groups_are_large_enough_to_ask_about(province: Sources) -> None:
    """Angioplasty, diabetes among seniors and their hospital visits have the wanted sizes."""
    low, high = ANGIOPLASTY
    assert low < share(province.health, lambda row: "angioplasty" in row["procedure"].split(";")) < high
    seniors = [row for row in province.health if int(row["age"]) >= SENIOR]
    low, high = SENIORS_WITH_TYPE_2_DIABETES
    assert low < share(seniors, lambda row: "type_2_diabetes" in row["diagnosis"].split(";")) < high
    diabetics = [row for row in seniors if "type_2_diabetes" in row["diagnosis"].split(";")]
    bands = Counter(min(int(row["hospital_visits"]), 3) for row in diabetics)
    for band in (bands[0], bands[1] + bands[2], bands[3]):
        assert band / len(diabetics) > SMALLEST_BAND_OF_VISITS


def test_every_medical_code_occurs(province: Sources) -> None:
    """No code of the lists is there for show."""
    for column, known in (("diagnosis", codes.DIAGNOSES), ("procedure", codes.PROCEDURES)):
        seen = {code for row in province.health for code in row[column].split(";") if code}
        assert seen == set(bare_codes(known))


def test_francophones_have_more_diabetes_and_fewer_emergency_visits(province: Sources) -> None:
    """The invented links with language show in the data, in the documented direction."""
    groups: dict[bool, list[Row]] = {True: [], False: []}
    for health, census in province.asked:
        groups[census["first_official_language"] in {"French", "English and French"}].append(health)
    diabetes = {key: share(rows, lambda row: "type_2" in row["diagnosis"]) for key, rows in groups.items()}
    emergency = {key: np.mean([int(row["emergency_visits"]) for row in rows]) for key, rows in groups.items()}
    assert diabetes[True] > diabetes[False]
    assert emergency[True] < emergency[False]
