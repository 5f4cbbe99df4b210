"""The report never understates: ceilings outwards, people in the right bands, exhausted people counted exactly."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from fakes.logs import policy
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_common.privacy import report as report_module
from broker_common.privacy.accounting import UNITS_PER_NAT, price
from broker_common.privacy.belief import belief_of_units, posterior
from broker_common.privacy.policy import Policy
from broker_common.privacy.report import (
    BANDS,
    PRIORS,
    BeliefReport,
    Charges,
    Exhaustion,
    Spread,
    exhaustion,
    make_report,
    most_charged,
    worst_belief,
)

ExpSeries = Callable[[Fraction], tuple[Fraction, Fraction]]

PRICE = price(30)
PLACE = Fraction(1, 10**5)
MOST = 2**32 - 1
PER_PERSON = policy(accounting="per_person")


def ledgers(charged: list[int], floor: int = 0) -> Charges:
    """Charges of subjects."""
    return Charges(np.array(charged, np.uint32), floor)


def reported(charges: Charges, rules: Policy = PER_PERSON, *, answers: int = 100) -> BeliefReport:
    """The report after so many answers at the usual scale."""
    return make_report(rules, common={}, sampled={30: answers}, units=answers * PRICE, charges=charges)


def column(report: BeliefReport) -> Spread:
    """The spread of charges."""
    assert report.spread is not None
    return report.spread


# --- ceilings ----------------------------------------------------------------------------------------------------------


@given(units=st.integers(0, 127 * UNITS_PER_NAT), prior=st.fractions(0, 1, max_denominator=1000))
def test_ceilings_are_rounded_outwards(exp_series: ExpSeries, units: int, prior: Fraction) -> None:
    """Upwards not below the exact belief, downwards not above it, and both within one place."""
    row = report_module._ceiling(prior, units, Fraction(4))
    factor = exp_series(Fraction(units, UNITS_PER_NAT))
    up_low, up_high = posterior(factor[0], prior), posterior(factor[1], prior)
    down_low, down_high = posterior(1 / factor[1], prior), posterior(1 / factor[0], prior)
    assert up_low <= Fraction(row.now_up) < up_high + PLACE
    assert down_low - PLACE < Fraction(row.now_down) <= down_high
    assert posterior(Fraction(4), prior) <= Fraction(row.limit_up) < posterior(Fraction(4), prior) + PLACE
    assert posterior(Fraction(1, 4), prior) - PLACE < Fraction(row.limit_down) <= posterior(Fraction(1, 4), prior)


@pytest.mark.parametrize("prior", [Fraction(0), Fraction(1)])
@pytest.mark.parametrize("units", [0, 1, PER_PERSON.cap, MOST])
def test_what_is_certain_stays_certain(prior: Fraction, units: int) -> None:
    """No charge moves a belief of nothing or of everything."""
    row = report_module._ceiling(prior, units, Fraction(4))
    assert {row.now_down, row.now_up, row.limit_down, row.limit_up} == {Decimal(int(prior))}


def test_ceilings_do_not_depend_on_the_callers_decimals() -> None:
    """A context of two digits rounds nothing here."""
    ledger = ledgers([41 * PRICE])
    with localcontext(prec=2):
        found = reported(ledger)
    assert found == reported(ledger)


def test_the_table_has_its_priors_and_the_limit_of_the_policy() -> None:
    """At a limit of 80 %: from 2 % to 7.6 %, from 95 % down to 82.6 %."""
    report = reported(ledgers([41 * PRICE]))
    assert tuple(row.prior for row in report.ceilings) == PRIORS
    first, middle, last = report.ceilings[0], report.ceilings[2], report.ceilings[-1]
    assert (str(first.limit_up), str(last.limit_down)) == ("0.07548", "0.82608")
    assert (str(middle.now_down), str(middle.now_up)) == ("0.20315", "0.79685")


@pytest.mark.parametrize(
    ("units", "limit", "expected"),
    [
        (0, "0.8", "0.50000"),
        (41 * PRICE, "0.8", "0.79685"),
        # Rounding up would give 0.80001, which nobody can believe.
        (policy(max_belief="0.800000001").cap, "0.800000001", "0.800000001"),
        # A limit that was lowered since: what was believed before is not taken back.
        (42 * PRICE, "0.8", "0.80219"),
    ],
)
def test_the_worst_belief_is_the_limit_where_rounding_alone_passes_it(units: int, limit: str, expected: str) -> None:
    """Rounded up, and never above the limit for a charge that is within the cap."""
    assert str(worst_belief(units, policy(max_belief=limit))) == expected


# --- who is charged ----------------------------------------------------------------------------------------------------


def test_the_worst_charge_is_the_largest_with_everybodys_on_top() -> None:
    """Also where nobody was charged anything else."""
    assert most_charged(ledgers([5, 7, 0], floor=100)) == 107
    assert most_charged(ledgers([9])) == 9
    assert most_charged(ledgers([], floor=3)) == 3


def test_sums_go_beyond_32_bits() -> None:
    """A ledger that is full, and a floor above: no sum wraps."""
    charges = ledgers([MOST], floor=PRICE)
    assert most_charged(charges) == MOST + PRICE
    report = reported(charges)
    assert (column(report).above_limit, column(report).quantiles[-1].units) == (1, MOST + PRICE)
    assert report.ceilings[2].now_up == 1


@pytest.mark.parametrize(("short", "exhausted"), [(0, 0), (1, 1)])
def test_exhausted_is_who_cannot_pay_the_cheapest_answer(short: int, exhausted: int) -> None:
    """To the unit: what just fits fits."""
    cheapest = price(PER_PERSON.scales[-1])
    charges = ledgers([PER_PERSON.cap - cheapest + short, 0, 1])
    assert exhaustion(charges, PER_PERSON) == Exhaustion(2, exhausted)


def test_everybodys_charge_exhausts_those_who_were_charged_and_nobody_else() -> None:
    """Where nothing fits for anybody, the people without a charge of their own are still not counted."""
    charges = ledgers([0, 1, 2], floor=PER_PERSON.cap)
    assert exhaustion(charges, PER_PERSON) == Exhaustion(2, 2)


# --- bands -------------------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    units=st.lists(st.integers(0, 30_000_000), max_size=30),
    floor=st.sampled_from([0, 1, 3_000_000]),
    limit=st.sampled_from(["0.8", "0.51", "0.99"]),
)
def test_everybody_stands_where_their_ceiling_is(
    exp_series: ExpSeries, units: list[int], floor: int, limit: str
) -> None:
    """Sorted by the exact belief, one by one, people come out in the same bands."""
    rules = policy(accounting="per_person", max_belief=limit)
    report = reported(ledgers(units, floor=floor), rules)
    expected = [0] * (BANDS + 2)
    for charge in units:
        total = charge + floor
        belief = posterior(exp_series(Fraction(total, UNITS_PER_NAT))[1], Fraction(1, 2))
        above = sum(belief > band.high for band in report.bands)
        expected[0 if total == 0 else 1 + above] += 1
    assert list(column(report).places) == expected
    assert sum(expected) == column(report).people == len(units)


def test_the_bands_lead_from_one_half_to_the_limit() -> None:
    """Without gaps, whatever the limit."""
    for limit in ("0.8", "0.505", "0.999"):
        bands = reported(ledgers([]), policy(accounting="per_person", max_belief=limit)).bands
        assert (bands[0].low, bands[-1].high, len(bands)) == (Fraction(1, 2), Fraction(limit), BANDS)
        assert all(one.high == other.low for one, other in itertools.pairwise(bands))


def test_the_cap_itself_is_within_the_limit_and_one_unit_more_is_not() -> None:
    """The last band ends where the budget ends."""
    spread = column(reported(ledgers([PER_PERSON.cap, PER_PERSON.cap + 1])))
    assert (spread.in_bands[-1], spread.above_limit) == (1, 1)


# --- quantiles ---------------------------------------------------------------------------------------------------------


@given(units=st.lists(st.integers(0, 5), min_size=1, max_size=40), floor=st.integers(0, 3))
def test_quantiles_are_those_of_the_people_charged(units: list[int], floor: int) -> None:
    """The smallest charge that so large a share stands at or below; people without a charge do not dilute it."""
    spread = column(reported(ledgers(units, floor=floor)))
    charged = sorted(charge for charge in units if charge)
    assert spread.charged == len(charged)
    for row in spread.quantiles:
        at_or_below = [charge for charge in charged if charge + floor <= row.units]
        below = [charge for charge in charged if charge + floor < row.units]
        assert len(at_or_below) >= row.share * len(charged) > len(below)
        assert row.ceiling == belief_of_units(row.units)
    assert (spread.quantiles == ()) == (not charged)


# --- the whole ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("people", [0, 1, 1000])
def test_nobody_charged_is_a_report_too(people: int) -> None:
    """An empty ledger, and one in which nobody has a charge: nothing moved, nothing foretold."""
    report = reported(ledgers([0] * people), answers=0)
    assert (report.forecast, column(report).quantiles) == ((), ())
    assert (column(report).at_rest, sum(column(report).in_bands), report.worst_place) == (people, 0, 0)
    assert all(row.now_down == row.now_up == Decimal(str(float(row.prior))) for row in report.ceilings)
    assert report.typical_now is not None
    assert (str(report.typical_now.best_guess_right), str(report.typical_now.expected_belief)) == ("0.50000", "0.50000")
    assert all(chance == 0 for _, chance in report.typical_now.beyond)


def test_one_person() -> None:
    """A person alone is a person: in a band, with quantiles, and without a forecast."""
    report = reported(ledgers([PRICE]))
    assert (column(report).in_bands, {row.units for row in column(report).quantiles}) == ((1, 0, 0, 0, 0, 0), {PRICE})
    assert (report.forecast, report.worst_place) == ((), 1)


def test_everybody_exhausted() -> None:
    """All stand in the last band, and every share has been reached."""
    report = reported(ledgers([41 * PRICE] * 500))
    assert column(report).in_bands == (0, 0, 0, 0, 0, 500)
    assert [row.late for row in report.forecast] == [0, 0, 0]


def test_the_typical_case_stands_beside_the_ceiling() -> None:
    """41 answers: 0.79685 could be, 0.50563 is on average, and above 0.7 is one in 50,000, rounded up."""
    limit = reported(ledgers([41 * PRICE])).typical_limit
    assert limit is not None
    assert limit.answers[0].count == 41
    assert (str(limit.ceiling), str(limit.expected_belief), str(limit.best_guess_right)) == (
        "0.79685",
        "0.50563",
        "0.54275",
    )
    assert dict(limit.beyond)[Fraction(7, 10)] == Decimal("0.0000199")


def test_strict_accounting_is_reported_at_the_scales_that_were_asked_for() -> None:
    """The log knows every scale; what is left is said in answers; nobody stands anywhere."""
    rules = policy(scales=(10, 30))
    units = 3 * price(10) + 7 * PRICE
    report = make_report(rules, common={10: 3, 30: 7}, sampled={}, units=units, charges=None)
    assert (report.spread, report.forecast) == (None, ())
    assert (report.floor, report.answers_left) == (units, (rules.cap - units) // PRICE)
    assert report.typical_now is not None
    assert [(group.count, group.scale) for group in report.typical_now.answers] == [(3, 10), (7, 30)]
    assert report.typical_now.ceiling == belief_of_units(units)


def test_more_answers_than_are_convolved_leave_the_typical_case_out() -> None:
    """The ceilings stand; an average that would take minutes is not given."""
    rules = policy(max_belief="0." + "9" * 40, scales=(1000,))
    report = make_report(rules, common={1000: 5000}, sampled={}, units=5000 * price(1000), charges=None)
    assert report.typical_now is report.typical_limit is None
    assert report.ceilings[2].now_up == belief_of_units(5000 * price(1000))


def test_a_person_whose_charge_is_no_whole_number_of_usual_answers_is_typically_in_one_more() -> None:
    """The typical case is never of fewer answers than were paid for."""
    report = reported(ledgers([2 * PRICE + 1]))
    assert report.typical_now is not None
    assert report.typical_now.answers[0].count == 3


def test_one_answer_at_scale_1_is_not_taken_for_many_at_the_usual_scale() -> None:
    """No matter who was charged for it, the likelier guess is right as often as after that very answer, 0.73106."""
    charges = ledgers([price(1), 5 * PRICE, 30 * PRICE])
    report = make_report(PER_PERSON, common={}, sampled={1: 1, 30: 100}, units=0, charges=charges)
    typical = report.typical_now
    assert typical is not None
    # 30 answers at scale 30 cost 14 units more than one at scale 1, which counts as another one.
    assert [(group.count, group.scale) for group in typical.answers] == [(1, 1), (1, 30)]
    assert typical.best_guess_right >= Decimal("0.73105")
    only = make_report(PER_PERSON, common={}, sampled={1: 1}, units=0, charges=ledgers([price(1)])).typical_now
    assert only is not None
    assert str(only.best_guess_right) == "0.73106"


def test_what_everybody_was_charged_is_in_the_typical_case_as_it_was() -> None:
    """Strict answers are nobody's choice: the mixture is of the rest."""
    charges = ledgers([2 * PRICE], floor=price(2))
    report = make_report(PER_PERSON, common={2: 1}, sampled={1: 1, 30: 7}, units=0, charges=charges)
    assert report.typical_now is not None
    assert [(group.count, group.scale) for group in report.typical_now.answers] == [(1, 2), (2, 30)]


def test_the_typical_case_is_about_a_person_where_households_have_the_budget() -> None:
    """Somebody was in each answer once at most, however much their household was charged for it."""
    rules = policy(accounting="per_person", subject="household")
    report = reported(ledgers([6 * PRICE]), rules, answers=2)
    assert report.typical_now is not None
    assert report.typical_now.answers[0].count == 2
    assert report.typical_now.ceiling == belief_of_units(2 * PRICE)
    more = reported(ledgers([6 * PRICE]), rules, answers=100)
    assert more.typical_now is not None
    assert more.typical_now.answers[0].count == 6


def test_a_small_chance_does_not_vanish_and_does_not_understate() -> None:
    """Three digits, rounded up, however small."""
    assert report_module._significant(Fraction(1, 7 * 10**12)) == Decimal("1.43E-13")
    assert report_module._significant(Fraction(1, 10**40)) == Decimal("1E-30")
    assert report_module._significant(Fraction(0)) == 0
    assert report_module._significant(Fraction(1)) == 1


def test_charges_show_nothing_when_printed() -> None:
    """A ledger that ends up in a message tells no charge."""
    assert "123456789" not in repr(ledgers([123456789]))
