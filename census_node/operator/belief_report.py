"""`census status` and the belief report, as the object that scripts read and as text for people.

The numbers are made in `broker_common.privacy.report`; here they are read off the log and the ledger, named, and put into
words. They stay inside the census agency: they depend on who was in samples, which is why the alert about people with
nothing left is text for the operator at this machine, and in no log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from broker_common.cli import instant
from broker_common.language import Language, language_of_environment, said
from broker_common.privacy.accounting import any_fits
from broker_common.privacy.forecast import FORECAST_REACH, MIN_ANSWERS, MIN_PEOPLE, Milestone
from broker_common.privacy.policy import Policy
from broker_common.privacy.report import (
    BeliefReport,
    Charges,
    Spread,
    Typical,
    exhaustion,
    most_charged,
    worst_belief,
)
from broker_common.tlog.census_state import CensusState
from census_node import texts
from census_node.ledger.samples import KeptSamples
from census_node.operator.policy_commands import number, odds_text, policy_in_force, size_text

_HUNDRED = 100


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of the log at one instant."""

    policy: Policy
    policy_hash: str
    answers: int
    # How many answers at each scale were charged to everybody, and how many to the people in their samples.
    common: Mapping[int, int]
    sampled: Mapping[int, int]
    # The charge of all answers under strict accounting; of the sampled ones alone under per-person accounting.
    units: int
    log_size: int
    release: str
    # Name of the linkage chain in force; empty before the first load.
    linkage: str
    # Hashes of the dictionary in force and of the one that was adopted last; empty where there is none.
    dictionary: str
    dictionary_adopted: str
    # Whether the next load will be under another dictionary than the one in force.
    dictionary_changed: bool
    shut_down: bool
    # Why, as `texts.STATUS_SHUT_BY` names it.
    shutdown_reason: str
    shutdown_note: str
    shutdown_ms: int

    @property
    def answers_of_samples(self) -> int:
        """Answers that were charged to the people in their samples."""
        return sum(self.sampled.values())


def facts_of(state: CensusState) -> Facts:
    """Facts of the log that the status and the report need."""
    policy = policy_in_force(state)
    strict = policy.accounting == "strict"
    charges = [ticket.charge for ticket in state.tickets.values()]
    return Facts(
        policy=policy,
        policy_hash=state.policy_hash,
        answers=state.answers,
        common=Counter(charge.scale for charge in charges if not charge.ledger),
        sampled=Counter(charge.scale for charge in charges if charge.ledger),
        units=state.charged_units if strict else state.charged_units - state.common_units,
        log_size=state.size,
        release=state.release,
        linkage=state.linkage,
        dictionary=(dictionary := state.dictionaries.get(state.load, "")),
        dictionary_adopted=(adopted := "" if state.newest_dictionary is None else state.newest_dictionary.dictionary),
        dictionary_changed=dictionary not in {"", adopted},
        shut_down=state.shut_down,
        shutdown_reason=_shutdown_reason(state, policy),
        shutdown_note=state.shutdown_note,
        shutdown_ms=state.shutdown_ms,
    )


def _shutdown_reason(state: CensusState, policy: Policy) -> str:
    """The log says `budget` for whatever admits no further answer."""
    if state.shutdown_reason != "budget" or not any_fits(policy.cap, state.everyones_units, policy.scales):
        return state.shutdown_reason
    # Another policy may have come since.
    return "earlier" if state.anything_fits else "answers"


def status_of(facts: Facts, charges: Charges | None) -> dict[str, Any]:
    """The status, by the keys that scripts rely on."""
    policy = facts.policy
    # After per-person accounting the strict count is more than anybody was charged: the ledger knows better.
    worst = facts.units if charges is None else most_charged(charges)
    people = None if charges is None or policy.accounting == "strict" else exhaustion(charges, policy)
    return {
        "state": "shutdown" if facts.shut_down else "serving",
        "accounting": policy.accounting,
        "max_belief": policy.max_belief,
        "param": number(policy.param),
        "answers": facts.answers,
        "worst_charged": worst,
        "worst_belief": float(worst_belief(worst, policy)),
        # Persons, or households if budgets are for them. Strict accounting charges everyone alike: there is nobody to count.
        "people_charged": None if people is None else people.charged,
        "people_exhausted": None if people is None else people.exhausted,
        "log_size": facts.log_size,
        "policy_hash": facts.policy_hash,
        "dictionary": facts.dictionary,
        "dictionary_adopted": facts.dictionary_adopted,
        "dictionary_changed": facts.dictionary_changed,
    }


