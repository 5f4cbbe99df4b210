"""The declared size of the registry bounds its loads, and says which tick the policy needs."""

from __future__ import annotations

import pytest
from fakes.logs import policy

from broker_common.errors import InvalidRequestError
from broker_common.privacy.delays import DECLARED_STEP
from census_node.registry.loading import delay_warnings, verify_declared, verify_delays


def test_registry_beyond_what_is_declared_is_refused() -> None:
    """To its operator, who is told what to declare; as many as declared are loaded."""
    verify_declared(DECLARED_STEP, DECLARED_STEP)
    with pytest.raises(InvalidRequestError, match="LOAD_REFUSED") as caught:
        verify_declared(DECLARED_STEP + 1, DECLARED_STEP)
    assert f"Set people to {2 * DECLARED_STEP}" in caught.value.hint


def test_tick_has_to_cover_what_is_declared() -> None:
    """The loader is told what to propose, the proposer what is too short. The forward delay is the health node's."""
    short = policy(release_tick_ms=25, forward_delay_ms=1)
    with pytest.raises(InvalidRequestError, match="LOAD_REFUSED") as caught:
        verify_delays(short, DECLARED_STEP)
    assert "--release-tick-ms 250" in caught.value.hint
    assert delay_warnings(short, DECLARED_STEP) == (
        "release_tick_ms is 25, and the 524288 people that are declared for the registry need 26 or more",
    )
    for enough in (policy(release_tick_ms=26, forward_delay_ms=1), policy(release_tick_ms=0, forward_delay_ms=0)):
        verify_delays(enough, DECLARED_STEP)
        assert delay_warnings(enough, DECLARED_STEP) == ()
