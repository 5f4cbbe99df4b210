"""Targets on the key files of a home: linkage keys, files of several keys, private keys of TLS; and how long keys serve.

No refusal may quote what stands in a key file: it may be a key all the same. The keys here are made of equal bytes, so that
nobody takes those of a corpus for real ones.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from textwrap import wrap
from typing import Any, TypeAlias

import click
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from fakes.randomness import SeededRandomness
from fuzz.target import Cut, Target, fresh_path, joined, require

from broker_common.agency.linkage import LinkageKeys, NextKey
from broker_common.commands.keys import _DURATION, _SUFFIX_MS, _Duration
from broker_common.crypto.certificates import (
    Identity,
    PeerCertificate,
    TlsCredentials,
    certificate_expiry_ms,
    certificate_fingerprint,
    credentials_of,
)
from broker_common.crypto.linkage import LinkageChain, LinkageKey
from broker_common.crypto.sealing import UnsealingKey
from broker_common.crypto.secret import parse_secret, secret_text
from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import BrokerError
from broker_common.storage.home import Home

_draw = SeededRandomness("keys")


def _folder() -> Path:
    folder = fresh_path()
    folder.mkdir()
    return folder


_HOME = Home(_folder(), "census")

# --- linkage keys ------------------------------------------------------------------------------------------------------

_FIRST, _SECOND, _THIRD, _FOURTH = (LinkageKey(bytes([number]) * 32) for number in range(4))
_IN_FORCE = LinkageChain([_FIRST, _SECOND])
_LINKAGE = LinkageKeys(_HOME, "file:linkage.key")
_LINKAGE_FILE = _HOME.path / "linkage.key"
_GIVEN_FILE = _HOME.path / "given.key"


def _parse_chain(data: bytes) -> LinkageChain:
    return LinkageChain.parse_text(data.decode("ascii"))


def _check_chain(chain: LinkageChain, data: bytes) -> None:
    require(LinkageChain.parse_text(chain.to_text()) == chain, "a chain is read back")
    spelled = [line.strip() for line in data.decode("ascii").strip().splitlines()]
    require(chain.to_text().splitlines() == spelled, "a key has one spelling")


def _next_chain(data: bytes) -> LinkageChain:
    """The home's own file, and the one that came from the other agency, while a chain of two keys is in force."""
    cut = Cut(data)
    held = cut.piece()
    _LINKAGE_FILE.write_bytes(held)
    source = NextKey()
    if not cut.is_empty:
        _GIVEN_FILE.write_bytes(cut.rest())
        source = NextKey(file=_GIVEN_FILE)
    try:
        chain = _LINKAGE.next_chain(_IN_FORCE.chain_id, source, _draw)
    except BrokerError as error:
        require(_LINKAGE_FILE.read_bytes() == held, "what is refused changes nothing")
        require("secret linkage" not in f"{error.text} {error.hint}", "no refusal quotes a key")
        raise
    return chain


def _check_next(chain: LinkageChain, data: bytes) -> None:
    held = LinkageChain.parse_text(Cut(data).piece().decode("ascii"))
    require(chain.beginning(_IN_FORCE.chain_id) == _IN_FORCE != chain, "a chain goes on from the one in force")
    require(chain.keys[: len(held.keys)] == held.keys, "no key is taken out of the file")
    require(LinkageChain.parse_text(_LINKAGE_FILE.read_text()) == chain, "the file holds the chain")


def _next_seeds() -> dict[str, bytes]:
    def text(*keys: LinkageKey) -> bytes:
        return LinkageChain(keys).to_text().encode() + b"\n"

    held = joined(text(_FIRST, _SECOND))
    waiting = joined(text(_FIRST, _SECOND, _THIRD))
    return {
        "bad one key": held + text(_THIRD),
        "whole file": held + text(_FIRST, _SECOND, _THIRD, _FOURTH),
        "waiting": waiting,
        "waiting and given": waiting + text(_FIRST, _SECOND, _THIRD, _FOURTH),
        "bad none": held,
        "bad old": held + text(_FIRST),
        "bad other": held + text(_THIRD, _FOURTH),
        "bad waiting": waiting + text(_FOURTH),
        "bad home": joined(text(_FIRST)) + text(_SECOND),
    }


