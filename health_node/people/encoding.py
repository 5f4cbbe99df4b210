"""How a column is kept: one small unsigned number for each person, and 0 where a person has no value.

    INTEGER             the number - the least one that is admitted + 1
    DATE                days since the last day before the year 1
    CODE                place in the published list + 1
    CODE, multi-valued  bit mask of places

in the smallest type that holds the greatest of them. A list (`source.values.is_list`) is a table of its own, a row for each
of a person's values, each kept like a CODE. All of it follows from the dictionary alone, never from anybody's record.
Ontario's columns take 24 bytes a person: age, birth year, sex and census division 1 each, all others 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from broker_common.query.condition import Literal
from broker_common.query.dictionary import Column, ColumnType
from broker_common.storage.source.values import MISSING, Values, is_mask, verify_storable

StoredType: TypeAlias = np.dtype[np.uint8] | np.dtype[np.uint16] | np.dtype[np.uint32] | np.dtype[np.uint64]
Stored: TypeAlias = NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.uint32] | NDArray[np.uint64]

_KINDS: Sequence[StoredType] = (np.dtype("<u1"), np.dtype("<u2"), np.dtype("<u4"), np.dtype("<u8"))
_EPOCH = date(1970, 1, 1).toordinal()
# Values that are looked at in one go.
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Encoding:
    """The meaning of the stored numbers of one column."""

    column: Column
    kind: StoredType
    # The greatest number that may be stored.
    top: int
    # Added to each value of `source.values`.
    shift: int

    @classmethod
    def of(cls, column: Column) -> Self:
        """How a column is kept, or the values of a list.

        Raises:
            InvalidRequestError: DICTIONARY_UNUSABLE.
        """
        verify_storable(column)
        if is_mask(column):
            top, shift = (1 << len(column.codes)) - 1, 0
        elif column.type is ColumnType.DATE:
            top, shift = date.max.toordinal(), _EPOCH
        elif column.type is ColumnType.INTEGER:
            top, shift = column.maximum - column.minimum + 1, 1 - column.minimum
        else:
            top, shift = len(column.codes), 1
        return cls(column, next(kind for kind in _KINDS if top <= np.iinfo(kind).max), top, shift)

    @property
    def is_mask(self) -> bool:
        """Whether each number is the mask of several values."""
        return is_mask(self.column)

    def place(self, literal: Literal) -> int:
        """The number by which a literal is stored; below 1 or above the top if nobody can have it."""
        match literal:
            case str():
                place = self.column.positions[literal]
                return place if self.is_mask else place + self.shift
            case date():
                return literal.toordinal()
            case _:
                return literal + self.shift

    def stored(self, values: Values) -> Stored:
        """Values of `source.values`, as they are kept.

        Raises:
            ValueError: a value that the dictionary does not admit.
        """
        stored: Stored = np.empty(len(values), dtype=self.kind)
        for start in range(0, len(values), _PIECE):
            piece = values[start : start + _PIECE]
            if self.is_mask:
                outside = bool((piece > np.uint64(self.top)).any())
            else:
                is_missing = piece == MISSING
                numbers = piece.astype(np.int64) + self.shift
                outside = bool((((numbers < 1) | (numbers > self.top)) & ~is_missing).any())
                piece = np.where(is_missing, 0, numbers)
            if outside:
                raise ValueError(f"column {self.column.name} has a value that is not admitted")
            stored[start : start + _PIECE] = piece
        return stored

    def values(self, stored: Stored) -> Values:
        """The inverse of `stored`."""
        if self.is_mask:
            return stored.astype(np.uint64)
        values = np.empty(len(stored), dtype=np.int32)
        for start in range(0, len(stored), _PIECE):
            piece = stored[start : start + _PIECE].astype(np.int64)
            values[start : start + _PIECE] = np.where(piece == 0, MISSING, piece - self.shift)
        return values
