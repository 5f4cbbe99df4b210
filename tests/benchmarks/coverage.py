"""How often the intervals of estimates cover the truth: `make coverage`, or `python -m benchmarks.coverage`.

Groups of people are made up with a known share; noise of the exact law is added to their counts, and it is counted how often each
interval holds the truth. For noise_only the truth is the share among exactly the people counted; for with_sampling it is the share of
the population that they are drawn from anew in every repetition. Groups are everything from nobody to 100,000 people, with shares
from 0 to 1, at scales from 2 to 50, in tables of 2 and of 5 cells.

The promise: at least 94 % everywhere; at most 97 % away from the boundaries. Away means that the part and the rest of each share
that takes part are at least `AWAY` standard deviations of their own noise. Nearer to 0 no method that never says an impossible
number can keep to 95 %: half of the misses would be on the side where nothing can be.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from benchmarks.noisy_tables import Table, draws
from numpy.typing import NDArray

from researcher_node.estimates.fieller import Tally
from researcher_node.estimates.law import Reals, critical_values, one_table
from researcher_node.estimates.recombined import Ends, correlation, of_ratio, of_share, of_sum
from researcher_node.estimates.tables import slope_coefficients

LEAST = 0.94
MOST = 0.97
AWAY = 4
PEOPLE = (0, 1, 10, 100, 1_000, 10_000, 100_000)
SHARES = (0.0, 0.001, 0.05, 0.3, 0.5, 1.0)
SCALES = (2, 10, 30, 50)
CELLS = (2, 5)
# Members of a household, and how often all of them have the same value because they are one household.
HOUSEHOLD, ALIKE = 4, 0.3
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Case:
    """Groups as (people, share), asked with tables of so many cells at a scale."""

    kind: str
    scale: int
    cells: int
    groups: tuple[tuple[int, float], ...]
    # Probability of each person to be in the sample, and whether households are drawn whole.
    fraction: float = 1.0
    clustered: bool = False

    @property
    def name(self) -> str:
        groups = ", ".join(f"{people:,} x {share:g}" for people, share in self.groups)
        design = f", fraction {self.fraction:g}" if self.fraction < 1 else ""
        return f"{self.kind}: {groups}; scale {self.scale}, {self.cells} cells{design}{', households' * self.clustered}"


@dataclass(frozen=True, slots=True)
class Covered:
    """How often the two intervals covered the truth, and how often they told anything; None where there is no truth."""

    case: Case
    noise_only: float | None
    with_sampling: float | None
    told: float
    is_away: bool

    @property
    def rates(self) -> list[float]:
        return [rate for rate in (self.noise_only, self.with_sampling) if rate is not None]


class Simulation:
    """Repetitions of one case after another. `noise` can be another law than the right one, to see that this is noticed."""

    def __init__(
        self, repetitions: int, seed: int, noise: Callable[[float, int, int, np.random.Generator], Table] = draws
    ) -> None:
        self._repetitions = repetitions
        self._generator = np.random.default_rng(seed)
        self._noise = noise

    def run(self, case: Case) -> Covered:
        """One case."""
        noise_only, _ = self._covered(case, sampled=False)
        with_sampling, told = self._covered(case, sampled=True)
        return Covered(case, noise_only, with_sampling, told, self._is_away(case))

    def _covered(self, case: Case, *, sampled: bool) -> tuple[float | None, float]:
        """How often one of the intervals holds the truth, and how often it tells anything."""
        ends, truth = _KINDS[case.kind](self, case, sampled)
        least, most = _WHOLE.get(case.kind, (0.0, 1.0))
        told = float(np.mean((ends.low > least) | (ends.high < most)))
        holds = (ends.low <= truth + _ROUNDING) & (truth - _ROUNDING <= ends.high)
        return None if np.isnan(truth).any() else float(holds.mean()), told

    def group(self, case: Case, index: int, *, sampled: bool) -> tuple[Tally, Reals]:
        """The counts of a group, and its true share."""
        people, share = case.groups[index]
        part, everyone = self._people(case, people, share, sampled=sampled)
        noise = self._noise(case.scale, case.cells, self._repetitions, self._generator)
        law = critical_values((case.scale, case.cells, 1, case.cells - 1))
        counted = Tally(
            law, part + noise[:, 0], everyone - part + noise[:, 1:].sum(axis=1), _design_effect(case, sampled=sampled)
        )
        truth = np.full(self._repetitions, share)
        return counted, truth if sampled else np.where(everyone > 0, part / np.maximum(everyone, 1), truth)

    def _people(self, case: Case, people: int, share: float, *, sampled: bool) -> tuple[Reals, Reals]:
        """How many are of the part, and how many there are, in each repetition."""
        size = self._repetitions
        if not sampled:
            whole = round(people * case.fraction)
            return np.full(size, float(round(whole * share))), np.full(size, float(whole))
        everyone: NDArray[np.int64] = self._generator.binomial(people, case.fraction, size)
        if not case.clustered:
            return self._generator.binomial(everyone, share).astype(float), everyone.astype(float)
        households = everyone // HOUSEHOLD
        alike = self._generator.binomial(households, ALIKE)
        part = HOUSEHOLD * self._generator.binomial(alike, share) + self._generator.binomial(
            everyone - HOUSEHOLD * alike, share
        )
        return part.astype(float), everyone.astype(float)

    def rates(self, case: Case, *, sampled: bool) -> tuple[Tally, Tally, Reals, Reals]:
        """Counts of two rates from the tables inside and outside, and the rates; groups are part and against."""
        inside, outside = (self._noise(case.scale, case.cells, self._repetitions, self._generator) for _ in range(2))
        tallies, truths = [], []
        for (people, share), cells in zip(case.groups, ([0], list(range(1, case.cells))), strict=True):
            met, everyone = self._people(case, people, share, sampled=sampled)
            law = critical_values((case.scale, case.cells, len(cells), case.scale, case.cells, len(cells)))
            tallies.append(
                Tally(
                    law,
                    met + inside[:, cells].sum(axis=1),
                    everyone - met + outside[:, cells].sum(axis=1),
                    _design_effect(case, sampled=sampled),
                )
            )
            truths.append(np.full(self._repetitions, share) if sampled else met / everyone)
        return tallies[0], tallies[1], truths[0], truths[1]

    def _is_away(self, case: Case) -> bool:
        if case.kind == "rate ratio":
            laws = [_noise_deviations(case.scale, case.cells, cells)[:1] * 2 for cells in (1, case.cells - 1)]
        else:
            laws = [_noise_deviations(case.scale, case.cells, 1)] * len(case.groups)
        return all(
            min(people * case.fraction * share / part, people * case.fraction * (1 - share) / rest) >= AWAY
            for (people, share), (part, rest) in zip(case.groups, laws, strict=True)
        )


def _noise_deviations(scale: int, cells: int, part: int) -> tuple[float, float]:
    first, second, _ = one_table(scale, cells, part, cells - part).variances
    return math.sqrt(first), math.sqrt(second)


def _design_effect(case: Case, *, sampled: bool) -> float:
    return 1 + (HOUSEHOLD - 1) * ALIKE if case.clustered and sampled else 1.0


# --- kinds of estimates ----------------------------------------------------------------------------------------------


def _share(simulation: Simulation, case: Case, sampled: bool) -> tuple[Ends, Reals]:
    counted, truth = simulation.group(case, 0, sampled=sampled)
    return of_share(counted, sampled=sampled), truth


def _sum_with(coefficients: Callable[[int], Sequence[float]]) -> Callable[[Simulation, Case, bool], tuple[Ends, Reals]]:
    def estimate(simulation: Simulation, case: Case, sampled: bool) -> tuple[Ends, Reals]:
        factors = coefficients(len(case.groups))
        groups = [simulation.group(case, index, sampled=sampled) for index in range(len(case.groups))]
        truth = sum((c * share for c, (_, share) in zip(factors, groups, strict=True)), np.zeros(1))
        used = [(counted, c) for (counted, _), c in zip(groups, factors, strict=True) if c]
        return of_sum([counted for counted, _ in used], [c for _, c in used], sampled=sampled), truth

    return estimate


def _standard(groups: int) -> list[float]:
    """Weights that fall by half from group to group, at first."""
    weights = [1 / (1 + index) for index in range(groups)]
    return [weight / sum(weights) for weight in weights]


def _ratio(simulation: Simulation, case: Case, sampled: bool) -> tuple[Ends, Reals]:
    (a, a_share), (b, b_share) = (simulation.group(case, index, sampled=sampled) for index in (0, 1))
    return of_ratio(a, b, np.zeros_like(a.part), sampled=sampled), _divided(a_share, b_share)


def _rate_ratio(simulation: Simulation, case: Case, sampled: bool) -> tuple[Ends, Reals]:
    a, b, a_rate, b_rate = simulation.rates(case, sampled=sampled)
    both = one_table(case.scale, case.cells, 1, case.cells - 1).variances[2]
    return of_ratio(a, b, correlation(a, b, both, both, sampled=sampled), sampled=sampled), _divided(a_rate, b_rate)


def _divided(a: Reals, b: Reals) -> Reals:
    """Nan for 0 / 0; nothing but infinity covers a number above 0 divided by 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Reals = a / b
    return found


