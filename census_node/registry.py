"""The registry: one load of the census's linked people, as columns in memory.

Layout. Rows ascend by pseudonym. `high` and `low` are the two halves of the pseudonym, big-endian; each language
variable is one byte per row, the position of its value in the published list. A row's number is its name in a charge,
so an answer can only ever be counted on the load it was charged on.

On disk a load is one file, written whole and never changed (`broker_common.storage.loads`).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from broker_common.errors import InternalError
from broker_common.query.question import Question
from broker_common.storage.durable import replacing
from broker_common.storage.relinking import Rekeyed
from broker_common.values import ExactCount
from census_node.dictionary import CENSUS_DICTIONARY

__all__ = ["NO_VALUE", "Registry"]

NumberT = TypeVar("NumberT", np.uint64, np.uint8)
# What NumPy and zipfile say of a file that is none of theirs: any of these.
_DAMAGE = (OSError, EOFError, ValueError, KeyError, RuntimeError, MemoryError, BadZipFile, zlib.error)

# The byte of a person who gave no answer: counted in `all`, in no value.
NO_VALUE = 255


@dataclass(frozen=True, slots=True, eq=False)
class Registry:
    """One load."""

    load: str
    high: npt.NDArray[np.uint64]
    low: npt.NDArray[np.uint64]
    columns: Mapping[str, npt.NDArray[np.uint8]]
    # Most rows that share the first half of their pseudonym; 1 unless the registry is very large.
    longest_run: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "longest_run", _longest_run(self.high))

    @property
    def size(self) -> int:
        return len(self.high)

    def rows_of(self, pseudonyms: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
        """The rows of those of the (n, 16) pseudonyms that are in the registry, in the order given."""
        halves = np.ascontiguousarray(pseudonyms).view(">u8").astype(np.uint64).reshape(-1, 2)
        wanted_high, wanted_low = halves[:, 0], halves[:, 1]
        rows = np.searchsorted(self.high, wanted_high)
        if not self.size:
            return np.empty(0, dtype=np.uint32)
        # Rows that share the first half are walked through one by one, as many steps as the longest run of them has,
        # whoever is asked for: the number of steps would otherwise tell who is in the registry.
        for _ in range(self.longest_run - 1):
            at = np.minimum(rows, self.size - 1)
            rows = rows + ((self.high[at] == wanted_high) & (self.low[at] < wanted_low))
        at = np.minimum(rows, self.size - 1)
        found = (self.high[at] == wanted_high) & (self.low[at] == wanted_low)
        linked: npt.NDArray[np.uint32] = at[found].astype(np.uint32)
        return linked

    def link(self, pseudonyms: npt.NDArray[np.uint8]) -> Linked:
        """The sample with the units of its pseudonyms."""
        high, low = halves_of(pseudonyms)
        at, found = locate(self.high, self.low, self.longest_run, high, low)
        persons, households = (np.full(len(at), NOBODY, np.uint32) for _ in range(2))
        persons[found], households[found] = self.persons[at[found]], self.households[at[found]]
        return Linked(pseudonyms, persons, households)

    def count(self, rows: npt.NDArray[np.uint32], question: Question) -> ExactCount:
        """SECURITY: the only place where language is counted. Call it after the charge is durable, never before."""
        if question.variable is None:
            return ExactCount(len(rows))
        positions = CENSUS_DICTIONARY.column(question.variable).positions
        asked = np.zeros(256, dtype=bool)
        asked[[positions[value] for value in question.values]] = True
        return ExactCount(int(np.count_nonzero(asked[self.columns[question.variable][rows]])))

    def relinked(self, load: str, rekeyed: Rekeyed) -> Registry:
        """The same people under other pseudonyms."""
        columns = {name: column[rekeyed.rows] for name, column in self.columns.items()}
        return Registry(load, rekeyed.high, rekeyed.low, columns)

    def write(self, path: Path) -> None:
        """Store the load durably, as one file.

        Raises:
            InternalError: STORE_FAILED; what was at `path` still is.
        """
        try:
            with replacing(path) as temporary, temporary.open("wb") as file:
                np.savez(file, allow_pickle=False, high=self.high, low=self.low, **self.columns)
        except OSError as error:
            raise InternalError("STORE_FAILED") from error

    @classmethod
    def read(cls, path: Path, load: str) -> Registry:
        """Read a stored load.

        Raises:
            InternalError: INTEGRITY, the file is missing or damaged.
        """
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                high, low = _column(stored["high"], np.uint64), _column(stored["low"], np.uint64)
                columns = {name: _column(stored[name], np.uint8) for name in CENSUS_DICTIONARY.names}
            if {len(column) for column in (low, *columns.values())} != {len(high)}:
                raise ValueError("the columns are not of one length")
            return cls(load, high, low, columns)
        except _DAMAGE as error:
            raise InternalError("INTEGRITY", problem=f"the registry of load {load} is damaged or missing") from error


def _column(stored: npt.NDArray[NumberT], kind: type[NumberT]) -> npt.NDArray[NumberT]:
    if stored.dtype != kind or stored.ndim != 1:
        raise ValueError("a column has another type or shape")
    return stored


def _longest_run(ascending: npt.NDArray[np.uint64]) -> int:
    starts = np.flatnonzero(np.concatenate([[True], ascending[1:] != ascending[:-1]]))
    return int(np.diff(np.append(starts, len(ascending))).max(initial=1))
