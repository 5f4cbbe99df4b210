"""The registry: one load of the census's linked people, as columns in memory.

Layout. A row is a card; rows ascend by pseudonym. `high` and `low` are the two halves of the pseudonym, big-endian;
`persons` and `households` are the numbers of the units that the card belongs to (`units`); each language variable is one
byte per row, the position of its value in the published list. Rows of one person have the same household and the same
values. A row has 16 bytes, and one for each language variable, in the file, which a serving node maps; of a variable that
nobody asks for nothing is in memory. There it has 8 bytes for its units, a bit if anybody has several cards, and its part of
the directory (`pseudonyms`). A row's number is its name in a charge, so an answer can only ever be counted on the load it was
charged on.

On disk a load is one file, written whole and never changed (`broker_common.storage.loads`). It also holds the hash of the
dictionary that its values were read under, and what the next load has to know of units; a serving node leaves the latter
unread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from broker_common.errors import RefusedError
from broker_common.query.question import Question
from broker_common.storage.relinking import Rekeyed
from broker_common.values import HASH_BYTES, ExactCount
from census_node.columns import StoredColumns, reading_columns, write_columns
from census_node.dictionary import CENSUS_DICTIONARY
from census_node.linked import NOBODY
from census_node.pseudonyms import Index
from census_node.units import Cards, Names, stored_counts

__all__ = ["NO_VALUE", "Registry", "dictionary_hash"]

# The byte of a person who gave no answer: counted in `all`, in no value.
NO_VALUE = 255
_VALUE = np.dtype(np.uint8)
# What the file calls the hash of its dictionary; no language variable has a dot in its name.
_DICTIONARY = "dictionary.hash"
Numbers = npt.NDArray[np.uint32]
_HALF = np.uint64(32)


@dataclass(frozen=True, slots=True, eq=False)
class Registry:
    """One load. The counts say how many numbers were ever given to persons and to households."""

    load: str
    high: npt.NDArray[np.uint64]
    low: npt.NDArray[np.uint64]
    columns: Mapping[str, npt.NDArray[np.uint8]]
    persons: npt.NDArray[np.uint32]
    households: npt.NDArray[np.uint32]
    person_count: int
    household_count: int
    # Whether anybody has more than one row.
    several_cards: bool = field(init=False)
    # Of each row, whether its person has others, a bit each; empty if nobody has.
    _has_others: npt.NDArray[np.uint8] = field(init=False, repr=False)
    _index: Index = field(init=False, repr=False)

    def __post_init__(self) -> None:
        has_others = _has_others(self.persons, self.person_count)
        object.__setattr__(self, "_index", Index(self.high, self.low))
        object.__setattr__(self, "several_cards", len(has_others) > 0)
        object.__setattr__(self, "_has_others", has_others)

    @property
    def size(self) -> int:
        return len(self.high)

    @property
    def cards(self) -> Cards:
        """The cards alone."""
        return Cards(self.high, self.low, self.persons, self.households)

    @property
    def longest_run(self) -> int:
        """Most rows that share the first half of their pseudonym; 1 unless the registry is very large."""
        return self._index.longest_run

    def link(self, pseudonyms: npt.NDArray[np.uint8]) -> tuple[Numbers, Numbers, Numbers]:
        """Row, person and household of each of the (n, 16) pseudonyms; `NOBODY` for one that is not in the registry."""
        rows, persons, households = (np.empty(len(pseudonyms), np.uint32) for _ in range(3))
        self.link_into(pseudonyms, rows, persons, households)
        return rows, persons, households

    def link_into(
        self, pseudonyms: npt.NDArray[np.uint8], rows: Numbers, persons: Numbers, households: Numbers
    ) -> None:
        """The same, into memory of the caller's.

        SECURITY: whoever is not found takes as long as whoever is: units are read where they would stand, not left out, and
        not all of them at one place, which would be in the cache.
        """
        for part, at, found in self._index.find_each(pseudonyms):
            # Every bit, where there is nobody; without a choice for each of them.
            nobody = found.view(np.uint8).astype(np.uint32) - np.uint32(1)
            np.bitwise_or(at.astype(np.uint32), nobody, out=rows[part])
            for units, numbers in ((self.persons, persons), (self.households, households)):
                if self.size:
                    np.take(units, at, out=numbers[part], mode="clip")
                    numbers[part] |= nobody
                else:
                    numbers[part] = NOBODY

    def rows_of(self, pseudonyms: npt.NDArray[np.uint8]) -> Numbers:
        """The rows of those of the (n, 16) pseudonyms that are in the registry, in the order given."""
        places, found = self._index.find(pseudonyms)
        linked: Numbers = places[found]
        return linked

    def people_of(self, rows: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """One of the given rows for each person who has any of them; which of several does not matter, see above.

        Those whose person has one row come first, in the order given.
        """
        if not self.several_cards:
            return rows
        octets = np.take(self._has_others, rows >> np.uint32(3))
        has_others = (octets << (rows & np.uint32(7)).astype(np.uint8) & 0x80).astype(np.bool_)
        shared = rows[has_others]
        pairs = self.persons[shared].astype(np.uint64) << _HALF | shared
        pairs.sort()
        is_first = np.ones(len(pairs), np.bool_)
        np.not_equal(pairs[1:] >> _HALF, pairs[:-1] >> _HALF, out=is_first[1:])
        return np.concatenate([rows[~has_others], pairs[is_first].astype(np.uint32)])

    def count(self, people: npt.NDArray[np.uint32], question: Question) -> ExactCount:
        """How many of `people`, one row for each (`people_of`), the question is about.

        SECURITY: the only place where language is counted. Call it after the charge is durable, never before.
        """
        if question.variable is None:
            return ExactCount(len(people))
        positions = CENSUS_DICTIONARY.column(question.variable).positions
        asked = np.zeros(256, dtype=bool)
        asked[[positions[value] for value in question.values]] = True
        return ExactCount(int(np.count_nonzero(asked[self.columns[question.variable][people]])))

    def relinked(self, load: str, rekeyed: Rekeyed) -> Registry:
        """The same people, with the numbers that they have, under other pseudonyms."""
        rows = rekeyed.rows
        columns = {name: column[rows] for name, column in self.columns.items()}
        return Registry(
            load,
            rekeyed.high,
            rekeyed.low,
            columns,
            self.persons[rows],
            self.households[rows],
            self.person_count,
            self.household_count,
        )

    def write(self, path: Path, names: Names, former: Cards) -> None:
        """Store the load durably, as one file: `names` of all units that have a number, `former` cards.

        Raises:
            InternalError: STORE_FAILED; what was at `path` still is.
        """
        counts = np.array([self.person_count, self.household_count], np.uint64)
        write_columns(
            path,
            {
                **self.cards.columns(),
                **self.columns,
                _DICTIONARY: np.frombuffer(CENSUS_DICTIONARY.hash, np.uint8),
                "counts": counts,
                **names.columns(),
                **former.columns("former_"),
            },
        )

    @classmethod
    def read(cls, path: Path, load: str) -> Registry:
        """Read a stored load.

        Raises:
            RefusedError: DICTIONARY_CHANGED.
            InternalError: INTEGRITY, the file is missing or damaged.
        """
        with reading_columns(path, f"the registry of load {load}") as stored:
            if dictionary_hash(stored) != CENSUS_DICTIONARY.hash:
                # SECURITY: a stored number would be counted as another value than the one that was loaded.
                raise RefusedError("DICTIONARY_CHANGED", role="census")
            cards = Cards.of_columns(stored)
            columns = {name: stored.mapped(name, _VALUE, cards.size) for name in CENSUS_DICTIONARY.names}
            return cls(load, cards.high, cards.low, columns, cards.persons, cards.households, *stored_counts(stored))


def dictionary_hash(stored: StoredColumns) -> bytes:
    """The hash of the dictionary that a stored load was read under."""
    return stored.column(_DICTIONARY, _VALUE, HASH_BYTES).tobytes()


def _has_others(persons: npt.NDArray[np.uint32], person_count: int) -> npt.NDArray[np.uint8]:
    """Of each row whether another row is the same person's, a bit each; empty if none is."""
    last_row = np.zeros(person_count, np.uint32)
    rows = np.arange(len(persons), dtype=np.uint32)
    last_row[persons] = rows
    earlier = last_row[persons] != rows
    if not earlier.any():
        return np.empty(0, np.uint8)
    several = np.zeros(person_count, np.bool_)
    several[persons[earlier]] = True
    return np.packbits(several[persons])
