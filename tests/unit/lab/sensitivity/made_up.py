"""The made-up people of `policy_lab/examples/sensitivity/people.csv`: a table like those that such proposals are tried on.

Nobody in it exists. Some cells are `?`, and one column has a long tail, as incomes from capital do: that tail is what a
sensitivity taken from the data tells about.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Final

import numpy as np

ROWS: Final = 2000
SEED: Final = 20_240_607
HEADS: Final = (
    "age",
    "sector",
    "education",
    "years_of_education",
    "occupation",
    "hours_per_week",
    "capital_gain",
    "income",
)
_SECTORS = ("private", "public", "self-employed", "family business")
_EDUCATIONS = (("none", 6), ("secondary", 11), ("college", 14), ("bachelor", 16), ("master", 18), ("doctorate", 21))
_OCCUPATIONS = ("sales", "clerical", "trades", "care", "transport", "management", "technology")
# How often a cell is `?`.
_GAPS = {"sector": 0.06, "occupation": 0.06, "hours_per_week": 0.03}
_GAIN_SHARE = 0.08


def made_up_people(rows: int = ROWS, seed: int = SEED) -> str:
    """The table, as CSV; the same for the same seed."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(HEADS)
    writer.writerows(_people(rows, np.random.default_rng(seed)))
    return file.getvalue()


def _people(rows: int, random: np.random.Generator) -> Iterator[list[str]]:
    for _ in range(rows):
        level = int(random.choice(len(_EDUCATIONS), p=(0.06, 0.36, 0.26, 0.2, 0.1, 0.02)))
        education, years = _EDUCATIONS[level]
        age = int(np.clip(random.gamma(9, 4.6), 17, 90))
        hours = int(np.clip(random.normal(38, 9), 4, 90))
        gain = int(random.lognormal(7.5, 1.2)) if random.random() < _GAIN_SHARE else 0
        income = int(random.lognormal(9.6 + 0.06 * years + 0.012 * min(age, 55), 0.45) * hours / 38)
        person = {
            "age": age,
            "sector": random.choice(_SECTORS, p=(0.66, 0.2, 0.12, 0.02)),
            "education": education,
            "years_of_education": years,
            "occupation": random.choice(_OCCUPATIONS),
            "hours_per_week": hours,
            "capital_gain": gain,
            "income": income,
        }
        yield ["?" if random.random() < _GAPS.get(name, 0) else str(value) for name, value in person.items()]
