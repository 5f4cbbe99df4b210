"""Census subjects: the numbers that persons and households keep through all loads, and what they inherit when cards move.

A subject's number is its place in the ledger. It is given at the load that first links a card to the subject, and never again
to another one. It is known by a salted hash of the person_id or household_id, since ids themselves are kept nowhere; the salt
is drawn at the first load. A card that is in no later load stays known with the subjects that it had last, so that a person who
comes back under another id finds their charge. Each person's last household stays known, so that a person who moves and gets
another card on the same day does not leave the charge of their household behind. All of this stands in the file of each load,
for the load after it; a serving node does not read it.

Invariants: numbers only grow in count; the cards in force and the former ones are disjoint; a carry is a function of the
previous load's cards, the former cards and the new load's cards, and of nothing else. The ledger applies a carry.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from broker_common.agency.linkage import rekey
from broker_common.crypto.commitments import SALT_BYTES, hash_subjects
from broker_common.crypto.linkage import LinkageKey
from broker_common.privacy.policy import Subject
from broker_common.storage.source.rows import ascending_order
from census_node.ledger.columns import MappedColumn, StoredColumns, reading_columns, write_columns

Halves: TypeAlias = npt.NDArray[np.uint64]
Places: TypeAlias = npt.NDArray[np.intp]
Found: TypeAlias = npt.NDArray[np.bool_]
# Entries looked for at a time: they stay in the cache with the entries between their ends.
_MOST_AT_ONCE = 1 << 14


def halves_of(pseudonyms: npt.NDArray[np.uint8]) -> tuple[Halves, Halves]:
    """First and second halves of an (n, 16) array of pseudonyms."""
    halves = np.ascontiguousarray(pseudonyms).view(">u8").reshape(-1, 2)
    return halves[:, 0].astype(np.uint64), halves[:, 1].astype(np.uint64)


def find_ascending(wanted: tuple[Halves, Halves], high: Halves, low: Halves) -> Iterator[tuple[slice, Places, Found]]:
    """Piece by piece of the ascending `wanted`: where each stands among `high` and `low`, which ascend, and whether it does.

    The place of one that does not stand there means nothing.
    """
    end = 0
    for start in range(0, len(wanted[0]), _MOST_AT_ONCE):
        part = slice(start, start + _MOST_AT_ONCE)
        first, second = wanted[0][part], wanted[1][part]
        # A name that shares a first half with the end of the piece before may stand there.
        begin = int(np.searchsorted(high[:end], first[0]))
        end = begin + int(np.searchsorted(high[begin:], first[-1], side="right"))
        yield (slice(start, start + len(first)), *_find(first, second, high[begin:end], low[begin:end], begin))


def _find(first: Halves, second: Halves, high: Halves, low: Halves, begin: int) -> tuple[Places, Found]:
    places = np.searchsorted(high, first)
    found = np.zeros(len(first), np.bool_)
    # Where several share a first half, which nobody's choice brings about, one after the other.
    left = np.flatnonzero(places < len(high))
    while len(left):
        at = places[left]
        is_half = high[at] == first[left]
        found[left] = is_half & (low[at] == second[left])
        left = left[is_half & (low[at] < second[left]) & (at + 1 < len(high))]
        places[left] += 1
    return places + begin, found


HALF: Final = np.dtype(np.uint64)
NUMBER: Final = np.dtype(np.uint32)
_BYTE: Final = np.dtype(np.uint8)
# A salted hash. NumPy drops zeros at the ends of such strings, alike in equal ones.
NAME: Final[np.dtype[np.bytes_]] = np.dtype("S16")
_NUMBER_BITS = np.uint64(32)
_MOST_NUMBERS = 2**32 - 1

_Halves = npt.NDArray[np.uint64]
_Numbers = npt.NDArray[np.uint32]


# --- numbers ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Names:
    """Salted hashes by which subjects are known, in the order of the subjects' numbers. And each person's last household."""

    salt: bytes = field(repr=False)
    persons: npt.NDArray[np.bytes_]
    households: npt.NDArray[np.bytes_]
    homes: _Numbers

    @classmethod
    def none(cls, salt: bytes) -> Names:
        return cls(salt, np.empty(0, NAME), np.empty(0, NAME), np.empty(0, NUMBER))

    def of_persons(self, person_ids: Iterable[str]) -> bytes:
        """The names of persons, one after the other."""
        return hash_subjects(self.salt, b"person", person_ids)

    def of_households(self, household_ids: Sequence[str]) -> bytes:
        """The names of households, one after the other; no person's."""
        # Members of a household mostly stand together in a source: each is hashed once.
        places = {household_id: place for place, household_id in enumerate(dict.fromkeys(household_ids))}
        names = np.frombuffer(hash_subjects(self.salt, b"household", places), NAME)
        return names[np.fromiter(map(places.__getitem__, household_ids), np.intp, len(household_ids))].tobytes()

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """As a load's file holds them."""
        salt = np.frombuffer(self.salt, np.uint8)
        return {"salt": salt, "person_names": self.persons, "household_names": self.households, "homes": self.homes}

    @classmethod
    def read(cls, path: Path, load: str) -> Names:
        """Read them from a load's file.

        Raises:
            InternalError: INTEGRITY, the file is missing or damaged.
        """
        with reading_columns(path, f"the registry of load {load}") as stored:
            salt = stored.column("salt", _BYTE, SALT_BYTES).tobytes()
            persons, households = stored_counts(stored)
            return cls(
                salt,
                stored.column("person_names", NAME, persons),
                stored.column("household_names", NAME, households),
                _stored_homes(stored),
            )


