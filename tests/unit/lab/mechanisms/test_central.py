"""Sensitivities are the largest change between two neighbouring tables, found by trying them all."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np
import opendp.prelude as dp
import pytest

from broker_common.errors import InvalidRequestError
from policy_lab.mechanisms.central import Laplace, NoisyMean, contributions, largest_pair, sensitivity
from policy_lab.mechanisms.neighbours import Neighbours

dp.enable_features("contrib")

CAP, MULTIPLIER = 3, Fraction(5, 2)
NEXT_TO_NOTHING = Fraction(1, 10**12)
BOUNDS = ((2, 7), (-4, 3), (-9, -1))


def loss(component: Any, distance: float) -> float:
    """OpenDP's figure for what a mechanism spends, or how far a result moves; its own types are unknown here."""
    return float(component.map(distance))


class Row(NamedTuple):
    """A respondent: the stratum asked about or another, a value, a weight, whether the query's condition holds."""

    is_here: bool
    value: Fraction
    weight: Fraction
    fulfils: bool


def rows(low: int, high: int, weights: Sequence[Fraction], is_filtered: bool) -> list[Row]:
    """Every extreme row."""
    values = [Fraction(low), Fraction(high), Fraction(low + high, 2)]
    return [
        Row(*row) for row in itertools.product([True, False], values, weights, [True, False] if is_filtered else [True])
    ]


def pairs(rows: list[Row], neighbours: Neighbours) -> Iterator[tuple[list[Row], list[Row]]]:
    """Neighbouring tables, up to the rows that they share: those change neither a count nor a sum."""
    if neighbours is Neighbours.ADDED:
        yield from (([row], []) for row in rows)
        return
    for one, other in itertools.permutations(rows, 2):
        is_near = one.is_here == other.is_here
        if neighbours is Neighbours.ANSWERS_REPLACED:
            is_near = is_near and one.weight == other.weight
        if neighbours is Neighbours.REPLACED or is_near:
            yield [one], [other]


def count(table: list[Row]) -> Fraction:
    """The weighted count."""
    return sum((MULTIPLIER * row.weight for row in table if row.is_here and row.fulfils), Fraction(0))


def total(table: list[Row]) -> Fraction:
    """The weighted sum."""
    return sum((MULTIPLIER * row.weight * row.value for row in table if row.is_here and row.fulfils), Fraction(0))


def largest_change(query: Callable[[list[Row]], Fraction], tables: Iterator[tuple[list[Row], list[Row]]]) -> Fraction:
    """The sensitivity by definition."""
    return max(abs(query(one) - query(other)) for one, other in tables)


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("is_filtered", [True, False])
@pytest.mark.parametrize("is_weighted", [True, False])
@pytest.mark.parametrize("kind", ["count", "sum"])
def test_sensitivity_is_the_largest_change(
    bounds: tuple[int, int], neighbours: Neighbours, is_filtered: bool, is_weighted: bool, kind: Literal["count", "sum"]
) -> None:
    """Neither below it, which would break the promise, nor above it, which would waste accuracy."""
    weights = [Fraction(CAP), NEXT_TO_NOTHING] if is_weighted else [Fraction(1)]
    found = largest_change(count if kind == "count" else total, pairs(rows(*bounds, weights, is_filtered), neighbours))
    stated = sensitivity(
        kind,
        neighbours=neighbours,
        weight_cap=CAP if is_weighted else None,
        multiplier=MULTIPLIER,
        bounds=bounds,
        is_filtered=is_filtered,
    )
    if kind == "count" and found == 0:
        # The other row is counted for as much: the result is public, and the noise more than it need be.
        assert not is_filtered
        assert neighbours is Neighbours.ANSWERS_REPLACED or (
            neighbours is Neighbours.REPLACED_WITHIN and not is_weighted
        )
        return
    assert found <= stated <= found + 1000 * NEXT_TO_NOTHING


def test_a_mean_moves_by_its_share_of_the_range() -> None:
    """Divided by the public number of rows of its own stratum, not by all rows of the table."""
    mean = sensitivity("mean", neighbours=Neighbours.REPLACED_WITHIN, bounds=(1, 3), total=4)
    assert mean == Fraction(1, 2)
    weighted = sensitivity(
        "mean", neighbours=Neighbours.ANSWERS_REPLACED, weight_cap=CAP, multiplier=MULTIPLIER, bounds=(1, 3), total=100
    )
    assert weighted == CAP * MULTIPLIER * 2 / 100


@pytest.mark.parametrize("neighbours", [Neighbours.ADDED, Neighbours.REPLACED])
def test_a_divisor_that_may_change_is_not_public(neighbours: Neighbours) -> None:
    """A row that comes, goes or changes stratum changes the divisor, too."""
    with pytest.raises(InvalidRequestError, match="public divisor"):
        sensitivity("mean", neighbours=neighbours, bounds=(0, 1), total=10)
    with pytest.raises(InvalidRequestError, match="public divisor"):
        sensitivity("mean", neighbours=Neighbours.REPLACED_WITHIN, bounds=(0, 1), total=10, is_filtered=True)
    with pytest.raises(InvalidRequestError, match="public divisor"):
        sensitivity("mean", neighbours=Neighbours.REPLACED_WITHIN, bounds=(0, 1), total=10, weight_cap=CAP)


@pytest.mark.parametrize("divisor", [None, 0, -3])
def test_a_mean_needs_something_to_divide_by(divisor: int | None) -> None:
    """No divisor is made up from the data."""
    with pytest.raises(InvalidRequestError, match="public total"):
        sensitivity("mean", neighbours=Neighbours.REPLACED_WITHIN, bounds=(0, 1), total=divisor)


