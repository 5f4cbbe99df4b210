"""A plan as people and programs read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker_common.language import Language, language_of_environment
from broker_common.privacy.accounting import epsilon_text
from broker_common.privacy.table_laplace import margin
from researcher_node.study import texts
from researcher_node.study.file import quoted
from researcher_node.study.plan import Plan, Sight, Width
from researcher_node.study.report import group_text, heading, interval_json, interval_text, value_text
from researcher_node.study.results import Finding, finite

# Groups that are named in one line; of more the number is said.
_MOST_LISTED = 3


def plan_json(plan: Plan) -> dict[str, Any]:
    """All figures, as one object."""
    cost = plan.cost
    return {
        "study": plan.study.title,
        "scale": plan.scale,
        "epsilon": epsilon_text(plan.scale),
        "margin_95": margin(plan.scale, len(plan.study.cells)),
        "cells": len(plan.study.cells),
        "answers": cost.answers,
        "new_answers": cost.new_answers,
        "numbers": cost.answers * len(plan.study.cells),
        "seconds": round(plan.seconds, 1),
        "most_charged": {
            "answers": cost.answers_a_person,
            "units": cost.units,
            "share_of_budget": round(cost.share, 6),
            "studies_a_person": cost.studies_a_person,
        },
        "widths": [_width_json(plan, each) for each in plan.widths],
        "comparisons": [_sight_json(each) for each in plan.sights],
        "expected": [_expected_json(plan, each) for each in plan.expected],
        "unplanned": list(plan.unplanned),
    }


def _width_json(plan: Plan, width: Width) -> dict[str, Any]:
    return {
        "group": {name: group for (name, _), group in zip(plan.study.splits, width.row.group, strict=True)},
        "cell": width.row.part,
        "people": width.people,
        "share": width.share,
        "noise_only": width.noise_only,
        "with_sampling": width.with_sampling,
    }


def _sight_json(sight: Sight) -> dict[str, Any]:
    return {
        "group": group_text(sight.row.group),
        "reference": group_text(sight.row.reference or ()),
        "cell": sight.row.part,
        "ratio": round(sight.ratio, 4),
        "power": round(sight.power, 3),
        "seen": sight.is_seen,
        "people": sight.people,
        "people_needed": sight.needed,
    }


def _expected_json(plan: Plan, finding: Finding) -> dict[str, Any]:
    row, estimate = finding.row, finding.estimate
    assert estimate is not None  # noqa: S101 - a plan has no answers to wait for
    return {
        "kind": row.kind,
        "group": {name: group for (name, _), group in zip(plan.study.splits, row.group, strict=True)},
        "cell": row.part,
        "event": row.event or None,
        "value": finite(estimate.value),
        "noise_only": interval_json(estimate.noise_only),
        "with_sampling": interval_json(estimate.with_sampling),
    }


def plan_text(plan: Plan) -> str:
    """The plan for a terminal."""
    t = language_of_environment()
    cost = plan.cost
    lines = [
        t(
            texts.PLAN,
            title=plan.study.title,
            answers=cost.answers,
            cells=len(plan.study.cells),
            new=cost.new_answers,
            time=t.span(max(1000, round(plan.seconds * 1000))),
            margin=t.number(margin(plan.scale, len(plan.study.cells))),
            scale=plan.scale,
            most=cost.answers_a_person,
            units=cost.units,
            share=t.at_most(cost.share),
            studies=cost.studies_a_person,
        )
    ]
    if not cost.studies_a_person:
        lines.append(t(texts.PLAN_TOO_DEAR))
    if plan.study.file.expect is None:
        lines.append(t(texts.PLAN_UNEXPECTED))
    lines += _gathered([(group_text(each.row.group), _width_text(each, t)) for each in plan.widths], t)
    lines += _gathered([(_compared(each, t), _sight_text(each, t)) for each in plan.sights], t)
    lines += _gathered([(_group(each, t), _expected_text(each, t)) for each in plan.expected], t)
    if plan.unplanned and plan.study.file.expect is not None:
        lines.append(t(texts.PLAN_UNPLANNED, kinds=", ".join(plan.unplanned)))
    return "\n".join(lines)


def _gathered(lines: Sequence[tuple[str, str]], t: Language) -> list[str]:
    """A line for all groups of which the same is said."""
    groups: dict[str, list[str]] = {}
    for group, text in lines:
        groups.setdefault(text, []).append(group)
    return [f"  {_listed(names, t)}: {text}" for text, names in groups.items()]


def _listed(names: Sequence[str], t: Language) -> str:
    if len(names) <= _MOST_LISTED:
        return "; ".join(names)
    return t(texts.AND_MORE, first="; ".join(names[: _MOST_LISTED - 1]), more=len(names) - _MOST_LISTED + 1)


def _width_text(width: Width, t: Language) -> str:
    return t(
        texts.PLAN_WIDTH,
        part=quoted(width.row.part),
        people=t.number(width.people),
        share=t.percent(width.share),
        noise=_points(width.noise_only, t),
        sampling=_points(width.with_sampling, t),
    )


def _points(width: float | None, t: Language) -> str:
    return t(texts.UNTOLD) if width is None else t(texts.POINTS, points=t.number(100 * width, 1))


def _group(finding: Finding, t: Language) -> str:
    return ", ".join(name for name in finding.row.group if name is not None) or t(texts.ALL_GROUPS)


def _expected_text(finding: Finding, t: Language) -> str:
    row, estimate = finding.row, finding.estimate
    assert estimate is not None  # noqa: S101 - a plan has no answers to wait for
    return t(
        texts.PLAN_EXPECTED,
        what=heading(row.kind, row, t),
        value=value_text(row.kind, estimate, t),
        noise=interval_text(row.kind, estimate.noise_only, t),
        sampling=interval_text(row.kind, estimate.with_sampling, t),
    )


def _compared(sight: Sight, t: Language) -> str:
    return t(texts.PLAN_COMPARED, group=group_text(sight.row.group), reference=group_text(sight.row.reference or ()))


def _sight_text(sight: Sight, t: Language) -> str:
    values = {"ratio": t.number(sight.ratio, 2), "power": t.percent(sight.power, 0)}
    if sight.is_seen:
        return t(texts.PLAN_SEEN, **values)
    if sight.needed is None:
        return t(texts.PLAN_NEVER_SEEN, **values)
    return t(texts.PLAN_UNSEEN, **values, needed=t.number(sight.needed))
