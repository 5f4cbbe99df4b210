"""The newest cosigned checkpoint of each log, by each witness: a node's own log as peers have seen it, and theirs as it has.

Rows beside a node's log, never entries of it: two logs that noted each other's growth as entries would never come to rest.
A row is only ever replaced by one of a log that is as large or larger.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlite_utils import Database

__all__ = ["CosignedNote", "CosignedNotes"]

_COLUMNS = "log, witness, size, note"


@dataclass(frozen=True, slots=True)
class CosignedNote:
    """A checkpoint with the log's own signature and the witness's cosignature."""

    # Origin of the log; origin of the witness's own log, which is the name that it cosigns under.
    log: str
    witness: str
    size: int
    note: str


class CosignedNotes:
    """Rows of one journal's database. Every method runs inside one of its transactions or readings."""

    def __init__(self, db: Database) -> None:
        self._db = db

    @staticmethod
    def create_tables(db: Database) -> None:
        db.table("cosigned").create(
            {"log": str, "witness": str, "size": int, "note": str}, pk=("log", "witness"), if_not_exists=True
        )

    def newest(self, log: str, witness: str) -> CosignedNote | None:
        rows = self._db.execute(f"select {_COLUMNS} from cosigned where log = ? and witness = ?", [log, witness])  # noqa: S608 - names of our own
        return next((CosignedNote(*row) for row in rows), None)

    def of(self, log: str) -> list[CosignedNote]:
        """What every witness has cosigned of a log, the largest first."""
        rows = self._db.execute(f"select {_COLUMNS} from cosigned where log = ? order by size desc, witness", [log])  # noqa: S608 - names of our own
        return [CosignedNote(*row) for row in rows]

    def put(self, cosigned: CosignedNote) -> None:
        """Keep a cosigned checkpoint unless a larger one is there."""
        known = self.newest(cosigned.log, cosigned.witness)
        if known is None or known.size <= cosigned.size:
            self._db.execute(
                "insert or replace into cosigned (log, witness, size, note) values (?, ?, ?, ?)",
                [cosigned.log, cosigned.witness, cosigned.size, cosigned.note],
            )
