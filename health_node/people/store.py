"""The people of one load, in a file that is written once and then kept in memory whole: pseudonyms, small columns and tables.

    8 bytes    "tripPPL2"
    8 bytes    number of places that are taken, big-endian
    8 bytes    places declared, the same number or more, big-endian
    32 bytes   the hash of the dictionary
    16 bytes   for each table: number of its rows, and how many were declared, the same or more, 8 bytes each, big-endian
    16 bytes   each pseudonym, strictly ascending
    1, 2, 4 or 8 bytes, little-endian, for each person, column by column in the dictionary's order (`encoding`)
    for each table (`tables`), in order:
        4 bytes, little-endian, for each owner and one more: the number of the first row, ascending; the last is that of rows
        1, 2, 4 or 8 bytes, little-endian, for each declared row, column by column; 0 behind the last row
    32 bytes   SHA-256 of everything before

Everything from the pseudonyms on begins at multiples of 64 bytes, after zeros. A long list (`source.values.is_list`) is a
table and no column. A place is a person; under linkage by household it is an address, the first table says which people
live there, and the columns of people are those of that table. A number means what the dictionary says, so that a store of
another one is not read. A store without tables may begin with "tripPPL1", as all did before there were any.

With Ontario's dictionary a person takes 40 bytes, in the file and in memory. With tables it is 4 bytes more for each of
them, and each declared row takes what its columns do: 300 million events with a day and one of 100,000 codes 2.4 GB.

`cohort` decides what criteria mean for a block of people; the log decides whether the file is the one that was loaded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from broker_common.errors import InternalError, RefusedError
from broker_common.query.condition import Condition
from broker_common.query.dictionary import Column, Dictionary
from broker_common.storage.durable import create_for_owner, replacing
from broker_common.storage.source.values import Values
from broker_common.values import HASH_BYTES, PSEUDONYM_BYTES
from health_node.people.cohort import Counting, Marks, Predicate, Scratch, compile_condition, counted_together
from health_node.people.encoding import Encoding, Stored
from health_node.people.tables import (
    MEMBERS,
    Bits,
    Blocks,
    Declared,
    Rows,
    Table,
    of_block,
    of_members,
    put_bits,
    row_pieces,
    shapes_of,
    small_columns,
)

_MAGIC, _MAGIC_BEFORE_TABLES = b"tripPPL2", b"tripPPL1"
_COUNT_BYTES = 8
_FIXED_BYTES = len(_MAGIC) + 2 * _COUNT_BYTES + HASH_BYTES
_EXTENT_BYTES = 2 * _COUNT_BYTES
_ALIGNED = 64
_OFFSET = np.dtype("<u4")
# One core's cache holds a block's marks; with smaller ones two threads mostly wait for each other between calls.
PEOPLE_IN_BLOCK = 1 << 20
"""Whose marks are made in one go; so many rows of a table as well."""
_OCTET = 8
# People whose pseudonyms are looked at in one go.
_PIECE = 1 << 20
_DEFAULT_THREADS = 2

Narrow: TypeAlias = Callable[[NDArray[np.uint8], Marks], None]
"""Takes marks out of a block of people, whose pseudonyms are an (n, 16) array; it looks at each of them alone."""


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """Halves of each place's pseudonym, per small column the numbers of `source.values` of each person, and the tables."""

    high: NDArray[np.uint64]
    low: NDArray[np.uint64]
    columns: Mapping[str, Values]
    # Tables by name. The table of members has no columns of its own.
    tables: Mapping[str, Rows] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self.high)


@dataclass(frozen=True, slots=True)
class Extent:
    """How many rows a table has, and how many were declared for it."""

    rows: int
    declared: int


