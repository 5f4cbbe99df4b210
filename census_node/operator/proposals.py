"""Proposals: policies that the agency has signed and that are not in force yet, one file each, named by their hash.

A proposal is signed once, where the policy key is, and adopted where the log is; in between it is a file that anybody may
read and nobody can alter. Nothing is logged of it before it is adopted. Its changes are computed here, from the policy in
force and the charges so far, so that the signer sees what it means.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from broker_common.crypto.signing import SigningKey, VerifyKey, key_named
from broker_common.errors import InvalidRequestError, RefusedError
from broker_common.language import joined, phrase
from broker_common.privacy.accounting import answers_left, price
from broker_common.privacy.policy import MAX_POLICY_BYTES, NEWEST_FORMAT, Policy, parse_policy, parse_signed_policy
from broker_common.storage.dictionary.adopted import Dictionaries
from broker_common.storage.durable import make_folder, replace_file
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import MAX_TEXT_CHARACTERS
from census_node import texts

# Digits of a hash that a person must type at least.
_LEAST_PREFIX = 8
# A proposal's file holds the policy, quoted, and its signature.
_MAX_FILE_BYTES = 2 * MAX_POLICY_BYTES
# The name that a file gives its key.
_MAX_KEY_ID = 64
_DAY_MS = 86_400_000
# Larger households are too few to be warned of.
_LARGE_HOUSEHOLD = 6
_PREFIX = re.compile(r"[0-9a-f]{1,64}")


class Proposal(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A policy's document with the agency's signature."""

    document: Annotated[str, Meta(max_length=MAX_POLICY_BYTES)]
    signature: Annotated[str, Meta(max_length=MAX_TEXT_CHARACTERS)]
    key_id: Annotated[str, Meta(max_length=MAX_TEXT_CHARACTERS)]

    def verify(self, keys: Sequence[VerifyKey]) -> Policy:
        """The proposed policy, if one of these keys signed it.

        Raises:
            InvalidRequestError: BAD_SIGNATURE or INVALID_VALUE.
        """
        try:
            key = key_named(keys, self.key_id, subject="policy")
        except InvalidRequestError as error:
            # Signed before that key was replaced, for example.
            problem = phrase(texts.PROPOSAL_KEY, key=self.key_id[:_MAX_KEY_ID])
            raise _invalid("the proposal", problem, texts.PROPOSAL_AGAIN) from error
        return parse_signed_policy(self.document.encode(), self.signature, key)

    def to_bytes(self) -> bytes:
        return msgspec.json.encode(self, order="sorted")


def make_proposal(policy: Policy, key: SigningKey) -> Proposal:
    """Sign a policy."""
    return Proposal(document=policy.document.decode(), signature=key.sign_text(policy.document), key_id=key.key_id)


@dataclass(frozen=True, slots=True)
class ProposalFolder:
    """The proposals of a census home."""

    path: Path

    def write(self, policy: Policy, proposal: Proposal) -> Path:
        """Durably keep a proposal under its policy's hash."""
        make_folder(self.path)
        file = self.path / f"{policy.hash.hex()}.json"
        replace_file(file, proposal.to_bytes())
        return file

    def find(self, named: str, keys: Sequence[VerifyKey]) -> Proposal:
        """The proposal that a hash, the beginning of one, or a file name stands for, signed by one of these keys.

        Raises:
            InvalidRequestError: INVALID_VALUE, nothing or several things are meant, it is none, or none of these
                keys is named; BAD_SIGNATURE.
        """
        if not _PREFIX.fullmatch(named):
            return _read(Path(named), keys)[0]
        if len(named) < _LEAST_PREFIX:
            raise _invalid(named, "is too short for a hash", texts.PROPOSAL_PREFIX)
        found = sorted(self.path.glob(f"{named}*.json"))
        if len(found) != 1:
            raise _invalid(named, "means several proposals" if found else "means no proposal", texts.PROPOSAL_NAMES)
        proposal, policy = _read(found[0], keys)
        # SECURITY: adopting by hash gives the policy of this hash, whatever was signed and put into its place.
        if policy.hash.hex() != found[0].stem:
            raise _invalid(str(found[0]), "holds another policy than its name says", texts.PROPOSAL_AGAIN)
        return proposal


