"""How often one researcher may ask for quotes: a token bucket for each, which nobody else's calls touch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from broker_common.errors import RefusedError

# Rates are set by the minute.
_MINUTE_SECONDS = 60.0


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class QuoteRate:
    """The buckets of every researcher who has asked since the start. For one event loop."""

    def __init__(self, per_minute: int, burst: int, seconds: Callable[[], float]) -> None:
        """`seconds` is a clock that nobody can set."""
        self._per_second = per_minute / _MINUTE_SECONDS
        self._burst = burst
        self._seconds = seconds
        # As many as there are registered researchers, at most.
        self._buckets: dict[str, _Bucket] = {}

    def take(self, researcher: str) -> None:
        """Count one quote of a researcher.

        Raises:
            RefusedError: TOO_MANY_QUOTES, with the seconds until there is another one; this call is not counted.
        """
        now = self._seconds()
        bucket = self._buckets.setdefault(researcher, _Bucket(self._burst, now))
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.filled_at) * self._per_second)
        bucket.filled_at = now
        if bucket.tokens < 1:
            raise RefusedError("TOO_MANY_QUOTES", retry_seconds=math.ceil((1 - bucket.tokens) / self._per_second))
        bucket.tokens -= 1
