"""Registering and revoking peers, announcing one's own card: entries of an agency's log, made by its operator's commands.

The log is the pointer here too: a node that is running obeys an entry of any process at its next call.
"""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import structlog
from msgspec import Meta

from broker_common.crypto.cards import (
    MAX_CARD_BYTES,
    MAX_ORIGIN_CHARACTERS,
    SignedCard,
    VerifiedCard,
    parse_signed_card,
    verify_card,
    verify_successor,
)
from broker_common.crypto.certificates import Identity, PeerCertificate, Role
from broker_common.crypto.signing import Purpose
from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.query.ticket import Researcher
from broker_common.storage.journal import Journal, StateT, Transaction
from broker_common.tlog.cosignature import CosignatureVerifier
from broker_common.tlog.entries import Announced, Entry, Registered, Revoked, encode_entry
from broker_common.tlog.membership import Membership, Registration, log_of, peer_name, witness_of
from broker_common.tlog.note import NoteVerifier
from broker_common.values import Clock

# As in the URI SAN of a certificate.
IDENTIFIER = re.compile(r"\A[a-z0-9][a-z0-9-]{0,62}\Z")
Identifier = Annotated[str, Meta(pattern=IDENTIFIER.pattern)]
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_BETWEEN_DIGITS = re.compile(r"[\s:-]")
# In-band, per peer and process. A party that replaces every key at once needs ten.
_MOST_CARDS = 20
# Within so long.
_CARDS_WITHIN_MS = 86_400_000
_log = structlog.get_logger()
# No key ends so late.
_NEVER_MS = 2**63
# As in a C2SP note.
ORIGIN = re.compile(r"\A[^\s+]+\Z")
LogName = Annotated[str, Meta(min_length=1, max_length=MAX_ORIGIN_CHARACTERS, pattern=ORIGIN.pattern)]


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


def own_card(membership: Membership) -> VerifiedCard:
    """The node's own card.

    Raises:
        InvalidRequestError: CARD_MISSING.
    """
    if membership.own is None:
        raise InvalidRequestError("CARD_MISSING")
    return membership.own


def announce(journal: Journal[StateT], signed: SignedCard) -> None:
    """Log the node's own card; from here on its keys are the ones that are used."""
    with journal.transaction() as transaction:
        own = transaction.state.membership.own
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
        known = transaction.state.membership.peer(identity.role, peer_name(identity))
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
        known = registered(transaction.state.membership, identity.role, peer_name(identity))
        verify_successor(known.card, card.signed)
        event = Registered(card=card.signed, note="", projects=known.projects, inbox=known.inbox)
        return _append(transaction, event, identity)


def _append(transaction: Transaction[StateT], event: Registered, identity: Identity) -> Registration:
    _verify_event(transaction.state, event)
    transaction.append(event)
    return registered(transaction.state.membership, identity.role, peer_name(identity))


def _verify_event(state: StateT, event: Registered) -> None:
    """What the log would refuse is the caller's mistake here, not a damaged log."""
    try:
        encode_entry(Entry(sequence=0, time_ms=0, policy="", event=event))
    except ValueError as error:
        raise InvalidRequestError(
            "INVALID_VALUE",
            name="a project or the inbox",
            problem="is empty, too long, or not text",
            remedy="Projects have 1 to 64 characters, a hundred of them at most; an inbox is HOST:PORT.",
        ) from error
    trial = Membership.copy_of(state.membership)
    trial.register(event, state.role, state.origin)


def revoke(journal: Journal[StateT], role: Role, name: str, note: str) -> None:
    """Log that a peer is not known any more.

    Raises:
        InvalidRequestError: NOT_REGISTERED.
    """
    with journal.transaction() as transaction:
        registered(transaction.state.membership, role, name)
        transaction.append(Revoked(role=role, name=name, note=note))


def registered(membership: Membership, role: Role, name: str) -> Registration:
    """What is known of a peer.

    Raises:
        InvalidRequestError: NOT_REGISTERED.
    """
    registration = membership.peer(role, name)
    if registration is None:
        raise InvalidRequestError("NOT_REGISTERED", party=f"{role} {name[:64]}")
    return registration


