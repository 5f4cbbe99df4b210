"""Where things lie in a deployment's homes, for tests that look into them or change them from outside.

The only place under `tests/` outside the tests of homes themselves that knows how configurations name addresses, where
keys lie and which file is what. A change of the layout needs a change here.
"""

from __future__ import annotations

import shutil
import socket
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w
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


def moved_copy(directory: Path, copy: Path) -> Path:
    """A deployment like one that does not run and has not moved, at addresses of its own."""
    shutil.copytree(directory, copy)
    move(copy)
    return copy


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
