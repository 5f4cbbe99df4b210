"""The people of one load, in a DuckDB file: written once, then only read.

Invariants. Rows ascend by pseudonym, strictly; its two UBIGINT halves (`_high`, `_low`: no dictionary column begins like
that) are big-endian, so that numeric order is the order of the 16 bytes and a cohort comes out sorted. A coded column
holds the place in the published list (NULL: none), a multi-valued one a bit mask (0: none), numbers and dates themselves
(NULL: none). The file names the dictionary it was written under: a place in another list means another code, so a
store of another dictionary is not read.

DuckDB is kept from everything but this file: no other file, no network, no extension, no change of settings.
What criteria mean in SQL is left to `cohort`; replacing the file whole, to the loader.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self

import duckdb
import numpy as np
from numpy.typing import NDArray

from broker_common.errors import InternalError, RefusedError
from broker_common.query.condition import Condition
from broker_common.query.dictionary import Column, ColumnType, Dictionary
from broker_common.storage.durable import replacing
from broker_common.storage.source_values import MISSING, Values
from broker_common.values import PSEUDONYM_BYTES
from health_node.cohort import compile_condition
from health_node.dictionary import HEALTH_DICTIONARY

__all__ = ["People", "PeopleStore", "build_people_store", "replace_people_store"]

DUCKDB_THREADS = 2

_FORMAT = "tripartite/people/v1"
_ROWS_PER_INSERT = 1_000_000
# Codes whose places fit into one byte.
_MOST_SMALL_CODES = 256
_OWNER_ONLY = 0o600

# SECURITY: criteria reach this engine as bound parameters only; should one ever escape, there is nothing else to reach.
_CONFINED = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "temp_directory": "",
    "lock_configuration": "true",
}


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """Columns of equal length: halves of pseudonyms, and per dictionary column the numbers of `source_values`."""

    high: NDArray[np.uint64]
    low: NDArray[np.uint64]
    columns: Mapping[str, Values]

    @property
    def size(self) -> int:
        return len(self.high)


def build_people_store(path: Path, people: People, dictionary: Dictionary = HEALTH_DICTIONARY) -> None:
    """Write `people`, who ascend by pseudonym, to a new file at `path`.

    Raises:
        InternalError: INTEGRITY (they do not ascend), STORE_FAILED.
    """
    _verify_ascending(people.high, people.low)
    try:
        with duckdb.connect(path, config={**_CONFINED, "threads": DUCKDB_THREADS}) as connection:
            path.chmod(_OWNER_ONLY)
            connection.begin()
            connection.execute(_create_table(dictionary))
            connection.execute("create table about (format varchar not null, dictionary varchar not null)")
            connection.execute("insert into about values (?, ?)", [_FORMAT, _digest(dictionary)])
            for start in range(0, people.size, _ROWS_PER_INSERT):
                _insert(connection, people, slice(start, start + _ROWS_PER_INSERT), dictionary)
            connection.commit()
            connection.execute("checkpoint")
    except duckdb.Error as error:
        raise InternalError("STORE_FAILED") from error


def replace_people_store(path: Path, people: People, dictionary: Dictionary = HEALTH_DICTIONARY) -> None:
    """Durably make the store at `path` hold `people`; until that has succeeded the file before stands.

    Raises:
        InternalError: INTEGRITY, STORE_FAILED.
    """
    try:
        with replacing(path) as temporary:
            try:
                build_people_store(temporary, people, dictionary)
            finally:
                # DuckDB's own journal: empty and gone after a good end, worthless after a bad one.
                temporary.with_name(f"{temporary.name}.wal").unlink(missing_ok=True)
    except OSError as error:
        raise InternalError("STORE_FAILED") from error


class PeopleStore:
    """A finished store, opened for reading. May be used from several threads at once.

    The pseudonyms are kept in memory, 16 bytes per person: DuckDB then only has to say which rows match, which is up
    to four times faster than reading random bytes through it.
    """

    def __init__(
        self, path: Path, dictionary: Dictionary = HEALTH_DICTIONARY, *, threads: int = DUCKDB_THREADS
    ) -> None:
        if not path.is_file():
            raise RefusedError("NOTHING_LOADED", what="health data", role="health")
        self._dictionary = dictionary
        self._opening = Lock()
        with _reading():
            self._connection = duckdb.connect(path, read_only=True, config={**_CONFINED, "threads": threads})
            about = self._connection.execute("select format, dictionary from about").fetchall()
            if about != [(_FORMAT, _digest(dictionary))]:
                raise RefusedError("NOTHING_LOADED", what="health data under the present dictionary", role="health")
            halves = self._connection.execute("select _high, _low from people").fetchnumpy()
        self._pseudonyms = _as_bytes(halves["_high"], halves["_low"])

    @property
    def size(self) -> int:
        """How many people there are. For the health operator only: no researcher sees anything that depends on it."""
        return len(self._pseudonyms)

    def select(self, condition: Condition) -> NDArray[np.uint8]:
        """The pseudonyms of everyone for whom the condition is true: (n, 16) bytes, ascending and distinct.

        Raises:
            InternalError: INTEGRITY.
        """
        where, parameters = compile_condition(condition, self._dictionary)
        with self._cursor() as cursor:
            # No ORDER BY: rows come in the order of the file, which is checked at a fraction of the cost of sorting.
            # S608: `where` is made of our own column names and of `?`; what was asked for travels as parameters.
            found = cursor.execute(f"select rowid from people where {where}", parameters).fetchnumpy()  # noqa: S608
        rows = found["rowid"]
        if not (rows[1:] > rows[:-1]).all():
            raise InternalError("INTEGRITY", problem="a cohort does not ascend")
        selected: NDArray[np.uint8] = self._pseudonyms[rows].view(np.uint8).reshape(-1, PSEUDONYM_BYTES)
        return selected

    @property
    def halves(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """The two halves of everyone's pseudonym, in the order of the store."""
        halves = self._pseudonyms.view(">u8").reshape(-1, 2)
        return halves[:, 0].astype(np.uint64), halves[:, 1].astype(np.uint64)

    def column(self, name: str) -> Values:
        """One column of everyone, in the order of the store, as `build_people_store` was given it.

        Raises:
            InternalError: INTEGRITY.
        """
        number = _read_back(self._dictionary.column(name))
        with self._cursor() as cursor:
            # S608: names of our own columns.
            found = cursor.execute(f"select rowid, {number} as number from people").fetchnumpy()  # noqa: S608
        if not np.array_equal(found["rowid"], np.arange(self.size)):
            raise InternalError("INTEGRITY", problem="a column is not read in the order of the store")
        values: Values = found["number"]
        return values

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        # A connection serves one thread at a time; a cursor is a connection of its own to the same open file.
        with _reading():
            with self._opening:
                cursor = self._connection.cursor()
            try:
                yield cursor
            finally:
                cursor.close()


