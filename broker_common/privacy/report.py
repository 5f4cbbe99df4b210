"""The belief report: what the charges mean for people, in numbers for operators and their dashboard.

`Charges` are the ledger's totals; the report makes of them ceilings of belief from several priors, the typical case
beside them, how many people stand at which ceiling, and a forecast.

Invariants. Nothing understates: ceilings upwards are rounded up and downwards down, exactly, by `belief`; people are sorted
into bands by units, whose edges are budgets of their own (`accounting.cap_units`); a probability is the upper end of its
bracket. Nobody is named: the report holds numbers of people, never their order.

Left to others: reading the ledger, words, and keeping the report inside the census agency. It depends on who was in
samples; a researcher or a health agency that saw it would learn of language.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from broker_common.privacy.accounting import answers_left, cap_units, param_of, price
from broker_common.privacy.belief import belief_of_units, posterior
from broker_common.privacy.forecast import Milestone, milestones
from broker_common.privacy.policy import Policy
from broker_common.privacy.typical import MAX_TYPICAL_ANSWERS, Answers, evidence_of, worst_mixture

PRIORS = tuple(Fraction(text) for text in ("0.02", "0.05", "0.5", "0.9", "0.95"))
BANDS = 6
"""Into how many bands the beliefs between 1/2 and the limit are divided."""

_QUANTILES = tuple(Fraction(text) for text in ("0.5", "0.9", "0.99", "0.999", "1"))
_HALF = Fraction(1, 2)
_PLACES = 5
# A chance beyond is shown as this small, never as none.
_MOST_PLACES = 30
_Units = npt.NDArray[np.uint32]
_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Charges:
    """Charges in the ledger, in units: by number of the subject, and for everybody."""

    subjects: _Units
    floor: int


@dataclass(frozen=True, slots=True)
class Exhaustion:
    """How many subjects were charged, and how many have no room for any answer any more."""

    charged: int
    exhausted: int

    @property
    def share(self) -> Fraction:
        """Share of those charged."""
        return Fraction(self.exhausted, max(self.charged, 1))


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most that belief can have become from a prior, downwards and upwards: by now, and at the limit."""

    prior: Fraction
    now_down: Decimal
    now_up: Decimal
    limit_down: Decimal
    limit_up: Decimal


@dataclass(frozen=True, slots=True)
class Typical:
    """Average effect of answers about a person in all of their samples, from a prior of 1/2.

    The upper ends of brackets: means to the nearest, chances and the ceiling rounded up.
    """

    answers: tuple[Answers, ...]
    ceiling: Decimal
    expected_belief: Decimal
    best_guess_right: Decimal
    # P(belief in the truth > the upper edge of a band), for every band but the last.
    beyond: tuple[tuple[Fraction, Decimal], ...]


@dataclass(frozen=True, slots=True)
class Band:
    """The beliefs above `low` and up to `high`."""

    low: Fraction
    high: Fraction


@dataclass(frozen=True, slots=True)
class Quantile:
    """`share` of those who were charged at all stand at or below this charge, everybody's included."""

    share: Fraction
    units: int
    ceiling: Decimal


@dataclass(frozen=True, slots=True)
class Spread:
    """How the charges are spread over people, or households."""

    people: int
    charged: int
    # Quantiles of those who were charged beyond everybody's charge; empty when nobody was.
    quantiles: tuple[Quantile, ...]
    # How many stand where: at 1/2, in each band, above the limit.
    at_rest: int
    in_bands: tuple[int, ...]
    above_limit: int

    @property
    def places(self) -> tuple[int, ...]:
        """How many stand at 1/2, in each band, above the limit."""
        return self.at_rest, *self.in_bands, self.above_limit


