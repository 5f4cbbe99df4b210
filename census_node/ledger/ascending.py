"""Finding pseudonyms and names of one ascending list in another: both are gone through once, side by side.

Either is two columns of halves, big-endian. No index is kept: wherever one list is found in another, both are in order, and a
piece of one stands between two places of the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Found", "Halves", "Places", "find_ascending", "halves_of"]

Halves: TypeAlias = npt.NDArray[np.uint64]
Places: TypeAlias = npt.NDArray[np.intp]
Found: TypeAlias = npt.NDArray[np.bool_]
# Of what is looked for, at a time: it stays in the cache with what stands between its ends.
_MOST_AT_ONCE = 1 << 14


def halves_of(pseudonyms: npt.NDArray[np.uint8]) -> tuple[Halves, Halves]:
    """First and second halves of an (n, 16) array of pseudonyms."""
    halves = np.ascontiguousarray(pseudonyms).view(">u8").reshape(-1, 2)
    return halves[:, 0].astype(np.uint64), halves[:, 1].astype(np.uint64)


def find_ascending(wanted: tuple[Halves, Halves], high: Halves, low: Halves) -> Iterator[tuple[slice, Places, Found]]:
    """Piece by piece of the ascending `wanted`: where each stands among `high` and `low`, which ascend, and whether it does.

    The place of one that does not stand there means nothing.
    """
    end = 0
    for start in range(0, len(wanted[0]), _MOST_AT_ONCE):
        part = slice(start, start + _MOST_AT_ONCE)
        first, second = wanted[0][part], wanted[1][part]
        # Whoever shares a first half with the end of the piece before may stand there.
        begin = int(np.searchsorted(high[:end], first[0]))
        end = begin + int(np.searchsorted(high[begin:], first[-1], side="right"))
        yield (slice(start, start + len(first)), *_find(first, second, high[begin:end], low[begin:end], begin))


def _find(first: Halves, second: Halves, high: Halves, low: Halves, begin: int) -> tuple[Places, Found]:
    places = np.searchsorted(high, first)
    found = np.zeros(len(first), np.bool_)
    # Where several share a first half, which nobody's choice brings about, one after the other.
    left = np.flatnonzero(places < len(high))
    while len(left):
        at = places[left]
        is_half = high[at] == first[left]
        found[left] = is_half & (low[at] == second[left])
        left = left[is_half & (low[at] < second[left]) & (at + 1 < len(high))]
        places[left] += 1
    return places + begin, found
