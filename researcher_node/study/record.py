"""Which query answers which question of a study: `studies.db` in the researcher's home.

A query id is written here before anything is quoted under it, and a ticket with that id stands in the store of answers before it
leaves. So a reader who finds an id here knows of every ticket that may have been charged for the question:

    no ticket in the store      nothing was sent: the question may be prepared, under the same id
    a ticket without an answer  it is submitted again: one ticket, one charge
    a ticket that is refused    it was not charged and never will be: another attempt gets an id of its own

A study is known by what it asks (`Study.key`), however its file is called. Asking all of it again on purpose is a new round.
Equal questions of other studies lend their answers to the first round, and are charged once.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from broker_common.errors import InternalError
from broker_common.privacy.policy import Policy, parse_policy
from broker_common.query.dictionary import Dictionary
from broker_common.query.dictionary_document import dictionary_document, parse_dictionary_document
from broker_common.storage.durable import create_for_owner, exclusive
from broker_common.storage.journal import store_errors

# The file's format; it grows when the meaning of a row changes.
FORMAT = 1
# The names under which both dictionaries are kept.
_HEALTH, _CENSUS = "health dictionary", "census dictionary"
_TABLES = """
create table if not exists rounds (
    study text not null, round integer not null, scale integer not null, title text not null, begun_ms integer not null,
    primary key (study, round)
);
create table if not exists attempts (
    study text not null, round integer not null, question text not null, attempt integer not null,
    query text not null, reused integer not null,
    primary key (study, round, question, attempt)
);
create table if not exists published (name text primary key, content blob not null);
create index if not exists by_question on attempts (question);
"""
# How long another process may hold the record.
_BUSY_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Round:
    """One time that a study is asked; the scale was chosen when it began."""

    study: str
    number: int
    scale: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """The query under which a question was, or will be, asked; `reused`: for another study, or for this one as it was before."""

    number: int
    query: str
    reused: bool


@dataclass(frozen=True, slots=True)
class Published:
    """Published inputs of a study: the dictionaries of both nodes and the policy in force."""

    health: Dictionary
    census: Dictionary
    policy: Policy


class Record:
    """The record of one home. `STORE_FAILED` when the disk fails, `FORMAT_UNKNOWN` for a file of another version."""

    def __init__(self, home: Path) -> None:
        self._lock_file = home / "studies.lock"
        path = home / "studies.db"
        with store_errors():
            if not path.exists():
                # SECURITY: before SQLite makes it, and the log beside it, which takes over its mode.
                create_for_owner(path).close()
            self._db = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_SECONDS)
            for setting in ("journal_mode=WAL", "synchronous=FULL"):
                self._db.execute(f"PRAGMA {setting}")
            ((found,),) = self._db.execute("PRAGMA user_version")
            if found not in {0, FORMAT}:
                self._db.close()
                raise InternalError("FORMAT_UNKNOWN", home=str(home), found=found, known=FORMAT)
            self._db.executescript(_TABLES)
            self._db.execute(f"PRAGMA user_version={FORMAT}")

    def close(self) -> None:
        self._db.close()

    @contextlib.contextmanager
    def running(self) -> Iterator[bool]:
        """Be the only process that asks for studies of this home; gives False if another one is."""
        with exclusive(self._lock_file) as is_ours:
            yield is_ours

    def keep_published(self, published: Published) -> None:
        """Keep what the nodes publish, so that reports and plans need no node."""
        rows = {
            _HEALTH: dictionary_document(published.health),
            _CENSUS: dictionary_document(published.census),
            "policy": published.policy.document,
        }
        with store_errors():
            self._db.executemany("insert or replace into published (name, content) values (?, ?)", rows.items())

    def published(self) -> Published | None:
        """The nodes' publications when it was last asked for; None before the first time."""
        with store_errors():
            rows = dict(self._db.execute("select name, content from published").fetchall())
        # A record of an earlier version holds dictionaries of another form, which are fetched again.
        if not rows.keys() >= {_HEALTH, _CENSUS, "policy"}:
            return None
        health, census = (parse_dictionary_document(rows[name]) for name in (_HEALTH, _CENSUS))
        return Published(health, census, parse_policy(rows["policy"]))

    def latest(self, study: str) -> Round | None:
        """The newest round of a study."""
        with store_errors():
            row = self._db.execute(
                "select study, round, scale from rounds where study = ? order by round desc limit 1", [study]
            ).fetchone()
        return None if row is None else Round(*row)

    def begin(self, study: str, title: str, scale: int, now_ms: int) -> Round:
        """A further round."""
        before = self.latest(study)
        begun = Round(study, 1 if before is None else before.number + 1, scale)
        with store_errors():
            self._db.execute(
                "insert into rounds (study, round, scale, title, begun_ms) values (?, ?, ?, ?, ?)",
                [study, begun.number, scale, title, now_ms],
            )
        return begun

    def attempts(self, round_: Round, question: str) -> list[Attempt]:
        """Every query that a question was given in a round, oldest first; the last one counts."""
        with store_errors():
            rows = self._db.execute(
                "select attempt, query, reused from attempts where study = ? and round = ? and question = ? order by attempt",
                [round_.study, round_.number, question],
            ).fetchall()
        return [Attempt(number, query, bool(reused)) for number, query, reused in rows]

    def assign(self, round_: Round, question: str, query: str, *, reused: bool = False) -> Attempt:
        """Durably give a question its query id, before anything is quoted or signed under it."""
        attempt = Attempt(len(self.attempts(round_, question)) + 1, query, reused)
        with store_errors():
            self._db.execute(
                "insert into attempts (study, round, question, attempt, query, reused) values (?, ?, ?, ?, ?, ?)",
                [round_.study, round_.number, question, attempt.number, query, int(reused)],
            )
        return attempt

    def equal(self, question: str) -> list[str]:
        """The queries that this question has had in any round of any study, newest first."""
        with store_errors():
            rows = self._db.execute(
                "select query from attempts where question = ? group by query order by max(rowid) desc", [question]
            ).fetchall()
        return [query for (query,) in rows]
