"""Figures of a plan, reckoned by hand."""

from __future__ import annotations

import pytest
from fakes.dictionaries import CENSUS_DICTIONARY, HEALTH_DICTIONARY
from fakes.world import make_policy

from broker_common.privacy.accounting import price
from broker_common.privacy.table_laplace import margin
from broker_common.query.question import parse_question
from researcher_node.study.design import Study, design
from researcher_node.study.file import parse_study_file
from researcher_node.study.plan import Plan, expected_in, make_plan, seconds_for
from researcher_node.study.plan_texts import plan_json, plan_text

PERSONS = make_policy(accounting="per_person", tick_ms=250, delay_ms=100)
STRICT = make_policy(tick_ms=250, delay_ms=100)
# Six disjoint groups of age and sex by two procedures, of which one person may have had both.
TEXT = """\
where: age >= 40
by:
  age: [40, 60, 80]
  sex: all
  procedure: [angioplasty, dialysis]
count: mother_tongue = 'French'
of: all
"""

# The margin of a cell of two at scale 30.
TWO_CELLS = 114


def made(text: str) -> Study:
    """The study of a file."""
    return design(parse_study_file(text, "s.yaml"), HEALTH_DICTIONARY, CENSUS_DICTIONARY, "usual")


def planned(text: str, *, answered: int = 0, scale: int = 30) -> Plan:
    """Its plan under per-person accounting."""
    return make_plan(made(text), scale, PERSONS, HEALTH_DICTIONARY, answered=answered)


def test_cost_for_the_most_charged_person() -> None:
    """Ages and sexes are disjoint, procedures are not: two of the twelve answers may be about one person."""
    plan = planned(TEXT, answered=3)
    assert (plan.cost.answers, plan.cost.new_answers, plan.cost.answers_a_person) == (12, 9, 2)
    # ln 4 holds 41 answers at scale 30, and twenty pairs of them.
    assert plan.cost.units == 2 * price(30) == 2 * 559_241
    assert plan.cost.studies_a_person == 20
    assert plan.cost.share == pytest.approx(2 / (30 * 1.3862943611), rel=1e-6)


def test_cost_under_strict_accounting() -> None:
    """Every answer is charged to everybody."""
    plan = make_plan(made(TEXT), 30, STRICT, HEALTH_DICTIONARY, answered=0)
    assert plan.cost.answers_a_person == 12
    assert plan.cost.studies_a_person == 3


def test_a_rate_ratio_asks_everybody_once() -> None:
    """People with the event and people without it are disjoint."""
    text = TEXT.replace("  procedure: [angioplasty, dialysis]\n", "")
    plan = planned(text + "estimate:\n  - rate_ratio: French\n    event: procedure = 'angioplasty'\n")
    assert (plan.cost.answers, plan.cost.answers_a_person) == (12, 1)


def test_time_follows_places_ticks_and_quotes() -> None:
    """Sixteen at a time, each a delay and five ticks; beyond two hundred quotes one a second."""
    assert seconds_for(0, PERSONS) == 0
    assert seconds_for(1, PERSONS) == seconds_for(16, PERSONS) == pytest.approx(1.35)
    assert seconds_for(17, PERSONS) == pytest.approx(2.7)
    assert seconds_for(230, PERSONS) == 30


def test_what_is_expected_of_a_group() -> None:
    """The last exception that fits holds; shares of several cells add up."""
    study = made(
        TEXT
        + "expect:\n  people: 900\n  share: {French: 0.05, rest: 0.9}\n  groups:\n"
        + "    - {age: 80+, people: 200}\n    - {age: 80+, sex: male, share: 0.02}\n"
    )
    assert study.question == parse_question("mother_tongue by 'French', rest", CENSUS_DICTIONARY)
    assert expected_in(study, (0,), ("40-59", "male", "dialysis")) == (900, 0.05)
    assert expected_in(study, (0, 1), ("40-59", "male", "dialysis")) == (900, 0.95)
    assert expected_in(study, (0,), ("80+", "female", "dialysis")) == (200, 0.05)
    assert expected_in(study, (1,), ("80+", "male", "dialysis")) == (200, 0.02)


SEEN = """\
by: {sex: all}
count: mother_tongue = 'French'
of: all
estimate:
  - share: French
  - ratio: French
    reference: male
expect: {people: %d, share: %s}
"""


