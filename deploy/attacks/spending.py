"""The evidence about one person that a whole budget buys, and two ways of spending it.

Against a person whose group is otherwise known, one answer at scale b is a coin that shows the truth with odds e**(1/b): it is
above the middle between the two possible counts or below it. So the best guesser's chance after several answers is exact
(`broker_common.privacy.typical`). It is below the ceiling, which is what the unluckiest answers could do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from broker_common.privacy.accounting import fits, price
from broker_common.privacy.belief import belief_of_units
from broker_common.privacy.typical import Answers, Evidence, evidence_of

# Halvings of the interval that a belief lies in: far finer than a plot.
_HALVINGS = 12
_HARDLY = 0.025


def boldly(cap: int, scales: Sequence[int]) -> tuple[int, ...]:
    """The whole budget in as few answers as possible, each as precise as is left to pay for: what teaches most."""
    spent: list[int] = []
    units = 0
    for scale in scales:
        while fits(cap, units, scale):
            spent.append(scale)
            units += price(scale)
    return tuple(spent)


def evenly(cap: int, scale: int) -> tuple[int, ...]:
    """The whole budget at one scale, the paper's way."""
    return (scale,) * (cap // price(scale))


def units_of(scales: Sequence[int]) -> int:
    """The charge of answers at these scales."""
    return sum(price(scale) for scale in scales)


def ceiling(scales: Sequence[int]) -> float:
    """The belief that no answers at these scales can pass, from even odds."""
    return float(belief_of_units(units_of(scales)))


def best_guess(scales: Sequence[int]) -> float:
    """How often the best guesser is right about a bit that was even odds; on a tie a coin decides."""
    return float(_evidence(tuple(scales)).best_guess_right().high)


def chance_above(scales: Sequence[int], belief: float) -> float:
    """How often the belief in the truth passes this."""
    return float(_evidence(tuple(scales)).belief_above(Fraction(belief)).high)


def hardly_above(scales: Sequence[int]) -> float:
    """The belief in the truth that is passed once in forty times: the upper end of the typical case."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if chance_above(scales, middle) > _HARDLY else (low, middle)
    return high


@lru_cache(maxsize=256)
def _evidence(scales: tuple[int, ...]) -> Evidence:
    return evidence_of(Answers(count, scale) for scale, count in Counter(scales).items())
