"""Noise slots: what a quote reserves, and which secrets are still good.

The log commits to slots in batches, before anybody asks for one; a quote gives out the next slot whose commitment stands
under a cosigned checkpoint, and the ticket has to name number, commitment and checkpoint exactly as they were quoted.
Reservations live in memory. After a restart, or when a researcher holds too many, the ticket is refused with a hint to
quote again; nothing was charged. That a slot serves one ticket only, for ever, is a rule of the log.

A slot that is let go without a charge is free again, and the lowest free one is quoted next. So every slot of the log that is
not void is free, held or charged, and how many are not charged is bounded, however many quotes are asked for: at most twice
`open_quotes` for each researcher, the tickets in hand, one batch, and the few that are left when the next one is due. Quoting a
slot again tells nobody anything: nobody has seen its secret, and the noise depends on the ticket as well.
"""

from __future__ import annotations

import heapq
import threading
from collections import OrderedDict
from collections.abc import Callable, Container
from dataclasses import dataclass, replace

# Committed to by one entry: few entries, and small enough to travel with every quote.
BATCH = 64
# A batch is followed by the next one when so few of its slots are left that quotes could come to wait for it.
_LOW = BATCH // 4


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot as quotes and tickets name it."""

    number: int
    commitment: bytes
    # Signed and cosigned note of a checkpoint that covers the commitment.
    checkpoint: str


@dataclass(frozen=True, slots=True)
class SlotBatch:
    """One entry of commitments in the log."""

    first: int
    commitments: tuple[bytes, ...]
    # Where the entry stands, and its bytes.
    index: int
    entry: bytes


@dataclass(frozen=True, slots=True)
class OfferedSlot:
    """A slot that was reserved, and the batch whose entry proves its commitment."""

    slot: Slot
    batch: SlotBatch


@dataclass(frozen=True, slots=True)
class _Reservation:
    slot: Slot
    batch: SlotBatch
    researcher: str
    expires_ms: int
    # The ticket that the slot serves; empty until one claims it.
    ticket_hash: str = ""


class SlotBook:
    """Which slots are free, and which researcher holds which. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # A heap: the lowest number first.
        self._free: list[tuple[int, SlotBatch]] = []
        self._held: OrderedDict[int, _Reservation] = OrderedDict()
        self._next = 0

    def add(self, batch: SlotBatch) -> None:
        """Slots that the log has committed to."""
        with self._lock:
            for number in range(batch.first, batch.first + len(batch.commitments)):
                heapq.heappush(self._free, (number, batch))
            self._next = batch.first + len(batch.commitments)

    def start_over(self) -> None:
        """Every slot that there was is void."""
        with self._lock:
            self._free.clear()
            self._held.clear()

    @property
    def is_low(self) -> bool:
        with self._lock:
            return len(self._free) <= _LOW

    def lowest(self) -> int:
        """The first slot that may still serve somebody; every one below it is void."""
        with self._lock:
            free = self._free[0][0] if self._free else self._next
            return min([free, *self._held])

    @property
    def next_index(self) -> int | None:
        """The entry that commits to the next free slot; None while there is no free one."""
        with self._lock:
            return self._free[0][1].index if self._free else None

    def reserve(
        self,
        researcher: str,
        *,
        now_ms: int,
        expires_ms: int,
        limit: int,
        in_hand: Callable[[], Container[str]],
        covering: Callable[[int], str | None],
    ) -> OfferedSlot | None:
        """The lowest free slot, held for `researcher`; None while no cosigned checkpoint covers it.

        `in_hand` gives the hashes of accepted tickets, `covering` the cosigned checkpoint that covers an entry; both are asked
        under the lock and wait for nobody. Beyond `limit` open quotes the researcher's oldest gives way: refusing the new quote
        instead would lock people out by their own abandoned quotes. The same holds of slots whose tickets are not in hand.
        """
        with self._lock:
            needed = in_hand()
            self._free_expired(now_ms, needed)
            if not self._free:
                return None
            checkpoint = covering(self._free[0][1].index)
            if checkpoint is None:
                return None
            own = [(each, held.ticket_hash) for each, held in self._held.items() if held.researcher == researcher]
            quoted = [each for each, ticket_hash in own if not ticket_hash]
            claimed = [each for each, ticket_hash in own if ticket_hash and ticket_hash not in needed]
            for each in quoted[: max(0, len(quoted) + 1 - limit)] + claimed[: max(0, len(claimed) - limit)]:
                self._let_go(each)
            # One that has just been let go is of an earlier batch, if it is lower: the same checkpoint covers it.
            number, batch = heapq.heappop(self._free)
            slot = Slot(number, batch.commitments[number - batch.first], checkpoint)
            self._held[number] = _Reservation(slot, batch, researcher, expires_ms)
            return OfferedSlot(slot, batch)

    def is_held(self, slot: Slot, researcher: str, now_ms: int) -> bool:
        """True while `researcher` holds exactly this slot."""
        with self._lock:
            return self._reservation(slot, researcher, now_ms) is not None

    def claim(self, slot: Slot, researcher: str, ticket_hash: str, now_ms: int) -> bool:
        """Bind a held slot to the first ticket that names it; False for every other ticket, and for a slot not held."""
        with self._lock:
            held = self._reservation(slot, researcher, now_ms)
            if held is None or held.ticket_hash not in {"", ticket_hash}:
                return False
            self._held[slot.number] = replace(held, ticket_hash=ticket_hash)
            return True

    def spend(self, number: int) -> None:
        """The slot was charged: the log remembers it from now on."""
        with self._lock:
            if self._held.pop(number, None) is None:
                self._free = [each for each in self._free if each[0] != number]
                heapq.heapify(self._free)

    def _reservation(self, slot: Slot, researcher: str, now_ms: int) -> _Reservation | None:
        held = self._held.get(slot.number)
        good = held is not None and held.slot == slot and held.researcher == researcher and now_ms < held.expires_ms
        return held if good else None

    def _free_expired(self, now_ms: int, in_hand: Container[str]) -> None:
        """Let go of what has expired.

        SECURITY: a ticket that is in hand keeps its slot, whatever expires meanwhile; otherwise it would be the larger of
        two samples that is refused.
        """
        for number, held in list(self._held.items()):
            if held.expires_ms <= now_ms and held.ticket_hash not in in_hand:
                self._let_go(number)

    def _let_go(self, number: int) -> None:
        heapq.heappush(self._free, (number, self._held.pop(number).batch))
