"""Figure 7 of the paper: each number is the product's, and that of a slow computation by hand."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from broker_common.privacy.accounting import UNITS_PER_NAT, answers_left, cap_units, fits, param_of, price
from broker_common.privacy.belief import belief_of_units
from broker_common.privacy.discrete_laplace import probability
from broker_common.privacy.table_laplace import margin
from policy_lab.document.model import Caution, Lines, Paragraph, Table
from policy_lab.figures import tradeoff
from policy_lab.figures.figure import FIGURES
from policy_lab.figures.policy import at_least, at_most, highest_after, limit_at, lowest_after

CAPS = (51, 60, 80, 90, 99)
SCALES = (1, 7, 30, 50, 200)


def drawn(**given: object) -> tuple[Table, list[Lines], list[str]]:
    """Table, plots and sentences for these settings."""
    figure = FIGURES["tradeoff"]
    section = figure.draw(figure.values({key: str(value) for key, value in given.items()}))
    table = next(block for block in section.blocks if isinstance(block, Table))
    plots = [block for block in section.blocks if isinstance(block, Lines)]
    return table, plots, [block.words for block in section.blocks if isinstance(block, Paragraph | Caution)]


@pytest.mark.parametrize("prior", [2, 50, 95])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("cap", CAPS)
def test_table_is_the_products_own_accounting(cap: int, scale: int, prior: int) -> None:
    """Price, margin, answers, and both beliefs, over a grid of settings."""
    table, _, _ = drawn(cap=cap, scale=scale, prior=prior, answers=77)
    units, before = cap_units(param_of(Fraction(cap, 100))), Fraction(prior, 100)
    assert scale in [row[0] for row in table.rows]
    for of, give_or_take, units_each, answers, then, without in table.rows:
        assert isinstance(of, int)
        assert isinstance(answers, int)
        assert (give_or_take, units_each, answers) == (margin(of), price(of), answers_left(units, 0, of))
        assert then == 100 * Fraction(belief_of_units(answers * price(of), before))
        assert without == 100 * Fraction(belief_of_units(77 * price(of), before))


@pytest.mark.parametrize("scale", [1, 7, 30, 200])
@pytest.mark.parametrize("cap", CAPS)
def test_answers_are_those_that_fit_one_after_the_other(cap: int, scale: int) -> None:
    """Charged one by one until no more fits; and in real numbers no more than ln(param) times the scale."""
    units, charged, answers = cap_units(param_of(Fraction(cap, 100))), 0, 0
    while fits(units, charged, scale):
        charged, answers = charged + math.ceil(UNITS_PER_NAT / scale), answers + 1
    assert limit_at(Fraction(cap, 100)).answers(scale) == answers
    assert answers <= scale * math.log(cap / (100 - cap))


@pytest.mark.parametrize("prior", [0.02, 0.5, 0.95])
@pytest.mark.parametrize("answers", [0, 1, 41, 300])
def test_belief_is_bayes_by_hand_rounded_outwards(answers: int, prior: float) -> None:
    """The odds times e**(answers/scale), never understated, and by no more than a step of five digits."""
    before, odds = Fraction(str(prior)), prior / (1 - prior)
    up, low = (odds * math.exp(sign * answers / 30) for sign in (1, -1))
    assert 0 <= float(highest_after(answers, 30, before)) - up / (1 + up) < 1.1e-5
    assert 0 <= low / (1 + low) - float(lowest_after(answers, 30, before)) < 1.1e-5 or answers == 0
    assert answers or highest_after(0, 30, before) == lowest_after(0, 30, before) == before


def test_the_papers_example_is_41_answers() -> None:
    """And not about 50, as read off a graph; the sentences say so."""
    _, _, words = drawn()
    assert "within 90 of the truth" in words[0]
    assert "pays for 41 answers" in words[0]
    assert "between 20.3% and 79.7%" in words[1]
    _, _, words = drawn(answers=50)
    assert "41 answers" in words[1]
    assert "could make 84.2% of 50%" in words[2]


def test_what_is_not_certain_is_not_shown_as_certain() -> None:
    """Where a decimal would say 100% or 0%, more of them are shown, or words."""
    _, _, words = drawn(cap=99, scale=1, answers=500)
    assert words[2].endswith("Without a limit they could make almost 100% of 50%.")
    _, _, words = drawn(cap=99, scale=1, answers=4, prior=99)
    assert words[1].endswith("between 64.4% and 99.982%: never outside.")
    assert [at_most(Fraction(text)) for text in ("0.7968", "0.99901", "0.999999")] == [
        "79.7%",
        "99.901%",
        "almost 100%",
    ]
    assert [at_least(Fraction(text)) for text in ("0.2036", "0.00099", "0.000001")] == ["20.3%", "0.099%", "almost 0%"]


def test_lines_stand_in_the_order_of_their_numbers() -> None:
    """In the legend, too; what is chosen is drawn through."""
    _, (by_answers, by_scale), _ = drawn(cap=80, scale=30)
    assert [line.label for line in by_answers.lines] == ["scale 10", "scale 30", "scale 50"]
    assert [line.label for line in by_scale.lines[:-1]] == [f"limit {cap}%" for cap in (60, 70, 80, 90)]
    assert [line.label for line in (*by_answers.lines, *by_scale.lines) if line.kind == "line"] == [
        "scale 30",
        "limit 80%",
    ]


@pytest.mark.parametrize("prior", [1, 50, 99])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("cap", CAPS)
def test_no_answers_that_the_limit_pays_for_pass_it(cap: int, scale: int, prior: int) -> None:
    """The line of the chosen scale stays at or below the limit for as long as the service answers, and the next answer passes it."""
    _, (by_answers, _), _ = drawn(cap=cap, scale=scale, prior=prior, answers=500)
    limit = limit_at(Fraction(cap, 100))
    allowed, (_, level) = limit.answers(scale), by_answers.limits[0]
    chosen = next(line.points for line in by_answers.lines if line.kind == "line")
    assert all(belief <= level for answers, belief in chosen if answers <= allowed)
    assert highest_after(allowed + 1, scale, Fraction(prior, 100)) >= limit.highest(Fraction(prior, 100))
    assert limit.highest() == Fraction(cap, 100)


def test_lines_rise_with_answers_and_fall_with_noise() -> None:
    """More answers say more; more noise says less; a higher limit pays for more."""
    _, (by_answers, by_scale), _ = drawn()
    for line in by_answers.lines:
        assert [y for _, y in line.points] == sorted(y for _, y in line.points)
    at_last = {line.label: line.points[-1][1] for line in by_answers.lines}
    assert at_last["scale 10"] > at_last["scale 30"] > at_last["scale 50"]
    *limits, dot = by_scale.lines
    for line in limits:
        assert [y for _, y in line.points] == sorted(y for _, y in line.points)
    at_end = {line.label: line.points[-1][1] for line in limits}
    assert at_end["limit 90%"] > at_end["limit 80%"] > at_end["limit 70%"] > at_end["limit 60%"]
    assert list(dot.points) == [(30, 41)]


@pytest.mark.parametrize("scale", [1, 5, 30])
def test_margin_is_the_least_that_holds_19_times_out_of_20(scale: int) -> None:
    """Added up from the law itself."""
    found = margin(scale)
    inside = sum(probability(scale, x) for x in range(-found, found + 1))
    assert inside >= Fraction(19, 20) > inside - 2 * probability(scale, found)


def test_settings_are_those_of_the_paper() -> None:
    """Limit, scale, answers, and what was believed before."""
    assert [each.key for each in tradeoff.SETTINGS] == ["cap", "scale", "answers", "prior"]
