"""Questions that a health node never took, or never said it took, and refusals that were overtaken by a shutdown."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from fakes.world import HEALTH
from grpc import StatusCode, aio
from integration.loopback import Loopback, add_cards, serving
from tripartite.v1 import health_service_pb2, health_service_pb2_grpc

from broker_common.errors import BrokerError, InvalidRequestError, PeerUnavailableError, RefusedError
from broker_common.rpc.channel import Peer
from health_node.service import HealthService
from researcher_node import cli
from researcher_node.answers.store import AskedQuestion
from researcher_node.asking.proposal import Precision, Wanted
from researcher_node.asking.session import Session
from researcher_node.cli import _ask_again, _collect

WAIT = 15.0
WANTED = Wanted("age >= 0", "all", Precision(scale=30), 1_000_000, "official-languages")


class DyingHealth(HealthService):
    """A health node that dies at the first submissions: before it has taken the question, or before it can say so."""

    deaths = 1
    takes_it_first = False
    submissions = 0

    async def Submit(  # noqa: N802 - the name that the proto gives it
        self, request: health_service_pb2.SubmitRequest, context: Any
    ) -> AsyncIterator[health_service_pb2.SubmitResponse]:
        """Break off, or behave."""
        self.submissions += 1
        if self.submissions > self.deaths:
            async for response in super().Submit(request, context):
                yield response
            return
        if self.takes_it_first:
            await anext(super().Submit(request, context))
        await context.abort(StatusCode.UNAVAILABLE, "died")


@contextlib.asynccontextmanager
async def dying(nodes: Loopback) -> AsyncIterator[tuple[DyingHealth, Peer]]:
    """A health node that dies, and where it listens."""
    service = nodes.health_service(DyingHealth)
    assert isinstance(service, DyingHealth)

    def add_services(server: aio.Server) -> None:
        health_service_pb2_grpc.add_HealthServiceServicer_to_server(service, server)
        add_cards(server, nodes.health.journal)

    async with serving("health", nodes.tls[HEALTH], nodes.registered, add_services) as peer:
        yield service, peer
        await service.flow.drain()


class Home:
    """A home as `answers --collect` opens it, with a session of this world."""

    def __init__(self, nodes: Loopback, health: Peer) -> None:
        self._open: Callable[[], Session] = lambda: nodes.session(health=health)

    def session(self, _store: object) -> Session:
        return self._open()


async def collect(nodes: Loopback, health: Peer) -> None:
    """`answers --collect`."""
    home: Any = Home(nodes, health)
    await _collect(home, nodes.answers, ())


async def lose(asking: Session) -> AskedQuestion:
    """A question that is submitted once, in vain; gives it as it is listed then."""
    asked = await asking.prepare(WANTED)
    with pytest.raises(PeerUnavailableError, match="PEER_UNAVAILABLE"):
        await asking.ask(asked, wait_seconds=0, on_stage=lambda _: None)
    return asked


@pytest.mark.parametrize("takes_it_first", [False, True], ids=["never heard", "heard and not confirmed"])
async def test_ask_submits_again_what_a_health_node_died_at(loopback: Loopback, *, takes_it_first: bool) -> None:
    """Within its wait, saying so once; the ticket is charged once."""
    away: list[str] = []
    async with dying(loopback) as (service, health), loopback.session(health=health) as asking:
        service.deaths, service.takes_it_first = 3, takes_it_first
        answered = await asking.ask(
            await asking.prepare(WANTED),
            wait_seconds=WAIT,
            on_stage=lambda _: None,
            on_away=lambda: away.append("away"),
        )
    assert (answered.state, away) == ("answered", ["away"])
    assert len(loopback.world.charges()) == 1


@pytest.mark.parametrize("takes_it_first", [False, True], ids=["never heard", "heard and not confirmed"])
async def test_collect_submits_again_what_a_health_node_died_at(
    loopback: Loopback, capsys: pytest.CaptureFixture[str], *, takes_it_first: bool
) -> None:
    """Once: from the moment that it was confirmed the health node goes on alone, and the ticket is charged once."""
    async with dying(loopback) as (service, health), loopback.session(health=health) as asking:
        service.takes_it_first = takes_it_first
        asked = await lose(asking)
        assert not asking.has_taken(asked.query)
        await collect(loopback, health)
        if loopback.answers.get(asked.query).state != "answered":
            assert (service.submissions, asking.has_taken(asked.query)) == (2, True)
            assert "submitted again, and the health node has taken it" in capsys.readouterr().err
        else:
            # It was heard, and its answer was out before it was looked for: there is nothing to submit.
            assert (takes_it_first, service.submissions) == (True, 1)
        assert (await asking.collect(asked.query, wait_seconds=WAIT)).state == "answered"
        submissions = service.submissions
        await collect(loopback, health)
        assert service.submissions == submissions
    assert len(loopback.world.charges()) == 1


async def test_collect_does_not_submit_what_the_health_node_has_confirmed(loopback: Loopback) -> None:
    """It goes on by itself; what is not out says so."""
    async with dying(loopback) as (service, health), loopback.session(health=health) as asking:
        asked = await lose(asking)
        loopback.answers.accept(asked.query)
        await collect(loopback, health)
        assert service.submissions == 1
    assert loopback.answers.get(asked.query).state == "pending"


async def test_collect_does_not_submit_an_expired_ticket(loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody would charge it; asking anew is for the researcher to decide."""
    async with dying(loopback) as (service, health), loopback.session(health=health) as asking:
        asked = await lose(asking)
        monkeypatch.setattr(cli, "system_clock", lambda: asked.ticket_expires_ms)
        await collect(loopback, health)
        assert service.submissions == 1


