"""The belief report: what the charges mean for people, in numbers for operators and their dashboard.

`Charges` are the ledgers' totals; the report makes of them ceilings of belief from several priors, the typical case
beside them, how many people stand at which ceiling, and a forecast.

Invariants. Nothing understates: ceilings upwards are rounded up and downwards down, exactly, by `belief`; people are sorted
into bands by units, whose edges are budgets of their own (`accounting.cap_units`); a probability is the upper end of its
bracket. Nobody is named: the report holds numbers of people, never their order.

Left to others: reading the ledgers, words, and keeping the report inside the census agency. It depends on who was in
samples; a researcher or a health agency that saw it would learn of language.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from broker_common.privacy.accounting import answers_left, cap_units, param_of, price_units
from broker_common.privacy.belief import belief_of_units, posterior
from broker_common.privacy.forecast import Milestone, milestones
from broker_common.privacy.policy import Policy, Unit
from broker_common.privacy.typical import MAX_TYPICAL_ANSWERS, Answers, evidence_of, worst_mixture

__all__ = [
    "BANDS",
    "PRIORS",
    "Band",
    "BeliefReport",
    "Ceiling",
    "Charges",
    "Counted",
    "Exhaustion",
    "Quantile",
    "Spread",
    "Typical",
    "exhaustion",
    "make_report",
    "most_charged",
    "people_charged",
    "people_exhausted",
    "worst_belief",
]

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

Counted: TypeAlias = Literal["submitted"] | Unit
"""By what people are counted: submitted pseudonyms, or units of the census."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Charges:
    """What the ledgers hold, in units: by submitted pseudonym, by census person, by household, and for everybody."""

    submitted: _Units
    persons: _Units
    households: _Units
    floor: int

    def deciding(self, unit: Unit) -> dict[Counted, _Units]:
        """The two ledgers that decide whether an answer still counts somebody."""
        return {"submitted": self.submitted, unit: self.persons if unit == "person" else self.households}


@dataclass(frozen=True, slots=True)
class Exhaustion:
    """How many in one of the deciding ledgers were charged, and how many have no room for any answer any more."""

    counted: Counted
    charged: int
    exhausted: int

    @property
    def share(self) -> Fraction:
        """Of those charged."""
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
    """What answers do on average, about somebody in all of their samples, from a prior of 1/2.

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
    """How the charges of one ledger are spread over its people, or households."""

    people: int
    charged: int
    # Of those who were charged beyond everybody's charge; empty when nobody was.
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
    worst: int
    ceilings: tuple[Ceiling, ...]
    # Of whoever was charged most, and of somebody whose budget is used up; None: more answers than are convolved.
    typical_now: Typical | None
    typical_limit: Typical | None
    bands: tuple[Band, ...]
    # Where whoever was charged most stands: 0 at 1/2, then the bands, then above the limit.
    worst_place: int
    # None where strict accounting has charged everybody alike from the start.
    submitted: Spread | None
    persons: Spread | None
    households: Spread | None
    # Under strict accounting the answers left at the usual scale; otherwise None.
    answers_left: int | None
    # Empty under strict accounting, and where there is too little to go by.
    forecast: tuple[Milestone, ...]
    # Whose room the forecast is about: of the two ledgers that decide, the one that is used up sooner.
    forecast_of: Counted


def most_charged(charges: Charges, unit: Unit) -> int:
    """The largest charge that decides anything: by submitted pseudonym, and by the unit that the policy names."""
    return charges.floor + max(int(units.max(initial=0)) for units in charges.deciding(unit).values())


def people_charged(charges: Charges) -> int:
    """Submitted pseudonyms with a charge of their own."""
    return int(np.count_nonzero(charges.submitted))


def exhaustion(charges: Charges, policy: Policy) -> tuple[Exhaustion, ...]:
    """Whom no admissible scale fits any more, in each ledger that decides: without room in one, an answer leaves them out."""
    room = max(policy.cap - charges.floor - price_units(policy.scales[-1]), 0)
    return tuple(
        Exhaustion(counted, int(np.count_nonzero(units)), int(np.count_nonzero(units > room)))
        for counted, units in charges.deciding(policy.unit).items()
    )


def people_exhausted(charges: Charges, policy: Policy) -> int:
    """Submitted pseudonyms without room, or, if they are more, persons or households without room in the second ledger.

    A number of people at least: which pseudonyms a person or a household goes by, the ledgers do not know.
    """
    return max(row.exhausted for row in exhaustion(charges, policy))


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
        spreads: tuple[Spread | None, ...] = (None, None, None)
    else:
        floor, worst = charges.floor, most_charged(charges, policy.unit)
        # About one person, whatever the unit: how many people of a household were in a sample no ledger remembers.
        typical = most_charged(charges, "person")
        answers = Counter(common) + Counter(worst_mixture(sampled, typical - floor))
        histograms = [_histogram(ledger) for ledger in (charges.submitted, charges.persons, charges.households)]
        spreads = tuple(_spread(*histogram, floor, edges) for histogram in histograms)
    forecast_of, forecast = _forecast(charges, policy, past_units=units)
    return BeliefReport(
        floor=floor,
        worst=worst,
        ceilings=tuple(_ceiling(prior, worst, policy.param) for prior in PRIORS),
        typical_now=_typical(tuple(Answers(answers[scale], scale) for scale in sorted(answers)), bands, typical),
        typical_limit=_typical((Answers(answers_left(policy.cap, 0, usual), usual),), bands),
        bands=bands,
        worst_place=int(np.searchsorted(edges, worst, side="left")),
        submitted=spreads[0],
        persons=spreads[1],
        households=spreads[2],
        answers_left=answers_left(policy.cap, units, usual) if policy.accounting == "strict" else None,
        forecast=forecast,
        forecast_of=forecast_of,
    )


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
        units = sum(group.count * price_units(group.scale) for group in answers)
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


def _forecast(charges: Charges | None, policy: Policy, *, past_units: int) -> tuple[Counted, tuple[Milestone, ...]]:
    """That of the ledger which is used up sooner."""
    if charges is None or policy.accounting == "strict":
        return "submitted", ()
    found: list[tuple[Counted, tuple[Milestone, ...]]] = []
    for counted, units in charges.deciding(policy.unit).items():
        own, people = _histogram(units[units > 0])
        rows = milestones(
            own, people, past_units=past_units, floor=charges.floor, cap=policy.cap, scale=policy.usual_scale
        )
        if rows:
            found.append((counted, rows))
    return min(found, key=_how_soon, default=("submitted", ()))


def _how_soon(found: tuple[Counted, tuple[Milestone, ...]]) -> list[float]:
    return [math.inf if row.middle is None else row.middle for row in found[1]]


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
