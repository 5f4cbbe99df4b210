"""Samples that are not what an honest health node would send are refused whole, and nothing is charged.

Manifests here are always signed over exactly what is sent: only what is sealed lies. Many mistakes of a list of people cannot be
made at all: a sample of bits holds nobody twice, nobody out of order and nobody who is not on the roster.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fakes.samples import sample_of
from fakes.world import OTHER_HEALTH, Order, OrderedSample, World, charge_and_answer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tripartite.v1 import census_service_pb2, sample_pb2

from broker_common.crypto.commitments import SALT_BYTES, hash_bytes
from broker_common.crypto.sample_bits import HEAD_BYTES, PART_BYTES, PLACES_IN_PART, Bound, SampleBits, SealedSample
from broker_common.crypto.sealing import UnsealingKey, sample_bits_info
from broker_common.errors import BrokerError
from broker_common.query.messages import parse_message
from health_node.query.forwarding import Sample

Messages = list[census_service_pb2.CountRequest]
SALT = bytes(range(SALT_BYTES))


def hand_over(world: World, messages: Messages) -> None:
    """Walk a sample to its charge."""
    charge_and_answer(world.census, world.admit(messages))


def payload(world: World, places: list[int], *, declared: int | None = None) -> bytes:
    """Payload of a sample, written here by hand: the salt, then a bit for each declared place."""
    bits = bytearray((world.places if declared is None else declared) // 8)
    for place in places:
        bits[place // 8] |= 0x80 >> place % 8
    return SALT + bytes(bits)


def commitment(world: World, order: Order, sent: bytes) -> bytes:
    """Commitment of an agency that sends this, lies and all."""
    bits = np.frombuffer(sent, np.uint8, offset=SALT_BYTES)
    return SampleBits(bits, sent[:SALT_BYTES]).commitment(world.bound(order))


def sealed(world: World, sent: bytes, info: bytes) -> SealedSample:
    """Any payload, sealed to the census node and cut as samples are."""
    whole = world.secrets.sample.sealing_key.seal(sent, info)
    return SealedSample(
        whole[:HEAD_BYTES], [whole[start : start + PART_BYTES] for start in range(HEAD_BYTES, len(whole), PART_BYTES)]
    )


def by_hand(world: World, order: Order, places: list[int]) -> Messages:
    """A sample made by this file alone."""
    sent = payload(world, places)
    ordered = OrderedSample(order, sample_of(places, world.bound(order), declared=world.places, salt=SALT))
    return world.messages(ordered, sealed=sealed(world, sent, world.bound(order).info))


def test_samples_made_by_hand_are_those_of_the_product(world: World) -> None:
    """The attacks below start from an honest sample: made by this file, it is charged, and these are the people in it."""
    order = world.order()
    hand_over(world, by_hand(world, order, [0, 7, 8, 399]))
    (charge,) = world.charges()
    assert charge.submitted == commitment(world, order, payload(world, [0, 7, 8, 399])).hex()


@pytest.mark.parametrize("places", [[], [0], [399], list(range(400))], ids=["nobody", "first", "last", "everybody"])
def test_no_sample_is_refused_for_its_size(world: World, places: list[int]) -> None:
    """Samples of nobody, of one person, of everybody are charged and answered."""
    hand_over(world, by_hand(world, world.order(), places))
    assert len(world.charges()) == 1


# --- what is said of whom --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [400, 401, 407, 408, PLACES_IN_PART - 1])
def test_bit_behind_the_last_person_is_refused(world: World, place: int) -> None:
    """Nobody stands there: a single bit in the padding refuses the whole sample."""
    with world.refusing("BAD_SAMPLE"):
        hand_over(world, by_hand(world, world.order(), [3, place]))


def other_length(world: World, order: Order, declared: int) -> Messages:
    """A sample of other places than were declared, committed to and sealed as what it is."""
    ordered = OrderedSample(order, sample_of([1, 2], world.bound(order), declared=declared, salt=SALT))
    return world.messages(ordered)


def test_sample_of_more_places_than_were_declared_is_refused(world: World) -> None:
    """Its length alone says so: nothing is opened."""
    with world.refusing("BAD_SAMPLE"):
        hand_over(world, other_length(world, world.order(), world.places + PLACES_IN_PART))


def test_sample_of_fewer_places_than_were_declared_is_refused(tmp_path: Path) -> None:
    """So does one that is too short."""
    world = World(tmp_path, places=2 * PLACES_IN_PART)
    with world.refusing("BAD_SAMPLE"):
        hand_over(world, other_length(world, world.order(), PLACES_IN_PART))
    world.close()


def cut_otherwise(
    sound: SealedSample, change: Callable[[bytes, list[bytes]], tuple[bytes, list[bytes]]]
) -> SealedSample:
    """The same bytes in other pieces, or other bytes."""
    return SealedSample(*change(sound.head, [bytes(part) for part in sound.parts]))


PIECES: dict[str, Callable[[bytes, list[bytes]], tuple[bytes, list[bytes]]]] = {
    "no part": lambda head, _: (head, []),
    "a part more": lambda head, parts: (head, [*parts, bytes(PART_BYTES)]),
    "a part twice": lambda head, parts: (head, [*parts, parts[-1]]),
    "a part too short": lambda head, parts: (head, [*parts[:-1], parts[-1][:-1]]),
    "a part too long": lambda head, parts: (head, [*parts[:-1], parts[-1] + b"\0"]),
    "an empty part": lambda head, _: (head, [b""]),
    "no head": lambda _, parts: (b"", parts),
    "a head too short": lambda head, parts: (head[:-1], parts),
    "a head too long": lambda head, parts: (head + parts[0][:1], [parts[0][1:]]),
}


@pytest.mark.parametrize("what", PIECES)
def test_sample_in_other_pieces_is_refused(world: World, what: str) -> None:
    """Every sample of a roster has the same head and the same parts, to the byte."""
    ordered = world.sample(world.order())
    with world.refusing("BAD_SAMPLE"):
        hand_over(world, world.messages(ordered, sealed=cut_otherwise(world.seal(ordered), PIECES[what])))


def test_sample_other_than_the_one_committed_to_is_refused(world: World) -> None:
    """An agency commits to its sample before it sends it: one bit more, or another salt, does not fit."""
    order = world.order()
    ordered = world.sample(order, world.people[:10], SALT)
    info = world.bound(order).info
    for sent in (payload(world, list(range(11))), bytes(SALT_BYTES) + payload(world, list(range(10)))[SALT_BYTES:]):
        with world.refusing("COMMITMENT_MISMATCH"):
            hand_over(world, world.messages(ordered, sealed=sealed(world, sent, info)))


# --- another roster --------------------------------------------------------------------------------------------------


def test_sample_of_a_roster_that_was_never_handed_over_is_refused(world: World) -> None:
    """Nobody knows who stands at its places."""
    for number in (0, 2, 2**64 - 1):

        def other_number(manifest: sample_pb2.Manifest, number: int = number) -> None:
            manifest.roster = number

        with world.refusing("ROSTER_NOT_IN_FORCE"):
            hand_over(world, world.messages(world.sample(world.order()), change=other_number))


def test_sample_that_is_bound_to_another_roster_does_not_open(world: World) -> None:
    """The roster's number alone does not make it the roster: its manifest is what a sample is sealed and committed for."""
    order = world.order()
    other = Bound(order.hash, os.urandom(32))
    sample = Sample(world.sample(order).sample.bits, other, roster=1)
    with world.refusing("SEALED_WRONGLY"):
        hand_over(world, world.messages(OrderedSample(order, sample)))


