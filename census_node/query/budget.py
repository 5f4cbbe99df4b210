"""Rules for further questions: shutdown, budget and quota, decided before a sample has a place in line, and shown in quotes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from broker_common.errors import RefusedError
from broker_common.privacy.accounting import answers_left, fits
from broker_common.privacy.policy import Policy
from broker_common.tlog.census_state import CensusState
from census_node.query.reservations import NOTHING_RESERVED, Reserved


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Charges of which researchers are told nothing yet, or never."""

    # Tickets whose answers can never be made.
    lost: Collection[str] = ()
    # Tickets whose release stands in the log, before the instant at which it is told.
    held_back: Collection[str] = ()


NOTHING_UNFINISHED = Unfinished()


@dataclass(frozen=True, slots=True)
class InForce:
    """The rules that new questions are asked under."""

    policy: Policy
    census_release: str


def in_force(state: CensusState) -> InForce:
    """Policy and census release as the log has them now.

    Raises:
        RefusedError: NOTHING_LOADED.
    """
    if state.policy is None:
        raise RefusedError("NOTHING_LOADED", what="policy", role="census")
    if not state.release:
        raise RefusedError("NOTHING_LOADED", what="registry", role="census")
    return InForce(state.policy, state.release)


def verify_affordable(
    state: CensusState,
    scale: int,
    *,
    reserved: Reserved = NOTHING_RESERVED,
    unfinished: Unfinished = NOTHING_UNFINISHED,
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
    verify_open(state, unfinished=unfinished)
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

    SECURITY: charged answers and samples in line count alike, and an answer ceases to count at an
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


def quotable_answers(
    state: CensusState, policy: Policy, scale: int, *, unfinished: Unfinished = NOTHING_UNFINISHED
) -> int | None:
    """How many more answers at `scale` a researcher may be told of; at least one, and None under per-person accounting.

    SECURITY: told from the answers that are out, not from the charges. A charge shows at its answer's tick and not
    before, or somebody who keeps asking for quotes would see how long the work before it took.

    Raises:
        RefusedError: SERVICE_SHUT_DOWN or BUDGET_EXHAUSTED.
    """
    verify_open(state, unfinished=unfinished)
    untold = _untold(state, unfinished)
    left = policy.max_answers - (state.answers - len(untold)) if policy.max_answers else None
    if policy.accounting == "strict":
        spent = state.charged_units - sum(state.tickets[ticket_hash].charge.units for ticket_hash in untold)
        fitting = answers_left(policy.cap, spent, scale)
        left = fitting if left is None else min(left, fitting)
    elif not fits(policy.cap, _told_to_everybody(state, unfinished), scale):
        left = 0
    if left is not None and left <= 0:
        raise RefusedError("BUDGET_EXHAUSTED", scale=scale)
    # SECURITY: how many answers some person's budget still allows is nobody's to know.
    return left if policy.accounting == "strict" else None


def _untold(state: CensusState, unfinished: Unfinished) -> set[str]:
    """Charged tickets whose answers are not out. One that can never be made is spent all the same."""
    return {*state.unreleased, *unfinished.held_back} - set(unfinished.lost)


def _told_to_everybody(state: CensusState, unfinished: Unfinished) -> int:
    """The charges of strict accounting, less those not published yet."""
    charges = (state.tickets[ticket_hash].charge for ticket_hash in _untold(state, unfinished))
    return state.common_units - sum(charge.units for charge in charges if not charge.ledger)


def verify_open(state: CensusState, *, unfinished: Unfinished = NOTHING_UNFINISHED) -> None:
    """Return only if no shutdown has been told.

    SECURITY: one for want of budget is told when the answers before it are out: it would show when the last was charged.

    Raises:
        RefusedError: SERVICE_SHUT_DOWN.
    """
    if state.shutdown_reason == "operator" or (state.shut_down and not _untold(state, unfinished)):
        raise RefusedError("SERVICE_SHUT_DOWN")
