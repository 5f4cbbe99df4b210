"""What is declared of the registry's size bounds its loads, and says which answer delay the policy needs."""

from __future__ import annotations

import pytest
from fakes.world import make_policy

from broker_common.errors import InvalidRequestError
from broker_common.privacy.delays import DECLARED_STEP
from census_node.declared import delay_warnings, verify_declared, verify_delays


def test_registry_beyond_what_is_declared_is_refused() -> None:
    """To its operator, who is told what to declare; as many as declared are loaded."""
    verify_declared(DECLARED_STEP, DECLARED_STEP)
    with pytest.raises(InvalidRequestError, match="LOAD_REFUSED") as caught:
        verify_declared(DECLARED_STEP + 1, DECLARED_STEP)
    assert f"Set people to {2 * DECLARED_STEP}" in caught.value.hint


def test_answer_delay_has_to_cover_what_is_declared() -> None:
    """Whoever loads is told what to propose, whoever proposes what is too short. The forward delay is the health node's."""
    short = make_policy(tick_ms=250, delay_ms=1, answer_delay_ms=104)
    with pytest.raises(InvalidRequestError, match="LOAD_REFUSED") as caught:
        verify_delays(short, DECLARED_STEP)
    assert "--answer-delay-ms 400" in caught.value.hint
    assert delay_warnings(short, DECLARED_STEP) == (
        "answer_delay_ms is 104, and the 524288 people that are declared for the registry need 105 or more",
    )
    for enough in (make_policy(tick_ms=250, delay_ms=1, answer_delay_ms=105), make_policy(tick_ms=0, delay_ms=0)):
        verify_delays(enough, DECLARED_STEP)
        assert delay_warnings(enough, DECLARED_STEP) == ()
