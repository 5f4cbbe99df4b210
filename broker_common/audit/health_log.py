"""What the health log says beyond its own rules: which samples were sent, and which charges it was shown.

Read after the census log, so that every charge that it was shown is held against the one that is there.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, replace

from broker_common.audit.census_log import CensusLog
from broker_common.audit.findings import Findings
from broker_common.audit.log_audit import LogAudit
from broker_common.audit.notes import NoteError
from broker_common.tlog.entries import Entry, Forwarded, Refused, ReportedCharge, Settled
from broker_common.tlog.health_state import HealthState

__all__ = ["HealthLog", "Sent"]


@dataclass(frozen=True, slots=True)
class Sent:
    """What a health log says of one ticket's way."""

    # Whether the sample that the census log charges for was handed over, in whichever attempt.
    has_charged: bool = False
    # The entry that says that the answer is out.
    settled_at: int | None = None


class HealthLog:
    """Notes on a health log, taken while it is read."""

    def __init__(
        self, audit: LogAudit[HealthState], sent: MutableMapping[str, Sent], census: CensusLog, findings: Findings
    ) -> None:
        self.audit = audit
        self.sent = sent
        # How long the census log was when the health agency last saw it, as far as what is handed in shows.
        self.seen_size = 0
        # And of the newest checkpoint that it says that it has cosigned.
        self.cosigned_size = 0
        # Tickets that were refused after a sample was sent, and that the census log does not charge.
        self._refused_samples = 0
        self._census = census
        self._findings = findings

    def take(self, entry: Entry) -> None:
        """Take in an entry that keeps the rules of the log."""
        match entry.event:
            case Forwarded(ticket=ticket, manifest=manifest):
                charged = self._census.audit.state.tickets.get(ticket)
                if charged is not None and charged.charge.manifest == manifest:
                    self.sent[ticket] = replace(self.sent.get(ticket, Sent()), has_charged=True)
            case ReportedCharge():
                self._take_report(entry, entry.event)
            case Settled(ticket=ticket):
                self.sent[ticket] = replace(self.sent.get(ticket, Sent()), settled_at=entry.sequence)
            case Refused(ticket=ticket):
                if ticket in self._census.audit.state.tickets:
                    self._findings.problem("REFUSED_BUT_CHARGED", "health", entry.sequence)
                elif self.audit.state.tickets[ticket].attempts:
                    self._refused_samples += 1
            case _:
                pass

    @property
    def uncharged_samples(self) -> int | None:
        """How many samples the census agency was sent and never charged; None if too little of the logs is known to say."""
        census, own = self._census.audit, self.audit
        if census.is_behind or not (census.is_complete and own.is_complete):
            return None
        under_way = sum(
            1
            for ticket in own.state.open_tickets
            if own.state.tickets[ticket].attempts and ticket not in census.state.tickets
        )
        return self._refused_samples + under_way

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
