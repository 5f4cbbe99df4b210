"""Everybody of one load, by person number: what they speak, and with whom they live."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from census_node.ledger.passes import Homes, Numbers, Values

__all__ = ["NO_VALUE", "People"]

NO_VALUE = 255
"""The byte of a person who gave no answer, or is not in the load: counted in `all`, in no value."""


@dataclass(frozen=True, eq=False)
class People:
    """One load. The counts say how many numbers were ever given to persons and to households."""

    load: str
    person_count: int
    household_count: int
    # By variable, a byte for each person; left in the load's file.
    values: Mapping[str, Values]
    # Gives persons of the load and their households, in any order, a person as often as they have cards.
    members: Callable[[], tuple[Numbers, Numbers]]

    @cached_property
    def homes(self) -> Homes:
        """Everybody's household; made when it is first asked for, which takes a while."""
        numbers = np.arange(self.person_count, dtype=np.uint32)
        # Whoever is not in the load lives somewhere, too: no sample holds them, and every pass goes over them.
        of_person = numbers % np.uint32(max(self.household_count, 1))
        persons, households = self.members()
        of_person[persons] = households
        return Homes(of_person, self.household_count)
