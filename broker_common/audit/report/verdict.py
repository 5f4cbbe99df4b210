"""The verdict of an audit: one object for programs, one page for people, the verdict in its first line."""

from __future__ import annotations

from typing import Any

from broker_common.audit import texts
from broker_common.audit.audit import Audited
from broker_common.audit.codes import CODES, PENDING
from broker_common.audit.findings import Problem, Remark
from broker_common.audit.logs.census_log import Leakage
from broker_common.audit.logs.health_log import Uncharged
from broker_common.audit.on_site.visit import OnSite
from broker_common.language import Language, language_of_environment, said
from broker_common.privacy.accounting import param_of, parse_max_belief
from broker_common.privacy.belief import belief_of_units


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
            for problem in sorted_problems(audited)
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
            {
                "researcher": researcher,
                "code": code,
                "count": count,
                "follows": uncharged.follows.get((researcher, code), 0),
                "without_reason": uncharged.without_reason.get((researcher, code), 0),
            }
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
    return said(text, **_on_site_json(on_site))


def _leakage_json(leakage: Leakage) -> dict[str, Any]:
    return {
        "accounting": leakage.accounting,
        "subject": leakage.subject,
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
    shown = {"worst_belief": _worst_belief(leakage), "max_belief": language_of_environment().exact(leakage.max_belief)}
    return said(text, **(_leakage_json(leakage) | shown))


def _uncharged_text(uncharged: Uncharged) -> list[str]:
    refused, unanswered = sum(uncharged.refused.values()), sum(uncharged.unanswered.values())
    lines = [said(texts.SAMPLES, count=uncharged.count, refused=refused, unanswered=unanswered)]
    lines += [
        said(
            texts.REFUSALS,
            count=count,
            researcher=researcher,
            code=code,
            follows=uncharged.follows.get((researcher, code), 0),
            without_reason=uncharged.without_reason.get((researcher, code), 0),
        )
        for (researcher, code), count in sorted(uncharged.refused.items())
    ]
    lines += [
        said(texts.UNANSWERED, count=count, researcher=researcher)
        for researcher, count in sorted(uncharged.unanswered.items())
    ]
    return lines


def report_text(audited: Audited) -> str:
    """The page for people."""
    findings = audited.findings
    problems = sorted_problems(audited)
    lines = [verdict(audited)]
    lines.append(said(texts.ENTRIES, census=audited.entries.get("census", 0), health=audited.entries.get("health", 0)))
    if audited.leakage is not None:
        lines.append(
            said(
                texts.FIGURES,
                **(
                    _leakage_json(audited.leakage)
                    | {
                        "tickets": audited.tickets,
                        "leakage": _leakage_text(audited.leakage),
                        "state": said("shutdown" if audited.leakage.is_shut_down else "serving"),
                        "accounting": said(audited.leakage.accounting),
                    }
                ),
            )
        )
    if audited.uncharged is not None:
        lines += _uncharged_text(audited.uncharged)
    if audited.on_site is not None:
        lines.append(_on_site_text(audited.on_site))
    if audited.noise is not None:
        lines.append(said(texts.NOISE, noise=audited.noise))
    if findings.pending:
        lines += ["", said(texts.PENDING_HEAD)]
        lines += [
            said(texts.ITEM, text=said(texts.PENDING_ITEM, count=count, text=said(PENDING[code]), log=said(log)))
            for (code, log), count in sorted(findings.pending.items())
        ]
    if findings.not_checked:
        lines += ["", said(texts.NOT_CHECKED_HEAD)]
        lines += [said(texts.ITEM, text=remark_text(language_of_environment(), remark)) for remark in findings.remarks]
    if problems:
        lines += ["", said(texts.PROBLEMS_HEAD)]
        lines += [
            said(
                texts.PROBLEM,
                where=place_of(language_of_environment(), problem),
                code=problem.code,
                text=problem_text(language_of_environment(), problem),
            )
            for problem in problems
        ]
    return "\n".join(lines)


def verdict(audited: Audited) -> str:
    """The first line."""
    problems = sorted_problems(audited)
    if not problems:
        return said(texts.VERDICT_HOLDS)
    count = audited.findings.count
    word = said(texts.PROBLEM_WORD) if count == 1 else said(texts.PROBLEMS_WORD)
    return said(
        texts.VERDICT_FAILED,
        count=count,
        problems=word,
        code=problems[0].code,
        where=place_of(language_of_environment(), problems[0]),
    )


def sorted_problems(audited: Audited) -> list[Problem]:
    """Problems by log and entry: the first problem of a log is the one to read first."""
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


def place_of(t: Language, problem: Problem) -> str:
    """Where a problem is, in words."""
    if problem.log == "researcher":
        return t(texts.OF_RESEARCHER)
    if not problem.log:
        return t(texts.OF_ALL)
    if problem.entry is None:
        return t(texts.LOG, log=t(problem.log))
    return t(texts.ENTRY, log=t(problem.log), entry=t.number(problem.entry))


def problem_text(t: Language, problem: Problem) -> str:
    """Text of a problem; its detail quotes the hand-in."""
    sentence = CODES.get(problem.code, "")
    return t(sentence) + problem.text.removeprefix(sentence) if sentence else problem.text


def remark_text(t: Language, remark: Remark) -> str:
    """Text of a check that was not possible."""
    # The rest are names and numbers, which are the same in every language.
    values = {name: t(value) if name in {"role", "agency"} else value for name, value in remark.values.items()}
    return t(remark.text, **values) if values else t(remark.text)
