"""A researcher's hand-in: quotes, tickets and receipts, each verified and compared with both logs.

1. the file is canonical and named as its query, 2. the ticket is signed by a researcher who was registered for its project at
the charge; one that came to nothing may name what was not registered, 3. the quote is signed by the census agency, and the ticket
is what it offers, 4. the receipt is signed by the census agency, is of this ticket, and proves that a charge is in the log; then,
on replay: 5. the charge is what the ticket orders, 6. its noise slot was committed to before, under a checkpoint that a health
agency had cosigned, 7. the quote is what follows from the log at its instant (`quoted`), 8. the health agency accepted the same
criteria, 9. the receipt is of this charge, which was released.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field

from tripartite.v1 import quote_pb2, ticket_pb2

from broker_common.audit import texts
from broker_common.audit.checks.implied import Quotes
from broker_common.audit.checks.quoted import QuotedLog
from broker_common.audit.export.documents import MAX_DOCUMENT_BYTES, RECEIPTS, ReceiptFile, parse_receipt_file
from broker_common.audit.export.reading import Part, UnreadableError
from broker_common.audit.findings import Findings, Report
from broker_common.audit.logs.census_log import CensusLog
from broker_common.audit.logs.health_log import HealthLog
from broker_common.audit.logs.log_audit import ANYBODY, LogAudit
from broker_common.audit.logs.signers import CheckedNote, KnownResearcher, NoteError
from broker_common.crypto.commitments import hash_bytes
from broker_common.crypto.signing import Purpose
from broker_common.errors import BrokerError
from broker_common.query.answer import VerifiedReceipt, verify_receipt
from broker_common.query.messages import parse_message
from broker_common.query.question import spelled_question
from broker_common.query.quote import VerifiedQuote, verify_quote
from broker_common.query.ticket import Researcher, VerifiedTicket, verify_ticket
from broker_common.tlog.census_state import CensusState, ChargedTicket
from broker_common.tlog.merkle import root_from_inclusion
from broker_common.tlog.note import parse_checkpoint
from broker_common.tlog.replay import FORMAT_VERSION, LogState

_LOG = "researcher"
# Deliveries that are compared with what the researcher has; more than there can be under way.
_MOST_UNCONFIRMED = 10_000
# A census node refuses with these when a ticket's researcher, key or project is not registered.
_REFUSED_FOR = frozenset({"UNKNOWN_KEY", "UNKNOWN_PROJECT"})


class ReceiptForms:
    """Steps 1 to 4: what follows from a file and the census log's keys and tree alone."""

    def __init__(self, census: LogAudit[LogState] | LogAudit[CensusState], findings: Findings) -> None:
        self._log = census
        self._findings = findings

    def read(self, part: Part, report: Report) -> None:
        """Every file of a part, in no order, one at a time."""
        count = sum(1 for _ in part.names())
        for done, (name, is_file) in enumerate(part.names()):
            if done % 128 == 0:
                report(done, count)
            shown = self._read(part, name, is_file)
            if shown is not None:
                self._verify(shown)
        report(1, 1)

    def _read(self, part: Part, name: str, is_file: bool) -> ReceiptFile | None:
        # 1
        if not is_file:
            self._findings.problem("FILE_UNUSABLE", _LOG, None, name)
        elif not name.startswith(f"{RECEIPTS}/"):
            self._findings.problem("UNKNOWN_FILE", _LOG, None, name)
        else:
            try:
                shown = parse_receipt_file(part.read(name, MAX_DOCUMENT_BYTES))
            except UnreadableError as error:
                self._findings.problem(error.code, _LOG, None, name)
            except ValueError as error:
                self._findings.problem("DOCUMENT_MALFORMED", _LOG, None, f"{name}, {error}")
            else:
                if shown.name == name:
                    return shown
                self._findings.problem("UNKNOWN_FILE", _LOG, None, name)
        return None

    def _verify(self, shown: ReceiptFile) -> None:
        try:
            signed = shown.signed_ticket
            body = parse_message(ticket_pb2.Ticket, signed.ticket)
        except BrokerError as error:
            self._findings.problem("DOCUMENT_MALFORMED", _LOG, None, f"{shown.name}, the ticket, {error.text}")
            return
        # 2
        ticket = self._verify_ticket(shown, signed, body)
        if bool(shown.receipt) != (shown.state == "answered"):
            self._findings.problem("RECEIPT_STATE", _LOG, None, shown.query)
        if ticket is None:
            return
        # 3
        quote = self._verify_quote(shown, ticket)
        # 4
        receipt = self._verify_receipt(shown, ticket) if shown.receipt else None
        self._reconcile(shown, ticket, quote, receipt)

    def _verify_ticket(
        self, shown: ReceiptFile, signed: ticket_pb2.SignedTicket, body: ticket_pb2.Ticket
    ) -> VerifiedTicket | None:
        known = self._researchers_of(signed.ticket, body)
        came_to_nothing = shown.state != "answered" and not self._is_charged(signed.ticket)
        if not known and (came_to_nothing or not self._log.is_complete):
            # Nothing was asked of the census agency for somebody whom it does not know.
            self._findings.skip(texts.UNKNOWN_RESEARCHERS)
            return None
        name = body.researcher_id
        keys = tuple(dict.fromkeys(key for one, time_ms in known for key in one.ticket_keys(time_ms)))
        projects = frozenset().union(*(one.projects for one, _ in known))
        researchers = {name: Researcher(name, keys, projects)} if known else {}
        try:
            ticket = verify_ticket(signed, researchers=researchers, caller=None)
        except BrokerError as error:
            if came_to_nothing and error.code in _REFUSED_FOR:
                self._findings.skip(texts.UNKNOWN_RESEARCHERS)
            else:
                self._findings.problem("TICKET_UNSIGNED", _LOG, None, f"{shown.query}, {error.text}")
            return None
        if ticket.query_id.hex() != shown.query:
            self._findings.problem("TICKET_DIFFERS", _LOG, None, f"{shown.query}, the ticket is of another query")
            return None
        return ticket

    def _researchers_of(self, ticket: bytes, body: ticket_pb2.Ticket) -> list[tuple[KnownResearcher, int]]:
        """The registrations under which the ticket could be verified, each with a time."""
        del ticket
        ever = self._log.parties.researcher_ever(body.researcher_id)
        return [] if ever is None else [(ever, 0)]

    def _is_charged(self, ticket: bytes) -> bool:
        """False: whether anything came of a ticket is for replay."""
        del ticket
        return False

    def _verify_quote(self, shown: ReceiptFile, ticket: VerifiedTicket) -> VerifiedQuote | None:
        """The quote, if the census agency signed it for this ticket."""
        log = self._log
        try:
            quote = verify_quote(shown.signed_quote, census_keys=log.parties.own.keys(Purpose.ANSWER))
        except BrokerError as error:
            if error.code == "UNKNOWN_KEY" and not log.is_complete:
                self._findings.skip(texts.UNKNOWN_ANSWER_KEYS)
                return None
            if error.code == "UNKNOWN_KEY" and self._is_newer(shown, ticket):
                self._findings.wait("QUOTED", _LOG)
                return None
            code = "DOCUMENT_MALFORMED" if error.code == "MALFORMED_MESSAGE" else "QUOTE_UNSIGNED"
            self._findings.problem(code, _LOG, None, f"{shown.query}, {error.text}")
            return None
        differing = quote.differing(ticket.body)
        if differing:
            self._findings.problem("QUOTE_DIFFERS", _LOG, None, f"{shown.query}, {', '.join(differing)}")
            return None
        return quote

    def _is_newer(self, shown: ReceiptFile, ticket: VerifiedTicket) -> bool:
        """Whether a quote says that it was told after all that the census log says: it may name a key of later."""
        try:
            told_ms = parse_message(quote_pb2.Quote, shown.signed_quote.quote).told_ms
        except BrokerError:
            return False
        times = self._log.times
        return not self._is_charged(ticket.signed_bytes) and (not len(times) or times[len(times) - 1] < told_ms)

    def _verify_receipt(self, shown: ReceiptFile, ticket: VerifiedTicket) -> VerifiedReceipt | None:
        log = self._log
        try:
            receipt = verify_receipt(
                shown.signed_receipt, ticket_hash=ticket.hash, census_keys=log.parties.own.keys(Purpose.ANSWER)
            )
        except BrokerError as error:
            if error.code == "UNKNOWN_KEY" and not log.is_complete:
                self._findings.skip(texts.UNKNOWN_ANSWER_KEYS)
                return None
            code = "DOCUMENT_MALFORMED" if error.code == "MALFORMED_MESSAGE" else "RECEIPT_UNSIGNED"
            self._findings.problem(code, _LOG, None, f"{shown.query}, {error.text}")
            return None
        body = receipt.body
        try:
            checkpoint = log.verify_past(body.checkpoint).checkpoint
        except NoteError as error:
            log.report(error, _LOG, None, f"the receipt of {shown.query}")
            return None
        try:
            root = root_from_inclusion(body.entry, body.log_index, checkpoint.size, body.inclusion_proof)
        except ValueError:
            root = b""
        if root != checkpoint.root:
            self._findings.problem("RECEIPT_NOT_INCLUDED", _LOG, None, shown.query)
            return None
        return receipt

    def _reconcile(
        self,
        shown: ReceiptFile,
        ticket: VerifiedTicket,
        quote: VerifiedQuote | None,
        receipt: VerifiedReceipt | None,
    ) -> None:
        """Nothing: what they say is for replay."""


