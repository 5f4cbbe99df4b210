"""The messages of one attempt: a head and parts, for the one sample that the ticket's manifest commits to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fakes.world import RESEARCHER, OrderedSample, World
from tripartite.v1 import census_service_pb2

from broker_common.crypto.commitments import hash_bytes
from broker_common.crypto.sample_bits import PART_BYTES, PLACES_IN_PART, SampleBits, SealedSample
from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import InternalError
from health_node.query.forwarding import make_manifest, seal_attempt, sign_manifest


def sent(world: World, ordered: OrderedSample) -> list[census_service_pb2.CountRequest]:
    """One attempt of the health node."""
    manifest = make_manifest(ordered.sample).SerializeToString(deterministic=True)
    signed = sign_manifest(manifest, world.secrets.manifest)
    return list(seal_attempt(ordered.order.signed, signed, ordered.sample, world.secrets.sample.sealing_key))


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("chosen", [0, 1, 400])
def test_what_is_sent_is_the_sample_in_parts_of_one_size(tmp_path: Path, parts: int, chosen: int) -> None:
    """As many parts as the declared places make, no matter who is in it, and the manifest commits to what was sent."""
    world = World(tmp_path, places=parts * PLACES_IN_PART)
    ordered = world.sample(world.order(), world.people[:chosen])
    head, *bits = sent(world, ordered)
    assert [len(part.bits) for part in bits] == [PART_BYTES] * parts
    opened = SampleBits.unseal(
        SealedSample(head.head.sealed_head, [part.bits for part in bits]),
        [world.secrets.sample],
        ordered.sample.bound,
        make_manifest(ordered.sample).set_commitment,
        declared=world.places,
        people=len(world.people),
    )
    assert opened.bits.tobytes() == ordered.sample.bits.bits.tobytes()
    assert ordered.sample.size == chosen
    world.close()


def test_every_attempt_is_sealed_anew(world: World) -> None:
    """Two attempts share nothing of what is sealed, though their sample is the same."""
    sample = world.sample(world.order())
    (first, *first_bits), (second, *second_bits) = (sent(world, sample) for _ in range(2))
    assert first.head.sealed_head != second.head.sealed_head
    assert not {part.bits for part in first_bits} & {part.bits for part in second_bits}
    assert first.head.manifest == second.head.manifest


def test_the_first_manifest_of_a_ticket_is_sent_for_ever(world: World) -> None:
    """Once logged, the same signed bytes serve every attempt, also after a crash; the log has one entry."""
    health, order = world.open_health(), world.order()
    accepted = health.accept(order.submission, health.verify(order.submission, RESEARCHER, world.policy))
    first = health.log_forwarded(make_manifest(health.sample(accepted)), world.secrets.manifest, people=1)
    entries = len(world.health_entries())
    for node in (health, world.crash_health()):
        again = make_manifest(node.sample(node.resume(order.hash.hex())))
        assert node.log_forwarded(again, world.secrets.manifest, people=1) == first
    assert len(world.health_entries()) == entries
    assert world.verify_health_log().tickets[order.hash.hex()].manifest == hash_bytes(first.manifest).hex()


def test_a_manifest_whose_key_was_replaced_is_signed_anew(world: World) -> None:
    """The census node may not know the old key any more: the same manifest goes out under the one in use."""
    health, order = world.open_health(), world.order()
    accepted = health.accept(order.submission, health.verify(order.submission, RESEARCHER, world.policy))
    manifest = make_manifest(health.sample(accepted))
    first = health.log_forwarded(manifest, world.secrets.manifest, people=1)
    key = SigningKey.generate(Purpose.MANIFEST, os.urandom)
    again = health.log_forwarded(manifest, key, people=1)
    assert (again.manifest, again.key_id) == (first.manifest, key.key_id)
    key.verify_key.verify_signature(again.manifest, again.signature)


@pytest.mark.parametrize("damage", ["another set", "no manifest"])
def test_a_sample_that_its_manifest_does_not_commit_to_is_not_sent(world: World, damage: str) -> None:
    """Whatever became of store, key or question: a second attempt hands over what the first one vouched for, or nothing."""
    health, order = world.open_health(), world.order()
    accepted = health.accept(order.submission, health.verify(order.submission, RESEARCHER, world.policy))
    manifest = make_manifest(health.sample(accepted))
    health.log_forwarded(manifest, world.secrets.manifest, people=1)
    if damage == "another set":
        manifest.set_commitment = bytes(32)
    else:
        health.journal.db.execute("update questions set signed_manifest = x'ff'")
    with pytest.raises(InternalError, match="INTEGRITY"):
        health.log_forwarded(manifest, world.secrets.manifest, people=1)
