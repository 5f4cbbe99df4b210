"""The cells of one table, row by row, with the values of their members in ascending order."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import fsum

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Cells:
    """Who is where. A table has `rows` by `columns`; one of them or both may be the single empty label."""

    row_name: str
    rows: Sequence[str]
    columns: Sequence[str]
    # In the order of rows, then columns.
    parts: Sequence[NDArray[np.float64]]
    # Rows of the file that the filter leaves out, and values that the bounds cut.
    outside: int = 0
    clamped: int = 0
    # Whether a row may be in no cell, or in a label that nobody has.
    is_part: bool = False

    @cached_property
    def labels(self) -> Sequence[tuple[str, str]]:
        """The row's and the column's label of each cell."""
        return [(row, column) for row in self.rows for column in self.columns]

    @cached_property
    def names(self) -> Sequence[str]:
        """One name for each cell."""
        return [" / ".join(label for label in pair if label) for pair in self.labels]

    @cached_property
    def members(self) -> Sequence[int]:
        """How many rows are in each cell."""
        return [len(part) for part in self.parts]

    @cached_property
    def size(self) -> int:
        """How many rows the file has, those outside the table too."""
        return sum(self.members) + self.outside

    @cached_property
    def totals(self) -> Sequence[float]:
        """The sum of each cell's values, correctly rounded."""
        return [fsum(part.tolist()) for part in self.parts]

    @cached_property
    def ranges(self) -> Sequence[tuple[Fraction, Fraction]]:
        """The smallest and the largest value of each cell; zeros for an empty one."""
        return [
            (Fraction(float(part[0])), Fraction(float(part[-1]))) if len(part) else (Fraction(0), Fraction(0))
            for part in self.parts
        ]

    @cached_property
    def largest(self) -> Fraction:
        """The largest size of any value."""
        return max(max(abs(low), abs(high)) for low, high in self.ranges)


def tabulated(
    row_labels: Sequence[str] | None,
    column_labels: Sequence[str] | None,
    values: NDArray[np.float64],
    *,
    row_name: str = "",
    known: tuple[Collection[str], Collection[str]] = ((), ()),
    outside: int = 0,
    clamped: int = 0,
    is_filtered: bool = False,
) -> Cells:
    """The table of these rows: one label each for its row and its column, where the table has them, and one value.

    Labels that are `known` have cells even if no row has them.
    """
    rows, row_codes = _coded(row_labels, known[0], len(values))
    columns, column_codes = _coded(column_labels, known[1], len(values))
    codes = row_codes * len(columns) + column_codes
    order = np.lexsort((values, codes))
    starts = np.searchsorted(codes[order], np.arange(1, len(rows) * len(columns)))
    is_part = is_filtered or row_labels is not None or column_labels is not None
    return Cells(row_name, rows, columns, np.split(values[order], starts), outside, clamped, is_part)


def without_largest(cells: Cells) -> Cells:
    """The same table without the row whose value is largest in size."""
    ends = [(abs(part[end]), at, end) for at, part in enumerate(cells.parts) if len(part) for end in (0, -1)]
    _, cell, end = max(ends)
    left = [np.delete(part, end) if at == cell else part for at, part in enumerate(cells.parts)]
    return replace(cells, parts=left)


def _coded(labels: Sequence[str] | None, known: Collection[str], size: int) -> tuple[Sequence[str], NDArray[np.int64]]:
    if labels is None:
        return [""], np.zeros(size, dtype=np.int64)
    ordered = sorted({*labels, *known}, key=_in_order)
    codes = {label: code for code, label in enumerate(ordered)}
    return ordered, np.fromiter((codes[label] for label in labels), dtype=np.int64, count=size)


def _in_order(label: str) -> tuple[int, float, str]:
    # Codes by their number, words by the alphabet.
    return (0, float(label), label) if label.isascii() and label.isdigit() else (1, 0.0, label)
