"""Kill -9 of commands beside serving nodes, before and after each of their durable steps: loads, shutdown, questions."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.deployment import FRENCH, Deployment, make, run_here, run_words, wait_until
from fakes.patience import PATIENCE_SECONDS

from researcher_node.answers.store import AskedQuestion
from researcher_node.asking.proposal import Precision, Wanted
from researcher_node.asking.session import Session

pytestmark = pytest.mark.process

CRASHING = Path(__file__).with_name("crashing_node.py")
QUESTION = ("age >= 65", FRENCH)
LOADS = {"census": "registries", "health": "people"}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Both agencies serve; no inbox."""
    made = make(tmp_path_factory.mktemp("killed") / "deployment", "--max-belief", "0.999999999999", population=500)
    with made.node("census"), made.node("health"):
        yield made


def killed(deployment: Deployment, step: str, when: str, role: str, *words: str) -> None:
    """Run a command that does not survive a step of its own."""
    ended = run_words(
        *(sys.executable, CRASHING, step, when), *(role, words[0], "--home", deployment.home(role)), *words[1:]
    )
    assert ended.code == -9, ended.stderr


def files(deployment: Deployment, role: str) -> list[str]:
    """Files in a node's folder of loads."""
    return sorted(path.name for path in (deployment.home(role) / LOADS[role]).iterdir())


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["load file", "loaded", "old loads"])
@pytest.mark.parametrize("role", LOADS)
def test_load_that_is_killed_beside_a_serving_node(deployment: Deployment, role: str, step: str, when: str) -> None:
    """The load before or the new one is in force, questions are answered, and the next load leaves nothing behind."""
    before = [event["load"] for event in deployment.events(role) if event["type"] == "loaded"]
    killed(deployment, step, when, role, "load")
    after = [event["load"] for event in deployment.events(role) if event["type"] == "loaded"]
    assert (after == before) == (
        (step, when) in {("load file", "before"), ("load file", "after"), ("loaded", "before")}
    )
    assert isinstance(deployment.ask_all([QUESTION])[0], AskedQuestion)
    deployment.wait_until_closed()
    deployment.json(role, "load")
    assert len(files(deployment, role)) == 1
    assert isinstance(deployment.ask_all([QUESTION])[0], AskedQuestion)
    deployment.verify_ledger()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["question", "received"])
def test_question_whose_command_is_killed(deployment: Deployment, step: str, when: str) -> None:
    """Before its ticket left there is no question or an open one; with the answer in hand it is fetched again."""
    queries = {row["query_id"] for row in deployment.json("researcher", "answers")["answers"]}
    killed(deployment, step, when, "researcher", "ask", "--where", QUESTION[0], "--count", QUESTION[1], "--yes")
    rows = {row["query_id"]: row for row in deployment.json("researcher", "answers")["answers"]}
    new = [row for query, row in rows.items() if query not in queries]
    if (step, when) == ("question", "before"):
        assert not new
        return
    (row,) = new
    assert row["state"] == ("answered" if (step, when) == ("received", "after") else "pending")
    again = run_here("researcher", "ask", "--home", deployment.home("researcher"), "--again", row["query_id"], "--json")
    assert again.result["query_id"] == row["query_id"]
    ticket = deployment.ticket_of(row["query_id"])
    wait_until(lambda: deployment.tickets("health", "settled")[ticket] == 1, "settled")
    for kind in ("charged", "released", "delivered"):
        assert deployment.tickets("census", kind)[ticket] == 1, kind
    deployment.verify_ledger()


@pytest.mark.parametrize("when", ["before", "after"])
def test_refusal_whose_command_is_killed(deployment: Deployment, when: str) -> None:
    """A refusal that was not stored leaves the question open; asked again, it is refused again and stored."""
    words = ("--where", QUESTION[0], "--count", QUESTION[1], "--yes")
    home = deployment.home("researcher")
    config = home / "config.toml"
    honest = config.read_text()
    # A study that the health agency does not know.
    config.write_text(honest.replace('project = "official-languages"', 'project = "another"'))
    killed(deployment, "refusal", when, "researcher", "ask", *words)
    config.write_text(honest)
    row = deployment.json("researcher", "answers")["answers"][-1]
    assert row["state"] == ("refused" if when == "after" else "pending")
    again = run_here("researcher", "ask", "--home", home, "--again", row["query_id"], "--json")
    assert again.error["code"] == "UNKNOWN_PROJECT"
    assert deployment.json("researcher", "answers")["answers"][-1]["state"] == "refused"
    assert not deployment.ticket_of(row["query_id"])


@pytest.mark.parametrize("when", ["before", "after"])
def test_inbox_that_is_killed_with_an_answer_in_hand(deployment: Deployment, when: str) -> None:
    """The census node delivers again to its successor, and logs one delivery."""
    launcher = (sys.executable, CRASHING, "received", when)
    with deployment.node("researcher", launcher=launcher) as inbox:
        deployment.in_session(submit)
        wait_until(lambda: inbox.process.poll() is not None, "killed")
    row = deployment.json("researcher", "answers")["answers"][-1]
    assert row["state"] == ("answered" if when == "after" else "pending")
    ticket = deployment.ticket_of(row["query_id"])
    with deployment.node("researcher"):
        wait_until(lambda: deployment.tickets("census", "delivered")[ticket] == 1, "delivered")
    assert deployment.json("researcher", "answers")["answers"][-1]["state"] == "answered"
    deployment.verify_ledger()


async def submit(session: Session) -> None:
    """One question to its release, without collecting its answer."""
    asked = await session.prepare(Wanted(*QUESTION, Precision(30), 1_000_000, "official-languages"))
    await session._submit(asked, asyncio.get_running_loop().time() + PATIENCE_SECONDS, lambda _: None)


@pytest.mark.parametrize("when", ["before", "after"])
def test_shutdown_that_is_killed(tmp_path: Path, when: str) -> None:
    """Shut or not, as the log says; given again the command shuts, once."""
    deployment = make(tmp_path / "deployment", population=50)
    killed(deployment, "shutdown", when, "census", "shutdown")
    assert deployment.json("census", "status")["state"] == ("shutdown" if when == "after" else "serving")
    for _ in range(2):
        assert deployment.json("census", "shutdown")["state"] == "shutdown"
    deployment.verify_ledger()
