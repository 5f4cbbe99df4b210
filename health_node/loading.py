"""Loading people: from a CSV or Parquet source to a people store, checked row by row and replaced whole.

A row is loaded with all its values or not at all. A row without a health card cannot be linked and is left out, counted
apart from the rows that are wrong. Of several rows with one card the first stays. The card itself becomes a pseudonym
here and is kept nowhere. People are held in arrays, about 65 bytes each and at most 100 while they are sorted, so that a province fits in memory.

What a faulty file or row is, is decided by the sources in `broker_common.storage` and by `source_values`; how people are
stored, by `people_store`. Until the last step the people loaded before stay in force.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from broker_common.crypto.id_forms import parse_ids
from broker_common.crypto.linkage import LinkageChain
from broker_common.errors import InvalidRequestError
from broker_common.privacy.delays import declared_for
from broker_common.query.dictionary import Dictionary
from broker_common.storage.source import Chunk, Progress, RejectedRows, ascending_without_repeats
from broker_common.storage.source_plan import SourcePlan
from broker_common.storage.source_values import ColumnReader, GrowingArray, Values
from health_node.people_store import People, replace_people_store

HEALTH_CARD_COLUMN: Final = "health_card"
"""The column of the source that becomes the pseudonym, and no other thing."""


@dataclass(frozen=True, slots=True, eq=False)
class LoadReport:
    """For the health operator: rows == loaded + without_card + rejected.count."""

    rows: int
    loaded: int
    without_card: int
    rejected: RejectedRows


def load_people(
    plan: SourcePlan,
    store_path: Path,
    linkage: LinkageChain,
    *,
    dictionary: Dictionary,
    places: int,
    progress: Progress | None = None,
    max_rejected: int | None = None,
) -> LoadReport:
    """Load the people of a plan into a store that takes the place of `store_path`. At most `places` people fit.

    Raises:
        InvalidRequestError: LOAD_REFUSED; the old store stands.
        InternalError: STORE_FAILED; the old store stands.
    """
    incoming = _Incoming(linkage, dictionary)
    source = plan.people(dictionary.columns)
    for chunk in source.chunks(incoming.rejected, progress=progress):
        incoming.add(chunk)
    people = incoming.people()
    rejected = incoming.rejected
    rows = people.size + incoming.without_card + rejected.count
    rejected.verify_few(rows, max_rejected)
    if not people.size:
        raise InvalidRequestError(
            "LOAD_REFUSED", problem="none of its rows can be linked", remedy="Rows need a health_card."
        )
    if people.size > places:
        raise InvalidRequestError(
            "LOAD_REFUSED",
            problem=f"it has {people.size} people, and {places} places are declared",
            remedy=f"Set places to {declared_for(people.size)} or more in config.toml, then load it again.",
        )
    replace_people_store(store_path, people, dictionary, places=places)
    return LoadReport(rows, people.size, incoming.without_card, rejected)


class _Incoming:
    """The rows read so far, in the order of the file."""

    def __init__(self, linkage: LinkageChain, dictionary: Dictionary) -> None:
        self.rejected = RejectedRows()
        self.without_card = 0
        self._linkage = linkage
        self._readers = {column.name: ColumnReader(column) for column in dictionary.columns}
        self._pseudonyms: GrowingArray[np.uint64] = GrowingArray(np.dtype(">u8"))
        self._lines: GrowingArray[np.uint32] = GrowingArray(np.dtype(np.uint32))
        self._columns: dict[str, GrowingArray[np.int32] | GrowingArray[np.uint64]] = {
            column.name: GrowingArray(np.dtype(np.uint64)) if column.multi_valued else GrowingArray(np.dtype(np.int32))
            for column in dictionary.columns
        }

    def add(self, chunk: Chunk) -> None:
        values: dict[str, Values] = {}
        wrong: dict[int, str] = {}
        for name, reader in self._readers.items():
            values[name], problems = reader.read(chunk.columns[name])
            wrong = problems | wrong
        cards, problems = parse_ids(chunk.columns[HEALTH_CARD_COLUMN], self._linkage.form)
        has_card = np.fromiter(map(bool, chunk.columns[HEALTH_CARD_COLUMN]), np.bool_, len(cards))
        self.without_card += int(np.count_nonzero(~has_card))
        problems = {at: problem for at, problem in wrong.items() if has_card[at]} | problems
        for at in sorted(problems):
            self.rejected.add(chunk.lines[at], problems[at])
        has_card[list(problems)] = False
        kept = np.flatnonzero(has_card)
        self._pseudonyms.add(self._linkage.pseudonyms(cards[kept]).tobytes())
        self._lines.add(np.array(chunk.lines, dtype=np.uint32)[kept])
        for name, column in values.items():
            self._columns[name].add(column[kept])

    def people(self) -> People:
        """Everyone read, ascending by pseudonym; repeated cards are rejected. Can be called once."""
        halves = self._pseudonyms.take().reshape(-1, 2)
        high, low = halves[:, 0].astype(np.uint64), halves[:, 1].astype(np.uint64)
        del halves
        order = ascending_without_repeats(high, low, self._lines.take(), self.rejected)
        high, low = high[order], low[order]
        # One by one: each column stands beside its ordered self, not all of them.
        return People(high, low, {name: self._columns[name].take()[order] for name in self._readers})
