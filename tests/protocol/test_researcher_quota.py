"""The quota of a researcher: what one researcher's samples take of the census agency's disk is bounded by a published number.

It follows from the researcher's own questions and from instants that they see; no size and no instant of a charge has a part in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fakes.dictionaries import CENSUS_DICTIONARY
from fakes.links import NO_CONTEXT, arrived
from fakes.quotes import quote_of
from fakes.world import (
    FRENCH,
    HEALTH,
    OTHER_RESEARCHER,
    OWNER,
    RESEARCHER,
    Order,
    World,
    charge_and_answer,
    make_policy,
)
from tripartite.v1 import census_service_pb2, quote_pb2

from broker_common.errors import RefusedError
from broker_common.privacy.delays import DECLARED_STEP
from broker_common.query.question import parse_question
from broker_common.rpc.callers import set_caller
from broker_common.rpc.server import StopSignal
from census_node.config import LimitConfig
from census_node.ledger.samples import KeptSamples, SampleFolder, bytes_of_samples
from census_node.query.admission import SampleAttempt
from census_node.service import CensusService

QUOTA, RETENTION_MS = 3, 3_600_000
RULES = make_policy(accounting="per_person", researcher_answers=QUOTA, sample_retention_ms=RETENTION_MS)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A census agency that keeps the samples of three answers for each researcher, for an hour."""
    made = World(tmp_path, RULES)
    yield made
    made.close()


def admitted(world: World, order: Order) -> SampleAttempt:
    """The order's sample with a place in line: nothing of it has been done."""
    attempt = world.census.attempt(HEALTH.organisation, arrived(world.messages(world.sample(order))))
    attempt.verify_claim()
    attempt.verify_sample()
    return attempt


def left(world: World) -> int | None:
    """The remaining quota in a quote; 0 where it is refused."""
    try:
        return world.census.quotes.quota_left(RESEARCHER)
    except RefusedError as error:
        return 0 if error.code == "QUOTA_REACHED" else None


def kept(world: World) -> KeptSamples:
    """Files in the census agency's folder of samples."""
    return SampleFolder(world.census_folder / "samples").kept()


async def quote(world: World) -> quote_pb2.Quote:
    """A quote as the service makes it."""
    set_caller(OWNER)
    service = CensusService(world.census, LimitConfig(), StopSignal(), people=DECLARED_STEP)
    question = parse_question(FRENCH, CENSUS_DICTIONARY).to_wire()
    return quote_of(await service.Quote(census_service_pb2.QuoteRequest(question=question, scale=30), NO_CONTEXT))


