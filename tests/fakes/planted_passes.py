"""Passes that tell who is in a sample, each in one way that is easy to write: what counts work has to find them."""

from __future__ import annotations

import numpy as np

from census_node.ledger.passes import Bits, CardPlaces, Counted, Passes, PersonCharges


class Where(PersonCharges):
    """Adds where somebody is active, and nowhere else."""

    def charge(self, active: Bits, price: int) -> None:
        is_active = np.unpackbits(active, count=len(self.charged)).view(np.bool_)
        np.add(self.charged, np.uint32(price), out=self.charged, where=is_active)


class IndexList(PersonCharges):
    """Looks up the active ones and charges them."""

    def charge(self, active: Bits, price: int) -> None:
        rows = np.flatnonzero(np.unpackbits(active, count=len(self.charged)))
        self.charged[rows] = np.take(self.charged, rows) + np.uint32(price)


class SparseWrite(PersonCharges):
    """Writes the charges of the active ones alone."""

    def charge(self, active: Bits, price: int) -> None:
        is_active = np.unpackbits(active, count=len(self.charged)).view(np.bool_)
        self.charged[is_active] += np.uint32(price)


class EarlyExit(PersonCharges):
    """Does nothing where nobody is active."""

    def charge(self, active: Bits, price: int) -> None:
        if active.any():
            super().charge(active, price)


class Skipping(Passes):
    """Looks up those places alone that are joined."""

    def find(self, sample: Bits, cards: CardPlaces, here: Bits) -> None:
        joined = np.flatnonzero(cards.first.masks)
        marks = np.zeros(len(cards.first), np.uint8)
        marks[np.asarray(joined)] = sample[cards.first.octets[joined]] & cards.first.masks[joined]
        here[:] = np.packbits(marks)


class Compressing(Passes):
    """Counts those who are active, one after the other."""

    def count(self, active: Bits, counted: Counted) -> list[int]:
        is_active = np.unpackbits(active, count=len(counted.values)).view(np.bool_)
        return [int(np.count_nonzero(np.compress(is_active, counted.values)))]
