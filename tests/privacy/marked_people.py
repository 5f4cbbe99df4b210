"""Made-up people whose every group has an unmistakable size, and one of whom carries marked values.

No two of the sizes are near each other (`_APART`), none lies in the range of ports that systems give out or among the
other numbers of the sources, so that a number of five digits that turns up somewhere can only be one of them, and noise
cannot turn one into another: at scale 50 noise of 1,500 has probability e^-30.

Cards are spread at random over the block that the synthetic people use; languages are drawn anew for each person.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path

import numpy as np

from deploy.synthetic.cards import BLOCK_SIZE, card_digits
from deploy.synthetic.population import CENSUS_COLUMNS, HEALTH_COLUMNS

_SEED = 20_110_510
_LANGUAGES = ("English", "English and French", "Other")
_FIRST = ("English", "French", "English and French", "Neither")
_KNOWLEDGE = ("English only", "French only", "English and French", "Neither")
_HOME = ("English", "French", "Other")
MARKED_CARD_ROW = 0

Row = dict[str, str]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many people there are of each kind; every one of them a canary, and at least 1,500 from every other."""

    # In the health data.
    health: int = 29_333
    # With a card in the census; some of them are not in the health data.
    census: int = 31_019
    # In the health data and in the census.
    linked: int = 21_601
    # People of the health data with the diagnosis that makes the large cohort.
    cohort: int = 23_117
    # Members of the large cohort who are in the census.
    linked_cohort: int = 19_429
    # Those of them with mother tongue French.
    french: int = 13_687


@dataclass(frozen=True, slots=True)
class MarkedPeople:
    """The two agencies' data, row by row. Row 0 of both is the marked person, who is in the large cohort."""

    sizes: Sizes = field(default_factory=Sizes)
    health: list[Row] = field(default_factory=list)
    census: list[Row] = field(default_factory=list)

    # Rare values of the marked person: nobody else has them, and no other number is near.
    visits = 86_413
    emergency_visits = 79_301
    admission = "2010-11-23"
    # A question about nobody, asked by another researcher.
    colleagues_visits = 93_187
    person = "person-5b1f7d0c2e"
    household = "household-a94c03e67b"
    large_cohort = "diagnosis = 'epilepsy'"
    diagnosis = "epilepsy"

    @classmethod
    def make(cls) -> MarkedPeople:
        """The same people every time."""
        people = cls()
        people._fill()
        return people

    def _fill(self) -> None:
        sizes, generator = self.sizes, np.random.default_rng(_SEED)
        everyone = sizes.health + sizes.census - sizes.linked
        cards = _cards(generator, everyone)
        # In this order: linked members of the cohort, others of the cohort, linked others, health only, census only.
        unlinked_cohort = sizes.cohort - sizes.linked_cohort
        linked_rest = sizes.linked - sizes.linked_cohort
        in_census = [True] * sizes.linked_cohort + [False] * unlinked_cohort + [True] * linked_rest
        in_census += [False] * (sizes.health - len(in_census))
        drawn = generator.integers(0, 1 << 16, size=(everyone, 8)).tolist()
        for number in range(sizes.health):
            self.health.append(
                _health_row(cards[number], drawn[number], self.diagnosis if number < sizes.cohort else "")
            )
            if in_census[number]:
                french = number < sizes.french
                self.census.append(_census_row(number, cards[number], drawn[number], french=french))
        for number in range(sizes.health, everyone):
            self.census.append(_census_row(number, cards[number], drawn[number], french=False))
        self.health[MARKED_CARD_ROW] |= {
            "age": "107",
            "last_admission_date": self.admission,
            "hospital_visits": str(self.visits),
            "emergency_visits": str(self.emergency_visits),
        }
        self.census[MARKED_CARD_ROW] |= {"person_id": self.person, "household_id": self.household}

    def write(self, health_csv: Path, census_csv: Path) -> None:
        """Both sources."""
        write_csv(health_csv, self.health)
        write_csv(census_csv, self.census)

    @property
    def cards(self) -> list[str]:
        """Cards of everyone in the health data, in the order of the file."""
        return [row["health_card"] for row in self.health]

    @property
    def cohort_cards(self) -> list[str]:
        """Cards of the large cohort; the marked person's is the first."""
        return self.cards[: self.sizes.cohort]


def health_and_census_rows(people: int, *, linked: int) -> tuple[list[Row], list[Row]]:
    """Plain people, the same for the same arguments: everyone in the health data, the first of them in the census too."""
    generator = np.random.default_rng(_SEED)
    cards = _cards(generator, people)
    drawn = generator.integers(0, 1 << 16, size=(people, 8)).tolist()
    health = [_health_row(cards[number], drawn[number], "") for number in range(people)]
    return health, [_census_row(number, cards[number], drawn[number], french=False) for number in range(linked)]


def _cards(generator: np.random.Generator, count: int) -> list[str]:
    index = generator.choice(BLOCK_SIZE, count, replace=False)
    return ["".join(map(str, digits)) for digits in card_digits(index).tolist()]


def _health_row(card: str, drawn: list[int], diagnosis: str) -> Row:
    age = drawn[0] % 100
    return dict.fromkeys(HEALTH_COLUMNS, "") | {
        "health_card": card,
        "age": str(age),
        "birth_year": str(2010 - age),
        "sex": ("female", "male")[drawn[1] % 2],
        "census_division": ("Ottawa", "Kenora", "Grey")[drawn[1] % 3],
        "diagnosis": diagnosis,
        "hospital_visits": str(drawn[2] % 90),
        "emergency_visits": str(drawn[3] % 90),
    }


def _census_row(number: int, card: str, drawn: list[int], *, french: bool) -> Row:
    return dict.fromkeys(CENSUS_COLUMNS, "not asked") | {
        "health_card": card,
        "person_id": f"p{number}x",
        "household_id": f"h{number}x",
        "mother_tongue": "French" if french else _LANGUAGES[drawn[4] % len(_LANGUAGES)],
        "first_official_language": _FIRST[drawn[5] % len(_FIRST)],
        "knowledge_of_official_languages": _KNOWLEDGE[drawn[6] % len(_KNOWLEDGE)],
        "home_language": _HOME[drawn[7] % len(_HOME)],
    }


def write_csv(path: Path, rows: list[Row]) -> None:
    """One source; its columns are those of the first row."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(rows[0])
        writer.writerows(map(itemgetter(*rows[0]), rows))
