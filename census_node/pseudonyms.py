"""Finding pseudonyms in ascending columns: a pseudonym is two big-endian halves, a column of them two arrays.

A directory says where each prefix begins; from there a search goes on by halving, all of a sample one step at a time. Nobody
looks where a prefix ends: the whole column ascends, so that whatever comes after it is too large anyway. Pseudonyms are as
good as random where nobody chooses them, and few share a prefix. Whoever submits a million with one prefix, or with one first
half, costs everybody a few steps and not a million.

SECURITY: how many steps a search takes depends on the columns alone, never on who is asked for or who is found.

Memory: the directory has 4 bytes for each of up to 2^23 prefixes, at most 8 bytes and for fifteen million 2.2 a pseudonym. Twice
as many would spare fifteen million no step. The columns are left where they are, in memory or in a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from census_node.parts import MOST_IN_PART, parts_of

__all__ = ["Found", "Halves", "Index", "Places", "Positions", "halves_of"]

Halves: TypeAlias = npt.NDArray[np.uint64]
Places: TypeAlias = npt.NDArray[np.uint32]
Positions: TypeAlias = npt.NDArray[np.intp]
Found: TypeAlias = npt.NDArray[np.bool_]

# Of first halves, by which one finds where to search: a directory of 32 MiB at most, however many people there are.
_MOST_PREFIX_BITS = 23
# Entered into a directory at a time.
_ROWS_PER_STEP = 1 << 18


def halves_of(pseudonyms: npt.NDArray[np.uint8]) -> tuple[Halves, Halves]:
    """First and second halves of an (n, 16) array of pseudonyms."""
    halves = np.ascontiguousarray(pseudonyms).view(">u8").reshape(-1, 2)
    return halves[:, 0].astype(np.uint64), halves[:, 1].astype(np.uint64)


class Index:
    """Ascending, distinct pseudonyms, and how to find them. Never changes, and may be asked by several threads."""

    __slots__ = ("_directory", "_high_steps", "_low_steps", "_shift", "high", "longest_run", "low")

    def __init__(self, high: Halves, low: Halves) -> None:
        self.high = high
        self.low = low
        # Most rows that share their first half: 1 unless somebody chose them to.
        self.longest_run = _longest_run(high)
        bits = min(len(high).bit_length(), _MOST_PREFIX_BITS)
        self._shift = np.uint64(64 - bits)
        self._directory = _directory(high, bits)
        self._high_steps = _halvings(_longest_bucket(self._directory))
        self._low_steps = _halvings(self.longest_run)

    @property
    def size(self) -> int:
        return len(self.high)

    def locate(self, high: Halves, low: Halves) -> tuple[Places, Found]:
        """Where each wanted pseudonym stands, and whether it does. The place of one that does not means nothing.

        Fastest where the wanted ones ascend.
        """
        return _gathered(self._search(_chunks(high, low), self._fewest_steps), len(high))

    def find(self, pseudonyms: npt.NDArray[np.uint8]) -> tuple[Places, Found]:
        """The same for an (n, 16) array."""
        return _gathered(self.find_each(pseudonyms), len(pseudonyms))

    def find_each(self, pseudonyms: npt.NDArray[np.uint8]) -> Iterator[tuple[slice, Positions, Found]]:
        """The same piece by piece, for whoever takes something from those places: which piece it is, and what was found.

        What is given is overwritten by the next.
        """
        chunks = (halves_of(pseudonyms[part]) for part in parts_of(len(pseudonyms)))
        return self._search(chunks, self._fewest_steps)

    def places(self, high: Halves, low: Halves) -> Places:
        """How many are before each wanted pseudonym, which is where it would have to be put."""
        places, _ = _gathered(self._search(_chunks(high, low), self._low_steps), len(high))
        return np.minimum(places, np.uint32(self.size))

    @property
    def _fewest_steps(self) -> list[int]:
        return self._low_steps if self.longest_run > 1 else []

    def _search(
        self, chunks: Iterable[tuple[Halves, Halves]], low_steps: list[int]
    ) -> Iterator[tuple[slice, Positions, Found]]:
        scratch, start = _Scratch(MOST_IN_PART), 0
        for high, low in chunks:
            at, found = scratch.found(len(high))
            if self.size:
                self._search_chunk(high, low, low_steps, at, found, scratch)
            yield slice(start, start + len(high)), at, found
            start += len(high)

    def _search_chunk(
        self, high: Halves, low: Halves, low_steps: list[int], at: Positions, found: Found, scratch: _Scratch
    ) -> None:
        halves, starts, moves, is_less, is_same = scratch.of(len(high))
        np.right_shift(high, self._shift, out=halves)
        np.take(self._directory, halves.view(np.intp), out=starts, mode="clip")
        at[:] = starts
        for step in self._high_steps:
            # The row before the one that this step leads to. Past the end it is the last row: if even that is less, all are.
            np.take(self.high[step - 1 :], at, out=halves, mode="clip")
            np.less(halves, high, out=is_less)
            np.multiply(is_less, step, out=moves)
            at += moves
        for step in low_steps:
            # Now among those that share the first half.
            np.take(self.high[step - 1 :], at, out=halves, mode="clip")
            np.equal(halves, high, out=is_same)
            np.take(self.low[step - 1 :], at, out=halves, mode="clip")
            np.less(halves, low, out=is_less)
            is_less &= is_same
            np.multiply(is_less, step, out=moves)
            at += moves
        np.take(self.high, at, out=halves, mode="clip")
        np.equal(halves, high, out=found)
        np.take(self.low, at, out=halves, mode="clip")
        np.equal(halves, low, out=is_same)
        found &= is_same


def _gathered(pieces: Iterable[tuple[slice, Positions, Found]], count: int) -> tuple[Places, Found]:
    places, found = np.empty(count, np.uint32), np.empty(count, np.bool_)
    for part, at, there in pieces:
        places[part], found[part] = at, there
    return places, found


def _chunks(high: Halves, low: Halves) -> Iterator[tuple[Halves, Halves]]:
    for part in parts_of(len(high)):
        yield high[part], low[part]


class _Scratch:
    """What a search needs for one chunk, used for all of them: new memory costs more than the step that fills it."""

    def __init__(self, size: int) -> None:
        self._arrays = (
            np.empty(size, np.uint64),
            np.empty(size, np.uint32),
            np.empty(size, np.intp),
            np.empty(size, np.bool_),
            np.empty(size, np.bool_),
        )
        # Where nobody is looked for, nobody is found.
        self._found = np.zeros(size, np.intp), np.zeros(size, np.bool_)

    def found(self, size: int) -> tuple[Positions, Found]:
        """Memory for what is found."""
        at, found = self._found
        return at[:size], found[:size]

    def of(self, size: int) -> tuple[Halves, npt.NDArray[np.uint32], Positions, Found, Found]:
        """The same memory, for a chunk of this size."""
        halves, starts, moves, is_less, is_same = self._arrays
        return halves[:size], starts[:size], moves[:size], is_less[:size], is_same[:size]


def _directory(high: Halves, bits: int) -> npt.NDArray[np.uint32]:
    """For each prefix how many rows have a smaller one, and at the end how many there are."""
    directory = np.zeros(2**bits + 1, np.uint32)
    ends, shift = directory[1:], np.uint64(64 - bits)
    for start, part in _parts(high):
        # Of rows with one prefix the last one stays.
        ends[(part >> shift).astype(np.intp)] = np.arange(start + 1, start + 1 + len(part), dtype=np.uint32)
    return np.maximum.accumulate(directory, out=directory)


def _parts(high: Halves) -> Iterator[tuple[int, Halves]]:
    for start in range(0, len(high), _ROWS_PER_STEP):
        yield start, high[start : start + _ROWS_PER_STEP]


def _longest_bucket(directory: npt.NDArray[np.uint32]) -> int:
    return int((directory[1:] - directory[:-1]).max())


def _longest_run(high: Halves) -> int:
    """Most rows of an ascending column that share their first half."""
    is_repeated = high[1:] == high[:-1]
    if not is_repeated.any():
        return 1
    breaks = np.flatnonzero(~is_repeated)
    return int(np.diff(breaks, prepend=-1, append=len(is_repeated)).max())


def _halvings(most: int) -> list[int]:
    """Steps whose sums reach every number up to `most`, each about half of what is still open before it."""
    steps, outcomes = [], most + 1
    while outcomes > 1:
        steps.append(outcomes // 2)
        outcomes -= outcomes // 2
    return steps
