"""A disk that takes no more: the kernel's own limit on the size of a file, so that real writes really fail."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["limited_files"]


@contextmanager
def limited_files(most_bytes: int) -> Iterator[None]:
    """Within the block no file of this process grows beyond so many bytes; a write that would, fails with EFBIG."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
