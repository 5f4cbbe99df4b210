"""Charge, then look up, count, store, release, deliver: no step happens before the one it depends on is durable."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from fakes.connections import WatchedConnection, break_statements, disk_error, watch
from fakes.links import count, stream
from fakes.virtual_time import in_virtual_time
from fakes.world import (
    HEALTH,
    OTHER_RESEARCHER,
    RESEARCHER,
    Order,
    World,
    charge_and_answer,
    read_log,
)
from protocol.pair import at_work
from tripartite.v1 import census_service_pb2

from broker_common.crypto.commitments import hash_bytes
from broker_common.errors import BrokerError, InternalError, InvalidRequestError, RefusedError, StateUnknownError
from broker_common.privacy.accounting import price
from broker_common.privacy.delays import DECLARED_STEP
from broker_common.rpc.server import StopSignal
from broker_common.tlog.entries import Charged, Released
from broker_common.values import ExactCounts
from census_node.config import LimitConfig
from census_node.ledger.passes import Passes
from census_node.query.admission import Recovered
from census_node.query.flow import Charge
from census_node.service import CensusService

Requests = list[census_service_pb2.CountRequest]
# Calls to the census, and the tickets that the disk held as charged at that very moment.
Touch = tuple[str, list[str]]


@pytest.fixture
def touched(world: World, monkeypatch: pytest.MonkeyPatch) -> list[Touch]:
    """Every look at language; who of a sample is in the census is gathered before the charge."""
    seen: list[Touch] = []
    count_language = Passes.count

    def witness(what: str) -> None:
        on_disk = [entry.event.ticket for entry in read_log(journal(world)) if isinstance(entry.event, Charged)]
        after_power_cut = world.copy_census() / "journal.db"
        assert on_disk == [e.event.ticket for e in read_log(after_power_cut) if isinstance(e.event, Charged)]
        seen.append((what, on_disk))

    def count_of(passes: Passes, *arguments: Any) -> list[int]:
        witness("counted")
        return count_language(passes, *arguments)

    monkeypatch.setattr(Passes, "count", count_of)
    return seen


@pytest.fixture
async def service(world: World) -> AsyncIterator[CensusService]:
    """The service of the world's census node, at work."""
    async with at_work(served(world)) as service:
        yield service


def served(world: World, **limits: int) -> CensusService:
    """Such a service, whose desk a test sets to work."""
    return CensusService(world.census, LimitConfig(**limits), StopSignal(), people=DECLARED_STEP)


def tickets(recovered: Sequence[Recovered]) -> list[str]:
    """The tickets of charges that go on after a start."""
    return [attempt.verify_claim().ticket_hash for attempt in recovered]


def journal(world: World) -> Path:
    """Where the census node's journal lies."""
    return world.census_folder / "journal.db"


def test_nobody_is_counted_before_the_charge_is_durable(world: World, touched: list[Touch]) -> None:
    """At the instant of counting, another connection and a copy of the files both hold the charge."""
    order = world.order()
    world.answer(order)
    assert touched == [("counted", [order.hash.hex()])]


def test_retry_counts_nothing(world: World, touched: list[Touch]) -> None:
    """A ticket's people are counted once; a retry is answered with what was stored."""
    order = world.order()
    sample = world.sample(order)
    world.answer(order, sample)
    world.answer(order, sample)
    assert [what for what, _ in touched] == ["counted"]


def test_refused_charge_counts_nothing(world: World, touched: list[Touch]) -> None:
    """If the charge is refused, the registry is not touched."""
    admitted = world.admit(world.messages(world.sample(world.order())))
    world.shut_down()
    with world.unchanged(), pytest.raises(BrokerError, match="SERVICE_SHUT_DOWN"):
        charge_and_answer(world.census, admitted)
    assert touched == []


def test_charge_that_cannot_be_written_counts_nothing(world: World, touched: list[Touch]) -> None:
    """A store that refuses the write gives no answer and stops the node; started again, it goes on honestly."""
    world.census.journal.db.execute(
        "create trigger full before insert on pending begin select raise(abort, 'disk full'); end"
    )
    admitted = world.admit(world.messages(world.sample(world.order())))
    with world.unchanged(), pytest.raises(InternalError) as caught:
        charge_and_answer(world.census, admitted)
    assert caught.value.code == "STORE_FAILED"
    assert caught.value.stops_node
    with world.unchanged(), pytest.raises(InternalError, match="STORE_FAILED"):
        charge_and_answer(world.census, admitted)
    assert touched == []
    world.open_census().journal.db.execute("drop trigger full")
    world.verify_honest_query()


def test_commit_whose_outcome_is_unknown_counts_nothing(world: World, touched: list[Touch]) -> None:
    """After an uncertain commit the node stops; nothing is counted, signed or served until it has read its log again."""
    order = world.order()
    admitted = world.admit(world.messages(world.sample(order)))
    break_statements(world.census.journal.db, happens=True)
    with pytest.raises(StateUnknownError):
        charge_and_answer(world.census, admitted)
    with pytest.raises(StateUnknownError):
        charge_and_answer(world.census, admitted)
    assert touched == []
    # The write had happened: the log says so, and the answer is made from it, once.
    world.crash_census()
    assert tickets(world.census.recover()) == [order.hash.hex()]
    assert touched == [("counted", [order.hash.hex()])]
    world.verify_honest_query()


