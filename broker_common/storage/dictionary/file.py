"""A dictionary as an agency writes it: `dictionary.toml`, and code lists as CSV files beside it.

    agency = "Ministry of Health"
    version = 1
    id_form = "ontario_health_card"
    linkage = "complementary"

    [columns.diagnosis]
    type = "code"
    multi_valued = true
    description = "Diagnoses on record."
    description_fr = "Diagnostics au dossier."
    codes = "icd10.csv"

    [events.hospitalisation]
    description = "Stays in hospital."

    [events.hospitalisation.columns.admitted]
    type = "date"
    description = "Day of admission."

Tables stand in published order. A column of type "code" has `codes`, a list of tables with `value`, `label`, `label_fr` and
`under`, or the name of a CSV file (`code_lists`); one of type "integer" has `minimum` and `maximum`; one that was asked of a
part of the households has `asked_of` with `not_asked`, `one_in` and `design_effect`. Keys that are none of these are errors, so that a
misspelt one cannot be silently ignored. An error names the file, the line where one can be told, and what to type instead.
"""

from __future__ import annotations

import functools
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, NoReturn, get_args

from broker_common.crypto.id_forms import ID_FORMS
from broker_common.errors import InternalError
from broker_common.language import phrase
from broker_common.query.dictionary import (
    MAX_CODES,
    AskedOf,
    Code,
    Column,
    ColumnType,
    Dictionary,
    EventTable,
    nearest,
    shown,
)
from broker_common.storage.dictionary.code_lists import made_code, read_code_list, read_text, verify_codes, wrong_at
from broker_common.storage.durable import replace_file
from broker_common.storage.lined_text import Places
from broker_common.values import Linkage

FILE_NAME: Final = "dictionary.toml"
"""What a home calls its dictionary."""
MAX_FILE_BYTES: Final = 16 * 1024 * 1024
"""Of the TOML file: more codes than it can hold stand in CSV files."""
# The largest number that a load can store.
_MOST = 2**31 - 1

_TOP_KEYS = ("agency", "version", "id_form", "linkage", "columns", "events")
_COLUMN_KEYS = (
    *("type", "multi_valued", "description", "description_fr"),
    *("minimum", "maximum", "asked_of", "codes"),
)
_EVENT_KEYS = ("description", "description_fr", "columns")
_ASKED_OF_KEYS = ("not_asked", "one_in", "design_effect")
_CODE_KEYS = ("value", "label", "label_fr", "under")
_TYPES = {kind.name.lower(): kind for kind in ColumnType}
_CODE_LIST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\.csv")
_PLACE = re.compile(r" \(at (?:line ([0-9]+), column [0-9]+|end of document)\)")
KINDS: Mapping[type, str] = {
    str: "a text",
    int: "a whole number",
    bool: "true or false",
    dict: "a table",
    list: "a list",
}
"""What a key may hold, in words."""
EXPLAINED = "Mend it; see docs/dictionaries.md."


def read_dictionary(path: Path) -> Dictionary:
    """The dictionary that a file, and the code lists that it names, write.

    Raises:
        InvalidRequestError: DICTIONARY_INVALID, with the line where one can be told.
    """
    text = read_text(path, MAX_FILE_BYTES)
    return parse_dictionary(text, path)


