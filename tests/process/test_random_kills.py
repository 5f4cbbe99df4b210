"""Kill -9 of any process at any moment of a stream of questions, while `up` starts the killed ones again.

Seeded: the seed decides who is killed and when; what each process is doing at that moment is left to chance, and may be
anything. A failure is a charge that no researcher can collect the answer of, a second charge or answer, a log that does
not replay. Not a failure: a question that was refused or given up uncharged.
"""

from __future__ import annotations

import os
import random  # noqa: TID251 - a seeded script of kills, no secret
import signal
import threading
import time
from pathlib import Path

import pytest
from fakes.deployment import FRENCH, ROLES, Deployment, Up, make, node_pids, run_here, wait_until
from fakes.patience import PATIENCE_SECONDS

from broker_common.errors import BrokerError
from researcher_node.answers.store import AskedQuestion

pytestmark = pytest.mark.process

SEED = 20_110_516
KILLS = 12
PAUSE_SECONDS = 0.2
# For an answer that a kill may have lost.
WAIT_SECONDS = 5
AT_ONCE = 4
MAX_BELIEF = "0.999999999999"
QUESTION = ("age >= 65", FRENCH)
HARMLESS = {"PEER_UNAVAILABLE", "ANSWER_PENDING", "SLOT_UNUSABLE", "BUSY"}


class Asking:
    """A stream of questions, some of them at once, until it is told to end."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self.outcomes: list[AskedQuestion | BrokerError] = []
        self.ends = threading.Event()

    def run(self) -> None:
        # Nobody's kill ends it too early for the answers that the test is about.
        while not (self.ends.is_set() and self.answered > KILLS):
            batch = self._deployment.ask_all([QUESTION] * AT_ONCE, at_once=AT_ONCE, wait_seconds=WAIT_SECONDS)
            self.outcomes += batch
            if not any(isinstance(outcome, AskedQuestion) for outcome in batch):
                time.sleep(PAUSE_SECONDS)

    @property
    def answered(self) -> int:
        return sum(isinstance(outcome, AskedQuestion) for outcome in self.outcomes)

    def kill_at_random(self, up: Up) -> None:
        """Twelve kills: every other one in the middle of answering, the rest whatever the others are doing."""
        chance = random.Random(SEED)
        try:
            for number in range(KILLS):
                if number % 2 == 0:
                    self._wait_for_answer()
                time.sleep(chance.uniform(0, PAUSE_SECONDS))
                _kill(up, chance.choice(ROLES))
        finally:
            self.ends.set()

    def _wait_for_answer(self) -> None:
        answered = self.answered
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.answered == answered and time.monotonic() < deadline:
            time.sleep(PAUSE_SECONDS / 10)


def _kill(up: Up, role: str) -> None:
    """Kill -9 of one node, as soon as there is one to be killed: serving, starting or stopping."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        pid = node_pids(up.directory).get(role)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            return
        time.sleep(PAUSE_SECONDS / 10)
    raise AssertionError(f"the {role} node never came back: {up.lines}")


def test_twelve_random_kills_lose_no_charge_and_charge_nothing_twice(tmp_path: Path) -> None:
    """Every charged ticket has one answer that its researcher can collect, and both logs replay."""
    deployment = make(tmp_path / "deployment", "--max-belief", MAX_BELIEF, population=500)
    asking = Asking(deployment)
    with deployment.up() as up:
        killing = threading.Thread(target=asking.kill_at_random, args=(up,))
        killing.start()
        asking.run()
        killing.join()
        wait_until(lambda: is_served(deployment), "a question is answered again")
        wait_until(lambda: settled(deployment), "every charge is released")
        assert deployment.run("researcher", "answers", "--collect", "--json").code == 0
        verify_researcher(deployment)
    codes = {outcome.code for outcome in asking.outcomes if isinstance(outcome, BrokerError)}
    assert codes <= HARMLESS
    deployment.verify_ledger()


def is_served(deployment: Deployment) -> bool:
    """Everything needed for an answer is up again."""
    return isinstance(deployment.ask_all([QUESTION])[0], AskedQuestion)


def settled(deployment: Deployment) -> bool:
    """Nothing is on its way at the health node, and nothing is charged and not released at the census node."""
    is_quiet = deployment.json("health", "status")["open"] == 0
    return is_quiet and deployment.tickets("census", "charged") == deployment.tickets("census", "released")


def verify_researcher(deployment: Deployment) -> None:
    """The researcher has every answer that was charged, and only those."""
    charged = {event["query"] for event in deployment.events("census") if event["type"] == "charged"}
    rows = deployment.json("researcher", "answers")["answers"]
    answered = {row["query_id"] for row in rows if row["state"] == "answered"}
    assert answered == charged
    for row in rows:
        if row["state"] == "pending":
            words = ("--again", row["query_id"], "--wait", str(PATIENCE_SECONDS), "--json")
            again = run_here("researcher", "ask", "--home", deployment.home("researcher"), *words)
            assert again.code in {0, 3}, again
