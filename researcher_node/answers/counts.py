"""The counts of an answer as programs and people are shown them: one for each cell, and their sum.

Programs always get the noisy counts as they came. Where people were drawn by chance (`--fraction` below 1) counts and margins are
scaled up to everybody who matches, beside them; people are shown the scaled ones alone. A margin is of the noise alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from broker_common.crypto.sampling import WHOLE_MILLIONTHS
from broker_common.language import said
from broker_common.privacy.table_laplace import margin, sum_margin
from broker_common.query.question import EVERYONE, REST, Cell
from broker_common.terminal import cut, terminal_width
from researcher_node import texts
from researcher_node.answers.store import AskedQuestion

# The shortest label in a table, even in a narrow terminal.
_LEAST_LABEL = 12


@dataclass(frozen=True, slots=True)
class Shown:
    """One count as people are shown it, and how far noise reaches either way, 19 times out of 20."""

    count: int
    margin: int


def shown_counts(asked: AskedQuestion) -> list[Shown]:
    """The counts of an answered question, in the order of its cells."""
    reach = scaled_margin(asked, margin(asked.scale, len(asked.cells)))
    return [Shown(scaled_count(asked, number), reach) for number in _numbers(asked)]


def shown_sum(asked: AskedQuestion) -> Shown:
    """The sum of all cells: scaled once, not cell by cell."""
    reach = scaled_margin(asked, sum_margin(asked.scale, len(asked.cells)))
    return Shown(scaled_count(asked, sum(_numbers(asked))), reach)


def scaled_count(asked: AskedQuestion, number: int) -> int:
    """A count of the drawn people, scaled up to everybody who matches."""
    return round(Fraction(number * WHOLE_MILLIONTHS, asked.fraction_millionths))


def scaled_margin(asked: AskedQuestion, reach: int) -> int:
    """The margin of a scaled count, rounded up."""
    return math.ceil(Fraction(reach * WHOLE_MILLIONTHS, asked.fraction_millionths))


def counts_json(asked: AskedQuestion) -> dict[str, Any]:
    """A number for each cell, null as long as there is no answer; of one cell also by itself, of several also their sum."""
    numbers: Sequence[int | None] = _numbers(asked) if asked.noisy else [None] * len(asked.cells)
    reach = margin(asked.scale, len(asked.cells))
    cells = [
        {
            "label": cell_label(asked.question, cell),
            "values": list(cell.values) or None,
            **_count_json(asked, number, reach),
        }
        for cell, number in zip(asked.cells, numbers, strict=True)
    ]
    if len(cells) == 1:
        return {name: cells[0][name] for name in ("noisy_count", "margin_95")} | {"cells": cells}
    total = sum(_numbers(asked)) if asked.noisy else None
    return {"cells": cells, "sum": _count_json(asked, total, sum_margin(asked.scale, len(cells)))}


def _count_json(asked: AskedQuestion, number: int | None, reach: int) -> dict[str, Any]:
    shown: dict[str, Any] = {"noisy_count": number, "margin_95": reach}
    if asked.fraction_millionths != WHOLE_MILLIONTHS:
        shown["scaled_count"] = None if number is None else scaled_count(asked, number)
        shown["scaled_margin_95"] = scaled_margin(asked, reach)
    return shown


def cell_label(question: str, cell: Cell) -> str:
    """A cell's label for programs: its values, `rest`, or `all` where it is everyone."""
    return EVERYONE.text if question == EVERYONE.text else cell.label


def headline_text(asked: AskedQuestion) -> str:
    """The answer in one line: the count, if there is only one."""
    is_part = asked.fraction_millionths != WHOLE_MILLIONTHS
    if len(asked.cells) > 1:
        return said(texts.ANSWER_SCALED_TABLE if is_part else texts.ANSWER_TABLE, question=asked.question)
    question = said(texts.EVERYONE) if asked.question == EVERYONE.text else asked.question
    (only,) = shown_counts(asked)
    return said(texts.ANSWER_SCALED if is_part else texts.ANSWER_ONE, count=only.count, question=question)


def table_text(asked: AskedQuestion) -> str:
    """A line for each of several cells and for their sum, each after a line break, within the terminal's width."""
    if len(asked.cells) == 1:
        return ""
    labels = [said(texts.OTHERS) if cell == REST else cell.label for cell in asked.cells]
    labels.append(said(texts.SUM_OF_ALL if REST in asked.cells else texts.SUM))
    rows = [*shown_counts(asked), shown_sum(asked)]
    counts = [str(row.count) for row in rows]
    reaches = [str(row.margin) for row in rows]
    figures = max(map(len, counts)) + max(map(len, reaches)) + len("      ") + len(" ± ")
    width = terminal_width()
    if width is not None:
        labels = [cut(each, max(_LEAST_LABEL, width - figures)) for each in labels]
    widths = [max(map(len, column)) for column in (labels, counts, reaches)]
    return "".join(
        f"\n    {name:<{widths[0]}}  {count:>{widths[1]}} ± {reach:>{widths[2]}}"
        for name, count, reach in zip(labels, counts, reaches, strict=True)
    )


def row_text(asked: AskedQuestion) -> str:
    """The counts of an answer in one column of a list of questions."""
    shown = shown_counts(asked)
    return f"{', '.join(str(each.count) for each in shown)} ± {shown[0].margin}"


def fraction_text(asked: AskedQuestion) -> str:
    """Who was drawn, and what that makes of the counts above it."""
    if asked.fraction_millionths == WHOLE_MILLIONTHS:
        return said(texts.EVERY_MATCH)
    return said(texts.PART, fraction=fraction_digits(asked.fraction_millionths))


def fraction_digits(millionths: int) -> str:
    """A sampling fraction in plain digits."""
    return f"{Decimal(millionths) / WHOLE_MILLIONTHS:f}"


def _numbers(asked: AskedQuestion) -> tuple[int, ...]:
    return () if asked.noisy is None else asked.noisy.values
