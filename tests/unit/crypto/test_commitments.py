"""Commitments: bind to every part, hide behind a salt, and never confuse one list of parts with another."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_common.crypto import commitments
from broker_common.crypto.commitments import (
    SlotSecret,
    answer_salt,
    commit_active,
    commit_answer,
    commit_criteria,
    commit_load,
    commit_roster,
    commit_sample,
    commit_slot,
    hash_bytes,
    hash_subjects,
    noise_seed,
    verify_commitment,
)
from broker_common.errors import InvalidRequestError
from broker_common.values import NoisyCounts

SALT = bytes(range(32))
OTHER_SALT = bytes(32)
SECRET, OTHER_SECRET = SlotSecret(SALT), SlotSecret(OTHER_SALT)
SEED: dict[str, Any] = {
    "ticket_hash": b"t" * 32,
    "set_commitment": b"s" * 32,
    "scale": 30,
    "cells": 1,
}


def by_hand(domain: bytes, salt: bytes, *parts: bytes) -> bytes:
    """The published formula, written without the module's helpers."""
    return hashlib.sha256(domain + salt + b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()


def test_commitments_are_the_published_formulas() -> None:
    """Another implementation, from the description alone, gets the same values."""
    assert commit_criteria(SALT, b"c") == by_hand(b"tripartite/commit-criteria/v1\0", SALT, b"c")
    assert commit_sample(SALT, b"t", b"r", b"s") == by_hand(b"tripartite/commit-set/v2\0", SALT, b"t", b"r", b"s")
    assert commit_active(SALT, b"t", b"s") == by_hand(b"tripartite/commit-active/v1\0", SALT, b"t", b"s")
    assert commit_roster(SALT, 258, b"s") == by_hand(b"tripartite/commit-roster/v1\0", SALT, bytes(6) + b"\1\2", b"s")
    assert commit_load(SALT, b"l") == by_hand(b"tripartite/commit-load/v1\0", SALT, b"l")
    assert commit_slot(SECRET, 258) == by_hand(b"tripartite/commit-slot/v1\0", SALT, bytes(6) + b"\1\2")
    assert answer_salt(SECRET, b"t") == by_hand(b"tripartite/answer-salt/v1\0", SALT, b"t")
    for count, written in ((0, b"0"), (-17, b"-17"), (12_345, b"12345"), (-(10**30), b"-1" + b"0" * 30)):
        assert commit_answer(SALT, b"t", NoisyCounts((count,))) == by_hand(
            b"tripartite/commit-answer/v2\0", SALT, b"t", written, *[b"0"] * 15
        )
    for cells, label in ((1, b"count"), (2, b"table"), (16, b"table")):
        assert noise_seed(SECRET, **SEED | {"cells": cells}) == by_hand(
            b"tripartite/noise/v2\0", SALT, b"t" * 32, b"s" * 32, (30).to_bytes(8, "big"), label
        )
    named = by_hand(b"tripartite/subject/v1\0", SALT, b"person", "é".encode())
    assert hash_subjects(SALT, b"person", ["é"]) == named[:16]
    assert hash_bytes(b"x") == hashlib.sha256(b"x").digest()


def test_every_part_is_bound() -> None:
    """Changing the salt or any one part gives another commitment; so does moving it to another purpose."""
    values = [
        commit_criteria(SALT, b"c"),
        commit_criteria(OTHER_SALT, b"c"),
        commit_criteria(SALT, b"d"),
        commit_sample(SALT, b"t", b"r", b"s"),
        commit_sample(OTHER_SALT, b"t", b"r", b"s"),
        commit_sample(SALT, b"u", b"r", b"s"),
        commit_sample(SALT, b"t", b"s", b"r"),
        commit_sample(SALT, b"t", b"r", b"v"),
        commit_active(SALT, b"t", b"s"),
        commit_active(OTHER_SALT, b"t", b"s"),
        commit_active(SALT, b"u", b"s"),
        commit_active(SALT, b"s", b"t"),
        commit_roster(SALT, 1, b"s"),
        commit_roster(SALT, 2, b"s"),
        commit_load(SALT, b"c"),
        commit_load(OTHER_SALT, b"c"),
        commit_load(SALT, b"d"),
        commit_slot(SECRET, 1),
        commit_slot(SECRET, 2),
        commit_slot(SECRET, 2**56),
        commit_slot(OTHER_SECRET, 1),
        # A slot's secret says the same to nobody as noise, as an answer's salt and as its own commitment.
        answer_salt(SECRET, b"t"),
        answer_salt(SECRET, b"u"),
        answer_salt(SECRET, (1).to_bytes(8, "big")),
        answer_salt(OTHER_SECRET, b"t"),
        noise_seed(SECRET, **SEED),
        hash_subjects(SALT, b"person", ["c"]),
        hash_subjects(SALT, b"household", ["c"]),
        hash_subjects(OTHER_SALT, b"person", ["c"]),
        commit_answer(SALT, b"t", NoisyCounts((1,))),
        commit_answer(SALT, b"t", NoisyCounts((-1,))),
        commit_answer(SALT, b"t", NoisyCounts((11,))),
        commit_answer(SALT, b"t1", NoisyCounts((1,))),
        commit_answer(SALT, b"u", NoisyCounts((1,))),
        commit_answer(OTHER_SALT, b"t", NoisyCounts((1,))),
    ]
    assert len(set(values)) == len(values)


@pytest.mark.parametrize(
    "change",
    [
        {"ticket_hash": b"T" * 32},
        {"set_commitment": b"S" * 32},
        {"scale": 31},
        {"cells": 2},
        {"set_commitment": b"t" * 32, "ticket_hash": b"s" * 32},
    ],
)
def test_the_noise_depends_on_all_that_others_have_fixed(change: dict[str, Any]) -> None:
    """No two different charges share noise, and nobody can choose a part after the noise is fixed."""
    assert noise_seed(SECRET, **SEED | change) != noise_seed(SECRET, **SEED)
    assert noise_seed(OTHER_SECRET, **SEED) != noise_seed(SECRET, **SEED)


@given(
    one=st.tuples(st.binary(max_size=12), st.binary(max_size=12)),
    other=st.tuples(st.binary(max_size=12), st.binary(max_size=12)),
)
def test_parts_cannot_be_cut_differently(one: tuple[bytes, bytes], other: tuple[bytes, bytes]) -> None:
    """Two lists of parts commit alike only if they are the same list, also where their concatenations agree."""
    assert (commit_active(SALT, *one) == commit_active(SALT, *other)) == (one == other)


@given(data=st.binary(min_size=1, max_size=30), cuts=st.tuples(st.integers(0, 30), st.integers(0, 30)))
def test_one_string_cut_in_two_places_commits_differently(data: bytes, cuts: tuple[int, int]) -> None:
    """The border between two parts is part of what is committed to."""
    first, second = (min(cut, len(data)) for cut in cuts)
    same = commit_active(SALT, data[:first], data[first:]) == commit_active(SALT, data[:second], data[second:])
    assert same == (first == second)


@pytest.mark.parametrize("size", [0, 16, 31, 33])
@pytest.mark.parametrize(
    "commit",
    [
        lambda salt: commit_criteria(salt, b""),
        lambda salt: commit_sample(salt, b"", b"", b""),
        lambda salt: commit_active(salt, b"", b""),
        lambda salt: commit_roster(salt, 1, b""),
        lambda salt: commit_load(salt, b""),
        lambda salt: commit_answer(salt, b"", NoisyCounts((0,))),
    ],
)
def test_a_salt_of_another_length_is_refused(commit: Callable[[bytes], bytes], size: int) -> None:
    """A short salt would let guessable content be guessed."""
    with pytest.raises(ValueError, match="a salt has 32 bytes"):
        commit(bytes(size))


@given(counts=st.tuples(st.integers(-(10**9), 10**9), st.integers(-(10**9), 10**9)))
def test_an_answer_opens_to_one_count(counts: tuple[int, int]) -> None:
    """A census agency cannot show an auditor another count than it sealed for the researcher."""
    one, other = (commit_answer(SALT, b"t" * 32, NoisyCounts((count,))) for count in counts)
    assert (one == other) == (counts[0] == counts[1])


@pytest.mark.parametrize("slot", [-1, 2**64])
def test_a_slot_that_has_no_number_is_committed_to_by_nobody(slot: int) -> None:
    """Numbers have eight bytes; what does not fit is refused rather than cut."""
    with pytest.raises(OverflowError):
        commit_slot(SECRET, slot)


def test_an_equal_commitment_passes_and_any_other_is_refused() -> None:
    """The refusal names the subject and nothing of the values."""
    value = commit_load(SALT, b"x")
    verify_commitment(value, bytes(value), subject="sample")
    for wrong in (value[:-1], value + b"\0", b"", bytes(32)):
        with pytest.raises(InvalidRequestError) as caught:
            verify_commitment(wrong, value, subject="sample")
        assert caught.value.code == "COMMITMENT_MISMATCH"
        assert caught.value.details == {"subject": "sample"}


def test_hashing_a_view_equals_hashing_bytes() -> None:
    """Bits are handed over as memory views; they hash like what they show."""
    assert commit_sample(SALT, b"t", b"r", memoryview(b"x" * 32)) == commit_sample(SALT, b"t", b"r", b"x" * 32)
    assert commit_active(SALT, b"t", memoryview(b"x" * 32)) == commit_active(SALT, b"t", b"x" * 32)
    assert commitments.SALT_BYTES == 32


def test_many_subjects_are_hashed_as_each_is() -> None:
    """Hashing ids together saves time and changes nothing, whatever their lengths."""
    ids = ["", "P1", "é", "x" * 64, "x" * 300, "P1"]
    assert hash_subjects(SALT, b"person", ids) == b"".join(hash_subjects(SALT, b"person", [each]) for each in ids)
