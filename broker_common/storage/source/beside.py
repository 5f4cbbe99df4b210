"""Values of people in a table of their own: one row for each value that a person has, in any order.

The table is read once, before people, and kept in arrays: a hash of the id, the place of the code, and the number of the
row, 24 bytes a row and about 50 while they are sorted. Ids are compared in their one spelling (`id_forms`). A value that a
person has twice counts once. A row whose id no row of people has is left out as wrong: where many are, the two tables hold
different ids. Its rows are counted apart from those of people.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from broker_common.crypto.id_forms import parse_ids
from broker_common.query.dictionary import MULTI_VALUE_SEPARATOR, Column
from broker_common.storage.source.mapping import Rows, WordReader
from broker_common.storage.source.rows import ValueRows, ascending_order
from broker_common.storage.source.toml import OwnColumn
from broker_common.storage.source.values import GrowingArray

_NOBODY = "is of an id that no row of people has"


class TableBeside:
    """The values of one column, by id."""

    def __init__(self, rows: Rows, column: Column, own: OwnColumn, missing: frozenset[str], id_form: str) -> None:
        self._rows = rows
        self._id_form = id_form
        self._own = own
        self._missing = missing
        self._reader = WordReader(column, own)
        self._codes = column.values
        self._positions = column.positions
        self._high: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._low = self._high
        self._places: NDArray[np.uint32] = np.zeros(0, np.uint32)
        self._lines = self._places
        self._is_used: NDArray[np.bool_] = np.zeros(0, np.bool_)

    def prepare(self, counts: ValueRows) -> None:
        """Read the table, and count its rows.

        Raises:
            InvalidRequestError: LOAD_REFUSED.
        """
        hashes: GrowingArray[np.uint64] = GrowingArray(np.dtype(">u8"))
        places: GrowingArray[np.uint32] = GrowingArray(np.dtype(np.uint32))
        lines: GrowingArray[np.uint32] = GrowingArray(np.dtype(np.uint32))
        for chunk in self._rows.chunks(counts.rejected):
            names = [text.strip() for text in chunk.columns[self._own.id]]
            names = ["" if name in self._missing else name for name in names]
            ids, wrong_ids = parse_ids(names, self._id_form)
            texts, wrong = self._reader.read(chunk.columns[self._own.name])
            for at, text in enumerate(texts):
                if MULTI_VALUE_SEPARATOR in text:
                    wrong[at] = "has several values, and a row of a table of its own has one"
            # As of people: a row without an id is that, whatever else is wrong with it.
            wrong = {at: problem for at, problem in (wrong | wrong_ids).items() if names[at]}
            for at in sorted(wrong):
                counts.rejected.add(chunk.lines[at], wrong[at])
            kept = [at for at, name in enumerate(names) if name and texts[at] and at not in wrong]
            counts.without_card += names.count("")
            counts.without_value += sum(bool(name) and not text for name, text in zip(names, texts, strict=True))
            hashes.add(b"".join(map(_hash, ids[kept].tolist())))
            places.add(np.fromiter((self._positions[texts[at]] for at in kept), np.uint32, len(kept)))
            lines.add(np.fromiter((chunk.lines[at] for at in kept), np.uint32, len(kept)))
        halves = hashes.take().reshape(-1, 2)
        high, low = halves[:, 0].astype(np.uint64), halves[:, 1].astype(np.uint64)
        order = ascending_order(high, low)
        self._high, self._low = high[order], low[order]
        self._places, self._lines = places.take()[order], lines.take()[order]
        self._is_used = np.zeros(len(order), np.bool_)

    def texts(self, ids: Sequence[str]) -> list[str]:
        """The published codes of the people with these ids, joined."""
        # Nobody's values are those of a wrong id, whose row the loader rejects.
        spelt, _ = parse_ids(ids, self._id_form)
        halves = np.frombuffer(b"".join(map(_hash, spelt.tolist())), ">u8").astype(np.uint64).reshape(-1, 2)
        begins = np.searchsorted(self._high, halves[:, 0], "left")
        ends = np.searchsorted(self._high, halves[:, 0], "right")
        texts = [""] * len(ids)
        for at in np.flatnonzero(ends > begins).tolist():
            # Rows of another id share the first half hardly ever, and are looked at here if they do.
            rows = np.arange(begins[at], ends[at])
            rows = rows[self._low[rows] == halves[at, 1]]
            self._is_used[rows] = True
            texts[at] = MULTI_VALUE_SEPARATOR.join(
                self._codes[place] for place in np.unique(self._places[rows]).tolist()
            )
        return texts

    def settle(self, counts: ValueRows) -> None:
        """Reject the rows whose id nobody had."""
        counts.of_people = int(np.count_nonzero(self._is_used))
        for line in np.sort(self._lines[~self._is_used]).tolist():
            counts.rejected.add(line, _NOBODY)


def _hash(name: bytes) -> bytes:
    return hashlib.blake2b(name, digest_size=16).digest()
