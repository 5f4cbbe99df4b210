"""Where things lie in a deployment's homes, for tests that look into them or change them from outside.

The only place under `tests/` outside the tests of homes themselves that knows how configurations name addresses, where
keys lie and which file is what. A change of the layout needs a change here.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import socket
import sqlite3
import ssl
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from fakes.deployment import run_here
from google.protobuf.message import Message
from tripartite.v1 import answer_pb2, condition_pb2, sample_pb2, ticket_pb2

AGENCIES = ("health", "census")
PARTIES = ("researcher", "health", "census", "auditor", "colleague")
"""A home each, by the name of its folder. The colleague is a second researcher, who comes late and is sent away again."""
_ROLES = {"colleague": "researcher"}
_LOOPBACK = "127.0.0.1"
# First part of a path in a home -> what lies there. Unnamed files are `other`.
_PARTS = {
    "people.csv": "source",
    "people.parquet": "source",
    "stay.csv": "source",
    "source.toml": "source",
    "dictionary.toml": "config",
    "dictionaries": "config",
    "load-figures.json": "load reports",
    "load-rejected.csv": "load reports",
    "load-report.json": "load reports",
    "keys": "keys",
    "trust": "config",
    "own.card": "config",
    "config.toml": "config",
    "people": "loads",
    "registries": "loads",
    "samples": "samples",
    "ledgers": "ledgers",
    "slots": "slots",
    "rosters": "rosters",
    "openings": "openings",
    "proposals": "store",
    "journal.db": "store",
    "monitor.prom": "store",
    "seen": "store",
    "staff-figures.json": "store",
    "cohort-figures.json": "store",
    "answers.db": "store",
    "policies": "store",
    "census.checkpoint": "store",
    ".census.checkpoint.lock": "store",
}
_SQLITE_COMPANIONS = ("-wal", "-shm", "-journal")
# Columns of our SQLite stores that hold serialised messages, by table and name.
_STORED_MESSAGES: dict[str, type[Message]] = {
    "questions.signed_ticket": ticket_pb2.SignedTicket,
    "questions.criteria": condition_pb2.Condition,
    "questions.signed_manifest": sample_pb2.SignedManifest,
    "questions.signed_receipt": answer_pb2.SignedReceipt,
    "pending.signed_ticket": ticket_pb2.Ticket,
}
_PRIVATE_BLOCK = re.compile(rb"-----BEGIN PRIVATE KEY-----\n.+?-----END PRIVATE KEY-----\n", re.DOTALL)
# A PKCS #8 key on P-256 (RFC 5208, RFC 5915): the private number is bytes 36 to 68, so in the first two lines of 48 bytes.
# The public key follows, which is in the certificate, too.
_PRIVATE_LINES = slice(1, 3)


@dataclass(frozen=True, slots=True)
class Tls:
    """Identity of a home's owner: the certificate that its card puts to use, and the key to it, PEM."""

    certificate: bytes
    private_key: bytes


def role_of(party: str) -> str:
    """Which part somebody plays."""
    return _ROLES.get(party, party)


def home_exists(home: Path) -> bool:
    """Whether the home has been made."""
    return (home / "config.toml").is_file()


def part_of(path: Path) -> str:
    """Kind of a file of a home, given relative to it: `source`, `keys`, `config`, `loads`, `samples`, and so on."""
    name = path.parts[0]
    for companion in _SQLITE_COMPANIONS:
        name = name.removesuffix(companion)
    return _PARTS.get(name, "other")


def stored_message(column: str) -> type[Message] | None:
    """Which message a BLOB of one of our SQLite stores is, by `table.column`."""
    return _STORED_MESSAGES.get(column)


def witness_store(directory: Path) -> Path:
    """Where a deployment's census agency keeps what outlives its home."""
    home = directory / "census"
    folder: str = _config(home)["witness_store"]
    return (home / folder).resolve()


def forget_witness_store(home: Path) -> None:
    """Let a census node serve without one, from its next start on."""
    _write_config(home, {name: value for name, value in _config(home).items() if name != "witness_store"})


# --- addresses ---------------------------------------------------------------------------------------------------------


def address_of(home: Path) -> str:
    """Where the home's node listens, host and port."""
    address: str = _config(home)["address"]
    return address


def rewire(home: Path, server: str, address: str) -> None:
    """Let the owner of `home` call an agency at another address."""
    config = _config(home)
    _write_config(home, {**config, server: {**config[server], "address": address}})


