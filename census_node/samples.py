"""Samples between charge and answer: one file each, wiped when it is done.

A file is written and flushed before the charge that names it, outside any lock, so that the charge itself has one size
whatever the sample's, and no pseudonym ever enters the database or its write-ahead log. Wiping overwrites before it removes; what a file system or a flash disk keeps below that is out of reach (SECURITY.md).
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from broker_common.crypto.commitments import hash_set
from broker_common.errors import InternalError
from broker_common.storage.durable import make_folder, sync_directory
from broker_common.values import PSEUDONYM_BYTES, Randomness

__all__ = ["SampleFolder"]

_NAME_BYTES = 16
_SUFFIX = ".sample"
_ZEROS = bytes(1 << 20)


@dataclass(frozen=True, slots=True)
class SampleFolder:
    """The folder of one census node's samples."""

    path: Path

    def write(self, pseudonyms: npt.NDArray[np.uint8], randomness: Randomness) -> str:
        """Durably keep a sample; gives the file's name."""
        name = randomness(_NAME_BYTES).hex() + _SUFFIX
        try:
            make_folder(self.path)
            descriptor = os.open(self.path / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(np.ascontiguousarray(pseudonyms).data)
                file.flush()
                os.fsync(file.fileno())
            # CRASH: a file that no charge names is swept away at the next start.
            sync_directory(self.path)
        except OSError as error:
            raise InternalError("STORE_FAILED") from error
        return name

    def read(self, name: str, set_hash: bytes) -> npt.NDArray[np.uint8]:
        """The sample as it was written.

        Raises:
            InternalError: SAMPLE_LOST, it is missing or not the set that was charged.
        """
        try:
            people = (self.path / name).read_bytes()
        except OSError as error:
            raise InternalError("SAMPLE_LOST") from error
        if len(people) % PSEUDONYM_BYTES or hash_set(people) != set_hash:
            raise InternalError("SAMPLE_LOST")
        return np.frombuffer(people, dtype=np.uint8).reshape(-1, PSEUDONYM_BYTES)

    def wipe(self, name: str) -> None:
        """Overwrite and remove a sample; nothing happens if it is gone."""
        path = self.path / name
        try:
            with path.open("r+b") as file:
                left = path.stat().st_size
                while left > 0:
                    left -= file.write(_ZEROS[:left])
                file.flush()
                os.fsync(file.fileno())
            path.unlink()
        except FileNotFoundError:
            return
        except OSError as error:
            raise InternalError("STORE_FAILED") from error

    def sweep(self, kept: Collection[str]) -> None:
        """Wipe every sample that is not among those kept."""
        for path in self.path.glob(f"*{_SUFFIX}"):
            if path.name not in kept:
                self.wipe(path.name)
