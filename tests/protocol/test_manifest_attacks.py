"""Manifests that vouch for something else than what was sent, or that somebody else signed, are refused."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from fakes.world import HEALTH, OTHER_HEALTH, World, charge_and_answer
from tripartite.v1 import census_service_pb2, sample_pb2

from broker_common.crypto.certificates import Identity
from broker_common.crypto.commitments import SALT_BYTES
from broker_common.crypto.signing import Purpose, SigningKey

Change = Callable[[sample_pb2.Manifest], object]

VOUCHING_FOR_ANOTHER: dict[str, Change] = {
    "ticket": lambda manifest: setattr(manifest, "ticket_hash", os.urandom(32)),
    "set": lambda manifest: setattr(manifest, "set_commitment", os.urandom(32)),
    "nothing": lambda manifest: manifest.Clear(),
}


def by_hand(
    world: World, *, change: Change = lambda _: None, key: SigningKey | None = None
) -> list[census_service_pb2.CountRequest]:
    """A perfect sample with a manifest of one's own making."""
    return world.messages(world.sample(world.order()), key, change=change)


def hand_over(world: World, messages: list[census_service_pb2.CountRequest], sender: Identity = HEALTH) -> None:
    """Walk a sample to its charge."""
    charge_and_answer(world.census, world.admit(messages, sender))


@pytest.mark.parametrize("what", VOUCHING_FOR_ANOTHER)
def test_manifest_for_something_else_is_refused(world: World, what: str) -> None:
    """The health agency must sign what was sent: ticket and set."""
    with world.refusing("COMMITMENT_MISMATCH"):
        hand_over(world, by_hand(world, change=VOUCHING_FOR_ANOTHER[what]))


@pytest.mark.parametrize("number", [2, 3])
def test_manifest_with_a_field_of_the_past_is_refused(world: World, number: int) -> None:
    """Hashes of one attempt stood in these fields; a manifest that still has them is not the one manifest of its ticket."""
    field = bytes([number << 3 | 2, 32]) + bytes(32)
    with world.refusing("MALFORMED_MESSAGE"):
        hand_over(world, by_hand(world, change=lambda manifest: manifest.MergeFromString(field)))


@pytest.mark.parametrize("number", [0, 2, 2**64 - 1])
def test_manifest_for_a_roster_that_is_not_in_force_is_refused(world: World, number: int) -> None:
    """Places of no roster, of one to come, or of the last that there may ever be, are nobody's."""
    with world.refusing("ROSTER_NOT_IN_FORCE"):
        hand_over(world, by_hand(world, change=lambda manifest: setattr(manifest, "roster", number)))


def test_manifest_of_another_sample_is_refused(world: World) -> None:
    """A manifest recorded from one query vouches for no other, no matter who replays it."""
    earlier, later = by_hand(world), by_hand(world)
    later[0].head.manifest.CopyFrom(earlier[0].head.manifest)
    with world.refusing("COMMITMENT_MISMATCH"):
        hand_over(world, later)


def test_commitment_to_fewer_people_than_sent_is_refused(world: World) -> None:
    """The set that is charged is the set that was sent, not the one that was claimed."""
    order, salt = world.order(), os.urandom(SALT_BYTES)
    everybody = world.sample(order, salt=salt)
    fewer = world.sample(order, world.people[:-1], salt)
    with world.refusing("COMMITMENT_MISMATCH"):
        hand_over(world, world.messages(fewer, sealed=world.seal(everybody)))


def test_commitment_under_another_salt_than_the_sealed_one_is_refused(world: World) -> None:
    """The salt is sealed with the bits, so that the health agency cannot open one commitment in two ways."""
    order = world.order()
    committed, sent = world.sample(order), world.sample(order)
    with world.refusing("COMMITMENT_MISMATCH"):
        hand_over(world, world.messages(committed, sealed=world.seal(sent)))


def test_manifest_altered_after_signing_is_refused(world: World) -> None:
    """Signatures cover the exact bytes."""
    messages = by_hand(world)
    signed = sample_pb2.SignedManifest.FromString(messages[0].head.manifest.SerializeToString())
    for place in range(0, len(signed.manifest), 7):
        altered = bytearray(signed.manifest)
        altered[place] ^= 1
        messages[0].head.manifest.manifest = bytes(altered)
        with world.unchanged(), pytest.raises(Exception, match="BAD_SIGNATURE"):
            hand_over(world, messages)
    world.verify_honest_query()


def test_manifest_signed_by_another_organisation_is_refused(world: World) -> None:
    """Registered or not, an organisation cannot vouch for a sample that another one sends."""
    other = world.secrets.other_manifest
    with world.refusing("UNKNOWN_KEY"):
        hand_over(world, by_hand(world, key=other))
    borrowed = by_hand(world, key=other)
    borrowed[0].head.manifest.key_id = world.secrets.manifest.key_id
    with world.refusing("BAD_SIGNATURE"):
        hand_over(world, borrowed)


def test_sample_sent_by_another_organisation_than_its_signer_is_refused(world: World) -> None:
    """The manifest key must belong to the organisation at the other end of the connection."""
    with world.refusing("UNKNOWN_KEY"):
        hand_over(world, by_hand(world), OTHER_HEALTH)


def test_sample_of_an_organisation_without_manifest_key_is_refused(world: World) -> None:
    """A certificate alone is not enough to send samples."""
    with world.refusing("WRONG_ORGANISATION"):
        hand_over(world, by_hand(world), Identity("third-agency", "health", "node"))


def test_signature_made_for_another_purpose_is_no_manifest(world: World) -> None:
    """The same key bytes under another domain prefix sign no manifest."""
    key = SigningKey(Purpose.TICKET, world.secrets.manifest.expose())
    messages = by_hand(world, key=key)
    messages[0].head.manifest.key_id = world.secrets.manifest.key_id
    with world.refusing("BAD_SIGNATURE"):
        hand_over(world, messages)


def test_manifest_with_an_unknown_field_is_refused(world: World) -> None:
    """A signed word that we understand in part only is not obeyed."""
    with world.refusing("MALFORMED_MESSAGE"):
        hand_over(world, by_hand(world, change=lambda manifest: manifest.MergeFromString(b"\xf8\x07\x01")))


def test_another_organisation_sends_its_own_samples(world: World) -> None:
    """The refusals above are about who vouches for what: a second registered agency is served like the first."""
    sample = world.sample(world.order())
    hand_over(world, world.messages(sample, world.secrets.other_manifest), OTHER_HEALTH)
    (charge,) = world.charges()
    assert charge.health == OTHER_HEALTH.organisation
    assert charge.submitted == sample.set_commitment.hex()
