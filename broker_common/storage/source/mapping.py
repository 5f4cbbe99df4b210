"""Own words become published ones: names, codes, dates, what stands for no value, and what joins several values.

Each text of a column is turned once per chunk and then looked up. A row with a word that stands for nothing published is
left out with a reason that names the column, never the word.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from typing import Protocol

from broker_common.query.dictionary import MULTI_VALUE_SEPARATOR, Column, ColumnType, shown
from broker_common.storage.source.rows import Chunk, Progress, RejectedRows, ValueRows, Wanted
from broker_common.storage.source.toml import DATE_FORMS, OwnColumn, OwnTable

_YEAR_FIRST = re.compile(r"(?P<y>[0-9]{4})(?P<m>[0-9]{2})(?P<d>[0-9]{2})")


def _with(separator: str, order: str) -> re.Pattern[str]:
    parts = {"y": "(?P<y>[0-9]{4})", "m": "(?P<m>[0-9]{1,2})", "d": "(?P<d>[0-9]{1,2})"}
    return re.compile(re.escape(separator).join(parts[part] for part in order))


_DATES = {
    "iso": _with("-", "ymd"),
    "yyyymmdd": _YEAR_FIRST,
    "dd/mm/yyyy": _with("/", "dmy"),
    "mm/dd/yyyy": _with("/", "mdy"),
    "dd-mm-yyyy": _with("-", "dmy"),
    "dd.mm.yyyy": _with(".", "dmy"),
}


# Neither a code nor a date, whatever is published.
_NOTHING_PUBLISHED = " "


class Rows(Protocol):
    """Rows under an agency's own names."""

    def chunks(self, rejected: RejectedRows, *, progress: Progress | None = None) -> Iterator[Chunk]: ...


class BesidePeople(Protocol):
    """A column of several values whose values stand in a table of their own."""

    def prepare(self, counts: ValueRows) -> None:
        """Read that table, before people, and count its rows."""
        ...

    def texts(self, ids: Sequence[str]) -> list[str]:
        """The published codes of the people with these ids."""
        ...

    def settle(self, counts: ValueRows) -> None:
        """Reject what was about nobody, after people."""
        ...


def wanted_of(table: OwnTable, columns: Collection[Column]) -> list[Wanted]:
    """The columns that a table must have, under the agency's own names."""
    wanted = {name: Wanted(name) for name in table.ids.values()}
    for column in columns:
        own = table.columns[column.name]
        if own.rows is None:
            is_own = column.type is not ColumnType.INTEGER
            wanted.setdefault(own.name, Wanted(own.name, column, is_own, own.separator))
    return list(wanted.values())


class MappedSource:
    """Rows under logical names, of rows under an agency's own."""

    def __init__(
        self, rows: Rows, table: OwnTable, columns: Collection[Column], beside: Mapping[str, BesidePeople]
    ) -> None:
        self._rows = rows
        self._table = table
        self._readers = {
            column.name: WordReader(column, table.columns[column.name])
            for column in columns
            if column.name not in beside
        }
        self._beside = beside

    def chunks(self, rejected: RejectedRows, *, progress: Progress | None = None) -> Iterator[Chunk]:
        """The rows that can be read and mean something, in order. The others are added to `rejected`, and tables of values are counted there.

        Raises:
            InvalidRequestError: LOAD_REFUSED.
        """
        for name, source in self._beside.items():
            source.prepare(rejected.of_values(name))
        for chunk in self._rows.chunks(rejected, progress=progress):
            yield from self._mapped(chunk, rejected)
        for name, source in self._beside.items():
            source.settle(rejected.values[name])

    def _mapped(self, chunk: Chunk, rejected: RejectedRows) -> Iterator[Chunk]:
        columns: dict[str, Sequence[str]] = {}
        for name, own in self._table.ids.items():
            ids = [text.strip() for text in chunk.columns[own]]
            columns[name] = ["" if text in self._table.missing else text for text in ids]
        wrong: dict[int, str] = {}
        for name, reader in self._readers.items():
            columns[name], problems = reader.read(chunk.columns[reader.own.name])
            wrong = problems | wrong
        # A row without an id is for the loader to count, whatever else is wrong with it.
        wrong = {at: problem for at, problem in wrong.items() if columns["health_card"][at]}
        for name, beside in self._beside.items():
            columns[name] = beside.texts(columns["health_card"])
        lines = chunk.lines
        if wrong:
            for at in sorted(wrong):
                rejected.add(lines[at], wrong[at])
            kept = [at for at in range(len(lines)) if at not in wrong]
            lines = [lines[at] for at in kept]
            columns = {name: [texts[at] for at in kept] for name, texts in columns.items()}
        if lines:
            yield Chunk(lines, columns)


class WordReader:
    """Turns the texts of one own column into published ones."""

    def __init__(self, column: Column, own: OwnColumn) -> None:
        self.own = own
        self._column = column
        # The operator's name for it.
        self._called = column.name if own.name == column.name else f"{column.name} ({shown(own.name)})"

    def read(self, texts: Sequence[str]) -> tuple[list[str], dict[int, str]]:
        """The published text for each, and the reason for each place whose text stands for nothing."""
        words: dict[str, str] = {}
        problems: dict[str, str] = {}
        for text in set(texts):
            try:
                words[text] = self.word(text)
            except ValueError as error:
                words[text] = _NOTHING_PUBLISHED
                problems[text] = f"{self._called} {error}"
        wrong = {at: problems[text] for at, text in enumerate(texts) if text in problems} if problems else {}
        return list(map(words.__getitem__, texts)), wrong

    def word(self, text: str) -> str:
        """The published text that a code of the agency's own stands for.

        Raises:
            ValueError: it stands for none; what is said names no value.
        """
        text = text.strip()
        if not text or text in self.own.missing:
            return ""
        if self._column.multi_valued:
            codes = {self.code(part.strip()) for part in text.split(self.own.separator)}
            return MULTI_VALUE_SEPARATOR.join(sorted(codes - {""}))
        if self._column.type is ColumnType.DATE:
            return _published_date(text, self.own.dates)
        return self.code(text) if self._column.type is ColumnType.CODE else text

    def code(self, code: str) -> str:
        """The published code that a code of the agency's own stands for; empty where it stands for no value.

        Raises:
            ValueError: it stands for none.
        """
        if not code:
            raise ValueError("holds an empty value among others")
        if code in self.own.missing:
            return ""
        published = code if self.own.codes is None else self.own.codes.get(code)
        if published is None:
            raise ValueError("holds a code that source.toml gives no published code")
        if published and published not in self._column.positions:
            raise ValueError("holds a code that is not published")
        return published


def _published_date(text: str, form: str) -> str:
    found = _DATES[form].fullmatch(text)
    try:
        day = date(int(found["y"]), int(found["m"]), int(found["d"])) if found else None
    except ValueError:
        day = None
    if day is None:
        written = "YYYY-MM-DD" if form == DATE_FORMS[0] else form
        raise ValueError(f"is not a date written {written}")
    return day.isoformat()
