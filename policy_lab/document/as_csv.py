"""Rows for a spreadsheet: every CSV file of the lab's results is written here, so that none of them holds a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from fractions import Fraction

from policy_lab.document.said import printable
from policy_lab.standing import Standing

# Signs that begin a formula, also in their full width.
_FORMULA = tuple("=+-@＝＋－＠")  # noqa: RUF001


def as_csv(standing: Standing, heads: Sequence[str], rows: Iterable[Iterable[str | float | Fraction | None]]) -> bytes:
    """The figures as they are, empty where there is none; the first line says who may see them."""
    lines = io.StringIO()
    lines.write(f"# {standing.mark}\n")
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(map(_safe, heads))
    writer.writerows(map(_safe, row) for row in rows)
    return lines.getvalue().encode()


def _safe(cell: str | float | Fraction | None) -> str | float | Fraction | None:
    """A text without control characters; what a spreadsheet would take for a formula begins with an apostrophe."""
    if not isinstance(cell, str):
        return cell
    shown = printable(cell)
    return f"'{shown}" if shown.lstrip().startswith(_FORMULA) else shown