@dataclass(frozen=True, slots=True)
class BeliefReport:
    """Everything that the belief report says."""

    floor: int
    ceilings: tuple[Ceiling, ...]
    # For the person charged most, and for somebody whose budget is used up; None: too many answers to convolve.
    typical_now: Typical | None
    typical_limit: Typical | None
    bands: tuple[Band, ...]
    # The place of the person who was charged most: 0 at 1/2, then the bands, then above the limit.
    worst_place: int
    # None where strict accounting has charged everybody alike from the start.
    spread: Spread | None
    # Under strict accounting the answers left at the usual scale; otherwise None.
    answers_left: int | None
    # Empty under strict accounting, and where there is too little to go by.
    forecast: tuple[Milestone, ...]


def most_charged(charges: Charges) -> int:
    """The largest charge of a subject."""
    return charges.floor + int(charges.subjects.max(initial=0))


def exhaustion(charges: Charges, policy: Policy) -> Exhaustion:
    """How many no admissible scale fits any more: an answer leaves them out."""
    room = max(policy.cap - charges.floor - price(policy.scales[-1]), 0)
    subjects = charges.subjects
    return Exhaustion(int(np.count_nonzero(subjects)), int(np.count_nonzero(subjects > room)))


def worst_belief(units: int, policy: Policy) -> Decimal:
    """Rounded up, and the limit where rounding alone would pass it. Under a limit that was lowered since, charges do."""
    belief = belief_of_units(units)
    return min(belief, Decimal(policy.max_belief)) if units <= policy.cap else belief


def make_report(
    policy: Policy, *, common: Mapping[int, int], sampled: Mapping[int, int], units: int, charges: Charges | None
) -> BeliefReport:
    """The report of charges under a policy.

    `common` is how many answers at each scale were charged to everybody, `sampled` how many to the people in their samples.
    `units` is what all of them were charged under strict accounting, and under per-person accounting the latter. No
    `charges`: there never was per-person accounting.
    """
    bands = _bands(policy)
    edges = _edges(bands, policy.cap)
    usual = policy.usual_scale
    if charges is None:
        floor = worst = units
        typical, answers = units, Counter(common)
        spread = None
    else:
        floor, worst = charges.floor, most_charged(charges)
        # About one person, also of a household, who was in each answer once at most.
        typical = worst
        if policy.subject == "household":
            typical = min(worst, floor + sum(count * price(scale) for scale, count in sampled.items()))
        answers = Counter(common) + Counter(worst_mixture(sampled, typical - floor))
        spread = _spread(*_histogram(charges.subjects), floor, edges)
    return BeliefReport(
        floor=floor,
        ceilings=tuple(_ceiling(prior, worst, policy.param) for prior in PRIORS),
        typical_now=_typical(tuple(Answers(answers[scale], scale) for scale in sorted(answers)), bands, typical),
        typical_limit=_typical((Answers(answers_left(policy.cap, 0, usual), usual),), bands),
        bands=bands,
        worst_place=int(np.searchsorted(edges, worst, side="left")),
        spread=spread,
        answers_left=answers_left(policy.cap, units, usual) if policy.accounting == "strict" else None,
        forecast=_forecast(charges, policy, past_units=units),
    )


def typical_case(policy: Policy, common: Mapping[int, int], sampled: Mapping[int, int]) -> Typical | None:
    """The typical case of somebody who was in every sample that still fitted: it follows from the log alone."""
    everything = Counter(common) + Counter(sampled)
    units = min(sum(count * price(scale) for scale, count in everything.items()), policy.cap)
    mixture = worst_mixture(everything, units) if everything else {}
    return _typical(tuple(Answers(mixture[scale], scale) for scale in sorted(mixture)), _bands(policy), units)


def _ceiling(prior: Fraction, units: int, param: Fraction) -> Ceiling:
    """Downwards is upwards for the other world: what is left of 1 is rounded down where that is rounded up."""
    other = 1 - prior
    return Ceiling(
        prior,
        now_down=_complement(belief_of_units(units, other)),
        now_up=belief_of_units(units, prior),
        limit_down=_complement(_rounded(posterior(param, other), math.ceil)),
        limit_up=_rounded(posterior(param, prior), math.ceil),
    )


