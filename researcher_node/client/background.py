"""An event loop in a thread of its own: who calls waits, whether or not their own thread runs a loop, as a notebook's does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


class Background:
    """A running loop. `close` ends it; the thread is a daemon, so that nothing keeps the interpreter from ending."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="researcher client", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """The result of the coroutine. An interrupt of the waiting thread, by Ctrl-C or a notebook, cancels it."""
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("the connection is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel what runs, end the thread. Closing again does nothing."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
