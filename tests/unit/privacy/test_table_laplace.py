"""The noise of a table: its exact law counted as fractions, its bits replayed from vectors, its margins, and the claim itself.

Counting goes layer by layer, as in test_discrete_laplace: uniform choices are followed over all their results, so that what is
compared are whole fractions; the radius is followed over the results of the functions below it, to four digits.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_common.crypto.noise_stream import NoiseStream
from broker_common.privacy import discrete_laplace, table_laplace
from broker_common.privacy.table_laplace import (
    add_noise,
    draw,
    largest_scale_within,
    margin,
    norm,
    point_of_ball,
    probability,
    sum_margin,
)
from broker_common.values import MOST_CELLS, ExactCounts, NoisyCounts

ExpSeries: TypeAlias = Callable[[Fraction], tuple[Fraction, Fraction]]
Vector: TypeAlias = tuple[int, ...]

VECTORS = Path(__file__).parents[2] / "vectors" / "table_laplace.json"
MOST_CHOICES = 50
WHOLE = 10**40
NEGLIGIBLE = 10**31
"""Where whole decisions are counted: parts that make up 1, and branches too thin to follow."""
RADIUS_ACCURACY = Fraction(1, 10**4)
PROBABILITY_ERROR = Fraction(1, 10**25)
"""What `probability` promises, relative."""
SERIES_ACCURACY = 1e-9
"""Of a law that is summed in floats, which decides no margin that is as close as this."""

CELLS = st.integers(1, MOST_CELLS)


# --- counting over choices -----------------------------------------------------------------------------------------------


class UndecidedError(Exception):
    """The run needs a choice that its script does not hold yet: these are the possible ones."""

    def __init__(self, choices: dict[int, Fraction]) -> None:
        super().__init__()
        self.choices = choices


class RestartError(Exception):
    """The draw starts again, in the state it began in."""


class Choices:
    """Stands in for a stream: each function that is proven elsewhere asks it for a result."""

    def __init__(self, script: Vector) -> None:
        self._script = iter(script)
        self.asked = 0

    def choose(self, choices: dict[int, Fraction]) -> int:
        """The next result in the script, or `UndecidedError`."""
        self.asked += 1
        for chosen in self._script:
            return chosen
        raise UndecidedError({result: chance for result, chance in choices.items() if chance})

    def bits(self, n: int) -> int:
        """All strings of n bits are equally likely."""
        return self.choose(dict.fromkeys(range(1 << n), Fraction(1, 1 << n)))


def uniform_choice(bound: int, choices: Choices) -> int:
    """In place of `uniform_below`."""
    return choices.choose(dict.fromkeys(range(bound), Fraction(1, bound)))


def masses(sample: Callable[[Choices], object]) -> dict[object, Fraction]:
    """The exact probability of each outcome over all choices, which are finitely many."""
    found: dict[object, Fraction] = defaultdict(Fraction)
    branches: list[tuple[Vector, Fraction]] = [((), Fraction(1))]
    while branches:
        script, mass = branches.pop()
        assert len(script) < MOST_CHOICES, "more is chosen than the method says"
        try:
            found[sample(Choices(script))] += mass
        except UndecidedError as undecided:
            branches += [((*script, result), mass * chance) for result, chance in undecided.choices.items()]
    return found


def thinned_masses(sample: Callable[[Choices], int]) -> tuple[dict[int, Fraction], Fraction]:
    """A lower bound for the probability of each outcome among runs that do not restart, and what is left over."""
    parts: dict[int, int] = defaultdict(int)
    restarted = 0
    branches: list[tuple[Vector, int]] = [((), WHOLE)]
    while branches:
        script, mass = branches.pop()
        try:
            parts[sample(Choices(script))] += mass
        except RestartError:
            restarted += mass
        except UndecidedError as undecided:
            shares = ((r, mass * chance.numerator // chance.denominator) for r, chance in undecided.choices.items())
            branches += [((*script, result), share) for result, share in shares if share > NEGLIGIBLE]
    finished = WHOLE - restarted
    return {n: Fraction(part, finished) for n, part in parts.items()}, 1 - Fraction(sum(parts.values()), finished)


def ball(cells: int, radius: int) -> list[Vector]:
    """Every vector that so many steps reach, by looking at all."""
    around = range(-radius, radius + 1)
    return [z for z in product(around, repeat=cells) if steps_to(z) <= radius]


def steps_to(z: Iterable[int]) -> int:
    """The norm, by walking: a step changes one count by 1, or moves a person from one cell to another."""
    up, down = 0, 0
    for part in z:
        up, down = (up + part, down) if part > 0 else (up, down - part)
    moved = min(up, down)
    return moved + (up - moved) + (down - moved)


def points(cells: int, radius: int) -> int:
    """How many z have norm(z) <= radius: j parts above zero, the others at or below it."""
    return sum(
        math.comb(cells, j) * math.comb(radius, j) * math.comb(radius + cells - j, cells - j) for j in range(cells + 1)
    )


@pytest.mark.parametrize("bound", range(1, 6))
@pytest.mark.parametrize("size", range(6))
def test_every_subset_has_the_same_probability(monkeypatch: pytest.MonkeyPatch, size: int, bound: int) -> None:
    """Exactly; and no set of another size, nor one with another number in it."""
    if size > bound:
        return
    monkeypatch.setattr(table_laplace, "uniform_below", uniform_choice)
    found = masses(lambda choices: tuple(table_laplace._subset(size, bound, choices)))
    subsets = list(itertools.combinations(range(1, bound + 1), size))
    assert found == dict.fromkeys(subsets, Fraction(1, len(subsets)))


@pytest.mark.parametrize("weights", [[1], [1, 1], [0, 3, 0, 1], [1, 4, 1], [7, 0, 10**40]])
def test_a_pick_has_exactly_its_weight(monkeypatch: pytest.MonkeyPatch, weights: list[int]) -> None:
    """As fractions, with integers of any size: the ends of each stretch are looked at where all cannot be."""
    whole = sum(weights)
    sums = [0, *itertools.accumulate(weights)]
    for place, (first, last) in enumerate(pairwise(sums)):
        for x in {first, (first + last) // 2, last - 1} if first < last else set():
            monkeypatch.setattr(table_laplace, "uniform_below", lambda bound, _, x=x: x if bound == whole else -1)
            assert table_laplace._pick(weights, NoiseStream(bytes(32))) == place


@pytest.mark.parametrize(
    ("cells", "radius"), [(2, 0), (2, 1), (2, 2), (2, 3), (2, 6), (3, 0), (3, 1), (3, 2), (3, 3), (4, 1)]
)
def test_of_a_ball_every_point_has_the_same_probability(
    monkeypatch: pytest.MonkeyPatch, cells: int, radius: int
) -> None:
    """Exactly: given the radius, over all choices that are made, none is favoured and none is left out."""
    monkeypatch.setattr(table_laplace, "uniform_below", uniform_choice)
    points = ball(cells, radius)
    assert masses(lambda choices: point_of_ball(cells, radius, choices)) == dict.fromkeys(
        points, Fraction(1, len(points))
    )


@pytest.mark.parametrize(("cells", "scale"), [(2, 1), (2, 2), (3, 1)])
def test_a_draw_is_exact_given_exact_layers_below(
    exp_series: ExpSeries, monkeypatch: pytest.MonkeyPatch, cells: int, scale: int
) -> None:
    """Over all results of the layers below, each vector of a small grid has the probability of the closed form.

    A vector is drawn at each radius that reaches it, as one of all points of that ball. A restart returns to the first state, so a
    radius has its share among the runs that do not restart.
    """
    q = Fraction(int(exp_series(Fraction(-1, scale))[0] * WHOLE), WHOLE)

    def first_uniform(bound: int, choices: Choices) -> int:
        if choices.asked:
            raise RestartError
        return uniform_choice(bound, choices)

    def exponential(a: int, d: int, choices: Choices) -> bool:
        assert (a, d) == (1, scale)
        return bool(choices.choose({True: q, False: 1 - q}))

    def geometric_choice(asked: int, choices: Choices) -> int:
        assert asked == scale
        return choices.choose(sizes)

    sizes = {k: Fraction(int((1 - q) * q**k * WHOLE), WHOLE) for k in range(40 * scale)}

    monkeypatch.setattr(table_laplace, "uniform_below", first_uniform)
    monkeypatch.setattr(table_laplace, "bernoulli_exp", exponential)
    monkeypatch.setattr(table_laplace, "geometric", geometric_choice)
    found, left_out = thinned_masses(lambda choices: table_laplace._radius(cells, scale, choices))
    assert left_out < RADIUS_ACCURACY
    for z in ball(cells, 4):
        drawn = sum(mass / points(cells, radius) for radius, mass in found.items() if radius >= steps_to(z))
        exact = Fraction(probability(scale, z))
        assert abs(drawn - exact) <= left_out + exact * RADIUS_ACCURACY


# --- the same noise for ever -----------------------------------------------------------------------------------------------


class Reference:
    """FORMAT.md's method over the standard library's SHAKE256, one bit at a time: shares no code with ours."""

    def __init__(self, seed: bytes, scale: int) -> None:
        digest = hashlib.shake_256(seed).digest(1 << 16)
        self._source = (byte >> shift & 1 for byte in digest for shift in range(7, -1, -1))
        self._scale = scale

    def noise(self, cells: int) -> Vector:
        """The next draw."""
        return (self._one(),) if cells == 1 else self._several(cells)

    def _one(self) -> int:
        while True:
            magnitude, sign = self._size(), next(self._source)
            if magnitude or not sign:
                return (1 - 2 * sign) * magnitude

    def _several(self, cells: int) -> Vector:
        while True:
            i = self._choice([ways(cells, i) ** 2 for i in range(cells + 1)])
            if all(self._survives(1, self._scale) for _ in range(i)):
                break
        radius = i + sum(self._size() for _ in range(cells + 1))
        above = self._choice(
            [ways(cells, j) * ways(radius, j) * ways(radius + cells - j, cells - j) for j in range(cells + 1)]
        )
        places = self._subset(above, cells)
        others = [place for place in range(1, cells + 1) if place not in places]
        z = [0] * cells
        before = 0
        for place, member in zip(places, self._subset(above, radius), strict=True):
            z[place - 1], before = member - before, member
        before = 0
        for place, member in zip(others, self._subset(cells - above, radius + cells - above), strict=True):
            z[place - 1], before = -(member - before - 1), member
        return tuple(z)

    def _below(self, bound: int) -> int:
        while True:
            value = 0
            for _ in range(len(f"{bound - 1:b}") if bound > 1 else 0):
                value = 2 * value + next(self._source)
            if value < bound:
                return value

    def _survives(self, numerator: int, denominator: int) -> bool:
        failed_at = next(k for k in itertools.count(1) if not self._below(denominator * k) < numerator)
        return bool(failed_at & 1)

    def _size(self) -> int:
        while True:
            u = self._below(self._scale)
            if self._survives(u, self._scale):
                return u + self._scale * next(v for v in itertools.count() if not self._survives(1, 1))

    def _choice(self, weights: list[int]) -> int:
        x = self._below(sum(weights))
        return next(i for i in range(len(weights)) if sum(weights[: i + 1]) > x)

    def _subset(self, k: int, n: int) -> list[int]:
        members: list[int] = []
        for t in range(n - k + 1, n + 1):
            r = 1 + self._below(t)
            members.append(t if r in members else r)
        return sorted(members)


def ways(n: int, k: int) -> int:
    """How many k of n there are."""
    return math.prod(range(n - k + 1, n + 1)) // math.prod(range(1, k + 1))


@pytest.mark.parametrize("vector", json.loads(VECTORS.read_text(encoding="utf-8"))["vectors"])
def test_recorded_seeds_give_the_recorded_draws(vector: dict[str, object]) -> None:
    """An auditor redraws the same noise from the same seed in every release, and so does a second implementation."""
    seed, scale, cells = bytes.fromhex(str(vector["seed"])), int(str(vector["scale"])), int(str(vector["cells"]))
    draws = vector["draws"]
    assert isinstance(draws, list)
    stream, reference = NoiseStream(seed), Reference(seed, scale)
    assert [list(draw(cells, scale, stream)) for _ in draws] == draws
    assert [list(reference.noise(cells)) for _ in draws] == draws


@given(seed=st.binary(min_size=32, max_size=32), scale=st.integers(2, 10**12), cells=CELLS)
def test_the_reading_order_of_bits_is_the_documented_one(seed: bytes, scale: int, cells: int) -> None:
    """For any seed, scale and number of cells the draw is that of the written method."""
    stream, reference = NoiseStream(seed), Reference(seed, scale)
    assert [draw(cells, scale, stream) for _ in range(3)] == [reference.noise(cells) for _ in range(3)]


@given(seed=st.binary(min_size=32, max_size=32), scale=st.integers(1, 1000))
def test_one_cell_has_the_noise_that_it_always_had(seed: bytes, scale: int) -> None:
    """Answers of before tables are redrawn from the same bits."""
    stream, former = NoiseStream(seed), NoiseStream(seed)
    assert [draw(1, scale, stream) for _ in range(3)] == [(discrete_laplace.draw(scale, former),) for _ in range(3)]
    assert stream.bits(64) == former.bits(64)


@pytest.mark.parametrize(("cells", "scale"), [(0, 30), (17, 30), (2, 0), (2, -1)])
def test_no_noise_is_drawn_for_nonsense(cells: int, scale: int) -> None:
    """Scale 0 would be no noise at all, and no answer has 17 cells."""
    for figure in (lambda: draw(cells, scale, NoiseStream(bytes(32))), lambda: margin(scale, cells)):
        with pytest.raises(ValueError, match=r"at least 1|1 to 16"):
            figure()


def test_a_failing_stream_yields_no_noise() -> None:
    """When the bits run out the error passes through: no default, no truncated value."""

    class Exhausted:
        def bits(self, n: int) -> int:
            raise EOFError(n)

    with pytest.raises(EOFError):
        draw(4, 30, Exhausted())


# --- answers -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cells", [1, 2, 16])
def test_an_answer_is_the_counts_plus_one_draw_and_never_clamped(cells: int) -> None:
    """One draw for all cells together, added in their order, also where a number turns negative."""
    answers = []
    counts = [3 + number for number in range(cells)]
    for index in range(20):
        seed = index.to_bytes(32, "big")
        noise = draw(cells, 30, NoiseStream(seed))
        answers.append(add_noise(ExactCounts(counts), 30, NoiseStream(seed)))
        assert answers[-1] == NoisyCounts(tuple(map(sum, zip(counts, noise, strict=True))))
    assert min(min(each.values) for each in answers) < 0 < max(max(each.values) for each in answers)


def steps(cells: int) -> list[Vector]:
    """Changes that one person's record can make: there or not, or in another cell."""
    one = [tuple(int(i == j) for j in range(cells)) for i in range(cells)]
    moved = [tuple(a - b for a, b in zip(x, y, strict=True)) for x in one for y in one if x != y]
    return [*one, *(tuple(-part for part in x) for x in one), *moved]


