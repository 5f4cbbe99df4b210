"""Where a load finds its rows: what an agency has, as `source.toml` says, or files under published names.

A plan gives sources, a source gives chunks. The columns of a chunk have logical names: the id that people are linked on
is `health_card`, whatever its form; a census has `person_id` and `household_id` beside it; the others are published
columns, and their texts published codes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from broker_common.query.dictionary import Column, Dictionary, EventTable
from broker_common.storage.home import Home
from broker_common.storage.source.beside import TableBeside
from broker_common.storage.source.database import DatabaseSource
from broker_common.storage.source.files import FilesSource, files_named, open_source
from broker_common.storage.source.mapping import MappedSource, wanted_of
from broker_common.storage.source.rows import (
    EVENTS,
    PEOPLE,
    Manner,
    RowKind,
    Source,
    Wanted,
    published,
    refuse,
)
from broker_common.storage.source.toml import FILE_NAME, PEOPLE_TABLE, OwnFiles, OwnQuery, OwnTable, read_source_toml

LINKED_ID = "health_card"
"""The logical name of the id that people are linked on."""

_PEOPLE_FILE = "people.csv"
_SUFFIXES = (".csv", ".parquet")


class SourcePlan(Protocol):
    """The sources of one load."""

    def people(self, columns: Collection[Column]) -> Source:
        """The rows of people: their ids and these columns.

        Raises:
            InvalidRequestError: LOAD_REFUSED.
        """
        ...

    def events(self, table: EventTable) -> Source:
        """The rows of an event table: `health_card` and its columns.

        Raises:
            InvalidRequestError: LOAD_REFUSED.
        """
        ...


def plan_for(home: Path, source: Path | None, ids: Collection[str], dictionary: Dictionary) -> SourcePlan:
    """The plan of a load into `home`: `source` if one is given, or else what lies in the home.

    Raises:
        InvalidRequestError: LOAD_REFUSED.
    """
    if source is None and (home / FILE_NAME).exists():
        return OwnPlan(home, read_source_toml(home, ids, dictionary), dictionary.id_form)
    return PlainPlan(source or home / _PEOPLE_FILE, ids)


@dataclass(frozen=True, slots=True)
class PlainPlan:
    """A CSV or Parquet file of people, and beside it one of each event table, under published names."""

    file: Path
    ids: Collection[str] = (LINKED_ID,)

    def people(self, columns: Collection[Column]) -> Source:
        return open_source(self.file, published(self.ids, columns))

    def events(self, table: EventTable) -> Source:
        files = [self.file.with_name(f"{table.name}{suffix}") for suffix in _SUFFIXES]
        found = [file for file in files if file.exists()]
        if len(found) != 1:
            either, both = ("both", "and") if found else ("neither", "nor")
            refuse(
                f"beside {self.file.name} {either} {files[0].name} {both} {files[1].name} exist",
                f"Put one file of the event table {table.name} beside it.",
            )
        return open_source(found[0], published((LINKED_ID,), table.columns), Manner(EVENTS))


@dataclass(frozen=True, slots=True)
class OwnPlan:
    """The plan in a home's `source.toml`."""

    home: Path
    tables: Mapping[str, OwnTable]
    id_form: str

    def people(self, columns: Collection[Column]) -> Source:
        own = self.tables[PEOPLE_TABLE]
        beside = {
            column.name: self._beside(column, own) for column in columns if own.columns[column.name].rows is not None
        }
        rows = self._rows(PEOPLE_TABLE, own.rows, wanted_of(own, columns), PEOPLE)
        return MappedSource(rows, own, columns, beside)

    def events(self, table: EventTable) -> Source:
        own = self.tables[table.name]
        rows = self._rows(table.name, own.rows, wanted_of(own, table.columns), EVENTS)
        return MappedSource(rows, own, table.columns, {})

    def _beside(self, column: Column, table: OwnTable) -> TableBeside:
        own = table.columns[column.name]
        wanted = [Wanted(own.id), Wanted(own.name, column, is_own=True, separator=own.separator)]
        assert own.rows is not None  # noqa: S101 - only a table with rows of its own comes here
        return TableBeside(self._rows(column.name, own.rows, wanted, EVENTS), column, own, table.missing, self.id_form)

    def _rows(
        self, name: str, rows: OwnFiles | OwnQuery, wanted: Collection[Wanted], kind: RowKind
    ) -> FilesSource | DatabaseSource:
        if isinstance(rows, OwnQuery):
            return DatabaseSource(Home(self.home, ""), name, rows, wanted, Manner(kind))
        manner = Manner(kind, has_others=True, separator=rows.separator, encoding=rows.encoding)
        return FilesSource(self.home, files_named(self.home, rows.names), wanted, manner)
