"""Every role against every RPC over real mutual TLS: the table decides, and a refused call does nothing."""

from __future__ import annotations

from typing import cast

import pytest
from fakes.world import CENSUS, HEALTH, OTHER, OWNER, Order, rows
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2
from integration.loopback import Loopback, call
from tripartite.v1 import answer_pb2, card_service_pb2, census_service_pb2, health_service_pb2, inbox_service_pb2

from broker_common.crypto.certificates import Identity, Role
from broker_common.rpc.callers import ALLOWED_ROLES

CARDS = card_service_pb2.DESCRIPTOR.services_by_name["CardService"]
SERVED_BY: dict[Role, ServiceDescriptor] = {
    "census": census_service_pb2.DESCRIPTOR.services_by_name["CensusService"],
    "health": health_service_pb2.DESCRIPTOR.services_by_name["HealthService"],
    "researcher": inbox_service_pb2.DESCRIPTOR.services_by_name["InboxService"],
}
PROBE = health_pb2.DESCRIPTOR.services_by_name["Health"]


def methods(role: Role) -> list[MethodDescriptor]:
    """Everything that the node of this role serves."""
    descriptors = (SERVED_BY[role], PROBE) if role == "researcher" else (SERVED_BY[role], CARDS, PROBE)
    return [cast("MethodDescriptor", method) for service in descriptors for method in service.methods]


@pytest.mark.parametrize("identity", [CENSUS, HEALTH, OWNER, OTHER], ids=lambda identity: str(identity.name))
@pytest.mark.parametrize("role", SERVED_BY)
async def test_table_of_roles_holds_on_the_wire(loopback: Loopback, identity: Identity, role: Role) -> None:
    """A role that the table does not allow gets WRONG_ROLE, and nobody's log or store has changed."""
    world = loopback.world
    before = world.entries(), world.health_entries(), loopback.answers.all(), world.census.slots._next
    async with loopback.channel(identity, role) as channel:
        said = {method.full_name: await call(channel, method) for method in methods(role)}
    for method in methods(role):
        allowed = ALLOWED_ROLES[f"/{method.containing_service.full_name}/{method.name}"]
        assert (said[method.full_name] == "WRONG_ROLE") == (identity.role not in allowed), method.full_name
    assert (world.entries(), world.health_entries(), loopback.answers.all(), world.census.slots._next) == before
    assert rows(world.census_folder / "journal.db", "pending") == []
    assert {signal.error for signal in loopback.stops.values()} == {None}


async def test_perfect_request_of_the_wrong_role_does_nothing(loopback: Loopback) -> None:
    """Whole and honest messages in the wrong hands: no quote, no acceptance, no charge, no delivery."""
    world = loopback.world
    answered, order, submitted = world.order(), world.order(), world.order()
    query = world.remember(loopback.answers, answered)
    sealed = answer_pb2.SealedAnswer(query_id=bytes.fromhex(query), sealed=world.answer(answered))
    census, health, inbox = (SERVED_BY[role].methods_by_name for role in SERVED_BY)
    perfect: list[tuple[Role, MethodDescriptor, list[Message], list[Identity]]] = [
        ("census", census["Quote"], [quote_request(order)], [HEALTH, CENSUS]),
        ("census", census["Count"], list(world.messages(world.sample(order))), [OWNER, CENSUS]),
        ("census", census["Collect"], [collect_request(answered)], [HEALTH, CENSUS]),
        ("health", health["Submit"], [submitted.submission], [CENSUS, HEALTH]),
        ("researcher", inbox["Deliver"], [inbox_service_pb2.DeliverRequest(answer=sealed)], [HEALTH, OWNER, OTHER]),
    ]
    slots = world.census.slots._next
    with world.unchanged():
        for role, method, messages, identities in perfect:
            for identity in identities:
                async with loopback.channel(identity, role) as channel:
                    wire = [message.SerializeToString() for message in messages]
                    heard = await call(channel, method, *wire)
                # A client that still sends when the answer comes may hear of a broken stream instead.
                assert heard == "WRONG_ROLE" or method.client_streaming, (method.name, identity)
                assert heard in {"WRONG_ROLE", "PEER_MISBEHAVED"}
    assert world.census.slots._next == slots
    assert not world.verify_health_log().tickets
    assert loopback.answers.get(query).state == "pending"
    # In the right hands each of them does what it should.
    for role, method, messages, _ in perfect:
        right = {"researcher": OWNER, "health": HEALTH, "census": CENSUS}
        (allowed,) = ALLOWED_ROLES[f"/{method.containing_service.full_name}/{method.name}"]
        async with loopback.channel(right[allowed], role) as channel:
            assert await call(channel, method, *(message.SerializeToString() for message in messages)) == "OK"
    assert loopback.answers.get(query).state == "answered"
    charged = {charge.query for charge in world.charges()}
    assert charged == {some.body.query_id.hex() for some in (answered, order, submitted)}


def quote_request(order: Order) -> census_service_pb2.QuoteRequest:
    """A quote for the order's question."""
    return census_service_pb2.QuoteRequest(question=order.body.question, scale=order.body.scale)


def collect_request(order: Order) -> census_service_pb2.CollectRequest:
    """A collection of the order's answer."""
    return census_service_pb2.CollectRequest(query_id=order.body.query_id)


async def test_method_that_nobody_defined_is_not_served(loopback: Loopback) -> None:
    """A method outside the table does not exist, for any role."""
    for identity in (CENSUS, HEALTH, OWNER):
        async with loopback.channel(identity, "census") as channel:
            for path in ("/tripartite.v1.CensusService/Reveal", "/grpc.reflection.v1.ServerReflection/Info"):
                with pytest.raises(Exception, match="UNIMPLEMENTED"):
                    await channel.unary_unary(path, request_serializer=bytes)(b"")
