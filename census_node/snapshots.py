"""Snapshots: both ledgers in one file, written whole and never changed, known by the hash of its bytes.

Seven NumPy arrays one after the other: a salt, the submitted pseudonyms (first halves, second halves), what they, the persons
and the households were charged, and, as JSON, how many pseudonyms each agency introduced. SECURITY: the hash outlives the
file. Without the salt in it, what lay between this snapshot and the next, one small sample perhaps, could be guessed and
confirmed for ever. Once read, the pseudonyms stay in the file and are looked up there; in memory are 4 bytes a unit.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
import numpy.typing as npt

from broker_common.crypto.commitments import SALT_BYTES
from broker_common.errors import InternalError
from broker_common.storage.durable import create_for_owner, make_folder, replacing
from broker_common.values import Randomness
from census_node.ledgers import Ledgers
from census_node.submitted_ledger import Column, SubmittedLedger
from census_node.unit_ledger import UnitLedger
from census_node.units import Carry

__all__ = ["SnapshotFolder"]

_NAME_BYTES = 16
_SUFFIX = ".ledgers"
_CARRY_SUFFIX = ".carry"
_ARRAYS = 7


class _Hashing:
    """A file that is hashed as it is written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self._file.write(data)


@dataclass(frozen=True, slots=True)
class SnapshotFolder:
    """The folder of one census node's snapshots."""

    path: Path

    def write(self, ledgers: Ledgers, randomness: Randomness) -> tuple[str, bytes]:
        """Durably write both ledgers; gives the file's name and its hash."""
        name = randomness(_NAME_BYTES).hex() + _SUFFIX
        try:
            make_folder(self.path)
            # CRASH: a snapshot that no step names is swept away at the next start.
            with replacing(self.path / name) as temporary, create_for_owner(temporary) as file:
                hashing = _Hashing(file)
                for array in (np.frombuffer(randomness(SALT_BYTES), np.uint8), *_arrays(ledgers)):
                    np.lib.format.write_array(hashing, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
        except OSError as error:
            raise InternalError("STORE_FAILED") from error
        return name, hashing.digest.digest()

    def read(self, name: str, content_hash: bytes) -> Ledgers:
        """The ledgers as they were written, their digest left open.

        Raises:
            InternalError: INTEGRITY, the file is missing or not the one that was written.
        """
        try:
            with (self.path / name).open("rb") as file:
                if hashlib.file_digest(file, "sha256").digest() != content_hash:
                    raise _damaged(name)
        except OSError as error:
            raise _damaged(name) from error
        with (self.path / name).open("rb") as file:
            _, high, low, submitted, persons, households, introduced = _places(file)
            units = UnitLedger()
            units.grow(persons.size, households.size)
            _read_into(units.persons, file, persons)
            _read_into(units.households, file, households)
            return Ledgers(
                SubmittedLedger(Column(_mapped(file, high), _mapped(file, low), _read(file, submitted))),
                units,
                msgspec.json.decode(_read(file, introduced).tobytes(), type=dict[str, int]),
            )

    def write_carry(self, carry: Carry, randomness: Randomness) -> tuple[str, bytes]:
        """Durably write what a load takes over; gives the file's name and its hash."""
        name = randomness(_NAME_BYTES).hex() + _CARRY_SUFFIX
        try:
            make_folder(self.path)
        except OSError as error:
            raise InternalError("STORE_FAILED") from error
        # CRASH: as above.
        carry.write(self.path / name)
        return name, carry.content_hash

    def read_carry(self, name: str, content_hash: bytes) -> Carry:
        """What a load took over.

        Raises:
            InternalError: INTEGRITY, the file is missing or not the one that was written.
        """
        carry = Carry.read(self.path / name)
        if carry.content_hash != content_hash:
            raise _damaged(name)
        return carry

    def remove(self, name: str) -> None:
        """Remove a file; nothing happens if it is gone."""
        try:
            (self.path / name).unlink(missing_ok=True)
        except OSError as error:
            raise InternalError("STORE_FAILED") from error

    def sweep(self, kept: set[str]) -> None:
        """Remove every file that is not among those kept, and what was left unfinished."""
        if self.path.is_dir():
            for path in self.path.iterdir():
                if path.name not in kept:
                    self.remove(path.name)


def _damaged(name: str) -> InternalError:
    return InternalError("INTEGRITY", problem=f"{name}, a file of the ledgers, is damaged or missing")


def _arrays(ledgers: Ledgers) -> Iterator[npt.NDArray[np.generic]]:
    submitted = ledgers.submitted.merged()
    yield submitted.high
    yield submitted.low
    yield submitted.units
    yield ledgers.units.persons
    yield ledgers.units.households
    yield np.frombuffer(msgspec.json.encode(ledgers.introduced, order="sorted"), np.uint8)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an array stands in a file that we wrote."""

    kind: np.dtype[Any]
    start: int
    size: int


def _places(file: BufferedReader) -> list[_Place]:
    places: list[_Place] = []
    for _ in range(_ARRAYS):
        np.lib.format.read_magic(file)
        shape, _, kind = np.lib.format.read_array_header_1_0(file)
        places.append(_Place(kind, file.tell(), shape[0]))
        file.seek(shape[0] * kind.itemsize, os.SEEK_CUR)
    return places


def _mapped(file: BufferedReader, place: _Place) -> npt.NDArray[Any]:
    """An array that is left where it is."""
    # An empty region cannot be mapped.
    if not place.size:
        return np.empty(0, place.kind)
    return np.asarray(np.memmap(file, place.kind, "r", place.start, (place.size,)))


def _read(file: BufferedReader, place: _Place) -> npt.NDArray[Any]:
    array = np.empty(place.size, place.kind)
    _read_into(array, file, place)
    return array


def _read_into(array: npt.NDArray[Any], file: BufferedReader, place: _Place) -> None:
    """Read an array to where it is to be: a copy on the way there would be memory for everybody once more."""
    file.seek(place.start)
    content = array.view(np.uint8)
    if file.readinto(content.data) != len(content):
        raise ValueError("a file of the ledgers changed while it was read")
