"""TLS certificates: ECDSA P-256, self-signed, pinned by the peers that were told of them.

There is no certificate authority, because its operator could pose as anyone: a census agency that signed the health
node's certificate could read criteria. A node recognises exactly the certificates on the cards it knows (DECISIONS 4, 32).
Who somebody is stands in the certificate's URI SAN, `tripartite://ORGANISATION/ROLE/NAME`; which server a client
expects stands in the DNS SAN, `ROLE.tripartite.internal`.

SECURITY: a TLS library takes a trusted certificate for an authority, whatever its basic constraints say, so that a
registered peer could sign itself another identity and pass the handshake. The handshake therefore proves nothing but
possession of some key; who calls is decided by comparing fingerprints (`broker_common.rpc.callers`).
"""

from __future__ import annotations

import binascii
import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, NoReturn, TypeAlias, cast, get_args

from cryptography import x509
from cryptography.exceptions import InternalError, InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Role: TypeAlias = Literal["researcher", "health", "census"]
_URI = re.compile(r"tripartite://([a-z0-9][a-z0-9-]{0,62})/([a-z]+)/([a-z0-9][a-z0-9-]{0,62})")
# Clocks of the parties may differ a little when a certificate is new.
_BACKDATE = timedelta(hours=1)
_PRIVATE_BLOCK = re.compile(rb"-----BEGIN PRIVATE KEY-----\n.+?-----END PRIVATE KEY-----\n", re.DOTALL)
_CERTIFICATE_BLOCK = re.compile(
    rb"-----BEGIN CERTIFICATE-----\r?\n([A-Za-z0-9+/\r\n]+={0,2}\r?\n)-----END CERTIFICATE-----\s*"
)
# Signs nothing that is kept: what a certificate's form is compared with needs some signature, anybody's.
_ANY_KEY = ec.derive_private_key(1, ec.SECP256R1())
# 128 bits: nobody finds a second key with the same subject.
_SUBJECT_CHARACTERS = 32
_DER, _SPKI = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo


@dataclass(frozen=True, slots=True)
class Identity:
    """Who stands at the other end of a connection."""

    organisation: str
    role: Role
    name: str

    @property
    def uri(self) -> str:
        return f"tripartite://{self.organisation}/{self.role}/{self.name}"


@dataclass(frozen=True, slots=True)
class TlsCredentials:
    """A certificate and its private key, PEM."""

    certificate: bytes
    private_key: bytes

    def __repr__(self) -> str:
        return "TlsCredentials(<secret>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("TlsCredentials are never serialised")


def server_name(role: Role) -> str:
    """The DNS SAN that clients pin for a server of this role."""
    return f"{role}.tripartite.internal"


def parse_identity(uri: str) -> Identity:
    """Read a URI SAN; ValueError when it names no known role."""
    match = _URI.fullmatch(uri)
    if match is None or match[2] not in get_args(Role):
        raise ValueError("not an identity of this service")
    return Identity(match[1], cast("Role", match[2]), match[3])


def make_certificate(identity: Identity, *, now_ms: int, days: int) -> TlsCredentials:
    """A fresh key and a self-signed certificate for `identity`, valid from now for `days`."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.fromtimestamp(now_ms // 1000, UTC)
    unsigned = _unsigned(
        identity, key.public_key(), x509.random_serial_number(), now - _BACKDATE, now + timedelta(days=days)
    )
    return TlsCredentials(
        unsigned.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def _unsigned(
    identity: Identity, key: ec.EllipticCurvePublicKey, serial: int, begins: datetime, ends: datetime
) -> x509.CertificateBuilder:
    """The one form that certificates have here. The subject follows from the key: nobody can take another's."""
    digest = hashlib.sha256(key.public_bytes(_DER, _SPKI)).hexdigest()[:_SUBJECT_CHARACTERS]
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"tripartite {identity.role} {digest}")])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key)
        .serial_number(serial)
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.DNSName(server_name(identity.role)), x509.UniformResourceIdentifier(identity.uri)]
            ),
            critical=False,
        )
        # Not an authority. TLS libraries ignore that for a certificate they were told to trust: see above.
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
    )


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """A peer's certificate as it was registered."""

    pem: bytes
    identity: Identity
    fingerprint: bytes
    # TLS finds a trusted certificate by its subject: two with the same one would hide each other.
    subject: str
    expiry_ms: int

    @classmethod
    def parse_pem(cls, pem: bytes) -> PeerCertificate:
        """Read a file that holds one certificate of the form that `make_certificate` gives; ValueError otherwise.

        SECURITY: TLS trusts the whole file, reads less of it than we do, and stops loading at what it cannot read, so that
        one strange certificate would hide those behind it. There is one form, and every byte outside it is refused.
        """
        certificate = _loaded(pem)
        plain = certificate.public_bytes(serialization.Encoding.PEM)
        if b"".join(plain.split()) != b"".join(pem.split()):
            raise ValueError("the file does not hold exactly one certificate")
        identity = _identity(certificate)
        _verify_form(certificate, identity)
        return cls(
            pem=plain,
            identity=identity,
            fingerprint=certificate.fingerprint(hashes.SHA256()),
            subject=certificate.subject.rfc4514_string(),
            expiry_ms=int(certificate.not_valid_after_utc.timestamp() * 1000),
        )


