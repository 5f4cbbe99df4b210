"""The two agencies' nodes need each other for quotes and for releases, and for nothing else; neither has to be first."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from fakes.deployment import FRENCH, Deployment, make, run_here, wait_until
from fakes.homes import set_limits
from fakes.ledger_rules import Note
from fakes.patience import PATIENCE_SECONDS, linger_here

from broker_common.errors import BrokerError
from census_node.release.slots import BATCH
from researcher_node.answers.store import AskedQuestion
from researcher_node.asking.proposal import Precision
from researcher_node.asking.session import Quoted, Session

pytestmark = pytest.mark.process

CRASHING_NODE = Path(__file__).with_name("crashing_node.py")
QUESTION = ("age >= 65", FRENCH)
# Longer than a question at tick 0 takes by far.
A_WHILE_SECONDS = 1.0
SHORT_MS = 200


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """Answers at once, and budget enough for all; every test starts and ends its nodes."""
    return make(tmp_path_factory.mktemp("witnessing") / "deployment", "--max-belief", "0.999999999999", population=300)


@pytest.fixture(autouse=True)
def _agree(deployment: Deployment) -> Iterator[None]:
    """Whatever a test did, afterwards a question is answered and both logs are of one history."""
    yield
    with deployment.node("health"), deployment.node("census"):
        assert isinstance(deployment.ask_all([QUESTION])[0], AskedQuestion)
    deployment.verify_ledger()


def test_a_quote_right_after_three_ready_lines_works(deployment: Deployment) -> None:
    """Each node says ready, one after the other as under `up`, and nobody has to wait for the agencies to have met."""
    with deployment.nodes():
        assert deployment.json("researcher", "quote")["charged"] > 0


@pytest.mark.parametrize("first", ["census", "health"])
def test_either_node_may_be_started_first(deployment: Deployment, first: str) -> None:
    """Each is ready without the other one; with both of them a quote works at once."""
    with deployment.node(first):
        linger_here(A_WHILE_SECONDS)
        with deployment.node("health" if first == "census" else "census"):
            assert deployment.json("researcher", "quote")["charged"] > 0


def quotes_until_refused(deployment: Deployment) -> tuple[int, str]:
    """How many quotes there are before the first that is refused, and with which code that is."""

    async def work(session: Session) -> tuple[int, str]:
        quoted: list[Quoted] = []
        try:
            while len(quoted) <= BATCH:
                quoted.append(await session.quote(FRENCH, Precision(30)))
        except BrokerError as error:
            return len(quoted), error.code
        return len(quoted), ""

    outcome: tuple[int, str] = deployment.in_session(work)
    return outcome


def test_without_the_health_node_the_slots_that_it_has_cosigned_are_quoted_and_no_others(
    deployment: Deployment,
) -> None:
    """A whole batch of quotes, then NOT_WITNESSED; an ask names the health node, as ever; with it back all goes on."""
    set_limits(deployment.home("census"), quote_wait_ms=SHORT_MS)
    with deployment.node("census"):
        with deployment.node("health"):
            # Quotes wait for so short a time here that the first ones may find nothing cosigned.
            wait_until(lambda: deployment.run("researcher", "quote", "--json").code == 0, "quoted")
        asked = deployment.ask(*QUESTION)
        assert (asked.code, asked.error["code"]) == (5, "PEER_UNAVAILABLE")
        assert "health node" in asked.error["text"]
        # One for the first quote. `ask` wants to know what may be asked before it is quoted.
        assert quotes_until_refused(deployment) == (BATCH - 1, "NOT_WITNESSED")
        waiting = deployment.run("researcher", "quote", "--json")
        assert (waiting.code, waiting.error["code"]) == (5, "NOT_WITNESSED")
        with deployment.node("health"):
            wait_until(lambda: deployment.run("researcher", "quote", "--json").code == 0, "quoted")
    set_limits(deployment.home("census"), quote_wait_ms=5_000)


def test_without_the_health_node_from_the_start_there_is_no_quote(deployment: Deployment) -> None:
    """The slots of this start are in no checkpoint that anybody has cosigned; those of the start before are void."""
    with deployment.node("census"), deployment.node("health"):
        assert deployment.run("researcher", "quote", "--json").code == 0
    set_limits(deployment.home("census"), quote_wait_ms=SHORT_MS)
    with deployment.node("census"):
        quoted = deployment.run("researcher", "quote", "--json")
        assert (quoted.code, quoted.error["code"]) == (5, "NOT_WITNESSED")
    set_limits(deployment.home("census"), quote_wait_ms=5_000)


@pytest.mark.parametrize("census_restarts", [False, True], ids=["census serves on", "census restarts"])
def test_an_answer_waits_for_a_health_node_that_went_away_after_the_charge(
    deployment: Deployment, census_restarts: bool
) -> None:
    """Killed before it cosigned: the charge stands, its answer stays inside, also for `--collect`, until it is back."""
    set_limits(deployment.home("census"), cosignature_wait_ms=SHORT_MS)
    asked: list[AskedQuestion | BrokerError] = []
    asking = Thread(target=lambda: asked.extend(deployment.ask_all([QUESTION], wait_seconds=PATIENCE_SECONDS)))
    census = deployment.node("census")
    with census:
        with deployment.node("health", launcher=(sys.executable, CRASHING_NODE, "cosigned", "before")) as dying:
            asking.start()
            wait_until(lambda: dying.process.poll() is not None, "killed")
        query = deployment.json("researcher", "answers")["answers"][-1]["query_id"]
        ticket = deployment.ticket_of(query)
        assert deployment.tickets("census", "charged")[ticket] == 1
        if not census_restarts:
            wait_for_it_in_vain(deployment, ticket, query)
            with deployment.node("health"):
                wait_until(lambda: deployment.tickets("census", "released")[ticket] == 1, "released")
                asking.join()
    if census_restarts:
        with deployment.node("census"):
            wait_for_it_in_vain(deployment, ticket, query)
            with deployment.node("health"):
                wait_until(lambda: deployment.tickets("census", "released")[ticket] == 1, "released")
                asking.join()
    assert isinstance(asked[0], AskedQuestion)
    assert asked[0].query == query
    set_limits(deployment.home("census"), cosignature_wait_ms=60_000)


def wait_for_it_in_vain(deployment: Deployment, ticket: str, query: str) -> None:
    """Nothing of a charged answer comes out, however it is looked for."""
    linger_here(A_WHILE_SECONDS)
    assert not deployment.tickets("census", "released")[ticket]
    (row,) = deployment.json("researcher", "answers", "--collect", query)["answers"]
    assert row["state"] == "pending"


def test_each_agency_has_the_others_newest_checkpoint(deployment: Deployment) -> None:
    """After a question both hold a note of the other's log, cosigned by themselves, that covers its charge."""
    with deployment.node("census"), deployment.node("health"):
        assert isinstance(deployment.ask_all([QUESTION])[0], AskedQuestion)
        origins = {role: deployment.events(role)[0]["origin"] for role in ("census", "health")}
        sizes = {role: len(deployment.entries(role)) for role in ("census", "health")}

        def seen(by: str, of: str) -> Note:
            return deployment.witnessed(by, origins[of])

        # The charge is followed by its release alone; a health log is shown as it is.
        assert seen("health", "census").size >= sizes["census"] - 2
        wait_until(lambda: seen("census", "health").size >= sizes["health"], "seen")
        # Each has also been told how much the other has seen of its own log.
        wait_until(lambda: seen("health", "health").size >= sizes["health"], "told")
        wait_until(lambda: seen("census", "census").size == seen("health", "census").size, "told")


@pytest.mark.parametrize("role", ["census", "health"])
def test_a_witness_key_that_is_honoured_no_more_stops_nobody(deployment: Deployment, role: str, tmp_path: Path) -> None:
    """Replaced at once, the card handed over: what was cosigned under it is said again under the new one; answers go on."""
    home = ("--home", deployment.home(role))
    with deployment.node("census"), deployment.node("health"):
        assert isinstance(deployment.ask_all([QUESTION])[0], AskedQuestion)
        assert run_here("keys", "rotate", "witness", *home, "--in", "0s", "--honour", "0s").code == 0
        card = run_here("keys", "card", "--to", tmp_path / "card", *home, "--json").result
        for peer in {"census", "health", "researcher"} - {role}:
            words = (tmp_path / "card", "--fingerprint", card["fingerprint"])
            assert deployment.run(peer, "register", *words).code == 0
        wait_until(lambda: isinstance(deployment.ask_all([QUESTION])[0], AskedQuestion), "answered")
