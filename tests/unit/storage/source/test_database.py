"""A query as a source: typed values, one order, one state of the database, and plain words when it fails."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

import asyncpg
import duckdb
import pytest
from unit.storage.own_data import DICTIONARY, PEOPLE, PUBLISHED, STAYS, own_home, plan_of, rows_of
from unit.storage.postgresql import WHY_NOT, postgresql_server

from broker_common.errors import InvalidRequestError
from broker_common.storage.source import database
from broker_common.storage.source.rows import RejectedRows

HEAD = """\
[people]
database = "{database}"
{connection}
query = '''{query}'''
id = "card"
id_form = "ontario_health_card"
[events.stay]
database = "{database}"
{connection}
query_file = "stays.sql"
id = "card"
"""
TYPED = """
create table people (card varchar, sex varchar, age integer, born date, diagnosis varchar{list}, note varchar);
create table stays (card varchar, admitted date, cause varchar);
"""
QUERY = "select card, sex, age, born, diagnosis from people -- everybody;"


def literal(text: str) -> str:
    """SQL for a text, or for no value."""
    return f"'{text}'" if text else "null"


def statements(list_: str = "[]", array: str = "[{}]") -> str:
    """SQL that makes the people and stays of the tests; codes are joined where no array is named."""
    lines = [TYPED.format(list=list_)]
    for card, sex, age, born, diagnosis in PEOPLE:
        codes = array.format(", ".join(map(literal, diagnosis.split(";")))) if array else literal(diagnosis)
        values = [literal(card), literal(sex), age or "null", literal(born), codes if diagnosis else "null", "'x'"]
        lines.append(_insert("people", values))
    lines += [_insert("stays", map(literal, row)) for row in STAYS]
    return "\n".join(lines)


def _insert(table: str, values: Iterable[str]) -> str:
    return f"insert into {table} values ({', '.join(values)});"  # noqa: S608 - the tests' own people


def home_of(folder: Path, database: str, connection: str = "", query: str = QUERY) -> Path:
    """A home whose source.toml asks a database."""
    text = HEAD.format(database=database, connection=connection, query=query)
    return own_home(folder, text, {"stays.sql": "select * from stays;\n"})


def people_of(home: Path, rejected: RejectedRows | None = None) -> list[tuple[str, ...]]:
    """The people of a home's query."""
    return rows_of(plan_of(home).people(DICTIONARY.columns), PUBLISHED, rejected)


def refusal(home: Path) -> InvalidRequestError:
    """The error that reading people ends in."""
    with pytest.raises(InvalidRequestError) as caught:
        people_of(home)
    assert caught.value.code == "LOAD_REFUSED"
    assert caught.value.hint
    return caught.value


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a DuckDB file of people and stays."""
    home = home_of(tmp_path / "home", "duckdb:data/own.db")
    (home / "data").mkdir()
    with duckdb.connect(str(home / "data" / "own.db")) as engine:
        engine.execute(statements())
    return home


def change(home: Path, statement: str) -> None:
    """Change the home's DuckDB file."""
    with duckdb.connect(str(home / "data" / "own.db")) as engine:
        engine.execute(statement)


EXPECTED = sorted(tuple(";".join(sorted(text.split(";"))) for text in row) for row in PEOPLE)


def test_duckdb_file_gives_published_rows(home: Path) -> None:
    """Texts, numbers, dates, lists and NULL; columns that nobody wants are not looked at."""
    rejected = RejectedRows()
    assert sorted(people_of(home, rejected)) == EXPECTED
    assert rejected.count == 0
    (table,) = DICTIONARY.events
    assert sorted(rows_of(plan_of(home).events(table), ("health_card", "admitted", "cause"))) == sorted(STAYS)
    assert not list(home.glob(".source-spill*"))


def test_order_of_the_database_does_not_matter(home: Path) -> None:
    """The same rows, found in another order, come in the same order, with the same numbers."""
    change(home, "update people set age = 999 where card = '1000000003'")
    chunks = [(chunk.lines, chunk.columns) for chunk in plan_of(home).people(DICTIONARY.columns).chunks(RejectedRows())]
    change(
        home,
        "create table other as from people order by age desc; drop table people; alter table other rename to people",
    )
    again = [(chunk.lines, chunk.columns) for chunk in plan_of(home).people(DICTIONARY.columns).chunks(RejectedRows())]
    assert again == chunks


