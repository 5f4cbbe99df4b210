"""A small seeded mutator: the same seed makes the same inputs, so that `make check` tries the same ones every time.

It knows no coverage. What coverage finds is saved by `make fuzz` and replayed from the corpus.
"""

from __future__ import annotations

import random  # noqa: TID251 - a seeded script of mutations, no secret
from collections.abc import Callable, Iterator, Sequence

_MOST_STEPS = 4
_MOST_COPIES = 40
# Ends of ranges, and bytes that mean something in text, in lengths and in UTF-8.
_BYTES = b"\x00\x01\x7f\x80\xff\xc3\xed\xf4\"'\\(){}[]<>=,;:-+.eE_0189 \n\r\t%?/"


def mutations(seed: str, inputs: Sequence[bytes], words: Sequence[bytes], count: int, most: int) -> Iterator[bytes]:
    """`count` inputs of at most `most` bytes, each made of one of `inputs` by a few changes."""
    chance = random.Random(seed)
    for _ in range(count):
        data = bytearray(chance.choice(inputs))
        for _ in range(chance.randint(1, _MOST_STEPS)):
            chance.choice(_STEPS)(data, chance, inputs, words)
        yield bytes(data[:most])


def _at(data: bytearray, chance: random.Random) -> int:
    return chance.randint(0, len(data))


def _span(data: bytearray, chance: random.Random) -> slice:
    start = _at(data, chance)
    return slice(start, min(len(data), start + chance.choice((1, 2, 4, 16, 64, 1024))))


_Step = Callable[[bytearray, random.Random, Sequence[bytes], Sequence[bytes]], None]


def _flip(data: bytearray, chance: random.Random, _inputs: Sequence[bytes], _words: Sequence[bytes]) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _set(data: bytearray, chance: random.Random, _inputs: Sequence[bytes], _words: Sequence[bytes]) -> None:
    if data:
        data[chance.randrange(len(data))] = chance.choice(_BYTES)


def _insert(data: bytearray, chance: random.Random, _inputs: Sequence[bytes], words: Sequence[bytes]) -> None:
    at = _at(data, chance)
    data[at:at] = chance.choice(words) if words and chance.random() < 0.7 else chance.randbytes(chance.randint(1, 4))


def _delete(data: bytearray, chance: random.Random, _inputs: Sequence[bytes], _words: Sequence[bytes]) -> None:
    del data[_span(data, chance)]


def _repeat(data: bytearray, chance: random.Random, _inputs: Sequence[bytes], _words: Sequence[bytes]) -> None:
    span = _span(data, chance)
    data[span.stop : span.stop] = data[span] * chance.randint(1, _MOST_COPIES)


def _swap(data: bytearray, chance: random.Random, _inputs: Sequence[bytes], _words: Sequence[bytes]) -> None:
    piece = bytes(data[span := _span(data, chance)])
    del data[span]
    at = _at(data, chance)
    data[at:at] = piece


def _splice(data: bytearray, chance: random.Random, inputs: Sequence[bytes], _words: Sequence[bytes]) -> None:
    other = bytearray(chance.choice(inputs))
    data[_at(data, chance) :] = other[_at(other, chance) :]


def _truncate(data: bytearray, chance: random.Random, _inputs: Sequence[bytes], _words: Sequence[bytes]) -> None:
    del data[_at(data, chance) :]


_STEPS: Sequence[_Step] = (_flip, _set, _set, _insert, _insert, _delete, _repeat, _swap, _splice, _truncate)
