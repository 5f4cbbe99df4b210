"""The document of one table: the question, the promise, sensitivities, and answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from broker_common.language import phrase
from policy_lab.document.as_csv import as_csv
from policy_lab.document.model import (
    Axis,
    Block,
    Caution,
    Cell,
    Document,
    Line,
    Lines,
    Section,
    Source,
    Table,
)
from policy_lab.tables import texts
from policy_lab.tables.cells import Cells
from policy_lab.tables.drawing import by_uniform, exact, replicates
from policy_lab.tables.plan import Plan, Statistic
from policy_lab.tables.promises import evaluated_promise, released_promise
from policy_lab.tables.published import published
from policy_lab.tables.question import Question
from policy_lab.tables.release import Release
from policy_lab.tables.sensitivities import named, sensitivities

_KEY = "table"
_DIGITS = 2
# The dots of a cell take so much of its place.
_DOTS_WIDTH = 0.6
# More could not be told apart, and the page would be slow.
_MOST_DOTS = 3000


def evaluated(question: Question, cells: Cells) -> tuple[Document, NDArray[np.float64]]:
    """The evaluation of one table, and its replicates."""
    # Each part has randomness of its own, so that none depends on how much another draws.
    for_replicates, for_worlds = np.random.default_rng(question.seed).spawn(2)
    plan = question.published(cells) if question.as_published else question.plan(cells)
    drawn = replicates(plan, cells, question.repetitions, for_replicates)
    sections = [
        _asked(question, cells),
        evaluated_promise(question, plan, cells),
        sensitivities(question, plan, cells),
        *([published(question, cells, for_worlds)] if question.as_published else []),
        _answers(question, plan, cells, drawn),
        _sources(question, is_release=False),
    ]
    return _document(question, sections), drawn


def released_report(question: Question, release: Release, cells: Cells) -> Document:
    """A table for release: nothing in it is exact but what is public."""
    answers: list[Cell] = [texts.REFUSED_CELL if each is None else each for each in release.answers]
    settings = _settings(question, cells, [[texts.GRID, release.grid.step]])
    digits = _DIGITS if question.statistic == "average" else None
    blocks: list[Block] = [_shaped(texts.RELEASED_TABLE, question.statistic, cells, answers, digits)]
    if question.rows or question.columns:
        blocks.insert(0, Caution(phrase(texts.RELEASED_LABELS)))
    if question.rule == "laplace":
        blocks.append(_released_scales(release))
    sections = [
        Section("asked", texts.ASKED, [Caution(phrase(texts.NOT_AGAIN)), settings]),
        released_promise(release),
        Section("answers", texts.ANSWERS, blocks),
        _sources(question, is_release=True),
    ]
    return _document(question, sections, is_release=True)


def replicates_csv(question: Question, cells: Cells, drawn: NDArray[np.float64]) -> bytes:
    """Every replicate, one line for each, under the names of the cells and their numbers."""
    heads = [f"{number} {name}" for number, name in enumerate(named(cells), 1)]
    return as_csv(question.standing, heads, drawn.tolist())


def _document(question: Question, sections: Sequence[Section], *, is_release: bool = False) -> Document:
    title = texts.TITLES[question.statistic]
    return Document(_KEY, title, question.standing, question.command, sections, is_release)


def _asked(question: Question, cells: Cells) -> Section:
    also: list[list[Cell]] = [[texts.OUTSIDE, cells.outside]] if question.where else []
    if question.bounds is not None:
        also.append([texts.CUT, cells.clamped])
    return Section("asked", texts.ASKED, [_settings(question, cells, [*also, [texts.SEED, question.seed]])])


def _settings(question: Question, cells: Cells, also: Sequence[Sequence[Cell]]) -> Table:
    rows: list[list[Cell]] = [
        [texts.STATISTIC, texts.NAMES[question.statistic]],
        [texts.VALUES, question.value],
        [texts.TABLE_ROWS, question.rows],
        [texts.TABLE_COLUMNS, question.columns],
        [texts.FILTER, ", ".join(f"{name}={value}" for name, value in question.where)],
        [texts.RULE, texts.NAMES[question.rule]],
        [texts.METHOD, texts.NAMES[question.method]],
        [texts.EPSILON, question.epsilon],
        [texts.BOUNDS, _bounds(question)],
        [texts.FILE_ROWS, cells.size],
        *map(list, also),
    ]
    given = [row for row in rows if row[1] != ""]
    return Table("question", texts.SETTINGS, [texts.SETTING, texts.GIVEN], given)


def _bounds(question: Question) -> str:
    if question.bounds is None:
        return ""
    low, high = map(float, question.bounds)
    return phrase(texts.BETWEEN, low=low, high=high)


def _answers(question: Question, plan: Plan, cells: Cells, drawn: NDArray[np.float64]) -> Section:
    by_hand = question.uniform
    shown = drawn[0] if by_hand is None else by_uniform(plan, cells, by_hand)
    caption = texts.NOISY_TABLE if by_hand is None else phrase(texts.UNIFORM_TABLE, uniform=by_hand)
    digits = 0 if by_hand is not None and question.statistic == "count" else _DIGITS
    truth = exact(plan, cells)
    blocks = [
        _shaped(caption, question.statistic, cells, [finite(each) for each in shown], digits),
        _replicated(plan, cells, truth, drawn),
        *_plotted(truth, drawn),
    ]
    return Section("answers", texts.ANSWERS, blocks)


def _shaped(caption: str, statistic: Statistic, cells: Cells, answers: Sequence[Cell], digits: int | None) -> Table:
    """Answers in the table's own shape."""
    width = len(cells.columns)
    heads = [cells.row_name or "", *(column or texts.NAMES[statistic] for column in cells.columns)]
    rows = [[row or texts.WHOLE_TABLE, *answers[at * width : (at + 1) * width]] for at, row in enumerate(cells.rows)]
    return Table("answers", caption, heads, rows, digits=[None, *[digits] * width])


