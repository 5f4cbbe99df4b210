"""Kill -9 at every durable step of a query: afterwards there is one charge and one answer, or none of either.

A failure is: a charge without an answer that its researcher can collect, an answer without a charge, a second charge, a
log that does not replay. Not a failure: a question that was refused uncharged, because a reservation of noise lives in
memory and died with the node; it says so, and asking anew works.
"""

from __future__ import annotations

import signal
import sys
from collections import Counter
from pathlib import Path
from threading import Thread

import pytest
from fakes.deployment import FRENCH, Deployment, Node, Outcome, make, run_here, wait_until
from fakes.patience import PATIENCE_SECONDS, linger_here

from broker_common.errors import BrokerError
from census_node.release.slot_secrets import SLOT_SECRET_BYTES
from researcher_node.answers.store import AskedQuestion
from researcher_node.asking.proposal import Precision, Wanted
from researcher_node.asking.session import Session

pytestmark = pytest.mark.process

CRASHING_NODE = Path(__file__).with_name("crashing_node.py")
FRUITLESS_SECONDS = 1.0
# Before or after the commit of which step which node dies. Omitted steps leave the same state as their neighbours here: an answer that is not stored is a charge, a release that is not logged is a stored answer.
STEPS = [
    ("census", "charged", "after"),
    ("census", "answer", "after"),
    # The sample is still there, or gone.
    ("census", "wipe", "before"),
    ("census", "wipe", "after"),
    # The noise secret is still there, or overwritten.
    ("census", "slot wipe", "before"),
    ("census", "slot wipe", "after"),
    # The charge is answered, and nobody has seen it; then the witness store has, and nobody else; then the health agency may.
    ("census", "entrusted", "before"),
    ("census", "entrusted", "after"),
    ("census", "shown", "after"),
    # The health agency's cosignature is lost, or kept and not acted upon.
    ("census", "cosignature", "before"),
    ("census", "cosignature", "after"),
    ("census", "released", "after"),
    ("census", "delivered", "before"),
    ("census", "delivered", "after"),
    ("health", "submitted", "before"),
    ("health", "submitted", "after"),
    ("health", "forwarded", "before"),
    ("health", "forwarded", "after"),
    ("health", "reported_charge", "before"),
    ("health", "reported_charge", "after"),
    # The charge is seen and not cosigned; cosigned, and nobody was told; what the census node cosigned of this log.
    ("health", "cosigned", "before"),
    ("health", "cosigned", "after"),
    ("health", "cosignature", "after"),
    ("health", "settled", "before"),
    ("health", "settled", "after"),
]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """One deployment with budget enough for all, and no inbox: what is not collected is not delivered."""
    return make(tmp_path_factory.mktemp("crashes") / "deployment", "--max-belief", "0.999999999999", population=500)


