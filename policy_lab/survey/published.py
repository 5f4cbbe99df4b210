"""The report's published figures, and how it numbered the survey's codes."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

Question = Literal["smokers", "height"]
Method = Literal["local", "shuffled", "global"]
QUESTIONS: tuple[Question, ...] = ("smokers", "height")
METHODS: tuple[Method, ...] = ("local", "shuffled", "global")

# Rows of the survey's file, and the runs that each published error is the mean of.
ROWS = 113_290
RUNS = 5


@dataclass(frozen=True, slots=True)
class Code:
    """One answer of one column: the survey's own code, and its number in the alphabetical order of the labels."""

    code: int
    number: int
    label: str


@cache
def codes(column: str) -> tuple[Code, ...]:
    """The codes of a column, in the order of their numbers."""
    rows = (
        Code(int(row["code"]), int(row["number"]), row["label"])
        for row in _rows("codes.csv")
        if row["column"] == column
    )
    return tuple(sorted(rows, key=lambda each: each.number))


@cache
def categorical() -> tuple[str, ...]:
    """The columns of categories that were noised."""
    return tuple(dict.fromkeys(row["column"] for row in _rows("codes.csv") if row["column"] != "GEO_PRV"))


@cache
def errors() -> Mapping[tuple[Question, float, str, Method], float]:
    """Mean absolute errors by question, epsilon, province and method."""
    question: Mapping[str, Question] = {each: each for each in QUESTIONS}
    return {
        (question[row["question"]], float(row["epsilon"]), row["province"], method): float(row[method])
        for row in _rows("published.csv")
        for method in METHODS
    }


def _rows(name: str) -> Iterator[Mapping[str, str]]:
    text = resources.files("policy_lab.survey").joinpath("figures", name).read_text("utf-8")
    yield from csv.DictReader(text.splitlines())