def parse_dictionary(text: str, path: Path) -> Dictionary:
    """The dictionary in the text of the file at `path`; code lists are read from beside it.

    Raises:
        InvalidRequestError: DICTIONARY_INVALID, with the line where one can be told.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _PLACE.search(str(error))
        line = int(found[1] or text.count("\n") + 1) if found else 0
        problem = _PLACE.sub("", str(error))
        wrong_at(path)(
            line,
            phrase("This is not TOML ({problem}).", problem=shown(problem)),
            phrase("Put texts between double quotes, write a table's name in [ ], and name nothing twice."),
        )
    except (ValueError, RecursionError):
        # Numbers of thousands of digits, brackets in brackets.
        wrong_at(path)(0, phrase("This is not TOML."), phrase(EXPLAINED))
    return _Reader(text, path).dictionary(content)


def copy_dictionary(path: Path, folder: Path) -> None:
    """Put a dictionary file that was read, and the code lists that it names, into a folder, as its dictionary.

    Raises:
        InternalError: STORE_FAILED.
    """
    content = tomllib.loads(read_text(path, MAX_FILE_BYTES))
    tables = [content, *content.get("events", {}).values()]
    codes = [column.get("codes") for table in tables for column in table["columns"].values()]
    try:
        for name in sorted({each for each in codes if isinstance(each, str)}):
            replace_file(folder / name, (path.parent / name).read_bytes())
        replace_file(folder / FILE_NAME, path.read_bytes())
    except OSError as error:
        raise InternalError("STORE_FAILED") from error


class _Table:
    """One table of the file: gives its keys out by their kind, and knows which lines it is written in."""

    def __init__(
        self, reader: _Reader, content: Mapping[str, Any], place: tuple[str, ...], keys: Sequence[str]
    ) -> None:
        self._reader = reader
        self.content = content
        self.place = place
        for key in content:
            if key not in keys:
                self.wrong(
                    key,
                    phrase("There is no key '{key}' here.", key=shown(key)),
                    phrase(
                        "Did you mean: {nearest}? All there are: {keys}.",
                        nearest=nearest(key, keys),
                        keys=", ".join(keys),
                    ),
                )

    def wrong(self, key: str, problem: str, remedy: str) -> NoReturn:
        """Refuse the file for what this key says."""
        self._reader.wrong(self._reader.line_of(self.place, key), problem, remedy)

    def text(self, key: str, *, needed: bool = True) -> str:
        return str(self._value(key, str, "", needed=needed))

    def flag(self, key: str) -> bool:
        return bool(self._value(key, bool, False, needed=False))

    def whole(self, key: str, least: int, most: int) -> int:
        number = int(self._value(key, int, 0, needed=True))
        if not least <= number <= most:
            self.wrong(
                key,
                phrase("'{key}' is not a number from {least} to {most}.", key=key, least=str(least), most=str(most)),
                phrase(EXPLAINED),
            )
        return number

    def word(self, key: str, words: Sequence[str]) -> str:
        found = self.text(key)
        if not found:
            self.wrong(
                key, phrase("'{key}' is empty.", key=key), phrase("Write one of: {keys}.", keys=", ".join(words))
            )
        if found not in words:
            self.wrong(
                key,
                phrase("'{key}' cannot be '{found}'.", key=key, found=shown(found)),
                phrase(
                    "Did you mean: {nearest}? All there are: {keys}.",
                    nearest=nearest(found, words),
                    keys=", ".join(words),
                ),
            )
        return found

    def table(self, key: str, keys: Sequence[str]) -> _Table:
        return _Table(self._reader, self._value(key, dict, {}, needed=True), (*self.place, key), keys)

    def tables(self, key: str, keys: Sequence[str], *, needed: bool) -> Iterator[tuple[str, _Table]]:
        """The tables in a table, with their names."""
        within = _Table(self._reader, self._value(key, dict, {}, needed=needed), (*self.place, key), _Anything())
        for name in within.content:
            yield name, within.table(name, keys)

    def _value(self, key: str, kind: type, usual: Any, *, needed: bool) -> Any:
        if key not in self.content:
            if needed:
                self.wrong(key, phrase("There is no '{key}'.", key=key), phrase(EXPLAINED))
            return usual
        value = self.content[key]
        if type(value) is not kind:
            self.wrong(
                key,
                phrase("'{key}' is not {expected}.", key=shown(key), expected=KINDS[kind]),
                phrase(EXPLAINED),
            )
        return value


class _Anything(tuple[str, ...]):
    """Keys that an agency chooses itself."""

    __slots__ = ()

    def __contains__(self, key: object) -> bool:
        return True


class _Reader:
    """Reads one file; holds its text and place for errors."""

    def __init__(self, text: str, path: Path) -> None:
        self._text = text
        self._folder = path.parent
        self._lists: dict[str, tuple[Code, ...]] = {}
        self.wrong = wrong_at(path)

    def dictionary(self, content: Mapping[str, Any]) -> Dictionary:
        top = _Table(self, content, (), _TOP_KEYS)
        agency, version = top.text("agency", needed=False), top.whole("version", 1, _MOST)
        id_form, linkage = top.word("id_form", tuple(ID_FORMS)), _LINKAGES[top.word("linkage", tuple(_LINKAGES))]
        columns = tuple(self._column(name, table) for name, table in top.tables("columns", _COLUMN_KEYS, needed=True))
        events = tuple(self._events(name, table) for name, table in top.tables("events", _EVENT_KEYS, needed=False))
        names = {column.name for column in columns}
        for table in events:
            if table.name in names:
                self.wrong(
                    self.line_of(("events",), table.name),
                    phrase("'{name}' is the name of a column and of an event table.", name=table.name),
                    phrase("Remove or rename one of them."),
                )
        try:
            return Dictionary(columns, events, agency, version, id_form, linkage)
        except ValueError as error:
            self.wrong(0, _sentence(error), phrase(EXPLAINED))

    def _events(self, name: str, table: _Table) -> EventTable:
        columns = tuple(self._event_column(*each) for each in table.tables("columns", _COLUMN_KEYS, needed=True))
        try:
            return EventTable(name, table.text("description"), columns, table.text("description_fr", needed=False))
        except ValueError as error:
            table.wrong("", _sentence(error), phrase(EXPLAINED))

    def _event_column(self, name: str, table: _Table) -> Column:
        column = self._column(name, table)
        for key, has_it in (("multi_valued", column.multi_valued), ("asked_of", column.asked_of)):
            if has_it:
                table.wrong(
                    key,
                    phrase("A column of an event table has no '{key}'.", key=key),
                    phrase(
                        "Remove it. An event has one value in each column, of everybody; several values are several rows."
                    ),
                )
        return column

    def _column(self, name: str, table: _Table) -> Column:
        kind = _TYPES[table.word("type", tuple(_TYPES))]
        of_its_type = {ColumnType.CODE: ("codes",), ColumnType.INTEGER: ("minimum", "maximum"), ColumnType.DATE: ()}
        for other, keys in of_its_type.items():
            for key in keys:
                if other is not kind and key in table.content:
                    table.wrong(
                        key,
                        phrase("A column of type '{type}' has no '{key}'.", type=kind.name.lower(), key=key),
                        phrase("Remove it, or give the column the type '{type}'.", type=other.name.lower()),
                    )
        is_number = kind is ColumnType.INTEGER
        try:
            return Column(
                name=name,
                type=kind,
                description=table.text("description"),
                multi_valued=table.flag("multi_valued"),
                codes=self._codes(table) if kind is ColumnType.CODE else (),
                minimum=table.whole("minimum", -_MOST, _MOST) if is_number else 0,
                maximum=table.whole("maximum", -_MOST, _MOST) if is_number else 0,
                asked_of=self._asked_of(table),
                description_fr=table.text("description_fr", needed=False),
            )
        except ValueError as error:
            table.wrong("", _sentence(error), phrase(EXPLAINED))

    def _asked_of(self, column: _Table) -> AskedOf | None:
        if "asked_of" not in column.content:
            return None
        table = column.table("asked_of", _ASKED_OF_KEYS)
        effect = table.content.get("design_effect")
        hundredths = Fraction(str(effect)) * 100 if _is_finite(effect) else None
        if hundredths is None or hundredths.denominator != 1:
            table.wrong(
                "design_effect",
                phrase("'{key}' is not a number with two decimals at most.", key="design_effect"),
                phrase(EXPLAINED),
            )
        try:
            return AskedOf(
                not_asked=table.text("not_asked"),
                one_in=table.whole("one_in", 0, _MOST),
                design_effect_hundredths=int(hundredths),
            )
        except ValueError as error:
            table.wrong("", _sentence(error), phrase(EXPLAINED))

    def _codes(self, table: _Table) -> tuple[Code, ...]:
        written = table.content.get("codes")
        if isinstance(written, str):
            if not _CODE_LIST_NAME.fullmatch(written):
                table.wrong(
                    "codes",
                    phrase("'{file}' is not the name of a CSV file beside this one.", file=shown(written)),
                    phrase("Name it without folders, such as: {example}", example='codes = "icd10.csv"'),
                )
            # Columns often share one: it is read once.
            if written not in self._lists:
                self._lists[written] = read_code_list(self._folder / written)
            return self._lists[written]
        if not isinstance(written, list):
            table.wrong(
                "codes",
                phrase("A column of type 'code' has 'codes': a list of them, or the name of a CSV file."),
                phrase("Write, for instance: {example}", example='codes = [{ value = "f", label = "Female" }]'),
            )
        if len(written) > MAX_CODES:
            table.wrong(
                "codes",
                phrase("There are more than {most:,} codes.", most=MAX_CODES),
                phrase("Publish fewer codes: categories, for instance, instead of their subdivisions."),
            )
        if not written:
            table.wrong(
                "codes",
                phrase("The column '{column}' has no codes.", column=shown(table.place[-1])),
                phrase("Write at least one."),
            )
        line = self.line_of(table.place, "codes")
        codes = [self._code(each, table, line) for each in written]
        verify_codes(codes, [line] * len(codes), self.wrong)
        return tuple(codes)

    def _code(self, written: Any, column: _Table, line: int) -> Code:
        if not isinstance(written, dict):
            column.wrong(
                "codes",
                phrase("'{key}' is not {expected}.", key="codes", expected=phrase("a list of tables")),
                phrase("Write, for instance: {example}", example='codes = [{ value = "f", label = "Female" }]'),
            )
        table = _Table(self, written, (*column.place, "codes"), _CODE_KEYS)
        under = written.get("under", [])
        if not isinstance(under, list) or not all(isinstance(each, str) for each in under):
            table.wrong(
                "under",
                phrase("'{key}' is not {expected}.", key="under", expected=phrase("a list of texts")),
                phrase("Write, for instance: {example}", example='under = ["I20-I25"]'),
            )
        label_fr = table.text("label_fr", needed=False)
        return made_code(table.text("value"), table.text("label"), label_fr, under, line, self.wrong)

    def line_of(self, place: tuple[str, ...], key: str) -> int:
        """The line where a table says this key, or else where the table, or the one around it, begins."""
        return self._places.of((*place, key)).line

    @functools.cached_property
    def _places(self) -> Places:
        return Places(self._text)


_LINKAGES: Mapping[str, Linkage] = {linkage: linkage for linkage in get_args(Linkage)}


def _is_finite(value: object) -> bool:
    return type(value) is int or (isinstance(value, float) and math.isfinite(value))


def _sentence(error: ValueError) -> str:
    """The model's error as a sentence."""
    return phrase("The dictionary cannot be published: {problem}.", problem=error.args[0])


