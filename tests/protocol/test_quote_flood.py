"""A researcher who asks for quotes without end: what it costs the census node is bounded, and nobody else notices.

In virtual time, where work takes the time that a test gives it: no assertion depends on how fast the machine is.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import pytest
from fakes.dictionaries import CENSUS_DICTIONARY
from fakes.links import NO_CONTEXT, count
from fakes.patience import until
from fakes.quotes import quote_of
from fakes.timed_loop import LoopClock, TimedLoop
from fakes.world import FRENCH, HEALTH, OTHER, OTHER_RESEARCHER, OWNER, World, make_policy
from protocol.pair import census_at_work
from tripartite.v1 import census_service_pb2, quote_pb2

import census_node.node
import census_node.release.slot_secrets
from broker_common.crypto.certificates import Identity
from broker_common.errors import BrokerError, RefusedError
from broker_common.query.question import parse_question
from broker_common.rpc.callers import set_caller
from broker_common.rpc.server import StopSignal
from broker_common.storage.clock import system_clock
from broker_common.tlog.entries import Slots
from census_node.config import LimitConfig
from census_node.query.quoting import QuoteRate
from census_node.release.slots import BATCH
from census_node.service import CensusService

TICK_MS, DELAY_MS = 200, 1000
MINUTE_MS = 60_000
BEGAN_MS = (system_clock() // MINUTE_MS + 1) * MINUTE_MS
POLICY = make_policy(accounting="per_person", tick_ms=TICK_MS, delay_ms=DELAY_MS)
LIMITS = LimitConfig()
# The attack: 500 quotes a second.
FLOOD_SECONDS, FLOOD_A_SECOND = 6, 500
# Longer than a tick: a batch that anybody waited for would show.
BATCH_MS = 350


async def quote(service: CensusService, who: Identity) -> quote_pb2.Quote:
    """One quote."""
    set_caller(who)
    question = parse_question(FRENCH, CENSUS_DICTIONARY).to_wire()
    return quote_of(await service.Quote(census_service_pb2.QuoteRequest(question=question, scale=30), NO_CONTEXT))


class Scene:
    """A census node in virtual time, in which committing to a batch of slots takes its time in a thread."""

    def __init__(self, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
        self.loop = TimedLoop()
        asyncio.set_event_loop(self.loop)
        patch.setattr(os, "fsync", lambda _: None)
        clock = LoopClock(self.loop, BEGAN_MS)
        self.world = World(tmp_path, POLICY, census_clock=clock, health_clock=clock)
        self.world.clock = clock
        self.began = len(self.world.events(Slots))
        self.flood = Counter[str]()
        # The other researcher's view, with the millisecond.
        self.seen: list[tuple[int, str]] = []
        write = census_node.release.slot_secrets.SlotSecrets.write

        def slowly(*arguments: Any) -> None:
            self.loop.work(BATCH_MS, self.world.census.journal)
            write(*arguments)

        patch.setattr(census_node.release.slot_secrets.SlotSecrets, "write", slowly)

    def close(self) -> None:
        self.world.close()
        self.loop.close()
        asyncio.set_event_loop(None)

    def see(self, what: str) -> None:
        self.seen.append((round(self.loop.time() * 1000), what))

    def play(self, *, flooding: bool) -> None:
        self.loop.run_until_complete(self._play(flooding))

    async def _play(self, flooding: bool) -> None:
        service = census_at_work(self.world, LIMITS, StopSignal())
        acts = [asyncio.create_task(self._ask(service, instant_ms)) for instant_ms in (1003, 2404, 4805)]
        if flooding:
            acts.append(asyncio.create_task(self._flood(service)))
        await asyncio.gather(*acts)

    async def _flood(self, service: CensusService) -> None:
        async def one() -> None:
            try:
                await quote(service, OWNER)
            except RefusedError as error:
                self.flood[error.code] += 1
            else:
                self.flood["granted"] += 1

        calls = []
        for _ in range(FLOOD_SECONDS * FLOOD_A_SECOND):
            calls.append(asyncio.create_task(one()))
            await asyncio.sleep(1 / FLOOD_A_SECOND)
        await asyncio.gather(*calls)

    async def _ask(self, service: CensusService, instant_ms: int) -> None:
        """The other researcher quotes, asks and fetches the answer."""
        await asyncio.sleep(instant_ms / 1000)
        quoted = await quote(service, OTHER)
        self.see(f"quoted {quoted.quota_left}")
        world = self.world
        world.offered[quoted.noise_slot.number] = quoted.noise_slot
        order = world.order(OTHER_RESEARCHER, slot=quoted.noise_slot.number)

        async def sending() -> AsyncIterator[census_service_pb2.CountRequest]:
            for message in world.messages(world.sample(order, world.people[:10])):
                yield message

        try:
            async for response in count(service, sending(), HEALTH):
                self.see(str(response.WhichOneof("event")))
        except BrokerError as error:
            self.see(error.code)
        set_caller(OTHER)
        request = census_service_pb2.CollectRequest(query_id=order.body.query_id)
        collected = await service.Collect(request, NO_CONTEXT)
        self.see(f"collected {len(collected.answer.sealed) > 0}")


@pytest.fixture
def scenes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes scenes, and closes them."""
    made: list[Scene] = []

    def make(name: str) -> Scene:
        with monkeypatch.context() as patch:
            scene = Scene(tmp_path / name, patch)
            made.append(scene)
            scene.play(flooding=name == "flooded")
        return scene

    yield make
    for scene in made:
        scene.close()


