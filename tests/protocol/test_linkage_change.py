"""While two agencies change the key that links them nothing is ever compared across chains, lost, or charged in vain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from fakes.links import NO_CONTEXT, InMemoryCensus, LyingCensus, health_service
from fakes.samples import everybody
from fakes.world import HEALTH, RESEARCHER, Order, OrderedSample, World, charge_and_answer
from grpc import StatusCode
from grpc.aio import AioRpcError, Metadata
from tripartite.v1 import census_service_pb2, health_service_pb2

from broker_common.crypto.certificates import Identity
from broker_common.crypto.linkage import LinkageKey
from broker_common.errors import BrokerError
from broker_common.query.criteria import parse_condition
from broker_common.query.question import Question, parse_question
from broker_common.rpc.callers import set_caller
from broker_common.rpc.server import StopSignal
from broker_common.storage.loads import LoadFolder
from broker_common.tlog.entries import Relinked
from census_node.config import LimitConfig as CensusLimits
from census_node.dictionary import CENSUS_DICTIONARY
from census_node.node import CensusNode
from census_node.registry import Registry
from census_node.reservations import NOTHING_RESERVED
from census_node.service import CensusService
from health_node.config import LimitConfig
from health_node.dictionary import HEALTH_DICTIONARY
from health_node.forwarding import Sample
from health_node.node import Accepted, HealthNode
from health_node.people_store import PeopleStore
from health_node.service import HealthService

NEXT = LinkageKey(bytes(range(32)))
STAGES = ["STAGE_ACCEPTED", "STAGE_FORWARDED", "STAGE_CHARGED", "STAGE_RELEASED"]
QUESTIONS = ["all", "mother_tongue = 'French'", "mother_tongue = 'English'", "home_language in ('French', 'English')"]
CONDITIONS = ["age >= 0", "age = 7", "age < 30 or age > 90", "not age between 10 and 95", "age > 120"]


class Parties:
    """A health node in front of a census service, both serving all the while."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.node = world.open_health()
        self.census = CensusService(world.census, CensusLimits(), StopSignal())
        self.link = InMemoryCensus(self.census, HEALTH)
        self.service = self.health(self.link)

    def health(self, link: InMemoryCensus, node: HealthNode | None = None) -> HealthService:
        """A health service that makes one attempt, and no second one."""
        node = self.node if node is None else node
        return health_service(self.world, node, link, LimitConfig(forward_deadline_ms=0), StopSignal())

    def relink(self, *roles: str) -> None:
        """These agencies change the key, in this order."""
        for role in roles:
            if role == "health":
                self.world.relink_health(self.node, NEXT)
            else:
                self.world.relink_census(NEXT)

    @property
    def chains(self) -> list[str]:
        """What the headers of all attempts named."""
        return [call.sent[0].header.linkage for call in self.link.calls]


@pytest.fixture
async def parties(world: World) -> Parties:
    """The world's health node and census service."""
    return Parties(world)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Sample]:
    """Every sample that was drawn."""
    seen: list[Sample] = []
    sample = HealthNode.sample

    def drawing(node: HealthNode, accepted: Accepted) -> Sample:
        seen.append(sample(node, accepted))
        return seen[-1]

    monkeypatch.setattr(HealthNode, "sample", drawing)
    return seen


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every exact count that noise was added to."""
    seen: list[int] = []
    count = Registry.count

    def counting(registry: Registry, rows: npt.NDArray[np.uint32], question: Question) -> object:
        exact = count(registry, rows, question)
        seen.append(exact.reveal_to_mechanism())
        return exact

    monkeypatch.setattr(Registry, "count", counting)
    return seen


async def submit(service: HealthService, order: Order) -> list[str]:
    """Submit to the end; gives the stages."""
    set_caller(Identity("university", "researcher", RESEARCHER))
    responses = service.Submit(order.submission, NO_CONTEXT)
    return [health_service_pb2.Stage.Name(response.stage) async for response in responses]


async def failure(service: HealthService, order: Order) -> BrokerError:
    """Submit to its failure."""
    with pytest.raises(BrokerError) as caught:
        await submit(service, order)
    return caught.value


async def gone(
    requests: AsyncIterator[census_service_pb2.CountRequest],
) -> AsyncIterator[census_service_pb2.CountResponse]:
    """A census node that is not there."""
    async for _ in requests:
        raise AioRpcError(StatusCode.UNAVAILABLE, Metadata(), Metadata())
    yield census_service_pb2.CountResponse()


def chain_after(world: World) -> str:
    """The name of the chain that is in force when the key has been changed."""
    return world.secrets.linkage.with_key(NEXT).chain_id


# --- the same people -------------------------------------------------------------------------------------------------


def registry_in_force(world: World) -> Registry:
    """The census agency's registry, read as a starting node reads it."""
    state = world.verify_log()
    loads = LoadFolder(world.census_folder / "registries", ".npz")
    loads.verify(world.census.journal, state.load, state.commitments)
    return Registry.read(loads.file(state.load), state.load)


