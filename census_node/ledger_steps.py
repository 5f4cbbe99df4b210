"""The ledgers' history: one row for every step, in the transaction of the log entry that it belongs to.

    charge    a sample's file, who of it was charged and who was counted
    load      a carry's file: units whose cards were another unit's before
    snapshot  a snapshot's file, of everything up to the step it covers
    relink    the same, under the pseudonyms of the linkage chain that is in force from here on

The ledgers are the fold of these rows, from the newest snapshot on. Every row holds the digest of the history that ends
with it; a charge's stands in the log, so that no row can be changed, left out or put in unseen. Membership is erased when
the policy says so: the row of the charge stays with its digest, which was salted with what is erased, and with nobody's name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

from sqlite_utils import Database

from broker_common.errors import InternalError
from census_node.ledgers import EMPTY_DIGEST, digest_after

__all__ = ["LedgerSteps", "Link", "Step", "StepKind", "charge_digest"]

StepKind: TypeAlias = Literal["charge", "load", "snapshot", "relink"]
# Whose file is still needed.
_KEPT = "file != ''"
_OF_ALL = ("snapshot", "relink")
# Everything but a charge.
_BESIDE = ("load", *_OF_ALL)
# What is left of a charge's membership.
_ERASED = {"file": "", "fits": b"", "active": b"", "submitted_salt": b"", "active_salt": b""}


@dataclass(frozen=True, slots=True)
class Step:
    """One row."""

    kind: StepKind
    # The digest of the history that ends here.
    digest: bytes
    # Its file; empty when it was erased or is needed no more.
    file: str
    # The hash of a snapshot or a carry; of a charge, its `commit_charge`.
    content: bytes
    # Where it stands; 0 before it is put.
    place: int = 0
    # Snapshot and relink: the last step that is in it.
    covers: int = 0
    # Charge: its ticket, the agency whose sample it was, and its price.
    ticket: str = ""
    organisation: str = ""
    price: int = 0
    # Charge, until membership is erased: who fits and who is counted, one bit each, and what opens the commitments to the
    # submitted and to the active set.
    fits: bytes = b""
    active: bytes = b""
    submitted_salt: bytes = b""
    active_salt: bytes = b""
    kept_until_ms: int = 0


@dataclass(frozen=True, slots=True)
class Link:
    """What the digest of a step is made of besides the one before it, and the digest that the row holds."""

    place: int
    kind: StepKind
    digest: bytes
    content: bytes
    covers: int
    ticket: str
    price: int


def charge_digest(before: bytes, ticket_hash: bytes, price: int, submitted: bytes, detail: bytes) -> bytes:
    """The digest after a charge: `submitted` is the commitment to the sample in the log, `detail` the row's `content`."""
    return digest_after(before, "charge", ticket_hash, price.to_bytes(8, "big"), submitted, detail)


_COLUMNS = tuple(each.name for each in fields(Step))
_KINDS = ("charge", *_BESIDE)
_TYPES: dict[str, type] = {
    **dict.fromkeys(("place", "covers", "price", "kept_until_ms"), int),
    **dict.fromkeys(("kind", "file", "ticket", "organisation"), str),
    **dict.fromkeys(("digest", "content", "fits", "active", "submitted_salt", "active_salt"), bytes),
}


_PUT = f"insert into ledger_steps ({', '.join(_COLUMNS)}) values ({', '.join(f':{name}' for name in _COLUMNS)})"  # noqa: S608 - names of our own


class LedgerSteps:
    """Rows of the journal's database. Every method runs inside one of its transactions or readings."""

    def __init__(self, db: Database) -> None:
        self._db = db

    @staticmethod
    def create_tables(db: Database) -> None:
        table = db.table("ledger_steps").create(
            {name: _TYPES[name] for name in _COLUMNS}, pk="place", if_not_exists=True
        )
        table.create_index(["ticket"], if_not_exists=True)
        # What is looked for at every charge and every second is found without reading the history.
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
    def newest_relink(self) -> int:
        return self._number("select max(place) as number from ledger_steps where kind = 'relink'")

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
        """Of how many charges the membership is kept."""
        return self._number("select count(*) as number from ledger_steps where kind = 'charge' and file != ''")

    # --- steps -----------------------------------------------------------------------------------------------------

    def digest_at(self, place: int) -> bytes:
        """The digest of the history up to a step."""
        if place == 0:
            return EMPTY_DIGEST
        step = next(self._steps("where place = ?", place), None)
        if step is None:
            raise InternalError("INTEGRITY", problem=f"step {place} of the ledgers is missing")
        return step.digest

    def newest_snapshot(self, *, before: int | None = None) -> Step | None:
        """The newest snapshot, or the newest one that holds nothing from step `before` on."""
        limit = self.newest + 1 if before is None else before
        newest = [
            next(self._steps("where kind = ? and covers < ? order by place desc limit 1", kind, limit), None)
            for kind in _OF_ALL
        ]
        return max((step for step in newest if step is not None), key=lambda step: step.place, default=None)

    def after(self, place: int) -> Iterator[Step]:
        """Every later step, in order."""
        return self._steps("where place > ? order by place", place)

    def links(self) -> Iterator[Link]:
        """The whole history, in order. Nobody's bits are read for it."""
        names = ", ".join(each.name for each in fields(Link))
        for row in self._db.query(f"select {names} from ledger_steps order by place"):  # noqa: S608 - names of our own
            yield Link(**_verified(row))

    def of_ticket(self, ticket_hash: str) -> Step | None:
        """The charge of a ticket; None under strict accounting."""
        return next(self._steps("where ticket = ?", ticket_hash), None)

    def files(self) -> set[str]:
        """Every file that some step still needs."""
        return {row["file"] for row in self._db.query("select file from ledger_steps where file != ''")}

    def bits_bytes(self) -> int:
        """What the bits of the charges whose membership is kept take."""
        return self._number(f"select sum(length(fits) + length(active)) as number from ledger_steps where {_KEPT}")  # noqa: S608 - our own text

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
        steps = [step for kind in _BESIDE for step in self._steps("where kind = ? and file != '' order by place", kind)]
        steps.sort(key=lambda step: step.place)
        return [step for step in steps if (step.place not in needed if step.kind in _OF_ALL else step.place <= begin)]

    def erase(self, step: Step) -> None:
        """Forget who was in the sample of a charge. Its file is the caller's to wipe, afterwards."""
        self._db.table("ledger_steps").update(step.place, _ERASED)

    def forget_file(self, step: Step) -> None:
        """Its file is the caller's to remove, afterwards."""
        self._db.table("ledger_steps").update(step.place, {"file": ""})

    def _number(self, query: str) -> int:
        return int(next(iter(self._db.query(query)))["number"] or 0)

    def _steps(self, where: str, *values: object) -> Iterator[Step]:
        for row in self._db.query(f"select * from ledger_steps {where}", list(values)):  # noqa: S608 - our own text
            yield Step(**_verified(row))


def _verified(row: dict[str, Any]) -> dict[str, Any]:
    """The row, if its columns hold what we put there. A column of SQLite holds values of any type."""
    if any(type(value) is not _TYPES[name] for name, value in row.items()) or row["kind"] not in _KINDS:
        raise InternalError("INTEGRITY", problem="a step of the ledgers is damaged")
    return row
