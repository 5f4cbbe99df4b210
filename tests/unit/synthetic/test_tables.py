"""Raking and drawing from conditional distributions."""

from __future__ import annotations

import numpy as np
import pytest

from deploy.synthetic.tables import ConditionalTable, rake


def test_raking_meets_the_margins_and_keeps_odds_ratios() -> None:
    """The raked table has the wanted sums and the starting table's odds ratio."""
    start = np.array([[4.0, 1.0], [2.0, 3.0]])
    rows, columns = np.array([0.3, 0.7]), np.array([0.6, 0.4])
    table = rake(start, [((0,), rows), ((1,), columns)])
    assert np.allclose(table.sum(axis=1), rows)
    assert np.allclose(table.sum(axis=0), columns)
    assert np.isclose(table[0, 0] * table[1, 1] / (table[0, 1] * table[1, 0]), 6.0)


def test_raking_refuses_margins_that_conflict() -> None:
    """Margins of different totals have no table, and that is said rather than approximated."""
    with pytest.raises(ValueError, match="cannot be met"):
        rake(np.ones((2, 2)), [((0,), np.array([0.5, 0.5])), ((1,), np.array([0.5, 0.6]))])


def test_draws_cover_the_unit_interval_in_proportion() -> None:
    """Evenly spread uniforms fall on the categories exactly in proportion, and never on one of weight zero."""
    table = ConditionalTable(np.array([[1.0, 0.0, 3.0], [0.0, 2.0, 2.0]]))
    uniforms = np.arange(1024) / 1024
    for row, expected in ((0, [256, 0, 768]), (1, [0, 512, 512])):
        drawn = table.draw(np.full(1024, row), uniforms)
        assert np.bincount(drawn, minlength=3).tolist() == expected


def test_the_order_of_categories_changes_places_not_shares() -> None:
    """With an order, low uniforms meet its first category; the shares stay."""
    table = ConditionalTable(np.array([[1.0, 3.0]]), order=(1, 0))
    drawn = table.draw(np.zeros(1024, dtype=np.int64), np.arange(1024) / 1024)
    assert drawn[0] == 1
    assert np.bincount(drawn).tolist() == [256, 768]


def test_the_largest_uniform_stays_in_its_row() -> None:
    """A uniform just below 1 in a late row is not rounded into the next row."""
    table = ConditionalTable(np.ones((1000, 4)))
    assert table.draw(np.array([998]), np.array([1.0 - 2.0**-32])).tolist() == [3]
