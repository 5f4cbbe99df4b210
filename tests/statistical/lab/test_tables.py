"""Tables of two real neighbouring files, told apart: the printed epsilon is never passed, the published one is.

A distinguisher errs once in a billion, a test of a law once in a hundred million; there are about twenty of them here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from unit.lab.farms import FARMS, asked

from broker_common.crypto.noise_stream import NoiseStream
from broker_common.privacy.discrete_laplace import probability
from policy_lab.mechanisms.distinguisher import epsilon_from_below
from policy_lab.tables.cells import Cells, tabulated
from policy_lab.tables.drawing import exact, replicates
from policy_lab.tables.plan import METHODS, Method, Plan, Rule, Statistic, plan
from policy_lab.tables.release import Grid, released

pytestmark = pytest.mark.statistical

SAMPLES = 100_000
BOUNDS = (Fraction(0), Fraction(1000))
Place = tuple[str, str]


def cells(leaves: tuple[Place, float] | None = None, enters: tuple[Place, float] | None = None) -> Cells:
    """The farms, with one row replaced by another."""
    rows = [(*place, value) for place, values in FARMS.items() for value in values]
    if leaves is not None and enters is not None:
        rows.remove((*leaves[0], leaves[1]))
        rows.append((*enters[0], enters[1]))
    status, kinds, values = zip(*rows, strict=True)
    return tabulated(list(status), list(kinds), np.array(values))


def losses(chosen: Plan, here: Cells, there: Cells, drawn: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much likelier each noisy table is under the one file than under the other, as a logarithm."""
    scales = np.array([float(scale) for scale in chosen.main.scales])
    one, other = (np.abs(drawn - exact(chosen, each)) / scales for each in (here, there))
    ratios: NDArray[np.float64] = np.round((other - one).sum(axis=1), 9)
    return ratios


def measured(chosen: Plan, here: Cells, there: Cells) -> float:
    """The mechanism of one file, applied to two."""
    random = np.random.default_rng(11)
    worlds = [losses(chosen, here, there, replicates(chosen, each, SAMPLES, random)) for each in (here, there)]
    return epsilon_from_below(*worlds).epsilon


# A row of a cell is replaced by the largest of another one: both are in the file, so the files are bootstrap neighbours.
SHARE_TRAD, SHARE_HIGH, OWNER_HIGH = ("share", "trad"), ("share", "high"), ("owner", "high")
MOVES = {
    "the two largest maxima": ((SHARE_HIGH, 600.0), (OWNER_HIGH, 1000.0)),
    "into the cell of the smallest range": ((SHARE_HIGH, 600.0), (SHARE_TRAD, 80.0)),
    "within a cell": ((OWNER_HIGH, 100.0), (OWNER_HIGH, 1000.0)),
}


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("rule", ["laplace", "bootstrap"])
@pytest.mark.parametrize("method", ["one-sensitivity", "split"])
@pytest.mark.parametrize("statistic", ["count", "total"])
def test_corrected_tables_never_pass_their_epsilon(move: str, rule: Rule, method: Method, statistic: Statistic) -> None:
    """Whatever row moves, the distinguisher stays below what is printed."""
    here, there = cells(), cells(*MOVES[move])
    chosen = plan(here, statistic, rule, method, Fraction(1), BOUNDS if statistic == "total" else None)
    assert chosen.real_epsilon is not None
    assert measured(chosen, here, there) <= chosen.real_epsilon <= 1


@pytest.mark.parametrize(
    ("method", "move", "least"),
    [
        ("one-sensitivity", "the two largest maxima", 1.4),
        ("split", "into the cell of the smallest range", 1.9),
        ("public-membership", "into the cell of the smallest range", 4),
    ],
)
def test_published_tables_pass_the_epsilon_that_they_name(method: Method, move: str, least: float) -> None:
    """A row that changes its cell gives them away, by as much as is printed and no more."""
    here, there = cells(), cells(*MOVES[move])
    chosen = plan(here, "total", "bootstrap", method, Fraction(1), as_published=True)
    assert chosen.real_epsilon is not None
    assert least < measured(chosen, here, there) <= chosen.real_epsilon


def test_published_tables_keep_it_if_membership_is_public() -> None:
    """As they say: values alone are protected."""
    chosen = plan(cells(), "total", "bootstrap", "public-membership", Fraction(1), as_published=True)
    assert 0.9 < measured(chosen, cells(), cells(*MOVES["within a cell"])) <= 1


@pytest.mark.parametrize("method", METHODS)
def test_an_outlier_who_joins_is_found(method: Method) -> None:
    """No bootstrap promise covers somebody with ten times the largest value: epsilon 1 says nothing to them."""
    chosen = plan(cells(), "total", "bootstrap", method, Fraction(1))
    assert measured(chosen, cells(), cells((OWNER_HIGH, 1000.0), (OWNER_HIGH, 10_000.0))) > 4


@pytest.mark.parametrize("epsilon", ["0.25", "1"])
def test_released_counts_have_the_law_of_the_exact_sampler(epsilon: str) -> None:
    """Chi-square of four thousand released counts; the scale is the whole number above 2 / epsilon. Error rate 1e-8."""
    question = replace(asked(), statistic="count", bounds=None, method="one-sensitivity", epsilon=Fraction(epsilon))
    table = cells()
    grid = Grid.checked(Fraction(1), question, table)
    stream = NoiseStream(bytes(32))
    drawn = Counter(int(released(question, table, grid, stream).answers[0] or 0) - 3 for _ in range(4000))
    scale = int(2 / Fraction(epsilon))
    wanted = {x: 4000 * float(probability(scale, x)) for x in range(-2 * scale, 2 * scale + 1)}
    seen = [drawn[x] for x in wanted]
    rest = 4000 - sum(wanted.values())
    assert stats.chisquare([*seen, 4000 - sum(seen)], [*wanted.values(), rest]).pvalue > 1e-8


def test_released_tables_have_their_epsilon() -> None:
    """Two files that differ in one value, their totals by the exact sampler: nearly the printed epsilon, and never more."""
    question = replace(asked(), method="public-membership", epsilon=Fraction(2), bounds=BOUNDS)
    here, there = (replace(cells(), parts=[np.array([value, 1, 2]), *cells().parts[1:]]) for value in (0.0, 1000.0))
    stream, grid = NoiseStream(bytes(32)), Grid.checked(Fraction(100), question, here)
    worlds = [
        [float(released(question, each, grid, stream).answers[0] or 0) for _ in range(8_000)] for each in (here, there)
    ]
    real = released(question, here, grid, stream).plan.real_epsilon
    assert real == 2
    assert 1.4 < epsilon_from_below(*worlds).epsilon <= real
