"""Where things lie in a deployment's homes, for tests that look into them or change them from outside.

The only place under `tests/` outside the tests of homes themselves that knows how configurations name addresses, where
keys lie and which file is what. Whoever changes the layout changes it here.
"""

from __future__ import annotations

import base64
import socket
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import tomli_w
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from google.protobuf.message import Message
from tripartite.v1 import answer_pb2, condition_pb2, ticket_pb2

from broker_common.crypto.sealing import OpeningKey
from broker_common.privacy.policy import Policy
from census_node.opening import CensusHome
from census_node.proposals import make_proposal

__all__ = [
    "PARTIES",
    "TlsFiles",
    "address_of",
    "adopt",
    "key_forms",
    "linkage_key",
    "move",
    "part_of",
    "private_keys",
    "rewire",
    "sample_opening_key",
    "server_name_of",
    "set_limits",
    "stored_message",
    "tls_of",
]

PARTIES = ("researcher", "health", "census", "auditor")
_LOOPBACK = "127.0.0.1"
# First part of a path in a home -> what lies there. What is named nowhere is `other`.
_PARTS = {
    "people.csv": "source",
    "keys": "keys",
    "trust": "config",
    "config.toml": "config",
    "people": "loads",
    "registries": "loads",
    "samples": "samples",
    "journal.db": "store",
    "answers.db": "store",
}
_SQLITE_COMPANIONS = ("-wal", "-shm", "-journal")
# Columns of our SQLite stores that hold serialised messages, by table and name.
_STORED_MESSAGES: dict[str, type[Message]] = {
    "questions.signed_ticket": ticket_pb2.SignedTicket,
    "questions.criteria": condition_pb2.Condition,
    "questions.signed_answer": answer_pb2.SignedAnswer,
    "pending.signed_ticket": ticket_pb2.Ticket,
}


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Certificate and private key of one home."""

    certificate: Path
    key: Path


def part_of(path: Path) -> str:
    """What a file of a home, given relative to it, is: `source`, `keys`, `config`, `loads`, `samples`, `store`, `other`."""
    name = path.parts[0]
    for companion in _SQLITE_COMPANIONS:
        name = name.removesuffix(companion)
    return _PARTS.get(name, "other")


def stored_message(column: str) -> type[Message] | None:
    """Which message a BLOB of one of our SQLite stores is, by `table.column`."""
    return _STORED_MESSAGES.get(column)


# --- addresses and TLS -------------------------------------------------------------------------------------------------


def tls_of(home: Path) -> TlsFiles:
    """By what the home's owner is recognised."""
    return TlsFiles(home / "keys" / "tls.crt", home / "keys" / "tls.key")


def server_name_of(role: str) -> str:
    """What a client expects in the certificate of a server of this role."""
    return f"{role}.tripartite.internal"


def address_of(home: Path) -> str:
    """Where the home's node listens, host and port."""
    address: str = _config(home)["address"]
    return address


def rewire(home: Path, old: str, new: str) -> None:
    """Let the owner of `home` call `new` wherever it called `old`; where it listens itself stays as it is."""
    config = _config(home)
    own = config.pop("address")
    replaced = _replaced(config, {old: new})
    assert replaced != config, f"{home} does not call {old}"
    _write_config(home, {"address": own, **replaced})


def move(directory: Path) -> None:
    """Give the nodes of a copied deployment ports of their own."""
    homes = [directory / party for party in PARTIES if (directory / party / "config.toml").exists()]
    new = dict(zip((address_of(home) for home in homes), _free_addresses(len(homes)), strict=True))
    for home in homes:
        _write_config(home, _replaced(_config(home), new))


def set_limits(home: Path, **limits: int) -> None:
    """Change `[limits]`; takes effect at the node's next start."""
    config = _config(home)
    _write_config(home, {**config, "limits": {**config.get("limits", {}), **limits}})


def _config(home: Path) -> dict[str, Any]:
    return tomllib.loads((home / "config.toml").read_text(encoding="utf-8"))


def _write_config(home: Path, config: Mapping[str, Any]) -> None:
    # Settings stand before tables in TOML.
    ordered = dict(sorted(config.items(), key=lambda item: isinstance(item[1], dict)))
    (home / "config.toml").write_text(tomli_w.dumps(ordered), encoding="utf-8")


def _replaced(value: Any, new: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _replaced(each, new) for name, each in value.items()}
    return new.get(value, value) if isinstance(value, str) else value


def _free_addresses(count: int) -> list[str]:
    held = [socket.create_server((_LOOPBACK, 0)) for _ in range(count)]
    try:
        return [f"{_LOOPBACK}:{each.getsockname()[1]}" for each in held]
    finally:
        for each in held:
            each.close()


# --- keys --------------------------------------------------------------------------------------------------------------


def private_keys(home: Path) -> Iterator[tuple[str, list[bytes]]]:
    """Every private key of a home by the name of its file: the forms of which none may leave it."""
    for file in sorted((home / "keys").glob("*.key")):
        yield file.stem, key_forms(file.read_bytes())


def key_forms(content: bytes) -> list[bytes]:
    """The raw bytes that a key file stands for; those of a PEM file also as the text that they are wrapped in."""
    if not content.startswith(b"-----BEGIN"):
        return [base64.b64decode(content.split()[-1], validate=True)]
    key = serialization.load_pem_private_key(content, password=None)
    assert isinstance(key, EllipticCurvePrivateKey)
    return [key.private_numbers().private_value.to_bytes(32, "big"), *content.splitlines()[1:-1]]


def linkage_key(directory: Path) -> bytes:
    """What makes pseudonyms of cards."""
    return key_forms((directory / "census" / "keys" / "linkage.key").read_bytes())[0]


def sample_opening_key(directory: Path) -> OpeningKey:
    """The census agency's key that opens frame keys: with it a test can look into what it recorded."""
    return OpeningKey.parse_text((directory / "census" / "keys" / "sample.key").read_text(encoding="ascii"))


# --- policy ------------------------------------------------------------------------------------------------------------


def adopt(directory: Path, **changes: Any) -> Policy:
    """Let the census agency adopt the policy in force with some fields changed; a running node takes it at once."""
    home = CensusHome(directory / "census")
    journal = home.open_journal()
    try:
        with journal.reading() as state:
            policy = state.policy
    finally:
        journal.close()
    assert policy is not None
    changed = msgspec.structs.replace(policy, **changes)
    home.adopt(make_proposal(changed, home.private_policy_key()))
    return changed
