"""Who calls is decided by what was registered for exactly this certificate, never by what a certificate says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from fakes.clock import FakeClock
from fakes.forged import twin
from hypothesis import given
from hypothesis import strategies as st

from broker_common.crypto.certificates import Identity, PeerCertificate, TlsCredentials, make_certificate
from broker_common.errors import InvalidRequestError
from broker_common.rpc.callers import (
    ALLOWED_ROLES,
    by_fingerprint,
    caller,
    set_caller,
    verify_caller,
    verify_role,
)

NOW_MS = FakeClock()()
DAY_MS = 86_400_000
HEALTH = Identity("health-on", "health", "node-1")
ALICE = Identity("univ", "researcher", "alice")
MALLORY = Identity("univ", "researcher", "mallory")
OF_HEALTH = make_certificate(HEALTH, now_ms=NOW_MS, days=90)
OF_ALICE = make_certificate(ALICE, now_ms=NOW_MS, days=30)
OF_MALLORY = make_certificate(MALLORY, now_ms=NOW_MS, days=90)
REGISTERED = by_fingerprint(PeerCertificate.parse_pem(own.certificate) for own in (OF_HEALTH, OF_ALICE, OF_MALLORY))


def connection(certificate: bytes, **changes: Any) -> dict[str, list[bytes]]:
    """GRPC's view of a connection that shows this certificate."""
    return {
        "transport_security_type": [b"ssl"],
        "security_level": [b"TSI_PRIVACY_AND_INTEGRITY"],
        "ssl_tls_version": [b"TLSv1.3"],
        "x509_pem_cert": [certificate],
    } | changes


def who(
    context: Mapping[str, Iterable[bytes]],
    registered: Mapping[bytes, PeerCertificate] = REGISTERED,
    now_ms: int = NOW_MS,
) -> Identity:
    """Who is behind the connection."""
    return verify_caller(context, registered, FakeClock(now_ms))


def refusal(context: Mapping[str, Iterable[bytes]], now_ms: int = NOW_MS) -> InvalidRequestError:
    """The error with which the connection is refused."""
    with pytest.raises(InvalidRequestError) as caught:
        who(context, now_ms=now_ms)
    return caught.value


def test_a_registered_certificate_is_whom_it_was_registered_for() -> None:
    """Each is told from the others."""
    for identity, own in ((HEALTH, OF_HEALTH), (ALICE, OF_ALICE), (MALLORY, OF_MALLORY)):
        assert who(connection(own.certificate)) == identity


def test_what_is_registered_counts_not_what_the_certificate_says() -> None:
    """The identity is taken from the registration: a fingerprint names a peer, its text does not."""
    (fingerprint,) = by_fingerprint([PeerCertificate.parse_pem(OF_MALLORY.certificate)])
    other = PeerCertificate.parse_pem(OF_ALICE.certificate)
    assert who(connection(OF_MALLORY.certificate), {fingerprint: other}) == ALICE


