"""The typical case of the belief report is what happens: attackers are simulated, and counted.

Noise is drawn here by another method than the product's (the difference of two geometric variables), the attacker's
belief is computed from the answers themselves, and half of the runs have the person out.

Error rate. A correct report fails this file with probability at most `FALSE_ALARM_RATE`: exact binomial tests, an equal
share each. Seeds are fixed, so that it fails always or never. Power: three times a chance of 2e-5 is seen nearly always, and
so is a twentieth more than a chance of 5 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binomtest

from broker_common.privacy.typical import Answers, evidence_of

pytestmark = pytest.mark.statistical

FALSE_ALARM_RATE = 1e-6
CASES: tuple[tuple[Answers, ...], ...] = (
    (Answers(41, 30),),
    (Answers(10, 20), Answers(15, 37), Answers(5, 50)),
    (Answers(12, 30, 3),),
)
BELIEFS = tuple(Fraction(text) for text in ("0.5", "0.55", "0.6", "0.7", "0.75"))
LOOKS = len(CASES) * (2 * len(BELIEFS) + 1)
RUNS = 1_000_000
AT_ONCE = 50_000


def evidence_for_the_truth(
    groups: Sequence[Answers], rng: np.random.Generator
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The log-odds for the truth, in nats, of `AT_ONCE` attackers: answers drawn, ratios taken."""
    found = np.zeros(AT_ONCE)
    for group in groups:
        stop = 1 - np.exp(-1 / group.scale)
        shape = (AT_ONCE, group.count)
        noise = rng.geometric(stop, shape) - rng.geometric(stop, shape)
        truth = np.where(rng.random((AT_ONCE, 1)) < 0.5, group.members, 0)
        answers = truth + noise
        # Log-odds of "in" against "out", turned towards what is true.
        ratio = (np.abs(answers) - np.abs(answers - group.members)).sum(axis=1) / group.scale
        found += np.where(truth[:, 0] > 0, ratio, -ratio)
    return found


@pytest.mark.parametrize("case", range(len(CASES)))
def test_attackers_come_to_believe_what_the_report_says(case: int) -> None:
    """How often a belief is passed, and how often the best guess is right, is within the bracket that is reported."""
    rng = np.random.default_rng(1000 + case)
    passed, right, ties = dict.fromkeys(BELIEFS, 0), 0, 0
    for _ in range(RUNS // AT_ONCE):
        # Sums of fractions in floats: what is nearly nothing is nothing.
        evidence = np.round(evidence_for_the_truth(CASES[case], rng), 9)
        beliefs = 1 / (1 + np.exp(-evidence))
        for belief in BELIEFS:
            passed[belief] += int(np.count_nonzero(beliefs > float(belief)))
        right += int(np.count_nonzero(evidence > 0))
        ties += int(np.count_nonzero(evidence == 0))
    report = evidence_of(CASES[case])
    share = FALSE_ALARM_RATE / LOOKS
    for belief in BELIEFS:
        low, high = report.belief_above(belief)
        assert binomtest(passed[belief], RUNS, float(high), alternative="greater").pvalue > share
        assert binomtest(passed[belief], RUNS, float(low), alternative="less").pvalue > share
    # Twice a tie is one right guess on average: ties are counted, not drawn, which only makes the figure steadier.
    guesses = report.best_guess_right()
    standard_error = 0.5 / RUNS**0.5
    assert (
        float(guesses.low) - 6 * standard_error <= (right + ties / 2) / RUNS <= float(guesses.high) + 6 * standard_error
    )
