"""Kill -9 at every durable step of a query: afterwards there is one charge and one answer, or none of either.

A failure is: a charge without an answer that its researcher can collect, an answer without a charge, a second charge, a
log that does not replay. Not a failure: a question that was refused uncharged, because a reservation of noise lives in
memory and died with the node; it says so, and asking anew works.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from threading import Thread

import pytest
from fakes.deployment import FRENCH, Deployment, Outcome, make, run_here, wait_until

from broker_common.errors import BrokerError
from researcher_node.answers import AskedQuestion

pytestmark = pytest.mark.process

CRASHING_NODE = Path(__file__).with_name("crashing_node.py")
WAIT_SECONDS = 30.0
FRUITLESS_SECONDS = 1.0
# Before or after the commit of which step which node dies. What is left out leaves the same state as its neighbour here:
# an answer that is not stored is a charge, a release that is not logged is a stored answer.
STEPS = [
    ("census", "charged", "after"),
    ("census", "answer", "after"),
    ("census", "released", "after"),
    ("health", "submitted", "before"),
    ("health", "submitted", "after"),
    ("health", "reported_charge", "before"),
    ("health", "reported_charge", "after"),
    ("health", "settled", "before"),
]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """One deployment, and no inbox: what is not collected is not delivered."""
    return make(tmp_path_factory.mktemp("crashes") / "deployment", population=500)


def ask_while_a_node_dies(
    deployment: Deployment, role: str, step: str, when: str
) -> tuple[AskedQuestion | BrokerError, str, Outcome]:
    """What became of the researcher's command, which query it was, and the same ticket submitted once more."""
    outcomes: list[AskedQuestion | BrokerError] = []
    asking = Thread(
        target=lambda: outcomes.extend(deployment.ask_all([("age >= 65", FRENCH)], wait_seconds=WAIT_SECONDS))
    )
    with deployment.node("health" if role == "census" else "census"):
        with deployment.node(role, launcher=(sys.executable, CRASHING_NODE, step, when)) as crashing:
            asking.start()
            wait_until(lambda: crashing.process.poll() is not None, "killed")
            assert crashing.process.returncode == -9
        with deployment.node(role):
            asking.join()
            query = deployment.json("researcher", "answers")["answers"][-1]["query_id"]
            words = ("researcher", "ask", "--home", deployment.home("researcher"), "--again", query, "--json")
            again = run_here(*words)
            assert run_here(*words) == again or again.stderr, "a third time is as the second, progress apart"
            # The answer may be here before the health node, which pauses between its tries, has heard of it.
            wait_until(lambda: deployment.json("health", "status")["open"] == 0, "closed")
    return outcomes[0], query, again


@pytest.mark.parametrize(("role", "step", "when"), STEPS)
def test_one_ticket_one_charge_one_answer_whenever_a_node_is_killed(
    deployment: Deployment, role: str, step: str, when: str
) -> None:
    """A node dies and comes back; the same ticket then has one charge and one answer, however it was waited for."""
    answers = deployment.json("census", "status")["answers"]
    outcome, query, again = ask_while_a_node_dies(deployment, role, step, when)
    assert again.result["query_id"] == query
    if isinstance(outcome, AskedQuestion):
        assert outcome.noisy_count == again.result["noisy_count"]
    else:
        # Only a question that the health node did not confirm is given up, and with an error that says what to do.
        assert (role, step, outcome.code) == ("health", "submitted", "PEER_UNAVAILABLE")
    ticket = deployment.ticket_of(query)
    for kind in ("charged", "released", "delivered"):
        assert deployment.tickets("census", kind)[ticket] == 1, kind
    assert deployment.json("census", "status")["answers"] == answers + 1
    deployment.verify_ledger()


def test_a_charge_that_was_never_committed_never_happened(deployment: Deployment) -> None:
    """Killed just before the charge's commit: the question is refused, nothing was charged, and asking anew works."""
    before = deployment.json("census", "status")
    outcome, query, again = ask_while_a_node_dies(deployment, "census", "charged", "before")
    assert isinstance(outcome, BrokerError)
    assert outcome.code == "SLOT_UNUSABLE"
    assert again.code == 3
    assert not deployment.tickets("census", "charged")[deployment.ticket_of(query)]
    assert deployment.json("census", "status") == before
    deployment.verify_ledger()
    with deployment.node("census"), deployment.node("health"):
        assert isinstance(deployment.ask_all([("age >= 65", FRENCH)])[0], AskedQuestion)


def test_a_question_goes_on_when_both_nodes_died_and_the_census_node_comes_back_last(deployment: Deployment) -> None:
    """What the health node has accepted it forwards as soon as it can, without being asked again."""
    asking = Thread(target=lambda: deployment.ask_all([("age >= 65", FRENCH)], wait_seconds=FRUITLESS_SECONDS))
    with deployment.node("census") as census:
        with deployment.node("health", launcher=(sys.executable, CRASHING_NODE, "forwarded", "after")) as crashing:
            asking.start()
            wait_until(lambda: crashing.process.poll() is not None, "killed")
        census.signal(signal.SIGKILL)
    query = deployment.json("researcher", "answers")["answers"][-1]["query_id"]
    with deployment.node("health"):
        time.sleep(FRUITLESS_SECONDS)
        with deployment.node("census"):
            asking.join()
            wait_until(lambda: deployment.json("health", "status")["open"] == 0, "closed")
    ticket = deployment.ticket_of(query)
    # Refused, because the noise that was reserved for it died with the census node; that is an end, too.
    assert [event["type"] for event in deployment.events("health") if event.get("ticket") == ticket][-1] == "refused"
    deployment.verify_ledger()
