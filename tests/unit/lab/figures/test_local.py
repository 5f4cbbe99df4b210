"""Flipped languages beside noise on the count, at equal belief."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from broker_common.privacy.accounting import price
from broker_common.privacy.table_laplace import margin
from policy_lab.document.model import Lines, Table
from policy_lab.figures.figure import FIGURES
from policy_lab.figures.local import ways_of
from policy_lab.figures.policy import limit_at

CAPS = (51, 80, 99)
QUESTIONS = (1, 2, 41, 1000)


@pytest.mark.parametrize("questions", QUESTIONS)
@pytest.mark.parametrize("cap", CAPS)
def test_both_ways_spend_one_limit(cap: int, questions: int) -> None:
    """Flipping keeps with the limit's own chance; noise is the least with which the questions fit."""
    limit = limit_at(Fraction(cap, 100))
    ways = ways_of(limit, questions)
    assert ways.once.keep == pytest.approx(cap / 100, rel=1e-12)
    assert ways.once.epsilon <= math.log(cap / (100 - cap)) * (1 + 1e-15)
    assert ways.anew.epsilon * questions == pytest.approx(ways.once.epsilon)
    assert questions * price(ways.scale) <= limit.units
    assert ways.scale == 1 or questions * price(ways.scale - 1) > limit.units
    assert limit.answers(ways.scale) >= questions


@pytest.mark.parametrize("keep_percent", [51, 80, 99])
@pytest.mark.parametrize(("size", "part"), [(1, 0), (7, 3), (9, 9)])
def test_margin_of_flipped_languages_is_that_of_every_flip(keep_percent: int, size: int, part: int) -> None:
    """The variance of the estimate, added up over every number of lies among those who speak it and those who do not."""
    ways = ways_of(limit_at(Fraction(keep_percent, 100)), 1)
    keep = ways.once.keep

    def chance(number: int, of: int) -> float:
        return math.comb(of, number) * (1 - keep) ** number * keep ** (of - number)

    mean = variance = 0.0
    for lost in range(part + 1):
        for won in range(size - part + 1):
            weight = chance(lost, part) * chance(won, size - part)
            estimate = (part - lost + won - size * (1 - keep)) / (2 * keep - 1)
            mean, variance = mean + weight * estimate, variance + weight * (estimate - part) ** 2
    assert mean == pytest.approx(part, abs=1e-9)
    shown = ways.local_margin(ways.once, size, Fraction(part, size))
    assert shown == pytest.approx(1.959963984540054 * math.sqrt(variance), rel=1e-9)


@pytest.mark.parametrize("questions", QUESTIONS)
@pytest.mark.parametrize("cap", CAPS)
def test_flipping_is_more_exact_up_to_the_size_that_is_named(cap: int, questions: int) -> None:
    """One person more, and noise on the count is."""
    ways = ways_of(limit_at(Fraction(cap, 100)), questions)
    for response in (ways.once, ways.anew):
        size = ways.even_size(response)
        assert ways.local_margin(response, size, Fraction(1, 8)) <= ways.central_margin * (1 + 1e-12)
        assert ways.local_margin(response, size + 1, Fraction(1, 8)) > ways.central_margin


@pytest.mark.parametrize("share", ["0.1", "12.4", "99.9"])
def test_table_says_which_is_more_exact(share: str) -> None:
    """The figures in the row decide; margins of flips do not depend on the share."""
    section = FIGURES["local"].draw(FIGURES["local"].values({"share": share}))
    table = next(block for block in section.blocks if isinstance(block, Table))
    plot = next(block for block in section.blocks if isinstance(block, Lines))
    for size, _, central, once, anew, better in table.rows:
        assert isinstance(size, int)
        assert central == margin(30) == 90
        assert isinstance(once, float)
        assert isinstance(anew, float)
        assert once == pytest.approx(1.959963984540054 * math.sqrt(size * 0.16) / 0.6)
        assert once < anew
        assert better == ("flipped once" if once < 90 else "noise on the count")
    level, rising, worst = ([y for _, y in line.points] for line in plot.lines)
    assert set(level) == {90}
    assert rising == sorted(rising)
    assert all(one < two for one, two in zip(rising, worst, strict=True))
