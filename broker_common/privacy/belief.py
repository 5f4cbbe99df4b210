"""Belief: what an adversary can come to think of one person, as odds, from what the answers cost.

Answers multiply the odds between two worlds, so their logarithms add. `posterior`, `belief_after` and `belief_of_units`
state the limit: the most that any answers of this price can do. `log_likelihood_ratio` and `belief_from_log_odds` state
what actual answers did, which is what an attacker computes and what a demonstration draws below the limit.

Invariants. `belief_of_units` is rounded up, exactly: a published figure never understates. `belief_after` is rounded to
nearest and reproduces the usual figures (41 answers at scale 30: 0.79684). Whether something is allowed is decided on
units in `accounting`, never on a belief: decimals are for reading.

Left to others: charging. Nothing may ever depend on a realised belief, because that would tell the answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from broker_common.privacy.accounting import UNITS_PER_NAT
from broker_common.privacy.enclosure import Between, decide, exp_between

_EVEN = Fraction(1, 2)
_PLACES = 5


def posterior(param: Fraction, prior: Fraction) -> Fraction:
    """Belief after the odds grew by the factor `param`, exactly. `ValueError` unless param > 0 and 0 <= prior <= 1."""
    if param <= 0 or not 0 <= prior <= 1:
        raise ValueError("odds grow by a positive factor, from a prior between 0 and 1")
    return param * prior / (param * prior + 1 - prior)


def belief_after(answers: int, scale: int, prior: Fraction = _EVEN, places: int = _PLACES) -> Decimal:
    """The most that `answers` counts at `scale` can make of `prior`: odds times e**(answers/scale).

    Rounded to nearest, as the published figures are: 0.79684 after 41 answers at scale 30, where the exact value is
    0.796841... Use `belief_of_units` for a figure that must not understate.
    """
    if answers < 0 or scale < 1:
        raise ValueError("answers are at least 0 and a scale at least 1")
    return _belief(Fraction(answers, scale), prior, places, round)


def belief_of_units(units: int, prior: Fraction = _EVEN, places: int = _PLACES) -> Decimal:
    """The most that a charge of `units` (2**-24 nat) can make of `prior`, rounded up: it never understates."""
    if units < 0:
        raise ValueError("a charge is never negative")
    return _belief(Fraction(units, UNITS_PER_NAT), prior, places, math.ceil)


def _belief(log_odds: Fraction, prior: Fraction, places: int, to_integer: Callable[[Fraction], int]) -> Decimal:
    """`posterior(e**log_odds, prior)` to `places` decimals.

    The rounding is always decided: for 0 < prior < 1 and log_odds != 0 the belief is transcendental, and in the other
    cases (no answers, or a prior that nothing moves) both ends of the bracket are the prior itself.
    """

    def scaled(digits: int) -> Between:
        factor = exp_between(log_odds, digits) if log_odds else Between(Fraction(1), Fraction(1))
        return Between(posterior(factor.low, prior) * 10**places, posterior(factor.high, prior) * 10**places)

    # Built from text, because arithmetic would be at the mercy of the caller's decimal context.
    return Decimal(f"{decide(scaled, to_integer)}E-{places}")


def log_likelihood_ratio(scale: int, observed: int, count_if_in: int, count_if_out: int) -> Fraction:
    """Evidence of one answer for "the count was `count_if_in`" against "it was `count_if_out`", in nats, exactly.

    The ratio of two discrete Laplace probabilities of the same scale; at most |count_if_in - count_if_out| / scale.
    """
    return Fraction(abs(observed - count_if_out) - abs(observed - count_if_in), scale)


def belief_from_log_odds(log_odds: Fraction, prior: Fraction = _EVEN) -> float:
    """Belief after evidence of `log_odds` nats. A float, for display only: nothing is decided on it.

    `ValueError` unless 0 <= prior <= 1. Evidence beyond what a float can express is shown as certainty.
    """
    if not 0 <= prior <= 1:
        raise ValueError("a prior lies between 0 and 1")
    # The logistic function in the form whose exponential cannot overflow.
    odds_against_leader = math.exp(-float(abs(log_odds)))
    leader, other = (prior, 1 - prior) if log_odds >= 0 else (1 - prior, prior)
    if leader == 0:
        return float(prior)
    belief_in_leader = 1 / (1 + float(other / leader) * odds_against_leader)
    return belief_in_leader if log_odds >= 0 else 1 - belief_in_leader
