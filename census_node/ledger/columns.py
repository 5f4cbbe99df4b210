"""Files of columns: several one-dimensional arrays under names, written whole and never changed.

A column that nobody asks for is not read. Values have the requested type; callers interpret them. A file is an archive
that NumPy can read, whose arrays begin where they can be used in place: of a column that is mapped, the memory is the
file's and can be let go of, until the last who uses it is done, also when it is removed.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO, Generic, TypeVar
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
import numpy.typing as npt
from numpy.lib.npyio import NpzFile

from broker_common.errors import InternalError
from broker_common.storage.durable import create_for_owner, replacing

ScalarT = TypeVar("ScalarT", bound=np.generic)
# Every array begins at a multiple of this, as NumPy's own headers have it.
_ALIGNMENT = 64
# Offsets in a zip member's own header, zipfile's extra field for large members, and an id for padding that nothing else has.
_SIZES_AT = 26
_LARGE_SIZES = 20
_EXTRA_HEAD = 4
_PADDING = 0x4154
# Read at a time where nothing is kept.
_BYTES_AT_ONCE = 1 << 20
# NumPy and zipfile raise any of these for a file that is not theirs.
_DAMAGE = (
    *(OSError, EOFError, ValueError, KeyError, RuntimeError, MemoryError, SyntaxError, struct.error),
    *(BadZipFile, TokenError, zlib.error),
)


class StoredColumns:
    """The columns of an open file."""

    def __init__(self, stored: NpzFile, file: BinaryIO) -> None:
        self._stored = stored
        self._file = file

    def column(self, name: str, kind: np.dtype[ScalarT], length: int | None = None) -> npt.NDArray[ScalarT]:
        """One column; KeyError, ValueError and whatever else damage leads to if it is none of that type and length."""
        column: npt.NDArray[ScalarT] = self._stored[name]
        if column.dtype != kind or column.ndim != 1:
            raise ValueError("a column has another type or shape")
        if length is not None and len(column) != length:
            raise ValueError("a column has another length")
        return column

    def mapped(self, name: str, kind: np.dtype[ScalarT], length: int | None = None) -> MappedColumn[ScalarT]:
        """The same, left in the file; ValueError for one that could not be used there."""
        archive = self._stored.zip
        assert archive is not None  # noqa: S101 - it is open
        member = archive.getinfo(f"{name}.npy")
        size = _checked_size(archive, member, kind, length)
        if not size:
            return MappedColumn(np.empty(0, kind))
        self._file.seek(member.header_offset + _SIZES_AT)
        skipped = sum(struct.unpack("<HH", self._file.read(4)))
        start = member.header_offset + _SIZES_AT + 4 + skipped + member.file_size - size * kind.itemsize
        if member.compress_type != ZIP_STORED or start % _ALIGNMENT:
            raise ValueError("a column does not begin where it can be used")
        begin = start - start % mmap.ALLOCATIONGRANULARITY
        memory = mmap.mmap(
            self._file.fileno(), start - begin + size * kind.itemsize, access=mmap.ACCESS_READ, offset=begin
        )
        return MappedColumn(np.frombuffer(memory, kind, size, start - begin), memory)


@dataclass(frozen=True, slots=True, eq=False)
class MappedColumn(Generic[ScalarT]):
    """A column that was left in its file."""

    array: npt.NDArray[ScalarT]
    _memory: mmap.mmap | None = None

    def let_go(self) -> None:
        """Take no memory for it until it is read again."""
        if self._memory is not None:
            self._memory.madvise(mmap.MADV_DONTNEED)


def _checked_size(archive: ZipFile, member: ZipInfo, kind: np.dtype[Any], length: int | None) -> int:
    """How many numbers a column has; read once, which checks it, a part at a time."""
    with archive.open(member) as stream:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError("a column has another format")
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        if dtype != kind or len(shape) != 1:
            raise ValueError("a column has another type or shape")
        left_bytes = int(shape[0]) * kind.itemsize
        while content := stream.read(_BYTES_AT_ONCE):
            left_bytes -= len(content)
    if left_bytes or length not in {None, shape[0]}:
        raise ValueError("a column has another length")
    return int(shape[0])


def write_columns(path: Path, columns: Mapping[str, npt.NDArray[Any]]) -> None:
    """Store columns durably, as one file.

    Raises:
        InternalError: STORE_FAILED; what was at `path` still is.
    """
    try:
        with (
            replacing(path) as temporary,
            create_for_owner(temporary) as file,
            ZipFile(file, "w", ZIP_STORED) as archive,
        ):
            for name, column in columns.items():
                _write(archive, file.tell(), name, column)
    except OSError as error:
        raise InternalError("STORE_FAILED") from error


def _write(archive: ZipFile, at: int, name: str, column: npt.NDArray[Any]) -> None:
    """Add a column at this place of the file, so that it begins where it can be used in place."""
    member = ZipInfo(f"{name}.npy")
    # Before the array's own header, which keeps the alignment, are the member's, its name, the sizes and this padding.
    begin = at + _SIZES_AT + 4 + len(member.filename) + _LARGE_SIZES
    padding = -(begin + _EXTRA_HEAD) % _ALIGNMENT
    member.extra = struct.pack("<HH", _PADDING, padding) + bytes(padding)
    with archive.open(member, "w", force_zip64=True) as stream:
        np.lib.format.write_array(stream, np.ascontiguousarray(column), version=(1, 0), allow_pickle=False)


@contextmanager
def reading_columns(path: Path, what: str) -> Iterator[StoredColumns]:
    """A file's columns; whatever the block finds wrong with them is damage to `what`.

    Raises:
        InternalError: INTEGRITY, the file is missing or damaged.
    """
    try:
        # Not by `np.load`, which also takes other formats and then gives something else.
        with path.open("rb") as file, NpzFile(file, allow_pickle=False) as stored:
            yield StoredColumns(stored, file)
    except _DAMAGE as error:
        raise InternalError("INTEGRITY", problem=f"{what} is damaged or missing") from error