def ask_while_a_node_dies(
    deployment: Deployment, role: str, step: str, when: str
) -> tuple[AskedQuestion | BrokerError, str, Outcome]:
    """Outcome of the researcher's command, which query it was, and the same ticket submitted once more."""
    outcomes: list[AskedQuestion | BrokerError] = []
    asking = Thread(
        target=lambda: outcomes.extend(deployment.ask_all([("age >= 65", FRENCH)], wait_seconds=PATIENCE_SECONDS))
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
            deployment.wait_until_closed()
    return outcomes[0], query, again


@pytest.mark.parametrize(("role", "step", "when"), STEPS)
def test_one_ticket_one_charge_one_answer_whenever_a_node_is_killed(
    deployment: Deployment, role: str, step: str, when: str
) -> None:
    """A node dies and comes back; the same ticket then has one charge and one answer, however it was waited for."""
    answers = deployment.json("census", "status")["answers"]
    outcome, query, again = ask_while_a_node_dies(deployment, role, step, when)
    assert again.result["query_id"] == query
    # This includes a health node that died before it took the question: a waiting researcher submits it again.
    assert isinstance(outcome, AskedQuestion)
    assert outcome.noisy_count == again.result["noisy_count"]
    ticket = deployment.ticket_of(query)
    for kind in ("charged", "released", "delivered"):
        assert deployment.tickets("census", kind)[ticket] == 1, kind
    assert deployment.json("census", "status")["answers"] == answers + 1
    deployment.verify_ledger()


@pytest.mark.parametrize(
    ("step", "when"), [("sample opened", "after"), ("sample file", "after"), ("charged", "before")]
)
def test_a_charge_that_was_never_committed_never_happened(deployment: Deployment, step: str, when: str) -> None:
    """Killed before the charge's commit: the question is refused, nothing was charged, and asking anew works."""
    before, size = deployment.charged_status(), len(deployment.events("census"))
    outcome, query, again = ask_while_a_node_dies(deployment, "census", step, when)
    assert isinstance(outcome, BrokerError)
    assert outcome.code == "SLOT_UNUSABLE"
    assert again.code == 3
    assert not deployment.tickets("census", "charged")[deployment.ticket_of(query)]
    assert deployment.charged_status() == before
    # Each of the two starts has committed to slots.
    assert Counter(event["type"] for event in deployment.events("census")[size:])["slots"] == 2
    deployment.verify_ledger()
    assert not samples_of(deployment)
    with deployment.node("census"), deployment.node("health"):
        assert isinstance(deployment.ask_all([("age >= 65", FRENCH)])[0], AskedQuestion)


def test_roster_comes_into_force_although_nodes_are_killed_at_one_step_of_it_after_the_other(
    deployment: Deployment,
) -> None:
    """Numbered; on the disk, and named by no row; in force, and nobody told: the next start goes on from there."""

    def in_force() -> list[int]:
        return [event["number"] for event in deployment.events("census") if event["type"] == "rostered"]

    def dies(role: str, step: str, when: str) -> None:
        crashing = Node(
            deployment.directory,
            [sys.executable, CRASHING_NODE, step, when, role, "serve", "--home", deployment.home(role)],
            ready_lines=1,
            is_forked=True,
        )
        wait_until(lambda: crashing.process.poll() is not None, "killed")
        crashing.end()
        assert crashing.process.returncode == -9

    before = in_force()
    assert run_here("health", "load", "--home", deployment.home("health")).code == 0
    with deployment.node("census"):
        dies("health", "rostered", "after")
    with deployment.node("health"):
        dies("census", "roster file", "after")
        assert in_force() == before
        dies("census", "rostered", "after")
        with deployment.node("census"):
            assert isinstance(deployment.ask_all([("age >= 65", FRENCH)])[0], AskedQuestion)
    assert len(in_force()) == len(before) + 1
    assert len(list((deployment.home("census") / "rosters").iterdir())) == 2
    deployment.verify_ledger()


def start_that_is_killed(deployment: Deployment, step: str, when: str) -> None:
    """Start the census node, which does not live to be ready."""
    crashed = Node(
        deployment.directory,
        [sys.executable, CRASHING_NODE, step, when, "census", "serve", "--home", deployment.home("census")],
        ready_lines=1,
        is_forked=True,
    )
    wait_until(lambda: crashed.process.poll() is not None, "killed")
    crashed.end()
    assert (crashed.process.returncode, crashed.ready) == (-9, [])


def samples_of(deployment: Deployment) -> list[Path]:
    """Samples on the census node's disk."""
    return list((deployment.home("census") / "samples").iterdir())


def slot_files(deployment: Deployment) -> list[Path]:
    """Noise secrets on the census node's disk, a file for each batch."""
    return sorted((deployment.home("census") / "slots").iterdir())


@pytest.mark.parametrize(("step", "when"), [("wipe", "before"), ("wipe", "after")])
def test_a_start_that_is_killed_while_it_sweeps_is_taken_up_by_the_next_one(
    deployment: Deployment, step: str, when: str
) -> None:
    """A sample that no charge names is wiped by whichever start comes to it."""
    sample = deployment.home("census") / "samples" / f"{'0' * 32}.sample"
    # Where nobody has asked anything yet there are none.
    sample.parent.mkdir(mode=0o700, exist_ok=True)
    sample.write_bytes(bytes(range(256)))
    start_that_is_killed(deployment, step, when)
    assert sample.exists() == (when == "before")
    with deployment.node("census"):
        assert not samples_of(deployment)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["slot sweep", "slot secrets", "slots", "witness store"])
