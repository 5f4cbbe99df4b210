"""Two registers of the same people, made by two offices that never agreed on anything, and the truth about who is who.

`census.csv` is the census file, without cards; `register.csv` is the client register that holds the cards; `truth.csv` says which card is
whose. The people are those of `population` for the same (population, seed): what is linked can be loaded beside the health file of
that deployment. Each file has errors of its own: letters, days and months that changed places, former surnames, postal codes from
before a move, what is missing, what stands for a missing value, clients with two cards that the register knows of, and some that it
does not. Household members share surname and postal code; children of one age are twins; some sons bear their father's name. How
often each of these happens is invented. Junk (`MICKEY MOUSE`, `BABY BOY`, empty names) is in neither person's truth.

Everybody is in memory: about 1 KiB for each person.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from deploy.synthetic.arrays import Booleans, Integers
from deploy.synthetic.cards import card_digits
from deploy.synthetic.dice import Dice
from deploy.synthetic.households import People, people_at
from deploy.synthetic.linkage import Linkage
from deploy.synthetic.names import FEMALE, Texts, given_names, surnames
from deploy.synthetic.population import REFERENCE_DATE, Progress, write_source

REGISTERS_FOLDER: Final = "registers"
"""Beside the homes that `init` makes."""
CENSUS_FILE: Final = "census.csv"
REGISTER_FILE: Final = "register.csv"
TRUTH_FILE: Final = "truth.csv"

_REGISTER_COLUMNS: Final = (*("health_card", "client_id", "given_name", "surname", "birth_date", "sex", "postal_code"),)
_NAMED: Final = ("given_name", "surname", "birth_date", "sex", "postal_code")
_IDS: Final = ("health_card", "person_id", "household_id")

# The stream of a seed's draws; `dice` has streams of its own below.
_REGISTERS_STREAM: Final = 1_001
_ADULT: Final = 18
_YEAR_DAYS: Final = 365
_SEXES: Final = ("F", "M")
# Letters of Canadian postal codes: districts of Ontario, then any other letter that stands in a code.
_DISTRICTS: Final = "KLMNP"
_POSTAL_LETTERS: Final = "ABCEGHJKLMNPRSTVWXYZ"
_HOUSEHOLDS_PER_CODE: Final = 8

# Who shares what (invented).
_IN_REGISTER: Final = 0.94
_TAKES_SURNAME: Final = 0.6
_NAMED_AFTER_FATHER: Final = 0.03
_SECOND_NAME: Final = 0.6
# The share of rows, in the census and in the register, with each error (invented).
_TYPO: Final = 0.015
_SWAPPED_DATE: Final = 0.007
_WRONG_YEAR: Final = 0.005
_NO_DATE: Final = 0.01
_PLACEHOLDER_DATE: Final = 0.002
_NO_POSTAL_CODE: Final = 0.015
_NO_SEX: Final = 0.005
_OTHER_SEX: Final = 0.002
_NO_SECOND_NAME: Final = 0.35
_INITIAL: Final = 0.15
_KNOWN_BY_SECOND: Final = 0.01
# Errors of the register alone.
_FORMER_SURNAME: Final = 0.12
_MOVED: Final = 0.10
_SECOND_CARD_KNOWN: Final = 0.01
_SECOND_CARD_UNKNOWN: Final = 0.005
_JUNK: Final = 0.01
_INVALID_CARD: Final = 0.001

_JUNK_NAMES: Final = (
    *(("MICKEY", "MOUSE"), ("TEST", "PATIENT"), ("BABY BOY", ""), ("BABY GIRL", ""), ("UNKNOWN", "UNKNOWN")),
    *(("", ""), ("J", "S"), ("DONALD", "DUCK"), ("JOHN", "DOE"), ("N/A", "N/A"), ("INFANT", "OF")),
)


@dataclass(frozen=True, slots=True)
class Identity:
    """How one office writes one person down."""

    given: str
    second: str
    surname: str
    born: str
    sex: str
    postal_code: str

    def fields(self) -> tuple[str, ...]:
        """In the order of the files' columns."""
        return f"{self.given} {self.second}".strip(), self.surname, self.born, self.sex, self.postal_code


