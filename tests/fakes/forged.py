"""Certificates that our own tool would not make: for somebody else, by somebody else's key, under any subject."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from broker_common.crypto.certificates import Identity, TlsCredentials, server_name
from broker_common.storage.clock import system_clock

__all__ = ["common_name", "forge", "subject_of"]

_HOUR = timedelta(hours=1)


def common_name(text: str) -> x509.Name:
    """A subject of one common name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def subject_of(own: TlsCredentials) -> x509.Name:
    """Whom a certificate names as its subject."""
    return x509.load_pem_x509_certificate(own.certificate).subject


def forge(
    claimed: Identity,
    *,
    issuer: TlsCredentials | None = None,
    key_of: TlsCredentials | None = None,
    subject: x509.Name | None = None,
    authority: bool | None = False,
) -> TlsCredentials:
    """A certificate that says `claimed`, signed by `issuer`'s key or, without one, by itself.

    It certifies a fresh key, or that of `key_of`. `authority` is what its basic constraints say; None leaves them out.
    """
    key = ec.generate_private_key(ec.SECP256R1()) if key_of is None else _private_key(key_of)
    name = common_name("forged") if subject is None else subject
    now = datetime.fromtimestamp(system_clock() / 1000, UTC)
    names = [x509.DNSName(server_name(claimed.role)), x509.UniformResourceIdentifier(claimed.uri)]
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name if issuer is None else subject_of(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _HOUR)
        .not_valid_after(now + _HOUR)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
    )
    if authority is not None:
        builder = builder.add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    certificate = builder.sign(key if issuer is None else _private_key(issuer), hashes.SHA256())
    return TlsCredentials(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def _private_key(own: TlsCredentials) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(own.private_key, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key