def test_a_start_that_is_killed_while_it_commits_to_slots_is_followed_by_one_that_serves(
    deployment: Deployment, step: str, when: str
) -> None:
    """Secrets without an entry, an entry that nobody was shown, a store ahead of everybody: the next start begins anew."""
    start_that_is_killed(deployment, step, when)
    with deployment.node("census"), deployment.node("health"):
        assert isinstance(deployment.ask_all([("age >= 65", FRENCH)])[0], AskedQuestion)
        (batch,) = slot_files(deployment)
        # Only what this start has committed to is there, but for the one that was used.
        committed = [event for event in deployment.events("census") if event["type"] == "slots"][-1]
        assert batch.name.startswith(f"{committed['first']:016d}.")
        assert committed["void_below"] == committed["first"]
        used = batch.read_bytes()[:SLOT_SECRET_BYTES]
        assert not any(used)
    deployment.verify_ledger()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_refusal_stays_one_although_the_health_node_is_killed_at_it(deployment: Deployment, when: str) -> None:
    """Refused by the census node, logged or not yet: the same ticket is refused again, and never charged."""
    words = ("researcher", "ask", "--home", deployment.home("researcher"), "--json")
    with deployment.node("census"), deployment.node("health"):
        asked = deployment.in_session(prepare)
    # The quote ends with the census node's process.
    with deployment.node("census"):
        with deployment.node("health", launcher=(sys.executable, CRASHING_NODE, "refused", when)) as crashing:
            assert run_here(*words, "--again", asked.query, "--wait", "1").code == 5
            wait_until(lambda: crashing.process.poll() is not None, "killed")
        with deployment.node("health"):
            for _ in range(2):
                assert run_here(*words, "--again", asked.query).error["code"] == "SLOT_UNUSABLE"
    ticket = deployment.ticket_of(asked.query)
    assert deployment.tickets("health", "refused")[ticket] == 1
    assert not deployment.tickets("census", "charged")[ticket]
    deployment.verify_ledger()


async def prepare(session: Session) -> AskedQuestion:
    """Quote and sign, and do not submit."""
    return await session.prepare(Wanted("age >= 65", FRENCH, Precision(30), 1_000_000, "official-languages"))


def test_a_question_goes_on_when_both_nodes_died_and_the_census_node_comes_back_last(deployment: Deployment) -> None:
    """The health node forwards an accepted question as soon as it can, without being asked again."""
    asking = Thread(target=lambda: deployment.ask_all([("age >= 65", FRENCH)], wait_seconds=FRUITLESS_SECONDS))
    with deployment.node("census") as census:
        with deployment.node("health", launcher=(sys.executable, CRASHING_NODE, "forwarded", "after")) as crashing:
            asking.start()
            wait_until(lambda: crashing.process.poll() is not None, "killed")
        census.signal(signal.SIGKILL)
    query = deployment.json("researcher", "answers")["answers"][-1]["query_id"]
    with deployment.node("health"):
        linger_here(FRUITLESS_SECONDS)
        with deployment.node("census"):
            asking.join()
            deployment.wait_until_closed()
    ticket = deployment.ticket_of(query)
    # Refused, because the noise that was reserved for it died with the census node; that is an end, too.
    assert [event["type"] for event in deployment.events("health") if event.get("ticket") == ticket][-1] == "refused"
    deployment.verify_ledger()
