"""Who a node is and whom it knows: the part of every log's state that its `announced`, `registered` and `revoked` make.

A peer is known by its organisation (an agency) or by its id (a researcher), one card at a time. A revoked peer is
unknown from that entry on; registering again is an operator's act like the first time. The name of a log belongs to the
party that had it first, for ever: checkpoints and cosignatures are known by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker_common.crypto.cards import VerifiedCard, is_successor, verify_card, verify_successor
from broker_common.crypto.certificates import Identity, PeerCertificate, Role
from broker_common.crypto.signing import Purpose, VerifyKey
from broker_common.errors import InvalidRequestError
from broker_common.tlog.cosignature import CosignatureVerifier
from broker_common.tlog.entries import Announced, Registered, Revoked
from broker_common.tlog.note import NoteVerifier

# SECURITY: nobody else is ever recognised; a second census agency could read criteria.
_PEER_ROLES: Mapping[str, frozenset[Role]] = {
    "census": frozenset({"researcher", "health"}),
    "health": frozenset({"researcher", "census"}),
}


@dataclass(frozen=True, slots=True, eq=False)
class Registration:
    """One known peer."""

    card: VerifiedCard
    projects: tuple[str, ...] = ()
    inbox: str = ""


def log_of(card: VerifiedCard, now_ms: int) -> NoteVerifier:
    """Verifies the checkpoints of a party's log at this instant."""
    return NoteVerifier(card.card.origin, tuple(card.verify_keys(Purpose.LOG, now_ms)))


def witness_of(card: VerifiedCard, now_ms: int) -> CosignatureVerifier:
    """Verifies a party's cosignatures at this instant. It cosigns under the name of its own log."""
    return CosignatureVerifier(card.card.origin, tuple(card.verify_keys(Purpose.WITNESS, now_ms)))


def peer_name(identity: Identity) -> str:
    """The name of a peer: a researcher's id, an agency's organisation."""
    return identity.name if identity.role == "researcher" else identity.organisation


class Parties:
    """One node's card and its peers. Every method that changes it checks first and raises InvalidRequestError."""

    def __init__(self, identity_key: VerifyKey) -> None:
        # The root of everything the node says of itself.
        self._identity_key = identity_key
        self.own: VerifiedCard | None = None
        # Every key that the node's log was ever signed with: what was signed under one that ended since is still ours.
        self.own_log_keys: tuple[VerifyKey, ...] = ()
        self._peers: dict[tuple[str, str], Registration] = {}
        # The owner of each log name, of all parties that were ever registered.
        self._owners: dict[str, tuple[str, str]] = {}
        # How often the peers have changed.
        self.changes = 0

    @classmethod
    def copy_of(cls, other: Parties) -> Parties:
        """One that can be changed without changing the other."""
        copy = cls(other._identity_key)
        copy.own, copy.own_log_keys = other.own, other.own_log_keys
        copy._peers, copy._owners = dict(other._peers), dict(other._owners)
        return copy

    def announce(self, event: Announced, role: str, origin: str) -> None:
        """Take the node's own card.

        Raises:
            InvalidRequestError: it is not this node's, not signed by its identity key, or not newer.
        """
        if self.own is None:
            card = verify_card(event.card)
            if self._identity_key not in [key for _, key in card.listed(Purpose.IDENTITY.value)]:
                raise InvalidRequestError("BAD_SIGNATURE", subject="card")
        else:
            card = verify_successor(self.own, event.card)
        if (card.card.role, card.card.origin) != (role, origin):
            raise InvalidRequestError("WRONG_ORGANISATION", subject="card")
        self.own = card
        listed = [key for _, key in card.listed(Purpose.LOG.value) if isinstance(key, VerifyKey)]
        self.own_log_keys = tuple(dict.fromkeys((*self.own_log_keys, *listed)))

    def register(self, event: Registered, role: str, origin: str) -> None:
        """Take a peer's card at a node of this role, whose log has this name.

        Raises:
            InvalidRequestError: it does not agree with itself, is of nobody whom such a node knows, hides a certificate
                from TLS, does not follow the card that is known without a reason being given, or (LOG_NAME_TAKEN) names
                somebody else's log as its own.
        """
        card = verify_card(event.card)
        identity = card.card.identity
        if identity.role not in _PEER_ROLES.get(role, ()):
            raise InvalidRequestError("WRONG_ORGANISATION", subject="card")
        key = (identity.role, peer_name(identity))
        known = self._peers.get(key)
        follows = known is None or known.card.signed == event.card or is_successor(known.card, event.card)
        if follows == bool(event.note):
            raise InvalidRequestError("BAD_SIGNATURE", subject="card")
        _verify_subjects(card, [peer.card for name, peer in self._peers.items() if name != key])
        self._verify_log_name(card, key, origin)
        self._peers[key] = Registration(card, event.projects, event.inbox)
        self.changes += 1
        if card.card.origin:
            self._owners[card.card.origin] = key

    def _verify_log_name(self, card: VerifiedCard, key: tuple[str, str], origin: str) -> None:
        # SECURITY: also of those who are revoked. A cosignature counts as the agency's whose log has the name beside it:
        # with a name that two parties share, either could let out what only the other may.
        name = card.card.origin
        owner = self._owners.get(name, key)
        if name == origin:
            raise InvalidRequestError("LOG_NAME_TAKEN", party=card.card.identity.uri, log=name, owner="this node")
        if owner != key:
            raise InvalidRequestError("LOG_NAME_TAKEN", party=card.card.identity.uri, log=name, owner=" ".join(owner))

    def revoke(self, event: Revoked) -> None:
        """Forget a peer.

        Raises:
            InvalidRequestError: NOT_REGISTERED.
        """
        if self._peers.pop((event.role, event.name), None) is None:
            raise InvalidRequestError("NOT_REGISTERED", party=f"{event.role} {event.name[:64]}")
        self.changes += 1

    def peer(self, role: Role, name: str) -> Registration | None:
        return self._peers.get((role, name))

    def peers(self, role: Role) -> dict[str, Registration]:
        """The known peers of a role, by name, in the order in which they became known."""
        return {name: peer for (kind, name), peer in self._peers.items() if kind == role}

    def everybody(self) -> list[Registration]:
        return list(self._peers.values())

    def certificates(self, now_ms: int) -> list[PeerCertificate]:
        return [certificate for peer in self._peers.values() for certificate in peer.card.certificates(now_ms)]

    def own_keys(self, purpose: Purpose, now_ms: int) -> list[VerifyKey]:
        """The node's own public keys for a purpose that are honoured at this instant."""
        return [] if self.own is None else self.own.verify_keys(purpose, now_ms)


def _verify_subjects(card: VerifiedCard, others: list[VerifiedCard]) -> None:
    """TLS finds a trusted certificate by its subject: two with the same one would hide each other."""
    # SECURITY: on one card as well. A node that is told of such a pair refuses every call of everybody.
    taken = {certificate.subject for other in others for certificate in other.certificates(0)}
    for certificate in card.certificates(0):
        if certificate.subject in taken:
            raise InvalidRequestError("MALFORMED_MESSAGE", problem="the card: its certificate's subject is taken")
        taken.add(certificate.subject)
