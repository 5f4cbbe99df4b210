"""The whole document."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from broker_common.language import joined, phrase
from policy_lab.document.model import Block as Shown
from policy_lab.document.model import Caution, Cell, Document, Paragraph, Section, Table
from policy_lab.evaluate import texts
from policy_lab.evaluate.cells import blocks, exact_sums
from policy_lab.evaluate.data import Data
from policy_lab.evaluate.errors import Errors
from policy_lab.evaluate.parts import Parts, jobs
from policy_lab.evaluate.report.erring import errors_section
from policy_lab.evaluate.report.names import number_text, quoted, stratum_names, verbatim
from policy_lab.evaluate.report.promising import promises_section
from policy_lab.evaluate.report.resembling import sent_sections
from policy_lab.evaluate.run import Column, RunFile

_KEY = "evaluation"


def report(run: RunFile, data: Data, parts: Parts, found: Sequence[Errors], command: str) -> Document:
    """Report of a whole run."""
    sections = (
        _evaluated(run, data),
        promises_section(run, data),
        errors_section(run, found),
        *sent_sections(run, data, parts),
    )
    return Document(_KEY, verbatim(run.title), run.standing, command, sections)


def plan(run: RunFile, data: Data, command: str) -> Document:
    """The plan of a run, and what it would promise."""
    cells = sum(len(block.cell_names) for mechanism in run.mechanisms for block in blocks(run, mechanism))
    figures = phrase(
        texts.CHECK_PARTS,
        parts=len(jobs(run)),
        mechanisms=len(run.mechanisms),
        epsilons=len(run.epsilons),
        repetitions=run.repetitions,
        cells=cells * len(run.epsilons) * len(run.strata_names),
    )
    evaluated = _evaluated(run, data, [Paragraph(phrase(texts.CHECKED)), Paragraph(figures)])
    return Document(_KEY, verbatim(run.title), run.standing, command, (evaluated, promises_section(run, data)))


def _evaluated(run: RunFile, data: Data, first: Sequence[Shown] = ()) -> Section:
    rows = phrase(
        texts.EVALUATED_ROWS,
        rows=data.rows,
        strata=len(run.strata_names),
        repetitions=run.repetitions,
        seed=str(run.seed),
    )
    return Section(
        "evaluated",
        phrase(texts.EVALUATED),
        [
            *first,
            Paragraph(rows),
            Caution(phrase(texts.FOR_EVALUATION)),
            *_lonely(run, data),
            _settings(run, data),
            _columns(run, data),
            _strata(run, data),
        ],
    )


def _lonely(run: RunFile, data: Data) -> list[Shown]:
    """Strata of one row."""
    lonely = [name for name, rows in zip(stratum_names(run), data.stratum_rows, strict=True) if rows == 1]
    if not lonely:
        return []
    if len(lonely) == 1:
        return [Caution(phrase(texts.ONE_ROW, stratum=f"'{lonely[0]}'"))]
    return [Caution(phrase(texts.FEW_ROWS, n=len(lonely)))]


def _settings(run: RunFile, data: Data) -> Table:
    rows: list[tuple[str, Cell]] = [
        (texts.SETTING_DATA, run.data.name),
        (texts.SETTING_NEIGHBOURS, run.neighbours.words),
    ]
    if run.weights:
        share = exact_total(data.weights) / exact_total(data.full_weights)
        rows += [
            (texts.SETTING_CAP, run.weights.cap),
            (texts.SETTING_MULTIPLIER, run.weights.multiplier),
            (texts.SETTING_CLIPPED, data.clipped_weights),
            (texts.SETTING_SHARE, round(share, 6)),
        ]
    if run.delta is not None:
        rows.append((texts.SETTING_DELTA, run.delta))
    heads = [phrase(text) for text in texts.SETTINGS_HEADS]
    return Table("settings", phrase(texts.SETTINGS_CAPTION), heads, [[phrase(name), value] for name, value in rows])


def _columns(run: RunFile, data: Data) -> Table:
    rows: list[list[Cell]] = []
    for column in run.columns:
        name = column.name.text
        kind = phrase(texts.CATEGORY if column.is_category else texts.NUMBER)
        is_static = phrase(texts.STATIC if column.is_static else texts.DYNAMIC)
        rows.append([quoted(name), kind, is_static, _public(column), data.clamped.get(name), data.not_stated.get(name)])
    heads = [phrase(text) for text in texts.COLUMNS_HEADS]
    return Table("columns", phrase(texts.COLUMNS_CAPTION), heads, rows)


def _public(column: Column) -> str:
    if column.is_category:
        return verbatim(", ".join(word.text for word in column.categories))
    return joined(" .. ", [number_text(column.low), number_text(column.high)])


def _strata(run: RunFile, data: Data) -> Table:
    names = stratum_names(run)
    weights = exact_sums(data.strata.astype(np.int64), data.full_weights, len(names))
    rows: list[list[Cell]] = [
        [name, int(count), float(w)] for name, count, w in zip(names, data.stratum_rows, weights, strict=True)
    ]
    heads = [phrase(text) for text in texts.STRATA_HEADS]
    return Table("strata", phrase(texts.STRATA_CAPTION), heads, rows, digits=(None, 0, 2))


def exact_total(weights: np.typing.NDArray[np.float64]) -> float:
    """All weights together."""
    return float(exact_sums(np.zeros(len(weights), np.int64), weights, 1)[0])
