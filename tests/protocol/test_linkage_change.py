"""While two agencies change the key that links them nothing is ever compared across chains, lost, or charged in vain."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fakes.dictionaries import CENSUS_DICTIONARY, CHANGES, HEALTH_DICTIONARY
from fakes.links import roster_sender
from fakes.patience import linger
from fakes.samples import selected
from fakes.world import OrderedSample, Pseudonyms, World, charge_and_answer
from protocol.pair import STAGES, Pair, gone

from broker_common.crypto.linkage import LinkageKey
from broker_common.errors import BrokerError, InvalidRequestError, RefusedError
from broker_common.query.criteria import parse_condition
from broker_common.query.question import parse_question
from broker_common.storage.loads import LoadFolder
from broker_common.tlog.entries import Relinked
from census_node.ledger.passes import Bits, Counted, Passes
from census_node.registry import Registry
from census_node.registry.registry import counted as counted_of
from health_node.people.store import PeopleStore

NEXT = LinkageKey(bytes(range(32)))
QUESTIONS = ["all", "mother_tongue = 'French'", "mother_tongue = 'English'", "home_language in ('French', 'English')"]
CONDITIONS = ["age >= 0", "age = 7", "age < 30 or age > 90", "not age between 10 and 95", "age > 120"]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Every exact count that noise was added to."""
    seen: list[list[int]] = []
    count = Passes.count

    def counting(passes: Passes, active: Bits, question: Counted) -> list[int]:
        seen.append(count(passes, active, question))
        return seen[-1]

    monkeypatch.setattr(Passes, "count", counting)
    return seen


def relink(world: World, pair: Pair, role: str) -> None:
    """An agency changes the key, its node serving all the while."""
    if role == "health":
        world.relink_health(pair.node, NEXT)
    else:
        world.relink_census(NEXT)


def chain_after(world: World) -> str:
    """The name of the chain that is in force when the key has been changed."""
    return world.secrets.linkage.with_key(NEXT).chain_id


# --- the same people -------------------------------------------------------------------------------------------------


def registry_in_force(world: World) -> Registry:
    """The census agency's registry, read as a starting node reads it."""
    state = world.verify_log()
    loads = LoadFolder(world.census_folder / "registries", ".npz")
    loads.verify(world.census.journal, state.load, state.commitments)
    return Registry.read(loads.file(state.load), state.load)


def store_in_force(world: World) -> Path:
    """The health agency's store."""
    return LoadFolder(world.health_folder / "people", ".people").file(world.verify_health_log().load)


def persons_of(registry: Registry, people: Pseudonyms) -> list[int]:
    """The person numbers of those whom the registry knows by these pseudonyms, looked up one by one."""
    cards = registry.cards
    names = zip(cards.high.tolist(), cards.low.tolist(), strict=True)
    known = dict(zip(names, cards.persons.tolist(), strict=True))
    halves = np.ascontiguousarray(people).view(">u8").reshape(-1, 2).tolist()
    return [known[high, low] for high, low in halves if (high, low) in known]


def exact_counts(world: World) -> dict[tuple[str, str], list[int]]:
    """Every question about every cohort, counted exactly."""
    registry, counts = registry_in_force(world), {}
    with PeopleStore(store_in_force(world), HEALTH_DICTIONARY) as store:
        for where in CONDITIONS:
            marks = np.zeros(registry.people.person_count, np.uint8)
            marks[persons_of(registry, selected(store, parse_condition(where, HEALTH_DICTIONARY)))] = 1
            for text in QUESTIONS:
                question = counted_of(registry, parse_question(text, CENSUS_DICTIONARY))
                counts[where, text] = Passes().count(np.packbits(marks), question)
    return counts


def test_every_count_is_the_same_after_both_have_changed(world: World) -> None:
    """Each person is found again with all their values on both sides, and nobody else is."""
    node = world.open_health()
    before = exact_counts(world)
    assert len({tuple(count) for count in before.values()}) > 8
    assert before["age >= 0", "all"] == [len(world.in_census)]
    assert before["age > 120", "all"] == [0]
    world.relink_health(node, NEXT)
    world.relink_census(NEXT)
    assert exact_counts(world) == before
    # Nobody of the old registry is known under their old pseudonym.
    assert persons_of(registry_in_force(world), world.people) == []


def test_a_dictionary_that_waits_for_a_load_is_not_that_of_the_people_under_a_new_key(world: World) -> None:
    """Their numbers go on to mean what they meant when they were loaded."""
    node, before = world.open_health(), exact_counts(world)
    world.adopt_health_dictionary(node, replace(CHANGES["reordered"](HEALTH_DICTIONARY), version=2))
    world.adopt_census_dictionary(replace(CHANGES["reordered"](CENSUS_DICTIONARY), version=2))
    world.relink_health(node, NEXT)
    world.relink_census(NEXT)
    assert exact_counts(world) == before


