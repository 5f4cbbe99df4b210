"""A lower bound of epsilon, from samples of what a mechanism says in two neighbouring worlds.

Half of each sample serves to search the event whose chances differ most; its chances are then measured in the other half,
where the event was fixed beforehand, so that the search costs nothing. Two Clopper-Pearson bounds, each with half of the error
rate, give

    epsilon >= ln( (lower bound of P(event | one world) - delta) / upper bound of P(event | the other) ).

If the mechanism is (epsilon, delta) private, the bound exceeds epsilon with probability `error_rate` at most. A bound of 0 says
nothing: the samples may be too small, or the event that gives the mechanism away none of those searched (sets of values or
of stretches between quantiles).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta

ERROR_RATE = 1e-9
"""Small enough that a whole suite of measurements stays below one in a million."""

_MOST_COMMON_VALUES = 1000
_MOST_STRETCHES = 100
_LEAST_IN_A_PLACE = 20
# Added to counts before places are put in order, so that small ones do not come first by accident.
_SHRINKING = 3
_LEAST_SAMPLES = 4

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FromBelow:
    """The bound, and on what it rests: how often the event happened in the second halves."""

    epsilon: float
    delta: float
    error_rate: float
    hits: int
    of_likely: int
    misses: int
    of_unlikely: int
    is_reversed: bool
    """Whether the event is likelier in the second world."""


def epsilon_from_below(a: ArrayLike, b: ArrayLike, *, delta: float = 0.0, error_rate: float = ERROR_RATE) -> FromBelow:
    """The least epsilon that two samples show. Each holds at least 4 independent outputs of one world, as numbers."""
    worlds = np.asarray(a, np.float64).ravel(), np.asarray(b, np.float64).ravel()
    if min(map(len, worlds)) < _LEAST_SAMPLES or any(np.isnan(world).any() for world in worlds):
        raise ValueError("each world has at least 4 samples, all of them numbers")
    if not (0 < error_rate < 1 and 0 <= delta < 1):
        raise ValueError("an error rate and a delta are probabilities")
    (search_a, test_a), (search_b, test_b) = (np.split(world, [len(world) // 2]) for world in worlds)
    places = _Places.of(np.concatenate([search_a, search_b]))
    searched = places.tally(search_a), places.tally(search_b)
    tested = places.tally(test_a), places.tally(test_b)
    event, promised = _best_event(searched[0], searched[1], delta, error_rate)
    event_of_b, promised_of_b = _best_event(searched[1], searched[0], delta, error_rate)
    if promised_of_b > promised:
        return _measured(tested[1], tested[0], event_of_b, delta, error_rate, is_reversed=True)
    return _measured(tested[0], tested[1], event, delta, error_rate, is_reversed=False)


@dataclass(frozen=True, slots=True)
class _Places:
    """Where a value falls: on one that is common, or in a stretch between two edges that many others fall in, too.

    A place that few fall in would look telling by accident, and hide the events that are.
    """

    edges: NDArray[np.float64]
    is_common: NDArray[np.bool_]

    @classmethod
    def of(cls, pooled: NDArray[np.float64]) -> _Places:
        values, counts = np.unique(pooled, return_counts=True)
        common = values[counts >= _LEAST_IN_A_PLACE]
        if len(common) > _MOST_COMMON_VALUES:
            common = values[counts >= max(_LEAST_IN_A_PLACE, len(pooled) // _MOST_COMMON_VALUES)]
        others = np.sort(pooled[~np.isin(pooled, common)])
        least = max(_LEAST_IN_A_PLACE, len(pooled) // _MOST_STRETCHES)
        edges = np.unique(np.concatenate([common, others[least::least]]))
        return cls(edges, np.isin(edges, common))

    def tally(self, sample: NDArray[np.float64]) -> Counts:
        """How many fall in each place: even ones lie between edges, odd ones are common values."""
        left, right = np.searchsorted(self.edges, sample, "left"), np.searchsorted(self.edges, sample, "right")
        is_on_common = np.append(self.is_common, False)[left] & (left < right)
        return np.bincount(np.where(is_on_common, left + right, 2 * right), minlength=2 * len(self.edges) + 1)


def _best_event(likely: Counts, unlikely: Counts, delta: float, error_rate: float) -> tuple[Counts, float]:
    """Places in the order of their ratio; the event is the beginning of that order which promises the largest bound."""
    smooth = (likely + _SHRINKING) / (unlikely + _SHRINKING) * unlikely.sum() / likely.sum()
    order = np.argsort(-smooth, kind="stable")
    bounds = _bound(
        np.cumsum(likely[order]), int(likely.sum()), np.cumsum(unlikely[order]), int(unlikely.sum()), delta, error_rate
    )
    best = int(np.argmax(bounds))
    return order[: best + 1], float(bounds[best])


def _bound(
    hits: Counts, of_hits: int, misses: Counts, of_misses: int, delta: float, error_rate: float
) -> NDArray[np.float64]:
    """The lower bound of epsilon for each pair of counts; 0 where they show nothing."""
    low = np.where(hits > 0, beta.ppf(error_rate / 2, np.maximum(hits, 1), of_hits - hits + 1), 0.0)
    is_all = misses >= of_misses
    high = np.where(is_all, 1.0, beta.isf(error_rate / 2, misses + 1, np.where(is_all, 1, of_misses - misses)))
    return np.log(np.maximum((low - delta) / high, 1.0))


def _measured(
    likely: Counts, unlikely: Counts, event: Counts, delta: float, error_rate: float, *, is_reversed: bool
) -> FromBelow:
    hits, misses = int(likely[event].sum()), int(unlikely[event].sum())
    of_likely, of_unlikely = int(likely.sum()), int(unlikely.sum())
    bound = _bound(np.asarray([hits]), of_likely, np.asarray([misses]), of_unlikely, delta, error_rate)
    return FromBelow(
        epsilon=float(bound[0]),
        delta=delta,
        error_rate=error_rate,
        hits=hits,
        of_likely=of_likely,
        misses=misses,
        of_unlikely=of_unlikely,
        is_reversed=is_reversed,
    )