def refused_samples(world: World) -> Iterator[Requests]:
    """Samples that fail at every depth: at the ticket, at the manifest, in what is sealed, at the charge."""
    yield world.messages(world.sample(world.order(scale=51)))
    yield world.messages(world.sample(world.order(slot=4711)))
    unsigned = world.messages(world.sample(world.order()))
    unsigned[0].head.manifest.signature = bytes(64)
    yield unsigned
    yield world.messages(world.sample(world.order()), change=lambda manifest: setattr(manifest, "roster", 7))
    damaged = world.messages(world.sample(world.order()))
    damaged[1].bits = bytes(len(damaged[1].bits))
    yield damaged
    yield world.messages(
        world.sample(world.order()), change=lambda manifest: setattr(manifest, "set_commitment", bytes(32))
    )
    charged = world.order()
    world.charge(charged)
    yield world.messages(world.sample(charged))
    yield world.messages(
        world.sample(world.order(change=lambda body: setattr(body, "query_id", charged.body.query_id)))
    )


async def test_refused_samples_count_nobody(world: World, touched: list[Touch], service: CensusService) -> None:
    """However far a sample comes that is refused: nobody in it is counted, so that nothing can be learned for free."""
    for requests in refused_samples(world):
        touched.clear()
        with world.unchanged(), pytest.raises(BrokerError):
            async for _ in count(service, stream(requests), HEALTH):
                pass
        assert touched == []
    world.verify_honest_query()


async def lost_line(sent: Requests) -> AsyncIterator[census_service_pb2.CountRequest]:
    """A stream that breaks."""
    for request in sent:
        yield request
    raise BrokenPipeError


async def silence(sent: Requests) -> AsyncIterator[census_service_pb2.CountRequest]:
    """A stream that says nothing more."""
    for request in sent:
        yield request
    await asyncio.Event().wait()


Abort = Callable[[Requests], AsyncIterator[census_service_pb2.CountRequest]]


@pytest.mark.parametrize("abort", [stream, lost_line, silence])
@in_virtual_time
async def test_aborted_streams_count_nobody(world: World, touched: list[Touch], abort: Abort) -> None:
    """Cut after any part, by closing, breaking or stalling, a stream costs nothing and counts nobody."""
    sent = world.messages(world.sample(world.order()))
    async with at_work(served(world, header_deadline_ms=200, sample_deadline_ms=200)) as service:
        with world.unchanged():
            for parts in range(len(sent)):
                with pytest.raises((BrokerError, BrokenPipeError)):
                    async for _ in count(service, abort(sent[:parts]), HEALTH):
                        pass
        assert touched == []
        # The last attempt is whole; it is charged, and nobody was counted before.
        async for _ in count(service, stream(sent), HEALTH):
            pass
    assert [charged for _, charged in touched] == [[world.charges()[0].ticket]]


def busy_journal(world: World, *, charges: int, times: int) -> list[int]:
    """A backup holds the journal from the given charge on, for so many tries; counts the tries left."""
    left = [times]

    def held(_: WatchedConnection, statement: str) -> None:
        if statement == "BEGIN IMMEDIATE" and left[0] and len(world.charges()) == charges:
            left[0] -= 1
            raise disk_error(sqlite3.SQLITE_BUSY)

    watch(world.census.journal.db, before=held)
    return left


def test_answer_that_is_paid_for_waits_for_the_journal(world: World) -> None:
    """After the charge nothing is given up: a journal that another process holds is waited for, at every step."""
    left = busy_journal(world, charges=1, times=3)
    order = world.order()
    world.charge(order)
    assert left == [0]
    left[0] = 3
    world.release(order)
    assert left == [0]
    assert world.open(order, world.sealed(order)).scale == 30
    assert len(world.charges()) == 1


def test_question_that_is_not_paid_for_does_not_wait(world: World) -> None:
    """Before the charge the health node is told to come back."""
    left = busy_journal(world, charges=0, times=1)
    with world.unchanged(), pytest.raises(RefusedError, match="BUSY"):
        world.charge(world.order())
    assert left == [0]
    world.verify_honest_query()


def test_node_that_is_to_stop_does_not_wait(world: World) -> None:
    """A stop is not held up by somebody else's lock: the next start makes the answer."""
    busy_journal(world, charges=1, times=10**9)
    world.census.stopping.set()
    order = world.order()
    with pytest.raises(RefusedError, match="BUSY"):
        world.charge(order)
    world.crash_census()
    assert tickets(world.census.recover()) == [order.hash.hex()]
    world.release(order)
    assert world.open(order, world.sealed(order)).scale == 30


# --- release ---------------------------------------------------------------------------------------------------------


