"""The running service gives the true count plus noise of exactly the law that the policy promises.

End to end: real node processes, real tickets, and the true counts computed here from the source files. A wrong join, a
criterion that is slightly off, noise that is drawn twice, rounded, clamped or rescaled anywhere between the count and
the researcher's list shows as a misfit.

Error rate. A correct service fails this file with probability at most `FALSE_ALARM_RATE`: five looks at one sample of
answers, an equal share each (Bonferroni). The noise is drawn from the operating system's randomness, so a failure at
that rate is possible. Power: a scale that is 20 % off moves the mean distance by more than seven of its standard errors,
a count that is off by 15 the mean of its study by as many; what is finer, tests/process/test_counts.py sees at scale 1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from fakes.deployment import make, persons
from fakes.homes import set_limits
from scipy.stats import chi2, norm

from broker_common.privacy.discrete_laplace import probability
from researcher_node.answers.store import AskedQuestion

pytestmark = [pytest.mark.statistical, pytest.mark.process]

FALSE_ALARM_RATE = 1e-6
SHARE = FALSE_ALARM_RATE / 5
ANSWERS = 1_500
SCALE = 30
AT_ONCE = 8
# Some 59 nat, which is 1,795 answers at this scale: no agency would give it, and no other way leads to so many answers.
MAX_BELIEF = "0." + "9" * 26
FARTHEST_TABULATED = 20 * SCALE
CELLS = 40
"""Some 37 answers are expected in each, enough for the chi-square law at this error rate."""

Person = dict[str, str]


@dataclass(frozen=True, slots=True)
class Study:
    """A question, and the same in plain Python."""

    where: str
    count: str
    holds: Callable[[Person], bool]


STUDIES = (
    Study("age >= 0", "all", lambda _: True),
    Study(
        "age >= 40 and sex = 'female'",
        "mother_tongue = 'English'",
        lambda p: int(p["age"]) >= 40 and p["sex"] == "female" and p["mother_tongue"] == "English",
    ),
    Study(
        "diagnosis = 'hypertension' or hospital_visits >= 1",
        "knowledge_of_official_languages = 'English and French'",
        lambda p: (
            ("hypertension" in p["diagnosis"].split(";") or int(p["hospital_visits"]) >= 1)
            and p["knowledge_of_official_languages"] == "English and French"
        ),
    ),
    Study("age >= 130", "all", lambda _: False),
)


@dataclass(frozen=True, slots=True)
class Sample:
    """The noise of every answer, and which study it was added in."""

    noise: list[int]
    study: list[int]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """1,500 answers, eight questions at a time."""
    deployment = make(tmp_path_factory.mktemp("law") / "deployment", "--max-belief", MAX_BELIEF)
    set_limits(deployment.home("census"), quotes_per_minute=1_000_000, quote_burst=1_000_000)
    people = deployment.people()
    exact = [persons(filter(study.holds, people)) for study in STUDIES]
    asked = [number % len(STUDIES) for number in range(ANSWERS)]
    with deployment.node("census"), deployment.node("health"):
        outcomes = deployment.ask_all(
            [(STUDIES[number].where, STUDIES[number].count) for number in asked], scale=SCALE, at_once=AT_ONCE
        )
    assert all(isinstance(outcome, AskedQuestion) for outcome in outcomes)
    deployment.verify_ledger()
    noise = [
        outcome.noisy_count - exact[number]
        for outcome, number in zip(outcomes, asked, strict=True)
        if isinstance(outcome, AskedQuestion) and outcome.noisy_count is not None
    ]
    assert len(noise) == ANSWERS
    return Sample(noise, asked)


def law() -> dict[int, float]:
    """The exact probability of every value that will ever be seen; what is left out is below e**-20."""
    right = {x: float(probability(SCALE, x)) for x in range(FARTHEST_TABULATED)}
    return {-x: p for x, p in reversed(right.items())} | right


def cells() -> tuple[dict[int, int], list[float]]:
    """The cell of each value, and the probability of each cell: stretches of nearly equal probability."""
    cell_of: dict[int, int] = {}
    masses = [0.0]
    for value, mass in sorted(law().items()):
        if masses[-1] >= 1 / CELLS:
            masses.append(0.0)
        cell_of[value] = len(masses) - 1
        masses[-1] += mass
    return cell_of, masses


def test_the_answers_are_the_true_counts_with_noise_of_the_exact_law(sample: Sample) -> None:
    """As a whole, in their spread, study by study, and one after the other."""
    verify_law(sample)
    verify_spread(sample)
    verify_grain(sample)
    verify_centres(sample)
    verify_independence(sample)


def verify_law(sample: Sample) -> None:
    """Chi-square of (answer - true count) against the discrete Laplace law at the scale that was asked for."""
    cell_of, masses = cells()
    assert math.isclose(sum(masses), 1, abs_tol=1e-8)
    observed = Counter(cell_of[noise] for noise in sample.noise)
    expected = [ANSWERS * mass for mass in masses]
    statistic = sum((observed[cell] - mean) ** 2 / mean for cell, mean in enumerate(expected))
    assert statistic <= chi2.isf(SHARE, len(masses) - 1)


def verify_spread(sample: Sample) -> None:
    """The mean distance from the true count is that of the scale, within its error."""
    distance, square = (sum(p * abs(x) ** power for x, p in law().items()) for power in (1, 2))
    farthest = norm.isf(SHARE / 2) * math.sqrt((square - distance**2) / ANSWERS)
    assert abs(sum(map(abs, sample.noise)) / ANSWERS - distance) <= farthest


def verify_grain(sample: Sample) -> None:
    """Odd values are as frequent as the law has them: nothing was rounded to a coarser grain on the way."""
    odd = sum(p for x, p in law().items() if x % 2)
    farthest = norm.isf(SHARE / 2) * math.sqrt(odd * (1 - odd) / ANSWERS)
    assert abs(sum(noise % 2 for noise in sample.noise) / ANSWERS - odd) <= farthest


def verify_centres(sample: Sample) -> None:
    """The mean noise of each study is zero within its error: no count is off, large, small or empty."""
    deviation = math.sqrt(sum(p * x * x for x, p in law().items()))
    for study in range(len(STUDIES)):
        noise = [each for each, number in zip(sample.noise, sample.study, strict=True) if number == study]
        farthest = norm.isf(SHARE / len(STUDIES) / 2) * deviation / math.sqrt(len(noise))
        assert abs(sum(noise) / len(noise)) <= farthest, STUDIES[study]


def verify_independence(sample: Sample) -> None:
    """Neighbouring answers, those in hand at the same time, and those to the same question are uncorrelated."""
    variance = sum(p * x * x for x, p in law().items())
    lags = (1, 2, len(STUDIES), AT_ONCE)
    for lag in lags:
        products = [first * second for first, second in zip(sample.noise, sample.noise[lag:], strict=False)]
        farthest = norm.isf(SHARE / len(lags) / 2) * variance / math.sqrt(len(products))
        assert abs(sum(products) / len(products)) <= farthest, f"lag {lag}"
