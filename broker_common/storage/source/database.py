"""A query against a database as a source: DuckDB files, PostgreSQL, and any other that has a driver of Python's DB-API.

Rows are given out in batches. DuckDB and PostgreSQL cannot write meanwhile, show one state, and hold the rest of the
result themselves, so that memory depends on a batch; another driver does as it does. A query's rows are ordered by all
of their columns, so that a row has the same number at every load, whatever order the database finds them in. The type
decides how a value is read: text, a whole number or a date where the dictionary has one, a list of texts for several
values. Drivers quote values in their errors, so these are told by their type alone. DuckDB and PostgreSQL look at a
query before they evaluate any row: what they refuse then they quote from the query.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import date
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol
from uuid import UUID

from broker_common.errors import InvalidRequestError
from broker_common.query.dictionary import ColumnType, shown
from broker_common.storage.home import Home
from broker_common.storage.loads import SPILLED
from broker_common.storage.source.csv_file import MAX_LINE_BYTES, TOO_LONG
from broker_common.storage.source.rows import (
    ROWS_PER_CHUNK,
    Chunk,
    Manner,
    Progress,
    RejectedRows,
    RowsOfFile,
    Wanted,
    refuse,
    verify_names,
)
from broker_common.storage.source.toml import OwnQuery, verify_private

# A server that has not answered by then is not there.
_CONNECT_SECONDS = 30
_DUCKDB_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    # The rest spills to a folder in the home, removed afterwards; after a kill, by the next load.
    "memory_limit": "2GiB",
}
# The most of a database's message that is shown.
_MAX_SAID_CHARACTERS = 200

Row = Sequence[Any]


class Session(Protocol):
    """One open connection, whose rows do not change while it is open."""

    def names(self, query: str) -> list[str]:
        """The columns of a query; no row is read."""
        ...

    def rows(self, query: str) -> Iterator[Sequence[Row]]:
        """The rows of a query, batch by batch."""
        ...


class _RefusedQueryError(Exception):
    """A query that the database does not understand: what it says names parts of the query, and no value."""


class _LostError(Exception):
    """The database gave up: what it says may quote values."""


class DatabaseSource:
    """The rows of a query that has the wanted columns."""

    def __init__(self, home: Home, name: str, query: OwnQuery, columns: Collection[Wanted], manner: Manner) -> None:
        self._home = home
        self._name = name
        self._query = query
        self._columns = {wanted.name: wanted for wanted in columns}
        self._manner = manner

    def chunks(self, rejected: RejectedRows, *, progress: Progress | None = None) -> Iterator[Chunk]:
        """The rows of the query, in order of their values. Those that are too long are added to `rejected`.

        Raises:
            InvalidRequestError: LOAD_REFUSED.
        """
        file = rejected.file(f"the query of {self._name}")
        file.counted_by = "row"
        done = 0
        try:
            with self._session() as session:
                # A comment may end the query.
                rows = f"(\n{self._query.text.strip().rstrip(';')}\n) q"
                names = session.names(f"select * from {rows} where 1 = 0")  # noqa: S608 - the agency's own query
                verify_names(names, self._columns, has_others=True)
                counted = session.rows(f"select count(*) from {rows}")  # noqa: S608 - the agency's own query
                ((total,),) = (row for batch in counted for row in batch)
                self._manner.kind.verify_count(total)
                order = ", ".join(str(at) for at in range(1, len(names) + 1))
                for batch in session.rows(f"select * from {rows} order by {order}"):  # noqa: S608 - as above
                    yield from self._chunk(names, batch, done, file)
                    done += len(batch)
                    if progress is not None:
                        progress(min(done, total), total)
        except _RefusedQueryError as error:
            refuse(f"the database refuses the query of {self._name}: {error}", "Mend the query in source.toml.")
        except _LostError as error:
            refuse(
                f"the database stopped after {done} rows of the query of {self._name} ({error})",
                "Try the query with the database's own tools, or see its log; then load again.",
            )
        if not total:
            self._manner.kind.refuse_none()
        if done != total:
            refuse(f"{self._name} changed while it was read", "Load again, when nobody writes to it.")

    def _chunk(self, names: Sequence[str], batch: Sequence[Row], before: int, file: RowsOfFile) -> Iterator[Chunk]:
        columns = {}
        for name, values in zip(names, zip(*batch, strict=True), strict=True):
            if name in self._columns:
                columns[name] = _texts(self._columns[name], values, before)
        lines: Sequence[int] = range(file.begin + before + 1, file.begin + before + 1 + len(batch))
        file.saw(before + len(batch))
        sizes = map(sum, zip(*(map(len, texts) for texts in columns.values()), strict=True))
        long = {at for at, size in enumerate(sizes) if size > MAX_LINE_BYTES}
        if long:
            for at in sorted(long):
                file.add(before + 1 + at, TOO_LONG)
            lines = [line for at, line in enumerate(lines) if at not in long]
            columns = {
                name: [text for at, text in enumerate(texts) if at not in long] for name, texts in columns.items()
            }
        if lines:
            yield Chunk(lines, columns)

    def _session(self) -> AbstractContextManager[Session]:
        kind, _, target = self._query.database.partition(":")
        if kind == "duckdb":
            return _duckdb(self._home.path, self._home.path / target)
        connection = self._connection()
        return _postgresql(connection) if kind == "postgresql" else _driver(target, connection)

    def _connection(self) -> str:
        reference = self._query.connection
        kind, _, target = reference.partition(":")
        try:
            if kind == "file":
                verify_private(self._home.path / target)
            return self._home.read(reference).decode("utf-8").strip()
        except UnicodeDecodeError:
            refuse(f"what {reference} leads to is not UTF-8 text", "Write the connection there, and nothing else.")
        except InvalidRequestError as error:
            if error.code != "SECRET_MISSING":
                raise
            refuse(f"nothing can be read at {reference} ({error.details['problem']})", "Put the connection there.")


def _texts(wanted: Wanted, values: Sequence[Any], before: int) -> list[str]:
    """The values of one column as texts."""
    kinds = set(map(type, values))
    if kinds == {str}:
        return list(values)
    for kind in kinds - {str, type(None)}:
        if not _is_admitted(wanted, kind):
            row = before + 1 + next(at for at, value in enumerate(values) if type(value) is kind)
            name = shown(wanted.name)
            refuse(
                f"its column {name} holds a value of the type {kind.__name__}, first in row {row}",
                f"Turn {name} into text in the query, or into a whole number or a date where the dictionary has one.",
            )
    return [_text(value, wanted) for value in values]


def _is_admitted(wanted: Wanted, kind: type) -> bool:
    if wanted.column is None:
        # A number has lost the zeros that an id began with.
        return kind is UUID
    if kind in {int, Decimal}:
        return wanted.is_own or wanted.column.type is ColumnType.INTEGER
    if kind is bool:
        return wanted.is_own
    if kind is date:
        return wanted.column.type is ColumnType.DATE
    return kind in {list, tuple} and wanted.column.multi_valued


def _text(value: Any, wanted: Wanted) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        # A fraction stays one, and nobody reads it as a whole number.
        return format(value.normalize() if value == value.to_integral_value() else value, "f")
    if isinstance(value, list | tuple):
        parts = [part if isinstance(part, str) else "" for part in value]
        # A separator alone stands for a list that cannot be joined: no code is empty, so the column refuses it.
        is_whole = all(part and wanted.separator not in part for part in parts)
        return wanted.separator.join(parts) if is_whole else wanted.separator
    return value.isoformat() if isinstance(value, date) else str(value)


@contextmanager
def _duckdb(home: Path, file: Path) -> Iterator[Session]:
    if not file.is_file():
        refuse(f"the database {file.name} is missing", f"Put it there: {file}.")
    import duckdb

    refused = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException, duckdb.SyntaxException)
    with TemporaryDirectory(prefix=SPILLED, dir=home) as spill, ExitStack() as stack:
        settings = {**_DUCKDB_SETTINGS, "temp_directory": spill}
        with _by_type_alone(failed=duckdb.Error):
            engine = stack.enter_context(duckdb.connect(str(file), read_only=True, config=settings))
            # SECURITY: the query reads this database and nothing else, whatever stands in a view of it.
            engine.execute("set enable_external_access = false")
            engine.execute("set lock_configuration = true")
        yield _Cursor(engine, refused, duckdb.Error)


@contextmanager
def _driver(module: str, connection: str) -> Iterator[Session]:
    """A connection through any driver that follows Python's DB-API 2.0 (PEP 249)."""
    try:
        driver = importlib.import_module(module)
        opened = driver.connect(connection)
    except ImportError:
        refuse(f"there is no Python module {shown(module)}", "Install the driver of that database.")
    except Exception as error:  # noqa: BLE001 - each driver has errors of its own
        refuse(f"{shown(module)} cannot connect ({type(error).__name__})", "Check what the connection leads to.")
    try:
        with _by_type_alone():
            cursor = opened.cursor()
        # SECURITY: nothing says what a database behind a driver evaluates first, nor which of its errors quote a value.
        yield _Cursor(cursor, refused=(), failed=Exception)
    finally:
        with _by_type_alone():
            opened.close()


