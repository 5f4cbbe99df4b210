"""Registering and revoking peers, announcing one's own card: entries of an agency's log, made by its operator's commands.

The log is the pointer here too: a node that is running obeys an entry of any process at its next call.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from broker_common.crypto.cards import (
    MAX_CARD_BYTES,
    SignedCard,
    VerifiedCard,
    parse_signed_card,
    verify_card,
    verify_successor,
)
from broker_common.crypto.certificates import Identity, Role
from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.storage.journal import Journal, StateT, Transaction
from broker_common.tlog.entries import Announced, Entry, Registered, Revoked, encode_entry
from broker_common.tlog.parties import Parties, Registration, peer_name

_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_BETWEEN_DIGITS = re.compile(r"[\s:-]")


def read_card(path: Path, *, fingerprint: str | None = None) -> VerifiedCard:
    """A card from a file, which agrees with itself and, where one is given, with a fingerprint.

    Raises:
        InvalidRequestError: FILE_UNUSABLE, CARD_UNREADABLE, BAD_SIGNATURE or FINGERPRINT_MISMATCH; INVALID_VALUE, what was
            given is no fingerprint.
    """
    try:
        with path.open("rb") as file:
            data = file.read(2 * MAX_CARD_BYTES + 2)
    except OSError as error:
        problem = error.strerror or os.strerror(error.errno or 0)
        raise InvalidRequestError("FILE_UNUSABLE", file=str(path), problem=problem) from error
    try:
        card = verify_card(parse_signed_card(data.removesuffix(b"\n")))
    except InvalidRequestError as error:
        if error.code != "MALFORMED_MESSAGE":
            raise
        raise InvalidRequestError("CARD_UNREADABLE", file=str(path), problem=error.details["problem"]) from error
    if fingerprint is not None and _typed(fingerprint) != card.fingerprint:
        raise InvalidRequestError("FINGERPRINT_MISMATCH", found=card.fingerprint)
    return card


def _typed(fingerprint: str) -> str:
    """A fingerprint as a person types it: in capitals, in groups."""
    digits = _BETWEEN_DIGITS.sub("", fingerprint).lower()
    if not _FINGERPRINT.fullmatch(digits):
        raise InvalidRequestError(
            "INVALID_VALUE",
            name="--fingerprint",
            problem=phrase("has {count} signs and is not 64 digits from 0 to 9 and a to f", count=len(digits)),
            remedy=phrase(
                "Type the whole fingerprint that the card's owner tells you; blanks between digits do no harm."
            ),
        )
    return digits


def own_card(parties: Parties) -> VerifiedCard:
    """The node's own card.

    Raises:
        InvalidRequestError: CARD_MISSING.
    """
    if parties.own is None:
        raise InvalidRequestError("CARD_MISSING")
    return parties.own


def announce(journal: Journal[StateT], signed: SignedCard) -> None:
    """Log the node's own card; from here on its keys are the ones that are used."""
    with journal.transaction() as transaction:
        own = transaction.state.parties.own
        if own is not None:
            verify_successor(own, signed)
        transaction.append(Announced(card=signed))


def register(
    journal: Journal[StateT],
    card: VerifiedCard,
    *,
    projects: Sequence[str] | None = None,
    inbox: str | None = None,
    replace_because: str = "",
) -> Registration:
    """Log that a peer is known by a card, as an operator wants it; what is not given stays as it was.

    Raises:
        InvalidRequestError: CARD_OUTDATED, CARD_UNRELATED or WRONG_ORGANISATION, a known peer's card does not follow the one
            that is known, and no reason to replace it is given; LOG_NAME_TAKEN, it names somebody else's log as its own.
    """
    identity = card.card.identity
    with journal.transaction() as transaction:
        known = transaction.state.parties.peer(identity.role, peer_name(identity))
        note = ""
        if known is not None and known.card.signed != card.signed:
            try:
                verify_successor(known.card, card.signed)
            except InvalidRequestError:
                if not replace_because:
                    raise
                note = replace_because
        event = Registered(
            card=card.signed,
            note=note,
            projects=tuple(projects if projects is not None else known.projects if known is not None else ()),
            inbox=inbox if inbox is not None else known.inbox if known is not None else "",
        )
        return _append(transaction, event, identity)


def renew(journal: Journal[StateT], card: VerifiedCard) -> Registration:
    """Log a card that a known peer has sent, and that nobody on our side has looked at.

    SECURITY: decided under the lock. A peer that was revoked a moment ago stays unknown, whatever was on its way.

    Raises:
        InvalidRequestError: NOT_REGISTERED, CARD_OUTDATED, CARD_UNRELATED or WRONG_ORGANISATION.
    """
    identity = card.card.identity
    with journal.transaction() as transaction:
        known = registered(transaction.state.parties, identity.role, peer_name(identity))
        verify_successor(known.card, card.signed)
        event = Registered(card=card.signed, note="", projects=known.projects, inbox=known.inbox)
        return _append(transaction, event, identity)


def _append(transaction: Transaction[StateT], event: Registered, identity: Identity) -> Registration:
    _verify_event(transaction.state, event)
    transaction.append(event)
    return registered(transaction.state.parties, identity.role, peer_name(identity))


def _verify_event(state: StateT, event: Registered) -> None:
    """An event that the log would refuse is the caller's mistake here, not a damaged log."""
    try:
        encode_entry(Entry(sequence=0, time_ms=0, policy="", event=event))
    except ValueError as error:
        raise InvalidRequestError(
            "INVALID_VALUE",
            name="a project or the inbox",
            problem="is empty, too long, or not text",
            remedy="Projects have 1 to 64 characters, a hundred of them at most; an inbox is HOST:PORT.",
        ) from error
    trial = Parties.copy_of(state.parties)
    trial.register(event, state.role, state.origin)


def revoke(journal: Journal[StateT], role: Role, name: str, note: str) -> None:
    """Log that a peer is not known any more.

    Raises:
        InvalidRequestError: NOT_REGISTERED.
    """
    with journal.transaction() as transaction:
        registered(transaction.state.parties, role, name)
        transaction.append(Revoked(role=role, name=name, note=note))


def registered(parties: Parties, role: Role, name: str) -> Registration:
    """The registration of a peer.

    Raises:
        InvalidRequestError: NOT_REGISTERED.
    """
    registration = parties.peer(role, name)
    if registration is None:
        raise InvalidRequestError("NOT_REGISTERED", party=f"{role} {name[:64]}")
    return registration
