"""One agency's home, or a researcher's, on a disk that becomes full: `full_disk.py ROLE DIRECTORY SPARE,SPARE ...`, one after the other.

Runs in a mount namespace of its own, where it may mount; `test_full_disk.py` starts it. For every SPARE the disk is
filled up to so many bytes, questions are asked until the node stops, the disk is freed and the node started again.
A broken promise is an AssertionError.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

# As pytest sees them: what tests share is imported as `fakes.NAME`.
sys.path.insert(0, str(Path(__file__).parents[1]))

from fakes.deployment import FRENCH, Deployment, Node, Outcome, run, run_here, wait_until
from fakes.nursery import PROGRAM
from fakes.patience import PATIENCE_SECONDS
from process.small_disk import SmallDisk

from broker_common.errors import BrokerError
from researcher_node.answers.store import AskedQuestion
from researcher_node.asking.proposal import Precision, Wanted
from researcher_node.asking.session import Session

QUESTIONS = [("age >= 65", FRENCH)] * 4
WAIT_SECONDS = 0.5
ROUNDS = 20


def assert_says_why(text: str, code: int | None) -> None:
    """The operator is told that it is the disk, and is not shown the inside of the program."""
    assert code == 6, (code, text)
    assert "[STORE_FAILED]" in text or "[STATE_UNKNOWN]" in text, text
    # The disk itself: the name of its folder has the word as well.
    assert "the disk" in text, text


def assert_no_bug(text: str) -> None:
    """A full disk is foreseen."""
    assert "Traceback" not in text, text
    assert "unforeseen" not in text, text


def said_since(deployment: Deployment, before: int) -> str:
    """Standard error of nodes, beginning at a place in their common file."""
    return _stderr(deployment).read_text()[before:]


def _stderr(deployment: Deployment) -> Path:
    return deployment.directory.with_name(f"{deployment.directory.name}.stderr")


def verify_commands(outcome: Outcome) -> None:
    """A command on a full disk works, or says that the disk is full."""
    assert_no_bug(outcome.stderr)
    if outcome.code != 0:
        assert outcome.error["code"] in {"STORE_FAILED", "STATE_UNKNOWN"}, outcome
        assert "the disk" in outcome.error["hint"]


def agency(role: str, deployment: Deployment, disk: SmallDisk, spares: list[int]) -> None:
    """The census node or the health node runs out of disk in the middle of questions."""
    other = "health" if role == "census" else "census"
    with deployment.node(other) as peer:
        for spare in spares:
            one_round(role, deployment, disk, spare)
            assert peer.process.poll() is None, "its peer went on"


def one_round(role: str, deployment: Deployment, disk: SmallDisk, spare: int) -> None:
    """Full, stopped, freed, started again."""
    before = len(_stderr(deployment).read_text())
    with deployment.node(role) as node:
        assert all(isinstance(outcome, AskedQuestion) for outcome in deployment.ask_all(QUESTIONS, at_once=4))
        # Or it would be written while the rest of the disk is being filled.
        deployment.wait_until_still()
        with disk.full(spare):
            fill_with_questions(deployment, node)
            assert_says_why(said_since(deployment, before), node.process.returncode)
            # Started again too early it serves until it has to write, or does not start, and says the same.
            again = Node(
                deployment.directory,
                [PROGRAM, role, "serve", "--home", deployment.home(role)],
                ready_lines=1,
                is_forked=True,
            )
            wait_until(lambda: bool(again.ready) or again.process.poll() is not None, "ready, or stopped")
            deployment.ask_all(QUESTIONS[:1], wait_seconds=0)
            again.end()
            # It ended by itself, by our signal, or by our signal while it was ending by itself.
            assert again.process.returncode in {6, 0, 130, -signal.SIGTERM}
            verify_commands(run(role, "status", "--home", deployment.home(role), "--json"))
            loaded = run(role, "load", "--home", deployment.home(role), "--json")
            verify_commands(loaded)
            assert loaded.code != 0
    assert_no_bug(said_since(deployment, before))
    with deployment.node(role):
        wait_until(lambda: is_settled(deployment), "everything that was accepted is at its end")
        finish(deployment)
        assert all(isinstance(outcome, AskedQuestion) for outcome in deployment.ask_all(QUESTIONS[:1]))
    deployment.verify_ledger()


def fill_with_questions(deployment: Deployment, node: Node) -> None:
    """Ask until the node stops; it must, because every answer needs space."""

    def asked_until_it_stopped() -> bool:
        if node.process.poll() is None:
            deployment.ask_all(QUESTIONS, at_once=4, wait_seconds=WAIT_SECONDS)
        return node.process.poll() is not None

    wait_until(asked_until_it_stopped, "stopped for want of space")


def is_settled(deployment: Deployment) -> bool:
    """Nothing is open at the health node, and every charge has its answer out."""
    is_quiet = deployment.json("health", "status")["open"] == 0
    return is_quiet and deployment.tickets("census", "charged") == deployment.tickets("census", "released")


def finish(deployment: Deployment) -> None:
    """The researcher fetches what there is: exactly what was charged."""
    # The first time submits what no health node has ever confirmed; its answers are there the second time.
    for _ in range(2):
        assert deployment.run("researcher", "answers", "--collect", "--json").code == 0
        wait_until(lambda: is_settled(deployment), "everything that was submitted again is at its end")
    rows = deployment.json("researcher", "answers")["answers"]
    answered = {row["query_id"] for row in rows if row["state"] == "answered"}
    assert answered == {event["query"] for event in deployment.events("census") if event["type"] == "charged"}


def researcher(deployment: Deployment, disk: SmallDisk, spares: list[int]) -> None:
    """The researcher's disk is full when questions are to be stored, and when answers arrive."""
    home = deployment.home("researcher")
    words = ("ask", "--home", home, "--where", QUESTIONS[0][0], "--count", QUESTIONS[0][1], "--json")
    with deployment.node("census"), deployment.node("health"):
        for spare in spares:
            before = len(_stderr(deployment).read_text())
            stored = deployment.in_session(prepare)
            with disk.full(spare):
                for _ in range(ROUNDS):
                    asked = run("researcher", *words)
                    verify_commands(asked)
                    if asked.code != 0:
                        break
                assert asked.error["code"] == "STORE_FAILED"
                inbox = Node(
                    deployment.directory,
                    [PROGRAM, "researcher", "serve", "--home", home],
                    ready_lines=1,
                    is_forked=True,
                )
                wait_until(lambda: bool(inbox.ready) or inbox.process.poll() is not None, "ready, or stopped")  # noqa: B023
                verify_commands(run_here("researcher", "answers", "--home", home, "--json"))
                inbox.end()
                if inbox.process.returncode != 0:
                    assert_says_why(said_since(deployment, before), inbox.process.returncode)
            assert_no_bug(said_since(deployment, before))
            # Now they are submitted, and delivered to an inbox that has space again.
            with deployment.node("researcher"):
                deployment.in_session(lambda session: submit(session, stored))  # noqa: B023
                wait_until(lambda: {asked.query for asked in stored} <= answered(deployment), "delivered")  # noqa: B023
            finish(deployment)
            deployment.verify_ledger()


