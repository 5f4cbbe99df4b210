"""An event loop in which work takes the time that a test gives it, and in which locks make others wait.

Time is virtual, as in `virtual_time`, but nothing is left to chance: what happens at which millisecond follows from the
waits and from the work alone. Work in a thread takes its time beside everything else; work under the journal's lock keeps
everybody waiting, since hardly anything can be asked of a node without that lock.
"""

from __future__ import annotations

import asyncio
import functools
import random  # noqa: TID251 - nothing is drawn from it
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fakes.clock import FakeClock
from fakes.virtual_time import VirtualLoop, run_to_end

from broker_common.storage.journal import Journal

ResultT = TypeVar("ResultT")


class TimedLoop(VirtualLoop):
    """See above."""

    def __init__(self) -> None:
        super().__init__(random.Random(0))
        # How long the job that is running has taken so far.
        self.took = 0.0

    @property
    def now(self) -> float:
        """For the job that is running, if one is."""
        return self.seconds + self.took

    def run_in_executor(  # type: ignore[override]  # gives what asyncio.to_thread awaits
        self, executor: object, func: Callable[..., ResultT], *args: Any
    ) -> asyncio.Future[ResultT]:
        del executor
        future: asyncio.Future[ResultT] = self.create_future()

        def job() -> None:
            self.took = 0.0
            result: ResultT
            try:
                result = func(*args)
            except Exception as error:  # noqa: BLE001 - raised again where it is awaited
                self.call_later(self.took, fail, error)
            else:
                self.call_later(self.took, succeed, result)
            self.took = 0.0

        def succeed(result: ResultT) -> None:
            if not future.cancelled():
                future.set_result(result)

        def fail(error: Exception) -> None:
            if not future.cancelled():
                future.set_exception(error)

        self.call_soon(job)
        return future

    def work(self, milliseconds: float, journal: Journal[Any]) -> None:
        """The job that is running takes so long from here."""
        if journal._lock._is_owned():  # type: ignore[attr-defined]  # as threading's own Condition asks
            self.seconds += milliseconds / 1000
        else:
            self.took += milliseconds / 1000


class LoopClock(FakeClock):
    """The wall clock of everybody in a loop."""

    def __init__(self, loop: TimedLoop, began_ms: int) -> None:
        self._loop = loop
        super().__init__(began_ms)

    def __call__(self) -> int:
        return self.now_ms + round(self._loop.now * 1000)


def working(milliseconds: float) -> None:
    """The job that is running takes so long from here."""
    loop = asyncio.get_event_loop_policy().get_event_loop()
    assert isinstance(loop, TimedLoop)
    loop.took += milliseconds / 1000


def timed(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run something in a loop of its own, in which time is virtual."""
    run_to_end(TimedLoop(), test())


def in_desk_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test in such a loop."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        timed(functools.partial(test, *arguments, **named))

    return run
