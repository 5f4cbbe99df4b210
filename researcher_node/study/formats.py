"""A report in each of its formats; three of them are a table with a row for each number.

The table is tidy: a row is one count or one estimate, the groups are columns. Where an interval tells nothing its ends are empty.
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

from researcher_node.estimates import Interval
from researcher_node.study.design import Study
from researcher_node.study.page import report_page
from researcher_node.study.report import group_text, report_json, report_text
from researcher_node.study.results import Counted, Finding, Results, finite

_NUMBERS = ("value", "noise_low", "noise_high", "sampling_low", "sampling_high")
_FIRST, _LAST = ("kind", "cell"), ("reference", "event", *_NUMBERS, "queries")


def rows_of(found: Results) -> list[dict[str, Any]]:
    """Every count and every estimate, all with the same columns."""
    rows = [_counted_row(found.study, each) for each in found.counted]
    return rows + [_finding_row(found.study, each) for each in found.findings]


def _counted_row(study: Study, counted: Counted) -> dict[str, Any]:
    standing = counted.standing
    numbers = (counted.count, counted.count - counted.margin, counted.count + counted.margin, None, None)
    return _row(
        study,
        ("count", counted.cell),
        standing.ask.group,
        (None, standing.ask.event or None),
        numbers,
        "" if standing.attempt is None else standing.attempt.query,
    )


def _finding_row(study: Study, finding: Finding) -> dict[str, Any]:
    row, estimate = finding.row, finding.estimate
    numbers: tuple[float | None, ...] = (None,) * len(_NUMBERS)
    if estimate is not None:
        numbers = (estimate.value, *_ends(estimate.noise_only), *_ends(estimate.with_sampling))
    reference = None if row.reference is None else group_text(row.reference)
    return _row(
        study, (row.kind, row.part), row.group, (reference, row.event or None), numbers, ";".join(finding.queries)
    )


def _row(
    study: Study,
    what: Sequence[str],
    group: Sequence[str | None],
    compared: Sequence[str | None],
    numbers: Sequence[float | None],
    queries: str,
) -> dict[str, Any]:
    groups = {_column(split): name for (split, _), name in zip(study.splits, group, strict=True)}
    last = dict(zip(_LAST, (*compared, *map(finite, numbers), queries), strict=True))
    return {**dict(zip(_FIRST, what, strict=True)), **groups, **last}


def _column(split: str) -> str:
    """An entry of `by` as a column, whatever it is called."""
    return f"by_{split}" if split in {*_FIRST, *_LAST} else split


def _ends(interval: Interval) -> tuple[float | None, float | None]:
    return (interval.low, interval.high) if interval.told else (None, None)


def rendered(found: Results, form: str) -> bytes:
    """The report in one of the formats of `study report`; text is UTF-8."""
    rows = rows_of(found)
    match form:
        case "text":
            return f"{report_text(found)}\n".encode()
        case "json":
            return f"{json.dumps(report_json(found), ensure_ascii=False)}\n".encode()
        case "html":
            return report_page(found).encode()
        case "parquet":
            return _parquet(rows)
        case _:
            return (_csv(rows) if form == "csv" else _markdown(rows)).encode()


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else list(_FIRST + _LAST), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    head = list(rows[0]) if rows else list(_FIRST + _LAST)
    lines = [head, ["---"] * len(head), *([_markdown_cell(row[name]) for name in head] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _markdown_cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else str(value).replace("\\", "\\\\").replace("|", "\\|")


def _parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """By DuckDB: numbers as DOUBLE, all else as text."""
    head = list(rows[0]) if rows else list(_FIRST + _LAST)
    named = ", ".join(
        f'"{name.replace(chr(34), chr(34) * 2)}" {"DOUBLE" if name in _NUMBERS else "VARCHAR"}' for name in head
    )
    with tempfile.TemporaryDirectory() as folder, duckdb.connect(":memory:") as engine:
        file = Path(folder, "study.parquet")
        engine.execute(f"create table study ({named})")
        if rows:
            engine.executemany(
                f"insert into study values ({', '.join('?' * len(head))})",  # noqa: S608 - question marks alone
                [list(row.values()) for row in rows],
            )
        engine.execute("copy study to $file (format parquet)", {"file": str(file)})
        return file.read_bytes()
