"""Frames: a sample comes through whole, ascending and untouched, or is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from fakes.randomness import SeededRandomness
from fakes.samples import frame_plaintexts, gathered

from broker_common.crypto.commitments import hash_set
from broker_common.crypto.frames import (
    FRAME_BYTES,
    FRAME_KEY_BYTES,
    TAG_BYTES,
    FrameOpener,
    FrameSealer,
    SampleFrames,
)
from broker_common.crypto.pseudonyms import Pseudonyms
from broker_common.errors import InvalidRequestError

People: TypeAlias = npt.NDArray[np.uint8]
Sealed: TypeAlias = tuple[int, bool, bytes]

SALT = bytes(range(100, 132))
HEADER_BYTES = 64
IN_FIRST = (FRAME_BYTES - HEADER_BYTES) // 16
IN_NEXT = FRAME_BYTES // 16
SIZES = [0, 1, 2, IN_FIRST - 1, IN_FIRST, IN_FIRST + 1, IN_FIRST + IN_NEXT, IN_FIRST + IN_NEXT + 1, 3 * IN_NEXT]


def people(n: int) -> People:
    """Ascending pseudonyms, n of them, which use both halves, many with equal high halves."""
    numbers = np.arange(n, dtype=np.uint64) * np.uint64(2**61 + 7)
    halves = np.stack([np.arange(n, dtype=np.uint64) // np.uint64(5) * np.uint64(2**40 + 1), numbers], axis=1)
    rows: People = halves.astype(">u8").view(np.uint8).reshape(-1, 16)
    return rows[np.lexsort(rows.T[::-1])] if n else rows


def seal(plaintexts: Sequence[tuple[int, bool, bytes]]) -> tuple[bytes, list[Sealed]]:
    """Frame key and sealed frames of the given plaintexts."""
    sealer = FrameSealer(SeededRandomness())
    return sealer.frame_key, [(index, last, sealer.seal_frame(index, last, text)) for index, last, text in plaintexts]


def laid_out(sample: Pseudonyms) -> list[tuple[int, bool, bytes]]:
    """All frames of a sample; each is copied before the next takes its place."""
    return [(index, last, bytes(text)) for index, last, text in SampleFrames(sample, SALT)]


def sealed_sample(n: int) -> tuple[bytes, list[Sealed]]:
    """Frame key and sealed frames of a sound sample."""
    return seal(laid_out(gathered(people(n))))


def plaintext(content: People, *, declared: int, size: int = FRAME_BYTES, **patches: bytes) -> bytes:
    """A first frame's plaintext, written by hand from the format's description."""
    magic, reserved = patches.get("magic", b"tripSMP1"), patches.get("reserved", bytes(16))
    text = magic + declared.to_bytes(8, "big") + SALT + reserved + content.tobytes()
    return text.ljust(size, b"\0")


def open_all(key: bytes, frames: Sequence[Sealed], max_people: int = 10**6) -> tuple[FrameOpener, People]:
    """Open all frames and finish."""
    opener = FrameOpener(key, max_people=max_people)
    parts = [opener.open_frame(*frame) for frame in frames]
    opener.finish()
    return opener, np.concatenate(parts)


def refusal(key: bytes, frames: Sequence[Sealed], max_people: int = 10**6) -> tuple[str, str]:
    """Code and problem with which the sample is refused."""
    with pytest.raises(InvalidRequestError) as caught:
        open_all(key, frames, max_people)
    return caught.value.code, caught.value.details.get("problem", "")


def test_the_layout_is_the_documented_one() -> None:
    """Another implementation, written from the module's description, produces the same bytes."""
    rows = people(3)
    (frame,) = laid_out(gathered(rows))
    assert frame == (0, True, plaintext(rows, declared=3))