@pytest.mark.parametrize(("cells", "farthest"), [(1, 30), (2, 9), (3, 4), (4, 2)])
def test_one_record_moves_the_norm_by_at_most_one_exactly(cells: int, farthest: int) -> None:
    """The claim in integers, everywhere near 0: P(z) is q**norm(z) times a constant, so the ratio is q**0 or q**+-1."""
    around = range(-farthest, farthest + 1)
    for z in product(around, repeat=cells):
        assert norm(z) == steps_to(z)
        for step in steps(cells):
            assert abs(norm(z) - norm([a - b for a, b in zip(z, step, strict=True)])) <= 1
    assert {norm(step) for step in steps(cells)} == {1}


@given(data=st.data(), scale=st.integers(1, 1000), cells=CELLS)
def test_one_record_changes_no_probability_by_more_than_the_price(
    exp_series: ExpSeries, data: st.DataObject, scale: int, cells: int
) -> None:
    """The claim itself: whatever cells a person is in, or in none, every answer's odds move by at most e**(1/scale)."""
    z = data.draw(st.lists(st.integers(-500, 500), min_size=cells, max_size=cells))
    step = data.draw(st.sampled_from(steps(cells)))
    moved = [a - b for a, b in zip(z, step, strict=True)]
    here, there = Fraction(probability(scale, z)), Fraction(probability(scale, moved))
    limit = exp_series(Fraction(1, scale))[1] * (1 + 3 * PROBABILITY_ERROR)
    assert here <= limit * there
    assert there <= limit * here


