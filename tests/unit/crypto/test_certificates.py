"""Certificates: they say who somebody is, for how long, and vouch for nobody else."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID
from fakes.clock import FakeClock
from fakes.forged import STRANGE, common_name, in_our_form
from hypothesis import given
from hypothesis import strategies as st

from broker_common.crypto.certificates import (
    Identity,
    PeerCertificate,
    Role,
    certificate_expiry_ms,
    certificate_fingerprint,
    make_certificate,
    parse_identity,
    server_name,
)

NOW_MS = FakeClock()()
IDENTITY = Identity("health-on", "health", "node-1")
CREDENTIALS = make_certificate(IDENTITY, now_ms=NOW_MS, days=90)
CERTIFICATE = x509.load_pem_x509_certificate(CREDENTIALS.certificate)
DAY_MS = 86_400_000


def test_the_key_is_the_certificates_own_and_p256() -> None:
    """The curve that gRPC accepts, and a private key that fits."""
    key = load_pem_private_key(CREDENTIALS.private_key, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.curve.name == "secp256r1"
    assert key.public_key() == CERTIFICATE.public_key()


def test_it_is_signed_by_itself() -> None:
    """Peers pin it; there is no authority whose key could make another one."""
    CERTIFICATE.verify_directly_issued_by(CERTIFICATE)


def test_names_stand_in_the_alternative_names() -> None:
    """Identity as a URI, the role as the server name that clients pin."""
    names = CERTIFICATE.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["tripartite://health-on/health/node-1"]
    assert names.get_values_for_type(x509.DNSName) == ["health.tripartite.internal"] == [server_name("health")]


def test_it_is_no_authority() -> None:
    """A pinned peer cannot issue a certificate for somebody else."""
    constraints = CERTIFICATE.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert not constraints.value.ca
    usage = CERTIFICATE.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usage) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}


def test_it_is_valid_from_an_hour_ago_for_the_days_given() -> None:
    """Clocks may differ a little; the end is the one that was asked for."""
    assert certificate_expiry_ms(CREDENTIALS.certificate) == NOW_MS + 90 * DAY_MS
    assert int(CERTIFICATE.not_valid_before_utc.timestamp() * 1000) == NOW_MS - 3_600_000


def test_two_certificates_share_neither_key_nor_number() -> None:
    """Making a certificate again replaces it; it does not renew the old key."""
    again = x509.load_pem_x509_certificate(make_certificate(IDENTITY, now_ms=NOW_MS, days=90).certificate)
    assert again.public_key() != CERTIFICATE.public_key()
    assert again.serial_number != CERTIFICATE.serial_number


@pytest.mark.parametrize("role", ["researcher", "health", "census"])
def test_an_identity_survives_its_uri(role: Role) -> None:
    """The peer reads the certificate's own words."""
    identity = Identity("org-1", role, "a" * 63)
    assert parse_identity(identity.uri) == identity
    certificate = x509.load_pem_x509_certificate(make_certificate(identity, now_ms=NOW_MS, days=1).certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == [identity.uri]


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "tripartite://org/health",
        "tripartite://org/health/",
        "tripartite:///health/name",
        "tripartite://org/auditor/name",
        "tripartite://org/Health/name",
        "tripartite://ORG/health/name",
        "tripartite://org/health/na me",
        "tripartite://org/health/name/more",
        "tripartite://org/health/name\n",
        "tripartite://org/health/-name",
        "tripartite://o.rg/health/name",
        "tripartite://org/health/" + "a" * 64,
        "https://org/health/name",
        "xtripartite://org/health/name",
    ],
)
def test_anything_else_is_no_identity(uri: str) -> None:
    """An unknown role or a name outside the grammar is nobody."""
    with pytest.raises(ValueError, match="not an identity"):
        parse_identity(uri)


def test_what_is_registered_is_read_from_the_certificate_alone() -> None:
    """Identity, fingerprint, subject and end, whatever the line endings of the file."""
    for file in (CREDENTIALS.certificate, CREDENTIALS.certificate.replace(b"\n", b"\r\n") + b"\n"):
        peer = PeerCertificate.parse_pem(file)
        assert peer.identity == IDENTITY
        assert peer.fingerprint == hashlib.sha256(CERTIFICATE.public_bytes(Encoding.DER)).digest()
        assert peer.subject == CERTIFICATE.subject.rfc4514_string()
        assert peer.expiry_ms == certificate_expiry_ms(file) == NOW_MS + 90 * DAY_MS
        assert x509.load_pem_x509_certificates(peer.pem) == [CERTIFICATE]


