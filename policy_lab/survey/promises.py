"""The epsilon that the report claims, the one that each method really has, and one measured from below.

Each measurement is of two neighbouring worlds that differ in one respondent, and uses the pipeline as it was run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from policy_lab.arrays import Reals
from policy_lab.mechanisms.distinguisher import epsilon_from_below
from policy_lab.mechanisms.randomised_response import real_epsilon
from policy_lab.survey import pipeline
from policy_lab.survey.respondents import Respondents

Name = Literal["local category", "local number", "shuffled", "global count", "global mean"]
_SAMPLES = 400_000
# The shuffled method gives itself away only where it keeps an answer: so often in half of the samples shows the claim to be too small.
_HITS = 30
_MOST_SAMPLES = 4_000_000
_SEED_KEY = 3

# A small survey in metres: its tallest respondent states a height, or does not and has the code for that.
_SHORTEST, _TALLEST, _NOT_STATED, _SOMEBODY = 1.27, 1.956, 9.999, 1.702


@dataclass(frozen=True, slots=True)
class Promise:
    """One method at one epsilon. `real` is None where none is finite, even if lists and weights were public."""

    name: Name
    claimed: float
    real: float | None
    measured: float


def promises(
    people: Respondents, epsilons: Sequence[float], seed: int, progress: Callable[[int], None]
) -> list[Promise]:
    """Every method at every epsilon; `progress` hears how many are done."""
    found = []
    for row, name in enumerate(METHODS):
        for place, epsilon in enumerate(epsilons):
            random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_SEED_KEY, place, row)))
            found.append(_promise(name, people, epsilon, random))
            progress(len(found))
    return found


def respondent_epsilon(category_counts: Sequence[int], numbers: int, epsilon: float) -> float:
    """Local, all columns of one respondent, if the observed bounds had been public: what each column spends adds up."""
    keep = pipeline.keep_probability(epsilon)
    return numbers * epsilon + sum(real_epsilon(keep, categories) for categories in category_counts)


def _promise(name: Name, people: Respondents, epsilon: float, random: np.random.Generator) -> Promise:
    samples = _shuffled_samples(people, epsilon) if name == "shuffled" else _SAMPLES
    one, other = _WORLDS[name](people, epsilon, samples, random)
    return Promise(name, epsilon, _real(name, people, epsilon), epsilon_from_below(one, other).epsilon)


def _shuffled_samples(people: Respondents, epsilon: float) -> int:
    wanted = 2 * _HITS * math.exp(epsilon) / pipeline.shuffled_keep(epsilon, people.rows)
    return int(min(max(wanted, _SAMPLES), _MOST_SAMPLES))


def _real(name: Name, people: Respondents, epsilon: float) -> float | None:
    if name == "local category":
        return real_epsilon(pipeline.keep_probability(epsilon), len(people.present))
    if name == "global count":
        return epsilon * float(people.weights.max())
    # The width of the noise is a value of the data, or answers are sent as they are.
    return None


def largest_share(people: Respondents) -> float:
    """The largest part that one respondent has in the mean of a province."""
    return float((people.weights / people.people[people.province]).max())


# --- two worlds each ------------------------------------------------------------------------------------------------


def _local_category(
    people: Respondents, epsilon: float, samples: int, random: np.random.Generator
) -> tuple[Reals, Reals]:
    """A respondent who has the first category, and the same one with the second."""
    return _both(
        (0, 1),
        lambda code: pipeline.local_category(np.full(samples, int(code)), len(people.present), epsilon, random),
    )


def _local_number(
    people: Respondents, epsilon: float, samples: int, random: np.random.Generator
) -> tuple[Reals, Reals]:
    """Messages of others: the width of the noise tells whether one respondent has the code for "not stated"."""
    del people
    return _both(
        (_NOT_STATED, _TALLEST),
        lambda top: pipeline.local_number(np.full(samples, _SOMEBODY), top - _SHORTEST, epsilon, random),
    )


def _shuffled(people: Respondents, epsilon: float, samples: int, random: np.random.Generator) -> tuple[Reals, Reals]:
    """A respondent who has the last category, which nobody is ever given, and the same one with the first."""
    last = int(people.present[-1])
    keep = pipeline.shuffled_keep(epsilon, people.rows)
    return _both(
        (last, 0), lambda code: pipeline.shuffled_category(np.full(samples, int(code)), last + 1, keep, random)
    )


def _global_count(
    people: Respondents, epsilon: float, samples: int, random: np.random.Generator
) -> tuple[Reals, Reals]:
    """The respondent with the largest weight is counted, or is not there."""
    return _both(
        (float(people.weights.max()), 0.0),
        lambda count: pipeline.global_answer(np.full(samples, count), pipeline.COUNT_SENSITIVITY, epsilon, random),
    )


def _global_mean(people: Respondents, epsilon: float, samples: int, random: np.random.Generator) -> tuple[Reals, Reals]:
    """The respondent with the largest part in a province's mean has the largest height, or the smallest."""
    sensitivity = pipeline.mean_sensitivity(people.width, people.rows)
    return _both(
        (largest_share(people) * people.width, 0.0),
        lambda mean: pipeline.global_answer(np.full(samples, mean), sensitivity, epsilon, random),
    )


def _both(
    worlds: tuple[float, float], say: Callable[[float], NDArray[np.float64] | NDArray[np.int64]]
) -> tuple[Reals, Reals]:
    one, other = (np.asarray(say(world), np.float64) for world in worlds)
    return one, other


_WORLDS: dict[Name, Callable[[Respondents, float, int, np.random.Generator], tuple[Reals, Reals]]] = {
    "local category": _local_category,
    "local number": _local_number,
    "shuffled": _shuffled,
    "global count": _global_count,
    "global mean": _global_mean,
}
METHODS: tuple[Name, ...] = tuple(_WORLDS)