def test_commitment_for_another_roster_is_refused(world: World) -> None:
    """Sealed for this roster and committed to for another one: which people it names would be open to dispute."""
    order = world.order()
    sample = Sample(world.sample(order).sample.bits, Bound(order.hash, os.urandom(32)), roster=1)
    sound = world.seal(world.sample(order, salt=sample.bits.salt))
    with world.refusing("COMMITMENT_MISMATCH"):
        hand_over(world, world.messages(OrderedSample(order, sample), sealed=sound))


def test_agency_cannot_use_the_places_of_another_agencys_roster(world: World) -> None:
    """A sample belongs to its sender's own roster: another agency's sample is not the sender's, no matter who seals it."""
    order = world.order()
    ordered = world.sample(order)
    with world.refusing("UNKNOWN_KEY"):
        charge_and_answer(world.census, world.admit(world.messages(ordered), OTHER_HEALTH))
    with world.refusing("UNKNOWN_KEY"):
        hand_over(world, world.messages(ordered, world.secrets.other_manifest))


# --- on the way ------------------------------------------------------------------------------------------------------


def flipped(data: bytes, byte: int) -> bytes:
    """One bit changed."""
    changed = bytearray(data)
    changed[byte] ^= 1
    return bytes(changed)


ON_THE_WAY: dict[str, Callable[[bytes, list[bytes]], tuple[bytes, list[bytes]]]] = {
    "one bit of the head": lambda head, parts: (flipped(head, 100), parts),
    "the last bit of the head": lambda head, parts: (flipped(head, -1), parts),
    "one bit of a part": lambda head, parts: (head, [flipped(parts[0], 100), *parts[1:]]),
    "one bit of the tag": lambda head, parts: (head, [*parts[:-1], flipped(parts[-1], -1)]),
    "nothing but zeros": lambda head, parts: (bytes(len(head)), [bytes(len(part)) for part in parts]),
}


