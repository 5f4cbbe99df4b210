"""What one attempt sends: frames in batches, for the one sample that the ticket's manifest commits to."""

from __future__ import annotations

import os

import pytest
from fakes.samples import commitment_of, frame_plaintexts
from fakes.world import RESEARCHER, World, make_pseudonyms

from broker_common.crypto.commitments import commit_set, hash_bytes
from broker_common.crypto.frames import FrameOpener
from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import InternalError
from health_node.forwarding import Attempt, make_manifest

PER_FRAME = 16_384


@pytest.mark.parametrize("frames", [1, 2, 3, 4, 15, 16])
def test_batches_are_the_sample_in_order(world: World, frames: int) -> None:
    """Nothing is left out, said twice or reordered where one batch ends, and the manifest commits to what was sent."""
    people = make_pseudonyms(frames * PER_FRAME - 100)
    order = world.order()
    ordered = world.sample(order, people)
    attempt = Attempt(order.verified, order.signed, world.linkage, world.sender)
    batches = list(attempt.batches(ordered.sample))
    assert all(batches)
    assert [batch[-1].frame.last for batch in batches] == [False] * (len(batches) - 1) + [True]
    said = [request.frame for batch in batches for request in batch]
    assert [frame.index for frame in said] == list(range(frames))
    opener = FrameOpener(attempt._sealer.frame_key, max_people=len(people))
    opened = [bytes(opener.open_frame(frame.index, frame.last, frame.ciphertext)) for frame in said]
    opener.finish()
    assert b"".join(opened) == people.tobytes()
    assert len(opened) == len(list(frame_plaintexts(people, ordered.sample.set_salt)))
    committed = commit_set(opener.salt, order.hash, opener.set_hash)
    assert (
        committed
        == make_manifest(order.hash, ordered.sample).set_commitment
        == commitment_of(ordered.sample, order.hash)
    )


def test_every_attempt_is_sealed_anew(world: World) -> None:
    """Two attempts share no byte of what is sealed, though their sample is the same."""
    order = world.order()
    sample = world.sample(order).sample
    attempts = [Attempt(order.verified, order.signed, world.linkage, world.sender) for _ in range(2)]
    sent = [[request.frame.ciphertext for request in attempt.frames(sample)] for attempt in attempts]
    assert not set(sent[0]) & set(sent[1])
    keys = [attempt.header().header.sealed_frame_key for attempt in attempts]
    assert keys[0] != keys[1]


def test_the_first_manifest_of_a_ticket_is_sent_for_ever(world: World) -> None:
    """Once logged, the same signed bytes serve every attempt, also after a crash; the log has one entry."""
    health, order = world.open_health(), world.order()
    accepted = health.accept(order.submission, health.verify(order.submission, RESEARCHER, world.policy))
    first = health.log_forwarded(make_manifest(order.hash, health.sample(accepted)), world.secrets.manifest)
    entries = len(world.health_entries())
    for node in (health, world.crash_health()):
        again = make_manifest(order.hash, node.sample(node.resume(order.hash.hex())))
        assert node.log_forwarded(again, world.secrets.manifest) == first
    assert len(world.health_entries()) == entries
    assert world.verify_health_log().tickets[order.hash.hex()].manifest == hash_bytes(first.manifest).hex()


def test_a_manifest_whose_key_was_replaced_is_signed_anew(world: World) -> None:
    """The census node may not know the old key any more: the same manifest goes out under the one in use."""
    health, order = world.open_health(), world.order()
    accepted = health.accept(order.submission, health.verify(order.submission, RESEARCHER, world.policy))
    manifest = make_manifest(order.hash, health.sample(accepted))
    first = health.log_forwarded(manifest, world.secrets.manifest)
    key = SigningKey.generate(Purpose.MANIFEST, os.urandom)
    again = health.log_forwarded(manifest, key)
    assert (again.manifest, again.key_id) == (first.manifest, key.key_id)
    key.verify_key.verify_signature(again.manifest, again.signature)


@pytest.mark.parametrize("damage", ["another set", "no manifest"])
def test_a_sample_that_its_manifest_does_not_commit_to_is_not_sent(world: World, damage: str) -> None:
    """Whatever became of store, key or question: a second attempt hands over what the first one vouched for, or nothing."""
    health, order = world.open_health(), world.order()
    accepted = health.accept(order.submission, health.verify(order.submission, RESEARCHER, world.policy))
    manifest = make_manifest(order.hash, health.sample(accepted))
    health.log_forwarded(manifest, world.secrets.manifest)
    if damage == "another set":
        manifest.set_commitment = bytes(32)
    else:
        health.journal.db.execute("update questions set signed_manifest = x'ff'")
    with pytest.raises(InternalError, match="INTEGRITY"):
        health.log_forwarded(manifest, world.secrets.manifest)
