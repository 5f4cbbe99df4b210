"""Results of a study: noisy counts, and every number of the file with its two intervals.

Computed anew from stored answers whenever it is asked for; nothing is asked of a node and nothing is charged. A number that
takes an answer which has not come is there without a value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from broker_common.crypto.sampling import WHOLE_MILLIONTHS
from broker_common.privacy.policy import Policy
from broker_common.privacy.table_laplace import margin
from researcher_node.estimates.from_answers import counts_of, design_of
from researcher_node.estimates.tables import (
    Counts,
    Estimate,
    Group,
    difference,
    rate_ratio,
    ratio,
    share,
    standardised_rate,
    trend,
)
from researcher_node.study.design import Row, Study
from researcher_node.study.running import Standing


@dataclass(frozen=True, slots=True)
class Counted:
    """One cell of one answer: people, and how far noise reaches either way 19 times out of 20.

    Both stand for everybody who matches, also where a fraction of them was drawn, or a part of them was asked.
    """

    standing: Standing
    cell: str
    count: float
    margin: float


@dataclass(frozen=True, slots=True)
class Finding:
    """One number of the file; no estimate as long as an answer is missing."""

    row: Row
    estimate: Estimate | None
    # The queries that it was computed from.
    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Results:
    """All of a study's numbers, in the order of the file."""

    study: Study
    scale: int
    standings: tuple[Standing, ...]
    counted: tuple[Counted, ...]
    findings: tuple[Finding, ...]
    # The one that the census agency published last; None where that is not known.
    policy: Policy | None = None

    @property
    def missing(self) -> tuple[Standing, ...]:
        return tuple(standing for standing in self.standings if not standing.is_answered)

    @property
    def charged(self) -> int:
        """Units of all answers together, no matter who was in them."""
        return sum(standing.asked.charged or 0 for standing in self.standings if standing.asked is not None)

    @property
    def methods(self) -> tuple[str, ...]:
        """How the intervals were made, each method once."""
        estimates = [finding.estimate for finding in self.findings if finding.estimate is not None]
        named = [interval.method for each in estimates for interval in (each.noise_only, each.with_sampling)]
        return tuple(dict.fromkeys(named))


def results(study: Study, scale: int, standings: Sequence[Standing]) -> Results:
    """Everything that the answers so far say."""
    counts = [_counts(standing) for standing in standings]
    return Results(
        study,
        scale,
        tuple(standings),
        tuple(each for standing in standings for each in _counted(study, scale, standing)),
        tuple(_finding(row, standings, counts) for row in study.rows),
    )


def _counts(standing: Standing) -> Counts | None:
    asked = standing.asked
    if asked is None or asked.noisy is None:
        return None
    return counts_of(asked)


def _counted(study: Study, scale: int, standing: Standing) -> list[Counted]:
    asked = standing.asked
    if asked is None or asked.noisy is None:
        return []
    times = design_of(asked.asked_of).weight * WHOLE_MILLIONTHS / study.file.fraction_millionths
    reach = times * margin(scale, len(study.cells))
    return [
        Counted(standing, cell, times * number, reach)
        for cell, number in zip(study.cells, asked.noisy.values, strict=True)
    ]


def _finding(row: Row, standings: Sequence[Standing], counts: Sequence[Counts | None]) -> Finding:
    needed = [counts[place] for place in row.asks]
    queries = tuple(attempt.query for place in row.asks if (attempt := standings[place].attempt) is not None)
    here = [each for each in needed if each is not None]
    return Finding(row, estimate_of(row, here) if len(here) == len(needed) else None, queries)


def estimate_of(row: Row, counts: Sequence[Counts]) -> Estimate:
    """The number of a row from the counts of its questions, in their order."""
    groups = [Group(each, row.part_cells, row.whole_cells) for each in counts] if row.kind != "rate_ratio" else []
    match row.kind:
        case "share":
            return share(groups[0])
        case "difference":
            return difference(groups[0], groups[1])
        case "ratio":
            return ratio(groups[0], groups[1])
        case "rate_ratio":
            return rate_ratio(counts[0], counts[1], row.part_cells, row.against_cells)
        case "standardised_rate":
            return standardised_rate(groups, [float(number) for number in row.numbers])
        case _:
            return trend(groups, [float(number) for number in row.numbers])


def finite(number: float | None) -> float | None:
    """The number for formats that know no infinity."""
    return None if number is None or not math.isfinite(number) else number
