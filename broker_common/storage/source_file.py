"""The file behind a source: a regular file, opened once, and the same at the end as at the beginning.

Whatever is wrong with a file as a whole is LOAD_REFUSED with what is wrong and what to do, before anything of the load in
force is touched. What stands in the file is left to the sources that read it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NoReturn

from broker_common.errors import InvalidRequestError

__all__ = ["reading", "refuse"]


def refuse(problem: str, remedy: str) -> NoReturn:
    """End the load.

    SECURITY: neither text may hold a value of the file; `from None` keeps what a library said of it out of tracebacks.

    Raises:
        InvalidRequestError: LOAD_REFUSED.
    """
    raise InvalidRequestError("LOAD_REFUSED", problem=problem, remedy=remedy) from None


@contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """The file at `path`, open for reading. A file that somebody writes to meanwhile is refused in the end.

    Raises:
        InvalidRequestError: LOAD_REFUSED.
    """
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            before = os.fstat(file.fileno())
            if not stat.S_ISREG(before.st_mode):
                refuse("it is not a regular file", "A pipe or a device cannot be loaded: write the data to a file.")
            yield file
            after = os.fstat(file.fileno())
            if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
                refuse("it changed while it was read", "Wait until it is written to its end, then load it again.")
    except OSError as error:
        refuse(f"{path} cannot be read ({error.strerror})", "Check the path and the permissions.")


def _without_waiting(path: str, flags: int) -> int:
    # Opening a pipe would otherwise wait for somebody to write to it, perhaps for ever.
    return os.open(path, flags | os.O_NONBLOCK)
