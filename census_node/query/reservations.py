"""Budget that is spoken for: an admitted ticket holds its price until it is charged or refused.

SECURITY: what is left is decided when a sample is admitted, in the order in which samples came whole. All are of one size, so that
this order says nothing of who is in them; decided at the charge, it would follow from the agencies' rotation besides.
"""

from __future__ import annotations

import threading
from collections.abc import Container
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reserved:
    """Reservations of others."""

    answers: int
    units: int
    # The number of these answers that belong to the researcher in question.
    own: int = 0


NOTHING_RESERVED = Reserved(0, 0)


@dataclass(slots=True)
class _Held:
    researcher: str
    units: int
    attempts: int


class Reservations:
    """Prices held by tickets on their way. Thread-safe; in memory, like the quotes that tickets come from."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, _Held] = {}

    def hold(self, ticket_hash: str, researcher: str, units: int) -> None:
        """Hold the price of a ticket; several attempts of one ticket hold it once.

        SECURITY: until the last of them is over, whatever expires meanwhile. A hold that ended with its ticket would leave
        the last of the budget to the smaller sample after all: a researcher names the ticket's end.
        """
        with self._lock:
            held = self._held.setdefault(ticket_hash, _Held(researcher, units, 0))
            held.attempts += 1

    def let_go(self, ticket_hash: str) -> None:
        """An attempt is over, however it ended."""
        with self._lock:
            held = self._held.get(ticket_hash)
            if held is not None:
                held.attempts -= 1
                if held.attempts <= 0:
                    del self._held[ticket_hash]

    def tickets(self) -> frozenset[str]:
        """The tickets that are in hand."""
        with self._lock:
            return frozenset(self._held)

    def reserved(self, researcher: str, *, charged: Container[str], but: str = "") -> Reserved:
        """Reservations of uncharged tickets other than `but`; `own` is the part of `researcher`."""
        with self._lock:
            others = [held for name, held in self._held.items() if name != but and name not in charged]
        own = sum(held.researcher == researcher for held in others)
        return Reserved(len(others), sum(held.units for held in others), own)
