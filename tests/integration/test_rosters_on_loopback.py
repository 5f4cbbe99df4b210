"""Rosters over real gRPC with mutual TLS: sent, offered again without being sent, refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.links import roster_sender
from fakes.world import HEALTH, World, make_policy
from integration.loopback import Loopback
from tripartite.v1 import census_service_pb2_grpc

from broker_common.crypto.linkage import LinkageKey
from broker_common.errors import BrokerError, RefusedError
from broker_common.privacy.delays import DECLARED_STEP
from broker_common.tlog.entries import Rostered
from health_node.people.store import PeopleStore


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Three parties, as many places declared as may be declared at least."""
    made = World(tmp_path, make_policy(), places=DECLARED_STEP)
    yield made
    made.close()


def numbers(world: World) -> list[int]:
    """Numbers of the health agency's rosters that have come into force, by the census log."""
    return [event.number for event in world.events(Rostered) if event.health == HEALTH.organisation]


async def test_roster_crosses_the_wire_once(world: World) -> None:
    """A roster that is there already is acknowledged at once: hardly any of its frames leave."""
    async with Loopback(world) as nodes, nodes.channel(HEALTH, "census") as channel:
        stub: census_service_pb2_grpc.CensusServiceAsyncStub = census_service_pb2_grpc.CensusServiceStub(channel)
        world.load_health(200)
        await roster_sender(world, nodes.health, stub).send_due()
        assert numbers(world) == [1, 2]
        again = roster_sender(world, nodes.health, stub)
        await again.send_due()
        await again.send_due()
        world.clock.advance(300_000)
        await again.send_due()
        assert numbers(world) == [1, 2]


async def test_refused_header_is_heard_as_it_was_said_and_no_frame_leaves(world: World) -> None:
    """The operator reads the census node's own reason, not that the line broke."""
    async with Loopback(world) as nodes, nodes.channel(HEALTH, "census") as channel:
        stub: census_service_pb2_grpc.CensusServiceAsyncStub = census_service_pb2_grpc.CensusServiceStub(channel)
        world.relink_health(nodes.health, LinkageKey(bytes(range(32))))
        with pytest.raises(RefusedError, match="LINKAGE_MISMATCH"):
            await roster_sender(world, nodes.health, stub).send_due()


async def test_refusal_in_the_middle_of_a_roster_is_tried_again(world: World) -> None:
    """The sender is still writing when the census node ends the call: whatever the library makes of that, it goes on trying."""
    async with Loopback(world) as nodes, nodes.channel(HEALTH, "census") as channel:
        stub: census_service_pb2_grpc.CensusServiceAsyncStub = census_service_pb2_grpc.CensusServiceStub(channel)
        people = world.people
        world.load_health(200)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PeopleStore, "pseudonyms", property(lambda store: people[: store.size][::-1]))
            with pytest.raises(BrokerError) as caught:
                await roster_sender(world, nodes.health, stub).send_due()
        assert caught.value.code in {"BAD_FRAMES", "PEER_UNAVAILABLE"}
        assert numbers(world) == [1]
