"""Belief by prior: ceilings are the product's, averages those of a walk that is added up by hand."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from broker_common.privacy.belief import posterior
from broker_common.privacy.policy import Policy
from broker_common.privacy.report import make_report
from broker_common.privacy.typical import Answers, evidence_of
from policy_lab.document.model import Table
from policy_lab.figures.figure import FIGURES
from policy_lab.figures.prior import typical_from

GRID = [(answers, scale, prior) for answers in (0, 1, 9, 41) for scale in (1, 30) for prior in ("0.02", "0.5", "0.9")]


def walked(answers: int, scale: int, prior: float) -> tuple[float, float]:
    """The mean belief in either world: every number of answers that point to the truth, with its probability."""
    right = 1 / (1 + math.exp(-1 / scale))
    means = [0.0, 0.0]
    for hits in range(answers + 1):
        chance = math.comb(answers, hits) * right**hits * (1 - right) ** (answers - hits)
        odds = math.exp((2 * hits - answers) / scale)
        for world, factor in enumerate((odds, 1 / odds)):
            means[world] += chance * prior * factor / (prior * factor + 1 - prior)
    return means[0], means[1]


@pytest.mark.parametrize(("answers", "scale", "prior"), GRID)
def test_average_is_that_of_every_walk(answers: int, scale: int, prior: str) -> None:
    """From any prior, if it is true and if it is not."""
    found = typical_from(evidence_of([Answers(answers, scale)]), Fraction(prior))
    assert (found.if_true, found.if_false) == pytest.approx(walked(answers, scale, float(prior)), rel=1e-12)


@pytest.mark.parametrize("answers", [1, 41, 900])
def test_average_from_even_odds_is_the_products_typical_case(answers: int) -> None:
    """Within its bracket, but for the last digits of a float."""
    evidence = evidence_of([Answers(answers, 30)])
    low, high = evidence.expected_belief()
    assert float(low) - 1e-12 <= typical_from(evidence, Fraction(1, 2)).if_true <= float(high) + 1e-12


@pytest.mark.parametrize(("answers", "scale", "prior"), GRID)
def test_both_averages_weigh_up_to_the_prior(answers: int, scale: int, prior: str) -> None:
    """Belief is a martingale, as the explanation says; and truth is never believed less on average."""
    found, before = typical_from(evidence_of([Answers(answers, scale)]), Fraction(prior)), float(Fraction(prior))
    assert before * found.if_true + (1 - before) * found.if_false == pytest.approx(before, rel=1e-12)
    assert found.if_false - 1e-12 <= before <= found.if_true + 1e-12


@pytest.mark.parametrize("scale", [1, 30, 200])
@pytest.mark.parametrize("cap", ["51", "80", "99"])
def test_row_ascends_from_the_lowest_possible_to_the_highest(cap: str, scale: int) -> None:
    """Averages lie between the ceilings of the answers, and those within the limit's, which are exact but for rounding outwards."""
    figure = FIGURES["prior"]
    section = figure.draw(figure.values({"cap": cap, "scale": str(scale), "prior": "37"}))
    table = next(block for block in section.blocks if isinstance(block, Table))
    param = Fraction(int(cap), 100 - int(cap))
    assert Fraction(37) in [row[0] for row in table.rows]
    for row in table.rows:
        before, lowest, low, if_false, if_true, high, highest = (
            Fraction(cell) for cell in row if not isinstance(cell, str | None)
        )
        tiny = Fraction(1, 10**9)
        assert (
            lowest
            <= low
            <= if_false + tiny
            <= before + 2 * tiny
            <= if_true + 3 * tiny
            <= high + 4 * tiny
            <= highest + 5 * tiny
        )
        assert 0 <= highest - 100 * posterior(param, before / 100) < Fraction(1, 1000)
        assert 0 <= 100 * posterior(1 / param, before / 100) - lowest < Fraction(1, 1000)


def test_ceilings_are_those_of_the_belief_report() -> None:
    """The census agency's own page shows the same figures when a budget is spent the paper's way."""
    policy = Policy(
        accounting="strict",
        max_belief="0.8",
        scales=(30,),
        forward_delay_ms=0,
        release_tick_ms=0,
        quote_lifetime_ms=60_000,
        open_quotes=1,
        answer_retention_ms=60_000,
    )
    spent = 41 * 559_241
    report = make_report(policy, common={30: 41}, sampled={}, units=spent, charges=None)
    section = FIGURES["prior"].draw(FIGURES["prior"].values({}))
    table = next(block for block in section.blocks if isinstance(block, Table))
    shown = {row[0]: row for row in table.rows}
    assert {100 * ceiling.prior for ceiling in report.ceilings} == set(shown)
    for ceiling in report.ceilings:
        row = shown[100 * ceiling.prior]
        expected = (ceiling.limit_down, ceiling.now_down, ceiling.now_up, ceiling.limit_up)
        assert (row[1], row[2], row[5], row[6]) == tuple(100 * Fraction(each) for each in expected)
    assert report.typical_limit is not None
    assert shown[Fraction(50)][4] == pytest.approx(100 * float(report.typical_limit.expected_belief), abs=1e-3)
