"""Places in line: each agency has a line of its own, oldest first, and the agencies take turns.

Whatever changes what a sample is charged under waits in the line of whom it concerns: the switch of an agency's roster behind
that agency's earlier samples, a load of the registry or a change of rules in the operator's own line.

SECURITY: an agency that floods its own line costs another one the work of one sample, and learns nothing of the other's line.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from contextvars import copy_context
from functools import partial
from typing import Any, Generic, TypeVar

from broker_common.errors import BrokerError
from census_node.query.schedule import Round

ResultT = TypeVar("ResultT")


class Place(Generic[ResultT]):
    """Something to be done at the desk, and its outcome for everybody who waits for it. Made in the event loop."""

    def __init__(
        self,
        agency: str,
        key: Hashable,
        whole_ms: int,
        work: Callable[[Round], ResultT],
        then: Callable[[ResultT], object] = lambda _: None,
    ) -> None:
        """`then` is done with what came of the work, when the work of the whole round is done."""
        self.agency = agency
        self.key = key
        # Since when all of it has been here.
        self.whole_ms = whole_ms
        self._work = work
        self._then = then
        # The caller's recording of spans goes on at the desk.
        self._context = copy_context()
        self._told: asyncio.Future[ResultT] = asyncio.get_running_loop().create_future()
        # Nobody may be waiting any more.
        self._told.add_done_callback(lambda told: told.cancelled() or told.exception())
        self._leave: Callable[[], object] | None = None
        self._finish: Callable[[], object] = lambda: None
        # When its outcome left.
        self.left_ms = 0
        # The error that ended the work.
        self.error: Exception | None = None

    async def outcome(self) -> ResultT:
        """The outcome, at the instant at which it may leave; raises the error of the work."""
        return await asyncio.shield(self._told)

    def do(self, now: Round) -> None:
        """Do the work; its outcome stays here until it is told."""
        try:
            outcome = self._context.run(self._work, now)
        except Exception as error:  # noqa: BLE001 - raised again for the waiter
            self._fail(error)
        else:
            self._leave = partial(self._told.set_result, outcome)
            self._finish = partial(self._context.run, self._then, outcome)

    def finish(self) -> None:
        """Do what comes after the work of the whole round, unless the work has failed."""
        try:
            self._finish()
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(error)

    @property
    def stops_node(self) -> bool:
        """Whether it ended in a state that nobody knows."""
        return isinstance(self.error, BrokerError) and self.error.stops_node

    def _fail(self, error: Exception) -> None:
        self.error = error
        self._leave = partial(self._told.set_exception, error)

    def tell(self, left_ms: int) -> None:
        """The outcome of the work leaves, at this instant."""
        self.left_ms = left_ms
        if self._leave is not None:
            self._leave()

    def turn_away(self, error: Exception) -> None:
        """It will not be done, or the waiter is not to hear of it."""
        self._told.set_exception(error)


class FairQueue:
    """All agencies' lines."""

    def __init__(self) -> None:
        # The next agency in turn comes first; none has an empty line here.
        self._lines: dict[str, deque[Place[Any]]] = {}

    def put(self, place: Place[Any]) -> None:
        """At the end of its agency's line."""
        self._lines.setdefault(place.agency, deque()).append(place)

    @property
    def oldest_ms(self) -> int | None:
        """Since when something in line has been whole; None for nobody in line."""
        return min((line[0].whole_ms for line in self._lines.values()), default=None)

    def take(self, most: int, *, before_ms: int, now_ms: int) -> list[Place[Any]]:
        """At most so many that were whole before an instant, the agencies in rotation, each agency's oldest first."""
        taken: list[Place[Any]] = []
        waiting = list(self._lines)
        while waiting and len(taken) < most:
            agency = waiting.pop(0)
            line = self._lines[agency]
            # Whole after now: the clock was set back since.
            if not before_ms <= line[0].whole_ms <= now_ms:
                taken.append(line.popleft())
                # Its next turn is behind everybody else's.
                del self._lines[agency]
                if line:
                    self._lines[agency] = line
                    waiting.append(agency)
        return taken
