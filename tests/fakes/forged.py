"""Certificates that our own tool would not make: for somebody else, by somebody else's key, or of a form that is not ours."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from broker_common.crypto.certificates import Identity, TlsCredentials, server_name
from broker_common.storage.clock import system_clock

_HOUR = timedelta(hours=1)
_DER = serialization.Encoding.DER
Extensions = Iterable[tuple[x509.ExtensionType, bool]]


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
    name = common_name("forged") if subject is None else subject
    return in_our_form(
        claimed,
        key=None if key_of is None else _private_key(key_of),
        signer=None if issuer is None else _private_key(issuer),
        subject=name,
        issuer=name if issuer is None else subject_of(issuer),
        extensions=(_names(claimed), *([] if authority is None else [_constraints(authority=authority)])),
    )


# --- our own form, written down a second time -------------------------------------------------------------------------


def _names(identity: Identity, dns: str | None = None) -> tuple[x509.ExtensionType, bool]:
    name = server_name(identity.role) if dns is None else dns
    return x509.SubjectAlternativeName([x509.DNSName(name), x509.UniformResourceIdentifier(identity.uri)]), False


def _constraints(*, authority: bool = False, length: int | None = None) -> tuple[x509.ExtensionType, bool]:
    return x509.BasicConstraints(ca=authority, path_length=length), True


_USAGE = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), False


def _name_of(identity: Identity, key: CertificateIssuerPrivateKeyTypes, characters: int = 32) -> str:
    spki = key.public_key().public_bytes(_DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return f"tripartite {identity.role} {hashlib.sha256(spki).hexdigest()[:characters]}"


def in_our_form(
    identity: Identity,
    *,
    key: CertificateIssuerPrivateKeyTypes | None = None,
    signer: CertificateIssuerPrivateKeyTypes | None = None,
    subject: x509.Name | None = None,
    issuer: x509.Name | None = None,
    extensions: Extensions | None = None,
) -> TlsCredentials:
    """A certificate as the product makes them, but for what is given."""
    key = ec.generate_private_key(ec.SECP256R1()) if key is None else key
    ours = common_name(_name_of(identity, key))
    now = datetime.fromtimestamp(system_clock() // 1000, UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(ours if subject is None else subject)
        .issuer_name(ours if issuer is None else issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _HOUR)
        .not_valid_after(now + timedelta(days=1))
    )
    for extension, critical in extensions or (_names(identity), _constraints(), _USAGE):
        builder = builder.add_extension(extension, critical=critical)
    signing = key if signer is None else signer
    hashed_with = None if isinstance(signing, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    certificate = builder.sign(signing, hashed_with)
    return TlsCredentials(certificate.public_bytes(serialization.Encoding.PEM), _pem(key))


def twin(own: TlsCredentials, identity: Identity) -> TlsCredentials:
    """Another sound certificate over the same key, and so, for the same role, under the same subject."""
    return in_our_form(identity, key=_private_key(own))


def _under(identity: Identity, name: x509.Name, key: CertificateIssuerPrivateKeyTypes | None = None) -> TlsCredentials:
    return in_our_form(identity, key=key, subject=name, issuer=name)


def _longer(identity: Identity) -> TlsCredentials:
    key = ec.generate_private_key(ec.SECP256R1())
    more = x509.NameAttribute(NameOID.ORGANIZATION_NAME, "and more")
    return _under(identity, x509.Name([*common_name(_name_of(identity, key)), more]), key)


def _more_of_the_hash(identity: Identity) -> TlsCredentials:
    key = ec.generate_private_key(ec.SECP256R1())
    return _under(identity, common_name(_name_of(identity, key, 40)), key)


def _with(identity: Identity, *extensions: tuple[x509.ExtensionType, bool]) -> TlsCredentials:
    return in_our_form(identity, extensions=extensions)


def _extended(identity: Identity, more: x509.ExtensionType, *, critical: bool = False) -> TlsCredentials:
    return _with(identity, _names(identity), _constraints(), _USAGE, (more, critical))


def _by_hand(identity: Identity, change: Callable[[list[bytes]], list[bytes]]) -> TlsCredentials:
    """Ours with other parts of what is signed, signed again."""
    key = ec.generate_private_key(ec.SECP256R1())
    made = x509.load_pem_x509_certificate(in_our_form(identity, key=key).certificate)
    signed = _element(0x30, b"".join(change(_parts(_content(made.tbs_certificate_bytes)))))
    algorithm = _parts(_content(made.public_bytes(_DER)))[1]
    signature = key.sign(signed, ec.ECDSA(hashes.SHA256()))
    return TlsCredentials(_as_pem(_element(0x30, signed + algorithm + _element(3, b"\0" + signature))), _pem(key))


def _short_key(parts: list[bytes]) -> list[bytes]:
    """An Ed25519 key that is one byte too short."""
    short = _element(0x30, _element(0x30, bytes.fromhex("06032b6570")) + _element(3, bytes(32)))
    return [*parts[:6], short, *parts[7:]]


def _patched(identity: Identity, old: bytes, new: bytes) -> TlsCredentials:
    """Ours with a part of its DER form replaced by one of the same length, where it stands first. Nobody signed it."""
    own = in_our_form(identity)
    der = x509.load_pem_x509_certificate(own.certificate).public_bytes(_DER)
    assert old in der
    assert len(old) == len(new)
    return TlsCredentials(_as_pem(der.replace(old, new, 1)), own.private_key)


def _unused_bits(identity: Identity) -> TlsCredentials:
    """Ours, whose signature is said to end a bit earlier, where that bit is 0."""
    while True:
        own = in_our_form(identity)
        certificate = x509.load_pem_x509_certificate(own.certificate)
        if certificate.signature[-1] % 2 == 0:
            der = bytearray(certificate.public_bytes(_DER))
            der[-1 - len(certificate.signature)] = 1
            return TlsCredentials(_as_pem(bytes(der)), own.private_key)


_P256, _EC = bytes.fromhex("06082a8648ce3d030107"), bytes.fromhex("06072a8648ce3d0201")
_STRANGER = ec.generate_private_key(ec.SECP256R1())
# Certificates in a party's own name that differ from ours in one place each. Each could hide others from TLS, or be read by
# it in another way than by us.
STRANGE: dict[str, Callable[[Identity], TlsCredentials]] = {
    "another issuer": lambda identity: in_our_form(identity, issuer=common_name("somebody")),
    "an empty issuer": lambda identity: in_our_form(identity, issuer=x509.Name([])),
    "an issuer of bytes that are no text": lambda identity: in_our_form(
        identity,
        issuer=x509.Name([x509.NameAttribute(NameOID.X500_UNIQUE_IDENTIFIER, b"\xff", x509.name._ASN1Type.BitString)]),
    ),
    "an Ed25519 key": lambda identity: in_our_form(identity, key=ed25519.Ed25519PrivateKey.generate()),
    "a key on another curve": lambda identity: in_our_form(identity, key=ec.generate_private_key(ec.SECP384R1())),
    "an RSA key": lambda identity: in_our_form(identity, key=rsa.generate_private_key(65537, 2048)),
    "a curve that nobody knows": lambda identity: _patched(identity, _P256, _P256[:-1] + b"\x77"),
    "a kind of key that nobody knows": lambda identity: _patched(identity, _EC, _EC[:-1] + b"\x77"),
    "a key that is too short": lambda identity: _by_hand(identity, _short_key),
    "one more extension": lambda identity: _extended(identity, x509.SubjectKeyIdentifier(bytes(20))),
    "an unknown critical extension": lambda identity: _extended(
        identity, x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.99999.1"), b"\x05\x00"), critical=True
    ),
    "one extension less": lambda identity: _with(identity, _names(identity), _constraints()),
    "extensions in another order": lambda identity: _with(identity, _constraints(), _names(identity), _USAGE),
    "a critical usage": lambda identity: _with(identity, _names(identity), _constraints(), (_USAGE[0], True)),
    # It does not say its version, and has extensions only against the standard.
    "the first version": lambda identity: _by_hand(identity, lambda parts: parts[1:-1]),
    "the first version with extensions": lambda identity: _by_hand(identity, lambda parts: parts[1:]),
    "the second version": lambda identity: _patched(identity, bytes.fromhex("a003020102"), bytes.fromhex("a003020101")),
    "somebody else's signature": lambda identity: in_our_form(identity, signer=_STRANGER),
    "a signature with unused bits": _unused_bits,
    "a longer subject": _longer,
    "a subject with more of the hash": _more_of_the_hash,
    "another key's subject": lambda identity: _under(identity, subject_of(in_our_form(identity))),
    "a chosen subject": lambda identity: _under(identity, common_name("x")),
    "another role's server name": lambda identity: _with(
        identity,
        _names(identity, server_name("health" if identity.role == "census" else "census")),
        _constraints(),
        _USAGE,
    ),
    "any server name": lambda identity: _with(
        identity, _names(identity, "*.tripartite.internal"), _constraints(), _USAGE
    ),
    "an authority": lambda identity: _with(identity, _names(identity), _constraints(authority=True), _USAGE),
    "an authority over nobody": lambda identity: _with(
        identity, _names(identity), _constraints(authority=True, length=0), _USAGE
    ),
    "no word on authority": lambda identity: _with(identity, _names(identity), _USAGE),
}


# --- DER by hand ------------------------------------------------------------------------------------------------------


def _element(tag: int, content: bytes) -> bytes:
    length = len(content)
    if length < 128:
        return bytes([tag, length]) + content
    size = (length.bit_length() + 7) // 8
    return bytes([tag, 128 + size]) + length.to_bytes(size, "big") + content


def _header(element: bytes) -> tuple[int, int]:
    """Length of the header, and of what follows it."""
    if element[1] < 128:
        return 2, element[1]
    size = element[1] - 128
    return 2 + size, int.from_bytes(element[2 : 2 + size], "big")


def _content(element: bytes) -> bytes:
    return element[_header(element)[0] :]


def _parts(content: bytes) -> list[bytes]:
    found = []
    while content:
        end = sum(_header(content))
        found.append(content[:end])
        content = content[end:]
    return found


def _as_pem(der: bytes) -> bytes:
    text = b64encode(der)
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    return b"\n".join([b"-----BEGIN CERTIFICATE-----", *lines, b"-----END CERTIFICATE-----", b""])


def _pem(key: CertificateIssuerPrivateKeyTypes) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _private_key(own: TlsCredentials) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(own.private_key, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key
