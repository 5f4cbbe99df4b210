"""Leakage: the most that one person can have been charged, from the entries and nothing else.

Under strict accounting every charge falls on everybody, and the sum of charges is proved. Under per-person accounting an
answer is charged to the people in its sample, and who they were stands in no log: the most that anybody can have been charged
is what somebody was who was in every sample that still fitted. That is a ceiling, and it is the census agency's claim that
its ledgers keep it: whether each charge fell on everybody in its sample is for the audit on site.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker_common.privacy.policy import Policy
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Charged

__all__ = ["Ceiling", "Leakage", "leakage_of"]


class Ceiling:
    """The most that one person, or one household, can have been charged; told of every charge in the order of the log."""

    def __init__(self) -> None:
        self.units = 0

    def take(self, charge: Charged, policy: Policy) -> None:
        """Take in a charge that was made under `policy`: to everybody, which always fits, or to the people in a sample.

        SECURITY: by the cap in force at the charge, not by the one in force now. A lowered cap takes nothing back of what
        was charged under a higher one, and a raised cap has let nobody be charged more before it.
        """
        # A household is charged for each of its people in the sample, and how many there are is not said.
        reached = self.units + charge.units if policy.unit == "person" else policy.cap
        self.units = max(self.units, min(reached, policy.cap))


@dataclass(frozen=True, slots=True)
class Leakage:
    """What was charged, recomputed from the entries and nothing else."""

    accounting: str
    unit: str
    max_belief: str
    cap: int
    # Of all answers together, and the most of it that can have fallen on one person.
    charged_units: int
    worst_units: int
    # Whether that is true only if the ledgers of persons, which nobody hands in, were kept by the rules.
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
        unit=policy.unit,
        max_belief=policy.max_belief,
        cap=policy.cap,
        charged_units=state.charged_units,
        worst_units=ceiling.units,
        claimed=state.charged_units > state.common_units,
        answers=state.answers,
        released=state.answers - len(state.unreleased),
        is_shut_down=state.shut_down,
    )
