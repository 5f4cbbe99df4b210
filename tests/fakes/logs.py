"""Events of small, valid logs, made without a node; tests break them in one place at a time."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.privacy.accounting import price_units
from broker_common.privacy.policy import Policy
from broker_common.tlog.entries import Adopted, Charged, Loaded, Opened, Relinked, Submitted
from broker_common.tlog.note import NoteSigner
from broker_common.tlog.replay import FORMAT_VERSION

__all__ = [
    "LOG_KEY",
    "ORIGIN",
    "POLICY_KEY",
    "SIGNER",
    "adopted",
    "chain_of",
    "charged",
    "hash_of",
    "loaded",
    "opened",
    "policy",
    "relinked",
    "submitted",
]

ORIGIN = "census.test/log"
POLICY_KEY = SigningKey(Purpose.POLICY, bytes(range(32)))
LOG_KEY = SigningKey(Purpose.LOG, bytes(range(1, 33)))
SIGNER = NoteSigner(ORIGIN, LOG_KEY)


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


def chain_of(number: int) -> str:
    """The name of a linkage chain that stands for the number."""
    return f"{number:016x}"


def opened(role: str = "census", **changes: Any) -> Opened:
    """The opening of a log."""
    fields: dict[str, Any] = {"origin": ORIGIN, "role": role, "format": FORMAT_VERSION}
    return Opened(**fields | changes)


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
    fields = {"load": load, "release": "2021", "linkage": chain_of(1), "commitment": hash_of(1)}
    return Loaded(**fields | changes)


def relinked(load: str = "load2", **changes: Any) -> Relinked:
    """The change of the linkage key that follows on `loaded()`."""
    fields = {"load": load, "previous": chain_of(1), "linkage": chain_of(2), "commitment": hash_of(6)}
    return Relinked(**fields | changes)


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
