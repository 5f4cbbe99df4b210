"""Sampling: the same for ever, independent of who else is there, and of the stated share."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC
from fakes.randomness import SeededRandomness
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from broker_common.crypto.sampling import WHOLE_MILLIONTHS, SamplingKey

KEY = SamplingKey(bytes(range(32)))
TAG = b"criteria"
ERROR_RATE = 1e-9
"""Chance that a sound sampler fails the binomial tests; the draws are fixed by seeds, so the tests never flake."""


def people(n: int, seed: str = "people") -> npt.NDArray[np.uint8]:
    """Distinct pseudonyms, n of them, ascending."""
    rows = np.frombuffer(SeededRandomness(seed)(16 * n), np.uint8).reshape(-1, 16)
    ordered: npt.NDArray[np.uint8] = np.unique(rows, axis=0)
    return ordered


def members(rows: npt.NDArray[np.uint8]) -> set[bytes]:
    """The people as a set."""
    return {row.tobytes() for row in rows}


def take(key: SamplingKey, rows: npt.NDArray[np.uint8], tag: bytes, millionths: int) -> npt.NDArray[np.uint8]:
    """The rows of an array that are drawn where everybody is marked."""
    marks = np.ones(len(rows), np.bool_)
    key.keep_drawn(rows, tag, millionths, marks)
    drawn: npt.NDArray[np.uint8] = rows[marks]
    return drawn


def drawn_by_hand(pseudonym: bytes, tag: bytes, millionths: int) -> bool:
    """The rule for one person, written out: AES under the tag's key, its first half as a fraction of 2^64."""
    mac = HMAC(KEY.expose(), SHA256())
    mac.update(b"tripartite/sampling/v1\0" + tag)
    encryptor = Cipher(algorithms.AES256(mac.finalize()), modes.CBC(bytes(16))).encryptor()
    drawn = int.from_bytes(encryptor.update(pseudonym)[:8], "big")
    return drawn < millionths * 2**64 // 10**6


WORLD = people(2000)


@given(millionths=st.integers(1, WHOLE_MILLIONTHS - 1), tag=st.binary(max_size=40))
@settings(max_examples=20)
def test_each_person_is_drawn_by_the_rule_for_one(millionths: int, tag: bytes) -> None:
    """The vectorised draw equals the slow one, person by person; hence it depends on nobody else."""
    expected = [row.tobytes() for row in WORLD[:150] if drawn_by_hand(row.tobytes(), tag, millionths)]
    assert [row.tobytes() for row in take(KEY, WORLD[:150], tag, millionths)] == expected


def test_the_same_criteria_give_the_same_sample() -> None:
    """Asking again draws nobody new, so repetition averages nothing away."""
    assert np.array_equal(take(KEY, WORLD, TAG, 300_000), take(SamplingKey(bytes(range(32))), WORLD, TAG, 300_000))


def test_a_larger_fraction_contains_the_smaller_one() -> None:
    """Asking at several fractions never draws independent samples of one cohort."""
    samples = [members(take(KEY, WORLD, TAG, fraction)) for fraction in (1, 10_000, 300_000, 999_999, WHOLE_MILLIONTHS)]
    assert all(smaller <= larger for smaller, larger in pairwise(samples))
    assert len(samples[0]) < len(samples[2]) < len(samples[4])


@given(data=st.data())
@settings(max_examples=30)
def test_nobodys_presence_displaces_another(data: st.DataObject) -> None:
    """Among any part of the people, those are taken who are taken among all."""
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=100, max_size=100)))
    whole = members(take(KEY, WORLD[:100], TAG, 400_000))
    assert members(take(KEY, WORLD[:100][kept], TAG, 400_000)) == whole & members(WORLD[:100][kept])


def test_the_whole_takes_everybody_in_order() -> None:
    """Fraction 1 is everyone who matches, not nearly everyone."""
    assert np.array_equal(take(KEY, WORLD, TAG, WHOLE_MILLIONTHS), WORLD)


def test_an_empty_cohort_gives_an_empty_sample() -> None:
    """Nobody matching is an ordinary case."""
    assert take(KEY, WORLD[:0], TAG, 500_000).shape == (0, 16)


@pytest.mark.parametrize("n", [0, 1, 16_383, 16_384, 16_385, 40_000])
@pytest.mark.parametrize("millionths", [1, 400_000, 999_999, WHOLE_MILLIONTHS])
def test_marks_are_kept_of_those_who_are_taken(n: int, millionths: int) -> None:
    """Unmarked people stay so, and displace nobody."""
    world = people(n)
    marks = np.arange(n) % 3 != 0
    before = marks.copy()
    KEY.keep_drawn(world, TAG, millionths, marks)
    assert members(world[marks]) == members(take(KEY, world, TAG, millionths)) & members(world[before])


@pytest.mark.parametrize("n", [16_383, 16_384, 16_385, 40_000])
def test_people_are_drawn_in_pieces_as_one_by_one(n: int) -> None:
    """Around the borders of what is drawn in one go, everybody is drawn by the rule for one."""
    world = people(n)
    expected = [row.tobytes() for row in world if drawn_by_hand(row.tobytes(), TAG, 900_000)]
    assert [row.tobytes() for row in take(KEY, world, TAG, 900_000)] == expected


def in_range(taken: int, n: int, share: Fraction) -> bool:
    """Whether a binomial count is within the range that holds all but ERROR_RATE."""
    low, high = binom.ppf(ERROR_RATE / 2, n, float(share)), binom.ppf(1 - ERROR_RATE / 2, n, float(share))
    return bool(low <= taken <= high)


@pytest.mark.parametrize("millionths", [10, 1_000, 50_000, 500_000, 950_000, 999_990])
def test_the_share_taken_is_the_share_asked_for(millionths: int) -> None:
    """A binomial number of 200,000 people is taken."""
    world = people(200_000)
    share = Fraction(millionths, WHOLE_MILLIONTHS)
    assert in_range(len(take(KEY, world, TAG, millionths)), len(world), share)


@pytest.mark.parametrize(
    ("key", "tag"),
    [(KEY, b"other criteria"), (KEY, b""), (KEY, TAG + b"\0"), (SamplingKey(bytes(32)), TAG)],
)
def test_another_criterion_or_key_draws_independently(key: SamplingKey, tag: bytes) -> None:
    """Two samples of one cohort under different tags or keys overlap as two unrelated draws do."""
    world = people(100_000)
    first, second = members(take(KEY, world, TAG, 300_000)), members(take(key, world, tag, 300_000))
    assert in_range(len(first & second), len(world), Fraction(9, 100))


@pytest.mark.parametrize("millionths", [-1, 0, WHOLE_MILLIONTHS + 1])
def test_a_fraction_outside_its_range_is_refused(millionths: int) -> None:
    """Taking nobody, or more than everybody, is no sample."""
    with pytest.raises(ValueError, match="between 1 and 1,000,000 millionths"):
        take(KEY, WORLD, TAG, millionths)
