"""Receiving one sample: frames are read, opened and linked at once, each stage in a thread of its own.

    requests -> read -> opened -> linked
                 however many have come meanwhile are handed on together: a slow stage takes larger batches, not more threads

SECURITY: nobody waits for linking before the sample is whole. Reading goes on however far linking is, a sample is refused
or admitted without it, and what was linked of one that is refused is forgotten with it: so when a sample had come, which the
instants of its outcome follow from, is not a question of how long linking took. Nothing of this is done in the event loop,
which everybody waits for, and linking has threads of its own: those that everything else is done in are never all at it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Executor
from contextvars import copy_context
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from tripartite.v1 import census_service_pb2, sample_pb2

from broker_common.errors import InvalidRequestError
from census_node.admission import Admission, AdmittedSample
from census_node.linking import LinkedSample, Linking

__all__ = ["Reception"]

# Frames that may wait to be opened before no more are read: 8 MiB.
_MOST_WAITING = 32
PieceT = TypeVar("PieceT")
# Pseudonyms, and the place of the first of them in the sample.
_Piece: TypeAlias = tuple[int, npt.NDArray[np.uint8]]


class _Stage(Generic[PieceT]):
    """One after the other, in batches of what has come meanwhile."""

    def __init__(self, work: Callable[[Sequence[PieceT]], Awaitable[None]]) -> None:
        # Set with what went wrong first.
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._work = work
        self._waiting: list[PieceT] = []
        self._working: asyncio.Task[None] | None = None

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= _MOST_WAITING

    def put(self, piece: PieceT) -> None:
        """Hand on a piece; raises what went wrong with one before it."""
        self._waiting.append(piece)
        if self._working is not None and self._working.done():
            self._working.result()
            self._working = None
        if self._working is None:
            self._working = asyncio.create_task(self._work_off())

    async def end(self) -> None:
        """Return when everything is done; raises what went wrong."""
        if self._working is not None:
            # Whoever gives up waiting does not end it: a thread is at it, and `stop` has to know.
            await asyncio.shield(self._working)
        if self._waiting:
            self._working = asyncio.create_task(self._work_off())
            await asyncio.shield(self._working)

    async def stop(self) -> None:
        """Return when nothing is being done any more, however it went: threads hold the sample's memory."""
        self._waiting.clear()
        if self._working is not None:
            await asyncio.wait({self._working})
            if not self._working.cancelled():
                # Marks an error as seen: whoever received the sample has it, or another one.
                self._working.exception()

    async def _work_off(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                await self._work(batch)
            except Exception as error:
                if not self.failed.done():
                    self.failed.set_exception(error)
                    # Marks it as seen: whoever waits for the stage has it as well.
                    self.failed.exception()
                raise


class Reception:
    """One sample on its way: `admitted`, then `linked`; `stop` in any case."""

    def __init__(self, admission: Admission, linking: Linking, linkers: Executor) -> None:
        """`linkers` are the threads that link, of this sample and of others."""
        # What a stage does knows nothing of us, or a sample would stay in memory until the collector found the circle.
        self._admission = admission
        self._linking = linking
        self._linked = _Stage(partial(_link_all, linking, linkers))
        self._opened = _Stage(_Opening(admission, linking, self._linked).open_all)

    async def admitted(
        self, requests: AsyncIterator[census_service_pb2.CountRequest], hold: Callable[[int], None]
    ) -> AdmittedSample:
        """The sample that `requests` bring after their header. `hold` is told of a frame's bytes before they are kept.

        Raises:
            InvalidRequestError, RefusedError: the first check that fails. Nothing was charged.
        """
        reading = asyncio.create_task(self._read(requests, hold))
        try:
            # A sender may wait for what is said of a frame before the next one.
            first: set[asyncio.Future[Any]] = {reading, self._opened.failed}
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if self._opened.failed.done():
                self._opened.failed.result()
            return await reading
        finally:
            reading.cancel()
            await asyncio.wait({reading})
            if not reading.cancelled():
                reading.exception()

    async def _read(
        self, requests: AsyncIterator[census_service_pb2.CountRequest], hold: Callable[[int], None]
    ) -> AdmittedSample:
        async for request in requests:
            match request.WhichOneof("part"):
                case "frame":
                    hold(len(request.frame.ciphertext))
                    self._opened.put(request.frame)
                    if self._opened.is_full:
                        await self._opened.end()
                case "manifest":
                    await self._opened.end()
                    return await asyncio.to_thread(self._admission.finish, request.manifest)
                case _:
                    await self._opened.end()
                    raise InvalidRequestError("MALFORMED_MESSAGE", problem="a part of the sample is out of order")
        await self._opened.end()
        raise InvalidRequestError("MALFORMED_MESSAGE", problem="the sample ends before its manifest")

    async def linked(self, sample: AdmittedSample) -> LinkedSample:
        """The same sample with its rows and units."""
        await self._linked.end()
        return await asyncio.to_thread(self._linking.finish, sample.pseudonyms)

    async def stop(self) -> None:
        """Return when no thread works on the sample any more."""
        await self._opened.stop()
        await self._linked.stop()


class _Opening:
    """Frames in, pieces of the sample out."""

    def __init__(self, admission: Admission, linking: Linking, linked: _Stage[_Piece]) -> None:
        self._admission = admission
        self._linking = linking
        self._linked = linked
        self._people = 0
        self._is_expected = False

    async def open_all(self, frames: Sequence[sample_pb2.SampleFrame]) -> None:
        for opened in await asyncio.to_thread(lambda: [self._admission.add_frame(frame) for frame in frames]):
            if not self._is_expected:
                self._linking.expect(self._admission.declared)
                self._is_expected = True
            self._linked.put((self._people, opened))
            self._people += len(opened)


async def _link_all(linking: Linking, linkers: Executor, pieces: Sequence[_Piece]) -> None:
    # Looking up waits for memory more than it works: two threads wait for it at once, also for a single frame.
    loop = asyncio.get_running_loop()
    halves = [loop.run_in_executor(linkers, copy_context().run, linking.add_all, half) for half in _halves(pieces)]
    await asyncio.wait(halves)
    for each in halves:
        each.result()


def _halves(pieces: Sequence[_Piece]) -> list[list[_Piece]]:
    """The first half of every piece, and the second."""
    cuts = [(start, pseudonyms, len(pseudonyms) // 2) for start, pseudonyms in pieces]
    return [
        [(start, pseudonyms[:middle]) for start, pseudonyms, middle in cuts],
        [(start + middle, pseudonyms[middle:]) for start, pseudonyms, middle in cuts],
    ]
