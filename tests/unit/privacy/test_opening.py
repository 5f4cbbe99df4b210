"""Openings: sealed to one key, of one length, of one spelling, and enough to compute an answer's receipt again."""

from __future__ import annotations

import os
import pickle

import msgspec
import pytest

from broker_common.crypto.commitments import SlotSecret, answer_salt, commit_answer, commit_slot, noise_seed
from broker_common.crypto.noise_stream import NoiseStream
from broker_common.crypto.sealing import UnsealingKey, opening_info
from broker_common.errors import InvalidRequestError
from broker_common.privacy.opening import SEALED_OPENING_BYTES, Opening, make_opening, seal_opening, unseal_opening
from broker_common.privacy.table_laplace import add_noise
from broker_common.values import ExactCounts

TICKET, SECRET, LOAD = "ab" * 32, SlotSecret(bytes(range(32))), "6f1d0c7be29a4458"
# The charge's commitment to the sample.
SUBMITTED = "12" * 32


def make(*counts: int) -> Opening:
    """The opening of an answer whose exact counts are these; of one cell with 41 people where nothing is said."""
    return make_opening(ExactCounts(counts or [41]), SECRET, ticket=TICKET, slot=7, load=LOAD)


@pytest.fixture(scope="module")
def key() -> UnsealingKey:
    """The oversight body's."""
    return UnsealingKey.generate(os.urandom)


@pytest.mark.parametrize("counts", [(0,), (41,), (2**53 - 1,), (41, 0, 7), (2**53 - 1,) * 16])
def test_round_trip_has_one_length(key: UnsealingKey, counts: tuple[int, ...]) -> None:
    """The opening is what was sealed, and its size says nothing of the counts, nor of how many there are."""
    sealed = seal_opening(make(*counts), key.sealing_key)
    assert len(sealed) == SEALED_OPENING_BYTES
    assert unseal_opening(sealed, TICKET, key) == make(*counts)


def test_the_longest_opening_fits(key: UnsealingKey) -> None:
    """Sixteen counts, a slot and a load as long as a log allows: an opening that did not fit would stop an answer."""
    longest = msgspec.structs.replace(make(*[2**53 - 1] * 16), slot=2**53 - 1, load="a" * 64)
    assert len(seal_opening(longest, key.sealing_key)) == SEALED_OPENING_BYTES


def test_counts_of_several_cells_are_those_of_their_cells() -> None:
    """In their order: an agency cannot exchange two numbers afterwards."""
    assert make(41, 7).states(ExactCounts([41, 7]))
    for others in ([7, 41], [41], [41, 7, 0]):
        assert not make(41, 7).states(ExactCounts(others))


def test_everything_that_was_fixed_before_follows_from_it() -> None:
    """Slot and receipt: computed here a second time, by hand."""
    opening, ticket = make(), bytes.fromhex(TICKET)
    seed = noise_seed(SECRET, ticket_hash=ticket, set_commitment=bytes.fromhex(SUBMITTED), scale=30, cells=1)
    noisy = add_noise(ExactCounts([41]), 30, NoiseStream(seed))
    assert opening.slot_commitment == commit_slot(SECRET, 7).hex()
    assert opening.answer_hash(30, SUBMITTED) == commit_answer(answer_salt(SECRET, ticket), ticket, noisy).hex()


def test_another_sample_has_another_receipt() -> None:
    """The noise follows from the sample that the log commits to: nobody can try samples until an answer suits."""
    assert make().answer_hash(30, SUBMITTED) != make().answer_hash(30, "13" * 32)


def test_another_count_has_another_receipt() -> None:
    """A census node cannot say another count afterwards than the one that its answer was made of."""
    assert make(41).answer_hash(30, SUBMITTED) != make(42).answer_hash(30, SUBMITTED)


def test_nobody_else_opens_it(key: UnsealingKey) -> None:
    """Another key, or another ticket, opens nothing."""
    sealed = seal_opening(make(), key.sealing_key)
    for ticket, other in ((TICKET, UnsealingKey.generate(os.urandom)), ("cd" * 32, key)):
        with pytest.raises(InvalidRequestError) as caught:
            unseal_opening(sealed, ticket, other)
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
        msgspec.json.encode(make(), order="sorted").replace(b'"counts":[41]', b'"counts":[-1]'),
        msgspec.json.encode(make(), order="sorted").replace(b'"format":3', b'"format":2'),
        msgspec.json.encode(make(), order="sorted").replace(b'"counts":[41]', b'"counts":[]'),
        msgspec.json.encode(make(), order="sorted").replace(b'"counts":[41]', b'"counts":[' + b"4," * 16 + b"1]"),
        msgspec.json.encode(make(), order="sorted").replace(b'"counts":[41]', b'"count":41'),
        msgspec.json.encode(make(), order="sorted").replace(b'"counts"', b'"active_set":"","counts"'),
        # No seed of noise can be made of it.
        msgspec.json.encode(make(), order="sorted").replace(LOAD.encode(), "é".encode()),
        msgspec.json.encode(make(), order="sorted").replace(LOAD.encode(), b""),
        msgspec.json.encode(make(), order="sorted").replace(LOAD.encode(), b"a" * 65),
    ],
)
def test_what_is_no_opening_of_the_ticket_is_refused(key: UnsealingKey, document: bytes) -> None:
    """Sealed by any holder of the public key, it may be anything."""
    with pytest.raises(InvalidRequestError) as caught:
        unseal_opening(key.sealing_key.seal(document.ljust(1024), opening_info(TICKET)), TICKET, key)
    assert caught.value.code == "MALFORMED_MESSAGE"


def test_an_opening_shows_nothing_by_accident() -> None:
    """Printed or pickled, it keeps its count."""
    assert repr(make()) == "Opening(<secret>)"
    with pytest.raises(TypeError):
        pickle.dumps(make())
