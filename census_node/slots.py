"""Noise slots: a quote reserves the next place in the noise sequence for one researcher, until the quote expires.

Reservations live in memory. After a restart, or when a researcher holds too many, the ticket is refused with a hint to
quote again; nothing was charged. That a slot serves one ticket only, for ever, is a rule of the log.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace

__all__ = ["SlotBook"]


@dataclass(frozen=True, slots=True)
class _Reservation:
    researcher: str
    expires_ms: int
    # The ticket that the slot serves; empty until one claims it.
    ticket_hash: str = ""


class SlotBook:
    """Which researcher holds which slot. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: OrderedDict[int, _Reservation] = OrderedDict()
        self._next = 0

    def reserve(self, researcher: str, *, not_below: int, now_ms: int, expires_ms: int, limit: int) -> int:
        """The next free slot, held for `researcher`; beyond `limit` open quotes their oldest gives way.

        The oldest giving way, rather than the new quote being refused, means nobody can be locked out by their own
        abandoned quotes.
        """
        with self._lock:
            self._forget_expired(now_ms)
            own = [slot for slot, held in self._held.items() if held.researcher == researcher]
            for slot in own[: max(0, len(own) + 1 - limit)]:
                del self._held[slot]
            slot = max(self._next, not_below)
            self._next = slot + 1
            self._held[slot] = _Reservation(researcher, expires_ms)
            return slot

    def is_held(self, slot: int, researcher: str, now_ms: int) -> bool:
        """True while `researcher` holds `slot`."""
        with self._lock:
            held = self._held.get(slot)
            return held is not None and held.researcher == researcher and now_ms < held.expires_ms

    def claim(self, slot: int, researcher: str, ticket_hash: str, now_ms: int) -> bool:
        """Bind a held slot to the first ticket that names it; False for every other ticket, and for a slot not held."""
        with self._lock:
            held = self._held.get(slot)
            if held is None or held.researcher != researcher or now_ms >= held.expires_ms:
                return False
            if held.ticket_hash in {"", ticket_hash}:
                self._held[slot] = replace(held, ticket_hash=ticket_hash)
                return True
            return False

    def spend(self, slot: int) -> None:
        """The slot was charged: the log remembers it from now on."""
        with self._lock:
            self._held.pop(slot, None)

    def _forget_expired(self, now_ms: int) -> None:
        for slot in [slot for slot, held in self._held.items() if held.expires_ms <= now_ms]:
            del self._held[slot]