def _create_table(dictionary: Dictionary) -> str:
    columns = ", ".join(f'"{column.name}" {_sql_type(column)}' for column in dictionary.columns)
    return f"create table people (_high ubigint not null, _low ubigint not null, {columns})"


def _insert(connection: duckdb.DuckDBPyConnection, people: People, rows: slice, dictionary: Dictionary) -> None:
    incoming: dict[str, Values] = {"_high": people.high[rows], "_low": people.low[rows]}
    incoming |= {column.name: people.columns[column.name][rows] for column in dictionary.columns}
    connection.register("incoming", incoming)
    values = ", ".join(_stored(column) for column in dictionary.columns)
    connection.execute(f"insert into people select _high, _low, {values} from incoming")  # noqa: S608 - fixed names
    connection.unregister("incoming")


def _sql_type(column: Column) -> str:
    if column.multi_valued:
        return "ubigint not null"
    match column.type:
        case ColumnType.INTEGER:
            return "integer"
        case ColumnType.DATE:
            return "date"
        case _:
            return "utinyint" if len(column.codes) <= _MOST_SMALL_CODES else "usmallint"


def _stored(column: Column) -> str:
    if column.multi_valued:
        return f'"{column.name}"'
    number = f'nullif("{column.name}", {MISSING})'
    return f"date '1970-01-01' + {number}::integer" if column.type is ColumnType.DATE else number


def _read_back(column: Column) -> str:
    """The inverse of `_stored`."""
    if column.multi_valued:
        return f'"{column.name}"'
    number = f"\"{column.name}\" - date '1970-01-01'" if column.type is ColumnType.DATE else f'"{column.name}"'
    return f"coalesce(({number})::integer, {MISSING})"


def _digest(dictionary: Dictionary) -> str:
    """What the stored numbers mean: names, types and code lists, but no labels or descriptions."""
    layout = [[column.name, column.type.name, column.multi_valued, column.values] for column in dictionary.columns]
    return hashlib.sha256(json.dumps(layout).encode("ascii")).hexdigest()


def _as_bytes(high: NDArray[np.uint64], low: NDArray[np.uint64]) -> NDArray[np.void]:
    """Whole pseudonyms, one element each, verified to ascend."""
    _verify_ascending(high, low)
    halves = np.empty((len(high), 2), dtype=">u8")
    halves[:, 0], halves[:, 1] = high, low
    return halves.view(f"V{PSEUDONYM_BYTES}").reshape(-1)


def _verify_ascending(high: NDArray[np.uint64], low: NDArray[np.uint64]) -> None:
    above = (high[1:] > high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] > low[:-1]))
    if not above.all():
        raise InternalError("INTEGRITY", problem="the people do not ascend by pseudonym")


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        raise InternalError("INTEGRITY", problem="the store of people cannot be read") from error