@given(data=st.data(), cells=CELLS)
def test_the_records_of_a_household_move_the_norm_by_at_most_as_many(data: st.DataObject, cells: int) -> None:
    """K people are k steps, in whatever cells they are: a household is charged for each of its people."""
    z = data.draw(st.lists(st.integers(-50, 50), min_size=cells, max_size=cells))
    taken = data.draw(st.lists(st.sampled_from(steps(cells)), max_size=6))
    moved = [part - sum(step[cell] for step in taken) for cell, part in enumerate(z)]
    assert abs(norm(z) - norm(moved)) <= len(taken)


# --- the law in figures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cells", range(1, MOST_CELLS + 1))
def test_probabilities_sum_to_one(cells: int) -> None:
    """Shell by shell, as far as anything counts: all vectors of one norm have one probability."""
    shells = [points(cells, radius) - points(cells, radius - 1) for radius in range(1, 300)]
    chances = [probability(2, (radius, *[0] * (cells - 1))) for radius in range(300)]
    whole = sum(map(Decimal.__mul__, map(Decimal, [1, *shells]), chances), Decimal(0))
    assert abs(whole - 1) < Decimal("1e-20")


@given(scale=st.integers(1, 10**30), multiple=st.fractions(min_value=-60, max_value=60))
def test_of_one_cell_the_probability_is_the_former_one(scale: int, multiple: Fraction) -> None:
    """The closed form for d = 1 is the discrete Laplace law."""
    x = int(scale * multiple)
    former = Fraction(discrete_laplace.probability(scale, x))
    assert abs(Fraction(probability(scale, (x,))) - former) <= 2 * PROBABILITY_ERROR * former


