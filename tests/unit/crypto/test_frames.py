"""Frames: what was sealed comes through whole, in its order and untouched, or is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from fakes.randomness import SeededRandomness

from broker_common.crypto.frames import (
    FRAME_BYTES,
    FRAME_KEY_BYTES,
    TAG_BYTES,
    FrameReader,
    FrameSealer,
    verify_ascending,
)
from broker_common.errors import InvalidRequestError

Sealed: TypeAlias = tuple[int, bool, bytes]


def plaintext(index: int) -> bytes:
    """One frame's, unlike any other's."""
    return np.full(FRAME_BYTES, index + 1, np.uint8).tobytes()


def sealed(count: int, seed: str = "frames") -> tuple[bytes, list[Sealed]]:
    """Frame key and sealed frames."""
    sealer = FrameSealer(SeededRandomness(seed))
    flags = [(index, index == count - 1) for index in range(count)]
    return sealer.frame_key, [(index, last, sealer.seal_frame(index, last, plaintext(index))) for index, last in flags]


def opened(key: bytes, frames: Sequence[Sealed]) -> list[bytes]:
    """Every plaintext, if the last frame was among them."""
    reader = FrameReader(key)
    texts = [reader.unseal(*frame).tobytes() for frame in frames]
    reader.verify_ended()
    return texts


def refusal(key: bytes, frames: Sequence[Sealed]) -> tuple[str, str]:
    """Code and problem with which frames are refused."""
    with pytest.raises(InvalidRequestError) as caught:
        opened(key, frames)
    return caught.value.code, caught.value.details.get("problem", "")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_frames_come_through(count: int) -> None:
    """The same bytes in the same order; every ciphertext has one length."""
    key, frames = sealed(count)
    assert opened(key, frames) == [plaintext(index) for index in range(count)]
    assert {len(text) for *_, text in frames} == {FRAME_BYTES + TAG_BYTES}


def test_a_frame_is_opened_into_memory_of_the_readers() -> None:
    """Without a copy: what is handed out is what was handed in."""
    key, [frame] = sealed(1)
    into = np.zeros(FRAME_BYTES, np.uint8)
    assert FrameReader(key).unseal(*frame, into) is into
    assert into.tobytes() == plaintext(0)


def test_two_sealers_share_no_key() -> None:
    """A fixed nonce per position is sound only because each draws a key of its own."""
    randomness = SeededRandomness()
    assert FrameSealer(randomness).frame_key != FrameSealer(randomness).frame_key


Attack: TypeAlias = Callable[[list[Sealed]], list[Sealed]]
# Each on three frames.
TAMPERINGS: dict[str, tuple[Attack, str, str]] = {
    "swapped frames": (lambda f: [f[0], f[2], f[1]], "BAD_FRAMES", "out of order"),
    "first frame missing": (lambda f: f[1:], "BAD_FRAMES", "out of order"),
    "middle frame missing": (lambda f: [f[0], f[2]], "BAD_FRAMES", "out of order"),
    "frame twice": (lambda f: [f[0], f[1], f[1], f[2]], "BAD_FRAMES", "out of order"),
    "frame after the last": (lambda f: [*f, (3, True, f[2][2])], "BAD_FRAMES", "after the last"),
    "last frame withheld": (lambda f: f[:2], "BAD_FRAMES", "last frame is missing"),
    "nothing at all": (lambda f: f[:0], "BAD_FRAMES", "last frame is missing"),
    "flag moved to an earlier frame": (lambda f: [f[0], (1, True, f[1][2])], "SEALED_WRONGLY", ""),
    "flag taken from the last": (lambda f: [f[0], f[1], (2, False, f[2][2])], "SEALED_WRONGLY", ""),
    "renumbered frames": (lambda f: [f[0], (1, False, f[2][2]), (2, True, f[1][2])], "SEALED_WRONGLY", ""),
    "negative index": (lambda f: [(-1, False, f[0][2])], "BAD_FRAMES", "out of order"),
    "giant index": (lambda f: [f[0], (2**32, False, f[1][2])], "BAD_FRAMES", "out of order"),
    "frame cut": (lambda f: [(0, False, f[0][2][:-1])], "BAD_FRAMES", "wrong length"),
    "frame extended": (lambda f: [(0, False, f[0][2] + b"\0")], "BAD_FRAMES", "wrong length"),
    "empty frame": (lambda f: [(0, False, f[0][2][:0])], "BAD_FRAMES", "wrong length"),
    "zeros for a frame": (lambda f: [f[0], (1, False, bytes(len(f[1][2])))], "SEALED_WRONGLY", ""),
}


@pytest.mark.parametrize(("attack", "code", "problem"), TAMPERINGS.values(), ids=list(TAMPERINGS))
def test_a_tampered_sequence_of_frames_is_refused(attack: Attack, code: str, problem: str) -> None:
    """Nobody between the nodes can reorder, repeat, drop or cut what was sealed."""
    key, frames = sealed(3)
    found_code, found_problem = refusal(key, attack(frames))
    assert found_code == code
    assert problem in found_problem


@pytest.mark.parametrize("place", [0, 1, FRAME_BYTES // 2, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + TAG_BYTES - 1])
def test_a_flipped_bit_is_refused(place: int) -> None:
    """Ciphertext and tag are covered from the first byte to the last."""
    key, [(index, last, ciphertext)] = sealed(1)
    altered = bytearray(ciphertext)
    altered[place] ^= 1
    assert refusal(key, [(index, last, bytes(altered))]) == ("SEALED_WRONGLY", "")


def test_frames_of_another_key_are_refused() -> None:
    """They cannot be mixed in."""
    key, _ = sealed(1)
    assert refusal(key, sealed(1, "another")[1])[0] == "SEALED_WRONGLY"


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_a_frame_key_of_another_length_is_refused(size: int) -> None:
    """A shorter AES key would be accepted by the cipher; the protocol has one length."""
    with pytest.raises(InvalidRequestError) as caught:
        FrameReader(bytes(size))
    assert caught.value.details["problem"] == "the frame key has the wrong length"
    assert FRAME_KEY_BYTES == 32


def test_the_nonce_is_position_and_flag() -> None:
    """The fixed nonces are those of the description, so that another implementation can open frames."""
    key, frames = sealed(2)
    for index, last, ciphertext in frames:
        nonce = bytes(7) + index.to_bytes(4, "big") + bytes([last])
        assert AESGCM(key).decrypt(nonce, ciphertext, None) == plaintext(index)


ORDERS: dict[str, tuple[list[bytes], bytes, bool]] = {
    "nobody": ([], b"\xff" * 16, True),
    "one": ([b"b" * 16], b"", True),
    "above the one before": ([b"b" * 16], b"a" * 16, True),
    "ascending in the second half alone": ([b"a" * 15 + b"a", b"a" * 15 + b"b"], b"", True),
    "the one before again": ([b"a" * 16, b"b" * 16], b"a" * 16, False),
    "below the one before": ([b"a" * 16, b"b" * 16], b"c" * 16, False),
    "somebody twice": ([b"a" * 16, b"b" * 16, b"b" * 16], b"", False),
    "descending": ([b"b" * 16, b"a" * 16], b"", False),
    "descending in the second half alone": ([b"a" * 15 + b"b", b"a" * 15 + b"a"], b"", False),
}


@pytest.mark.parametrize(("people", "previous", "is_ascending"), ORDERS.values(), ids=list(ORDERS))
def test_only_people_who_ascend_strictly_are_taken(people: list[bytes], previous: bytes, is_ascending: bool) -> None:
    """Within what is looked at, and from the one before on; what comes next is compared with the last one."""
    rows = np.frombuffer(b"".join(people), np.uint8).reshape(-1, 16)
    if is_ascending:
        assert verify_ascending(rows, previous) == (people[-1] if people else previous)
    else:
        with pytest.raises(InvalidRequestError, match="not strictly ascending"):
            verify_ascending(rows, previous)
