"""What one log says of parties as it is read: the keys that its node has announced, and the peers that it has registered.

Kept beyond an end: a receipt or a note may be older than the card that replaced a key, or than a revocation.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from broker_common.audit.logs.notes import KeyHistory
from broker_common.crypto.cards import VerifiedCard
from broker_common.crypto.certificates import Role
from broker_common.crypto.signing import Purpose, VerifyKey
from broker_common.tlog.cosignature import CosignatureVerifier
from broker_common.tlog.entries import Announced, Entry, Registered, Revoked
from broker_common.tlog.membership import Membership
from broker_common.tlog.note import NoteVerifier


@dataclass(frozen=True, slots=True)
class KnownResearcher:
    """What a log said of a researcher between two entries; no card after a revocation."""

    card: VerifiedCard | None
    projects: frozenset[str]

    def ticket_keys(self, time_ms: int) -> list[VerifyKey]:
        return [] if self.card is None else self.card.verify_keys(Purpose.TICKET, time_ms)


class Parties:
    """Everybody whom one log names."""

    def __init__(self) -> None:
        self.own = KeyHistory()
        self._agencies: dict[str, KeyHistory] = {}
        # For each name: the entries at which its card changed, and the cards. Cards change rarely.
        self._researchers: dict[str, tuple[list[int], list[KnownResearcher]]] = {}

    def learn(self, entry: Entry, membership: Membership) -> VerifiedCard | None:
        """Take in an entry that was applied; gives the card of a peer that it registers."""
        match entry.event:
            case Announced():
                if membership.own is not None:
                    self.own.learn(membership.own, entry.time_ms)
            case Registered(card=signed):
                for peer in membership.everybody():
                    if peer.card.signed == signed:
                        self._register(entry, peer.card, frozenset(peer.projects))
                        return peer.card
            case Revoked(role="researcher", name=name):
                self._say(name, entry.sequence, KnownResearcher(None, frozenset()))
            case _:
                pass
        return None

    def log(self, since_ms: int) -> NoteVerifier:
        """Who may have signed a checkpoint of this log whose last entry is of this time."""
        return NoteVerifier(self.own.origin, self.own.keys(Purpose.LOG, since_ms))

    def own_witness(self, since_ms: int) -> CosignatureVerifier:
        """Who may have cosigned for the node whose log this is."""
        return CosignatureVerifier(self.own.origin, self.own.keys(Purpose.WITNESS, since_ms))

    def witnesses(self, since_ms: int) -> dict[str, CosignatureVerifier]:
        """By agency, of those that this log has registered: who may have cosigned it for that agency."""
        return {
            agency: CosignatureVerifier(keys.origin, keys.keys(Purpose.WITNESS, since_ms))
            for agency, keys in self._agencies.items()
        }

    def researcher(self, name: str, entry: int) -> KnownResearcher | None:
        """What the log said of a researcher when this entry was made."""
        if name not in self._researchers:
            return None
        places, said = self._researchers[name]
        place = bisect_right(places, entry)
        return said[place - 1] if place else None

    def researcher_ever(self, name: str) -> KnownResearcher | None:
        """What the log said of a researcher last, before any revocation."""
        _, said = self._researchers.get(name, ([], []))
        return next((known for known in reversed(said) if known.card is not None), None)

    def _register(self, entry: Entry, card: VerifiedCard, projects: frozenset[str]) -> None:
        role: Role = card.card.role
        if role == "researcher":
            self._say(card.card.name, entry.sequence, KnownResearcher(card, projects))
        else:
            self._agencies.setdefault(card.card.organisation, KeyHistory()).learn(card, entry.time_ms)

    def _say(self, name: str, entry: int, known: KnownResearcher) -> None:
        places, said = self._researchers.setdefault(name, ([], []))
        places.append(entry)
        said.append(known)
