"""Makes people.csv.gz: nobody in it exists. `PYTHONPATH=tests python -m unit.lab.evaluate.made_up | gzip -n9 > people.csv.gz`."""

from __future__ import annotations

import csv
import sys
from typing import TextIO

import numpy as np

ROWS = 10_000
_SEED = 20260101
_REGIONS = ("Atlantic", "Quebec", "Ontario", "Prairies", "Pacific")
_AGES = ("12-19", "20-34", "35-49", "50-64", "65+")
_HEALTH = ("excellent", "very good", "good", "fair", "poor")
_SMOKES = ("daily", "sometimes", "never")
# In every age group: the chances of each state of health, and of smoking daily and sometimes.
_HEALTH_BY_AGE = (
    (0.35, 0.35, 0.22, 0.06, 0.02),
    (0.28, 0.37, 0.25, 0.07, 0.03),
    (0.22, 0.36, 0.28, 0.10, 0.04),
    (0.17, 0.33, 0.31, 0.13, 0.06),
    (0.12, 0.28, 0.34, 0.18, 0.08),
)
_SMOKES_BY_AGE = ((0.03, 0.04), (0.14, 0.08), (0.16, 0.05), (0.17, 0.04), (0.09, 0.02))
_NOT_STATED = "9.996"
_NOT_STATED_SHARE = 0.03
HEADS = ("person", "region", "sex", "age", "health", "smokes", "height", "weight")


def write_people(file: TextIO) -> None:
    """The file: region, sex and age stay as they are; health, smoking and height are asked each time; weight is the survey's."""
    random = np.random.default_rng(_SEED)
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(HEADS)
    for person in range(ROWS):
        region = random.choice(5, p=(0.16, 0.21, 0.3, 0.19, 0.14))
        is_woman = random.random() < 0.51
        age = random.choice(5, p=(0.1, 0.21, 0.23, 0.25, 0.21))
        daily, sometimes = _SMOKES_BY_AGE[age]
        health = _HEALTH[random.choice(5, p=_HEALTH_BY_AGE[age])]
        smokes = _SMOKES[random.choice(3, p=(daily, sometimes, 1 - daily - sometimes))]
        height = np.clip(random.normal(1.63 if is_woman else 1.765, 0.07) - 0.02 * (age == 0), 1.2, 2.2)
        stated = random.random() >= _NOT_STATED_SHARE
        weight = min(float(random.gamma(2.0, 280.0)) + 20, 4000.0)
        writer.writerow(
            (
                person + 1,
                _REGIONS[region],
                "female" if is_woman else "male",
                _AGES[age],
                health,
                smokes,
                f"{height:.3f}" if stated else _NOT_STATED,
                f"{weight:.2f}",
            )
        )


if __name__ == "__main__":
    write_people(sys.stdout)
