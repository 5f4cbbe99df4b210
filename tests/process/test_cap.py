"""The drive to the cap: 41 answers at scale 30 under 0.8, and then never another one."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from fakes.deployment import FRENCH, Deployment, make, node_pids

from broker_common.errors import RefusedError
from researcher_node.answers.store import AskedQuestion

pytestmark = pytest.mark.process

ANSWERS = 41
PRICE_30 = 559_241


@pytest.fixture(scope="module")
def exhausted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Asked until it refused, with the inbox away; then every process killed, and started again."""
    deployment = make(tmp_path_factory.mktemp("cap") / "deployment", "--max-belief", "0.8")
    with deployment.node("census") as census, deployment.node("health") as health:
        # 50 at once: only charging one after the other stops at the right place.
        outcomes = deployment.ask_all([("age >= 65", FRENCH)] * 50, at_once=7)
        answered = [outcome for outcome in outcomes if isinstance(outcome, AskedQuestion)]
        refused = [outcome for outcome in outcomes if isinstance(outcome, RefusedError)]
        assert (len(answered), len(refused)) == (ANSWERS, 50 - ANSWERS)
        assert {error.code for error in refused} <= {"SERVICE_SHUT_DOWN", "BUDGET_EXHAUSTED"}
        for node in (census, health):
            node.signal(signal.SIGKILL)
    assert not node_pids(deployment.directory)
    with deployment.nodes():
        yield deployment


def test_the_service_stops_before_the_cap_and_stays_stopped(exhausted: Deployment) -> None:
    """41 answers were charged, the belief stays below 0.8, and a restart changes nothing of it."""
    status = exhausted.run("census", "status", "--json").result
    assert status["state"] == "shutdown"
    assert (status["answers"], status["worst_charged"]) == (ANSWERS, ANSWERS * PRICE_30)
    # The paper's figure is 0.796841; a published figure is rounded up.
    assert status["worst_belief"] == 0.79685
    exhausted.verify_ledger()
    assert exhausted.events("census")[-1]["type"] != "charged"
    assert [e for e in exhausted.events("census") if e["type"] == "shutdown"] == [
        {"type": "shutdown", "reason": "budget", "note": "", "signature": "", "key_id": ""}
    ]


def test_the_42nd_question_is_refused_with_exit_4(exhausted: Deployment) -> None:
    """A quote and a question are refused alike, at every scale, and the sentence says what happened and what remains."""
    for outcome in (
        exhausted.run("researcher", "quote", "--json"),
        exhausted.ask("age >= 65", FRENCH),
        exhausted.ask("age >= 65", "all", "--scale", "50"),
    ):
        assert (outcome.code, outcome.error["code"]) == (4, "SERVICE_SHUT_DOWN")
        assert "tripartite researcher answers" in outcome.error["hint"]
    assert exhausted.json("census", "status")["answers"] == ANSWERS


def test_answers_from_before_can_still_be_read_collected_and_asked_for_again(exhausted: Deployment) -> None:
    """Charged answers were paid for: they are there after the shutdown, too."""
    rows = exhausted.json("researcher", "answers", "--collect")["answers"]
    answered = [row for row in rows if row["state"] == "answered"]
    assert len(answered) == ANSWERS
    assert len({row["noisy_count"] for row in answered}) > 10, "every answer has noise of its own"
    again = exhausted.json("researcher", "ask", "--again", answered[0]["query_id"])
    assert again["noisy_count"] == answered[0]["noisy_count"]


def test_a_scale_that_no_longer_fits_is_refused_while_cheaper_ones_are_answered(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """After one answer at scale 1 a second does not fit: people in the first are not counted again, nobody is told. The refusal says so."""
    deployment = make(tmp_path_factory.mktemp("uneven") / "deployment", population=100)
    with deployment.node("census"), deployment.node("health"):
        assert deployment.json("researcher", "quote", "--scale", "1")["remaining"] == 1
        deployment.ask_all([("age >= 65", FRENCH)], scale=1)
        outcome = deployment.ask("age >= 65", FRENCH, "--scale", "1")
        assert (outcome.code, outcome.error["code"]) == (4, "BUDGET_EXHAUSTED")
        assert "larger --scale" in outcome.error["hint"]
        assert deployment.json("researcher", "quote")["remaining"] == 11
        assert deployment.json("census", "status")["state"] == "serving"