def test_width_of_an_interval_for_noise_alone() -> None:
    """For a small share of many people it is about twice the margin of its cell, divided by the people."""
    plan = planned(SEEN % (100_000, "0.01"))
    for width in plan.widths:
        assert (width.people, width.share) == (100_000, 0.01)
        assert width.noise_only == pytest.approx(2 * TWO_CELLS / 100_000, rel=0.05)
        assert width.noise_only is not None
        assert width.with_sampling is not None
        assert width.with_sampling > width.noise_only
    assert plan.widths[0].with_sampling == pytest.approx(
        2 * ((TWO_CELLS / 1.96) ** 2 + 990) ** 0.5 * 1.96 / 100_000, rel=0.1
    )


def test_width_for_few_people_cannot_be_told() -> None:
    """Twenty people under noise of more than a hundred."""
    assert [width.noise_only for width in planned(SEEN % (20, "0.05")).widths] == [None, None]


def test_what_would_be_seen_and_how_many_people_that_takes() -> None:
    """Half the share is seen among many and not among few; with as many as are said to be needed it is seen."""
    (many,) = planned(SEEN % (60_000, "0.05")).sights
    assert (many.ratio, many.is_seen, many.needed) == (0.5, True, 60_000)
    (few,) = planned(SEEN % (2_000, "0.05")).sights
    assert (few.ratio, few.is_seen) == (0.5, False)
    assert few.needed is not None
    (enough,) = planned(SEEN % (few.needed, "0.05")).sights
    (short,) = planned(SEEN % (few.needed * 9 // 10, "0.05")).sights
    assert enough.is_seen
    assert not short.is_seen
    (nobody,) = planned(SEEN % (0, "0.05")).sights
    assert (nobody.is_seen, nobody.needed) == (False, None)


def test_shares_that_are_expected_to_differ_are_compared_as_they_are() -> None:
    """The ratio is the author's own then."""
    text = (SEEN % (60_000, "0.05")).replace("share: 0.05}", "share: 0.05, groups: [{sex: female, share: 0.04}]}")
    (sight,) = planned(text).sights
    assert sight.ratio == pytest.approx(0.8)


def test_a_fraction_leaves_fewer_people_to_count() -> None:
    """A tenth of them: ten times as wide for noise alone."""
    (whole, _), (tenth, _) = (planned(SEEN % (100_000, "0.05") + end).widths for end in ("", "fraction: 0.1\n"))
    assert whole.noise_only is not None
    assert tenth.noise_only is not None
    assert tenth.people == 100_000
    assert tenth.noise_only / whole.noise_only == pytest.approx(10, rel=0.05)


def test_a_part_that_was_asked_is_fewer_people_and_varies_more() -> None:
    """One household in five: as wide for noise alone as a fifth of the people, wider with sampling."""
    (part, _) = planned((SEEN % (100_000, "0.05")).replace("mother_tongue", "home_language")).widths
    (fifth, _) = planned(SEEN % (20_000, "0.05")).widths
    assert part.people == 100_000
    assert part.noise_only == pytest.approx(fifth.noise_only)
    assert part.with_sampling is not None
    assert fifth.with_sampling is not None
    assert part.with_sampling > 1.01 * fifth.with_sampling


RATES = """\
by:
  age: [40, 60, 80]
count:
  French: mother_tongue = 'French'
  English: mother_tongue = 'English'
of: all
estimate:
  - rate_ratio: French
    event: procedure = 'angioplasty'
    against: English
  - trend: French
    over: age
expect:
  people: 3000000
  share: {French: 0.05, English: 0.68}
  groups:
    - {age: 80+, share: {French: 0.09, English: 0.68}}
"""


def test_what_several_answers_are_put_together_for_is_expected_without_noise() -> None:
    """A rate ratio of 1, whose interval is about the margin of the smallest cell; a trend that follows from the shares."""
    plan = planned(f"{RATES}  event: 0.01\n")
    rates, (trend,) = plan.expected[:3], plan.expected[3:]
    assert [each.row.kind for each in rates] == ["rate_ratio"] * 3
    for rate in rates[:2]:
        assert rate.estimate is not None
        assert rate.estimate.value == pytest.approx(1, abs=0.001)
        width = rate.estimate.noise_only.high - rate.estimate.noise_only.low
        assert width == pytest.approx(2 * margin(30, 3) / (3_000_000 * 0.01 * 0.05), rel=0.1)
    assert trend.estimate is not None
    assert trend.estimate.value == pytest.approx(0.02, abs=1e-4)
    assert plan.unplanned == ()


def test_a_rate_ratio_is_not_planned_without_its_event() -> None:
    """How often the event happens is for the author to say; the trend needs no event."""
    plan = planned(RATES)
    assert ([each.row.kind for each in plan.expected], plan.unplanned) == (["trend"], ("rate_ratio",))
    assert "event: 0.02" in plan_text(plan)
    assert plan_json(plan)["unplanned"] == ["rate_ratio"]
