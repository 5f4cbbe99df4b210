"""What waits beside the log: charges that are not answered yet, and sealed answers that are not fetched yet.

A pending row names the file that keeps its sample and the slot its noise comes from; it is written in the charge's
transaction and removed in the one that stores the sealed answer. Whether an answer has been released is said by the log
alone, so the two cannot disagree. An answer's retention begins with its release: what is not out yet cannot expire.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlite_utils import Database

__all__ = ["Outbox", "Pending", "WaitingAnswer"]


@dataclass(frozen=True, slots=True)
class Pending:
    """A charge whose answer is still to be made: everything that making it needs, fixed at the charge."""

    ticket_hash: str
    signed_ticket: bytes
    load: str
    submitted_set: bytes
    active_set: bytes
    # Name of the file that keeps the sample.
    sample: str
    # The noise slot, and what the log said of its secret before anybody asked for it.
    slot: int
    slot_commitment: bytes
    # What opens the charge's commitments to the submitted set and to the active one.
    submitted_salt: bytes
    active_salt: bytes


@dataclass(frozen=True, slots=True)
class WaitingAnswer:
    """A sealed answer: the census node itself cannot open it."""

    query: str
    ticket_hash: str
    researcher: str
    sealed: bytes


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
                "submitted_set": bytes,
                "active_set": bytes,
                "sample": str,
                "slot": int,
                "slot_commitment": bytes,
                "submitted_salt": bytes,
                "active_salt": bytes,
            },
            pk="ticket",
            if_not_exists=True,
        )
        answers = db.table("answers").create(
            {"query": str, "ticket": str, "researcher": str, "sealed": bytes, "expires_ms": int},
            pk="query",
            if_not_exists=True,
        )
        answers.create_index(["expires_ms"], if_not_exists=True)

    def put_pending(self, pending: Pending) -> None:
        self._db.table("pending").insert(
            {
                "ticket": pending.ticket_hash,
                "signed_ticket": pending.signed_ticket,
                "load": pending.load,
                "submitted_set": pending.submitted_set,
                "active_set": pending.active_set,
                "sample": pending.sample,
                "slot": pending.slot,
                "slot_commitment": pending.slot_commitment,
                "submitted_salt": pending.submitted_salt,
                "active_salt": pending.active_salt,
            }
        )

    def pending(self, ticket_hash: str) -> Pending | None:
        row = next(iter(self._db.query("select * from pending where ticket = ?", [ticket_hash])), None)
        if row is None:
            return None
        return Pending(
            ticket_hash=row["ticket"],
            signed_ticket=row["signed_ticket"],
            load=row["load"],
            submitted_set=row["submitted_set"],
            active_set=row["active_set"],
            sample=row["sample"],
            slot=row["slot"],
            slot_commitment=row["slot_commitment"],
            submitted_salt=row["submitted_salt"],
            active_salt=row["active_salt"],
        )

    def forget_membership(self, ticket_hash: str) -> None:
        """Of a charge that waits in vain for its answer: who was in its sample, and what opens its commitments."""
        gone = {"submitted_set": b"", "active_set": b"", "sample": "", "submitted_salt": b"", "active_salt": b""}
        if self.pending(ticket_hash) is not None:
            self._db.table("pending").update(ticket_hash, gone)

    def all_pending(self) -> list[tuple[str, str, int]]:
        """Ticket, sample file and noise slot of every pending charge, oldest first."""
        rows = self._db.query("select * from pending order by rowid")
        return [(row["ticket"], row["sample"], row["slot"]) for row in rows]

    def loads_needed(self) -> set[str]:
        """Loads that some pending answer must still be counted on."""
        return {row["load"] for row in self._db.query("select distinct load from pending")}

    def put_answer(self, answer: WaitingAnswer) -> None:
        """Store a sealed answer in the place of what was pending."""
        self._db.table("answers").insert(
            {
                "query": answer.query,
                "ticket": answer.ticket_hash,
                "researcher": answer.researcher,
                "sealed": answer.sealed,
                "expires_ms": None,
            }
        )
        self._db.table("pending").delete(answer.ticket_hash)

    def answer(self, query: str) -> WaitingAnswer | None:
        row = next(iter(self._db.query("select * from answers where query = ?", [query])), None)
        return None if row is None else WaitingAnswer(row["query"], row["ticket"], row["researcher"], row["sealed"])

    def start_retention(self, query: str, expires_ms: int) -> None:
        """From its release on an answer is kept until `expires_ms`."""
        self._db.table("answers").update(query, {"expires_ms": expires_ms})

    def expired(self, now_ms: int) -> list[str]:
        """Tickets whose answers have been kept long enough, oldest first."""
        due = self._db.query("select ticket from answers where expires_ms <= ? order by expires_ms, rowid", [now_ms])
        return [row["ticket"] for row in due]

    def forget_expired(self, now_ms: int) -> None:
        """Remove exactly what `expired` names."""
        self._db.table("answers").delete_where("expires_ms <= ?", [now_ms])
