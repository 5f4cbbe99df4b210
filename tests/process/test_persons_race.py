"""Sixty-four questions about the same people at once, from four processes: everybody is counted once and nobody twice."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from pathlib import Path

import pytest
from fakes.deployment import FRENCH, Deployment, make

from broker_common.errors import BrokerError
from broker_common.privacy.accounting import price
from census_node.assembly import CensusHome
from census_node.ledger.samples import SampleFolder

pytestmark = pytest.mark.process

PROCESSES, EACH, ALLOWED = 4, 16, 60
POPULATION = 200


def race(directory: Path) -> list[str]:
    """One process: so many questions at once; how each ended."""
    outcomes = Deployment(directory).ask_all([("age >= 0", FRENCH)] * EACH, scale=1, at_once=EACH)
    return [outcome.code if isinstance(outcome, BrokerError) else outcome.state for outcome in outcomes]


def test_nobody_is_counted_twice_however_many_ask_at_once(tmp_path: Path) -> None:
    """At scale 1 one answer fits a person under 0.8. All 64 ask; as many as the policy allows are answered, one counts people."""
    deployment = make(tmp_path / "deployment", "--max-belief", "0.8", population=POPULATION)
    deployment.order_policy(accounting="per_person", max_answers=ALLOWED)
    with deployment.node("census"), deployment.node("health"):
        context = multiprocessing.get_context("forkserver")
        # One process imports for all of them.
        context.set_forkserver_preload([__name__])
        with context.Pool(PROCESSES) as pool:
            ended = Counter(code for codes in pool.map(race, [deployment.directory] * PROCESSES) for code in codes)
        # A question refused for want of a place is asked again, until the policy's last answer.
        while ended["answered"] < ALLOWED and ended.total() < 4 * PROCESSES * EACH:
            ended.update(race(deployment.directory))
    assert ended["answered"] == ALLOWED
    assert set(ended) <= {"answered", "BUDGET_EXHAUSTED", "SERVICE_SHUT_DOWN", "BUSY"}
    home = CensusHome(deployment.home("census"))
    assert home.read(lambda state: (state.answers, state.shut_down, state.shutdown_reason)) == (ALLOWED, True, "budget")
    charges = home.charges()
    assert charges is not None
    charged = Counter(charges.subjects.tolist())
    assert set(charged) <= {0, price(1)}
    assert 0 < charged[price(1)] <= POPULATION
    assert sorted(_actives(home)) == [0] * (ALLOWED - 1) + [charged[price(1)]]


def _actives(home: CensusHome) -> list[int]:
    """How many people each charge counts, as its file has them."""
    samples = SampleFolder(home.home.path / "samples")
    with home.journal() as journal, journal.reading():
        files = [row["file"] for row in journal.db.query("select file from ledger_steps where kind = 'charge'")]
    return [sum(byte.bit_count() for byte in samples.read(file).active.tobytes()) for file in files]
