"""The change that one row can make, and the epsilon that follows: checked against every pair of neighbours of small files."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest
from unit.lab.farms import LARGEST, WITHIN, farm_cells

from policy_lab.tables.cells import Cells, tabulated
from policy_lab.tables.plan import (
    METHODS,
    Method,
    Noisy,
    Plan,
    Statistic,
    change_of,
    epsilon_alone,
    outlier_epsilon,
    plan,
    within_epsilon,
)

ONE = Fraction(1)
BOUNDS = (Fraction(-2), Fraction(5))
# A row is its cell, None outside the table, and its value.
Row = tuple[int | None, Fraction]
# Small files: with an outside, signed values, one cell that has one value, and one that has one member.
FILES: dict[str, Sequence[Row]] = {
    "three cells": [(0, Fraction(-2)), (0, Fraction(5)), (1, Fraction(3)), (2, Fraction(1)), (2, Fraction(4))],
    "signed": [(0, Fraction(-2)), (0, Fraction(2)), (1, Fraction(-1)), (1, Fraction(0))],
    "with an outside": [(0, Fraction(4)), (0, Fraction(1)), (None, Fraction(0))],
    "two cells and an outside": [(0, Fraction(4)), (1, Fraction(1)), (1, Fraction(2)), (None, Fraction(0))],
}


def cells_of(rows: Sequence[Row]) -> Cells:
    """The table of a small file."""
    inside = [(cell, value) for cell, value in rows if cell is not None]
    return tabulated(
        [str(cell) for cell, _ in inside],
        None,
        np.array([float(value) for _, value in inside]),
        outside=len(rows) - len(inside),
        is_filtered=len(inside) < len(rows),
    )


def loss(noisy: Sequence[Noisy], one: Row, other: Row, centre: Fraction) -> Fraction:
    """Cost of one row being another: the sum over all figures of change over scale."""
    total = Fraction(0)
    for each in noisy:
        change: dict[int, Fraction] = {}
        for (cell, value), sign in ((one, 1), (other, -1)):
            if cell is not None:
                amount = Fraction(1) if each.figure == "count" else value - centre
                change[cell] = change.get(cell, Fraction(0)) + sign * amount
        for cell, amount in change.items():
            if amount:
                assert each.scales[cell] > 0, "a row changes a cell that has no noise"
                total += abs(amount) / each.scales[cell]
    return total


def possible(rule: str, rows: Sequence[Row], cells: Cells) -> Sequence[Row]:
    """Every row that a neighbour may have: rows of the file, or any cell with the bounds and values between them."""
    if rule == "bootstrap":
        return rows
    places = [*range(len(cells.parts)), *([None] if cells.is_part else [])]
    return [(place, value) for place in places for value in (*BOUNDS, Fraction(0), Fraction(1))]


def pairs(chosen: Plan, rows: Sequence[Row], cells: Cells) -> Iterator[tuple[Row, Row]]:
    """Both rows of every pair of neighbours; with public membership they are of one cell."""
    for one, other in itertools.product(possible(chosen.rule, rows, cells), repeat=2):
        if chosen.method != "public-membership" or one[0] == other[0]:
            yield one, other


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("rule", ["laplace", "bootstrap"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("statistic", ["count", "total", "average"])
def test_no_pair_of_neighbours_loses_more_than_epsilon(
    file: str, rule: str, method: Method, statistic: Statistic
) -> None:
    """Every replacement of a row is tried; the promised epsilon is never passed, and the printed one is the largest."""
    rows = FILES[file]
    cells = cells_of(rows)
    if statistic == "count" and method == "public-membership":
        return
    chosen = plan(cells, statistic, rule, method, Fraction(3, 4), None if statistic == "count" else BOUNDS)  # type: ignore[arg-type]
    losses = [loss(chosen.noisy, one, other, chosen.centre) for one, other in pairs(chosen, rows, cells)]
    assert chosen.real_epsilon is not None
    assert max(losses) <= chosen.real_epsilon <= Fraction(3, 4)
    if statistic != "average":
        assert max(losses) == chosen.real_epsilon


@pytest.mark.parametrize("method", METHODS)
def test_published_scales_have_the_printed_epsilon(method: Method) -> None:
    """Also beyond the nominal one: the worst pair of neighbours loses exactly what is printed."""
    rows = [(at // 2, Fraction(value)) for at, value in enumerate([100, 1000, 50, 200, 300, 600, 70, 80])]
    cells = cells_of(rows)
    chosen = plan(cells, "total", "bootstrap", method, ONE, as_published=True)
    losses = [loss(chosen.noisy, one, other, Fraction(0)) for one, other in itertools.product(rows, repeat=2)]
    assert max(losses) == chosen.real_epsilon


def test_farms_as_published() -> None:
    """Cell maximum less cell minimum; one row can change a cell by its maximum, and two cells at once."""
    published = plan(farm_cells(), "total", "bootstrap", "public-membership", ONE, as_published=True)
    assert list(published.main.change.within) == WITHIN
    assert list(published.main.change.alone) == LARGEST
    assert published.main.change.whole == 1600
    assert max(filter(None, epsilon_alone(published.main))) == Fraction(80, 10)
    assert published.real_epsilon == Fraction(80, 10) + Fraction(600, 300)
    assert within_epsilon(published.noisy) == 1
    single = plan(farm_cells(), "total", "bootstrap", "one-sensitivity", ONE, as_published=True)
    assert single.main.scales[0] == 900
    assert single.real_epsilon == Fraction(1600, 900)
    split = plan(farm_cells(), "total", "bootstrap", "split", ONE, as_published=True)
    assert list(split.main.scales) == [4 * each for each in WITHIN]
    assert split.real_epsilon == Fraction(10, 4)


def test_corrected_methods_of_the_farms() -> None:
    """One scale of the two largest maxima, or twice each cell's own: both have the epsilon that they name."""
    one = plan(farm_cells(), "total", "bootstrap", "one-sensitivity", ONE)
    assert set(one.main.scales) == {1600}
    assert one.real_epsilon == 1
    split = plan(farm_cells(), "total", "bootstrap", "split", ONE)
    assert list(split.main.scales) == [2 * each for each in LARGEST]
    assert split.real_epsilon == 1


