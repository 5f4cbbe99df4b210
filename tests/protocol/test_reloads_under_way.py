"""A load at either agency while a question is on its way, at each stage of it, of the same release or of a new one.

An answer is counted on the registry that it was charged on, and its sample drawn from the people that its ticket was
accepted on, or there is no charge; what they need stays on disk until then, and no longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from fakes.pair import STAGES, Pair, gone
from fakes.world import RELEASE, Order, World

from broker_common.crypto.commitments import SlotSecret
from broker_common.errors import REASONS, BrokerError
from broker_common.storage.loads import LoadFolder
from broker_common.tlog.census_state import ChargedTicket
from broker_common.tlog.entries import Loaded, Submitted
from census_node import answering
from census_node import node as census_node
from census_node.outbox import Pending
from census_node.registry import Registry
from health_node import node as health_node
from health_node.people_store import PeopleStore

PEOPLE, OTHER_PEOPLE = 400, 150
NEW_RELEASE = "2016"
# In the order of a question's life.
BEFORE_THE_CHARGE = ["quoted", "accepted", "proceed", "frame 1", "manifest 2"]
AFTER_THE_CHARGE = ["not answered yet", "charged", "released", "said released"]
STAGES_OF_LIFE = BEFORE_THE_CHARGE + AFTER_THE_CHARGE


def linked(people: int) -> int:
    """How many of a world's people the census agency knows: three of four."""
    return -(-3 * people // 4)


@dataclass
class Counted:
    """What answers were counted on: load of the charge, of the pending row, of the registry, and how many people."""

    rows: list[tuple[str, str, str, int]] = field(default_factory=list)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Looks over the shoulder of whoever makes answers."""
    seen, seal = Counted(), answering.seal_answer

    def watched(
        pending: Pending,
        rows: npt.NDArray[np.uint32],
        slot_secret: SlotSecret,
        ticket: ChargedTicket,
        proof: Any,
        registry: Registry,
        key: Any,
        *,
        overseen: bool,
    ) -> Any:
        seen.rows.append((ticket.charge.load, pending.load, registry.load, len(rows)))
        return seal(pending, rows, slot_secret, ticket, proof, registry, key, overseen=overseen)

    monkeypatch.setattr(census_node, "seal_answer", watched)
    return seen


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Three parties whose loads a test replaces."""
    made = World(tmp_path, people=PEOPLE)
    yield made
    made.close()


async def ask_while(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, stage: str, load: Callable[[], object]
) -> tuple[Order, list[str] | str]:
    """One question, with a load when it has come to a stage; how it ended."""
    loaded: list[str] = []

    def once() -> None:
        if not loaded:
            loaded.append(stage)
            load()

    answer = census_node.CensusNode.answer

    def loaded_before_the_answer(node: census_node.CensusNode, ticket_hash: str, rows: Any = None) -> None:
        if stage == "not answered yet":
            once()
        answer(node, ticket_hash, rows)

    monkeypatch.setattr(census_node.CensusNode, "answer", loaded_before_the_answer)
    names = {"accepted": "call"}
    pair.passing = lambda passing: once() if passing == names.get(stage, stage) else None
    order = pair.world.order()
    if stage == "quoted":
        once()
    outcome = await pair.submit(order)
    await pair.settle()
    assert loaded
    return order, outcome


def verify_files(world: World) -> None:
    """Of every load but those in force nothing is left after the next look."""
    census = LoadFolder(world.census_folder / "registries", ".npz")
    health = LoadFolder(world.health_folder / "people", ".people")
    health_journal = world._health_journal()
    census_node.forget_old_loads(world.census.journal, census)
    health_node.forget_old_loads(health_journal, health)
    in_force = world.events(Loaded)[-1].load
    assert [path.stem for path in census.path.glob("*")] == [in_force]
    with health_journal.reading() as state:
        assert [path.stem for path in health.path.glob("*")] == [state.load]


@pytest.mark.parametrize("stage", STAGES_OF_LIFE)
@pytest.mark.parametrize("release", [RELEASE, NEW_RELEASE], ids=["same release", "new release"])
async def test_registry_that_is_replaced_on_the_way(
    world: World, counted: Counted, monkeypatch: pytest.MonkeyPatch, release: str, stage: str
) -> None:
    """Charged before: counted on the registry before. Not charged: on the new one, or refused if its release is new."""
    pair, before = Pair(world), world.events(Loaded)[-1].load
    order, outcome = await ask_while(pair, monkeypatch, stage, lambda: world.load_census(release))
    after = world.events(Loaded)[-1].load
    assert before != after
    refused = stage in BEFORE_THE_CHARGE and release == NEW_RELEASE
    assert outcome == ("RELEASE_MISMATCH" if refused else STAGES)
    pair.verify(order, answered=not refused)
    pair.verify_nothing_held()
    charged_on = before if stage in AFTER_THE_CHARGE else after
    assert counted.rows == ([] if refused else [(charged_on, charged_on, charged_on, linked(PEOPLE))])
    verify_files(world)
    if release == RELEASE:
        await pair.verify_usable()
        assert counted.rows[-1][:3] == (after, after, after)


@pytest.mark.parametrize("stage", STAGES_OF_LIFE)
@pytest.mark.parametrize("release", [RELEASE, NEW_RELEASE], ids=["same release", "new release"])
async def test_people_who_are_replaced_on_the_way(
    world: World, counted: Counted, monkeypatch: pytest.MonkeyPatch, release: str, stage: str
) -> None:
    """Accepted before: the sample is the one of the people before, also when it is sent again."""
    pair = Pair(world)
    with pair.node.journal.reading() as state:
        before = state.load
    order, outcome = await ask_while(pair, monkeypatch, stage, lambda: world.load_health(OTHER_PEOPLE, release))
    assert outcome == STAGES
    pair.verify(order, answered=True)
    pair.verify_nothing_held()
    (submitted,) = [entry.event for entry in world.health_entries() if isinstance(entry.event, Submitted)]
    assert (submitted.load == before) == (stage != "quoted")
    assert [row[3] for row in counted.rows] == [linked(PEOPLE if stage != "quoted" else OTHER_PEOPLE)]
    verify_files(world)
    await pair.verify_usable()
    assert counted.rows[-1][3] == linked(OTHER_PEOPLE)


@pytest.mark.parametrize("point", ["frame 1", "charged"])
async def test_both_agencies_reload_and_the_line_is_lost(
    world: World, counted: Counted, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """The second attempt is of the same set, from people and a registry that are not in force any more."""
    pair, before = Pair(world), world.events(Loaded)[-1].load

    def load_and_lose() -> None:
        world.load_health(OTHER_PEOPLE)
        world.load_census()
        raise gone()

    order, outcome = await ask_while(pair, monkeypatch, point, load_and_lose)
    assert outcome == STAGES
    pair.verify(order, answered=True)
    assert [row[3] for row in counted.rows] == [linked(PEOPLE)]
    assert (counted.rows[0][2] == before) == (point == "charged")
    verify_files(world)


async def test_charge_is_counted_on_its_own_registry_after_a_reload_and_a_crash(
    world: World, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its registry outlives two loads and a start, until the answer is made, and is gone after the next load."""
    pair, before = Pair(world, forward_deadline_ms=0), world.events(Loaded)[-1].load

    def load_twice_and_die() -> None:
        world.load_census()
        world.load_census(NEW_RELEASE)
        raise gone()

    order, _ = await ask_while(pair, monkeypatch, "not answered yet", load_twice_and_die)
    assert counted.rows == []
    kept = {path.stem for path in (world.census_folder / "registries").glob("*")}
    assert kept == {before, world.events(Loaded)[-1].load}
    pair.restart_census()
    assert [row[2] for row in counted.rows] == [before]
    assert await pair.submit(order) == STAGES
    await pair.settle()
    pair.verify(order, answered=True)
    verify_files(world)


async def test_sample_is_drawn_from_its_own_people_after_reloads_and_a_crash(
    world: World, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They outlive two loads and a start of the health node, until their ticket is at its end."""
    pair = Pair(world, forward_deadline_ms=0)

    def load_twice_and_die() -> None:
        world.load_health(OTHER_PEOPLE)
        world.load_health(OTHER_PEOPLE + 1)
        raise gone()

    order, _ = await ask_while(pair, monkeypatch, "accepted", load_twice_and_die)
    assert len(list((world.health_folder / "people").glob("*"))) == 2
    await pair.restart_health()
    await pair.settle()
    assert [row[3] for row in counted.rows] == [linked(PEOPLE)]
    pair.verify(order, answered=True)
    verify_files(world)


async def test_load_that_ends_beside_a_question_stops_nobody(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The health node looks for people whose file the operator's load has just removed: it looks again."""
    pair = Pair(world)
    verify = LoadFolder.verify
    loaded: list[str] = []

    def loading_meanwhile(loads: LoadFolder, *args: Any, **known: Any) -> None:
        if loads.suffix == ".people" and not loaded:
            loaded.append(world.load_health(OTHER_PEOPLE))
        verify(loads, *args, **known)

    monkeypatch.setattr(LoadFolder, "verify", loading_meanwhile)
    order = world.order()
    assert await pair.submit(order) == STAGES
    await pair.settle()
    assert loaded
    assert pair.health_stop.error is None
    pair.verify(order, answered=True)


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
    """A load took its place between two looks: the next one is counted, and nobody is told that nothing is loaded."""
    node = world.open_health()
    store = node._store

    def removed(load: str) -> PeopleStore:
        if load == "before":
            raise REASONS[code].family(code, what="health data", role="health", problem="it is gone")
        return store(load)

    in_force = node._load_in_force()
    loads = iter(["before", in_force, in_force])
    monkeypatch.setattr(node, "_load_in_force", lambda: next(loads))
    monkeypatch.setattr(node, "_store", removed)
    assert node._places() == PEOPLE
    # One that is missing although it is in force is.
    monkeypatch.setattr(node, "_load_in_force", lambda: "before")
    with pytest.raises(BrokerError, match=code):
        node._places()
