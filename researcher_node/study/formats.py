"""A report in each of its formats; three of them are a table with a row for each number.

The table is tidy: a row is one count or one estimate, the groups are columns. Where an interval tells nothing its ends are empty.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from researcher_node.answers.formats import written
from researcher_node.estimates.tables import Interval
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
    match form:
        case "text":
            return f"{report_text(found)}\n".encode()
        case "json":
            return f"{json.dumps(report_json(found), ensure_ascii=False)}\n".encode()
        case "html":
            return report_page(found).encode()
        case _:
            numbers = dict.fromkeys(_NUMBERS, float)
            return written(rows_of(found), form, usual=(*_FIRST, *_LAST), numbers=numbers)