def test_people_whom_the_census_does_not_know_have_one_new_pseudonym_at_both(world: World) -> None:
    """Known to the census or not, nobody begins anew: who is on the health agency's roster then is its step of the old one."""
    node = world.open_health()
    unknown = world.people[np.arange(len(world.people)) % 4 == 3]
    assert len(unknown) == 100
    world.relink_health(node, NEXT)
    world.relink_census(NEXT)
    with PeopleStore(store_in_force(world), HEALTH_DICTIONARY) as store:
        listed = {bytes(person) for person in selected(store, parse_condition("age >= 0", HEALTH_DICTIONARY))}
    assert {bytes(person) for person in NEXT.step(world.people)} == listed
    assert persons_of(registry_in_force(world), NEXT.step(unknown)) == []


# --- one has changed and the other has not ---------------------------------------------------------------------------


def verify_changed(world: World, counted: list[list[int]]) -> None:
    """One question was answered before the change and one after it, about the same people; both logs name the new chain."""
    assert counted[0] == counted[1]
    assert [charge.roster for charge in world.charges()] == [1, 2]
    for state in (world.verify_log(), world.verify_health_log()):
        assert state.linkage == chain_after(world)
    assert len(world.events(Relinked)) == 1


async def test_question_waits_while_the_health_agency_alone_has_changed(world: World, counted: list[list[int]]) -> None:
    """Its roster is refused until the census agency has changed too: no sample is sent, nothing refused, then it is answered."""
    pair = Pair(world)
    sender = roster_sender(world, pair.node, pair.link.stub)
    await sender.send_due()
    assert await pair.submit(world.order()) == STAGES
    await pair.settle()
    relink(world, pair, "health")
    calls = len(pair.link.calls)
    with world.unchanged():
        with pytest.raises(RefusedError, match="LINKAGE_MISMATCH"):
            await sender.send_due()
        waiting = asyncio.create_task(pair.submit(world.order()))
        await linger()
        assert (waiting.done(), len(pair.link.calls)) == (False, calls)
    relink(world, pair, "census")
    await sender.send_due()
    assert await waiting == STAGES
    await pair.settle()
    verify_changed(world, counted)


async def test_sample_is_refused_while_the_census_agency_alone_has_changed(
    world: World, counted: list[list[int]]
) -> None:
    """No sample meets a registry of another chain; with the roster of the new one all is as before."""
    pair = Pair(world)
    sender = roster_sender(world, pair.node, pair.link.stub)
    assert await pair.submit(world.order()) == STAGES
    await pair.settle()
    relink(world, pair, "census")
    with world.unchanged():
        assert await pair.submit(world.order()) == "ROSTER_NOT_IN_FORCE"
    relink(world, pair, "health")
    await sender.send_due()
    assert await pair.submit(world.order()) == STAGES
    await pair.settle()
    verify_changed(world, counted)


def test_sample_of_the_old_chain_is_refused_before_and_after_there_is_a_new_roster(world: World) -> None:
    """Its roster can no longer be joined, no matter who is in it."""
    samples = [world.sample(world.order(), people) for people in (world.people, world.people[:0])]
    world.relink_census(NEXT)
    for sample in samples:
        with world.unchanged(), pytest.raises(InvalidRequestError, match="ROSTER_NOT_IN_FORCE"):
            world.admit(world.messages(sample))
    # Nothing is held by a sample that was refused.
    assert not world.census._reservations.tickets()
    world.follow(NEXT)
    world.renew_rosters()
    for sample in samples:
        with world.unchanged(), pytest.raises(InvalidRequestError, match="ROSTER_NOT_IN_FORCE"):
            world.admit(world.messages(sample))
    world.verify_honest_query()


def test_places_of_the_old_roster_do_not_pass_for_places_of_the_new_one(world: World) -> None:
    """A sample of the old chain, made to name the new roster: it is sealed and committed for the old one and stays shut."""
    order = world.order()
    sample = world.sample(order)
    world.relink_census(NEXT)
    world.follow(NEXT)
    world.renew_rosters()
    messages = world.messages(sample, change=lambda manifest: setattr(manifest, "roster", 2))
    with world.unchanged(), pytest.raises(BrokerError, match="SEALED_WRONGLY"):
        world.admit(messages)
    world.verify_honest_query()


# --- across the change -----------------------------------------------------------------------------------------------


def charge_only(world: World, sample: OrderedSample) -> None:
    """Up to the durable charge, and no further."""
    admitted = world.admit(world.messages(sample))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.census.answers, "make", lambda *_: None)
        charge_and_answer(world.census, admitted)


