"""The first policy of `init` where nobody says otherwise."""

from __future__ import annotations

import pytest

from broker_common.privacy.delays import too_short
from broker_common.privacy.policy import Subject, verify_policy
from deploy.local import Plan


@pytest.mark.parametrize("subject", ["person", "household"])
@pytest.mark.parametrize("population", [10, 100_000, 1_000_000, 15_000_000, 20_000_000])
def test_first_policy_covers_what_is_declared(population: int, subject: Subject) -> None:
    """Else its own loads would be refused."""
    plan = Plan(population=population, seed=1, accounting="per_person", max_belief="0.8", subject=subject)
    policy = plan.policy()
    verify_policy(policy)
    assert too_short(policy, places=plan.places, people=plan.census_people) == {}


def test_times_that_were_asked_for_are_taken() -> None:
    """Also none at all, as tests do."""
    plan = Plan(population=10, seed=1, accounting="strict", max_belief="0.8", release_tick_ms=0, forward_delay_ms=0)
    assert (plan.policy().release_tick_ms, plan.policy().forward_delay_ms) == (0, 0)
    usual = Plan(population=10, seed=1, accounting="strict", max_belief="0.8").policy()
    assert (usual.release_tick_ms, usual.forward_delay_ms) == (250, 100)
