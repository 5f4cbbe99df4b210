"""What waits beside the log: charges that are not answered yet, and sealed answers that are not fetched yet.

A pending row is the only durable place where a sample and its noise secret meet; it is written in the charge's
transaction and wiped in the transaction that stores the sealed answer. Whether an answer has been released is said by
the log alone, so the two cannot disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from sqlite_utils import Database

__all__ = ["Outbox", "Pending", "WaitingAnswer"]


@dataclass(frozen=True, slots=True, eq=False)
class Pending:
    """A charge whose answer is still to be made: everything that making it needs, fixed at the charge."""

    ticket_hash: str
    signed_ticket: bytes
    load: str
    rows: npt.NDArray[np.uint32]
    submitted_set: bytes
    active_set: bytes
    slot_secret: bytes

    def __repr__(self) -> str:
        return f"Pending({self.ticket_hash}, <secret>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a pending charge is serialised by its outbox alone")


@dataclass(frozen=True, slots=True)
class WaitingAnswer:
    """A sealed answer: the census node itself cannot open it."""

    query: str
    ticket_hash: str
    researcher: str
    sealed: bytes
    expires_ms: int


class Outbox:
    """Rows of one journal's database. Every method runs inside one of its transactions or readings."""

    def __init__(self, db: Database) -> None:
        self._db = db

    @staticmethod
    def create_tables(db: Database) -> None:
        db.table("pending").create(
            {
                "ticket": str,
                "signed_ticket": bytes,
                "load": str,
                "rows": bytes,
                "submitted_set": bytes,
                "active_set": bytes,
                "slot_secret": bytes,
            },
            pk="ticket",
            if_not_exists=True,
        )
        db.table("answers").create(
            {"query": str, "ticket": str, "researcher": str, "sealed": bytes, "expires_ms": int},
            pk="query",
            if_not_exists=True,
        )

    def put_pending(self, pending: Pending) -> None:
        self._db.table("pending").insert(
            {
                "ticket": pending.ticket_hash,
                "signed_ticket": pending.signed_ticket,
                "load": pending.load,
                "rows": pending.rows.astype("<u4").tobytes(),
                "submitted_set": pending.submitted_set,
                "active_set": pending.active_set,
                "slot_secret": pending.slot_secret,
            }
        )

    def pending(self, ticket_hash: str) -> Pending | None:
        row = next(iter(self._db.query("select * from pending where ticket = ?", [ticket_hash])), None)
        return None if row is None else _pending(row)

    def pending_tickets(self) -> list[str]:
        return [row["ticket"] for row in self._db.query("select ticket from pending order by rowid")]

    def loads_needed(self) -> set[str]:
        """Loads that some pending answer must still be counted on."""
        return {row["load"] for row in self._db.query("select distinct load from pending")}

    def put_answer(self, answer: WaitingAnswer) -> None:
        """Store a sealed answer and wipe what it was made from."""
        self._db.table("answers").insert(
            {
                "query": answer.query,
                "ticket": answer.ticket_hash,
                "researcher": answer.researcher,
                "sealed": answer.sealed,
                "expires_ms": answer.expires_ms,
            }
        )
        self._db.table("pending").delete(answer.ticket_hash)

    def answer(self, query: str) -> WaitingAnswer | None:
        row = next(iter(self._db.query("select * from answers where query = ?", [query])), None)
        if row is None:
            return None
        return WaitingAnswer(row["query"], row["ticket"], row["researcher"], row["sealed"], row["expires_ms"])

    def forget_expired(self, now_ms: int) -> None:
        self._db.table("answers").delete_where("expires_ms <= ?", [now_ms])


def _pending(row: dict[str, Any]) -> Pending:
    return Pending(
        ticket_hash=row["ticket"],
        signed_ticket=row["signed_ticket"],
        load=row["load"],
        rows=np.frombuffer(row["rows"], dtype="<u4").astype(np.uint32),
        submitted_set=row["submitted_set"],
        active_set=row["active_set"],
        slot_secret=row["slot_secret"],
    )