def stored_counts(stored: StoredColumns) -> tuple[int, int]:
    """How many persons and households a load's file, or a carry's, has numbers for."""
    persons, households = stored.column("counts", HALF, 2).tolist()
    if max(persons, households) > _MOST_NUMBERS:
        raise ValueError("more subjects than there are numbers")
    return persons, households


def _stored_homes(stored: StoredColumns) -> _Numbers:
    """Each person's last household, as a load's file holds it."""
    persons, households = stored_counts(stored)
    homes = stored.column("homes", NUMBER, persons)
    if len(homes) and int(homes.max()) >= households:
        raise ValueError("somebody lives in a household that was never numbered")
    return homes


def number_subjects(
    known: npt.NDArray[np.bytes_], names: npt.NDArray[np.bytes_], used: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.bytes_], _Numbers]:
    """Numbers for those of the distinct, ascending `names` that are used: their place in `known`, or a new one after its end.

    Gives `known` with the new ones, and a number for each name, which means nothing for a name that is not used. New
    numbers ascend with the salted hash: they tell nothing of the source's order.
    """
    numbers = np.zeros(len(names), NUMBER)
    is_known = np.zeros(len(names), np.bool_)
    if len(known):
        high, low = _halves(known)
        order = ascending_order(high, low)
        # They ascend: the caller has put them in order.
        for part, places, found in find_ascending(_halves(names), high[order], low[order]):
            is_known[part] = found
            numbers[part][found] = order[places[found]]
    new = used & ~is_known
    total = len(known) + int(np.count_nonzero(new))
    # Raises OverflowError rather than give a number twice.
    numbers[new] = np.arange(len(known), total, dtype=NUMBER)
    added = names[new]
    return np.concatenate([known, added]) if len(known) else added, numbers


def _halves(names: npt.NDArray[np.bytes_]) -> tuple[_Halves, _Halves]:
    halves = names.view(">u8").reshape(-1, 2)
    return halves[:, 0].astype(HALF), halves[:, 1].astype(HALF)


