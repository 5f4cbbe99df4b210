"""Samples from their charge on: one sealed file each, of one size for any sample, gone when nobody needs it any more.

A file is written and flushed before the charge that names it. Its *reference*, name and key, stands in the rows of its charge: a row
that forgets it forgets the sample, and the file that is left over says nothing. Content:

    salt (32) || salt of the active set (32) || declared places (8) || persons (8) || bits by place || active bits by person, and zeros
    up to whole frames of 256 KiB, each AES-256-GCM under the file's own key
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import threading
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from broker_common.crypto.commitments import SALT_BYTES, commit_active
from broker_common.crypto.frames import FRAME_BYTES, TAG_BYTES, FrameReader, FrameSealer
from broker_common.errors import InternalError, InvalidRequestError
from broker_common.storage.durable import make_folder, sync_directory
from broker_common.values import Randomness
from census_node.ledger.passes import Bits

# Bytes written at a time, from memory that begins with a page.
_BYTES_AT_ONCE = 1 << 20
# Not everywhere: 0 where there is no such thing.
_DIRECT: int = getattr(os, "O_DIRECT", 0)
# The errors of a file system without direct I/O.
_NO_WAY = frozenset({errno.EINVAL, errno.ENOTSUP})
_local = threading.local()


def write_direct(descriptor: int, parts: Iterable[npt.NDArray[np.uint8]]) -> None:
    """Write bytes to a new file, one part after the other.

    Raises:
        OSError: the disk is full, or broken.
    """
    memory, filled = _memory(), 0
    for part in parts:
        taken = 0
        while taken < len(part):
            some = part[taken : taken + _BYTES_AT_ONCE - filled]
            np.copyto(memory[filled : filled + len(some)], some)
            filled, taken = filled + len(some), taken + len(some)
            if filled == _BYTES_AT_ONCE:
                _set_direct(descriptor, is_direct=True)
                _write(descriptor, memory)
                filled = 0
    # No whole pages any more.
    _set_direct(descriptor, is_direct=False)
    _write(descriptor, memory[:filled])


def _memory() -> npt.NDArray[np.uint8]:
    """A buffer of this thread, used again and again."""
    memory: npt.NDArray[np.uint8] | None = getattr(_local, "memory", None)
    if memory is None:
        memory = _local.memory = np.frombuffer(mmap.mmap(-1, _BYTES_AT_ONCE), np.uint8)
    return memory


def _set_direct(descriptor: int, *, is_direct: bool) -> bool:
    """Whether that changed anything."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    wanted = flags | _DIRECT if is_direct else flags & ~_DIRECT
    if wanted == flags:
        return False
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, wanted)
    except OSError as error:
        if error.errno not in _NO_WAY:
            raise
        return False
    return True


def _write(descriptor: int, content: npt.NDArray[np.uint8]) -> None:
    written = 0
    while written < len(content):
        try:
            written += os.write(descriptor, content[written:].data)
        except OSError as error:
            # Some take the flag and not what is written with it, and none the rest of what was written in part.
            if error.errno not in _NO_WAY or not _set_direct(descriptor, is_direct=False):
                raise


_NAME_BYTES = 16
_SUFFIX = ".sample"
_COUNT_BYTES = 8
_HEADER_BYTES = 2 * (SALT_BYTES + _COUNT_BYTES)
_OCTET = 8


@dataclass(frozen=True, slots=True, eq=False)
class KeptSample:
    """A sample as it was charged: a bit for each declared place, and one for each person who is counted."""

    salt: bytes = field(repr=False)
    active_salt: bytes = field(repr=False)
    bits: Bits = field(repr=False)
    active: Bits = field(repr=False)
    # How many persons `active` is of.
    persons: int

    def verify_active(self, ticket_hash: bytes, commitment: bytes) -> None:
        """Return only if those who are counted are the ones that the charge of this ticket commits to.

        Raises:
            InternalError: INTEGRITY.
        """
        if commit_active(self.active_salt, ticket_hash, self.active.data) != commitment:
            raise InternalError("INTEGRITY", problem=f"who is counted for ticket {ticket_hash.hex()} was changed")


@dataclass(frozen=True, slots=True)
class KeptSamples:
    """Disk use of samples."""

    count: int
    size_bytes: int