# --- files of several keys ---------------------------------------------------------------------------------------------

_KEY_LINES: Mapping[bytes, tuple[Callable[[str], Any], Callable[[Any], str]]] = {
    b"s": (lambda text: SigningKey.parse_text(text, Purpose.LOG), SigningKey.to_text),
    b"o": (UnsealingKey.parse_text, UnsealingKey.to_text),
    b"r": (lambda text: parse_secret(text, "sampling"), lambda key: secret_text("sampling", key)),
}


def _parse_keys(data: bytes) -> list[str]:
    parse, write = _KEY_LINES.get(data[:1], _KEY_LINES[b"s"])
    (_HOME.path / "several.key").write_bytes(data[1:])
    return [write(key) for key in _HOME.parse_keys("file:several.key", _HOME.read("file:several.key"), parse)]


def _check_keys(written: list[str], data: bytes) -> None:
    require(written == [line.strip() for line in data[1:].decode("ascii").splitlines()], "every line is one key")


def _keys_seeds() -> dict[str, bytes]:
    signing = [SigningKey(Purpose.LOG, bytes([number]) * 32).to_text() for number in range(2)]
    opening = UnsealingKey(bytes(96)).to_text()
    secret = secret_text("sampling", bytes(32))
    return {
        "signing": f"s{signing[0]}\n{signing[1]}\n".encode(),
        "opening": f"o{opening}\n{opening}".encode(),
        "secret": f"r{secret}\r\n".encode(),
        "none": b"s",
        "bad blank": f"s{signing[0]}\n\n".encode(),
        "bad text": f"s{signing[0]}\xe9\n".encode(),
    }


# --- private keys of TLS -----------------------------------------------------------------------------------------------

_PKCS8, _PLAIN = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()


_PrivateKey: TypeAlias = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def _private_pem(key: _PrivateKey) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, _PKCS8, _PLAIN)


def _private_der(key: _PrivateKey) -> bytes:
    return key.private_bytes(serialization.Encoding.DER, _PKCS8, _PLAIN)


# Derived, so that they are the same in every run and no private key lies in the repository.
_OWN, _OTHER = (ec.derive_private_key(number, ec.SECP256R1()) for number in (2**200 + 1, 2**201 + 1))


