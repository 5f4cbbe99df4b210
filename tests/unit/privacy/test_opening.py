"""Openings: sealed to one key, of one length, of one spelling, and enough to compute an answer's receipt again."""

from __future__ import annotations

import os
import pickle

import msgspec
import pytest

from broker_common.crypto.commitments import SlotSecret, answer_salt, commit_answer, commit_set, commit_slot, noise_seed
from broker_common.crypto.noise_stream import NoiseStream
from broker_common.crypto.sealing import OpeningKey, opening_info
from broker_common.errors import InvalidRequestError
from broker_common.privacy.discrete_laplace import add_noise
from broker_common.privacy.opening import SEALED_OPENING_BYTES, Opening, make_opening, open_opening, seal_opening
from broker_common.values import ExactCount

TICKET, SECRET, LOAD = "ab" * 32, SlotSecret(bytes(range(32))), "6f1d0c7be29a4458"
SUBMITTED, ACTIVE = (b"\1" * 32, b"\2" * 32), (b"\3" * 32, b"\4" * 32)


def make(count: int = 41) -> Opening:
    """The opening of an answer whose exact count is `count`."""
    return make_opening(ExactCount(count), SECRET, ticket=TICKET, slot=7, load=LOAD, submitted=SUBMITTED, active=ACTIVE)


@pytest.fixture(scope="module")
def key() -> OpeningKey:
    """The oversight body's."""
    return OpeningKey.generate(os.urandom)


@pytest.mark.parametrize("count", [0, 41, 2**53 - 1])
def test_round_trip_has_one_length(key: OpeningKey, count: int) -> None:
    """What is sealed is what is opened, and its size says nothing of the count."""
    sealed = seal_opening(make(count), key.sealing_key)
    assert len(sealed) == SEALED_OPENING_BYTES
    assert open_opening(sealed, TICKET, key) == make(count)


def test_everything_that_was_fixed_before_follows_from_it() -> None:
    """Slot, sets and receipt: computed here a second time, by hand."""
    opening, ticket = make(), bytes.fromhex(TICKET)
    seed = noise_seed(
        SECRET, ticket_hash=ticket, set_commitment=commit_set(SUBMITTED[0], ticket, SUBMITTED[1]), scale=30
    )
    noisy = add_noise(ExactCount(41), 30, NoiseStream(seed)).value
    assert opening.slot_commitment == commit_slot(SECRET, 7).hex()
    assert opening.submitted == commit_set(SUBMITTED[0], ticket, SUBMITTED[1]).hex()
    assert opening.active == commit_set(ACTIVE[0], ticket, ACTIVE[1]).hex()
    assert opening.answer_hash(30) == commit_answer(answer_salt(SECRET, ticket), ticket, noisy).hex()


def test_another_count_has_another_receipt() -> None:
    """A census node cannot say another count afterwards than the one that its answer was made of."""
    assert make(41).answer_hash(30) != make(42).answer_hash(30)


def test_nobody_else_opens_it(key: OpeningKey) -> None:
    """Another key, or another ticket, opens nothing."""
    sealed = seal_opening(make(), key.sealing_key)
    for ticket, other in ((TICKET, OpeningKey.generate(os.urandom)), ("cd" * 32, key)):
        with pytest.raises(InvalidRequestError) as caught:
            open_opening(sealed, ticket, other)
        assert caught.value.code == "SEALED_WRONGLY"


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"[" * 900,
        b"\xff",
        msgspec.json.encode(make(), order="sorted").replace(b":", b": ", 1),
        msgspec.json.encode(make(), order="sorted").replace(TICKET.encode(), b"cd" * 32),
        msgspec.json.encode(make(), order="sorted").replace(b'"count":41', b'"count":-1'),
        msgspec.json.encode(make(), order="sorted").replace(b'"format":1', b'"format":2'),
        # No seed of noise can be made of it.
        msgspec.json.encode(make(), order="sorted").replace(LOAD.encode(), "é".encode()),
        msgspec.json.encode(make(), order="sorted").replace(LOAD.encode(), b""),
        msgspec.json.encode(make(), order="sorted").replace(LOAD.encode(), b"a" * 65),
    ],
)
def test_what_is_no_opening_of_the_ticket_is_refused(key: OpeningKey, document: bytes) -> None:
    """Sealed by whoever has the public key, it may be anything."""
    with pytest.raises(InvalidRequestError) as caught:
        open_opening(key.sealing_key.seal(document.ljust(1024), opening_info(TICKET)), TICKET, key)
    assert caught.value.code == "MALFORMED_MESSAGE"


def test_an_opening_shows_nothing_by_accident() -> None:
    """Printed or pickled, it keeps its count."""
    assert repr(make()) == "Opening(<secret>)"
    with pytest.raises(TypeError):
        pickle.dumps(make())
