"""Registered researchers, as a node's configuration names them: who may ask, for which studies, with which keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from broker_common.crypto.certificates import PeerCertificate, Role
from broker_common.crypto.signing import Purpose, VerifyKey
from broker_common.errors import InvalidRequestError
from broker_common.query.ticket import Researcher
from broker_common.storage.home import Home

__all__ = ["Identifier", "LogName", "ResearcherPeer", "read_peer_certificate", "read_researchers"]

# As in the URI SAN of a certificate.
Identifier = Annotated[str, Meta(pattern=r"\A[a-z0-9][a-z0-9-]{0,62}\Z")]
# As in a C2SP note.
LogName = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"\A[^\s+]+\Z")]


class ResearcherPeer(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A registered researcher."""

    # Their TLS certificate.
    certificate: str
    # The public key of their tickets.
    ticket_key: str
    # The studies they may ask for.
    projects: list[Identifier]


def read_peer_certificate(
    home: Home, reference: str, role: Role, *, organisation: str | None = None, name: str | None = None
) -> PeerCertificate:
    """A peer's certificate, which names the peer that it is registered for.

    SECURITY: whoever hands in a certificate chooses what it says. A researcher's that says "health", or another
    researcher's name, must not become trusted.

    Raises:
        InvalidRequestError: SECRET_MISSING; CONFIG_INVALID, it names somebody else.
    """
    try:
        certificate = PeerCertificate.parse_pem(home.read(reference))
    except ValueError as error:
        raise _mismatch(home, reference, f"is not the certificate of a peer ({error})") from error
    identity = certificate.identity
    if identity.role != role or organisation not in {None, identity.organisation} or name not in {None, identity.name}:
        raise _mismatch(home, reference, f"names {identity.uri}, not the {role} it is registered for")
    return certificate


def _mismatch(home: Home, reference: str, problem: str) -> InvalidRequestError:
    return InvalidRequestError(
        "CONFIG_INVALID", file=str(home.path / "config.toml"), problem=f"the certificate {reference} {problem}"
    )


def read_researchers(home: Home, peers: Mapping[str, ResearcherPeer]) -> dict[str, Researcher]:
    """The researchers with their keys, by id."""

    def ticket_key(text: str) -> VerifyKey:
        return VerifyKey.parse_text(text, Purpose.TICKET)

    return {
        name: Researcher(name, home.read_key(peer.ticket_key, ticket_key), frozenset(peer.projects))
        for name, peer in peers.items()
    }
