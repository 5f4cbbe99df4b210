"""Checks of the health log beyond its rules: which samples came to nothing, and which charges it was shown.

Read after the census log, so that every charge that it was shown is held against the one that is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

from broker_common.audit.findings import Findings
from broker_common.audit.logs.census_log import CensusLog
from broker_common.audit.logs.log_audit import LogAudit
from broker_common.audit.logs.refusals import UNKNOWN_CODE, Judged, Refusals, Told
from broker_common.audit.logs.signers import NoteError
from broker_common.crypto.signing import Purpose, key_named
from broker_common.errors import REASONS, InvalidRequestError
from broker_common.query.refusal import parse_refusal
from broker_common.tlog.entries import Entry, Forwarded, Refused, ReportedCharge, Settled
from broker_common.tlog.health_state import HealthState


@dataclass(frozen=True, slots=True)
class Uncharged:
    """Tickets that were forwarded, as the health log says, and that the census log does not charge."""

    # Refused, by researcher and code; of these, what follows from the census log, and what does not though it would have to.
    refused: Mapping[tuple[str, str], int]
    follows: Mapping[tuple[str, str], int]
    without_reason: Mapping[tuple[str, str], int]
    # Neither charged nor refused, by researcher.
    unanswered: Mapping[str, int]

    @property
    def count(self) -> int:
        return sum(self.refused.values()) + sum(self.unanswered.values())


@dataclass(frozen=True, slots=True)
class _Began:
    """State of the log when a sample was sent."""

    # How long the census log was that had been shown by then.
    seen_size: int
    # Samples that were open, less all that had been sent: with those sent at a later time, how many can have been in hand since.
    others: int
    own_others: int


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
        # Held against the census log when both are read.
        self.refusals = Refusals(findings)
        self.judged = Judged()
        # Samples that are sent and neither settled nor refused, by researcher, and all that were ever sent.
        self._open: Counter[str] = Counter()
        self._sent: Counter[str] = Counter()
        # For each open ticket: the census log as shown by then, and the samples open and sent, in all and of its researcher.
        self._began: dict[str, _Began] = {}
        self._census = census
        self._findings = findings

    def take(self, entry: Entry) -> None:
        match entry.event:
            case ReportedCharge():
                self._take_report(entry, entry.event)
            case Settled(ticket=ticket):
                self.settled_at[ticket] = entry.sequence
                self._end(ticket)
            case Forwarded(ticket=ticket):
                self._begin(entry, ticket)
            case Refused(ticket=ticket):
                self._take_refusal(entry, entry.event)
                self._end(ticket)
            case _:
                pass

    @property
    def uncharged(self) -> Uncharged | None:
        """Samples that were forwarded and never charged; None if too little of the logs is known to say."""
        census, own = self._census.audit, self.audit
        if census.is_behind or not (census.is_complete and own.is_complete):
            return None
        unanswered: Counter[str] = Counter()
        for ticket in own.state.open_tickets:
            accepted = own.state.tickets[ticket]
            if accepted.manifest and ticket not in census.state.tickets:
                unanswered[accepted.submission.researcher] += 1
        return Uncharged(self._refused, self.judged.follows, self.judged.without_reason, unanswered)

    def _begin(self, entry: Entry, ticket: str) -> None:
        """A sample is sent."""
        researcher = self.audit.state.tickets[ticket].submission.researcher
        self._began[ticket] = _Began(
            self.seen_size,
            self._open.total() - self._sent.total(),
            self._open[researcher] - self._sent[researcher],
        )
        self._open[researcher] += 1
        self._sent[researcher] += 1
        charged = self._census.audit.state.tickets.get(ticket)
        if charged is not None:
            self.refusals.sent(entry.sequence, charged.index)

    def _end(self, ticket: str) -> None:
        """A ticket is closed."""
        if self._began.pop(ticket, None) is not None:
            self._open[self.audit.state.tickets[ticket].submission.researcher] -= 1

    def _take_refusal(self, entry: Entry, event: Refused) -> None:
        accepted = self.audit.state.tickets[event.ticket]
        researcher = accepted.submission.researcher
        is_signed = bool(accepted.manifest) and self._census.audit.is_complete and self._is_signed(entry, event)
        if event.ticket in self._census.audit.state.tickets:
            self._findings.problem("REFUSED_BUT_CHARGED", "health", entry.sequence)
            return
        if accepted.manifest:
            self._refused[researcher, event.code if event.code in REASONS else UNKNOWN_CODE] += 1
        if is_signed:
            refusal, began = parse_refusal(event.refusal.encode()), self._began[event.ticket]
            self.refusals.take(
                Told(
                    refusal,
                    entry.sequence,
                    first=max(refusal.size, began.seen_size),
                    # Open when it was sent, or sent since; without itself.
                    in_hand=began.others + self._sent.total() - 1,
                    own_in_hand=began.own_others + self._sent[researcher] - 1,
                )
            )

    def _is_signed(self, entry: Entry, event: Refused) -> bool:
        census = self._census.audit
        try:
            key = key_named(census.parties.own.keys(Purpose.REFUSAL), event.key_id, subject="refusal")
            key.verify_text(event.refusal.encode(), event.signature)
        except InvalidRequestError as error:
            self._findings.problem("REFUSAL_FORGED", "health", entry.sequence, error.code)
            return False
        if parse_refusal(event.refusal.encode()).log != census.state.origin:
            self._findings.problem("REFUSAL_FORGED", "health", entry.sequence, "of another log")
            return False
        return True

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
