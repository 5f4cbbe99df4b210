"""Samples of one bit a place: all of one length, bound to ticket and roster, opened exactly or refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes.randomness import SeededRandomness
from hypothesis import given, settings
from hypothesis import strategies as st
from tripartite.v1.roster_pb2 import RosterManifest

from broker_common.crypto.commitments import hash_bytes
from broker_common.crypto.sample_bits import (
    HEAD_BYTES,
    PART_BYTES,
    PLACES_IN_PART,
    Bound,
    SampleBits,
    SealedSample,
    part_count,
)
from broker_common.crypto.sealing import UnsealingKey
from broker_common.errors import InvalidRequestError
from broker_common.privacy.delays import DECLARED_STEP

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "sample_bits.json").read_text())
KEY, OTHER_KEY = (UnsealingKey.generate(SeededRandomness(name)) for name in ("key", "other"))
SALT = bytes(range(32))
ROSTER_COMMITMENT = b"c" * 32
BOUND = Bound(b"t" * 32, b"r" * 32)
DECLARED = PLACES_IN_PART


def sample_of(places: Sequence[int] | range, declared: int = DECLARED, salt: bytes = SALT) -> SampleBits:
    """Those places of a roster."""
    marks = np.zeros(declared, np.uint8)
    marks[list(places)] = 1
    return SampleBits(np.packbits(marks), salt)


def opened(sealed: SealedSample, sample: SampleBits, *, people: int, declared: int = DECLARED) -> SampleBits:
    """As the census node opens it."""
    return SampleBits.unseal(sealed, [KEY], BOUND, sample.commitment(BOUND), declared=declared, people=people)


@given(
    parts=st.integers(1, 3),
    share=st.sampled_from([0.0, 1e-5, 0.5, 1.0]),
    behind=st.sampled_from([0, 1, 7, 8, 9, 100_000]),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=25)
def test_what_is_sealed_is_opened_bit_by_bit(parts: int, share: float, behind: int, seed: int) -> None:
    """Nobody, somebody, half or everybody; with any number of places that nobody has yet."""
    generator, declared = np.random.default_rng(seed), parts * PLACES_IN_PART
    people = declared - behind
    sample = sample_of(np.flatnonzero(generator.random(people) < share).tolist(), declared, generator.bytes(32))
    again = opened(sample.seal(KEY.sealing_key, BOUND), sample, people=people, declared=declared)
    assert np.array_equal(again.bits, sample.bits)
    assert again.salt == sample.salt


@pytest.mark.parametrize("parts", [1, 2, 29])
def test_all_samples_are_of_one_length(parts: int) -> None:
    """Samples of nobody, of one and of everybody have the same head and parts, which follow from the declared places."""
    declared = parts * PLACES_IN_PART
    for places in (range(0), range(3, 4), range(declared)):
        sealed = sample_of(places, declared).seal(KEY.sealing_key, BOUND)
        assert len(sealed.head) == HEAD_BYTES == 1168
        assert [len(part) for part in sealed.parts] == [65_536] * parts
        assert part_count(declared) == parts


def test_two_attempts_have_nothing_in_common() -> None:
    """A fresh encapsulation each time: nobody sees on the way whether a sample is sent again."""
    sample = sample_of(range(100))
    one, two = (sample.seal(KEY.sealing_key, BOUND) for _ in range(2))
    assert one.head != two.head
    assert one.parts != two.parts


ALTERED: dict[str, tuple[Callable[[SealedSample], SealedSample], str]] = {
    "a bit of the head": (lambda sent: replace(sent, head=_flipped(sent.head)), "SEALED_WRONGLY"),
    "a bit of a part": (lambda sent: replace(sent, parts=[_flipped(sent.parts[0]), sent.parts[1]]), "SEALED_WRONGLY"),
    "parts in another order": (lambda sent: replace(sent, parts=sent.parts[::-1]), "SEALED_WRONGLY"),
    "a part twice": (lambda sent: replace(sent, parts=[sent.parts[0]] * 2), "SEALED_WRONGLY"),
    "a part too many": (lambda sent: replace(sent, parts=[*sent.parts, sent.parts[0]]), "BAD_SAMPLE"),
    "a part missing": (lambda sent: replace(sent, parts=sent.parts[:1]), "BAD_SAMPLE"),
    "no part": (lambda sent: replace(sent, parts=[]), "BAD_SAMPLE"),
    "a part cut short": (lambda sent: replace(sent, parts=[sent.parts[0], sent.parts[1][:-1]]), "BAD_SAMPLE"),
    "a part and an empty one": (lambda sent: replace(sent, parts=[b"".join(sent.parts), b""]), "BAD_SAMPLE"),
    "a longer head": (lambda sent: replace(sent, head=sent.head + b"\0"), "BAD_SAMPLE"),
    "no head": (lambda sent: replace(sent, head=b""), "BAD_SAMPLE"),
}


def _flipped(text: bytes | memoryview) -> bytes:
    return bytes([text[0] ^ 1]) + bytes(text[1:])


@pytest.mark.parametrize("alteration", ALTERED)
def test_sample_altered_on_the_way_is_refused(alteration: str) -> None:
    """Whatever is changed, left out or sent twice."""
    alter, code = ALTERED[alteration]
    declared = 2 * PLACES_IN_PART
    sample = sample_of(range(5), declared)
    with pytest.raises(InvalidRequestError, match=code):
        opened(alter(sample.seal(KEY.sealing_key, BOUND)), sample, people=declared, declared=declared)


@pytest.mark.parametrize("declared", [PLACES_IN_PART, 3 * PLACES_IN_PART])
def test_sample_of_another_declared_figure_is_refused(declared: int) -> None:
    """A shorter or longer one, whole in itself."""
    sample = sample_of(range(5), 2 * PLACES_IN_PART)
    with pytest.raises(InvalidRequestError, match="BAD_SAMPLE"):
        opened(sample.seal(KEY.sealing_key, BOUND), sample, people=5, declared=declared)


@pytest.mark.parametrize("people", [0, 1, 7, 8, 9, 1000, DECLARED - 9, DECLARED - 8, DECLARED - 1])
def test_bits_behind_the_last_person_are_refused(people: int) -> None:
    """The next one, the next byte's and the last one: what says nothing may not say anything."""
    for behind in {people, min(people + 8, DECLARED - 1), DECLARED - 1}:
        sample = sample_of([*range(0, people, 3), behind])
        with pytest.raises(InvalidRequestError, match="BAD_SAMPLE"):
            opened(sample.seal(KEY.sealing_key, BOUND), sample, people=people)
    sample = sample_of(range(people))
    assert np.array_equal(opened(sample.seal(KEY.sealing_key, BOUND), sample, people=people).bits, sample.bits)


