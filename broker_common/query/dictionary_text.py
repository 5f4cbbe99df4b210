"""A dictionary for people and for programs: what the `dictionary` commands print."""

from __future__ import annotations

from typing import Any

from broker_common.query.dictionary import Column, ColumnType, Dictionary

__all__ = ["dictionary_json", "dictionary_text"]


def dictionary_json(dictionary: Dictionary) -> dict[str, Any]:
    """The columns with everything that is published about them."""
    return {"columns": [_column_json(column) for column in dictionary.columns]}


def _column_json(column: Column) -> dict[str, Any]:
    limits = {"minimum": column.minimum, "maximum": column.maximum} if column.type is ColumnType.INTEGER else {}
    return {
        "name": column.name,
        "type": column.type.name.lower(),
        "multi_valued": column.multi_valued,
        "description": column.description,
        "codes": [{"value": code.value, "label": code.label} for code in column.codes],
        **limits,
    }


def dictionary_text(dictionary: Dictionary) -> str:
    """The columns as a page to read."""
    return "\n\n".join(map(_column_text, dictionary.columns))


def _column_text(column: Column) -> str:
    several = ", one person may have several" if column.multi_valued else ""
    head = f"{column.name}  ({column.type.value}{several})\n    {column.description}"
    return "\n".join([head, *(f"      '{code.value}'  {code.label}" for code in column.codes)])
