"""Some people of a table of pseudonyms: which rows of it, and their 16 bytes when somebody reads them.

Invariant. Both ascend, the table and the rows: what is read ascends strictly. Reading is piece by piece and into memory of
the reader's, so that a million people are never copied whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Self

import numpy as np
import numpy.typing as npt

from broker_common.crypto.commitments import SET_DOMAIN
from broker_common.values import PSEUDONYM_BYTES

__all__ = ["Pseudonyms"]

# People read at once when a whole set is hashed.
_PEOPLE_AT_ONCE = 16_384


class Pseudonyms:
    """Immutable."""

    def __init__(self, table: npt.NDArray[np.uint8], rows: npt.NDArray[np.intp]) -> None:
        """Of an ascending (n, 16) array those rows, which ascend."""
        self._table = table
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def copy_into(self, start: int, people: npt.NDArray[np.uint8]) -> None:
        """Fill an (n, 16) array with the people from place `start` on."""
        # Every row is one of the table's; "raise", the default, would copy everything once more to be sure beforehand.
        np.take(self._table, self._rows[start : start + len(people)], axis=0, out=people, mode="clip")

    def set_hash(self) -> bytes:
        """The same as `hash_set` of everybody."""
        digest = hashlib.sha256(SET_DOMAIN)
        buffer = np.empty((min(_PEOPLE_AT_ONCE, len(self)), PSEUDONYM_BYTES), np.uint8)
        for start in range(0, len(self), _PEOPLE_AT_ONCE):
            people = buffer[: len(self) - start]
            self.copy_into(start, people)
            digest.update(people.data)
        return digest.digest()

    def part(self, start: int, stop: int) -> Self:
        """Those from place `start` to before `stop`."""
        return type(self)(self._table, self._rows[start:stop])

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Parts of the same people, one after the other; at least one."""
        rows = np.concatenate([part._rows for part in parts])  # noqa: SLF001 - its own kind
        return cls(parts[0]._table, rows)  # noqa: SLF001 - its own kind

    def only(self, kept: npt.NDArray[np.bool_]) -> Pseudonyms:
        """Those whose place is marked."""
        return Pseudonyms(self._table, self._rows[kept])
