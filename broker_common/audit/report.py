"""The verdict of an audit: one object for programs, one page for people, the verdict in its first line."""

from __future__ import annotations

from typing import Any

from broker_common.audit import texts
from broker_common.audit.audit import Audited
from broker_common.audit.codes import PENDING
from broker_common.audit.findings import Problem
from broker_common.audit.health_log import Uncharged
from broker_common.audit.leakage import Leakage
from broker_common.audit.on_site import OnSite
from broker_common.privacy.accounting import param_of, parse_max_belief
from broker_common.privacy.belief import belief_of_units

__all__ = ["report_json", "report_text"]


def report_json(audited: Audited) -> dict[str, Any]:
    """The object that `--json` prints."""
    findings = audited.findings
    leakage, uncharged = audited.leakage, audited.uncharged
    report = {
        "verified": not findings.count,
        "entries": sum(audited.entries.values()),
        "answers": 0 if leakage is None else leakage.answers,
        "problems": [
            {"code": problem.code, "log": problem.log, "entry": problem.entry, "text": problem.text}
            for problem in _sorted(audited)
        ],
        "worst_belief": None if leakage is None else _worst_belief(leakage),
        "not_checked": list(findings.not_checked),
        "pending": [
            {"code": code, "log": log, "count": count, "text": PENDING[code]}
            for (code, log), count in sorted(findings.pending.items())
        ],
        "leakage": None if leakage is None else _leakage_json(leakage),
        "logs": dict(audited.entries),
        "tickets_shown": audited.tickets,
        "criteria_opened": audited.criteria,
        "noise_proved": audited.noise,
        "uncharged_samples": None if uncharged is None else uncharged.count,
        "refusals": None
        if uncharged is None
        else [
            {"researcher": researcher, "code": code, "count": count}
            for (researcher, code), count in sorted(uncharged.refused.items())
        ],
        "unanswered": None
        if uncharged is None
        else [{"researcher": researcher, "count": count} for researcher, count in sorted(uncharged.unanswered.items())],
        "problems_in_all": findings.count,
    }
    return report if audited.on_site is None else report | {"on_site": _on_site_json(audited.on_site)}


def _on_site_json(on_site: OnSite) -> dict[str, Any]:
    worst = on_site.worst_charged
    return {
        "charges_checked": on_site.charges_checked,
        "charges_erased": on_site.charges_erased,
        "people_charged": on_site.people_charged,
        "worst_charged": worst,
        "worst_belief": None if worst is None else float(belief_of_units(worst)),
    }


def _on_site_text(on_site: OnSite) -> str:
    text = texts.ON_SITE if on_site.is_proved else texts.ON_SITE_CLAIMED
    if on_site.worst_charged is None:
        text = texts.ON_SITE_UNKNOWN
    return text.format_map(_on_site_json(on_site))


def _leakage_json(leakage: Leakage) -> dict[str, Any]:
    return {
        "accounting": leakage.accounting,
        "unit": leakage.unit,
        "max_belief": leakage.max_belief,
        "param": float(param_of(parse_max_belief(leakage.max_belief))),
        "cap": leakage.cap,
        "charged_units": leakage.charged_units,
        "worst_units": leakage.worst_units,
        "claimed": leakage.claimed,
        "answers": leakage.answers,
        "released": leakage.released,
        "state": "shutdown" if leakage.is_shut_down else "serving",
    }


def _worst_belief(leakage: Leakage) -> float:
    return float(belief_of_units(leakage.worst_units))


def _leakage_text(leakage: Leakage) -> str:
    text = texts.LEAKAGE_CLAIMED if leakage.claimed else texts.LEAKAGE
    return text.format_map(_leakage_json(leakage) | {"worst_belief": _worst_belief(leakage)})


def _uncharged_text(uncharged: Uncharged) -> list[str]:
    refused, unanswered = sum(uncharged.refused.values()), sum(uncharged.unanswered.values())
    lines = [texts.SAMPLES.format(count=uncharged.count, refused=refused, unanswered=unanswered)]
    lines += [
        texts.REFUSALS.format(count=count, researcher=researcher, code=code)
        for (researcher, code), count in sorted(uncharged.refused.items())
    ]
    lines += [
        texts.UNANSWERED.format(count=count, researcher=researcher)
        for researcher, count in sorted(uncharged.unanswered.items())
    ]
    return lines


def report_text(audited: Audited) -> str:
    """The page for people."""
    findings = audited.findings
    problems = _sorted(audited)
    lines = [_verdict(audited, problems)]
    lines.append(texts.ENTRIES.format(census=audited.entries.get("census", 0), health=audited.entries.get("health", 0)))
    if audited.leakage is not None:
        lines.append(
            texts.FIGURES.format_map(
                _leakage_json(audited.leakage) | {"tickets": audited.tickets, "leakage": _leakage_text(audited.leakage)}
            )
        )
    if audited.uncharged is not None:
        lines += _uncharged_text(audited.uncharged)
    if audited.on_site is not None:
        lines.append(_on_site_text(audited.on_site))
    if audited.noise is not None:
        lines.append(texts.NOISE.format(noise=audited.noise))
    if findings.pending:
        lines += ["", texts.PENDING_HEAD]
        lines += [
            texts.ITEM.format(text=texts.PENDING_ITEM.format(count=count, text=PENDING[code], log=log))
            for (code, log), count in sorted(findings.pending.items())
        ]
    if findings.not_checked:
        lines += ["", texts.NOT_CHECKED_HEAD]
        lines += [texts.ITEM.format(text=text) for text in findings.not_checked]
    if problems:
        lines += ["", texts.PROBLEMS_HEAD]
        lines += [
            texts.PROBLEM.format(where=_where(problem), code=problem.code, text=problem.text) for problem in problems
        ]
    return "\n".join(lines)


def _verdict(audited: Audited, problems: list[Problem]) -> str:
    if not problems:
        return texts.VERDICT_HOLDS
    count = audited.findings.count
    word = texts.PROBLEM_WORD if count == 1 else texts.PROBLEMS_WORD
    return texts.VERDICT_FAILED.format(count=count, problems=word, code=problems[0].code, where=_where(problems[0]))


def _sorted(audited: Audited) -> list[Problem]:
    """By log and entry: the first problem of a log is the one to look at first."""
    order = {"census": 0, "health": 1, "researcher": 2}
    return sorted(
        audited.findings.problems,
        key=lambda problem: (
            order.get(problem.log, 3),
            problem.entry is None,
            problem.entry or 0,
            problem.code,
            problem.text,
        ),
    )


def _where(problem: Problem) -> str:
    if problem.log == "researcher":
        return texts.OF_RESEARCHER
    if not problem.log:
        return texts.OF_ALL
    if problem.entry is None:
        return texts.LOG.format(log=problem.log)
    return texts.ENTRY.format(log=problem.log, entry=problem.entry)
