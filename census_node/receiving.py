"""Receiving one sample: frames are read, opened and linked at once, each stage in a thread of its own.

    requests -> read -> opened -> linked
                 however many have come meanwhile are handed on together: a slow stage takes larger batches, not more threads

A failure of a later stage ends the sample when the next part of it comes. What was linked of a sample that is refused is
forgotten with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
from tripartite.v1 import census_service_pb2, sample_pb2

from broker_common.errors import InvalidRequestError
from census_node.admission import Admission, AdmittedSample
from census_node.linking import LinkedSample, Linking

__all__ = ["receive"]

# Frames that may wait to be opened, or linked, before no more are read: 8 MiB.
_MOST_WAITING = 32
PieceT = TypeVar("PieceT")
_Linkable = tuple[int, npt.NDArray[np.uint8]]


class _Stage(Generic[PieceT]):
    """One after the other, in batches of what has come meanwhile."""

    def __init__(self, work: Callable[[Sequence[PieceT]], Awaitable[None]]) -> None:
        self._work = work
        self._waiting: list[PieceT] = []
        self._working: asyncio.Task[None] | None = None

    async def put(self, piece: PieceT) -> None:
        """Hand on a piece; raises what went wrong with one before it."""
        self._waiting.append(piece)
        if self._working is not None and (self._working.done() or len(self._waiting) >= _MOST_WAITING):
            await self._working
            self._working = None
        if self._working is None:
            self._working = asyncio.create_task(self._work_off())

    async def end(self) -> None:
        """Return when everything is done; raises what went wrong."""
        if self._working is not None:
            await self._working
        await self._work_off()

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
            await self._work(batch)


async def receive(
    requests: AsyncIterator[census_service_pb2.CountRequest],
    admission: Admission,
    linking: Linking,
    hold: Callable[[int], None],
) -> tuple[AdmittedSample, LinkedSample]:
    """The sample that `requests` bring after their header, admitted and linked.

    `hold` is told of every frame's bytes before they are kept, and may raise.

    Raises:
        InvalidRequestError, RefusedError: the first check that fails. Nothing was charged.
    """
    people = 0

    async def open_all(frames: Sequence[sample_pb2.SampleFrame]) -> None:
        nonlocal people
        for opened in await asyncio.to_thread(lambda: [admission.add_frame(frame) for frame in frames]):
            await linked.put((people, opened))
            people += len(opened)

    async def link_all(pieces: Sequence[_Linkable]) -> None:
        await asyncio.to_thread(linking.add_all, pieces)

    opened, linked = _Stage(open_all), _Stage(link_all)
    try:
        async for request in requests:
            match request.WhichOneof("part"):
                case "frame":
                    hold(len(request.frame.ciphertext))
                    await opened.put(request.frame)
                case "manifest":
                    await opened.end()
                    sample = await asyncio.to_thread(admission.finish, request.manifest)
                    await linked.end()
                    return sample, await asyncio.to_thread(linking.finish, sample.pseudonyms)
                case _:
                    raise InvalidRequestError("MALFORMED_MESSAGE", problem="a part of the sample is out of order")
        await opened.end()
    finally:
        await opened.stop()
        await linked.stop()
    raise InvalidRequestError("MALFORMED_MESSAGE", problem="the sample ends before its manifest")
