"""A document for programs: English texts, numbers as numbers, and exact fractions beside their value."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

from policy_lab.document.model import Document


def value(document: Document) -> dict[str, Any]:
    """The document; its standing's mark stands first."""
    return {"mark": str(document.standing.mark), **_plain(document)}


def _plain(thing: Any) -> Any:
    if isinstance(thing, Enum):
        return thing.value
    if isinstance(thing, Fraction):
        return {"exact": str(thing), "value": float(thing)}
    if is_dataclass(thing) and not isinstance(thing, type):
        type_of = {} if isinstance(thing, Document) else {"type": type(thing).__name__.lower()}
        return type_of | {field.name: _plain(getattr(thing, field.name)) for field in fields(thing)}
    if isinstance(thing, str):
        return str(thing)
    if isinstance(thing, list | tuple):
        return [_plain(each) for each in thing]
    return thing