_KINDS: dict[str, Callable[[Simulation, Case, bool], tuple[Ends, Reals]]] = {
    "share": _share,
    "difference": _sum_with(lambda _: (1.0, -1.0)),
    "ratio": _ratio,
    "rate ratio": _rate_ratio,
    "standardised rate": _sum_with(_standard),
    "trend": _sum_with(lambda groups: slope_coefficients(range(groups))),
}
_WHOLE = {"difference": (-1.0, 1.0), "ratio": (0.0, math.inf), "rate ratio": (0.0, math.inf)}


# --- cases -----------------------------------------------------------------------------------------------------------

_PAIRS = (
    (0, 1_000),
    (10, 10_000),
    (100, 100),
    (100, 10_000),
    (300, 300),
    (1_000, 1_000),
    (1_000, 100_000),
    (100_000, 100_000),
)
_SHARES_OF_PAIRS = ((0.0, 0.0), (0.0, 0.3), (0.001, 0.05), (0.05, 0.05), (0.05, 0.3), (0.5, 0.3), (1.0, 0.5))
_RATES = ((0.0, 0.01), (0.001, 0.001), (0.01, 0.01), (0.01, 0.02), (0.1, 0.1), (0.5, 0.3))
_SEVERAL = ((0.0, 0.0, 0.0), (0.05, 0.05, 0.05), (0.05, 0.1, 0.3), (0.5, 0.3, 0.5))


