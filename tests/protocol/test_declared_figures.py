"""Limits and delays follow from the declaration: nobody learns from a refusal how many people are loaded, or match."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fakes.links import NO_CONTEXT, InMemoryCensus, health_service
from fakes.world import HEALTH, RESEARCHER, World, make_policy

from broker_common.crypto.certificates import Identity
from broker_common.errors import BrokerError
from broker_common.privacy.delays import DECLARED_STEP, least_forward_delay_ms
from broker_common.privacy.policy import Policy
from broker_common.rpc.callers import set_caller
from broker_common.rpc.server import StopSignal
from census_node.config import LimitConfig as CensusLimits
from census_node.service import CensusService
from health_node.config import LimitConfig
from health_node.node import HealthNode
from health_node.people.store import PeopleStore

TICKING = make_policy(tick_ms=250, delay_ms=least_forward_delay_ms(DECLARED_STEP))
Refusal = tuple[str, str, str]


@contextmanager
def made(directory: Path, policy: Policy, *, people: int, places: int) -> Iterator[tuple[World, HealthNode]]:
    """A world with so many people of so many places, and its health node."""
    world = World(directory, policy, people=people, places=places)
    try:
        yield world, world.open_health()
    finally:
        world.close()


async def refusal(world: World, node: HealthNode, where: str) -> Refusal:
    """All that a researcher is told of a question that the health node refuses; nothing is logged of it."""
    census = CensusService(world.census, CensusLimits(), StopSignal(), people=DECLARED_STEP)
    service = health_service(world, node, InMemoryCensus(census, HEALTH), LimitConfig(), StopSignal())
    set_caller(Identity("university", "researcher", RESEARCHER))
    order = world.order(where=where)
    with pytest.raises(BrokerError) as caught:
        async for _ in service.Submit(order.submission, NO_CONTEXT):
            pass
    assert not world.verify_health_log().tickets
    assert not world.charges()
    return caught.value.code, caught.value.text, caught.value.hint


def dear(pairs: int, end: str) -> str:
    """Criteria tuned to be slow; `end` says whether they match nobody or everybody."""
    values = "1,3,5,7,9,11,13"
    return " or ".join(f"(hospital_visits in ({values}) and emergency_visits = {at})" for at in range(pairs)) + end


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every sample that is drawn, in order."""
    samples: list[object] = []
    mark = PeopleStore.mark

    def noting(store: PeopleStore, *words: Any, **named: Any) -> object:
        samples.append(words)
        return mark(store, *words, **named)

    monkeypatch.setattr(PeopleStore, "mark", noting)
    return samples


async def test_criteria_tuned_to_be_slow_are_refused_from_their_text_alone(tmp_path: Path, drawn: list[object]) -> None:
    """Matching nobody or everybody, on a load of one person or of all: one refusal, before anything is logged or drawn."""
    heard = set()
    with made(tmp_path, TICKING, people=40, places=DECLARED_STEP) as (world, node):
        for people in (40, 1, 17):
            world.load_health(people)
            for end in (" or age >= 0", " or age > 120"):
                heard.add(await refusal(world, node, dear(45, end)))
        ((code, text, _),) = heard
    assert code == "CRITERIA_TOO_DEAR"
    assert "comparisons of this kind" in text
    assert drawn == []


async def test_price_follows_from_what_is_declared(tmp_path: Path) -> None:
    """The same criteria pass where fewer places are declared; how many people there are changes nothing."""
    passed, text = [], dear(30, " or age >= 0")
    for places in (DECLARED_STEP, DECLARED_STEP // 4):
        with made(tmp_path / str(places), TICKING, people=40, places=places) as (world, node):
            order = world.order(where=text)
            try:
                node.verify(order.submission, RESEARCHER, TICKING)
                passed.append(places)
            except BrokerError as error:
                assert error.code == "CRITERIA_TOO_DEAR"  # noqa: PT017 - either may happen
    assert passed == [DECLARED_STEP // 4]


async def test_accepted_question_goes_on_when_a_policy_would_no_longer_pay_for_it(tmp_path: Path) -> None:
    """An accepted question is never refused for its price: it is priced once."""
    rich = make_policy(tick_ms=250, delay_ms=2000)
    with made(tmp_path, rich, people=40, places=DECLARED_STEP) as (world, node):
        order = world.order(where=dear(45, " or age >= 0"))
        ticket = node.verify(order.submission, RESEARCHER, rich)
        node.accept(order.submission, ticket)
        assert node.verify(order.submission, RESEARCHER, TICKING).ticket.hash == ticket.ticket.hash


async def test_exact_number_of_loaded_people_decides_nothing_that_a_researcher_sees(tmp_path: Path) -> None:
    """Neighbouring loads under a policy that does not fit: one refusal, in the same words."""
    policy = make_policy(tick_ms=250, delay_ms=10)
    with made(tmp_path, policy, people=300, places=DECLARED_STEP) as (world, node):
        heard = set()
        for people in (298, 299, 300, 1):
            world.load_health(people)
            heard |= {await refusal(world, node, where) for where in ("age >= 0", "age > 120")}
        ((code, text, hint),) = heard
    assert code == "POLICY_TOO_NARROW"
    assert "forward_delay_ms is 10" in text
    assert f"--forward-delay-ms {least_forward_delay_ms(DECLARED_STEP)}" in hint


async def test_a_policy_of_another_linkage_than_the_health_dictionary_s_is_refused(tmp_path: Path) -> None:
    """Before anybody is looked at: the census agency would charge others than those of whom a record decides."""
    policy = make_policy(linkage="household", subject="household", accounting="per_person")
    with made(tmp_path, policy, people=40, places=DECLARED_STEP) as (world, node):
        code, text, _ = await refusal(world, node, "age >= 0")
    assert code == "LINKAGE_MISMATCH"
    assert "different forms of ids or linkages" in text


async def test_load_at_the_limit_passes_as_any_other(tmp_path: Path) -> None:
    """Where the policy admits what is declared, every load within it is asked alike."""
    policy = make_policy()
    with made(tmp_path, policy, people=300, places=300) as (world, node):
        for people in (299, 300, 1):
            world.load_health(people)
            order = world.order()
            assert node.verify(order.submission, RESEARCHER, policy).ticket.hash == order.hash
