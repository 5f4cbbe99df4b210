"""A census log at one instant, as an immutable picture: made by the follower, drawn by the dashboard.

Everything here follows from the log and from what witnesses have cosigned. Nothing follows from the ledger of persons, samples
or registries: two worlds that differ in anybody's record make the same pictures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from broker_common.crypto.cards import VerifiedCard
from broker_common.dashboard.log_picture import LogPicture, certificates_of, witnessed_by
from broker_common.privacy.accounting import answers_left
from broker_common.privacy.belief import belief_of_units
from broker_common.privacy.policy import Policy
from broker_common.storage.follower import Head
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Rostered
from broker_common.tlog.history import History, Point

# The pace of answers is given for a day.
DAY_MS = 86_400_000
# Over so long the pace of answers is taken.
_PACE_MS = 30 * DAY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture(LogPicture):
    """One state of the log."""

    # None before the agency has put it into its log.
    own_card: VerifiedCard | None
    policy: Policy | None
    policy_hash: str
    is_shut_down: bool
    shutdown_reason: str
    shutdown_note: str
    shutdown_ms: int
    answers: int
    # The number of these answers that were charged to the people in their samples.
    sampled: int
    unreleased: int
    # None where the number is not published: it would follow from who was asked about.
    answers_left: int | None
    # The most that anybody can have been charged, and what nobody can have come to believe.
    worst_units: int
    worst_belief: Decimal
    points: tuple[Point, ...]
    # The roster in force of each agency.
    rosters: Mapping[str, Rostered]
    # The health agencies that are registered.
    health: frozenset[str]


def picture_of(state: CensusState, history: History, head: Head) -> Picture:
    """The picture of a log that has been folded so far."""
    policy, worst = state.policy, history.ceiling.units
    return Picture(
        origin=state.origin,
        own_card=state.parties.own,
        policy=policy,
        policy_hash=state.policy_hash,
        release=state.release,
        load=state.load,
        is_shut_down=state.shut_down,
        shutdown_reason=state.shutdown_reason,
        shutdown_note=state.shutdown_note,
        shutdown_ms=state.shutdown_ms,
        answers=state.answers,
        sampled=history.sampled,
        unreleased=len(state.unreleased),
        answers_left=None if policy is None else _answers_left(state, policy),
        worst_units=worst,
        worst_belief=_worst_belief(worst, policy),
        log_size=state.size,
        log_ms=state.time_ms,
        due_size=history.due_size,
        due_ms=history.due_ms,
        checkpoint=head.checkpoint,
        witnessed=witnessed_by(state, head, state.parties.peers("health")),
        happenings=tuple(history.happenings),
        use=dict(history.use),
        points=tuple(history.points),
        certificates=certificates_of(state),
        rosters=dict(state.rosters),
        health=frozenset(state.parties.peers("health")),
    )


def _answers_left(state: CensusState, policy: Policy) -> int | None:
    left = policy.max_answers - state.answers if policy.max_answers else math.inf
    if policy.accounting == "strict":
        left = min(left, answers_left(policy.cap, state.everyones_units, policy.usual_scale))
    return None if left == math.inf else max(0, int(left))


def _worst_belief(units: int, policy: Policy | None) -> Decimal:
    belief = belief_of_units(units)
    return min(belief, Decimal(policy.max_belief)) if policy is not None and units <= policy.cap else belief


def answers_per_day(picture: Picture, now_ms: int) -> float | None:
    """How many answers a day were charged in the last 30 days; None in the first day of a log."""
    points = picture.points
    if not points or now_ms - points[0].time_ms < DAY_MS:
        return None
    since_ms = max(points[0].time_ms, now_ms - _PACE_MS)
    before = max((point.answers for point in points if point.time_ms <= since_ms), default=0)
    return (picture.answers - before) * DAY_MS / (now_ms - since_ms)
