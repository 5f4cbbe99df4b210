"""The rosters of this agency's loads: numbered, committed to in the log, and whether the census node has them.

    put in force -> numbered (entry and row, durable) -> sent -> acknowledged

SECURITY: a roster follows from its load and the salt in its row, so that whatever is sent of it is the same at every attempt.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from sqlite_utils import Database
from sqlite_utils.db import Table
from tripartite.v1 import roster_pb2

from broker_common.crypto.commitments import SALT_BYTES, commit_roster, hash_bytes
from broker_common.crypto.rosters import roster_hash
from broker_common.parties.registration import own_card
from broker_common.storage.journal import Journal
from broker_common.tlog.entries import Rostered
from broker_common.tlog.health_state import HealthState
from broker_common.values import Randomness
from health_node.people.store import PeopleStore


@dataclass(frozen=True, slots=True)
class SentRoster:
    """The roster of one load, which is about to be sent or was."""

    load: str
    number: int
    salt: bytes = field(repr=False)
    # Serialised RosterManifest.
    manifest: bytes
    # When the census node first said that it has it; 0 before.
    acknowledged_ms: int = 0


_COLUMNS = ", ".join(each.name for each in fields(SentRoster))


class RosterBook:
    """Rows of one journal's database. Every method runs inside one of its transactions or readings."""

    def __init__(self, db: Database) -> None:
        self._db = db

    @staticmethod
    def create_tables(db: Database) -> None:
        db.table("rosters").create(
            {"load": str, "number": int, "salt": bytes, "manifest": bytes, "acknowledged_ms": int},
            pk="load",
            if_not_exists=True,
            ignore=True,
        )

    def get(self, load: str) -> SentRoster | None:
        row = self._db.execute(f"select {_COLUMNS} from rosters where load = ?", [load]).fetchone()  # noqa: S608 - names of our own
        return None if row is None else SentRoster(*row)

    def put(self, roster: SentRoster) -> None:
        values = [roster.load, roster.number, roster.salt, roster.manifest, roster.acknowledged_ms]
        self._db.execute(f"insert into rosters ({_COLUMNS}) values (?, ?, ?, ?, ?)", values)  # noqa: S608 - names of our own

    def acknowledge(self, load: str, now_ms: int) -> None:
        """Note the first time that the census node said that it has a load's roster."""
        self._db.execute(
            "update rosters set acknowledged_ms = ? where load = ? and acknowledged_ms = 0", [now_ms, load]
        )
        if self._refusals.exists():
            self._refusals.delete_where("load = ?", [load])

    def refused(self, load: str, code: str) -> None:
        """Note why the census node does not take a load's roster."""
        # Not before it is needed: a home of an earlier version stays as it is until it is upgraded.
        self._refusals.create({"load": str, "code": str}, pk="load", if_not_exists=True, ignore=True)
        self._db.execute("insert or replace into roster_refusals (load, code) values (?, ?)", [load, code])

    def refusal(self, load: str) -> str:
        """Why the census node did not take a load's roster when it was sent last; "" if it did, or has not said yet."""
        if not self._refusals.exists():
            return ""
        row = self._db.execute("select code from roster_refusals where load = ?", [load]).fetchone()
        return "" if row is None else str(row[0])

    @property
    def _refusals(self) -> Table:
        """Why the census node did not take a load's roster when it was sent last."""
        return self._db.table("roster_refusals")

    def forget_acknowledgement(self, load: str) -> None:
        """The census node says that it does not have a load's roster, whatever it said before."""
        self._db.execute("update rosters set acknowledged_ms = 0 where load = ?", [load])


def number_roster(
    journal: Journal[HealthState], load: str, store: PeopleStore, randomness: Randomness
) -> SentRoster | None:
    """The roster of a load, numbered now unless it was; None if another load is in force meanwhile."""
    with journal.reading() as state:
        roster, linkage = RosterBook(journal.db).get(load), state.linkages[load]
    if roster is not None:
        return roster
    salt = randomness(SALT_BYTES)
    commitment = commit_roster(salt, store.places, roster_hash(store.pseudonyms))
    with journal.transaction() as transaction:
        state, book = transaction.state, RosterBook(transaction.db)
        if state.load != load:
            return None
        number = max(state.rosters_sent, default=0) + 1
        manifest = roster_pb2.RosterManifest(number=number, linkage=linkage, commitment=commitment)
        roster = SentRoster(load, number, salt, manifest.SerializeToString(deterministic=True))
        transaction.append(
            Rostered(
                health=own_card(state.parties).card.organisation,
                number=number,
                linkage=linkage,
                commitment=commitment.hex(),
                manifest=hash_bytes(roster.manifest).hex(),
            )
        )
        book.put(roster)
    # CRASH: numbered and not sent; the next start sends it.
    return roster