@dataclass(frozen=True, slots=True)
class Figures:
    """How large a store is: for its operator, and for everybody."""

    people: int
    # As they were declared when it was loaded.
    places: int
    # The extent of each table.
    tables: Mapping[str, Extent] = field(default_factory=dict)

    @property
    def fit(self) -> bool:
        """Whether everything lies within what was declared."""
        return self.people <= self.places and all(table.rows <= table.declared for table in self.tables.values())

    @property
    def declared(self) -> Declared:
        return Declared(self.places, {name: table.declared for name, table in self.tables.items()})


def build_people_store(path: Path, people: People, dictionary: Dictionary, *, places: int) -> None:
    """Write `people`, who ascend by pseudonym, to a new file at `path`; `places` were declared for them.

    Raises:
        InternalError: INTEGRITY (they do not ascend, are more than their places, or a value is not admitted), STORE_FAILED.
    """
    tables = {shape.name: people.tables[shape.name] for shape in shapes_of(dictionary)}
    figures = Figures(people.size, places, {name: Extent(rows.count, rows.declared) for name, rows in tables.items()})
    if not figures.fit:
        raise InternalError("INTEGRITY", problem="there are more people than places, or more rows than were declared")
    layout = _Layout.of(figures, dictionary)
    try:
        with create_for_owner(path) as file:
            _write(file, 0, [np.frombuffer(_header(figures, dictionary), np.uint8)])
            _write(file, layout.pseudonyms, _pseudonyms(people))
            for name, column in layout.columns.items():
                _write(file, column.start, [_encoded(column.encoding, people.columns[name])])
            for name, table in layout.tables.items():
                _write_table(file, table, tables[name])
            # The rest of the file is zeros.
            file.truncate(layout.end)
        with path.open("r+b") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
            file.write(digest)
    except OSError as error:
        raise InternalError("STORE_FAILED") from error


def replace_people_store(path: Path, people: People, dictionary: Dictionary, *, places: int) -> None:
    """Durably make the store at `path` hold `people`; until that has succeeded the file before stands.

    Raises:
        InternalError: INTEGRITY, STORE_FAILED.
    """
    try:
        with replacing(path) as temporary:
            build_people_store(temporary, people, dictionary, places=places)
    except OSError as error:
        raise InternalError("STORE_FAILED") from error


def _write(file: BinaryIO, at: int, pieces: Iterable[NDArray[Any]]) -> None:
    file.seek(at)
    file.writelines(piece.data for piece in pieces)


def _write_table(file: BinaryIO, layout: _TablePlace, table: Rows) -> None:
    """One table, a piece of all its columns at a time."""
    # Owners who were declared and are not there have no rows.
    offsets = np.full(layout.owners + 1, table.count, _OFFSET)
    offsets[: len(table.offsets)] = table.offsets
    _write(file, layout.offsets, [offsets])
    written = dict.fromkeys(layout.columns, 0)
    for piece in table.pieces() if layout.columns else ():
        for name, column in layout.columns.items():
            _write(file, column.start + written[name] * column.encoding.kind.itemsize, [piece[name]])
            written[name] += len(piece[name])
    if any(rows != table.count for rows in written.values()):
        raise InternalError("INTEGRITY", problem="a table has not as many rows as belong to somebody")


def _pseudonyms(people: People) -> Iterator[NDArray[np.uint8]]:
    """Everybody's pseudonym, big-endian, in pieces, which are verified to ascend."""
    before: NDArray[np.uint8] | None = None
    for start in range(0, people.size, _PIECE):
        halves = np.empty((len(people.high[start : start + _PIECE]), 2), dtype=">u8")
        halves[:, 0], halves[:, 1] = people.high[start : start + _PIECE], people.low[start : start + _PIECE]
        piece = halves.view(np.uint8)
        _verify_ascending(piece, before)
        before = piece[-1:]
        yield piece


def _encoded(encoding: Encoding, values: Values) -> Stored:
    try:
        return encoding.stored(values)
    except ValueError as error:
        raise InternalError("INTEGRITY", problem=str(error)) from error


# --- reading ---------------------------------------------------------------------------------------------------------


