"""Numbers of people, or of questions, for the pages of an agency's own staff: how few of them a page may tell of.

SECURITY: a cell holds at least `LEAST_CELL`, and is rounded down to tens. An empty cell is joined with a neighbour like a
small one: if it stood by itself, the first one in it would show. Rounding keeps a total and its other cells from giving a
small one away, and one more or less from showing, except where a number passes a ten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# People or questions that are shown together at least.
LEAST_CELL = 10
# Digits of a forecast: more would show one person's charges.
_DIGITS = 2


@dataclass(frozen=True, slots=True)
class Cell:
    """The bands from `first` to `last` by their places, and how many are in them, rounded."""

    first: int
    last: int
    number: int


def coarse(number: int) -> int:
    """Rounded down to tens."""
    return number // LEAST_CELL * LEAST_CELL


def few_digits(number: int) -> int:
    """Rounded down to two significant digits."""
    step = int(10 ** max(0, len(str(number)) - _DIGITS))
    return number // step * step


def join_small(numbers: Sequence[int]) -> tuple[Cell, ...]:
    """Cells of at least `LEAST_CELL`, or one cell: a small one goes to the cell below it, the lowest one to the one above."""
    joined: list[tuple[int, int, int]] = []
    for place, number in enumerate(numbers):
        if joined and min(number, joined[-1][2]) < LEAST_CELL:
            first, _, before = joined.pop()
            joined.append((first, place, before + number))
        else:
            joined.append((place, place, number))
    return tuple(Cell(first, last, coarse(number)) for first, last, number in joined)
