"""Samples whose frames are not those of an honest health node are refused whole, and nothing is charged.

Manifests here are always signed over exactly what is sent: only the frames lie.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from fakes.samples import frame_plaintexts
from fakes.world import Frame, Order, Pseudonyms, World, charge_and_answer, make_pseudonyms
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tripartite.v1 import census_service_pb2, sample_pb2

from broker_common.crypto.commitments import SALT_BYTES
from broker_common.crypto.frames import FRAME_BYTES
from broker_common.crypto.sealing import OpeningKey, sample_info
from broker_common.errors import BrokerError
from broker_common.query.messages import parse_message

SALT = bytes(range(SALT_BYTES))
# 16 bytes a person, 64 of header: two frames are full of these.
TWO_FRAMES = (2 * FRAME_BYTES - 64) // 16


def plaintext(
    people: Pseudonyms, *, declared: int | None = None, magic: bytes = b"tripSMP1", reserved: bytes = bytes(16)
) -> bytes:
    """What a sample looks like before it is cut into frames, written here by hand."""
    count = len(people) if declared is None else declared
    return magic + count.to_bytes(8, "big") + SALT + reserved + people.tobytes()


def cut(data: bytes, padding: bytes = b"\0") -> list[Frame]:
    """Frames of the right length."""
    count = max(1, -(-len(data) // FRAME_BYTES))
    return [
        (index, index == count - 1, data[index * FRAME_BYTES : (index + 1) * FRAME_BYTES].ljust(FRAME_BYTES, padding))
        for index in range(count)
    ]


def hand_over(world: World, frames: Sequence[Frame], people: Pseudonyms | None = None) -> None:
    """Walk a sample of these frames to its charge."""
    sent = world.people if people is None else people
    charge_and_answer(world.census, world.admit(world.by_hand(world.order(), frames, people=sent, salt=SALT)))


def test_frames_cut_by_hand_are_those_of_the_product(world: World) -> None:
    """The attacks below start from an honest sample: cut by this file, it is charged and answered."""
    people = make_pseudonyms(TWO_FRAMES)
    assert cut(plaintext(people)) == list(frame_plaintexts(people, SALT))
    hand_over(world, cut(plaintext(people)), people)
    assert len(world.charges()) == 1


def swapped(people: Pseudonyms, first: int, second: int) -> Pseudonyms:
    """Two people in each other's place."""
    order = np.arange(len(people))
    order[[first, second]] = order[[second, first]]
    exchanged: Pseudonyms = people[order]
    return exchanged


def repeated(people: Pseudonyms, place: int) -> Pseudonyms:
    """One person twice, at neighbouring places."""
    longer: Pseudonyms = people[np.sort(np.append(np.arange(len(people)), place))]
    return longer


