"""Tables whose rows belong to people, any number to each: events, values of long lists, the members of households.

The rows of a table lie in the order of their owners, and offsets say where each owner's begin, so that a row needs no
pseudonym. An owner is a place of the roster, or, for values of a list, a person: under linkage by household a place is an
address, and the people who live there are rows of a table themselves.

Counting. A condition is looked at for every declared row, in blocks of one size; what it finds becomes a bit a row, and of
each 64 bits is noted how many are set before them. How many of an owner's rows are meant is then a difference of two sums,
found with the same few steps for everybody. SECURITY: no step has a size that follows from whose the rows are or which of
them are meant; rows that were declared and are not there are looked at like all others and belong to nobody.

Memory, beside the columns: 4 bytes for each owner; while counting a bit and a half for each declared row, and for each of a
question's countings a bit a person.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.privacy.delays import DECLARED_STEP, least_forward_delay_ms
from broker_common.query.dictionary import PEOPLE, Column, Dictionary
from broker_common.storage.source.values import is_list
from health_node.people.cohort import Counting, Predicate, Scratch
from health_node.people.encoding import Stored

MEMBERS: Final = PEOPLE
"""The table of people where a place is a household; its columns are the people's. No event table has this name."""

Bits: TypeAlias = NDArray[np.uint8]
"""One bit for each person or place, the most significant first."""
Offsets: TypeAlias = NDArray[np.uint32]
"""Where the rows of each owner begin, and where those of the last one end."""

_OCTET = 8
_WORD_BITS = 64
_WORD_SHIFT, _IN_WORD = np.uint32(6), np.uint32(63)
# Owners whose rows are counted in one go: what is found on the way stays in a core's cache.
_OWNERS_IN_BLOCK = 1 << 16
# Rows that are put in another order in one go.
_ROWS_IN_PIECE = 1 << 22


@dataclass(frozen=True, slots=True)
class Shape:
    """One table of a store."""

    name: str
    columns: tuple[Column, ...]
    belongs_to_place: bool
    """Or to a person, who is one of several at a place where that is a household."""


def shapes_of(dictionary: Dictionary) -> tuple[Shape, ...]:
    """The tables that a store of this dictionary has, in the order in which they lie there.

    Raises:
        InvalidRequestError: DICTIONARY_UNUSABLE, a column has the name of the members of households.
    """
    members = [Shape(MEMBERS, (), True)] if dictionary.linkage == "household" else []
    if members and MEMBERS in dictionary.names:
        raise InvalidRequestError("DICTIONARY_UNUSABLE", column=MEMBERS, problem="has the name of the table of people")
    lists = [Shape(column.name, (column,), False) for column in dictionary.columns if is_list(column)]
    return (*members, *lists, *(Shape(table.name, table.columns, True) for table in dictionary.events))


def small_columns(dictionary: Dictionary) -> tuple[Column, ...]:
    """The columns of which a person has one number."""
    return tuple(column for column in dictionary.columns if not is_list(column))


@dataclass(frozen=True, slots=True)
class Declared:
    """The declaration of a load, from which work, prices and delays follow."""

    places: int
    # Rows of each table.
    tables: Mapping[str, int] = field(default_factory=dict)

    @property
    def by_household(self) -> bool:
        """Whether a place is a household, in which any number of people live."""
        return MEMBERS in self.tables

    @property
    def people(self) -> int:
        return self.tables.get(MEMBERS, self.places)

    @property
    def events(self) -> int:
        """Rows of tables that are no people."""
        return sum(rows for name, rows in self.tables.items() if name != MEMBERS)

    @property
    def least_forward_delay_ms(self) -> int:
        return least_forward_delay_ms(max(self.places, self.people), self.events)


def declared_of(dictionary: Dictionary, places: int, rows: Mapping[str, int]) -> Declared:
    """An operator's declaration; a table that `rows` does not name has one step.

    Raises:
        InvalidRequestError: CONFIG_INVALID, there is no such table.
    """
    tables = [shape.name for shape in shapes_of(dictionary)]
    if unknown := sorted(rows.keys() - set(tables)):
        problem = phrase("[rows] names {unknown}, which is no table of the dictionary", unknown=unknown[0])
        raise InvalidRequestError("CONFIG_INVALID", file="config.toml", problem=problem)
    return Declared(places, {name: rows.get(name, DECLARED_STEP) for name in tables})


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The rows of one table, on their way into a store."""

    offsets: NDArray[np.int64]
    # How many were declared, those or more.
    declared: int
    # Columns of small numbers (`encoding`), in pieces, in the order of their owners.
    pieces: Callable[[], Iterable[Mapping[str, Stored]]]

    @property
    def count(self) -> int:
        return int(self.offsets[-1])


def row_pieces(offsets: NDArray[np.integer], order: NDArray[np.integer]) -> Iterator[NDArray[np.int64]]:
    """Which rows follow one another when their owners are put in this order, in pieces."""
    begins = offsets[:-1].astype(np.int64)[order]
    new = offsets_of(np.diff(offsets)[order])
    for first in range(0, int(new[-1]), _ROWS_IN_PIECE):
        last = min(first + _ROWS_IN_PIECE, int(new[-1]))
        low, high = np.searchsorted(new, first, "right") - 1, np.searchsorted(new, last, "left")
        counts = np.minimum(new[low + 1 : high + 1], last) - np.maximum(new[low:high], first)
        yield np.repeat(begins[low:high] - new[low:high], counts) + np.arange(first, last)


def offsets_of(counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """Where the rows of owners with so many each begin, and where the last ones end."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


# --- counting --------------------------------------------------------------------------------------------------------

