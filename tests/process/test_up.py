"""`tripartite up`: three nodes that live exactly as long as it does."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.deployment import FRENCH, ROLES, Deployment, Up, make, node_pids, run, wait_until
from fakes.patience import PATIENCE_SECONDS, linger_here

pytestmark = pytest.mark.process

# Enough for threads of gRPC to make handshakes at the same time; given certificates at each of them, most nodes ended.
WAVES, STRANGERS = 10, 200


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """Made once; every test starts and stops it."""
    return make(tmp_path_factory.mktemp("up") / "deployment", population=100)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One `up` for the tests that do not end it."""
    with make(tmp_path_factory.mktemp("running") / "deployment", population=100).up() as up:
        yield up


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_up_and_its_nodes(deployment: Deployment, number: signal.Signals) -> None:
    """Three ready lines, one a node, and on Ctrl-C or SIGTERM everything ends well."""
    with deployment.up() as up:
        assert [line.partition(" ")[0] for line in up.ready] == list(ROLES)
        assert up.lines == up.ready
        assert node_pids(deployment.directory).keys() == set(ROLES)
        assert up.signal(number) == 0
        assert not node_pids(deployment.directory)
        assert "Traceback" not in up.stderr


def test_no_node_outlives_an_up_that_is_killed(deployment: Deployment) -> None:
    """A kill -9 of `up` ends the nodes as well, so that no port and no home stays taken."""
    with deployment.up() as up:
        up.signal(signal.SIGKILL)
        wait_until(lambda: not node_pids(deployment.directory), "every node has ended")
    # They could not be taken otherwise.
    with deployment.nodes():
        assert node_pids(deployment.directory).keys() == set(ROLES)


def test_up_is_ready_when_the_service_is_shut_down(tmp_path: Path) -> None:
    """A service that is shut down serves what was charged before: three ready lines, and every new question refused."""
    deployment = make(tmp_path / "deployment", population=100)
    deployment.json("census", "shutdown", "--reason", "a drill")
    with deployment.up() as up:
        assert len(up.ready) == 3
        for outcome in (
            deployment.run("researcher", "quote", "--json"),
            deployment.ask("age >= 65", FRENCH),
        ):
            assert (outcome.code, outcome.error["code"]) == (4, "SERVICE_SHUT_DOWN")


def test_a_second_up_is_refused_with_the_reason(running: Up, tmp_path: Path) -> None:
    """Two nodes never serve one home; the second `up` says so, ends with the node's exit code, and disturbs nothing."""
    pids = node_pids(running.directory)
    second = run("up", running.directory)
    assert (second.code, second.stdout) == (4, "")
    assert "[ALREADY_RUNNING]" in second.stderr
    assert node_pids(running.directory) == pids
    nothing = run("up", tmp_path)
    assert (nothing.code, nothing.stdout) == (3, "")
    assert "[HOME_INVALID]" in nothing.stderr
    assert "INTERNAL" not in nothing.stderr


def test_a_killed_node_comes_back_by_itself(running: Up) -> None:
    """`up` starts a node again that was killed, and says so on stdout without the word that means ready."""
    pids = node_pids(running.directory)
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: {f"{role} node is back" for role in ROLES} <= set(running.lines), "all are back")
    back = node_pids(running.directory)
    assert back.keys() == pids.keys()
    assert not set(back.values()) & set(pids.values())
    assert len(running.ready) == 3


def test_nodes_start_in_any_order_and_find_each_other(tmp_path: Path) -> None:
    """Each node is ready by itself; a question asked when all are there is answered."""
    deployment = make(tmp_path / "deployment", population=100)
    with deployment.node("researcher"), deployment.node("health") as health, deployment.node("census"):
        assert deployment.ask("age >= 65", FRENCH).code == 0
        refused = deployment.run("health", "serve")
        assert (refused.code, refused.stdout) == (4, "")
        assert health.signal(signal.SIGTERM) == 0
    assert deployment.json("census", "status")["answers"] == 1


def test_sockets_of_strangers_end_no_node(running: Up) -> None:
    """Anybody opens hundreds of connections at once and hangs up without a handshake, again and again: every process stays."""
    before = node_pids(running.directory)
    for role in ("census", "health"):
        (ready,) = (line for line in running.ready if line.startswith(role))
        host, _, port = ready.split()[-1].rpartition(":")
        for _ in range(WAVES):
            with contextlib.ExitStack() as stack:
                for _ in range(STRANGERS):
                    stack.enter_context(socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS))
                # So that the node has taken them up before they are gone.
                linger_here(0.1)
    outcome = Deployment(running.directory).ask("age >= 65", FRENCH)
    assert outcome.code == 0, outcome.stderr
    assert node_pids(running.directory) == before
