"""Loading the registry: from a CSV or Parquet source to columns, checked row by row and replaced whole.

A row is loaded with all its values or not at all. A row without a health card cannot be linked and is left out, counted
apart from the rows that are wrong. Of several rows with one card, or one person id, the first stays. Cards become
pseudonyms here and are kept nowhere; names of persons and households are checked and not kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from broker_common.crypto.linkage import LinkageChain, parse_health_card
from broker_common.errors import InvalidRequestError
from broker_common.storage.source import Chunk, Progress, RejectedRows, ascending_without_repeats
from broker_common.storage.source_kinds import open_source
from broker_common.storage.source_values import ColumnReader
from census_node.dictionary import CENSUS_DICTIONARY
from census_node.registry import NO_VALUE, Registry

__all__ = ["LoadReport", "read_registry"]

_CARD, _PERSON, _HOUSEHOLD = "health_card", "person_id", "household_id"
# Of a person's or a household's id in the source.
_MAX_ID_CHARACTERS = 64


@dataclass(frozen=True, slots=True, eq=False)
class LoadReport:
    """For the census operator: rows == linked + without_card + rejected.count."""

    rows: int
    linked: int
    without_card: int
    rejected: RejectedRows


def read_registry(
    source_path: Path,
    load: str,
    linkage: LinkageChain,
    *,
    progress: Progress | None = None,
    max_rejected: int | None = None,
) -> tuple[Registry, LoadReport]:
    """The registry that the source describes.

    Raises:
        InvalidRequestError: LOAD_REFUSED.
    """
    incoming = _Incoming(linkage)
    source = open_source(source_path, (_CARD, _PERSON, _HOUSEHOLD), CENSUS_DICTIONARY.columns)
    for chunk in source.chunks(incoming.rejected, progress=progress):
        incoming.add(chunk)
    registry = incoming.registry(load)
    rejected = incoming.rejected
    rows = registry.size + incoming.without_card + rejected.count
    rejected.verify_few(rows, max_rejected)
    if not registry.size:
        raise InvalidRequestError(
            "LOAD_REFUSED", problem="none of its rows can be linked", remedy="Rows need a health_card."
        )
    return registry, LoadReport(rows, registry.size, incoming.without_card, rejected)


class _Incoming:
    """The rows read so far, in the order of the file."""

    def __init__(self, linkage: LinkageChain) -> None:
        self.rejected = RejectedRows()
        self.without_card = 0
        self._linkage = linkage
        self._readers = {column.name: ColumnReader(column) for column in CENSUS_DICTIONARY.columns}
        self._people: set[str] = set()
        self._pseudonyms = bytearray()
        self._lines: list[npt.NDArray[np.uint32]] = []
        self._columns: dict[str, list[npt.NDArray[np.uint8]]] = {name: [] for name in self._readers}

    def add(self, chunk: Chunk) -> None:
        values: dict[str, npt.NDArray[np.uint8]] = {}
        wrong: dict[int, str] = {}
        for name, reader in self._readers.items():
            numbers, problems = reader.read(chunk.columns[name])
            values[name] = np.where(numbers < 0, NO_VALUE, numbers).astype(np.uint8)
            wrong = problems | wrong
        kept = np.array(self._linked(chunk, wrong), dtype=np.intp)
        self._lines.append(np.array(chunk.lines, dtype=np.uint32)[kept])
        for name, column in values.items():
            self._columns[name].append(column[kept])

    def registry(self, load: str) -> Registry:
        """Everyone read, ascending by pseudonym; repeated cards are rejected."""
        halves = np.frombuffer(self._pseudonyms, dtype=">u8").reshape(-1, 2)
        high, low = halves[:, 0].astype(np.uint64), halves[:, 1].astype(np.uint64)
        lines = np.concatenate([np.empty(0, dtype=np.uint32), *self._lines])
        order = ascending_without_repeats(high, low, lines, self.rejected)
        empty = np.empty(0, dtype=np.uint8)
        columns = {name: np.concatenate([empty, *self._columns.pop(name)])[order] for name in self._readers}
        return Registry(load, high[order], low[order], columns)

    def _linked(self, chunk: Chunk, wrong: dict[int, str]) -> list[int]:
        """The places of the rows that are to be loaded; their pseudonyms are added in the same order."""
        kept: list[int] = []
        ids = zip(chunk.columns[_CARD], chunk.columns[_PERSON], chunk.columns[_HOUSEHOLD], strict=True)
        for at, (card, person, household) in enumerate(ids):
            problem = self._problem(person, household) or wrong.get(at, "")
            if problem:
                self.rejected.add(chunk.lines[at], problem)
            elif not card:
                self.without_card += 1
            else:
                try:
                    self._pseudonyms += self._linkage.pseudonym(parse_health_card(card))
                except ValueError as error:
                    self.rejected.add(chunk.lines[at], str(error))
                else:
                    kept.append(at)
        return kept

    def _problem(self, person: str, household: str) -> str:
        for name, value in ((_PERSON, person), (_HOUSEHOLD, household)):
            if not value or len(value) > _MAX_ID_CHARACTERS or not value.isprintable():
                return f"{name} is empty, too long or not printable"
        if person in self._people:
            return "repeats the person_id of an earlier row"
        self._people.add(person)
        return ""
