"""The charge: one transaction that makes an answer paid for, before anything that depends on language is computed.

Strict accounting: one counter for the whole service, in the log's own state; every answer charges everyone. Per-person
accounting: the ledgers of persons say who of the sample still fits; a row of their history goes with the log entry. The
charge after which nothing fits any more carries the shutdown in the same transaction. The transaction writes a few bits for
each person and no pseudonym.

Who fits is decided before, where nobody waits for it (`decide`). SECURITY: everybody waits for a transaction, and the entry
in it says when it was made; what takes longer for a larger sample, or for one of whom more are linked, is not done there. A
decision that another charge has overtaken is made again, inside: late then, and never wrong.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from broker_common.crypto.commitments import SALT_BYTES, commit_charge, commit_set, hash_active
from broker_common.errors import InvalidRequestError, RefusedError
from broker_common.privacy.accounting import answers_left, fits, price_units
from broker_common.privacy.policy import Policy
from broker_common.storage.journal import Journal
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Charged, Shutdown
from broker_common.values import Randomness
from census_node.admission import AdmittedSample, verify_linkage
from census_node.ledger_book import LedgerBook
from census_node.ledger_steps import LedgerSteps, Step, charge_digest
from census_node.ledgers import Decision, Ledgers, Room
from census_node.linking import LinkedSample
from census_node.outbox import Outbox, Pending
from census_node.reservations import NOTHING_RESERVED, Reserved

__all__ = [
    "Decided",
    "Kept",
    "LoadReplacedError",
    "charge",
    "decide",
    "quota_left",
    "quotable_answers",
    "verify_affordable",
    "verify_open",
    "verify_quota",
]


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
    verify_open(state, lost=lost)
    if state.shut_down or not _admits(state, state.policy, scale, reserved):
        raise RefusedError("BUDGET_EXHAUSTED", scale=scale)


def _admits(state: CensusState, policy: Policy, scale: int, reserved: Reserved) -> bool:
    if 0 < policy.max_answers <= state.answers + reserved.answers:
        return False
    # Under per-person accounting what others have reserved falls on the people of their samples alone.
    others = reserved.units if policy.accounting == "strict" else 0
    return fits(policy.cap, state.everyones_units + others, scale)


def verify_quota(state: CensusState, researcher: str, now_ms: int, *, reserved: Reserved = NOTHING_RESERVED) -> None:
    """Return only if one more answer of `researcher` may count beside those that do and those that they have in hand.

    SECURITY: charged answers and accepted headers count alike, in the order of headers, and an answer ceases to count at an
    instant that follows from its release. When a charge was made shows in nothing that is said here.

    Raises:
        RefusedError: QUOTA_REACHED.
    """
    policy = state.policy
    if policy is None or not policy.quota:
        return
    free_at = state.quota.free_at(researcher, now_ms, policy.quota - reserved.own)
    if free_at == now_ms:
        return
    # Not before one that is not out yet has been out for the whole retention.
    free_at = now_ms + policy.sample_retention_ms if free_at is None else free_at
    time = datetime.fromtimestamp(-(-free_at // 1000), UTC).strftime("%Y-%m-%d %H:%M:%S")
    raise RefusedError("QUOTA_REACHED", quota=policy.quota, time=time)


def quota_left(
    state: CensusState, researcher: str, now_ms: int, *, reserved: Reserved = NOTHING_RESERVED
) -> int | None:
    """How many further answers of `researcher` may count now; None without a quota.

    SECURITY: it follows from this researcher's own questions and from instants of the policy.

    Raises:
        RefusedError: QUOTA_REACHED.
    """
    verify_quota(state, researcher, now_ms, reserved=reserved)
    if state.policy is None or not state.policy.quota:
        return None
    return state.policy.quota - state.quota.counted(researcher, now_ms) - reserved.own


def quotable_answers(state: CensusState, policy: Policy, scale: int, *, lost: Collection[str] = ()) -> int | None:
    """How many more answers at `scale` a researcher may be told of; at least one, and None under per-person accounting.

    SECURITY: told from the answers that are out, not from the charges. A charge shows at its answer's tick and not
    before, or whoever keeps asking for quotes would see how long the work before it took.

    Raises:
        RefusedError: SERVICE_SHUT_DOWN or BUDGET_EXHAUSTED.
    """
    verify_open(state, lost=lost)
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


def verify_open(state: CensusState, *, lost: Collection[str] = ()) -> None:
    """Return only if no shutdown has been told.

    SECURITY: one for want of budget is told when the answers before it are out: it would show when the last was charged.

    Raises:
        RefusedError: SERVICE_SHUT_DOWN.
    """
    if state.shutdown_reason == "operator" or (state.shut_down and set(state.unreleased) <= set(lost)):
        raise RefusedError("SERVICE_SHUT_DOWN")


@dataclass(frozen=True, slots=True)
class Kept:
    """A linked sample in its file."""

    file: str
    linked: LinkedSample


class LoadReplacedError(Exception):
    """Another load was put in force since a sample was kept: its pseudonyms may have other units now."""


@dataclass(frozen=True, slots=True, eq=False)
class Decided:
    """Who of a linked sample is charged and counted, and everything else that takes longer the larger a sample is."""

    linked: LinkedSample
    room: Room
    # Of the ledgers that it was decided on.
    version: int
    decision: Decision
    fits: bytes
    active: bytes
    active_set: bytes
    salt: bytes
    # What the digest commits to.
    detail: bytes


def decide(
    journal: Journal[CensusState],
    book: LedgerBook,
    sample: AdmittedSample,
    linked: LinkedSample,
    randomness: Randomness,
) -> Decided | None:
    """Who of a linked sample would be charged now; None where there is nothing to decide. Changes nothing.

    Holds no lock while it takes its time. What is charged meanwhile may make the decision a wrong one; it makes it a stale
    one in any case, which `charge` does not take.
    """
    with book.charging():
        with journal.reading() as state:
            policy = state.policy
            if policy is None or policy.accounting != "per_person" or state.load != linked.load:
                return None
            ledgers, room = book.current(journal.db, state), _room(state, policy, sample)
        version = book.version
    return _decided(ledgers, version, room, sample, linked, randomness)


def _room(state: CensusState, policy: Policy, sample: AdmittedSample) -> Room:
    return Room(price_units(sample.ticket.body.scale), policy.cap - state.everyones_units, policy.unit)


def _decided(
    ledgers: Ledgers, version: int, room: Room, sample: AdmittedSample, linked: LinkedSample, randomness: Randomness
) -> Decided:
    # SECURITY: whoever does not fit is dropped without a word. From here on nothing depends on how many that are.
    decision = ledgers.decide(linked.units, room, linked.standing)
    fits, active = decision.bits
    salt = randomness(SALT_BYTES)
    return Decided(
        linked=linked,
        room=room,
        version=version,
        decision=decision,
        fits=fits,
        active=active,
        active_set=hash_active(sample.set_hash, active),
        salt=salt,
        detail=commit_charge(salt, sample.ticket.hash, linked.units.units_hash, fits, active),
    )


def charge(
    journal: Journal[CensusState],
    book: LedgerBook,
    sample: AdmittedSample,
    kept: Kept,
    randomness: Randomness,
    decided: Decided | None = None,
) -> npt.NDArray[np.uint32] | None:
    """Charge an admitted sample, durably; gives the rows of those who are counted, on the load that the sample is linked on.

    None if it was charged already: one ticket, one charge. What was decided before is taken if it holds; otherwise it is
    decided here.

    Raises:
        LoadReplacedError: nothing was charged.
        RefusedError: the budget, the linkage key or the service's state forbids it. Nothing was charged.
        InvalidRequestError: TICKET_REUSED, POLICY_MISMATCH or SLOT_UNUSABLE. Nothing was charged.
        StateUnknownError: the node must stop; the log will tell.
    """
    step, place, linked = None, 0, kept.linked
    with book.charging():
        with journal.transaction() as transaction:
            state = transaction.state
            if _is_charged(state, sample):
                return None
            now_ms = journal.now()
            policy = _verify_admitted(state, sample, now_ms)
            if state.load != linked.load:
                raise LoadReplacedError
            if policy.accounting == "per_person":
                ledgers, room = book.current(transaction.db, state), _room(state, policy, sample)
                if decided is None or (decided.linked, decided.room, decided.version) != (linked, room, book.version):
                    decided = _decided(ledgers, book.version, room, sample, linked, randomness)
                step = _step(book, ledgers, sample, decided, kept.file)
                active, salt = decided.active_set, decided.salt
            else:
                active, salt = sample.set_hash, randomness(SALT_BYTES)
            charged = _charged(state, sample, commit_set(salt, sample.ticket.hash, active), step)
            entry = transaction.append(charged, not_before_ms=now_ms)
            Outbox(transaction.db).put_pending(_pending(sample, kept, active, salt))
            if step is not None:
                kept_until_ms = entry.time_ms + policy.sample_retention_ms
                place = LedgerSteps(transaction.db).put(replace(step, kept_until_ms=kept_until_ms))
            if state.must_shut_down:
                transaction.append(Shutdown(reason="budget", note=""))
            # CRASH: if the commit that follows is lost, nothing happened; if it stands, recovery makes the answer.
        if step is None or decided is None:
            return linked.linked_rows(np.ones(len(linked.rows), np.bool_))
        book.charged(linked.units, decided.decision, step, place)
    return linked.linked_rows(decided.decision.active)


def _verify_admitted(state: CensusState, sample: AdmittedSample, now_ms: int) -> Policy:
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
    # Decided when the header was accepted: it fails only if the clock went back since.
    verify_quota(state, body.researcher_id, now_ms)
    return state.policy


def _step(book: LedgerBook, ledgers: Ledgers, sample: AdmittedSample, decided: Decided, file: str) -> Step:
    """The row of a charge in the ledgers' history."""
    book.verify_space(ledgers, sample.organisation)
    ticket, price = sample.ticket, decided.room.price
    return Step(
        kind="charge",
        digest=charge_digest(ledgers.digest, ticket.hash, price, sample.set_commitment, decided.detail),
        file=file,
        content=decided.detail,
        ticket=ticket.hash.hex(),
        organisation=sample.organisation,
        price=price,
        fits=decided.fits,
        active=decided.active,
        submitted_salt=sample.set_salt,
        active_salt=decided.salt,
    )


def _charged(state: CensusState, sample: AdmittedSample, active: bytes, step: Step | None) -> Charged:
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
        ledger="" if step is None else step.digest.hex(),
        total=state.charged_units + units,
    )


def _pending(sample: AdmittedSample, kept: Kept, active_set: bytes, active_salt: bytes) -> Pending:
    slot = sample.ticket.body.noise_slot
    return Pending(
        ticket_hash=sample.ticket.hash.hex(),
        signed_ticket=sample.ticket.signed_bytes,
        load=kept.linked.load,
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
