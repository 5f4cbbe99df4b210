"""What may be learned of one person for a whole budget, and two ways of spending it.

Against a person whose group is otherwise known, one answer at scale b is a coin that shows the truth with odds e**(1/b): it is
above the middle between the two possible counts or below it. So the odds after several answers take few values, each with an
exact probability, and the best guesser's chance is exact too. It is below the ceiling, which is what the unluckiest answers
could do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from broker_common.privacy.accounting import fits, price_units
from broker_common.privacy.belief import belief_from_log_odds, belief_of_units

__all__ = ["best_guess", "boldly", "ceiling", "chance_above", "evenly", "hardly_above", "log_odds_law", "units_of"]


def boldly(cap: int, scales: Sequence[int]) -> tuple[int, ...]:
    """The whole budget in as few answers as possible, each as precise as is left to pay for: what teaches most."""
    spent: list[int] = []
    units = 0
    for scale in scales:
        while fits(cap, units, scale):
            spent.append(scale)
            units += price_units(scale)
    return tuple(spent)


def evenly(cap: int, scale: int) -> tuple[int, ...]:
    """The whole budget at one scale, the paper's way."""
    return (scale,) * (cap // price_units(scale))


def units_of(scales: Sequence[int]) -> int:
    """What answers at these scales are charged."""
    return sum(price_units(scale) for scale in scales)


def ceiling(scales: Sequence[int]) -> float:
    """The belief that no answers at these scales can pass, from even odds."""
    return float(belief_of_units(units_of(scales)))


def log_odds_law(scales: Sequence[int]) -> dict[Fraction, float]:
    """How probable each value of the log-odds is that answers at these scales add up to, in favour of the truth."""
    law = {Fraction(0): 1.0}
    for scale in scales:
        step = Fraction(1, scale)
        right = belief_from_log_odds(step)
        after: dict[Fraction, float] = {}
        for odds, chance in law.items():
            after[odds + step] = after.get(odds + step, 0.0) + chance * right
            after[odds - step] = after.get(odds - step, 0.0) + chance * (1 - right)
        law = after
    return law


def best_guess(scales: Sequence[int]) -> float:
    """How often the best guesser is right about a bit that was even odds; on a tie a coin decides."""
    law = log_odds_law(scales)
    return math.fsum(chance * (1.0 if odds > 0 else 0.5 if odds == 0 else 0.0) for odds, chance in law.items())


def chance_above(scales: Sequence[int], belief: float) -> float:
    """How often the belief in the truth passes this."""
    law = log_odds_law(scales)
    return math.fsum(chance for odds, chance in law.items() if belief_from_log_odds(odds) > belief)


def hardly_above(scales: Sequence[int], chance: float = 0.975) -> float:
    """The belief in the truth that is not passed with this chance, the typical case's upper end."""
    below = 0.0
    for odds, probability in sorted(log_odds_law(scales).items()):
        below += probability
        if below >= chance:
            return belief_from_log_odds(odds)
    return ceiling(scales)
