"""What one attempt sends: frames in batches, and a commitment that is the same at every attempt."""

from __future__ import annotations

import pytest
from fakes.samples import commitment_of, frame_plaintexts
from fakes.world import World, make_pseudonyms

from broker_common.crypto.frames import FrameOpener
from health_node.forwarding import Attempt

PER_FRAME = 16_384


@pytest.mark.parametrize("frames", [1, 2, 3, 4, 15, 16])
def test_batches_are_the_sample_in_order(world: World, frames: int) -> None:
    """Nothing is left out, said twice or reordered where one batch ends, and the manifest names what was sent."""
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
    assert attempt.set_commitment == commitment_of(ordered.sample, order.hash)


def test_every_attempt_commits_to_the_same_set(world: World) -> None:
    """Sealed anew under another key, it is the same sample: a charge for any attempt is one for all."""
    order = world.order()
    sample = world.sample(order).sample
    attempts = [Attempt(order.verified, order.signed, world.linkage, world.sender) for _ in range(2)]
    sent = [[request.frame.ciphertext for request in attempt.frames(sample)] for attempt in attempts]
    assert sent[0] != sent[1]
    assert attempts[0].set_commitment == attempts[1].set_commitment == commitment_of(sample, order.hash)
