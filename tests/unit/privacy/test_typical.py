"""The typical case: brackets that hold the exact law, enumerated here outcome by outcome, and the published figures."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_common.privacy import typical
from broker_common.privacy.accounting import price
from broker_common.privacy.belief import belief_after, belief_from_log_odds, log_likelihood_ratio
from broker_common.privacy.discrete_laplace import probability
from broker_common.privacy.enclosure import Between
from broker_common.privacy.typical import MAX_TYPICAL_ANSWERS, Answers, Evidence, evidence_of, worst_mixture

ExpSeries = Callable[[Fraction], tuple[Fraction, Fraction]]

HALF = Fraction(1, 2)
PAPER = (Answers(41, 30),)
# Noise this many times finer than an integer answer is as good as continuous.
FINE = 32
THRESHOLDS = (Fraction(2, 5), HALF, Fraction(11, 20), Fraction(3, 5), Fraction(7, 10), Fraction(9, 10))


def enumerated(scales: Sequence[int], exp_series: ExpSeries) -> dict[Fraction, float]:
    """The law of the evidence for the truth: every outcome of every answer, one after the other."""
    law: dict[Fraction, float] = defaultdict(float)
    for outcome in itertools.product((1, -1), repeat=len(scales)):
        chance = 1.0
        for says, scale in zip(outcome, scales, strict=True):
            q = exp_series(Fraction(-1, scale))[0]
            chance *= float(1 / (1 + q) if says > 0 else q / (1 + q))
        law[sum((Fraction(says, scale) for says, scale in zip(outcome, scales, strict=True)), Fraction(0))] += chance
    return law


def verify_holds(evidence: Evidence, law: dict[Fraction, float]) -> None:
    """Every bracket holds the figure of the enumerated law; that one errs by less than 1e-12."""

    def verify(bracket: Between, terms: list[float]) -> None:
        assert float(bracket.low) - 1e-12 <= math.fsum(terms) <= float(bracket.high) + 1e-12

    for belief in THRESHOLDS:
        above = math.log(belief / (1 - belief))
        terms = [p for nats, p in law.items() if (nats > 0 if belief == HALF else float(nats) > above)]
        verify(evidence.belief_above(belief), terms)
    verify(evidence.best_guess_right(), [p if nats > 0 else p / 2 if nats == 0 else 0 for nats, p in law.items()])
    verify(evidence.expected_belief(), [p * belief_from_log_odds(nats) for nats, p in law.items()])


@settings(max_examples=40)
@given(scales=st.lists(st.integers(1, 60), max_size=7))
def test_the_brackets_hold_the_law_that_is_enumerated(exp_series: ExpSeries, scales: list[int]) -> None:
    """Whatever scales are mixed, the bracket holds the exact figure and is narrow where the lattice is exact."""
    evidence = evidence_of(Answers(1, scale) for scale in scales)
    verify_holds(evidence, enumerated(scales, exp_series))
    if evidence.down is evidence.up:
        for belief in THRESHOLDS:
            low, high = evidence.belief_above(belief)
            assert high - low < Fraction(1, 10**12)


def exact_chance_above(groups: Sequence[Answers], nats: float, exp_series: ExpSeries) -> Between:
    """P(evidence > nats) in fractions, between what a little more and a little less noise would give."""

    def chance(end: int) -> Fraction:
        law = {Fraction(0): Fraction(1)}
        for group in groups:
            # Forty digits of it: what follows moves the chance by less than the bracket that is examined is wide.
            q = Fraction(math.floor(exp_series(Fraction(-1, group.scale))[0] * 10**40) + end, 10**40)
            wider: dict[Fraction, Fraction] = defaultdict(Fraction)
            for hits in range(group.count + 1):
                weight = math.comb(group.count, hits) * q ** (group.count - hits) / (1 + q) ** group.count
                for says, before in law.items():
                    wider[says + Fraction(2 * hits - group.count, group.scale)] += before * weight
            law = wider
        return sum((p for says, p in law.items() if says > nats), Fraction(0))

    return Between(chance(1), chance(0))


@pytest.mark.parametrize("groups", [PAPER, (Answers(12, 7), Answers(9, 5)), (Answers(60, 3),), (Answers(3, 2),)])
@pytest.mark.parametrize("belief", [HALF, Fraction(3, 5), Fraction(7, 10)])
def test_the_bracket_holds_the_exact_fraction_without_any_allowance(
    exp_series: ExpSeries, groups: tuple[Answers, ...], belief: Fraction
) -> None:
    """The loss of floats is added to the bracket: its ends are on either side of the number itself."""
    low, high = evidence_of(groups).belief_above(belief)
    exact = exact_chance_above(groups, math.log(belief / (1 - belief)), exp_series)
    assert low < exact.low <= exact.high < high


@pytest.mark.parametrize("points", [40, 400, 4000])
def test_a_lattice_that_is_too_coarse_widens_the_brackets(
    exp_series: ExpSeries, monkeypatch: pytest.MonkeyPatch, points: int
) -> None:
    """Rounded evidence is rounded outwards: the exact figure stays inside, however few points there are."""
    monkeypatch.setattr(typical, "_MAX_POINTS", points)
    scales = (7, 7, 11, 13, 29, 29, 31)
    evidence = evidence_of(Answers(1, scale) for scale in scales)
    assert evidence.down is not evidence.up
    verify_holds(evidence, enumerated(scales, exp_series))
    expected = evidence.expected_belief()
    assert expected.low < expected.high


def test_41_answers_at_scale_30_typically_say_little() -> None:
    """Ceiling 79.7 %, best guess right 54 %, and a belief above 70 % in one of 50,000 cases: this mechanism, exactly."""
    evidence = evidence_of(PAPER)
    assert f"{belief_after(41, 30):.3f}" == "0.797"
    for end in evidence.best_guess_right():
        assert f"{float(end):.5f}" == "0.54275"
    for end in evidence.belief_above(Fraction(7, 10)):
        assert f"{float(end):.4e}" == "1.9896e-05"
    for end in evidence.expected_belief():
        assert f"{float(end):.6f}" == "0.505631"


def test_the_published_figure_is_that_of_noise_that_is_not_an_integer() -> None:
    """2.3e-5 for a belief above 70 %, and 54 %: continuous noise, which a fine enough lattice comes near."""
    evidence = evidence_of([Answers(41, 30 * FINE, FINE)])
    for end in evidence.belief_above(Fraction(7, 10)):
        assert f"{float(end):.1e}" == "2.3e-05"
    for end in evidence.best_guess_right():
        assert f"{float(end):.2f}" == "0.54"


@pytest.mark.parametrize(("scale", "members"), [(2, 1), (2, 3), (5, 2), (30, 4)])
def test_one_answer_has_the_law_of_the_mechanism(scale: int, members: int) -> None:
    """The probability of each likelihood ratio is the sum of those of the noise that has it."""
    evidence = evidence_of([Answers(1, scale, members)])
    law: dict[int, float] = defaultdict(float)
    for observed in range(-40 * scale, 40 * scale):
        ratio = log_likelihood_ratio(scale, observed, members, 0)
        law[int(ratio * evidence.steps_per_nat)] += float(probability(scale, observed - members))
    middle = evidence.down.size // 2
    assert [law[step] for step in range(-middle, middle + 1)] == pytest.approx(list(evidence.down), abs=1e-14)


@pytest.mark.parametrize("groups", [(), (Answers(0, 30),)])
def test_no_answers_say_nothing(groups: tuple[Answers, ...]) -> None:
    """Belief stays one half, and nothing beyond is possible."""
    evidence = evidence_of(groups)
    assert evidence.belief_above(HALF) == Between(Fraction(0), Fraction(0))
    assert [round(float(end), 12) for end in evidence.best_guess_right()] == [0.5, 0.5]
    assert [round(float(end), 12) for end in evidence.expected_belief()] == [0.5, 0.5]


def test_a_belief_beyond_the_ceiling_is_impossible() -> None:
    """Zero, not a small number: the ceiling is a bound and not a likelihood."""
    evidence = evidence_of(PAPER)
    assert evidence.belief_above(Fraction(4, 5)).high == 0
    assert evidence.belief_above(Fraction(79, 100)).low > 0


def test_answers_of_one_scale_are_the_same_together_and_apart() -> None:
    """Forty-one answers are forty-one times one."""
    together, apart = evidence_of(PAPER), evidence_of([Answers(1, 30)] * 41)
    assert list(together.down) == list(apart.down)


@pytest.mark.parametrize("nonsense", [(-1, 30, 1), (1, 0, 1), (1, 30, 0)])
def test_nonsense_is_refused(nonsense: tuple[int, int, int]) -> None:
    """Answers, scales and members are numbers of something."""
    with pytest.raises(ValueError, match="at least"):
        Answers(*nonsense)


@pytest.mark.parametrize("belief", [Fraction(0), Fraction(1)])
def test_certainty_is_never_passed(belief: Fraction) -> None:
    """There is no evidence beyond certainty to ask for."""
    with pytest.raises(ValueError, match="strictly between"):
        evidence_of(PAPER).belief_above(belief)


def test_too_many_answers_are_refused() -> None:
    """The sums have an end, with members counted."""
    evidence_of([Answers(MAX_TYPICAL_ANSWERS, 1000)])
    with pytest.raises(ValueError, match="at most"):
        evidence_of([Answers(MAX_TYPICAL_ANSWERS, 1000), Answers(1, 30)])
    with pytest.raises(ValueError, match="at most"):
        evidence_of([Answers(MAX_TYPICAL_ANSWERS // 2 + 1, 1000, 2)])


# --- the worst mixture -------------------------------------------------------------------------------------------------


def cost(mixture: dict[int, int]) -> int:
    """Charge of these answers."""
    return sum(count * price(scale) for scale, count in mixture.items())


@pytest.mark.parametrize(
    ("past", "paid", "mixture"),
    [
        ({30: 9}, {}, {}),
        ({1: 1}, {1: 1}, {1: 1}),
        ({1: 1, 30: 100}, {1: 1, 30: 5}, {1: 1, 30: 5}),
        # As many as there were.
        ({5: 2, 10: 9}, {10: 6}, {5: 2, 10: 2}),
        # One at scale 2 fits and explains more than half of it; the rest counts as one at scale 3.
        ({2: 1, 3: 2}, {3: 2}, {2: 1, 3: 1}),
        # Two persons were found to be one: more than all answers cost.
        ({1: 1}, {1: 2}, {1: 2}),
    ],
)
def test_the_worst_mixture_is_of_answers_that_there_were(
    past: dict[int, int], paid: dict[int, int], mixture: dict[int, int]
) -> None:
    """The smallest scales first, as many as were asked for and fit, the rest at the largest."""
    assert worst_mixture(past, cost(paid)) == mixture


@settings(max_examples=60)
@given(
    taken=st.dictionaries(st.sampled_from([1, 2, 10, 30]), st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1)
)
def test_no_person_was_in_answers_that_say_more_than_the_worst_mixture(taken: dict[int, tuple[int, int]]) -> None:
    """Whichever of the answers somebody was in, what they cost is explained, and where it comes out even nothing says more."""
    past = {scale: more + some for scale, (some, more) in taken.items()}
    paid = {scale: some for scale, (some, _) in taken.items()}
    found = worst_mixture(past, cost(paid))
    assert cost(paid) <= cost(found) < cost(paid) + price(max(past))
    truth, worst = (evidence_of(Answers(count, scale) for scale, count in answers.items()) for answers in (paid, found))
    assert worst.expected_belief().high >= truth.expected_belief().low
