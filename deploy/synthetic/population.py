"""Writing the two sources: a health CSV without language and a census CSV without health.

Invariants: the health file has exactly `population` rows; both files are a function of (population, seed) for a given
numpy version; cards are unique within each file; memory depends on the chunk size, not on the population; the
two files are in unrelated orders (health rows by a keyed permutation, census rows household by household).

Who people are is left to `households`, `language`, `long_form` and `health`; who appears where to `linkage`; text to `csv_rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from itertools import product
from math import prod
from pathlib import Path
from typing import Final

import numpy as np

from broker_common.values import Linkage as LinkedBy
from deploy.synthetic.addresses import address_pieces
from deploy.synthetic.arrays import Booleans, Integers
from deploy.synthetic.cards import decimal_digits
from deploy.synthetic.codes import CENSUS_DIVISIONS, DIAGNOSES, PROCEDURES, SEXES, bare_codes, values_of
from deploy.synthetic.csv_rows import CodeListPieces, Pieces, digit_pieces, field, header, join_rows
from deploy.synthetic.dice import Dice, Stream
from deploy.synthetic.dictionaries import CENSUS_DICTIONARY
from deploy.synthetic.health import DAYS_OF_ADMISSIONS, MOST_VISITS, health_records
from deploy.synthetic.households import OLDEST_AGE, People, people_at
from deploy.synthetic.language import first_official_languages, is_francophone, mother_tongues
from deploy.synthetic.linkage import Linkage
from deploy.synthetic.long_form import got_the_form, long_form

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
CENSUS_COLUMNS: Final = ("health_card", "person_id", "household_id", *CENSUS_DICTIONARY.names)

# The variables of the long form, in the order of the columns: combinations of a few are made ready at once.
_LONG_FORM_PIECES: Final = (CENSUS_DICTIONARY.names[1:4], CENSUS_DICTIONARY.names[4:6], CENSUS_DICTIONARY.names[6:])

_CHUNK_ROWS: Final = 100_000  # part of what a seed means: health records are drawn chunk by chunk
_ID_DIGITS: Final = 8

Progress = Callable[[int, int], None]


def write_sources(
    health_csv: Path, census_csv: Path, *, population: int, seed: int, progress: Progress | None = None
) -> None:
    """Write both files, one after the other; see `write_source`."""
    for role, path in (("health", health_csv), ("census", census_csv)):
        write_source(role, path, population=population, seed=seed, progress=progress)


def write_source(
    role: str,
    path: Path,
    *,
    population: int,
    seed: int,
    linked_by: LinkedBy = "complementary",
    progress: Progress | None = None,
) -> None:
    """Write the file of one agency, replacing what was there; `progress(done, total)` counts people.

    Where households are linked, the same people have addresses instead of cards, each household one.

    Raises ValueError for a population below 1 or beyond the synthetic cards, or a negative seed, and OSError as files do.
    """
    dice = Dice(seed)
    linkage = Linkage(population, seed, dice)
    if role == "health":
        total, chunks = population, _health_chunks(population, seed, linkage, dice, linked_by)
    else:
        total, chunks = linkage.world_size, _census_chunks(linkage, dice, linked_by)
    done = 0
    with path.open("wb") as file:
        for people, text in chunks:
            file.write(text)
            done += people
            if progress is not None:
                progress(done, total)


def _health_chunks(
    population: int, seed: int, linkage: Linkage, dice: Dice, linked_by: LinkedBy
) -> Iterator[tuple[int, bytes]]:
    pieces = _HealthPieces(linked_by)
    yield 0, header(HEALTH_COLUMNS)
    for number, rows in enumerate(_ranges(population)):
        people = people_at(linkage.health_people(rows), dice)
        generator = np.random.Generator(
            np.random.Philox(np.random.SeedSequence(entropy=seed, spawn_key=(Stream.HEALTH_RECORDS, number)))
        )
        yield len(rows), pieces.rows(people, linkage, dice, generator)


def _census_chunks(linkage: Linkage, dice: Dice, linked_by: LinkedBy) -> Iterator[tuple[int, bytes]]:
    pieces = _CensusPieces(linked_by)
    yield 0, header([name for name in CENSUS_COLUMNS if linked_by != "household" or name != "household_id"])
    for index in _ranges(linkage.world_size):
        has_row, has_card = linkage.census_rows(index)
        people = people_at(index[has_row], dice)
        yield len(index), pieces.rows(people, ~has_card[has_row], linkage, dice)


def _ranges(size: int) -> Iterator[Integers]:
    for start in range(0, size, _CHUNK_ROWS):
        yield np.arange(start, min(start + _CHUNK_ROWS, size), dtype=np.int64)


class _HealthPieces:
    """The ready-made pieces of a health row."""

    def __init__(self, linked_by: LinkedBy) -> None:
        self._has_addresses = linked_by == "household"
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
                address_pieces(people.household, "health")
                if self._has_addresses
                else digit_pieces(linkage.cards(people.index)),
                self._birth.pick((people.age * 2 + records.birthday_to_come) * len(SEXES) + people.sex),
                self._division.pick(people.division),
                *self._diagnoses.pick(records.diagnoses),
                *self._procedures.pick(records.procedures),
                self._admission.pick(np.where(records.hospital_visits > 0, records.admission_day, DAYS_OF_ADMISSIONS)),
                self._visits.pick(records.hospital_visits * (MOST_VISITS + 1) + records.emergency_visits),
            ]
        )


class _CensusPieces:
    """The ready-made pieces of a census row: of the mother tongue, and three of what the long form asks."""

    def __init__(self, linked_by: LinkedBy) -> None:
        self._has_addresses = linked_by == "household"
        self._mother_tongue = Pieces([f"{field(value)}," for value in values_of("mother_tongue")])
        self._long_form = [_combinations(variables) for variables in _LONG_FORM_PIECES]

    def rows(self, people: People, cardless: Booleans, linkage: Linkage, dice: Dice) -> bytes:
        """The text of these people's rows."""
        first_official = first_official_languages(people, dice)
        mother_tongue = mother_tongues(people, first_official, dice)
        answers = _answers(people, first_official, mother_tongue, dice)
        return join_rows(
            [
                *self._ids(people, cardless, linkage),
                self._mother_tongue.pick(mother_tongue),
                *(pieces.pick(numbers) for pieces, numbers in zip(self._long_form, answers, strict=True)),
            ]
        )

    def _ids(self, people: People, cardless: Booleans, linkage: Linkage) -> list[list[bytes]]:
        persons = digit_pieces(decimal_digits(people.index + 1, _ID_DIGITS), prefix=b"P")
        if self._has_addresses:
            return [address_pieces(people.household, "census", cardless), persons]
        households = digit_pieces(decimal_digits(people.household + 1, _ID_DIGITS), prefix=b"H")
        return [digit_pieces(linkage.cards(people.index), blank=cardless), persons, households]


def _combinations(variables: Sequence[str]) -> Pieces:
    """Every combination of the values of some variables."""
    end = "\n" if variables[-1] == CENSUS_COLUMNS[-1] else ","
    return Pieces([",".join(map(field, row)) + end for row in product(*map(values_of, variables))])


def _answers(people: People, first_official: Integers, mother_tongue: Integers, dice: Dice) -> list[Integers]:
    """The combinations that people answer: 'not asked' is the last value of every variable, and all of them the last combination."""
    asked = np.flatnonzero(got_the_form(people, dice))
    first_official = first_official[asked]
    form = long_form(people.at(asked), first_official, mother_tongue[asked], dice)
    columns = {"first_official_language": first_official, **form.by_variable()}
    answers = []
    for variables in _LONG_FORM_PIECES:
        sizes = [len(values_of(variable)) for variable in variables]
        numbers = np.full(len(people.index), prod(sizes) - 1)
        numbers[asked] = np.ravel_multi_index([columns[variable] for variable in variables], sizes)
        answers.append(numbers)
    return answers