IN_ONE_FRAME = make_pseudonyms(400)
ACROSS = make_pseudonyms(20_000)
# One frame without any padding.
FULL = make_pseudonyms((FRAME_BYTES - 64) // 16)
# The last person of the first frame.
SEAM = (FRAME_BYTES - 64) // 16 - 1

WRONG_SETS: dict[str, Pseudonyms] = {
    "a duplicate": repeated(IN_ONE_FRAME, 17),
    "a duplicate at the start": repeated(IN_ONE_FRAME, 0),
    "a duplicate across frames": repeated(ACROSS, SEAM),
    "everybody twice": np.repeat(IN_ONE_FRAME, 2, axis=0),
    "unsorted": swapped(IN_ONE_FRAME, 3, 300),
    "neighbours swapped": swapped(IN_ONE_FRAME, 5, 6),
    "descending": IN_ONE_FRAME[::-1],
    "unsorted across frames": swapped(ACROSS, SEAM, SEAM + 1),
    "equal first halves, descending": np.array([[1] * 15 + [2], [1] * 15 + [1]], np.uint8),
}


@pytest.mark.parametrize("what", WRONG_SETS)
def test_sample_that_is_not_strictly_ascending_is_refused(world: World, what: str) -> None:
    """Nobody is counted twice in one sample: duplicates and unsorted samples are refused whole."""
    people = WRONG_SETS[what]
    with world.refusing("BAD_FRAMES"):
        hand_over(world, cut(plaintext(people)), people)


def drop_last_flag(frames: list[Frame]) -> list[Frame]:
    """Frames of which none says that it is the last."""
    return [(index, False, data) for index, _, data in frames]


def renumbered(frames: list[Frame], indices: Sequence[int]) -> list[Frame]:
    """The same frames under other numbers."""
    return [(index, last, data) for index, (_, last, data) in zip(indices, frames, strict=True)]


WRONG_FRAMES: dict[str, tuple[Pseudonyms, Callable[[], list[Frame]]]] = {
    "no frame at all": (ACROSS, list),
    "the last frame is missing": (ACROSS, lambda: cut(plaintext(ACROSS))[:1]),
    "the first frame is missing": (ACROSS, lambda: cut(plaintext(ACROSS))[1:]),
    "no frame says that it is the last": (ACROSS, lambda: drop_last_flag(cut(plaintext(ACROSS)))),
    "every frame says that it is the last": (
        ACROSS,
        lambda: [(index, True, data) for index, _, data in cut(plaintext(ACROSS))],
    ),
    "frames in the wrong order": (ACROSS, lambda: cut(plaintext(ACROSS))[::-1]),
    "a frame sent twice": (ACROSS, lambda: cut(plaintext(ACROSS))[:1] * 2),
    "a gap in the numbers": (ACROSS, lambda: renumbered(cut(plaintext(ACROSS)), (0, 2))),
    "numbers from one": (ACROSS, lambda: renumbered(cut(plaintext(ACROSS)), (1, 2))),
    "a frame after the last one": (ACROSS, lambda: [*cut(plaintext(ACROSS)), (2, True, bytes(FRAME_BYTES))]),
    "an empty frame at the end": (
        IN_ONE_FRAME,
        lambda: [*drop_last_flag(cut(plaintext(IN_ONE_FRAME))), (1, True, bytes(FRAME_BYTES))],
    ),
    "a frame too short": (IN_ONE_FRAME, lambda: [(0, True, plaintext(IN_ONE_FRAME))]),
    "a frame too long": (
        IN_ONE_FRAME,
        lambda: [(0, True, plaintext(IN_ONE_FRAME).ljust(FRAME_BYTES + 16, b"\0"))],
    ),
    "a frame of nothing": (IN_ONE_FRAME, lambda: [(0, True, b"")]),
    "fewer people than declared": (IN_ONE_FRAME, lambda: cut(plaintext(IN_ONE_FRAME, declared=40_000))),
    "one person more declared than fit": (FULL, lambda: cut(plaintext(FULL, declared=len(FULL) + 1))),
    "padding passed off as a person": (IN_ONE_FRAME, lambda: cut(plaintext(IN_ONE_FRAME, declared=401))),
    "more people than declared": (IN_ONE_FRAME, lambda: cut(plaintext(IN_ONE_FRAME, declared=399))),
    "people, and none declared": (IN_ONE_FRAME, lambda: cut(plaintext(IN_ONE_FRAME, declared=0))),
    "2^64 - 1 declared": (IN_ONE_FRAME, lambda: cut(plaintext(IN_ONE_FRAME, declared=2**64 - 1))),
    "padding that is not zero": (IN_ONE_FRAME, lambda: cut(plaintext(IN_ONE_FRAME), padding=b"\1")),
    "a last byte that is not zero": (
        IN_ONE_FRAME,
        lambda: [(0, True, plaintext(IN_ONE_FRAME).ljust(FRAME_BYTES - 1, b"\0") + b"\1")],
    ),
    "another magic": (IN_ONE_FRAME, lambda: cut(plaintext(IN_ONE_FRAME, magic=b"tripSMP2"))),
    "reserved bytes in use": (IN_ONE_FRAME, lambda: cut(plaintext(IN_ONE_FRAME, reserved=bytes(15) + b"\1"))),
}


@pytest.mark.parametrize("what", WRONG_FRAMES)
def test_frames_that_do_not_fit_together_are_refused(world: World, what: str) -> None:
    """Truncated, repeated, reordered, padded or miscounted: the whole sample is refused."""
    people, make = WRONG_FRAMES[what]
    with world.refusing("BAD_FRAMES"):
        hand_over(world, make(), people)


def test_sample_above_the_policys_limit_is_refused(world: World) -> None:
    """The limit holds for the declared number, before its people are read."""
    people = make_pseudonyms(world.policy.max_sample + 1)
    with world.refusing("BAD_FRAMES"):
        hand_over(world, cut(plaintext(people)), people)


def test_sample_at_the_policys_limit_and_the_empty_one_are_answered(world: World) -> None:
    """No sample is refused for being small, none for being as large as the policy admits."""
    for people in (make_pseudonyms(world.policy.max_sample), make_pseudonyms(0)):
        hand_over(world, cut(plaintext(people)), people)
    assert len(world.charges()) == 2


Messages = list[census_service_pb2.CountRequest]


def flip(frame: sample_pb2.SampleFrame, byte: int = 100) -> None:
    """Change one bit of a frame that was sealed already."""
    altered = bytearray(frame.ciphertext)
    altered[byte] ^= 1
    frame.ciphertext = bytes(altered)


AFTER_SEALING: dict[str, tuple[Callable[[Messages], None], str]] = {
    "one bit of a ciphertext": (lambda messages: flip(messages[1].frame), "SEALED_WRONGLY"),
    "one bit of a tag": (lambda messages: flip(messages[1].frame, -1), "SEALED_WRONGLY"),
    "the last flag": (lambda messages: setattr(messages[1].frame, "last", True), "SEALED_WRONGLY"),
    "the last flag taken away": (lambda messages: setattr(messages[2].frame, "last", False), "SEALED_WRONGLY"),
    "frames swapped under each other's number": (
        lambda messages: _swap_ciphertexts(messages[1].frame, messages[2].frame),
        "SEALED_WRONGLY",
    ),
    "the sealed key": (
        lambda messages: setattr(messages[0].header, "sealed_frame_key", messages[0].header.sealed_frame_key[:-1]),
        "SEALED_WRONGLY",
    ),
    "no sealed key": (lambda messages: setattr(messages[0].header, "sealed_frame_key", b""), "SEALED_WRONGLY"),
}


def _swap_ciphertexts(first: sample_pb2.SampleFrame, second: sample_pb2.SampleFrame) -> None:
    first.ciphertext, second.ciphertext = second.ciphertext, first.ciphertext


@pytest.mark.parametrize("what", AFTER_SEALING)
def test_frames_altered_after_sealing_are_refused(world: World, what: str) -> None:
    """Nobody between the two agencies can change, move or cut a frame."""
    change, code = AFTER_SEALING[what]
    messages = world.messages(world.sample(world.order(), ACROSS))
    change(messages)
    with world.refusing(code):
        charge_and_answer(world.census, world.admit(messages))


def other_ticket(world: World, order: Order) -> bytes:
    """Bound to a ticket that is not this one."""
    del order
    return sample_info(os.urandom(32), world.policy.hash, world.linkage)


def other_policy(world: World, order: Order) -> bytes:
    """Bound to a policy that is not in force."""
    return sample_info(order.hash, os.urandom(32), world.linkage)


def other_linkage(world: World, order: Order) -> bytes:
    """Bound to a linkage chain that the header does not name."""
    return sample_info(order.hash, world.policy.hash, "0123456789abcdef")


@pytest.mark.parametrize("info", [other_ticket, other_policy, other_linkage])
def test_frame_key_sealed_for_another_ticket_policy_or_linkage_does_not_open(
    world: World, info: Callable[[World, Order], bytes]
) -> None:
    """A sample recorded for one ticket cannot be replayed under another: the sealing is bound to all three."""
    order = world.order()
    frames = frame_plaintexts(world.people, SALT)
    messages = world.by_hand(order, frames, people=world.people, salt=SALT, info=info(world, order))
    with world.refusing("SEALED_WRONGLY"):
        charge_and_answer(world.census, world.admit(messages))


def test_frame_key_sealed_to_another_key_does_not_open(world: World) -> None:
    """Only the census node's own key opens samples."""
    order, other = world.order(), OpeningKey.generate(os.urandom).sealing_key
    frames = frame_plaintexts(world.people, SALT)
    messages = world.by_hand(order, frames, people=world.people, salt=SALT, census_key=other)
    with world.refusing("SEALED_WRONGLY"):
        charge_and_answer(world.census, world.admit(messages))


def test_frame_key_of_the_wrong_length_is_refused(world: World) -> None:
    """What opens must be a frame key, not just anything sealed to us."""
    order = world.order()
    messages = world.messages(world.sample(order))
    messages[0].header.sealed_frame_key = world.secrets.sample.sealing_key.seal(
        bytes(31), sample_info(order.hash, world.policy.hash, world.linkage)
    )
    with world.refusing("BAD_FRAMES"):
        charge_and_answer(world.census, world.admit(messages))


def test_frames_of_an_earlier_attempt_do_not_open(world: World) -> None:
    """Every attempt has a key of its own: frames recorded from one are worthless in the next."""
    sample = world.sample(world.order())
    earlier, later = world.messages(sample), world.messages(sample)
    assert earlier[1].frame.ciphertext != later[1].frame.ciphertext
    later[1:] = earlier[1:]
    with world.refusing("SEALED_WRONGLY"):
        charge_and_answer(world.census, world.admit(later))


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_byte_of_a_sample_can_be_changed(world: World, data: st.DataObject) -> None:
    """Whatever byte of whatever message is changed on the way, the sample is refused and nothing is charged."""
    messages = world.messages(world.sample(world.order()))
    # Lengths differ from attempt to attempt, so what is drawn must not depend on them.
    place = data.draw(st.integers(0, len(messages) - 1), label="message")
    byte = data.draw(st.integers(0, FRAME_BYTES), label="byte")
    change = data.draw(st.integers(1, 255), label="change")
    wire = bytearray(messages[place].SerializeToString(deterministic=True))
    wire[byte % len(wire)] ^= change
    with world.unchanged(), pytest.raises(BrokerError):
        hand_over_wire(world, messages, place, bytes(wire))


def hand_over_wire(world: World, messages: Messages, place: int, wire: bytes) -> None:
    """Walk a sample to its charge, one of its messages as a server would read these bytes."""
    # A message that holds anything unknown never reaches a handler.
    messages[place] = parse_message(census_service_pb2.CountRequest, wire)
    charge_and_answer(world.census, world.admit(messages))
