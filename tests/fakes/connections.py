"""SQLite as the place for faults: a store's connection is watched, and its statements fail as SQLite would fail them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker_common.storage.database import Database
from broker_common.tlog.entries import parse_entry

if TYPE_CHECKING:
    import pytest

Hook = Callable[["WatchedConnection", str], object]
Condition = Callable[["WatchedConnection", str], bool]


class WatchedConnection:
    """Runs statements on a real connection. `before` and `after` are called around each, and may raise."""

    def __init__(self, connection: Any, *, before: Hook = lambda *_: None, after: Hook = lambda *_: None) -> None:
        self._connection = connection
        self._before = before
        self._after = after
        self.statements: list[str] = []
        # The kinds of entries that the journal's transaction has appended; `answer` for the row of a sealed answer.
        self.stored: set[str] = set()

    def execute(self, statement: str, *arguments: Any) -> sqlite3.Cursor:
        self.statements.append(statement)
        if statement == "BEGIN IMMEDIATE":
            self.stored = set()
        elif statement.startswith("insert into entries"):
            self.stored.add(str(type(parse_entry(arguments[0][1]).event).__struct_config__.tag))
        elif statement.startswith("insert into answers"):
            self.stored.add("answer")
        self._before(self, statement)
        cursor: sqlite3.Cursor = self._connection.execute(statement, *arguments)
        self._after(self, statement)
        return cursor

    def __enter__(self) -> Any:
        return self._connection.__enter__()

    def __exit__(self, *raised: object) -> Any:
        return self._connection.__exit__(*raised)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def disk_error(code: int = sqlite3.SQLITE_IOERR) -> sqlite3.OperationalError:
    """An error of SQLite with the code that SQLite gives it."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    return error


def is_commit(_: WatchedConnection, statement: str) -> bool:
    """The usual condition of a fault."""
    return statement == "COMMIT"


def at(beginning: str, act: Callable[[], object]) -> Hook:
    """A hook that calls `act` at every statement that begins so."""

    def hook(_: WatchedConnection, statement: str) -> None:
        if statement.startswith(beginning):
            act()

    return hook


def fault(fails: Condition = is_commit, *, happens: bool = False, code: int = sqlite3.SQLITE_IOERR) -> dict[str, Hook]:
    """Hooks that fail the statements for which `fails` is true: before they run or, if it `happens`, after."""

    def failing(connection: WatchedConnection, statement: str) -> None:
        if fails(connection, statement):
            raise disk_error(code)

    return {"after" if happens else "before": failing}


def watch(db: Database, *, before: Hook = lambda *_: None, after: Hook = lambda *_: None) -> WatchedConnection:
    """Watch the connection of an open store from here on."""
    watched = WatchedConnection(db.conn, before=before, after=after)
    db.conn = watched  # type: ignore[assignment]  # it does what stores use
    return watched


def break_statements(
    db: Database, fails: Condition = is_commit, *, happens: bool = False, code: int = sqlite3.SQLITE_IOERR
) -> WatchedConnection:
    """Make statements of an open store fail from here on; by default every commit."""
    return watch(db, **fault(fails, happens=happens, code=code))


def watch_journals(patch: pytest.MonkeyPatch, **hooks: Hook) -> None:
    """Watch the connection of every journal that is opened from here on."""
    patch.setattr(sqlite3, "connect", connecting(**hooks))


def connecting(**hooks: Hook) -> Callable[..., Any]:
    """A stand-in for `sqlite3.connect` that opens databases as it does now, and watches journals."""
    connect = sqlite3.connect

    def connected(path: Any, *arguments: Any, **options: Any) -> Any:
        connection = connect(path, *arguments, **options)
        # Followers and exports name it with parameters behind.
        is_journal = "/journal.db" in str(path)
        return WatchedConnection(connection, **hooks) if is_journal else connection

    return connected