class _Cursor:
    """A session of a DB-API cursor."""

    def __init__(self, cursor: Any, refused: tuple[type[Exception], ...], failed: type[Exception]) -> None:
        self._cursor = cursor
        self._refused = refused
        self._failed = failed

    def names(self, query: str) -> list[str]:
        with _by_type_alone(self._refused, self._failed):
            self._cursor.execute(query)
            return [str(column[0]) for column in self._cursor.description]

    def rows(self, query: str) -> Iterator[Sequence[Row]]:
        with _by_type_alone(failed=self._failed):
            self._cursor.execute(query)
            while batch := self._cursor.fetchmany(ROWS_PER_CHUNK):
                yield batch


@contextmanager
def _postgresql(connection: str) -> Iterator[Session]:
    try:
        import asyncpg
    except ImportError:
        refuse("the driver of PostgreSQL is not installed", "Install it: pip install 'tripartite[database]'.")
    with asyncio.Runner() as runner:
        try:
            opened = runner.run(asyncpg.connect(connection, timeout=_CONNECT_SECONDS))
        except (OSError, ValueError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            refuse(f"PostgreSQL cannot be reached ({type(error).__name__})", "Check what the connection leads to.")
        try:
            with _by_type_alone():
                transaction = opened.transaction(isolation="repeatable_read", readonly=True)
                runner.run(transaction.start())
            yield _Postgresql(runner, opened)
        finally:
            # Nothing was written: there is nothing to end.
            opened.terminate()


class _Postgresql:
    """A session of PostgreSQL, through a cursor on the server."""

    def __init__(self, runner: asyncio.Runner, opened: Any) -> None:
        self._runner = runner
        self._opened = opened

    def names(self, query: str) -> list[str]:
        import asyncpg

        with _by_type_alone((asyncpg.SyntaxOrAccessError,)):
            prepared = self._runner.run(self._opened.prepare(query))
            return [attribute.name for attribute in prepared.get_attributes()]

    def rows(self, query: str) -> Iterator[Sequence[Row]]:
        with _by_type_alone():
            cursor = self._runner.run(_cursor(self._opened, query))
            while batch := self._runner.run(cursor.fetch(ROWS_PER_CHUNK)):
                yield batch


async def _cursor(opened: Any, query: str) -> Any:
    return await opened.cursor(query)


@contextmanager
def _by_type_alone(refused: tuple[type[Exception], ...] = (), failed: type[Exception] = Exception) -> Iterator[None]:
    """Errors of a driver are told by their type, unless they are among those that only quote the query."""
    try:
        yield
    except refused as error:
        raise _RefusedQueryError(_said(error)) from None
    except failed as error:
        raise _LostError(type(error).__name__) from None


def _said(error: Exception) -> str:
    """The first line of what a database says of a query before it reads a row."""
    line = (str(error).splitlines() or [""])[0][:_MAX_SAID_CHARACTERS]
    return "".join(sign if sign.isprintable() else "?" for sign in line)
