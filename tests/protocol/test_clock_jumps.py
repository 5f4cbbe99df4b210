"""Clocks that are set while a question is under way, at either agency or both, forward or back, by an hour or a year.

The oracle is always the same: both logs replay, which includes that their time never decreases; an answer that is paid
for goes out without waiting for an hour that has been; nothing that had expired is charged.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from fakes.links import NO_CONTEXT, InMemoryCensus, health_service
from fakes.patience import PATIENCE_SECONDS
from fakes.world import HEALTH, RESEARCHER, Order, World, make_policy
from protocol.pair import census_at_work
from tripartite.v1 import census_service_pb2, health_service_pb2

from broker_common.crypto.certificates import Identity
from broker_common.errors import InvalidRequestError
from broker_common.rpc.callers import set_caller
from broker_common.rpc.server import StopSignal
from broker_common.storage.clock import SteadyClock, system_clock
from census_node.config import LimitConfig as CensusLimits
from health_node.config import LimitConfig

HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS
JUMPS = [-HOUR_MS, -YEAR_MS, HOUR_MS, YEAR_MS]
# The clock that jumps, and how far.
CASES = [
    *((whose, jump_ms) for whose in ("census", "health") for jump_ms in JUMPS),
    ("both", -YEAR_MS),
    ("both", YEAR_MS),
]
STAGES = ["STAGE_ACCEPTED", "STAGE_FORWARDED", "STAGE_CHARGED", "STAGE_RELEASED"]


class ShiftedClock:
    """A wall clock that somebody sets while it runs: true time and a shift."""

    def __init__(self) -> None:
        self.shift_ms = 0

    def __call__(self) -> int:
        return system_clock() + self.shift_ms


class Agencies:
    """Both nodes with steady clocks over wall clocks of their own, and ticks that are waited for."""

    def __init__(self, directory: Path) -> None:
        self.walls = {"census": ShiftedClock(), "health": ShiftedClock()}
        self.world = World(
            directory,
            make_policy(tick_ms=40, delay_ms=80),
            census_clock=SteadyClock(self.walls["census"]),
            health_clock=SteadyClock(self.walls["health"]),
        )
        self.health = self.world.open_health()
        self.stop = StopSignal()
        self.census = census_at_work(self.world, CensusLimits(), self.stop)

    def jump(self, whose: str, jump_ms: int) -> None:
        """Somebody sets the clock of an agency, or of both, and its node sees it."""
        for name, wall in self.walls.items():
            if whose in {name, "both"}:
                wall.shift_ms += jump_ms
        self.world.census_clock()
        self.world.health_clock()

    def restart_health(self) -> None:
        """A new process on the same files begins with the wall clock as it is."""
        self.world.health_clock = SteadyClock(self.walls["health"])
        self.health = self.world.crash_health()

    def restart_census(self) -> None:
        """As above."""
        self.world.census_clock = SteadyClock(self.walls["census"])
        self.world.crash_census()
        self.census = census_at_work(self.world, CensusLimits(), self.stop)

    async def ask(
        self,
        order: Order,
        *,
        after: str = "",
        then: Callable[[], None] = lambda: None,
    ) -> list[str]:
        """Submit to the end; once `after` is on its way, a part of the sample or an event, something happens."""
        link = InMemoryCensus(self.census, HEALTH)

        def passing(what: str | None) -> None:
            if what == after:
                then()

        async def watched(
            requests: AsyncIterator[census_service_pb2.CountRequest],
        ) -> AsyncIterator[census_service_pb2.CountResponse]:
            async def parts() -> AsyncIterator[census_service_pb2.CountRequest]:
                async for request in requests:
                    passing(request.WhichOneof("part"))
                    yield request

            async for response in link.honestly(parts()):
                passing(response.WhichOneof("event"))
                yield response

        link.scripts.append(watched)
        service = health_service(self.world, self.health, link, LimitConfig(forward_deadline_ms=0), self.stop)
        set_caller(Identity("university", "researcher", RESEARCHER))
        async with asyncio.timeout(PATIENCE_SECONDS):
            return [
                health_service_pb2.Stage.Name(response.stage)
                async for response in service.Submit(order.submission, NO_CONTEXT)
            ]

    async def refused(self, order: Order, asking: Coroutine[Any, Any, list[str]] | None = None) -> str:
        """The code with which a question is refused; nothing is charged for it."""
        with pytest.raises(InvalidRequestError) as caught:
            await (self.ask(order) if asking is None else asking)
        self.verify()
        assert order.hash.hex() not in {charge.ticket for charge in self.world.charges()}
        return caught.value.code

    def verify(self, *answered: Order) -> None:
        """Both logs replay, and these orders have one charge and one answer each."""
        self.world.verify_log()
        self.world.verify_health_log()
        charged = [charge.ticket for charge in self.world.charges()]
        for order in answered:
            assert charged.count(order.hash.hex()) == 1
            assert self.world.open(order, self.world.sealed(order)).scale == 30
        assert self.stop.error is None


@pytest.fixture
async def agencies(tmp_path: Path) -> AsyncIterator[Agencies]:
    """Two agencies whose clocks are right so far."""
    made = Agencies(tmp_path)
    yield made
    made.world.close()


@pytest.mark.parametrize("after", ["head", "charged"])
@pytest.mark.parametrize(("whose", "jump_ms"), CASES)
async def test_answer_goes_out_although_a_clock_is_set_on_its_way(
    agencies: Agencies, after: str, whose: str, jump_ms: int
) -> None:
    """Between charge and release it is not lost, nor waits for the clock; nor before, unless its ticket has ended by then."""
    order, answered = agencies.world.order(), []
    asking = agencies.ask(order, after=after, then=lambda: agencies.jump(whose, jump_ms))
    if after == "head" and whose != "health" and jump_ms > 0:
        assert await agencies.refused(order, asking) == "TICKET_EXPIRED"
    else:
        assert await asking == STAGES
        answered.append(order)
    agencies.verify(*answered)
    following = agencies.world.order()
    if whose == "health" and jump_ms > 0:
        # The one clock that is ahead of a quote made meanwhile: its operator sets it right and starts the node again.
        assert await agencies.refused(following) == "TICKET_EXPIRED"
        agencies.jump(whose, -jump_ms)
        agencies.restart_health()
    assert await agencies.ask(following) == STAGES
    agencies.verify(*answered, following)


@pytest.mark.parametrize(("whose", "jump_ms"), [case for case in CASES if case[1] < 0])
async def test_quote_stands_although_a_clock_is_set_back(agencies: Agencies, whose: str, jump_ms: int) -> None:
    """Between quote and submission: time goes on, for ticket and noise slot alike."""
    order = agencies.world.order()
    agencies.jump(whose, jump_ms)
    assert await agencies.ask(order) == STAGES
    agencies.verify(order)


@pytest.mark.parametrize(("whose", "jump_ms"), [case for case in CASES if case[1] > 0])
async def test_quote_that_a_clock_set_forward_ended_stays_ended(agencies: Agencies, whose: str, jump_ms: int) -> None:
    """Refused uncharged, also after the clock is set right, because no time comes twice; a new question is answered."""
    order = agencies.world.order()
    agencies.jump(whose, jump_ms)
    assert await agencies.refused(order) == "TICKET_EXPIRED"
    agencies.jump(whose, -jump_ms)
    assert await agencies.refused(order) == "TICKET_EXPIRED"
    following = agencies.world.order()
    if whose == "health":
        # The one clock that is ahead of a quote made meanwhile: its operator starts the node again.
        assert await agencies.refused(following) == "TICKET_EXPIRED"
        agencies.restart_health()
    assert await agencies.ask(following) == STAGES
    agencies.verify(following)


@pytest.mark.parametrize("back_ms", [HOUR_MS, YEAR_MS])
async def test_what_the_log_has_seen_expire_stays_expired_after_a_restart_with_the_clock_behind(
    agencies: Agencies, back_ms: int
) -> None:
    """The census node starts with a wall clock from before the ticket was made: its log says what time it is."""
    expired = agencies.world.order()
    agencies.jump("both", HOUR_MS)
    # The log sees the hour.
    seen = agencies.world.order()
    assert await agencies.ask(seen) == STAGES
    agencies.jump("both", -back_ms - HOUR_MS)
    agencies.restart_census()
    agencies.restart_health()
    # A newer quote holds the slot that the ticket names, as may happen after a restart.
    slots = {agencies.world.reserve() for _ in range(4)}
    assert slots
    assert await agencies.refused(expired) == "TICKET_EXPIRED"
    following = agencies.world.order()
    assert await agencies.ask(following) == STAGES
    agencies.verify(seen, following)


async def test_census_log_that_is_years_ahead_keeps_nobody_from_asking(agencies: Agencies) -> None:
    """A clock that was wrong for one answer, then set right, leaves its time in the log for good; service goes on."""
    agencies.jump("census", 3 * YEAR_MS)
    ahead = agencies.world.order()
    assert await agencies.ask(ahead) == STAGES
    agencies.jump("census", -3 * YEAR_MS)
    agencies.restart_census()
    for _ in range(2):
        order = agencies.world.order()
        assert await agencies.ask(order) == STAGES
        agencies.verify(ahead, order)
    times = [entry.time_ms for entry in agencies.world.entries()]
    assert times == sorted(times)
    assert times[-1] > agencies.walls["census"]() + 2 * YEAR_MS


async def test_ticket_that_ends_later_than_a_quote_may_is_refused_by_the_node_that_quotes(agencies: Agencies) -> None:
    """The health node cannot know what time the census log has; the census node can, and refuses it uncharged."""
    order = agencies.world.order(change=lambda body: setattr(body, "expires_ms", body.expires_ms + 26 * HOUR_MS))
    assert await agencies.refused(order) == "TICKET_EXPIRED"
