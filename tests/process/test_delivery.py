"""A sealed answer reaches its researcher by itself where there is an inbox, and waits to be collected where there is none."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fakes.deployment import FRENCH, PROGRAM, Deployment, Outcome, make, run_here, wait_until

from broker_common.privacy.policy import Policy
from deploy.local import Plan, lay_out

pytestmark = pytest.mark.process

QUOTE_SECONDS = 3.0
CRASHING_NODE = Path(__file__).with_name("crashing_node.py")


class ShortQuotes(Plan):
    """A policy under which a ticket expires within the patience of a test."""

    def policy(self) -> Policy:
        return msgspec.structs.replace(Plan.policy(self), quote_lifetime_ms=int(1000 * QUOTE_SECONDS))


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Census and health node; a test that wants an inbox opens one. Answers leave at ticks, so there is time to leave."""
    directory = tmp_path_factory.mktemp("delivery") / "deployment"
    plan = ShortQuotes(population=100, seed=1, accounting="strict", max_belief="0.8", release_tick_ms=200, delay_ms=200)
    lay_out(directory, plan, lambda _: lambda _done, _total: None)
    deployment = Deployment(directory)
    with deployment.node("census"), deployment.node("health"):
        yield deployment


def ask_and_leave(deployment: Deployment) -> str:
    """Ask without waiting; the query's id."""
    outcome = run_here(
        *("researcher", "ask", "--home", deployment.home("researcher"), "--json"),
        *("--where", "age >= 65", "--count", FRENCH, "--wait", "0"),
    )
    assert (outcome.code, outcome.error["code"]) == (5, "ANSWER_PENDING")
    assert "answers --collect" in outcome.error["hint"]
    return str(row(deployment, -1)["query_id"])


def row(deployment: Deployment, which: str | int) -> Any:
    """What the researcher's list says of a query, by its id or place."""
    rows = deployment.json("researcher", "answers")["answers"]
    return rows[which] if isinstance(which, int) else next(each for each in rows if each["query_id"] == which)


def ways(deployment: Deployment, query: str) -> list[str]:
    """How the census node says that the answer was delivered; once at most, or its log would not replay."""
    ticket = deployment.ticket_of(query)
    return [e["by"] for e in deployment.events("census") if e["type"] == "delivered" and e["ticket"] == ticket]


def test_an_answer_nobody_waits_for_is_pushed_to_the_inbox(deployment: Deployment) -> None:
    """`ask --wait 0` ends with exit 5, and the answer comes all the same; the inbox says nothing of it."""
    with deployment.node("researcher") as inbox:
        query = ask_and_leave(deployment)
        wait_until(lambda: row(deployment, query)["state"] == "answered", "pushed", seconds=20)
        wait_until(lambda: ways(deployment, query) == ["inbox"], "logged", seconds=5)
    assert inbox.lines == inbox.ready
    answer = row(deployment, query)
    for secret in (query, deployment.ticket_of(query), "age", "French", f"count={answer['noisy_count']}"):
        assert secret not in inbox.stderr


def test_an_inbox_that_opens_late_gets_what_it_missed(deployment: Deployment) -> None:
    """A push that finds nobody is tried again."""
    query = ask_and_leave(deployment)
    wait_until(lambda: bool(deployment.tickets("census", "released")[deployment.ticket_of(query)]), "released")
    with deployment.node("researcher"):
        wait_until(lambda: row(deployment, query)["state"] == "answered", "pushed", seconds=20)


