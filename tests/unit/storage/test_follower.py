"""A follower shows what replay of the same file shows, holds up nobody, and says when it cannot go on."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.clock import FakeClock
from fakes.connections import WatchedConnection, disk_error, watch_journals
from fakes.logs import SIGNER, adopted, beginning, census_state, charged, loaded, rostered, shut_down, slots
from fakes.patience import PATIENCE_SECONDS

from broker_common.storage import follower as follower_module
from broker_common.storage.database import Database
from broker_common.storage.follower import Followed, Follower, Head
from broker_common.storage.journal import Journal
from broker_common.storage.witnessing import CosignedNote, CosignedNotes
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Entry, parse_entry
from broker_common.tlog.replay import LogState


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal[CensusState]]:
    """A journal with a policy, a load, a roster and noise slots."""
    made = Journal.create(
        tmp_path / "journal.db",
        fresh_state=census_state,
        signer=lambda _: SIGNER,
        clock=FakeClock(),
        tables=CosignedNotes.create_tables,
    )
    append(made, *beginning()[1:], adopted(), loaded(), rostered(), slots())
    yield made
    made.close()


def append(journal: Journal[CensusState], *events: object) -> None:
    """Log events in one transaction."""
    with journal.transaction() as transaction:
        for event in events:
            transaction.append(event)  # type: ignore[arg-type]  # events of any kind


class Told:
    """Notes of the entries that a follower has told of."""

    def __init__(self) -> None:
        self.entries: list[int] = []

    def take(self, state: LogState, entry: Entry) -> None:
        assert state.size == entry.sequence + 1
        self.entries.append(entry.sequence)


class Watched:
    """A follower whose views are (size of the state, entries told, head)."""

    def __init__(self, path: Path, *, batch: int = 4096) -> None:
        self.notes: list[Told] = []
        self.follower: Follower[CensusState, Told, tuple[int, int, Head]] = Follower(
            path,
            fresh_state=census_state,
            fresh_notes=self._fresh_notes,
            view=lambda state, told, head: (state.size, len(told.entries), head),
            batch=batch,
        )
        self.seen: list[Followed[tuple[int, int, Head]]] = []
        self.follower.on_news(lambda: self.seen.append(self.follower.followed))
        self.follower.start()

    def _fresh_notes(self) -> Told:
        self.notes.append(Told())
        return self.notes[-1]

    @property
    def told(self) -> list[int]:
        """News since the log was last read from its beginning."""
        return self.notes[-1].entries

    def at(self, size: int) -> Followed[tuple[int, int, Head]]:
        """The first publication of a log of this size."""
        followed = self.follower.followed
        while followed.done < size or not followed.is_complete:
            followed = self.follower.wait_beyond(followed.version, PATIENCE_SECONDS)
            assert not followed.problem
        return followed


@pytest.fixture
def watched(journal: Journal[CensusState], tmp_path: Path) -> Iterator[Watched]:
    """A follower of that journal."""
    assert journal.state.size
    made = Watched(tmp_path / "journal.db")
    yield made
    made.follower.stop()


def test_it_shows_what_the_node_has_written(journal: Journal[CensusState], watched: Watched) -> None:
    """The same fold: every entry once, in order, with the checkpoint that the node has signed for it."""
    for number in range(5):
        append(journal, charged(number, before=journal.state.charged_units))
        size = journal.state.size
        view = watched.at(size).view
        assert view is not None
        assert view[:2] == (size, size)
        assert view[2].checkpoint == journal.checkpoint()
    assert watched.told == list(range(journal.state.size))


def test_it_never_waits_for_nor_holds_the_lock_of_a_charge(journal: Journal[CensusState], watched: Watched) -> None:
    """While a transaction is open the follower reads what stands, and a transaction begins whatever it is doing."""
    before = watched.at(journal.state.size)
    with journal.transaction() as transaction:
        transaction.append(charged(0))
        assert watched.follower.followed.view == before.view
    watched.at(before.done + 1)


def test_it_writes_nothing(journal: Journal[CensusState], watched: Watched, tmp_path: Path) -> None:
    """Its connection refuses to write, so that no mistake in a page changes a log."""
    watched.at(journal.state.size)
    before = sorted(path.name for path in tmp_path.iterdir())
    append(journal, shut_down(journal.state))
    watched.at(journal.state.size)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_it_begins_while_nothing_serves(tmp_path: Path) -> None:
    """A closed journal, without its write-ahead log, is followed as well, and one that a node opens later goes on."""
    path = tmp_path / "journal.db"
    opening: dict[str, Any] = {"fresh_state": census_state, "signer": lambda _: SIGNER, "clock": FakeClock()}
    Journal.create(path, **opening, tables=_no_tables).close()
    watched = Watched(path)
    try:
        assert watched.at(1).done == 1
        journal: Journal[CensusState] = Journal(path, **opening, tables=_no_tables)
        append(journal, *beginning()[1:])
        watched.at(journal.state.size)
        journal.close()
    finally:
        watched.follower.stop()


def _no_tables(db: Database) -> None:
    """A journal without rows of its own."""


def test_cosigned_checkpoints_are_shown(journal: Journal[CensusState], watched: Watched) -> None:
    """Rows beside the log come with it."""
    note = CosignedNote("log", "witness", 3, "a note")
    with journal.transaction() as transaction:
        CosignedNotes(transaction.db).put(note)
        transaction.append(charged(0))
    view = watched.at(journal.state.size).view
    assert view is not None
    assert view[2].cosigned == (("log", "witness", 3, "a note"),)


def test_a_log_that_breaks_its_rules_is_said_and_not_shown(journal: Journal[CensusState], tmp_path: Path) -> None:
    """The last good view stays, beside the problem."""
    path = tmp_path / "journal.db"
    append(journal, charged(0))
    with sqlite3.connect(path) as connection:
        ((entry,),) = connection.execute("select entry from entries where sequence = 5").fetchall()
        connection.execute("update entries set entry = ? where sequence = 6", [entry])
    watched = Watched(path)
    try:
        followed = watched.follower.followed
        while not followed.problem:
            followed = watched.follower.wait_beyond(followed.version, PATIENCE_SECONDS)
        assert "entry" in followed.problem
        assert followed.view is None
    finally:
        watched.follower.stop()


def test_listeners_are_told_of_every_publication(journal: Journal[CensusState], watched: Watched) -> None:
    """Pages hear of a new entry without asking."""
    watched.at(journal.state.size)
    told = threading.Event()
    watched.follower.on_news(told.set)
    append(journal, charged(0))
    assert told.wait(PATIENCE_SECONDS)


def test_what_a_node_writes_beside_its_log_is_no_news(
    journal: Journal[CensusState], watched: Watched, tmp_path: Path
) -> None:
    """A commit that is in no log shows how long a sample took: nobody is told of it, and no version counts it."""
    watched.at(journal.state.size)
    before = watched.follower.followed
    state, connection = census_state(), sqlite3.connect(tmp_path / "journal.db")
    with contextlib.closing(connection):
        connection.isolation_level = None
        db = Database(connection)
        shown = watched.follower._catch_up(db, state, Told(), (0, None))
        published = watched.follower.followed.version
        assert published == before.version + 1
        assert watched.follower._catch_up(db, state, Told(), shown) == shown
        assert watched.follower.followed.version == published


def test_a_first_fold_shows_how_far_it_is(tmp_path: Path) -> None:
    """A long log is read in batches; until the last one there is progress and no view."""
    path = tmp_path / "journal.db"
    journal = Journal.create(
        path, fresh_state=census_state, signer=lambda _: SIGNER, clock=FakeClock(), tables=_no_tables
    )
    append(journal, *beginning()[1:], adopted(), loaded(), rostered(), slots())
    for number in range(10):
        append(journal, charged(number, before=journal.state.charged_units))
    size = journal.state.size
    journal.close()
    watched = Watched(path, batch=4)
    try:
        watched.at(size)
    finally:
        watched.follower.stop()
    steps = [(followed.done, followed.total) for followed in watched.seen]
    assert steps == [(done, size) for done in (*range(4, size, 4), size)]
    assert [followed.view is None for followed in watched.seen] == [done < size for done, _ in steps]


def test_a_log_that_is_read_again_after_a_failure_is_noted_once(
    journal: Journal[CensusState], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails once makes the follower begin anew: notes of the first reading would double every figure."""
    monkeypatch.setattr(follower_module, "_RETRY_SECONDS", 0)
    looks: list[str] = []

    def failing_once(_: WatchedConnection, statement: str) -> None:
        if statement.startswith("select checkpoint"):
            looks.append(statement)
            # After the first fold, and once.
            if len(looks) == 2:
                raise disk_error()

    watch_journals(monkeypatch, before=failing_once)
    watched = Watched(tmp_path / "journal.db")
    try:
        watched.at(journal.state.size)
        append(journal, charged(0))
        followed = watched.follower.followed
        while followed.done < journal.state.size or not followed.is_complete:
            followed = watched.follower.wait_beyond(followed.version, PATIENCE_SECONDS)
        assert len(watched.notes) == 2
        assert followed.view is not None
        assert followed.view[:2] == (journal.state.size, journal.state.size)
    finally:
        watched.follower.stop()


