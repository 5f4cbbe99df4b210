"""Waiting in an event loop for something that threads bring about.

Whoever waits takes `next` first, then looks, then waits for what it took: what happens between look and wait is not missed.
"""

from __future__ import annotations

import asyncio

__all__ = ["News"]


class News:
    """Wakes everybody who waits, whatever it is that happened; they look for themselves. Made in the loop it serves."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.Future[None] = self._loop.create_future()

    def tell(self) -> None:
        """Something has happened. From any thread."""
        self._loop.call_soon_threadsafe(self._wake)

    def next(self) -> asyncio.Future[None]:
        """Done at the next news. Wait for it with `asyncio.wait`, which leaves it to the others."""
        return self._next

    def _wake(self) -> None:
        self._next.set_result(None)
        self._next = self._loop.create_future()
