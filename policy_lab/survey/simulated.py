"""The published methods, run on the respondents: mean absolute errors by province."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from policy_lab.arrays import Reals
from policy_lab.survey import pipeline
from policy_lab.survey.published import Method, Question
from policy_lab.survey.respondents import Respondents, daily_number

Errors = Mapping[tuple[Question, float, Method], Reals]


def errors(
    people: Respondents, epsilons: Sequence[float], runs: int, seed: int, progress: Callable[[int], None]
) -> Errors:
    """Absolute errors by question, epsilon and method, the mean over runs for each province; `progress` hears of each run."""
    exact = _exact(people)
    found: dict[tuple[Question, float, Method], Reals] = {}
    for place, epsilon in enumerate(epsilons):
        sums: dict[tuple[Question, Method], Reals] = {}
        for run in range(runs):
            for key, answer in _answers(people, exact, epsilon, _seeds(seed, place, run)).items():
                sums[key] = sums.get(key, 0) + np.abs(answer - exact[key[0]])
            progress(place * runs + run + 1)
        found.update({(question, epsilon, method): total / runs for (question, method), total in sums.items()})
    return found


def _seeds(seed: int, place: int, run: int) -> Mapping[Method, np.random.Generator]:
    """All runs of the shuffled method had one seed, and were one run; the library of the others took no seed."""
    keys: Mapping[Method, tuple[int, ...]] = {
        "local": (0, place, run),
        "shuffled": (1, place),
        "global": (2, place, run),
    }
    return {method: np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key)) for method, key in keys.items()}


def _exact(people: Respondents) -> Mapping[Question, Reals]:
    return {
        "smokers": people.totals((people.smoking == daily_number()).astype(np.float64)),
        "height": people.totals(people.heights) / people.people,
    }


def _answers(
    people: Respondents, exact: Mapping[Question, Reals], epsilon: float, random: Mapping[Method, np.random.Generator]
) -> dict[tuple[Question, Method], Reals]:
    keep = pipeline.shuffled_keep(epsilon, people.rows)
    present = people.present
    dense = np.searchsorted(present, people.smoking)
    local = present[pipeline.local_category(dense, len(present), epsilon, random["local"])]
    shuffled = pipeline.shuffled_category(people.smoking, int(present[-1]) + 1, keep, random["shuffled"])
    local_heights = pipeline.local_number(people.heights, people.width, epsilon, random["local"])
    shuffled_heights = pipeline.shuffled_number(people.heights, people.top, keep, random["shuffled"])
    sensitivity = pipeline.mean_sensitivity(people.width, people.rows)
    return {
        ("smokers", "local"): people.totals((local == daily_number()).astype(np.float64)),
        ("smokers", "shuffled"): people.totals((shuffled == daily_number()).astype(np.float64)),
        ("smokers", "global"): pipeline.global_answer(
            exact["smokers"], pipeline.COUNT_SENSITIVITY, epsilon, random["global"]
        ),
        ("height", "local"): people.totals(local_heights) / people.people,
        ("height", "shuffled"): people.totals(shuffled_heights) / people.people,
        ("height", "global"): pipeline.global_answer(exact["height"], sensitivity, epsilon, random["global"]),
    }
