"""Snapshots: the ledger in one file, written whole and never changed, known by the hash of its bytes.

Three NumPy arrays one after the other: a salt, how many numbers persons and households have, and what each subject was
charged. SECURITY: the hash outlives the file. Without the salt in it, what lay between this snapshot and the next, one small
sample perhaps, could be guessed and confirmed for ever.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from broker_common.crypto.commitments import SALT_BYTES
from broker_common.errors import InternalError
from broker_common.storage.durable import create_for_owner, make_folder, replacing
from broker_common.values import Randomness
from census_node.ledger.accounts import Ledger
from census_node.ledger.subjects import Carry

_NAME_BYTES = 16
_SUFFIX = ".ledgers"
_CARRY_SUFFIX = ".carry"


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

    def write(self, ledger: Ledger, randomness: Randomness) -> tuple[str, bytes]:
        """Durably write the ledger; gives the file's name and its hash."""
        name = randomness(_NAME_BYTES).hex() + _SUFFIX
        try:
            make_folder(self.path)
            # CRASH: a snapshot that no step names is swept away at the next start.
            with replacing(self.path / name) as temporary, create_for_owner(temporary) as file:
                hashing = _Hashing(file)
                salt, counts = np.frombuffer(randomness(SALT_BYTES), np.uint8), [ledger.persons, ledger.households]
                for array in (salt, np.array(counts, np.uint64), ledger.charged):
                    np.lib.format.write_array(hashing, array, version=(1, 0), allow_pickle=False)
        except OSError as error:
            raise InternalError("STORE_FAILED") from error
        return name, hashing.digest.digest()

    def read(self, name: str, content_hash: bytes) -> Ledger:
        """The ledger as it was written, its digest left open.

        Raises:
            InternalError: INTEGRITY, the file is missing or not the one that was written.
        """
        self.verify(name, content_hash)
        with (self.path / name).open("rb") as file:
            _read(file)
            persons, households = _read(file).tolist()
            return Ledger(persons, households, _read(file))

    def verify(self, name: str, content_hash: bytes) -> None:
        """Return only if a snapshot's file is the one that was written.

        Raises:
            InternalError: INTEGRITY.
        """
        try:
            with (self.path / name).open("rb") as file:
                if hashlib.file_digest(file, "sha256").digest() != content_hash:
                    raise _damaged(name)
        except OSError as error:
            raise _damaged(name) from error

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
        """The charges that a load took over.

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
    return InternalError("INTEGRITY", problem=f"{name}, a file of the ledger, is damaged or missing")


def _read(file: BufferedReader) -> npt.NDArray[Any]:
    """The next array of a file that we wrote, to where it is to be: a copy on the way would be memory for everybody once more."""
    np.lib.format.read_magic(file)
    shape, _, kind = np.lib.format.read_array_header_1_0(file)
    array = np.empty(shape, kind)
    content = array.view(np.uint8)
    if file.readinto(content.data) != len(content):
        raise ValueError("a file of the ledger changed while it was read")
    return array
