"""An event loop without threads and without waiting: what happens next is decided by a seed.

Time stands still while anything can be done and jumps to the next instant at which something is due, so that hours of
retries and ticks take milliseconds. Work that the product hands to threads runs here, in the loop's own thread, a little
later: the seed says how much later. So one seed gives one order of events, every time.

Every task and every such job belongs to the `Process` that started it. A process that was killed does nothing more.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import random  # noqa: TID251 - a seeded order of events, no secret
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")
_LONGEST_JOB_SECONDS = 0.003


class Killed(BaseException):
    """Ends the code of a process that has been killed; nothing of the product may catch it."""


class Process:
    """One process of a simulated machine."""

    def __init__(self, party: str, name: str) -> None:
        self.party = party
        self.name = name
        self.is_alive = True
        self.tasks: set[asyncio.Task[Any]] = set()
        # True once something was done to it that makes it stop.
        self.may_stop = False

    def __repr__(self) -> str:
        return f"{self.party}:{self.name}"

    def end(self) -> None:
        """Nothing of it runs from here on."""
        self.is_alive = False
        for task in list(self.tasks):
            task.cancel()


_current: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


def current_process() -> Process | None:
    """The process whose code is running; None for the test itself."""
    return _current.get()


def in_process(process: Process | None) -> contextvars.Context:
    """A context in which everything belongs to `process`."""
    context = contextvars.copy_context()
    context.run(_current.set, process)
    return context


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting, time passes."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("everything waits for something that will never happen")
        if timeout > 0:
            self.loop.seconds += timeout
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """See above. `seconds` is how much time has passed."""

    def __init__(self, chance: random.Random) -> None:
        self.seconds = 0.0
        self._chance = chance
        selector = _JumpingSelector()
        selector.loop = self
        super().__init__(selector)
        self.set_task_factory(self._make_task)  # type: ignore[arg-type]  # as Python 3.11 calls it

    def time(self) -> float:
        return self.seconds

    def add_signal_handler(self, sig: int, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        """Signals are for the test's own process."""

    def run_in_executor(  # type: ignore[override]  # gives what asyncio.to_thread awaits
        self, executor: object, func: Callable[..., ResultT], *args: Any
    ) -> asyncio.Future[ResultT]:
        del executor
        process, future = current_process(), self.create_future()

        def job() -> None:
            if process is not None and not process.is_alive:
                future.cancel()
                return
            try:
                result = func(*args)
            except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
                if not future.cancelled():
                    future.set_exception(RuntimeError("killed") if isinstance(error, Killed) else error)
                    # As with threads: a caller that has stopped waiting does not hear of it.
                    future.exception()
            else:
                if not future.cancelled():
                    future.set_result(result)

        # A job whose waiter was cancelled runs all the same: a thread cannot be stopped.
        self.call_later(self._chance.uniform(0, _LONGEST_JOB_SECONDS), job)
        return future

    @staticmethod
    def _make_task(
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, ResultT],
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[ResultT]:
        task = asyncio.Task(coroutine, loop=loop, context=context)
        process = current_process() if context is None else context.get(_current)
        if process is not None:
            process.tasks.add(task)
            task.add_done_callback(process.tasks.discard)
        return task


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test whose deadlines pass when nothing else can happen: a busy machine cannot make them pass earlier."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        run_to_end(VirtualLoop(random.Random(0)), test(*arguments, **named))

    return run


def run_to_end(loop: VirtualLoop, work: Coroutine[Any, Any, None]) -> None:
    """Do some work in a loop of its own, and end what it leaves behind."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(work)
    finally:
        loop.run_until_complete(_end_all(loop))
        loop.close()
        asyncio.set_event_loop(None)


async def _end_all(loop: VirtualLoop) -> None:
    """As `asyncio.run` ends what a test has left behind."""
    left = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await loop.shutdown_asyncgens()
