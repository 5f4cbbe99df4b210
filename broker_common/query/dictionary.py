"""Dictionaries: the published columns of one node, and the published codes of each.

Invariants. A dictionary is written by people and never derived from anyone's record, so naming its codes in an error
tells nothing about a person ("unknown code" would otherwise be a membership test). Names are lower case and fit SQL as
they stand; codes are printable, distinct, and hold no `;`, which joins the values of multi-valued columns in CSV. The
node decides what a column means for a store (index, bit mask).
"""

from __future__ import annotations

import bisect
import difflib
import functools
import graphlib
import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import Any, get_args

import msgspec

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.query.branches import Branches
from broker_common.values import Linkage

MULTI_VALUE_SEPARATOR = ";"

# Limits of a dictionary from a peer, so that reading one is never much work.
MAX_COLUMNS = 200
MAX_CODES = 100_000
MAX_EVENT_TABLES = 50
MAX_CODE_CHARACTERS = 100
MAX_LABEL_CHARACTERS = 500
# Limits of a variable that was asked of a part: the smallest part, and the largest design effect.
MAX_ONE_IN = 1_000
MAX_DESIGN_EFFECT = 100
# The most characters of a user's word in a sentence, and the most names that a hint lists and suggests.
MAX_SHOWN_CHARACTERS = 40
MAX_LISTED = 12
NEAREST = 3
# Codes that are compared with a word to find the nearest ones.
MAX_COMPARED = 2_000

_HASH_DOMAIN = b"tripartite/dictionary/v1\0"
# For a dictionary that says something that the first form has no place for.
_HASH_DOMAIN_2 = b"tripartite/dictionary/v2\0"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
# Words of the condition language: as column names they could not be written down.
_RESERVED = frozenset(
    {
        *(
            "all",
            "and",
            "any",
            "between",
            "by",
            "count",
            "date",
            "false",
            "in",
            "is",
            "like",
            "not",
            "null",
            "or",
            "true",
        ),
        *("under", "where"),
    }
)

PEOPLE = "people"
"""What sources and stores call the table that is no event table."""
USUAL_ID_FORM = "ontario_health_card"
USUAL_LINKAGE: Linkage = "complementary"


class ColumnType(Enum):
    """Type of a column; the value is the word that error sentences use."""

    CODE = "codes"
    INTEGER = "whole numbers"
    DATE = "dates"


