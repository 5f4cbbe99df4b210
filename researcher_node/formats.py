"""Answers for other programs: CSV, Markdown and Parquet with a row for each cell, JSON lines with an object for each question.

What they hold is what `--json` tells of a question, under the same names: nothing is reckoned or rounded here.
"""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

_SEPARATOR = ";"
# The two figures of one cell are in every row; a signed note is for JSON, where its lines are in nobody's way.
_NOT_OF_A_ROW = frozenset({"cells", "sum", "checkpoint", "noisy_count", "margin_95"})
# A question may have a label as well.
_NAMES = {"label": "cell_label", "values": "cell_values"}
# Also where none has come yet, or a file of pending questions would have another type than one of answers.
_WHOLE = frozenset({"noisy_count", "margin_95", "charged"})


def tabulated(questions: Sequence[Mapping[str, Any]], form: str) -> bytes:
    """Questions, as `question_json` makes them, in one of the formats of `selection`; text is UTF-8."""
    if form == "jsonl":
        return "".join(f"{json.dumps(question, ensure_ascii=False)}\n" for question in questions).encode()
    rows = rows_of(questions)
    if form == "parquet":
        return _parquet(rows)
    return (_csv(rows) if form == "csv" else _markdown(rows)).encode()


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


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Every name in any row: only counts of a part have scaled ones beside them."""
    return list(dict.fromkeys(name for row in rows for name in row)) or ["query_id"]


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, _names(rows), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    head = _names(rows)
    lines = [head, ["---"] * len(head), *([_cell(row.get(name)) for name in head] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(value: Any) -> str:
    return "" if value is None else str(value).replace("\\", "\\\\").replace("|", "\\|").replace("\n", "<br>")


def _parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """By DuckDB, as sources are read: whole numbers as BIGINT, what is true or false as BOOLEAN, all else as text."""
    columns = {name: _sql_type(name, [row.get(name) for row in rows]) for name in _names(rows)}
    named = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
    with tempfile.TemporaryDirectory() as folder, duckdb.connect(":memory:") as engine:
        file = Path(folder, "answers.parquet")
        engine.execute(f"create table answers ({named})")
        if rows:
            places = ", ".join("?" * len(columns))
            values = [[row.get(name) for name in columns] for row in rows]
            engine.executemany(f"insert into answers values ({places})", values)  # noqa: S608 - no text of ours but question marks
        engine.execute("copy answers to $file (format parquet)", {"file": str(file)})
        return file.read_bytes()


def _sql_type(name: str, values: Sequence[Any]) -> str:
    kinds = {type(value) for value in values if value is not None} or ({int} if name in _WHOLE else {str})
    names = {int: "BIGINT", bool: "BOOLEAN", float: "DOUBLE"}
    return names.get(kinds.pop(), "VARCHAR") if len(kinds) == 1 else "VARCHAR"
