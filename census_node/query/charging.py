"""The charge: one transaction that makes an answer paid for, before anything that depends on language is computed.

    decide who is active -> keep sample and decision in a file (flushed) -> log entry, ledger row and pending answer (one transaction)
        -> the ledger in memory

Strict accounting: one counter for the whole service, in the log's own state; every answer charges everyone, and everyone who is linked is
counted. Per-person accounting: the ledger says who of the sample still fits. The charge after which nothing fits any more carries the
shutdown in the same transaction. All of it is done at the desk: nobody else charges meanwhile, and what it takes has one size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from broker_common.crypto.commitments import SALT_BYTES, commit_active
from broker_common.errors import InvalidRequestError, RefusedError
from broker_common.privacy.accounting import price
from broker_common.privacy.policy import Policy
from broker_common.query.ticket import VerifiedTicket
from broker_common.storage.journal import Journal
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Charged, Shutdown
from broker_common.tracing import span
from broker_common.values import Randomness
from census_node.ledger.book import Decided, LedgerBook, room_for
from census_node.ledger.passes import People
from census_node.ledger.samples import KeptSample, SampleFolder
from census_node.ledger.steps import LedgerSteps, Step
from census_node.query.admission import AdmittedSample, SampleAttempt
from census_node.query.budget import verify_affordable, verify_quota
from census_node.query.flow import Charge, Claim
from census_node.release.outbox import Outbox, Pending

# BUSY asks the health node to wait this long; it tries again by itself.
_RETRY_SECONDS = 1


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """Who of a sample is active, and the file that holds both."""

    decided: Decided
    # Its reference: name and key.
    file: str
    # The commitment to who is active.
    active: bytes


def price_of(sample: AdmittedSample) -> int:
    """The price of one answer to its question, in units."""
    return price(sample.ticket.body.scale, cells=len(sample.question.cells))


class Keeping:
    """Decides, and keeps samples until they are forgotten."""

    def __init__(
        self,
        journal: Journal[CensusState],
        book: LedgerBook,
        samples: SampleFolder,
        people: Callable[[str], People],
        randomness: Randomness,
    ) -> None:
        """`people` are those of a load."""
        self._journal = journal
        self._book = book
        self._samples = samples
        self._people = people
        self._randomness = randomness

    def keep(self, attempt: SampleAttempt) -> Kept:
        sample = attempt.sample
        with self._journal.reading() as state:
            room = room_for(state, price_of(sample))
        roster, bits = sample.roster, sample.bits
        with span("deciding"):
            # SECURITY: subjects that do not fit are dropped without a word. From here on nothing depends on how many they are.
            people = self._people(roster.load)
            decided = self._book.decide(bits.bits, roster.cards, people, room)
        salt = self._randomness(SALT_BYTES)
        with span("keeping"):
            kept = KeptSample(bits.salt, salt, bits.bits, decided.active, people.person_count)
            file = self._samples.write(kept, self._randomness)
        return Kept(decided, file, commit_active(salt, sample.ticket.hash, decided.active.data))

    def forget(self, kept: Kept) -> None:
        self._samples.wipe(kept.file)


class Charging:
    """Who was charged for what."""

    def __init__(
        self,
        journal: Journal[CensusState],
        book: LedgerBook,
        *,
        verify_answerable: Callable[[], object],
        verify_dictionary: Callable[[VerifiedTicket], object],
        spend: Callable[[int], object],
    ) -> None:
        """`verify_answerable` raises while no answer could be made, `verify_dictionary` unless the load in force is under the ticket's.

        `spend` is told of a slot that serves nobody else any more.
        """
        self._journal = journal
        self._book = book
        self._verify_answerable = verify_answerable
        self._verify_dictionary = verify_dictionary
        self._spend = spend

    def charge_of(self, claim: Claim) -> Charge | None:
        with self._journal.reading() as state:
            ticket = state.tickets.get(claim.ticket_hash)
        if ticket is None:
            return None
        if ticket.charge.submitted != claim.set_commitment.hex():
            raise InvalidRequestError("TICKET_REUSED")
        return Charge(ticket.charge.health, claim.ticket_hash, ticket.index)

    def charge(self, attempt: SampleAttempt, kept: Kept, *, at_ms: int) -> Charge:
        sample = attempt.sample
        ticket_hash = sample.ticket.hash
        # Before the charge: without this key there would be no answer for it.
        self._verify_answerable()
        place = 0
        with span("charging"), self._journal.transaction() as transaction:
            state = transaction.state
            policy = _verify_still_good(state, sample, max(at_ms, state.time_ms))
            # SECURITY: the answer is counted under the dictionary of this load, whose values may be other ones.
            self._verify_dictionary(sample.ticket)
            step = self._book.step(
                transaction,
                kept.decided,
                ticket_hash=ticket_hash,
                submitted=sample.set_commitment,
                active=kept.active,
                file=kept.file,
            )
            entry = transaction.append(_charged(state, sample, kept, step), at_ms=at_ms)
            Outbox(transaction.db).put_pending(_pending(sample, kept))
            if step is not None:
                kept_until_ms = entry.time_ms + policy.sample_retention_ms
                place = LedgerSteps(transaction.db).put(replace(step, kept_until_ms=kept_until_ms))
            if state.must_shut_down:
                transaction.append(Shutdown(reason="budget", note=""), at_ms=at_ms)
            # CRASH: if the commit that follows is lost, nothing happened; if it stands, the next start makes the answer.
        self._book.charged(kept.decided, step, place)
        self._spend(sample.ticket.body.noise_slot.number)
        return Charge(sample.agency, ticket_hash.hex(), entry.sequence)


def _verify_still_good(state: CensusState, sample: AdmittedSample, now_ms: int) -> Policy:
    """The policy in force, if what was good at admission is good still.

    An operator may have adopted a policy, loaded or relinked a registry, or revoked somebody since.
    """
    ticket, body = sample.ticket, sample.ticket.body
    if state.shut_down:
        raise RefusedError("SERVICE_SHUT_DOWN")
    verify_affordable(state, body.scale)
    assert state.policy is not None  # noqa: S101 - verify_affordable has seen it
    before = state.tickets.get(ticket.hash.hex())
    if before is not None and before.charge.submitted == sample.set_commitment.hex():
        # Another process charged it since the desk looked: its agency tries again, and hears of that charge.
        raise RefusedError("BUSY", retry_seconds=_RETRY_SECONDS)
    if state.ticket_of_query(ticket.query_id.hex()) is not None:
        raise InvalidRequestError("TICKET_REUSED")
    researcher = state.parties.peer("researcher", body.researcher_id)
    if researcher is None:
        raise InvalidRequestError("UNKNOWN_RESEARCHER", researcher=body.researcher_id)
    if body.project_id not in researcher.projects:
        raise InvalidRequestError("UNKNOWN_PROJECT", project=body.project_id, researcher=body.researcher_id)
    if state.parties.peer("health", sample.agency) is None:
        raise InvalidRequestError("WRONG_ORGANISATION", subject="sample")
    ticket.verify_policy(state.policy.hash)
    ticket.verify_release(state.release)
    roster = state.rosters.get(sample.agency)
    if roster is None or roster.number != sample.roster.number:
        raise InvalidRequestError("ROSTER_NOT_IN_FORCE")
    if state.open_slots.get(body.noise_slot.number) != body.noise_slot.commitment.hex():
        raise InvalidRequestError("SLOT_UNUSABLE")
    # Decided when it got its place in line: it fails only if the clock went back since.
    verify_quota(state, body.researcher_id, now_ms)
    return state.policy


def _charged(state: CensusState, sample: AdmittedSample, kept: Kept, step: Step | None) -> Charged:
    body, units = sample.ticket.body, price_of(sample)
    return Charged(
        query=sample.ticket.query_id.hex(),
        ticket=sample.ticket.hash.hex(),
        slot=body.noise_slot.number,
        scale=body.scale,
        units=units,
        question=sample.question.text,
        researcher=body.researcher_id,
        project=body.project_id,
        health=sample.agency,
        load=kept.decided.load,
        roster=sample.roster.number,
        manifest=sample.manifest_hash.hex(),
        submitted=sample.set_commitment.hex(),
        active=kept.active.hex(),
        ledger="" if step is None else step.digest.hex(),
        total=state.charged_units + units,
    )


def _pending(sample: AdmittedSample, kept: Kept) -> Pending:
    slot = sample.ticket.body.noise_slot
    return Pending(
        ticket_hash=sample.ticket.hash.hex(),
        signed_ticket=sample.ticket.signed_bytes,
        load=kept.decided.load,
        roster=sample.roster.number,
        sample=kept.file,
        slot=slot.number,
        slot_commitment=slot.commitment,
    )
