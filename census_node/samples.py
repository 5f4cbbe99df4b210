"""Samples from their charge on: one file each, wiped when nobody needs it any more.

A file is written and flushed before the charge that names it, outside any lock, so that the charge itself has one size
whatever the sample's, and no pseudonym ever enters the database or its write-ahead log. It holds the pseudonyms, 16 bytes
each, then the person and then the household of each, 4 bytes each. Wiping overwrites before it removes; what a file system or
a flash disk keeps below that is out of reach (SECURITY.md).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from broker_common.errors import InternalError
from broker_common.storage.durable import make_folder, sync_directory
from broker_common.storage.uncached import write_uncached
from broker_common.values import PSEUDONYM_BYTES, Randomness
from census_node.linked import Linked

__all__ = ["KeptSamples", "SampleFolder", "bytes_of_samples"]

_NAME_BYTES = 16
_SUFFIX = ".sample"
# A pseudonym and its two units.
_BYTES_EACH = PSEUDONYM_BYTES + 8
# Of each person, who fits and who is counted, in the row of the charge.
_BITS_EACH = 2
_ZEROS = bytes(1 << 20)


@dataclass(frozen=True, slots=True)
class KeptSamples:
    """What samples take on disk."""

    count: int
    size_bytes: int


def bytes_of_samples(people: int, answers: int) -> int:
    """What the samples of so many answers take on disk under `per_person`, each with so many people."""
    return answers * (people * _BYTES_EACH + -(-people * _BITS_EACH // 8))


@dataclass(frozen=True, slots=True)
class SampleFolder:
    """The folder of one census node's samples."""

    path: Path

    def write(self, sample: Linked, randomness: Randomness) -> str:
        """Durably keep a sample; gives the file's name."""
        name = randomness(_NAME_BYTES).hex() + _SUFFIX
        try:
            make_folder(self.path)
            descriptor = os.open(self.path / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                write_uncached(
                    descriptor, [_bytes_of(part) for part in (sample.pseudonyms, sample.persons, sample.households)]
                )
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            # CRASH: a file that no charge names is swept away at the next start.
            sync_directory(self.path)
        except OSError as error:
            raise InternalError("STORE_FAILED") from error
        return name

    def read(self, name: str, set_hash: bytes) -> Linked:
        """The sample that was charged.

        Raises:
            InternalError: SAMPLE_LOST, it is missing or not the set of this hash.
        """
        sample = self.read_unverified(name)
        if sample.set_hash != set_hash:
            raise InternalError("SAMPLE_LOST")
        return sample

    def read_unverified(self, name: str) -> Linked:
        """The sample as it lies there; whether it is the one that was charged is for whoever knows its commitment.

        Raises:
            InternalError: SAMPLE_LOST, it is missing or cut off.
        """
        try:
            content = (self.path / name).read_bytes()
        except OSError as error:
            raise InternalError("SAMPLE_LOST") from error
        people, left_over = divmod(len(content), _BYTES_EACH)
        if left_over:
            raise InternalError("SAMPLE_LOST")
        end = people * PSEUDONYM_BYTES
        pseudonyms = np.frombuffer(content, np.uint8, end).reshape(-1, PSEUDONYM_BYTES)
        units = np.frombuffer(content, "<u4", offset=end).astype(np.uint32)
        return Linked(pseudonyms, units[:people], units[people:])

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

    def kept(self) -> KeptSamples:
        """What lies in the folder now; a node may write and wipe beside it."""
        sizes = []
        for path in self.path.glob(f"*{_SUFFIX}"):
            with contextlib.suppress(FileNotFoundError):
                sizes.append(path.stat().st_size)
        return KeptSamples(len(sizes), sum(sizes))

    def sweep(self, kept: Collection[str]) -> None:
        """Wipe every sample that is not among those kept."""
        for path in self.path.glob(f"*{_SUFFIX}"):
            if path.name not in kept:
                self.wipe(path.name)


def _bytes_of(numbers: npt.NDArray[np.uint8] | npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
    little_endian = np.ascontiguousarray(numbers, dtype=numbers.dtype.newbyteorder("<"))
    return little_endian.reshape(-1).view(np.uint8)
