"""Who may call what: one table, checked before any handler runs, on the certificate of the connection.

A connection that is not mutual TLS 1.3 with a certificate that was registered is refused whatever it asks for. Who calls
is what was registered for exactly this certificate, never what a certificate says of itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import ContextVar

from broker_common.crypto.certificates import Identity, PeerCertificate, Role, certificate_fingerprint
from broker_common.errors import InvalidRequestError
from broker_common.values import Clock

_EVERY_ROLE: frozenset[Role] = frozenset({"researcher", "health", "census"})
_RESEARCHER: frozenset[Role] = frozenset({"researcher"})
_HEALTH: frozenset[Role] = frozenset({"health"})
_CENSUS: frozenset[Role] = frozenset({"census"})

# SECURITY: an RPC that is missing here is refused to everybody.
ALLOWED_ROLES: Mapping[str, frozenset[Role]] = {
    "/tripartite.v1.CensusService/GetPolicy": _RESEARCHER | _HEALTH,
    "/tripartite.v1.CensusService/GetDictionary": _RESEARCHER,
    "/tripartite.v1.CensusService/Quote": _RESEARCHER,
    "/tripartite.v1.CensusService/Count": _HEALTH,
    "/tripartite.v1.CensusService/SendRoster": _HEALTH,
    "/tripartite.v1.CensusService/Collect": _RESEARCHER,
    "/tripartite.v1.HealthService/GetDictionary": _RESEARCHER,
    "/tripartite.v1.HealthService/Submit": _RESEARCHER,
    "/tripartite.v1.InboxService/Deliver": _CENSUS,
    "/tripartite.v1.CardService/Exchange": _RESEARCHER | _HEALTH,
    "/tripartite.v1.LogService/GetCheckpoint": _RESEARCHER | _HEALTH,
    "/tripartite.v1.LogService/GetInclusionProof": _RESEARCHER | _HEALTH,
    "/tripartite.v1.LogService/GetConsistencyProof": _RESEARCHER | _HEALTH,
    "/tripartite.v1.LogService/Witness": _HEALTH,
    "/grpc.health.v1.Health/Check": _EVERY_ROLE,
    "/grpc.health.v1.Health/Watch": _EVERY_ROLE,
    "/grpc.health.v1.Health/List": _EVERY_ROLE,
    # Served only where the operator's configuration says so.
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": _EVERY_ROLE,
}

_caller: ContextVar[Identity] = ContextVar("caller")


def caller() -> Identity:
    """The identity behind the call that is being handled."""
    return _caller.get()


def set_caller(identity: Identity) -> None:
    """For the server's interceptor, and for tests that call a handler directly."""
    _caller.set(identity)


def by_fingerprint(peers: Iterable[PeerCertificate]) -> dict[bytes, PeerCertificate]:
    """The certificates that will be recognised, by fingerprint.

    Raises:
        InvalidRequestError: CONFIG_INVALID, two different ones have the same subject, so that TLS would see one only.
    """
    indexed = {peer.fingerprint: peer for peer in peers}
    by_subject: dict[str, PeerCertificate] = {}
    for peer in indexed.values():
        other = by_subject.setdefault(peer.subject, peer)
        if other is not peer:
            problem = f"the certificates of {other.identity.uri} and {peer.identity.uri} have the same subject"
            raise InvalidRequestError("CONFIG_INVALID", file="the registered cards", problem=problem)
    return indexed


def verify_caller(
    auth_context: Mapping[str, Iterable[bytes]], registered: Mapping[bytes, PeerCertificate], clock: Clock
) -> Identity:
    """The identity that the connection's certificate was registered for.

    Raises:
        InvalidRequestError: INSECURE_TRANSPORT or CERTIFICATE_EXPIRED.
    """

    def only(name: str) -> str:
        values = [value.decode("utf-8", "replace") for value in auth_context.get(name, ())]
        return values[0] if len(values) == 1 else ""

    secure = (
        only("transport_security_type") == "ssl"
        and only("security_level") == "TSI_PRIVACY_AND_INTEGRITY"
        and only("ssl_tls_version") == "TLSv1.3"
    )
    if not secure:
        raise InvalidRequestError("INSECURE_TRANSPORT")
    try:
        peer = registered.get(certificate_fingerprint(only("x509_pem_cert").encode()))
    except ValueError as error:
        raise InvalidRequestError("INSECURE_TRANSPORT") from error
    if peer is None:
        # SECURITY: the handshake passed, so a registered key signed this certificate. It is nobody all the same.
        raise InvalidRequestError("INSECURE_TRANSPORT")
    # TLS checks this at the handshake only; a connection may outlive its certificate.
    if peer.expiry_ms <= clock():
        raise InvalidRequestError("CERTIFICATE_EXPIRED", subject=peer.identity.role)
    return peer.identity


def verify_role(identity: Identity, method: str) -> None:
    """Return only if `identity` may call `method`.

    Raises:
        InvalidRequestError: WRONG_ROLE.
    """
    if identity.role not in ALLOWED_ROLES.get(method, frozenset()):
        raise InvalidRequestError("WRONG_ROLE", role=identity.role, rpc=method.rpartition("/")[2])