def bytes_of_samples(declared: int, persons: int, answers: int) -> int:
    """Disk use of the samples of so many answers, from rosters of so many declared places and a census of so many persons."""
    content = _HEADER_BYTES + _octets(declared) + _octets(persons)
    return answers * -(-content // FRAME_BYTES) * (FRAME_BYTES + TAG_BYTES)


@dataclass(frozen=True, slots=True)
class SampleFolder:
    """The folder of one census node's samples."""

    path: Path

    def write(self, sample: KeptSample, randomness: Randomness) -> str:
        """Durably keep a sample; gives its reference."""
        name, sealer = randomness(_NAME_BYTES).hex(), FrameSealer(randomness)
        try:
            make_folder(self.path)
            descriptor = os.open(self._file(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                write_direct(descriptor, (np.frombuffer(frame, np.uint8) for frame in _sealed(sample, sealer)))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            # CRASH: a file that no charge names is swept away at the next start.
            sync_directory(self.path)
        except OSError as error:
            raise InternalError("STORE_FAILED") from error
        return f"{name}:{sealer.frame_key.hex()}"

    def read(self, reference: str) -> KeptSample:
        """The sample as it lies there; whether it is the one that was charged is told by `verify_active`.

        Raises:
            InternalError: SAMPLE_LOST, it is erased, missing or damaged.
        """
        name, _, key = reference.partition(":")
        try:
            frames = FrameReader(bytes.fromhex(key))
            content = self._file(name).read_bytes()
            return _parsed(_opened(frames, content))
        except (OSError, ValueError, InvalidRequestError) as error:
            raise InternalError("SAMPLE_LOST") from error

    def wipe(self, reference: str) -> None:
        """Remove a sample; nothing happens if it is gone. To forget the reference is to erase it already."""
        try:
            self._file(reference.partition(":")[0]).unlink(missing_ok=True)
        except OSError as error:
            raise InternalError("STORE_FAILED") from error

    def kept(self) -> KeptSamples:
        """The files in the folder now; a node may write and wipe beside it."""
        sizes = []
        for path in self.path.glob(f"*{_SUFFIX}"):
            with contextlib.suppress(FileNotFoundError):
                sizes.append(path.stat().st_size)
        return KeptSamples(len(sizes), sum(sizes))

    def sweep(self, kept: Collection[str]) -> None:
        """Remove every sample that is not among these references."""
        names = {reference.partition(":")[0] for reference in kept}
        for path in self.path.glob(f"*{_SUFFIX}"):
            if path.name.removesuffix(_SUFFIX) not in names:
                self.wipe(path.name.removesuffix(_SUFFIX))

    def _file(self, name: str) -> Path:
        return self.path / f"{name}{_SUFFIX}"


def _octets(size: int) -> int:
    return -(-size // _OCTET)


def _sealed(sample: KeptSample, sealer: FrameSealer) -> Iterator[bytes]:
    """The frames of a sample's file."""
    counts = (len(sample.bits) * _OCTET, sample.persons)
    header = sample.salt + sample.active_salt + b"".join(count.to_bytes(_COUNT_BYTES, "big") for count in counts)
    content = header + sample.bits.tobytes() + sample.active.tobytes()
    frames = -(-len(content) // FRAME_BYTES)
    content = content.ljust(frames * FRAME_BYTES, b"\0")
    for index in range(frames):
        part = memoryview(content)[index * FRAME_BYTES : (index + 1) * FRAME_BYTES]
        yield sealer.seal_frame(index, index == frames - 1, part)


def _opened(frames: FrameReader, content: bytes) -> bytes:
    sealed_bytes = FRAME_BYTES + TAG_BYTES
    count, left_over = divmod(len(content), sealed_bytes)
    if left_over:
        raise ValueError("a frame is cut off")
    parts = (content[index * sealed_bytes : (index + 1) * sealed_bytes] for index in range(count))
    opened = b"".join(frames.unseal(index, index == count - 1, part).tobytes() for index, part in enumerate(parts))
    frames.verify_ended()
    return opened


def _parsed(content: bytes) -> KeptSample:
    salts, counts = content[: 2 * SALT_BYTES], content[2 * SALT_BYTES : _HEADER_BYTES]
    declared, persons = (int.from_bytes(counts[at : at + _COUNT_BYTES], "big") for at in (0, _COUNT_BYTES))
    active_at = _HEADER_BYTES + _octets(declared)
    return KeptSample(
        salt=salts[:SALT_BYTES],
        active_salt=salts[SALT_BYTES:],
        # ValueError where there are fewer.
        bits=np.frombuffer(content, np.uint8, _octets(declared), _HEADER_BYTES),
        active=np.frombuffer(content, np.uint8, _octets(persons), active_at),
        persons=persons,
    )