def test_a_killed_ask_is_answered_all_the_same(deployment: Deployment) -> None:
    """Kill -9 of the researcher's command, after the health node has taken the question, loses nothing."""
    words = ("--home", deployment.home("researcher"), "--where", "age >= 65", "--count", FRENCH)
    with subprocess.Popen([PROGRAM, "researcher", "ask", *words], stderr=subprocess.PIPE, text=True) as asking:
        assert asking.stderr is not None
        assert "taken the question" in asking.stderr.readline()
        asking.send_signal(signal.SIGKILL)
    query = row(deployment, -1)["query_id"]
    with deployment.node("researcher"):
        wait_until(lambda: row(deployment, query)["state"] == "answered", "pushed", seconds=20)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_ask_is_recoverable(deployment: Deployment, number: int) -> None:
    """While waiting: exit 130, the query is named on stdout, and its answer is fetched later, without an inbox."""
    words = ("--home", deployment.home("researcher"), "--where", "age >= 65", "--count", FRENCH, "--json")
    # On a busy machine the answer may overtake the signal.
    for _ in range(5):
        with subprocess.Popen(
            [PROGRAM, "researcher", "ask", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as asking:
            assert asking.stderr is not None
            assert asking.stdout is not None
            assert "taken the question" in asking.stderr.readline()
            asking.send_signal(number)
            said = Outcome(asking.wait(), asking.stdout.read(), asking.stderr.read())
        if asking.returncode == 130 and "answers --collect" in said.stdout:
            break
    query = row(deployment, -1)["query_id"]
    assert asking.returncode == 130
    assert said.error["code"] == "INTERRUPTED"
    assert f"answers --collect {query}" in said.error["hint"]
    assert "Traceback" not in said.stderr
    wait_until(lambda: bool(deployment.tickets("census", "released")[deployment.ticket_of(query)]), "released")
    (collected,) = deployment.run("researcher", "answers", "--collect", query, "--json").result["answers"]
    assert (collected["state"], ways(deployment, query)) == ("answered", ["collect"])


def test_without_an_inbox_collect_works_alone(deployment: Deployment) -> None:
    """The sealed answer waits; `answers --collect` fetches it, says what is still pending, and fetches it once."""
    query = ask_and_leave(deployment)
    assert row(deployment, query)["state"] == "pending"
    wait_until(lambda: bool(deployment.tickets("census", "released")[deployment.ticket_of(query)]), "released")
    collected = deployment.run("researcher", "answers", "--collect", query, "--json").result["answers"]
    assert [(each["query_id"], each["state"]) for each in collected] == [(query, "answered")]
    assert collected == deployment.json("researcher", "answers", "--collect", query)["answers"]
    assert ways(deployment, query) == ["collect"]


def test_a_pending_answer_is_said_to_be_pending(deployment: Deployment) -> None:
    """Collected too early is no failure: exit 0, the query on stderr, and its state on the list."""
    query = ask_and_leave(deployment)
    home = deployment.home("researcher")
    early = run_here("researcher", "answers", "--collect", "--home", home, query, "--json")
    assert early.result["answers"][0]["state"] == "pending"
    assert query in early.stderr


def test_asking_again_after_the_ticket_expired_still_gives_the_answer_it_was_charged_for(
    deployment: Deployment,
) -> None:
    """An expired ticket is charged no more, but one that was charged in time has its answer."""
    query = ask_and_leave(deployment)
    wait_until(lambda: bool(deployment.tickets("census", "released")[deployment.ticket_of(query)]), "released")
    time.sleep(QUOTE_SECONDS)
    answers = deployment.json("census", "status")["answers"]
    again = deployment.json("researcher", "ask", "--again", query)
    assert again["query_id"] == query
    assert deployment.json("census", "status")["answers"] == answers
    assert row(deployment, query)["refused"] is None


def test_a_census_node_killed_before_it_logs_a_delivery_delivers_again(tmp_path: Path) -> None:
    """The inbox has the answer, the log does not say so: after the start it is delivered and logged, once."""
    deployment = make(tmp_path / "deployment", population=100)
    with deployment.node("researcher"), deployment.node("health"):
        with deployment.node("census", launcher=(sys.executable, CRASHING_NODE, "delivered", "before")) as crashing:
            query = ask_and_leave(deployment)
            wait_until(lambda: crashing.process.poll() is not None, "killed")
            assert crashing.process.returncode == -signal.SIGKILL
        answer = row(deployment, query)
        assert (answer["state"], ways(deployment, query)) == ("answered", [])
        with deployment.node("census"):
            wait_until(lambda: ways(deployment, query) == ["inbox"], "logged", seconds=20)
        assert row(deployment, query) == answer
    deployment.verify_ledger()