def test_nothing_can_be_collected_before_the_release_is_logged(world: World) -> None:
    """A stored answer stays where it is until the log says that it may leave."""
    order = world.order()
    world.charge(order)
    body = order.body
    assert world.census.released.released_answer(body.query_id.hex(), RESEARCHER) is None
    assert world.census.released.undelivered([RESEARCHER]) == {}
    world.release(order)
    assert world.census.released.undelivered([RESEARCHER]) == {RESEARCHER: [body.query_id.hex()]}
    assert world.open(order, world.sealed(order)).query_id == body.query_id


def test_release_that_stands_in_the_log_is_told_at_its_instant(world: World) -> None:
    """Between the two it can neither be collected nor is it pushed: the log's time would tell when the desk was done."""
    order = world.order()
    world.charge(order)
    query, ticket = order.body.query_id.hex(), order.hash.hex()
    charge = Charge(HEALTH.organisation, ticket, world.entries()[-1].sequence)
    cosigned = world.census.cosigned(charge)
    assert cosigned is not None
    world.census.answers.release(charge, cosigned, at_ms=world.clock())
    assert [event.ticket for event in world.events(Released)] == [ticket]
    assert world.census.released.released_answer(query, RESEARCHER) is None
    assert world.census.released.undelivered([RESEARCHER]) == {}
    world.census.answers.let_out(charge)
    assert world.census.released.released_answer(query, RESEARCHER) is not None
    assert world.census.released.undelivered([RESEARCHER]) == {RESEARCHER: [query]}
    # The agency brings the ticket again: what is out stays out, and what is left does not grow back for a tick.
    world.census.answers.release(charge, cosigned, at_ms=world.clock())
    assert world.census.released.released_answer(query, RESEARCHER) is not None
    assert world.census.answers.held_back == frozenset()


def test_sample_of_a_roster_that_was_replaced_since_is_not_charged(world: World) -> None:
    """Its bits would be other people's places."""
    attempt = world.admit(world.messages(world.sample(world.order())))
    world.renew_rosters()
    with world.unchanged(), pytest.raises(InvalidRequestError, match="ROSTER_NOT_IN_FORCE"):
        charge_and_answer(world.census, attempt)
    world.verify_honest_query()


def test_released_entry_names_the_sealed_bytes(world: World) -> None:
    """The log fixes which bytes were released, so that a second, other answer could be shown to be one."""
    order = world.order()
    sealed = world.answer(order)
    (released,) = world.events(Released)
    assert (released.ticket, released.answer) == (order.hash.hex(), hash_bytes(sealed).hex())


def test_uncharged_ticket_cannot_be_released(world: World) -> None:
    """There is nothing to release without a charge."""
    order = world.order()
    with world.unchanged(), pytest.raises(KeyError):
        world.release(order)


def test_release_without_stored_answer_stops_the_node(world: World) -> None:
    """A charge whose answer vanished is a damaged store, not an empty answer."""
    order = world.order()
    world.charge(order)
    world.census.journal.db.execute("delete from answers")
    with world.unchanged(), pytest.raises(InternalError) as caught:
        world.release(order)
    assert caught.value.code == "INTEGRITY"


def test_researcher_collects_their_own_answers_only(world: World) -> None:
    """Another researcher's query is like one that nobody asked; the sealed bytes would not open anyway."""
    order = world.order()
    world.answer(order)
    for wanted in (order.body.query_id.hex(), "0" * 32):
        assert world.census.released.released_answer(wanted, OTHER_RESEARCHER) is None
    thief = Order(order.signed, world.order().unsealing_key, order.condition, order.nonce)
    with pytest.raises(InvalidRequestError, match="SEALED_WRONGLY"):
        world.open(thief, world.sealed(order))


def test_expired_answers_are_forgotten_and_the_charge_stays(world: World) -> None:
    """An answer waits as long as the policy says; what was paid for it is never given back."""
    order = world.order()
    world.answer(order)
    world.clock.advance(world.policy.answer_retention_ms)
    world.census.forget_expired()
    with pytest.raises(InvalidRequestError, match="ANSWER_EXPIRED"):
        world.sealed(order)
    assert len(world.charges()) == 1
    assert world.verify_log().charged_units == price(30)


@pytest.mark.parametrize("crash", [False, True])
def test_answer_that_is_not_out_never_expires(world: World, crash: bool) -> None:
    """However far the clock jumps: what was paid for is kept until its release, and as long as promised after it."""
    order = world.order()
    world.charge(order)
    world.clock.advance(1000 * world.policy.answer_retention_ms)
    world.census.forget_expired()
    if crash:
        world.crash_census()
    assert tickets(world.census.recover()) == [order.hash.hex()]
    world.release(order)
    world.clock.advance(world.policy.answer_retention_ms - 1)
    world.census.forget_expired()
    assert world.open(order, world.sealed(order)).scale == 30
    world.clock.advance(1)
    world.census.forget_expired()
    with pytest.raises(InvalidRequestError, match="ANSWER_EXPIRED"):
        world.sealed(order)


def test_exact_counts_do_not_print() -> None:
    """An exact count that is logged by accident shows a placeholder."""
    assert "secret" in repr(ExactCounts([7]))
    assert "7" not in repr(ExactCounts([7]))