def test_flood_of_quotes_moves_nobody_elses_instants(scenes: Callable[[str], Scene]) -> None:
    """Beside 500 quotes a second another researcher is quoted, charged and answered at the very same milliseconds."""
    quiet, flooded = scenes("quiet"), scenes("flooded")
    assert [what for _, what in quiet.seen].count("collected True") == 3
    assert flooded.seen == quiet.seen
    assert flooded.flood["granted"] > 0


def test_flood_of_quotes_gets_what_the_limit_grants_and_no_more(scenes: Callable[[str], Scene]) -> None:
    """The burst and what comes back in the time; further calls are told when to come again, and commit to nothing."""
    scene = scenes("flooded")
    granted = LIMITS.quote_burst + LIMITS.quotes_per_minute * FLOOD_SECONDS // 60
    assert LIMITS.quote_burst <= scene.flood["granted"] <= granted
    assert set(scene.flood) == {"granted", "TOO_MANY_QUOTES"}
    assert scene.flood.total() == FLOOD_SECONDS * FLOOD_A_SECOND
    # One batch for as many quotes as the researcher may hold open; further ones take the place of the oldest.
    assert len(scene.world.events(Slots)) == scene.began + 1


def test_flood_within_the_rate_commits_to_no_slots_without_end(world: World) -> None:
    """However long it goes on, and although another quote is open all the time: slots that nobody took up are quoted again."""
    before, oldest = len(world.events(Slots)), world.reserve(OTHER_RESEARCHER)
    for number in range(20 * BATCH):
        world.clock.advance(1000)
        world.reserve()
        if number % 100 == 0:
            assert world.reserve(OTHER_RESEARCHER) >= oldest
    assert len(world.events(Slots)) == before + 1
    assert len(world.verify_log().open_slots) <= 2 * BATCH
    world.verify_honest_query()


def test_flood_of_samples_that_are_not_charged_commits_to_no_slots_without_end(world: World) -> None:
    """A researcher with one admitted and uncharged sample after the other holds a bounded number of slots."""
    bound = 2 * world.policy.open_quotes + BATCH + BATCH // 4
    for _ in range(4 * BATCH):
        order = world.order()
        world.admit(world.messages(world.sample(order, world.people[:1]))).let_go()
    assert len(world.verify_log().open_slots) <= bound
    world.verify_honest_query()


def test_rate_of_one_researcher_is_no_other_researchers() -> None:
    """A token bucket for each: full at the start, filled at its rate and never beyond the burst, whatever others do."""
    seconds = 0.0
    rate = QuoteRate(30, 3, lambda: seconds)
    refusals: set[tuple[str, str]] = set()

    def taken(researcher: str) -> int:
        """How many quotes are granted at once."""
        granted = 0
        try:
            while granted < 100:
                rate.take(researcher)
                granted += 1
        except RefusedError as error:
            refusals.add((error.code, error.details["retry_seconds"]))
        return granted

    assert [taken("alice"), taken("alice"), taken("bob")] == [3, 0, 3]
    seconds = 2.0
    assert [taken("alice"), taken("alice")] == [1, 0]
    seconds = 8.0
    assert [taken("alice"), taken("bob"), taken("carol")] == [3, 3, 3]
    seconds = 10_000.0
    assert [taken("alice"), taken("bob")] == [3, 3]
    assert refusals == {("TOO_MANY_QUOTES", "2")}


async def test_quotes_wait_in_threads_of_their_own(world: World) -> None:
    """While the journal is held they fill none of the threads that charges and releases need."""
    service = CensusService(world.census, LIMITS, StopSignal(), people=world.places)
    world.use_up_slots()
    loop = asyncio.get_running_loop()
    used: list[Executor | None] = []
    run_in_executor = loop.run_in_executor

    def noted(executor: Any, call: Callable[..., Any], *arguments: Any) -> Any:
        used.append(executor)
        return run_in_executor(executor, call, *arguments)

    held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with world.census.journal._lock:
            held.set()
            let_go.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "run_in_executor", noted)
        quotes = [asyncio.create_task(quote(service, OWNER)) for _ in range(2 * BATCH)]
        await until(lambda: len(used) >= len(quotes))
        let_go.set()
        await asyncio.gather(*quotes)
    holder.join()
    assert None not in used
    # A batch was committed to beside them, in another thread.
    assert len(set(used)) == 2


async def test_batch_that_cannot_be_committed_to_refuses_those_who_wait_for_it_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller that finds a slot has a quote; one that finds none hears why, and the next one tries again."""
    service = CensusService(world.census, LIMITS, StopSignal(), people=world.places)
    world.use_up_slots()
    with monkeypatch.context() as patch:

        def busy(**_: object) -> None:
            raise RefusedError("BUSY", retry_seconds=30)

        patch.setattr(census_node.node, "Slots", busy)
        for _ in range(BATCH // 4):
            await quote(service, OTHER)
        with pytest.raises(RefusedError, match="BUSY"):
            await quote(service, OTHER)
    assert (await quote(service, OTHER)).noise_slot.number >= BATCH
