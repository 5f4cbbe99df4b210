"""Beliefs are exact as fractions, never understated as published figures, and consistent with the mechanism."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_common.privacy.accounting import UNITS_PER_NAT, answers_left, cap_units, price
from broker_common.privacy.belief import (
    belief_after,
    belief_from_log_odds,
    belief_of_units,
    log_likelihood_ratio,
    posterior,
)
from broker_common.privacy.discrete_laplace import probability

ExpSeries = Callable[[Fraction], tuple[Fraction, Fraction]]

HALF = Fraction(1, 2)
LAW_ACCURACY = 1e-12
"""Relative; above the error of a handful of double operations, below any error in a formula."""

priors = st.fractions(min_value=0, max_value=1, max_denominator=1000)


@pytest.mark.parametrize(
    ("prior", "expected"),
    [("0.02", "0.0755"), ("0.05", "0.1739"), ("0.5", "0.8000"), ("0.9", "0.9730"), ("0.95", "0.9870")],
)
def test_a_limit_of_80_percent_is_about_a_prior_of_one_half(prior: str, expected: str) -> None:
    """The odds move by at most 4 from every prior, which is 80 % from one half and something else from others."""
    assert f"{float(posterior(Fraction(4), Fraction(prior))):.4f}" == expected


@given(param=st.fractions(min_value=Fraction(1, 10**6), max_value=10**6), prior=priors)
def test_the_odds_move_by_exactly_param(param: Fraction, prior: Fraction) -> None:
    """Posterior odds are param times prior odds, and moving back restores the prior."""
    after = posterior(param, prior)
    assert after * (1 - prior) == param * prior * (1 - after)
    assert posterior(1 / param, after) == prior


@pytest.mark.parametrize(("param", "prior"), [(0, HALF), (-1, HALF), (4, Fraction(-1, 9)), (4, Fraction(10, 9))])
def test_a_posterior_of_nonsense_is_refused(param: int, prior: Fraction) -> None:
    """Odds do not turn negative and a prior is a probability."""
    with pytest.raises(ValueError, match="between 0 and 1"):
        posterior(Fraction(param), prior)


@pytest.mark.parametrize(("answers", "expected"), [(0, "0.50000"), (41, "0.79684"), (42, "0.80218"), (50, "0.84113")])
def test_published_figures_at_scale_30_are_reproduced(answers: int, expected: str) -> None:
    """41 answers stay below 80 %, the 42nd would not, and about 50 would mean 84.1 %."""
    assert str(belief_after(answers, 30)) == expected


def test_the_41_answers_are_those_the_budget_pays_for() -> None:
    """Belief and accounting agree on where the limit is."""
    answers = answers_left(cap_units(Fraction(4)), 0, 30)
    assert belief_after(answers, 30) < Decimal("0.8") < belief_after(answers + 1, 30)


def test_a_belief_is_given_to_the_places_asked_for() -> None:
    """More places show more of the same number."""
    assert str(belief_after(41, 30, places=12)) == "0.796841069544"
    assert str(belief_of_units(41 * price(30), places=12)) == "0.796841254164"


@given(units=st.integers(0, 127 * UNITS_PER_NAT), prior=priors)
def test_a_published_belief_never_understates(exp_series: ExpSeries, units: int, prior: Fraction) -> None:
    """The figure is the exact belief rounded up at the fifth place: not below it, and less than one place above."""
    low, high = exp_series(Fraction(units, UNITS_PER_NAT))
    published = Fraction(belief_of_units(units, prior))
    assert published >= posterior(low, prior)
    assert published - Fraction(1, 10**5) < posterior(high, prior)


def test_a_belief_on_the_wrong_side_of_its_last_digit_is_still_rounded_up() -> None:
    """0.7968410... is published as 0.79685 where understating matters, although 0.79684 is nearer."""
    assert str(belief_of_units(41 * price(30))) == "0.79685"


@pytest.mark.parametrize(("prior", "expected"), [(0, "0.00000"), (1, "1.00000")])
def test_certainty_is_moved_by_nothing(prior: int, expected: str) -> None:
    """A certain observer stays certain, and the bracket still closes."""
    assert str(belief_after(41, 30, prior=Fraction(prior))) == expected
    assert str(belief_of_units(10**8, prior=Fraction(prior))) == expected


@pytest.mark.parametrize(
    "nonsense", [lambda: belief_after(-1, 30), lambda: belief_after(1, 0), lambda: belief_of_units(-1)]
)
def test_negative_answers_scales_and_charges_are_refused(nonsense: Callable[[], Decimal]) -> None:
    """A damaged ledger is not turned into a reassuring figure."""
    with pytest.raises(ValueError, match=r"at least|never negative"):
        nonsense()


@given(
    scale=st.integers(1, 100), observed=st.integers(-500, 500), count=st.integers(0, 300), without=st.integers(0, 300)
)
def test_log_odds_of_an_answer_are_those_of_the_mechanism(scale: int, observed: int, count: int, without: int) -> None:
    """The formula is the logarithm of the ratio of the two exact probabilities, and bounded by the difference/scale."""
    ratio = log_likelihood_ratio(scale, observed, count, without)
    if_in, if_out = probability(scale, observed - count), probability(scale, observed - without)
    assert math.isclose(if_in.ln() - if_out.ln(), ratio, rel_tol=LAW_ACCURACY, abs_tol=LAW_ACCURACY)
    assert abs(ratio) <= Fraction(abs(count - without), scale)


@given(
    answers=st.lists(
        st.tuples(st.integers(1, 50), st.integers(-200, 200), st.integers(0, 100), st.sampled_from([-1, 0, 1])),
        max_size=80,
    )
)
def test_no_attack_passes_the_belief_that_was_paid_for(answers: list[tuple[int, int, int, int]]) -> None:
    """Whatever was asked and answered about one person, the attacker's belief stays within the published limit."""
    gained = sum((log_likelihood_ratio(b, seen, out + x, out) for b, seen, out, x in answers), start=Fraction(0))
    limit = belief_of_units(sum(price(scale) for scale, _, _, _ in answers), places=9)
    assert 1 - float(limit) - LAW_ACCURACY <= belief_from_log_odds(gained) <= float(limit) + LAW_ACCURACY


@given(log_odds=st.fractions(min_value=-30, max_value=30, max_denominator=1000), prior=priors)
def test_the_displayed_belief_follows_the_exact_one(log_odds: Fraction, prior: Fraction) -> None:
    """The float for plots agrees with the exact posterior of the same odds."""
    expected = posterior(Fraction(math.exp(log_odds)), prior)
    assert math.isclose(belief_from_log_odds(log_odds, prior), expected, rel_tol=LAW_ACCURACY, abs_tol=LAW_ACCURACY)


@pytest.mark.parametrize(
    ("log_odds", "prior", "expected"),
    [(10**6, HALF, 1.0), (-(10**6), HALF, 0.0), (-5, Fraction(1), 1.0), (5, Fraction(0), 0.0), (0, HALF, 0.5)],
)
def test_overwhelming_evidence_is_shown_as_certainty(log_odds: int, prior: Fraction, expected: float) -> None:
    """A plot of an unprotected attack runs into 0 or 1 without an overflow."""
    assert belief_from_log_odds(Fraction(log_odds), prior) == expected


@pytest.mark.parametrize("prior", [Fraction(-1, 10), Fraction(11, 10)])
def test_a_displayed_belief_needs_a_prior_that_is_a_probability(prior: Fraction) -> None:
    """The display refuses what the exact form refuses."""
    with pytest.raises(ValueError, match="between 0 and 1"):
        belief_from_log_odds(Fraction(1), prior)
