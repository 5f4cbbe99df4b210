"""Whom the attackers know: everybody's health record, and who of them has what a question asks for.

The health agency's records are the attackers' own. Languages, and who is in the census at all, the harness knows from the
census agency's file, to judge by; an attack is told them of everybody but its target (adversary HR knows the rest).
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from broker_common.errors import InvalidRequestError
from deploy.attacks import texts

FRENCH_CODE = "French"
FRENCH = f"mother_tongue = '{FRENCH_CODE}'"
_NUMBERS = frozenset({"age", "birth_year", "hospital_visits", "emergency_visits"})
_PAIR = 2
# Columns that single somebody out, shortest first: criteria have a limited length.
_KEYS = (
    ("census_division", "age"),
    ("census_division", "age", "sex"),
    ("census_division", "age", "sex", "hospital_visits"),
    ("census_division", "age", "sex", "birth_year", "hospital_visits"),
    ("census_division", "age", "sex", "birth_year", "hospital_visits", "emergency_visits"),
)

Row = dict[str, str]


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody whom criteria can single out."""

    card: str
    # Matches this person and nobody else.
    where: str
    # Their row in the census file; None where the census has nobody with this card.
    census: Row | None

    @property
    def is_linked(self) -> bool:
        return self.census is not None

    @property
    def is_french(self) -> bool:
        """Whether the usual question counts this person."""
        return self.speaks(FRENCH_CODE)

    def speaks(self, code: str) -> bool:
        """Whether the census has this mother tongue for them."""
        return self.census is not None and self.census["mother_tongue"] == code


class People:
    """Everybody who can be singled out, in an order that the seed decides; nobody is given twice."""

    def __init__(self, directory: Path, seed: int, purpose: str) -> None:
        # The purpose is part of the seed: attacks on one deployment do not all begin with the same people.
        entropy = np.random.SeedSequence([seed, *purpose.encode()])
        self._dice = np.random.Generator(np.random.Philox(entropy))
        census = {row["health_card"]: row for row in _rows(directory / "census") if row["health_card"]}
        known = _singled_out(_rows(directory / "health"), census)
        self._left = [known[place] for place in self._dice.permutation(len(known))]

    def take(self, count: int, *, french: bool | None = None, linked: bool = True) -> list[Person]:
        """The next so many with these properties; French or not does not matter where it is None.

        Raises:
            InvalidRequestError: INVALID_VALUE, there are not so many.
        """
        taken: list[Person] = []
        left: list[Person] = []
        for person in self._left:
            fits = person.is_linked == linked and french in {None, person.is_french}
            (taken if fits and len(taken) < count else left).append(person)
        if len(taken) < count:
            raise InvalidRequestError(
                "INVALID_VALUE",
                name="--population",
                problem=texts.TOO_FEW,
                remedy=texts.MORE_PEOPLE,
            )
        self._left = left
        return taken

    def take_linked(self, most: int) -> list[Person]:
        """As many linked people as there are, an even number and no more than so many."""
        linked = sum(person.is_linked for person in self._left)
        return self.take(min(most, linked - linked % 2))

    def toss(self, count: int) -> list[Person]:
        """So many linked people, each French or not by the toss of a fair coin: what attackers can know beforehand is even odds."""
        return [self.take(1, french=bool(coin))[0] for coin in self._dice.integers(0, 2, count)]

    def toss_linked(self, count: int) -> list[Person]:
        """So many people, each in the census or not by the toss of a fair coin."""
        return [self.take(1, linked=bool(coin))[0] for coin in self._dice.integers(0, 2, count)]

    def toss_pairs(self, count: int, column: str) -> list[tuple[Person, Person]]:
        """So many pairs of linked people who share what the census file has in this column, with nobody else who is known.

        Both are French or neither, by the toss of a fair coin: people who live in twos by chance are mostly not.

        Raises:
            InvalidRequestError: INVALID_VALUE, there are not so many.
        """
        sharing: dict[str, list[Person]] = {}
        for person in self._left:
            if person.census is not None:
                sharing.setdefault(person.census[column], []).append(person)
        pairs: dict[bool, list[tuple[Person, Person]]] = {True: [], False: []}
        for of in sharing.values():
            if len(of) == _PAIR and of[0].is_french == of[1].is_french:
                pairs[of[0].is_french].append((of[0], of[1]))
        coins = [bool(coin) for coin in self._dice.integers(0, 2, count)]
        if any(coins.count(french) > len(found) for french, found in pairs.items()):
            raise InvalidRequestError(
                "INVALID_VALUE", name=texts.THE_DEPLOYMENT, problem=texts.TOO_FEW_PAIRS, remedy=texts.OWN_ONLY
            )
        tossed = [pairs[coin].pop() for coin in coins]
        taken = {person.card for pair in tossed for person in pair}
        self._left = [person for person in self._left if person.card not in taken]
        return tossed

    @property
    def dice(self) -> np.random.Generator:
        """For an attacker's own choices."""
        return self._dice


def among(people: Sequence[Person]) -> str:
    """Criteria that match exactly these people."""
    return " or ".join(f"({person.where})" for person in people)


def _rows(home: Path) -> list[Row]:
    with (home / "people.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _singled_out(rows: Sequence[Row], census: dict[str, Row]) -> list[Person]:
    found: list[Person] = []
    taken: set[str] = set()
    for key in _KEYS:
        often = Counter(tuple(row[name] for name in key) for row in rows)
        for row in rows:
            card = row["health_card"]
            if card and card not in taken and often[tuple(row[name] for name in key)] == 1:
                taken.add(card)
                where = " and ".join(f"{name} = {_value(name, row[name])}" for name in key)
                found.append(Person(card, where, census.get(card)))
    return found


def _value(name: str, value: str) -> str:
    quoted = value.replace("'", "''")
    return value if name in _NUMBERS else f"'{quoted}'"
