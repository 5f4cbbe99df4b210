"""Sums of the ledger for the census agency's own staff: computed at fixed times and kept until the next.

SECURITY: never for an answer. Somebody who sees such a figure before and after one answer learns about whom its sample
charged. So figures are computed at most once a period, on a grid of whole periods, and only when at least `LEAST_ANSWERS`
answers have come since that charged people by their samples. They are kept in a file, under a lock: neither a restart nor a
second dashboard computes them in between. Numbers of people come in cells (`cells`), and nothing is about fewer people than
a cell holds. The only figures about one person, the typical case, follow from the log alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import msgspec

from broker_common.dashboard.cells import LEAST_CELL, coarse, few_digits, join_small
from broker_common.errors import InternalError
from broker_common.privacy.policy import Policy
from broker_common.privacy.report import BeliefReport, Charges, Spread, exhaustion, make_report, typical_case
from broker_common.storage.durable import exclusive, replace_file
from census_node.operator.belief_report import Facts

FIGURES_FILE = "staff-figures.json"
_LOCK = f"{FIGURES_FILE}.lock"
# Between two computations, so that no answer can be told from their difference.
LEAST_ANSWERS = 10


class Band(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """So many people, rounded, whose ceiling of belief lies above `low` and up to `high`; 0.5 and 0.5: not charged."""

    low: float
    high: float
    people: int


class Milestone(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """After so many further answers `share` of those charged have nothing left; None: beyond the forecast's reach."""

    share: float
    early: int | None
    middle: int | None
    late: int | None


class Figures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One computation."""

    as_of_ms: int
    # Not computed again before this.
    next_ms: int
    # How many answers there were by then, and how many of them were charged to the people in their samples.
    answers: int
    sampled: int
    bands: tuple[Band, ...]
    # People who were charged, and those with nothing left, rounded; None where fewer than a cell, also where nobody has.
    charged: int
    exhausted: int | None
    # More than so many percent have nothing left, as the operator has set it; None while that is not so.
    alert_share: int | None
    expected_belief: float | None
    best_guess_right: float | None
    forecast: tuple[Milestone, ...]


class FiguresFile:
    """Where the figures of one home are kept."""

    def __init__(self, home: Path, period_ms: int) -> None:
        self._path = home / FIGURES_FILE
        self._lock = home / _LOCK
        self._period_ms = period_ms

    def read(self) -> Figures | None:
        """The figures that were computed last; None before the first ones.

        Raises:
            InternalError: INTEGRITY, the file is damaged.
        """
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Figures)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, ValueError) as error:
            raise InternalError("INTEGRITY", problem=f"{FIGURES_FILE} is damaged: remove it") from error

    def is_due(self, now_ms: int, answers: int, sampled: int) -> bool:
        before = self.read()
        if before is not None:
            if now_ms < before.next_ms:
                return False
            answers, sampled = answers - before.answers, sampled - before.sampled
        # SECURITY: answers that were charged to everybody change nothing in the ledger, and so hide no other answer.
        return answers >= LEAST_ANSWERS and (not sampled or sampled >= LEAST_ANSWERS)

    def compute_if_due(self, now_ms: int, answers: int, sampled: int, make: Callable[[int], Figures]) -> bool:
        """Keep what `make` gives, told when the next figures may come, if it is time; gives whether it was.

        SECURITY: one dashboard at a time, or two would compute figures that lie one answer apart.
        """
        with exclusive(self._lock, wait=True):
            if not self.is_due(now_ms, answers, sampled):
                return False
            figures = make(self.next_after(now_ms))
            # The first answer of its kind may have come while the ledger was read.
            if not self.is_due(now_ms, answers, figures.sampled):
                return False
            replace_file(self._path, msgspec.json.encode(figures), mode=0o600)
        return True

    def next_after(self, now_ms: int) -> int:
        """The first instant of the grid that is at least a period away."""
        return -(-(now_ms + self._period_ms) // self._period_ms) * self._period_ms


def figures_of(facts: Facts, charges: Charges | None, *, as_of_ms: int, next_ms: int, alert_share: int) -> Figures:
    """The figures of the ledger as it is now."""
    policy = facts.policy
    report = make_report(policy, common=facts.common, sampled=facts.sampled, units=facts.units, charges=charges)
    # This is about somebody in every sample. Who was charged most is one person, and no page is about one person.
    typical = typical_case(policy, facts.common, facts.sampled)
    charged, exhausted = _exhausted(charges, policy)
    is_few = exhausted < LEAST_CELL
    return Figures(
        as_of_ms=as_of_ms,
        next_ms=next_ms,
        answers=facts.answers,
        sampled=facts.answers_of_samples,
        bands=() if report.spread is None else _bands(report, report.spread),
        charged=coarse(charged),
        exhausted=None if is_few else coarse(exhausted),
        alert_share=None if is_few or exhausted * 100 <= alert_share * charged else alert_share,
        expected_belief=None if typical is None else float(typical.expected_belief),
        best_guess_right=None if typical is None else float(typical.best_guess_right),
        forecast=_forecast(report),
    )


def _exhausted(charges: Charges | None, policy: Policy) -> tuple[int, int]:
    """How many were charged, and how many of them have nothing left."""
    if charges is None or policy.accounting == "strict":
        return 0, 0
    found = exhaustion(charges, policy)
    return found.charged, found.exhausted


def _forecast(report: BeliefReport) -> tuple[Milestone, ...]:
    """Only shares that are at least a cell of people are forecast: the hundredth part of a few hundred is a few people's own charges."""
    charged = 0 if report.spread is None else report.spread.charged
    return tuple(
        Milestone(float(row.share), _shown(row.early), _shown(row.middle), _shown(row.late))
        for row in report.forecast
        if row.share * charged >= LEAST_CELL
    )


def _shown(answers: int | None) -> int | None:
    return None if answers is None else few_digits(answers)


def _bands(report: BeliefReport, spread: Spread) -> tuple[Band, ...]:
    edges = [(0.5, 0.5), *((float(band.low), float(band.high)) for band in report.bands)]
    people = [spread.at_rest, *spread.in_bands]
    if spread.above_limit:
        edges.append((edges[-1][1], math.nextafter(1, 0)))
        people.append(spread.above_limit)
    return tuple(Band(edges[cell.first][0], edges[cell.last][1], cell.number) for cell in join_small(people))
