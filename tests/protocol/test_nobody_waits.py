"""A pass over everybody for one sample, or for all of them, keeps nobody waiting who charges nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fakes.patience import PATIENCE_SECONDS
from fakes.world import RESEARCHER, Order, World, make_policy

from broker_common.privacy.accounting import price
from census_node.ledger.passes import Passes
from census_node.ledger.snapshots import SnapshotFolder


@pytest.fixture
def persons(tmp_path: Path) -> Iterator[World]:
    """A world whose answers charge persons, one answer at scale 1 each."""
    made = World(tmp_path / "persons", make_policy(accounting="per_person", max_belief="0.75", scales=(1, 50)))
    yield made
    made.close()


@contextmanager
def held_in(owner: object, name: str, work: Callable[[], object]) -> Iterator[None]:
    """While the block runs, `work` stands still in the step `name`; afterwards it has come to its end."""
    reached, go_on = threading.Event(), threading.Event()
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as thread:
        step = getattr(owner, name)

        def held(*arguments: Any, **named: Any) -> Any:
            if threading.current_thread() is worker[0]:
                reached.set()
                assert go_on.wait(PATIENCE_SECONDS)
            return step(*arguments, **named)

        worker: list[threading.Thread] = []
        patch.setattr(owner, name, held)

        def working() -> None:
            worker.append(threading.current_thread())
            work()

        doing = thread.submit(working)
        try:
            assert reached.wait(PATIENCE_SECONDS), "the step was never reached"
            yield
        finally:
            go_on.set()
        doing.result(PATIENCE_SECONDS)


def everybody_else_is_served(world: World, out: Order) -> None:
    """Quotes, policies, collections, cosignatures, deliveries and checks of samples go through; `out` has its answer."""
    census = world.census

    def calls() -> None:
        assert census.quotes.offer_slot(RESEARCHER, world.policy) is not None
        census.in_force()
        census.signed_policy()
        world.admit(world.messages(world.sample(world.order(scale=50))))
        assert census.released.released_answer(out.body.query_id.hex(), RESEARCHER) is not None
        census.released.undelivered({RESEARCHER})
        census.released.delivered(out.hash.hex(), "collect")
        assert census.publication.newer_than(0) is not None
        world.cosign()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(calls).result(PATIENCE_SECONDS)


@pytest.mark.parametrize("step", ["find", "count"])
def test_nobody_waits_for_the_desk(persons: World, step: str) -> None:
    """While it is decided who of a sample fits, and while they are counted, callers that charge nothing are served."""
    out, order = persons.order(scale=50), persons.order(scale=50)
    persons.answer(out)
    with held_in(Passes, step, lambda: persons.charge(order)):
        everybody_else_is_served(persons, out)
    assert len(persons.charges()) == 2


@pytest.mark.parametrize("step", ["write", "verify"])
def test_nobody_waits_while_the_ledger_is_written_anew(
    persons: World, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """A snapshot takes as long as there are subjects; it shows to nobody, and charges go on."""
    monkeypatch.setattr("census_node.ledger.book._MOST_CHARGES", 1)
    persons.answer(persons.order(scale=50))
    with held_in(SnapshotFolder, step, persons.census.forget_expired):
        out = persons.order(scale=50)
        with ThreadPoolExecutor(1) as thread:
            thread.submit(persons.answer, out).result(PATIENCE_SECONDS)
        everybody_else_is_served(persons, out)
    persons.census.forget_expired()
    # Charges made while it was written are in the ledger; its statement of the cap still holds.
    assert len(persons.charges()) == 2
    for _ in range(100):
        persons.charge(persons.order(scale=50))
    units = persons.census.book._ledger.charged
    assert units.max() <= persons.policy.cap < units.max() + price(50)
