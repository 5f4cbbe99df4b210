"""State of the health node's log: which tickets were accepted, forwarded, charged, settled or refused.

Invariants: a ticket is accepted once and stands for one criteria commitment, and has one manifest; its sample is of a roster that
was numbered before; nothing is forwarded, charged or settled that was not accepted; a settled or refused ticket is closed.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, replace

from broker_common.crypto.signing import VerifyKey
from broker_common.query.refusal import parse_refusal
from broker_common.tlog.entries import (
    DictionaryAdopted,
    Entry,
    Event,
    Forwarded,
    Loaded,
    Refused,
    Relinked,
    ReportedCharge,
    Rostered,
    Settled,
    Submitted,
)
from broker_common.tlog.replay import StoreState


@dataclass(frozen=True, slots=True)
class AcceptedTicket:
    """One ticket and how far it has come."""

    submission: Submitted
    # Hash of the manifest of its sample; empty as long as nothing was sent.
    manifest: str = ""
    # Number of the roster whose places the sample's bits are; 0 as long as nothing was sent.
    roster: int = 0
    charged: bool = False
    settled: bool = False
    refused: str = ""

    @property
    def is_open(self) -> bool:
        return not (self.settled or self.refused)


class HealthState(StoreState):
    """Replay of a health log."""

    role = "health"

    def __init__(
        self,
        identity_key: VerifyKey,
        *,
        tickets: MutableMapping[str, AcceptedTicket] | None = None,
        ticket_of_query: MutableMapping[str, str] | None = None,
    ) -> None:
        """`tickets` and `ticket_of_query`, both empty, are where to keep what grows with the log, if not in memory."""
        super().__init__(identity_key)
        self.tickets: MutableMapping[str, AcceptedTicket] = {} if tickets is None else tickets
        # Accepted and neither settled nor refused, oldest first; small however old the log is.
        self.open_tickets: dict[str, None] = {}
        self._ticket_of_query: MutableMapping[str, str] = {} if ticket_of_query is None else ticket_of_query
        # Every roster that was about to be sent, by number: one for each load.
        self.rosters_sent: dict[int, Rostered] = {}

    def ticket_of_query(self, query: str) -> str | None:
        """The ticket hash that a query id was accepted with."""
        return self._ticket_of_query.get(query)

    def summary(self) -> dict[str, str | int]:
        return {**super().summary(), "load": self.load, "tickets": len(self.tickets)}

    def _take(self, entry: Entry, event: Event) -> None:
        match event:
            case DictionaryAdopted() | Loaded() | Relinked() | Rostered():
                self._take_store(entry, event)
                if isinstance(event, Rostered):
                    self.rosters_sent[event.number] = event
            case Submitted():
                self._require(entry, event.ticket not in self.tickets, "TICKET_REPEATED")
                self._require(entry, event.query not in self._ticket_of_query, "QUERY_REUSED")
                self._require(entry, event.load == self.load != "", "LOAD")
                self._require(entry, self.parties.peer("researcher", event.researcher) is not None, "NOT_REGISTERED")
                self.tickets[event.ticket] = AcceptedTicket(event)
                self.open_tickets[event.ticket] = None
                self._ticket_of_query[event.query] = event.ticket
            case Forwarded():
                ticket = self._open_ticket(entry, event.ticket)
                self._require(entry, not ticket.manifest, "FORWARDED_TWICE")
                self._require(entry, event.roster in self.rosters_sent, "FORWARDED_ROSTER")
                self.tickets[event.ticket] = replace(ticket, manifest=event.manifest, roster=event.roster)
            case ReportedCharge():
                ticket = self._open_ticket(entry, event.ticket)
                self._require(entry, ticket.manifest != "", "CHARGE_WITHOUT_SAMPLE")
                self.tickets[event.ticket] = replace(ticket, charged=True)
            case Settled():
                ticket = self._open_ticket(entry, event.ticket)
                self._require(entry, ticket.charged, "SETTLED_WITHOUT_CHARGE")
                self._close(replace(ticket, settled=True))
            case Refused():
                ticket = self._open_ticket(entry, event.ticket)
                self._require(entry, not ticket.charged, "REFUSED_AFTER_CHARGE")
                self._verify_refusal(entry, event, ticket)
                self._close(replace(ticket, refused=event.code))
            case _:
                self._refuse(entry, "OTHER_LOG")

    def _verify_refusal(self, entry: Entry, event: Refused, ticket: AcceptedTicket) -> None:
        """A sample that was handed over is refused by a signed document about it. The holder of the census log checks who signed."""
        is_unsigned = event.refusal == event.signature == event.key_id == ""
        self._require(entry, is_unsigned == (ticket.manifest == ""), "REFUSAL_UNSIGNED")
        if not ticket.manifest:
            return
        try:
            refusal = parse_refusal(event.refusal.encode())
        except ValueError as error:
            self._refuse(entry, "REFUSAL_DIFFERS", str(error))
        own, submission = self.parties.own, ticket.submission
        agency = "" if own is None else own.card.organisation
        self._require(
            entry,
            (refusal.ticket, refusal.code, refusal.manifest, refusal.roster)
            == (event.ticket, event.code, ticket.manifest, ticket.roster)
            and (refusal.researcher, refusal.project, refusal.health)
            == (submission.researcher, submission.project, agency),
            "REFUSAL_DIFFERS",
        )

    def _close(self, ticket: AcceptedTicket) -> None:
        self.tickets[ticket.submission.ticket] = ticket
        del self.open_tickets[ticket.submission.ticket]

    def _open_ticket(self, entry: Entry, ticket_hash: str) -> AcceptedTicket:
        ticket = self.tickets.get(ticket_hash)
        if ticket is None:
            self._refuse(entry, "UNKNOWN_TICKET")
        self._require(entry, ticket.is_open, "TICKET_CLOSED")
        return ticket