def _replicated(plan: Plan, cells: Cells, truth: NDArray[np.float64], drawn: NDArray[np.float64]) -> Table:
    """Results of the replicates, beside the law's value if it has a short formula."""
    errors = np.abs(drawn - truth)
    heads = [texts.CELL, texts.EXACT, texts.MEAN, texts.DEVIATION, texts.LAW, texts.ERROR, texts.LAW]
    heads.append(texts.RELATIVE_ERROR)
    rows: list[list[Cell]] = []
    for at, name in enumerate(named(cells)):
        scale = _scale(plan, cells, at)
        error = float(errors[:, at].mean())
        rows.append(
            [
                name,
                finite(truth[at]),
                finite(drawn[:, at].mean()),
                finite(drawn[:, at].std(ddof=1)) if len(drawn) > 1 else None,
                None if scale is None else scale * sqrt(2),
                finite(error),
                scale,
                finite(100 * error / abs(float(truth[at]))) if truth[at] else None,
            ]
        )
    caption = phrase(texts.REPLICATED, n=len(drawn))
    return Table("replicated", caption, heads, rows, digits=[None, *[_DIGITS] * 7], note=texts.REPLICATED_NOTE)


def finite(value: float) -> float | None:
    """A number as a cell; nothing where there is none, as for an average of nobody."""
    return float(value) if isfinite(value) else None


def _scale(plan: Plan, cells: Cells, at: int) -> float | None:
    """The scale of the answer's own noise; an average with a noisy divisor has no Laplace law."""
    if not plan.counts_are_public:
        return None
    scale = float(plan.main.scales[at])
    if plan.statistic != "average":
        return scale
    return scale / cells.members[at] if cells.members[at] else None


def _plotted(truth: NDArray[np.float64], drawn: NDArray[np.float64]) -> Iterator[Block]:
    """Cells that are zero or that nobody is in have no percentage."""
    places = [at for at, exact in enumerate(truth) if exact and np.isfinite(exact)]
    if not places:
        return
    drawn = drawn[: max(1, _MOST_DOTS // len(places))]
    points = list(_points(truth, drawn, places))
    if not points:
        return
    yield Lines(
        "replicates-plot",
        texts.REPLICATES_PLOT,
        phrase(texts.REPLICATES_WORDS, n=len(drawn)),
        Axis(texts.CELL_NUMBER, low=0.5, high=len(truth) + 0.5),
        Axis(texts.NOISE_PERCENT, is_log=True),
        [Line(texts.REPLICATE, points, "dots")],
    )


def _points(
    truth: NDArray[np.float64], drawn: NDArray[np.float64], places: Sequence[int]
) -> Iterator[tuple[float, float]]:
    """The dots of each cell side by side; what has no noise has no place on a logarithmic axis."""
    beside = (np.arange(len(drawn)) / max(len(drawn) - 1, 1) - 0.5) * _DOTS_WIDTH
    for at in places:
        sizes = 100 * np.abs(drawn[:, at] / truth[at] - 1)
        yield from ((float(at + 1 + x), float(size)) for x, size in zip(beside, sizes, strict=True) if size > 0)


def _released_scales(release: Release) -> Table:
    """Under public bounds the scale is no secret, and a reader of the answers needs it."""
    rows: list[list[Cell]] = [
        [texts.NAMES[each.figure], each.scales[0] * (release.grid.step if each.figure == "total" else Fraction(1))]
        for each in release.plan.noisy
    ]
    return Table("scales", texts.SCALE, [texts.STATISTIC, texts.SCALE], rows)


def _sources(question: Question, *, is_release: bool) -> Section:
    blocks: list[Source] = [Source(texts.RICE)] if question.rule == "bootstrap" else [Source(texts.LAPLACE_SOURCE)]
    if is_release:
        blocks.append(Source(texts.EXACT_SOURCE))
    return Section("sources", texts.SOURCES, blocks)