def test_no_probability_is_tabulated_beyond_its_accuracy() -> None:
    """A scale whose digits would be lost is refused."""
    for scale in (0, 10**30 + 1):
        with pytest.raises(ValueError, match="a scale is at"):
            probability(scale, (0, 0))


@pytest.mark.parametrize("cells", range(1, MOST_CELLS + 1))
def test_points_are_counted_alike_in_both_ways(cells: int) -> None:
    """Counted by where the sampler picks them, and by the squares that the radius is drawn with: both polynomials have degree d."""
    for radius in range(2 * cells + 2):
        squares = range(min(cells, radius) + 1)
        assert points(cells, radius) == sum(
            math.comb(cells, i) ** 2 * math.comb(radius - i + cells, cells) for i in squares
        )
    if cells <= 4:
        for radius in range(4):
            assert points(cells, radius) == len(ball(cells, radius))


@pytest.mark.parametrize("cells", [1, 2, 3, 4])
def test_the_sum_of_all_cells_has_the_law_of_a_cell_exactly(cells: int) -> None:
    """At every distance as many vectors have the sum x as have x in a given cell."""
    for radius in range(5 if cells < 4 else 3):
        inside = ball(cells, radius)
        sums = Counter(sum(z) for z in inside)
        assert all(Counter(z[cell] for z in inside) == sums for cell in range(cells))
    assert sum_margin(30, cells) == margin(30, cells)


