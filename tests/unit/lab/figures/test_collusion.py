"""The attack on one made-up person: Bayes' rule on answers of the product's law, never past the ceiling."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest

from broker_common.privacy.discrete_laplace import draw, probability
from policy_lab.document.model import Lines, Table
from policy_lab.figures.collusion import OTHERS, steps
from policy_lab.figures.figure import FIGURES
from policy_lab.figures.policy import highest_after, limit_at, lowest_after
from policy_lab.figures.randomness import SeededBits

EVEN = Fraction(1, 2)


@pytest.mark.parametrize("prior", ["0.02", "0.5", "0.9"])
@pytest.mark.parametrize("is_french", [True, False])
@pytest.mark.parametrize("scale", [1, 30])
def test_belief_is_bayes_on_the_probabilities_of_the_answers(scale: int, is_french: bool, prior: str) -> None:
    """The law of the noise, evaluated at every answer in both worlds."""
    belief = float(Fraction(prior))
    for step in steps(scale, 12, Fraction(prior), is_french=is_french, seed=5):
        french, other = (float(probability(scale, step.noisy - OTHERS - one)) for one in (1, 0))
        belief = belief * french / (belief * french + (1 - belief) * other)
        assert step.belief == pytest.approx(belief, rel=1e-9)


def test_answers_are_the_count_and_a_draw_of_the_product() -> None:
    """From the same bits, one after the other."""
    bits = SeededBits(9)
    expected = [OTHERS + 1 + draw(30, bits) for _ in range(20)]
    assert [step.noisy for step in steps(30, 20, EVEN, is_french=True, seed=9)] == expected


@pytest.mark.parametrize("scale", [1, 2, 30])
@pytest.mark.parametrize("cap", [51, 80, 99])
def test_no_luck_leads_past_the_ceiling(cap: int, scale: int) -> None:
    """Two hundred seeds, after every answer, both ways; at scale 1 some reach it."""
    limit, reached = limit_at(Fraction(cap, 100)), 0
    most = limit.answers(scale)
    bounds = [(float(lowest_after(n, scale)), float(highest_after(n, scale))) for n in range(most + 1)]
    for seed in range(200):
        for step in steps(scale, most, EVEN, is_french=bool(seed % 2), seed=seed):
            low, high = bounds[step.answers]
            assert low <= step.belief <= high <= cap / 100
            reached += step.belief > high - 1e-4
    assert reached or scale == 30 or limit.answers(scale) == 0


def test_seeded_bits_are_uniform_and_of_the_width_asked_for() -> None:
    """Each of eight values an eighth of the time, within six standard deviations (a chance of 2e-8 to fail)."""
    bits, trials = SeededBits(1), 20_000
    found = Counter(bits.bits(3) for _ in range(trials))
    assert set(found) == set(range(8))
    assert all(abs(number - trials / 8) < 6 * (trials * 7 / 64) ** 0.5 for number in found.values())
    assert {bits.bits(1) for _ in range(100)} == {0, 1}
    assert bits.bits(0) == 0
    assert max(bits.bits(13) for _ in range(1000)) < 1 << 13


def test_table_and_plot_tell_the_same_story() -> None:
    """Every answer that the limit pays for, from what was believed before to the end."""
    section = FIGURES["attack"].draw(FIGURES["attack"].values({"seed": "3"}))
    table = next(block for block in section.blocks if isinstance(block, Table))
    plot = next(block for block in section.blocks if isinstance(block, Lines))
    found = steps(30, 41, EVEN, is_french=True, seed=3)
    assert [row[:2] for row in table.rows] == [(0, None), *((step.answers, step.noisy) for step in found)]
    assert list(plot.lines[0].points) == [(0, 0.5), *((step.answers, step.belief) for step in found)]
    assert plot.limits[0][1] == 0.8
