"""The peers that a node's log names, live: asked at every call, so that an entry is obeyed at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker_common.crypto.cards import (
    VerifiedCard,
)
from broker_common.crypto.certificates import PeerCertificate, Role
from broker_common.crypto.signing import Purpose
from broker_common.parties.registration import own_card, registered
from broker_common.query.ticket import Researcher
from broker_common.storage.journal import Journal, StateT
from broker_common.tlog.cosignature import CosignatureVerifier
from broker_common.tlog.note import NoteVerifier
from broker_common.tlog.parties import Parties, Registration, log_of, witness_of
from broker_common.values import Clock

# No key ends so late.
_NEVER_MS = 2**63


@dataclass(frozen=True, slots=True, eq=False)
class _Recognised:
    """Whom a node recognises by which keys, until its log or an end of a key changes that."""

    parties: Parties
    changes: int
    since_ms: int
    until_ms: int
    certificates: tuple[PeerCertificate, ...]
    researchers: Mapping[str, Researcher]

    @classmethod
    def at(cls, parties: Parties, now_ms: int) -> _Recognised:
        ends = (key.until_ms for peer in parties.everybody() for key in peer.card.card.keys)
        return cls(
            parties,
            parties.changes,
            now_ms,
            min((end_ms for end_ms in ends if end_ms > now_ms), default=_NEVER_MS),
            tuple(parties.certificates(now_ms)),
            {
                name: Researcher(name, tuple(peer.card.verify_keys(Purpose.TICKET, now_ms)), frozenset(peer.projects))
                for name, peer in parties.peers("researcher").items()
            },
        )

    def holds(self, parties: Parties, now_ms: int) -> bool:
        unchanged = parties is self.parties and parties.changes == self.changes
        return unchanged and self.since_ms <= now_ms < self.until_ms


class KnownPeers:
    """A node's live view of the peers that its log names: asked at every call, so that an entry is obeyed at once."""

    def __init__(self, journal: Journal[StateT], clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._last: _Recognised | None = None

    def own(self) -> VerifiedCard:
        with self._journal.reading() as state:
            return own_card(state.parties)

    def own_log(self) -> NoteVerifier:
        """Verifies checkpoints of the node's own log, whenever they were signed."""
        with self._journal.reading() as state:
            return NoteVerifier(own_card(state.parties).card.origin, state.parties.own_log_keys)

    def log(self, role: Role, name: str) -> NoteVerifier:
        """Verifies a peer's checkpoints. Raises NOT_REGISTERED."""
        return log_of(self.card(role, name), self._clock())

    def witness(self, role: Role, name: str) -> CosignatureVerifier:
        """Verifies a peer's cosignatures. Raises NOT_REGISTERED."""
        return witness_of(self.card(role, name), self._clock())

    def certificates(self) -> tuple[PeerCertificate, ...]:
        """Every certificate that is recognised now; the same tuple for as long as they are the same."""
        return self._recognised().certificates

    def card(self, role: Role, name: str) -> VerifiedCard:
        """A peer's card. Raises NOT_REGISTERED."""
        with self._journal.reading() as state:
            return registered(state.parties, role, name).card

    def agencies(self, role: Role) -> dict[str, VerifiedCard]:
        """The cards of the agencies of a role, by organisation."""
        with self._journal.reading() as state:
            return {name: peer.card for name, peer in state.parties.peers(role).items()}

    def researchers(self) -> Mapping[str, Researcher]:
        """The registered researchers with the keys that are honoured now."""
        return self._recognised().researchers

    def _recognised(self) -> _Recognised:
        with self._journal.reading() as state:
            parties, now_ms, last = state.parties, self._clock(), self._last
            if last is None or not last.holds(parties, now_ms):
                last = self._last = _Recognised.at(parties, now_ms)
            return last

    def inboxes(self) -> dict[str, Registration]:
        with self._journal.reading() as state:
            return {name: peer for name, peer in state.parties.peers("researcher").items() if peer.inbox}
