"""The bootstrap rule as it was published, figure by figure, with the epsilon that its noise really has."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from broker_common.language import phrase
from policy_lab.document.model import Block, Caution, Cell, Paragraph, Section, Table
from policy_lab.mechanisms.distinguisher import ERROR_RATE, FromBelow
from policy_lab.tables import texts, worlds
from policy_lab.tables.cells import Cells
from policy_lab.tables.plan import Plan, epsilon_alone, moving_cells, within_epsilon
from policy_lab.tables.question import Question
from policy_lab.tables.sensitivities import baseline, named, percent


def published(question: Question, cells: Cells, random: np.random.Generator) -> Section:
    """The section. Requires the bootstrap rule and totals."""
    blocks: list[Block] = [
        Caution(phrase(texts.HOLDS_IF_PUBLIC)),
        _figures(question, cells),
        Caution(phrase(texts.NOT_A_BOUND, largest=float(baseline(question, cells)))),
        Paragraph(phrase(texts.WHY_CELLS)),
        *_why(question, cells),
        _epsilons(question, cells, random),
        _corrected(question, cells, random),
    ]
    return Section("published", texts.PUBLISHED, blocks)


def _figures(question: Question, cells: Cells) -> Table:
    change = question.published(cells).main.change
    real = epsilon_alone(question.published(cells, "public-membership").main)
    largest = baseline(question, cells)
    heads = [
        *(texts.CELL, texts.PRINTED_SENSITIVITY, texts.PRINTED_RATIO),
        phrase(texts.PRINTED_GAIN, largest=float(largest)),
        *(texts.CORRECT_SENSITIVITY, texts.CORRECT_RATIO, texts.REAL_ALONE),
    ]
    within, alone = change.within, change.alone
    rows: list[list[Cell]] = []
    for at, (name, total) in enumerate(zip(named(cells), cells.totals, strict=True)):
        printed, correct = within[at], alone[at]
        rows.append(
            [
                *(name, printed, percent(printed, total), largest / printed if printed else None),
                *(correct, percent(correct, total), _epsilon(real[at])),
            ]
        )
    digits = [None, None, 2, 3, None, 2, 3]
    return Table("published", texts.AS_PRINTED, heads, rows, digits=digits, note=texts.AS_PRINTED_NOTE)


def _why(question: Question, cells: Cells) -> Sequence[Block]:
    plan = question.plan(cells, "one-sensitivity")
    change, pair = plan.main.change, moving_cells(plan.noisy)
    if len(pair) < 2:  # noqa: PLR2004 - a row moves between two cells
        return []
    first, second = pair
    words = phrase(
        texts.WHY_WHOLE,
        whole=float(change.whole),
        first=float(change.across[first]),
        second=float(change.across[second]),
        from_cell=cells.names[first],
        to_cell=cells.names[second],
        published=float(max(change.within)),
    )
    return [Paragraph(words), Paragraph(phrase(texts.WHY_HALF, cells=len(cells.parts)))]


def _epsilons(question: Question, cells: Cells, random: np.random.Generator) -> Table:
    parallel = question.published(cells, "public-membership")
    alone = epsilon_alone(parallel.main)
    worst = max(range(len(alone)), key=lambda at: float("inf") if (loss := alone[at]) is None else float(loss))
    rows: list[list[Cell]] = [
        [
            *_row(texts.ONE_CELL, question, alone[worst], worlds.alone(parallel.main, worst, question.samples, random)),
            named(cells)[worst],
        ]
    ]
    for name, plan in (
        (texts.NAMES["one-sensitivity"], question.published(cells, "one-sensitivity")),
        (texts.NAMES["split"], question.published(cells, "split")),
        (texts.IF_NOT_PUBLIC, parallel),
    ):
        rows.append(_moved(name, question, plan, cells, random))
    stayed = worlds.stayed(parallel.noisy, question.samples, random)
    rows.append([*_row(texts.IF_PUBLIC, question, within_epsilon(parallel.noisy), stayed), ""])
    return _table("published-epsilons", texts.REAL_TABLE, question, rows)


def _corrected(question: Question, cells: Cells, random: np.random.Generator) -> Table:
    rows = [
        _moved(texts.NAMES[method], question, question.plan(cells, method), cells, random)
        for method in ("one-sensitivity", "split")
    ]
    public = question.plan(cells, "public-membership")
    stayed = worlds.stayed(public.noisy, question.samples, random)
    rows.append([*_row(texts.IF_PUBLIC, question, public.real_epsilon, stayed), ""])
    return _table("corrected-epsilons", texts.CORRECTED_TABLE, question, rows)


def _moved(name: str, question: Question, plan: Plan, cells: Cells, random: np.random.Generator) -> list[Cell]:
    found = worlds.moved(plan.noisy, question.samples, random)
    pair = ", ".join(named(cells)[at] for at in moving_cells(plan.noisy))
    return [*_row(name, question, plan.real_epsilon, found), pair]


def _row(name: str, question: Question, real: Fraction | None, found: FromBelow) -> list[Cell]:
    return [name, question.epsilon, _epsilon(real), found.epsilon]


def _epsilon(real: Fraction | None) -> Cell:
    return texts.NO_EPSILON if real is None else real


def _table(key: str, caption: str, question: Question, rows: Sequence[Sequence[Cell]]) -> Table:
    heads = [texts.METHOD, texts.NOMINAL, texts.REALLY, texts.BELOW, texts.ROW_MOVES]
    note = phrase(texts.REAL_NOTE, samples=question.samples, rate=ERROR_RATE)
    return Table(key, caption, heads, rows, digits=[None, None, 2, 2, None], note=note)
