"""Intervals of estimates cover what they are about: 94 % everywhere, and 97 % at most away from the boundaries.

`make coverage` runs the whole grid; these are some cases of it, with its own code. Seeds are fixed, so that a result changes only with
the code. Under another seed, a method that covers exactly `LEAST` or exactly `MOST` everywhere would fail one of these tests with a
probability below `FALSE_ALARM_RATE`; at `REPETITIONS` a coverage below 90 % or above 99 % is noticed 999 times in 1,000.
"""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.coverage import LEAST, MOST, Case, Covered, Simulation
from benchmarks.noisy_tables import Table, draws
from scipy import stats

from broker_common.crypto.noise_stream import NoiseStream
from broker_common.privacy import table_laplace

pytestmark = pytest.mark.statistical

REPETITIONS = 3_000
FALSE_ALARM_RATE = 1e-4
CASES = (
    *(
        Case("share", scale, cells, ((people, share),))
        for scale, cells in ((2, 2), (30, 5))
        for people, share in (
            (0, 0.3),
            (1, 0.0),
            (10, 0.5),
            (1_000, 0.0),
            (1_000, 0.05),
            (100_000, 0.001),
            (100_000, 0.5),
        )
    ),
    *(
        Case(kind, 10, 2, groups)
        for kind in ("difference", "ratio")
        for groups in (((100, 0.05), (10_000, 0.3)), ((1_000, 0.05), (1_000, 0.3)), ((100_000, 0.05), (100_000, 0.05)))
    ),
    Case("rate ratio", 10, 2, ((1_000, 0.1), (1_000, 0.1))),
    Case("rate ratio", 30, 5, ((100_000, 0.01), (1_000_000, 0.01))),
    Case("standardised rate", 10, 2, ((1_000, 0.0), (10_000, 0.05), (1_000, 0.3))),
    Case("trend", 10, 2, ((1_000, 0.05), (10_000, 0.05), (1_000, 0.3))),
    Case("share", 10, 2, ((10_000, 0.05),), fraction=0.2),
    Case("share", 2, 2, ((10_000, 0.3),), clustered=True),
    Case("ratio", 10, 2, ((10_000, 0.3), (10_000, 0.3)), fraction=0.2, clustered=True),
)
_PART = FALSE_ALARM_RATE / (4 * len(CASES))
# How many covering repetitions are too few, and too many.
TOO_FEW = int(stats.binom.ppf(_PART, REPETITIONS, LEAST)) / REPETITIONS
TOO_MANY = int(stats.binom.isf(_PART, REPETITIONS, MOST)) / REPETITIONS


def holds(found: Covered) -> bool:
    """Whether neither promise is broken beyond chance."""
    return min(found.rates) >= TOO_FEW and not (found.is_away and max(found.rates) > TOO_MANY)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_intervals_cover(case: Case) -> None:
    """Both intervals, from nobody to a hundred thousand people."""
    found = Simulation(REPETITIONS, 1).run(case)
    assert holds(found), f"{found.noise_only}, {found.with_sampling}"


def of_the_mechanism(scale: float, cells: int, count: int, generator: np.random.Generator) -> Table:
    """As the census node draws it."""
    stream = NoiseStream(generator.bytes(32))
    return np.array([table_laplace.draw(cells, int(scale), stream) for _ in range(count)])


def test_intervals_cover_under_the_mechanisms_own_noise() -> None:
    """Nothing here is made for a law that only these tests draw from."""
    simulation = Simulation(REPETITIONS, 1, of_the_mechanism)
    for case in (Case("share", 30, 5, ((1_000, 0.3),)), Case("difference", 10, 2, ((1_000, 0.05), (1_000, 0.3)))):
        assert holds(simulation.run(case))


def wider(scale: float, cells: int, count: int, generator: np.random.Generator) -> Table:
    """Noise of a scale that is a quarter too large."""
    return draws(1.25 * scale, cells, count, generator)


def one_by_one(scale: float, cells: int, count: int, generator: np.random.Generator) -> Table:
    """The cells noised one by one, each at the table's scale: less noise, and none that belongs together."""
    return np.concatenate([draws(scale, 1, count, generator) for _ in range(cells)], axis=1)


@pytest.mark.parametrize("noise", [wider, one_by_one])
def test_noise_of_another_law_is_noticed(noise: type[object]) -> None:
    """The procedure that our intervals pass fails if the answer's noise is not what they are made for."""
    simulation = Simulation(REPETITIONS, 1, noise)  # type: ignore[arg-type]
    assert not holds(simulation.run(Case("share", 30, 2, ((100_000, 0.3),))))


def test_sampling_variance_that_is_left_out_is_noticed() -> None:
    """About the population the interval of noise alone says far too little; that of households needs their design effect."""
    population = Simulation(REPETITIONS, 1)
    case = Case("share", 2, 2, ((100_000, 0.3),))
    tally, truth = population.group(case, 0, sampled=True)
    without = tally.shares(sampled=False)
    assert np.mean((without.unit_low <= truth) & (truth <= without.unit_high)) < 0.5
    tally, truth = population.group(Case("share", 2, 2, ((100_000, 0.3),), clustered=True), 0, sampled=True)
    simple = tally.__class__(tally.noise, tally.part, tally.rest).shares(sampled=True)
    assert np.mean((simple.unit_low <= truth) & (truth <= simple.unit_high)) < TOO_FEW