def _read(file: Path, keys: Sequence[VerifyKey]) -> tuple[Proposal, Policy]:
    try:
        with file.open("rb") as opened:
            data = opened.read(_MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise _invalid(str(file), "is no file that can be read", texts.PROPOSAL_NAMES) from error
    try:
        proposal = msgspec.json.decode(data, type=Proposal)
    except ValueError as error:  # msgspec's own errors, and broken UTF-8 inside a string
        raise _invalid(str(file), f"is not a proposal ({error})", texts.PROPOSAL_AGAIN) from error
    if proposal.to_bytes() != data:
        raise _invalid(str(file), "is not in canonical form", texts.PROPOSAL_AGAIN)
    return proposal, proposal.verify(keys)


def draft(base: bytes | Policy, changes: dict[str, Any]) -> Policy:
    """A policy that differs from `base`, a document in any spelling or the policy in force, in these settings.

    Raises:
        InvalidRequestError: INVALID_VALUE, naming what is wrong.
    """
    if isinstance(base, bytes):
        try:
            base = msgspec.json.decode(base, type=Policy)
        except ValueError as error:
            raise _invalid("--from", f"does not hold a policy ({error})", texts.FROM_REMEDY) from error
    drafted = msgspec.structs.replace(base, format=NEWEST_FORMAT, **changes)
    if drafted.accounting == "strict" and drafted.subject == "household":
        raise _invalid(texts.HOUSEHOLD_BUDGET, texts.HOUSEHOLD_STRICT, texts.HOUSEHOLD_REMEDY)
    # Read back from its own bytes, because making a value checks none of its limits.
    return parse_policy(drafted.document)


def verify_subject(policy: Policy, state: CensusState) -> None:
    """Return only if this policy's budgets are for whom the first answer was charged to.

    Raises:
        RefusedError: SUBJECT_FIXED.
    """
    if state.subject not in {None, policy.subject}:
        raise RefusedError("SUBJECT_FIXED", subject=state.subject)


def verify_linkage_kept(policy: Policy, state: CensusState, dictionaries: Dictionaries) -> None:
    """Return only if this policy links records as they were linked when something was loaded.

    Raises:
        RefusedError: LINKAGE_FIXED.
        InternalError: INTEGRITY, the dictionary of the load cannot be read.
    """
    if not state.load:
        return
    # A load without a policy was under its dictionary's.
    fixed = state.policy or dictionaries.of_load(state, state.load)
    if policy.linkage != fixed.linkage:
        raise RefusedError("LINKAGE_FIXED", name=fixed.linkage)


@dataclass(frozen=True, slots=True)
class Change:
    """One setting that a proposal changes."""

    setting: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Consequences:
    """Consequences of adopting a policy now."""

    changes: Sequence[Change]
    # Charges to everybody, no matter who was in which sample.
    charged_units: int
    # Answers that would be left at the policy's usual scale; None under per-person accounting, where people differ.
    answers_left: int | None
    # Whether it would admit one more answer.
    fits: bool
    # Whether the service is shut down already; adopting does not reopen it.
    is_shut: bool
    # Why the operator has to confirm it; empty when they need not.
    weaker: tuple[str, ...]
    # These settings promise less than they seem to, or stop the service. The operator always sees them.
    warnings: tuple[str, ...]

    @property
    def shuts_down(self) -> bool:
        """True when adopting would shut the service down at once."""
        return not self.fits and not self.is_shut


def consequences(policy: Policy, state: CensusState) -> Consequences:
    """Consequences of adopting `policy` in this state of the log."""
    before = state.policy
    new = msgspec.to_builtins(policy)
    old = dict.fromkeys(new) if before is None else msgspec.to_builtins(before)
    return Consequences(
        changes=[Change(name, old[name], new[name]) for name in new if old[name] != new[name]],
        charged_units=state.everyones_units_under(policy),
        answers_left=_answers_left(policy, state),
        fits=state.anything_fits_under(policy),
        is_shut=state.shut_down,
        weaker=() if before is None else tuple(weakness.text for weakness in policy.weakens(before)),
        warnings=_warnings(policy, state),
    )


def _answers_left(policy: Policy, state: CensusState) -> int | None:
    if policy.accounting != "strict":
        return None
    fitting = answers_left(policy.cap, state.charged_units, policy.usual_scale)
    return min(fitting, max(0, policy.max_answers - state.answers)) if policy.max_answers else fitting


def _warnings(policy: Policy, state: CensusState) -> tuple[str, ...]:
    found = [texts.WARN_CHARGED] if state.everyones_units_under(policy) > policy.cap else []
    if policy.release_tick_ms == 0:
        found.append(texts.WARN_TICK_0)
    if policy.answer_retention_ms < _DAY_MS:
        found.append(phrase(texts.WARN_RETENTION, retention=phrase("{n:g} s", n=policy.answer_retention_ms / 1000)))
    if policy.accounting == "per_person" and policy.sample_retention_ms < _DAY_MS:
        found.append(phrase(texts.WARN_SAMPLES, retention=phrase("{n:g} s", n=policy.sample_retention_ms / 1000)))
    if policy.subject == "household":
        found += _household_warnings(policy)
    return tuple(found)


def _household_warnings(policy: Policy) -> list[str]:
    found = [texts.WARN_HOUSEHOLDS_MOVE]
    # Larger scales cost less, so that the last one of a number of people is the largest.
    largest = {policy.cap // price(scale) + 1: scale for scale in policy.scales}
    parts = [
        phrase(texts.HOUSEHOLD_OF, people=people, scale=scale)
        for people, scale in largest.items()
        if people <= _LARGE_HOUSEHOLD
    ]
    if parts:
        found.append(phrase(texts.WARN_HOUSEHOLD_SIZE, households=joined("; ", parts)))
    return found


def _invalid(name: str, problem: str, remedy: str) -> InvalidRequestError:
    return InvalidRequestError("INVALID_VALUE", name=name, problem=problem, remedy=remedy)
