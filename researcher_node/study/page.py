"""A study's report as one page that needs nothing else: no script, no font, no network. Light and dark follow the reader's.

Each estimate is a line of a forest plot: a dot, a thick stroke for the noise alone and a thin one with sampling. A stroke that
ends in an arrow goes on beyond the plot. The words of the table say the same as the drawing, which screen readers leave out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from broker_common.language import Language, language_of_environment
from researcher_node.estimates.tables import Estimate, Interval
from researcher_node.study import texts
from researcher_node.study.report import group_text, heading, interval_text, notes, number_text, sections, value_text
from researcher_node.study.results import Finding, Results, finite

# Ratios are drawn on a scale of logarithms: a half and twice are equally far from 1.
_RATIOS = frozenset({"ratio", "rate_ratio"})
# Where nothing differs, by kind; shares have no such place.
_NULL = {"ratio": 1.0, "rate_ratio": 1.0, "difference": 0.0, "trend": 0.0}
# Limits of drawn ratios: beyond them a stroke has an arrow.
_LEAST_RATIO, _MOST_RATIO = 0.05, 20.0
_WIDTH, _LINE = 320, 26
_NO_AXIS = Markup("")

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --soft: #5c5c5c; --line: #c9c9c9; --ground: #ffffff; --mark: #14507a; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ececec; --soft: #ababab; --line: #484848; --ground: #16181a; --mark: #7cc0f0; }
}
body { margin: 2rem auto; padding: 0 1rem; max-width: 68rem; color: var(--ink); background: var(--ground);
  font: 1rem/1.5 system-ui, sans-serif; }
table { border-collapse: collapse; margin: 0 0 2rem; display: block; overflow-x: auto; }
caption { text-align: left; font-weight: 600; padding: .5rem 0; }
th, td { padding: .2rem .8rem .2rem 0; text-align: left; border-bottom: 1px solid var(--line); white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.soft { color: var(--soft); }
.ends span:last-child { float: right; }
svg { display: block; }
.axis { stroke: var(--line); stroke-width: 1; } .null { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 3 3; }
.thin { stroke: var(--mark); stroke-width: 1.5; } .thick { stroke: var(--mark); stroke-width: 6; opacity: .5; }
.dot, .arrow { fill: var(--mark); }
"""


@dataclass(frozen=True, slots=True)
class _Scale:
    """From numbers of one kind to places between 0 and 1."""

    low: float
    high: float
    is_log: bool

    def place(self, number: float) -> float:
        if self.is_log:
            number = math.log(max(number, _LEAST_RATIO / 10))
        return min(1.0, max(0.0, (number - self.low) / (self.high - self.low)))

    def holds(self, number: float) -> bool:
        if self.is_log:
            number = math.log(number) if number > 0 else -math.inf
        return self.low <= number <= self.high


def report_page(found: Results) -> str:
    """The whole page."""
    t = language_of_environment()
    title = escape(found.study.title)
    body = [Markup("<h1>{}</h1>").format(found.study.title), _head(found, t), _counts(found, t)]
    body += [_section(found, kind, findings, t) for (kind, _), findings in sections(found).items()]
    body += [Markup("<section>{}</section>").format(_paragraphs(notes(found, t))), _questions(found, t)]
    content = Markup("").join(body)
    return (
        f'<!doctype html>\n<html lang="{t.code}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{title}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n{content}\n</body>\n</html>\n"
    )


def _head(found: Results, t: Language) -> Markup:
    answered = len(found.standings) - len(found.missing)
    said = t(
        texts.PAGE_HEAD,
        question=found.study.question.text,
        answered=answered,
        asked=len(found.standings),
        scale=found.scale,
    )
    return Markup('<p class="soft">{}</p>').format(said)


def _paragraphs(lines: Sequence[str]) -> Markup:
    return Markup("").join(Markup('<p class="soft">{}</p>').format(line) for line in lines)


def _counts(found: Results, t: Language) -> Markup:
    if not found.counted:
        return Markup("")
    study = found.study
    by_ask: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for each in found.counted:
        by_ask.setdefault((each.standing.ask.event, each.standing.ask.group), []).append(t.number(each.count))
    has_events = any(event for event, _ in by_ask)
    heads = [*(name for name, _ in study.splits), *([t(texts.EVENT)] if has_events else [])]
    rows = [
        _cells([*group, *([event or "-"] if has_events else [])], numbers) for (event, group), numbers in by_ask.items()
    ]
    reach = t(texts.REACH, margin=t.number(found.counted[0].margin)).strip()
    return _table(f"{t(texts.COUNTS)} ({reach})", heads, list(study.cells), rows)


def _section(found: Results, kind: str, findings: Sequence[Finding], t: Language) -> Markup:
    row = findings[0].row
    scale = _scale_of(kind, [each.estimate for each in findings if each.estimate is not None])
    words = [name for name, _ in found.study.splits] + ([t(texts.AGAINST)] if row.reference is not None else [])
    figures = [t(texts.ESTIMATE), t(texts.NOISE_ONLY), t(texts.WITH_SAMPLING)]
    rows = [_cells(_names(each, t), _figures(kind, each, t), _drawn(kind, each.estimate, scale)) for each in findings]
    return _table(heading(kind, row, t), words, figures, rows, _axis(kind, scale, t))


