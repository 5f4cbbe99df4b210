"""Canaries and the search for them: marked values that cannot occur by chance, sought in every byte that a party holds.

An `Exhibit` is something that somebody holds or was told: where it lies (`Place`), its bytes, and, where its format says
that numbers stand in it, those numbers. A `Canary` is one secret in all its forms:

- bytes: as they are and back to front, in hexadecimal (either case), in base64 (both alphabets, at all three alignments);
  16-byte pseudonyms also as their two halves, for stores that keep them as pairs of numbers;
- texts: their UTF-8;
- numbers: written out (also with separators of thousands) wherever they stand alone between delimiters, and as a number
  in whatever has typed numbers: SQLite columns, protobuf fields, columns of people.

False alarms. Bytes and texts are sought only from eight bytes on: among n needles and m random bytes searched, chance
finds one with probability below n m 2^-64, that is 5e-6 for 10^6 needles and 10^8 bytes, and it would have to meet the
whole needle, not only its first eight bytes: below 1e-20. A number of five digits is two or three bytes in binary
(varint, fixed32, fixed64: the rest is zeros, which files are full of); in 10^8 random bytes it stands hundreds of times,
so in binary it is sought only where a number is known to stand. Written out between two delimiters it takes seven bytes,
two of them among 25 of 256: below 10^8 * 256^-5 * (25/256)^2 = 1e-6 for each number and its separators together.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_HEAD_BYTES = 8
_KEY_BYTES = 3
_HASH_BITS = 24
_CHUNK_BYTES = 1 << 22
_DELIMITERS = b" \t\r\n\"'`:;,()[]{}<>|=*#~"


class Place(NamedTuple):
    """Where something lies: whose it is, and which part of what they hold (a part of a home, or what a peer said)."""

    party: str
    part: str

    def __str__(self) -> str:
        return f"{self.party}: {self.part}"


@dataclass(frozen=True, slots=True)
class Exhibit:
    """Bytes that a party holds, and the numbers that stand in them as numbers."""

    place: Place
    name: str
    data: bytes
    numbers: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Canary:
    """One secret, in every form in which it is sought."""

    name: str
    needles: Collection[bytes] = ()
    numbers: Collection[int] = ()


class Finding(NamedTuple):
    """A canary, and where it was found."""

    canary: str
    place: Place
    exhibit: str


# --- forms -------------------------------------------------------------------------------------------------------------


def forms(raw: bytes) -> set[bytes]:
    """A byte string as it is and back to front; each also in hexadecimal and in base64."""
    return {form for each in (raw, raw[::-1]) for form in (each, *_texts(each))}


def pseudonym_forms(raw: bytes) -> set[bytes]:
    """Besides its forms as a byte string, the two halves of a pseudonym in both byte orders."""
    halves = raw[:8], raw[8:]
    return forms(raw) | {order for half in halves for order in (half, half[::-1])}


def _texts(raw: bytes) -> Iterator[bytes]:
    yield raw.hex().encode()
    yield raw.hex().upper().encode()
    for alignment in range(3):
        # The first and last characters of a value in the middle of a longer encoding depend on the neighbours.
        text = base64.b64encode(bytes(alignment) + raw).rstrip(b"=")
        whole = 8 * (alignment + len(raw)) // 6
        middle = text[-(-8 * alignment // 6) : whole]
        yield middle
        yield middle.translate(bytes.maketrans(b"+/", b"-_"))


def number_texts(number: int) -> set[bytes]:
    """A number written out, with and without separators of thousands."""
    separators = ("", ",", ".", " ", "'", "_", "\N{NO-BREAK SPACE}", "\N{NARROW NO-BREAK SPACE}")
    return {f"{number:,}".replace(",", separator).encode() for separator in separators}


# --- search ------------------------------------------------------------------------------------------------------------


class Searcher:
    """Looks for all canaries at once; a pass over the bytes costs the same however many there are."""

    def __init__(self, canaries: Iterable[Canary]) -> None:
        self._names: dict[bytes, str] = {}
        self._numbers: dict[int, str] = {}
        written: dict[bytes, str] = {}
        for canary in canaries:
            for needle in canary.needles:
                assert len(needle) >= _HEAD_BYTES, f"{canary.name}: {len(needle)} bytes may occur by chance"
                assert self._names.setdefault(needle, canary.name) == canary.name, f"{canary.name} is another's, too"
            for number in canary.numbers:
                assert self._numbers.setdefault(number, canary.name) == canary.name, f"{number} is another's, too"
                written |= dict.fromkeys(number_texts(number), canary.name)
        self._needles = _Prefixes(self._names, _HEAD_BYTES)
        self._written = _Prefixes(written, _KEY_BYTES)
        self._names |= written

    def search(self, exhibits: Iterable[Exhibit]) -> set[Finding]:
        """Every canary in every exhibit."""
        return {
            Finding(canary, exhibit.place, exhibit.name) for exhibit in exhibits for canary in self._found_in(exhibit)
        }

    def _found_in(self, exhibit: Exhibit) -> set[str]:
        data = exhibit.data
        found = {self._numbers[number] for number in exhibit.numbers & self._numbers.keys()}
        # The zeros let windows begin at every byte; what is found is compared with the data itself.
        padded = np.frombuffer(data + bytes(_HEAD_BYTES - 1), dtype=np.uint8)
        for start in range(0, len(data), _CHUNK_BYTES):
            # Whatever begins in this piece is found in it, wherever it ends.
            windows = padded[start : start + _CHUNK_BYTES + _HEAD_BYTES - 1]
            keys = _keys(windows, min(_CHUNK_BYTES, len(data) - start))
            found |= {self._names[needle] for _, needle in self._needles.matches(data, windows, keys, start)}
            found |= {
                self._names[text]
                for at, text in self._written.matches(data, windows, keys, start)
                if _is_delimited(data, at, at + len(text))
            }
        return found


class _Prefixes:
    """Strings by their first bytes: a table of all first three bytes, one of hashes of the first `head_bytes`, then a search."""

    def __init__(self, strings: Iterable[bytes], head_bytes: int) -> None:
        self._head_bytes = head_bytes
        self._by_head: dict[int, list[bytes]] = {}
        for string in strings:
            self._by_head.setdefault(int.from_bytes(string[:head_bytes], "little"), []).append(string)
        self._heads = np.sort(np.fromiter(self._by_head, np.uint64, len(self._by_head)))
        self._table = np.zeros(1 << 8 * _KEY_BYTES, dtype=np.bool_)
        self._table[(self._heads & np.uint64(len(self._table) - 1)).astype(np.intp)] = True
        self._hashed = np.zeros(1 << _HASH_BITS, dtype=np.bool_)
        self._hashed[_hashes(self._heads)] = True

    def matches(
        self, data: bytes, windows: npt.NDArray[np.uint8], keys: npt.NDArray[np.uint32], start: int
    ) -> Iterator[tuple[int, bytes]]:
        """(place, string) of every string that begins in this piece of the data."""
        candidates = np.flatnonzero(self._table[keys])
        if not len(self._heads) or not len(candidates):
            return
        overlapping = np.ndarray(len(keys), "<u8", windows, strides=(1,))
        numbers = overlapping[candidates] & np.uint64((1 << 8 * self._head_bytes) - 1)
        is_likely = self._hashed[_hashes(numbers)]
        candidates, numbers = candidates[is_likely], numbers[is_likely]
        nearest = self._heads[np.minimum(np.searchsorted(self._heads, numbers), len(self._heads) - 1)]
        is_head = nearest == numbers
        for candidate, head in zip(candidates[is_head].tolist(), numbers[is_head].tolist(), strict=True):
            for string in self._by_head[head]:
                if data.startswith(string, start + candidate):
                    yield start + candidate, string


def _hashes(heads: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Multiplicative hashing, by the golden ratio."""
    return (heads * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - _HASH_BITS)


def _keys(windows: npt.NDArray[np.uint8], count: int) -> npt.NDArray[np.uint32]:
    """The three bytes that begin at each of the first `count` places, as one number."""
    keys = windows[:count].astype(np.uint32)
    for place in range(1, _KEY_BYTES):
        keys |= windows[place : place + count].astype(np.uint32) << np.uint32(8 * place)
    return keys


def _is_delimited(data: bytes, start: int, end: int) -> bool:
    """True when what stands there stands alone; a full stop counts at the end of a sentence."""
    after = data[end : end + 1]
    if after == b".":
        after = data[end + 1 : end + 2]
        return _is_delimiter(data[max(0, start - 1) : start]) and (not after or after.isspace())
    return _is_delimiter(data[max(0, start - 1) : start]) and _is_delimiter(after)


def _is_delimiter(byte: bytes) -> bool:
    return not byte or byte in _DELIMITERS
