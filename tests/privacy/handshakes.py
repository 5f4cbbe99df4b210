"""How the owner of a home shows itself to its peers: its cards, its certificate, and TLS with either."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import ssl
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from privacy.private_keys import PRIVATE_BLOCK


@dataclass(frozen=True, slots=True)
class Tls:
    """Identity of a home's owner: the certificate that its card puts to use, and the key to it, PEM."""

    certificate: bytes
    private_key: bytes


def own_cards(home: Path) -> list[dict[str, Any]]:
    """Every card of the home's owner that is still there, oldest first: a researcher's present one, an agency's all."""
    if (home / "own.card").exists():
        return [json.loads((home / "own.card").read_bytes())]
    with contextlib.closing(sqlite3.connect(f"file:{home}/journal.db?mode=ro", uri=True)) as db:
        events = [json.loads(row[0])["event"] for row in db.execute("select entry from entries order by sequence")]
    return [event["card"] for event in events if event["type"] == "announced"]


def listed_keys(card: Mapping[str, Any], purpose: str) -> list[dict[str, Any]]:
    """Keys that a card lists for a purpose, oldest first."""
    return [key for key in json.loads(card["document"])["keys"] if key["purpose"] == purpose]


def tls_of(home: Path) -> Tls:
    """Certificate and key of the home's owner for a handshake now."""
    listed = listed_keys(own_cards(home)[-1], "tls")
    now_ms = time.time_ns() // 1_000_000
    begun = [key for key in listed if key["from_ms"] <= now_ms] or listed[:1]
    certificate = begun[-1]["key"].encode()
    public = x509.load_pem_x509_certificate(certificate).public_key()
    for block in PRIVATE_BLOCK.findall((home / "keys" / "tls.key").read_bytes()):
        if serialization.load_pem_private_key(block, None).public_key() == public:
            return Tls(certificate, block)
    raise AssertionError(f"{home} has no key to its certificate")


def tls_context(own: Path, peer: Path, side: ssl._SSLMethod) -> ssl.SSLContext:
    """TLS 1.3 as the owner of one home, with any party that shows a certificate on the other one's card."""
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["h2"])
    tls = tls_of(own)
    with tempfile.NamedTemporaryFile(dir=own.parent.parent) as file:
        file.write(tls.private_key + tls.certificate)
        file.flush()
        context.load_cert_chain(file.name)
    context.load_verify_locations(cadata="".join(key["key"] for key in listed_keys(own_cards(peer)[-1], "tls")))
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def server_name_of(role: str) -> str:
    """Server name that a client expects in the certificate of a server of this role."""
    return f"{role}.tripartite.internal"
