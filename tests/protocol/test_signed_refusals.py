"""The census node's signatures when it refuses a sample: which refusals, of what, and nothing that others could learn from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from fakes.links import count, stream
from fakes.world import CENSUS_ORIGIN, HEALTH, RESEARCHER, World, charge_and_answer
from protocol.pair import census_at_work
from tripartite.v1 import census_service_pb2, sample_pb2

from broker_common.crypto.commitments import hash_bytes
from broker_common.errors import BrokerError, InternalError
from broker_common.parties.registration import revoke
from broker_common.query.refusal import Refusal, parse_refusal
from broker_common.rpc.server import StopSignal
from census_node.config import LimitConfig
from census_node.operator import operating

Messages = Sequence[census_service_pb2.CountRequest]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """With everything in force."""
    made = World(tmp_path)
    yield made
    made.close()


async def refused(world: World, messages: Messages) -> BrokerError:
    """How the census node refuses what it is sent."""
    service = census_at_work(world, LimitConfig(), StopSignal())
    with pytest.raises(BrokerError) as caught:
        async for _ in count(service, stream(messages), HEALTH):
            pass
    return caught.value


def signed(world: World, error: BrokerError) -> Refusal:
    """The refusal, if the census agency has signed it."""
    message = sample_pb2.SignedRefusal.FromString(error.signed_refusal)
    assert message.key_id == world.secrets.refusal.key_id
    world.secrets.refusal.verify_key.verify_signature(message.document, message.signature)
    return parse_refusal(message.document)


def whole(world: World) -> Messages:
    """A sample in order."""
    return world.messages(world.sample(world.order()))


def after_shutdown(world: World) -> Messages:
    """One that comes when the operator has shut the service down."""
    messages = whole(world)
    operating.shut_down(world.census.journal, "a drill", world.secrets.operator)
    return messages


def after_revocation(world: World) -> Messages:
    """One of a researcher whom the census agency has revoked: nobody knows the ticket's key any more."""
    messages = whole(world)
    revoke(world.census.journal, "researcher", RESEARCHER, "a mistake")
    return messages


def of_no_roster(world: World) -> Messages:
    """One of a roster that never was: nobody knows how long it is, and the rest is not read."""
    return world.messages(world.sample(world.order()), change=lambda manifest: setattr(manifest, "roster", 9))


def of_no_slot(world: World) -> Messages:
    """One whose ticket names a slot that nobody has committed to."""
    return world.messages(world.sample(world.order(slot=4711)))


def after_its_end(world: World) -> Messages:
    """One whose ticket has expired."""
    order = world.order()
    messages = world.messages(world.sample(order))
    world.clock.now_ms = order.body.expires_ms
    return messages


def sealed_to_nobody(world: World) -> Messages:
    """One that nobody can open: the ticket stays as good as it is."""
    messages = list(whole(world))
    messages[1].bits = bytes(len(messages[1].bits))
    return messages


def by_another_key(world: World) -> Messages:
    """One whose manifest is signed by another agency."""
    return world.messages(world.sample(world.order()), world.secrets.other_manifest)


REFUSED: dict[str, Callable[[World], Messages]] = {
    "SERVICE_SHUT_DOWN": after_shutdown,
    "UNKNOWN_RESEARCHER": after_revocation,
    "ROSTER_NOT_IN_FORCE": of_no_roster,
    "SLOT_UNUSABLE": of_no_slot,
    "TICKET_EXPIRED": after_its_end,
    "SEALED_WRONGLY": sealed_to_nobody,
    "UNKNOWN_KEY": by_another_key,
}


@pytest.mark.parametrize("code", REFUSED)
async def test_every_refusal_of_a_sample_whose_head_has_come_is_signed(world: World, code: str) -> None:
    """Whether or not ticket and manifest hold: it names the bytes that came, and what the ticket says."""
    messages = REFUSED[code](world)
    error = await refused(world, messages)
    refusal, head = signed(world, error), messages[0].head
    assert (error.code, refusal.code) == (code, code)
    assert refusal.ticket == hash_bytes(head.ticket.ticket).hex()
    assert refusal.manifest == hash_bytes(head.manifest.manifest).hex()
    assert (refusal.health, refusal.log, refusal.researcher) == (HEALTH.organisation, CENSUS_ORIGIN, RESEARCHER)
    assert refusal.size == world.census.publication.size


async def test_refusal_does_not_say_how_long_the_log_is(world: World) -> None:
    """Charged and not shown yet: what others were charged meanwhile shows in no refusal."""
    messages, shown = after_shutdown(world), world.census.publication.size
    assert world.census.journal.state.size > shown
    assert signed(world, await refused(world, messages)).size == shown


async def test_another_sample_of_a_charged_ticket_is_refused_and_signed(world: World) -> None:
    """It ends no ticket, and is said by somebody all the same."""
    order = world.order()
    sample = world.sample(order)
    charge_and_answer(world.census, world.admit(world.messages(sample)))
    operating.shut_down(world.census.journal, "a drill", world.secrets.operator)
    error = await refused(world, world.messages(world.sample(order)))
    assert (error.code, signed(world, error).code) == ("TICKET_REUSED", "TICKET_REUSED")


async def test_what_is_said_before_a_head_has_come_is_not_signed(world: World) -> None:
    """There is nothing to name yet, and it ends no ticket."""
    error = await refused(world, whole(world)[1:])
    assert (error.code, error.signed_refusal, error.ends_ticket) == ("MALFORMED_MESSAGE", b"", False)


async def test_fault_of_the_census_nodes_own_is_no_refusal(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its disk says nothing about a sample."""

    def fail(*_: object) -> None:
        raise InternalError("SAMPLE_LOST")

    monkeypatch.setattr(world.census.keeping, "keep", fail)
    error = await refused(world, whole(world))
    assert (error.code, error.signed_refusal) == ("SAMPLE_LOST", b"")
