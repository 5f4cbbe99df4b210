"""Certificates for the connections that are no part of the product: of the floor, and of what people would pick instead."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import NameOID

from broker_common.storage.clock import system_clock


def write_ed25519(folder: Path) -> tuple[Path, Path]:
    """A fresh self-signed Ed25519 certificate for the loopback address, and its key: both ends of a connection use them."""
    key = ed25519.Ed25519PrivateKey.generate()
    return _write(folder, key, _builder(key.public_key()).sign(key, None))


def write_ec(folder: Path) -> tuple[Path, Path]:
    """The same with a key of P-256, which gRPC knows."""
    key = ec.generate_private_key(ec.SECP256R1())
    return _write(folder, key, _builder(key.public_key()).sign(key, hashes.SHA256()))


def _builder(key: ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.fromtimestamp(system_clock() / 1000, UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    )


def _write(
    folder: Path, key: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey, certificate: x509.Certificate
) -> tuple[Path, Path]:
    paths = folder / "certificate.pem", folder / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].touch(mode=0o600)
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return paths
