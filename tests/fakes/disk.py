"""Disks that fail: one that takes no more, by the kernel's own limit on the size of a file, and one that lies about a commit."""

from __future__ import annotations

import resource
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["FailingCommit", "limited_files"]


@contextmanager
def limited_files(most_bytes: int) -> Iterator[None]:
    """Within the block no file of this process grows beyond so many bytes; a write that would, fails with EFBIG."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class FailingCommit:
    """A connection whose COMMIT fails, before or after it was done."""

    def __init__(self, connection: Any, *, happens: bool) -> None:
        self._connection = connection
        self._happens = happens

    def execute(self, statement: str, *arguments: Any) -> Any:
        if statement != "COMMIT":
            return self._connection.execute(statement, *arguments)
        if self._happens:
            self._connection.execute(statement)
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)
