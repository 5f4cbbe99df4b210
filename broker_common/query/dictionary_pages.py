"""Dictionaries as people and programs read them: all of one, one column, one branch of its codes, or wherever a word stands.

An object for programs is whole. A page for people is in their language and of a length that can be read: of a hierarchy as many
levels as fit, of a long list its beginning, with a sentence that says how to see more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from broker_common.errors import InvalidRequestError
from broker_common.language import Language, language, phrase
from broker_common.query.dictionary import (
    AskedOf,
    Code,
    Column,
    ColumnType,
    Dictionary,
    EventTable,
    folded,
    nearest,
    shown,
)

MOST_LINES_EACH = 100
"""Codes of each column on a page of several."""
MOST_LINES = 500
"""Codes on a page of one column."""

_INDENT = "  "
_DESCRIPTION_INDENT = 4 * " "
_CODE_INDENT = 6 * " "


@dataclass(frozen=True, slots=True)
class Part:
    """A column, and those of its codes that are shown."""

    column: Column
    codes: Sequence[Code]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The shown part of a dictionary: columns, and event tables with those of their columns."""

    dictionary: Dictionary
    columns: Sequence[Part]
    events: Sequence[tuple[EventTable, Sequence[Part]]]

    @property
    def parts(self) -> Sequence[Part]:
        return [*self.columns, *(part for _, parts in self.events for part in parts)]


def excerpt(
    dictionary: Dictionary, name: str | None = None, word: str | None = None, under: str | None = None
) -> Excerpt:
    """The part of a dictionary with this column or event table (`table.column` for a column of one), this word, and under this code."""
    tables = dictionary.events
    columns: Sequence[Column] = dictionary.columns
    if name is not None:
        wanted, _, of_events = name.strip().lower().partition(".")
        columns = [column for column in columns if column.name == wanted and not of_events]
        tables = tuple(found for table in tables if table.name == wanted and (found := _only(table, of_events)))
    return Excerpt(
        dictionary,
        _parts(columns, word, under),
        [
            (table, parts)
            for table in tables
            if (parts := _parts(table.columns, _without(table, word), under)) or not (word or under)
        ],
    )


def names_in(dictionary: Dictionary) -> Sequence[str]:
    """Names that can be looked up: columns, event tables, and columns of event tables."""
    of_events = [f"{table.name}.{column.name}" for table in dictionary.events for column in table.columns]
    return [*dictionary.names, *(table.name for table in dictionary.events), *of_events]


def looked_up(dictionary: Dictionary, name: str | None, word: str | None, under: str | None) -> Excerpt:
    """The excerpt, if there is such a column or event table, and such a code.

    Raises:
        InvalidRequestError: UNKNOWN_COLUMN or INVALID_VALUE.
    """
    if name is not None and not excerpt(dictionary, name).parts:
        near = nearest(name, names_in(dictionary))
        instead = phrase("Did you mean: {nearest}? --search WORD looks through names, codes and labels.", nearest=near)
        raise InvalidRequestError("UNKNOWN_COLUMN", column=shown(name), nearest=near, instead=instead)
    if under is not None and not excerpt(dictionary, name, None, under).parts:
        raise unknown_code([excerpt(dictionary, name)], under)
    return excerpt(dictionary, name, word, under)


def unknown_code(found: Sequence[Excerpt], under: str) -> InvalidRequestError:
    """The error for a code to look under that none of these columns has."""
    values = [value for each in found for part in each.parts for value in part.column.values]
    return InvalidRequestError(
        "INVALID_VALUE",
        name="--under",
        problem=phrase("names '{code}', which is no code of a column that is shown", code=shown(under)),
        remedy=phrase("Did you mean: {nearest}?", nearest=nearest(under, values, quote=True)),
    )


def _only(table: EventTable, column: str) -> EventTable | None:
    """The table, with one of its columns if one is named; None if it has no such column."""
    columns = tuple(each for each in table.columns if each.name == column)
    return table if not column else replace(table, columns=columns) if columns else None


def _without(table: EventTable, word: str | None) -> str | None:
    """The word to look for in the columns of a table; none if the table itself has it."""
    if word is None or _has_all(f"{table.name} {table.description} {table.description_fr}", folded(word).split()):
        return None
    return word


def _parts(columns: Sequence[Column], word: str | None, under: str | None) -> Sequence[Part]:
    found = []
    for column in columns:
        codes: Sequence[Code] = column.codes
        if under is not None:
            below = column.descendants(under) if under in column.positions else ()
            codes = [code for code in codes if code.value in below]
        if word is not None and not _has_all(_words_of(column), folded(word).split()):
            codes = [
                code for code in codes if _has_all(f"{code.value} {code.label} {code.label_fr}", folded(word).split())
            ]
            if not codes:
                continue
        if codes or under is None:
            found.append(Part(column, codes))
    return found


def _words_of(column: Column) -> str:
    return f"{column.name} {column.description} {column.description_fr}"


def _has_all(text: str, words: Sequence[str]) -> bool:
    text = folded(text)
    return all(word in text for word in words)


# --- for programs ----------------------------------------------------------------------------------------------------


def excerpt_json(found: Excerpt) -> dict[str, Any]:
    """An excerpt, with what the dictionary says of itself."""
    dictionary = found.dictionary
    return {
        "agency": dictionary.agency,
        "version": dictionary.version,
        "id_form": dictionary.id_form,
        "linkage": dictionary.linkage,
        "hash": dictionary.hash.hex(),
        "columns": [_part_json(part) for part in found.columns],
        "events": [
            {
                "name": table.name,
                "description": table.description,
                "description_fr": table.description_fr,
                "columns": [_part_json(part) for part in parts],
            }
            for table, parts in found.events
        ],
    }