def test_a_fingerprint_names_one_certificate() -> None:
    """The fingerprint is of the DER form: the same in any spelling of the file, another for the same identity made again."""
    expected = hashlib.sha256(CERTIFICATE.public_bytes(Encoding.DER)).digest()
    assert certificate_fingerprint(CREDENTIALS.certificate) == expected
    assert certificate_fingerprint(CREDENTIALS.certificate.replace(b"\n", b"\r\n")) == expected
    again = make_certificate(IDENTITY, now_ms=NOW_MS, days=90).certificate
    assert certificate_fingerprint(again) != expected


def test_no_certificate_is_read_to_know_who_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even among more peers than are worth remembering: each call would pay for it."""

    def read(pem: bytes) -> x509.Certificate:
        raise AssertionError(pem)

    monkeypatch.setattr(x509, "load_pem_x509_certificate", read)
    again = CREDENTIALS.certificate.replace(b"\n", b"\r\n") + b"\n"
    assert certificate_fingerprint(again) == certificate_fingerprint(CREDENTIALS.certificate)


@pytest.mark.parametrize("file", [b"", b"not a certificate", CREDENTIALS.private_key, CREDENTIALS.certificate[:-40]])
def test_what_is_no_certificate_has_no_fingerprint(file: bytes) -> None:
    """A connection that shows nothing is nobody's."""
    with pytest.raises(ValueError, match=r"."):
        certificate_fingerprint(file)


def test_no_two_certificates_have_the_same_subject() -> None:
    """TLS finds a trusted certificate by its subject; that of the same peer made again must not hide the old one."""
    made = [make_certificate(IDENTITY, now_ms=NOW_MS, days=90).certificate for _ in range(10)]
    subjects = {PeerCertificate.parse_pem(certificate).subject for certificate in made}
    assert len(subjects) == 10
    assert all(subject.startswith("CN=tripartite health ") for subject in subjects)
    spki = CERTIFICATE.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert CERTIFICATE.subject.rfc4514_string() == f"CN=tripartite health {hashlib.sha256(spki).hexdigest()[:32]}"


@pytest.mark.parametrize("spelling", [bytes.rstrip, lambda file: file.replace(b"\n", b"\r\n").rstrip()])
def test_registered_certificates_stand_one_after_the_other(spelling: Callable[[bytes], bytes]) -> None:
    """The server trusts all of them as one file; with one that lacks its last newline, gRPC could read none of it.

    gRPC's reader wants each boundary on a line of its own (RFC 7468); that of this library is not so strict.
    """
    peers = [PeerCertificate.parse_pem(spelling(file)) for file in (CREDENTIALS.certificate, OTHER)]
    trusted = b"".join(peer.pem for peer in peers)
    assert x509.load_pem_x509_certificates(trusted) == [CERTIFICATE, x509.load_pem_x509_certificate(OTHER)]
    assert trusted.splitlines().count(b"-----BEGIN CERTIFICATE-----") == 2


def naming(*uris: str) -> bytes:
    """A certificate like ours that names exactly these URIs."""
    general = [x509.UniformResourceIdentifier(uri) for uri in uris]
    names = x509.SubjectAlternativeName([x509.DNSName(server_name(IDENTITY.role)), *general])
    return in_our_form(IDENTITY, extensions=((names, False), CONSTRAINTS, USAGE)).certificate


CONSTRAINTS = x509.BasicConstraints(ca=False, path_length=None), True
USAGE = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), False
OTHER = make_certificate(Identity("census-ca", "census", "node-1"), now_ms=NOW_MS, days=1).certificate


def test_our_form_written_down_a_second_time_is_taken() -> None:
    """The tables below refuse what they name."""
    for certificate in (in_our_form(IDENTITY).certificate, naming(IDENTITY.uri)):
        assert PeerCertificate.parse_pem(certificate).identity == IDENTITY


@pytest.mark.parametrize("role", ["researcher", "health", "census"])
def test_a_certificate_of_another_form_is_refused(role: Role) -> None:
    """One place that differs is enough: TLS could read it in another way, or stop reading at it."""
    identity = Identity("org-1", role, "alice")
    refusals = dict.fromkeys(STRANGE, "")
    for what, strange in STRANGE.items():
        certificate = strange(identity).certificate
        try:
            PeerCertificate.parse_pem(certificate)
        except ValueError as error:
            refusals[what] = str(error)
    assert [what for what, said in refusals.items() if not said] == []