@pytest.mark.parametrize("other", [Bound(b"u" * 32, b"r" * 32), Bound(b"t" * 32, b"s" * 32)])
def test_sample_of_another_ticket_or_roster_does_not_open(other: Bound) -> None:
    """Neither sealed for it nor committed to for it: a sample cannot be taken from one question to another."""
    sample = sample_of(range(9))
    with pytest.raises(InvalidRequestError, match="SEALED_WRONGLY"):
        opened(sample.seal(KEY.sealing_key, other), sample, people=DECLARED)
    sealed, claimed = sample.seal(KEY.sealing_key, BOUND), sample.commitment(other)
    with pytest.raises(InvalidRequestError, match="COMMITMENT_MISMATCH"):
        SampleBits.unseal(sealed, [KEY], BOUND, claimed, declared=DECLARED, people=DECLARED)


def test_sample_for_another_key_does_not_open_and_either_of_two_does() -> None:
    """While keys are changed, the one before still opens."""
    sample = sample_of(range(9))
    sealed, claimed = sample.seal(OTHER_KEY.sealing_key, BOUND), sample.commitment(BOUND)
    with pytest.raises(InvalidRequestError, match="SEALED_WRONGLY"):
        SampleBits.unseal(sealed, [KEY], BOUND, claimed, declared=DECLARED, people=DECLARED)
    again = SampleBits.unseal(sealed, [OTHER_KEY, KEY], BOUND, claimed, declared=DECLARED, people=DECLARED)
    assert np.array_equal(again.bits, sample.bits)


def test_sample_that_was_not_committed_to_is_refused() -> None:
    """One place more, or another salt, under a commitment that was signed before."""
    sample = sample_of(range(9))
    for other in (sample_of(range(10)), sample_of(range(9), salt=bytes(32))):
        with pytest.raises(InvalidRequestError, match="COMMITMENT_MISMATCH"):
            opened(other.seal(KEY.sealing_key, BOUND), sample, people=DECLARED)


@pytest.mark.parametrize("declared", [0, 1, DECLARED - 8, DECLARED + 8, -DECLARED])
def test_declared_places_come_in_steps(declared: int) -> None:
    """One step is one part; nothing else has a length."""
    assert DECLARED_STEP == PLACES_IN_PART == 8 * PART_BYTES
    with pytest.raises(ValueError, match="multiple"):
        part_count(declared)


