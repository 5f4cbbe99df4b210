"""Real nodes whose wall clocks are set while they serve, and which start again with a clock behind their logs."""

from __future__ import annotations

import json
import signal
import sqlite3
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from fakes.deployment import FRENCH, Deployment, Node, make
from fakes.patience import PATIENCE_SECONDS

from broker_common.errors import BrokerError
from broker_common.storage.durable import replace_file
from researcher_node.answers.store import AskedQuestion

pytestmark = pytest.mark.process

SHIFTED_NODE = Path(__file__).with_name("shifted_node.py")
HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS
AGENCIES = ("census", "health")


class Machines:
    """The two agencies' nodes, each with a wall clock that can be set."""

    def __init__(self, deployment: Deployment, stack: ExitStack) -> None:
        self._deployment = deployment
        self._stack = stack
        self._nodes: dict[str, Node] = {}
        for role in AGENCIES:
            self.set(role, 0)
            self.start(role)

    def _shift(self, role: str) -> Path:
        return self._deployment.directory / f"{role}.shift"

    def set(self, role: str, shift_ms: int) -> None:
        """Set the clock of an agency, seen from the true time."""
        replace_file(self._shift(role), str(shift_ms).encode())

    def start(self, role: str) -> None:
        """A node with the clock as it is now."""
        launcher = (sys.executable, SHIFTED_NODE, self._shift(role))
        self._nodes[role] = self._stack.enter_context(self._deployment.node(role, launcher=launcher))

    def kill(self, role: str) -> None:
        """Kill -9."""
        self._nodes[role].signal(signal.SIGKILL)

    def ask(self) -> AskedQuestion | BrokerError:
        """One question to its answer."""
        return self._deployment.ask_all([("age >= 65", FRENCH)], wait_seconds=PATIENCE_SECONDS)[0]


def log_times(deployment: Deployment, role: str) -> list[int]:
    """When a node says that it wrote its entries."""
    with closing(sqlite3.connect(f"file:{deployment.home(role)}/journal.db?mode=ro", uri=True)) as db:
        return [json.loads(row[0])["time_ms"] for row in db.execute("select entry from entries order by sequence")]


def test_nodes_answer_whatever_their_clocks_say(tmp_path: Path) -> None:
    """Set back, started again behind the log, set forward: every question is answered, and no log goes back in time."""
    deployment = make(tmp_path / "deployment", population=500, tick_ms=100)
    with ExitStack() as stack:
        machines = Machines(deployment, stack)
        assert isinstance(machines.ask(), AskedQuestion)
        for role in AGENCIES:
            machines.set(role, -YEAR_MS)
            assert isinstance(machines.ask(), AskedQuestion), f"{role}'s clock set back by a year"
        for role in AGENCIES:
            machines.kill(role)
            machines.start(role)
            assert isinstance(machines.ask(), AskedQuestion), f"{role} started with the clock behind its log"
        before_ms = log_times(deployment, "census")[-1]
        assert isinstance(machines.ask(), AskedQuestion)
        # The log's time goes on although the clock is a year behind it: else quotes would never end.
        assert log_times(deployment, "census")[-1] > before_ms
        machines.set("census", HOUR_MS)
        assert isinstance(machines.ask(), AskedQuestion), "the census node's clock set forward by an hour"
        machines.set("census", 0)
        assert isinstance(machines.ask(), AskedQuestion), "and set right"
        machines.set("health", HOUR_MS)
        # The census node's time is an hour ahead by now, too: none of its quotes has ended by the health node's clock.
        assert isinstance(machines.ask(), AskedQuestion), "the health node's clock set forward by an hour"
    for role in AGENCIES:
        times = log_times(deployment, role)
        assert times == sorted(times)
    deployment.verify_ledger()
