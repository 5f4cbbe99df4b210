"""Local noise on a form: the arithmetic that the browser repeats has the laws of the lab's mechanisms."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from policy_lab.document.model import Bars, Lines, Table
from policy_lab.figures.figure import FIGURES
from policy_lab.figures.form import highest_belief
from policy_lab.figures.form_law import (
    AGE,
    FIELDS,
    HEIGHT,
    LANGUAGE,
    SMOKING,
    STEPS,
    Choice,
    Field,
    Number,
    laplace,
    laplace_below,
    sent_form,
    uniform_of,
)
from policy_lab.mechanisms.randomised_response import RandomisedResponse

EPSILONS = (0.02, 1.0, 4.0)
NUMBERS = [field for field in FIELDS if isinstance(field, Number)]
CHOICES = [field for field in FIELDS if isinstance(field, Choice)]


def messages_of(field: Field) -> list[int]:
    """All that may be sent, and filled in."""
    return list(range(field.low, field.high + 1)) if isinstance(field, Number) else list(range(len(field.choices)))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.key)
def test_chances_of_messages_never_differ_by_more_than_epsilon(field: Field, epsilon: float) -> None:
    """For any two values of one respondent; some pair comes within a part in a thousand of it, rounding to whole units being what is gained."""
    laws = np.array([field.chances(value, epsilon) for value in messages_of(field)])
    assert laws.sum(axis=1) == pytest.approx(np.ones(len(laws)))
    ratios = laws.max(axis=0) / laws.min(axis=0)
    assert ratios.max() <= math.exp(epsilon) * (1 + 1e-9)
    assert ratios.max() >= math.exp(epsilon) * (1 - 1e-3)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("field", NUMBERS, ids=lambda field: field.key)
def test_numbers_have_the_law_of_clamped_noise(field: Number, epsilon: float) -> None:
    """Against the lab's own mechanism, rounded to whole units."""
    bounded = pytest.importorskip("policy_lab.mechanisms.bounded", reason="needs the extra 'lab'")
    mechanism = bounded.BoundedLaplace(field.low, field.high, epsilon, "clamped")
    for value in (field.low, field.usual, field.high):
        edges = mechanism.cdf(value, [*(x + 0.5 for x in range(field.low, field.high)), field.high])
        assert np.diff([0.0, *edges]) == pytest.approx(field.chances(value, epsilon), abs=1e-12)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("field", CHOICES, ids=lambda field: field.key)
def test_choices_have_the_law_of_randomised_response(field: Choice, epsilon: float) -> None:
    """Against the lab's own mechanism."""
    mechanism = RandomisedResponse(len(field.choices), epsilon)
    for value in messages_of(field):
        assert list(mechanism.law(value)) == pytest.approx(field.chances(value, epsilon))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("field", [AGE, SMOKING], ids=lambda field: field.key)
def test_messages_come_as_often_as_said(field: Field, epsilon: float) -> None:
    """Every uniform number of a fine grid once: no chance is off by more than a step at each end of its piece."""
    grid = 1 << 14
    for value in (messages_of(field)[0], messages_of(field)[1], messages_of(field)[-1]):
        sent = [field.sent(value, epsilon, (step + 0.5) / grid) for step in range(grid)]
        for message, chance in zip(messages_of(field), field.chances(value, epsilon), strict=True):
            assert abs(sent.count(message) / grid - chance) <= 2 / grid
        assert set(sent) <= set(messages_of(field))


def test_noise_is_the_inverse_of_its_law() -> None:
    """Also at the ends of the uniform numbers, where nothing is infinite."""
    for step in (0, 1, 12345, STEPS // 2 - 1, STEPS // 2, STEPS - 1):
        uniform = uniform_of(step)
        assert 0 < uniform < 1
        assert laplace_below(3.0, laplace(3.0, uniform)) == pytest.approx(uniform, rel=1e-6)
        assert math.isfinite(laplace(3.0, uniform))
    assert laplace(3.0, uniform_of(0)) == -laplace(3.0, uniform_of(STEPS - 1))


def test_form_spends_its_epsilon_in_equal_parts() -> None:
    """Each field a fifth."""
    uniforms = [0.1, 0.2, 0.3, 0.95, 0.5]
    values = [40, 170, 80, 0, 1]
    expected = [field.sent(value, 0.6, u) for field, value, u in zip(FIELDS, values, uniforms, strict=True)]
    assert sent_form(values, 3.0, uniforms) == expected


@pytest.mark.parametrize("epsilon", ["0.1", "1", "5", "20"])
def test_highest_belief_is_rounded_up(epsilon: str) -> None:
    """e**epsilon / (1 + e**epsilon), from even odds."""
    exact = 1 / (1 + math.exp(-float(epsilon)))
    assert 0 <= float(highest_belief(Fraction(epsilon))) - exact < 1.0001e-5


def test_figure_shows_what_would_be_sent() -> None:
    """Before, sensitivity, scale, chances, after: for the form that is filled in."""
    given = {"epsilon": "10", "height": "150", "smoking": "daily", "language": "other", "seed": "4"}
    section = FIGURES["form"].draw(FIGURES["form"].values(given))
    table = next(block for block in section.blocks if isinstance(block, Table))
    height = next(row for row in table.rows if row[0] == "Height")
    chances = HEIGHT.chances(150, 2.0)
    assert height[:6] == ("Height", 150, 100, 50.0, 100 * chances[30], 100 * (chances[0] + chances[-1]))
    smoking = next(row for row in table.rows if row[0] == "Smoking")
    assert smoking[1:4] == ("every day", None, None)
    assert smoking[4] == pytest.approx(100 * SMOKING.keep(2.0))
    language = next(row for row in table.rows if row[0] == "Mother tongue")
    assert language[1] == "another one"
    assert language[6] in dict(LANGUAGE.choices).values()
    plot = next(block for block in section.blocks if isinstance(block, Lines))
    own, furthest = plot.lines
    assert list(own.points) == list(zip(range(121, 220), chances[1:-1], strict=True))
    assert furthest.label == "filled in: 220"
    assert all(a <= b * math.exp(2.0) * 1.000001 for (_, a), (_, b) in zip(own.points, furthest.points, strict=True))
    bars = next(block for block in section.blocks if isinstance(block, Bars))
    assert bars.series[0] == "filled in: every day"
    assert bars.values[0] == SMOKING.chances(2, 2.0)
