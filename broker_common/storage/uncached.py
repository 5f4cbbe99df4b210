"""Writing a large file that nobody reads again soon: past the system's cache, where the file system can do that.

In the cache it would push out pages that every query needs, and fresh pages cost more than the disk itself. What the bytes
are and when they are durable is the same either way: the caller flushes. Reference: open(2), O_DIRECT.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import threading
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

__all__ = ["write_uncached"]

# What is written at a time, from memory that begins with a page.
_BYTES_AT_ONCE = 1 << 20
# Not everywhere: 0 where there is no such thing.
_DIRECT: int = getattr(os, "O_DIRECT", 0)
# Of a file system that has no way past its cache.
_NO_WAY = frozenset({errno.EINVAL, errno.ENOTSUP})
_local = threading.local()


def write_uncached(descriptor: int, parts: Iterable[npt.NDArray[np.uint8]]) -> None:
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
    """Of this thread, used again and again."""
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
