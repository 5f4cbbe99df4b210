"""Cells of people: what is shown of small ones, and what arithmetic with the shown numbers gives away."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker_common.dashboard.cells import LEAST_CELL, coarse, few_digits, join_small

NUMBERS = st.lists(st.one_of(st.just(0), st.integers(0, 9), st.integers(0, 200)), min_size=1, max_size=9)


@given(NUMBERS)
@example([20, 0, 5])
@example([0, 5, 0])
@example([3, 4, 5, 0])
def test_no_small_cell_is_left_beside_an_empty_one(numbers: list[int]) -> None:
    """Every cell holds at least `LEAST_CELL`, unless it is the only one; the cells cover every band once, in order."""
    cells = join_small(numbers)
    assert [place for cell in cells for place in range(cell.first, cell.last + 1)] == list(range(len(numbers)))
    for cell in cells:
        held = sum(numbers[cell.first : cell.last + 1])
        assert held >= LEAST_CELL or len(cells) == 1
        assert cell.number == coarse(held) <= held < cell.number + LEAST_CELL


@given(st.lists(st.one_of(st.just(0), st.integers(LEAST_CELL, 200)), min_size=2, max_size=9), st.data())
def test_the_first_few_in_an_empty_band_do_not_show(numbers: list[int], data: st.DataObject) -> None:
    """Whether a band is empty or holds up to nine people, the same cells are drawn."""
    place = data.draw(st.integers(1, len(numbers) - 1))
    numbers[0], numbers[place] = numbers[0] + LEAST_CELL, 0
    drawn = [(cell.first, cell.last) for cell in join_small(numbers)]
    numbers[place] = data.draw(st.integers(1, LEAST_CELL - 1))
    assert [(cell.first, cell.last) for cell in join_small(numbers)] == drawn


@given(NUMBERS)
def test_a_total_less_its_other_cells_tells_no_small_cell(numbers: list[int]) -> None:
    """The shown total and all shown cells but one leave at least ten possible numbers for what is in that one."""
    cells, total = join_small(numbers), coarse(sum(numbers))
    for cell in cells:
        others = sum(each.number for each in cells if each != cell)
        # Each shown number stands for ten.
        least, most = total - others - 9 * (len(cells) - 1), total + 9 - others
        assert least <= sum(numbers[cell.first : cell.last + 1]) <= most
        assert most - least >= LEAST_CELL - 1


@pytest.mark.parametrize(("number", "shown"), [(0, 0), (7, 7), (99, 99), (100, 100), (1_239, 1_200), (99_999, 99_000)])
def test_a_forecast_has_two_digits(number: int, shown: int) -> None:
    """Rounded down, so that it errs on the early side."""
    assert few_digits(number) == shown
