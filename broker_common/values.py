"""The small values everything else is written in: identifiers, counts that carry trust, and time.

Invariants. `ExactCount` has no wire encoder and prints as a placeholder; only a mechanism in `broker_common.privacy`
turns it into a `NoisyCount`. Times are integer milliseconds since 1970 in UTC. A clock is a parameter, never a call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, Protocol

__all__ = ["HASH_BYTES", "PSEUDONYM_BYTES", "QUERY_ID_BYTES", "Clock", "ExactCount", "NoisyCount", "Randomness"]

PSEUDONYM_BYTES = 16
QUERY_ID_BYTES = 16
HASH_BYTES = 32


class Clock(Protocol):
    """Wall-clock time in milliseconds since 1970, UTC. It may jump; whoever needs order keeps a floor."""

    def __call__(self) -> int: ...


class Randomness(Protocol):
    """`randomness(n)` gives n bytes that nobody can predict (`os.urandom` in production)."""

    def __call__(self, size: int, /) -> bytes: ...


class ExactCount:
    """A true count: exists in the census node's memory only, prints as a placeholder, cannot be serialised."""

    __slots__ = ("_value",)

    def __init__(self, value: int) -> None:
        if value < 0:
            raise ValueError("a count is never negative")
        self._value = value

    def reveal_to_mechanism(self) -> int:
        """SECURITY: for `broker_common.privacy` alone; every other reader is a leak."""
        return self._value

    def __repr__(self) -> str:
        return "ExactCount(<secret>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an exact count is never serialised")


@dataclass(frozen=True, slots=True)
class NoisyCount:
    """What a mechanism made of an exact count: safe to release once its charge is durable."""

    value: int
