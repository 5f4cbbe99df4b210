"""How a serving node takes memory from the system.

The C library gives every thread a heap of its own. Arrays as long as the declared places pass from thread to thread, and each heap would keep
room for all of them: a node would hold several times what it uses. With one heap for all, the next sample takes the place of the
last one, and fresh pages, which cost more than the work on them, are hardly ever needed.
"""

from __future__ import annotations

import ctypes
import platform

# A parameter of the GNU C library's mallopt(3).
_M_ARENA_MAX = -8


def share_one_heap() -> bool:
    """Let all threads that begin later share one heap; False where the C library is another one, which has its own ways."""
    if platform.libc_ver()[0] != "glibc":
        return False
    return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1))
