"""Loading people: from the sources of a plan to a people store, checked row by row and replaced whole.

A row is loaded with all its values or not at all. A row without an id cannot be linked and is left out, counted apart from the
rows that are wrong. The first of several rows of people with one id stays; where a place is a household, all stay: they are
its members. An event belongs to the person who has its id; one whose id nobody has is counted apart as well. The id itself
becomes a pseudonym here and is kept nowhere.

Memory: people are held in arrays, about 65 bytes each and at most 100 while they are sorted, so that a province fits, and 4
bytes for each value in a long list, 12 while these are sorted; events are not held, but sorted through a file beside the store
(`sorting`): some 300 MB, 28 bytes for each place, and a file of 4 bytes an event and what its columns take.

`broker_common.storage.source` and its `values` decide what a faulty file or row is; `store` how people are stored. Until
the last step the people loaded before stay in force.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from broker_common.crypto.id_forms import parse_ids
from broker_common.crypto.linkage import LinkageChain
from broker_common.errors import InternalError
from broker_common.privacy.delays import declared_for
from broker_common.query.dictionary import Column, Dictionary, EventTable
from broker_common.storage.journal import Journal
from broker_common.storage.loads import LoadFolder
from broker_common.storage.source.plan import LINKED_ID, SourcePlan
from broker_common.storage.source.rows import (
    Chunk,
    Progress,
    RejectedRows,
    ascending_order,
    ascending_without_repeats,
    refuse,
)
from broker_common.storage.source.values import ColumnReader, GrowingArray, ListReader, Values, is_list
from broker_common.tlog.health_state import HealthState
from health_node.people.encoding import Encoding
from health_node.people.sorting import Sorter
from health_node.people.store import People, replace_people_store
from health_node.people.tables import MEMBERS, Declared, Rows, Table, offsets_of, small_columns


@dataclass(frozen=True, slots=True, eq=False)
class EventReport:
    """For the health operator: rows == loaded + without_card + of_nobody + rejected.count."""

    rows: int
    loaded: int
    without_card: int
    # Rows whose id nobody has among the people.
    of_nobody: int
    rejected: RejectedRows


@dataclass(frozen=True, slots=True, eq=False)
class LoadReport:
    """For the health operator: rows == loaded + without_card + rejected.count."""

    rows: int
    loaded: int
    # As many as were loaded, or fewer where several people live at one.
    places: int
    without_card: int
    rejected: RejectedRows
    # The report of each table.
    events: Mapping[str, EventReport]
    declared: Declared


def load_people(
    plan: SourcePlan,
    store_path: Path,
    linkage: LinkageChain,
    *,
    dictionary: Dictionary,
    declared: Declared,
    progress: Progress | None = None,
    max_rejected: int | None = None,
) -> LoadReport:
    """Load the sources of a plan into a store that takes the place of `store_path`, if they fit what was declared.

    Raises:
        InvalidRequestError: LOAD_REFUSED; the old store stands.
        InternalError: STORE_FAILED; the old store stands.
    """
    incoming = _Incoming(linkage, dictionary)
    for chunk in plan.people(dictionary.columns).chunks(incoming.rejected, progress=progress):
        incoming.add(chunk)
    people = incoming.people(declared)
    rejected, loaded = incoming.rejected, incoming.loaded
    rows = loaded + incoming.without_card + rejected.count
    if not loaded:
        rejected.refuse_everybody()
    rejected.verify_few(rows, max_rejected)
    _verify_places(people.size, declared)
    for name, rows_of in people.tables.items():
        _verify_rows(rows_of.count, name, rows_of.declared)
    reports: dict[str, EventReport] = {}
    with _writing(), ExitStack() as open_files:
        tables = dict(people.tables)
        for table in dictionary.events:
            events = open_files.enter_context(_Events(table, people, linkage, store_path.parent))
            reports[table.name] = events.read(plan, progress, max_rejected)
            tables[table.name] = events.rows(declared.tables[table.name])
        people = replace(people, tables=tables)
        replace_people_store(store_path, people, dictionary, places=declared.places)
    return LoadReport(rows, loaded, people.size, incoming.without_card, rejected, reports, declared)


@contextmanager
def _writing() -> Iterator[None]:
    """Sources say themselves what is wrong with reading them: any other failure is one of writing."""
    try:
        yield
    except OSError as error:
        raise InternalError("STORE_FAILED") from error


def _verify_places(count: int, declared: Declared) -> None:
    if count > declared.places:
        what = "households" if declared.by_household else "people"
        refuse(
            f"it has {count} {what}, and {declared.places} places are declared",
            f"Set places to {declared_for(count)} or more in config.toml, then load it again.",
        )


def _verify_rows(count: int, table: str, declared: int) -> None:
    if count > declared:
        refuse(
            f"it has {count} rows of {table}, and {declared} rows are declared",
            f"Set {table} to {declared_for(count)} or more under [rows] in config.toml, then load it again.",
        )


class _Read(NamedTuple):
    """The rows of a chunk that are to be loaded."""

    pseudonyms: NDArray[np.uint8]
    lines: NDArray[np.uint32]
    values: Mapping[str, Values]
    # For each list: how many values each row has, and all the values.
    lists: Mapping[str, tuple[NDArray[np.int64], NDArray[np.int32]]]


class _Linked:
    """Reads the ids and columns of chunks, row by row, and counts what is left out."""

    def __init__(self, linkage: LinkageChain, columns: Sequence[Column]) -> None:
        self.rejected = RejectedRows()
        self.without_card = 0
        self._linkage = linkage
        self._readers = {column.name: ColumnReader(column) for column in columns if not is_list(column)}
        self._lists = {column.name: ListReader(column) for column in columns if is_list(column)}

    def read(self, chunk: Chunk) -> _Read:
        values: dict[str, Values] = {}
        lists: dict[str, tuple[NDArray[np.int64], NDArray[np.int32]]] = {}
        wrong: dict[int, str] = {}
        for name, reader in self._readers.items():
            values[name], problems = reader.read(chunk.columns[name])
            wrong = problems | wrong
        for name, list_reader in self._lists.items():
            counts, flat, problems = list_reader.read(chunk.columns[name])
            lists[name] = counts, flat
            wrong = problems | wrong
        texts = chunk.columns[LINKED_ID]
        ids, problems = parse_ids(texts, self._linkage.form)
        has_card = np.fromiter(map(bool, texts), np.bool_, len(texts))
        self.without_card += int(np.count_nonzero(~has_card))
        problems = {at: problem for at, problem in wrong.items() if has_card[at]} | problems
        for at in sorted(problems):
            self.rejected.add(chunk.lines[at], problems[at])
        has_card[list(problems)] = False
        kept = np.flatnonzero(has_card)
        return _Read(
            self._linkage.pseudonyms(ids[kept]),
            np.array(chunk.lines, dtype=np.uint32)[kept],
            {name: column[kept] for name, column in values.items()},
            {name: (counts[kept], flat[np.repeat(has_card, counts)]) for name, (counts, flat) in lists.items()},
        )


class _Incoming:
    """The rows of people read so far, in the order of the source."""

    def __init__(self, linkage: LinkageChain, dictionary: Dictionary) -> None:
        self.loaded = 0
        self._linked = _Linked(linkage, dictionary.columns)
        self._dictionary = dictionary
        self._pseudonyms: GrowingArray[np.uint64] = GrowingArray(np.dtype(">u8"))
        self._lines: GrowingArray[np.uint32] = GrowingArray(np.dtype(np.uint32))
        self._columns: dict[str, GrowingArray[np.int32] | GrowingArray[np.uint64]] = {
            column.name: GrowingArray(np.dtype(np.uint64)) if column.multi_valued else GrowingArray(np.dtype(np.int32))
            for column in small_columns(dictionary)
        }
        lists = [column for column in dictionary.columns if is_list(column)]
        self._counts = {column.name: GrowingArray(np.dtype(np.uint32)) for column in lists}
        self._listed = {column.name: GrowingArray(np.dtype(np.int32)) for column in lists}

    @property
    def rejected(self) -> RejectedRows:
        return self._linked.rejected

    @property
    def without_card(self) -> int:
        return self._linked.without_card

    def add(self, chunk: Chunk) -> None:
        read = self._linked.read(chunk)
        self._pseudonyms.add(read.pseudonyms.tobytes())
        self._lines.add(read.lines)
        for name, values in read.values.items():
            self._columns[name].add(values)
        for name, (counts, flat) in read.lists.items():
            self._counts[name].add(counts)
            self._listed[name].add(flat)

    def people(self, declared: Declared) -> People:
        """Everyone read, ascending by pseudonym, without events. Can be called once."""
        halves = self._pseudonyms.take().reshape(-1, 2)
        high, low = halves[:, 0].astype(np.uint64), halves[:, 1].astype(np.uint64)
        del halves
        tables: dict[str, Rows] = {}
        if self._dictionary.linkage == "household":
            order = ascending_order(high, low)
            high, low = high[order], low[order]
            first = np.ones(len(order), np.bool_)
            first[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
            high, low = high[first], low[first]
            begins = np.append(np.flatnonzero(first), len(order))
            tables[MEMBERS] = Rows(begins, declared.tables[MEMBERS], lambda: ())
        else:
            order = ascending_without_repeats(high, low, self._lines.take(), self.rejected)
            high, low = high[order], low[order]
        self.loaded = len(order)
        # One by one: each column stands beside its ordered self, not all of them.
        columns = {name: column.take()[order] for name, column in self._columns.items()}
        for name in self._listed:
            tables[name] = self._list(name, order, declared.tables[name])
        return People(high, low, columns, tables)

    def _list(self, name: str, order: NDArray[np.intp], declared: int) -> Rows:
        offsets = offsets_of(self._counts[name].take()).astype(np.uint32)
        stored = Encoding.of(self._dictionary.column(name)).stored(self._listed[name].take())
        return Table(offsets, {name: stored}, declared, belongs_to_place=False).reordered(order)


class _Events:
    """The rows of one event table, on their way to the people whose ids they have."""

    def __init__(self, table: EventTable, people: People, linkage: LinkageChain, folder: Path) -> None:
        """Rows wait in a file in `folder`."""
        self._table = table
        self._people = people
        self._linked = _Linked(linkage, table.columns)
        self._encodings = {column.name: Encoding.of(column) for column in table.columns}
        kinds = {name: encoding.kind for name, encoding in self._encodings.items()}
        self._sorter = Sorter(folder, people.size, kinds)

    def read(self, plan: SourcePlan, progress: Progress | None, max_rejected: int | None) -> EventReport:
        """Take all rows of the plan's source."""
        linked, of_nobody = self._linked, 0
        for chunk in plan.events(self._table).chunks(linked.rejected, progress=progress):
            read = linked.read(chunk)
            places, is_known = _places_of(read.pseudonyms, self._people)
            of_nobody += int(np.count_nonzero(~is_known))
            stored = {name: self._encodings[name].stored(values[is_known]) for name, values in read.values.items()}
            self._sorter.add(places[is_known], stored)
        loaded = self._sorter.count
        rows = loaded + linked.without_card + of_nobody + linked.rejected.count
        linked.rejected.verify_few(rows, max_rejected)
        return EventReport(rows, loaded, linked.without_card, of_nobody, linked.rejected)

    def rows(self, declared: int) -> Rows:
        _verify_rows(self._sorter.count, self._table.name, declared)
        return self._sorter.rows(declared)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._sorter.close()


def _places_of(pseudonyms: NDArray[np.uint8], people: People) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """The place of each pseudonym, and whether it has one."""
    halves = pseudonyms.view(">u8").astype(np.uint64)
    high, low = halves[:, 0], halves[:, 1]
    places, last = np.searchsorted(people.high, high), people.size - 1
    found = np.minimum(places, last)
    # Two pseudonyms that share a first half hardly exist: those behind the first of them are looked for one by one.
    for at in np.flatnonzero((people.high[found] == high) & (people.low[found] < low)).tolist():
        same = people.low[places[at] : np.searchsorted(people.high, high[at], "right")]
        found[at] = min(places[at] + int(np.searchsorted(same, low[at])), last)
    return found.astype(np.uint32), (people.high[found] == high) & (people.low[found] == low)


def loads_needed(journal: Journal[HealthState]) -> set[str]:
    """Loads that new questions, or open ones, are about."""
    with journal.reading() as state:
        return {state.load} - {""} | {state.tickets[ticket].submission.load for ticket in state.open_tickets}


def forget_old_loads(journal: Journal[HealthState], loads: LoadFolder) -> None:
    """Remove stores that neither new questions nor open tickets need."""
    loads.forget_except(loads_needed(journal))