@cache
def _certificate() -> PeerCertificate:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tripartite health")])
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    pem = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(_OWN.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=1))
        .sign(_OWN, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    identity = Identity("health-agency", "health", "node")
    return PeerCertificate(pem, identity, certificate_fingerprint(pem), "", certificate_expiry_ms(pem))


def _bundle(data: bytes) -> bytes:
    """Text as it stands, or a key in DER in a proper envelope, before a bundle that goes on."""
    cut = Cut(data)
    der, rest = cut.piece(), cut.rest()
    if not der:
        return rest
    lines = wrap(b64encode(der).decode("ascii"), 64)
    return "\n".join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----", ""]).encode() + rest


def _check_credentials(credentials: TlsCredentials, data: bytes) -> None:
    key = serialization.load_pem_private_key(credentials.private_key, None)
    require(key.public_key() == _OWN.public_key(), "the key is the certificate's")
    require(credentials.private_key in _bundle(data), "the key is one of the file")


def _credentials_seeds() -> dict[str, bytes]:
    own, other = _private_pem(_OWN), _private_pem(_OTHER)
    der = _private_der(_OWN)
    stranger = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    return {
        "one": joined(b"") + own,
        "second": joined(b"") + other + own,
        "after another kind": joined(b"") + _private_pem(stranger) + own,
        "der": joined(der),
        "bad other": joined(b"") + other,
        "bad end": joined(b"") + own.rstrip(),
        "bad der": joined(der[:-1]) + own,
        # An Ed448 key as short as an Ed25519 one.
        "bad length": joined(_private_der(stranger).replace(b"\x2b\x65\x70", b"\x2b\x65\x71")) + own,
        # secp256r1 becomes a curve that nobody knows.
        "bad curve": joined(der.replace(b"\x2a\x86\x48\xce\x3d\x03\x01\x07", b"\x2a\x86\x48\xce\x3d\x03\x01\x7f"))
        + own,
        "bad kind": joined(der.replace(b"\x2a\x86\x48\xce\x3d\x02\x01", b"\x2a\x86\x48\xce\x3d\x02\x7f")) + own,
    }


# --- how long ----------------------------------------------------------------------------------------------------------


def _parse_duration(data: bytes) -> int:
    return _Duration().convert(data.decode("utf-8", "surrogateescape"), None, None)


def _check_duration(milliseconds: int, data: bytes) -> None:
    unit = _SUFFIX_MS[chr(data[-1])]
    require(milliseconds % unit == 0, "a duration is a whole number of its unit")
    require(len(data) <= len("999999d") and data.isascii(), "a duration has a few digits")
    require(_DURATION.fullmatch(f"{milliseconds // unit}{chr(data[-1])}") is not None, "a duration is read back")
    # The longest of them, twice, from now on, is still a date.
    _EPOCH + timedelta(milliseconds=_NOW_MS + 2 * milliseconds)


_NOW_MS = 1_800_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

TARGETS: Mapping[str, Target[Any]] = {
    "linkage_chain": Target(
        parse=_parse_chain,
        check=_check_chain,
        covers=(LinkageChain.parse_text, parse_secret),
        seeds=lambda: {
            "one": LinkageChain([_FIRST]).to_text().encode(),
            "two": _IN_FORCE.to_text().encode() + b"\n",
            "lines": _IN_FORCE.to_text().replace("\n", "\r\n").encode(),
            "bad twice": 2 * (_FIRST_LINE := LinkageChain([_FIRST]).to_text().encode() + b"\n"),
            "bad blank": _FIRST_LINE + b"\n" + LinkageChain([_SECOND]).to_text().encode(),
            "bad empty": b"",
        },
        errors=(ValueError,),
        words=(b"secret linkage ", b"\n", b"\r\n", b"\x1c", b"\x0b", b"=", b" "),
    ),
    "next_linkage": Target(
        parse=_next_chain,
        check=_check_next,
        covers=(LinkageKeys.next_chain, LinkageKeys.chain, LinkageChain.parse_text, Home.read_key),
        seeds=_next_seeds,
        codes=frozenset({"SECRET_MISSING", "LINKAGE_KEY_MISSING", "RELINK_REFUSED"}),
        words=(
            b"secret linkage ",
            b"\n",
            b"\xff",
            b"\x1c",
            *(LinkageChain([key]).to_text().encode() for key in (_FIRST, _THIRD)),
        ),
        mutations=150,
    ),
    "several_keys": Target(
        parse=_parse_keys,
        check=_check_keys,
        covers=(Home.parse_keys, SigningKey.parse_text, UnsealingKey.parse_text),
        seeds=_keys_seeds,
        codes=frozenset({"SECRET_MISSING"}),
        words=(b"ed25519-private log ", b"secret sampling ", b"\n", b"\r\n", b"\x0c", b"\x1e", b" ", b"="),
        mutations=400,
    ),
    "tls_keys": Target(
        parse=lambda data: credentials_of(_certificate(), _bundle(data)),
        check=_check_credentials,
        covers=(credentials_of,),
        seeds=_credentials_seeds,
        errors=(ValueError,),
        words=(b"-----BEGIN PRIVATE KEY-----\n", b"-----END PRIVATE KEY-----\n", b"\x30\x82", b"\x04\x20", b"\x06\x08"),
    ),
    "duration": Target(
        parse=_parse_duration,
        check=_check_duration,
        covers=(_Duration.convert,),
        seeds=lambda: {
            "days": b"400d",
            "none": b"0s",
            "long": b"999999d",
            "bad unit": b"7w",
            "bad digits": b"1000000d",
        },
        errors=(click.BadParameter,),
        words=(b"d", b"h", b"-", b"\xd9\xa1", b"\n"),
        max_bytes=32,
    ),
}