def test_rows_come_in_batches(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers and progress count through; a row that is too long is left out by its number."""
    monkeypatch.setattr(database, "ROWS_PER_CHUNK", 2)
    change(home, "update people set diagnosis = [repeat('x', 70000)] where card = '1000000003'")
    seen: list[tuple[int, int]] = []
    rejected = RejectedRows()
    source = plan_of(home).people(DICTIONARY.columns)
    chunks = list(source.chunks(rejected, progress=lambda done, total: seen.append((done, total))))
    assert seen == [(2, 5), (4, 5), (5, 5)]
    assert sorted(line for chunk in chunks for line in chunk.lines) == [1, 2, 4, 5]
    ((place, reason),) = rejected.placed
    assert str(place) == "row 3 of the query of people"
    assert "is longer than" in reason


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select card, sex, age, born, diagnosi from people", 'Referenced column "diagnosi" not found'),
        ("select card, sex, age, born, diagnosis from peopel", "Table with name peopel does not exist"),
        ("select card, sex, age, born, diagnosis frm people", "syntax error"),
        ("select card, sex, age, born from people", "it lacks columns: diagnosis"),
        ("delete from people", "the database"),
        ("select * from people where card = ''", "it names columns and has no rows"),
        ("select * from people where card = 'x' and false", "it names columns and has no rows"),
        (
            "select * replace (age::double as age) from people",
            "its column age holds a value of the type float, first in row",
        ),
        (
            "select * replace (age::bigint as card) from people",
            "its column card holds a value of the type int, first in row",
        ),
        (
            "select * replace (born::timestamp as born) from people",
            "born holds a value of the type datetime, first in row",
        ),
        ("select * replace ([1] as diagnosis) from people", ""),
        ("select * replace (card::integer / 0 as age) from people", "its column age holds a value of the type float"),
        ("select * replace (sex::integer as age) from people", "the database stopped after 0 rows"),
        ("select * from read_csv('stays.sql')", "the database"),
    ],
)
def test_wrong_query_is_told_without_a_value(home: Path, query: str, said: str) -> None:
    """The database's error is shown only before it reads a row; its errors later may quote one."""
    home_of(home, "duckdb:data/own.db", query=query)
    if said:
        error = refusal(home)
        assert said in error.text
        assert "female" not in error.text + error.hint
        assert "100000000" not in error.text + error.hint
    else:
        rejected = RejectedRows()
        people_of(home, rejected)
        assert {reason for _, reason in rejected.first} == {"diagnosis holds an empty value among others"}


def test_missing_or_foreign_database_file_is_told(home: Path) -> None:
    """Neither is made by opening it."""
    home_of(home, "duckdb:data/other.db")
    assert "the database other.db is missing" in refusal(home).text
    assert not (home / "data" / "other.db").exists()
    (home / "data" / "other.db").write_bytes(b"x" * 5000)
    assert "the database stopped after 0 rows" in refusal(home).text


# --- any other driver ------------------------------------------------------------------------------------------------


@pytest.fixture
def sqlite_home(tmp_path: Path) -> Path:
    """A home that asks an SQLite file through Python's own driver."""
    home = home_of(tmp_path / "home", "python:sqlite3", 'connection = "file:keys/own"')
    path = tmp_path / "own.sqlite"
    (home / "keys").mkdir()
    (home / "keys" / "own").write_text(f"{path}\n", "utf-8")
    (home / "keys" / "own").chmod(0o600)
    with sqlite3.connect(path) as engine:
        engine.executescript(statements("", ""))
    engine.close()
    return home


def test_any_driver_of_python_can_be_asked(sqlite_home: Path) -> None:
    """It is named; a missing one is reported, and so is a query that it does not understand."""
    assert sorted(people_of(sqlite_home)) == EXPECTED
    text = (sqlite_home / "source.toml").read_text("utf-8")
    (sqlite_home / "source.toml").write_text(text.replace("sqlite3", "no_such_driver"), "utf-8")
    assert "no Python module no_such_driver" in refusal(sqlite_home).text
    (sqlite_home / "source.toml").write_text(text.replace("from people", "from peopel"), "utf-8")
    assert "the database stopped after 0 rows of the query of people (OperationalError)" in refusal(sqlite_home).text


DRIVER = """
import sqlite3

class Error(Exception): pass
class DatabaseError(Error): pass
class DataError(DatabaseError): pass
class ProgrammingError(DatabaseError): pass

class Cursor:
    def __init__(self, cursor, text):
        self._cursor, self._text = cursor, text
    @property
    def description(self):
        return self._cursor.description
    def execute(self, query):
        if "1 = 0" in query and self._text != "fetch":
            raise {"data": DataError, "programming": ProgrammingError, "other": ValueError}[self._text](QUOTED)
        return self._cursor.execute(query)
    def fetchmany(self, size):
        raise DataError(QUOTED)

class Connection:
    def __init__(self, text):
        self._text, _, path = text.partition(" ")
        self._connection = sqlite3.connect(path)
    def cursor(self):
        return Cursor(self._connection.cursor(), self._text)
    def close(self):
        self._connection.close()

QUOTED = "invalid input syntax: TREMBLAY Marie 1000000001"
connect = Connection
"""


@pytest.mark.parametrize(
    ("when", "kind"),
    [("data", "DataError"), ("programming", "ProgrammingError"), ("other", "ValueError"), ("fetch", "DataError")],
)
def test_what_a_driver_says_is_never_told(
    sqlite_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str, kind: str
) -> None:
    """A database may evaluate rows before it is asked for one, and raise in any class: the class alone is told."""
    (tmp_path / "quoting_driver.py").write_text(DRIVER, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    path = sqlite_home / "keys" / "own"
    path.write_text(f"{when} {path.read_text('utf-8')}", "utf-8")
    toml = sqlite_home / "source.toml"
    toml.write_text(toml.read_text("utf-8").replace("python:sqlite3", "python:quoting_driver"), "utf-8")
    error = refusal(sqlite_home)
    assert f"the database stopped after 0 rows of the query of people ({kind})" in error.text
    assert "TREMBLAY" not in error.text + error.hint
    assert "1000000001" not in error.text + error.hint


def test_type_that_changes_half_way_is_told_with_its_row(
    sqlite_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some databases let every row have a type of its own: the row is named, never the value."""
    monkeypatch.setattr(database, "ROWS_PER_CHUNK", 2)
    with sqlite3.connect(tmp_path / "own.sqlite") as engine:
        engine.execute("update people set age = 61.25 where card = '1000000005'")
    engine.close()
    error = refusal(sqlite_home)
    assert "its column age holds a value of the type float, first in row 5" in error.text
    assert "61.25" not in error.text


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_file_of_a_connection_is_private(sqlite_home: Path, mode: int) -> None:
    """It may hold a password."""
    (sqlite_home / "keys" / "own").chmod(mode)
    assert "can be read or written by others" in refusal(sqlite_home).text
    (sqlite_home / "keys" / "own").unlink()
    assert "cannot be read" in refusal(sqlite_home).text


def test_connection_that_is_not_set_is_told(tmp_path: Path) -> None:
    """Its reference is named; and one that is set and leads nowhere, without its content."""
    home = home_of(tmp_path / "home", "postgresql", 'connection = "env:NOBODY_SETS_THIS"')
    assert "nothing can be read at env:NOBODY_SETS_THIS" in refusal(home).text


def test_database_that_is_not_there_is_told_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection's text is a secret."""
    home = home_of(tmp_path / "home", "postgresql", 'connection = "env:OWN_DATA"')
    for connection in (f"postgresql://me:secret@/db?host={tmp_path}", "secret", "mysql://me:secret@host/db"):
        monkeypatch.setenv("OWN_DATA", connection)
        error = refusal(home)
        assert "PostgreSQL cannot be reached" in error.text
        assert "secret" not in error.text + error.hint


# --- PostgreSQL ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A PostgreSQL server with the people and stays."""
    if WHY_NOT:
        pytest.skip(WHY_NOT)
    # The path of a socket is short.
    with tempfile.TemporaryDirectory(prefix="pg") as folder, postgresql_server(Path(folder)) as address:
        asyncio.run(_execute(address, statements(array="array[{}]")))
        yield address


async def _execute(address: str, statement: str) -> None:
    connection = await asyncpg.connect(address)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture
def asking(tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that asks the server."""
    monkeypatch.setenv("OWN_DATA", server)
    return home_of(tmp_path / "home", "postgresql", 'connection = "env:OWN_DATA"')


def test_postgresql_gives_published_rows(asking: Path) -> None:
    """Texts, numbers, dates, arrays and NULL."""
    assert sorted(people_of(asking)) == EXPECTED
    (table,) = DICTIONARY.events
    assert sorted(rows_of(plan_of(asking).events(table), ("health_card", "admitted", "cause"))) == sorted(STAYS)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select card, sex, age, born, diagnosi from people", 'column "diagnosi" does not exist'),
        ("select * from peopel", 'relation "peopel" does not exist'),
        ("select card frm people x", "syntax error"),
        ("select card, sex, age, born from people", "it lacks columns: diagnosis"),
        (
            "select card, sex, age::float8 as age, born, diagnosis from people",
            "its column age holds a value of the type float",
        ),
        ("select card, sex, 1/(age-61) as age, born, diagnosis from people", "the database stopped after 0 rows"),
        ("select card, sex, sex::int as age, born, diagnosis from people", "the database stopped after 0 rows"),
        ("select card, sex, age, born, diagnosis from people where false", "it names columns and has no rows"),
        ("delete from people returning card, sex, age, born, diagnosis", "the database refuses the query"),
        ("select *, pg_notify('a', 'b') from people; delete from people", "the database refuses the query"),
    ],
)
def test_wrong_query_of_postgresql_is_told_without_a_value(asking: Path, query: str, said: str) -> None:
    """As of DuckDB; and nothing can be written."""
    home_of(asking, "postgresql", 'connection = "env:OWN_DATA"', query)
    error = refusal(asking)
    assert said in error.text
    assert "female" not in error.text + error.hint


def test_bytes_that_are_no_text_are_told_by_their_kind(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that knows no encoding holds any bytes: neither they nor what stands beside them is told."""
    asyncio.run(_execute(server, "create database plain template template0 encoding 'SQL_ASCII' locale 'C'"))
    address = server.replace("/postgres?", "/plain?")
    asyncio.run(_execute(address, statements(array="array[{}]")))
    asyncio.run(_execute(address, r"update people set card = E'TREMBLAY\xC9'"))
    monkeypatch.setenv("OWN_DATA", address)
    error = refusal(home_of(tmp_path / "home", "postgresql", 'connection = "env:OWN_DATA"'))
    assert "the database stopped after 0 rows of the query of people" in error.text
    assert "TREMBLAY" not in error.text + error.hint


def test_connection_that_dies_half_way_is_told(asking: Path, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows read so far are worth nothing; the sentence says how far it came."""
    monkeypatch.setattr(database, "ROWS_PER_CHUNK", 1)
    chunks = plan_of(asking).people(DICTIONARY.columns).chunks(RejectedRows())
    next(chunks)
    end = (
        "select pg_terminate_backend(pid) from pg_stat_activity where pid != pg_backend_pid() and datname = 'postgres'"
    )
    asyncio.run(_execute(server, end))
    with pytest.raises(InvalidRequestError, match="the database stopped after 1 rows") as caught:
        list(chunks)
    assert caught.value.code == "LOAD_REFUSED"


def test_rows_that_others_write_meanwhile_are_of_the_next_load(
    asking: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load reads one state of the database."""
    monkeypatch.setattr(database, "ROWS_PER_CHUNK", 1)
    chunks = plan_of(asking).people(DICTIONARY.columns).chunks(RejectedRows())
    next(chunks)
    asyncio.run(_execute(server, "insert into people (card) values ('1000000009')"))
    try:
        assert len(list(chunks)) == len(PEOPLE) - 1
    finally:
        asyncio.run(_execute(server, "delete from people where card = '1000000009'"))


def test_load_that_is_given_up_leaves_no_connection(asking: Path, server: str) -> None:
    """The loader may end at any row: what it has read from is closed then."""
    chunks = plan_of(asking).people(DICTIONARY.columns).chunks(RejectedRows())
    next(chunks)
    assert isinstance(chunks, Generator)
    chunks.close()
    # Waits for ever while somebody reads that table.
    asyncio.run(_execute(server, "set lock_timeout = '60s'; alter table people add column at_once integer"))
    asyncio.run(_execute(server, "alter table people drop column at_once"))
