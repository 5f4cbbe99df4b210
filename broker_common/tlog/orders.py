"""The census operator's orders: what exactly is signed before a shutdown, a reopening or a weaker policy counts.

An order is one canonical JSON document: sorted keys, no white space, strings and integers only. It names the log and the
number of the entry that carries it, so that it holds in one place of one log and nowhere else. The entry has signature
and key id alone; a replay makes the document anew from the entry and what came before it.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from broker_common.errors import InvalidRequestError
from broker_common.tlog.entries import MAX_NOTE_CHARACTERS

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
        return msgspec.json.encode(self, order="sorted")


def verify_reason(reason: str) -> str:
    """Why an operator does something, if the log can hold it and it says something.

    Raises:
        InvalidRequestError: INVALID_VALUE.
    """
    problem = ""
    if not reason.strip():
        problem = "is empty"
    elif len(reason) > MAX_NOTE_CHARACTERS:
        problem = "is too long"
    elif any(0xD800 <= ord(character) <= 0xDFFF for character in reason):  # noqa: PLR2004 - what no UTF-8 can hold
        problem = "is not text"
    if problem:
        remedy = f"Say why in 1 to {MAX_NOTE_CHARACTERS:,} characters; the log refers to longer documents."
        raise InvalidRequestError("INVALID_VALUE", name="--reason", problem=problem, remedy=remedy)
    return reason