def test_one_researcher_does_not_fill_the_census_disk(world: World) -> None:
    """Question after question about everybody: no more samples are kept than the quota, whatever the researcher does."""
    most, taken, refused = bytes_of_samples(world.places, len(world.in_census), QUOTA), [], list[str]()
    for _ in range(4 * QUOTA):
        order = world.order()
        try:
            world.answer(order)
        except RefusedError as error:
            refused.append(error.code)
        world.clock.advance(RETENTION_MS // 8)
        world.census.forget_expired()
        taken.append(kept(world).size_bytes)
    assert max(taken) == most
    # Three in the first hour, and one more as each of their samples goes.
    assert refused == ["QUOTA_REACHED"] * (4 * QUOTA - 2 * QUOTA)
    world.verify_log()


async def test_quota_is_refused_when_quoted_and_says_when_to_come_back(world: World) -> None:
    """Before a slot is reserved and before a sample is drawn; nothing is charged."""
    started_ms = world.clock()
    for number in range(QUOTA):
        quoted = await quote(world)
        assert (quoted.quota, quoted.quota_left) == (QUOTA, QUOTA - number)
        world.answer(world.order())
        world.clock.advance(60_000)
    with world.unchanged(), pytest.raises(RefusedError) as caught:
        await quote(world)
    free = datetime.fromtimestamp(-(-(started_ms + RETENTION_MS) // 1000), UTC).strftime("%Y-%m-%d %H:%M:%S")
    assert (caught.value.code, caught.value.details) == ("QUOTA_REACHED", {"quota": str(QUOTA), "time": free})
    world.clock.advance(RETENTION_MS - QUOTA * 60_000)
    assert (await quote(world)).quota_left == 1


async def test_strict_accounting_and_no_quota_say_nothing_of_one(tmp_path: Path) -> None:
    """Strict accounting keeps no samples; 0 is no quota."""
    for name, rules in (
        ("strict", make_policy(researcher_answers=QUOTA)),
        ("none", make_policy(accounting="per_person", researcher_answers=0)),
    ):
        world = World(tmp_path / name, rules)
        for _ in range(QUOTA + 1):
            world.answer(world.order())
        quoted = await quote(world)
        assert not quoted.HasField("quota")
        assert not quoted.HasField("quota_left")
        world.close()


def test_quota_is_decided_in_the_order_of_arrival(world: World) -> None:
    """A question with a place in line has its part of the quota, before any work on it is done."""
    for _ in range(QUOTA - 1):
        world.answer(world.order())
    first, second = world.order(), world.order()
    accepted = admitted(world, first)
    with world.unchanged(), pytest.raises(RefusedError, match="QUOTA_REACHED"):
        admitted(world, second)
    # Another attempt of the ticket that is in hand is none of the others.
    again = admitted(world, first)
    accepted.let_go()
    with pytest.raises(RefusedError, match="QUOTA_REACHED"):
        admitted(world, second)
    # When the last attempt is over, uncharged, its place is free.
    again.let_go()
    admitted(world, second).let_go()
    world.verify_honest_query()


def test_quota_left_does_not_tell_when_a_charge_is_made(world: World) -> None:
    """In line, charged, answered and out are one question each; what is left changes with arrivals and after releases only."""
    order = world.order()
    said = [left(world)]
    attempt = admitted(world, order)
    said.append(left(world))
    kept_now = world.census.keeping.keep(attempt)
    said.append(left(world))
    charge = world.census.charging.charge(attempt, kept_now, at_ms=world.clock())
    said.append(left(world))
    world.census.answers.make(charge, world.census.journal.prove(charge.index))
    world.census.publication.publish(charge.index + 1)
    said.append(left(world))
    # However long the answer waits for its cosignature.
    world.clock.advance(2 * RETENTION_MS)
    said.append(left(world))
    world.release(order)
    attempt.let_go()
    said.append(left(world))
    world.clock.advance(RETENTION_MS - 1)
    said.append(left(world))
    world.clock.advance(1)
    said.append(left(world))
    assert said == [3, 2, 2, 2, 2, 2, 2, 2, 3]


@pytest.mark.parametrize("people", [0, 1, 400])
def test_quota_counts_questions_and_no_people(world: World, people: int) -> None:
    """An empty sample counts like one of everybody: a limit on bytes would tell sizes."""
    for number in range(QUOTA):
        assert left(world) == QUOTA - number
        order = world.order()
        world.answer(order, world.sample(order, world.people[:people]))
    assert left(world) == 0


def test_quota_of_one_researcher_refuses_nobody_else(world: World) -> None:
    """The other one's questions are charged and answered."""
    for _ in range(QUOTA):
        world.answer(world.order())
    assert left(world) == 0
    assert world.census.quotes.quota_left(OTHER_RESEARCHER) == QUOTA
    world.answer(world.order(OTHER_RESEARCHER))


def test_quota_survives_a_restart(world: World) -> None:
    """It is a fold of the log: a crash of the node frees nothing of it."""
    for _ in range(QUOTA):
        world.answer(world.order())
    world.crash_census().recover()
    assert left(world) == 0


def test_charge_under_a_clock_that_went_back_is_refused_and_stops_nobody(world: World) -> None:
    """The sample was admitted at an instant that has not come again: refused, uncharged; the log never holds a violation."""
    for _ in range(QUOTA):
        world.answer(world.order())
    world.clock.advance(RETENTION_MS)
    order = world.order()
    sample = world.admit(world.messages(world.sample(order)))
    world.clock.advance(-60_000)
    with world.unchanged(), pytest.raises(RefusedError, match="QUOTA_REACHED"):
        charge_and_answer(world.census, sample)
    assert not world.census.journal.is_broken
    world.clock.advance(60_000)
    world.answer(order)


def test_ticket_that_was_charged_gets_its_answer_whatever_the_quota(world: World) -> None:
    """It is good for ever: brought again when the quota is used up, it has its charge and its answer."""
    samples = [world.sample(world.order()) for _ in range(QUOTA)]
    for sample in samples:
        world.answer(sample.order, sample)
    world.order_policy(make_policy(accounting="per_person", researcher_answers=1, sample_retention_ms=RETENTION_MS))
    with pytest.raises(RefusedError, match="QUOTA_REACHED"):
        admitted(world, world.order())
    for sample in samples:
        assert world.answer(sample.order, sample)
