"""The census operator's orders: what exactly is signed before a shutdown, a reopening or a weaker policy counts.

An order is one canonical JSON document: sorted keys, no white space, strings and integers only. It names the log and the
number of the entry that carries it, so that it holds in one place of one log and nowhere else. The entry has signature
and key id alone; whoever replays the log makes the document anew from the entry and what came before it.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

__all__ = ["Act", "Order"]

Act: TypeAlias = Literal["adopt", "reopen", "shutdown"]


class Order(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One order. Signed under `Purpose.OPERATOR`."""

    act: Act
    # Origin of the log that it is given in.
    log: str
    # The reason, as the entry has it.
    note: str
    # Hex hash of a policy: for `adopt` the one that is to come into force, otherwise the one in force (empty before the
    # first).
    policy: str
    # Number of the entry that carries the order.
    sequence: int

    @property
    def document(self) -> bytes:
        """The bytes that are signed."""
        return msgspec.json.encode(self, order="sorted")
