"""Finding pseudonyms in ascending columns: a pseudonym is two big-endian halves, a column of them two arrays.

SECURITY: how many steps a search takes depends on the columns alone, never on who is asked for or who is found.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Halves", "halves_of", "locate", "longest_run"]

Halves: TypeAlias = npt.NDArray[np.uint64]


def halves_of(pseudonyms: npt.NDArray[np.uint8]) -> tuple[Halves, Halves]:
    """First and second halves of an (n, 16) array of pseudonyms."""
    halves = np.ascontiguousarray(pseudonyms).view(">u8").astype(np.uint64).reshape(-1, 2)
    return np.ascontiguousarray(halves[:, 0]), np.ascontiguousarray(halves[:, 1])


def longest_run(high: Halves) -> int:
    """Most rows of an ascending column that share their first half: 1 unless somebody chose them to."""
    starts = np.flatnonzero(np.concatenate([[True], high[1:] != high[:-1]]))
    return int(np.diff(np.append(starts, len(high))).max(initial=1))


def locate(
    high: Halves, low: Halves, run: int, wanted_high: Halves, wanted_low: Halves
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """Where each wanted pseudonym stands, or would stand, in ascending columns, and whether it does.

    `run` is their `longest_run`.
    """
    first = np.searchsorted(high, wanted_high)
    if not len(high):
        return first, np.zeros(len(first), dtype=np.bool_)
    newest = len(high) - 1
    if run == 1:
        at = np.minimum(first, newest)
        first = first + ((first <= newest) & (high[at] == wanted_high) & (low[at] < wanted_low))
    else:
        # Among rows that share the first half the search goes on, by halving: whoever submits a million pseudonyms with
        # one first half costs everybody a few steps and not a million.
        end = np.searchsorted(high, wanted_high, side="right")
        for _ in range(run.bit_length()):
            middle = (first + end) // 2
            is_open = first < end
            goes_up = is_open & (low[np.minimum(middle, newest)] < wanted_low)
            end = np.where(is_open & ~goes_up, middle, end)
            first = np.where(goes_up, middle + 1, first)
    at = np.minimum(first, newest)
    found = (first <= newest) & (high[at] == wanted_high) & (low[at] == wanted_low)
    return first, found
