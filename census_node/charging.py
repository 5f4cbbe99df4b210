"""The charge: one transaction that makes an answer paid for, before anything that depends on language is computed.

Strict accounting: one counter for the whole service, in the log's own state; every answer charges everyone. Per-person
accounting: the ledgers of persons say who of the sample still fits; a row of their history goes with the log entry. The
charge after which nothing fits any more carries the shutdown in the same transaction. The transaction writes a few bits for
each person and no pseudonym.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from broker_common.crypto.commitments import SALT_BYTES, commit_charge, commit_set, hash_set
from broker_common.errors import InvalidRequestError, RefusedError
from broker_common.privacy.accounting import answers_left, fits, price_units
from broker_common.privacy.policy import Policy
from broker_common.storage.journal import Journal, Transaction
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Charged, Shutdown
from broker_common.values import Randomness
from census_node.admission import AdmittedSample, verify_linkage
from census_node.ledger_book import LedgerBook
from census_node.ledger_steps import LedgerSteps, Step, charge_digest
from census_node.ledgers import Decision, Room
from census_node.linked import Linked
from census_node.outbox import Outbox, Pending
from census_node.reservations import NOTHING_RESERVED, Reserved

__all__ = ["Kept", "LoadReplacedError", "charge", "quotable_answers", "verify_affordable"]


def verify_affordable(
    state: CensusState, scale: int, *, reserved: Reserved = NOTHING_RESERVED, lost: Collection[str] = ()
) -> None:
    """Return only if one more answer at `scale` may be charged beside what others have reserved.

    SECURITY: charged and reserved units count alike, and a shutdown for want of budget is told when the answers before
    it are out. When exactly another query was charged shows in nothing that is said here. Until such a shutdown is told
    nothing fits, also when a higher cap has been adopted since: accepted here, a sample would be drawn for nothing and
    its charge refused.

    Raises:
        RefusedError: SERVICE_SHUT_DOWN or BUDGET_EXHAUSTED.
    """
    if state.policy is None:
        raise RefusedError("NOTHING_LOADED", what="policy", role="census")
    if _is_seen_shut(state, lost):
        raise RefusedError("SERVICE_SHUT_DOWN")
    if state.shut_down or not _admits(state, state.policy, scale, reserved):
        raise RefusedError("BUDGET_EXHAUSTED", scale=scale)


def _admits(state: CensusState, policy: Policy, scale: int, reserved: Reserved) -> bool:
    if 0 < policy.max_answers <= state.answers + reserved.answers:
        return False
    # Under per-person accounting what others have reserved falls on the people of their samples alone.
    others = reserved.units if policy.accounting == "strict" else 0
    return fits(policy.cap, state.everyones_units + others, scale)


def quotable_answers(state: CensusState, policy: Policy, scale: int, *, lost: Collection[str] = ()) -> int | None:
    """How many more answers at `scale` a researcher may be told of; at least one, and None under per-person accounting.

    SECURITY: told from the answers that are out, not from the charges. A charge shows at its answer's tick and not
    before, or whoever keeps asking for quotes would see how long the work before it took.

    Raises:
        RefusedError: SERVICE_SHUT_DOWN or BUDGET_EXHAUSTED.
    """
    if _is_seen_shut(state, lost):
        raise RefusedError("SERVICE_SHUT_DOWN")
    # Charges whose answers can never be made will never be out; they are spent all the same.
    out = state.answers - len(state.unreleased) + len(lost)
    left = policy.max_answers - out if policy.max_answers else None
    if policy.accounting == "strict":
        spent = state.released_units + sum(state.tickets[ticket_hash].charge.units for ticket_hash in lost)
        fitting = answers_left(policy.cap, spent, scale)
        left = fitting if left is None else min(left, fitting)
    elif not fits(policy.cap, _told_to_everybody(state, lost), scale):
        left = 0
    if left is not None and left <= 0:
        raise RefusedError("BUDGET_EXHAUSTED", scale=scale)
    # SECURITY: how many answers some person's budget still allows is nobody's to know.
    return left if policy.accounting == "strict" else None


def _told_to_everybody(state: CensusState, lost: Collection[str]) -> int:
    """What strict accounting has charged, less what is still to be told of it."""
    untold = (state.tickets[ticket_hash].charge for ticket_hash in state.unreleased if ticket_hash not in lost)
    return state.common_units - sum(charge.units for charge in untold if not charge.ledger)


def _is_seen_shut(state: CensusState, lost: Collection[str]) -> bool:
    return state.shutdown_reason == "operator" or (state.shut_down and set(state.unreleased) <= set(lost))


@dataclass(frozen=True, slots=True)
class Kept:
    """A sample in its file, with the units that its pseudonyms have on one load."""

    file: str
    load: str
    linked: Linked


class LoadReplacedError(Exception):
    """Another load was put in force since a sample was kept: its pseudonyms may have other units now."""


@dataclass(frozen=True, slots=True, eq=False)
class _Account:
    """What a charge changes in the ledgers of persons, and the row that says so."""

    decision: Decision
    step: Step


def charge(
    journal: Journal[CensusState], book: LedgerBook, sample: AdmittedSample, kept: Kept, randomness: Randomness
) -> bool:
    """Charge an admitted sample, durably; False if it was charged already: one ticket, one charge.

    Raises:
        LoadReplacedError: nothing was charged.
        RefusedError: the budget, the linkage key or the service's state forbids it. Nothing was charged.
        InvalidRequestError: TICKET_REUSED, POLICY_MISMATCH or SLOT_UNUSABLE. Nothing was charged.
        StateUnknownError: the node must stop; the log will tell.
    """
    account, place = None, 0
    with book.charging():
        with journal.transaction() as transaction:
            state = transaction.state
            if _is_charged(state, sample):
                return False
            policy = _verify_admitted(state, sample)
            if state.load != kept.load:
                raise LoadReplacedError
            salt = randomness(SALT_BYTES)
            if policy.accounting == "per_person":
                account = _account(book, transaction, policy, sample, kept, salt)
            active = sample.set_hash if account is None else hash_set(account.decision.counted(kept.linked.pseudonyms))
            entry = transaction.append(_charged(state, sample, commit_set(salt, sample.ticket.hash, active), account))
            Outbox(transaction.db).put_pending(_pending(sample, kept, active, salt))
            if account is not None:
                kept_until_ms = entry.time_ms + policy.sample_retention_ms
                place = LedgerSteps(transaction.db).put(replace(account.step, kept_until_ms=kept_until_ms))
            if state.must_shut_down:
                transaction.append(Shutdown(reason="budget", note=""))
            # CRASH: if the commit that follows is lost, nothing happened; if it stands, recovery makes the answer.
        if account is not None:
            book.charged(kept.linked, account.decision, account.step, place)
    return True


def _verify_admitted(state: CensusState, sample: AdmittedSample) -> Policy:
    """The policy in force, if what was good at admission is good still.

    An operator may have adopted a policy, loaded or relinked a registry, or revoked somebody since.
    """
    ticket, body = sample.ticket, sample.ticket.body
    if state.shut_down:
        raise RefusedError("SERVICE_SHUT_DOWN")
    verify_affordable(state, body.scale)
    assert state.policy is not None  # noqa: S101 - verify_affordable has seen it
    researcher = state.membership.peer("researcher", body.researcher_id)
    if researcher is None:
        raise InvalidRequestError("UNKNOWN_RESEARCHER", researcher=body.researcher_id)
    if body.project_id not in researcher.projects:
        raise InvalidRequestError("UNKNOWN_PROJECT", project=body.project_id, researcher=body.researcher_id)
    if state.membership.peer("health", sample.organisation) is None:
        raise InvalidRequestError("WRONG_ORGANISATION", subject="sample")
    ticket.verify_policy(state.policy.hash)
    ticket.verify_release(state.release)
    verify_linkage(sample.linkage, state.linkage)
    if state.open_slots.get(body.noise_slot.number) != body.noise_slot.commitment.hex():
        raise InvalidRequestError("SLOT_UNUSABLE")
    return state.policy


def _account(
    book: LedgerBook,
    transaction: Transaction[CensusState],
    policy: Policy,
    sample: AdmittedSample,
    kept: Kept,
    salt: bytes,
) -> _Account:
    ticket, price = sample.ticket, price_units(sample.ticket.body.scale)
    ledgers = book.current(transaction.db, transaction.state)
    # SECURITY: whoever does not fit is dropped without a word. From here on nothing depends on how many that are.
    decision = ledgers.decide(kept.linked, Room(price, policy.cap - transaction.state.everyones_units, policy.unit))
    book.verify_space(ledgers, kept.linked, decision, sample.organisation)
    fits, active = decision.bits
    detail = commit_charge(salt, ticket.hash, kept.linked.units_hash, fits, active)
    step = Step(
        kind="charge",
        digest=charge_digest(ledgers.digest, ticket.hash, price, sample.set_commitment, detail),
        file=kept.file,
        content=detail,
        ticket=ticket.hash.hex(),
        organisation=sample.organisation,
        price=price,
        fits=fits,
        active=active,
        submitted_salt=sample.set_salt,
        active_salt=salt,
    )
    return _Account(decision, step)


def _charged(state: CensusState, sample: AdmittedSample, active: bytes, account: _Account | None) -> Charged:
    body, units = sample.ticket.body, price_units(sample.ticket.body.scale)
    return Charged(
        query=sample.ticket.query_id.hex(),
        ticket=sample.ticket.hash.hex(),
        slot=body.noise_slot.number,
        scale=body.scale,
        units=units,
        question=sample.question.text,
        researcher=body.researcher_id,
        health=sample.organisation,
        load=state.load,
        manifest=sample.manifest_hash.hex(),
        submitted=sample.set_commitment.hex(),
        # A salt of its own keeps whether everybody was active from showing.
        active=active.hex(),
        ledger="" if account is None else account.step.digest.hex(),
        total=state.charged_units + units,
    )


def _pending(sample: AdmittedSample, kept: Kept, active_set: bytes, active_salt: bytes) -> Pending:
    slot = sample.ticket.body.noise_slot
    return Pending(
        ticket_hash=sample.ticket.hash.hex(),
        signed_ticket=sample.ticket.signed_bytes,
        load=kept.load,
        submitted_set=sample.set_hash,
        active_set=active_set,
        sample=kept.file,
        slot=slot.number,
        slot_commitment=slot.commitment,
        submitted_salt=sample.set_salt,
        active_salt=active_salt,
    )


def _is_charged(state: CensusState, sample: AdmittedSample) -> bool:
    ticket_hash = sample.ticket.hash.hex()
    charged = state.tickets.get(ticket_hash)
    if charged is None:
        if state.ticket_of_query(sample.ticket.query_id.hex()) is not None:
            raise InvalidRequestError("TICKET_REUSED")
        return False
    if charged.charge.submitted != sample.set_commitment.hex():
        raise InvalidRequestError("TICKET_REUSED")
    return True