@dataclass(slots=True)
class _Researcher:
    """The hand-in of one researcher."""

    # How long the census log was when the researcher last had an answer.
    seen_size: int = 0
    # Questions without a receipt whose answers the census log calls delivered, by the entry that says so.
    unconfirmed: list[tuple[int, str]] = field(default_factory=list)


class Receipts(ReceiptForms):
    """Steps 1 to 9."""

    def __init__(
        self,
        census: CensusLog,
        health: HealthLog | None,
        answers: MutableMapping[str, str],
        quotes: Quotes,
        quoted: QuotedLog,
        findings: Findings,
    ) -> None:
        super().__init__(census.audit, findings)
        self._quotes = quotes
        self._quoted = quoted
        # Charged tickets that were handed in.
        self.charged = 0
        # The answer hash of each ticket's receipt.
        self.answers = answers
        self._census = census
        self._health = health
        self._researchers: dict[str, _Researcher] = {}

    def finish(self) -> None:
        """Report the findings that need the whole hand-in."""
        for researcher in self._researchers.values():
            for entry, query in researcher.unconfirmed:
                if entry < researcher.seen_size:
                    # The one may have delivered nothing, the other may show less than it has.
                    self._findings.problem(
                        "DELIVERY_UNCONFIRMED", "", None, f"query {query}, entry {entry} of the census log"
                    )
                else:
                    self._findings.wait("UNCONFIRMED", _LOG)

    def _researchers_of(self, ticket: bytes, body: ticket_pb2.Ticket) -> list[tuple[KnownResearcher, int]]:
        charged = self._charged(ticket)
        if charged is None:
            return super()._researchers_of(ticket, body)
        # It was verified some time after the checkpoint that it names, and before it was charged.
        try:
            size = parse_checkpoint(body.noise_slot.checkpoint).size
        except ValueError:
            size = charged.index
        log = self._census.audit
        entries = (min(max(size - 1, 0), charged.index), charged.index)
        known = [(log.parties.researcher(body.researcher_id, entry), log.times[entry]) for entry in entries]
        return [(one, time_ms) for one, time_ms in known if one is not None]

    def _is_charged(self, ticket: bytes) -> bool:
        return self._charged(ticket) is not None

    def _charged(self, ticket: bytes) -> ChargedTicket | None:
        return self._census.audit.state.tickets.get(hash_bytes(ticket).hex())

    def _reconcile(
        self,
        shown: ReceiptFile,
        ticket: VerifiedTicket,
        quote: VerifiedQuote | None,
        receipt: VerifiedReceipt | None,
    ) -> None:
        charged = self._charged(ticket.signed_bytes)
        if charged is None:
            checked = self._take_uncharged(ticket)
            if quote is not None and checked is not None:
                self._judge(quote, checked, ticket, None)
            if receipt is not None and self._census.audit.is_complete:
                self._findings.problem("ANSWER_NOT_CHARGED", _LOG, None, shown.query)
            return
        self.charged += 1
        self._compare_charge(ticket, charged)  # 5
        checked = self._compare_slot(ticket, charged)  # 6
        if quote is not None and checked is not None:
            self._judge(quote, checked, ticket, charged.index)  # 7
        self._compare_criteria(ticket)  # 8
        researcher = self._researchers.setdefault(ticket.body.researcher_id, _Researcher())
        if receipt is not None:
            self._compare_receipt(receipt, charged)  # 9
            self.answers[ticket.hash.hex()] = receipt.body.answer_hash.hex()
            researcher.seen_size = max(researcher.seen_size, receipt.body.log_index + 1)
        elif charged.delivered and not shown.receipt and len(researcher.unconfirmed) < _MOST_UNCONFIRMED:
            researcher.unconfirmed.append((self._census.delivered_at[ticket.hash.hex()], shown.query))

    def _compare_charge(self, ticket: VerifiedTicket, charged: ChargedTicket) -> None:
        body, charge, state = ticket.body, charged.charge, self._census.audit.state
        differing = [
            what
            for what, ordered, done in (
                ("query", ticket.query_id.hex(), charge.query),
                ("researcher", body.researcher_id, charge.researcher),
                ("question", spelled_question(body.question).text, charge.question),
                ("scale", body.scale, charge.scale),
                ("slot", body.noise_slot.number, charge.slot),
                ("policy", body.policy_hash.hex(), charged.policy_hash),
                ("release", body.census_release, self._census.release_of(charge.load)),
                ("census dictionary", *_dictionaries(body.census_dictionary, state, charge.load, charged.index)),
            )
            if ordered != done
        ]
        if differing:
            self._findings.problem("TICKET_DIFFERS", "census", charged.index, ", ".join(differing))

    def _compare_slot(self, ticket: VerifiedTicket, charged: ChargedTicket) -> CheckedNote | None:
        """The checkpoint that the ticket names, if its slot was committed to as it should."""
        slot = ticket.body.noise_slot
        committed = self._census.slot(slot.number)
        if committed is None or committed[1] != slot.commitment.hex():
            self._findings.problem("SLOT_WRONG", "census", charged.index)
            return None
        try:
            checked = self._census.audit.verify_past(slot.checkpoint, cosigned_by=ANYBODY)
        except NoteError as error:
            self._census.audit.report(error, "census", charged.index, "in the ticket")
            return None
        self._quotes.take(checked, ticket.hash.hex(), is_charged=True)
        if not committed[0] < checked.checkpoint.size <= charged.index:
            self._findings.problem("SLOT_LATE", "census", charged.index)
            return None
        return checked

    def _judge(
        self, quote: VerifiedQuote, checked: CheckedNote, ticket: VerifiedTicket, charged_at: int | None
    ) -> None:
        found = self._quoted.problems(quote.body, covered=checked.checkpoint.size, charged_at=charged_at)
        if found is None:
            self._findings.wait("QUOTED", _LOG)
            return
        slot = quote.body.noise_slot
        committed = self._census.slot(slot.number)
        if committed is None or committed[1] != slot.commitment.hex() or committed[0] >= checked.checkpoint.size:
            found.append(("QUOTE_WRONG", "slot"))
        for code, what in found:
            self._findings.problem(code, "census", charged_at, f"query {ticket.query_id.hex()}: {what}")

    def _take_uncharged(self, ticket: VerifiedTicket) -> CheckedNote | None:
        """The checkpoint that the ticket names, if it is one that says something."""
        try:
            checked = self._census.audit.verify_past(ticket.body.noise_slot.checkpoint, cosigned_by=ANYBODY)
        except NoteError as error:
            if error.code in {"LOG_BEHIND", "SPLIT_VIEW"}:
                self._census.audit.report(error, _LOG, None, f"query {ticket.query_id.hex()}")
            # Anything else that a ticket names proves nothing: it was refused for it.
            return None
        self._quotes.take(checked, ticket.hash.hex(), is_charged=False)
        return checked

    def _compare_criteria(self, ticket: VerifiedTicket) -> None:
        accepted = None if self._health is None else self._health.audit.state.tickets.get(ticket.hash.hex())
        if accepted is not None and accepted.submission.criteria != ticket.body.criteria_commitment.hex():
            self._findings.problem("TICKET_DIFFERS", "health", None, f"criteria, {ticket.query_id.hex()}")
        if accepted is not None and ticket.body.health_dictionary:
            assert self._health is not None  # noqa: S101 - it has accepted the ticket
            under = self._health.audit.state.dictionaries[accepted.submission.load]
            if ticket.body.health_dictionary.hex() != under:
                self._findings.problem("TICKET_DIFFERS", "health", None, f"health dictionary, {ticket.query_id.hex()}")

    def _compare_receipt(self, receipt: VerifiedReceipt, charged: ChargedTicket) -> None:
        body, charge = receipt.body, charged.charge
        differing = [
            what
            for what, said, done in (
                ("query", body.query_id.hex(), charge.query),
                ("scale", body.scale, charge.scale),
                ("charge", body.charged, charge.units),
                ("policy", body.policy_hash.hex(), charged.policy_hash),
                ("place", body.log_index, charged.index),
            )
            if said != done
        ]
        if differing:
            self._findings.problem("RECEIPT_DIFFERS", "census", charged.index, ", ".join(differing))
        if not charged.answer and self._census.audit.is_complete:
            self._findings.problem("ANSWER_NOT_RELEASED", "census", charged.index)


def _dictionaries(named: bytes, state: CensusState, load: str, charged_at: int) -> tuple[str, str]:
    """The dictionaries that a ticket names, and those that it has to name: none if it was charged before tickets named any."""
    began = state.began.get(FORMAT_VERSION)
    is_before = not named and (began is None or charged_at < began)
    return named.hex(), "" if is_before else state.dictionaries[load]