def _shares() -> Iterator[Case]:
    for scale, cells, people, share in itertools.product(SCALES, CELLS, PEOPLE, SHARES):
        yield Case("share", scale, cells, ((people, share),))


def _pairs(kind: str) -> Iterator[Case]:
    for scale, cells, people, shares in itertools.product(SCALES, CELLS, _PAIRS, _SHARES_OF_PAIRS):
        yield Case(kind, scale, cells, tuple(zip(people, shares, strict=True)))


def _rate_pairs() -> Iterator[Case]:
    sizes = ((1_000, 1_000), (1_000, 10_000), (10_000, 100_000), (100_000, 100_000), (100_000, 1_000_000))
    for scale, cells, people, shares in itertools.product(SCALES, CELLS, sizes, _RATES):
        yield Case("rate ratio", scale, cells, tuple(zip(people, shares, strict=True)))


def _several(kind: str) -> Iterator[Case]:
    for scale, people, shares, times in itertools.product(SCALES, (100, 1_000, 10_000, 100_000), _SEVERAL, (1, 4)):
        yield Case(kind, scale, 2, tuple((people, share) for share in shares) * times)


def _designed() -> Iterator[Case]:
    for scale, people, share, fraction in itertools.product(
        SCALES, (1_000, 10_000, 100_000), (0.001, 0.05, 0.3), (0.2, 1.0)
    ):
        for clustered in (False, True):
            if clustered or fraction < 1:
                yield Case("share", scale, 2, ((people, share),), fraction, clustered)
                yield Case("ratio", scale, 2, ((people, share), (people, 0.3)), fraction, clustered)


KINDS: dict[str, Callable[[], Iterable[Case]]] = {
    "share": _shares,
    "difference": lambda: _pairs("difference"),
    "ratio": lambda: _pairs("ratio"),
    "rate ratio": _rate_pairs,
    "standardised rate": lambda: _several("standardised rate"),
    "trend": lambda: _several("trend"),
    "designs": _designed,
}


# --- the table -------------------------------------------------------------------------------------------------------


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{100 * rate:.1f}"


def _summary(kind: str, found: Sequence[Covered]) -> str:
    columns = []
    for covered in ([(one.noise_only, one) for one in found], [(one.with_sampling, one) for one in found]):
        rates = [(rate, one) for rate, one in covered if rate is not None]
        away = [rate for rate, one in rates if one.is_away]
        columns.append(f"{_percent(min(rate for rate, _ in rates)):>8}  {_percent(max(away, default=None)):>8}")
    return f"{kind:<18} {len(found):6}  {'  '.join(columns)}"


def main() -> int:
    """Simulate and print; 1 if a promise does not hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("kinds", nargs="*", default=list(KINDS), help=f"of {', '.join(KINDS)}; all if none is given")
    parser.add_argument("--repetitions", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="a line for each case, too")
    asked = parser.parse_args()
    if unknown := [name for name in asked.kinds if name not in KINDS]:
        parser.error(f"no kind is called {', '.join(unknown)}; there are: {', '.join(KINDS)}")
    simulation = Simulation(asked.repetitions, asked.seed)
    summaries, broken = [], []
    for kind in asked.kinds:
        found = []
        for case in KINDS[kind]():
            one = simulation.run(case)
            found.append(one)
            if asked.all:
                _say(
                    f"{_percent(one.noise_only):>5} {_percent(one.with_sampling):>5}  told {one.told:4.0%} {'away' if one.is_away else '    '}  {case.name}"
                )
        summaries.append(_summary(kind, found))
        broken += [
            one
            for one in found
            if min(one.rates, default=1) < LEAST or (one.is_away and max(one.rates, default=0) > MOST)
        ]
    _say(
        f"{asked.repetitions:,} repetitions of each case; a rate of 95 % has a standard error of {100 * math.sqrt(0.0475 / asked.repetitions):.2f} points"
    )
    _say(f"{'':<18} {'':6}  {'noise only, %':>18}  {'with sampling, %':>18}")
    _say(
        f"{'estimate':<18} {'cases':>6}  {'least':>8}  {'most':>8}  {'least':>8}  {'most':>8}    (most: away from the boundaries)"
    )
    for line in summaries:
        _say(line)
    for one in broken:
        _say(
            f"outside {100 * LEAST:.0f} to {100 * MOST:.0f} %: {_percent(one.noise_only)} and {_percent(one.with_sampling)}, {one.case.name}"
        )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
