"""Work that waits beside the log: charges that are not answered yet, and sealed answers that are not fetched yet.

A pending row names the file that keeps its sample and the slot its noise comes from; it is written in the charge's
transaction and removed in the one that stores the sealed answer. Whether an answer has been released is said by the log
alone, so the two cannot disagree. An answer's retention begins with its release: what is not out yet cannot expire.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from sqlite_utils import Database


@dataclass(frozen=True, slots=True)
class Pending:
    """A charge whose answer is still to be made: everything that making it needs, fixed at the charge."""

    ticket_hash: str
    signed_ticket: bytes
    load: str
    roster: int
    # Reference of the file that keeps the sample.
    sample: str
    # The noise slot, and what the log said of its secret before anybody asked for it.
    slot: int
    slot_commitment: bytes


@dataclass(frozen=True, slots=True)
class WaitingAnswer:
    """A sealed answer: the census node itself cannot open it."""

    query: str
    ticket_hash: str
    researcher: str
    sealed: bytes


# Column by field, in the order of `Pending`.
_PENDING = ", ".join(["ticket", *(each.name for each in fields(Pending)[1:])])
_PUT_PENDING = f"insert into pending ({_PENDING}) values ({', '.join('?' * len(fields(Pending)))})"  # noqa: S608 - names of our own


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
                "roster": int,
                "sample": str,
                "slot": int,
                "slot_commitment": bytes,
            },
            pk="ticket",
            if_not_exists=True,
            ignore=True,
        )
        answers = db.table("answers").create(
            {"query": str, "ticket": str, "researcher": str, "sealed": bytes, "expires_ms": int},
            pk="query",
            if_not_exists=True,
            ignore=True,
        )
        answers.create_index(["expires_ms"], if_not_exists=True)

    def put_pending(self, pending: Pending) -> None:
        self._db.execute(_PUT_PENDING, [getattr(pending, each.name) for each in fields(Pending)])

    def pending(self, ticket_hash: str) -> Pending | None:
        row = self._db.execute(f"select {_PENDING} from pending where ticket = ?", [ticket_hash]).fetchone()  # noqa: S608 - names of our own
        return None if row is None else Pending(*row)

    def forget_membership(self, ticket_hash: str) -> None:
        """Forget the membership of a charge whose answer can never be made."""
        if self.pending(ticket_hash) is not None:
            self._db.table("pending").update(ticket_hash, {"sample": ""})

    def all_pending(self) -> list[tuple[str, str, int]]:
        """Ticket, sample file and noise slot of every pending charge, oldest first."""
        return self._db.execute("select ticket, sample, slot from pending order by rowid").fetchall()

    def loads_needed(self) -> set[str]:
        """Loads that some pending answer must still be counted on."""
        return {row["load"] for row in self._db.query("select distinct load from pending")}

    def put_answer(self, answer: WaitingAnswer) -> None:
        """Store a sealed answer in the place of what was pending."""
        self._db.execute(
            "insert into answers (query, ticket, researcher, sealed, expires_ms) values (?, ?, ?, ?, null)",
            [answer.query, answer.ticket_hash, answer.researcher, answer.sealed],
        )
        gone = self._db.execute("delete from pending where ticket = ?", [answer.ticket_hash])
        if not gone.rowcount:
            raise LookupError("an answer needs a charge that waits for it")

    def answer(self, query: str) -> WaitingAnswer | None:
        row = self._db.execute(
            "select query, ticket, researcher, sealed from answers where query = ?", [query]
        ).fetchone()
        return None if row is None else WaitingAnswer(*row)

    def start_retention(self, query: str, expires_ms: int) -> None:
        """From its release on an answer is kept until `expires_ms`."""
        changed = self._db.execute("update answers set expires_ms = ? where query = ?", [expires_ms, query])
        if not changed.rowcount:
            raise LookupError("an answer that is not there cannot be kept")

    def expired(self, now_ms: int) -> list[str]:
        """Tickets whose answers have been kept long enough, oldest first."""
        due = self._db.execute("select ticket from answers where expires_ms <= ? order by expires_ms, rowid", [now_ms])
        return [ticket for (ticket,) in due]

    def forget_expired(self, now_ms: int) -> None:
        """Remove exactly what `expired` names."""
        self._db.table("answers").delete_where("expires_ms <= ?", [now_ms])
