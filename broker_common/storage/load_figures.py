"""Figures of a load for its operator alone: every row that was left out, and the changes since the previous load.

All of it stands in the home, for its owner alone, and in no log: `load-rejected.csv` names rows and reasons,
`load-figures.json` holds counts of what the load in force has read, and `load-report.json` what was said of it. A plan that is
watched reads what the plan behind it reads.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

import msgspec

from broker_common.errors import InternalError
from broker_common.query.dictionary import MULTI_VALUE_SEPARATOR, Column, ColumnType, EventTable
from broker_common.storage.durable import create_for_owner, replace_file
from broker_common.storage.source.plan import SourcePlan
from broker_common.storage.source.rows import Chunk, Progress, RejectedRows, Rejection, Source
from broker_common.storage.source.toml import PEOPLE_TABLE

REJECTED_FILE = "load-rejected.csv"
FIGURES_FILE = "load-figures.json"
REPORT_FILE = "load-report.json"
_HEADER = ("table", "file", "counted_by", "number", "reason")

# A change by more than this is one that somebody should look at: of rows, people and events, as a share of those before;
# of the share that was rejected or has no value, in points; of a column's codes, as a share of those that were in use.
_MUCH_PERCENT = 10
_MUCH_POINTS = 5
_MUCH_REJECTED_POINTS = 0.5


class ColumnFigures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Figures of the rows of one column."""

    missing: int
    # Published codes that some row had, in published order; nothing for other types.
    codes: tuple[str, ...] = ()


class TableFigures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Figures of people, or of one table of events."""

    rows: int
    # The digest of all texts, in their order.
    digest: str
    columns: dict[str, ColumnFigures]


class LoadFigures(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Figures of one load."""

    rows: int
    people: int
    rejected: int
    tables: dict[str, TableFigures]

    @property
    def rejected_percent(self) -> float:
        return 100 * self.rejected / max(self.rows, 1)


@dataclass(frozen=True, slots=True)
class Change:
    """One figure, before and now, and whether it changed by much."""

    # `rows`, `people`, `rejected_percent`, `events`, `missing_percent`.
    what: str
    # The table or column; empty for the whole.
    of: str
    before: float
    now: float
    is_much: bool


@dataclass(frozen=True, slots=True)
class CodeChange:
    """Codes of a column that no row has any more, or that some row has now."""

    of: str
    vanished: tuple[str, ...]
    appeared: tuple[str, ...]
    is_much: bool


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes since the previous load; empty if every text was the same."""

    figures: tuple[Change, ...]
    codes: tuple[CodeChange, ...]
    is_same: bool


def changes_between(before: LoadFigures, now: LoadFigures) -> Changes:
    """Changes from one load to the next."""
    figures = [
        _of_size("rows", "", before.rows, now.rows),
        _of_size("people", "", before.people, now.people),
        _of_share("rejected_percent", "", before.rejected_percent, now.rejected_percent, _MUCH_REJECTED_POINTS),
    ]
    codes = []
    for name, table in now.tables.items():
        old = before.tables.get(name)
        if old is None:
            continue
        if name != PEOPLE_TABLE:
            figures.append(_of_size("events", name, old.rows, table.rows))
        for column, found in table.columns.items():
            was = old.columns.get(column)
            if was is None:
                continue
            of = column if name == PEOPLE_TABLE else f"{name}.{column}"
            share_before, share = 100 * was.missing / max(old.rows, 1), 100 * found.missing / max(table.rows, 1)
            figures.append(_of_share("missing_percent", of, share_before, share, _MUCH_POINTS))
            codes.append(_of_codes(of, was.codes, found.codes))
    return Changes(
        tuple(change for change in figures if change.before != change.now),
        tuple(change for change in codes if change.vanished or change.appeared),
        before == now,
    )


def _of_size(what: str, of: str, before: int, now: int) -> Change:
    return Change(what, of, before, now, 100 * abs(now - before) > _MUCH_PERCENT * before)


def _of_share(what: str, of: str, before: float, now: float, much: float) -> Change:
    return Change(what, of, round(before, 2), round(now, 2), abs(now - before) > much)


def _of_codes(of: str, before: Sequence[str], now: Sequence[str]) -> CodeChange:
    old, new = set(before), set(now)
    vanished = tuple(code for code in before if code not in new)
    appeared = tuple(code for code in now if code not in old)
    return CodeChange(of, vanished, appeared, 100 * len(vanished) > _MUCH_PERCENT * len(old))


def figures_before(home: Path) -> LoadFigures | None:
    """The figures of the load in force; None where there are none, or where another version of the program wrote them."""
    try:
        return msgspec.json.decode((home / FIGURES_FILE).read_bytes(), type=LoadFigures)
    except (FileNotFoundError, msgspec.MsgspecError, ValueError):
        return None


def keep_figures(home: Path, figures: LoadFigures, report: Mapping[str, Any]) -> None:
    """From here on these are the figures of the load in force, and what was said of it.

    Raises:
        InternalError: STORE_FAILED.
    """
    with _storing():
        replace_file(home / REPORT_FILE, f"{json.dumps(report, ensure_ascii=False, indent=2)}\n".encode())
        replace_file(home / FIGURES_FILE, msgspec.json.encode(figures))


@contextmanager
def watching(home: Path) -> Iterator[Watch]:
    """Watches the load of the block; the rows that it leaves out are in their file when the block ends, however it ends.

    Raises:
        InternalError: STORE_FAILED.
    """
    with _storing(), ExitStack() as files:
        yield Watch(home / REJECTED_FILE, files)


@contextmanager
def _storing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InternalError("STORE_FAILED") from error


@dataclass(frozen=True, slots=True)
class RejectedOfTable:
    """The lines of one table in the CSV file of rejected rows."""

    path: Path
    file: TextIO
    table: str

    def of(self, column: str) -> RejectedOfTable:
        """The lines of a table that holds the values of this column."""
        return replace(self, table=column)

    def write(self, rejection: Rejection) -> None:
        """One more line.

        Raises:
            InternalError: STORE_FAILED.
        """
        with _storing():
            csv.writer(self.file).writerow((self.table, *rejection.place, rejection.reason))


@dataclass(slots=True)
class Watch:
    """Counts what one load reads, and writes down what it leaves out."""

    path: Path
    files: ExitStack
    tables: dict[str, WatchedSource] = field(default_factory=dict)

    def over(self, plan: SourcePlan) -> SourcePlan:
        """The plan, watched, of the one load that may write now: what the file said of another one is gone.

        Raises:
            InternalError: STORE_FAILED.
        """
        with _storing():
            opened = io.TextIOWrapper(create_for_owner(self.path), "utf-8", newline="")
            file = self.files.enter_context(opened)
            csv.writer(file).writerow(_HEADER)
        return _WatchedPlan(plan, self, file)

    def figures(self, *, rows: int, people: int, rejected: int) -> LoadFigures:
        """The figures read, and the loader's figures of people."""
        tables = {name: source.figures() for name, source in self.tables.items()}
        return LoadFigures(rows=rows, people=people, rejected=rejected, tables=tables)


