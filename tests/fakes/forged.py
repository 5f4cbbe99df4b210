"""Certificates that our own tool would not make: for somebody else, by somebody else's key, or of another form.

Without any change `forge` gives the one form that is accepted; each of its options changes one thing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from broker_common.crypto.certificates import Identity, TlsCredentials, server_name
from broker_common.storage.clock import system_clock

__all__ = ["USUAL_USAGE", "common_name", "forge", "own_subject", "subject_of"]

_HOUR = timedelta(hours=1)
USUAL_USAGE = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])


def common_name(text: str) -> x509.Name:
    """A subject of one common name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def subject_of(own: TlsCredentials) -> x509.Name:
    """Whom a certificate names as its subject."""
    return x509.load_pem_x509_certificate(own.certificate).subject


def own_subject(identity: Identity, key: ec.EllipticCurvePublicKey) -> str:
    """The common name that follows from role and key, from the format's own text."""
    spki = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return f"tripartite {identity.role} {hashlib.sha256(spki).hexdigest()[:32]}"


def forge(
    claimed: Identity,
    *,
    issuer: TlsCredentials | None = None,
    key_of: TlsCredentials | None = None,
    subject: x509.Name | None = None,
    issued_as: x509.Name | None = None,
    authority: bool | None = False,
    constraints_critical: bool = True,
    names: Sequence[x509.GeneralName] | None = None,
    usage: x509.ExtendedKeyUsage | None = USUAL_USAGE,
    more: Sequence[x509.ExtensionType] = (),
    curve: ec.EllipticCurve | None = None,
    digest: hashes.SHA256 | hashes.SHA384 | None = None,
) -> TlsCredentials:
    """A certificate that says `claimed`, signed by `issuer`'s key or, without one, by itself.

    It certifies a fresh key, or that of `key_of`. `authority` is what its basic constraints say; None leaves them out.
    """
    key = ec.generate_private_key(curve or ec.SECP256R1()) if key_of is None else _private_key(key_of)
    name = common_name(own_subject(claimed, key.public_key())) if subject is None else subject
    now = datetime.fromtimestamp(system_clock() // 1000, UTC)
    usual_names = [x509.DNSName(server_name(claimed.role)), x509.UniformResourceIdentifier(claimed.uri)]
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issued_as or (name if issuer is None else subject_of(issuer)))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _HOUR)
        .not_valid_after(now + _HOUR)
        .add_extension(x509.SubjectAlternativeName(usual_names if names is None else names), critical=False)
    )
    if authority is not None:
        constraints = x509.BasicConstraints(ca=authority, path_length=None)
        builder = builder.add_extension(constraints, critical=constraints_critical)
    for extension in (*([] if usage is None else [usage]), *more):
        builder = builder.add_extension(extension, critical=False)
    certificate = builder.sign(key if issuer is None else _private_key(issuer), digest or hashes.SHA256())
    return TlsCredentials(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def _private_key(own: TlsCredentials) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(own.private_key, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key
