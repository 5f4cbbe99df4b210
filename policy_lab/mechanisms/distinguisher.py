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

# As many different values are each an event; of more, so many quantiles are.
_MOST_VALUES = 2000
_QUANTILES = 200
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
    """What two samples show epsilon to be at least; each holds independent outputs of one world, as numbers, at least 4."""
    worlds = np.asarray(a, np.float64).ravel(), np.asarray(b, np.float64).ravel()
    if min(map(len, worlds)) < _LEAST_SAMPLES or not (0 < error_rate < 1 and 0 <= delta < 1):
        raise ValueError("each world has at least 4 samples; rates are probabilities")
    (search_a, test_a), (search_b, test_b) = (np.split(world, [len(world) // 2]) for world in worlds)
    edges = _edges(np.concatenate([search_a, search_b]))
    searched = _tally(search_a, edges), _tally(search_b, edges)
    tested = _tally(test_a, edges), _tally(test_b, edges)
    event, promised = _best_event(searched[0], searched[1], delta, error_rate)
    event_of_b, promised_of_b = _best_event(searched[1], searched[0], delta, error_rate)
    if promised_of_b > promised:
        return _measured(tested[1], tested[0], event_of_b, delta, error_rate, is_reversed=True)
    return _measured(tested[0], tested[1], event, delta, error_rate, is_reversed=False)


def _edges(pooled: NDArray[np.float64]) -> NDArray[np.float64]:
    values = np.unique(pooled)
    if len(values) <= _MOST_VALUES:
        return values
    return np.unique(np.quantile(pooled, np.linspace(0, 1, _QUANTILES + 1), method="nearest"))


def _tally(sample: NDArray[np.float64], edges: NDArray[np.float64]) -> Counts:
    """How many lie on each edge (odd places) and strictly between two (even places): a mass on one value stays apart."""
    places = np.searchsorted(edges, sample, "left") + np.searchsorted(edges, sample, "right")
    return np.bincount(places, minlength=2 * len(edges) + 1)


def _best_event(likely: Counts, unlikely: Counts, delta: float, error_rate: float) -> tuple[Counts, float]:
    """Places in the order of their ratio; the event is the beginning of that order which promises the largest bound."""
    smooth = (likely + 0.5) / (unlikely + 0.5) * (unlikely.sum() + 1) / (likely.sum() + 1)
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
