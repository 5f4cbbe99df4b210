"""The files of a census home, read by what AUDIT.md says of them under "The private files"; nothing in them is believed."""

from __future__ import annotations

import io
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from tokenize import TokenError
from typing import Any, TypeVar
from zipfile import BadZipFile

import msgspec
import numpy as np
import numpy.typing as npt
from numpy.lib.npyio import NpzFile

from broker_common.audit.export.reading import FolderPart, UnreadableError
from broker_common.audit.on_site.accounts import NOBODY, Accounts, Chosen, Members, Names, Numbers, as_names
from broker_common.crypto.commitments import SALT_BYTES, commit_load, commit_roster
from broker_common.crypto.frames import FRAME_BYTES, TAG_BYTES, FrameReader
from broker_common.errors import InvalidRequestError
from broker_common.query.dictionary import Dictionary
from broker_common.query.question import Question
from broker_common.values import PSEUDONYM_BYTES, ExactCounts

ScalarT = TypeVar("ScalarT", bound=np.generic)
# A charge's row names its sample's file and the key that the file is read with.
_REFERENCE = re.compile(r"([0-9a-f]{32}):([0-9a-f]{64})")
_COUNT_BYTES = 8
_SET_DOMAIN = b"tripartite/set/v1\0"
_HALF, _NUMBER, _BYTE = np.dtype(np.uint64), np.dtype(np.uint32), np.dtype(np.uint8)
# NumPy and zipfile raise any of these for a file that is not theirs.
_DAMAGE = (
    *(OSError, EOFError, ValueError, KeyError, TypeError, RuntimeError, MemoryError, SyntaxError, struct.error),
    *(BadZipFile, TokenError, zlib.error, msgspec.MsgspecError, InvalidRequestError),
)


class DamagedError(Exception):
    """A file of the stores is missing, or is not what its row says that it is."""


@contextmanager
def _finding_damage() -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise DamagedError from error


def read_file(folder: Path, name: str) -> bytes:
    """The whole of a plain file of this folder; DamagedError where there is none."""
    if Path(name).name != name:
        raise DamagedError
    try:
        return FolderPart(folder).read(name, (folder / name).lstat().st_size)
    except (OSError, ValueError, UnreadableError) as error:
        raise DamagedError from error


# --- samples and rosters ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class KeptSample:
    """The kept data of a charge: the sample by place, the active persons by number, and the salts of both commitments."""

    salt: bytes
    active_salt: bytes
    # As they lie there, packed.
    bits: bytes
    active: bytes
    persons: int

    @property
    def chosen(self) -> Chosen:
        return np.unpackbits(np.frombuffer(self.active, np.uint8), count=self.persons).astype(np.bool_)


def read_sample(folder: Path, reference: str) -> KeptSample:
    """The sample of this reference.

    Raises:
        DamagedError: it is missing, does not open under its key, or is none.
    """
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        raise DamagedError
    return parse_sample(_plaintext(read_file(folder, f"{found[1]}.sample"), bytes.fromhex(found[2])))


