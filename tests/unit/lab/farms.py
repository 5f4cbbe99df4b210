"""Farms of our own, with the figures that matter worked out by hand: nobody's licence is on them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np

from policy_lab.standing import Standing
from policy_lab.tables.cells import Cells, tabulated
from policy_lab.tables.question import Question

# Values of the members of every cell, in the order of the table.
FARMS = {
    ("owner", "high"): [100.0, 400.0, 1000.0],
    ("owner", "trad"): [50.0, 90.0, 150.0, 200.0],
    ("share", "high"): [300.0, 350.0, 600.0],
    ("share", "trad"): [70.0, 80.0],
}
WITHIN = [900, 150, 300, 10]
LARGEST = [1000, 200, 600, 80]
TOTALS = [1500, 490, 1250, 150]


def farm_rows() -> list[tuple[str, str, float]]:
    """One row a farm."""
    return [(status, kind, value) for (status, kind), values in FARMS.items() for value in values]


def farm_cells() -> Cells:
    """The table of owners and sharers by variety."""
    status, kinds, values = zip(*farm_rows(), strict=True)
    return tabulated(list(status), list(kinds), np.array(values), row_name="status")


def write_farms(path: Path) -> Path:
    """The file of them."""
    lines = ["id,status,kind,rice"]
    lines += [f"{number},{status},{kind},{value:g}" for number, (status, kind, value) in enumerate(farm_rows())]
    path.write_text("\n".join(lines) + "\n")
    return path


def asked() -> Question:
    """Their totals by the Laplace rule."""
    return Question(
        command="tripartite lab table farms.csv",
        standing=Standing.INTERNAL,
        statistic="total",
        rule="laplace",
        method="split",
        epsilon=Fraction(1),
        bounds=(Fraction(0), Fraction(2000)),
        rows="status",
        columns="kind",
        value="rice",
        where=(),
        seed=1,
        repetitions=1,
        samples=1000,
        uniform=None,
        as_published=False,
    )