def register_inbox(directory: Path, address: str) -> None:
    """Let the census agency deliver the first researcher's answers to another address; a running node does so at once."""
    researcher = _config(directory / "researcher")["researcher_id"]
    words = ("--home", directory / "census", "--researcher", researcher, "--inbox", address)
    assert run_here("census", "register", *words).code == 0


def move(directory: Path) -> None:
    """Give the nodes of a copied deployment ports of their own."""
    addresses = dict(zip(("researcher", *AGENCIES), free_addresses(3), strict=True))
    for role, address in addresses.items():
        home = directory / role
        _write_config(home, {**_config(home), "address": address})
        for agency in AGENCIES:
            if agency in _config(home):
                rewire(home, agency, addresses[agency])
    register_inbox(directory, addresses["researcher"])


def set_limits(home: Path, **limits: int) -> None:
    """Change `[limits]`; takes effect at the node's next start."""
    config = _config(home)
    _write_config(home, {**config, "limits": {**config.get("limits", {}), **limits}})


def declare(home: Path, **figures: int) -> None:
    """Declare another figure of the agency's size; takes effect with the next load."""
    _write_config(home, _config(home) | figures)


def _config(home: Path) -> dict[str, Any]:
    return tomllib.loads((home / "config.toml").read_text(encoding="utf-8"))


def _write_config(home: Path, config: Mapping[str, Any]) -> None:
    # Settings stand before tables in TOML.
    ordered = dict(sorted(config.items(), key=lambda item: isinstance(item[1], dict)))
    (home / "config.toml").write_text(tomli_w.dumps(ordered), encoding="utf-8")


def free_addresses(count: int) -> list[str]:
    """Addresses of this machine at which nobody listens."""
    held = [socket.create_server((_LOOPBACK, 0)) for _ in range(count)]
    try:
        return [f"{_LOOPBACK}:{each.getsockname()[1]}" for each in held]
    finally:
        for each in held:
            each.close()


# --- cards and TLS -----------------------------------------------------------------------------------------------------


def own_cards(home: Path) -> list[dict[str, Any]]:
    """Every card of the home's owner that is still there, oldest first: a researcher's present one, an agency's all."""
    if (home / "own.card").exists():
        return [json.loads((home / "own.card").read_bytes())]
    with contextlib.closing(sqlite3.connect(f"file:{home}/journal.db?mode=ro", uri=True)) as db:
        events = [json.loads(row[0])["event"] for row in db.execute("select entry from entries order by sequence")]
    return [event["card"] for event in events if event["type"] == "announced"]


def listed_keys(card: Mapping[str, Any], purpose: str) -> list[dict[str, Any]]:
    """Keys of a card for a purpose, oldest first."""
    return [key for key in json.loads(card["document"])["keys"] if key["purpose"] == purpose]


def tls_of(home: Path) -> Tls:
    """Certificate and key of the home's owner for a handshake now."""
    listed = listed_keys(own_cards(home)[-1], "tls")
    now_ms = time.time_ns() // 1_000_000
    begun = [key for key in listed if key["from_ms"] <= now_ms] or listed[:1]
    certificate = begun[-1]["key"].encode()
    public = x509.load_pem_x509_certificate(certificate).public_key()
    for block in _PRIVATE_BLOCK.findall((home / "keys" / "tls.key").read_bytes()):
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


# --- private keys ------------------------------------------------------------------------------------------------------


def private_keys(home: Path) -> Iterator[tuple[str, list[bytes]]]:
    """Every private key of a home by the name of its file: the forms of which none may leave it."""
    for file in sorted((home / "keys").glob("*.key")):
        yield file.stem, key_forms(file.read_bytes())


def key_forms(content: bytes) -> list[bytes]:
    """The raw bytes of every key in a key file; of a PEM key also the text that it is wrapped in."""
    blocks = _PRIVATE_BLOCK.findall(content)
    if not blocks:
        return [base64.b64decode(line.split()[-1], validate=True) for line in content.splitlines()]
    forms = []
    for block in blocks:
        key = serialization.load_pem_private_key(block, password=None)
        assert isinstance(key, EllipticCurvePrivateKey)
        forms += [key.private_numbers().private_value.to_bytes(32, "big"), *block.splitlines()[_PRIVATE_LINES]]
    return forms
