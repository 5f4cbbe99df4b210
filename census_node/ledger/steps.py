"""The ledger's history: one row for every step, in the transaction of the log entry that it belongs to.

    charge    the reference of a sample's file, which holds a bit for each person who was active
    load      a carry's file: subjects whose cards were another subject's before
    snapshot  a snapshot's file, of everything up to the step it covers

A change of the linkage key is none: persons and households keep their numbers. The ledger is the fold of these rows, from the
newest snapshot on. Every row holds the digest of the history that ends with it; a charge's stands in the log, so that no row can
be changed, left out or put in unseen. Membership is erased when the policy says so: the row of the charge forgets the key of its
file and stays with its digest, which commits to what is erased under salts that are in that file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

from sqlite_utils import Database

from broker_common.errors import InternalError

StepKind: TypeAlias = Literal["charge", "load", "snapshot"]
# Steps whose file is still needed.
_KEPT = "file != ''"
EMPTY_DIGEST = bytes(32)
"""Of a ledger that nothing has happened to."""


@dataclass(frozen=True, slots=True)
class Step:
    """One row."""

    kind: StepKind
    # The digest of the history that ends here.
    digest: bytes
    # Its file, or the reference of its sample; empty when it was erased or is needed no more.
    file: str
    # The hash of a snapshot or a carry; of a charge, the commitment to the active set that the log has.
    content: bytes
    # Where it stands; 0 before it is put.
    place: int = 0
    # Snapshot: the last step that is in it.
    covers: int = 0
    # Charge: its ticket, and its price.
    ticket: str = ""
    price: int = 0
    kept_until_ms: int = 0


@dataclass(frozen=True, slots=True)
class Link:
    """The inputs of a step's digest besides the one before it, and the digest in the row."""

    place: int
    kind: StepKind
    digest: bytes
    content: bytes
    covers: int
    ticket: str
    price: int


def digest_after(before: bytes, kind: StepKind, *parts: bytes) -> bytes:
    """The digest after one step of the ledger's history."""
    digest = hashlib.sha256(b"tripartite/ledger/v2\0" + before + kind.encode("ascii") + b"\0")
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


def charge_digest(before: bytes, ticket_hash: bytes, price: int, submitted: bytes, active: bytes) -> bytes:
    """The digest after a charge, with the commitments to the sample and to the active set that the log has."""
    return digest_after(before, "charge", ticket_hash, price.to_bytes(8, "big"), submitted, active)


_COLUMNS = tuple(each.name for each in fields(Step))
_KINDS = ("charge", "load", "snapshot")
_TYPES: dict[str, type] = {
    **dict.fromkeys(("place", "covers", "price", "kept_until_ms"), int),
    **dict.fromkeys(("kind", "file", "ticket"), str),
    **dict.fromkeys(("digest", "content"), bytes),
}


_PUT = f"insert into ledger_steps ({', '.join(_COLUMNS)}) values ({', '.join(f':{name}' for name in _COLUMNS)})"  # noqa: S608 - names of our own