def test_sums_need_public_bounds() -> None:
    """Bounds are never taken from the data."""
    with pytest.raises(InvalidRequestError, match="public ones"):
        sensitivity("sum", neighbours=Neighbours.ADDED)


@pytest.mark.parametrize(("cap", "multiplier"), [(0, 1), (-1, 1), (1, 0), (-1, -1), (None, -2)])
def test_weights_cannot_be_bounded_by_nothing(cap: int | None, multiplier: int) -> None:
    """A cap or multiplier of 0 or less would need no noise."""
    with pytest.raises(InvalidRequestError, match="above 0"):
        sensitivity("count", neighbours=Neighbours.ADDED, weight_cap=cap, multiplier=multiplier)


def test_weights_above_the_cap_are_clipped() -> None:
    """The data are changed as the sensitivity assumes."""
    counted = contributions(np.asarray([0.5, 3.0, 1e308]), weight_cap=CAP, multiplier=MULTIPLIER)
    assert counted.tolist() == [1.25, 7.5, 7.5]
    assert contributions(np.asarray([]), weight_cap=CAP).tolist() == []


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf])
def test_a_weight_that_is_none_is_refused(weight: float) -> None:
    """The error says which kind of row it is, not what the row holds."""
    with pytest.raises(InvalidRequestError, match="weights must all be numbers above 0"):
        contributions(np.asarray([1.0, weight]), weight_cap=CAP)


def test_a_whole_table_moves_by_its_two_largest_cells() -> None:
    """A row of one cell may be replaced by a row of another: 32,130 on the farms, not the largest cell alone."""
    cells = [Fraction(cell) for cell in (9000, 3400, 3200, 17610, 12000, 8100, 14520, 705, 2000)]
    assert largest_pair(cells) == 32_130
    assert largest_pair(cells[:1]) == 9000


def test_nothing_to_hide_needs_no_noise() -> None:
    """At a sensitivity of 0 the result is exact."""
    noise = Laplace(0, 1.0)
    random = np.random.default_rng(1)
    assert noise.apply([3.0, 4.0], random).tolist() == [3.0, 4.0]
    assert noise.cdf(3.0, [2.9, 3.0, 3.1]).tolist() == [0.0, 1.0, 1.0]
    assert noise.apply([], random).shape == (0,)
    assert Laplace(1e-300, 1.0).cdf(0, [-1e300, 1e300]).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), 1e308])
def test_a_sensitivity_that_is_none_is_refused(value: float) -> None:
    """Noise of a negative or endless scale is none."""
    with pytest.raises(InvalidRequestError, match="sensitivity"):
        Laplace(value, 1.0)


def test_opendp_needs_the_same_noise() -> None:
    """Its Laplace mechanism spends, at our scale and sensitivity, our epsilon."""
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    for moved, epsilon in ((1, 0.1), (7.5, 1.0), (2000, 5.99)):
        measured = loss(dp.m.make_laplace(*space, scale=Laplace(moved, epsilon).scale), float(moved))
        assert measured == pytest.approx(epsilon)


def test_opendp_finds_the_same_sensitivity() -> None:
    """Sensitivities of bounded sums when a row comes or goes, and of sums and means of a known number of rows when one is replaced."""
    symmetric = dp.symmetric_distance()
    for low, high in BOUNDS:
        bounded = dp.vector_domain(dp.atom_domain(bounds=(low, high), T=int))
        sized = dp.vector_domain(dp.atom_domain(bounds=(low, high), T=int), size=50)
        assert loss(dp.t.make_sum(bounded, symmetric), 1) == sensitivity(
            "sum", neighbours=Neighbours.ADDED, bounds=(low, high)
        )
        assert loss(dp.t.make_sum(sized, symmetric), 2) == sensitivity(
            "sum", neighbours=Neighbours.REPLACED_WITHIN, bounds=(low, high)
        )
        floats = dp.vector_domain(dp.atom_domain(bounds=(float(low), float(high)), nan=False), size=50)
        assert loss(dp.t.make_mean(floats, symmetric), 2) == pytest.approx(
            float(sensitivity("mean", neighbours=Neighbours.REPLACED_WITHIN, bounds=(low, high), total=50))
        )


@pytest.mark.parametrize("neighbours", Neighbours)
def test_both_parts_of_a_noisy_mean_have_their_sensitivity(neighbours: Neighbours) -> None:
    """All extreme rows are tried: the sum of distances to the middle, and the sum of contributions."""
    low, high = 2, 7
    mean = NoisyMean((low, high), 1.0, neighbours, CAP, MULTIPLIER)
    tables = list(pairs(rows(low, high, [Fraction(CAP), NEXT_TO_NOTHING], is_filtered=True), neighbours))
    distances = largest_change(lambda table: total(table) - mean.middle * count(table), iter(tables))
    losses = (
        distances / Fraction(mean.of_sum.scale),
        largest_change(count, iter(tables)) / Fraction(mean.of_total.scale),
    )
    assert [float(loss) for loss in losses] == pytest.approx([mean.epsilon / 2] * 2)


def test_a_noisy_mean_is_near_the_mean_of_many_and_always_inside_its_bounds() -> None:
    """With a million people within a thousandth; with nobody anything inside the bounds."""
    mean = NoisyMean((2, 7), 1.0, Neighbours.REPLACED)
    random = np.random.default_rng(2)
    assert mean.apply(4.25, 1e6, random) == pytest.approx(4.25, abs=1e-3)
    of_nobody = mean.apply(np.full(1000, np.nan), np.zeros(1000), random)
    assert of_nobody.min() >= 2
    assert of_nobody.max() <= 7