def law_of_a_cell(scale: int, cells: int) -> dict[int, float]:
    """P(noise of a cell = x): r**|x| times that of d discrete Laplace values of twice the scale with the sum -x.

    Because the vector and the negative of its sum are d + 1 such values, given that they sum to 0. A value is a difference of
    two geometric ones, so that d of them are the difference of two sums, `steps`.
    """
    r, farthest = math.exp(-1 / (2 * scale)), 60 * scale
    steps = np.ones(1)
    for k in range(1, 2 * farthest):
        steps = np.append(steps, steps[-1] * r * (k + cells - 1) / k)
    sums = np.correlate(steps, steps, mode="full")[len(steps) - 1 :][: farthest + 1]
    weights = (sums * r ** np.arange(farthest + 1)).tolist()
    whole = weights[0] + 2 * math.fsum(weights[1:])
    return {x: weights[abs(x)] / whole for x in range(-farthest, farthest + 1)}


@pytest.mark.parametrize(("cells", "expected"), [(1, 42.4), (2, 54.8), (3, 61.5), (4, 65.7), (6, 70.8), (12, 77.0)])
def test_standard_deviations_at_scale_30_are_those_of_the_documents(cells: int, expected: float) -> None:
    """From the law of a cell, which is that of the sum of all cells."""
    law = law_of_a_cell(30, cells)
    assert round(math.sqrt(math.fsum(x * x * chance for x, chance in law.items())), 1) == expected


@pytest.mark.parametrize(
    ("scale", "cells", "expected"),
    [
        *((scale, 1, expected) for scale, expected in [(1, 3), (2, 6), (10, 30), (30, 90), (50, 150), (1000, 2996)]),
        *((30, cells, expected) for cells, expected in [(2, 114), (3, 129), (4, 138), (6, 149), (12, 163), (16, 167)]),
        (50, 16, 278),
    ],
)
def test_margins_at_95_percent_are_pinned(scale: int, cells: int, expected: int) -> None:
    """The figures that a quote states."""
    assert margin(scale, cells) == sum_margin(scale, cells) == expected


