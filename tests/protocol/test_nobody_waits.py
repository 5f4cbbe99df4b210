"""What takes longer for a larger sample, or for one of whom more are linked, keeps nobody waiting and decides nothing alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fakes.patience import PATIENCE_SECONDS
from fakes.world import HEALTH, RESEARCHER, World, charge_and_answer, make_policy

from broker_common.errors import RefusedError
from broker_common.privacy.accounting import price_units
from broker_common.tlog.entries import Charged
from census_node.ledgers import Ledgers
from census_node.snapshots import SnapshotFolder
from census_node.submitted_ledger import SubmittedLedger


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


def everybody_is_served(world: World) -> None:
    """Quotes, policies, collections, cosignatures, deliveries, headers and other people's charges go through."""
    census = world.census

    def calls() -> None:
        assert census.offer_slot(RESEARCHER, world.policy) is not None
        census.in_force()
        census.gate()
        census.signed_policy()
        order = world.order(scale=50)
        world.answer(order)
        assert census.released_answer(order.body.query_id.hex(), RESEARCHER) is not None
        census.undelivered({RESEARCHER})
        census.delivered(order.hash.hex(), "collect")
        assert census.publication.newer_than(0) is not None
        world.cosign()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(calls).result(PATIENCE_SECONDS)


def test_nobody_waits_while_it_is_decided_who_fits(persons: World) -> None:
    """Whoever keeps calling does not learn how long deciding takes, and so how many are linked or dropped."""
    sample = persons.admit(persons.messages(persons.sample(persons.order(scale=50))))
    kept = persons.census.keep(persons.census.link(sample))
    with held_in(Ledgers, "decide", lambda: persons.census.decide(sample, kept.linked)):
        everybody_is_served(persons)


@pytest.mark.parametrize("step", ["write", "read"])
def test_nobody_waits_while_the_ledgers_are_written_anew(
    persons: World, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """A snapshot takes as long as there are people who were ever submitted; it shows to nobody."""
    monkeypatch.setattr("census_node.ledger_book._MOST_CHARGES", 1)
    persons.answer(persons.order(scale=50))
    with held_in(SnapshotFolder, step, persons.census.forget_expired):
        everybody_is_served(persons)
    persons.census.forget_expired()
    # What came while it was written is in the ledgers; what they say of the cap still holds.
    assert len(persons.charges()) == 2
    for _ in range(100):
        persons.charge(persons.order(scale=50))
    units = persons.census.book._ledgers.submitted.all_units()
    assert units.max() <= persons.policy.cap < units.max() + price_units(50)


def test_a_decision_that_was_overtaken_is_made_again(persons: World) -> None:
    """Both of two questions are decided on the same ledgers, which pay for one: the second counts nobody."""
    first, second = (persons.admit(persons.messages(persons.sample(persons.order(scale=1)))) for _ in range(2))
    decided = []
    for sample in (first, second):
        kept = persons.census.keep(persons.census.link(sample))
        decided.append((sample, kept, persons.census.decide(sample, kept.linked)))
    for sample, kept, early in decided:
        assert early is not None
        assert early.decision.fits.all()
        charge_and_answer(persons.census, sample, kept, early)
    units = persons.census.book._ledgers.submitted.all_units()
    assert set(units.tolist()) == {price_units(1)}
    assert len(persons.charges()) == 2


def test_an_entry_does_not_say_how_long_it_took_to_decide(persons: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what was decided before, a charge looks nobody up in the first ledger and sorts nothing before it is logged."""
    sample = persons.admit(persons.messages(persons.sample(persons.order(scale=50))))
    kept = persons.census.keep(persons.census.link(sample))
    decided = persons.census.decide(sample, kept.linked)

    def never(*_: object, **__: object) -> object:
        raise AssertionError("this takes longer the larger a sample is")

    with monkeypatch.context() as patch:
        patch.setattr(Ledgers, "decide", never)
        patch.setattr(SubmittedLedger, "locate", never)
        charge_and_answer(persons.census, sample, kept, decided)
    assert [entry.event for entry in persons.entries() if isinstance(entry.event, Charged)] == persons.charges()


def test_too_many_pseudonyms_are_refused_with_a_decision_made_before(tmp_path: Path) -> None:
    """The bound on what an agency submits is not lost on the way."""
    world = World(tmp_path / "full", make_policy(accounting="per_person"))
    world.most_pseudonyms = 10
    world.open_census().recover()
    charge_and_answer(world.census, world.admit(world.messages(world.sample(world.order(), world.people[:10])), HEALTH))
    sample = world.admit(world.messages(world.sample(world.order())))
    kept = world.census.keep(world.census.link(sample))
    with pytest.raises(RefusedError, match="PSEUDONYMS_EXHAUSTED"):
        charge_and_answer(world.census, sample, kept, world.census.decide(sample, kept.linked))
    assert len(world.charges()) == 1
    world.close()
