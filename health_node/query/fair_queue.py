"""The line in which accepted questions wait: who is next, and how many may wait.

Researchers take turns: the waiting researcher who was served longest ago is next, with their oldest question. However many
questions somebody has here, somebody else's single one waits for one of them at most.

The next one gets a *place*, and gives it back when the answer is out.

SECURITY: when a question's turn comes follows from when questions came, and from when others were told their answers: instants
of the policy. That an agency is busy shows, what it is busy with does not. The same holds of being turned away: it depends on
how many wait, and on how many of them are one's own.

Everything runs in one event loop; nothing is remembered across a restart, since what waits is durable elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque

from broker_common.errors import PeerUnavailableError, RefusedError
from health_node.config import LimitConfig


class Spot:
    """One question, from the end of the line until it leaves; give it up with `leave`, whatever happened."""

    def __init__(self, line: FairQueue, researcher: str) -> None:
        self._line = line
        self.researcher = researcher
        self.has_place = False
        # Set while it stands in the line, and done when it no longer has to.
        self.turn: asyncio.Future[None] | None = None

    async def place(self) -> bool:
        """Return with a place; whether there was any waiting for it.

        Raises:
            PeerUnavailableError: PEER_UNAVAILABLE, the node stops; what waits is taken up at the next start.
        """
        turn = self.turn = asyncio.get_running_loop().create_future()
        self._line.enter(self)
        waited = not turn.done()
        await turn
        return waited

    def leave(self) -> None:
        """Give back whatever is held, and wait for nothing more."""
        self._line.leave(self)


class FairQueue:
    """Everybody who waits, and what they wait for."""

    def __init__(self, limits: LimitConfig) -> None:
        self._limits = limits
        self._places = limits.max_queries
        # How many questions of each researcher have no place yet.
        self._without_place: Counter[str] = Counter()
        # In the order in which researchers have their turns; nobody has an empty queue here.
        self._turns: dict[str, deque[Spot]] = {}
        self._closed = asyncio.Event()

    def join(self, researcher: str, *, recovered: bool = False) -> Spot:
        """A spot for one more question. A question accepted before a start is not turned away.

        Raises:
            RefusedError: BUSY.
            PeerUnavailableError: PEER_UNAVAILABLE, the node stops.
        """
        if self._closed.is_set():
            raise _stopping()
        if not recovered:
            self.refuse_if_full(researcher)
        self._without_place[researcher] += 1
        return Spot(self, researcher)

    def refuse_if_full(self, researcher: str) -> None:
        """Return only if one more question may wait. A researcher with nothing waiting is let in: others cannot lock them out.

        Raises:
            RefusedError: BUSY.
        """
        own, limits = self._without_place[researcher], self._limits
        if own >= limits.max_waiting_each or (own > 0 and self._without_place.total() >= limits.max_waiting):
            raise RefusedError("BUSY", retry_seconds=limits.retry_seconds)

    @property
    def waiting(self) -> int:
        return self._without_place.total()

    def close(self) -> None:
        self._closed.set()
        for queue in self._turns.values():
            for spot in queue:
                if spot.turn is not None and not spot.turn.done():
                    spot.turn.set_exception(_stopping())
        self._turns.clear()

    async def pause(self, seconds: float) -> None:
        """Return after so long.

        Raises:
            PeerUnavailableError: PEER_UNAVAILABLE, the node stops.
        """
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closed.wait(), seconds)
            raise _stopping()

    # --- what spots do ---------------------------------------------------------------------------------------------

    def enter(self, spot: Spot) -> None:
        if self._closed.is_set():
            raise _stopping()
        self._turns.setdefault(spot.researcher, deque()).append(spot)
        self._serve()

    def leave(self, spot: Spot) -> None:
        """The spot neither holds anything nor waits for anything from here on."""
        if spot.has_place:
            spot.has_place = False
            self._places += 1
        else:
            self._forget_waiting(spot)
        self._serve()

    def _forget_waiting(self, spot: Spot) -> None:
        self._without_place[spot.researcher] -= 1
        if not self._without_place[spot.researcher]:
            del self._without_place[spot.researcher]
        queue = self._turns.get(spot.researcher)
        if queue is not None and spot in queue:
            queue.remove(spot)
            if not queue:
                del self._turns[spot.researcher]

    def _serve(self) -> None:
        while self._places and self._turns and not self._closed.is_set():
            self._grant(self._next())

    def _next(self) -> Spot:
        researcher = next(iter(self._turns))
        queue = self._turns.pop(researcher)
        spot = queue.popleft()
        if queue:
            # Behind everybody who waits now.
            self._turns[researcher] = queue
        return spot

    def _grant(self, spot: Spot) -> None:
        self._forget_waiting(spot)
        self._places -= 1
        spot.has_place = True
        if spot.turn is not None and not spot.turn.done():
            spot.turn.set_result(None)


def _stopping() -> PeerUnavailableError:
    return PeerUnavailableError("PEER_UNAVAILABLE", peer="health")