def status_text(
    facts: Facts, charges: Charges | None, kept: KeptSamples, alert_share: int, *, is_running: bool = False
) -> str:
    """The status for people; with an alert when more than `alert_share` percent of those charged have nothing left."""
    policy, result = facts.policy, status_of(facts, charges)
    named = {
        "param": odds_text(result["param"]),
        "release": facts.release or said(texts.STATUS_NOTHING_LOADED),
        "process": said(texts.STATUS_RUNNING) if is_running else said(texts.STATUS_NOT_RUNNING),
        "linkage": facts.linkage or said(texts.STATUS_NOTHING_LOADED),
        "accounting": said(texts.STATUS_ACCOUNTING[policy.accounting], subject=said(policy.subject)),
        "max_belief": language_of_environment().exact(policy.max_belief),
        "state": said(result["state"]),
        "whom": said(texts.LIMITED[policy.subject]),
    }
    parts = [said(texts.STATUS, **({**result, **named}))]
    if charges is not None and policy.accounting == "strict":
        parts.append(said(texts.STATUS_COUNTED, units=facts.units, cap=policy.cap))
    elif charges is not None:
        parts += _people_text(charges, policy, alert_share)
    if kept.count or policy.accounting == "per_person":
        parts.append(said(texts.STATUS_KEPT, count=kept.count, size=size_text(kept.size_bytes)))
    if facts.shut_down:
        parts.append(_shut_text(facts))
    if result["worst_charged"] > policy.cap:
        parts.append(said(texts.STATUS_WARNING, sentence=said(texts.WARN_CHARGED)))
    if facts.dictionary_changed:
        parts.append(said(texts.STATUS_WARNING, sentence=said(texts.WARN_DICTIONARY)))
    return "\n".join(parts)


def _people_text(charges: Charges, policy: Policy, alert_share: int) -> list[str]:
    found, counted = exhaustion(charges, policy), said(texts.COUNTED[policy.subject])
    parts = [said(texts.STATUS_PEOPLE, charged=found.charged, exhausted=found.exhausted, counted=counted)]
    if found.share * _HUNDRED > alert_share:
        parts.append(
            said(
                texts.STATUS_ALERT,
                share=alert_share,
                counted=counted,
                exhausted=found.exhausted,
                charged=found.charged,
            )
        )
    return parts


def _shut_text(facts: Facts) -> str:
    by = said(texts.STATUS_SHUT_BY[facts.shutdown_reason], max_answers=facts.policy.max_answers)
    note = said(texts.STATUS_SHUT_NOTE, note=facts.shutdown_note) if facts.shutdown_note else ""
    return said(texts.STATUS_SHUT, time=instant(facts.shutdown_ms), by=by) + note


# --- the report as an object -------------------------------------------------------------------------------------------


def report_of(report: BeliefReport, policy: Policy) -> dict[str, Any]:
    """The report as the object that scripts and pages read; beliefs and chances as numbers between 0 and 1."""
    return {
        "floor": report.floor,
        "cap": policy.cap,
        "scale": policy.usual_scale,
        "ceilings": [
            {
                "prior": float(row.prior),
                "now": [float(row.now_down), float(row.now_up)],
                "limit": [float(row.limit_down), float(row.limit_up)],
            }
            for row in report.ceilings
        ],
        "typical": {"now": _typical_of(report.typical_now), "limit": _typical_of(report.typical_limit)},
        "bands": [[float(band.low), float(band.high)] for band in report.bands],
        "subject": policy.subject,
        "spread": _spread_of(report.spread),
        "answers_left": report.answers_left,
        "forecast": [
            {"share": float(row.share), "early": row.early, "middle": row.middle, "late": row.late}
            for row in report.forecast
        ],
        "plot": None,
    }