def asked_of_json(part: AskedOf) -> dict[str, Any]:
    """The part of the households that were asked, what a count of them is multiplied by for everybody, and the design effect."""
    return {"share": float(part.share), "weight": part.weight, "design_effect": float(part.design_effect)}


def _part_json(part: Part) -> dict[str, Any]:
    column = part.column
    limits = {"minimum": column.minimum, "maximum": column.maximum} if column.type is ColumnType.INTEGER else {}
    of = column.asked_of
    asked = {} if of is None else {"asked_of": {"not_asked": of.not_asked, **asked_of_json(of)}}
    return {
        "name": column.name,
        "type": column.type.name.lower(),
        "multi_valued": column.multi_valued,
        "description": column.description,
        "description_fr": column.description_fr,
        "codes": [
            {"value": code.value, "label": code.label, "label_fr": code.label_fr, "under": list(code.under)}
            for code in part.codes
        ],
        **limits,
        **asked,
    }


# --- for people ------------------------------------------------------------------------------------------------------


def dictionary_text(dictionary: Dictionary, t: Language | None = None) -> str:
    """The whole dictionary as a page; in English, if no language is given."""
    return excerpt_text(excerpt(dictionary), t or language("en"))


def excerpt_text(found: Excerpt, t: Language) -> str:
    """An excerpt as a page."""
    most = MOST_LINES if len(found.parts) == 1 else MOST_LINES_EACH
    blocks = ["\n".join(_part_lines(part, "", t, most)) for part in found.columns]
    for table, parts in found.events:
        head = t("{name}  (events, any number of one person)", name=table.name)
        blocks.append(f"{head}\n{_DESCRIPTION_INDENT}{_in(t, table.description, table.description_fr)}")
        for part in parts:
            lines = _part_lines(part, f"{table.name}.", t, most)
            blocks.append("\n".join(_INDENT + line for line in lines))
    return "\n\n".join(blocks)


def _part_lines(part: Part, prefix: str, t: Language, most: int) -> Iterator[str]:
    column = part.column
    yield f"{column.name}  ({', '.join(kinds(column, t))})"
    yield f"{_DESCRIPTION_INDENT}{_in(t, column.description, column.description_fr)}"
    shown_codes, hidden = _lines(part.codes, most)
    for depth, code in shown_codes:
        yield f"{_CODE_INDENT}{depth * _INDENT}'{code.value}'  {_in(t, code.label, code.label_fr)}"
    if hidden and any(code.under for code in part.codes):
        yield _DESCRIPTION_INDENT + t(
            "{hidden:,} more codes are not shown: add {name} and --under CODE for those under one, or --search WORD.",
            hidden=hidden,
            name=prefix + column.name,
        )
    elif hidden:
        yield _DESCRIPTION_INDENT + t(
            "{hidden:,} more codes are not shown: add {name} and --search WORD, or --json for all of them.",
            hidden=hidden,
            name=prefix + column.name,
        )
    if column.asked_of is not None:
        yield _DESCRIPTION_INDENT + t(
            "A count times {weight} is one of everybody; design effect {design_effect:g}.",
            weight=column.asked_of.weight,
            design_effect=float(column.asked_of.design_effect),
        )


def kinds(column: Column, t: Language) -> Iterator[str]:
    """Type of a column, in words."""
    if column.type is ColumnType.INTEGER:
        yield t("whole numbers from {least} to {most}", least=str(column.minimum), most=str(column.maximum))
    else:
        yield t(column.type.value)
    if column.multi_valued:
        yield t("one person may have several")
    if column.asked_of is not None:
        yield t("asked of one household in {one_in}", one_in=column.asked_of.one_in)


def _in(t: Language, english: str, french: str) -> str:
    """An agency's text, in the reader's language if the agency wrote it."""
    return french if t.code == "fr" and french else english


def _lines(codes: Sequence[Code], most: int) -> tuple[Sequence[tuple[int, Code]], int]:
    """Codes with their depth, as many levels as fit, or the beginning of the first level; and how many are left out."""
    values = {code.value for code in codes}
    children: dict[str, list[Code]] = {}
    roots = []
    for code in codes:
        above = [parent for parent in code.under if parent in values]
        for parent in above:
            children.setdefault(parent, []).append(code)
        if not above:
            roots.append(code)
    if len(roots) > most:
        return [(0, code) for code in roots[:most]], len(codes) - most
    lines = list(_branches(roots, children, _deepest(roots, children, most)))
    return lines, len(codes) - len({code.value for _, code in lines})


def _deepest(roots: Sequence[Code], children: Mapping[str, Sequence[Code]], most: int) -> int:
    """How many levels below the first one fit into so many lines."""
    depth, level, lines = 0, roots, len(roots)
    while level:
        lines += sum(len(children.get(code.value, ())) for code in level)
        if lines > most:
            break
        depth += 1
        level = [child for code in level for child in children.get(code.value, ())]
    return depth


def _branches(
    codes: Sequence[Code], children: Mapping[str, Sequence[Code]], deepest: int, depth: int = 0
) -> Iterator[tuple[int, Code]]:
    for code in codes:
        yield depth, code
        if depth < deepest:
            yield from _branches(children.get(code.value, ()), children, deepest, depth + 1)


def levels(column: Column) -> int:
    """How many codes stand one under the other at most."""
    by_value = {code.value: code for code in column.codes}
    found: dict[str, int] = {}
    waiting = list(by_value)
    while waiting:
        value = waiting[-1]
        above = [parent for parent in by_value[value].under if parent not in found]
        if above:
            waiting += above
        else:
            found[value] = 1 + max((found[parent] for parent in by_value[value].under), default=0)
            waiting.pop()
    return max(found.values(), default=0)