Step: TypeAlias = Callable[[slice, Scratch], None]
"""Works on one block of rows or people."""


class Blocks:
    """Threads that share the blocks of a whole among them, the same ones to each thread every time."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, "cohort")

    def each(self, size: int, block: int, step: Step) -> None:
        """Take a step for each block of `block` out of `size`; return when all are done."""

        def take_share(thread: int) -> None:
            scratch = Scratch(block)
            for first in range(thread * block, size, self._threads * block):
                step(slice(first, min(first + block, size)), scratch)

        list(self._pool.map(take_share, range(self._threads)))

    def close(self) -> None:
        self._pool.shutdown()


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """One table in memory. May be used from several threads at once."""

    offsets: Offsets
    # Each of as many rows as were declared.
    columns: Mapping[str, Stored]
    declared: int
    belongs_to_place: bool

    @property
    def count(self) -> int:
        return int(self.offsets[-1])

    def owners(self) -> NDArray[np.uint32]:
        """The number of each declared row's owner; of one that belongs to nobody any."""
        owners = np.zeros(self.declared, np.uint32)
        owners[: self.count] = np.repeat(np.arange(len(self.offsets) - 1, dtype=np.uint32), np.diff(self.offsets))
        return owners

    def reordered(self, order: NDArray[np.intp]) -> Rows:
        """The rows of these owners, in this order."""
        counts = np.diff(self.offsets)[order]

        def pieces() -> Iterator[Mapping[str, Stored]]:
            for rows in row_pieces(self.offsets, order):
                yield {name: column[rows] for name, column in self.columns.items()}

        return Rows(offsets_of(counts), self.declared, pieces)

    def counted(
        self, countings: Sequence[Counting], bits: Mapping[str, Bits], blocks: Blocks, block: int
    ) -> dict[str, Bits]:
        """For each of the countings, which say the same of a row, one bit for each owner. `bits` are those of rows."""
        where = countings[0].where
        meant = None if where is None else self._meant(where, bits, blocks, block)
        owners = len(self.offsets) - 1
        found = {counting.name: np.zeros(-(-owners // _OCTET), np.uint8) for counting in countings}

        def count(those: slice, scratch: Scratch) -> None:
            del scratch
            offsets = self.offsets[those.start : those.stop + 1]
            before = offsets if meant is None else meant.before(offsets)
            numbers = np.subtract(before[1:], before[:-1])
            for counting in countings:
                put_bits(found[counting.name], those.start, np.greater_equal(numbers, counting.at_least))

        blocks.each(owners, min(block, _OWNERS_IN_BLOCK), count)
        return found

    def _meant(self, where: Predicate, bits: Mapping[str, Bits], blocks: Blocks, block: int) -> _Meant:
        octets = np.zeros((self.declared // _WORD_BITS + 1) * (_WORD_BITS // _OCTET), np.uint8)

        def mark(rows: slice, scratch: Scratch) -> None:
            whole = scratch.borrow()
            marks = whole[: rows.stop - rows.start]
            where.mark(of_block(self.columns, bits, rows), marks, scratch)
            packed = np.packbits(marks, bitorder="little")
            octets[rows.start // _OCTET :][: len(packed)] = packed
            scratch.give_back(whole)

        blocks.each(self.declared, block, mark)
        return _Meant.of(octets)


@dataclass(frozen=True, slots=True, eq=False)
class _Meant:
    """Which rows are meant: 64 to a word, and of each word how many are meant before it."""

    words: NDArray[np.uint64]
    sums: NDArray[np.uint32]

    @classmethod
    def of(cls, octets: NDArray[np.uint8]) -> _Meant:
        words = octets.view("<u8")
        sums = np.zeros(len(words), np.uint32)
        np.cumsum(np.bitwise_count(words[:-1]), dtype=np.uint32, out=sums[1:])
        return cls(words, sums)

    def before(self, offsets: Offsets) -> Offsets:
        """How many rows are meant before each offset."""
        at = np.right_shift(offsets, _WORD_SHIFT).astype(np.intp)
        below = np.left_shift(np.uint64(1), np.bitwise_and(offsets, _IN_WORD).astype(np.uint64))
        # No offset is beyond the last word, so that "clip" clips nothing; "raise" would look first.
        rest = np.bitwise_and(self.words.take(at, mode="clip"), np.subtract(below, np.uint64(1)))
        return np.add(self.sums.take(at, mode="clip"), np.bitwise_count(rest))


def of_block(columns: Mapping[str, Stored], bits: Mapping[str, Bits], rows: slice) -> Mapping[str, Stored]:
    """A predicate's view of a block that begins at a multiple of 8."""
    octets = slice(rows.start // _OCTET, -(-rows.stop // _OCTET))
    return {name: column[rows] for name, column in columns.items()} | {
        name: each[octets] for name, each in bits.items()
    }


def put_bits(bits: Bits, first: int, marks: NDArray[np.bool_]) -> None:
    """Make bits of a block's marks, from the one of number `first` on, which is a multiple of 8."""
    packed = np.packbits(marks)
    bits[first // _OCTET :][: len(packed)] = packed


def of_members(bits: Bits, places: NDArray[np.uint32], blocks: Blocks, block: int) -> Bits:
    """Bits of places as bits of the people there, each of whom has the number of a place."""
    marks = np.unpackbits(bits).view(np.bool_)
    found = np.zeros(-(-len(places) // _OCTET), np.uint8)

    def spread(people: slice, scratch: Scratch) -> None:
        del scratch
        put_bits(found, people.start, marks.take(places[people], mode="clip"))

    blocks.each(len(places), block, spread)
    return found
