"""State of the census node's log: the policy in force, charges, releases, and whether the service is shut down.

Ledger invariants held here (DESIGN 5): a release has a charge before it; under strict accounting the sum of charges never passes the cap; one ticket has one charge and one answer; nothing is charged
while the service is shut down, while answers charged before still go out; no more answers of one researcher count at one time than the policy's quota. No log has the charges of single persons: the
ledger of persons is the census node's own, and starts for everybody with the charges of strict accounting. Nothing lowers a charge: neither a policy nor a reopening. A reopening and a policy that
protects, proves or serves less than the one before take an order that the operator signed for this very entry. An answer that nobody fetched is kept as long as the policy under which it was released
promised.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field, replace

from broker_common.crypto.signing import Purpose, VerifyKey, key_named
from broker_common.errors import InvalidRequestError
from broker_common.privacy.accounting import any_fits, price
from broker_common.privacy.policy import Policy, Subject, Weakness, parse_signed_policy
from broker_common.query.question import read_question
from broker_common.tlog.entries import (
    Adopted,
    Charged,
    Delivered,
    DictionaryAdopted,
    Entry,
    Event,
    Expired,
    Loaded,
    Released,
    Relinked,
    Reopened,
    Rostered,
    Shutdown,
    Slots,
)
from broker_common.tlog.note import parse_note
from broker_common.tlog.orders import Act, Order
from broker_common.tlog.replay import ReplayError, StoreState


@dataclass(slots=True)
class AnswerQuota:
    """The answers that count against the policy's `researcher_answers`, by researcher.

    An answer counts from its charge until `sample_retention_ms` after its release; one that can never be made is never out, and
    counts for ever. SECURITY: the end follows from the release, which everybody sees; when a charge was made depends on work.
    Answers that were charged while there was no quota do not count: no more are remembered than the largest quota there was.
    """

    # Charged and not out: by ticket, its researcher and the retention that was in force at the charge.
    _not_out: dict[str, tuple[str, int]] = field(default_factory=dict)
    # Released: by researcher, until when each answer counts, ascending.
    _until: dict[str, list[int]] = field(default_factory=dict)

    def charge(self, ticket: str, researcher: str, retention_ms: int) -> None:
        self._not_out[ticket] = (researcher, retention_ms)

    def release(self, ticket: str, time_ms: int) -> None:
        """The answer is out: it counts for its retention from now on. Nothing happens if it does not count at all."""
        held = self._not_out.pop(ticket, None)
        if held is None:
            return
        researcher, retention_ms = held
        until = self._until.setdefault(researcher, [])
        del until[: bisect_right(until, time_ms)]
        insort(until, time_ms + retention_ms)

    def counted(self, researcher: str, time_ms: int) -> int:
        return self._waiting(researcher) + len(self._later(researcher, time_ms))

    def free_at(self, researcher: str, time_ms: int, most: int) -> int | None:
        """When fewer than `most` count if nothing more is asked; None where that depends on answers that are not out."""
        later = self._later(researcher, time_ms)
        surplus = self._waiting(researcher) + len(later) - most + 1
        if surplus <= 0:
            return time_ms
        return later[surplus - 1] if surplus <= len(later) else None

    def _waiting(self, researcher: str) -> int:
        return sum(each == researcher for each, _ in self._not_out.values())

    def _later(self, researcher: str, time_ms: int) -> list[int]:
        until = self._until.get(researcher, [])
        return until[bisect_right(until, time_ms) :]


# A serving node logs these without an operator's order; an expiry has to come after its instant.
_OF_THE_SERVICE = (Charged, Delivered, Released, Rostered, Slots)


@dataclass(frozen=True, slots=True)
class ChargedTicket:
    """One charged ticket and how far its answer has come."""

    charge: Charged
    # Where the charge stands in the log, and the policy that was in force there.
    index: int
    policy_hash: str
    # Hash of the released sealed answer; empty before the release.
    answer: str = ""
    # Until when the released answer is kept for its researcher: release time and the retention then in force.
    kept_until_ms: int = 0
    delivered: bool = False
    # Removed without having been delivered.
    expired: bool = False


class CensusState(StoreState):
    """Replay of a census log."""

    role = "census"

    def __init__(
        self,
        identity_key: VerifyKey,
        *,
        tickets: MutableMapping[str, ChargedTicket] | None = None,
        ticket_of_query: MutableMapping[str, str] | None = None,
    ) -> None:
        """`tickets` and `ticket_of_query`, both empty, are where to keep what grows with the log, if not in memory."""
        super().__init__(identity_key)
        self.policy: Policy | None = None
        self.adopted: Adopted | None = None
        # Who the budgets are for: whom the policy named when the first answer was charged.
        self.subject: Subject | None = None
        # Units of all answers, and of those that charged everybody, as strict accounting does.
        self.charged_units = 0
        self.common_units = 0
        self.shut_down = False
        # While it is shut down: `budget` or `operator`; otherwise empty.
        self.shutdown_reason = ""
        # The words of that shutdown, and when it was.
        self.shutdown_note = ""
        self.shutdown_ms = 0
        # Charged tickets by ticket hash.
        self.tickets: MutableMapping[str, ChargedTicket] = {} if tickets is None else tickets
        # Charged and not released; released, not delivered and not expired. Ordered, small however old the log is.
        self.unreleased: dict[str, None] = {}
        self.undelivered: dict[str, None] = {}
        self._ticket_of_query: MutableMapping[str, str] = {} if ticket_of_query is None else ticket_of_query
        self.quota = AnswerQuota()
        # The first noise slot that nobody has committed to yet.
        self.next_slot = 0
        # Slots that may still serve a ticket, with the hex commitments to their secrets.
        self.open_slots: dict[int, str] = {}
        # True between the charge, or the policy, after which nothing fits, and the shutdown that must follow.
        self._must_shut_down = False

    @property
    def must_shut_down(self) -> bool:
        """True when the next entry must be a shutdown, because nothing fits any more."""
        return self._must_shut_down

    @property
    def everyones_units(self) -> int:
        """Sum of the charges that everybody bears under the policy in force, no matter who was in which sample."""
        return self.charged_units if self.policy is None else self.everyones_units_under(self.policy)

    def everyones_units_under(self, policy: Policy) -> int:
        """The same if this policy were in force.

        SECURITY: strict accounting counts every answer there ever was, those under per-person accounting included.
        """
        return self.charged_units if policy.accounting == "strict" else self.common_units

    @property
    def anything_fits(self) -> bool:
        """True when the policy in force admits one more answer."""
        return self.policy is not None and self.anything_fits_under(self.policy)

    def anything_fits_under(self, policy: Policy) -> bool:
        """Whether this policy, if it were in force, would admit one more answer: a scale fits, and it allows more answers.

        SECURITY: what single persons were charged has no part in it. That they are exhausted shuts nothing down.
        """
        if 0 < policy.max_answers <= self.answers:
            return False
        return any_fits(policy.cap, self.everyones_units_under(policy), policy.scales)

    def order(self, act: Act, note: str, *, adopting: Policy | None = None) -> Order:
        """The document that the operator has to sign so that the next entry of this log may do `act`."""
        policy = self.policy_hash if adopting is None else adopting.hash.hex()
        return Order(act=act, log=self.origin, note=note, policy=policy, sequence=self.size)

    def time_of(self, event: Event, now_ms: int) -> int:
        # SECURITY: at the last tick, so that no entry's time says when something was ready. Operators' orders have their own time.
        tick_ms = self.policy.release_tick_ms if self.policy is not None and isinstance(event, _OF_THE_SERVICE) else 0
        return super().time_of(event, now_ms - now_ms % tick_ms if tick_ms else now_ms)

    @property
    def answers(self) -> int:
        """How many answers were charged."""
        return len(self.tickets)

    def ticket_of_query(self, query: str) -> str | None:
        """The ticket hash that a query id was charged for."""
        return self._ticket_of_query.get(query)

    def summary(self) -> dict[str, str | int]:
        return {
            **super().summary(),
            "answers": self.answers,
            "charged_units": self.charged_units,
            "common_units": self.common_units,
            "load": self.load,
            "shut_down": int(self.shut_down),
        }

    def apply(self, entry: Entry) -> None:
        self._require(entry, not self._must_shut_down or isinstance(entry.event, Shutdown), "SHUTDOWN_MISSING")
        super().apply(entry)

    def _take(self, entry: Entry, event: Event) -> None:
        match event:
            case Adopted():
                self._adopt(entry, event)
            case DictionaryAdopted() | Loaded() | Relinked() | Rostered():
                self._take_store(entry, event)
            case Slots():
                self._commit_slots(entry, event)
            case Charged():
                self._charge(entry, event)
            case Released():
                self._release(entry, event)
            case Delivered():
                self._deliver(entry, event)
            case Expired():
                self._expire(entry, event)
            case Shutdown():
                self._shut_down(entry, event)
            case Reopened():
                self._reopen(entry, event)
            case _:
                self._refuse(entry, "OTHER_LOG")

    def _adopt(self, entry: Entry, event: Adopted) -> None:
        try:
            key = self._own_key(entry, Purpose.POLICY, event.key_id)
            policy = parse_signed_policy(event.document.encode(), event.signature, key)
        except InvalidRequestError as error:
            self._refuse(entry, "POLICY_INVALID", str(error))
        weaker = () if self.policy is None else policy.weakens(self.policy)
        if not weaker:
            unasked = (event.note, event.confirmation, event.confirmation_key_id)
            self._require(entry, not any(unasked), "ORDER_UNASKED")
        else:
            self._verify_confirmed(entry, event, policy, weaker)
        # SECURITY: what was charged to persons says nothing of what their households were counted for, nor the other way round.
        self._require(entry, self.subject in {None, policy.subject}, "SUBJECT_FIXED")
        before = policy if self.policy is None or not self.load else self.policy
        self._require(entry, policy.linkage == before.linkage, "LINKAGE_FIXED")
        self.policy, self.policy_hash, self.adopted = policy, policy.hash.hex(), event
        # A service that is shut stays shut; a policy alone never reopens it.
        self._must_shut_down = not self.shut_down and not self.anything_fits

    def _verify_confirmed(self, entry: Entry, event: Adopted, policy: Policy, weaker: Sequence[Weakness]) -> None:
        order = self.order("adopt", event.note, adopting=policy)
        try:
            self._verify_order(entry, order, event.confirmation, event.confirmation_key_id)
        except ReplayError as error:
            sentences = "; ".join(weakness.text for weakness in weaker)
            self._refuse(entry, weaker[0].code, f"{sentences}; the operator did not confirm it: {error.text}")

    def _shut_down(self, entry: Entry, event: Shutdown) -> None:
        self._require(entry, not self.shut_down, "SHUTDOWN_REPEATED")
        self._require(entry, (event.reason == "budget") == self._must_shut_down, "SHUTDOWN_REASON")
        if event.reason == "budget":
            unasked = (event.note, event.signature, event.key_id)
            self._require(entry, not any(unasked), "ORDER_UNASKED")
        else:
            self._verify_order(entry, self.order("shutdown", event.note), event.signature, event.key_id)
        self.shut_down, self._must_shut_down = True, False
        self.shutdown_reason, self.shutdown_note, self.shutdown_ms = event.reason, event.note, entry.time_ms

    def _reopen(self, entry: Entry, event: Reopened) -> None:
        self._require(entry, self.shut_down, "REOPENED_WHILE_OPEN")
        self._require(entry, self.anything_fits, "NOTHING_FITS")
        self._verify_order(entry, self.order("reopen", event.note), event.signature, event.key_id)
        self.shut_down, self.shutdown_reason, self.shutdown_note, self.shutdown_ms = False, "", "", 0

    def _verify_order(self, entry: Entry, order: Order, signature: str, key_id: str) -> None:
        # SECURITY: the order is made here, from this log and this place in it, so that no other one can stand in for it.
        self._require(entry, order.note != "", "ORDER_WITHOUT_REASON")
        try:
            self._own_key(entry, Purpose.OPERATOR, key_id).verify_text(order.document, signature)
        except InvalidRequestError as error:
            self._refuse(entry, "ORDER_INVALID", str(error))

    def _own_key(self, entry: Entry, purpose: Purpose, key_id: str) -> VerifyKey:
        """The agency's own key of this name, which is honoured at the time of the entry."""
        return key_named(self.parties.own_keys(purpose, entry.time_ms), key_id, subject=purpose.value)

    def _charge(self, entry: Entry, event: Charged) -> None:
        policy = self.policy
        if policy is None:
            self._refuse(entry, "CHARGE_WITHOUT_POLICY")
        self._require(entry, not self.shut_down, "CHARGE_AFTER_SHUTDOWN")
        self._require(
            entry,
            self.parties.peer("researcher", event.researcher) is not None
            and self.parties.peer("health", event.health) is not None,
            "NOT_REGISTERED",
        )
        self._require(entry, event.load == self.load != "", "CHARGE_LOAD")
        self._require(entry, self._is_rostered(event), "CHARGE_ROSTER")
        cells = self._cells(entry, event)
        self._require(entry, event.scale in policy.scales, "SCALE")
        self._require(entry, event.units == price(event.scale, cells=cells), "CHARGE_WRONG")
        strict, total = policy.accounting == "strict", self.charged_units + event.units
        self._require(entry, self.everyones_units + event.units <= policy.cap, "CAP_PASSED")
        self._require(entry, strict == (not event.ledger), "LEDGER_UNNAMED")
        self._require(entry, event.total == total, "TOTAL_WRONG")
        self._require(entry, event.ticket not in self.tickets, "TICKET_CHARGED_TWICE")
        self._require(entry, event.query not in self._ticket_of_query, "QUERY_REUSED")
        self._require(entry, event.slot in self.open_slots, "SLOT_NOT_OPEN")
        if policy.quota:
            self._require(entry, self.quota.counted(event.researcher, entry.time_ms) < policy.quota, "QUOTA_PASSED")
            self.quota.charge(event.ticket, event.researcher, policy.sample_retention_ms)
        self.subject = policy.subject
        self.tickets[event.ticket] = ChargedTicket(event, entry.sequence, self.policy_hash)
        self.unreleased[event.ticket] = None
        self._ticket_of_query[event.query] = event.ticket
        del self.open_slots[event.slot]
        self.charged_units = total
        if strict:
            self.common_units += event.units
        self._must_shut_down = not self.anything_fits

    def _is_rostered(self, event: Charged) -> bool:
        roster = self.rosters.get(event.health)
        # SECURITY: of another chain than the load's it would name nobody who is in the load.
        return roster is not None and (roster.number, roster.linkage) == (event.roster, self.linkage)

    def _cells(self, entry: Entry, event: Charged) -> int:
        try:
            return len(read_question(event.question).cells)
        except ValueError as error:
            self._refuse(entry, "QUESTION", str(error))

    def _commit_slots(self, entry: Entry, event: Slots) -> None:
        self._require(entry, event.first == self.next_slot, "SLOT_SKIPPED", f"slot {self.next_slot} is the next one")
        self._require(entry, event.void_below <= event.first, "SLOT_VOID")
        for slot in [slot for slot in self.open_slots if slot < event.void_below]:
            del self.open_slots[slot]
        self.open_slots.update(enumerate(event.commitments, start=event.first))
        self.next_slot = event.first + len(event.commitments)

    def _release(self, entry: Entry, event: Released) -> None:
        ticket = self.tickets.get(event.ticket)
        if ticket is None:
            self._refuse(entry, "RELEASE_WITHOUT_CHARGE")
        self._require(entry, not ticket.answer, "RELEASED_TWICE")
        self._verify_covered(entry, event.checkpoint, ticket.index)
        assert self.policy is not None  # noqa: S101 - there was one at the charge
        kept_until_ms = entry.time_ms + self.policy.answer_retention_ms
        self.tickets[event.ticket] = replace(ticket, answer=event.answer, kept_until_ms=kept_until_ms)
        del self.unreleased[event.ticket]
        self.undelivered[event.ticket] = None
        self.quota.release(event.ticket, entry.time_ms)

    def _verify_covered(self, entry: Entry, note: str, index: int) -> None:
        """The checkpoint is one of this log after the charge. The holder of the tree checks its root and its signatures."""
        try:
            checkpoint, _ = parse_note(note)
        except InvalidRequestError as error:
            self._refuse(entry, "RELEASE_NOT_COSIGNED", error.text)
        self._require(
            entry,
            checkpoint.origin == self.origin and index < checkpoint.size <= entry.sequence,
            "RELEASE_NOT_COSIGNED",
        )

    def _deliver(self, entry: Entry, event: Delivered) -> None:
        ticket = self.tickets.get(event.ticket)
        if ticket is None or not ticket.answer:
            self._refuse(entry, "DELIVERY_WITHOUT_RELEASE")
        self._require(entry, not ticket.delivered, "DELIVERED_TWICE")
        self._require(entry, not ticket.expired, "DELIVERY_AFTER_EXPIRY")
        self.tickets[event.ticket] = replace(ticket, delivered=True)
        del self.undelivered[event.ticket]

    def _expire(self, entry: Entry, event: Expired) -> None:
        ticket = self.tickets.get(event.ticket)
        if ticket is None or not ticket.answer:
            self._refuse(entry, "EXPIRY_WITHOUT_RELEASE")
        self._require(entry, not ticket.expired, "EXPIRED_TWICE")
        self._require(entry, not ticket.delivered, "EXPIRY_AFTER_DELIVERY")
        self._require(entry, entry.time_ms >= ticket.kept_until_ms, "EXPIRED_EARLY")
        self.tickets[event.ticket] = replace(ticket, expired=True)
        del self.undelivered[event.ticket]
