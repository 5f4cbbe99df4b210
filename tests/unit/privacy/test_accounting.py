"""The budget is rounded down, prices are rounded up, and nothing that fits in units exceeds the limit in nats."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_common.errors import InvalidRequestError
from broker_common.privacy.accounting import (
    MAX_BELIEF_CHARS,
    MAX_CAP_NATS,
    UNITS_PER_NAT,
    answers_left,
    any_fits,
    cap_units,
    default_scales,
    epsilon_text,
    fits,
    param_of,
    parse_max_belief,
    price,
)
from broker_common.values import MOST_CELLS

ExpSeries = Callable[[Fraction], tuple[Fraction, Fraction]]

CAP_AT_80_PERCENT = 23_258_159
PRICE_AT_30 = 559_241
U32_VALUES = 1 << 32

params = st.fractions(min_value=1, max_value=10**30, max_denominator=10**30).filter(lambda param: param > 1)
scales = st.integers(1, 10**9)


@pytest.mark.parametrize(
    ("text", "value"),
    [("0.8", Fraction(4, 5)), ("0.80", Fraction(4, 5)), ("0.51", Fraction(51, 100)), ("0.999", Fraction(999, 1000))],
)
def test_a_belief_limit_is_read_exactly(text: str, value: Fraction) -> None:
    """0.8 means four fifths, not the nearest binary fraction."""
    assert parse_max_belief(text) == value


def test_the_longest_text_is_still_read_exactly() -> None:
    """Every digit counts, up to the limit on length."""
    text = "0.5".ljust(MAX_BELIEF_CHARS - 1, "0") + "1"
    assert parse_max_belief(text) == Fraction(1, 2) + Fraction(1, 10 ** (MAX_BELIEF_CHARS - 2))


@pytest.mark.parametrize(
    "text",
    [
        *("", "0", "1", "0.5", "0.50", "1.0", "1.5", "0.4999", "0.0", "00.8", ".8", "0.", "0,8", "4/5", "80%"),
        *("+0.8", "-0.8", " 0.8", "0.8 ", "0.8\n", "8e-1", "0.8e0", "0.8_1", "nan", "inf", "0x0.8", "0.8.1"),
        *("\u0660.\u0668", "0.\u0668", "0.8\x00", "0.9".ljust(MAX_BELIEF_CHARS + 1, "9")),
    ],
)
def test_anything_but_a_plain_decimal_between_one_half_and_one_is_refused(text: str) -> None:
    """Other spellings, other digits, other ranges and longer texts are refused with the reason and the remedy."""
    with pytest.raises(InvalidRequestError) as refusal:
        parse_max_belief(text)
    assert refusal.value.code == "INVALID_VALUE"
    assert "max_belief must be a decimal above 0.5 and below 1" in refusal.value.text
    assert '"0.8"' in refusal.value.hint


def test_a_limit_of_80_percent_lets_the_odds_move_by_four() -> None:
    """The paper's example: param = 0.8 / 0.2."""
    assert param_of(Fraction(4, 5)) == 4


@pytest.mark.parametrize("max_belief", [Fraction(1, 2), Fraction(1), Fraction(2), Fraction(0)])
def test_odds_of_an_impossible_limit_are_refused(max_belief: Fraction) -> None:
    """A limit that allows nothing or everything never becomes a param."""
    with pytest.raises(ValueError, match="strictly between"):
        param_of(max_belief)


@given(param=params)
def test_the_budget_is_the_exact_floor_of_the_logarithm(exp_series: ExpSeries, param: Fraction) -> None:
    """e**(budget) is at most param and one unit more would be too much, by a witness that knows no logarithm."""
    cap = cap_units(param)
    assert exp_series(Fraction(cap, UNITS_PER_NAT))[0] <= param < exp_series(Fraction(cap + 1, UNITS_PER_NAT))[1]


@pytest.mark.parametrize("units", [1, 7, 1 << 24, CAP_AT_80_PERCENT, 126 << 24])
def test_a_param_a_hair_from_a_unit_boundary_is_rounded_rightly(exp_series: ExpSeries, units: int) -> None:
    """Just below e**(units) the budget is one unit less: the precision rises until that is certain."""
    just_below, just_above = exp_series(Fraction(units, UNITS_PER_NAT))
    assert cap_units(just_below) == units - 1
    assert cap_units(just_above) == units


def test_the_budget_at_80_percent_is_pinned() -> None:
    """floor(2**24 * ln 4), the figure that every log and every auditor repeats."""
    assert cap_units(Fraction(4)) == CAP_AT_80_PERCENT


def test_budgets_that_could_wrap_a_ledger_are_refused(exp_series: ExpSeries) -> None:
    """From 127 nat on a policy is refused; just below, even one answer too many stays far from 2**32."""
    just_below, just_above = exp_series(Fraction(MAX_CAP_NATS))
    largest = cap_units(just_below)
    assert largest == MAX_CAP_NATS * UNITS_PER_NAT - 1
    assert largest + price(1) < U32_VALUES // 2
    with pytest.raises(InvalidRequestError) as refusal:
        cap_units(just_above)
    assert refusal.value.code == "INVALID_VALUE"
    assert "127 nat" in refusal.value.text


def test_the_closest_text_to_one_half_leaves_no_budget() -> None:
    """A limit of one half plus almost nothing is a valid policy that pays for no answer."""
    text = "0.5".ljust(MAX_BELIEF_CHARS - 1, "0") + "1"
    cap = cap_units(param_of(parse_max_belief(text)))
    assert cap == 0
    assert default_scales(cap) == ()