def parse_sample(plaintext: bytes) -> KeptSample:
    """Content of a sample's frames.

    Raises:
        DamagedError: it is cut off, or has anything behind its end.
    """
    content = io.BytesIO(plaintext)
    salt, active_salt = content.read(SALT_BYTES), content.read(SALT_BYTES)
    declared, persons = (int.from_bytes(content.read(_COUNT_BYTES), "big") for _ in range(2))
    if declared % 8 or max(declared, persons) > NOBODY:
        raise DamagedError
    bits, active = content.read(declared // 8), content.read(-(-persons // 8))
    behind = content.read()
    kept = KeptSample(salt, active_salt, bits, active, persons)
    is_whole = len(bits) == declared // 8 and len(active) == -(-persons // 8) and len(behind) < FRAME_BYTES
    if not is_whole or any(behind) or np.packbits(kept.chosen).tobytes() != active:
        raise DamagedError
    return kept


@dataclass(frozen=True, slots=True, eq=False)
class Roster:
    """The pseudonyms that the bits of a sample stand for, ascending, and how many places were declared for them."""

    names: Names
    places: int

    def chosen(self, bits: bytes) -> Names:
        """Numbers of the set bits.

        Raises:
            DamagedError: there are more bits than places, or fewer, or some behind the last of all.
        """
        chosen: Chosen = np.unpackbits(np.frombuffer(bits, np.uint8)).astype(np.bool_)
        if len(chosen) != self.places or chosen[len(self.names) :].any():
            raise DamagedError
        names: Names = self.names[chosen[: len(self.names)]]
        return names


def read_roster(folder: Path, file: str, salt: str, places: int, people: int, commitment: str) -> Roster:
    """A roster.

    Raises:
        DamagedError: it is missing, does not open under its key, or is not the one that the log commits to.
    """
    content = _plaintext(read_file(folder, f"{file}.roster"), read_file(folder, f"{file}.rosterkey"))
    return parse_roster(content, salt, places, people, commitment)


def parse_roster(content: bytes, salt: str, places: int, people: int, commitment: str) -> Roster:
    """Content of a roster's frames, as its row describes it.

    Raises:
        DamagedError: it is not the one that the log commits to.
    """
    # A column of SQLite holds values of any type.
    if (type(salt), type(places), type(people)) != (str, int, int) or people < 0:
        raise DamagedError
    with _finding_damage():
        end = PSEUDONYM_BYTES * people
        set_hash = sha256(_SET_DOMAIN + content[:end]).digest()
        is_committed = commit_roster(bytes.fromhex(salt), places, set_hash).hex() == commitment
        names = as_names(np.frombuffer(content[:end], np.uint8))
        behind = np.frombuffer(content, np.uint8)[end:]
    if not is_committed or (len(names), len(content)) != (people, PSEUDONYM_BYTES * places) or behind.any():
        raise DamagedError
    if not _ascend(names):
        raise DamagedError
    return Roster(names, places)


def _plaintext(sealed: bytes, key: bytes) -> bytes:
    size = FRAME_BYTES + TAG_BYTES
    starts = range(0, len(sealed), size)
    with _finding_damage():
        reader = FrameReader(key)
        frames = [
            reader.unseal(index, index == len(starts) - 1, sealed[start : start + size]).tobytes()
            for index, start in enumerate(starts)
        ]
        reader.verify_ended()
    return b"".join(frames)


# --- snapshots -------------------------------------------------------------------------------------------------------


def parse_snapshot(content: bytes, content_hash: bytes) -> Accounts:
    """The ledger as a snapshot's file holds it.

    Raises:
        DamagedError: it is not the one of this hash, or is none.
    """
    if sha256(content).digest() != content_hash:
        raise DamagedError
    file = io.BytesIO(content)
    with _finding_damage():
        salt, counts, charged = (np.lib.format.read_array(file, allow_pickle=False) for _ in range(3))
        if (salt.dtype, counts.dtype, charged.dtype) != (_BYTE, _HALF, _NUMBER) or file.read(1):
            raise DamagedError
        persons, households = counts.tolist()
        if charged.ndim != 1 or max(persons, households) > NOBODY or len(charged) not in {0, persons, households}:
            raise DamagedError
    return Accounts(persons, households, charged.astype(np.int64))


def _names_of(high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint64]) -> Names:
    return as_names(np.stack([high, low], axis=1).astype(">u8"))


def _are_households(names: Names, persons: Numbers, households: Numbers) -> bool:
    """Whether the names ascend, each of them is one household's, and everybody stands under one of them."""
    is_same = names[1:] == names[:-1]
    is_one_household = households[1:] == households[:-1]
    ascend = bool((names[1:] >= names[:-1]).all())
    return ascend and bool(is_one_household[is_same].all()) and len(np.unique(persons)) == len(persons)


def _ascend(names: Names) -> bool:
    return bool((names[1:] > names[:-1]).all())


# --- files of columns ------------------------------------------------------------------------------------------------


def _column(stored: NpzFile, name: str, kind: np.dtype[ScalarT], length: int | None = None) -> npt.NDArray[ScalarT]:
    column: npt.NDArray[ScalarT] = stored[name]
    if column.dtype != kind or column.ndim != 1 or length not in {None, len(column)}:
        raise DamagedError
    return column


def _numbers(stored: NpzFile, name: str, count: int, length: int | None = None) -> Numbers:
    """A column of numbers of which there are so many."""
    numbers = _column(stored, name, _NUMBER, length)
    if len(numbers) and int(numbers.max()) >= count:
        raise DamagedError
    return numbers


def _counts(stored: NpzFile) -> tuple[int, int]:
    persons, households = _column(stored, "counts", _HALF, 2).tolist()
    if max(persons, households) > NOBODY:
        raise DamagedError
    return persons, households


@dataclass(frozen=True, slots=True, eq=False)
class Carry:
    """The charges that a load took over: each subject in `to` got the charge of the subject at the same place in `from`."""

    person_to: Numbers
    person_from: Numbers
    household_to: Numbers
    household_from: Numbers
    person_count: int
    household_count: int