def _typical_of(typical: Typical | None) -> dict[str, Any] | None:
    if typical is None:
        return None
    return {
        "answers": [{"count": group.count, "scale": group.scale} for group in typical.answers],
        "ceiling": float(typical.ceiling),
        "expected_belief": float(typical.expected_belief),
        "best_guess_right": float(typical.best_guess_right),
        "beyond": [{"belief": float(belief), "chance": float(chance)} for belief, chance in typical.beyond],
    }


def _spread_of(spread: Spread | None) -> dict[str, Any] | None:
    if spread is None:
        return None
    return {
        "people": spread.people,
        "charged": spread.charged,
        "quantiles": [
            {"share": float(row.share), "units": row.units, "ceiling": float(row.ceiling)} for row in spread.quantiles
        ],
        "at_rest": spread.at_rest,
        "in_bands": list(spread.in_bands),
        "above_limit": spread.above_limit,
    }


# --- the report for people ---------------------------------------------------------------------------------------------


def report_text(report: BeliefReport, policy: Policy) -> str:
    """The report for people, section by section."""
    sections = [_ceilings_text(report, policy), _typical_text(report, policy)]
    if report.spread is not None:
        counted = said(texts.COUNTED[policy.subject])
        sections += [_spread_text(report, report.spread, counted), _quantiles_text(report.spread, counted)]
    sections.append(_forecast_text(report, policy))
    return "\n".join(sections)


def plain(value: Decimal | Fraction, t: Language | None = None) -> str:
    """A belief for people: as few digits as it has, at most five."""
    return (t or language_of_environment()).exact(f"{float(value):.5f}".rstrip("0").rstrip("."))


def band_names(report: BeliefReport, t: Language) -> list[str]:
    """Where people can stand: untouched, in each band, above the limit."""
    within = [t(texts.REPORT_BAND, high=plain(band.high, t)) for band in report.bands]
    return [t(texts.REPORT_AT_REST), *within, t(texts.REPORT_ABOVE, high=plain(report.bands[-1].high, t))]


def _ceilings_text(report: BeliefReport, policy: Policy) -> str:
    rows = [
        said(
            texts.REPORT_CEILING,
            prior=plain(row.prior),
            now=said(texts.REPORT_FROM_TO, down=plain(row.now_down), up=plain(row.now_up)),
            limit=said(texts.REPORT_FROM_TO, down=plain(row.limit_down), up=plain(row.limit_up)),
        )
        for row in report.ceilings
    ]
    return "\n".join([said(texts.REPORT_CEILINGS, whom=said(texts.LIMITED[policy.subject])), *rows])


def _typical_text(report: BeliefReport, policy: Policy) -> str:
    notes = [texts.REPORT_AT_SCALES if report.spread is None else texts.REPORT_AT_WORST]
    if policy.subject == "household":
        notes.append(texts.REPORT_AT_WORST_HOUSEHOLD)
    lines = [
        _typical_head(report),
        _typical_row(said(texts.REPORT_TYPICAL_NOW), report.typical_now),
        _typical_row(said(texts.REPORT_TYPICAL_LIMIT), report.typical_limit),
        *(said(note, scale=policy.usual_scale) for note in notes),
    ]
    return "\n".join(lines)


def _typical_head(report: BeliefReport) -> str:
    passed = [said(texts.REPORT_PASSES, belief=plain(band.high)) for band in report.bands[:-1]]
    return said(texts.REPORT_TYPICAL, beyond=_columns(passed))


def _typical_row(name: str, typical: Typical | None) -> str:
    if typical is None:
        return said(texts.REPORT_TYPICAL_TOO_MANY, answers=name)
    return said(
        texts.REPORT_TYPICAL_ROW,
        answers=name,
        count=sum(group.count for group in typical.answers),
        ceiling=plain(typical.ceiling),
        expected=plain(typical.expected_belief),
        right=plain(typical.best_guess_right),
        beyond=_columns([_chance(chance) for _, chance in typical.beyond]),
    )


def _columns(words: Sequence[str]) -> str:
    return "".join(said(texts.REPORT_COLUMN, word=word) for word in words).rstrip()


