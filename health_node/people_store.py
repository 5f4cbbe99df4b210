"""The people of one load, in a file that is written once and then kept in memory whole: pseudonyms and small columns.

    8 bytes    "tripPPL1"
    8 bytes    number of people, big-endian
    8 bytes    places declared for them, the same number or more, big-endian
    32 bytes   the hash of the dictionary
    16 bytes   each pseudonym, strictly ascending
    1, 2, 4 or 8 bytes, little-endian, for each person, column by column in the dictionary's order (`encoding`)
    32 bytes   SHA-256 of everything before

Pseudonyms and columns begin at multiples of 64 bytes, after zeros. With Ontario's dictionary a person takes 40 bytes, in
the file and in memory. A number means what the dictionary says, so that a store of another one is not read.

What criteria mean for a block of people is left to `cohort`; whether the file is the one that was loaded, to the log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from broker_common.errors import InternalError, RefusedError
from broker_common.query.condition import Condition
from broker_common.query.dictionary import Dictionary
from broker_common.storage.durable import create_for_owner, replacing
from broker_common.storage.source_values import Values
from broker_common.values import HASH_BYTES, PSEUDONYM_BYTES
from health_node.cohort import Marks, Scratch, compile_condition
from health_node.encoding import Encoding, Stored

_MAGIC = b"tripPPL1"
_COUNT_BYTES = 8
_HEADER_BYTES = len(_MAGIC) + 2 * _COUNT_BYTES + HASH_BYTES
_ALIGNED = 64
# One core's cache holds a block's marks; with smaller ones two threads mostly wait for each other between calls.
PEOPLE_IN_BLOCK = 1 << 20
"""Whose marks are made in one go."""
_OCTET = 8
# People whose pseudonyms are looked at in one go.
_PIECE = 1 << 20
_DEFAULT_THREADS = 2

Narrow: TypeAlias = Callable[[NDArray[np.uint8], Marks], None]
"""Takes marks out of a block of people, whose pseudonyms are an (n, 16) array; it looks at each of them alone."""


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """Columns of equal length: halves of pseudonyms, and per dictionary column the numbers of `source_values`."""

    high: NDArray[np.uint64]
    low: NDArray[np.uint64]
    columns: Mapping[str, Values]

    @property
    def size(self) -> int:
        return len(self.high)


@dataclass(frozen=True, slots=True)
class Figures:
    """How large a store is: for its operator, and for everybody."""

    people: int
    # As they were declared when it was loaded.
    places: int


def build_people_store(path: Path, people: People, dictionary: Dictionary, *, places: int) -> None:
    """Write `people`, who ascend by pseudonym, to a new file at `path`; `places` were declared for them.

    Raises:
        InternalError: INTEGRITY (they do not ascend, are more than their places, or a value is not admitted), STORE_FAILED.
    """
    if people.size > places:
        raise InternalError("INTEGRITY", problem="there are more people than places")
    try:
        with create_for_owner(path) as file:
            writer = _Writer(file)
            counts = b"".join(count.to_bytes(_COUNT_BYTES, "big") for count in (people.size, places))
            writer.write(_MAGIC + counts + dictionary.hash)
            writer.align()
            for piece in _pseudonyms(people):
                writer.write(piece.data)
            for column in dictionary.columns:
                writer.align()
                writer.write(_encoded(Encoding.of(column), people.columns[column.name]).data)
            file.write(writer.digest())
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


class _Writer:
    """Writes a file from its beginning, and hashes what it writes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._written = 0
        self._digest = hashlib.sha256()

    def write(self, part: bytes | memoryview) -> None:
        self._digest.update(part)
        self._written += self._file.write(part)

    def align(self) -> None:
        self.write(bytes(-self._written % _ALIGNED))

    def digest(self) -> bytes:
        return self._digest.digest()


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
            RefusedError: NOTHING_LOADED, there is no file; DICTIONARY_CHANGED.
            InvalidRequestError: DICTIONARY_UNUSABLE.
            InternalError: INTEGRITY.
        """
        self.dictionary = dictionary
        self._encodings = {column.name: Encoding.of(column) for column in dictionary.columns}
        with _reading(path):
            content = np.fromfile(path, dtype=np.uint8)
        if hashlib.sha256(content[:-HASH_BYTES].data).digest() != content[-HASH_BYTES:].tobytes():
            raise _damaged()
        layout = _Layout.of(content[:_HEADER_BYTES].tobytes(), len(content), dictionary)
        people = layout.figures.people
        self._pseudonyms = content[layout.pseudonyms :][: people * PSEUDONYM_BYTES].reshape(-1, PSEUDONYM_BYTES)
        self._places = layout.figures.places
        self._columns: dict[str, Stored] = {}
        for name, encoding in self._encodings.items():
            column = content[layout.columns[name] :][: people * encoding.kind.itemsize].view(encoding.kind)
            self._columns[name] = column
        self._verify()
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, "cohort")

    @property
    def size(self) -> int:
        """How many people there are. For the health operator only: no researcher sees anything that depends on it."""
        return len(self._pseudonyms)

    @property
    def places(self) -> int:
        """How many people were declared when it was loaded: all that anybody else may see of its size."""
        return self._places

    @property
    def pseudonyms(self) -> NDArray[np.uint8]:
        """Everyone's, strictly ascending, as an (n, 16) array that nobody may change."""
        return self._pseudonyms

    def mark(self, condition: Condition, narrow: Narrow, *, block: int = PEOPLE_IN_BLOCK) -> NDArray[np.uint8]:
        """One bit for each declared place, the most significant first: whether its person is marked by both.

        A place is a row, since rows ascend by pseudonym and no two are alike; behind the last one all bits are zero. `narrow`
        takes marks out of a block of people; a block is a multiple of 8. SECURITY: every place is looked at, whoever matches.
        """
        predicate = compile_condition(condition, self.dictionary)
        bits = np.zeros(-(-self._places // _OCTET), dtype=np.uint8)

        def mark_share(thread: int) -> None:
            scratch = Scratch(block)
            whole = scratch.borrow()
            for first in range(thread * block, self.size, self._threads * block):
                people = slice(first, min(first + block, self.size))
                marks = whole[: people.stop - first]
                predicate.mark({name: column[people] for name, column in self._columns.items()}, marks, scratch)
                narrow(self._pseudonyms[people], marks)
                packed = np.packbits(marks)
                bits[first // _OCTET :][: len(packed)] = packed

        list(self._pool.map(mark_share, range(self._threads)))
        return bits

    @property
    def halves(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """The two halves of everyone's pseudonym, in the order of the store."""
        halves = self._pseudonyms.view(">u8")
        return halves[:, 0].astype(np.uint64), halves[:, 1].astype(np.uint64)

    def column(self, name: str) -> Values:
        """One column of everyone, in the order of the store, as `build_people_store` was given it."""
        return self._encodings[name].values(self._columns[name])

    def close(self) -> None:
        self._pool.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _verify(self) -> None:
        for start in range(0, self.size, _PIECE):
            _verify_ascending(self._pseudonyms[start : start + _PIECE], self._pseudonyms[start - 1 : start])
        for name, encoding in self._encodings.items():
            if self.size and self._columns[name].max() > encoding.top:
                raise _damaged()


def read_figures(path: Path, dictionary: Dictionary) -> Figures:
    """What the store at `path` says of its size: nothing else of it is read.

    One of another dictionary says it too; only whether it has the length that follows from it is not known then.

    Raises:
        RefusedError: NOTHING_LOADED.
        InternalError: INTEGRITY.
    """
    with _reading(path), path.open("rb") as file:
        header, size = file.read(_HEADER_BYTES), path.stat().st_size
    try:
        return _Layout.of(header, size, dictionary).figures
    except RefusedError:
        return _figures_in(header)


def stored_dictionary(path: Path) -> str:
    """The hash of the dictionary that the store at `path` says it is of, in hexadecimal.

    Raises:
        RefusedError: NOTHING_LOADED.
        InternalError: INTEGRITY.
    """
    with _reading(path), path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise _damaged()
    return header[-HASH_BYTES:].hex()


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where in a file what begins."""

    figures: Figures
    pseudonyms: int
    columns: Mapping[str, int]

    @classmethod
    def of(cls, header: bytes, file_size: int, dictionary: Dictionary) -> Self:
        """Of a file with this header, if it is a store of this dictionary."""
        if file_size < _HEADER_BYTES + HASH_BYTES or not header.startswith(_MAGIC):
            raise _damaged()
        if header[-HASH_BYTES:] != dictionary.hash:
            raise RefusedError("DICTIONARY_CHANGED", role="health")
        figures = _figures_in(header)
        people = figures.people
        pseudonyms = _aligned(_HEADER_BYTES)
        end, columns = pseudonyms + people * PSEUDONYM_BYTES, {}
        for column in dictionary.columns:
            columns[column.name] = _aligned(end)
            end = columns[column.name] + people * Encoding.of(column).kind.itemsize
        if end + HASH_BYTES != file_size or people > figures.places:
            raise _damaged()
        return cls(figures, pseudonyms, columns)


def _aligned(offset: int) -> int:
    return offset + -offset % _ALIGNED


def _figures_in(header: bytes) -> Figures:
    counts = header[len(_MAGIC) :]
    return Figures(*(int.from_bytes(counts[at:][:_COUNT_BYTES], "big") for at in (0, _COUNT_BYTES)))


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