@given(
    scale=st.integers(1, 2000),
    confidence=st.fractions(min_value=Fraction(1, 1000), max_value=Fraction(999, 1000), max_denominator=1000),
)
def test_a_margin_of_one_cell_is_the_smallest_that_keeps_the_confidence(
    exp_series: ExpSeries, scale: int, confidence: Fraction
) -> None:
    """The noise stays within m often enough and within m-1 not often enough, by the Taylor witness."""
    m = margin(scale, 1, confidence)
    q_low, q_high = exp_series(Fraction(-1, scale))
    assert 2 * exp_series(Fraction(-(m + 1), scale))[0] / (1 + q_high) <= 1 - confidence
    assert m == 0 or 2 * exp_series(Fraction(-m, scale))[1] / (1 + q_low) > 1 - confidence


@pytest.mark.parametrize("cells", [2, 3, 5, 16])
@pytest.mark.parametrize("scale", [1, 2, 7])
def test_a_margin_of_several_cells_is_the_smallest_that_keeps_the_confidence(scale: int, cells: int) -> None:
    """Summed by another form of the law: within m often enough, within m-1 not often enough."""
    law = law_of_a_cell(scale, cells)
    for confidence in (Fraction(1, 2), Fraction(19, 20), Fraction(999, 1000)):
        m = margin(scale, cells, confidence)
        inside = [math.fsum(law[x] for x in range(-most, most + 1)) for most in (m - 1, m)]
        assert inside[0] < confidence + SERIES_ACCURACY
        assert inside[1] > confidence - SERIES_ACCURACY


@pytest.mark.parametrize("scale", [1, 30, 1000])
def test_a_confidence_a_hair_from_a_margin_is_decided_rightly(exp_series: ExpSeries, scale: int) -> None:
    """Just below P(|noise| <= m) the margin is m, just above it is m+1: the precision rises until that is certain."""
    m = 3 * scale
    (q_low, q_high), (power_low, power_high) = exp_series(Fraction(-1, scale)), exp_series(Fraction(-(m + 1), scale))
    assert margin(scale, 1, 1 - 2 * power_high / (1 + q_low)) == m
    assert margin(scale, 1, 1 - 2 * power_low / (1 + q_high)) == m + 1
    # Tail of two cells: 2 q**(m+1) (m + 2 - (m-1) q) / (1 + 4q + q*q).
    most = 2 * power_high * (m + 2 - (m - 1) * q_low) / (1 + 4 * q_low + q_low**2)
    least = 2 * power_low * (m + 2 - (m - 1) * q_high) / (1 + 4 * q_high + q_high**2)
    assert most - least < Fraction(1, 10**100)
    assert margin(scale, 2, 1 - most) == m
    assert margin(scale, 2, 1 - least) == m + 1


@pytest.mark.parametrize(
    ("scale", "confidence"), [(0, Fraction(1, 2)), (-1, Fraction(1, 2)), (30, Fraction(0)), (30, Fraction(1))]
)
def test_no_margin_is_given_for_nonsense(scale: int, confidence: Fraction) -> None:
    """Certainty has no margin: the noise is unbounded."""
    with pytest.raises(ValueError, match=r"at least 1|strictly between"):
        margin(scale, 1, confidence)


@pytest.mark.parametrize(
    ("wanted", "scales", "cells", "expected"),
    [
        (90, range(1, 51), 1, 30),
        (89, range(1, 51), 1, 29),
        (2, range(1, 51), 1, None),
        (10**9, (10, 50, 20), 1, 50),
        (90, (50, 7, 20, 40), 1, 20),
        (90, (), 1, None),
        (114, range(1, 51), 2, 30),
        (90, range(1, 51), 16, 16),
        (4, range(1, 51), 16, None),
    ],
)
def test_a_wanted_margin_picks_the_cheapest_scale(
    wanted: int, scales: Iterable[int], cells: int, expected: int | None
) -> None:
    """The largest admissible scale within the margin, whatever the order of the list, or none."""
    assert largest_scale_within(wanted, scales, cells) == expected
