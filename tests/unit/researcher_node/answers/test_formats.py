"""Answers as files for other programs: the same figures in each, whatever stands in a text."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from researcher_node.answers.formats import rows_of, tabulated

AWKWARD = 'a "quoted", comma; pipe | back\\slash, é'


def question(**changes: Any) -> dict[str, Any]:
    """A question as `--json` tells it, with two cells that are answered."""
    cells = [
        {"label": "French", "values": ["French"], "noisy_count": -3, "margin_95": 114},
        {"label": "rest", "values": None, "noisy_count": 120, "margin_95": 114},
    ]
    return {
        "query_id": "ab" * 16,
        "label": AWKWARD,
        "where": "age >= 65",
        "charged": 559_241,
        "checkpoint": "a\nnote",
        "cells": cells,
        **changes,
    }


ANSWERED = question()
PENDING = question(
    charged=None,
    cells=[{"label": "all", "values": None, "noisy_count": None, "margin_95": 90}],
    noisy_count=None,
    margin_95=90,
)


def read(data: bytes, form: str, folder: Path) -> list[dict[str, Any]]:
    """Content of a file in another program; of text alone, a missing value is the empty text."""
    if form == "csv":
        return list(csv.DictReader(io.StringIO(data.decode())))
    file = folder / "answers.parquet"
    file.write_bytes(data)
    with duckdb.connect() as engine:
        found = engine.execute("select * from read_parquet(?)", [str(file)])
        names = [column[0] for column in found.description or []]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def test_a_row_is_one_cell_with_all_that_was_asked() -> None:
    """Long and tidy: the question's own label beside the cell's, several values of a cell joined."""
    two = question(cells=[{"label": "both", "values": ["English", "French"], "noisy_count": 1, "margin_95": 90}])
    rows = rows_of([ANSWERED, two])
    assert [(row["cell"], row["cell_label"], row["cell_values"], row["noisy_count"]) for row in rows] == [
        (1, "French", "French", -3),
        (2, "rest", None, 120),
        (1, "both", "English;French", 1),
    ]
    assert {row["label"] for row in rows} == {AWKWARD}
    assert not any("checkpoint" in row for row in rows)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_table_is_read_back_as_it_was_written(form: str, tmp_path: Path) -> None:
    """Whole numbers stay whole numbers in Parquet, also in a column where none has come yet."""
    for questions in ([ANSWERED, PENDING], [PENDING]):
        rows = rows_of(questions)
        found = read(tabulated(questions, form), form, tmp_path)
        if form == "csv":
            rows = [{name: "" if value is None else str(value) for name, value in row.items()} for row in rows]
        assert found == rows
    if form == "parquet":
        with duckdb.connect() as engine:
            described = engine.execute("describe select * from read_parquet(?)", [str(tmp_path / "answers.parquet")])
            types = {row[0]: row[1] for row in described.fetchall()}
        assert {types[name] for name in ("noisy_count", "margin_95", "charged", "cell")} == {"BIGINT"}


def test_json_lines_are_the_objects_that_json_has() -> None:
    """One a line, unchanged."""
    lines = tabulated([ANSWERED, PENDING], "jsonl").decode().splitlines()
    assert [json.loads(line) for line in lines] == [ANSWERED, PENDING]


def test_a_bar_in_a_text_is_no_new_column_in_markdown() -> None:
    """Every row has as many columns as the head."""
    lines = tabulated([ANSWERED], "md").decode().splitlines()
    assert {line.replace("\\\\", "").replace("\\|", "").count("|") for line in lines} == {10}
    assert "pipe \\| back\\\\slash" in lines[2]


@pytest.mark.parametrize("form", ["csv", "jsonl", "md", "parquet"])
def test_no_question_is_a_table_without_rows(form: str, tmp_path: Path) -> None:
    """Another program reads it without an error."""
    data = tabulated([], form)
    if form == "parquet":
        assert read(data, form, tmp_path) == []
    else:
        assert data.decode().splitlines()[2:] == []
