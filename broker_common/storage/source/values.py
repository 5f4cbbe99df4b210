"""The meaning of the texts of one source column, as numbers: the dictionary's types and limits, applied to a whole chunk.

    INTEGER  the number            int32     MISSING for an empty field
    DATE     days since 1970       int32     MISSING for an empty field
    CODE     place in the list     int32     MISSING for an empty field
    CODE, multi-valued  bit mask   uint64    0 for an empty field; values are joined by `;`

A column of several values that has more codes than a mask has bits is read by `ListReader`: the places in the list of all
values, one row after the other, and how many each row has. The texts of a column repeat from row to row, so each is read once per chunk at most and then looked up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from itertools import chain
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from broker_common.errors import InvalidRequestError
from broker_common.query.condition import parse_date
from broker_common.query.dictionary import MULTI_VALUE_SEPARATOR, Column, ColumnType

ScalarT = TypeVar("ScalarT", bound=np.generic)


class GrowingArray(Generic[ScalarT]):
    """One dimension, one type."""

    def __init__(self, kind: np.dtype[ScalarT]) -> None:
        self._kind = kind
        # Python moves the pages of a large one that grows instead of their content.
        self._content = bytearray()

    def add(self, piece: npt.NDArray[np.generic] | bytes) -> None:
        """Append the values of an array, converted, or values as they lie in memory."""
        self._content += piece if isinstance(piece, bytes) else piece.astype(self._kind, copy=False).tobytes()

    def take(self) -> npt.NDArray[ScalarT]:
        """Everything added; nothing is left here."""
        content, self._content = self._content, bytearray()
        return np.frombuffer(content, self._kind)


Values: TypeAlias = NDArray[np.int32] | NDArray[np.uint64]

MISSING = -(2**31)
"""Stands for no value in int32 columns."""
MAX_MULTI_VALUED_CODES = 64
"""One bit of a mask each. A column of several values with more codes is kept as a list."""

# Integers are kept in 32 bits.
_LARGEST_INTEGER = 2**31 - 1
_INTEGER = re.compile(r"-?[0-9]{1,10}")
_EPOCH = date(1970, 1, 1)


class ColumnReader:
    """Reads one column of a source."""

    def __init__(self, column: Column) -> None:
        """Read this column, which is no list.

        Raises:
            InvalidRequestError: DICTIONARY_UNUSABLE.
        """
        verify_storable(column)
        self._column = column

    def read(self, texts: Sequence[str]) -> tuple[Values, dict[int, str]]:
        """A number for each text, and the reason for each place whose text is wrong (its number means nothing)."""
        numbers: dict[str, int] = {}
        problems: dict[str, str] = {}
        for text in set(texts):
            try:
                numbers[text] = self._number(text)
            except ValueError as error:
                numbers[text] = 0
                problems[text] = f"{self._column.name} {error}"
        each = map(numbers.__getitem__, texts)
        size = len(texts)
        values: Values = (
            np.fromiter(each, np.uint64, size) if self._column.multi_valued else np.fromiter(each, np.int32, size)
        )
        wrong = {at: problems[text] for at, text in enumerate(texts) if text in problems} if problems else {}
        return values, wrong

    def _number(self, text: str) -> int:
        if self._column.multi_valued:
            return self._mask(text)
        if not text:
            return MISSING
        match self._column.type:
            case ColumnType.CODE:
                return _position(self._column, text)
            case ColumnType.INTEGER:
                return self._integer(text)
            case _:
                return (_date(text) - _EPOCH).days

    def _mask(self, text: str) -> int:
        return sum(1 << position for position in _positions(self._column, text))

    def _integer(self, text: str) -> int:
        if not _INTEGER.fullmatch(text):
            raise ValueError("is not a whole number")
        number = int(text)
        if not self._column.minimum <= number <= self._column.maximum:
            raise ValueError(f"is not between {self._column.minimum} and {self._column.maximum}")
        return number


class ListReader:
    """Reads one column of several values that has more codes than a mask has bits."""

    def __init__(self, column: Column) -> None:
        self._column = column

    def read(self, texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int32], dict[int, str]]:
        """How many values each text has, all of them in order, and the reason for each place whose text is wrong, which has none."""
        found: dict[str, list[int]] = {}
        problems: dict[str, str] = {}
        for text in set(texts):
            try:
                found[text] = _positions(self._column, text)
            except ValueError as error:
                found[text] = []
                problems[text] = f"{self._column.name} {error}"
        counts = np.fromiter((len(found[text]) for text in texts), np.int64, len(texts))
        values = np.fromiter(chain.from_iterable(map(found.__getitem__, texts)), np.int32, int(counts.sum()))
        wrong = {at: problems[text] for at, text in enumerate(texts) if text in problems} if problems else {}
        return counts, values, wrong


def is_list(column: Column) -> bool:
    """Whether a column is kept as a list: it has several values, and more codes than a mask has bits."""
    return column.multi_valued and len(column.codes) > MAX_MULTI_VALUED_CODES


def is_mask(column: Column) -> bool:
    """Whether a column is kept as masks: it has several values, and each code has a bit."""
    return column.multi_valued and not is_list(column)


def verify_storable(column: Column) -> None:
    """Return only if every value of a column, or every mask of them, has a number of its own.

    Raises:
        InvalidRequestError: DICTIONARY_UNUSABLE.
    """
    if column.minimum <= MISSING or column.maximum > _LARGEST_INTEGER:
        problem = "admits numbers of more than 32 bits"
        raise InvalidRequestError("DICTIONARY_UNUSABLE", column=column.name, problem=problem)


def _positions(column: Column, text: str) -> list[int]:
    """Where the values of a field stand in the published list."""
    positions = [_position(column, code) for code in text.split(MULTI_VALUE_SEPARATOR)] if text else []
    if len(set(positions)) < len(positions):
        raise ValueError("holds a code twice")
    return positions


def _position(column: Column, code: str) -> int:
    position = column.positions.get(code)
    if position is None:
        raise ValueError("holds a code that is not published")
    return position


def _date(text: str) -> date:
    try:
        return parse_date(text)
    except ValueError:
        raise ValueError("is not a date written YYYY-MM-DD") from None