def test_a_certificate_in_another_name_is_of_another_form() -> None:
    """Nothing of one party's certificate can be put into another's: the name is part of what is compared and signed."""
    der = CERTIFICATE.public_bytes(Encoding.DER)
    assert der.count(b"node-1") == 1
    text = b64encode(der.replace(b"node-1", b"node-2")).decode()
    with pytest.raises(ValueError, match="not signed with its own key"):
        PeerCertificate.parse_pem(f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n".encode())


@given(st.lists(st.tuples(st.integers(0, 10**4), st.integers(0, 255)), min_size=1, max_size=3))
@pytest.mark.filterwarnings("ignore:Parsed a serial number")
def test_no_altered_byte_of_a_certificate_goes_unnoticed(changes: list[tuple[int, int]]) -> None:
    """Neither in what was signed nor around it; and whatever is wrong is said in the one way that callers expect."""
    good = CERTIFICATE.public_bytes(Encoding.DER)
    der = bytearray(good)
    for place, value in changes:
        der[place % len(der)] = value
    text = b64encode(der).decode()
    pem = f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n".encode()
    if der == good:
        assert PeerCertificate.parse_pem(pem).identity == IDENTITY
    else:
        with pytest.raises(ValueError, match=r"."):
            PeerCertificate.parse_pem(pem)


@pytest.mark.parametrize(
    "certificate",
    [
        b"",
        b"not a certificate",
        CREDENTIALS.private_key,
        CREDENTIALS.certificate[:-40],
        naming(),
        naming("https://x.test"),
        naming(IDENTITY.uri, "tripartite://x/census/y"),
        naming(IDENTITY.uri, IDENTITY.uri),
        naming(IDENTITY.uri, "https://x.test"),
        in_our_form(IDENTITY, extensions=(CONSTRAINTS, USAGE)).certificate,
    ],
    ids=range(10),
)
def test_a_certificate_that_names_nobody_or_two_is_refused(certificate: bytes) -> None:
    """A trusted party has exactly one name."""
    with pytest.raises(ValueError, match=r"."):
        PeerCertificate.parse_pem(certificate)


def patched(old: bytes, new: bytes) -> bytes:
    """A certificate with a part of its DER form replaced: what no honest library writes."""
    names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(IDENTITY.uri)])
    more = (names, False), CONSTRAINTS, (x509.SubjectKeyIdentifier(bytes(20)), False)
    own = in_our_form(IDENTITY, subject=common_name("home made"), extensions=more).certificate
    der = x509.load_pem_x509_certificate(own).public_bytes(Encoding.DER)
    assert old in der
    text = b64encode(der.replace(old, new)).decode()
    return f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n".encode()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # The key identifier (2.5.29.14) becomes a second list of names (17), or of constraints (19).
        (b"\x55\x1d\x0e", b"\x55\x1d\x11"),
        (b"\x55\x1d\x0e", b"\x55\x1d\x13"),
        # The URI becomes an EDI party name, a registered id, an address.
        (b"\x86\x24trip", b"\xa5\x24trip"),
        (b"\x86\x24trip", b"\x88\x24trip"),
        (b"\x86\x24trip", b"\x87\x24trip"),
        (b"\x86\x24trip", b"\x86\xff\xff\xff\xff"),
        (b"home made", b"\xff" * 9),
    ],
    ids=["names twice", "constraints twice", "party name", "registered id", "address", "length", "not UTF-8"],
)
def test_what_no_library_writes_is_refused_like_the_rest(old: bytes, new: bytes) -> None:
    """ValueError and nothing else, so that a peer's certificate cannot crash the registering node."""
    with pytest.raises(ValueError, match=r"."):
        PeerCertificate.parse_pem(patched(old, new))


@pytest.mark.parametrize(
    "file",
    [
        CREDENTIALS.certificate + OTHER,
        CREDENTIALS.certificate + CREDENTIALS.certificate,
        CREDENTIALS.certificate + OTHER.replace(b" CERTIFICATE", b" TRUSTED CERTIFICATE"),
        CREDENTIALS.certificate + OTHER.replace(b" CERTIFICATE", b" X509 CERTIFICATE"),
        CREDENTIALS.certificate + CREDENTIALS.private_key,
        b"a remark\n" + CREDENTIALS.certificate,
        CREDENTIALS.certificate + b"a remark\n",
        OTHER + CREDENTIALS.certificate,
        CREDENTIALS.certificate.rstrip() + OTHER,
        CREDENTIALS.certificate + OTHER.replace(b"\n", b"\r"),
        CREDENTIALS.certificate + b"\0",
    ],
    ids=[
        *("another", "twice", "another, trusted", "another, old label", "private key", "remark"),
        *("remark after", "another before", "another on the same line", "another, old line ends", "end of text"),
    ],
)
def test_a_second_certificate_cannot_be_smuggled_into_trust(file: bytes) -> None:
    """The file becomes trusted whole, so it must hold nothing but the certificate whose name was checked."""
    with pytest.raises(ValueError, match="does not hold exactly one certificate"):
        PeerCertificate.parse_pem(file)