@dataclass(frozen=True, slots=True)
class Code:
    """One admissible value of a coded column, and what it means for people."""

    value: str
    label: str
    label_fr: str = ""
    under: tuple[str, ...] = ()
    """The codes that it stands under, ascending."""

    def __post_init__(self) -> None:
        if self.value != self.value.strip() or MULTI_VALUE_SEPARATOR in self.value:
            raise ValueError(
                phrase(
                    "the code '{code}' has outer spaces or holds a {separator}",
                    code=shown(self.value),
                    separator=MULTI_VALUE_SEPARATOR,
                )
            )
        _require_text("code", self.value, MAX_CODE_CHARACTERS)
        _require_text("label", self.label, MAX_LABEL_CHARACTERS)
        _require_french("label", self.label_fr, self.label)
        if list(self.under) != sorted(set(self.under)):
            raise ValueError(
                phrase("what the code '{code}' stands under is not in order, each once", code=shown(self.value))
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedOf:
    """That a variable was asked of whole households, drawn at random, and has the value `not_asked` for everybody else.

    All of it is declared by the agency that drew them, never computed from anyone's record.
    """

    not_asked: str
    one_in: int
    """One household in so many was asked."""
    design_effect_hundredths: int
    """Kish's design effect, in hundredths: how much more a share varies than if persons had been drawn, not households."""

    def __post_init__(self) -> None:
        if not 1 < self.one_in <= MAX_ONE_IN:
            raise ValueError(
                phrase("a variable that is asked of a part is asked of one household in 2 to {most:,}", most=MAX_ONE_IN)
            )
        if not 1 <= self.design_effect <= MAX_DESIGN_EFFECT:
            raise ValueError(phrase("a design effect is a number from 1 to {most}", most=MAX_DESIGN_EFFECT))

    @property
    def share(self) -> Fraction:
        """The share of households that were asked."""
        return Fraction(1, self.one_in)

    @property
    def weight(self) -> int:
        """How many people each person who was asked stands for."""
        return self.one_in

    @property
    def design_effect(self) -> Fraction:
        return Fraction(self.design_effect_hundredths, 100)


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of the health data, or one language variable of the census.

    `minimum` and `maximum` bound what the loader admits into an INTEGER column; criteria may name any number. Without
    `asked_of` the column is about everybody.
    """

    name: str
    type: ColumnType
    description: str
    multi_valued: bool = False
    codes: tuple[Code, ...] = ()
    minimum: int = 0
    maximum: int = 0
    asked_of: AskedOf | None = None
    description_fr: str = ""
    positions: Mapping[str, int] = field(init=False, repr=False, compare=False)
    """Where each code stands in the published list."""

    def __post_init__(self) -> None:
        positions = {code.value: position for position, code in enumerate(self.codes)}
        object.__setattr__(self, "positions", positions)
        _require_french("description", self.description_fr, self.description)
        if not _NAME.fullmatch(self.name) or self.name in _RESERVED:
            raise ValueError(
                phrase("'{name}' cannot be the name of a column: {rule}", name=shown(self.name), rule=_name_rule())
            )
        _require_text("description", self.description, MAX_LABEL_CHARACTERS)
        if bool(self.codes) != (self.type is ColumnType.CODE) or len(self.codes) > MAX_CODES:
            raise ValueError(
                phrase(
                    "column '{column}' has {n:,} codes; one of codes has 1 to {most:,}, and no other has any",
                    column=self.name,
                    n=len(self.codes),
                    most=MAX_CODES,
                )
            )
        if len(positions) != len(self.codes):
            raise ValueError(phrase("column '{column}' has a code twice", column=self.name))
        if self.multi_valued and self.type is not ColumnType.CODE:
            raise ValueError(
                phrase("column '{column}' holds no codes, so a person has one value at most", column=self.name)
            )
        if self.minimum > self.maximum or (
            self.type is not ColumnType.INTEGER and (self.minimum, self.maximum) != (0, 0)
        ):
            raise ValueError(phrase("column '{column}' has a minimum above its maximum", column=self.name))
        if self.asked_of is not None and (self.multi_valued or not self.asked or self.not_asked not in positions):
            raise ValueError(
                phrase(
                    "column '{column}' lacks a value for people who were asked, or for those who were not",
                    column=self.name,
                )
            )
        self._verify_hierarchy()

    def _verify_hierarchy(self) -> None:
        above = {code.value: code.under for code in self.codes}
        for code in self.codes:
            if unknown := [parent for parent in code.under if parent not in above]:
                raise ValueError(
                    phrase(
                        "in column '{column}' the code '{code}' is placed under '{parent}', which is not a code",
                        column=self.name,
                        code=shown(code.value),
                        parent=shown(unknown[0]),
                    )
                )
        try:
            graphlib.TopologicalSorter(above).prepare()
        except graphlib.CycleError as error:
            raise ValueError(
                phrase(
                    "in column '{column}' codes are placed under themselves, in a circle: {codes}",
                    column=self.name,
                    codes=listed(map(shown, error.args[1]), quote=True),
                )
            ) from None

    @functools.cached_property
    def has_hierarchy(self) -> bool:
        return any(code.under for code in self.codes)

    def descendants(self, value: str) -> frozenset[str]:
        """The code of this value and all that stand under it, directly or not."""
        found = self.branches.beneath([self.positions[value]])
        return frozenset(self.codes[position].value for position in found.tolist())

    @functools.cached_property
    def branches(self) -> Branches:
        """The hierarchy, by positions."""
        return Branches([[self.positions[parent] for parent in code.under] for code in self.codes])

    @property
    def values(self) -> tuple[str, ...]:
        """The published codes, in published order."""
        return tuple(self.positions)

    @functools.cached_property
    def _in_order(self) -> list[str]:
        return sorted(self.positions)

    def beginning(self, prefix: str) -> Sequence[str]:
        """The codes that begin so, ascending: found in a long list without looking at all of it."""
        codes = self._in_order
        return codes[
            bisect.bisect_left(codes, prefix) : bisect.bisect_right(codes, prefix, key=lambda code: code[: len(prefix)])
        ]

    def nearest(self, code: str) -> str:
        """The few codes most like `code`, best first. In a long list those that begin as it does, as far as any do."""
        if len(self.codes) <= MAX_COMPARED:
            return nearest(code, self.values, quote=True)
        for length in range(min(len(code), MAX_CODE_CHARACTERS), 0, -1):
            alike = [each for way in {code, code.upper(), code.lower()} for each in self.beginning(way[:length])]
            if len(alike) >= NEAREST:
                break
        else:
            alike = self._in_order
        return nearest(code, sorted(alike)[:: 1 + len(alike) // MAX_COMPARED], quote=True)

    @functools.cached_property
    def spellings(self) -> Mapping[str, Sequence[str]]:
        """For each code and label, letter case and accents aside, the codes that are meant."""
        found: dict[str, list[str]] = {}
        for code in self.codes:
            for spelling in {folded(code.value), folded(code.label)}:
                found.setdefault(spelling, []).append(code.value)
        return found

    @property
    def not_asked(self) -> str | None:
        """The value of people who were not asked; None if everybody was."""
        return None if self.asked_of is None else self.asked_of.not_asked

    @property
    def asked(self) -> tuple[str, ...]:
        """The values of people who were asked, in published order."""
        return tuple(value for value in self.values if value != self.not_asked)


@dataclass(frozen=True, slots=True)
class EventTable:
    """Things that happened to people: a person has any number of rows, each with one value a column at most."""

    name: str
    description: str
    columns: tuple[Column, ...]
    description_fr: str = ""
    _by_name: Mapping[str, Column] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {column.name: column for column in self.columns})
        if not _NAME.fullmatch(self.name) or self.name in {*_RESERVED, PEOPLE}:
            raise ValueError(
                phrase(
                    "'{name}' cannot be the name of an event table: {rule}", name=shown(self.name), rule=_name_rule()
                )
            )
        _require_text("description", self.description, MAX_LABEL_CHARACTERS)
        _require_french("description", self.description_fr, self.description)
        if not 1 <= len(self.columns) <= MAX_COLUMNS or len(self._by_name) != len(self.columns):
            raise ValueError(
                phrase(
                    "the event table '{table}' has 1 to {most} columns, each once", table=self.name, most=MAX_COLUMNS
                )
            )
        if any(column.multi_valued or column.asked_of for column in self.columns):
            raise ValueError(phrase("an event of '{table}' has one value a column, of everybody", table=self.name))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._by_name)

    def column(self, name: str) -> Column:
        """The column of exactly this name.

        Raises:
            InvalidRequestError: UNKNOWN_COLUMN, with the nearest names.
        """
        return _named(name, self._by_name)


@dataclass(frozen=True, slots=True)
class Dictionary:
    """The published columns of one node, in published order, and its event tables."""

    columns: tuple[Column, ...]
    events: tuple[EventTable, ...] = ()
    agency: str = ""
    version: int = 1
    id_form: str = USUAL_ID_FORM
    """What the id that people are linked on looks like (`id_forms`)."""
    linkage: Linkage = USUAL_LINKAGE
    _by_name: Mapping[str, Column] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {column.name: column for column in self.columns})
        if not 1 <= len(self.columns) <= MAX_COLUMNS:
            raise ValueError(phrase("a dictionary has 1 to {most} columns", most=MAX_COLUMNS))
        if len(self._by_name) != len(self.columns):
            raise ValueError(phrase("a dictionary names a column twice"))
        tables = [table.name for table in self.events]
        if (
            len(tables) > MAX_EVENT_TABLES
            or len(set(tables)) < len(tables)
            or not self._by_name.keys().isdisjoint(tables)
        ):
            raise ValueError(
                phrase(
                    "a dictionary has up to {most} event tables, whose names nothing else has", most=MAX_EVENT_TABLES
                )
            )
        _require_text("agency", self.agency or "-", MAX_LABEL_CHARACTERS)
        if self.version < 1 or not _NAME.fullmatch(self.id_form) or self.linkage not in get_args(Linkage):
            raise ValueError(phrase("a dictionary has a version from 1 on, a form of ids and a linkage that there is"))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._by_name)

    @property
    def meaning(self) -> bytes:
        """The meaning of stored values under this dictionary: names, types, limits, codes in their order, who was asked (FORMAT.md).

        Labels and descriptions are left out, so that they may be mended without loading the data again.
        """
        columns = [_meaning(column) for column in self.columns]
        said = columns if self._is_first_form else _second_form(self, columns)
        return json.dumps(said, separators=(",", ":")).encode("ascii")

    @property
    def hash(self) -> bytes:
        """The hash by which a log names a meaning."""
        return hashlib.sha256((_HASH_DOMAIN if self._is_first_form else _HASH_DOMAIN_2) + self.meaning).digest()

    @property
    def _is_first_form(self) -> bool:
        usual = self.id_form == USUAL_ID_FORM and self.linkage == USUAL_LINKAGE
        return usual and not self.events and not any(column.has_hierarchy for column in self.columns)

    @classmethod
    def parse_meaning(cls, data: bytes) -> Dictionary:
        """A dictionary of this meaning, with names and codes in place of descriptions and labels.

        Raises:
            ValueError: it is none, or not written as `meaning` writes it.
        """
        try:
            if data.startswith(b"{"):
                dictionary = _of_second_form(msgspec.json.decode(data, type=_SecondForm))
            else:
                columns = msgspec.json.decode(data, type=list[_Meaning])
                dictionary = cls(tuple(map(_column_of_meaning, columns)))
        except (msgspec.MsgspecError, KeyError) as error:
            raise ValueError("this is no meaning of a dictionary") from error
        if dictionary.meaning != data:
            raise ValueError("a meaning of a dictionary is written in one way")
        return dictionary

    def find(self, name: str) -> Column | None:
        return self._by_name.get(name)

    def column(self, name: str) -> Column:
        """The column of exactly this name.

        Raises:
            InvalidRequestError: UNKNOWN_COLUMN, with the nearest names.
        """
        return _named(name, self._by_name)

    def find_events(self, name: str) -> EventTable | None:
        return next((table for table in self.events if table.name == name), None)

    def event_table(self, name: str) -> EventTable:
        """The event table of exactly this name.

        Raises:
            InvalidRequestError: UNKNOWN_EVENTS, with the nearest names.
        """
        table = self.find_events(name)
        if table is None:
            names = [each.name for each in self.events]
            instead = "" if names else phrase("The published data has no events.")
            raise InvalidRequestError(
                "UNKNOWN_EVENTS", events=shown(name), nearest=nearest(name, names), instead=instead
            )
        return table


def _named(name: str, columns: Mapping[str, Column]) -> Column:
    column = columns.get(name)
    if column is None:
        raise InvalidRequestError("UNKNOWN_COLUMN", column=shown(name), nearest=nearest(name, columns))
    return column


def nearest(word: str, names: Iterable[str], *, quote: bool = False) -> str:
    """The few names most like `word`, case aside, best first."""
    folded = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(word[: 2 * MAX_SHOWN_CHARACTERS].casefold(), folded, n=NEAREST, cutoff=0.0)
    return listed((folded[name] for name in close), quote=quote)


def folded(text: str) -> str:
    """A form common to all spellings of a word: letter case, accents, and _ or - against a space are ignored."""
    letters = (each for each in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(each))
    return " ".join("".join(letters).replace("_", " ").replace("-", " ").split())


def listed(names: Iterable[str], *, quote: bool = False) -> str:
    """Names for a sentence: all of them, or the first dozen and `...`. Codes may hold commas: quote them."""
    everything = [f"'{name}'" if quote else name for name in names]
    return ", ".join(everything[:MAX_LISTED] + ["..."] * (len(everything) > MAX_LISTED))


def shown(text: str) -> str:
    """A stranger's text for an error sentence: cut short, and nothing in it that a terminal would obey."""
    cut = text[:MAX_SHOWN_CHARACTERS] + "..." * (len(text) > MAX_SHOWN_CHARACTERS)
    return "".join(character if character.isprintable() else "?" for character in cut)


class _Meaning(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """One column of a meaning; its last part stands there only if a part of the people was asked."""

    name: str
    type: str
    multi_valued: bool
    minimum: int
    maximum: int
    values: tuple[str, ...]
    asked_of: tuple[str, int, int] | msgspec.UnsetType = msgspec.UNSET


def _meaning(column: Column) -> list[Any]:
    of_everybody = [
        column.name,
        column.type.name.lower(),
        column.multi_valued,
        column.minimum,
        column.maximum,
        column.values,
    ]
    part = column.asked_of
    if part is None:
        return of_everybody
    return [*of_everybody, [part.not_asked, part.one_in, part.design_effect_hundredths]]


def _column_of_meaning(meaning: _Meaning, hierarchy: Mapping[str, tuple[str, ...]] | None = None) -> Column:
    above = hierarchy or {}
    asked_of = None
    if meaning.asked_of is not msgspec.UNSET:
        not_asked, one_in, hundredths = meaning.asked_of
        asked_of = AskedOf(not_asked=not_asked, one_in=one_in, design_effect_hundredths=hundredths)
    return Column(
        name=meaning.name,
        type=ColumnType[meaning.type.upper()],
        description=meaning.name,
        multi_valued=meaning.multi_valued,
        codes=tuple(Code(value, value, under=above.get(value, ())) for value in meaning.values),
        minimum=meaning.minimum,
        maximum=meaning.maximum,
        asked_of=asked_of,
    )


class _MeaningOfEvents(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """One event table of a meaning."""

    name: str
    columns: list[_Meaning]


class _SecondForm(msgspec.Struct, forbid_unknown_fields=True):
    """A meaning with event tables, hierarchies, or ids of another form than Ontario's cards."""

    columns: list[_Meaning]
    events: list[_MeaningOfEvents]
    # For each column, as `column` or `table.column`: each code that stands under others, and those.
    hierarchies: dict[str, dict[str, tuple[str, ...]]]
    id_form: str
    linkage: Linkage


def _second_form(dictionary: Dictionary, columns: list[list[Any]]) -> dict[str, Any]:
    named = {column.name: column for column in dictionary.columns}
    named |= {f"{table.name}.{column.name}": column for table in dictionary.events for column in table.columns}
    return {
        "columns": columns,
        "events": [[table.name, [_meaning(column) for column in table.columns]] for table in dictionary.events],
        "hierarchies": {
            name: {code.value: code.under for code in column.codes if code.under}
            for name, column in named.items()
            if column.has_hierarchy
        },
        "id_form": dictionary.id_form,
        "linkage": dictionary.linkage,
    }


def _of_second_form(form: _SecondForm) -> Dictionary:
    return Dictionary(
        tuple(_column_of_meaning(each, form.hierarchies.get(each.name)) for each in form.columns),
        tuple(
            EventTable(
                table.name,
                table.name,
                tuple(
                    _column_of_meaning(each, form.hierarchies.get(f"{table.name}.{each.name}"))
                    for each in table.columns
                ),
            )
            for table in form.events
        ),
        id_form=form.id_form,
        linkage=form.linkage,
    )


def _name_rule() -> str:
    return phrase("it has lower-case letters, digits and _, begins with a letter, and is no word of criteria")


def _require_text(what: str, text: str, most: int) -> None:
    if not 1 <= len(text) <= most or not text.isprintable():
        raise ValueError(phrase("the {what} '{text}' is empty, too long or not printable", what=what, text=shown(text)))


def _require_french(what: str, text: str, english: str) -> None:
    """A text in French may hold its no-break spaces; without one the English text stands for it."""
    _require_text(what, text.replace("\u00a0", " ") or english, MAX_LABEL_CHARACTERS)
