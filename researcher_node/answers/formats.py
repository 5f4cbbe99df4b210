"""Answers for other programs: CSV, Markdown and Parquet with a row for each cell, JSON lines with an object for each question.

They hold the fields that `--json` has of a question, under the same names: nothing is computed or rounded here. All rows together
name the columns; text is UTF-8.
"""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_SEPARATOR = ";"
# The two figures of one cell are in every row; a signed note is for JSON, where its lines are in nobody's way.
_NOT_OF_A_ROW = frozenset({"cells", "sum", "checkpoint", "noisy_count", "margin_95"})
# A question may have a label as well.
_NAMES = {"label": "cell_label", "values": "cell_values"}
_WHOLE = ("noisy_count", "margin_95", "charged")


def tabulated(questions: Sequence[Mapping[str, Any]], form: str) -> bytes:
    """Questions, as `question_json` makes them, in one of the formats of `selection`; text is UTF-8."""
    if form == "jsonl":
        return "".join(f"{json.dumps(question, ensure_ascii=False)}\n" for question in questions).encode()
    return written(rows_of(questions), form, usual=("query_id",), numbers=dict.fromkeys(_WHOLE, int))


def rows_of(questions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each cell: what was asked, the cell's number from 1, its label and values, and what is told of it."""
    return [
        {name: _plain(value) for name, value in _question(question).items()}
        | {"cell": number}
        | {_NAMES.get(name, name): _plain(value) for name, value in cell.items()}
        for question in questions
        for number, cell in enumerate(question["cells"], 1)
    ]


def _question(question: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in question.items() if name not in _NOT_OF_A_ROW}


def _plain(value: Any) -> str | int | float | bool | None:
    """One value; several of a list are joined, anything deeper is JSON."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return _SEPARATOR.join(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


_SQL_TYPES = {int: "BIGINT", bool: "BOOLEAN", float: "DOUBLE"}

Row = Mapping[str, Any]


def written(rows: Sequence[Row], form: str, *, usual: Sequence[str], numbers: Mapping[str, type]) -> bytes:
    """The rows as `csv`, `md` or `parquet`.

    `usual` are the columns of a table without rows. `numbers` are columns that hold numbers also where none has come yet: or a
    file without answers would have another type than one with them.
    """
    names = list(dict.fromkeys(name for row in rows for name in row)) or list(usual)
    match form:
        case "csv":
            return _csv(rows, names).encode()
        case "md":
            return _markdown(rows, names).encode()
        case "parquet":
            return _parquet(rows, names, numbers)
        case _:
            raise ValueError("rows have no such format")


def _csv(rows: Sequence[Row], names: Sequence[str]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _markdown(rows: Sequence[Row], names: Sequence[str]) -> str:
    lines = [names, ["---"] * len(names), *([_cell(row.get(name)) for name in names] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else str(value).replace("\\", "\\\\").replace("|", "\\|").replace("\n", "<br>")


def _parquet(rows: Sequence[Row], names: Sequence[str], numbers: Mapping[str, type]) -> bytes:
    """Written by DuckDB, which also reads sources; a column of several types is text."""
    import duckdb

    kinds = {name: _sql_type([row.get(name) for row in rows], numbers.get(name, str)) for name in names}
    named = ", ".join(f'"{name.replace(chr(34), chr(34) * 2)}" {kind}' for name, kind in kinds.items())
    with tempfile.TemporaryDirectory() as folder, duckdb.connect(":memory:") as engine:
        file = Path(folder, "rows.parquet")
        engine.execute(f"create table written ({named})")
        if rows:
            engine.executemany(
                f"insert into written values ({', '.join('?' * len(names))})",  # noqa: S608 - question marks alone
                [[row.get(name) for name in names] for row in rows],
            )
        engine.execute("copy written to $file (format parquet)", {"file": str(file)})
        return file.read_bytes()


def _sql_type(values: Sequence[Any], empty: type) -> str:
    kinds = {type(value) for value in values if value is not None} or {empty}
    return _SQL_TYPES.get(kinds.pop(), "VARCHAR") if len(kinds) == 1 else "VARCHAR"
