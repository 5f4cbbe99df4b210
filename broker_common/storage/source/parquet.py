"""Reading a Parquet source: every value ends as the text that the same person has in a CSV source.

Text is text; a whole number or a date is admitted where the dictionary has one; a multi-valued column may be a list of
texts. NULL is the empty text. Any other type refuses the file and names the column: nobody can know what a fraction or a
time of day is meant to say, and a card, an id or a code that became a number has lost the zeros it began with. In a list,
an element that is missing, empty or holds the separator makes the row wrong: joined with the others it would read as no
code, or as two.

DuckDB reads the file, through the descriptor that is open here: no file name is ever a pattern, no folder name a column,
and no other file takes the place of this one. It is kept from everything else: no other file, no network, no extension,
no change of settings. Its errors about a damaged file may quote values, so they are not shown. Rows are counted from 1.
Memory depends on the chunk and on the file's pages, which have a limit, not on the file.
"""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import duckdb

from broker_common.query.dictionary import MULTI_VALUE_SEPARATOR, ColumnType, shown
from broker_common.storage.source.csv_file import MAX_LINE_BYTES, TOO_LONG
from broker_common.storage.source.rows import (
    PARQUET_MAGIC,
    PLAIN,
    ROWS_PER_CHUNK,
    Chunk,
    Manner,
    Progress,
    RejectedRows,
    Wanted,
    reading,
    refuse,
    verify_names,
)

# Memory that reading may take beside the people themselves.
_MOST_BYTES = 2 << 30
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    # A file may say of a column that it has no values, or none missing. DuckDB would believe it without looking.
    "disabled_optimizers": "statistics_propagation",
    "memory_limit": f"{_MOST_BYTES}B",
    "preserve_insertion_order": "true",
    "temp_directory": "",
    # Making Python's texts takes longer than decoding: a second thread only takes memory.
    "threads": 1,
}
_FILE = "read_parquet(?, binary_as_string = false, hive_partitioning = false, union_by_name = false)"

_DAMAGED = ("it is a damaged Parquet file", "Write it again, to its end; if that does not help, write it as CSV.")
_CUT = ("it is a Parquet file without its end", "It was not written to its end, or only partly copied: write it again.")
_TOO_LARGE = (
    f"to read it takes more than {_MOST_BYTES >> 30} GiB of memory",
    "It is damaged, or has very large pages: write it again, in smaller row groups, or write it as CSV.",
)

# The second of each: no value in the whole column, to which some writers then give no type.
_TEXT = frozenset({"VARCHAR", '"NULL"'})
_TEXTS = frozenset({"VARCHAR[]", '"NULL"[]'})
_DATE = "DATE"
_WHOLE_NUMBER = re.compile(r"U?(TINY|SMALL|BIG)INT|U?INTEGER|DECIMAL\([0-9]+,0\)")


class ParquetSource:
    """A Parquet file that has these columns, in any order."""

    def __init__(self, path: Path, columns: Collection[Wanted], manner: Manner = PLAIN) -> None:
        self._path = path
        self._columns = {wanted.name: wanted for wanted in columns}
        self._manner = manner

    def chunks(
        self, rejected: RejectedRows, *, rows_per_chunk: int = ROWS_PER_CHUNK, progress: Progress | None = None
    ) -> Iterator[Chunk]:
        """The file's rows, in order. Those that are too long are added to `rejected`.

        Raises:
            InvalidRequestError: LOAD_REFUSED.
        """
        rejected.counted_by = "row"
        with reading(self._path) as file, _decoding(), _confined(file) as (engine, path):
            _verify_ends(file)
            types = self._verified_types(engine, path)
            total = _row_count(engine, path)
            self._manner.kind.verify_count(total)
            texts = [_as_text(self._columns[name], kind) for name, kind in types.items()]
            engine.execute(_selection(texts), [path])
            done = 0
            while rows := engine.fetchmany(rows_per_chunk):
                chunk = _chunk(list(types), done, rows, rejected)
                done += len(rows)
                if done > total:
                    break
                if chunk.lines:
                    yield chunk
                if progress is not None:
                    progress(done, total)
            if done != total:
                refuse(*_DAMAGED)
            if not done and not self._manner.may_be_empty:
                self._manner.kind.refuse_none()

    def _verified_types(self, engine: duckdb.DuckDBPyConnection, path: str) -> dict[str, str]:
        """DuckDB's type of each wanted column, in the order of the file."""
        described = _described(engine, path)
        verify_names([name for name, _ in described], self._columns, has_others=self._manner.has_others)
        types = {name: kind for name, kind in described if name in self._columns}
        for name, kind in types.items():
            _verify_type(self._columns[name], kind)
        return types


def _described(engine: duckdb.DuckDBPyConnection, path: str) -> list[tuple[str, str]]:
    """Name and DuckDB's type of each column."""
    try:
        with _little_memory():
            described = engine.execute(f"select * from {_FILE} limit 0", [path]).description or []  # noqa: S608 - fixed text
        return [(str(name), str(kind)) for name, kind, *_ in described]
    except RuntimeError:
        # DuckDB's binding raises this for a name that is not UTF-8; its other errors are of its own family.
        refuse(*_DAMAGED)


