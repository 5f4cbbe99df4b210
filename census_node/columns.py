"""Files of columns: several one-dimensional arrays under names, written whole and never changed.

A column that nobody asks for is not read. What is read has the type that was asked for; what it means is left to those
who ask.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import Any, TypeVar
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
from numpy.lib.npyio import NpzFile

from broker_common.errors import InternalError
from broker_common.storage.durable import create_for_owner, replacing

__all__ = ["StoredColumns", "reading_columns", "write_columns"]

ScalarT = TypeVar("ScalarT", bound=np.generic)
# What NumPy and zipfile say of a file that is none of theirs: any of these.
_DAMAGE = (
    *(OSError, EOFError, ValueError, KeyError, RuntimeError, MemoryError, SyntaxError),
    *(BadZipFile, TokenError, zlib.error),
)


class StoredColumns:
    """The columns of an open file."""

    def __init__(self, stored: NpzFile) -> None:
        self._stored = stored

    def column(self, name: str, kind: np.dtype[ScalarT], length: int | None = None) -> npt.NDArray[ScalarT]:
        """One column; KeyError, ValueError and whatever else damage leads to if it is none of that type and length."""
        column: npt.NDArray[ScalarT] = self._stored[name]
        if column.dtype != kind or column.ndim != 1:
            raise ValueError("a column has another type or shape")
        if length is not None and len(column) != length:
            raise ValueError("a column has another length")
        return column


def write_columns(path: Path, columns: Mapping[str, npt.NDArray[Any]]) -> None:
    """Store columns durably, as one file.

    Raises:
        InternalError: STORE_FAILED; what was at `path` still is.
    """
    try:
        with replacing(path) as temporary, create_for_owner(temporary) as file:
            np.savez(file, allow_pickle=False, **columns)
    except OSError as error:
        raise InternalError("STORE_FAILED") from error


@contextmanager
def reading_columns(path: Path, what: str) -> Iterator[StoredColumns]:
    """A file's columns; whatever the block finds wrong with them is damage to `what`.

    Raises:
        InternalError: INTEGRITY, the file is missing or damaged.
    """
    try:
        # Not by `np.load`, which also takes other formats and then gives something else.
        with path.open("rb") as file, NpzFile(file, allow_pickle=False) as stored:
            yield StoredColumns(stored)
    except _DAMAGE as error:
        raise InternalError("INTEGRITY", problem=f"{what} is damaged or missing") from error
