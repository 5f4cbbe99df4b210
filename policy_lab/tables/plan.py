"""How far one row can move each cell, how much Laplace noise follows from it, and the epsilon that the noise really has.

Neighbours have equally many rows and differ in one: what is replaced may stay in its cell, enter another or leave the table. `within`
and `across` bound those moves cell by cell. Everything is exact (fractions), and `real_epsilon` judges every plan by the same rule, a
published one too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias, get_args

from policy_lab.mechanisms.central import largest_pair
from policy_lab.tables.cells import Cells

Statistic: TypeAlias = Literal["count", "average", "total"]
Rule: TypeAlias = Literal["laplace", "bootstrap"]
Method: TypeAlias = Literal["one-sensitivity", "split", "public-membership"]
METHODS: tuple[Method, ...] = get_args(Method)
# Share that an average spends on its totals; its counts have the rest.
_TOTALS_SHARE = Fraction(1, 2)
Bounds: TypeAlias = tuple[Fraction, Fraction]


@dataclass(frozen=True, slots=True)
class Change:
    """The most that one row can change each cell: by another value in its cell, and by entering or leaving the cell."""

    within: Sequence[Fraction]
    across: Sequence[Fraction]

    @property
    def alone(self) -> Sequence[Fraction]:
        """The sensitivity of each cell if no other is published."""
        return [max(pair) for pair in zip(self.within, self.across, strict=True)]

    @property
    def whole(self) -> Fraction:
        """The sensitivity of the whole table: the sum of what one row changes."""
        return max(*self.within, largest_pair(self.across))


@dataclass(frozen=True, slots=True)
class Noisy:
    """One figure for each cell, a count or a total, with the scale of its noise; scale 0 is no noise."""

    figure: Literal["count", "total"]
    change: Change
    scales: Sequence[Fraction]


@dataclass(frozen=True, slots=True)
class Plan:
    """The draws for one table."""

    statistic: Statistic
    rule: Rule
    method: Method
    epsilon: Fraction
    as_published: bool
    bounds: Bounds | None
    # Origin from which every value is measured in totals.
    centre: Fraction
    noisy: Sequence[Noisy]

    @property
    def main(self) -> Noisy:
        """The figure that the statistic is made of."""
        return self.noisy[0]

    @property
    def counts_are_public(self) -> bool:
        """Whether an average divides by an exact number of members."""
        return len(self.noisy) == 1

    @property
    def real_epsilon(self) -> Fraction | None:
        """The epsilon of the whole answer under the rule's neighbours; None if no number is one."""
        if self.method == "public-membership" and not self.as_published:
            return within_epsilon(self.noisy)
        return real_epsilon(self.noisy)


def change_of(cells: Cells, figure: Literal["count", "total"], rule: Rule, bounds: Bounds | None) -> Change:
    """The change that one row can make: any value within public bounds, or under the bootstrap rule any row that the file has."""
    size = len(cells.parts)
    # The file's own rows are in these cells or outside; any other row may be where none is yet.
    elsewhere = size > 1 or (cells.outside > 0 if rule == "bootstrap" else cells.is_part)
    if figure == "count":
        present = [rule == "laplace" or len(part) > 0 for part in cells.parts]
        return Change([Fraction(0)] * size, [Fraction(elsewhere and here) for here in present])
    if rule == "laplace":
        low, high = _known(bounds)
        return Change([high - low] * size, [max(abs(low), abs(high)) if elsewhere else Fraction(0)] * size)
    within = [high - low for low, high in cells.ranges]
    across = [max(abs(low), abs(high)) if elsewhere else Fraction(0) for low, high in cells.ranges]
    return Change(within, across)


def plan(
    cells: Cells,
    statistic: Statistic,
    rule: Rule,
    method: Method,
    epsilon: Fraction,
    bounds: Bounds | None = None,
    *,
    as_published: bool = False,
    centre: Fraction | None = None,
) -> Plan:
    """The noise of one table. Requires bounds for the Laplace rule, except for counts.

    An average whose counts are noisy measures its totals from the middle of the bounds, or from another `centre`.
    """
    figure: Literal["count", "total"] = "count" if statistic == "count" else "total"
    scaled = published_scales if as_published else corrected_scales
    if statistic != "average":
        noisy = [_noisy(cells, figure, rule, bounds, lambda change: scaled(change, method, epsilon))]
        return Plan(statistic, rule, method, epsilon, as_published, bounds, Fraction(0), noisy)
    is_everybody = not cells.is_part
    if method == "public-membership" or is_everybody:
        noisy = [_noisy(cells, "total", rule, bounds, lambda change: scaled(change, method, epsilon))]
        return Plan(statistic, rule, method, epsilon, as_published, bounds, Fraction(0), noisy)
    if centre is None:
        centre = sum(_known(bounds), Fraction(0)) / 2 if rule == "laplace" else Fraction(0)
    about = None if bounds is None else (bounds[0] - centre, bounds[1] - centre)
    totals, counts = epsilon * _TOTALS_SHARE, epsilon * (1 - _TOTALS_SHARE)
    noisy = [
        _noisy(cells, "total", rule, about, lambda change: scaled(change, method, totals)),
        _noisy(cells, "count", rule, bounds, lambda change: scaled(change, method, counts)),
    ]
    return Plan(statistic, rule, method, epsilon, as_published, bounds, centre, noisy)


