"""`source.toml`: what an agency's own data look like, and which published words its own stand for.

It is private: of mode 0600, in the home, never in a log, and no part of what is published. It holds no password, only
where a connection stands (`file:PATH` or `env:NAME`). docs/source-toml.md says what may stand in it. Keys that nobody knows
are errors, so that a misspelt one cannot be silently ignored. Errors name the line and the column in this file.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from broker_common.errors import InvalidRequestError
from broker_common.query.dictionary import (
    MULTI_VALUE_SEPARATOR,
    Column,
    ColumnType,
    Dictionary,
    nearest,
    shown,
)
from broker_common.storage.lined_text import Places
from broker_common.storage.source.csv_file import CsvSource
from broker_common.storage.source.rows import RejectedRows, reading, refuse

FILE_NAME = "source.toml"
PEOPLE_TABLE = "people"

# The largest source.toml; a code list of its own has a file of its own.
_MAX_BYTES = 1 << 20
_PRIVATE_MODE = 0o600
_WRITTEN_BY_OTHERS = 0o022
_PRIVATE = "Give it to its owner alone: chmod 600 {path}."

DATE_FORMS = ("iso", "yyyymmdd", "dd/mm/yyyy", "mm/dd/yyyy", "dd-mm-yyyy", "dd.mm.yyyy")
"""How an agency may write its dates; the first is the published one."""
ENCODINGS = {"utf-8": "utf-8", "latin-1": "latin-1", "windows-1252": "cp1252"}

_ROWS = ("files", "delimiter", "encoding", "database", "connection", "query", "query_file")
_WORDS = ("missing", "dates", "separator")
_TABLE = (*_ROWS, "id", *_WORDS, "columns", "codes")
_CODES_FILE_HAS = "Each line has two fields, own and published, with a comma between them."
_COLUMN = ("name", "codes_file", *_WORDS, *_ROWS, "id")
# The keys of a census's ids, by their logical names.
_ID_KEYS = {"health_card": "id", "person_id": "person", "household_id": "household"}


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """Files that an agency has: names and patterns, relative to the home."""

    names: tuple[str, ...]
    separator: str = ","
    encoding: str = "utf-8"


@dataclass(frozen=True, slots=True)
class OwnQuery:
    """A query against a database that an agency has."""

    # `duckdb:FILE`, `postgresql`, or `python:MODULE`, a driver that Python's DB-API describes.
    database: str
    # Leads to what the driver is given to connect; empty for a file.
    connection: str
    text: str


@dataclass(frozen=True, slots=True)
class OwnColumn:
    """How an agency writes one published column."""

    name: str
    # Published codes by own ones; None where they are the same.
    codes: Mapping[str, str] | None = field(default=None, repr=False)
    missing: frozenset[str] = frozenset()
    dates: str = DATE_FORMS[0]
    separator: str = MULTI_VALUE_SEPARATOR
    # Where one value a row stands in a table of its own: that table, and its column of the id.
    rows: OwnFiles | OwnQuery | None = None
    id: str = ""


@dataclass(frozen=True, slots=True)
class OwnTable:
    """How an agency writes people, or one table of events."""

    rows: OwnFiles | OwnQuery
    # Own names by logical ones.
    ids: Mapping[str, str]
    missing: frozenset[str]
    columns: Mapping[str, OwnColumn]


def read_source_toml(home: Path, ids: Collection[str], dictionary: Dictionary) -> Mapping[str, OwnTable]:
    """Read the plan for people and each event table in a home's `source.toml`; people have these ids.

    Raises:
        InvalidRequestError: LOAD_REFUSED.
    """
    path = home / FILE_NAME
    verify_private(path)
    with reading(path) as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        refuse(f"{path} is larger than {_MAX_BYTES} bytes", "Put long lists of codes into files of their own.")
    return parse_source_toml(data, home, ids, dictionary)


def verify_private(path: Path) -> None:
    """Return only if nobody but its owner can read or write a file.

    Raises:
        InvalidRequestError: LOAD_REFUSED.
    """
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)  # noqa: PTH116 - the errors of one call
    except OSError as error:
        refuse(f"{path} cannot be read ({error.strerror})", "Check the path and the permissions.")
    if mode & ~_PRIVATE_MODE:
        refuse(f"{path} can be read or written by others", _PRIVATE.format(path=path))


def parse_source_toml(data: bytes, home: Path, ids: Collection[str], dictionary: Dictionary) -> Mapping[str, OwnTable]:
    """Parse this text; files that it names are looked for in `home`.

    Raises:
        InvalidRequestError: LOAD_REFUSED.
    """
    try:
        text = data.decode("utf-8")
        content = tomllib.loads(text)
    except UnicodeDecodeError:
        refuse(f"{FILE_NAME} is not UTF-8 text", "Save it as UTF-8.")
    except tomllib.TOMLDecodeError as error:
        # The library's message names a place and a sign of TOML, and never quotes a value.
        refuse(f"{FILE_NAME} is no TOML: {shown(str(error).partition(' (')[0])}{_place(error)}", "Mend that line.")
    except (ValueError, RecursionError):
        refuse(f"{FILE_NAME} is no TOML", "Numbers have some digits only, and brackets some brackets inside.")
    top = _Table(content, (), Places(text), home)
    top.know((PEOPLE_TABLE, "events"))
    people = top.table(PEOPLE_TABLE)
    _verify_id_form(people, dictionary.id_form)
    tables = {PEOPLE_TABLE: _own_table(people, ids, dictionary.columns, more=("id_form",))}
    events = top.table("events") if "events" in content or dictionary.events else None
    if events is not None:
        events.know([table.name for table in dictionary.events])
        for table in dictionary.events:
            tables[table.name] = _own_table(events.table(table.name), ("health_card",), table.columns)
    return tables


def _place(error: tomllib.TOMLDecodeError) -> str:
    _, _, place = str(error).partition(" (at ")
    return f", {place.removesuffix(')')}" if place else ""


class _Table:
    """A table of the file, and where each of its keys stands."""

    def __init__(self, content: Mapping[str, Any], path: tuple[str, ...], places: Places, home: Path) -> None:
        self.content = content
        self.path = path
        self.places = places
        self.home = home

    def wrong(self, key: str, problem: str, remedy: str) -> NoReturn:
        """End the load for what stands under this key."""
        spot = self.places.of((*self.path, key) if key else self.path)
        refuse(f"{FILE_NAME}, {spot}: {problem}", remedy)

    def know(self, keys: Iterable[str]) -> None:
        """Refuses keys that are none of these."""
        known = list(keys)
        for key in self.content:
            if key not in known:
                what = f"nothing here is called {shown(key)}"
                self.wrong(key, what, f"Nearest: {nearest(key, known)}." if known else "Leave it out.")

    def table(self, key: str) -> _Table:
        """The table of this name."""
        found = self.content.get(key)
        if not isinstance(found, dict):
            name = ".".join((*self.path, key))
            self.wrong(
                key if found is not None else "", f"there is no table [{name}]", f"Write [{name}] and what it needs."
            )
        return _Table(found, (*self.path, key), self.places, self.home)

    def text(self, key: str, usual: str | None = None) -> str:
        """The text of this key; it must stand there unless there is a usual one."""
        found = self.content.get(key, usual)
        if found is None:
            self.wrong("", f"{key} is missing", f'Write {key} = "…" below [{".".join(self.path)}].')
        if not isinstance(found, str) or (not found and usual is None):
            self.wrong(key, f"{key} is no text", f'Write it in quotes: {key} = "…".')
        return found

    def texts(self, key: str) -> list[str]:
        """The texts in a list."""
        found = self.content[key]
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            self.wrong(key, f"{key} is no list of texts", f'Write each in quotes: {key} = ["…", "…"].')
        return found

    def one_of(self, key: str, admitted: Sequence[str]) -> str:
        """One of these texts, the first if the key is not there."""
        found = self.text(key, admitted[0])
        if found not in admitted:
            self.wrong(key, f"{key} is none that is known", f"Write one of: {', '.join(admitted)}.")
        return found

    def own_file(self, key: str) -> Path:
        """The file that this key names."""
        path = self.home / self.text(key)
        if not path.is_file():
            self.wrong(key, f"the file that {key} names is missing", f"Put it there: {path}.")
        # SECURITY: it decides what is read with the agency's access, and what its codes mean.
        found = path.stat()
        if found.st_mode & _WRITTEN_BY_OTHERS or found.st_uid not in {0, os.geteuid(), self.home.stat().st_uid}:
            self.wrong(
                key,
                f"others can write the file that {key} names",
                f"Give it to the owner of the home, and let nobody else write it: chmod go-w {path}.",
            )
        return path


def _verify_id_form(people: _Table, published: str) -> None:
    said = people.text("id_form")
    if said != published:
        people.wrong(
            "id_form",
            f"it says that ids are of the form {shown(said)}, and the dictionary, that they are of the form {published}",
            "Both agencies must link on one form of ids: agree on it, and write that one into both dictionaries.",
        )


def _own_table(table: _Table, ids: Collection[str], columns: Collection[Column], more: Sequence[str] = ()) -> OwnTable:
    keys = {name: _ID_KEYS[name] for name in ids}
    table.know([*_TABLE, *(key for key in keys.values() if key not in _TABLE), *more])
    rows = _own_rows(table)
    names = [column.name for column in columns]
    named = _within(table, "columns", names)
    coded = _within(table, "codes", [column.name for column in columns if column.type is ColumnType.CODE])
    return OwnTable(
        rows,
        {name: table.text(key) for name, key in keys.items()},
        _missing(table, frozenset()),
        {column.name: _own_column(column, table, named, coded) for column in columns},
    )


def _within(table: _Table, key: str, names: Sequence[str]) -> _Table:
    found = table.table(key) if key in table.content else _Table({}, table.path, table.places, table.home)
    found.know(names)
    return found


def _own_column(column: Column, table: _Table, named: _Table, coded: _Table) -> OwnColumn:
    said = named.content.get(column.name, column.name)
    own = named.table(column.name) if isinstance(said, dict) else _Table({}, named.path, named.places, named.home)
    own.know(_COLUMN)
    name = own.text("name", column.name) if isinstance(said, dict) else named.text(column.name, column.name)
    dates = own.one_of("dates", DATE_FORMS) if "dates" in own.content else table.one_of("dates", DATE_FORMS)
    rows = _own_rows(own) if {"files", "database"} & own.content.keys() else None
    if rows is None and (stray := {*_ROWS, "id"} & own.content.keys()):
        own.wrong(min(stray), f"{min(stray)} belongs to a table of its own", 'Say where that is, with files = ["…"].')
    if rows is not None and not column.multi_valued:
        own.wrong(
            "", f"{column.name} has one value a person", "Only a column of several values has a table of its own."
        )
    return OwnColumn(
        name,
        _own_codes(column, own, coded),
        _missing(own, _missing(table, frozenset())),
        dates,
        _separator(own if "separator" in own.content else table),
        rows,
        own.text("id") if rows is not None else "",
    )


def _missing(table: _Table, usual: frozenset[str]) -> frozenset[str]:
    return frozenset(text.strip() for text in table.texts("missing")) if "missing" in table.content else usual


def _separator(table: _Table) -> str:
    found = table.text("separator", MULTI_VALUE_SEPARATOR)
    if len(found) != 1 or not found.isprintable() or found.isalnum() or found in "'\"":
        table.wrong("separator", "separator is not one sign", 'Write the sign between two values: separator = "|".')
    return found


def _own_rows(table: _Table) -> OwnFiles | OwnQuery:
    if ("files" in table.content) == ("database" in table.content):
        table.wrong("", "it says either files or database, one of the two", 'Write files = ["…"] or database = "…".')
    if "files" in table.content:
        return _own_files(table)
    for key in ("delimiter", "encoding"):
        if key in table.content:
            table.wrong(key, f"a database has no {key}", "Leave it out.")
    if ("query" in table.content) == ("query_file" in table.content):
        table.wrong("database", "a database needs either query or query_file", 'Write query = "select …".')
    return OwnQuery(_database(table), _connection(table), _query(table))


def _own_files(table: _Table) -> OwnFiles:
    for key in ("connection", "query", "query_file"):
        if key in table.content:
            table.wrong(key, f"{key} belongs to a database", 'Say which: database = "duckdb:FILE" or "postgresql".')
    names = table.texts("files")
    if not names or not all(names):
        table.wrong("files", "files names no file", 'Write a name or a pattern: files = ["people-*.csv"].')
    separator = table.text("delimiter", ",")
    if len(separator) != 1 or not separator.isascii() or separator.isalnum() or separator in "\"'\r\n\0 ":
        table.wrong("delimiter", "delimiter is not one sign", 'Write the sign between two fields: delimiter = ";".')
    return OwnFiles(tuple(names), separator, ENCODINGS[table.one_of("encoding", tuple(ENCODINGS))])


def _database(table: _Table) -> str:
    found = table.text("database")
    kind, _, target = found.partition(":")
    if found != "postgresql" and not (kind in {"duckdb", "python"} and target):
        table.wrong(
            "database", "database is none that is known", 'Write "postgresql", "duckdb:FILE" or "python:MODULE".'
        )
    return found


def _connection(table: _Table) -> str:
    if table.text("database").startswith("duckdb:"):
        if "connection" in table.content:
            table.wrong("connection", "a DuckDB file needs no connection", "Leave it out.")
        return ""
    found = table.text("connection")
    kind, _, target = found.partition(":")
    # SECURITY: a password that stands here would be read by everybody who is shown this file.
    if kind not in {"env", "file"} or not target or "//" in target:
        table.wrong(
            "connection",
            "connection does not say where the connection stands",
            'Write connection = "file:keys/NAME" or "env:NAME"; the address and the password stand there, never here.',
        )
    return found


def _query(table: _Table) -> str:
    if "query" in table.content:
        return table.text("query")
    path = table.own_file("query_file")
    with reading(path) as file:
        data = file.read(_MAX_BYTES + 1)
    try:
        return data[:_MAX_BYTES].decode("utf-8")
    except UnicodeDecodeError:
        table.wrong("query_file", "the file is not UTF-8 text", "Save it as UTF-8.")


def _own_codes(column: Column, own: _Table, coded: _Table) -> Mapping[str, str] | None:
    if "codes_file" in own.content:
        if column.name in coded.content:
            coded.wrong(column.name, "its codes stand in codes_file already", "Write them in one of the two.")
        if column.type is not ColumnType.CODE:
            own.wrong("codes_file", f"{column.name} holds {column.type.value}, not codes", "Leave it out.")
        return _codes_of_file(column, own)
    if column.name not in coded.content:
        return None
    table = coded.table(column.name)
    codes: dict[str, str] = {}
    for key in table.content:
        published = table.text(key, "")
        if published and published not in column.positions:
            if key == "codes_file":
                _refuse_file_of_codes(table, column.name)
            table.wrong(key, *_no_code(published, column))
        if key.strip() in codes:
            table.wrong(key, "this code stands there twice, but for outer spaces", "Leave one of them out.")
        codes[key.strip()] = published
    return codes


def _no_code(published: str, column: Column) -> tuple[str, str]:
    near = column.nearest(published)
    return f"{shown(published)} is no published code of {column.name}", f"Nearest: {near}."


def _refuse_file_of_codes(table: _Table, column: str) -> NoReturn:
    people_or_events, codes = ".".join(table.path[:-2]), ".".join(table.path)
    table.wrong(
        "codes_file",
        f"each line of [{codes}] is a code, and codes_file belongs to the column",
        f'Write {column} = {{ name = "…", codes_file = "…" }} below [{people_or_events}.columns], and leave [{codes}] out.',
    )


def _codes_of_file(column: Column, own: _Table) -> Mapping[str, str]:
    path = own.own_file("codes_file")
    codes: dict[str, str] = {}
    rejected = RejectedRows()
    remedies: dict[int, str] = {}
    try:
        for chunk in CsvSource(path, ("own", "published")).chunks(rejected):
            for line, code, published in zip(
                chunk.lines, chunk.columns["own"], chunk.columns["published"], strict=True
            ):
                if published and published not in column.positions:
                    problem, remedies[line] = _no_code(published, column)
                    rejected.add(line, problem)
                elif code.strip() in codes:
                    rejected.add(line, "its own code stands there twice")
                    remedies[line] = "Leave one of them out."
                else:
                    codes[code.strip()] = published
    except InvalidRequestError as error:
        own.wrong("codes_file", f"{path.name}: {error.details['problem']}", error.details["remedy"])
    if rejected.count:
        line, reason = rejected.first[0]
        own.wrong("codes_file", f"{path.name}, line {line}: {reason}", remedies.get(line, _CODES_FILE_HAS))
    return codes
