"""A rehearsal as people and programs read it: the report, and beside every number the truth about the made-up people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker_common.language import Language, language_of_environment
from researcher_node.estimates.tables import Interval
from researcher_node.study import texts
from researcher_node.study.rehearsal import true_value
from researcher_node.study.report import (
    aligned,
    counts_heading,
    group_text,
    heading,
    number_text,
    report_json,
    report_text,
    sections,
    value_text,
)
from researcher_node.study.results import Finding, Results

Truth = Sequence[Sequence[int]]


def rehearsal_json(found: Results, truth: Truth) -> dict[str, Any]:
    """The report's object, with `truth` beside each number, and how many intervals hold it."""
    report = report_json(found)
    for count, exact in zip(report["counts"], _exact(found, truth), strict=True):
        count["truth"] = exact
    for estimate, finding in zip(report["estimates"], found.findings, strict=True):
        estimate["truth"] = true_value(finding.row, truth)
    held, told = _held(found, truth)
    return {**report, "noise_only_intervals": told, "noise_only_intervals_that_hold": held}


def rehearsal_text(found: Results, truth: Truth) -> str:
    """The report, then what is true."""
    t = language_of_environment()
    parts = [report_text(found), t(texts.TRUTH), _counts_table(found, truth, t)]
    parts += [_estimates_table(kind, findings, truth, t) for (kind, _), findings in sections(found).items()]
    held, told = _held(found, truth)
    if told:
        parts.append(t(texts.TRUTH_HELD, held=held, told=told))
    return "\n\n".join(parts)


def _counts_table(found: Results, truth: Truth, t: Language) -> str:
    """A table for each event that people were asked about with and without."""
    by_event: dict[str, list[list[str]]] = {}
    for each, exact in zip(found.counted, _exact(found, truth), strict=True):
        ask = each.standing.ask
        by_event.setdefault(ask.event, []).append([*ask.group, each.cell, t.number(each.count), t.number(exact)])
    splits = [name for name, _ in found.study.splits]
    heads = [*splits, t(texts.CELL), t(texts.ESTIMATE), t(texts.TRUE)]
    return "\n\n".join(
        "\n".join([counts_heading(event, t), *aligned([heads, *lines], len(splits) + 1)])
        for event, lines in by_event.items()
    )


def _estimates_table(kind: str, findings: Sequence[Finding], truth: Truth, t: Language) -> str:
    heads = [t(texts.GROUP), t(texts.ESTIMATE), t(texts.TRUE), t(texts.NOISE_ONLY), t(texts.WITH_SAMPLING)]
    lines = [_estimate_line(kind, finding, truth, t) for finding in findings]
    return "\n".join([heading(kind, findings[0].row, t), *aligned([heads, *lines], 1)])


def _estimate_line(kind: str, finding: Finding, truth: Truth, t: Language) -> list[str]:
    row, estimate = finding.row, finding.estimate
    true = true_value(row, truth)
    shown = "-" if true is None else number_text(kind, true, t)
    intervals = ("", "") if estimate is None else (estimate.noise_only, estimate.with_sampling)
    words = [t(_word(each, true)) if isinstance(each, Interval) else "" for each in intervals]
    return [group_text(row.group), value_text(kind, estimate, t), shown, *words]


def _word(interval: Interval, true: float | None) -> str:
    if true is None or not interval.told:
        return texts.UNTOLD
    return texts.HOLDS if _holds(interval, true) else texts.MISSES


def _holds(interval: Interval, true: float) -> bool:
    return interval.low <= true <= interval.high


def _held(found: Results, truth: Truth) -> tuple[int, int]:
    """How many of the intervals for noise alone hold the truth; those that tell nothing do."""
    pairs = [
        (finding.estimate.noise_only, true)
        for finding in found.findings
        if finding.estimate is not None and (true := true_value(finding.row, truth)) is not None
    ]
    return sum(_holds(interval, true) for interval, true in pairs), len(pairs)


def _exact(found: Results, truth: Truth) -> list[int]:
    """Exact values of every count, in their order; where some people were asked, scaled as the counts are."""
    part = found.study.part
    weight = 1 if part is None else part.weight
    return [weight * number for cells in truth for number in cells]
