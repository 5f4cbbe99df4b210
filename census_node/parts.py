"""Large arrays are worked through a part at a time.

What a step needs stays in the processor's cache, and no step takes memory that would have to come from the system page by page.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["MOST_IN_PART", "parts_of"]

# Of numbers of 8 bytes, a handful of arrays lie in one core's cache.
MOST_IN_PART = 1 << 14


def parts_of(size: int) -> Iterator[slice]:
    """Slices that cover an array of this size, one after the other."""
    for start in range(0, size, MOST_IN_PART):
        yield slice(start, min(start + MOST_IN_PART, size))
