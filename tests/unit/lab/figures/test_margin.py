"""The meaning of a margin for groups of three sizes: laws added up slowly give the same."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from broker_common.language import language
from broker_common.privacy.discrete_laplace import probability
from broker_common.privacy.table_laplace import margin
from policy_lab.document.model import Lines, Paragraph, Table
from policy_lab.figures.figure import FIGURES
from policy_lab.figures.margin import GOOD, USABLE, chance_of_wrong_order, smallest_group, standard_deviation


@pytest.mark.parametrize("difference", [-3, 0, 1, 2, 17, 60])
@pytest.mark.parametrize("scale", [1, 5, 11])
def test_chance_of_the_wrong_order_is_that_of_all_pairs_of_draws(scale: int, difference: int) -> None:
    """Every pair of noises, with its probability; a tie counts for a half."""
    reach = 45 * scale
    law = {x: float(probability(scale, x)) for x in range(-reach, reach + 1)}
    total = 0.0
    for shift in range(-reach, reach + 1):
        both = math.fsum(law[x] * law.get(x - shift, 0.0) for x in law)
        total += both * (1.0 if shift > max(difference, 0) else 0.5 if shift == max(difference, 0) else 0.0)
    assert chance_of_wrong_order(scale, difference) == pytest.approx(total, rel=1e-9)


def test_chance_of_the_wrong_order_falls_with_the_difference() -> None:
    """From a coin towards nothing."""
    chances = [chance_of_wrong_order(30, difference) for difference in range(0, 500, 7)]
    assert chances == sorted(chances, reverse=True)
    assert chances[0] == 0.5
    assert chances[-1] < 1e-4


@pytest.mark.parametrize("scale", [1, 7, 30])
def test_standard_deviation_is_that_of_the_law(scale: int) -> None:
    """Added up."""
    variance = math.fsum(x * x * float(probability(scale, x)) for x in range(-60 * scale, 60 * scale + 1))
    assert standard_deviation(scale) == pytest.approx(math.sqrt(variance), rel=1e-9)


@pytest.mark.parametrize("share", ["0.1", "12.4", "22", "99.9"])
@pytest.mark.parametrize("scale", [1, 30, 200])
def test_table_has_one_margin_for_all_groups(scale: int, share: str) -> None:
    """The product's, and its parts of counts and groups."""
    table, _, _ = drawn(scale=str(scale), share=share)
    assert [row[0] for row in table.rows] == [1_000, 10_000, 100_000]
    for size, count, give_or_take, relative, points, variation, wrong, worth in table.rows:
        assert isinstance(size, int)
        assert isinstance(count, int)
        assert count == round(size * Fraction(share) / 100)
        assert give_or_take == margin(scale)
        assert relative == (Fraction(100 * margin(scale), count) if count else None)
        assert points == Fraction(100 * margin(scale), size)
        assert isinstance(wrong, Fraction)
        assert (
            0
            <= wrong / 100 - Fraction(chance_of_wrong_order(scale, round(size * Fraction(2, 100))))
            < Fraction(1, 1000)
        )
        if count:
            assert isinstance(variation, float)
            assert variation == pytest.approx(100 * standard_deviation(scale) / count)
            assert worth == ("yes" if variation <= 16.6 else "with caution" if variation <= 33.3 else "no")


@pytest.mark.parametrize("variation", [GOOD, USABLE])
@pytest.mark.parametrize("scale", [1, 30, 200])
def test_smallest_group_is_where_the_guideline_begins_to_hold(scale: int, variation: Fraction) -> None:
    """One person fewer would not do."""
    share, size = Fraction("0.124"), smallest_group(scale, Fraction("0.124"), variation)
    assert standard_deviation(scale) / float(size * share) <= float(variation)
    assert standard_deviation(scale) / float((size - 1) * share) > float(variation)


def test_the_example_says_what_it_means_in_both_languages() -> None:
    """1,240, give or take 90."""
    _, _, words = drawn()
    assert words[0].startswith("“1,240, give or take 90” means: the true count lies between 1,150 and 1,330")
    french = language("fr")(words[0]).replace("\u202f", "\u00a0")
    assert french.startswith(
        "«\u00a01\u00a0240, à 90 près\u00a0» veut dire\u00a0: le compte vrai est entre 1\u00a0150 et 1\u00a0330"
    )


def test_lines_fall_as_groups_grow() -> None:
    """Relative error and the chance of the wrong order."""
    _, plots, _ = drawn()
    for plot in plots:
        values = [y for _, y in plot.lines[0].points]
        assert values == sorted(values, reverse=True)


def drawn(**given: str) -> tuple[Table, list[Lines], list[str]]:
    """Table, plots and sentences."""
    section = FIGURES["margin"].draw(FIGURES["margin"].values(given))
    table = next(block for block in section.blocks if isinstance(block, Table))
    plots = [block for block in section.blocks if isinstance(block, Lines)]
    return table, plots, [block.words for block in section.blocks if isinstance(block, Paragraph)]
