"""A table that may leave the house: exact noise on a grid, no exact figure, no small cell."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from unit.lab.farms import FARMS, LARGEST, TOTALS, WITHIN, asked, farm_cells

from broker_common.crypto.noise_stream import NoiseStream
from broker_common.errors import InvalidRequestError
from broker_common.privacy.discrete_laplace import draw
from policy_lab.document import as_json
from policy_lab.tables.cells import Cells, tabulated
from policy_lab.tables.question import Question
from policy_lab.tables.release import Grid, Release, SystemBits, released
from policy_lab.tables.report import released_report

SEED = bytes(32)
BOUNDS = (Fraction(0), Fraction(2000))
ASKED = asked()
COUNTED = replace(ASKED, statistic="count", bounds=None, value="")


def given(question: Question, cells: Cells | None = None, step: str = "1") -> Release:
    """The release with noise that can be drawn again."""
    cells = farm_cells() if cells is None else cells
    return released(question, cells, Grid.checked(Fraction(step), question, cells), NoiseStream(SEED))


def noise(release: Release) -> list[int]:
    """The same noise: each answer that is not refused draws for each of its figures, in order."""
    stream = NoiseStream(SEED)
    return [
        draw(int(each.scales[at]), stream)
        for at, answer in enumerate(release.answers)
        if answer is not None
        for each in release.plan.noisy
    ]


def test_an_answer_is_the_exact_figure_and_the_samplers_noise() -> None:
    """To the last step of the grid: totals in fives are whole multiples of five."""
    fives = given(ASKED, step="5")
    exact = [sum(round(value / 5) * 5 for value in values) for values in FARMS.values()]
    wanted = [total + 5 * drawn for total, drawn in zip(exact, noise(fives), strict=False)]
    assert list(fives.answers) == [*wanted[:3], None]
    assert list(given(COUNTED).answers)[:3] == [n + x for n, x in zip((3, 4, 3), noise(given(COUNTED)), strict=True)]


def test_no_value_is_a_step_beyond_the_bounds() -> None:
    """A bound as a float may lie most of a step outside; the noise is for the bound itself."""
    most = 2**53 - 24
    high = Fraction(most, 100)
    assert round(Fraction(float(high)) * 100) == most + 1
    question = replace(ASKED, bounds=(Fraction(0), high))
    cells = tabulated(["a"] * 3, ["x"] * 3, np.full(3, float(high)))
    grid = Grid.checked(Fraction(1, 100), question, cells)
    assert [part.tolist() for part in grid.rounded(cells).parts] == [[most] * 3]


@pytest.mark.parametrize("statistic", ["count", "average", "total"])
@pytest.mark.parametrize("epsilon", ["1", "0.3", "7", "29.9"])
def test_whole_scales_never_cost_more_than_epsilon(statistic: str, epsilon: str) -> None:
    """They are rounded up, and the epsilon that is printed is what they have."""
    question = replace(COUNTED if statistic == "count" else ASKED, statistic=statistic, epsilon=Fraction(epsilon))  # type: ignore[arg-type]
    plan = given(question).plan
    scales = [scale for each in plan.noisy for scale in each.scales]
    assert all(scale.denominator == 1 and scale >= 1 for scale in scales)
    assert plan.real_epsilon is not None
    assert 0 < plan.real_epsilon <= Fraction(epsilon)


@pytest.mark.parametrize(("members", "is_refused"), [(0, False), (1, True), (2, True), (3, False)])
@pytest.mark.parametrize("statistic", ["count", "total"])
def test_cells_of_one_or_two_members_are_refused(members: int, is_refused: bool, statistic: str) -> None:
    """Whatever is asked of them. An empty cell is not: that would tell more."""
    rows, columns = ["a"] * 5 + ["b"] * (3 + members), ["x"] * 5 + ["y"] * 3 + ["x"] * members
    cells = tabulated(rows, columns, np.full(8 + members, 4.0))
    release = given(replace(COUNTED if statistic == "count" else ASKED, statistic=statistic), cells)  # type: ignore[arg-type]
    assert (release.answers[2] is None) is is_refused


def test_a_cell_that_the_bootstrap_rule_would_publish_bare_is_refused() -> None:
    """Three members of one value: their range is 0, and so would be the noise."""
    cells = tabulated(["a"] * 3 + ["b"] * 3, None, np.array([7.0, 7, 7, 1, 2, 3]))
    release = given(replace(ASKED, rule="bootstrap", method="public-membership", bounds=None), cells)
    assert [answer is None for answer in release.answers] == [True, False]


def test_the_refusal_says_that_it_tells_something() -> None:
    """With how many were refused, and also if none was."""
    some = json.dumps(as_json.value(released_report(ASKED, given(ASKED), farm_cells())))
    assert "Refused cells: 1. A cell of one or two members is refused, and the refusal itself tells something" in some
    cells = tabulated(["a"] * 3, None, np.array([7.0, 8, 9]))
    none = json.dumps(as_json.value(released_report(ASKED, given(ASKED, cells), cells)))
    assert "that none was refused tells something too" in none


@pytest.mark.parametrize("rule", ["laplace", "bootstrap"])
def test_nothing_exact_is_released(rule: str) -> None:
    """Neither totals nor members; under the bootstrap rule no sensitivity and no scale either: they are values of the data."""
    question = replace(ASKED, rule=rule, bounds=BOUNDS if rule == "laplace" else None)  # type: ignore[arg-type]
    release = given(question)
    document = as_json.value(released_report(question, release, farm_cells()))
    answers = {float(answer) for answer in release.answers if answer is not None}
    numbers = set(figures(document)) - answers - {10.0, float(release.plan.epsilon)}
    assert not numbers & {*map(float, TOTALS), 3.0, 4.0, 2.0}
    if rule == "bootstrap":
        scales = {float(scale) for scale in release.plan.main.scales}
        assert not numbers & {*map(float, LARGEST), *map(float, WITHIN), *scales}


def figures(thing: object) -> list[float]:
    """Every number of a document's tables."""
    if isinstance(thing, dict):
        return [each for key, value in thing.items() if key != "digits" for each in figures(value)]
    if isinstance(thing, list):
        return [each for value in thing for each in figures(value)]
    return [float(thing)] if isinstance(thing, int | float) and not isinstance(thing, bool) else []


