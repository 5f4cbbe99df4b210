"""The noise stream reads SHAKE256 as one string of bits, each bit once, and shows nothing of itself."""

from __future__ import annotations

import copy
import hashlib
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_common.crypto import noise_stream
from broker_common.crypto.noise_stream import MIN_SEED_BYTES, NoiseStream

seeds = st.binary(min_size=MIN_SEED_BYTES, max_size=80)
widths = st.lists(st.integers(0, 1500), max_size=12)


def reference_bits(seed: bytes, n: int) -> str:
    """The first n bits as text, from the standard library's SHAKE256: another implementation, another reading."""
    return "".join(f"{byte:08b}" for byte in hashlib.shake_256(seed).digest(n // 8 + 1))[:n]


def read_as_text(stream: NoiseStream, sizes: list[int]) -> str:
    """Bits that the given sequence of requests returns, as one string."""
    return "".join(f"{stream.bits(n):0{n}b}" for n in sizes if n)


@given(seed=seeds, sizes=widths)
def test_any_sequence_of_requests_reads_the_same_string_of_bits(seed: bytes, sizes: list[int]) -> None:
    """However the bits are asked for, they are those of SHAKE256(seed) in order, each exactly once."""
    assert read_as_text(NoiseStream(seed), sizes) == reference_bits(seed, sum(sizes))


@pytest.mark.parametrize("block_bytes", [1, 3, 136, 1000])
def test_the_block_size_has_no_influence(block_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A faster block size in a later release must redraw the same noise for old answers."""
    sizes = [5, 0, 64, 1, 513, 7, 2048, 3]
    seed = bytes(range(32))
    monkeypatch.setattr(noise_stream, "_BLOCK_BYTES", block_bytes)
    assert read_as_text(NoiseStream(seed), sizes) == reference_bits(seed, sum(sizes))


def test_the_first_bits_are_pinned() -> None:
    """A recorded seed gives the recorded bits in every release."""
    stream = NoiseStream(bytes(32))
    assert f"{stream.bits(64):016x}" == "f5977c8283546a63"
    assert f"{stream.bits(64):016x}" == "723bc31d2619124f"


def test_no_bits_are_zero_and_consume_nothing() -> None:
    """A request for zero bits answers 0 and leaves the stream where it was."""
    stream = NoiseStream(bytes(32))
    assert stream.bits(0) == 0
    assert stream.bits(64) == NoiseStream(bytes(32)).bits(64)


def test_a_negative_number_of_bits_is_refused() -> None:
    """A negative width is a bug of the caller and would otherwise hand out bits again."""
    with pytest.raises(ValueError, match="never negative"):
        NoiseStream(bytes(32)).bits(-1)


@pytest.mark.parametrize("seed", [b"", b"seed", bytes(MIN_SEED_BYTES - 1)])
def test_a_guessable_seed_is_refused(seed: bytes) -> None:
    """Noise whose seed is shorter than a hash could be found by trying seeds."""
    with pytest.raises(ValueError, match="at least 32 bytes"):
        NoiseStream(seed)


def test_different_seeds_give_different_bits() -> None:
    """Two answers never share noise, even if their seeds differ in one bit."""
    assert NoiseStream(bytes(32)).bits(256) != NoiseStream(bytes(31) + b"\x01").bits(256)


def test_printing_a_stream_shows_no_content() -> None:
    """A stream in a log line or a traceback shows neither seed nor bits."""
    stream = NoiseStream(b"\xab" * 32)
    stream.bits(5)
    assert repr(stream) == str(stream) == f"{stream}" == "NoiseStream(<secret>)"


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_stream_cannot_be_pickled_or_copied(duplicate: object) -> None:
    """Two copies would give two answers the same noise, and their difference would be exact."""
    assert callable(duplicate)
    with pytest.raises(TypeError, match="never serialised or copied"):
        duplicate(NoiseStream(bytes(32)))