def parse_carry(content: bytes, content_hash: bytes) -> Carry:
    """The charges that a load took over.

    Raises:
        DamagedError: it is not the one of this hash, or is none.
    """
    with _finding_damage(), NpzFile(io.BytesIO(content), allow_pickle=False) as stored:
        persons, households = _counts(stored)
        person_to, household_to = _numbers(stored, "person_to", persons), _numbers(stored, "household_to", households)
        columns: dict[str, npt.NDArray[Any]] = {
            "person_to": person_to,
            "person_from": _numbers(stored, "person_from", persons, len(person_to)),
            "household_to": household_to,
            "household_from": _numbers(stored, "household_from", households, len(household_to)),
        }
    digest = sha256(b"tripartite/carry/v1\0")
    for name, column in {**columns, "counts": np.array([persons, households], _HALF)}.items():
        digest.update(f"{name} {len(column)}\n".encode("ascii"))
        digest.update(column.astype(column.dtype.newbyteorder("<")).tobytes())
    if digest.digest() != content_hash:
        raise DamagedError
    return Carry(**columns, person_count=persons, household_count=households)


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """One load's cards, ascending, with whose they are, and everybody's languages.

    Where households are linked, a card is an address, which stands once for each of its people.
    """

    # The one that its languages were read under.
    dictionary: Dictionary
    names: Names
    persons: Numbers
    households: Numbers
    person_count: int
    household_count: int
    # One value for each person number.
    values: Mapping[str, npt.NDArray[np.uint8]]

    def link(self, names: Names) -> tuple[Numbers, Numbers]:
        """The person, the first one if they are several, and household of each of these pseudonyms; `NOBODY` for those whom nobody has."""
        rows = np.searchsorted(self.names, names)
        known = np.zeros(len(names), np.bool_)
        inside = rows < len(self.names)
        known[inside] = self.names[rows[inside]] == names[inside]
        persons, households = (np.full(len(names), NOBODY, np.uint32) for _ in range(2))
        persons[known], households[known] = self.persons[rows[known]], self.households[rows[known]]
        return persons, households

    def members(self, names: Names) -> Members:
        """Who is in a sample of these pseudonyms: everybody of each."""
        first = np.searchsorted(self.names, names)
        counts = np.searchsorted(self.names, names, side="right") - first
        persons, households = self.link(names)
        several = np.repeat(np.arange(len(names)), np.maximum(counts, 1))
        # How far each stands behind the first of its name.
        behind = np.arange(len(several)) - np.searchsorted(several, several)
        known = counts[several] > 0
        persons, households = persons[several], households[several]
        rows = (first[several] + behind)[known]
        persons[known], households[known] = self.persons[rows], self.households[rows]
        return Members(names[several], persons, households)

    def homes(self) -> Numbers:
        """The household of each person, by number; `NOBODY` for those who have no card in this load."""
        homes = np.full(self.person_count, NOBODY, np.uint32)
        homes[self.persons] = self.households
        return homes

    def count(self, chosen: Chosen, question: Question) -> ExactCounts:
        """How many of these persons are in each cell of the question."""
        if question.variable is None:
            return ExactCounts([int(np.count_nonzero(chosen))])
        positions = self.dictionary.column(question.variable).positions
        cells = [[positions[value] for value in cell.values] for cell in question.cells]
        named = [code for codes in cells for code in codes]
        values = self.values[question.variable][chosen]
        inside = [np.isin(values, codes) if codes else ~np.isin(values, named) for codes in cells]
        return ExactCounts(int(np.count_nonzero(each)) for each in inside)


def read_load(path: Path, salt: bytes, commitment: str, dictionary: str) -> Load:
    """A load.

    Raises:
        DamagedError: it is not the one that the log commits to, or not one of the dictionary that the log names.
    """
    with _finding_damage(), path.open("rb") as file:
        content_hash = file_digest(file, "sha256").digest()
        if len(salt) != SALT_BYTES or commit_load(salt, content_hash).hex() != commitment:
            raise DamagedError
        file.seek(0)
        # Not by `np.load`, which also takes other formats and then gives something else.
        with NpzFile(file, allow_pickle=False) as stored:
            return _load_of(stored, dictionary)


def _load_of(stored: NpzFile, dictionary: str) -> Load:
    meaning = Dictionary.parse_meaning(_column(stored, "dictionary.meaning", _BYTE).tobytes())
    if meaning.hash.hex() != dictionary:
        raise DamagedError
    high = _column(stored, "high", _HALF)
    size, counts = len(high), _counts(stored)
    names = _names_of(high, _column(stored, "low", _HALF, size))
    numbers = [
        _numbers(stored, name, count, size) for name, count in zip(("persons", "households"), counts, strict=True)
    ]
    if not (_are_households(names, *numbers) if meaning.linkage == "household" else _ascend(names)):
        raise DamagedError
    values = {name: _column(stored, f"value.{name}", _BYTE, counts[0]) for name in meaning.names}
    return Load(meaning, names, numbers[0], numbers[1], *counts, values)