# --- cards -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Cards:
    """Pseudonyms, ascending, as two big-endian halves, and the subjects that each of them belongs to.

    An address stands once for each of its people, who are one household.
    """

    high: _Halves
    low: _Halves
    persons: _Numbers
    households: _Numbers

    @classmethod
    def none(cls) -> Cards:
        return cls(np.empty(0, HALF), np.empty(0, HALF), np.empty(0, NUMBER), np.empty(0, NUMBER))

    @property
    def size(self) -> int:
        return len(self.high)

    def columns(self, prefix: str = "") -> dict[str, npt.NDArray[Any]]:
        """As a load's file holds them."""
        return {
            f"{prefix}high": self.high,
            f"{prefix}low": self.low,
            f"{prefix}persons": self.persons,
            f"{prefix}households": self.households,
        }

    @classmethod
    def of_columns(cls, stored: StoredColumns, prefix: str = "") -> Cards:
        """Take them from a load's file; ValueError and others where it is damaged."""
        return MappedCards.of_columns(stored, prefix).cards

    def rows(self, chosen: npt.NDArray[np.bool_]) -> Cards:
        return Cards(self.high[chosen], self.low[chosen], self.persons[chosen], self.households[chosen])

    def ascending(self) -> Cards:
        order = ascending_order(self.high, self.low)
        return Cards(self.high[order], self.low[order], self.persons[order], self.households[order])

    def relinked(self, keys: Sequence[LinkageKey]) -> Cards:
        """The same under the pseudonyms that follow through `keys`."""
        rekeyed = rekey(self.high, self.low, keys)
        return Cards(rekeyed.high, rekeyed.low, self.persons[rekeyed.rows], self.households[rekeyed.rows])

    def without(self, others: Cards) -> Cards:
        pieces = find_ascending((self.high, self.low), others.high, others.low)
        return self.rows(np.concatenate([np.empty(0, np.bool_), *(~found for _, _, found in pieces)]))


@dataclass(frozen=True, slots=True, eq=False)
class MappedCards:
    """Cards that were left in a load's file."""

    cards: Cards
    _columns: Sequence[MappedColumn[Any]] = ()

    @classmethod
    def of_columns(cls, stored: StoredColumns, prefix: str = "") -> MappedCards:
        """Take them from a load's file; ValueError and others where it is damaged."""
        high = stored.mapped(f"{prefix}high", HALF)
        size = len(high.array)
        low = stored.mapped(f"{prefix}low", HALF, size)
        persons = stored.mapped(f"{prefix}persons", NUMBER, size)
        households = stored.mapped(f"{prefix}households", NUMBER, size)
        for subjects, count in zip((persons.array, households.array), stored_counts(stored), strict=True):
            if len(subjects) and int(subjects.max()) >= count:
                raise ValueError("a card is of a subject that was never numbered")
        return cls(Cards(high.array, low.array, persons.array, households.array), (high, low, persons, households))

    def let_go(self) -> None:
        """Take no memory for them until they are read again."""
        for column in self._columns:
            column.let_go()


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """Every card that was ever loaded, with its last subjects: those of the load in force, and the former ones.

    And of every person, by number, the household that they were in when they were last in a load.
    """

    cards: Cards
    former: Cards
    homes: _Numbers

    @classmethod
    def none(cls) -> Known:
        return cls(Cards.none(), Cards.none(), np.empty(0, NUMBER))

    @classmethod
    def read(cls, path: Path, load: str) -> Known:
        """Read them from the file of the load in force.

        Raises:
            InternalError: INTEGRITY, the file is missing or damaged.
        """
        with reading_columns(path, f"the registry of load {load}") as stored:
            return cls(Cards.of_columns(stored), Cards.of_columns(stored, "former_"), _stored_homes(stored))

    def former_after(self, now: Cards) -> Cards:
        """The former cards once `now` is in force: a person who left has one, a person who came back has none."""
        parts = [part.without(now) for part in (self.cards, self.former)]
        return Cards(
            np.concatenate([part.high for part in parts]),
            np.concatenate([part.low for part in parts]),
            np.concatenate([part.persons for part in parts]),
            np.concatenate([part.households for part in parts]),
        ).ascending()


