"""How precise an answer will be, from what the author of a study expects; nothing is asked and no data is looked at."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from statistics import NormalDist

import numpy as np

from researcher_node.estimates.fieller import Tally
from researcher_node.estimates.law import critical_values
from researcher_node.estimates.recombined import of_sum
from researcher_node.estimates.tables import Design, Interval, share_of

# More people than any agency has: a plan that would need them says that no group is large enough.
_MOST_PEOPLE = 10**9
_SIGNIFICANT_DIGITS = 2


@dataclass(frozen=True, slots=True)
class Planned:
    """A group as its author expects it before anything is asked: people counted (after fraction and design), and the share.

    `cells` is the number of cells of the table, `part_cells` and `rest_cells` how many of them the share's part and the rest of
    its whole sum over (None: all others).

    ValueError for a negative number of people, a share outside 0..1, or cells that the table does not have.
    """

    people: float
    share: float
    scale: int
    cells: int = 2
    part_cells: int = 1
    rest_cells: int | None = None
    design: Design = field(default_factory=Design)

    def __post_init__(self) -> None:
        rest = self.cells - self.part_cells if self.rest_cells is None else self.rest_cells
        if not (0 <= self.people < math.inf and 0 <= self.share <= 1 and self.scale >= 1):
            raise ValueError("people are at least 0, a share is in 0..1, a scale at least 1")
        if self.part_cells < 1 or rest < 1 or self.part_cells + rest > self.cells:
            raise ValueError("part and rest of the whole have a cell each, and no more than the table together")

    @property
    def tally(self) -> Tally:
        """Its counts without noise."""
        rest = self.cells - self.part_cells if self.rest_cells is None else self.rest_cells
        noise = critical_values((self.scale, self.cells, self.part_cells, rest))
        part, others = (np.array([self.people * share]) for share in (self.share, 1 - self.share))
        return Tally(noise, part, others, self.design.design_effect)

    @property
    def variance(self) -> float:
        """Variance of the share's estimate, by noise and by sampling; infinite for nobody."""
        if self.people == 0:
            return math.inf
        p = self.share
        noise = float(self.tally.noise.variance(np.arctan2(p, 1 - p))) * (p**2 + (1 - p) ** 2)
        return (noise + self.people * p * (1 - p) * self.design.design_effect) / self.people**2


@dataclass(frozen=True, slots=True)
class Widths:
    """From low to high of each interval, for an answer without noise; None: it could not be told."""

    noise_only: float | None
    with_sampling: float | None


def expected_widths(group: Planned) -> Widths:
    """How wide the two intervals of the group's share will be."""
    expected = share_of(group.tally)
    return Widths(_width(expected.noise_only), _width(expected.with_sampling))


def power(a: Planned, b: Planned) -> float:
    """About the probability (0..1) that the with-sampling interval of the ratio of two shares as planned will exclude 1.

    The same as that of their difference excluding 0. Normal approximation around the interval of an answer without noise.
    """
    distance = a.share - b.share
    ends = of_sum([a.tally, b.tally], [1.0, -1.0], sampled=True)
    low, high = float(ends.low[0]), float(ends.high[0])
    if (low, high) == (-1.0, 1.0):
        return 0.0
    margin = distance - low if distance > 0 else high - distance
    return NormalDist().cdf((abs(distance) - margin) / math.sqrt(a.variance + b.variance))


def people_needed(a: Planned, b: Planned, wanted_power: float = 0.8) -> int | None:
    """About how many people group a must have, with its planned share, for that power against b as planned; None: no number would do.

    "A ratio of 0.5 would not be seen; about N people are needed": a has half the share of b. Two significant digits, rounded up.
    """

    def is_seen(people: int) -> bool:
        return power(replace(a, people=people), b) >= wanted_power

    most = 1
    while not is_seen(most):
        most *= 2
        if most > _MOST_PEOPLE:
            return None
    least = most // 2
    while most - least > most // 10**_SIGNIFICANT_DIGITS + 1:
        middle = (least + most) // 2
        least, most = (least, middle) if is_seen(middle) else (middle, most)
    step = int(10 ** max(0, len(str(most)) - _SIGNIFICANT_DIGITS))
    return -(-most // step) * step


def _width(interval: Interval) -> float | None:
    return interval.high - interval.low if interval.told else None