def _names(finding: Finding, t: Language) -> list[str]:
    row = finding.row
    names = [t(texts.ALL_GROUPS) if name is None else name for name in row.group]
    if row.reference is None:
        return names
    return [*names, group_text([theirs for theirs, own in zip(row.reference, row.group, strict=True) if theirs != own])]


def _figures(kind: str, finding: Finding, t: Language) -> list[str]:
    estimate = finding.estimate
    if estimate is None:
        return [value_text(kind, None, t), "", ""]
    intervals = (estimate.noise_only, estimate.with_sampling)
    return [value_text(kind, estimate, t), *(interval_text(kind, each, t) for each in intervals)]


def _questions(found: Results, t: Language) -> Markup:
    """Each question and its charge: its receipt is under its query id in the store of answers."""
    rows = [
        _cells(
            ["-" if each.asked is None else each.asked.where, "-" if each.attempt is None else each.attempt.query],
            ["-" if each.asked is None or each.asked.charged is None else t.number(each.asked.charged)],
        )
        for each in found.standings
    ]
    return _table(t(texts.QUESTIONS), [t(texts.ASKED_AMONG), t(texts.QUERY)], [t(texts.UNITS_CHARGED)], rows)


def _axis(kind: str, scale: _Scale, t: Language) -> Markup:
    """The numbers at both ends of the drawings."""
    ends = (math.exp(end) if scale.is_log else end for end in (scale.low, scale.high))
    shown = [Markup("<span>{}</span>").format(number_text(kind, end, t)) for end in ends]
    return Markup('<td class="ends soft" aria-hidden="true">{}</td>').format(Markup("").join(shown))


def _table(
    caption: str, words: Sequence[str], figures: Sequence[str], rows: Sequence[Markup], axis: Markup = _NO_AXIS
) -> Markup:
    heads = Markup("").join(
        [
            *(Markup('<th scope="col">{}</th>').format(each) for each in words),
            *(Markup('<th scope="col" class="number">{}</th>').format(each) for each in figures),
            axis,
        ]
    )
    return Markup("<table><caption>{}</caption><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(
        caption, heads, Markup("").join(rows)
    )


def _cells(words: Sequence[str], figures: Sequence[str], drawn: Markup | None = None) -> Markup:
    parts = [
        *(Markup("<td>{}</td>").format(each) for each in words),
        *(Markup('<td class="number">{}</td>').format(each) for each in figures),
    ]
    if drawn is not None:
        parts.append(Markup('<td aria-hidden="true">{}</td>').format(drawn))
    return Markup("<tr>{}</tr>").format(Markup("").join(parts))


# --- drawing ---------------------------------------------------------------------------------------------------------


def _scale_of(kind: str, estimates: Sequence[Estimate]) -> _Scale:
    """A scale that holds every end that can be told, and the place where nothing differs."""
    is_log = kind in _RATIOS
    ends = [_NULL[kind]] if kind in _NULL else [0.0]
    for each in estimates:
        intervals = [interval for interval in (each.noise_only, each.with_sampling) if interval.told]
        known = [finite(each.value), *(finite(end) for interval in intervals for end in (interval.low, interval.high))]
        ends += [end for end in known if end is not None]
    if is_log:
        ends = [math.log(min(_MOST_RATIO, max(_LEAST_RATIO, end))) for end in ends]
    low, high = min(ends), max(ends)
    room = 0.05 * (high - low) or 0.5
    # Shares begin at nothing.
    return _Scale(low - room if kind in _NULL else 0.0, high + room, is_log)


def _drawn(kind: str, estimate: Estimate | None, scale: _Scale) -> Markup:
    middle = _LINE / 2
    parts = [f'<line class="axis" x1="0" x2="{_WIDTH}" y1="{middle}" y2="{middle}"/>']
    if kind in _NULL:
        at = _x(scale.place(_NULL[kind]))
        parts.append(f'<line class="null" x1="{at}" x2="{at}" y1="0" y2="{_LINE}"/>')
    if estimate is not None:
        parts += _stroke("thin", estimate.with_sampling, scale) + _stroke("thick", estimate.noise_only, scale)
        if finite(estimate.value) is not None and estimate.value is not None and scale.holds(estimate.value):
            parts.append(f'<circle class="dot" cx="{_x(scale.place(estimate.value))}" cy="{middle}" r="4"/>')
    return Markup(f'<svg width="{_WIDTH}" height="{_LINE}" viewBox="0 0 {_WIDTH} {_LINE}">{"".join(parts)}</svg>')  # noqa: S704 - numbers alone


def _stroke(kind: str, interval: Interval, scale: _Scale) -> list[str]:
    """Nothing for an interval that cannot be told."""
    if not interval.told:
        return []
    low, high = scale.place(interval.low), scale.place(interval.high)
    middle = _LINE / 2
    parts = [f'<line class="{kind}" x1="{_x(low)}" x2="{_x(high)}" y1="{middle}" y2="{middle}"/>']
    if not scale.holds(interval.low):
        parts.append(f'<path class="arrow" d="M0 {middle}l8 -5v10z"/>')
    if not scale.holds(interval.high):
        parts.append(f'<path class="arrow" d="M{_WIDTH} {middle}l-8 -5v10z"/>')
    return parts


def _x(place: float) -> str:
    return f"{_WIDTH * place:.1f}"