class CardExchange:
    """What a node does with the cards that its peers send."""

    def __init__(self, journal: Journal[StateT], clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        # When each peer's cards were taken, lately.
        self._taken: dict[tuple[Role, str], deque[int]] = {}
        self._lock = threading.Lock()

    def __call__(self, caller: Identity, signed: SignedCard) -> SignedCard:
        """Take a registered peer's newer card, if it is one; gives the node's own.

        Raises:
            InvalidRequestError: NOT_REGISTERED, MALFORMED_MESSAGE, WRONG_ORGANISATION, BAD_SIGNATURE or
                CARD_UNRELATED.
        """
        key = (caller.role, peer_name(caller))
        with self._journal.reading() as state:
            known = registered(state.membership, *key)
            own = own_card(state.membership)
        if known.card.signed != signed:
            try:
                card = verify_successor(known.card, signed)
                if self._may_take(key):
                    renew(self._journal, card)
            except InvalidRequestError as error:
                # A peer that has not heard of its own newest card yet changes nothing, and learns ours.
                if error.code != "CARD_OUTDATED":
                    raise
        return own.signed

    def _may_take(self, key: tuple[Role, str]) -> bool:
        """SECURITY: every card is an entry in our log, which only operators and questions should make grow."""
        now_ms = self._clock()
        with self._lock:
            taken = self._taken.setdefault(key, deque(maxlen=_MOST_CARDS))
            if len(taken) == _MOST_CARDS and now_ms < taken[0] + _CARDS_WITHIN_MS:
                _log.warning("a peer sends too many cards", role=key[0], name=key[1])
                return False
            taken.append(now_ms)
            return True


@dataclass(frozen=True, slots=True, eq=False)
class _Recognised:
    """Whom a node recognises by which keys, until its log or an end of a key changes that."""

    membership: Membership
    changes: int
    since_ms: int
    until_ms: int
    certificates: tuple[PeerCertificate, ...]
    researchers: Mapping[str, Researcher]

    @classmethod
    def at(cls, membership: Membership, now_ms: int) -> _Recognised:
        ends = (key.until_ms for peer in membership.everybody() for key in peer.card.card.keys)
        return cls(
            membership,
            membership.changes,
            now_ms,
            min((end_ms for end_ms in ends if end_ms > now_ms), default=_NEVER_MS),
            tuple(membership.certificates(now_ms)),
            {
                name: Researcher(name, tuple(peer.card.verify_keys(Purpose.TICKET, now_ms)), frozenset(peer.projects))
                for name, peer in membership.peers("researcher").items()
            },
        )

    def holds(self, membership: Membership, now_ms: int) -> bool:
        unchanged = membership is self.membership and membership.changes == self.changes
        return unchanged and self.since_ms <= now_ms < self.until_ms


class KnownPeers:
    """A node's live view of the peers that its log names: asked at every call, so that an entry is obeyed at once."""

    def __init__(self, journal: Journal[StateT], clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._last: _Recognised | None = None

    def own(self) -> VerifiedCard:
        with self._journal.reading() as state:
            return own_card(state.membership)

    def own_log(self) -> NoteVerifier:
        """What checks checkpoints of the node's own log, whenever they were signed."""
        with self._journal.reading() as state:
            return NoteVerifier(own_card(state.membership).card.origin, state.membership.own_log_keys)

    def log(self, role: Role, name: str) -> NoteVerifier:
        """What checks a peer's checkpoints. Raises NOT_REGISTERED."""
        return log_of(self.card(role, name), self._clock())

    def witness(self, role: Role, name: str) -> CosignatureVerifier:
        """What checks a peer's cosignatures. Raises NOT_REGISTERED."""
        return witness_of(self.card(role, name), self._clock())

    def certificates(self) -> tuple[PeerCertificate, ...]:
        """Every certificate that is recognised now; the same tuple for as long as they are the same."""
        return self._recognised().certificates

    def card(self, role: Role, name: str) -> VerifiedCard:
        """A peer's card. Raises NOT_REGISTERED."""
        with self._journal.reading() as state:
            return registered(state.membership, role, name).card

    def agencies(self, role: Role) -> dict[str, VerifiedCard]:
        """The cards of the agencies of a role, by organisation."""
        with self._journal.reading() as state:
            return {name: peer.card for name, peer in state.membership.peers(role).items()}

    def researchers(self) -> Mapping[str, Researcher]:
        """The registered researchers with the keys that are honoured now."""
        return self._recognised().researchers

    def _recognised(self) -> _Recognised:
        with self._journal.reading() as state:
            membership, now_ms, last = state.membership, self._clock(), self._last
            if last is None or not last.holds(membership, now_ms):
                last = self._last = _Recognised.at(membership, now_ms)
            return last

    def inboxes(self) -> dict[str, Registration]:
        with self._journal.reading() as state:
            return {name: peer for name, peer in state.membership.peers("researcher").items() if peer.inbox}