def write_registers(directory: Path, *, population: int, seed: int, progress: Progress | None = None) -> None:
    """Write the three files into `directory`, which is there. Raises ValueError as `write_source` does."""
    dice = Dice(seed)
    linkage = Linkage(population, seed, dice)
    generator = np.random.Generator(
        np.random.Philox(np.random.SeedSequence(entropy=seed, spawn_key=(_REGISTERS_STREAM,)))
    )
    with TemporaryDirectory() as temporary:
        counted = Path(temporary) / CENSUS_FILE
        write_source("census", counted, population=population, seed=seed, progress=progress)
        languages, answers = _answers(counted)
    people = people_at(np.arange(linkage.world_size, dtype=np.int64), dice)
    is_french = np.array(["French" in answers.get(index, ("", "", ""))[2] for index in range(linkage.world_size)])
    world = _World(people, is_french, generator)
    _write(
        directory / CENSUS_FILE,
        ("person_id", "household_id", *_NAMED, *languages),
        (
            (answer[0], answer[1], *_with_errors(world.identity(index), generator).fields(), *answer[2:])
            for index, answer in answers.items()
        ),
    )
    clients = _Clients(world, linkage, generator)
    _write(directory / REGISTER_FILE, _REGISTER_COLUMNS, clients.rows())
    owners = ((card, answers[index][0]) for card, index in clients.owners if index in answers)
    _write(directory / TRUTH_FILE, ("health_card", "person_id"), owners)


