"""A sealed answer reaches its researcher by itself where there is an inbox, and waits to be collected where there is none."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import nursery
from fakes.deployment import FRENCH, Deployment, Outcome, make, node_pids, run_here, wait_until
from fakes.nursery import PROGRAM
from process.liars import LyingResearcher

from broker_common.storage.durable import replace_file

pytestmark = pytest.mark.process

CRASHING_NODE = Path(__file__).with_name("crashing_node.py")
SHIFTED_NODE = Path(__file__).with_name("shifted_node.py")
# Longer than any test waits.
LONG_TICK_MS = 3_600_000


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Census and health node; a test that wants an inbox opens one. Answers leave at ticks, so there is time to leave."""
    made = make(tmp_path_factory.mktemp("delivery") / "deployment", population=100, tick_ms=200)
    with made.node("census"), made.node("health"):
        yield made


def ask_and_leave(deployment: Deployment) -> str:
    """Ask without waiting; the query's id."""
    outcome = run_here(
        *("researcher", "ask", "--home", deployment.home("researcher"), "--json"),
        *("--where", "age >= 65", "--count", FRENCH, "--wait", "0"),
    )
    assert (outcome.code, outcome.error["code"]) == (5, "ANSWER_PENDING")
    assert "answers --collect" in outcome.error["hint"]
    return str(row(deployment, -1)["query_id"])


def wait_until_out(deployment: Deployment, query: str) -> None:
    """Return when an answer could be collected: at its tick, which comes after its release stands in the log."""

    def is_out() -> bool:
        collected = deployment.json("researcher", "answers", "--collect", query)["answers"]
        return bool(collected[0]["state"] == "answered")

    wait_until(is_out, "out")


def row(deployment: Deployment, which: str | int) -> Any:
    """A query's row in the researcher's list, by its id or place."""
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
        wait_until(lambda: row(deployment, query)["state"] == "answered", "pushed")
        wait_until(lambda: ways(deployment, query) == ["inbox"], "logged")
    assert inbox.lines == inbox.ready
    answer = row(deployment, query)
    for secret in (query, deployment.ticket_of(query), "age", "French", f"count={answer['noisy_count']}"):
        assert not re.search(rf"\b{re.escape(secret)}\b", inbox.stderr)


def test_an_inbox_that_opens_late_gets_what_it_missed(deployment: Deployment) -> None:
    """A push that finds nobody is tried again."""
    query = ask_and_leave(deployment)
    wait_until(lambda: bool(deployment.tickets("census", "released")[deployment.ticket_of(query)]), "released")
    with deployment.node("researcher"):
        wait_until(lambda: row(deployment, query)["state"] == "answered", "pushed")


def test_a_killed_ask_is_answered_all_the_same(deployment: Deployment) -> None:
    """Kill -9 of the researcher's command, after the health node has taken the question, loses nothing."""
    words = ("--home", deployment.home("researcher"), "--where", "age >= 66", "--count", FRENCH)
    with nursery.piped([PROGRAM, "researcher", "ask", *words]) as asking:
        assert "taken the question" in asking.stderr.readline()
        asking.process.kill()
    query = row(deployment, -1)["query_id"]
    with deployment.node("researcher"):
        wait_until(lambda: row(deployment, query)["state"] == "answered", "pushed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_ask_is_recoverable(deployment: Deployment, number: int) -> None:
    """While waiting: exit 130, the query is named on stdout, and its answer is fetched later, without an inbox."""
    # From here on the health node knows the policy.
    assert deployment.ask("age >= 65", FRENCH).code == 0
    query = LyingResearcher(deployment).prepare().query
    words = ("--home", deployment.home("researcher"), "--again", query, "--json")
    # The census node is frozen: no answer overtakes the signal.
    census = node_pids(deployment.directory)["census"]
    os.kill(census, signal.SIGSTOP)
    try:
        with nursery.piped([PROGRAM, "researcher", "ask", *words]) as asking:
            assert "taken the question" in asking.stderr.readline()
            asking.process.send_signal(number)
            said = Outcome(asking.process.wait(), asking.stdout.read(), asking.stderr.read())
    finally:
        os.kill(census, signal.SIGCONT)
    assert said.code == 130
    assert said.error["code"] == "INTERRUPTED"
    assert f"answers --collect {query}" in said.error["hint"]
    assert "Traceback" not in said.stderr
    wait_until_out(deployment, query)
    (collected,) = deployment.run("researcher", "answers", "--collect", query, "--json").result["answers"]
    assert (collected["state"], ways(deployment, query)) == ("answered", ["collect"])


def test_without_an_inbox_collect_works_alone(deployment: Deployment) -> None:
    """The sealed answer waits; `answers --collect` fetches it, says what is still pending, and fetches it once."""
    query = ask_and_leave(deployment)
    assert row(deployment, query)["state"] == "pending"
    wait_until_out(deployment, query)
    collected = deployment.run("researcher", "answers", "--collect", query, "--json").result["answers"]
    assert [(each["query_id"], each["state"]) for each in collected] == [(query, "answered")]
    assert collected == deployment.json("researcher", "answers", "--collect", query)["answers"]
    assert ways(deployment, query) == ["collect"]


def test_a_pending_answer_is_said_to_be_pending(tmp_path: Path) -> None:
    """Collected too early is no failure: exit 0, the query on stderr, and its state on the list."""
    deployment = make(tmp_path / "deployment", population=100)
    deployment.order_policy(release_tick_ms=LONG_TICK_MS)
    with deployment.node("census"), deployment.node("health"):
        query = ask_and_leave(deployment)
        home = deployment.home("researcher")
        early = run_here("researcher", "answers", "--collect", "--home", home, query, "--json")
    assert early.result["answers"][0]["state"] == "pending"
    assert query in early.stderr


def test_asking_again_after_the_ticket_expired_still_gives_the_answer_it_was_charged_for(tmp_path: Path) -> None:
    """An expired ticket is charged no more, but one that was charged in time has its answer."""
    deployment, shift = make(tmp_path / "deployment", population=100, tick_ms=200), tmp_path / "shift"
    replace_file(shift, b"0")
    launcher = (sys.executable, SHIFTED_NODE, shift)
    with deployment.node("census", launcher=launcher), deployment.node("health", launcher=launcher):
        query, unused = ask_and_leave(deployment), LyingResearcher(deployment).prepare().query
        wait_until(lambda: bool(deployment.tickets("census", "released")[deployment.ticket_of(query)]), "released")
        # Both agencies' clocks pass the end of the tickets.
        replace_file(shift, str(deployment.json("census", "policy")["quote_lifetime_ms"]).encode())
        answers = deployment.json("census", "status")["answers"]
        again = deployment.json("researcher", "ask", "--again", query)
        assert again["query_id"] == query
        expired = deployment.run("researcher", "ask", "--again", unused, "--json")
        assert expired.error["code"] == "TICKET_EXPIRED"
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
            wait_until(lambda: ways(deployment, query) == ["inbox"], "logged")
        assert row(deployment, query) == answer
    deployment.verify_ledger()