def _typical(answers: tuple[Answers, ...], bands: tuple[Band, ...], units: int | None = None) -> Typical | None:
    """The typical case of these answers, beside the ceiling of `units` or, without, of what they cost."""
    if sum(group.count for group in answers) > MAX_TYPICAL_ANSWERS:
        return None
    evidence = evidence_of(answers)
    if units is None:
        units = sum(group.count * price(group.scale) for group in answers)
    return Typical(
        answers,
        ceiling=belief_of_units(units),
        expected_belief=_rounded(evidence.expected_belief().high, round),
        best_guess_right=_rounded(evidence.best_guess_right().high, round),
        beyond=tuple((band.high, _significant(evidence.belief_above(band.high).high)) for band in bands[:-1]),
    )


def _bands(policy: Policy) -> tuple[Band, ...]:
    step = (Fraction(policy.max_belief) - _HALF) / BANDS
    return tuple(Band(_HALF + step * number, _HALF + step * (number + 1)) for number in range(BANDS))


def _histogram(units: _Units) -> tuple[_Numbers, _Numbers]:
    """The charges that occur, ascending, and how many people have each."""
    charges, people = np.unique(units, return_counts=True)
    return charges.astype(np.int64), people.astype(np.int64)


def _edges(bands: tuple[Band, ...], cap: int) -> _Numbers:
    """The largest charges with which one stands at 1/2, and in each band.

    A belief is within an edge exactly if the charge is within the budget of a policy that has the edge for its limit.
    """
    return np.array([0, *(cap_units(param_of(band.high)) for band in bands[:-1]), cap], np.int64)


def _spread(own: _Numbers, people: _Numbers, floor: int, edges: _Numbers) -> Spread:
    totals = own + floor
    where = np.searchsorted(edges, totals, side="left")
    counts = [int(people[where == place].sum()) for place in range(edges.size + 1)]
    charged = own > 0
    return Spread(
        people=int(people.sum()),
        charged=int(people[charged].sum()),
        quantiles=_quantiles(totals[charged], people[charged]),
        at_rest=counts[0],
        in_bands=tuple(counts[1:-1]),
        above_limit=counts[-1],
    )


def _quantiles(totals: _Numbers, people: _Numbers) -> tuple[Quantile, ...]:
    if not people.size:
        return ()
    as_much_or_less = np.cumsum(people)
    found = []
    for share in _QUANTILES:
        rank = -(-share.numerator * int(as_much_or_less[-1]) // share.denominator)
        units = int(totals[np.searchsorted(as_much_or_less, rank)])
        found.append(Quantile(share, units, belief_of_units(units)))
    return tuple(found)


def _forecast(charges: Charges | None, policy: Policy, *, past_units: int) -> tuple[Milestone, ...]:
    if charges is None or policy.accounting == "strict":
        return ()
    own, people = _histogram(charges.subjects[charges.subjects > 0])
    return milestones(own, people, past_units=past_units, floor=charges.floor, cap=policy.cap, scale=policy.usual_scale)


def _complement(value: Decimal) -> Decimal:
    """1 - value, to the places of beliefs, whatever the caller's decimal context."""
    return Decimal(f"{10**_PLACES - int(Fraction(value) * 10**_PLACES)}E-{_PLACES}")


def _rounded(value: Fraction, to_integer: Callable[[Fraction], int]) -> Decimal:
    return Decimal(f"{to_integer(value * 10**_PLACES)}E-{_PLACES}")


def _significant(chance: Fraction) -> Decimal:
    """A probability, rounded up to three significant digits, so that a small one does not vanish; at most 1."""
    places = 3
    while 0 < chance < Fraction(1, 10 ** (places - 2)) and places < _MOST_PLACES:
        places += 1
    return Decimal(f"{math.ceil(chance * 10**places)}E-{places}")
