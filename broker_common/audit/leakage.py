"""Leakage: the most that one person can have been charged, from the entries and nothing else.

Under strict accounting every charge falls on everybody, and the sum of charges is proved. Under per-person accounting an
answer is charged to the people in its sample, and who they were stands in no log: the most that anybody can have been charged
is what somebody was who was in every sample that still fitted. That is a ceiling, and it is the census agency's claim that
its ledger keeps it: whether each charge fell on everybody in its sample is for the audit on site.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker_common.tlog.census_state import CensusState
from broker_common.tlog.history import Ceiling

__all__ = ["Leakage", "leakage_of"]


@dataclass(frozen=True, slots=True)
class Leakage:
    """What was charged, recomputed from the entries and nothing else."""

    accounting: str
    subject: str
    max_belief: str
    cap: int
    # Of all answers together, and the most of it that can have fallen on one person.
    charged_units: int
    worst_units: int
    # Whether that is true only if the ledger of persons, which nobody hands in, was kept by the rules.
    claimed: bool
    answers: int
    released: int
    is_shut_down: bool


def leakage_of(state: CensusState, ceiling: Ceiling) -> Leakage | None:
    """The figures of a log that was replayed; None if no policy was ever in force."""
    policy = state.policy
    if policy is None:
        return None
    return Leakage(
        accounting=policy.accounting,
        subject=policy.subject,
        max_belief=policy.max_belief,
        cap=policy.cap,
        charged_units=state.charged_units,
        worst_units=ceiling.units,
        claimed=state.charged_units > state.common_units,
        answers=state.answers,
        released=state.answers - len(state.unreleased),
        is_shut_down=state.shut_down,
    )