class LedgerSteps:
    """Rows of the journal's database. Every method runs inside one of its transactions or readings."""

    def __init__(self, db: Database) -> None:
        self._db = db

    @staticmethod
    def create_tables(db: Database) -> None:
        table = db.table("ledger_steps").create(
            {name: _TYPES[name] for name in _COLUMNS}, pk="place", if_not_exists=True, ignore=True
        )
        table.create_index(["ticket"], if_not_exists=True)
        # Lookups of every charge and every second do not read the history.
        table.create_index(["kind", "place"], if_not_exists=True)
        db.execute(f"create index if not exists kept_steps on ledger_steps (kind, place) where {_KEPT}")
        db.execute(f"create index if not exists kept_until on ledger_steps (kind, kept_until_ms) where {_KEPT}")

    def put(self, step: Step) -> int:
        """Add a step at the end; gives its place."""
        place = self.newest + 1
        self._db.execute(_PUT, {name: getattr(step, name) for name in _COLUMNS} | {"place": place})
        return place

    # --- places ----------------------------------------------------------------------------------------------------

    @property
    def newest(self) -> int:
        """The place of the last step; 0 where there is none."""
        return self._number("select max(place) as number from ledger_steps")

    @property
    def covered(self) -> int:
        """The last step that the newest snapshot holds."""
        snapshot = self.newest_snapshot()
        return 0 if snapshot is None else snapshot.covers

    @property
    def first_kept(self) -> int | None:
        """The place of the oldest charge whose membership is kept."""
        step = next(self._steps("where kind = 'charge' and file != '' order by place limit 1"), None)
        return None if step is None else step.place

    @property
    def charges_kept(self) -> int:
        """The number of charges whose membership is kept."""
        return self._number("select count(*) as number from ledger_steps where kind = 'charge' and file != ''")

    # --- steps -----------------------------------------------------------------------------------------------------

    def digest_at(self, place: int) -> bytes:
        """The digest of the history up to a step."""
        if place == 0:
            return EMPTY_DIGEST
        return self.at(place).digest

    def newest_snapshot(self, *, before: int | None = None) -> Step | None:
        """The newest snapshot, or the newest one that holds nothing from step `before` on."""
        limit = self.newest + 1 if before is None else before
        return next(self._steps("where kind = 'snapshot' and covers < ? order by place desc limit 1", limit), None)

    def after(self, place: int) -> Iterator[Step]:
        return self._steps("where place > ? order by place", place)

    def at(self, place: int) -> Step:
        """The step at a place.

        Raises:
            InternalError: INTEGRITY, it is missing or damaged.
        """
        step = next(self._steps("where place = ?", place), None)
        if step is None:
            raise InternalError("INTEGRITY", problem=f"step {place} of the ledger is missing")
        return step

    def links(self, after: int = 0) -> Iterator[Link]:
        """The whole history after a place, in order."""
        names = ", ".join(each.name for each in fields(Link))
        query = f"select {names} from ledger_steps where place > ? order by place"  # noqa: S608 - names of our own
        for row in self._db.query(query, [after]):
            yield Link(**_verified(row))

    def tickets_kept(self) -> set[str]:
        """Charges whose membership is kept."""
        return {
            row["ticket"]
            for row in self._db.query("select ticket from ledger_steps where kind = 'charge' and file != ''")
        }

    def of_ticket(self, ticket_hash: str) -> Step | None:
        """The charge of a ticket; None under strict accounting."""
        return next(self._steps("where ticket = ?", ticket_hash), None)

    def files(self) -> set[str]:
        """Every file that some step still needs."""
        return {row["file"] for row in self._db.query("select file from ledger_steps where file != ''")}

    def charges_after(self, place: int) -> int:
        return self._number("select count(*) as number from ledger_steps where kind = 'charge' and place > ?", place)

    # --- what goes -------------------------------------------------------------------------------------------------

    def due(self, now_ms: int, lost: Collection[str] = ()) -> list[Step]:
        """Charges whose membership has been kept long enough; none that waits for its answer, unless it waits in vain."""
        waiting = {row["ticket"] for row in self._db.query("select ticket from pending")} - set(lost)
        kept = self._steps("where kind = 'charge' and file != '' and kept_until_ms <= ?", now_ms)
        return sorted((step for step in kept if step.ticket not in waiting), key=lambda step: step.place)

    def superfluous(self) -> list[Step]:
        """Snapshots and carries that nobody needs: neither to begin from, nor to check the memberships that are kept."""
        newest = self.newest_snapshot()
        first_kept = self.first_kept
        if newest is None:
            return []
        base = newest if first_kept is None else self.newest_snapshot(before=first_kept)
        # Without one they are checked from the beginning.
        needed = {newest.place} if base is None else {newest.place, base.place}
        begin = 0 if base is None else base.covers
        steps = self._steps("where kind in ('load', 'snapshot') and file != '' order by place")
        return [
            step for step in steps if (step.place not in needed if step.kind == "snapshot" else step.place <= begin)
        ]

    def erase(self, step: Step) -> None:
        """Forget its file, and with the key of a sample who was in it. The file is the caller's to remove, afterwards."""
        self._db.table("ledger_steps").update(step.place, {"file": ""})

    def _number(self, query: str, *values: object) -> int:
        return int(next(iter(self._db.query(query, list(values))))["number"] or 0)

    def _steps(self, where: str, *values: object) -> Iterator[Step]:
        for row in self._db.query(f"select * from ledger_steps {where}", list(values)):  # noqa: S608 - our own text
            yield Step(**_verified(row))


def _verified(row: dict[str, Any]) -> dict[str, Any]:
    """The row, if its columns hold what we put there. A column of SQLite holds values of any type."""
    if any(type(value) is not _TYPES[name] for name, value in row.items()) or row["kind"] not in _KINDS:
        raise InternalError("INTEGRITY", problem="a step of the ledger is damaged")
    return row
