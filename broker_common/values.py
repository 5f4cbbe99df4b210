"""The small values everything else is written in: identifiers, counts that carry trust, and time.

Invariants. `ExactCounts` has no wire encoder and prints as a placeholder; only a mechanism in `broker_common.privacy`
turns it into `NoisyCounts`. Times are integer milliseconds since 1970 in UTC. A clock is a parameter, never a call.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NoReturn, Protocol, TypeAlias

PSEUDONYM_BYTES = 16
QUERY_ID_BYTES = 16
HASH_BYTES = 32
# The most cells of one question, and so of its answer.
MOST_CELLS = 16

Linkage: TypeAlias = Literal["complementary", "household", "nominative"]
"""By what the two agencies' records are linked: a card at both sides, an address, or names in a register of the census agency's own."""


class Clock(Protocol):
    """Wall-clock time in milliseconds since 1970, UTC. It may jump; code that needs order keeps a floor."""

    def __call__(self) -> int: ...


class Randomness(Protocol):
    """`randomness(n)` gives n bytes that nobody can predict (`os.urandom` in production)."""

    def __call__(self, size: int, /) -> bytes: ...


class ExactCounts:
    """True counts, one for each cell of a question: in the census node's memory only, printed as a placeholder, never serialised."""

    __slots__ = ("_values",)

    def __init__(self, values: Iterable[int]) -> None:
        self._values = _one_for_each_cell(values)
        if min(self._values) < 0:
            raise ValueError("a count is never negative")

    def reveal_to_mechanism(self) -> tuple[int, ...]:
        """SECURITY: for `broker_common.privacy` alone; every other reader is a leak."""
        return self._values

    def __repr__(self) -> str:
        return "ExactCounts(<secret>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an exact count is never serialised")


@dataclass(frozen=True, slots=True)
class NoisyCounts:
    """A mechanism's output for exact counts, in the same order: safe to release once its charge is durable."""

    values: tuple[int, ...]

    def __post_init__(self) -> None:
        _one_for_each_cell(self.values)

    @property
    def padded(self) -> tuple[int, ...]:
        """The same numbers, and zeros up to the most that an answer has: the number of bytes does not tell the number of cells."""
        return self.values + (0,) * (MOST_CELLS - len(self.values))


def _one_for_each_cell(values: Iterable[int]) -> tuple[int, ...]:
    counts = tuple(values)
    if not 1 <= len(counts) <= MOST_CELLS:
        raise ValueError(f"an answer has 1 to {MOST_CELLS} cells")
    return counts


def base64_text(data: bytes) -> str:
    """The one spelling of `data`."""
    return base64.b64encode(data).decode("ascii")


def parse_base64(text: str) -> bytes:
    """The bytes that `text` spells; ValueError, which never quotes it, for any other spelling."""
    # The library lets bits pass that no encoder sets: one key or signature would have several texts.
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise ValueError("base64 is malformed") from error
    if base64_text(data) != text:
        raise ValueError("base64 is not canonical")
    return data