def store_in_force(world: World) -> Path:
    """The health agency's store."""
    return LoadFolder(world.health_folder / "people", ".people").file(world.verify_health_log().load)


def exact_counts(world: World) -> dict[tuple[str, str], int]:
    """Every question about every cohort, counted exactly."""
    registry = registry_in_force(world)
    counts = {}
    with PeopleStore(store_in_force(world)) as store:
        for where in CONDITIONS:
            rows = registry.rows_of(everybody(store.select(parse_condition(where, HEALTH_DICTIONARY))))
            for text in QUESTIONS:
                exact = registry.count(rows, parse_question(text, CENSUS_DICTIONARY))
                counts[where, text] = exact.reveal_to_mechanism()
    return counts


async def test_every_count_is_the_same_after_both_have_changed(parties: Parties) -> None:
    """Each person is found again with all their values on both sides, and nobody else is."""
    world = parties.world
    before = exact_counts(world)
    assert len(set(before.values())) > 8
    assert before["age >= 0", "all"] == len(world.in_census)
    assert before["age > 120", "all"] == 0
    old = registry_in_force(world)
    parties.relink("health", "census")
    assert exact_counts(world) == before
    # Nobody of the old registry is known under their old pseudonym.
    assert registry_in_force(world).rows_of(world.people).tolist() == []
    assert registry_in_force(world).size == old.size


async def test_people_whom_the_census_does_not_know_have_one_new_pseudonym_at_both(parties: Parties) -> None:
    """What a ledger of submitted pseudonyms would step, the health agency submits: nobody begins anew."""
    world = parties.world
    known = {bytes(person) for person in world.in_census}
    unknown = np.array([person for person in world.people if bytes(person) not in known])
    assert len(unknown) == 100
    parties.relink("health", "census")
    with PeopleStore(store_in_force(world)) as store:
        selected = store.select(parse_condition("age >= 0", HEALTH_DICTIONARY))
    submitted = {bytes(person) for person in everybody(selected)}
    assert {bytes(person) for person in NEXT.step(unknown)} <= submitted
    assert {bytes(person) for person in NEXT.step(world.people)} == submitted
    assert registry_in_force(world).rows_of(NEXT.step(unknown)).tolist() == []


# --- one has changed and the other has not ---------------------------------------------------------------------------


@pytest.mark.parametrize("roles", [("health", "census"), ("census", "health")])
async def test_until_both_have_changed_questions_are_refused_at_their_header(
    parties: Parties, drawn: list[Sample], roles: tuple[str, str]
) -> None:
    """In either order, nodes serving all the while: no sample is sent or charged; then the next question is answered."""
    world = parties.world
    assert await submit(parties.service, world.order()) == STAGES
    parties.relink(roles[0])
    order = world.order()
    with world.unchanged():
        for _ in range(2):
            error = await failure(parties.service, order)
            assert (error.code, error.exit_code) == ("LINKAGE_MISMATCH", 4)
            assert "Nothing was charged" in error.text
    assert parties.link.calls[1].parts == ["header"]
    ticket = world.verify_health_log().tickets[order.hash.hex()]
    assert ticket.refused == "LINKAGE_MISMATCH"
    parties.relink(roles[1])
    assert await submit(parties.service, world.order(where="age < 50")) == STAGES
    assert parties.chains == [
        world.linkage,
        chain_after(world) if roles[0] == "health" else world.linkage,
        chain_after(world),
    ]
    assert everybody(drawn[-1].people).tobytes() == registry_order(NEXT.step(world.people[places_below(50)]))
    assert len(world.charges()) == 2
    for state in (world.verify_log(), world.verify_health_log()):
        assert state.linkage == chain_after(world)
    assert len(world.events(Relinked)) == 1