def _verify_type(wanted: Wanted, kind: str) -> None:
    column, name = wanted.column, shown(wanted.name)
    kinds = ["text"]
    admitted = kind in _TEXT
    if column is not None and column.multi_valued:
        kinds.append("lists of texts")
        admitted |= kind in _TEXTS
    if wanted.is_own or (column is not None and column.type is ColumnType.INTEGER):
        kinds.append("whole numbers")
        admitted |= _WHOLE_NUMBER.fullmatch(kind) is not None
    if column is not None and column.type is ColumnType.DATE:
        kinds.append("dates without a time")
        admitted |= kind == _DATE
    if not admitted:
        # A card that became a number is refused although a short one could only be a wrong row, never another person's
        # card: one in ten would be left out, and named as wrong for something that the file's writer did.
        lost = ": a number has lost the zeros it began with" if _WHOLE_NUMBER.fullmatch(kind) else ""
        refuse(f"its column {name} holds {shown(kind)}", f"Write {name} as {' or as '.join(kinds)}{lost}.")


def _verify_ends(file: BinaryIO) -> None:
    """DuckDB would say so too, but not in a way that can be told from other damage."""
    size = len(PARQUET_MAGIC)
    if os.fstat(file.fileno()).st_size < 2 * size:
        refuse(*_CUT)
    file.seek(-size, os.SEEK_END)
    if file.read(size) != PARQUET_MAGIC:
        refuse(*_CUT)


def _row_count(engine: duckdb.DuckDBPyConnection, path: str) -> int:
    ((count,),) = engine.execute("select num_rows from parquet_file_metadata(?)", [path]).fetchall()
    return int(count)


def _as_text(wanted: Wanted, kind: str) -> str:
    """SQL for a column as text that is never NULL."""
    name = _quoted(wanted.name)
    if kind not in _TEXTS:
        return f"coalesce({name}::varchar, '')"
    separator = f"'{wanted.separator}'"
    # A separator alone stands for a list that cannot be joined: no code is empty, so the column refuses it.
    return f"""case
        when len(list_filter({name}::varchar[], lambda code: code is null or code = '' or contains(code, {separator}))) > 0
        then {separator}
        else coalesce(array_to_string({name}::varchar[], {separator}), '') end"""


def _quoted(name: str) -> str:
    """SQL for the column of this name."""
    return '"' + name.replace('"', '""') + '"'


def _selection(texts: Sequence[str]) -> str:
    """SQL for the rows as texts; of a row that is too long every text is NULL, so that no such text is made."""
    named = ", ".join(f"{text} as _{at}" for at, text in enumerate(texts))
    size = " + ".join(f"strlen(_{at})" for at in range(len(texts)))
    kept = ", ".join(f"case when _size <= {MAX_LINE_BYTES} then _{at} end" for at in range(len(texts)))
    return f"select {kept} from (select *, {size} as _size from (select {named} from {_FILE}))"  # noqa: S608 - own columns


def _chunk(names: Sequence[str], before: int, rows: Sequence[tuple[str | None, ...]], rejected: RejectedRows) -> Chunk:
    lines: Sequence[int] = range(before + 1, before + 1 + len(rows))
    columns = list(zip(*rows, strict=True))
    if None in columns[0]:
        for line, row in zip(lines, rows, strict=True):
            if row[0] is None:
                rejected.add(line, TOO_LONG)
        kept = [(line, row) for line, row in zip(lines, rows, strict=True) if row[0] is not None]
        lines, columns = [line for line, _ in kept], list(zip(*(row for _, row in kept), strict=True))
    return Chunk(lines, dict(zip(names, columns, strict=bool(lines))))


@contextmanager
def _confined(file: BinaryIO) -> Iterator[tuple[duckdb.DuckDBPyConnection, str]]:
    """An engine that can read this file and nothing else, and the name it has for it."""
    path = f"/dev/fd/{file.fileno()}"
    with duckdb.connect(":memory:", config=_SETTINGS) as engine:
        # SECURITY: from here on nothing in the file, and nothing that a fault of the decoder could be made to ask for
        # through the engine, reaches another file or a network. The path can only be admitted by an open engine.
        engine.execute(f"set allowed_paths = ['{path}']")
        engine.execute("set enable_external_access = false")
        engine.execute("set lock_configuration = true")
        yield engine, path


@contextmanager
def _little_memory() -> Iterator[None]:
    """Limits the whole process, because DuckDB's own limit does not cover the footer.

    One flipped bit in the length of a list there makes it ask for any number of gigabytes, which a machine grants until
    it has to end a process: perhaps a node that serves.
    """
    before = resource.getrlimit(resource.RLIMIT_DATA)
    least = min(limit for limit in (*before, _MOST_BYTES) if limit != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_DATA, (least, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


@contextmanager
def _decoding() -> Iterator[None]:
    try:
        yield
    except duckdb.OutOfMemoryException:
        refuse(*_TOO_LARGE)
    except duckdb.Error:
        refuse(*_DAMAGED)


def text_rows(path: Path, most: int) -> Iterator[Sequence[str]]:
    """The names of a file's columns, and then its first rows, every value as text.

    Raises:
        InvalidRequestError: LOAD_REFUSED.
    """
    with reading(path) as file, _decoding(), _confined(file) as (engine, name):
        _verify_ends(file)
        described = _described(engine, name)
        yield [column for column, _ in described]
        texts = ", ".join(_any_text(column, kind) for column, kind in described)
        engine.execute(f"select {texts} from {_FILE} limit {most}", [name])  # noqa: S608 - names in quotes
        while rows := engine.fetchmany(ROWS_PER_CHUNK):
            yield from rows


def _any_text(name: str, kind: str) -> str:
    """SQL for a column of any type, under any name, as text."""
    quoted = _quoted(name)
    text = f"array_to_string({quoted}, '{MULTI_VALUE_SEPARATOR}')" if kind in _TEXTS else f"{quoted}::varchar"
    return f"coalesce({text}, '')"
