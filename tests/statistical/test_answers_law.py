"""The running service gives the true count plus noise of exactly the law that the policy promises.

End to end: real node processes, real tickets, and the true counts computed here from the source files. A wrong join, a
criterion that is slightly off, noise that is drawn twice, rounded, clamped or rescaled anywhere between the count and
the researcher's list shows as a misfit.

Questions are asked until every service of `wrong_laws()` is ruled out: a sequential test by ratios of likelihoods (Wald), which
asks some 400 where a fixed number would have to be 1,500 for the same rates.

Error rate. A correct service fails this file with probability at most `FALSE_ALARM_RATE`: three looks at the answers, an equal
share each (Bonferroni). The ratio for a wrong service ever exceeds 1/a under the promised law with probability at most a
(Ville), however long one goes on; the other two looks divide their share among all numbers of answers at which it may have
ended. The noise is drawn from the operating system's randomness, so a failure at that rate is possible. Power: each of the
wrong services is ruled out with probability at most `MISS_RATE` (Ville, the other way round): a scale that is 20 % off, a
study whose count is off by 15, noise that is added twice, rounded to even numbers or clamped to three scales. What is finer,
tests/process/test_counts.py sees at scale 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from fakes.deployment import Deployment, make, persons
from fakes.homes import set_limits
from scipy.stats import chi2, norm

from broker_common.privacy.discrete_laplace import probability
from researcher_node.answers.store import AskedQuestion

pytestmark = [pytest.mark.statistical, pytest.mark.process]

FALSE_ALARM_RATE = 1e-6
SHARE = FALSE_ALARM_RATE / 3
MISS_RATE = 0.005
BATCH, MOST_BATCHES = 100, 15
"""Who is undecided after so many is judged by what there is: under the promised law one run in 500."""
SCALE = 30
AT_ONCE = 8
# Some 59 nat, which is 1,795 answers at this scale: no agency would give it, and no other way leads to so many answers.
MAX_BELIEF = "0." + "9" * 26
FARTHEST_TABULATED = 20 * SCALE
MIN_EXPECTED = 35
"""In each cell, enough for the chi-square law at this error rate."""

Person = dict[str, str]
Law = npt.NDArray[np.float64]
"""Probabilities of the noise from `-FARTHEST_TABULATED` to `FARTHEST_TABULATED`."""


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


@dataclass(slots=True)
class Sample:
    """The noise of every answer, and which study it was added in."""

    noise: list[int] = field(default_factory=list)
    study: list[int] = field(default_factory=list)

    @property
    def places(self) -> npt.NDArray[np.int_]:
        """Where the noise stands in a law."""
        return np.array(self.noise) + FARTHEST_TABULATED


class Service:
    """Answers to the studies in turn, with nodes that serve."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        people = deployment.people()
        self._exact = [persons(filter(study.holds, people)) for study in STUDIES]

    def ask(self, sample: Sample) -> None:
        """A batch more, eight questions at a time."""
        studies = [number % len(STUDIES) for number in range(BATCH)]
        outcomes = self._deployment.ask_all(
            [(STUDIES[study].where, STUDIES[study].count) for study in studies], scale=SCALE, at_once=AT_ONCE
        )
        for outcome, study in zip(outcomes, studies, strict=True):
            assert isinstance(outcome, AskedQuestion)
            assert outcome.noisy_count is not None
            sample.noise.append(outcome.noisy_count - self._exact[study])
            sample.study.append(study)


# --- laws --------------------------------------------------------------------------------------------------------------


@cache
def law(scale: int = SCALE) -> Law:
    """The exact probability of every value that will ever be seen; what is left out is below e**-16."""
    right = [float(probability(scale, value)) for value in range(FARTHEST_TABULATED + 1)]
    return np.array([*right[:0:-1], *right])


