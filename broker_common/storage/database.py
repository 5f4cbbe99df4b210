"""One SQLite file as stores use it: their own statements, rows by column name, and tables that are made once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

Values: TypeAlias = Sequence[object] | Mapping[str, object]
_TYPES: Final[Mapping[type, str]] = {int: "INTEGER", str: "TEXT", bytes: "BLOB"}


class Database:
    """A connection, whose maker decides on transactions and closes it."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn

    def execute(self, statement: str, values: Values = ()) -> sqlite3.Cursor:
        return self.conn.execute(statement, values)

    def query(self, statement: str, values: Values = ()) -> Iterator[dict[str, Any]]:
        """The rows that a statement gives, each by column name."""
        rows = self.execute(statement, values)
        names = [name for name, *_ in rows.description]
        return (dict(zip(names, row, strict=True)) for row in rows)

    def has_table(self, name: str) -> bool:
        found = self.execute("select 1 from sqlite_master where type = 'table' and name = ?", [name])
        return found.fetchone() is not None

    def make_table(self, name: str, columns: Mapping[str, type], key: str | Sequence[str]) -> None:
        """Make a table with these columns, and `key` as its primary key, unless it is there."""
        rows = [f"{_quoted(column)} {_TYPES[kind]}" for column, kind in columns.items()]
        if isinstance(key, str):
            rows[list(columns).index(key)] += " PRIMARY KEY"
        else:
            rows.append(f"PRIMARY KEY ({', '.join(map(_quoted, key))})")
        body = ",\n   ".join(rows)
        self.execute(f"CREATE TABLE IF NOT EXISTS {_quoted(name)} (\n   {body}\n)")

    def make_index(self, table: str, columns: Sequence[str]) -> None:
        """Make an index of a table's columns unless it is there."""
        name = _quoted("_".join(["idx", table, *columns]))
        body = ", ".join(map(_quoted, columns))
        self.execute(f"CREATE INDEX IF NOT EXISTS {name}\n    ON {_quoted(table)} ({body})")

    def close(self) -> None:
        self.conn.close()


def _quoted(name: str) -> str:
    return f'"{name}"'
