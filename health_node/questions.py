"""What stands beside the health node's log: for each accepted ticket, what its sample is drawn from, again and again.

A sample is a function of load, criteria, fraction and sampling key, so that keeping criteria, load and the salt of the
set commitment keeps the sample: a retry commits to the same set, or the census node would call the ticket reused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from sqlite_utils import Database

__all__ = ["KeptQuestion", "Questions"]


@dataclass(frozen=True, slots=True)
class KeptQuestion:
    """One accepted ticket with everything that its sample follows from."""

    ticket_hash: str
    # Serialised SignedTicket and Condition.
    signed_ticket: bytes
    criteria: bytes
    # Opens the criteria commitment; shown to an auditor on site.
    criteria_nonce: bytes
    set_salt: bytes
    load: str
    # Public name of the key that the sample is drawn with.
    sampling_key: str

    def __repr__(self) -> str:
        return f"KeptQuestion({self.ticket_hash}, <secret>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a kept question is serialised by its store alone")


class Questions:
    """Rows of one journal's database. Every method runs inside one of its transactions or readings."""

    def __init__(self, db: Database) -> None:
        self._db = db

    @staticmethod
    def create_tables(db: Database) -> None:
        db.table("questions").create(
            {
                "ticket": str,
                "signed_ticket": bytes,
                "criteria": bytes,
                "criteria_nonce": bytes,
                "set_salt": bytes,
                "load": str,
                "sampling_key": str,
            },
            pk="ticket",
            if_not_exists=True,
        )

    def put(self, question: KeptQuestion) -> None:
        self._db.table("questions").insert(
            {
                "ticket": question.ticket_hash,
                "signed_ticket": question.signed_ticket,
                "criteria": question.criteria,
                "criteria_nonce": question.criteria_nonce,
                "set_salt": question.set_salt,
                "load": question.load,
                "sampling_key": question.sampling_key,
            }
        )

    def get(self, ticket_hash: str) -> KeptQuestion | None:
        row = next(iter(self._db.query("select * from questions where ticket = ?", [ticket_hash])), None)
        return None if row is None else _kept(row)

    def all(self) -> list[KeptQuestion]:
        """Every accepted ticket's, in the order of their acceptance."""
        return [_kept(row) for row in self._db.query("select * from questions order by rowid")]


def _kept(row: dict[str, Any]) -> KeptQuestion:
    return KeptQuestion(
        ticket_hash=row["ticket"],
        signed_ticket=row["signed_ticket"],
        criteria=row["criteria"],
        criteria_nonce=row["criteria_nonce"],
        set_salt=row["set_salt"],
        load=row["load"],
        sampling_key=row["sampling_key"],
    )