@pytest.mark.parametrize("hashes", [(b"t" * 31, b"r" * 33), (b"t" * 33, b"r" * 31), (b"", b"r" * 64), (b"t" * 32, b"")])
def test_hashes_have_one_length(hashes: tuple[bytes, bytes]) -> None:
    """`info` puts them one after the other: a byte moved from one to the other would be the same `info`."""
    with pytest.raises(ValueError, match="32 bytes"):
        Bound(*hashes)


def test_sample_is_bound_to_number_and_linkage_of_its_roster() -> None:
    """The same people under the same commitment, sent under another number or pseudonymised by another chain: another roster."""
    manifests = [
        RosterManifest(number=number, linkage=linkage, commitment=ROSTER_COMMITMENT)
        for number, linkage in ((3, "0123456789abcdef"), (4, "0123456789abcdef"), (3, "fedcba9876543210"))
    ]
    bound, *others = (Bound(b"t" * 32, hash_bytes(manifest.SerializeToString())) for manifest in manifests)
    sample = sample_of(range(9))
    for other in others:
        with pytest.raises(InvalidRequestError, match="SEALED_WRONGLY"):
            SampleBits.unseal(
                sample.seal(KEY.sealing_key, bound),
                [KEY],
                other,
                sample.commitment(bound),
                declared=DECLARED,
                people=DECLARED,
            )
        with pytest.raises(InvalidRequestError, match="COMMITMENT_MISMATCH"):
            SampleBits.unseal(
                sample.seal(KEY.sealing_key, bound),
                [KEY],
                bound,
                sample.commitment(other),
                declared=DECLARED,
                people=DECLARED,
            )


def test_a_salt_has_one_length() -> None:
    """A shorter one would hide less."""
    with pytest.raises(ValueError, match="salt"):
        SampleBits(np.zeros(PART_BYTES, np.uint8), bytes(31))


def test_neither_places_nor_salt_are_printed() -> None:
    """A sample in a traceback or a log line says nothing of whom it is about."""
    assert repr(sample_of(range(3))) == repr(sample_of(range(7), salt=bytes(32))) == "SampleBits()"


# --- vectors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda vector: vector["name"])
def test_vectors_are_met(vector: dict[str, Any]) -> None:
    """Layout, `info` and commitment are what was recorded, and what the description says, written out by hand."""
    salt, ticket, manifest = (bytes.fromhex(vector[name]) for name in ("salt", "ticket_hash", "roster_manifest"))
    roster = hashlib.sha256(manifest).digest()
    assert manifest == RosterManifest(**vector["roster"] | {"commitment": ROSTER_COMMITMENT}).SerializeToString()
    bits = bytearray(vector["declared"] // 8)
    for place in vector["places"]:
        bits[place // 8] |= 128 >> place % 8
    sample, bound = sample_of(vector["places"], vector["declared"], salt), Bound(ticket, roster)
    assert sample.bits.tobytes() == bits
    assert hashlib.sha256(salt + bits).hexdigest() == vector["payload_sha256"]
    parts = b"".join(len(part).to_bytes(8, "big") + part for part in (ticket, roster, bytes(bits)))
    by_hand = hashlib.sha256(b"tripartite/commit-set/v2\0" + salt + parts).hexdigest()
    assert sample.commitment(bound).hex() == by_hand == vector["commitment"]
    assert bound.info == b"tripartite/sample/v3\0" + ticket + roster == bytes.fromhex(vector["info"])
    sealed = sample.seal(KEY.sealing_key, bound)
    assert [len(sealed.head), len(sealed.parts), len(sealed.parts[0])] == vector["lengths"]


@pytest.mark.parametrize("vector", VECTORS["refused"], ids=lambda vector: vector["name"])
def test_refused_vectors_are_refused(vector: dict[str, Any]) -> None:
    """Each with its code: a payload that is sealed as it should be, and is no sample of this roster."""
    declared = vector["declared"]
    sample = sample_of(vector["places"], declared)
    sealed = sample.seal(KEY.sealing_key, BOUND)
    committed = sample_of(vector["committed"], declared)
    with pytest.raises(InvalidRequestError, match=vector["code"]):
        SampleBits.unseal(
            sealed, [KEY], BOUND, committed.commitment(BOUND), declared=vector["of"], people=vector["roster_people"]
        )