def places_below(age: int) -> npt.NDArray[np.bool_]:
    """Who is younger: ages are places modulo 100."""
    below: npt.NDArray[np.bool_] = np.arange(400) % 100 < age
    return below


def registry_order(people: npt.NDArray[np.uint8]) -> bytes:
    """These pseudonyms, ascending."""
    return b"".join(sorted(bytes(person) for person in people))


async def test_refused_question_leaves_its_noise_slot_and_price_free(parties: Parties) -> None:
    """A hold that nobody lets go would take the budget of whoever asks when both have changed."""
    world = parties.world
    parties.relink("health")
    for _ in range(3):
        await failure(parties.service, world.order())
    assert world.census._reservations.reserved("", charged={}) == NOTHING_RESERVED


async def test_health_agency_of_no_chain_is_refused(world: World) -> None:
    """A header that names none, or something else than a chain, is one of another chain."""
    sample = world.sample(world.order())
    for linkage in ("", "0123456789abcdef", world.linkage.upper(), world.linkage + " ", "é" * 1000):
        messages = world.messages(sample, linkage=linkage or "x")
        messages[0].header.linkage = linkage
        with world.refusing("LINKAGE_MISMATCH"):
            world.admit(messages)


# --- the header on its way -------------------------------------------------------------------------------------------


def test_chain_that_was_altered_on_the_way_does_not_pass(world: World) -> None:
    """A header of the old chain, made to name the new one: the frame key was sealed for the old one and stays shut."""
    sample = world.sample(world.order())
    messages = world.messages(sample)
    world.relink_census(NEXT)
    messages[0].header.linkage = chain_after(world)
    with world.unchanged(), pytest.raises(BrokerError, match="SEALED_WRONGLY"):
        world.admit(messages)
    world.follow(NEXT)
    world.verify_honest_query()


def test_chain_of_a_charged_ticket_cannot_be_altered_either(world: World) -> None:
    """Good for ever is the ticket as it was charged; its retry names the chain that its sample was made with."""
    order = world.order()
    sample = world.sample(order)
    world.charge(order, sample)
    world.relink_census(NEXT)
    messages = world.messages(sample)
    messages[0].header.linkage = chain_after(world)
    with world.unchanged(), pytest.raises(BrokerError, match="SEALED_WRONGLY"):
        world.admit(messages)


# --- across the change -----------------------------------------------------------------------------------------------


def charge_only(world: World, sample: OrderedSample) -> None:
    """Up to the durable charge, and no further."""
    admitted = world.admit(world.messages(sample))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CensusNode, "answer", lambda *_: None)
        charge_and_answer(world.census, admitted)


def finish_by_recovery(world: World, sample: OrderedSample) -> None:
    """What a node does by itself after a start."""
    assert world.census.recover() == [sample.order.hash.hex()]


def finish_by_retry(world: World, sample: OrderedSample) -> None:
    """What the health node does when it heard nothing."""
    charge_and_answer(world.census, world.admit(world.messages(sample)))


@pytest.mark.parametrize("finish", [finish_by_recovery, finish_by_retry])
def test_what_was_charged_before_is_counted_on_the_old_chain(
    world: World, counted: list[int], finish: Callable[[World, OrderedSample], None]
) -> None:
    """Charged, the key changed, the node died: the old registry has stayed for it, and counts the same people."""
    expected = world.sample(world.order())
    world.answer(expected.order, expected)
    sample = world.sample(world.order())
    charge_only(world, sample)
    old = world.verify_log().load
    world.relink_census(NEXT)
    world.crash_census()
    registries = world.census_folder / "registries"
    assert {path.stem for path in registries.iterdir()} == {old, world.verify_log().load}
    finish(world, sample)
    world.census.release(sample.order.hash.hex())
    assert world.open(sample.order, world.sealed(sample.order)).scale == 30
    assert counted[0] == counted[1] > 0
    assert len(world.charges()) == 2
    # The next change or load takes the old registry away.
    world.follow(NEXT)
    world.verify_honest_query()
    world.relink_census(LinkageKey(bytes(32)))
    assert [path.stem for path in registries.iterdir()] == [world.verify_log().load]