def credentials_of(certificate: PeerCertificate, private_keys: bytes) -> TlsCredentials:
    """The certificate with the one of these PEM private keys that belongs to it; ValueError when none does."""
    wanted = x509.load_pem_x509_certificate(certificate.pem).public_key().public_bytes(_DER, _SPKI)
    for block in _PRIVATE_BLOCK.findall(private_keys):
        try:
            key = serialization.load_pem_private_key(block, password=None)
        except (UnsupportedAlgorithm, InternalError) as error:
            # The latter is what the library says of a key whose length is not that of its kind.
            raise ValueError("a private key is of no known kind") from error
        if key.public_key().public_bytes(_DER, _SPKI) == wanted:
            return TlsCredentials(certificate.pem, block)
    raise ValueError("none of the private keys belongs to the certificate")


def certificate_fingerprint(pem: bytes) -> bytes:
    """SHA-256 of what stands in a PEM block of a certificate's kind; ValueError when there is none.

    Made for every call, so that nothing else is read: whether it is a certificate was checked of those that are known.
    """
    block = _CERTIFICATE_BLOCK.fullmatch(pem)
    if block is None:
        raise ValueError("there is no certificate in PEM")
    return hashlib.sha256(binascii.a2b_base64(block[1])).digest()


def certificate_ends(pem: bytes) -> list[tuple[str, int]]:
    """Common name and end in milliseconds of every certificate in a file, by whatever authority; ValueError without one."""
    return [
        (
            ", ".join(str(each.value) for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)),
            int(certificate.not_valid_after_utc.timestamp()) * 1000,
        )
        for certificate in x509.load_pem_x509_certificates(pem)
    ]


def _loaded(pem: bytes) -> x509.Certificate:
    try:
        certificate = x509.load_pem_x509_certificate(pem)
    except x509.InvalidVersion as error:
        raise ValueError("the certificate is of no known version") from error
    except ValueError as error:
        # The library's message may quote all of it.
        raise ValueError("there is no certificate in PEM") from error
    if certificate.serial_number <= 0:
        # So far the library only warns of it.
        raise ValueError("the certificate's serial number is not positive")
    return certificate


def _identity(certificate: x509.Certificate) -> Identity:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    except (x509.DuplicateExtension, x509.ExtensionNotFound, x509.UnsupportedGeneralNameType, TypeError) as error:
        raise ValueError("the certificate does not say whose it is") from error
    if len(uris) != 1:
        raise ValueError("the certificate does not name exactly one identity")
    return parse_identity(uris[0])


def _verify_form(certificate: x509.Certificate, identity: Identity) -> None:
    """Return only if the certificate is, bit for bit, what we would have made of its key, serial and times."""
    try:
        key = certificate.public_key()
    except (InternalError, UnsupportedAlgorithm) as error:
        # The former is what the library says of a key whose length is not that of its kind.
        raise ValueError("the certificate's key is of no known kind") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError("the certificate's key is not on the curve P-256")  # noqa: TRY004 - a wrong value, to the caller
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    ours = _unsigned(identity, key, certificate.serial_number, begins, ends).sign(_ANY_KEY, hashes.SHA256())
    if ours.tbs_certificate_bytes != certificate.tbs_certificate_bytes:
        raise ValueError("the certificate has another form than ours")
    # The library takes bits that are called unused for none at all; TLS does not.
    signature = certificate.signature
    if not certificate.public_bytes(_DER).endswith(bytes([3, len(signature) + 1, 0]) + signature):
        raise ValueError("the certificate's signature has another form than ours")
    try:
        certificate.verify_directly_issued_by(certificate)
    except (InvalidSignature, TypeError, ValueError) as error:
        raise ValueError("the certificate is not signed with its own key") from error


def certificate_expiry_ms(certificate: bytes) -> int:
    """When a PEM certificate ends, in milliseconds since 1970 UTC; ValueError when it is none."""
    return int(_loaded(certificate).not_valid_after_utc.timestamp() * 1000)