@cache
def wrong_laws() -> dict[str, list[Law]]:
    """Noise that each wrong service would add, study by study."""
    right = law()
    zero = FARTHEST_TABULATED
    even = np.zeros_like(right)
    even[::2] = right[::2] + np.append(right[1::2], 0)
    clamped = np.zeros_like(right)
    inside = slice(zero - 3 * SCALE, zero + 3 * SCALE + 1)
    clamped[inside] = right[inside]
    clamped[[inside.start, inside.stop - 1]] += right[: inside.start].sum()
    anywhere = {
        "too little noise": law(SCALE * 4 // 5),
        "too much noise": law(SCALE * 6 // 5),
        "noise added twice": np.convolve(right, right, "same"),
        "rounded": even,
        "clamped": clamped,
    }
    wrong = {name: [each] * len(STUDIES) for name, each in anywhere.items()}
    for study in range(len(STUDIES)):
        for centre in (-15, 15):
            wrong[f"count {study} off by {centre}"] = [
                np.roll(right, centre) if number == study else right for number in range(len(STUDIES))
            ]
    return wrong


def evidence_for(wrong: Sequence[Law], sample: Sample) -> npt.NDArray[np.float64]:
    """Logarithm of how much likelier all noise so far is if the service is wrong in this way; after each answer."""
    ratios = np.array(wrong)[sample.study, sample.places] / law()[sample.places]
    with np.errstate(divide="ignore"):
        steps: npt.NDArray[np.float64] = np.log(ratios)
    return np.cumsum(steps)


# --- looks -------------------------------------------------------------------------------------------------------------


def test_the_answers_are_the_true_counts_with_noise_of_the_exact_law(tmp_path: Path) -> None:
    """No wrong service is as likely, and they fit as a whole, and one after the other."""
    deployment = make(tmp_path / "deployment", "--max-belief", MAX_BELIEF)
    set_limits(deployment.home("census"), quotes_per_minute=1_000_000, quote_burst=1_000_000)
    sample = Sample()
    with deployment.node("census"), deployment.node("health"):
        service = Service(deployment)
        for _ in range(MOST_BATCHES):
            service.ask(sample)
            verdict = judge(sample)
            assert verdict.too_likely == set()
            if not verdict.undecided:
                break
    deployment.verify_ledger()
    verify_law(sample)
    verify_independence(sample)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which wrong services the answers speak for, and which they have not ruled out."""

    too_likely: set[str]
    undecided: set[str]


def judge(sample: Sample) -> Verdict:
    """Judge by all answers so far."""
    wrong_ones = wrong_laws()
    evidence = {name: evidence_for(wrong, sample) for name, wrong in wrong_ones.items()}
    return Verdict(
        {name for name, each in evidence.items() if each.max() >= -math.log(SHARE / len(wrong_ones))},
        {name for name, each in evidence.items() if each.min() > math.log(MISS_RATE)},
    )


@pytest.mark.parametrize("name", list(wrong_laws()))
def test_a_wrong_service_is_found_out(name: str) -> None:
    """Noise of a wrong law, drawn here, speaks for that law before it is ruled out."""
    chance = np.random.default_rng(len(name))
    laws = wrong_laws()[name]
    sample = Sample()
    for _ in range(MOST_BATCHES):
        for study, wrong in enumerate(laws):
            drawn = chance.choice(len(wrong), size=BATCH // len(STUDIES), p=wrong / wrong.sum()) - FARTHEST_TABULATED
            sample.noise += drawn.tolist()
            sample.study += [study] * len(drawn)
        verdict = judge(sample)
        if verdict.too_likely:
            break
    assert name in verdict.too_likely & verdict.undecided


def verify_law(sample: Sample) -> None:
    """Chi-square of (answer - true count) against the discrete Laplace law at the scale that was asked for."""
    masses = law()
    assert math.isclose(masses.sum(), 1, abs_tol=1e-8)
    cells = len(sample.noise) // MIN_EXPECTED
    # Stretches of nearly equal probability.
    cell_of = np.minimum((np.cumsum(masses) - masses / 2) * cells, cells - 1).astype(int)
    expected = len(sample.noise) * np.bincount(cell_of, masses)
    observed = np.bincount(cell_of[sample.places], minlength=cells)
    statistic = float(((observed - expected) ** 2 / expected).sum())
    assert statistic <= chi2.isf(SHARE / MOST_BATCHES, cells - 1)


def verify_independence(sample: Sample) -> None:
    """Neighbouring answers, those in hand at the same time, and those to the same question are uncorrelated."""
    values = np.arange(-FARTHEST_TABULATED, FARTHEST_TABULATED + 1)
    variance = float(law() @ values**2)
    noise = np.array(sample.noise)
    lags = (1, 2, len(STUDIES), AT_ONCE)
    for lag in lags:
        products = noise[:-lag] * noise[lag:]
        farthest = norm.isf(SHARE / MOST_BATCHES / len(lags) / 2) * variance / math.sqrt(len(products))
        assert abs(products.mean()) <= farthest, f"lag {lag}"
