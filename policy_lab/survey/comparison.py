"""Each figure three times: in closed form, from runs of our own, and as published."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from policy_lab.survey import expected, pipeline, published
from policy_lab.survey.expected import Error
from policy_lab.survey.published import Method, Question
from policy_lab.survey.respondents import Respondents, daily_number
from policy_lab.survey.simulated import Errors


@dataclass(frozen=True, slots=True)
class Figure:
    """The error of one province's answer."""

    question: Question
    method: Method
    epsilon: float
    province: str
    error: Error
    # Standard error of the mean error over all runs.
    deviation: float
    simulated: float
    published: float | None


def independent_runs(method: Method, runs: int) -> int:
    """All runs of the shuffled method had one seed, and are one."""
    return 1 if method == "shuffled" else runs


def compared(figures: Sequence[Figure]) -> tuple[int, int]:
    """How many published errors there are, and how many lie within two standard deviations of the expected one."""
    known = [
        abs(each.published - each.error.absolute)
        <= 2 * each.error.absolute_deviation / math.sqrt(independent_runs(each.method, published.RUNS))
        for each in figures
        if each.published is not None
    ]
    return len(known), sum(known)


def figures(people: Respondents, epsilons: Sequence[float], runs: int, simulated: Errors) -> list[Figure]:
    """Every question, method, epsilon and province."""
    known = published.errors() if people.rows == published.ROWS else {}
    found = []
    for question in published.QUESTIONS:
        for method in published.METHODS:
            for epsilon in epsilons:
                independent = independent_runs(method, runs)
                for place, province in enumerate(people.provinces):
                    error = _expected(people, place, question, method, epsilon)
                    found.append(
                        Figure(
                            question,
                            method,
                            epsilon,
                            province,
                            error,
                            error.deviation / math.sqrt(independent),
                            float(simulated[question, epsilon, method][place]),
                            known.get((question, epsilon, province, method)),
                        )
                    )
    return found


def _expected(people: Respondents, place: int, question: Question, method: Method, epsilon: float) -> Error:
    if method == "global":
        is_count = question == "smokers"
        width = pipeline.COUNT_SENSITIVITY if is_count else pipeline.mean_sensitivity(people.width, people.rows)
        return expected.global_error(width, epsilon)
    rows = people.province == place
    weights, heights = people.weights[rows], people.heights[rows]
    keep = pipeline.shuffled_keep(epsilon, people.rows)
    if question == "height":
        if method == "local":
            return expected.local_mean(heights, weights, people.width, epsilon)
        return expected.shuffled_mean(heights, weights, people.top, keep)
    daily = people.smoking[rows] == daily_number()
    of, others = weights[daily], weights[~daily]
    if method == "local":
        return expected.local_count(of, others, len(people.present), epsilon)
    return expected.shuffled_count(of, others, int(np.max(people.present)) + 1, keep)
