"""A first draft of a dictionary from the files that an agency has: names of columns, and types by the shapes of their values.

SECURITY: a dictionary is public and must not be derived from anyone's record. A draft says of values only whether all are whole
numbers or dates, and whether one person has several; it takes no value, number of rows or limit from the data. Codes come only from
code lists, and limits of numbers only from people who know them. Names come from the header: a file in whose header no id stands,
which its owner names, has none, and nothing of it is shown.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.query.dictionary import MULTI_VALUE_SEPARATOR, ColumnType, nearest, shown
from broker_common.storage.dictionary.code_lists import read_code_list, wrong_at
from broker_common.storage.source.csv_file import MAX_LINE_BYTES
from broker_common.storage.source.parquet import text_rows
from broker_common.storage.source.rows import PARQUET_MAGIC, reading

# Shapes are told by the first rows: a later one may still differ, and the load then says so.
_ROWS = 50_000
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_LONGEST_NAME = 63


@dataclass(slots=True)
class Shape:
    """Common form of the values of a column."""

    whole_numbers: bool = True
    dates: bool = True
    several: bool = False
    is_empty: bool = True

    def add(self, text: str) -> None:
        """One more value; an empty one says nothing."""
        if text:
            self.is_empty = False
            self.whole_numbers = self.whole_numbers and _WHOLE.fullmatch(text) is not None
            self.dates = self.dates and _DATE.fullmatch(text) is not None
            self.several = self.several or MULTI_VALUE_SEPARATOR in text

    @property
    def type(self) -> ColumnType:
        if self.is_empty or not (self.whole_numbers or self.dates):
            return ColumnType.CODE
        return ColumnType.INTEGER if self.whole_numbers else ColumnType.DATE


def draft_toml(people: Path, events: Sequence[Path], ids: Sequence[str], code_lists: Mapping[str, Path]) -> str:
    """The text of a dictionary file to go on with: columns of `people`, and an event table for each other file, named after it.

    `ids` are own names of columns that are left out, at least one in each file; `code_lists` has a code list for `column` or `table.column`, by their names in the
    draft. A comment that begins with TODO marks each missing value that only a person can give.

    Raises:
        InvalidRequestError: LOAD_REFUSED, DICTIONARY_INVALID or INVALID_VALUE.
    """
    tables = [("", shapes_of(people, ids)), *((_name(path.stem), shapes_of(path, ids)) for path in events)]
    columns = [f"{table}.{_name(own)}" if table else _name(own) for table, shapes in tables for own in shapes]
    for name in code_lists:
        if name not in columns:
            raise InvalidRequestError(
                "INVALID_VALUE",
                name="--codes",
                problem=phrase("names '{column}', which is no column of the draft", column=shown(name)),
                remedy=phrase("Did you mean: {nearest}?", nearest=nearest(name, columns)),
            )
    lines = [
        "# A draft. Every TODO is for a person who knows the data: nothing below was taken from anybody's values.",
        'agency = "" # TODO: the name that researchers read',
        "version = 1",
        'id_form = "" # TODO: what the id that people are linked on looks like; docs/ids.md lists the forms',
        'linkage = "complementary" # or "household", "nominative": what both agencies agreed on',
    ]
    for table, shapes in tables:
        if table:
            lines += ["", f"[events.{table}]", *_described()]
        for own, shape in shapes.items():
            lines += ["", *_column_lines(table, own, shape, code_lists)]
    return "\n".join(lines) + "\n"


def _column_lines(table: str, own: str, shape: Shape, code_lists: Mapping[str, Path]) -> Iterator[str]:
    name = _name(own)
    code_list = code_lists.get(f"{table}.{name}" if table else name)
    kind = ColumnType.CODE if code_list else shape.type
    yield f"[{f'events.{table}.' if table else ''}columns.{name}]" + (f"  # {shown(own)}" if own != name else "")
    yield f'type = "{kind.name.lower()}"'
    if kind is ColumnType.CODE and shape.several and not table:
        yield "multi_valued = true"
    yield from _described()
    if kind is ColumnType.INTEGER:
        yield "# TODO: minimum = , maximum = : what can be, not what is; a number outside is a mistake in the source"
    elif code_list is not None:
        # A mistake in it is found now, not when the draft is read.
        read_code_list(code_list)
        yield f'codes = "{code_list.name}"'
    elif kind is ColumnType.CODE:
        yield '# TODO: codes = "FILE.csv": a list that was published or written by hand, with value and label'


def _described() -> Sequence[str]:
    return ['description = "" # TODO', 'description_fr = "" # TODO']


def _name(own: str) -> str:
    """A name of the agency's own, in a form that a dictionary can have."""
    name = _NOT_IN_NAMES.sub("_", own.lower()).strip("_")
    return (name if name[:1].isalpha() else f"c_{name}")[:_LONGEST_NAME]


def shapes_of(path: Path, ids: Collection[str]) -> Mapping[str, Shape]:
    """The shape of each column of a CSV or Parquet file but the ids, by the column's name.

    Raises:
        InvalidRequestError: LOAD_REFUSED or DICTIONARY_INVALID.
    """
    with reading(path) as file:
        is_parquet = file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC
    rows = iter(text_rows(path, _ROWS) if is_parquet else _csv_rows(path))
    names = next(rows, ())
    # SECURITY: until an id stands in it, this may be a person: it is not quoted.
    if not set(ids) & set(names):
        wrong_at(path)(
            1,
            phrase("No column named with --id is in the header."),
            phrase(
                "The first line must name the columns, in UTF-8 and with commas between them; say with --id which of them holds the id."
            ),
        )
    shapes = [Shape() for _ in names]
    for row in rows:
        # A row of another width is for the load to refuse.
        for shape, text in zip(shapes, row, strict=False):
            shape.add(text)
    found = {name: shape for name, shape in zip(names, shapes, strict=True) if name not in ids}
    if len({_name(name) for name in found}) < len(names) - len(set(ids) & set(names)):
        wrong_at(path)(
            1, phrase("The header names columns twice, or alike."), phrase("Give each column a name of its own.")
        )
    return found


def _csv_rows(path: Path) -> Iterator[Sequence[str]]:
    """The header and the first rows, as they stand; what is wrong with a row is for the load to say."""
    wrong = wrong_at(path)
    with reading(path) as file:
        for line in range(1, _ROWS + 2):
            raw = file.readline(MAX_LINE_BYTES + 1)
            if not raw:
                break
            if len(raw) > MAX_LINE_BYTES:
                wrong(
                    line,
                    phrase("This line is too long."),
                    phrase("Save the file as CSV in UTF-8 with commas between fields, or as Parquet."),
                )
            try:
                text = raw.decode("utf-8-sig")
                yield next(csv.reader([text.rstrip("\r\n")], strict=True), [])
            except (UnicodeDecodeError, csv.Error):
                wrong(
                    line,
                    phrase("This is not a line of CSV in UTF-8."),
                    phrase("Save the file as CSV in UTF-8 with commas between fields, or as Parquet."),
                )
