"""Estimates of answers: what is said, when nothing can be told, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import pytest

from researcher_node.estimates.planning import Planned, expected_widths, people_needed, power
from researcher_node.estimates.tables import (
    Counts,
    Design,
    Estimate,
    Group,
    difference,
    rate_ratio,
    ratio,
    share,
    standardised_rate,
    trend,
)


def group(part: int, rest: int, scale: int = 30) -> Group:
    """A table of two cells and the share of its first."""
    return Group(Counts((part, rest), scale), (0,))


def test_a_share_lies_in_both_its_intervals() -> None:
    """The one with sampling is the wider one; the method of each is named."""
    found = share(group(600, 1400))
    assert found.value == pytest.approx(0.3)
    assert found.with_sampling.low < found.noise_only.low < 0.3 < found.noise_only.high < found.with_sampling.high
    assert found.noise_only.told
    assert "exact law of the noise" in found.noise_only.method
    assert "binomial" in found.with_sampling.method


def test_noise_alone_shrinks_with_people_and_sampling_with_their_root() -> None:
    """At a hundred times as many people, noise is a hundredth and sampling a tenth."""
    few, many = share(group(3_000, 7_000)), share(group(300_000, 700_000))
    assert width(many.noise_only) == pytest.approx(width(few.noise_only) / 100, rel=0.01)
    # 2 * 1.96 * sqrt(0.21 / 1,000,000), where noise is next to nothing.
    assert width(many.with_sampling) == pytest.approx(0.0018, rel=0.05)


def width(interval: object) -> float:
    """From low to high."""
    return float(getattr(interval, "high") - getattr(interval, "low"))  # noqa: B009


@pytest.mark.parametrize("counts", [(0, 0), (12, 20), (-30, -40), (40, -40), (-20, 35)])
def test_too_few_people_cannot_be_told(counts: tuple[int, int]) -> None:
    """A total within its noise: the whole range, and no error."""
    found = share(group(*counts))
    assert not found.noise_only.told
    assert (found.noise_only.low, found.noise_only.high) == (0.0, 1.0)


def test_an_impossible_answer_does_not_look_precise() -> None:
    """A count of -112 among 2,000 is noise around few or none: the interval reaches as far as that of 0, and not almost nowhere."""
    found, zero = share(group(-112, 2000)), share(group(0, 2000))
    assert found.value == 0.0
    assert found.noise_only.low == 0.0
    assert found.noise_only.high >= zero.noise_only.high > 0.05


def test_a_share_among_some_cells_leaves_the_others_out() -> None:
    """`whole` picks the cells; the law stays that of the whole table, so its noise is that of a cell among four."""
    table = Counts((600, 1400, 9_000, 500), 30)
    some = share(Group(table, (0,), (0, 1)))
    assert some.value == pytest.approx(0.3)
    assert share(Group(table, (0, 3), (0, 1, 3))).value == pytest.approx(0.44)
    assert width(some.noise_only) > width(share(group(600, 1400)).noise_only)


def test_a_design_effect_widens_sampling_only() -> None:
    """Households drawn whole say less about everybody, and nothing else about those asked; no share depends on a weight."""
    plain, household = (
        share(group(6_000, 14_000)),
        share(Group(Counts((6_000, 14_000), 30, Fraction(1), Design(weight=5, design_effect=4)), (0,))),
    )
    assert household.noise_only == plain.noise_only
    assert width(household.with_sampling) > 1.2 * width(plain.with_sampling)
    assert household.value == plain.value


def test_a_difference_and_a_ratio_agree_on_whether_shares_are_equal() -> None:
    """0 is in the one exactly if 1 is in the other."""
    for part in range(200, 1_000, 40):
        a, b = group(part, 2_000 - part), group(600, 1_400)
        minus, by = difference(a, b).with_sampling, ratio(a, b).with_sampling
        assert (minus.low <= 0 <= minus.high) == (by.low <= 1 <= by.high)


def test_a_ratio_to_a_share_that_may_be_0_has_no_upper_end() -> None:
    """It is told from below, if at all."""
    found = ratio(group(6_000, 4_000), group(30, 9_970))
    assert found.noise_only.told
    assert found.noise_only.low > 1
    assert found.noise_only.high == math.inf


def test_a_total_within_its_noise_leaves_every_comparison_untold() -> None:
    """Nothing is said of a group of which it is not certain that there is anybody."""
    nobody, many = group(10, 20), group(600, 1400)
    for found in (
        difference(nobody, many),
        ratio(many, nobody),
        standardised_rate([many, nobody], [1, 1]),
        trend([nobody, many], [1, 2]),
    ):
        assert not found.noise_only.told
        assert not found.with_sampling.told


def test_a_group_that_no_one_weighs_does_not_matter() -> None:
    """Weight 0, or the middle of three equal steps."""
    nobody, many, more = group(10, 20), group(600, 1400), group(900, 1100)
    assert standardised_rate([many, nobody], [2, 0]).value == pytest.approx(0.3)
    assert trend([many, nobody, more], [1, 2, 3]).value == pytest.approx(0.075)
    assert trend([many, nobody, more], [1, 2, 3]).noise_only.told


def test_a_standardised_rate_is_the_weighted_mean() -> None:
    """Weights are scaled to sum to 1."""
    found = standardised_rate([group(2_000, 8_000), group(5_000, 5_000)], [30, 10])
    assert found.value == pytest.approx(0.275)
    assert found.noise_only.low < 0.275 < found.noise_only.high


def test_a_trend_is_the_slope_over_the_scores() -> None:
    """Change of the share for one unit, e.g. a year of age."""
    groups = [group(1_000, 9_000), group(2_000, 8_000), group(3_000, 7_000)]
    assert trend(groups, [40, 50, 60]).value == pytest.approx(0.01)
    assert trend(groups, [40, 50, 60]).noise_only.low > 0


def test_a_rate_ratio_compares_rates_and_not_shares() -> None:
    """10 % of one kind of people meet the condition and 5 % of all others: twice as often, whatever their shares."""
    found = rate_ratio(Counts((2_000, 10_000), 10), Counts((18_000, 190_000), 10), (0,))
    assert found.value == pytest.approx(2.0)
    assert (
        1.8
        < found.with_sampling.low
        < found.noise_only.low
        < 2
        < found.noise_only.high
        < found.with_sampling.high
        < 2.2
    )


def test_cells_of_a_rate_ratio_can_be_left_out() -> None:
    """`against` names the cells to compare with."""
    inside, outside = Counts((2_000, 10_000, 5), 10), Counts((18_000, 190_000, 70_000), 10)
    assert rate_ratio(inside, outside, (0,), (1,)).value == pytest.approx(2.0)
    assert rate_ratio(inside, outside, (0,)).value == pytest.approx(0.1 * 270_005 / 10_005, rel=0.01)


SAME = Counts((600, 1400), 30)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Counts((), 30),
        lambda: Counts((1, 2), 0),
        lambda: Counts((1, 2), 30, Fraction(0)),
        lambda: Design(weight=0),
        lambda: Design(design_effect=0.5),
        lambda: Group(SAME, ()),
        lambda: Group(SAME, (0, 1)),
        lambda: Group(SAME, (2,)),
        lambda: Group(SAME, (0, 0)),
        lambda: Group(SAME, (0,), (1,)),
        lambda: difference(Group(SAME, (0,)), Group(SAME, (1,))),
        lambda: rate_ratio(SAME, SAME, (0,)),
        lambda: rate_ratio(SAME, Counts((600, 1400), 30, Fraction(1, 2)), (0,)),
        lambda: rate_ratio(SAME, Counts((600, 1400, 5), 30), (0,)),
        lambda: standardised_rate([Group(SAME, (0,))], [-1]),
        lambda: standardised_rate([Group(SAME, (0,))], [0]),
        lambda: standardised_rate([Group(SAME, (0,))], [1, 2]),
        lambda: trend([Group(SAME, (0,)), group(1, 2)], [1, 1]),
        lambda: trend([Group(SAME, (0,)), group(1, 2)], [1, 2, 3]),
        lambda: Planned(-1, 0.5, 30),
        lambda: Planned(10, 1.5, 30),
        lambda: Planned(10, 0.5, 30, cells=1),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: Callable[[], Estimate]) -> None:
    """Before anything is computed."""
    with pytest.raises(ValueError):  # noqa: PT011 - one sentence each
        wrong()


def test_widths_are_those_of_an_answer_without_noise() -> None:
    """Planning uses the method itself; a group that is too small is said to be."""
    found, widths = share(group(600, 1400)), expected_widths(Planned(2_000, 0.3, 30))
    assert widths.noise_only == pytest.approx(width(found.noise_only))
    assert widths.with_sampling == pytest.approx(width(found.with_sampling))
    assert expected_widths(Planned(40, 0.3, 30)).noise_only is None


def test_power_grows_with_people_and_with_the_difference() -> None:
    """From nothing to certainty."""
    against = Planned(10_000, 0.3, 30)
    powers = [power(Planned(people, 0.15, 30), against) for people in (50, 500, 1_000, 5_000)]
    assert powers == sorted(powers)
    assert powers[0] < 0.05
    assert powers[-1] > 0.99
    assert power(Planned(1_000, 0.29, 30), against) < 0.1


def test_the_people_needed_have_the_power_wanted() -> None:
    """About: two significant digits. Against a group that is itself too small no number would do."""
    half, against = Planned(300, 0.15, 30), Planned(10_000, 0.3, 30)
    needed = people_needed(half, against)
    assert needed is not None
    assert power(Planned(needed, 0.15, 30), against) >= 0.8 > power(Planned(0.85 * needed, 0.15, 30), against)
    assert people_needed(half, Planned(50, 0.3, 30)) is None
