"""Sets, questions and cards as the arrays that the desk works on, and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from census_node.ledger.passes import NO_CELL, Bits, CardPlaces, Counted

MOST = 1000
"""What a subject may be charged in all."""


def bits_of(members_: Collection[int], size: int) -> Bits:
    """A set as bits."""
    marks = np.zeros(size, np.uint8)
    marks[list(members_)] = 1
    return np.packbits(marks)


def members(bits: Bits, size: int) -> set[int]:
    """Bits as a set; what stands behind the last is zero."""
    marks = np.unpackbits(bits)
    assert not marks[size:].any()
    return set(np.flatnonzero(marks[:size]).tolist())


def question_of(values: npt.NDArray[np.uint8], cells: Sequence[set[int] | None]) -> Counted:
    """A question; the cell `None` is the rest."""
    assert Counter(map(type, cells))[type(None)] <= 1
    rest = cells.index(None) if None in cells else NO_CELL
    cell_of_value = np.full(256, rest, np.uint8)
    for at, cell in enumerate(cells):
        cell_of_value[list(cell or ())] = at if cell is not None else rest
    return Counted(values, cell_of_value, len(cells))


def cards_by_person(cards: CardPlaces) -> dict[int, set[int]]:
    """Places by person: every place of their cards, read one by one."""
    found: dict[int, set[int]] = {}
    everybody = range(len(cards.first))
    for persons, bearings in ((everybody, cards.first), (cards.further_persons.tolist(), cards.further)):
        for person, octet, mask in zip(persons, bearings.octets.tolist(), bearings.masks.tolist(), strict=True):
            if mask:
                found.setdefault(person, set()).add(8 * octet + 8 - mask.bit_length())
    return found
