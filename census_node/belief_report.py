"""`census status` and the belief report, as the object that scripts read and as text for people.

The numbers are made in `broker_common.privacy.report`; here they are read off the log and the ledgers, named, and put into
words. They stay inside the census agency: they depend on who was in samples, which is why the alert about people with
nothing left is text for whoever sits at this machine, and in no log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from broker_common.cli import instant
from broker_common.privacy.accounting import any_fits
from broker_common.privacy.forecast import FORECAST_REACH, MIN_ANSWERS, MIN_PEOPLE, Milestone
from broker_common.privacy.policy import Policy
from broker_common.privacy.report import (
    BeliefReport,
    Charges,
    Quantile,
    Spread,
    Typical,
    exhaustion,
    most_charged,
    people_charged,
    people_exhausted,
    worst_belief,
)
from broker_common.tlog.census_state import CensusState
from census_node import texts
from census_node.dictionary import CENSUS_DICTIONARY
from census_node.policy_commands import number, odds_text, policy_in_force, size_text
from census_node.samples import KeptSamples

__all__ = [
    "Facts",
    "band_names",
    "facts_of",
    "households_name",
    "plain",
    "plot_text",
    "report_of",
    "report_text",
    "status_of",
    "status_text",
]

_HUNDRED = 100


@dataclass(frozen=True, slots=True)
class Facts:
    """What the log says, taken at one instant."""

    policy: Policy
    policy_hash: str
    answers: int
    # How many answers at each scale were charged to everybody, and how many to the people in their samples.
    common: Mapping[int, int]
    sampled: Mapping[int, int]
    # What all of them were charged under strict accounting; under per-person accounting the latter alone.
    units: int
    log_size: int
    release: str
    # Name of the linkage chain in force; empty before the first load.
    linkage: str
    # Whether the registry in force was loaded under another dictionary than this program's.
    dictionary_changed: bool
    shut_down: bool
    # Why, as `texts.STATUS_SHUT_BY` names it.
    shutdown_reason: str
    shutdown_note: str
    shutdown_ms: int


def facts_of(state: CensusState) -> Facts:
    """What the status and the report need of the log."""
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
        dictionary_changed=state.dictionaries.get(state.load) not in {None, CENSUS_DICTIONARY.hash.hex()},
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
    # What strict accounting counts after per-person accounting nobody was charged: the ledgers know better.
    worst = facts.units if charges is None else most_charged(charges, policy.unit)
    people = None if policy.accounting == "strict" else charges
    return {
        "state": "shutdown" if facts.shut_down else "serving",
        "accounting": policy.accounting,
        "max_belief": policy.max_belief,
        "param": number(policy.param),
        "answers": facts.answers,
        "worst_charged": worst,
        "worst_belief": float(worst_belief(worst, policy)),
        # Strict accounting charges everyone alike: there are no persons to count.
        "people_charged": None if people is None else people_charged(people),
        # Of the ledger that has more of them: submitted pseudonyms, or the units of the census that the policy names.
        "people_exhausted": None if people is None else people_exhausted(people, policy),
        "log_size": facts.log_size,
        "policy_hash": facts.policy_hash,
    }


def status_text(facts: Facts, charges: Charges | None, kept: KeptSamples, alert_share: int) -> str:
    """The status for people; with an alert when more than `alert_share` percent of those charged have nothing left.

    Of a ledger that decides, whichever has the larger share of them.
    """
    policy, result = facts.policy, status_of(facts, charges)
    named = {
        "param": odds_text(result["param"]),
        "release": facts.release or texts.STATUS_NOTHING_LOADED,
        "linkage": facts.linkage or texts.STATUS_NOTHING_LOADED,
        "accounting": texts.STATUS_ACCOUNTING[policy.accounting].format(unit=policy.unit),
        "whom": texts.LIMITED[policy.unit],
    }
    parts = [texts.STATUS.format_map({**result, **named})]
    if charges is not None and policy.accounting == "strict":
        parts.append(texts.STATUS_COUNTED.format(units=facts.units, cap=policy.cap))
    elif charges is not None:
        parts += _people_text(charges, policy, alert_share)
    if kept.count or policy.accounting == "per_person":
        parts.append(texts.STATUS_KEPT.format(count=kept.count, size=size_text(kept.size_bytes)))
    if facts.shut_down:
        parts.append(_shut_text(facts))
    if result["worst_charged"] > policy.cap:
        parts.append(texts.STATUS_WARNING.format(sentence=texts.WARN_CHARGED))
    if facts.dictionary_changed:
        parts.append(texts.STATUS_WARNING.format(sentence=texts.WARN_DICTIONARY))
    return "\n".join(parts)


def _people_text(charges: Charges, policy: Policy, alert_share: int) -> list[str]:
    rows = exhaustion(charges, policy)
    exhausted = ", ".join(
        texts.STATUS_EXHAUSTED.format(exhausted=row.exhausted, counted=texts.COUNTED[row.counted]) for row in rows
    )
    parts = [texts.STATUS_PEOPLE.format(people_charged=people_charged(charges), exhausted=exhausted)]
    worst = max(rows, key=lambda row: row.share)
    if worst.share * _HUNDRED > alert_share:
        parts.append(
            texts.STATUS_ALERT.format(
                share=alert_share,
                counted=texts.COUNTED[worst.counted],
                exhausted=worst.exhausted,
                charged=worst.charged,
            )
        )
    return parts


def _shut_text(facts: Facts) -> str:
    by = texts.STATUS_SHUT_BY[facts.shutdown_reason].format(max_answers=facts.policy.max_answers)
    note = texts.STATUS_SHUT_NOTE.format(note=facts.shutdown_note) if facts.shutdown_note else ""
    return texts.STATUS_SHUT.format(time=instant(facts.shutdown_ms), by=by) + note


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
        "submitted": _spread_of(report.submitted),
        "persons": _spread_of(report.persons),
        "households": _spread_of(report.households),
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
    if report.submitted is not None and report.persons is not None and report.households is not None:
        columns = {"submitted": report.submitted, "persons": report.persons, "households": report.households}
        sections += [_spread_text(report, policy, columns), _quantiles_text(columns)]
    sections.append(_forecast_text(report, policy))
    return "\n".join(sections)


def plain(value: Decimal | Fraction) -> str:
    """A belief for people: as few digits as it has, at most five."""
    return f"{float(value):.5f}".rstrip("0").rstrip(".")


def band_names(report: BeliefReport) -> list[str]:
    """Where people can stand: untouched, in each band, above the limit."""
    within = [texts.REPORT_BAND.format(high=plain(band.high)) for band in report.bands]
    return [texts.REPORT_AT_REST, *within, texts.REPORT_ABOVE.format(high=plain(report.bands[-1].high))]


def _ceilings_text(report: BeliefReport, policy: Policy) -> str:
    rows = [
        texts.REPORT_CEILING.format(
            prior=plain(row.prior),
            now=texts.REPORT_FROM_TO.format(down=plain(row.now_down), up=plain(row.now_up)),
            limit=texts.REPORT_FROM_TO.format(down=plain(row.limit_down), up=plain(row.limit_up)),
        )
        for row in report.ceilings
    ]
    return "\n".join([texts.REPORT_CEILINGS.format(whom=texts.LIMITED[policy.unit]), *rows])


def _typical_text(report: BeliefReport, policy: Policy) -> str:
    notes = [texts.REPORT_AT_SCALES if report.submitted is None else texts.REPORT_AT_WORST]
    if policy.unit == "household":
        notes.append(texts.REPORT_AT_WORST_HOUSEHOLD)
    lines = [
        _typical_head(report),
        _typical_row(texts.REPORT_TYPICAL_NOW, report.typical_now),
        _typical_row(texts.REPORT_TYPICAL_LIMIT, report.typical_limit),
        *(note.format(scale=policy.usual_scale) for note in notes),
    ]
    return "\n".join(lines)


def _typical_head(report: BeliefReport) -> str:
    passed = [texts.REPORT_PASSES.format(belief=plain(band.high)) for band in report.bands[:-1]]
    return texts.REPORT_TYPICAL.format(beyond=_columns(passed))


def _typical_row(name: str, typical: Typical | None) -> str:
    if typical is None:
        return texts.REPORT_TYPICAL_TOO_MANY.format(answers=name)
    return texts.REPORT_TYPICAL_ROW.format(
        answers=name,
        count=sum(group.count for group in typical.answers),
        ceiling=plain(typical.ceiling),
        expected=plain(typical.expected_belief),
        right=plain(typical.best_guess_right),
        beyond=_columns([_chance(chance) for _, chance in typical.beyond]),
    )


def _columns(words: Sequence[str]) -> str:
    return "".join(texts.REPORT_COLUMN.format(word=word) for word in words).rstrip()


def _chance(chance: Decimal) -> str:
    """One in so many, to the nearest number of two digits; of a hundred where it is more than every other time."""
    if not chance:
        return texts.REPORT_CHANCE_NONE
    if 2 * chance > 1:
        return texts.REPORT_CHANCE_LARGE.format(n=round(chance * _HUNDRED))
    n = 1 / Fraction(chance)
    unit = 10 ** max(len(str(int(n))) - 2, 0)
    return texts.REPORT_CHANCE.format(n=f"{round(n / unit) * unit:,}")


def _spread_text(report: BeliefReport, policy: Policy, columns: Mapping[str, Spread]) -> str:
    rows = [
        texts.REPORT_SPREAD_ROW.format(
            band=band, **{name: f"{spread.places[place]:,}" for name, spread in columns.items()}
        )
        for place, band in enumerate(band_names(report))
    ]
    if policy.unit == "person" and columns["households"].above_limit:
        rows.append(texts.REPORT_ABOVE_NOTE.format(unit=policy.unit))
    return "\n".join([texts.REPORT_SPREAD, *rows])


def _quantiles_text(columns: Mapping[str, Spread]) -> str:
    longest = max(columns.values(), key=lambda spread: len(spread.quantiles)).quantiles
    rows = [
        texts.REPORT_QUANTILE_ROW.format(
            share=texts.REPORT_QUANTILE_ALL
            if row.share == 1
            else texts.REPORT_QUANTILE_SHARE.format(share=plain(row.share * _HUNDRED)),
            **{name: _quantile(spread.quantiles, place) for name, spread in columns.items()},
        )
        for place, row in enumerate(longest)
    ]
    return "\n".join([texts.REPORT_QUANTILES, *(rows or [f"  {texts.REPORT_NOBODY}"])])


def _quantile(quantiles: tuple[Quantile, ...], place: int) -> str:
    if not quantiles:
        return texts.REPORT_NOBODY
    return texts.REPORT_QUANTILE.format(units=quantiles[place].units, ceiling=plain(quantiles[place].ceiling))


def _forecast_text(report: BeliefReport, policy: Policy) -> str:
    if report.answers_left is not None:
        text = texts.REPORT_STRICT if report.submitted is None else texts.REPORT_STRICT_LATE
        return text.format(left=report.answers_left, scale=policy.usual_scale)
    if not report.forecast:
        return texts.REPORT_FORECAST_NONE.format(answers=MIN_ANSWERS, people=MIN_PEOPLE)
    spreads = {"submitted": report.submitted, "person": report.persons, "household": report.households}
    spread = spreads[report.forecast_of]
    rows = [_milestone_text(row, 0 if spread is None else spread.charged) for row in report.forecast]
    head = texts.REPORT_FORECAST.format(scale=policy.usual_scale, counted=texts.COUNTED[report.forecast_of])
    return "\n".join([head, *rows, texts.REPORT_FORECAST_NOTE])


def _milestone_text(row: Milestone, charged: int) -> str:
    share = texts.REPORT_FORECAST_SHARE.format(share=plain(row.share * _HUNDRED), people=f"{charged:,}")
    if row.late == 0:
        return texts.REPORT_FORECAST_REACHED.format(share=share)
    early, middle, late = (
        texts.REPORT_FORECAST_BEYOND.format(reach=f"{FORECAST_REACH:,}") if answers is None else f"{answers:,}"
        for answers in (row.early, row.middle, row.late)
    )
    return texts.REPORT_FORECAST_ROW.format(share=share, early=early, middle=middle, late=late)


def households_name(households: Spread, policy: Policy) -> str:
    """What the plot calls households: with a budget for each person the limit is not theirs."""
    name = texts.PLOT_HOUSEHOLDS if policy.unit == "household" else texts.PLOT_HOUSEHOLDS_FREE
    return name.format(people=f"{households.people:,}")


def plot_text(report: BeliefReport, policy: Policy) -> str:
    """The plot in a sentence or two, for whoever does not see it."""
    (now,) = (row.now_up for row in report.ceilings if row.prior == Fraction(1, 2))
    typical = report.typical_now
    if report.persons is None or report.households is None:
        bars = texts.PLOT_TEXT_STRICT
    else:
        named = {
            texts.PLOT_PERSONS.format(people=f"{report.persons.people:,}"): report.persons,
            households_name(report.households, policy): report.households,
        }
        bars = " ".join(
            texts.PLOT_TEXT_BARS.format(
                name=name[0].upper() + name[1:],
                counts=", ".join(
                    texts.PLOT_TEXT_COUNT.format(count=f"{count:,}", band=band)
                    for count, band in zip(spread.places, band_names(report), strict=True)
                    if count
                ),
            )
            for name, spread in named.items()
        )
    return texts.PLOT_TEXT.format(
        limit=policy.max_belief,
        bars=bars,
        worst=plain(now),
        typical=texts.PLOT_TEXT_UNKNOWN if typical is None else plain(typical.expected_belief),
    )
