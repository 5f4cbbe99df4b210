"""Answers for other programs: CSV, Markdown and Parquet with a row for each cell, JSON lines with an object for each question.

What they hold is what `--json` tells of a question, under the same names: nothing is reckoned or rounded here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from researcher_node.answers.rows import written

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
