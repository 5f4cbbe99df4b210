"""The typical case: how sure an attacker really becomes of one person who is known to be in every sample.

The limit is what the worst possible answers could do; real answers mostly say less, and often the wrong thing. For a
person whose presence changes the count by one, an answer says either "in", +1/scale nat, or "out", -1/scale nat, and
nothing between: noise that is an integer has no other likelihood ratio. It is right with probability 1/(1+q),
q = e**(-1/scale). Where `members` of one household share what is asked for, the ratio takes members+1 values from
-members/scale to members/scale; many members at a scale as much larger approach noise that is not an integer.

Figures are for a prior of 1/2 and for belief in the truth, in either world: both worlds are mirror images.

Invariants. Every figure is a bracket that holds the exact one. Where scales share no lattice that is small enough, all
evidence is rounded down for the lower end and up for the upper end, which every figure here follows. Probabilities are
floats: sums and products of numbers that are not negative, each of which errs by a known part of itself, so that the
bracket is widened by the sum of those parts. Nothing is decided on them.

Left to others: the ceiling beside which this is shown. No promise is made of the typical case: it is an average over the
noise, and an unlucky person is protected by the ceiling alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import starmap

import numpy as np
import numpy.typing as npt

from broker_common.privacy.accounting import price
from broker_common.privacy.enclosure import Between, decide, exp_between, ln_between

MAX_TYPICAL_ANSWERS = 4096
"""Answers times members; beyond, the sums take too long."""

_Law = npt.NDArray[np.float64]
_DIGITS = 40
# The largest lattice: some megabytes, and less than a second.
_MAX_POINTS = 1 << 18
# One rounding of a float, as a part of it, doubled: so that parts may be added up where they multiply.
_ULP = Fraction(1, 1 << 52)
# More than all that underflow can have lost.
_UNDERFLOW = Fraction(1, 10**290)
# Errors of numpy's exponential, a sum and a quotient, generously.
_LOGISTIC_ULPS = 32


@dataclass(frozen=True, slots=True)
class Answers:
    """So many answers at one scale, about somebody (or `members` people alike) who is in every sample."""

    count: int
    scale: int
    members: int = 1

    def __post_init__(self) -> None:
        if self.count < 0 or self.scale < 1 or self.members < 1:
            raise ValueError("answers are at least 0, a scale and members at least 1")

    @property
    def nats(self) -> Fraction:
        """The most that they can say."""
        return Fraction(self.count * self.members, self.scale)


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """The law of what answers say for the truth: log-odds in steps of 1/`steps_per_nat`, symmetric about the middle.

    `down` and `up` are the law with all evidence rounded down and up, and `ulps` how far each probability may err.
    """

    steps_per_nat: int
    down: _Law
    up: _Law
    ulps: int

    def belief_above(self, belief: Fraction) -> Between:
        """P(belief in the truth > `belief`). `ValueError` unless 0 < belief < 1."""
        if not 0 < belief < 1:
            raise ValueError("a belief that can be passed lies strictly between 0 and 1")
        odds = belief / (1 - belief)

        def steps(digits: int) -> Between:
            nats = ln_between(odds, digits)
            return Between(nats.low * self.steps_per_nat, nats.high * self.steps_per_nat)

        # A logarithm is no fraction, but for that of 1: no evidence ties.
        first_above = 1 + (decide(steps, math.floor) if odds != 1 else 0)
        if first_above > self.up.size // 2:
            return Between(Fraction(0), Fraction(0))
        return self._between(_above(self.down, first_above), _above(self.up, first_above))

    def best_guess_right(self) -> Between:
        """P(the likelier world is the true one); where both are as likely, a coin decides."""
        low, high = ((_above(law, 0) + _above(law, 1)) / 2 for law in (self.down, self.up))
        return self._between(low, high)

    def expected_belief(self) -> Between:
        """The mean of the belief in the truth."""
        low, high = (math.fsum(law * self._beliefs(law)) for law in (self.down, self.up))
        return self._between(low, high, _LOGISTIC_ULPS)

    def _beliefs(self, law: _Law) -> _Law:
        middle = law.size // 2
        log_odds = np.arange(-middle, middle + 1) / self.steps_per_nat
        beliefs: _Law = 1 / (1 + np.exp(-log_odds))
        return beliefs

    def _between(self, low: float, high: float, ulps: int = 2) -> Between:
        error = (self.ulps + ulps) * _ULP
        below = Fraction(low) * (1 - error) - _UNDERFLOW
        above = Fraction(high) * (1 + error) + _UNDERFLOW
        return Between(max(below, Fraction(0)), min(above, Fraction(1)))


def evidence_of(answers: Iterable[Answers]) -> Evidence:
    """Evidence of these answers together. `ValueError` where they are more than `MAX_TYPICAL_ANSWERS`."""
    groups = _merged(answers)
    if sum(group.count * group.members for group in groups) > MAX_TYPICAL_ANSWERS:
        raise ValueError(f"at most {MAX_TYPICAL_ANSWERS} answers are convolved")
    steps = math.lcm(*(group.scale for group in groups))
    if _points(groups, steps) <= _MAX_POINTS:
        exact, ulps = _convolved(groups, steps, up=False)
        return Evidence(steps, exact, exact, ulps)
    steps = 1
    while _points(groups, 2 * steps) <= _MAX_POINTS:
        steps *= 2
    down, ulps = _convolved(groups, steps, up=False)
    up, _ = _convolved(groups, steps, up=True)
    return Evidence(steps, down, up, ulps)


def worst_mixture(past: Mapping[int, int], units: int) -> dict[int, int]:
    """How many answers at each scale somebody may have been in who was charged `units`, and learned from at the worst.

    `past` is how many answers there were at each scale. One answer says more than several that cost as much together: the
    smallest scales come first, as many as there were and as fit. Where their prices do not come out even, others that do may
    say a little more: on average about 0.001 of belief. Charges that no answers explain, because subjects of the census were
    joined or the sum does not come out, count at the largest scale, rounded up.
    """
    mixture: Counter[int] = Counter()
    rest = units
    for scale in sorted(past):
        mixture[scale] = min(past[scale], rest // price(scale))
        rest -= mixture[scale] * price(scale)
    if rest:
        largest = max(past)
        mixture[largest] += -(-rest // price(largest))
    return {scale: count for scale, count in mixture.items() if count}


def _merged(answers: Iterable[Answers]) -> list[Answers]:
    """One group for each scale, the largest first: it costs least there."""
    counts: dict[tuple[int, int], int] = {}
    for group in answers:
        kind = group.scale, group.members
        counts[kind] = counts.get(kind, 0) + group.count
    groups = starmap(Answers, ((count, *kind) for kind, count in counts.items() if count))
    return sorted(groups, key=lambda group: -group.count * group.members)


def _reach(group: Answers, steps: int) -> int:
    """How many steps its evidence goes, either way, rounded away from the middle."""
    return math.ceil(group.nats * steps)


def _points(groups: list[Answers], steps: int) -> int:
    return 2 * sum(_reach(group, steps) for group in groups) + 1


def _convolved(groups: list[Answers], steps: int, *, up: bool) -> tuple[_Law, int]:
    """The law of the groups together, on the lattice, and how far its probabilities may err."""
    to_step = math.ceil if up else math.floor
    law, total_ulps = np.ones(1), 0
    for group in groups:
        weights, ulps = _law_of(group)
        reach = _reach(group, steps)
        wider = np.zeros(law.size + 2 * reach)
        for hits, weight in enumerate(weights):
            says = Fraction(2 * hits - group.count * group.members, group.scale)
            start = reach + to_step(says * steps)
            wider[start : start + law.size] += weight * law
        law, total_ulps = wider, total_ulps + ulps + weights.size + 1
    return law, total_ulps


def _law_of(group: Answers) -> tuple[_Law, int]:
    """The law of the answers of one group, on its own lattice, and how far its probabilities may err."""
    one = _law_of_one(group.scale, group.members)
    law = np.ones(1)
    for _ in range(group.count):
        law = np.convolve(law, one)
    return law, group.count * (one.size + 4)


def _law_of_one(scale: int, members: int) -> _Law:
    """Where an answer falls when the count is `members` and might be 0: P(0 or less), P(1) ... P(members or more)."""
    q = exp_between(Fraction(-1, scale), _DIGITS).low
    # The noise by which `hits` is seen is hits - members; both ends stand for everything beyond them too.
    inside = [(1 - q) / (1 + q) * q ** (members - hits) for hits in range(1, members)]
    return np.array([float(part) for part in (q**members / (1 + q), *inside, 1 / (1 + q))])


def _above(law: _Law, first: int) -> float:
    """The sum of the probabilities from `first` steps on, rounded once."""
    return math.fsum(law[max(0, law.size // 2 + first) :])
