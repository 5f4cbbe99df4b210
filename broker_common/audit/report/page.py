"""The audit report as one HTML file for a commissioner: verdict first, then what could not be checked, then the story.

It stands alone: style and pictures are inside, nothing is loaded from anywhere. Every figure names the log entry that it
comes from. Nothing in it depends on the ledger of persons: what the census agency alone knows is not in an export.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from importlib import resources

import jinja2
from markupsafe import Markup

from broker_common.audit.audit import Audited
from broker_common.audit.codes import PENDING
from broker_common.audit.findings import printable
from broker_common.audit.report.verdict import place_of, problem_text, remark_text, sorted_problems
from broker_common.dashboard.charts import Mark, Series, gauge, steps
from broker_common.dashboard.parts import LOADS, ORDERS, PEERS, POLICIES, belief_scale, happened
from broker_common.errors import REASONS
from broker_common.language import Language, phrase
from broker_common.privacy.belief import belief_of_units
from broker_common.tlog.history import History

# Rows of a table: more than anybody reads, and a log of a million happenings still makes a page that opens.
_MOST_ROWS = 2000
# Longer than any reason may be.
_MOST_CHARACTERS = 5000

_GLOSSARY = (
    (phrase("answer"), phrase("A count with noise added, sealed so that only its researcher can read it.")),
    (
        phrase("belief"),
        phrase("How sure somebody can be of one person's language after seeing answers, starting at even odds."),
    ),
    (phrase("roster"), phrase("The pseudonyms of a health agency's load, handed to the census agency once.")),
    (phrase("charge"), phrase("What an answer costs of a budget, in units of 2^-24 nat. Nothing lowers a charge.")),
    (
        phrase("checkpoint"),
        phrase("The size of a log and a hash of all of it, signed. Two checkpoints of one size are the same."),
    ),
    (
        phrase("cosignature"),
        phrase("The other agency's signature on a checkpoint: it has seen the log so far, and it only grew."),
    ),
    (phrase("limit"), phrase("The belief that nobody may pass, set by the census agency in its policy.")),
    (phrase("load"), phrase("One version of an agency's data.")),
    (
        phrase("log"),
        phrase("An agency's record of what it did, entry by entry; nobody can change it later without being noticed."),
    ),
    (
        phrase("noise slot"),
        phrase("Noise that the census agency drew and committed to before it knew the question; each is used once."),
    ),
    (
        phrase("opening"),
        phrase(
            "What the census agency seals for the auditor about one answer: its exact count and how its noise was drawn."
        ),
    ),
    (
        phrase("oversight key"),
        phrase("The auditor's key, which alone opens openings."),
    ),
    (
        phrase("order"),
        phrase("What the operator has signed: a shutdown, a reopening, or the adoption of a weaker policy."),
    ),
    (phrase("policy"), phrase("The census agency's signed rules: limit, way of accounting, noise and fixed times.")),
    (phrase("pending"), phrase("Under way when the logs were handed in; not a problem.")),
    (
        phrase("receipt"),
        phrase("The census agency's signature on what was charged for an answer, kept by its researcher."),
    ),
)


def report_html(audited: Audited, t: Language, *, made_ms: int, parts: Sequence[str]) -> str:
    """The report; `parts` names the exports that were handed in."""
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader("broker_common.audit.report"), jinja2.PackageLoader("broker_common.dashboard")]
        ),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    findings, leakage = audited.findings, audited.leakage
    census, health = audited.histories.get("census", History()), audited.histories.get("health", History())
    style = resources.files("broker_common.dashboard").joinpath("static", "style.css").read_text("utf-8")
    return environment.get_template("report.html").render(
        t=t,
        style=Markup(style),  # noqa: S704 - our own file
        made_ms=made_ms,
        parts_in=[_part(t, part, audited.histories.get(part, History())) for part in parts],
        holds=not findings.count,
        count=findings.count,
        first=_first(t, audited),
        glance=_glance(t, audited, census),
        problems=[
            (place_of(t, problem), problem.code, problem_text(t, problem)) for problem in sorted_problems(audited)
        ],
        not_checked=[remark_text(t, remark) for remark in findings.remarks],
        pending=[
            (t(log), t.number(count), t(PENDING[code])) for (code, log), count in sorted(findings.pending.items())
        ],
        figures=_figures(t, audited),
        gauge="" if leakage is None else _gauge(t, leakage.worst_units, leakage.max_belief),
        belief=_belief_sentences(t, audited),
        line=_line(t, census),
        most=_MOST_ROWS,
        timeline=_timeline(t, census, health),
        use=_use(t, census),
        refusals=_refusals(t, audited, health),
        glossary=sorted((t(word), t(meaning)) for word, meaning in _GLOSSARY),
    )


def _part(t: Language, part: str, history: History) -> str:
    return f"{t(part)} ({history.organisation})" if history.organisation else t(part)


def _figures(t: Language, audited: Audited) -> list[tuple[str, str, str]]:
    """Name, value, and where it comes from."""
    leakage, logs = audited.leakage, audited.histories
    rows = []
    for role, name in (("census", t("Entries of the census log")), ("health", t("Entries of the health log"))):
        size = audited.entries.get(role, 0)
        source = t("entries {first} to {last}", first=t.number(0), last=t.number(size - 1)) if size else t("none")
        rows.append((name, t.number(size), source))
    if leakage is not None:
        census = logs["census"]
        charges, policy = _entries(t, census, "charged"), _last_entry(t, census, "adopted")
        rows += [
            (t("Answers charged"), t.number(leakage.answers), charges),
            (t("Answers released"), t.number(leakage.released), _entries(t, census, "released")),
            (
                t("Units charged in all, all answers together"),
                t.number(leakage.charged_units),
                t("total in {entry}", entry=_last_entry(t, census, "charged")),
            ),
            (
                t("Units charged to one person, at most"),
                t.number(leakage.worst_units),
                t("sum over {entries}", entries=charges),
            ),
            (t("Units that one person may be charged"), t.number(leakage.cap), policy),
            (
                t("Belief about one person, at most"),
                t.at_most(belief_of_units(leakage.worst_units), 2),
                t("follows from the units above"),
            ),
            (t("Limit of belief"), t.exact_percent(leakage.max_belief), policy),
        ]
    rows.append((t("Receipts shown by researchers"), t.number(audited.tickets), t("the researchers' export")))
    if audited.noise is not None:
        rows.append((t("Answers whose noise was computed again"), t.number(audited.noise), t("the sealed openings")))
    return rows


def _entries(t: Language, history: History, kind: str) -> str:
    """Which entries of a log are of this type."""
    if kind not in history.entries:
        return t("no entry of type {type}", type=kind)
    first, last = history.entries[kind]
    if first == last:
        return _last_entry(t, history, kind)
    return t("entries of type {type}, {first} to {last}", type=kind, first=t.number(first), last=t.number(last))


def _last_entry(t: Language, history: History, kind: str) -> str:
    if kind not in history.entries:
        return t("no entry of type {type}", type=kind)
    return t("entry {last} of type {type}", type=kind, last=t.number(history.entries[kind][1]))


def _first(t: Language, audited: Audited) -> str:
    """The problem to look at first; empty if there is none."""
    for problem in sorted_problems(audited):
        return t("Look at this first: {what} ({where}).", what=problem_text(t, problem), where=place_of(t, problem))
    return ""


def _glance(t: Language, audited: Audited, census: History) -> list[tuple[str, str, str]]:
    """The minimum that every reader has to know: name, value, note."""
    leakage = audited.leakage
    if leakage is None:
        return []
    orders = [each for each in census.happenings if each.kind in ORDERS]
    first, last = t.day(census.first_ms), t.day(census.last_ms)
    rule = (
        t("every answer is charged to everybody")
        if leakage.accounting == "strict"
        else t("an answer is charged to the people in its sample")
    )
    return [
        (t("The service"), t("shut down") if leakage.is_shut_down else t("open"), rule),
        (
            t("Answers charged"),
            t.number(leakage.answers),
            first if first == last else t("from {first} to {last}", first=first, last=last),
        ),
        (
            t("Researchers who asked"),
            t.number(len({researcher for researcher, _ in census.use})),
            t.count(len(census.use), "{n} project", "{n} projects"),
        ),
        (
            t("Orders"),
            t.number(len(orders)),
            t("last order {time}", time=t.day(orders[-1].time_ms)) if orders else "",
        ),
    ]


def _refusals(t: Language, audited: Audited, health: History) -> list[tuple[str, str, str, str, str]]:
    """Counts by researcher and code; codes that no node uses are grouped as one."""
    refused = {} if audited.uncharged is None else audited.uncharged.refused
    return [
        (printable(researcher), code, _refusal(t, code), t.number(count), _entries(t, health, "refused"))
        for (researcher, code), count in sorted(refused.items())
    ]


def _refusal(t: Language, code: str) -> str:
    """The meaning of a refusal; no log says what it was about."""
    return re.sub(r"\{\w+\}", "…", t(REASONS[code].text)) if code in REASONS else ""


def _belief_sentences(t: Language, audited: Audited) -> list[str]:
    """How much leaked, and how far that can be relied on."""
    leakage = audited.leakage
    if leakage is None and audited.findings.count:
        return [t("How much can have leaked could not be computed: the census log could not be replayed.")]
    if leakage is None:
        return [t("No policy was ever in force.")]
    found = [
        t(
            "Nobody who started at even odds can be surer than {worst} of one person's language; the limit is {limit}.",
            worst=t.at_most(belief_of_units(leakage.worst_units), 2),
            limit=t.exact_percent(leakage.max_belief),
        )
    ]
    if leakage.claimed:
        found.append(
            t(
                "That nobody was charged more is the census agency's claim: no log says whom an answer was charged "
                "to, and only an audit on site proves it."
            )
        )
    if audited.findings.count:
        found.insert(0, t("While there are problems, the figures below are what could be read and prove nothing."))
    return found


def _gauge(t: Language, worst_units: int, max_belief: str) -> Markup:
    worst, limit = belief_of_units(worst_units), Decimal(max_belief)
    said = t("at most {share}", share=t.at_most(worst, 2))
    return gauge(
        "belief-chart",
        t("The most that anybody can believe about one person, and the limit"),
        said,
        value=Mark(float(2 * worst - 1), said),
        limit=Mark(float(2 * limit - 1), t("limit {share}", share=t.exact_percent(max_belief))),
        scale=belief_scale(t),
    )


def _line(t: Language, census: History) -> Markup | str:
    points = census.points
    if not points:
        return ""
    first_ms, span = points[0].time_ms, max(points[-1].time_ms - points[0].time_ms, 1)
    most = points[-1].units or 1
    first, last = t.day(first_ms), t.day(points[-1].time_ms)
    if first == last:
        first, last = t.instant(first_ms), t.instant(points[-1].time_ms)
    return steps(
        "spent-chart",
        t("Units charged over time, all answers together"),
        t("from {first} to {last}", first=first, last=last),
        [Series([((point.time_ms - first_ms) / span, point.units / most) for point in points])],
        x_marks=[Mark(0.0, first), Mark(1.0, last)],
        y_marks=[Mark(0.0, t.number(0)), Mark(1.0, t.number(most))],
    )


def _timeline(t: Language, census: History, health: History) -> list[tuple[str, str, str]]:
    kinds = POLICIES | ORDERS | LOADS | PEERS
    rows = [(each, "census") for each in census.happenings if each.kind in kinds]
    rows += [(each, "health") for each in health.happenings if each.kind in kinds]
    rows.sort(key=lambda row: (row[0].time_ms, row[1], row[0].entry))
    told = ((each, log, printable(happened(t, each), _MOST_CHARACTERS)) for each, log in rows)
    return [
        (
            t.minute(each.time_ms),
            t("{log} log, entry {entry}", log=t(log), entry=t.number(each.entry)),
            t("{what}. Reason: {reason}", what=what, reason=printable(each.note, _MOST_CHARACTERS))
            if each.note
            else what,
        )
        for each, log, what in told
    ]


def _use(t: Language, census: History) -> list[tuple[str, str, str, str, str, str]]:
    return [
        (
            printable(researcher),
            printable(project),
            t.number(use.answers),
            t.number(use.units),
            t.minute(use.last_ms),
            t("entries {first} to {last}", first=t.number(use.first_entry), last=t.number(use.last_entry))
            if use.first_entry < use.last_entry
            else t("entry {entry}", entry=t.number(use.last_entry)),
        )
        for (researcher, project), use in sorted(census.use.items())
    ]