def finish_by_recovery(world: World, sample: OrderedSample) -> None:
    """A node's own recovery after a start."""
    assert [each.verify_claim().ticket_hash for each in world.census.recover()] == [sample.order.hash.hex()]


def finish_by_retry(world: World, sample: OrderedSample) -> None:
    """The health node's retry after no answer: the same sample, in a fresh attempt."""
    charge_and_answer(world.census, world.admit(world.messages(sample)))


@pytest.mark.parametrize("finish", [finish_by_recovery, finish_by_retry])
def test_what_was_charged_before_is_counted_on_the_old_chain(
    world: World, counted: list[list[int]], finish: Callable[[World, OrderedSample], None]
) -> None:
    """Charged, the key changed, the node died: the old registry has stayed for it, and counts the same people."""
    expected = world.sample(world.order())
    world.answer(expected.order, expected)
    sample = world.sample(world.order())
    charge_only(world, sample)
    old = world.verify_log().load
    world.relink_census(NEXT)
    world.crash_census()
    registries = world.census_folder / "registries"
    assert {path.stem for path in registries.iterdir()} == {old, world.verify_log().load}
    finish(world, sample)
    world.release(sample.order)
    assert world.open(sample.order, world.sealed(sample.order)).scale == 30
    assert counted[0] == counted[1] > [0]
    assert len(world.charges()) == 2
    # The next change or load takes the old registry away.
    world.follow(NEXT)
    world.renew_rosters()
    world.verify_honest_query()
    world.relink_census(LinkageKey(bytes(32)))
    assert [path.stem for path in registries.iterdir()] == [world.verify_log().load]


async def test_retry_of_a_charged_ticket_finds_its_charge(world: World) -> None:
    """The line is lost at the charge, both change the key, both die: the same sample of the old roster, the same answer."""
    pair, order = Pair(world, forward_deadline_ms=0), world.order()

    def lose(passing: str) -> None:
        if passing == "charged":
            raise gone()

    pair.passing = lose
    assert await pair.submit(order) == "PEER_UNAVAILABLE"
    await pair.settle()
    pair.passing = lambda _: None
    sealed = world.sealed(order)
    for role in ("census", "health"):
        relink(world, pair, role)
    pair.restart_census()
    await pair.restart_health()
    await pair.settle()
    assert await pair.submit(order) == STAGES
    pair.verify(order, answered=True)
    assert world.sealed(order) == sealed
    # And what is asked anew goes by the new chain.
    await roster_sender(world, pair.node, pair.link.stub).send_due()
    assert await pair.submit(world.order()) == STAGES
    await pair.settle()
    assert [charge.roster for charge in world.charges()] == [1, 2]


async def test_ticket_of_the_old_chain_goes_through_while_the_census_has_it(world: World) -> None:
    """Accepted before its agency changed the key, which the census agency has not: charged on the old roster."""
    pair, order = Pair(world, forward_deadline_ms=0), world.order()

    def lose(passing: str) -> None:
        if passing == "head 0":
            raise gone()

    pair.passing = lose
    assert await pair.submit(order) == "PEER_UNAVAILABLE"
    await pair.settle()
    pair.passing = lambda _: None
    relink(world, pair, "health")
    assert await pair.submit(order) == STAGES
    await pair.settle()
    pair.verify(order, answered=True)
    assert [charge.roster for charge in world.charges()] == [1]


async def test_uncharged_ticket_of_the_old_chain_is_refused_and_closed(world: World) -> None:
    """Accepted before, handed over and never charged: it belongs to the old roster; asking anew works."""
    pair, order = Pair(world, forward_deadline_ms=0), world.order()

    def lose(passing: str) -> None:
        if passing == "head 0":
            raise gone()

    pair.passing = lose
    assert await pair.submit(order) == "PEER_UNAVAILABLE"
    await pair.settle()
    pair.passing = lambda _: None
    for role in ("health", "census"):
        relink(world, pair, role)
    await roster_sender(world, pair.node, pair.link.stub).send_due()
    with world.unchanged():
        assert await pair.submit(order) == "ROSTER_NOT_IN_FORCE"
    assert world.verify_health_log().tickets[order.hash.hex()].refused == "ROSTER_NOT_IN_FORCE"
    assert await pair.submit(world.order()) == STAGES
    await pair.settle()
    assert len(world.charges()) == 1


def test_logs_hold_nothing_but_the_names_of_chains(world: World) -> None:
    """Neither key nor pseudonym enters the log; a chain's name says nothing about either."""
    world.relink_census(NEXT)
    log = b"".join(repr(entry).encode() for entry in world.entries())
    for key in (*world.secrets.linkage.keys, NEXT):
        assert key.expose().hex().encode() not in log
        assert key.key_id.encode() not in log
    assert world.linkage.encode() in log
