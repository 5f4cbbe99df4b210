"""Receiving a sample: linking is waited for by nobody before the sample is whole, and by no instant."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import weakref
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fakes.patience import PATIENCE_SECONDS, until
from fakes.world import HEALTH, World, make_pseudonyms
from tripartite.v1 import census_service_pb2

from broker_common.errors import InvalidRequestError
from census_node.admission import Admission
from census_node.linking import Linking
from census_node.receiving import Reception

Requests = Sequence[census_service_pb2.CountRequest]
# Frames of 256 KiB.
PEOPLE = 45_000
LINKERS = ThreadPoolExecutor(2)


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Linking stands still until this is set."""
    go_on, add_all = threading.Event(), Linking.add_all

    def held(linking: Linking, pieces: Any) -> None:
        assert go_on.wait()
        add_all(linking, pieces)

    monkeypatch.setattr(Linking, "add_all", held)
    yield go_on
    # Also for a test that failed: threads that stand still would keep the process from its end.
    go_on.set()


def reception_of(world: World, sent: Requests) -> Reception:
    """What a sample's header leads to."""
    return Reception(Admission(sent[0].header, HEALTH, world.census.gate()), world.census.linking(), LINKERS)


async def stream(requests: Requests) -> AsyncIterator[census_service_pb2.CountRequest]:
    """As they come."""
    for request in requests:
        yield request


async def test_a_sample_has_come_when_its_last_message_has(tmp_path: Any, blocked: threading.Event) -> None:
    """However long linking takes, which a sender could otherwise read from when the outcome is told."""
    world = World(tmp_path, people=400)
    sent = world.messages(world.sample(world.order(), make_pseudonyms(PEOPLE)))
    reception = reception_of(world, sent)
    held: list[int] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        sample = await reception.admitted(stream(sent[1:]), held.append)
    assert len(sample.pseudonyms) == PEOPLE
    assert len(held) == len(sent) - 2
    blocked.set()
    linked = await reception.linked(sample)
    everybody = world.census.link(sample)
    assert (linked.rows == everybody.rows).all()
    assert (linked.units.persons == everybody.units.persons).all()
    world.close()


@pytest.mark.parametrize("fault", ["cut", "frame", "order"])
async def test_a_sample_is_refused_before_it_is_linked(tmp_path: Any, blocked: threading.Event, fault: str) -> None:
    """A refusal does not wait for what was being linked, and says the same."""
    world = World(tmp_path, people=400)
    sent = world.messages(world.sample(world.order(), make_pseudonyms(PEOPLE)))
    if fault == "cut":
        sent = sent[:-1]
    elif fault == "frame":
        sent[2].frame.ciphertext = bytes(len(sent[2].frame.ciphertext))
    else:
        sent = [*sent[:-1], sent[0]]
    reception = reception_of(world, sent)
    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(InvalidRequestError) as caught:
            await reception.admitted(stream(sent[1:]), lambda _: None)
    assert caught.value.code == ("SEALED_WRONGLY" if fault == "frame" else "MALFORMED_MESSAGE")
    blocked.set()
    await reception.stop()
    world.close()


async def test_linking_of_many_samples_leaves_threads_to_everybody_else(
    tmp_path: Any, blocked: threading.Event
) -> None:
    """Whatever else is done in a thread, a release at its tick or another's charge, does not wait for it."""
    world = World(tmp_path, people=400)
    sent = world.messages(world.sample(world.order(), make_pseudonyms(PEOPLE)))
    # More than the threads that asyncio has for everything.
    receptions = [reception_of(world, sent) for _ in range(2 * (os.cpu_count() or 1) + 4)]
    async with asyncio.timeout(PATIENCE_SECONDS):
        for reception in receptions:
            await reception.admitted(stream(sent[1:]), lambda _: None)
        await asyncio.to_thread(blocked.is_set)
    assert not blocked.is_set()
    blocked.set()
    for reception in receptions:
        await reception.stop()
    world.close()


async def test_a_bad_frame_is_refused_although_nothing_comes_after_it(tmp_path: Any) -> None:
    """A sender who waits for what is said of a frame hears it at once, not at the deadline."""
    world = World(tmp_path, people=400)
    sent = world.messages(world.sample(world.order(), make_pseudonyms(PEOPLE)))
    sent[1].frame.ciphertext = bytes(len(sent[1].frame.ciphertext))

    async def first_frame_and_silence() -> AsyncIterator[census_service_pb2.CountRequest]:
        yield sent[1]
        await asyncio.Event().wait()

    reception = reception_of(world, sent)
    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(InvalidRequestError, match="SEALED_WRONGLY"):
            await reception.admitted(first_frame_and_silence(), lambda _: None)
    await reception.stop()
    world.close()


async def test_a_sample_that_nobody_needs_any_more_is_in_memory_no_longer(tmp_path: Any) -> None:
    """It does not wait for the collector, which a serving node hardly ever runs over everything: a million are 50 MB."""
    world = World(tmp_path, people=400)
    sent = world.messages(world.sample(world.order(), make_pseudonyms(PEOPLE)))
    gc.collect()
    gc.disable()
    try:
        reception = reception_of(world, sent)
        sample = await reception.admitted(stream(sent[1:]), lambda _: None)
        linked = await reception.linked(sample)
        opener = weakref.ref(reception._admission._opener)
        standing = weakref.ref(linked.standing)
        del reception, sample, linked
        # For threads to let go of what they have done.
        await until(lambda: (opener(), standing()) == (None, None))
    finally:
        gc.enable()
    world.close()
