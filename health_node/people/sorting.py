"""Rows of a table in the order of their owners, sorted in bounded memory however many there are.

Rows come in any order and are kept as runs, each sorted by owner, in a file without a name: if the process dies, nothing of it
is left. They are then merged, a range of owners at a time; of one owner the rows stay in the order in which they came.

A run holds `_ROWS_IN_RUN` rows; with a day and a code, 12 bytes each, adding and merging take some 300 MB at most, beside 12
bytes for each owner. The file takes 4 bytes a row and what the columns do.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from health_node.people.encoding import Stored, StoredType
from health_node.people.tables import Rows, offsets_of

_ROWS_IN_RUN = 1 << 22
_OWNER = np.dtype(np.uint32)
_OWNER_BITS = np.uint64(32)


@dataclass(slots=True, eq=False)
class _Run:
    """Where one run lies: owners, then column by column. `done` rows of it are merged."""

    start: int
    rows: int
    done: int = 0


class Sorter:
    """Takes rows in any order, and gives them by owner. Close it when the rows have been read."""

    def __init__(self, folder: Path, owners: int, columns: Mapping[str, StoredType]) -> None:
        """The file lies in `folder`."""
        self._columns = columns
        self._counts = np.zeros(owners, np.int64)
        # Unlinked at once, for its owner alone.
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by `close`
        self._runs: list[_Run] = []
        self._owners: list[NDArray[np.uint32]] = []
        self._pieces: list[Mapping[str, Stored]] = []

    def add(self, owners: NDArray[np.uint32], columns: Mapping[str, Stored]) -> None:
        """Rows that belong to these owners."""
        if not len(owners):
            return
        self._owners.append(owners)
        self._pieces.append(columns)
        if sum(map(len, self._owners)) >= _ROWS_IN_RUN:
            self._write_run()

    @property
    def count(self) -> int:
        """How many rows there are."""
        return sum(run.rows for run in self._runs) + sum(map(len, self._owners))

    def rows(self, declared: int) -> Rows:
        """All of them; their columns can be read once."""
        self._write_run()
        self._file.flush()
        return Rows(offsets_of(self._counts), declared, self._merged)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write_run(self) -> None:
        if not self._owners:
            return
        owners = np.concatenate(self._owners)
        order = _order(owners)
        self._runs.append(_Run(self._file.tell(), len(owners)))
        self._file.write(owners[order].data)
        for name in self._columns:
            self._file.write(np.concatenate([piece[name] for piece in self._pieces])[order].data)
        np.add.at(self._counts, owners, 1)
        self._owners, self._pieces = [], []

    def _merged(self) -> Iterator[Mapping[str, Stored]]:
        """Merge a few owners at a time; for an owner with more rows than a run, the part of each run."""
        offsets = offsets_of(self._counts)
        first, owners = 0, len(self._counts)
        while first < owners:
            end = max(int(np.searchsorted(offsets, offsets[first] + _ROWS_IN_RUN, "right")) - 1, first + 1)
            parts = (self._taken(run, end) for run in self._runs if run.done < run.rows)
            if end == first + 1:
                yield from (columns for _, columns in parts)
            else:
                yield self._joined(list(parts))
            first = end

    def _joined(self, parts: list[tuple[NDArray[np.uint32], Mapping[str, Stored]]]) -> Mapping[str, Stored]:
        order = _order(np.concatenate([np.empty(0, _OWNER), *(owners for owners, _ in parts)]))
        return {
            name: np.concatenate([np.empty(0, kind), *(columns[name] for _, columns in parts)])[order]
            for name, kind in self._columns.items()
        }

    def _taken(self, run: _Run, end: int) -> tuple[NDArray[np.uint32], Mapping[str, Stored]]:
        """The next rows of a run, of owners before `end`."""
        left = np.memmap(self._file, _OWNER, "r", run.start + run.done * _OWNER.itemsize, run.rows - run.done)
        count = int(np.searchsorted(left, end))
        owners, columns = np.array(left[:count]), {}
        start = run.start + run.rows * _OWNER.itemsize
        for name, kind in self._columns.items():
            columns[name] = self._read(kind, start + run.done * kind.itemsize, count)
            start += run.rows * kind.itemsize
        run.done += count
        return owners, columns

    def _read(self, kind: np.dtype[Any], start: int, count: int) -> Stored:
        self._file.seek(start)
        read: Stored = np.fromfile(self._file, kind, count)
        return read


def _order(owners: NDArray[np.uint32]) -> NDArray[np.intp]:
    """The order that sorts rows by owner, and those of one owner as they came."""
    keys = np.left_shift(owners.astype(np.uint64), _OWNER_BITS) | np.arange(len(owners), dtype=np.uint64)
    keys.sort()
    return (keys & np.uint64(np.iinfo(_OWNER).max)).astype(np.intp)
