"""One node dies at any message of `Count`, the other one lives.

There is no second charge, an answer for what was paid for, and neither budget nor place is held for a question that
nobody brings any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.links import CountCall, InMemoryCensus
from fakes.patience import until
from fakes.virtual_time import in_virtual_time
from fakes.world import HEALTH, Order, World, make_policy
from grpc.aio import AioRpcError
from protocol.pair import STAGES, Pair, census_at_work, gone
from tripartite.v1 import census_service_pb2

from broker_common.crypto.sample_bits import PLACES_IN_PART
from broker_common.rpc.server import StopSignal
from broker_common.rpc.status import broker_error
from census_node.config import LimitConfig
from census_node.service import CensusService

PARTS = 3


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A world whose samples take three parts."""
    made = World(tmp_path, places=PARTS * PLACES_IN_PART)
    yield made
    made.close()


# --- the health node dies --------------------------------------------------------------------------------------------

# Messages received by the census node, and by it from the census node, when it dies.
LAST_PART = f"part {PARTS - 1}"
SENDING = ["nothing", "head", "part 0", LAST_PART]
HEARING = ["charged", "released"]


class HealthNodeThatDies:
    """Count in the test's hands, up to a point."""

    def __init__(self, service: CensusService, world: World, order: Order) -> None:
        self._call: CountCall = InMemoryCensus(service, HEALTH).Count()
        self._messages = world.messages(world.sample(order, salt=bytes(32)))
        assert len(self._messages) == 1 + PARTS

    async def go_until(self, point: str) -> None:
        """Everything up to and including `point`."""
        said = {"nothing": 0, "head": 1, "part 0": 2}.get(point, len(self._messages))
        for message in self._messages[:said]:
            await self._call.write(message)
        for event in HEARING[: 1 + HEARING.index(point)] if point in HEARING else []:
            assert await self._event() == event

    def die(self) -> None:
        """The connection is reset."""
        self._call.cancel()

    async def retry(self) -> str:
        """The same ticket and set to the end; the last event, or the code of the refusal."""
        try:
            await self.go_until("released")
        except AioRpcError as error:
            return broker_error(error, "census").code
        return "released"

    async def _event(self) -> str:
        response = await self._call.read()
        assert isinstance(response, census_service_pb2.CountResponse)
        return str(response.WhichOneof("event"))


@pytest.mark.parametrize(
    ("way", "point"),
    [*(("dies", point) for point in SENDING + HEARING), *(("says nothing more", point) for point in SENDING[:-1])],
)
@in_virtual_time
async def test_health_node_that_dies_leaves_nothing_held_and_no_second_charge(
    world: World, point: str, way: str
) -> None:
    """Its connection is cut, or the machine is gone without a word; then it comes back with the same ticket."""
    limits = LimitConfig(max_queries=1, header_deadline_ms=100, sample_deadline_ms=300)
    stop = StopSignal()
    service, order = census_at_work(world, limits, stop), world.order()
    first = HealthNodeThatDies(service, world, order)
    await first.go_until(point)
    if point in {"nothing", "head"}:
        await until(lambda: service._streams._held)
    if way == "dies":
        first.die()
    await until(lambda: not service._streams._held and not world.census._reservations._held)
    if point != LAST_PART:
        # The last part alone may be lost with the connection; what was said afterwards was decided before.
        assert len(world.charges()) == (point in HEARING)
    assert await HealthNodeThatDies(service, world, order).retry() == "released"
    assert [charge.ticket for charge in world.charges()] == [order.hash.hex()]
    assert world.open(order, world.sealed(order)).scale == 30
    following = world.order()
    assert await HealthNodeThatDies(service, world, following).retry() == "released"
    await service.drain()
    assert stop.error is None
    assert not list((world.census_folder / "samples").glob("*"))
    assert world.verify_log().answers == 2


@pytest.mark.parametrize("point", [point for point in SENDING if point != LAST_PART])
@in_virtual_time
async def test_a_sample_that_has_not_come_holds_nothing_of_the_budget(tmp_path: Path, point: str) -> None:
    """Whatever its health node has sent of it, the last answer goes to the first sample that is here."""
    world = World(tmp_path, make_policy(max_belief="0.75", scales=(1,)), places=PARTS * PLACES_IN_PART)
    service = census_at_work(world, LimitConfig(max_queries=2), StopSignal())
    first = HealthNodeThatDies(service, world, world.order(scale=1))
    await first.go_until(point)
    assert await HealthNodeThatDies(service, world, world.order(scale=1)).retry() == "released"
    first.die()
    await service.drain()
    state = world.verify_log()
    assert (state.answers, state.shut_down) == (1, True)
    world.close()


# --- the census node dies --------------------------------------------------------------------------------------------

# In the order in which they pass. Nothing of what is named has happened yet, except after `said`.
PASSING = ["call", "head 0", "bits 1", f"bits {PARTS}", "charged", "said charged", "released", "said released"]
IS_CHARGED = PASSING[PASSING.index("charged") :]


@pytest.mark.parametrize("point", PASSING)
async def test_census_node_that_dies_is_asked_again_and_charges_once(world: World, point: str) -> None:
    """Wherever it dies, its successor has the charge and answers, or has neither; the health node's place is free."""
    pair = Pair(world, max_queries=1)
    died: list[str] = []

    def die(passing: str) -> None:
        if passing == point and not died:
            died.append(passing)
            pair.restart_census()
            raise gone()

    pair.passing = die
    order = world.order()
    outcome = await pair.submit(order)
    assert died
    await pair.settle()
    if point in IS_CHARGED:
        assert outcome == STAGES
    else:
        # Slots live in memory: its successor does not know this one. Nothing was charged, and asking anew works.
        assert outcome == "SLOT_UNUSABLE"
    pair.verify(order, answered=point in IS_CHARGED)
    assert not world.verify_health_log().open_tickets
    assert pair.health_stop.error is None
    pair.verify_nothing_held()
    await pair.verify_usable()


@pytest.mark.parametrize("point", ["head 0", "bits 2", "charged", "released"])
async def test_connection_that_is_lost_between_two_living_nodes_is_made_again(world: World, point: str) -> None:
    """Neither node died: the first attempt's price and place do not stand in the way of the second one."""
    pair = Pair(world)
    lost: list[str] = []

    def lose(passing: str) -> None:
        if passing == point and len(lost) < 2:
            lost.append(passing)
            raise gone()

    pair.passing = lose
    order = world.order()
    assert await pair.submit(order) == STAGES
    assert len(lost) == 2
    await pair.settle()
    pair.verify(order, answered=True)
    pair.verify_nothing_held()
    await pair.verify_usable()


@pytest.mark.parametrize("point", PASSING)
async def test_health_node_that_dies_goes_on_from_its_files(world: World, point: str) -> None:
    """The census node lives: whatever it has heard and charged, the health node's successor brings to one answer."""
    pair = Pair(world, forward_deadline_ms=0)
    copies: list[Path] = []

    def photograph(passing: str) -> None:
        if passing == point and not copies:
            copies.append(world._copy(world.health_folder))
            raise gone()

    pair.passing = photograph
    order = world.order()
    # The dying node's reaction is of no interest: its successor starts from the files as they were.
    await pair.submit(order)
    assert copies
    await pair.census.drain()
    world.health_folder = copies[0]
    await pair.restart_health()
    await pair.settle()
    assert await pair.submit(order) == STAGES
    await pair.settle()
    pair.verify(order, answered=True)
    assert not world.verify_health_log().open_tickets
    pair.verify_nothing_held()
    await pair.verify_usable()
