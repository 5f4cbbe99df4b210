"""Answered questions as values, and the estimates that are made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

import numpy as np

from researcher_node.estimates.fieller import Tally
from researcher_node.estimates.law import Reals, critical_values, one_table
from researcher_node.estimates.recombined import Ends, correlation, of_ratio, of_share, of_sum

Kind = Literal["share", "difference", "ratio", "rate_ratio", "standardised_rate", "trend"]

# How intervals are made: of noise only, and with sampling.
_FIELLER = (
    "the shares that the exact law of the noise does not exclude (Fieller)",
    "the shares that the exact law of the noise and binomial sampling do not exclude (Fieller, score variance)",
)
_MOVER = (
    "from the interval of each share (MOVER), by the exact law of the noise",
    "from the interval of each share (MOVER), by the exact law of the noise and binomial sampling",
)
METHODS = (*_FIELLER, *_MOVER)


@dataclass(frozen=True, slots=True)
class Design:
    """How the people who have a value were drawn from all; the default says that all have one.

    `weight`: how many people each counted person stands for, e.g. 5 for a 20 % part. No share depends on it; both tables of a rate
    ratio must have the same. `design_effect`: the factor by which drawing whole households multiplies the sampling variance.

    ValueError unless both are finite, the weight above 0 and the design effect at least 1.
    """

    weight: float = 1.0
    design_effect: float = 1.0

    def __post_init__(self) -> None:
        if not (0 < self.weight < math.inf and 1 <= self.design_effect < math.inf):
            raise ValueError("a weight is above 0, a design effect at least 1")


@dataclass(frozen=True, slots=True)
class Counts:
    """One answered question: its noisy numbers in the order of its cells, as received (they may be negative).

    `noisy` holds all cells of the answer, since the noise's law depends on how many there are. `fraction` is the question's.

    ValueError unless there is a cell, the scale is at least 1 and the fraction above 0 and at most 1.
    """

    noisy: tuple[int, ...]
    scale: int
    fraction: Fraction = Fraction(1)
    design: Design = field(default_factory=Design)

    def __post_init__(self) -> None:
        if not self.noisy or self.scale < 1 or not 0 < self.fraction <= 1:
            raise ValueError("counts have a cell, a scale of at least 1 and a fraction above 0 and at most 1")


@dataclass(frozen=True, slots=True)
class Group:
    """The people of one table, and a share of them: cells `part` among cells `whole` (indices; None: all cells of the table).

    ValueError unless both name cells of the table, each once, and the part is some of the whole, but neither none nor all of it.
    """

    counts: Counts
    part: tuple[int, ...]
    whole: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        cells = range(len(self.counts.noisy))
        whole = tuple(cells) if self.whole is None else self.whole
        if not (set() < set(self.part) < set(whole) <= set(cells)) or len({*self.part}) + len({*whole}) != len(
            self.part
        ) + len(whole):
            raise ValueError("a part is some cells of its whole, not all, and the whole cells of the table, each once")

    @property
    def rest(self) -> tuple[int, ...]:
        """The cells of the whole that are not in the part."""
        whole = range(len(self.counts.noisy)) if self.whole is None else self.whole
        return tuple(cell for cell in whole if cell not in self.part)


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % interval. `told` is False when it is the whole range of the estimate's kind; low and high are then its ends.

    `high` may be math.inf for a ratio. `method` says how it was made, in English.
    """

    low: float
    high: float
    told: bool
    method: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """One number with its two intervals. `value` is None where it cannot be computed (a total that is not above 0)."""

    kind: Kind
    value: float | None
    noise_only: Interval
    with_sampling: Interval


def share(group: Group) -> Estimate:
    """The group's share, in 0..1."""
    return share_of(tally(group))


def difference(a: Group, b: Group) -> Estimate:
    """The share of a minus the share of b, in -1..1.

    The two are of different tables, so that their noises are independent: ValueError if they are not.
    """
    return _sum("difference", [a, b], [1.0, -1.0])


def ratio(a: Group, b: Group) -> Estimate:
    """The share of a divided by the share of b, in 0..inf; of different tables, as for a difference."""
    _verify_different([a.counts, b.counts])
    upper, lower = tally(a), tally(b)
    return _ratio("ratio", upper, lower, np.zeros(1), np.zeros(1))


def rate_ratio(
    inside: Counts, outside: Counts, part: tuple[int, ...], against: tuple[int, ...] | None = None
) -> Estimate:
    """How many times as often the condition is met by people of `part` as by people of `against`, in 0..inf.

    `inside` answers for the people who meet the condition, `outside` for `not (condition)`, asked as a question of its own with
    the same cells. The rate of a set of cells is inside/(inside + outside) over them; `against` is None for all cells but part.

    ValueError as for a `Group`, and unless the two have the same cells, fraction and design.
    """
    _verify_different([inside, outside])
    if (len(inside.noisy), inside.fraction, inside.design) != (len(outside.noisy), outside.fraction, outside.design):
        raise ValueError("the two tables of a rate ratio have the same cells, fraction and design")
    compared = Group(inside, part, None if against is None else (*part, *against))
    upper, lower = _rate(inside, outside, compared.part), _rate(inside, outside, compared.rest)
    inside_both, outside_both = (
        one_table(table.scale, len(table.noisy), len(compared.part), len(compared.rest)).variances[2]
        for table in (inside, outside)
    )
    return _ratio(
        "rate_ratio",
        upper,
        lower,
        correlation(upper, lower, inside_both, outside_both, sampled=False),
        correlation(upper, lower, inside_both, outside_both, sampled=True),
    )