# --- carries ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Carry:
    """The charges that subjects inherit with a load, by number.

    The charge of person `person_to[k]` grows by the charge that `person_from[k]` has as the load is put in force; the
    same for households. Pairs are distinct, ascending, and of two different subjects. The counts are those of the load: how long the ledger's arrays are from there on.
    """

    person_to: _Numbers
    person_from: _Numbers
    household_to: _Numbers
    household_from: _Numbers
    person_count: int
    household_count: int

    @classmethod
    def between(cls, known: Known, now: Cards, person_count: int, household_count: int) -> Carry:
        """For each card of the new load that was another subject's when it was last seen: this pair of subjects.

        The first person of an address stands for it: where there are several, only households are charged.

        SECURITY: of households, also for each person who was in another one when they were last seen, under any card.
        """
        known_before = now.persons < len(known.homes)
        homes_before = known.homes[now.persons[known_before]]
        persons, households = [np.empty(0, HALF)], [_pairs(now.households[known_before], homes_before)]
        for before in (known.cards, known.former):
            for part, at, found in find_ascending((now.high, now.low), before.high, before.low):
                places = at[found]
                is_first = np.append(np.ones(1, np.bool_), places[1:] != places[:-1])[: len(places)]
                persons.append(_pairs(now.persons[part][found][is_first], before.persons[places[is_first]]))
                households.append(_pairs(now.households[part][found], before.households[places]))
        return cls(*_distinct(persons), *_distinct(households), person_count, household_count)

    def pairs(self, subject: Subject) -> tuple[_Numbers, _Numbers]:
        """Who grows, and by whose charge."""
        if subject == "person":
            return self.person_to, self.person_from
        return self.household_to, self.household_from

    @property
    def content_hash(self) -> bytes:
        """Fixes everything."""
        digest = hashlib.sha256(b"tripartite/carry/v1\0")
        for name, column in self._columns().items():
            digest.update(f"{name} {len(column)}\n".encode("ascii"))
            digest.update(np.ascontiguousarray(column, column.dtype.newbyteorder("<")).data)
        return digest.digest()

    def write(self, path: Path) -> None:
        """Store it durably, as one file.

        Raises:
            InternalError: STORE_FAILED; what was at `path` still is.
        """
        write_columns(path, {**self._columns(), "hash": np.frombuffer(self.content_hash, np.uint8)})

    @classmethod
    def read(cls, path: Path) -> Carry:
        """Read a stored carry. Whether it is the one that was meant is told by its `content_hash`.

        Raises:
            InternalError: INTEGRITY, the file is missing or damaged.
        """
        with reading_columns(path, f"the carry {path.name}") as stored:
            persons, households = stored_counts(stored)
            carry = cls(
                *_stored_pairs(stored, "person", persons),
                *_stored_pairs(stored, "household", households),
                persons,
                households,
            )
            if stored.column("hash", _BYTE).tobytes() != carry.content_hash:
                raise ValueError("its hash is another")
            return carry

    def _columns(self) -> dict[str, npt.NDArray[Any]]:
        return {
            "person_to": self.person_to,
            "person_from": self.person_from,
            "household_to": self.household_to,
            "household_from": self.household_from,
            "counts": np.array([self.person_count, self.household_count], HALF),
        }


def _stored_pairs(stored: StoredColumns, subject: str, count: int) -> tuple[_Numbers, _Numbers]:
    to = stored.column(f"{subject}_to", NUMBER)
    from_ = stored.column(f"{subject}_from", NUMBER, len(to))
    if len(to) and max(int(to.max()), int(from_.max())) >= count:
        raise ValueError("a carry is of a subject that was never numbered")
    return to, from_


def _pairs(now: _Numbers, before: _Numbers) -> _Halves:
    """Those that differ, as one number each."""
    differ = now != before
    pairs: _Halves = now[differ].astype(HALF) << _NUMBER_BITS | before[differ]
    return pairs


def _distinct(pairs: list[_Halves]) -> tuple[_Numbers, _Numbers]:
    numbers = np.unique(np.concatenate(pairs))
    return (numbers >> _NUMBER_BITS).astype(NUMBER), numbers.astype(NUMBER)
