"""A load at either agency while a question is on its way, at each stage of it, of the same release or of a new one.

An answer is counted on the registry that it was charged on, and its sample drawn from the people that its ticket was
accepted on, as places of their roster; or there is no charge. Their files stay until then, and no longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes.links import roster_sender
from fakes.patience import PATIENCE_SECONDS, until
from fakes.world import HEALTH, RELEASE, RESEARCHER, Order, World
from protocol.pair import STAGES, Pair, gone

from broker_common.errors import REASONS, BrokerError
from broker_common.query.question import Question
from broker_common.storage.loads import LoadFolder
from broker_common.tlog.entries import Charged, Forwarded, Loaded, Rostered, Submitted
from census_node.ledger.passes import Bits, Counted, Passes
from census_node.query.answering import Answers
from census_node.query.charging import Keeping
from census_node.registry import Registry
from census_node.registry import registry as census_node
from census_node.registry.registry import counted
from health_node import node as health_node
from health_node.people.loading import forget_old_loads
from health_node.people.store import PeopleStore
from health_node.roster.sending import RosterSender

PEOPLE, OTHER_PEOPLE = 400, 150
NEW_RELEASE = "2016"
# In the order of a question's life: "drawing" is accepted, "call" is handed over, "in line" is admitted.
BEFORE_THE_CHARGE = ["quoted", "drawing", "call", "head 0", "bits 1", "in line"]
AFTER_THE_CHARGE = ["not answered yet", "charged", "released", "said released"]
STAGES_OF_LIFE = BEFORE_THE_CHARGE + AFTER_THE_CHARGE
# Where each stage is that no message tells of.
INSIDE: dict[str, tuple[type, str]] = {
    "drawing": (health_node.HealthNode, "sample"),
    "in line": (Keeping, "keep"),
    "not answered yet": (Answers, "make"),
}


def linked(people: int) -> int:
    """How many of a world's people the census agency knows: three of four."""
    return -(-3 * people // 4)


@dataclass
class Watched:
    """Inputs of counting: the load of their values, and how many people."""

    rows: list[tuple[str, int]] = field(default_factory=list)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """Watches the makers of answers."""
    watched, loads = Watched(), list[str]()
    count = Passes.count

    def values(registry: Registry, question: Question) -> Counted:
        loads.append(registry.load)
        return counted(registry, question)

    def counting(passes: Passes, active: Bits, asked: Counted) -> list[int]:
        watched.rows.append((loads[-1], int(np.unpackbits(active).sum())))
        return count(passes, active, asked)

    monkeypatch.setattr("census_node.query.answering.counted", values)
    monkeypatch.setattr(Passes, "count", counting)
    return watched


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Three parties whose loads a test replaces."""
    made = World(tmp_path, people=PEOPLE)
    yield made
    made.close()


class Reloading:
    """Two nodes, and what sends the rosters of the health agency's loads."""

    def __init__(self, world: World, **limits: int) -> None:
        self.world = world
        self.pair = Pair(world, **limits)
        self.sender = self.new_sender()
        self.looks: list[asyncio.Task[None]] = []

    def new_sender(self) -> RosterSender:
        """As a health node has it from its start on."""
        return roster_sender(self.world, self.pair.node, self.pair.link.stub)

    def look(self) -> None:
        """The sender looks whether another load is in force. In the event loop."""
        self.looks.append(asyncio.create_task(self.sender.send_due()))

    async def settle(self) -> None:
        """Let everything that is under way come to its end."""
        await self.pair.settle()
        await asyncio.gather(*self.looks)

    async def ask_while(
        self, monkeypatch: pytest.MonkeyPatch, stage: str, load: Callable[[], object], *, looking: bool = True
    ) -> tuple[Order, list[str] | str]:
        """One question, with a load when it has come to a stage, after which the sender looks; how the question ended."""
        loaded: list[str] = []
        loop = asyncio.get_running_loop()

        def once() -> None:
            if not loaded:
                loaded.append(stage)
                try:
                    load()
                finally:
                    if looking and stage == "drawing":
                        # In a thread: the question waits until the sender has done whatever it does.
                        asyncio.run_coroutine_threadsafe(self.sender.send_due(), loop).result(PATIENCE_SECONDS)
                    elif looking:
                        loop.call_soon_threadsafe(self.look)

        if stage in INSIDE:
            owner, name = INSIDE[stage]
            before = getattr(owner, name)

            def after_the_load(*words: object) -> object:
                once()
                return before(*words)

            monkeypatch.setattr(owner, name, after_the_load)
        self.pair.passing = lambda passing: once() if passing == stage else None
        order = self.world.order()
        if stage == "quoted":
            once()
        outcome = await self.pair.submit(order)
        await self.settle()
        assert loaded
        return order, outcome

    async def verify_usable(self) -> None:
        """The roster of the load in force comes into force, and another question is answered."""
        await self.sender.send_due()
        await self.pair.verify_usable()


def verify_files(world: World) -> None:
    """Loads not in force leave nothing after the next look."""
    census = LoadFolder(world.census_folder / "registries", ".npz")
    health = LoadFolder(world.health_folder / "people", ".people")
    health_journal = world._health_journal()
    census_node.forget_old_loads(world.census.journal, census)
    forget_old_loads(health_journal, health)
    in_force = world.events(Loaded)[-1].load
    assert [path.stem for path in census.path.glob("*")] == [in_force]
    with health_journal.reading() as state:
        assert [path.stem for path in health.path.glob("*")] == [state.load]


def rosters_of(world: World) -> list[int]:
    """The health agency's rosters as they came into force, and between them the rosters of what was charged."""
    events = [entry.event for entry in world.entries()]
    return [
        event.roster if isinstance(event, Charged) else event.number
        for event in events
        if isinstance(event, Charged) or (isinstance(event, Rostered) and event.health == HEALTH.organisation)
    ]


@pytest.mark.parametrize("stage", STAGES_OF_LIFE)
@pytest.mark.parametrize("release", [RELEASE, NEW_RELEASE], ids=["same release", "new release"])
async def test_registry_that_is_replaced_on_the_way(
    world: World, seen: Watched, monkeypatch: pytest.MonkeyPatch, release: str, stage: str
) -> None:
    """Charged before: counted on the registry before. Not charged: on the new one, or refused if its release is new."""
    agencies, before = Reloading(world), world.events(Loaded)[-1].load
    order, outcome = await agencies.ask_while(monkeypatch, stage, lambda: world.load_census(release))
    after = world.events(Loaded)[-1].load
    assert before != after
    refused = stage in BEFORE_THE_CHARGE and release == NEW_RELEASE
    assert outcome == ("RELEASE_MISMATCH" if refused else STAGES)
    agencies.pair.verify(order, answered=not refused)
    agencies.pair.verify_nothing_held()
    charged_on = before if stage in AFTER_THE_CHARGE else after
    assert [charge.load for charge in world.charges()] == ([] if refused else [charged_on])
    assert seen.rows == ([] if refused else [(charged_on, linked(PEOPLE))])
    verify_files(world)
    if release == RELEASE:
        await agencies.verify_usable()
        assert seen.rows[-1] == (after, linked(PEOPLE))
    # Another registry needs no other roster.
    assert set(rosters_of(world)) == {1}


@pytest.mark.parametrize("stage", STAGES_OF_LIFE)
@pytest.mark.parametrize("release", [RELEASE, NEW_RELEASE], ids=["same release", "new release"])
async def test_people_who_are_replaced_on_the_way(
    world: World, seen: Watched, monkeypatch: pytest.MonkeyPatch, release: str, stage: str
) -> None:
    """Accepted before: the sample is of the people before, on their roster, which nothing replaces before the answer is out."""
    agencies = Reloading(world)
    with agencies.pair.node.journal.reading() as state:
        before = state.load
    order, outcome = await agencies.ask_while(monkeypatch, stage, lambda: world.load_health(OTHER_PEOPLE, release))
    assert outcome == STAGES
    agencies.pair.verify(order, answered=True)
    agencies.pair.verify_nothing_held()
    (submitted,) = [entry.event for entry in world.health_entries() if isinstance(entry.event, Submitted)]
    (forwarded,) = [entry.event for entry in world.health_entries() if isinstance(entry.event, Forwarded)]
    assert (submitted.load == before) == (stage != "quoted")
    assert forwarded.roster == (1 if stage != "quoted" else 2)
    # Once it is out the next one may come at any time.
    assert rosters_of(world)[:3] in ([[1, 1], [1, 1, 2]] if stage != "quoted" else [[1, 2, 2]])
    assert [people for _, people in seen.rows] == [linked(PEOPLE if stage != "quoted" else OTHER_PEOPLE)]
    verify_files(world)
    await agencies.verify_usable()
    assert seen.rows[-1][1] == linked(OTHER_PEOPLE)
    assert rosters_of(world) == ([1, 1, 2, 2] if stage != "quoted" else [1, 2, 2, 2])


@pytest.mark.parametrize("point", ["bits 1", "charged"])
async def test_both_agencies_reload_and_the_line_is_lost(
    world: World, seen: Watched, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """The second attempt is of the same set, from people and a registry that are not in force any more."""
    agencies, before = Reloading(world), world.events(Loaded)[-1].load

    def load_and_lose() -> None:
        world.load_health(OTHER_PEOPLE)
        world.load_census()
        raise gone()

    order, outcome = await agencies.ask_while(monkeypatch, point, load_and_lose)
    assert outcome == STAGES
    agencies.pair.verify(order, answered=True)
    assert [people for _, people in seen.rows] == [linked(PEOPLE)]
    assert (seen.rows[0][0] == before) == (point == "charged")
    assert agencies.pair.link.attempts > 1
    verify_files(world)
    await agencies.verify_usable()


async def test_question_of_people_whose_roster_never_came_is_refused_and_holds_nobody_up(world: World) -> None:
    """Loaded twice while the census node was away: what was asked in between is refused uncharged, the next is answered."""
    agencies = Reloading(world)
    world.load_health(OTHER_PEOPLE)
    between = world.order()
    asking = asyncio.create_task(agencies.pair.submit(between))
    await until(lambda: between.hash.hex() in world.verify_health_log().tickets)
    world.load_health(OTHER_PEOPLE + 1)
    assert await asking == "ROSTER_NOT_IN_FORCE"
    await agencies.settle()
    agencies.pair.verify(between, answered=False)
    assert agencies.pair.link.attempts == 0
    await agencies.verify_usable()
    verify_files(world)


async def test_charge_is_counted_on_its_own_registry_after_a_reload_and_a_crash(
    world: World, seen: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its registry outlives two loads and a start, until the answer is made, and is gone after the next load."""
    agencies, before = Reloading(world, forward_deadline_ms=0), world.events(Loaded)[-1].load

    def load_twice_and_die() -> None:
        world.load_census()
        world.load_census(NEW_RELEASE)
        raise gone()

    order, _ = await agencies.ask_while(monkeypatch, "not answered yet", load_twice_and_die)
    assert seen.rows == []
    kept = {path.stem for path in (world.census_folder / "registries").glob("*")}
    assert kept == {before, world.events(Loaded)[-1].load}
    agencies.pair.restart_census()
    assert seen.rows == [(before, linked(PEOPLE))]
    assert await agencies.pair.submit(order) == STAGES
    await agencies.settle()
    agencies.pair.verify(order, answered=True)
    verify_files(world)


@pytest.mark.parametrize("stage", ["drawing", "call"])
async def test_sample_is_drawn_from_its_own_people_after_reloads_and_a_crash(
    world: World, seen: Watched, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    """They outlive two loads and a start of the health node until their ticket is at its end, and no roster replaces theirs."""
    agencies = Reloading(world, forward_deadline_ms=0)

    def load_twice_and_die() -> None:
        world.load_health(OTHER_PEOPLE)
        world.load_health(OTHER_PEOPLE + 1)
        raise gone()

    with monkeypatch.context() as patch:
        order, _ = await agencies.ask_while(patch, stage, load_twice_and_die, looking=False)
    assert len(list((world.health_folder / "people").glob("*"))) == 2
    await agencies.pair.restart_health()
    agencies.sender = agencies.new_sender()
    agencies.look()
    await agencies.settle()
    assert [people for _, people in seen.rows] == [linked(PEOPLE)]
    agencies.pair.verify(order, answered=True)
    assert rosters_of(world)[:2] == [1, 1]
    verify_files(world)
    await agencies.verify_usable()
    assert seen.rows[-1][1] == linked(OTHER_PEOPLE + 1)


async def test_load_that_ends_beside_a_question_stops_nobody(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The health node looks for people whose file the operator's load has just removed: it looks again."""
    agencies = Reloading(world)
    verify = LoadFolder.verify
    loaded: list[str] = []

    def loading_meanwhile(loads: LoadFolder, *args: Any, **known: Any) -> None:
        if loads.suffix == ".people" and not loaded:
            loaded.append(world.load_health(OTHER_PEOPLE))
        verify(loads, *args, **known)

    monkeypatch.setattr(LoadFolder, "verify", loading_meanwhile)
    order = world.order()
    asking = asyncio.create_task(agencies.pair.submit(order))
    await until(lambda: loaded)
    await agencies.sender.send_due()
    assert await asking == STAGES
    await agencies.settle()
    assert agencies.pair.health_stop.error is None
    agencies.pair.verify(order, answered=True)


async def test_people_in_force_that_are_gone_stop_the_node(world: World) -> None:
    """Looking again is for what was replaced: a file that the log names and that is not there is no passing trouble."""
    pair = Pair(world)
    for path in (world.health_folder / "people").glob("*.people"):
        path.unlink()
    assert await pair.submit(world.order()) == "INTEGRITY"


@pytest.mark.parametrize("code", ["NOTHING_LOADED", "INTEGRITY"])
def test_store_that_is_removed_while_it_is_looked_up_is_not_missed(
    world: World, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """A load took its place while a question was verified: the next one is looked at, and nobody is told that nothing is loaded."""
    node, order = world.open_health(), world.order()
    store, loads = node.stores.store, [node.load_in_force()]

    def removed(load: str, commitments: Mapping[str, str]) -> PeopleStore:
        if load != loads[0]:
            return store(load, commitments)
        if len(loads) == 1:
            loads.append(world.load_health(OTHER_PEOPLE))
        raise REASONS[code].family(code, what="health data", role="health", problem="it is gone")

    monkeypatch.setattr(node.stores, "store", removed)
    assert node.verify(order.submission, RESEARCHER, world.policy).load == loads[1]
    # One that is missing although it is in force is.
    loads[0] = loads[1]
    with pytest.raises(BrokerError, match=code):
        node.verify(order.submission, RESEARCHER, world.policy)
