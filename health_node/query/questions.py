"""Rows beside the health node's log: for each accepted ticket, the inputs of its sample, and its manifest.

A sample is a function of load, criteria, fraction and sampling key, so that keeping criteria, load and the salt of the
set commitment keeps the sample: a retry commits to the same set, or the census node would call the ticket reused.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NoReturn

from sqlite_utils import Database


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
    # Serialised SignedManifest; empty as long as nothing was sent.
    signed_manifest: bytes = b""

    def __repr__(self) -> str:
        return f"KeptQuestion({self.ticket_hash}, <secret>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a kept question is serialised by its store alone")


# Column by field, in the order of `KeptQuestion`.
_COLUMNS = ", ".join(["ticket", *(each.name for each in fields(KeptQuestion)[1:])])
_PUT = f"insert into questions ({_COLUMNS}) values ({', '.join('?' * len(fields(KeptQuestion)))})"  # noqa: S608 - names of our own


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
                "signed_manifest": bytes,
            },
            pk="ticket",
            if_not_exists=True,
            ignore=True,
        )

    def put(self, question: KeptQuestion) -> None:
        self._db.execute(_PUT, [getattr(question, each.name) for each in fields(KeptQuestion)])

    def put_manifest(self, ticket_hash: str, signed_manifest: bytes) -> None:
        self._db.execute("update questions set signed_manifest = ? where ticket = ?", [signed_manifest, ticket_hash])

    def get(self, ticket_hash: str) -> KeptQuestion | None:
        row = self._db.execute(f"select {_COLUMNS} from questions where ticket = ?", [ticket_hash]).fetchone()  # noqa: S608 - names of our own
        return None if row is None else KeptQuestion(*row)

    def all(self) -> list[KeptQuestion]:
        """Every accepted ticket's, in the order of their acceptance."""
        rows = self._db.execute(f"select {_COLUMNS} from questions order by rowid")  # noqa: S608 - names of our own
        return [KeptQuestion(*row) for row in rows]