@pytest.mark.parametrize("param", [Fraction(1), Fraction(1, 2), Fraction(0), Fraction(-4)])
def test_a_param_that_moves_nothing_has_no_budget(param: Fraction) -> None:
    """A param of at most 1 is a bug, not a policy."""
    with pytest.raises(ValueError, match="above 1"):
        cap_units(param)


@given(scale=scales)
def test_a_price_is_the_exact_ceiling(scale: int) -> None:
    """A price covers 1/scale nat, and one unit less would not."""
    units = price(scale)
    assert (units - 1) * scale < UNITS_PER_NAT <= units * scale


@given(scale=scales, cells=st.integers(1, MOST_CELLS))
def test_a_table_costs_what_one_count_costs(scale: int, cells: int) -> None:
    """Whatever the number of its cells: the noise of an answer is made for all of them at once."""
    assert price(scale, cells=cells) == price(scale)


@pytest.mark.parametrize("cells", [-1, 0, MOST_CELLS + 1])
def test_an_answer_that_cannot_be_has_no_price(cells: int) -> None:
    """No ticket for it is good, so nobody is to believe that it was paid for."""
    with pytest.raises(ValueError, match="1 to 16 cells"):
        price(30, cells=cells)


def test_the_price_at_scale_30_is_pinned() -> None:
    """The figure behind the 41 answers."""
    assert price(30) == PRICE_AT_30


@pytest.mark.parametrize("scale", [0, -1])
def test_a_scale_below_one_has_no_price(scale: int) -> None:
    """A negative price would be a refund, and nothing ever lowers a charge."""
    with pytest.raises(ValueError, match="at least 1"):
        price(scale)


def test_80_percent_pays_for_41_answers_at_scale_30() -> None:
    """floor(30 ln 4) = 41: the 42nd is refused, and the about 50 read off the paper's graph would be too many."""
    cap = cap_units(Fraction(4))
    assert answers_left(cap, 0, 30) == 41
    assert fits(cap, 40 * PRICE_AT_30, 30)
    assert not fits(cap, 41 * PRICE_AT_30, 30)


@given(cap=st.integers(0, 1 << 31), charged=st.integers(0, 1 << 31), scale=scales)
def test_answers_left_is_how_often_one_more_fits(cap: int, charged: int, scale: int) -> None:
    """After exactly that many answers at this scale nothing more at this scale fits, however much was charged."""
    left = answers_left(cap, charged, scale)
    after = charged + left * price(scale)
    assert left == 0 or fits(cap, after - price(scale), scale)
    assert not fits(cap, after, scale)


def test_a_budget_is_spent_to_the_last_unit_but_not_beyond() -> None:
    """A price equal to what is left fits; one unit less does not."""
    assert fits(PRICE_AT_30, 0, 30)
    assert not fits(PRICE_AT_30, 1, 30)


@pytest.mark.parametrize("question", [fits, answers_left])
def test_a_negative_charge_is_refused(question: Callable[[int, int, int], int]) -> None:
    """A ledger that claims to owe people budget is damaged."""
    with pytest.raises(ValueError, match="never negative"):
        question(CAP_AT_80_PERCENT, -1, 30)


@given(param=params.filter(lambda param: param < 100), asked=st.lists(st.integers(1, 50), max_size=60))
def test_no_order_of_questions_overspends_the_limit(exp_series: ExpSeries, param: Fraction, asked: list[int]) -> None:
    """Whatever scales are asked for, the answers given move the odds by at most param, in real nats."""
    cap, charged, given_nats = cap_units(param), 0, Fraction(0)
    for scale in asked:
        if fits(cap, charged, scale):
            charged += price(scale)
            given_nats += Fraction(1, scale)
    assert charged <= cap
    assert given_nats * UNITS_PER_NAT <= charged
    assert exp_series(given_nats)[0] <= param


@given(cap=st.integers(0, 1 << 26), charged=st.integers(0, 1 << 26), admissible=st.sets(st.integers(1, 50)))
def test_the_service_goes_on_exactly_while_the_cheapest_answer_fits(
    cap: int, charged: int, admissible: set[int]
) -> None:
    """Shutdown is decided by the largest admissible scale, and by the total charged alone."""
    expected = bool(admissible) and fits(cap, charged, max(admissible))
    assert any_fits(cap, charged, admissible) is expected


@pytest.mark.parametrize(
    ("max_belief", "expected"),
    [("0.8", tuple(range(1, 51))), ("0.6", tuple(range(3, 51))), ("0.506", tuple(range(42, 51))), ("0.501", ())],
)
def test_default_scales_are_those_the_whole_budget_pays_for(max_belief: str, expected: tuple[int, ...]) -> None:
    """A policy without a list admits 1..50 as far as one answer fits, and none when even scale 50 is too dear."""
    assert default_scales(cap_units(param_of(parse_max_belief(max_belief)))) == expected


@pytest.mark.parametrize(("scale", "text"), [(30, "1/30"), (1, "1"), (1000, "1/1000")])
def test_epsilon_is_written_as_an_exact_fraction(scale: int, text: str) -> None:
    """No decimal stands for 1/30."""
    assert epsilon_text(scale) == text


def test_the_floor_of_30_ln_4_is_41_in_real_numbers(exp_series: ExpSeries) -> None:
    """Rounding in units costs no answer here: 41/30 nat keep below 4, 42/30 nat do not."""
    assert exp_series(Fraction(41, 30))[1] < 4 < exp_series(Fraction(42, 30))[0]
    assert math.floor(30 * math.log(4)) == 41
