"""The section about errors: bars by what is asked, a table of all of them, and heat maps by stratum."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from broker_common.language import phrase
from policy_lab.document.model import Axis, Bars, Caution, Cell, Heat, Paragraph, Section, Table
from policy_lab.document.model import Block as Shown
from policy_lab.evaluate import texts
from policy_lab.evaluate.cells import Block
from policy_lab.evaluate.errors import Errors
from policy_lab.evaluate.report.names import block_name, mechanism_name, middle_epsilon, number_text, stratum_names
from policy_lab.evaluate.run import Mechanism, RunFile

# More columns than this leave no room for figures in a heat map: it then shows one epsilon.
_MOST_COLUMNS = 16


def errors_section(run: RunFile, found: Sequence[Errors]) -> Section:
    """How far off the answers are."""
    blocks = list(dict.fromkeys(each.block for each in found))
    shown: list[Shown] = []
    if any(mechanism.numbers for mechanism in run.mechanisms):
        shown.append(Caution(phrase(texts.DRAWN_TO_MIDDLE)))
    shown += [
        _bars(run, [each for each in found if each.block == block], block, f"errors-{number}")
        for number, block in enumerate(blocks)
    ]
    shown.append(_table(found))
    shown += [_heat(run, mechanism, [e for e in found if e.mechanism == mechanism]) for mechanism in run.mechanisms]
    return Section(
        "errors",
        phrase(texts.ERRORS),
        shown,
        citizen=(Paragraph(phrase(texts.ERRORS_CITIZEN)),),
        specialist=(Paragraph(phrase(texts.ERRORS_SPECIALIST)),),
    )


def _bars(run: RunFile, found: Sequence[Errors], block: Block, key: str) -> Bars:
    mechanisms = list(dict.fromkeys(each.mechanism for each in found))
    by = {(each.mechanism, each.epsilon): each for each in found}
    cells = len(run.strata_names) * len(block.cell_names)
    return Bars(
        f"{key}-{block.query}-{block.column.name.text}",
        phrase(texts.BARS_TITLE, what=block_name(block)),
        phrase(texts.BARS_DESCRIPTION, cells=cells),
        Axis(phrase(texts.ERROR_AXIS), is_log=all(each.overall > 0 for each in found)),
        groups=[phrase(texts.EPSILON_IS, epsilon=number_text(epsilon)) for epsilon in run.epsilons],
        series=[mechanism_name(mechanism) for mechanism in mechanisms],
        values=[[by[mechanism, epsilon].overall for epsilon in run.epsilons] for mechanism in mechanisms],
        errors=[[by[mechanism, e].overall_error or 0.0 for e in run.epsilons] for mechanism in mechanisms]
        if run.repetitions > 1
        else (),
    )


def _table(found: Sequence[Errors]) -> Table:
    rows: list[list[Cell]] = [
        [
            block_name(each.block),
            mechanism_name(each.mechanism),
            each.epsilon,
            _shown(each.overall),
            None if each.overall_error is None else _shown(each.overall_error),
            _largest(each),
        ]
        for each in sorted(found, key=lambda each: (each.block.column.name.line, each.block.query))
    ]
    heads = [phrase(text) for text in texts.ERRORS_HEADS]
    return Table("mean-errors", phrase(texts.ERRORS_CAPTION), heads, rows)


def _shown(value: float) -> float:
    """Four digits of a figure whose others are noise."""
    return float(f"{value:.4g}")


def _largest(each: Errors) -> float | None:
    """The bias of the cell that has the largest, with its sign."""
    bias = None if each.bias is None else each.bias[~np.isnan(each.bias)]
    if bias is None or not bias.size:
        return None
    return _shown(float(bias[np.argmax(np.abs(bias))]))


def _heat(run: RunFile, mechanism: Mechanism, found: Sequence[Errors]) -> Heat:
    blocks = len({each.block for each in found})
    if blocks * len(run.epsilons) > _MOST_COLUMNS:
        found = [each for each in found if each.epsilon == middle_epsilon(run)]
    columns = sorted(found, key=lambda each: (each.block.column.name.line, each.block.query, each.epsilon))
    return Heat(
        f"relative-errors-{mechanism.key}",
        phrase(texts.HEAT_TITLE, mechanism=mechanism_name(mechanism)),
        phrase(texts.HEAT_DESCRIPTION),
        rows=stratum_names(run),
        columns=[
            phrase(texts.HEAT_COLUMN, what=block_name(each.block), epsilon=number_text(each.epsilon))
            for each in columns
        ],
        values=[[_relative(each, row) for each in columns] for row in range(len(run.strata_names))],
        low=0.0,
        high=1.0,
    )


def _relative(each: Errors, row: int) -> float | None:
    """The mean error of a stratum over its mean exact figure; None where there is none."""
    exact = float(np.abs(each.exact[row]).mean())
    if math.isnan(exact) or exact == 0:
        return None
    return min(1.0, float(each.absolute[row].mean()) / exact)