async def test_collect_goes_on_without_a_health_node(loopback: Loopback, capsys: pytest.CaptureFixture[str]) -> None:
    """That it is away is said and is no failure; the question stays as it was."""
    async with dying(loopback) as (service, health), loopback.session(health=health) as asking:
        service.deaths = 2
        asked = await lose(asking)
        await collect(loopback, health)
    assert "could not be submitted again. The health node does not answer." in capsys.readouterr().err
    assert loopback.answers.get(asked.query).state == "pending"


async def test_refusal_that_collect_hears_is_kept(loopback: Loopback, capsys: pytest.CaptureFixture[str]) -> None:
    """A question that is refused when it is submitted again is not pending any more."""
    async with dying(loopback) as (service, health), loopback.session(health=health) as asking:
        asked = await lose(asking)

        def refuse(*_: object) -> None:
            raise InvalidRequestError("TICKET_EXPIRED")

        service._node.verify = refuse  # type: ignore[method-assign,assignment]
        await collect(loopback, health)
    assert loopback.answers.get(asked.query).refused == "TICKET_EXPIRED"
    assert "The ticket has expired." in capsys.readouterr().err


# --- a refusal, and then a shutdown ----------------------------------------------------------------------------------


async def again(loopback: Loopback, query: str) -> BrokerError:
    """How `ask --again` fails."""
    async with loopback.session() as asking:
        with pytest.raises(BrokerError) as caught:
            await _ask_again(asking, loopback.answers.get(query), WAIT)
    return caught.value


async def test_refusal_of_before_a_shutdown_does_not_advise_to_ask_anew(loopback: Loopback) -> None:
    """Refused for its slot, it says so while the service is open; after a shutdown it says that, as a new question would."""
    world = loopback.world
    query = world.remember(loopback.answers, world.order(slot=4711))
    for _ in range(2):
        assert (await again(loopback, query)).code == "SLOT_UNUSABLE"
    await asyncio.to_thread(world.shut_down)
    error = await again(loopback, query)
    assert isinstance(error, RefusedError)
    assert error.code == "SERVICE_SHUT_DOWN"
    assert loopback.answers.get(query).refused == "SLOT_UNUSABLE", "which is what became of the ticket"


async def test_ticket_that_comes_after_a_shutdown_is_refused_with_it(loopback: Loopback) -> None:
    """This includes one whose slot was lost: the health node hears of the shutdown, and so does anyone who asks again later."""
    world = loopback.world
    order = world.order(slot=4711)
    query = world.remember(loopback.answers, order)
    await asyncio.to_thread(world.shut_down)
    for _ in range(2):
        assert (await again(loopback, query)).code == "SERVICE_SHUT_DOWN"
    assert world.verify_health_log().tickets[order.hash.hex()].refused == "SERVICE_SHUT_DOWN"
