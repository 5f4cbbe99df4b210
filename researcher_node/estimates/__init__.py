"""Estimates from noisy answers, each with two honest 95 % intervals. Pure: values in, values out, nothing is asked or charged.

    table = Counts(noisy=(212, 1794), scale=30)                  # an answered question: French, rest
    share(Group(table, part=(0,)))                               # French among all cells of the table
    difference(Group(men, (0,)), Group(women, (0,)))             # two tables, two independent noises

The two intervals of every estimate:

    noise_only      about exactly the people who were counted: linked, in the sample, with budget left
    with_sampling   about the population that those people are like a random draw from: binomial variance, times the design
                    effect. A `fraction` below 1 is such a draw, too: then noise_only speaks of the people drawn, and only
                    with_sampling of everybody who matches.

An interval that is the whole range of what is possible is not `told`: print "cannot be told". It is an honest result, not an
error. Estimates and intervals are clipped to what is possible at the very end and nowhere before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Kind = Literal["share", "difference", "ratio", "rate_ratio", "standardised_rate", "trend"]


@dataclass(frozen=True, slots=True)
class Design:
    """How the people who have a value were drawn from all (a long-form variable; nothing to say for one that all have).

    `weight`: how many people each counted person stands for, e.g. 5 for a 20 % part; shares do not depend on it. Both tables
    of a rate ratio must have the same. `design_effect`: the factor by which drawing whole households multiplies the variance.
    """

    weight: float = 1.0
    design_effect: float = 1.0


@dataclass(frozen=True, slots=True)
class Counts:
    """One answered question: its noisy numbers in the order of its cells, as received (they may be negative).

    `noisy` holds ALL cells of the answer, since the noise's law depends on how many there are. `fraction` is that of the question.
    """

    noisy: tuple[int, ...]
    scale: int
    fraction: Fraction = Fraction(1)
    design: Design = Design()


@dataclass(frozen=True, slots=True)
class Group:
    """The people of one table, and a share of them: cells `part` among cells `whole` (indices; None: all cells of the table).

    ValueError unless part is a non-empty subset of whole, and whole has more cells than part.
    """

    counts: Counts
    part: tuple[int, ...]
    whole: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % interval. `told` is False when it is the whole range of the estimate's kind; low and high are then its ends.

    `high` may be math.inf for a ratio, and both ends infinite for a trend. `method` names how it was made, in English.
    """

    low: float
    high: float
    told: bool
    method: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """One number with its two intervals. `value` is None when it cannot be computed (a total of 0 or less, or 0 / 0)."""

    kind: Kind
    value: float | None
    noise_only: Interval
    with_sampling: Interval


def share(group: Group) -> Estimate:
    """The group's share, in 0..1."""
    raise NotImplementedError


def difference(a: Group, b: Group) -> Estimate:
    """The share of a minus the share of b, in -1..1. The two are of different tables: their noises are independent."""
    raise NotImplementedError


def ratio(a: Group, b: Group) -> Estimate:
    """The share of a divided by the share of b, in 0..inf. The two are of different tables."""
    raise NotImplementedError


def rate_ratio(
    inside: Counts, outside: Counts, part: tuple[int, ...], against: tuple[int, ...] | None = None
) -> Estimate:
    """How many times as often the health condition is met by people of `part` as by people of `against`, in 0..inf.

    `inside` answers for the people who meet the condition, `outside` for `not (condition)`, asked as a question of its own with
    the same cells. The rate among part is inside/(inside + outside) over its cells; the same for against (None: all other cells).
    """
    raise NotImplementedError


def standardised_rate(groups: Sequence[Group], weights: Sequence[float]) -> Estimate:
    """Directly standardised: the mean of the groups' shares with the weights of a standard population (scaled to sum 1)."""
    raise NotImplementedError


def trend(groups: Sequence[Group], scores: Sequence[float]) -> Estimate:
    """The least-squares slope of the groups' shares over their scores: change of the share for one unit of score.

    Every group weighs the same: weights from noisy counts would make what is estimated depend on the noise. In -inf..inf.
    """
    raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Planned:
    """A group as its author expects it before anything is asked: people counted (after fraction and design), and the share.

    `cells` is the number of cells of the table, `part_cells` and `rest_cells` how many of them the share's part and the rest of
    its whole sum over (None: all others).
    """

    people: float
    share: float
    scale: int
    cells: int = 2
    part_cells: int = 1
    rest_cells: int | None = None
    design: Design = Design()


@dataclass(frozen=True, slots=True)
class Widths:
    """From low to high of each interval, for an answer without noise; None: it could not be told."""

    noise_only: float | None
    with_sampling: float | None


def expected_widths(group: Planned) -> Widths:
    """How wide the two intervals of the group's share will be."""
    raise NotImplementedError


def power(a: Planned, b: Planned) -> float:
    """About the probability (0..1) that the with-sampling interval of the ratio of two shares as planned will exclude 1."""
    raise NotImplementedError


def people_needed(a: Planned, b: Planned, wanted_power: float = 0.8) -> int | None:
    """About how many people group a must have, with its planned share, for that power against b as planned; None: no number would do.

    "A ratio of 0.5 would not be seen; about N people are needed": a has half the share of b.
    """
    raise NotImplementedError
