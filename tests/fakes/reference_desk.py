"""The desk in twenty obvious lines: sets and dictionaries, one person after the other, as DESIGN 5 and 8 say it.

A subject is a person, who is their own home, or a household. The passes over everybody are held against it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


def people_here(sample: set[int], cards: Mapping[int, int]) -> set[int]:
    """Everybody of whom a card is in the sample, by the person of each place that is joined."""
    return {person for place, person in cards.items() if place in sample}


@dataclass
class ReferenceDesk:
    """Charges of each subject."""

    subject_of: Sequence[int]
    charged: Counter[int] = field(default_factory=Counter)

    def fitting(self, here: set[int], price: int, most: int) -> set[int]:
        """Those whose subject fits, with all of it that is here."""
        members = Counter(self.subject_of[person] for person in here)
        fits = {subject for subject, number in members.items() if self.charged[subject] + number * price <= most}
        return {person for person in here if self.subject_of[person] in fits}

    def charge(self, active: set[int], price: int) -> None:
        """A subject is charged once for each of its people."""
        for person in active:
            self.charged[self.subject_of[person]] += price


def counts_of(active: set[int], values: Sequence[int], cells: Sequence[set[int] | None]) -> list[int]:
    """Number of people with a value of each cell; `None` is the rest: everyone in no other cell, with a value or without."""
    named = set().union(*(cell for cell in cells if cell is not None))
    have = [values[person] for person in active]
    return [sum(value not in named if cell is None else value in cell for value in have) for cell in cells]
