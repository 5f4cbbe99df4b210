"""The forecast: how many more answers until so many of the people charged so far have nothing left.

It assumes that questions go on like the past ones: at the usual scale, and about the same people as often as before. The
person who stands at the share in question was in k of the past answers (counted in prices of the usual scale) and has
room for h more; how long those h take is a beta-negative-binomial variable, from the Jeffreys prior. One person, because
people who are charged most share their cohorts: what happens to one happens to many, so that their number makes nothing
surer. The person charged most was so by chance as well: the forecast errs on the early side. A household pays for each of
its people in a sample: charged more than all answers cost, it is taken to pay for that many people each time.

Invariants. A forecast decides nothing; floats serve. Where there is too little to go by, there is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lgamma

import numpy as np

from broker_common.privacy.accounting import answers_left, price

SHARES = (Fraction(1, 100), Fraction(5, 100), Fraction(1, 2))
MIN_ANSWERS = 10
"""Past answers, in prices of the usual scale, below which nothing is foretold."""
MIN_PEOPLE = 100
FORECAST_REACH = 100_000
"""Answers beyond which a forecast says "more than"."""

# Nine times out of ten it is between the outer two.
_LEVELS = (0.05, 0.5, 0.95)


@dataclass(frozen=True, slots=True)
class Milestone:
    """When `share` of the people charged so far will have no room for an answer at the usual scale.

    In further answers, 0 if it is so already; None: beyond `FORECAST_REACH`.
    """

    share: Fraction
    early: int | None
    middle: int | None
    late: int | None


def milestones(
    charges: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    people: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    *,
    past_units: int,
    floor: int,
    cap: int,
    scale: int,
) -> tuple[Milestone, ...]:
    """For each of `SHARES`, from how many people, or households, have each charge (ascending, above 0) out of `past_units`.

    Empty where there were too few answers or people.
    """
    each_answer, charged = price(scale), int(people.sum())
    if past_units < MIN_ANSWERS * each_answer or charged < MIN_PEOPLE:
        return ()
    as_much_or_more = np.cumsum(people[::-1])
    found = []
    for share in SHARES:
        at = int(np.searchsorted(as_much_or_more, -(-share.numerator * charged // share.denominator)))
        units = int(charges[::-1][at])
        # How often they pay for one answer.
        each = -(-units // past_units)
        room = answers_left(cap, floor + units, scale) // each
        found.append(Milestone(share, *waiting_time(room, units / each / each_answer, past_units / each_answer)))
    return tuple(found)


def waiting_time(room: int, hits: float, answers: float) -> tuple[int | None, int | None, int | None]:
    """How many answers it takes until somebody who was in `hits` of `answers` has been in `room` more.

    The 5th percentile, the median and the 95th; None for each beyond `FORECAST_REACH`.
    """
    if room == 0:
        return 0, 0, 0
    inside, outside = hits + 0.5, max(answers - hits, 0.0) + 0.5
    both = inside + outside
    # P(T = room), then the ratio of each probability to the one before.
    first = lgamma(inside + room) - lgamma(inside) + lgamma(both) - lgamma(both + room)
    times = np.arange(room, max(FORECAST_REACH, room))
    ratios = np.log(times / (times - room + 1)) + np.log((outside + times - room) / (both + times))
    reached = np.cumsum(np.exp(first + np.concatenate(([0.0], np.cumsum(ratios)))))

    def when(level: float) -> int | None:
        at = int(np.searchsorted(reached, level))
        return room + at if room + at <= FORECAST_REACH and at < reached.size else None

    early, middle, late = (when(level) for level in _LEVELS)
    return early, middle, late