@pytest.mark.parametrize("n", SIZES)
def test_a_sample_comes_through(n: int) -> None:
    """None, one, exactly one frame full, one more, and several frames: the same people, in the same order."""
    rows = people(n)
    key, frames = sealed_sample(n)
    opener, opened = open_all(key, frames)
    assert np.array_equal(opened, rows)
    assert opener.salt == SALT
    assert opener.set_hash == hash_set(rows.tobytes())
    assert len(frames) == max(1, -(-(HEADER_BYTES + 16 * n) // FRAME_BYTES))


@pytest.mark.parametrize("n", SIZES)
def test_every_frame_has_one_length(n: int) -> None:
    """An observer learns the number of frames and nothing finer; exactly the final one is marked last."""
    texts = laid_out(gathered(people(n)))
    assert {len(text) for _, _, text in texts} == {FRAME_BYTES}
    assert [index for index, _, _ in texts] == list(range(len(texts)))
    assert [last for _, last, _ in texts] == [False] * (len(texts) - 1) + [True]
    assert {len(frame[2]) for frame in sealed_sample(n)[1]} == {FRAME_BYTES + TAG_BYTES}


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("step", [1, 3])
def test_frames_are_those_of_the_slow_reference(n: int, step: int) -> None:
    """Byte for byte, and without a trace of the frame before: everybody, or some rows of a larger table."""
    table = people(n * step)
    sample = Pseudonyms(table, np.arange(0, len(table), step))
    frames = SampleFrames(sample, SALT)
    assert [(index, last, bytes(text)) for index, last, text in frames] == list(frame_plaintexts(table[::step], SALT))
    assert sample.set_hash() == hash_set(table[::step].tobytes())


def test_two_attempts_share_no_key() -> None:
    """A fixed nonce per position is sound only because each attempt draws a key of its own."""
    randomness = SeededRandomness()
    assert FrameSealer(randomness).frame_key != FrameSealer(randomness).frame_key


Attack: TypeAlias = Callable[[list[Sealed]], list[Sealed]]
# Each on a sample of three frames.
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
    key, frames = sealed_sample(2 * IN_NEXT + 5)
    assert len(frames) == 3
    found_code, found_problem = refusal(key, attack(frames))
    assert found_code == code
    assert problem in found_problem


@pytest.mark.parametrize("place", [0, 1, FRAME_BYTES // 2, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + TAG_BYTES - 1])
def test_a_flipped_bit_is_refused(place: int) -> None:
    """Ciphertext and tag are covered from the first byte to the last."""
    key, [(index, last, ciphertext)] = sealed_sample(5)
    altered = bytearray(ciphertext)
    altered[place] ^= 1
    assert refusal(key, [(index, last, bytes(altered))]) == ("SEALED_WRONGLY", "")


def test_frames_of_another_attempt_are_refused() -> None:
    """Frames sealed under another key cannot be mixed in."""
    randomness = SeededRandomness("another")
    other = FrameSealer(randomness)
    key, _ = sealed_sample(1)
    ((index, last, text),) = laid_out(gathered(people(1)))
    assert refusal(key, [(index, last, other.seal_frame(index, last, text))])[0] == "SEALED_WRONGLY"


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_a_frame_key_of_another_length_is_refused(size: int) -> None:
    """A shorter AES key would be accepted by the cipher; the protocol has one length."""
    with pytest.raises(InvalidRequestError) as caught:
        FrameOpener(bytes(size), max_people=1)
    assert caught.value.details["problem"] == "the frame key has the wrong length"
    assert FRAME_KEY_BYTES == 32


ROWS = people(4)
SAME_HIGH = np.array([[0] * 15 + [7], [0] * 15 + [3]], np.uint8)
DISHONEST: dict[str, tuple[list[bytes], str]] = {
    "somebody twice": ([plaintext(ROWS[[0, 1, 1, 2]], declared=4)], "ascending"),
    "descending": ([plaintext(ROWS[::-1], declared=4)], "ascending"),
    "descending in the second half only": ([plaintext(SAME_HIGH, declared=2)], "ascending"),
    "more people than declared": ([plaintext(ROWS, declared=3)], "padding is not zero"),
    "fewer people than declared": ([plaintext(ROWS, declared=IN_FIRST + 1)], "ascending"),
    "the last person missing": ([plaintext(people(IN_FIRST), declared=IN_FIRST + 1)], "fewer people"),
    "padding not zero": ([plaintext(ROWS, declared=4)[:-1] + b"\1"], "padding is not zero"),
    "padding not zero right after the people": (
        [plaintext(np.concatenate([ROWS, np.full((1, 16), 255, np.uint8)]), declared=4)],
        "padding is not zero",
    ),
    "reserved header bytes used": ([plaintext(ROWS, declared=4, reserved=bytes(15) + b"\1")], "header"),
    "another magic": ([plaintext(ROWS, declared=4, magic=b"tripSMP2")], "header"),
    "a second frame of padding": (
        [plaintext(ROWS, declared=4), bytes(FRAME_BYTES)],
        "goes on after its end",
    ),
    "an empty sample in two frames": ([plaintext(ROWS[:0], declared=0), bytes(FRAME_BYTES)], "goes on after its end"),
    "declared 2^64 - 1": ([plaintext(ROWS, declared=2**64 - 1)], "more people are declared"),
}


@pytest.mark.parametrize(("texts", "problem"), DISHONEST.values(), ids=list(DISHONEST))
def test_a_dishonest_sample_is_refused(texts: list[bytes], problem: str) -> None:
    """A health node that seals nonsense properly is refused as a whole, with the reason."""
    key, frames = seal([(index, index == len(texts) - 1, text) for index, text in enumerate(texts)])
    code, found = refusal(key, frames)
    assert code == "BAD_FRAMES"
    assert problem in found


@pytest.mark.parametrize("first_of_second", [IN_FIRST - 1, IN_FIRST - 2, 0])
def test_somebody_in_two_frames_is_refused(first_of_second: int) -> None:
    """Ascending is checked across the border of two frames, for a repetition and for a step back."""
    rows = people(IN_FIRST + 1)
    first = plaintext(rows[:IN_FIRST], declared=IN_FIRST + 1)
    second = rows[[first_of_second]].tobytes().ljust(FRAME_BYTES, b"\0")
    key, frames = seal([(0, False, first), (1, True, second)])
    assert refusal(key, frames) == ("BAD_FRAMES", "pseudonyms are not strictly ascending")


def test_the_limit_of_people_is_exact() -> None:
    """As many as the policy admits pass; one more is refused by its header, before anybody is read."""
    key, frames = sealed_sample(5)
    assert len(open_all(key, frames, max_people=5)[1]) == 5
    assert refusal(key, frames, max_people=4) == (
        "BAD_FRAMES",
        "more people are declared than the policy admits",
    )


def test_the_nonce_is_position_and_flag() -> None:
    """The fixed nonces are those of the description, so that another implementation can open frames."""
    key, [(_, _, ciphertext)] = sealed_sample(2)
    nonce = bytes(7) + bytes(4) + b"\1"
    assert AESGCM(key).decrypt(nonce, ciphertext, None) == plaintext(people(2), declared=2)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_salt_of_another_length_is_refused(size: int) -> None:
    """Our own bug, caught before anything is sealed."""
    with pytest.raises(ValueError, match="a salt has 32 bytes"):
        SampleFrames(gathered(people(1)), bytes(size))
