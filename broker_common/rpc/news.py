"""Waiting in an event loop for something that threads bring about.

A waiter takes `next` first, then looks, then waits for what it took: what happens between look and wait is not missed.
"""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


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


class NewsOf:
    """The same for things that have names: a waiter wakes for its own news alone. Made in the loop it serves."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        # Held by those who wait, so that names which nothing is heard of leave nothing behind.
        self._next: WeakValueDictionary[str, asyncio.Future[None]] = WeakValueDictionary()

    def tell(self, name: str) -> None:
        """Something has happened to what has this name. From any thread."""
        self._loop.call_soon_threadsafe(self._wake, name)

    def tell_all(self) -> None:
        """Everybody is to look. From any thread."""
        self._loop.call_soon_threadsafe(self._wake_all)

    def next(self, name: str) -> asyncio.Future[None]:
        """Done at the next news of it; keep it while you wait, and leave it to the others as with `News.next`."""
        future = self._next.get(name)
        if future is None:
            future = self._next[name] = self._loop.create_future()
        return future

    def _wake(self, name: str) -> None:
        future = self._next.pop(name, None)
        if future is not None:
            future.set_result(None)

    def _wake_all(self) -> None:
        for name in list(self._next):
            self._wake(name)