def dictionary_toml(dictionary: Dictionary) -> str:
    """The file that writes this dictionary, its code lists included."""
    head = [
        f"agency = {_quoted(dictionary.agency)}",
        f"version = {dictionary.version}",
        f"id_form = {_quoted(dictionary.id_form)}",
        f"linkage = {_quoted(dictionary.linkage)}",
    ]
    parts = [head, *(_column_lines("columns", column) for column in dictionary.columns)]
    for table in dictionary.events:
        place = f"events.{table.name}"
        parts.append([f"[{place}]", *_described(table)])
        parts += [_column_lines(f"{place}.columns", column) for column in table.columns]
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def _column_lines(place: str, column: Column) -> list[str]:
    lines = [f"[{place}.{column.name}]", f"type = {_quoted(column.type.name.lower())}"]
    if column.multi_valued:
        lines.append("multi_valued = true")
    lines += _described(column)
    if column.type is ColumnType.INTEGER:
        lines += [f"minimum = {column.minimum}", f"maximum = {column.maximum}"]
    if column.asked_of is not None:
        part = column.asked_of
        effect = f"{part.design_effect_hundredths // 100}.{part.design_effect_hundredths % 100:02}"
        lines.append(
            f"asked_of = {{ not_asked = {_quoted(part.not_asked)}, one_in = {part.one_in}, design_effect = {effect} }}"
        )
    if column.codes:
        lines += ["codes = [", *(f"  {_inline(code)}," for code in column.codes), "]"]
    return lines


def _described(what: Column | EventTable) -> list[str]:
    lines = [f"description = {_quoted(what.description)}"]
    if what.description_fr:
        lines.append(f"description_fr = {_quoted(what.description_fr)}")
    return lines


def _inline(code: Code) -> str:
    parts = [f"value = {_quoted(code.value)}", f"label = {_quoted(code.label)}"]
    if code.label_fr:
        parts.append(f"label_fr = {_quoted(code.label_fr)}")
    if code.under:
        parts.append(f"under = [{', '.join(map(_quoted, code.under))}]")
    return "{ " + ", ".join(parts) + " }"


def _quoted(text: str) -> str:
    """A text of a dictionary in TOML: all of it is printable, so nothing else needs an escape."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