def test_randomness_is_the_operating_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    """No seed can bring the noise back."""
    monkeypatch.setattr(secrets, "randbits", lambda n: 2**n - 1)
    assert SystemBits().bits(17) == 2**17 - 1


@pytest.mark.parametrize(
    ("step", "bounds", "problem"),
    [
        ("0", BOUNDS, "is not above 0"),
        ("-1", BOUNDS, "is not above 0"),
        ("3", BOUNDS, "does not divide the bounds"),
        ("1e-20", BOUNDS, "is too fine"),
        ("1e-20", None, "is too fine"),
    ],
)
def test_a_grid_that_does_not_fit_is_refused(step: str, bounds: tuple[Fraction, Fraction] | None, problem: str) -> None:
    """Figures would not be whole numbers of steps, or no longer exact."""
    question = replace(ASKED, bounds=bounds, rule="laplace" if bounds else "bootstrap")
    with pytest.raises(InvalidRequestError, match="INVALID_VALUE") as error:
        Grid.checked(Fraction(step), question, farm_cells())
    assert problem in error.value.text


def test_averages_are_quotients_within_the_bounds() -> None:
    """Quotients of the noisy total about the middle and the noisy count, at least one; never beyond the bounds."""
    release = given(replace(ASKED, statistic="average", epsilon=Fraction(1, 10)))
    drawn = iter(noise(release))
    for values, answer in zip(FARMS.values(), release.answers, strict=True):
        if answer is None:
            continue
        total, members = sum(values) - 1000 * len(values) + next(drawn), max(len(values) + next(drawn), 1)
        assert answer == min(max(Fraction(int(total), members) + 1000, Fraction(0)), Fraction(2000))


@pytest.mark.parametrize(
    ("low", "step"),
    [(7943282347242154, "0.1"), (-7943282347242155, "0.1"), (2**53 - 1, "0.3"), (3, "0.1"), (9007199254740990, "1e-3")],
)
def test_two_values_within_the_bounds_are_never_further_apart_than_the_noise_is_for(low: int, step: str) -> None:
    """One step between the bounds is one step between any two rounded values, however coarse floating-point numbers are there."""
    bounds = (low * Fraction(step), (low + 1) * Fraction(step))
    question = replace(ASKED, bounds=bounds)
    ends = float(bounds[0]), float(bounds[1])
    values = np.array([ends[0], np.nextafter(ends[0], ends[1]), sum(ends) / 2, np.nextafter(ends[1], ends[0]), ends[1]])
    grid = Grid.checked(Fraction(step), question, cells := tabulated(None, None, values))
    rounded = {int(value) for value in grid.rounded(cells).parts[0]}
    assert rounded <= {low, low + 1}
    change = given(question, cells, step).plan.main.change
    assert max(rounded) - min(rounded) <= max(change.within) == 1


def test_the_nearest_step_is_found_exactly() -> None:
    """A quotient of floating-point numbers lies on the wrong side of the middle."""
    values = np.array([0.15, 0.35, 0.45])
    grid = Grid(Fraction("0.1"), (Fraction(0), Fraction(10)))
    rounded = grid.rounded(tabulated(None, None, values)).parts[0]
    assert rounded.tolist() == [round(Fraction(float(value)) * 10) for value in values]
