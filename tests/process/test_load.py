"""Many researchers at once: fair, one charge and one answer each, clean in replay; and a stop in the middle of it."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest
from benchmarks.load import MAX_BELIEF, SIZES, Plan, measure, name_of, replay, sizes
from fakes.deployment import FRENCH, Deployment, make, wait_until

from broker_common.errors import BrokerError
from researcher_node.answers.store import AskedQuestion

pytestmark = pytest.mark.process

AT_ONCE = 24
QUESTIONS = 72


def test_load_of_eight_is_answered_and_replays_clean(tmp_path: Path) -> None:
    """Eight researchers of mixed sizes, one of them with forty questions at once: nothing is lost, doubled or refused."""
    plan = Plan(people=2000, researchers=8, seconds=3, tick_ms=0, greedy=40)
    load = measure(tmp_path / "deployment", plan)
    answers = load.answered.total()
    assert not load.refused
    assert load.replay["verified"]
    assert (load.replay["problems"], load.replay["answers"]) == ([], answers)
    assert sum(map(len, load.took.values())) == answers
    # Seven who ask one question after the other, whatever the machine is doing: nobody is starved by the one with forty.
    assert load.fairness(name_of(0)) > 1 / 3
    assert min(load.answered.values()) > 0


def test_ten_questions_at_a_time_of_few_people_all_count(tmp_path: Path) -> None:
    """A run of so many tiny questions asks exactly so many."""
    load = measure(tmp_path / "deployment", Plan(people=200, researchers=2, seconds=0, tick_ms=0, greedy=10, tiny=40))
    assert (load.answered.total(), load.replay["answers"], load.replay["problems"]) == (40, 40, [])


def test_mix_holds_every_size_wherever_a_researcher_begins() -> None:
    """A hundred questions in a row are of all sizes, the large ones rare."""
    for start in range(32):
        mix = sizes(start)
        asked = [next(mix) for _ in range(100)]
        assert {asked.count(size) for size in SIZES} == {50, 30, 15, 5}


def test_stop_under_load_loses_no_accepted_question(tmp_path: Path) -> None:
    """SIGTERM while two dozen are under way: the nodes do not wait for all of them; after a restart each has one charge, one answer."""
    # At ticks so far apart that a stop waits for some of them only.
    deployment = make(
        tmp_path / "deployment", "--max-belief", MAX_BELIEF, "--release-tick-ms", "1000", accounting="per_person"
    )
    outcomes: list[AskedQuestion | BrokerError] = []

    def ask() -> None:
        outcomes.extend(
            deployment.ask_all([(SIZES["medium"], FRENCH)] * QUESTIONS, scale=50, at_once=AT_ONCE, wait_seconds=5)
        )

    with deployment.up() as up:
        asking = threading.Thread(target=ask)
        asking.start()
        wait_until(lambda: len(deployment.tickets("census", "charged")) > QUESTIONS // 6, "some are charged")
        assert up.signal(signal.SIGTERM) == 0
    asking.join()
    accepted = deployment.tickets("health", "submitted")
    left = [ticket for ticket in accepted if ticket not in deployment.tickets("health", "settled")]
    assert left, "the nodes waited for every question, or nothing was under way"
    with deployment.nodes():
        wait_until(
            lambda: accepted.keys() <= deployment.tickets("health", "settled").keys() | refused(deployment),
            "every accepted question has come to its end",
        )
        deployment.json("researcher", "answers", "--collect")
        # Fetching submits again what no health node had confirmed before the stop.
        accepted = deployment.tickets("health", "submitted")
        wait_until(
            lambda: accepted.keys() <= deployment.tickets("health", "settled").keys() | refused(deployment),
            "what was submitted again has come to its end, too",
        )
        collected = deployment.json("researcher", "answers", "--collect", "--state", "answered")
    charged, released = deployment.tickets("census", "charged"), deployment.tickets("census", "released")
    assert charged == released
    assert set(charged.values()) == {1}
    assert accepted.keys() - charged.keys() == refused(deployment)
    assert len(collected["answers"]) >= len(charged)
    deployment.verify_ledger()
    verdict = replay(deployment, [])
    assert (verdict["problems"], verdict["answers"]) == ([], len(charged))


def refused(deployment: Deployment) -> set[str]:
    """Tickets whose slot a restart of the census node made void; nothing was charged for them."""
    return set(deployment.tickets("health", "refused"))
