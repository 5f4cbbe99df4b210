"""Where a load finds its rows: one file of people and a file of each event table beside it, under published names.

A plan gives sources, a source gives chunks. The columns of a chunk have logical names: the id that people are linked on
is `health_card`, whatever its form; a census has `person_id` and `household_id` beside it; the others are published
columns, and their texts published codes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from broker_common.query.dictionary import Column, Dictionary, EventTable
from broker_common.storage.source import Chunk, Progress, RejectedRows, refuse
from broker_common.storage.source_kinds import open_source

LINKED_ID = "health_card"
"""The logical name of the id that people are linked on."""

_PEOPLE_FILE = "people.csv"
_SUFFIXES = (".csv", ".parquet")


class Source(Protocol):
    """Rows of people, or of one event table."""

    def chunks(self, rejected: RejectedRows, *, progress: Progress | None = None) -> Iterator[Chunk]:
        """The rows that can be read, in order. The others are added to `rejected`; give each source one of its own.

        Raises:
            InvalidRequestError: LOAD_REFUSED.
        """
        ...


class SourcePlan(Protocol):
    """What one load reads."""

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
    del dictionary
    return PlainPlan(source or home / _PEOPLE_FILE, ids)


@dataclass(frozen=True, slots=True)
class PlainPlan:
    """A CSV or Parquet file of people, and beside it one of each event table, under published names."""

    file: Path
    ids: Collection[str]

    def people(self, columns: Collection[Column]) -> Source:
        return open_source(self.file, self.ids, columns)

    def events(self, table: EventTable) -> Source:
        files = [self.file.with_name(f"{table.name}{suffix}") for suffix in _SUFFIXES]
        found = [file for file in files if file.exists()]
        if len(found) != 1:
            refuse(
                f"beside {self.file.name} {'both' if found else 'neither'} {files[0].name} "
                f"{'and' if found else 'nor'} {files[1].name} exist",
                f"Put one file of the event table {table.name} beside it.",
            )
        return open_source(found[0], (LINKED_ID,), table.columns)