@pytest.mark.parametrize("rule", ["laplace", "bootstrap"])
def test_a_contingency_table_has_sensitivity_two(rule: str) -> None:
    """A row that moves leaves one count and enters another; a single count of a part has 1, a count of all 0."""
    change = change_of(farm_cells(), "count", rule, None)  # type: ignore[arg-type]
    assert change.whole == 2
    assert set(change.alone) == {1}
    part = tabulated(None, None, np.zeros(3), outside=2, is_filtered=True)
    assert change_of(part, "count", rule, None).whole == 1  # type: ignore[arg-type]
    everybody = tabulated(None, None, np.zeros(3))
    assert plan(everybody, "count", rule, "one-sensitivity", ONE).real_epsilon == 0  # type: ignore[arg-type]


def test_a_cell_without_noise_that_a_row_can_change_has_no_epsilon() -> None:
    """One member, or one value only: the published method gives the value away."""
    cells = tabulated(["a", "b", "b"], None, np.array([7.0, 1.0, 2.0]))
    chosen = plan(cells, "total", "bootstrap", "public-membership", ONE, as_published=True)
    assert chosen.main.scales[0] == 0
    assert chosen.real_epsilon is None
    assert outlier_epsilon(chosen.main, cells, Fraction(70)) is None


def test_an_outlier_who_joins_has_a_larger_epsilon() -> None:
    """With ten times the largest value, in place of a row of another cell: the noise of the file does not hide it."""
    chosen = plan(farm_cells(), "total", "bootstrap", "one-sensitivity", ONE)
    joining = outlier_epsilon(chosen.main, farm_cells(), Fraction(10_000))
    assert joining == Fraction(10_000 + 1000, 1600)


def test_the_mean_of_everybody_divides_by_the_public_number() -> None:
    """A million over 994 rows, as with the incomes."""
    cells = tabulated(None, None, np.arange(994.0))
    chosen = plan(cells, "average", "laplace", "one-sensitivity", ONE, (Fraction(0), Fraction(10**6)))
    assert chosen.counts_are_public
    assert list(chosen.main.scales) == [10**6]
