"""The cells that a question asks for, from its file: filtered, labelled, and cut to the bounds."""

from __future__ import annotations

from itertools import compress
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from policy_lab.tables import texts
from policy_lab.tables.cells import Cells, tabulated
from policy_lab.tables.plan import Bounds
from policy_lab.tables.question import Question
from policy_lab.tables.reading import EMPTY, Columns, Done, read

# More than anybody reads; a column of identifiers has more.
_MOST_CELLS = 2500


def cells_of(question: Question, path: Path, progress: Done | None = None, *, is_release: bool = False) -> Cells:
    """The table's cells. A release has one for every label of the file, so that none tells whom the filter leaves.

    Raises:
        InvalidRequestError: FILE_UNUSABLE, INVALID_VALUE.
    """
    named = [question.rows, question.columns, question.value, *(column for column, _ in question.where)]
    columns = read(path, list(dict.fromkeys(name for name in named if name)), progress)
    size = len(columns.places)
    kept = np.ones(size, dtype=bool)
    for column, value in question.where:
        kept &= np.array([each == (value or EMPTY) for each in columns.labels(column)], dtype=bool)
    if not size or not (is_release or kept.any()):
        _refuse(path, phrase(texts.NO_ROWS), phrase(texts.NO_ROWS_REMEDY))
    values = columns.numbers(question.value)[kept] if question.value else np.zeros(int(kept.sum()))
    cut = _cut(values, question.bounds)
    shown = np.ones(size, dtype=bool) if is_release else kept
    known = [set(_labels(columns, name, shown) or [""]) for name in (question.rows, question.columns)]
    cells = len(known[0]) * len(known[1])
    if cells > _MOST_CELLS:
        _refuse(path, phrase(texts.TOO_MANY_CELLS, n=cells, most=_MOST_CELLS), phrase(texts.TOO_MANY_REMEDY))
    rows, across = (_labels(columns, name, kept) for name in (question.rows, question.columns))
    return tabulated(
        rows,
        across,
        cut,
        known=(known[0], known[1]),
        row_name=question.rows,
        outside=size - len(cut),
        clamped=int((cut != values).sum()),
        is_filtered=bool(question.where),
    )


def _cut(values: NDArray[np.float64], bounds: Bounds | None) -> NDArray[np.float64]:
    if bounds is None:
        return values
    low, high = map(float, bounds)
    return np.clip(values, low, high)


def _labels(columns: Columns, name: str, kept: NDArray[np.bool_]) -> list[str] | None:
    return list(compress(columns.labels(name), kept)) if name else None


def _refuse(path: Path, problem: str, remedy: str) -> NoReturn:
    raise InvalidRequestError("INVALID_VALUE", name=str(path), problem=problem, remedy=remedy)
