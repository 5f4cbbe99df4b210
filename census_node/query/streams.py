"""Samples on their way in: so many streams an agency, so long each, so many parts as the declared places make.

Nobody waits for a stream: a sample has a place in line when its last part is here, and not before. A stream is held until its sample
has had its outcome, which bounds the samples of one agency in memory: all are of one size.

SECURITY: nothing here depends on who is in a sample. An agency is told BUSY because of streams of its own, which end at instants
that it knows: at an outcome's tick, at a deadline, or when it breaks one off.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from broker_common.errors import InvalidRequestError, PeerUnavailableError, RefusedError

# BUSY asks the health node to wait this long; it tries again by itself.
_RETRY_SECONDS = 1


class Incoming:
    """One sample as far as it has come: parts of one size, and the rest in the last one."""

    def __init__(self, size: int, part_size: int) -> None:
        self._bytes = bytearray(size)
        self._part_size = part_size
        self._come = 0

    @property
    def is_whole(self) -> bool:
        return self._come == len(self._bytes)

    def add(self, part: bytes) -> None:
        """Take the next part.

        Raises:
            InvalidRequestError: MALFORMED_MESSAGE, it is not as long as this part is, or there is no further part.
        """
        if len(part) != min(self._part_size, len(self._bytes) - self._come) or not part:
            raise InvalidRequestError("MALFORMED_MESSAGE", problem="a part of the sample has the wrong length")
        self._bytes[self._come : self._come + len(part)] = part
        self._come += len(part)

    def finish(self) -> bytearray:
        """The sample's bytes, still sealed.

        Raises:
            InvalidRequestError: MALFORMED_MESSAGE, some of it has not come.
        """
        if not self.is_whole:
            raise InvalidRequestError("MALFORMED_MESSAGE", problem="the sample ends before its last part")
        return self._bytes


class Streams:
    """The streams of all agencies."""

    def __init__(self, *, most: int, deadline_ms: int) -> None:
        """At most so many of one agency; each has so long for its sample to arrive."""
        self._most = most
        self._deadline_seconds = deadline_ms / 1000
        self._held: Counter[str] = Counter()

    @contextmanager
    def held(self, agency: str) -> Iterator[None]:
        """One stream of an agency: around its sample's arrival, and everything up to its outcome.

        Raises:
            RefusedError: BUSY, the agency has all of its streams.
        """
        if self._held[agency] >= self._most:
            raise RefusedError("BUSY", retry_seconds=_RETRY_SECONDS)
        self._held[agency] += 1
        try:
            yield
        finally:
            self._held[agency] -= 1
            # Nothing is left of an agency without streams.
            self._held += Counter()

    async def received(self, parts: AsyncIterator[bytes], *, size: int, part_size: int) -> bytearray:
        """A sample of `size` bytes, when its last part is here; whatever comes after that is not read.

        Raises:
            InvalidRequestError: MALFORMED_MESSAGE, it has other parts.
            PeerUnavailableError: PEER_UNAVAILABLE, its sender fell silent.
        """
        incoming = Incoming(size, part_size)
        try:
            async with asyncio.timeout(self._deadline_seconds):
                async for part in parts:
                    incoming.add(part)
                    if incoming.is_whole:
                        break
        except TimeoutError as error:
            # No verdict on the sample: it may be sent again.
            raise PeerUnavailableError("PEER_UNAVAILABLE", peer="health") from error
        return incoming.finish()
