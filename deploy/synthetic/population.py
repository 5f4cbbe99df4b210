"""Writing the two sources: a health CSV without language and a census CSV without health.

Invariants: the health file has exactly `population` rows; both files are a function of (population, seed) for a given
numpy version; cards are unique within each file; memory depends on the chunk size, not on the population; the
two files are in unrelated orders (health rows by a keyed permutation, census rows household by household).

Who people are is left to `households`, `language` and `health`; who appears where to `linkage`; text to `csv_rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, timedelta
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np

from deploy.synthetic.arrays import Booleans, Integers
from deploy.synthetic.cards import decimal_digits
from deploy.synthetic.codes import (
    CENSUS_DIVISIONS,
    DIAGNOSES,
    FIRST_OFFICIAL_LANGUAGES,
    HOME_LANGUAGES,
    KNOWLEDGE_OF_OFFICIAL_LANGUAGES,
    MOTHER_TONGUES,
    PROCEDURES,
    SEXES,
    bare_codes,
)
from deploy.synthetic.csv_rows import CodeListPieces, Pieces, digit_pieces, field, header, join_rows
from deploy.synthetic.dice import Dice, Stream
from deploy.synthetic.health import DAYS_OF_ADMISSIONS, MOST_VISITS, health_records
from deploy.synthetic.households import OLDEST_AGE, People, people_at
from deploy.synthetic.language import first_official_languages, is_francophone, languages
from deploy.synthetic.linkage import Linkage

REFERENCE_DATE: Final = date(2011, 5, 10)
"""Census day; ages are whole years on it, and admissions lie in the year before it."""

HEALTH_COLUMNS: Final = (
    "health_card",
    "birth_year",
    "age",
    "sex",
    "census_division",
    "diagnosis",
    "procedure",
    "last_admission_date",
    "hospital_visits",
    "emergency_visits",
)
CENSUS_COLUMNS: Final = (
    "health_card",
    "person_id",
    "household_id",
    "mother_tongue",
    "first_official_language",
    "knowledge_of_official_languages",
    "home_language",
)

_CHUNK_ROWS: Final = 100_000  # part of what a seed means: health records are drawn chunk by chunk
_ID_DIGITS: Final = 8

Progress = Callable[[int, int], None]


def write_sources(
    health_csv: Path, census_csv: Path, *, population: int, seed: int, progress: Progress | None = None
) -> None:
    """Write both files, one after the other; see `write_source`."""
    for role, path in (("health", health_csv), ("census", census_csv)):
        write_source(role, path, population=population, seed=seed, progress=progress)


def write_source(role: str, path: Path, *, population: int, seed: int, progress: Progress | None = None) -> None:
    """Write the file of one agency, replacing what was there; `progress(done, total)` counts people.

    Raises ValueError for a population below 1 or beyond the synthetic cards, or a negative seed, and OSError as files do.
    """
    dice = Dice(seed)
    linkage = Linkage(population, seed, dice)
    if role == "health":
        total, chunks = population, _health_chunks(population, seed, linkage, dice)
    else:
        total, chunks = linkage.world_size, _census_chunks(linkage, dice)
    done = 0
    with path.open("wb") as file:
        for people, text in chunks:
            file.write(text)
            done += people
            if progress is not None:
                progress(done, total)


def _health_chunks(population: int, seed: int, linkage: Linkage, dice: Dice) -> Iterator[tuple[int, bytes]]:
    pieces = _HealthPieces()
    yield 0, header(HEALTH_COLUMNS)
    for number, rows in enumerate(_ranges(population)):
        people = people_at(linkage.health_people(rows), dice)
        generator = np.random.Generator(
            np.random.Philox(np.random.SeedSequence(entropy=seed, spawn_key=(Stream.HEALTH_RECORDS, number)))
        )
        yield len(rows), pieces.rows(people, linkage, dice, generator)


def _census_chunks(linkage: Linkage, dice: Dice) -> Iterator[tuple[int, bytes]]:
    pieces = _CensusPieces()
    yield 0, header(CENSUS_COLUMNS)
    for index in _ranges(linkage.world_size):
        has_row, has_card = linkage.census_rows(index)
        people = people_at(index[has_row], dice)
        yield len(index), pieces.rows(people, ~has_card[has_row], linkage, dice)


def _ranges(size: int) -> Iterator[Integers]:
    for start in range(0, size, _CHUNK_ROWS):
        yield np.arange(start, min(start + _CHUNK_ROWS, size), dtype=np.int64)


class _HealthPieces:
    """The ready-made pieces of a health row."""

    def __init__(self) -> None:
        self._birth = Pieces(
            [
                f"{REFERENCE_DATE.year - age - birthday_to_come},{age},{field(sex)},"
                for age, birthday_to_come, sex in product(range(OLDEST_AGE + 1), (0, 1), bare_codes(SEXES))
            ]
        )
        self._division = Pieces([f"{field(code)}," for code in bare_codes(CENSUS_DIVISIONS)])
        self._diagnoses = CodeListPieces(bare_codes(DIAGNOSES))
        self._procedures = CodeListPieces(bare_codes(PROCEDURES))
        first_day = REFERENCE_DATE - timedelta(days=DAYS_OF_ADMISSIONS)
        days = [f"{first_day + timedelta(days=day)}," for day in range(DAYS_OF_ADMISSIONS)]
        self._admission = Pieces([*days, ","])
        self._visits = Pieces(
            [f"{hospital},{emergency}\n" for hospital, emergency in product(range(MOST_VISITS + 1), repeat=2)]
        )

    def rows(self, people: People, linkage: Linkage, dice: Dice, generator: np.random.Generator) -> bytes:
        """The text of these people's rows."""
        francophone = is_francophone(first_official_languages(people, dice))
        records = health_records(people.age, people.sex, francophone, generator)
        return join_rows(
            [
                digit_pieces(linkage.cards(people.index)),
                self._birth.pick((people.age * 2 + records.birthday_to_come) * len(SEXES) + people.sex),
                self._division.pick(people.division),
                *self._diagnoses.pick(records.diagnoses),
                *self._procedures.pick(records.procedures),
                self._admission.pick(np.where(records.hospital_visits > 0, records.admission_day, DAYS_OF_ADMISSIONS)),
                self._visits.pick(records.hospital_visits * (MOST_VISITS + 1) + records.emergency_visits),
            ]
        )


class _CensusPieces:
    """The ready-made pieces of a census row."""

    def __init__(self) -> None:
        lists = (MOTHER_TONGUES, FIRST_OFFICIAL_LANGUAGES, KNOWLEDGE_OF_OFFICIAL_LANGUAGES, HOME_LANGUAGES)
        self._languages = Pieces([",".join(map(field, row)) + "\n" for row in product(*map(bare_codes, lists))])

    def rows(self, people: People, cardless: Booleans, linkage: Linkage, dice: Dice) -> bytes:
        """The text of these people's rows."""
        spoken = languages(people, dice)
        combination = spoken.mother_tongue * len(FIRST_OFFICIAL_LANGUAGES) + spoken.first_official
        combination = combination * len(KNOWLEDGE_OF_OFFICIAL_LANGUAGES) + spoken.knowledge
        combination = combination * len(HOME_LANGUAGES) + spoken.home
        return join_rows(
            [
                digit_pieces(linkage.cards(people.index), blank=cardless),
                digit_pieces(decimal_digits(people.index + 1, _ID_DIGITS), prefix=b"P"),
                digit_pieces(decimal_digits(people.household + 1, _ID_DIGITS), prefix=b"H"),
                self._languages.pick(combination),
            ]
        )
