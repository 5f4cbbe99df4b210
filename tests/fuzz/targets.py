"""The table of every parser that is fuzzed: NAME -> target. A new parser is one row in one of these tables.

`tests/architecture/test_fuzz_targets.py` finds the parsers that no row covers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fuzz import audits, cards, keys, linking, logs, orders, own_data, rules, stores, texts, wire
from fuzz.target import Target

CORPUS = Path(__file__).parent / "corpus"

_TABLES = (
    texts.TARGETS,
    keys.TARGETS,
    cards.TARGETS,
    rules.TARGETS,
    wire.TARGETS,
    orders.TARGETS,
    logs.TARGETS,
    stores.TARGETS,
    own_data.TARGETS,
    linking.TARGETS,
    audits.TARGETS,
)
TARGETS: Mapping[str, Target[Any]] = {name: target for table in _TABLES for name, target in table.items()}


def inputs(name: str) -> dict[str, bytes]:
    """Fixed inputs of a target: its seeds, and everything that is saved for it."""
    saved = {path.name: path.read_bytes() for path in sorted((CORPUS / name).glob("*"))}
    return {**TARGETS[name].seeds(), **saved}
