"""The census operator's writes to the log: adopt a policy, shut the service down, reopen it; one transaction each.

The log is the pointer: a running node takes an act into account with the next question. Orders that the log's rules
would refuse are refused here first, with a sentence for the operator, on the same state and under the same lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

from broker_common.crypto.signing import SigningKey, VerifyKey
from broker_common.errors import InvalidRequestError, RefusedError
from broker_common.privacy.policy import Policy
from broker_common.storage.dictionary.adopted import Dictionaries
from broker_common.storage.journal import Journal, Transaction
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Adopted, Reopened, Shutdown
from census_node import texts
from census_node.operator.proposals import Proposal, make_proposal, verify_linkage_kept, verify_subject


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The operator means it: why, and the key that signs it."""

    reason: str
    key: SigningKey


@dataclass(frozen=True, slots=True)
class Done:
    """The log right after an act."""

    state: Literal["serving", "shutdown"]
    policy_hash: str
    log_size: int
    # False when there was nothing to do.
    changed: bool

    @classmethod
    def at(cls, state: CensusState, *, changed: bool = True) -> Self:
        return cls("shutdown" if state.shut_down else "serving", state.policy_hash, state.size, changed)


def adopt(
    journal: Journal[CensusState],
    proposal: Proposal,
    policy_keys: Sequence[VerifyKey],
    dictionaries: Dictionaries,
    confirmation: Confirmation | None = None,
) -> Done:
    """Put a proposed policy in force; the budget shuts the service down at once if nothing fits under it.

    Raises:
        RefusedError: POLICY_IN_FORCE, SUBJECT_FIXED, LINKAGE_FIXED, or POLICY_WEAKER without a confirmation.
        InvalidRequestError: the proposal is not this agency's; INVALID_VALUE, a confirmation that nothing needs.
    """
    policy = proposal.verify(policy_keys)
    with journal.transaction() as transaction:
        before, adopted = transaction.state.policy, transaction.state.adopted
        # The policy in force may be signed again by a newer key.
        if policy == before and adopted is not None and adopted.key_id == proposal.key_id:
            raise RefusedError("POLICY_IN_FORCE", what=policy.hash.hex())
        verify_subject(policy, transaction.state)
        verify_linkage_kept(policy, transaction.state, dictionaries)
        weaker = () if before is None else policy.weakens(before)
        if weaker and confirmation is None:
            raise RefusedError("POLICY_WEAKER", problem="; ".join(weakness.text for weakness in weaker))
        if not weaker and confirmation is not None:
            raise InvalidRequestError(
                "INVALID_VALUE", name="--confirm", problem="is not needed", remedy=texts.CONFIRM_REMEDY
            )
        _append_adoption(transaction, policy, proposal, confirmation)
        if transaction.state.must_shut_down:
            transaction.append(Shutdown(reason="budget", note=""))
        # CRASH: before the commit the policy before is in force and nothing is logged; after it, policy and shutdown.
        return Done.at(transaction.state)


def sign_again(journal: Journal[CensusState], key: SigningKey) -> None:
    """Put the policy that is in force by then in force again under another key."""
    with journal.transaction() as transaction:
        policy, adopted = transaction.state.policy, transaction.state.adopted
        if policy is not None and adopted is not None and adopted.key_id != key.key_id:
            _append_adoption(transaction, policy, make_proposal(policy, key), None)
        # CRASH: before the commit it is signed by the key before alone; see `keys rotate` for what is left to do then.


def _append_adoption(
    transaction: Transaction[CensusState], policy: Policy, proposal: Proposal, confirmation: Confirmation | None
) -> None:
    note = signature = key_id = ""
    if confirmation is not None:
        note, key_id = confirmation.reason, confirmation.key.key_id
        signature = confirmation.key.sign_text(transaction.state.order("adopt", note, adopting=policy).document)
    transaction.append(
        Adopted(
            document=proposal.document,
            signature=proposal.signature,
            key_id=proposal.key_id,
            note=note,
            confirmation=signature,
            confirmation_key_id=key_id,
        )
    )


def shut_down(journal: Journal[CensusState], reason: str, key: SigningKey) -> Done:
    """Charge nothing from here on. A service that is shut down already is left as it is."""
    with journal.transaction() as transaction:
        if transaction.state.shut_down:
            return Done.at(transaction.state, changed=False)
        order = transaction.state.order("shutdown", reason)
        transaction.append(
            Shutdown(reason="operator", note=reason, signature=key.sign_text(order.document), key_id=key.key_id)
        )
        # CRASH: before the commit the service goes on and nothing is logged; after it, it is shut.
        return Done.at(transaction.state)


def reopen(journal: Journal[CensusState], reason: str, key: SigningKey) -> Done:
    """Charge again; what was charged before goes on counting.

    Raises:
        RefusedError: NOT_SHUT_DOWN or NOTHING_FITS.
    """
    with journal.transaction() as transaction:
        state = transaction.state
        if not state.shut_down:
            raise RefusedError("NOT_SHUT_DOWN")
        if not state.anything_fits:
            raise RefusedError("NOTHING_FITS")
        order = state.order("reopen", reason)
        transaction.append(Reopened(note=reason, signature=key.sign_text(order.document), key_id=key.key_id))
        # CRASH: before the commit the service stays shut; after it, charges are taken again.
        return Done.at(state)