def test_a_new_entry_costs_one_row_however_long_the_log_is(
    journal: Journal[CensusState], watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the first fold each entry is read and parsed once; looking at a log that has not changed reads none."""
    for number in range(20):
        append(journal, charged(number, before=journal.state.charged_units))
    watched.at(journal.state.size)
    parsed: list[int] = []

    def counting(data: bytes) -> Entry:
        entry = parse_entry(data)
        parsed.append(entry.sequence)
        return entry

    monkeypatch.setattr(follower_module, "parse_entry", counting)
    before = journal.state.size
    for number in range(20, 30):
        append(journal, charged(number, before=journal.state.charged_units))
        watched.at(journal.state.size)
    assert parsed == list(range(before, before + 10))


def test_a_charge_is_committed_while_the_log_is_folded(
    journal: Journal[CensusState], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of a first fold: no lock and no snapshot is held then, so that erased rows also leave the disk."""
    folding, go_on = threading.Event(), threading.Event()

    def stopping(data: bytes) -> Entry:
        folding.set()
        assert go_on.wait(PATIENCE_SECONDS)
        return parse_entry(data)

    monkeypatch.setattr(follower_module, "parse_entry", stopping)
    watched = Watched(tmp_path / "journal.db", batch=4)
    try:
        assert folding.wait(PATIENCE_SECONDS)
        journal.db.execute("PRAGMA busy_timeout=0")
        append(journal, charged(0))
        assert journal.start_log_over()
        go_on.set()
        watched.at(journal.state.size)
    finally:
        go_on.set()
        watched.follower.stop()
