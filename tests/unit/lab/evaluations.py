"""Small evaluations: made-up respondents, a run file for them, and a slow and obvious evaluator to compare with."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

RUN = """\
data: people.csv
standing: synthetic
seed: 7
repetitions: 2
epsilons: [0.5, 2]
delta: 1e-3
weights:
  column: weight
  cap: 90
  multiplier: 1.5
strata:
  column: region
  values: [east, west, north]
static:
  sex: {categories: [f, m]}
dynamic:
  smokes: {categories: [daily, sometimes, never]}
  height: {low: 1, high: 2, not_stated: [9.99]}
queries: [count, sum, mean]
mechanisms:
  - global
  - local: {numbers: truncated}
  - shuffled: {numbers: clamped, along: static}
"""
HEADS = ("id", "region", "sex", "smokes", "height", "weight")
CAP, MULTIPLIER, LOW, HIGH = Fraction(90), Fraction(3, 2), Fraction(1), Fraction(2)
NOT_STATED = "9.99"

Row = Mapping[str, str]


def respondents(rows: int, seed: int = 1) -> list[list[str]]:
    """Made-up respondents; some weights are above the cap, some heights outside of the bounds, some not stated."""
    random = np.random.default_rng(seed)
    made = []
    for number in range(rows):
        height = f"{random.normal(1.6, 0.3):.3f}" if random.random() > 0.1 else random.choice([NOT_STATED, ""])
        region = ("east", "west", "north")[number % 3]
        smokes = random.choice(["daily", "sometimes", "never"], p=[0.2, 0.1, 0.7])
        made.append(
            [
                str(number),
                region,
                str(random.choice(["f", "m"])),
                str(smokes),
                str(height),
                f"{random.gamma(2, 25):.2f}",
            ]
        )
    return made


def write_csv(path: Path, rows: Sequence[Sequence[str]]) -> None:
    """A data file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADS, *rows])


def evaluation(folder: Path, *, rows: int = 60, run: str = RUN, name: str = "run.yaml") -> Path:
    """A run file with its data file."""
    write_csv(folder / "people.csv", respondents(rows))
    (folder / name).write_text(run, "utf-8")
    return folder / name


# --- the slow evaluator --------------------------------------------------------------------------------------------


def weight_of(row: Row, *, is_clipped: bool = True) -> Fraction:
    """How many people a respondent stands for."""
    weight = Fraction(row["weight"])
    return (min(weight, CAP) if is_clipped else weight) * MULTIPLIER


def height_of(row: Row, *, is_clamped: bool = True) -> Fraction | None:
    """The height, None if it was not stated."""
    if row["height"] in {"", NOT_STATED}:
        return None
    height = Fraction(row["height"])
    return min(max(height, LOW), HIGH) if is_clamped else height


def exact(rows: Sequence[Row], region: str, query: str, category: str, *, is_bounded: bool) -> Fraction | None:
    """One cell, row by row."""
    total = mass = Fraction(0)
    for row in rows:
        if row["region"] != region:
            continue
        weight = weight_of(row, is_clipped=is_bounded)
        if query == "count":
            total += weight if row["smokes"] == category else 0
            continue
        height = height_of(row, is_clamped=is_bounded)
        if height is not None:
            total += weight * height
            mass += weight
    if query == "mean":
        return total / mass if mass else None
    return total


def mean_weights(rows: Sequence[Row]) -> list[Fraction]:
    """Each row counts for the mean weight of those with its region, sex and pattern of stated numbers."""
    groups: dict[tuple[str, str, bool], list[Fraction]] = defaultdict(list)
    for row in rows:
        groups[row["region"], row["sex"], height_of(row) is None].append(weight_of(row))
    return [
        sum(group, Fraction(0)) / len(group)
        for row in rows
        for group in [groups[row["region"], row["sex"], height_of(row) is None]]
    ]
