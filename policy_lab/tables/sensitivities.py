"""The change that one row can make in each cell, the noise that follows, and how the methods compare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

from broker_common.language import joined, phrase
from policy_lab.document.model import Axis, Bars, Block, Cell, Formula, Paragraph, Section, Table
from policy_lab.tables import texts
from policy_lab.tables.cells import Cells
from policy_lab.tables.plan import Method, Noisy, Plan, Rule, change_of
from policy_lab.tables.question import Question

_PERCENT = 100
# More cells than this leave no room for their names.
_MOST_BARS = 30
_Chosen: TypeAlias = tuple[Rule, Method]


def sensitivities(question: Question, plan: Plan, cells: Cells) -> Section:
    """The section."""
    blocks: list[Block] = [_figures(question, plan, each, cells) for each in plan.noisy]
    blocks += _remarks(question, plan, cells)
    blocks += _compared(question, cells)
    specialist = [Formula("b = Δ / ε", phrase(texts.HOW_SCALES))]
    return Section("sensitivities", texts.SENSITIVITIES, blocks, specialist=specialist)


def named(cells: Cells) -> Sequence[str]:
    """A name for each cell of a table, also where there is only one."""
    return [name or texts.WHOLE_TABLE for name in cells.names]


def baseline(question: Question, cells: Cells) -> Fraction:
    """Baseline of a cell's sensitivity: that of public bounds, or else the largest value of the file."""
    if question.bounds is not None:
        return change_of(cells, "total", "laplace", question.bounds).alone[0]
    return cells.largest


def _figures(question: Question, plan: Plan, noisy: Noisy, cells: Cells) -> Table:
    is_total = noisy.figure == "total"
    alone = noisy.change.within if plan.as_published else noisy.change.alone
    exact: Sequence[float] = cells.totals if is_total else cells.members
    with_gain = is_total and question.rule == "bootstrap"
    per_member = question.statistic == "average" and plan.counts_are_public
    heads = [texts.CELL, texts.MEMBERS, texts.EXACT, texts.ALONE, texts.SCALE, texts.RELATIVE]
    heads += [texts.OF_AVERAGE] * per_member + [texts.GAIN] * with_gain
    compared = baseline(question, cells)
    rows: list[list[Cell]] = []
    for at, name in enumerate(named(cells)):
        members, scale = cells.members[at], noisy.scales[at]
        row: list[Cell] = [name, members, exact[at], alone[at], scale, percent(scale, exact[at])]
        if per_member:
            row.append(alone[at] / members if members else None)
        if with_gain:
            row.append(compared / alone[at] if alone[at] else None)
        rows.append(row)
    digits = [None, None, 2 if is_total else None, 2, 2, 2, *[3] * (per_member + with_gain)]
    caption = texts.OF_TOTALS if is_total else texts.OF_COUNTS
    return Table(f"sensitivities-{noisy.figure}", caption, heads, rows, digits=digits)


def percent(part: Fraction | float, whole: float) -> float | None:
    """A share of an exact value in percent; None of nothing."""
    return _PERCENT * float(part) / abs(whole) if whole else None


def _remarks(question: Question, plan: Plan, cells: Cells) -> Iterator[Block]:
    change = plan.main.change
    if plan.method != "public-membership" and not plan.as_published and len(cells.parts) > 1:
        yield _whole(plan, cells)
    if question.statistic == "average":
        yield Paragraph(_of_averages(plan))
    if question.rule == "bootstrap" and any(change.alone):
        if question.statistic == "count":
            yield Paragraph(phrase(texts.NO_GAIN_OF_COUNTS))
        elif question.bounds is None:
            yield Paragraph(phrase(texts.NO_GAIN, largest=float(cells.largest)))
        else:
            yield Paragraph(phrase(texts.GAIN_OF_BOUNDS))


def _whole(plan: Plan, cells: Cells) -> Block:
    if plan.statistic == "count":
        return Paragraph(phrase(texts.WHOLE_COUNT, whole=float(plan.main.change.whole)))
    whole, across = float(plan.main.change.whole), plan.main.change.across
    if plan.rule == "laplace":
        return Paragraph(phrase(texts.WHOLE_ANY, whole=whole))
    first, second = sorted(range(len(across)), key=across.__getitem__, reverse=True)[:2]
    return Paragraph(phrase(texts.WHOLE, whole=whole, first=cells.names[first], second=cells.names[second]))


def _of_averages(plan: Plan) -> str:
    if plan.counts_are_public:
        return phrase(texts.DIVIDED)
    if plan.rule == "laplace":
        return phrase(texts.CENTRED, centre=float(plan.centre))
    return phrase(texts.HALVES)


def _compared(question: Question, cells: Cells) -> Iterator[Block]:
    """The same table by every method that can be compared."""
    plans = {
        (rule, method): question.plan(cells, method, rule) for rule in question.rules for method in question.methods
    }
    exact: Sequence[float] = cells.members if question.statistic == "count" else cells.totals
    shown = [at for at, value in enumerate(exact) if value]
    if not shown:
        return
    shares = {key: [percent(plan.main.scales[at], exact[at]) or 0.0 for at in shown] for key, plan in plans.items()}
    caption = texts.METHODS_CORRECTED if question.as_published else texts.METHODS
    yield _methods(caption, plans, shares)
    drawn = shown[:_MOST_BARS]
    bars = {key: share[: len(drawn)] for key, share in shares.items()}
    yield _bars(bars, [named(cells)[at] for at in drawn])


def _methods(caption: str, plans: Mapping[_Chosen, Plan], shares: Mapping[_Chosen, Sequence[float]]) -> Table:
    heads = [texts.RULE, texts.METHOD, texts.LEAST_SCALE, texts.MOST_SCALE, texts.MEAN_RELATIVE, texts.REAL]
    rows: list[list[Cell]] = []
    for (rule, method), plan in plans.items():
        scales, relative = plan.main.scales, shares[rule, method]
        mean = sum(relative) / len(relative)
        rows.append([texts.SHORT[rule], texts.NAMES[method], min(scales), max(scales), mean, epsilon_cell(plan)])
    return Table("methods", caption, heads, rows, digits=[None, None, 2, 2, 2, 3], note=texts.METHODS_NOTE)


def epsilon_cell(plan: Plan) -> Cell:
    """The real epsilon of a plan, or that there is none."""
    return texts.NO_EPSILON if plan.real_epsilon is None else plan.real_epsilon


def _bars(shares: Mapping[_Chosen, Sequence[float]], names: Sequence[str]) -> Bars:
    series = [joined(" ", [texts.SHORT[rule], texts.SHORT[method]]) for rule, method in shares]
    return Bars(
        "relative-noise",
        texts.RELATIVE_PLOT,
        phrase(texts.RELATIVE_PLOT_WORDS, n=len(names)),
        Axis(texts.RELATIVE_AXIS, is_log=True),
        names,
        series,
        list(shares.values()),
    )
