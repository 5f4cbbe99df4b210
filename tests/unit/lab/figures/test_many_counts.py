"""One table against many counts: margins are the product's, and a table's that of its law added up."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from itertools import product

import pytest

from broker_common.privacy.accounting import price
from broker_common.privacy.table_laplace import margin, probability
from broker_common.values import MOST_CELLS
from policy_lab.document.model import Lines, Paragraph, Table
from policy_lab.figures.figure import FIGURES
from policy_lab.figures.policy import limit_at


@pytest.mark.parametrize("scale", [1, 30, 200])
@pytest.mark.parametrize("cap", [51, 80, 99])
def test_table_is_the_products_margins(cap: int, scale: int) -> None:
    """For 1 to 16 cells: the table's, that of Laplace noise for two steps, and that of counts at the scale that the charge leaves."""
    table, _, _ = drawn(cap=str(cap), scale=str(scale))
    assert [row[0] for row in table.rows] == list(range(1, MOST_CELLS + 1))
    for cells, one, usual, apart, ratio, separate, whole in table.rows:
        assert isinstance(cells, int)
        assert isinstance(separate, int)
        assert (one, apart) == (margin(scale, cells), margin(scale * cells))
        assert usual == margin(2 * scale if cells > 1 else scale)
        assert ratio == Fraction(margin(scale * cells), margin(scale, cells))
        assert whole == limit_at(Fraction(cap, 100)).answers(scale) // cells
        # So many counts cost what one answer costs, but for rounding up each; at a smaller scale they would cost more.
        assert price(scale) <= cells * price(separate) < price(scale) + cells
        assert cells == 1 or cells * price(separate - 1) > price(scale)


def test_a_table_is_never_worse_than_the_other_two() -> None:
    """And more cells never have smaller margins."""
    _, plot, _ = drawn()
    table, usual, apart = ([y for _, y in line.points] for line in plot.lines)
    assert all(one <= two for one, two in zip(table, usual, strict=True))
    assert all(one <= two for one, two in zip(table, apart, strict=True))
    assert table == sorted(table)
    assert apart == sorted(apart)
    assert (table[0], table[1], table[3]) == (90, 114, 138)


@pytest.mark.parametrize(("cells", "scale"), [(1, 3), (2, 2), (3, 1)])
def test_margin_of_a_cell_is_that_of_the_law_of_the_whole_table(cells: int, scale: int) -> None:
    """Every vector of noise within sixteen scales, with its probability; above the margin lies half of what is beyond it."""
    found, reach = margin(scale, cells), 16 * scale

    def chance(firsts: Iterable[int]) -> Decimal:
        others = list(product(range(-reach, reach + 1), repeat=cells - 1))
        return sum((probability(scale, (first, *rest)) for first in firsts for rest in others), Decimal(0))

    outside, at_edge = 2 * chance(range(found + 1, reach + 1)), chance([found])
    assert outside <= Decimal("0.05") < outside + 2 * at_edge


def test_sentence_compares_at_one_charge() -> None:
    """138 against 359 for four cells at scale 30."""
    _, _, words = drawn(cells="4")
    assert "is within 138 in each cell" in words[0]
    assert "4 counts asked one by one are within 359" in words[0]


def drawn(**given: str) -> tuple[Table, Lines, list[str]]:
    """Table, plot and sentences."""
    section = FIGURES["table"].draw(FIGURES["table"].values(given))
    table = next(block for block in section.blocks if isinstance(block, Table))
    plot = next(block for block in section.blocks if isinstance(block, Lines))
    return table, plot, [block.words for block in section.blocks if isinstance(block, Paragraph)]