@pytest.mark.parametrize("what", ON_THE_WAY)
def test_sample_altered_after_sealing_is_refused(world: World, what: str) -> None:
    """Nobody between the two agencies can change a sample."""
    ordered = world.sample(world.order())
    with world.refusing("SEALED_WRONGLY"):
        hand_over(world, world.messages(ordered, sealed=cut_otherwise(world.seal(ordered), ON_THE_WAY[what])))


def test_parts_cannot_change_places(tmp_path: Path) -> None:
    """The parts are one sealed whole."""
    world = World(tmp_path, places=2 * PLACES_IN_PART)
    ordered = world.sample(world.order())
    with world.refusing("SEALED_WRONGLY"):
        hand_over(
            world,
            world.messages(ordered, sealed=cut_otherwise(world.seal(ordered), lambda head, parts: (head, parts[::-1]))),
        )
    world.close()


def test_sample_sealed_for_another_ticket_does_not_open(world: World) -> None:
    """A sample recorded for one ticket cannot be replayed under another."""
    order = world.order()
    sent = payload(world, [1, 2, 3])
    ordered = OrderedSample(order, sample_of([1, 2, 3], world.bound(order), declared=world.places, salt=SALT))
    other = sample_bits_info(os.urandom(32), hash_bytes(world.roster_manifest))
    with world.refusing("SEALED_WRONGLY"):
        hand_over(world, world.messages(ordered, sealed=sealed(world, sent, other)))


def test_sample_sealed_to_another_key_does_not_open(world: World) -> None:
    """Only the census node's own key opens samples."""
    order = world.order()
    ordered = world.sample(order)
    other = UnsealingKey.generate(os.urandom).sealing_key
    with world.refusing("SEALED_WRONGLY"):
        hand_over(world, world.messages(ordered, sealed=ordered.sample.bits.seal(other, world.bound(order))))


def test_attempts_share_nothing_and_cannot_be_mixed(world: World) -> None:
    """Every attempt is sealed anew: parts recorded from one are worthless in the next."""
    ordered = world.sample(world.order())
    earlier, later = world.seal(ordered), world.seal(ordered)
    assert earlier.head != later.head
    assert bytes(earlier.parts[0]) != bytes(later.parts[0])
    with world.refusing("SEALED_WRONGLY"):
        hand_over(world, world.messages(ordered, sealed=SealedSample(later.head, earlier.parts)))


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_byte_of_a_sample_can_be_changed(world: World, data: st.DataObject) -> None:
    """Whatever byte of whatever message is changed on the way, the sample is refused and nothing is charged."""
    messages = world.messages(world.sample(world.order()))
    # Lengths differ from attempt to attempt, so what is drawn must not depend on them.
    place = data.draw(st.integers(0, len(messages) - 1), label="message")
    byte = data.draw(st.integers(0, PART_BYTES), label="byte")
    change = data.draw(st.integers(1, 255), label="change")
    wire = bytearray(messages[place].SerializeToString(deterministic=True))
    wire[byte % len(wire)] ^= change
    with world.unchanged(), pytest.raises(BrokerError):
        hand_over_wire(world, messages, place, bytes(wire))


def hand_over_wire(world: World, messages: Messages, place: int, wire: bytes) -> None:
    """Walk a sample to its charge, one of its messages as a server would read these bytes."""
    # A message that holds anything unknown never reaches a handler.
    messages[place] = parse_message(census_service_pb2.CountRequest, wire)
    hand_over(world, messages)


@pytest.mark.parametrize("people", [0, 1, 200, 400])
def test_every_sample_has_one_size_on_the_wire(world: World, people: int) -> None:
    """No matter who is in it: the same messages, each of the same length."""
    messages = world.messages(world.sample(world.order(), world.people[:people]))
    assert [len(message.bits) for message in messages[1:]] == [PART_BYTES]
    assert len(messages[0].head.sealed_head) == HEAD_BYTES
    assert len(messages[0].head.manifest.manifest) == len(
        world.messages(world.sample(world.order()))[0].head.manifest.manifest
    )
