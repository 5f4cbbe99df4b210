"""The document of an evaluation: the warning first, then two neighbours told apart, sensitivities, errors, public bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from broker_common.language import phrase
from policy_lab.document.model import (
    Axis,
    Block,
    Caution,
    Cell,
    Document,
    Formula,
    Line,
    Lines,
    Paragraph,
    Section,
    Source,
    Table,
)
from policy_lab.mechanisms.central import NOISY_MEAN_ASSUMES
from policy_lab.sensitivity import listing, texts
from policy_lab.sensitivity.queries import NEIGHBOURS, QUERIES, Query, bounded_sum
from policy_lab.sensitivity.table import Table as Data
from policy_lab.sensitivity.told_apart import ToldApart, told_apart
from policy_lab.sensitivity.trials import Plan, Trial
from policy_lab.standing import Standing

_NAMES: Final[dict[Query, str]] = {"sum": "SUM", "avg": "AVG"}
_REAL_LINE: Final = "e = r + u \N{MULTIPLICATION SIGN} g"
_LAW_LINE: Final = "e = g + (r \N{MINUS SIGN} g) \N{MULTIPLICATION SIGN} (z + 3) + u \N{MULTIPLICATION SIGN} g"
_CTGAN_ADDRESS: Final = "https://arxiv.org/abs/1907.00503"
# Behind so many digits stands chance.
_SIGNIFICANT = 4
_EXACT_DIGITS = 9
_PERCENT = 100
_PERCENT_DIGITS = 4
_ARITHMETIC_DIGITS = 6
_MOST_NAME = 40
# Every file of a table or a plot has it in its name.
_MARK = "not-differentially-private"


@dataclass(frozen=True, slots=True)
class Asked:
    """The evaluation and its command; `generator` says where generated rows come from."""

    data: Data
    plan: Plan
    generator: str
    is_trained: bool
    standing: Standing
    command: str


def apart(asked: Asked, found: Sequence[Trial]) -> list[ToldApart]:
    """The neighbours of the whole file for every column, with what was generated for the largest table that was tried."""
    largest = {each.column: each.generated for each in _in_order(found) if each.query == "sum"}
    return [
        pair
        for column, generated in largest.items()
        for pair in told_apart(
            column,
            asked.data.numbers[column],
            [generated, generated / (asked.data.rows - 1)],
            asked.plan.epsilon,
        )
    ]


def document(asked: Asked, found: Sequence[Trial], pairs: Sequence[ToldApart]) -> Document:
    """The whole report."""
    sections = [
        Section("warning", texts.WARNING, [Caution(texts.NOT_PRIVATE)]),
        _why(),
        _apart(asked, pairs),
        _tried(asked),
        _sensitivities(asked, found),
        _errors(found),
        _bounded(asked),
        _sources(),
    ]
    return Document("sensitivity", texts.TITLE, asked.standing, asked.command, sections)


def arithmetic() -> dict[str, float]:
    """Each step of where 0.575 percent comes from, as a probability."""
    return {
        "drawn": float(1 - listing.REAL_SHARE),
        "rounded": float(listing.ROUNDED_TAIL),
        "argued": float(listing.ARGUED),
        "tail": listing.TAIL,
        "exactly": listing.ARGUED_EXACTLY,
        "worst": listing.WORST,
    }


def _why() -> Section:
    rows: list[list[Cell]] = [[texts.ARITHMETIC_STEPS[step], share * _PERCENT] for step, share in arithmetic().items()]
    table = Table(
        f"{_MARK}-argument",
        texts.ARITHMETIC,
        texts.ARITHMETIC_HEADS,
        rows,
        digits=[None, _ARITHMETIC_DIGITS],
        note=texts.ARITHMETIC_NOTE,
    )
    return Section(
        "why",
        texts.WHY,
        [
            Formula(_REAL_LINE, texts.REAL_WORDS),
            Formula(_LAW_LINE, texts.LAW_WORDS),
            table,
        ],
        citizen=[Paragraph(texts.CITIZEN)],
        specialist=[Paragraph(texts.SPECIALIST)],
    )


def _apart(asked: Asked, pairs: Sequence[ToldApart]) -> Section:
    rows: list[list[Cell]] = [
        [
            each.column,
            _NAMES[each.query],
            each.factor,
            each.epsilon,
            each.delta(asked.plan.epsilon),
            each.near * _PERCENT,
            each.near_of_neighbour * _PERCENT,
            _figure(each.real),
            _figure(each.real_of_neighbour),
        ]
        for each in pairs
    ]
    table = Table(
        f"{_MARK}-neighbours",
        texts.APART_TABLE,
        texts.APART_HEADS,
        rows,
        digits=[None, None, 0, 2, 3, 2, 4, None, None],
        note=phrase(texts.APART_NOTE, epsilon=asked.plan.epsilon),
    )
    return Section(
        "neighbours",
        texts.APART,
        [table] if rows else [Paragraph(texts.APART_NONE)],
        citizen=[Paragraph(texts.APART_CITIZEN)],
        specialist=[Paragraph(phrase(texts.APART_SPECIALIST, neighbours=NEIGHBOURS.words))],
    )


def _tried(asked: Asked) -> Section:
    plan = asked.plan
    values: dict[str, Cell] = {
        "file": asked.data.file,
        "rows": asked.data.rows,
        "epsilon": plan.epsilon,
        "generator": asked.generator,
        "samples": plan.samples,
        "repetitions": plan.repetitions,
        "seed": str(plan.seed),
    }
    rows: list[list[Cell]] = [[texts.SETTINGS[key], value] for key, value in values.items()]
    blocks: list[Block] = [
        Table(f"{_MARK}-settings", texts.SETTINGS_CAPTION, texts.SETTING_HEADS, rows),
        Paragraph(texts.RULES),
        *(
            Caution(phrase(texts.NEGATIVE, column=column))
            for column in plan.columns
            if np.nanmin(asked.data.numbers[column]) < 0
        ),
        *([Caution(texts.MODEL_IS_INTERNAL)] if asked.is_trained else []),
        Paragraph(texts.NOISE),
    ]
    return Section("tried", texts.TRIED, blocks)


def _sensitivities(asked: Asked, found: Sequence[Trial]) -> Section:
    rows: list[list[Cell]] = [
        [
            each.column,
            _NAMES[each.query],
            each.rows,
            _figure(each.real),
            _figure(each.generated),
            _figure(each.estimate),
            _percent(each.too_small),
            _percent(each.refused),
            each.refused_here,
        ]
        for each in _in_order(found)
    ]
    table = Table(
        f"{_MARK}-sensitivities",
        texts.SENSITIVITIES_TABLE,
        texts.SENSITIVITIES_HEADS,
        rows,
        digits=[None, None, 0, None, None, None, _PERCENT_DIGITS, _PERCENT_DIGITS, 0],
        note=phrase(texts.SENSITIVITIES_NOTE, count=asked.plan.samples * asked.plan.repetitions),
    )
    return Section("sensitivities", texts.SENSITIVITIES, [table])


def _errors(found: Sequence[Trial]) -> Section:
    rows: list[list[Cell]] = [
        [
            each.column,
            _NAMES[each.query],
            each.rows,
            float(f"{each.exact:.{_EXACT_DIGITS}g}"),
            _figure(each.answer_error),
            _figure(each.answer_standard_error),
            _figure(each.bounded_error),
            _figure(each.generated_error),
            _figure(each.estimate_off),
            _figure(each.generated_off),
        ]
        for each in _in_order(found)
    ]
    table = Table(
        f"{_MARK}-errors",
        texts.ERRORS_TABLE,
        texts.ERRORS_HEADS,
        rows,
        digits=[None, None, 0, *[None] * 7],
        note=texts.ERRORS_NOTE,
    )
    return Section("errors", texts.ERRORS, [Caution(texts.NOT_PRIVATE_SHORT), *_plots(found), table])


def _plots(found: Sequence[Trial]) -> Iterator[Lines]:
    pairs = dict.fromkeys((each.column, each.query) for each in _in_order(found))
    for number, (column, query) in enumerate(pairs, 1):
        tried = [each for each in found if (each.column, each.query) == (column, query)]
        last = max(tried, key=lambda each: each.rows)
        lines = [
            _line(texts.LINE_ANSWER, [(each.rows, each.answer_error) for each in tried]),
            _line(texts.LINE_ESTIMATE, [(each.rows, each.estimate_off) for each in tried]),
            _line(texts.LINE_GENERATED, [(each.rows, each.generated_error) for each in tried]),
            _line(texts.LINE_BOUNDED, [(each.rows, each.bounded_error) for each in tried]),
        ]
        yield Lines(
            # Names that differ in what no file name may hold, or are very long, stay apart by their number.
            key=f"{_MARK}-{number}-{column[:_MOST_NAME]}-{query}",
            title=phrase(texts.PLOT, column=column, query=_NAMES[query]),
            description=_described(last),
            x=Axis(texts.X_ROWS),
            y=Axis(texts.Y_ERROR, is_log=True),
            lines=[line for line in lines if line.points],
        )


def _described(last: Trial) -> str:
    if math.isnan(last.answer_error):
        return phrase(texts.PLOT_UNANSWERED, rows=last.rows)
    return phrase(
        texts.PLOT_DESCRIPTION,
        rows=last.rows,
        answer=_figure(last.answer_error),
        estimate=_figure(last.estimate_off),
        generated=_figure(last.generated_error),
    )


def _line(label: str, points: Sequence[tuple[int, float | None]]) -> Line:
    """The values that a logarithmic axis can show: none that is zero, or that was never answered."""
    drawn = [(float(x), y) for x, y in sorted(points) if y is not None and y > 0]
    return Line(label, drawn)


def _bounded(asked: Asked) -> Section:
    bounds = asked.plan.bounds
    if not bounds:
        return Section("bounds", texts.BOUNDED, [Paragraph(texts.NO_BOUNDS)])
    rows: list[list[Cell]] = []
    for column, (low, high) in bounds.items():
        noise = bounded_sum((low, high), asked.plan.epsilon)
        rows.append([column, low, high, float(noise.sensitivity), _figure(noise.scale)])
    table = Table("public-bounds", texts.BOUNDED_TABLE, texts.BOUNDED_HEADS, rows)
    words = phrase(texts.BOUNDED_WORDS, neighbours=NEIGHBOURS.words)
    average = phrase(texts.BOUNDED_AVERAGE, noisy_mean=NOISY_MEAN_ASSUMES)
    return Section("bounds", texts.BOUNDED, [Paragraph(words), Paragraph(average), table])


def _sources() -> Section:
    blocks = [
        Source(texts.SOURCE_LISTING),
        Source(texts.SOURCE_CTGAN, _CTGAN_ADDRESS),
        Source(texts.SOURCE_SENSITIVITY),
    ]
    return Section("sources", texts.SOURCES, blocks)


def _in_order(found: Sequence[Trial]) -> list[Trial]:
    """Each column's queries together, by number of rows."""
    columns = list(dict.fromkeys(each.column for each in found))
    return sorted(found, key=lambda each: (columns.index(each.column), QUERIES.index(each.query), each.rows))


def _percent(share: float) -> float:
    """A probability in percent, zero where its digits are."""
    return round(share * _PERCENT, _PERCENT_DIGITS)


def _figure(value: float | None) -> float | None:
    """A figure with the digits that mean something; nothing for what was never answered."""
    return None if value is None or math.isnan(value) else float(f"{value:.{_SIGNIFICANT}g}")