def standardised_rate(groups: Sequence[Group], weights: Sequence[float]) -> Estimate:
    """Directly standardised: the mean of the groups' shares with the weights of a standard population, scaled to sum to 1.

    ValueError unless there are as many weights as groups, none below 0 and some above, and the groups are of different tables.
    """
    if not all(0 <= weight < math.inf for weight in weights) or not any(weights):
        raise ValueError("weights are at least 0, and not all 0")
    return _sum("standardised_rate", groups, [weight / math.fsum(weights) for weight in weights])


def trend(groups: Sequence[Group], scores: Sequence[float]) -> Estimate:
    """The least-squares slope of the groups' shares over their scores: by how much the share changes for one unit of score.

    Every group weighs the same: with weights from noisy counts what is estimated would itself depend on the noise.

    ValueError unless there are as many scores as groups, at least two of them different, and the groups are of different tables.
    """
    if len(set(scores)) < 2 or not all(map(math.isfinite, scores)):  # noqa: PLR2004 - a slope needs two
        raise ValueError("a trend needs two different scores")
    return _sum("trend", groups, slope_coefficients(scores))


def slope_coefficients(scores: Sequence[float]) -> list[float]:
    """Coefficient of each value in the least-squares slope of values over scores."""
    mean = math.fsum(scores) / len(scores)
    spread = math.fsum((score - mean) ** 2 for score in scores)
    return [(score - mean) / spread for score in scores]


def tally(group: Group) -> Tally:
    """The group's counts with their noise."""
    table, part, rest = group.counts, group.part, group.rest
    noise = critical_values((table.scale, len(table.noisy), len(part), len(rest)))
    return Tally(noise, _total(table, part), _total(table, rest), table.design.design_effect)


# --- one answer ------------------------------------------------------------------------------------------------------


def share_of(counts: Tally) -> Estimate:
    """The share of one tally, which may be of numbers that are not whole."""
    value = counts.part / np.where(counts.total > 0, counts.total, np.nan)
    return _estimate(
        "share",
        float(np.clip(value, 0.0, 1.0)[0]),
        [of_share(counts, sampled=sampled) for sampled in (False, True)],
        (0.0, 1.0),
        _FIELLER,
    )


def _sum(kind: Kind, groups: Sequence[Group], coefficients: Sequence[float]) -> Estimate:
    _verify_different([group.counts for group in groups])
    used = [(tally(group), c) for group, c in zip(groups, coefficients, strict=True) if c]
    tallies, factors = [each for each, _ in used], [c for _, c in used]
    least, most = sum(min(c, 0.0) for c in factors), sum(max(c, 0.0) for c in factors)
    value = sum(c * float(each.part[0]) / float(each.total[0]) if each.total[0] > 0 else math.nan for each, c in used)
    return _estimate(
        kind,
        min(max(value, least), most) if math.isfinite(value) else math.nan,
        [of_sum(tallies, factors, sampled=sampled) for sampled in (False, True)],
        (least, most),
        _MOVER,
    )


def _ratio(kind: Kind, a: Tally, b: Tally, noise_correlation: Reals, full_correlation: Reals) -> Estimate:
    value = math.nan
    if a.total[0] > 0 and b.total[0] > 0 and b.part[0] > 0:
        value = max(0.0, float((a.part / a.total / (b.part / b.total))[0]))
    return _estimate(
        kind,
        value,
        [of_ratio(a, b, noise_correlation, sampled=False), of_ratio(a, b, full_correlation, sampled=True)],
        (0.0, math.inf),
        _MOVER,
    )


def _estimate(
    kind: Kind, value: float, ends: Sequence[Ends], whole: tuple[float, float], methods: tuple[str, str]
) -> Estimate:
    noise_only, with_sampling = (_interval(found, whole, method) for found, method in zip(ends, methods, strict=True))
    return Estimate(kind, None if math.isnan(value) else value, noise_only, with_sampling)


def _interval(ends: Ends, whole: tuple[float, float], method: str) -> Interval:
    low, high = float(ends.low[0]), float(ends.high[0])
    return Interval(low, high, (low, high) != whole, method)


def _rate(inside: Counts, outside: Counts, cells: tuple[int, ...]) -> Tally:
    noise = critical_values(
        (inside.scale, len(inside.noisy), len(cells), outside.scale, len(outside.noisy), len(cells))
    )
    return Tally(noise, _total(inside, cells), _total(outside, cells), inside.design.design_effect)


def _total(table: Counts, cells: Sequence[int]) -> Reals:
    return np.array([float(sum(table.noisy[cell] for cell in cells))])


def _verify_different(tables: Sequence[Counts]) -> None:
    if len({id(table) for table in tables}) < len(tables):
        raise ValueError("two groups of one table have noises that belong together; take groups of different tables")