async def test_retry_of_a_charged_ticket_finds_its_charge(parties: Parties, drawn: list[Sample]) -> None:
    """The line is lost at the charge, both change the key, both die: the same set under the old chain, the same answer."""
    world, order = parties.world, parties.world.order()
    link = LyingCensus(parties.census, HEALTH)

    async def lost_after_the_charge(
        requests: AsyncIterator[census_service_pb2.CountRequest],
    ) -> AsyncIterator[census_service_pb2.CountResponse]:
        async for response in link.honestly(requests):
            if response.HasField("charged"):
                raise AioRpcError(StatusCode.UNAVAILABLE, Metadata(), Metadata())
            yield response

    link.scripts.append(lost_after_the_charge)
    assert (await failure(parties.health(link), order)).code == "PEER_UNAVAILABLE"
    await parties.census.drain()
    sealed = world.sealed(order)
    parties.relink("census", "health")
    census = CensusService(world.crash_census(), CensusLimits(), StopSignal())
    after = InMemoryCensus(census, HEALTH)
    service = parties.health(after, world.crash_health())
    assert await submit(service, order) == STAGES
    assert world.sealed(order) == sealed
    assert after.calls[0].sent[0].header.linkage == world.linkage
    assert everybody(drawn[0].people).tobytes() == everybody(drawn[1].people).tobytes()
    assert drawn[0].set_salt == drawn[1].set_salt
    assert len(world.charges()) == 1
    # And what is asked anew goes by the new chain.
    assert await submit(service, world.order()) == STAGES
    assert after.calls[1].sent[0].header.linkage == chain_after(world)


@pytest.mark.parametrize("restarted", [False, True])
async def test_retry_of_an_uncharged_ticket_is_refused_and_closed(parties: Parties, restarted: bool) -> None:
    """Accepted before and never charged, it belongs to the old chain: no sample is sent, no charge, and asking anew works."""
    world, order = parties.world, parties.world.order()
    assert (await failure(parties.health(LyingCensus(parties.census, HEALTH, gone)), order)).code == "PEER_UNAVAILABLE"
    parties.relink("health", "census")
    service = parties.health(parties.link, world.crash_health()) if restarted else parties.service
    with world.unchanged():
        if restarted:
            # As a starting node does, without being asked.
            await service.recover()
            await asyncio.wait(service._tasks)
        assert (await failure(service, order)).code == "LINKAGE_MISMATCH"
    assert [call.parts for call in parties.link.calls] == [["header"]]
    assert parties.chains == [world.linkage]
    assert world.verify_health_log().tickets[order.hash.hex()].refused == "LINKAGE_MISMATCH"
    assert await submit(service, world.order()) == STAGES


async def test_ticket_of_the_old_chain_goes_through_while_the_census_has_it(parties: Parties) -> None:
    """The health agency has changed, its accepted ticket has not, the census agency neither: charged on the old chain."""
    world, order = parties.world, parties.world.order()
    assert (await failure(parties.health(LyingCensus(parties.census, HEALTH, gone)), order)).code == "PEER_UNAVAILABLE"
    parties.relink("health")
    assert {path.suffix for path in (world.health_folder / "people").iterdir()} == {".people"}
    assert await submit(parties.service, order) == STAGES
    assert parties.chains == [world.linkage]
    assert (await failure(parties.service, world.order())).code == "LINKAGE_MISMATCH"


def test_logs_hold_nothing_but_the_names_of_chains(world: World) -> None:
    """Neither key nor pseudonym enters the log; a chain's name says nothing about either."""
    world.relink_census(NEXT)
    log = b"".join(repr(entry).encode() for entry in world.entries())
    for key in (*world.secrets.linkage.keys, NEXT):
        assert key.expose().hex().encode() not in log
        assert key.key_id.encode() not in log
    assert world.linkage.encode() in log