def corrected_scales(change: Change, method: Method, epsilon: Fraction) -> Sequence[Fraction]:
    """Scales whose epsilon is real: a row that moves changes two cells, however many the table has."""
    if method == "public-membership":
        return [each / epsilon for each in change.within]
    if method == "one-sensitivity":
        return [change.whole / epsilon] * len(change.within)
    touched = 2 if len(change.across) > 1 else 1
    return [max(stays, touched * moves) / epsilon for stays, moves in zip(change.within, change.across, strict=True)]


def published_scales(change: Change, method: Method, epsilon: Fraction) -> Sequence[Fraction]:
    """Scales as published: every sensitivity is a cell's largest value less its smallest, as if no row changed its cell."""
    if method == "one-sensitivity":
        return [max(change.within) / epsilon] * len(change.within)
    shares = len(change.within) if method == "split" else 1
    return [shares * each / epsilon for each in change.within]


def real_epsilon(noisy: Sequence[Noisy]) -> Fraction | None:
    """The largest loss that one replaced row can cause: in its cell, or in the two cells that it moves between."""
    stays = within_epsilon(noisy)
    moves = _losses(noisy, lambda change: change.across)
    if stays is None or moves is None:
        return None
    return max(stays, largest_pair(moves))


def within_epsilon(noisy: Sequence[Noisy]) -> Fraction | None:
    """The same if no row can change its cell: nobody's membership is protected."""
    losses = _losses(noisy, lambda change: change.within)
    return None if losses is None else max(losses)


def epsilon_alone(noisy: Noisy) -> Sequence[Fraction | None]:
    """The epsilon of each cell published by itself with its scale; None where no number is one."""
    return [_loss(change, scale) for change, scale in zip(noisy.change.alone, noisy.scales, strict=True)]


def moving_cells(noisy: Sequence[Noisy]) -> tuple[int, ...]:
    """The two cells between which a row loses most; one where there is no second."""
    moves = _losses(noisy, lambda change: change.across) or [Fraction(0)] * len(noisy[0].scales)
    return tuple(sorted(range(len(moves)), key=lambda at: (-moves[at], at))[:2])


def outlier_epsilon(noisy: Noisy, cells: Cells, value: Fraction) -> Fraction | None:
    """The largest epsilon towards somebody from outside the file who takes a row's place with this value, in any cell."""
    if min(noisy.scales) == 0:
        return None
    left = [moved / scale for moved, scale in zip(noisy.change.across, noisy.scales, strict=True)]
    most = sorted(range(len(left)), key=left.__getitem__, reverse=True)[:2]
    losses = []
    for at, ((low, high), scale) in enumerate(zip(cells.ranges, noisy.scales, strict=True)):
        losses.append(max(abs(value - low), abs(value - high)) / scale)
        losses += [abs(value) / scale + left[other] for other in most if other != at]
    return max(losses)


def _noisy(
    cells: Cells,
    figure: Literal["count", "total"],
    rule: Rule,
    bounds: Bounds | None,
    scaled: Callable[[Change], Sequence[Fraction]],
) -> Noisy:
    change = change_of(cells, figure, rule, bounds)
    return Noisy(figure, change, scaled(change))


def _losses(noisy: Sequence[Noisy], moved: Callable[[Change], Sequence[Fraction]]) -> Sequence[Fraction] | None:
    """Cost of one row's move in each cell, over all figures that are drawn for the cell."""
    losses = [Fraction(0)] * len(noisy[0].scales)
    for each in noisy:
        for at, (change, scale) in enumerate(zip(moved(each.change), each.scales, strict=True)):
            loss = _loss(change, scale)
            if loss is None:
                return None
            losses[at] += loss
    return losses


def _loss(change: Fraction, scale: Fraction) -> Fraction | None:
    if change == 0:
        return Fraction(0)
    return None if scale == 0 else change / scale


def _known(bounds: Bounds | None) -> Bounds:
    if bounds is None:
        raise ValueError("the Laplace rule needs public bounds")
    return bounds
