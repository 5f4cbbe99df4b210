"""What the census log says beyond its own rules: was every release cosigned in time, and when could each have been?

The fold says that a release names a checkpoint of this log that covers its charge; here that checkpoint is held against the
tree, the log's own key, and the witness key of the agency whose sample it was, as the log had registered it by then.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import MutableMapping
from typing import Final

from broker_common.audit.findings import Findings
from broker_common.audit.log_audit import LogAudit
from broker_common.audit.notes import NoteError
from broker_common.tlog.census_state import CensusState, ChargedTicket
from broker_common.tlog.cosignature import MOST_SKEW_MS
from broker_common.tlog.entries import Charged, Delivered, Entry, Loaded, Released, Relinked, Slots, parse_entry

__all__ = ["SUPPRESSED_AFTER_MS", "CensusLog"]

# A cosigned answer goes out within two ticks, and a tick is a minute at most; after a start of the node as well.
SUPPRESSED_AFTER_MS: Final = 600_000


class CensusLog:
    """Notes on a census log, taken while it is read."""

    def __init__(
        self, audit: LogAudit[CensusState], delivered_at: MutableMapping[str, int], findings: Findings
    ) -> None:
        self.audit = audit
        # By ticket: the entry that says that the researcher has the answer.
        self.delivered_at = delivered_at
        # The last instant at which the census node is known to have been at work, by its own clock.
        self.alive_ms = 0
        self._findings = findings
        # Of every commitment to noise slots: the first slot, and the entry.
        self._first_slots = array("Q")
        self._slot_entries = array("Q")
        self._started_ms = 0
        # The commitments that were looked at last, with their entry.
        self._slots: tuple[int, tuple[str, ...]] = (-1, ())
        # By load: the census release that it is of.
        self._releases: dict[str, str] = {}
        # By agency: sizes of the cosigned checkpoints that releases name, each larger than the ones before, and
        # the time of the first release that names one of at least this size.
        self._cosigned: dict[str, tuple[array[int], array[int]]] = {}

    def take(self, entry: Entry) -> None:
        """Take in an entry that keeps the rules of the log."""
        self.alive_ms = entry.time_ms
        match entry.event:
            case Slots(first=first, void_below=void_below):
                self._first_slots.append(first)
                self._slot_entries.append(entry.sequence)
                if void_below == first:
                    # Every start of a node begins so.
                    self._started_ms = entry.time_ms
            case Charged(health=agency):
                if agency not in self.audit.trusted:
                    # SECURITY: of its own making, it cosigns whatever it is shown.
                    self._findings.problem("AGENCY_UNTRUSTED", "census", entry.sequence, agency)
            case Loaded() | Relinked():
                self._releases[entry.event.load] = self.audit.state.release
            case Released():
                self._take_release(entry, entry.event)
            case Delivered(ticket=ticket):
                self.delivered_at[ticket] = entry.sequence
            case _:
                pass

    def release_of(self, load: str) -> str:
        """The census release that a load is of."""
        return self._releases.get(load, "")

    def slot(self, number: int) -> tuple[int, str] | None:
        """The entry that commits to a noise slot, and the commitment; None if there is none."""
        place = bisect_right(self._first_slots, number) - 1
        if place < 0:
            return None
        index = self._slot_entries[place]
        if self._slots[0] != index:
            self._slots = (index, self._commitments(index))
        first, commitments = self._first_slots[place], self._slots[1]
        return (index, commitments[number - first]) if number - first < len(commitments) else None

    def _commitments(self, index: int) -> tuple[str, ...]:
        try:
            event = parse_entry(self.audit.files.entry(index)).event
        except ValueError:
            return ()
        return event.commitments if isinstance(event, Slots) else ()

    def is_suppressed(self, ticket: ChargedTicket) -> bool:
        """Whether a charged answer that is not released should have been long ago."""
        sizes, times = self._cosigned.get(ticket.charge.health, (array("Q"), array("Q")))
        place = bisect_right(sizes, ticket.index)
        if place < len(sizes):
            since_ms = times[place]
        elif ticket.index < self.audit.cosigned_size:
            since_ms = self.audit.cosigned_ms
        else:
            return False
        return self.alive_ms - max(since_ms, self._started_ms) > SUPPRESSED_AFTER_MS

    def _take_release(self, entry: Entry, event: Released) -> None:
        agency = self.audit.state.tickets[event.ticket].charge.health
        try:
            checked = self.audit.verify_past(event.checkpoint, cosigned_by=agency)
        except NoteError as error:
            if error.code == "NOT_COSIGNED":
                error = NoteError("RELEASE_NOT_COSIGNED", f"not {error.detail}")
            self.audit.report(error, "census", entry.sequence)
            return
        if 1000 * checked.times[agency] > entry.time_ms + MOST_SKEW_MS:
            self._findings.problem("COSIGNED_LATER", "census", entry.sequence)
        sizes, times = self._cosigned.setdefault(agency, (array("Q"), array("Q")))
        if not sizes or checked.checkpoint.size > sizes[-1]:
            sizes.append(checked.checkpoint.size)
            times.append(entry.time_ms)