@dataclass(frozen=True, slots=True)
class _WatchedPlan:
    """A plan whose sources are counted while they are read."""

    plan: SourcePlan
    watch: Watch
    file: TextIO

    def people(self, columns: Collection[Column]) -> Source:
        return self._watched(PEOPLE_TABLE, self.plan.people(columns), columns)

    def events(self, table: EventTable) -> Source:
        return self._watched(table.name, self.plan.events(table), table.columns)

    def _watched(self, name: str, source: Source, columns: Collection[Column]) -> Source:
        report = RejectedOfTable(self.watch.path, self.file, name)
        self.watch.tables[name] = WatchedSource(source, columns, report)
        return self.watch.tables[name]


class WatchedSource:
    """A source that is counted while it is read."""

    def __init__(self, source: Source, columns: Collection[Column], report: RejectedOfTable) -> None:
        self._source = source
        self._report = report
        self._columns = columns
        self._rows = 0
        self._missing = dict.fromkeys((column.name for column in columns), 0)
        self._codes: dict[str, set[str]] = {column.name: set() for column in columns if column.type is ColumnType.CODE}
        self._digest = hashlib.blake2b(digest_size=16)

    def chunks(self, rejected: RejectedRows, *, progress: Progress | None = None) -> Iterator[Chunk]:
        """Chunks of the source.

        Raises:
            InvalidRequestError: LOAD_REFUSED.
        """
        rejected.report_to(self._report)
        for chunk in self._source.chunks(rejected, progress=progress):
            self._count(chunk)
            yield chunk

    def figures(self) -> TableFigures:
        """Figures so far."""
        columns = {}
        for column in self._columns:
            found = self._codes.get(column.name, set())
            # SECURITY: what is no published code may be anything that somebody wrote about a person, and is told nobody.
            codes = tuple(code for code in column.values if code in found)
            columns[column.name] = ColumnFigures(self._missing[column.name], codes)
        return TableFigures(self._rows, self._digest.hexdigest(), columns)

    def _count(self, chunk: Chunk) -> None:
        self._rows += len(chunk.lines)
        self._digest.update("\n".join(chunk.columns).encode())
        # Joining texts takes several times as long as reading the bytes that they were made of.
        for part in [chunk.raw] if chunk.raw else ("\n".join(texts).encode() for texts in chunk.columns.values()):
            self._digest.update(part)
        for column in self._columns:
            texts = chunk.columns[column.name]
            if column.type is not ColumnType.CODE:
                self._missing[column.name] += texts.count("")
                continue
            found = set(texts)
            if "" in found:
                self._missing[column.name] += texts.count("")
            if column.multi_valued:
                found = {code for text in found for code in text.split(MULTI_VALUE_SEPARATOR)}
            self._codes[column.name] |= found
