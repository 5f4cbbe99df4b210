"""Suggestions for a value that a column cannot hold, if the value itself suggests one.

Each `instead_of_...` gives that detail of an error (`broker_common.errors`); if it is empty, the error has the hint of its row.
"""

from __future__ import annotations

import re
from datetime import date

from broker_common.language import phrase
from broker_common.query.canonical import literal_text
from broker_common.query.condition import Literal
from broker_common.query.dictionary import Column, ColumnType, Dictionary, EventTable, folded, listed, shown

_YEAR_FIRST = re.compile(r"([0-9]{4})[-/. ]([0-9]{1,2})[-/. ]([0-9]{1,2})|([0-9]{4})([0-9]{2})([0-9]{2})")
_DAY_FIRST = re.compile(r"([0-9]{1,2})[-/. ]([0-9]{1,2})[-/. ]([0-9]{4})")
_YEAR = re.compile(r"[0-9]{4}")
_LAST_MONTH = 12


def example(column: Column) -> str:
    """A comparison with this column that can be read."""
    if column.type is ColumnType.CODE:
        return f"{column.name} = {literal_text(column.values[0])}"
    return f"{column.name} >= {1 if column.type is ColumnType.INTEGER else literal_text('2010-01-01')}"


def to_type(text: str) -> str:
    """The suggested text, if all of it is known."""
    return phrase("Type: {text}", text=text)


def to_type_of_events(instead: str, table: EventTable) -> str:
    """The same, where a comparison is to be typed that is one of events."""
    text = instead.removeprefix("Type: ")
    return instead if text == instead else to_type(f"any({table.name} where {text})")


def spelled_otherwise(column: Column, value: str) -> str | None:
    """The published code of which `value` is another spelling, or the label; None if there is none, or are several."""
    found = column.spellings.get(folded(value), ())
    return found[0] if len(found) == 1 else None


def instead_of_code(column: Column, value: str) -> str:
    """For a code, or a value of a language variable, that is not published."""
    found = spelled_otherwise(column, value)
    if found is not None:
        return phrase("Type it letter for letter: {code}", code=literal_text(found))
    if len(value) > 1 and value.endswith("%") and column.beginning(value[:-1]):
        return phrase(
            "Codes that begin so are named with like: {text}", text=f"{column.name} like {literal_text(value)}"
        )
    return ""


def instead_of_variable(name: str, dictionary: Dictionary) -> str:
    """For a name that is no variable, and may be a value of one."""
    for column in dictionary.columns:
        value = spelled_otherwise(column, name)
        if value is not None:
            return to_type(f"{column.name} = {literal_text(value)}")
    return ""


def instead_of_prefix(column: Column, prefix: str) -> str:
    """For `like` with a beginning that no published code has."""
    return phrase(
        "No published code of '{column}' begins with {prefix}. The nearest are {nearest}; 'tripartite researcher dictionary "
        "{column}' lists all.",
        column=column.name,
        prefix=literal_text(shown(prefix)),
        nearest=column.nearest(prefix),
    )


def instead_of_long_list(column: Column, prefix: str) -> str:
    """For `like` with more codes than may be named: one that stands above them, if there is one, or a longer beginning."""
    if prefix in column.positions and len(column.descendants(prefix)) > 1:
        return to_type(f"{column.name} under {literal_text(prefix)}")
    if column.has_hierarchy:
        return phrase("Name a code that stands above them: {text}", text=f"{column.name} under '...'")
    return phrase("Type a longer beginning, or split the study into several questions.")


def instead_of_pattern(column: Column, pattern: str) -> str:
    """For `like` with a pattern that is not the beginning of a code."""
    if pattern == "%":
        return to_type(f"{column.name} is not null")
    if "%" not in pattern and pattern in column.positions:
        return to_type(f"{column.name} = {literal_text(pattern)}")
    word = pattern.strip("%")
    found = [code.value for code in column.codes if word and folded(word) in folded(f"{code.value} {code.label}")]
    if not found:
        return ""
    return phrase("Name the codes: {codes}", codes=f"{column.name} in ({listed(found, quote=True)})")


def instead_of_decimal(text: str) -> str:
    """For a number with decimals where whole numbers are expected."""
    whole, _, decimals = text.partition(".")
    if not whole.removeprefix("-").isdecimal() or len(whole) > len(str(2**63)):
        return ""
    low = int(whole) - whole.startswith("-")
    if not decimals.strip("0"):
        return phrase("Type it without decimals: {number}", number=str(int(whole)))
    return phrase(
        "Type a whole number: above {decimal} is >= {high}, below it is <= {low}.",
        decimal=shown(text),
        low=str(low),
        high=str(low + 1),
    )


def instead_of_literal(column: Column, literal: Literal) -> str:
    """For a number, a text or a date in a column that holds something else."""
    match column.type, literal:
        case ColumnType.INTEGER, str() if re.fullmatch(r"-?[0-9]{1,18}", literal.strip()):
            return phrase("Whole numbers stand without quotes. Type: {number}", number=literal.strip())
        case ColumnType.DATE, int():
            return instead_of_date(str(literal))
        case ColumnType.CODE, _:
            return phrase("Type one of its codes: {codes}", codes=listed(column.values, quote=True))
        case _:
            return ""


def instead_of_date(text: str) -> str:
    """For what is not written as a date, and may be meant as one."""
    meant = _meant_date(text.strip())
    if meant is not None:
        return phrase("Dates are written year, month, day. Type: {date}", date=f"'{meant.isoformat()}'")
    if _YEAR.fullmatch(text):
        return phrase(
            "Type a whole date, or the year as a range: between {first} and {last}",
            first=f"'{text}-01-01'",
            last=f"'{text}-12-31'",
        )
    return ""


def _meant_date(text: str) -> date | None:
    """The date that is surely meant; None where day and month may have changed places."""
    if found := _YEAR_FIRST.fullmatch(text):
        year, month, day = (int(each) for each in found.groups() if each)
    elif found := _DAY_FIRST.fullmatch(text):
        first, second, year = map(int, found.groups())
        if first <= _LAST_MONTH and second <= _LAST_MONTH and first != second:
            return None
        day, month = (first, second) if second <= _LAST_MONTH else (second, first)
    else:
        return None
    try:
        return date(year, month, day)
    except ValueError:
        return None