def answered(deployment: Deployment) -> set[str]:
    """Queries whose answers the researcher has."""
    rows = deployment.json("researcher", "answers")["answers"]
    return {row["query_id"] for row in rows if row["state"] == "answered"}


async def prepare(session: Session) -> list[AskedQuestion]:
    """Quote, sign and store a few questions."""
    wanted = Wanted(*QUESTIONS[0], Precision(30), 1_000_000, "official-languages")
    return [await session.prepare(wanted) for _ in range(3)]


async def submit(session: Session, stored: list[AskedQuestion]) -> None:
    """Submit them to their release."""
    for asked in stored:
        await session._submit(asked, asyncio.get_running_loop().time() + PATIENCE_SECONDS, lambda _: None)


def batched(words: list[str]) -> Iterator[tuple[str, str, str]]:
    """Three words at a time."""
    each = iter(words)
    return zip(each, each, each, strict=True)


def main(role: str, directory: Path, spares: list[int]) -> None:
    """One role's disk."""
    deployment = Deployment(directory)
    disk = SmallDisk(deployment.home(role))
    if role == "researcher":
        researcher(deployment, disk, spares)
    else:
        agency(role, deployment, disk, spares)


if __name__ == "__main__":
    try:
        for name, folder, numbers in batched(sys.argv[1:]):
            sys.stderr.write(f"{name}\n")
            main(name, Path(folder), [int(number) for number in numbers.split(",")])
    except BrokerError as error:
        raise AssertionError(error.code) from error
