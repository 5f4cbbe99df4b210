"""The listing's law: what is drawn follows what is printed, and 0.575 percent is the arithmetic that is said."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from policy_lab.sensitivity import listing
from policy_lab.sensitivity.listing import estimates, law, refused, too_small

COUNT = 400_000
ERROR_RATE = 1e-9
# Dvoretzky, Kiefer, Wolfowitz, with Massart's constant: no sample is further from its law, but in so few cases.
TOLERANCE = math.sqrt(math.log(2 / ERROR_RATE) / (2 * COUNT))

# Real and generated: below, a little below, above, far above, equal, nothing generated, negative ones.
CASES = [
    (100.0, 60.0),
    (100.0, 99.0),
    (100.0, 104.0),
    (100.0, 400.0),
    (100.0, 100.0),
    (100.0, 0.0),
    (100.0, -20.0),
    (-10.0, 5.0),
    (1e-4, 9e-5),
]


@pytest.mark.parametrize(("real", "generated"), CASES)
def test_estimates_follow_the_law(real: float, generated: float) -> None:
    """The share of estimates up to any place is the exact one, within the tolerance for an error rate of 1e-9."""
    drawn = np.sort(estimates(real, generated, COUNT, np.random.default_rng(11)))
    places = np.unique(drawn[:: COUNT // 500])
    shares = np.searchsorted(drawn, places, "right") / COUNT
    exact = np.array([law(real, generated, float(place)) for place in places])
    assert float(np.max(np.abs(shares - exact))) <= TOLERANCE


@pytest.mark.parametrize(("real", "generated"), CASES)
def test_too_small_and_refused_are_those_of_the_law(real: float, generated: float) -> None:
    """Both are counted among estimates; each is a difference of two shares."""
    drawn = estimates(real, generated, COUNT, np.random.default_rng(12))
    assert abs(float(np.mean(drawn <= 0)) - refused(real, generated)) <= TOLERANCE
    counted = float(np.mean((drawn > 0) & (drawn < real)))
    assert abs(counted - too_small(real, generated)) <= 2 * TOLERANCE


def test_the_real_sensitivity_is_taken_three_times_out_of_four() -> None:
    """Where nothing is generated, nothing is added, and it can be seen."""
    drawn = estimates(7.0, 0.0, COUNT, np.random.default_rng(13))
    assert abs(float(np.mean(drawn == 7.0)) - 0.75) <= TOLERANCE


def test_what_is_added_lies_between_0_015_and_0_06_of_the_generated_sensitivity() -> None:
    """Where both sensitivities are 100 nothing else is left, and both ends are nearly reached."""
    drawn = estimates(100.0, 100.0, COUNT, np.random.default_rng(14))
    assert 101.5 <= drawn.min() < 101.501
    assert 105.999 < drawn.max() <= 106


def test_where_0_575_percent_comes_from() -> None:
    """A quarter of the rounded share of normal numbers below -2; exactly it is 0.568753 percent."""
    assert Fraction(575, 100_000) == listing.ARGUED == Fraction(1, 4) * Fraction(23, 1000)
    assert math.erfc(2 / math.sqrt(2)) / 2 == pytest.approx(listing.TAIL, rel=1e-12)
    assert round(listing.TAIL, 8) == 0.02275013
    assert round(listing.ARGUED_EXACTLY, 8) == 0.00568753
    assert round(listing.WORST, 8) == 0.24431247


def test_the_argument_is_the_law_where_next_to_nothing_is_added() -> None:
    """With a generated sensitivity far below the real one, too small an estimate is as rare as the argument's exact figure."""
    # Below -3 the estimate is negative and refused, and no answer has too little noise.
    beyond = math.erfc(3 / math.sqrt(2)) / 2 / 4
    assert refused(1.0, 1e-9) == pytest.approx(beyond, abs=1e-9)
    assert too_small(1.0, 1e-9) == pytest.approx(listing.ARGUED_EXACTLY - beyond, abs=1e-9)


def test_the_argument_fails_where_the_generated_sensitivity_is_above_the_real_one() -> None:
    """The difference is negative there: an estimate below the real one, or refused, is the rule and not the exception."""
    below = too_small(1.0, 3.0) + refused(1.0, 3.0)
    assert below > 40 * float(listing.ARGUED)
    assert below <= listing.WORST


def test_the_page_quotes_the_arithmetic() -> None:
    """docs/lab/sensitivity.md says the same figures."""
    page = (Path(__file__).parents[4] / "docs" / "lab" / "sensitivity.md").read_text("utf-8")
    for share in (float(listing.ARGUED), listing.ARGUED_EXACTLY, listing.TAIL, listing.WORST):
        assert f"{round(100 * share, 6):g}" in page or f"{100 * share:.6f}" in page
