"""A study's numbers as people and programs read them: a text for a terminal, and one object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker_common.cli import instant
from broker_common.language import Language, language_of_environment, said
from broker_common.privacy.accounting import epsilon_text
from researcher_node.answers.counted import linked_json, linked_sentences
from researcher_node.estimates.tables import Estimate, Interval
from researcher_node.study import texts
from researcher_node.study.design import Row, Study
from researcher_node.study.results import Counted, Finding, Results, finite
from researcher_node.study.running import Standing

# Kinds whose numbers are shares, shown in percent.
SHARES = frozenset({"share", "difference", "standardised_rate"})


# --- for programs ----------------------------------------------------------------------------------------------------


def report_json(found: Results) -> dict[str, Any]:
    """Everything, as one object."""
    study = found.study
    return {
        "study": study.title,
        "key": study.key,
        "scale": found.scale,
        "epsilon": epsilon_text(found.scale),
        "question": study.question.text,
        "project": study.project,
        "cells": list(study.cells),
        "groups": {name: list(groups) for name, groups in study.splits},
        "counts": [_counted_json(study, each) for each in found.counted],
        "estimates": [_finding_json(study, each) for each in found.findings],
        "questions": [standing_json(study, each) for each in found.standings],
        "answered": len(found.standings) - len(found.missing),
        "missing": len(found.missing),
        "charged": found.charged,
        "linked": linked_json(found.policy),
        "notes": notes(found, Language("en", {})),
    }


def standing_json(study: Study, standing: Standing) -> dict[str, Any]:
    """One question of the study, with its query and what it was charged: the receipt lies in the store of answers."""
    asked, attempt = standing.asked, standing.attempt
    return {
        "group": _group_json(study, standing.ask.group),
        "event": standing.ask.event or None,
        "where": None if asked is None else asked.where,
        "state": "not asked" if asked is None else asked.state,
        "query_id": None if attempt is None else attempt.query,
        "asked": None if asked is None else instant(asked.asked_ms),
        "charged": None if asked is None else asked.charged,
        "reused": attempt is not None and attempt.reused,
    }


def _counted_json(study: Study, counted: Counted) -> dict[str, Any]:
    standing = counted.standing
    return {
        "group": _group_json(study, standing.ask.group),
        "event": standing.ask.event or None,
        "cell": counted.cell,
        "count": counted.count,
        "margin_95": counted.margin,
        "query_id": None if standing.attempt is None else standing.attempt.query,
    }


def _finding_json(study: Study, finding: Finding) -> dict[str, Any]:
    row, estimate = finding.row, finding.estimate
    return {
        "kind": row.kind,
        "cell": row.part,
        "group": _group_json(study, row.group),
        "reference": None if row.reference is None else _group_json(study, row.reference),
        "event": row.event or None,
        "value": None if estimate is None else finite(estimate.value),
        "noise_only": None if estimate is None else interval_json(estimate.noise_only),
        "with_sampling": None if estimate is None else interval_json(estimate.with_sampling),
        "queries": list(finding.queries),
    }


def interval_json(interval: Interval) -> dict[str, Any]:
    """`low` and `high` are null where there is no such end."""
    return {
        "told": interval.told,
        "low": finite(interval.low) if interval.told else None,
        "high": finite(interval.high) if interval.told else None,
        "method": interval.method,
    }


def _group_json(study: Study, names: Sequence[str | None]) -> dict[str, str | None]:
    return {split: name for (split, _), name in zip(study.splits, names, strict=True)}


# --- for people ------------------------------------------------------------------------------------------------------


def report_text(found: Results) -> str:
    """The report for a terminal: tables of counts and of each kind of estimate, and what to know about them."""
    t = language_of_environment()
    study = found.study
    head = t(
        texts.REPORT_HEAD,
        title=f"{study.title}",
        question=study.question.text,
        answered=len(found.standings) - len(found.missing),
        asked=len(found.standings),
        scale=found.scale,
    )
    parts = [head]
    for event in dict.fromkeys(each.standing.ask.event for each in found.counted):
        counted = [each for each in found.counted if each.standing.ask.event == event]
        parts.append(_counts_table(study, counted, event, t))
    for (kind, part), findings in sections(found).items():
        parts.append(_estimates_table(study, kind, part, findings, t))
    parts.append("\n".join(notes(found, t)))
    return "\n\n".join(parts)


def sections(found: Results) -> dict[tuple[str, str], list[Finding]]:
    """Estimates by what they are of, in the order of the file."""
    found_sections: dict[tuple[str, str], list[Finding]] = {}
    for finding in found.findings:
        found_sections.setdefault((finding.row.kind, finding.row.part), []).append(finding)
    return found_sections


def heading(kind: str, row: Row, t: Language) -> str:
    """Heading of a section of estimates."""
    return t(texts.KINDS[kind], part=f"'{row.part}'", event=row.event)


def counts_heading(event: str, t: Language) -> str:
    """Heading of a table of counts: of whole groups, or of the people in them with an event."""
    return t(texts.COUNTS_OF, event=event) if event else t(texts.COUNTS)


def notes(found: Results, t: Language) -> list[str]:
    """Notes on the numbers."""
    said_notes = [t(texts.NOTE_LEFT_OUT), linked_sentences([found.policy], t)]
    if found.findings:
        said_notes += [t(texts.NOTE_INTERVALS), *(t(texts.NOTE_METHOD, method=t(each)) for each in found.methods)]
    part = found.study.part
    if part is not None:
        effect = t.number(float(part.design_effect), 1)
        said_notes.append(t(texts.NOTE_ASKED, one_in=part.one_in, weight=part.weight, design_effect=effect))
    if len({standing.asked.policy_hash for standing in found.standings if standing.asked is not None}) > 1:
        said_notes.append(t(texts.NOTE_POLICIES))
    if found.missing:
        said_notes.append(t(texts.NOTE_MISSING, missing=len(found.missing)))
    return said_notes


def value_text(kind: str, estimate: Estimate | None, t: Language) -> str:
    """The number itself."""
    if estimate is None:
        return t(texts.NOT_ANSWERED)
    return "-" if estimate.value is None else number_text(kind, estimate.value, t)


def interval_text(kind: str, interval: Interval, t: Language) -> str:
    """From low to high; the words for an interval that tells nothing."""
    if not interval.told:
        return t(texts.UNTOLD)
    return t(texts.FROM_TO, low=number_text(kind, interval.low, t), high=number_text(kind, interval.high, t))


def number_text(kind: str, number: float, t: Language) -> str:
    """A share as a percentage, a ratio as a number, the end of everything as a word."""
    if finite(number) is None:
        return t(texts.NO_END)
    if kind in SHARES:
        return t.percent(number)
    return t.number(number, 4 if kind == "trend" else 2)


def group_text(names: Sequence[str | None]) -> str:
    """A group in words; entries of `by` that are added up are left out."""
    return ", ".join(name for name in names if name is not None) or "-"


def _counts_table(study: Study, counted: Sequence[Counted], event: str, t: Language) -> str:
    heads = [*(name for name, _ in study.splits), *study.cells]
    by_group: dict[tuple[str, ...], list[str]] = {}
    for each in counted:
        by_group.setdefault(each.standing.ask.group, []).append(t.number(each.count))
    lines = [[*group, *numbers] for group, numbers in by_group.items()]
    reach = t(texts.REACH, margin=t.number(counted[0].margin))
    return "\n".join([counts_heading(event, t), *aligned([heads, *lines], len(study.splits)), reach])


def _estimates_table(study: Study, kind: str, part: str, findings: Sequence[Finding], t: Language) -> str:
    del part
    row = findings[0].row
    is_compared = row.reference is not None
    heads = [
        *(name for name, _ in study.splits),
        *([t(texts.AGAINST)] if is_compared else []),
        t(texts.ESTIMATE),
        t(texts.NOISE_ONLY),
        t(texts.WITH_SAMPLING),
    ]
    lines = [_estimate_line(kind, finding, t) for finding in findings]
    return "\n".join([heading(kind, row, t), *aligned([heads, *lines], len(study.splits) + is_compared)])


def _estimate_line(kind: str, finding: Finding, t: Language) -> list[str]:
    row, estimate = finding.row, finding.estimate
    group = [t(texts.ALL_GROUPS) if name is None else name for name in row.group]
    reference = [] if row.reference is None else [group_text(_differing(row.reference, row.group))]
    if estimate is None:
        return [*group, *reference, t(texts.NOT_ANSWERED), "", ""]
    intervals = [interval_text(kind, each, t) for each in (estimate.noise_only, estimate.with_sampling)]
    return [*group, *reference, value_text(kind, estimate, t), *intervals]


def _differing(reference: Sequence[str], group: Sequence[str | None]) -> list[str]:
    return [name for name, own in zip(reference, group, strict=True) if name != own]


def aligned(rows: Sequence[Sequence[str]], words: int) -> list[str]:
    """Columns of words to the left, of figures to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if place < words else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def run_json(found: Results) -> dict[str, Any]:
    """Result of a run."""
    report = report_json(found)
    return {name: report[name] for name in ("study", "key", "scale", "answered", "missing", "charged", "questions")}


def run_text(found: Results, file: str) -> str:
    """The same for people."""
    t = language_of_environment()
    reused = [standing for standing in found.standings if standing.attempt is not None and standing.attempt.reused]
    lines = [
        t(
            texts.RUN_DONE,
            title=found.study.title,
            answered=len(found.standings) - len(found.missing),
            asked=len(found.standings),
        )
    ]
    if reused:
        lines.append(t(texts.RUN_REUSED, count=len(reused)))
        lines += [f"  {group_text(each.ask.group)}" for each in reused]
    lines.append(said(texts.RUN_NEXT_MISSING if found.missing else texts.RUN_NEXT, file=file))
    return "\n".join(lines)