def issued(issuer: TlsCredentials, identity: Identity, subject: x509.Name | None = None) -> bytes:
    """A certificate for `identity` that the issuer's key signs as if it were an authority."""
    own = x509.load_pem_x509_certificate(issuer.certificate)
    key = load_pem_private_key(issuer.private_key, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject or x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "another")]))
        .issuer_name(own.subject)
        .public_key(ec.generate_private_key(ec.SECP256R1()).public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(own.not_valid_before_utc)
        .not_valid_after(own.not_valid_after_utc + timedelta(days=365))
        .add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(identity.uri)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate.verify_directly_issued_by(own)
    return certificate.public_bytes(Encoding.PEM)


@pytest.mark.parametrize("identity", [HEALTH, ALICE, MALLORY, Identity("census-ca", "census", "node-1")])
def test_a_registered_peer_cannot_sign_itself_another_identity(identity: Identity) -> None:
    """TLS takes every trusted certificate for an authority, although it says it is none; the fingerprint does not."""
    own = x509.load_pem_x509_certificate(OF_MALLORY.certificate)
    assert not own.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert PeerCertificate.parse_pem(OF_MALLORY.certificate).fingerprint in REGISTERED
    assert refusal(connection(issued(OF_MALLORY, identity))).code == "INSECURE_TRANSPORT"
    # Nor under the subject of the peer it poses as, nor under its own.
    for subject in (x509.load_pem_x509_certificate(OF_HEALTH.certificate).subject, own.subject):
        assert refusal(connection(issued(OF_MALLORY, identity, subject))).code == "INSECURE_TRANSPORT"


def test_a_new_certificate_of_a_registered_peer_is_nobodys_until_it_is_registered() -> None:
    """Not even with the same identity and issued by the old key."""
    again = make_certificate(HEALTH, now_ms=NOW_MS, days=90).certificate
    assert refusal(connection(again)).code == "INSECURE_TRANSPORT"
    assert refusal(connection(issued(OF_HEALTH, HEALTH))).code == "INSECURE_TRANSPORT"
    with pytest.raises(InvalidRequestError):
        who(connection(OF_HEALTH.certificate), {})


INSECURE: dict[str, dict[str, list[bytes]]] = {
    "no encryption": {"transport_security_type": [b"insecure"]},
    "another transport": {"transport_security_type": [b"alts"]},
    "no transport": {"transport_security_type": []},
    "two transports": {"transport_security_type": [b"ssl", b"insecure"]},
    "integrity alone": {"security_level": [b"TSI_INTEGRITY_ONLY"]},
    "no security": {"security_level": [b"TSI_SECURITY_NONE"]},
    "two levels": {"security_level": [b"TSI_PRIVACY_AND_INTEGRITY", b"TSI_SECURITY_NONE"]},
    "no level": {"security_level": []},
    "TLS 1.2": {"ssl_tls_version": [b"TLSv1.2"]},
    "TLS of no version": {"ssl_tls_version": []},
    "TLS of two versions": {"ssl_tls_version": [b"TLSv1.3", b"TLSv1.3"]},
    "not text": {"ssl_tls_version": [b"TLSv1.3\xff"]},
    "no certificate": {"x509_pem_cert": []},
    "an empty certificate": {"x509_pem_cert": [b""]},
    "rubbish": {"x509_pem_cert": [b"\xff\xfe"]},
    "half a certificate": {"x509_pem_cert": [OF_HEALTH.certificate[:-60]]},
    "two certificates": {"x509_pem_cert": [OF_HEALTH.certificate, OF_HEALTH.certificate]},
    "two of different peers": {"x509_pem_cert": [OF_MALLORY.certificate, OF_HEALTH.certificate]},
    "the certificate as a chain only": {"x509_pem_cert": [], "x509_pem_cert_chain": [OF_HEALTH.certificate]},
}


@pytest.mark.parametrize("changes", INSECURE.values(), ids=list(INSECURE))
def test_a_connection_that_is_not_mutual_tls_1_3_is_nobodys(changes: dict[str, list[bytes]]) -> None:
    """Whatever certificate it shows."""
    assert refusal(connection(OF_HEALTH.certificate) | changes).code == "INSECURE_TRANSPORT"


@pytest.mark.parametrize("missing", sorted(connection(b"")))
def test_a_connection_that_does_not_say_is_nobodys(missing: str) -> None:
    """A property that the transport leaves out is not assumed."""
    context = connection(OF_HEALTH.certificate)
    del context[missing]
    assert refusal(context).code == "INSECURE_TRANSPORT"
    assert refusal({}).code == "INSECURE_TRANSPORT"


@given(
    certificate=st.binary(max_size=200) | st.binary(max_size=30).map(lambda tail: OF_HEALTH.certificate[:-30] + tail)
)
def test_no_certificate_of_any_shape_is_more_than_refused(certificate: bytes) -> None:
    """A stranger's certificate cannot fail in another way."""
    assert refusal(connection(certificate)).code == "INSECURE_TRANSPORT"


@pytest.mark.parametrize(("left_ms", "good"), [(1, True), (0, False), (-1, False), (-365 * DAY_MS, False)])
def test_a_connection_does_not_outlive_its_certificate(left_ms: int, good: bool) -> None:
    """To the millisecond, although the handshake was long ago; whose it was is said by role alone."""
    context = connection(OF_ALICE.certificate)
    now_ms = NOW_MS + 30 * DAY_MS - left_ms
    if good:
        assert who(context, now_ms=now_ms) == ALICE
    else:
        error = refusal(context, now_ms)
        assert (error.code, error.details) == ("CERTIFICATE_EXPIRED", {"subject": "researcher"})


def test_registration_is_by_fingerprint() -> None:
    """Each certificate once, even if it is named twice."""
    peers = [PeerCertificate.parse_pem(own.certificate) for own in (OF_HEALTH, OF_ALICE, OF_HEALTH)]
    registered = by_fingerprint(peers)
    assert registered == {peer.fingerprint: peer for peer in peers}
    assert len(registered) == 2
    assert by_fingerprint([]) == {}


def test_nobody_can_hide_another_peer_behind_an_equal_subject() -> None:
    """TLS would see only one of two certificates with one subject: both are named, and none is served."""
    peers = [PeerCertificate.parse_pem(own.certificate) for own in (OF_ALICE, twin(OF_ALICE, MALLORY))]
    assert peers[0].subject == peers[1].subject
    for order in (peers, peers[::-1]):
        with pytest.raises(InvalidRequestError) as caught:
            by_fingerprint(order)
        assert caught.value.code == "CONFIG_INVALID"
        assert ALICE.uri in caught.value.details["problem"]
        assert MALLORY.uri in caught.value.details["problem"]


def test_different_subjects_do_not_disturb_each_other() -> None:
    """The check above refuses what it names: one key in two roles has two subjects."""
    peers = [PeerCertificate.parse_pem(own.certificate) for own in (OF_ALICE, OF_MALLORY, twin(OF_ALICE, HEALTH))]
    assert len(by_fingerprint(peers)) == 3


@pytest.mark.parametrize("method", sorted(ALLOWED_ROLES))
def test_a_method_is_for_the_roles_of_its_row(method: str) -> None:
    """Nobody else; the method is named in the refusal without its service."""
    for identity in (HEALTH, ALICE, Identity("census-ca", "census", "node-1")):
        if identity.role in ALLOWED_ROLES[method]:
            verify_role(identity, method)
        else:
            with pytest.raises(InvalidRequestError) as caught:
                verify_role(identity, method)
            assert caught.value.code == "WRONG_ROLE"
            assert caught.value.details == {"role": identity.role, "rpc": method.rpartition("/")[2]}


@pytest.mark.parametrize(
    "method", ["", "/", "Count", "/tripartite.v1.CensusService/Reset", "/grpc.health.v1.Health/count"]
)
def test_a_method_without_a_row_is_for_nobody(method: str) -> None:
    """An RPC that was added and forgotten in the table is refused to everybody."""
    for identity in (HEALTH, ALICE, Identity("census-ca", "census", "node-1")):
        with pytest.raises(InvalidRequestError) as caught:
            verify_role(identity, method)
        assert caught.value.code == "WRONG_ROLE"


def test_a_handler_knows_its_caller() -> None:
    """And nobody else's, because each call has a context of its own."""
    set_caller(ALICE)
    assert caller() == ALICE
    set_caller(HEALTH)
    assert caller() == HEALTH
