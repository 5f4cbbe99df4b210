"""Events of small, valid logs, made without a node; tests break them in one place at a time."""

from __future__ import annotations

import copy
from base64 import b64encode
from typing import Any

from fakes.cards import IDENTITY, Party
from fakes.randomness import SeededRandomness

from broker_common.crypto.certificates import Identity
from broker_common.crypto.signing import Purpose, SigningKey, VerifyKey
from broker_common.privacy.accounting import price_units
from broker_common.privacy.policy import Policy
from broker_common.tlog.entries import (
    Adopted,
    Announced,
    Charged,
    Event,
    Loaded,
    Opened,
    Registered,
    Revoked,
    Submitted,
)
from broker_common.tlog.membership import peer_name
from broker_common.tlog.note import NoteSigner
from broker_common.tlog.replay import FORMAT_VERSION, LogState

__all__ = [
    "ALICE",
    "CENSUS",
    "HEALTH",
    "HEALTH_ORIGIN",
    "LOG_KEY",
    "ORIGIN",
    "POLICY_KEY",
    "SIGNER",
    "adopted",
    "announced",
    "beginning",
    "charged",
    "contents",
    "hash_of",
    "loaded",
    "opened",
    "policy",
    "registered",
    "revoked",
    "root",
    "submitted",
]

ORIGIN = "census.test/log"
HEALTH_ORIGIN = "health.test/log"
POLICY_KEY = SigningKey(Purpose.POLICY, bytes(range(32)))
LOG_KEY = SigningKey(Purpose.LOG, bytes(range(1, 33)))
SIGNER = NoteSigner(ORIGIN, (LOG_KEY,))
CENSUS = Party(
    Identity("census-ca", "census", "node"),
    ORIGIN,
    given={"policy": POLICY_KEY, "log": LOG_KEY},
    randomness=SeededRandomness("census"),
)
HEALTH = Party(Identity("health-on", "health", "node"), HEALTH_ORIGIN, randomness=SeededRandomness("health"))
ALICE = Party(Identity("university", "researcher", "alice"), randomness=SeededRandomness("alice"))


def policy(**changes: Any) -> Policy:
    """A policy like the shipped one, at the paper's cap unless told otherwise."""
    fields: dict[str, Any] = {
        "accounting": "strict",
        "max_belief": "0.8",
        "scales": (1, 2, 30),
        "forward_delay_ms": 0,
        "answer_delay_ms": 0,
        "release_tick_ms": 0,
        "quote_lifetime_ms": 60_000,
        "open_quotes": 4,
        "max_sample": 1_000_000,
        "answer_retention_ms": 86_400_000,
    }
    return Policy(**fields | changes)


def hash_of(number: int) -> str:
    """A hash that stands for the number."""
    return f"{number:064x}"


def opened(role: str = "census", **changes: Any) -> Opened:
    """The opening of a log."""
    origin = HEALTH_ORIGIN if role == "health" else ORIGIN
    fields: dict[str, Any] = {"origin": origin, "role": role, "format": FORMAT_VERSION}
    return Opened(**fields | changes)


def root(party: Party) -> VerifyKey:
    """The identity key that a party's first card is signed with."""
    key = party.card.listed(IDENTITY)[0][1]
    assert isinstance(key, VerifyKey)
    return key


def announced(party: Party = CENSUS) -> Announced:
    """The party's present card, in its own log."""
    return Announced(card=party.card.signed)


def registered(party: Party, **changes: Any) -> Registered:
    """A peer's present card, in the log of a node that knows it."""
    fields: dict[str, Any] = {"card": party.card.signed, "projects": (), "inbox": ""}
    return Registered(**fields | changes)


def revoked(party: Party, **changes: Any) -> Revoked:
    """The end of a registration."""
    name = peer_name(party.identity)
    return Revoked(**{"role": party.identity.role, "name": name, "note": "it left"} | changes)


def beginning(role: str = "census") -> tuple[Event, ...]:
    """How a node's log begins: whose it is, and whom the node knows: Alice, and the other agency."""
    own, other = (HEALTH, CENSUS) if role == "health" else (CENSUS, HEALTH)
    return opened(role), announced(own), registered(other), registered(ALICE, projects=("study",))


def adopted(rules: Policy | None = None, key: SigningKey = POLICY_KEY, **changes: Any) -> Adopted:
    """The adoption of `rules`, signed by `key`."""
    document = (policy() if rules is None else rules).document
    fields = {
        "document": document.decode(),
        "signature": b64encode(key.sign(document)).decode("ascii"),
        "key_id": key.key_id,
    }
    return Adopted(**fields | changes)


def loaded(load: str = "load1", **changes: Any) -> Loaded:
    """A load that replaces the one before."""
    return Loaded(**{"load": load, "release": "2021", "commitment": hash_of(1)} | changes)


def charged(number: int, *, before: int = 0, scale: int = 30, **changes: Any) -> Charged:
    """The charge of ticket, query and slot `number`; `before` is what had been charged so far."""
    units = price_units(scale)
    fields: dict[str, Any] = {
        "query": f"{number:032x}",
        "ticket": hash_of(number),
        "slot": number,
        "scale": scale,
        "units": units,
        "question": "all",
        "researcher": "alice",
        "health": "health-on",
        "load": "load1",
        "manifest": hash_of(2),
        "submitted": hash_of(3),
        "active": hash_of(4),
        "total": before + units,
    }
    return Charged(**fields | changes)


def submitted(number: int, **changes: Any) -> Submitted:
    """The acceptance of ticket and query `number` by a health node."""
    fields = {
        "query": f"{number:032x}",
        "ticket": hash_of(number),
        "criteria": hash_of(5),
        "researcher": "alice",
        "load": "load1",
    }
    return Submitted(**fields | changes)


def contents(state: LogState) -> dict[str, Any]:
    """Everything that a state holds, as values that can be compared."""
    membership = state.membership
    plain = copy.deepcopy({name: value for name, value in vars(state).items() if name != "membership"})
    return plain | {
        "root": membership._identity_key,
        "own": membership.own and membership.own.signed,
        "peers": {name: (peer.card.signed, peer.projects, peer.inbox) for name, peer in membership._peers.items()},
    }
