"""What the health log says beyond its own rules: which samples came to nothing, and which charges it was shown.

Read after the census log, so that every charge that it was shown is held against the one that is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

from broker_common.audit.census_log import CensusLog
from broker_common.audit.findings import Findings
from broker_common.audit.log_audit import LogAudit
from broker_common.audit.notes import NoteError
from broker_common.errors import REASONS
from broker_common.tlog.entries import Entry, Refused, ReportedCharge, Settled
from broker_common.tlog.health_state import HealthState

# In the place of a code that no node says: the table of refusals stays small whatever a log holds.
_UNKNOWN_CODE = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Uncharged:
    """Tickets that were forwarded, as the health log says, and that the census log does not charge."""

    # Refused, by researcher and code.
    refused: Mapping[tuple[str, str], int]
    # Neither charged nor refused, by researcher.
    unanswered: Mapping[str, int]

    @property
    def count(self) -> int:
        return sum(self.refused.values()) + sum(self.unanswered.values())


class HealthLog:
    """Notes on a health log, taken while it is read."""

    def __init__(
        self, audit: LogAudit[HealthState], settled_at: MutableMapping[str, int], census: CensusLog, findings: Findings
    ) -> None:
        """`settled_at`, empty, is where to keep by ticket the entry that says that its answer is out."""
        self.audit = audit
        self.settled_at = settled_at
        # How long the census log was when the health agency last saw it, as far as what is handed in shows.
        self.seen_size = 0
        # And of the newest checkpoint that it says that it has cosigned.
        self.cosigned_size = 0
        self._refused: Counter[tuple[str, str]] = Counter()
        self._census = census
        self._findings = findings

    def take(self, entry: Entry) -> None:
        match entry.event:
            case ReportedCharge():
                self._take_report(entry, entry.event)
            case Settled(ticket=ticket):
                self.settled_at[ticket] = entry.sequence
            case Refused(ticket=ticket, code=code):
                accepted = self.audit.state.tickets[ticket]
                if ticket in self._census.audit.state.tickets:
                    self._findings.problem("REFUSED_BUT_CHARGED", "health", entry.sequence)
                elif accepted.manifest:
                    self._refused[accepted.submission.researcher, code if code in REASONS else _UNKNOWN_CODE] += 1
            case _:
                pass

    @property
    def uncharged(self) -> Uncharged | None:
        """What was forwarded and never charged; None if too little of the logs is known to say."""
        census, own = self._census.audit, self.audit
        if census.is_behind or not (census.is_complete and own.is_complete):
            return None
        unanswered: Counter[str] = Counter()
        for ticket in own.state.open_tickets:
            accepted = own.state.tickets[ticket]
            if accepted.manifest and ticket not in census.state.tickets:
                unanswered[accepted.submission.researcher] += 1
        return Uncharged(self._refused, unanswered)

    def _take_report(self, entry: Entry, event: ReportedCharge) -> None:
        census = self._census.audit
        try:
            checked = census.verify_past(event.checkpoint)
        except NoteError as error:
            census.report(error, "health", entry.sequence)
            return
        self.seen_size = max(self.seen_size, checked.checkpoint.size)
        charged = census.state.tickets.get(event.ticket)
        if event.log_index >= checked.checkpoint.size or (
            event.log_index < census.state.size and (charged is None or charged.index != event.log_index)
        ):
            self._findings.problem("REPORT_WRONG", "health", entry.sequence)