def _answers(path: Path) -> tuple[tuple[str, ...], dict[int, tuple[str, ...]]]:
    """The language columns of a census source, and by the index of each person in it their ids and answers."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        header = next(rows)
        at = [header.index(name) for name in _IDS[1:]]
        rest = [place for place, name in enumerate(header) if name not in _IDS]
        found = {int(row[at[0]][1:]) - 1: tuple(row[place] for place in (*at, *rest)) for row in rows}
    return tuple(header[place] for place in rest), found


class _World:
    """Everybody as they are, before any office wrote them down."""

    def __init__(self, people: People, is_french: Booleans, generator: np.random.Generator) -> None:
        size = len(people.index)
        _, first, household = np.unique(people.household, return_index=True, return_inverse=True)
        self.head = first[household]
        position = np.arange(size) - self.head
        self.is_partner = (position == 1) & (people.age >= _ADULT)
        self.own_surname = surnames(is_french, generator)
        shares = ~self.is_partner | (generator.random(size) < _TAKES_SURNAME)
        self.surname: Texts = np.where(shares, self.own_surname[self.head], self.own_surname)
        self.took_surname = self.is_partner & shares & (people.sex == FEMALE)
        self.born = self._births(people, generator)
        years = np.array([day.year for day in self.born])
        self.given = given_names(years, people.sex, generator)
        has_second = generator.random(size) < _SECOND_NAME
        self.second: Texts = np.where(has_second, given_names(years, people.sex, generator), "")
        is_son = (people.age < people.age[self.head]) & (people.sex != FEMALE) & (people.sex[self.head] != FEMALE)
        after_father = is_son & (position > 0) & (generator.random(size) < _NAMED_AFTER_FATHER)
        self.given = np.where(after_father, self.given[self.head], self.given)
        self.sex = people.sex
        self.block = people.household // _HOUSEHOLDS_PER_CODE
        self.division = people.division

    def identity(self, index: int) -> Identity:
        """Everything right."""
        return Identity(
            given=str(self.given[index]),
            second=str(self.second[index]),
            surname=str(self.surname[index]),
            born=self.born[index].isoformat(),
            sex=_SEXES[self.sex[index]],
            postal_code=_postal_code(int(self.block[index]), int(self.division[index])),
        )

    def _births(self, people: People, generator: np.random.Generator) -> list[date]:
        """Days of birth that fit the ages; children of one age in one household are twins."""
        days = generator.integers(0, _YEAR_DAYS, len(people.index))
        twin: dict[tuple[int, int], int] = {}
        born = []
        for household, age, day in zip(people.household.tolist(), people.age.tolist(), days.tolist(), strict=True):
            this_day = twin.setdefault((household, age), day) if age < _ADULT else day
            born.append(_birthday(age) - timedelta(days=this_day))
        return born


def _birthday(age: int) -> date:
    return REFERENCE_DATE.replace(year=REFERENCE_DATE.year - age)


def _postal_code(block: int, division: int) -> str:
    """A code of its own for each block, of a district that follows from the division."""
    rest, last = divmod(block, 10)
    rest, letter = divmod(rest, len(_POSTAL_LETTERS))
    rest, middle = divmod(rest, 10)
    rest, area = divmod(rest, len(_POSTAL_LETTERS))
    district = _DISTRICTS[division % len(_DISTRICTS)]
    return f"{district}{rest % 10}{_POSTAL_LETTERS[area]} {middle}{_POSTAL_LETTERS[letter]}{last}"


def _with_errors(identity: Identity, generator: np.random.Generator) -> Identity:
    """As an office wrote it down: each error by itself."""
    luck = iter(generator.random(12))
    if identity.second and next(luck) < _KNOWN_BY_SECOND:
        identity = replace(identity, given=identity.second, second=identity.given)
    shown = next(luck)
    if shown < _NO_SECOND_NAME:
        identity = replace(identity, second="")
    elif shown < _NO_SECOND_NAME + _INITIAL:
        identity = replace(identity, second=identity.second[:1])
    if next(luck) < _TYPO:
        identity = replace(identity, given=_misspelt(identity.given, generator))
    if next(luck) < _TYPO:
        identity = replace(identity, surname=_misspelt(identity.surname, generator))
    identity = replace(identity, born=_misdated(identity.born, next(luck), generator))
    if next(luck) < _NO_POSTAL_CODE:
        identity = replace(identity, postal_code="")
    sex = next(luck)
    if sex < _NO_SEX:
        identity = replace(identity, sex="")
    elif sex < _NO_SEX + _OTHER_SEX:
        identity = replace(identity, sex=_SEXES[identity.sex == _SEXES[0]])
    if next(luck) < 1 / 2:
        # Half of the rows are in capitals without accents, as older systems keep them.
        identity = replace(
            identity, given=identity.given.upper(), second=identity.second.upper(), surname=identity.surname.upper()
        )
    return identity


def _misspelt(name: str, generator: np.random.Generator) -> str:
    """One letter lost, doubled, replaced, or swapped with the next."""
    if len(name) < 3:  # noqa: PLR2004 - shorter ones would lose themselves
        return name
    at = int(generator.integers(1, len(name) - 1))
    kind = generator.integers(4)
    if kind == 0:
        return name[:at] + name[at + 1 :]
    if kind == 1:
        return name[:at] + name[at] + name[at:]
    if kind == 2:  # noqa: PLR2004 - the third of four
        return name[:at] + "aeinorst"[generator.integers(8)] + name[at + 1 :]
    return name[:at] + name[at + 1] + name[at] + name[at + 2 :]


def _misdated(born: str, luck: float, generator: np.random.Generator) -> str:
    year, month, day = born.split("-")
    steps = np.cumsum([_SWAPPED_DATE, _WRONG_YEAR, _NO_DATE, _PLACEHOLDER_DATE])
    kind = int(np.searchsorted(steps, luck, side="right"))
    if kind == 0:
        return f"{year}-{day}-{month}" if int(day) <= 12 else born  # noqa: PLR2004 - months
    if kind == 1:
        return f"{int(year) - int(generator.integers(1, 10))}-{month}-{day if (month, day) != ('02', '29') else '28'}"
    if kind == 2:  # noqa: PLR2004 - the third of four
        return ""
    return "1900-01-01" if kind == 3 else born  # noqa: PLR2004 - the last of four


class _Clients:
    """The rows of the register; `owners` has card and index of everybody in it, once the rows were read."""

    def __init__(self, world: _World, linkage: Linkage, generator: np.random.Generator) -> None:
        self._world = world
        self._generator = generator
        size = len(world.born)
        self._members = np.flatnonzero(generator.random(size) < _IN_REGISTER)
        generator.shuffle(self._members)
        self._cards = _written(linkage.cards(np.arange(size, dtype=np.int64)))
        # Cards of nobody in the world: those after everybody's.
        self._spare = iter(_written(card_digits(_unused(linkage, size))))
        self.owners: list[tuple[str, int]] = []

    def rows(self) -> Iterator[Sequence[str]]:
        for number, index in enumerate(self._members.tolist()):
            identity = self._world.identity(index)
            yield from self._rows_of(index, f"C{number:08d}", self._as_client(index, identity))
            if self._generator.random() < _JUNK:
                yield self._junk(f"J{number:08d}", identity)

    def _rows_of(self, index: int, client: str, identity: Identity) -> Iterator[Sequence[str]]:
        written = _with_errors(identity, self._generator).fields()
        card = self._cards[index]
        if self._generator.random() < _INVALID_CARD:
            yield (card[:-1] + str((int(card[-1]) + 1) % 10), client, *written)
            return
        self.owners.append((card, index))
        yield (card, client, *written)
        luck = self._generator.random()
        if luck < _SECOND_CARD_KNOWN + _SECOND_CARD_UNKNOWN:
            second = next(self._spare)
            self.owners.append((second, index))
            same = client if luck < _SECOND_CARD_KNOWN else f"D{client[1:]}"
            yield (second, same, *_with_errors(identity, self._generator).fields())

    def _as_client(self, index: int, identity: Identity) -> Identity:
        """Before marriages and moves that the register was not told of."""
        if self._world.took_surname[index] and self._generator.random() < _FORMER_SURNAME:
            identity = replace(identity, surname=str(self._world.own_surname[index]))
        if self._generator.random() < _MOVED:
            # To where somebody else lives now.
            home = int(self._generator.integers(0, len(self._world.block)))
            code = _postal_code(int(self._world.block[home]), int(self._world.division[home]))
            identity = replace(identity, postal_code=code)
        return identity

    def _junk(self, client: str, identity: Identity) -> Sequence[str]:
        """A row that is nobody, at somebody's address and with somebody's birth date."""
        given, surname = _JUNK_NAMES[self._generator.integers(len(_JUNK_NAMES))]
        is_infant = given.startswith(("BABY", "INFANT"))
        nobody = replace(identity, given=given, second="", surname=identity.surname if is_infant else surname)
        return (next(self._spare), client, *nobody.fields())


def _unused(linkage: Linkage, size: int) -> Integers:
    """Places in the block of cards that nobody in the world has, as many as the world is large."""
    used = linkage.cards(np.arange(size, dtype=np.int64)).astype(np.int64)
    places = used[:, :-1] @ 10 ** np.arange(used.shape[1] - 2, -1, -1, dtype=np.int64)
    unused: Integers = np.setdiff1d(np.arange(2 * size, dtype=np.int64), places)[:size]
    return unused


def _written(digits: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> list[str]:
    texts: list[str] = (digits + ord("0")).astype(np.uint8).view(f"S{digits.shape[1]}").ravel().astype(str).tolist()
    return texts


def _write(path: Path, columns: Sequence[str], rows: Iterator[Sequence[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