def _chance(chance: Decimal) -> str:
    """One in so many, to the nearest number of two digits; of a hundred where it is more than every other time."""
    if not chance:
        return said(texts.REPORT_CHANCE_NONE)
    if 2 * chance > 1:
        return said(texts.REPORT_CHANCE_LARGE, n=round(chance * _HUNDRED))
    n = 1 / Fraction(chance)
    step = 10 ** max(len(str(int(n))) - 2, 0)
    return said(texts.REPORT_CHANCE, n=language_of_environment().number(round(n / step) * step))


def _spread_text(report: BeliefReport, spread: Spread, counted: str) -> str:
    rows = [
        said(texts.REPORT_SPREAD_ROW, band=band, people=language_of_environment().number(people))
        for band, people in zip(band_names(report, language_of_environment()), spread.places, strict=True)
    ]
    return "\n".join([said(texts.REPORT_SPREAD, counted=counted), *rows])


def _quantiles_text(spread: Spread, counted: str) -> str:
    rows = [
        said(
            texts.REPORT_QUANTILE_ROW,
            share=said(texts.REPORT_QUANTILE_ALL)
            if row.share == 1
            else said(texts.REPORT_QUANTILE_SHARE, share=plain(row.share * _HUNDRED)),
            charge=said(texts.REPORT_QUANTILE, units=row.units, ceiling=plain(row.ceiling)),
        )
        for row in spread.quantiles
    ]
    head = said(texts.REPORT_QUANTILES, counted=counted)
    return "\n".join([head, *(rows or [f"  {said(texts.REPORT_NOBODY)}"])])


def _forecast_text(report: BeliefReport, policy: Policy) -> str:
    if report.answers_left is not None:
        text = texts.REPORT_STRICT if report.spread is None else texts.REPORT_STRICT_LATE
        return said(text, left=report.answers_left, scale=policy.usual_scale)
    if not report.forecast:
        return said(texts.REPORT_FORECAST_NONE, answers=MIN_ANSWERS, people=MIN_PEOPLE)
    charged = 0 if report.spread is None else report.spread.charged
    rows = [_milestone_text(row, charged) for row in report.forecast]
    head = said(texts.REPORT_FORECAST, scale=policy.usual_scale, counted=said(texts.COUNTED[policy.subject]))
    return "\n".join([head, *rows, said(texts.REPORT_FORECAST_NOTE)])


def _milestone_text(row: Milestone, charged: int) -> str:
    share = said(
        texts.REPORT_FORECAST_SHARE, share=plain(row.share * _HUNDRED), people=language_of_environment().number(charged)
    )
    if row.late == 0:
        return said(texts.REPORT_FORECAST_REACHED, share=share)
    early, middle, late = (
        said(texts.REPORT_FORECAST_BEYOND, reach=language_of_environment().number(FORECAST_REACH))
        if answers is None
        else language_of_environment().number(answers)
        for answers in (row.early, row.middle, row.late)
    )
    return said(texts.REPORT_FORECAST_ROW, share=share, early=early, middle=middle, late=late)


def bars_name(spread: Spread, policy: Policy, t: Language) -> str:
    """Whom the bars of the plot count."""
    return t(texts.PLOT_BARS[policy.subject], people=t.number(spread.people))


def plot_text(report: BeliefReport, policy: Policy, t: Language) -> str:
    """The plot in a sentence or two, for readers who do not see it."""
    (now,) = (row.now_up for row in report.ceilings if row.prior == Fraction(1, 2))
    typical = report.typical_now
    if report.spread is None:
        bars = t(texts.PLOT_TEXT_STRICT)
    else:
        name = bars_name(report.spread, policy, t)
        bars = t(
            texts.PLOT_TEXT_BARS,
            name=name[0].upper() + name[1:],
            counts=", ".join(
                t(texts.PLOT_TEXT_COUNT, count=t.number(count), band=band)
                for count, band in zip(report.spread.places, band_names(report, t), strict=True)
                if count
            ),
        )
    return t(
        texts.PLOT_TEXT,
        limit=t.exact(policy.max_belief),
        bars=bars,
        worst=plain(now, t),
        typical=t(texts.PLOT_TEXT_UNKNOWN) if typical is None else plain(typical.expected_belief, t),
    )