class PeopleStore:
    """A finished store, read into memory. May be used from several threads at once."""

    def __init__(self, path: Path, dictionary: Dictionary, *, threads: int = _DEFAULT_THREADS) -> None:
        """`threads` work on one cohort.

        Raises:
            RefusedError: NOTHING_LOADED, there is no file.
            InvalidRequestError: DICTIONARY_UNUSABLE.
            InternalError: INTEGRITY.
        """
        self.dictionary = dictionary
        with _reading(path):
            content = np.fromfile(path, dtype=np.uint8)
        if hashlib.sha256(content[:-HASH_BYTES].data).digest() != content[-HASH_BYTES:].tobytes():
            raise _damaged()
        layout = _Layout.read(content[: _header_bytes(dictionary)].tobytes(), len(content), dictionary)
        self._figures = layout.figures
        self._pseudonyms = content[layout.pseudonyms :][: self.size * PSEUDONYM_BYTES].reshape(-1, PSEUDONYM_BYTES)
        self._encodings = {name: column.encoding for name, column in layout.columns.items()}
        self._columns = {name: column.numbers(content) for name, column in layout.columns.items()}
        self._tables = {name: table.table(content) for name, table in layout.tables.items()}
        self._verify(layout)
        self._members: Table | None = None
        if MEMBERS in self._tables:
            self._members = replace(self._tables.pop(MEMBERS), columns=self._columns)
            self._places_of_members = self._members.owners()
        self._blocks = Blocks(threads)

    @property
    def size(self) -> int:
        """How many places are taken. For the health operator only: no researcher sees anything that depends on it."""
        return self._figures.people

    @property
    def places(self) -> int:
        """How many people were declared when it was loaded."""
        return self._figures.places

    @property
    def declared(self) -> Declared:
        """The declaration at the time of the load: all that others may see of its size."""
        return self._figures.declared

    @property
    def pseudonyms(self) -> NDArray[np.uint8]:
        """Everyone's, strictly ascending, as an (n, 16) array that nobody may change."""
        return self._pseudonyms

    def mark(self, condition: Condition, narrow: Narrow, *, block: int = PEOPLE_IN_BLOCK) -> Bits:
        """One bit for each declared place, the most significant first: whether its person is marked by both.

        A place is a row, since rows ascend by pseudonym and no two are alike; behind the last one all bits are zero. Where it is
        a household, it is marked if one of its members is. `narrow` takes marks out of a block of places; a block is a
        multiple of 8. SECURITY: every place and every declared row of a table is looked at, for any criteria.
        """
        predicate = compile_condition(condition, self.dictionary)
        columns: Mapping[str, Stored] = self._columns
        found = self._counted(predicate, block)
        if self._members is not None:
            predicate = anybody = Counting(MEMBERS, predicate, 1, key=MEMBERS)
            columns, found = {}, self._members.counted([anybody], found, self._blocks, block)
        bits = np.zeros(-(-self.places // _OCTET), dtype=np.uint8)

        def mark(people: slice, scratch: Scratch) -> None:
            whole = scratch.borrow()
            marks = whole[: people.stop - people.start]
            predicate.mark(of_block(columns, found, people), marks, scratch)
            narrow(self._pseudonyms[people], marks)
            put_bits(bits, people.start, marks)
            scratch.give_back(whole)

        self._blocks.each(self.size, block, mark)
        return bits

    def _counted(self, predicate: Predicate, block: int) -> dict[str, Bits]:
        """The bits that the predicate asks for, one for each person."""
        found: dict[str, Bits] = {}
        for countings in counted_together(predicate):
            table = self._tables[countings[0].table]
            bits = table.counted(countings, {}, self._blocks, block)
            if self._members is not None and table.belongs_to_place:
                members = self._places_of_members
                bits = {name: of_members(each, members, self._blocks, block) for name, each in bits.items()}
            found |= bits
        return found

    @property
    def halves(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """The two halves of everyone's pseudonym, in the order of the store."""
        halves = self._pseudonyms.view(">u8")
        return halves[:, 0].astype(np.uint64), halves[:, 1].astype(np.uint64)

    def column(self, name: str) -> Values:
        """One small column of everyone, in the order of the store, as `build_people_store` was given it."""
        people = self.size if self._members is None else self._members.count
        return self._encodings[name].values(self._columns[name][:people])

    def in_order(self, high: NDArray[np.uint64], low: NDArray[np.uint64], order: NDArray[np.intp]) -> People:
        """Everything under other pseudonyms, whose places are the rows of `order` here."""
        tables, people = {}, order
        if self._members is not None:
            people = np.concatenate([np.empty(0, np.intp), *row_pieces(self._members.offsets, order)])
            tables[MEMBERS] = self._members.reordered(order)
        for name, table in self._tables.items():
            tables[name] = table.reordered(order if table.belongs_to_place else people)
        columns = {name: self.column(name)[people] for name in self._columns}
        return People(high, low, columns, tables)

    def close(self) -> None:
        self._blocks.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _verify(self, layout: _Layout) -> None:
        for start in range(0, self.size, _PIECE):
            _verify_ascending(self._pseudonyms[start : start + _PIECE], self._pseudonyms[start - 1 : start])
        _verify_admitted(self._columns, layout.columns)
        for name, table in self._tables.items():
            _verify_admitted(table.columns, layout.tables[name].columns)
            is_ascending = not table.offsets[0] and bool((table.offsets[1:] >= table.offsets[:-1]).all())
            if not is_ascending or table.count != self._figures.tables[name].rows:
                raise _damaged()


def read_figures(path: Path, dictionary: Dictionary) -> Figures:
    """The size figures of the store at `path`: nothing else of it is read.

    Raises:
        RefusedError: NOTHING_LOADED.
        InternalError: INTEGRITY.
    """
    with _reading(path), path.open("rb") as file:
        header, size = file.read(_header_bytes(dictionary)), path.stat().st_size
    return _Layout.read(header, size, dictionary).figures


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the numbers of one column lie."""

    start: int
    encoding: Encoding
    count: int

    @property
    def end(self) -> int:
        return self.start + self.count * self.encoding.kind.itemsize

    def numbers(self, content: NDArray[np.uint8]) -> Stored:
        numbers: Stored = content[self.start : self.end].view(self.encoding.kind)
        return numbers


@dataclass(frozen=True, slots=True)
class _TablePlace:
    """Where one table lies."""

    offsets: int
    owners: int
    columns: Mapping[str, _Place]
    extent: Extent
    belongs_to_place: bool

    def table(self, content: NDArray[np.uint8]) -> Table:
        offsets = content[self.offsets :][: (self.owners + 1) * _OFFSET.itemsize].view(_OFFSET)
        columns = {name: column.numbers(content) for name, column in self.columns.items()}
        return Table(offsets, columns, self.extent.declared, self.belongs_to_place)


def stored_dictionary(path: Path) -> str:
    """The hash of the dictionary that the store at `path` says it is of, in hexadecimal.

    Raises:
        RefusedError: NOTHING_LOADED.
        InternalError: INTEGRITY.
    """
    with _reading(path), path.open("rb") as file:
        header = file.read(_FIXED_BYTES)
    if len(header) < _FIXED_BYTES or not header.startswith((_MAGIC, _MAGIC_BEFORE_TABLES)):
        raise _damaged()
    return header[-HASH_BYTES:].hex()


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where in a file what begins, and where its sum does."""

    figures: Figures
    pseudonyms: int
    columns: Mapping[str, _Place]
    tables: Mapping[str, _TablePlace]
    end: int

    @classmethod
    def of(cls, figures: Figures, dictionary: Dictionary) -> Self:
        """Header of a store of this dictionary with this size."""
        pseudonyms = _aligned(_header_bytes(dictionary))
        people = figures.tables[MEMBERS].declared if MEMBERS in figures.tables else figures.people
        columns, end = _places(small_columns(dictionary), pseudonyms + figures.people * PSEUDONYM_BYTES, people)
        tables = {}
        for shape in shapes_of(dictionary):
            extent, owners = figures.tables[shape.name], figures.people if shape.belongs_to_place else people
            offsets = _aligned(end)
            rows, end = _places(shape.columns, offsets + (owners + 1) * _OFFSET.itemsize, extent.declared)
            tables[shape.name] = _TablePlace(offsets, owners, rows, extent, shape.belongs_to_place)
        return cls(figures, pseudonyms, columns, tables, end)

    @classmethod
    def read(cls, header: bytes, file_size: int, dictionary: Dictionary) -> Self:
        """Store of a file with this header, if it is a store of this dictionary."""
        if file_size < _FIXED_BYTES + HASH_BYTES or not header.startswith((_MAGIC, _MAGIC_BEFORE_TABLES)):
            raise _damaged()
        if header[_FIXED_BYTES - HASH_BYTES : _FIXED_BYTES] != dictionary.hash:
            raise InternalError("INTEGRITY", problem="the people store is of another dictionary than the log says")
        layout = cls.of(_figures_in(header, [shape.name for shape in shapes_of(dictionary)]), dictionary)
        if layout.end + HASH_BYTES != file_size or not layout.figures.fit:
            raise _damaged()
        return layout


def _places(columns: Iterable[Column], end: int, count: int) -> tuple[dict[str, _Place], int]:
    """Where columns of so many numbers lie behind `end`, and where they end."""
    places = {}
    for column in columns:
        places[column.name] = _Place(_aligned(end), Encoding.of(column), count)
        end = places[column.name].end
    return places, end


def _aligned(offset: int) -> int:
    return offset + -offset % _ALIGNED


def _header_bytes(dictionary: Dictionary) -> int:
    return _FIXED_BYTES + _EXTENT_BYTES * len(shapes_of(dictionary))


def _header(figures: Figures, dictionary: Dictionary) -> bytes:
    extents = [count for table in figures.tables.values() for count in (table.rows, table.declared)]
    fixed, more = (
        b"".join(count.to_bytes(_COUNT_BYTES, "big") for count in counts)
        for counts in ((figures.people, figures.places), extents)
    )
    return _MAGIC + fixed + dictionary.hash + more


def _figures_in(header: bytes, tables: Sequence[str]) -> Figures:
    def pair(at: int) -> tuple[int, int]:
        return int.from_bytes(header[at:][:_COUNT_BYTES], "big"), int.from_bytes(header[at + 8 :][:_COUNT_BYTES], "big")

    extents = {name: Extent(*pair(_FIXED_BYTES + at * _EXTENT_BYTES)) for at, name in enumerate(tables)}
    return Figures(*pair(len(_MAGIC)), extents)


def _verify_admitted(columns: Mapping[str, Stored], places: Mapping[str, _Place]) -> None:
    for name, numbers in columns.items():
        if len(numbers) and numbers.max() > places[name].encoding.top:
            raise _damaged()


def _verify_ascending(people: NDArray[np.uint8], before: NDArray[np.uint8] | None) -> None:
    """Strictly, and from the one before on, if there is one."""
    halves = (people if before is None else np.concatenate([before, people])).view(">u8").astype(np.uint64)
    high, low = halves[:, 0], halves[:, 1]
    above = (high[1:] > high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] > low[:-1]))
    if not above.all():
        raise InternalError("INTEGRITY", problem="the people do not ascend by pseudonym")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    if not path.is_file():
        raise RefusedError("NOTHING_LOADED", what="health data", role="health")
    try:
        yield
    except OSError as error:
        raise _damaged() from error


def _damaged() -> InternalError:
    return InternalError("INTEGRITY", problem="the people store is damaged")
