"""The health service between a researcher and a census node that lies, fails, or is not there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest
from fakes.dictionaries import CENSUS_DICTIONARY
from fakes.links import (
    NO_CONTEXT,
    CountScript,
    InMemoryCensus,
    count,
    health_service,
    on_the_wire,
    stream,
)
from fakes.patience import PATIENCE_SECONDS, until
from fakes.registries import write_registry
from fakes.world import CENSUS, HEALTH, OTHER_RESEARCHER, RESEARCHER, Order, World, make_policy
from grpc import StatusCode
from grpc.aio import AioRpcError, Metadata
from protocol.dishonest import refusing, signed_refusal
from protocol.pair import census_at_work
from tripartite.v1 import census_service_pb2, health_service_pb2, policy_pb2, sample_pb2, ticket_pb2

from broker_common.crypto.certificates import Identity
from broker_common.crypto.commitments import hash_bytes
from broker_common.crypto.linkage import LinkageKey
from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import (
    BrokerError,
    InternalError,
    InvalidRequestError,
    PeerUnavailableError,
    RefusedError,
    StateUnknownError,
)
from broker_common.parties.registration import revoke
from broker_common.query.refusal import parse_refusal
from broker_common.rpc.callers import set_caller
from broker_common.rpc.server import StopSignal
from broker_common.storage.clock import system_clock
from broker_common.storage.loads import LoadFolder
from broker_common.tlog.entries import Forwarded, Refused
from census_node.config import LimitConfig as CensusLimits
from census_node.ledger.samples import SampleFolder
from census_node.operator import operating
from health_node.config import LimitConfig
from health_node.node import Accepted, HealthNode
from health_node.query.forwarding import Sample
from health_node.service import HealthService

Requests = AsyncIterator[census_service_pb2.CountRequest]
Responses = AsyncIterator[census_service_pb2.CountResponse]
CountResponse = census_service_pb2.CountResponse
STAGES = ["STAGE_ACCEPTED", "STAGE_FORWARDED", "STAGE_CHARGED", "STAGE_RELEASED"]
# One attempt, and no second one.
ONCE = LimitConfig(forward_deadline_ms=0)


class Parties:
    """A health node in front of a census service, in one process."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.node = world.open_health()
        self.census_stop = StopSignal()
        self.census = census_at_work(world, CensusLimits(), self.census_stop)
        self.stop = StopSignal()

    def honest(self) -> InMemoryCensus:
        return InMemoryCensus(self.census, HEALTH)

    def lying(self, *scripts: CountScript) -> InMemoryCensus:
        return InMemoryCensus(self.census, HEALTH, *scripts)

    def health(
        self, link: InMemoryCensus | None = None, limits: LimitConfig = ONCE, node: HealthNode | None = None
    ) -> HealthService:
        """The health service over a link to the census."""
        return health_service(
            self.world,
            self.node if node is None else node,
            self.honest() if link is None else link,
            limits,
            self.stop,
        )


@pytest.fixture
async def parties(world: World) -> Parties:
    """The world's health node and census service."""
    return Parties(world)


async def submit(service: HealthService, order: Order, researcher: str = RESEARCHER) -> list[str]:
    """Submit as `researcher` to the end; gives the stages."""
    set_caller(Identity("university", "researcher", researcher))
    responses = service.Submit(order.submission, NO_CONTEXT)
    return [health_service_pb2.Stage.Name(response.stage) async for response in responses]


async def failure(service: HealthService, order: Order, researcher: str = RESEARCHER) -> BrokerError:
    """Submit to its failure."""
    with pytest.raises(BrokerError) as caught:
        await submit(service, order, researcher)
    return caught.value


async def test_honest_question_goes_through_four_stages(parties: Parties) -> None:
    """Accepted, forwarded, charged, released; then the researcher's answer is out."""
    world, order = parties.world, parties.world.order()
    assert await submit(parties.health(), order) == STAGES
    assert world.open(order, world.sealed(order)).scale == 30
    assert world.verify_health_log().tickets[order.hash.hex()].settled
    assert parties.stop.error is None


async def test_stages_are_the_same_for_any_cohort(parties: Parties) -> None:
    """Nobody, one person or everybody: what the researcher sees on the way does not tell."""
    for where in ("age > 120", "age = 3", "age >= 0"):
        assert await submit(parties.health(), parties.world.order(where=where)) == STAGES


async def test_settled_question_is_answered_from_the_log(parties: Parties) -> None:
    """Submitted again, a settled ticket goes through the same stages without another sample."""
    order, link = parties.world.order(), parties.lying()
    link.scripts.append(link.honestly)
    service = parties.health(link)
    assert await submit(service, order) == await submit(service, order) == STAGES
    assert link.attempts == 1
    assert len(parties.world.charges()) == 1


async def test_two_submissions_at_once_are_one_walk(parties: Parties) -> None:
    """Any number of connections may watch one question; it is forwarded once."""
    order, link = parties.world.order(), parties.lying()
    link.scripts.append(link.honestly)
    service = parties.health(link)
    stages = await asyncio.gather(*(submit(service, order) for _ in range(8)))
    assert stages == [STAGES] * 8
    assert link.attempts == 1
    assert len(parties.world.charges()) == 1


async def test_question_goes_on_when_its_researcher_is_gone(parties: Parties) -> None:
    """An accepted question no longer depends on the connection that brought it."""
    order, service = parties.world.order(), parties.health()
    accepted = asyncio.Event()

    async def watch() -> None:
        set_caller(Identity("university", "researcher", RESEARCHER))
        async for _ in service.Submit(order.submission, NO_CONTEXT):
            accepted.set()
            await asyncio.Event().wait()

    watching = asyncio.create_task(watch())
    await accepted.wait()
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
    await service.flow.drain()
    await parties.census.drain()
    assert parties.world.open(order, parties.world.sealed(order)).scale == 30


# --- a census node that lies -----------------------------------------------------------------------------------------


async def release_at_once(requests: Requests) -> Responses:
    """Says that the answer is out, without any charge."""
    del requests
    yield CountResponse(released=sample_pb2.Released())


async def say_nothing(requests: Requests) -> Responses:
    """Sends a message without content."""
    del requests
    yield CountResponse()


async def charge_at_once(requests: Requests) -> Responses:
    """Claims a charge before there is a sample."""
    del requests
    yield CountResponse(charged=sample_pb2.Charged(log_index=3))


async def charge_without_proof(requests: Requests) -> Responses:
    """Takes the sample and claims a charge."""
    async for _ in requests:
        pass
    yield CountResponse(charged=sample_pb2.Charged(log_index=3))


async def release_without_charge(requests: Requests) -> Responses:
    """Takes the sample and says that the answer is out."""
    async for _ in requests:
        pass
    yield CountResponse(released=sample_pb2.Released())


async def unknown_field(requests: Requests) -> Responses:
    """Says something that this version does not know."""
    del requests
    yield CountResponse.FromString(CountResponse(released=sample_pb2.Released()).SerializeToString() + b"\xf8\x07\x01")


LIES: list[CountScript] = [
    release_at_once,
    say_nothing,
    charge_at_once,
    charge_without_proof,
    release_without_charge,
]


@pytest.mark.parametrize("lie", LIES)
async def test_lie_about_a_sample_is_found_out_and_the_node_goes_on(parties: Parties, lie: CountScript) -> None:
    """A lie of the census node is the census node's fault: this ticket stays open, and the health node keeps serving."""
    order, link = parties.world.order(), parties.lying(lie)
    service = parties.health(link)
    assert (await failure(service, order)).code == "PEER_MISBEHAVED"
    assert parties.stop.error is None
    ticket = parties.world.verify_health_log().tickets[order.hash.hex()]
    assert ticket.is_open
    assert not ticket.charged
    link.scripts.append(link.honestly)
    assert await submit(service, order) == STAGES
    assert len(parties.world.charges()) == 1


async def test_message_that_is_understood_in_part_only_is_not_obeyed(parties: Parties) -> None:
    """The agencies do not agree on what is said: nothing is concluded from it, and the ticket stays open."""
    order = parties.world.order()
    error = await failure(parties.health(parties.lying(unknown_field)), order)
    assert (error.code, error.details["reason"]) == ("PEER_FAILED", "MALFORMED_MESSAGE")
    assert parties.stop.error is None
    assert parties.world.verify_health_log().tickets[order.hash.hex()].is_open
    assert await submit(parties.health(), order) == STAGES


async def test_proof_of_another_tickets_charge_is_found_out(parties: Parties) -> None:
    """A true charge, truly in the log, but of another question, is not ours."""
    world, link = parties.world, parties.lying()
    other = world.order()
    sample = world.sample(other)

    async def charge_another(requests: Requests) -> Responses:
        async for _ in requests:
            pass
        async for response in count(parties.census, stream(world.messages(sample)), HEALTH):
            yield response

    link.scripts.append(charge_another)
    order = world.order()
    assert (await failure(parties.health(link), order)).code == "PEER_MISBEHAVED"
    assert not world.verify_health_log().tickets[order.hash.hex()].charged


BROKEN_STORES: list[BrokerError] = [
    InternalError("INTEGRITY", problem="of my own making"),
    InternalError("STORE_FAILED"),
    InternalError("INTERNAL"),
    StateUnknownError("STATE_UNKNOWN"),
]


@pytest.mark.parametrize("broken", BROKEN_STORES)
@pytest.mark.parametrize("where", ["Count", "GetPolicy"])
async def test_failing_store_of_the_census_node_does_not_stop_the_health_node(
    parties: Parties, broken: BrokerError, where: str
) -> None:
    """A peer that says that its own store is broken, truly or not, stops itself and nobody else."""

    async def fail(requests: Requests) -> Responses:
        del requests
        raise on_the_wire(broken)
        yield CountResponse()

    async def fail_policy() -> policy_pb2.SignedPolicy:
        raise on_the_wire(broken)

    link = InMemoryCensus(parties.census, HEALTH, fail, policy=fail_policy if where == "GetPolicy" else None)
    error = await failure(parties.health(link), parties.world.order())
    assert (error.code, error.details) == ("PEER_FAILED", {"peer": "census", "reason": broken.code})
    assert not error.stops_node
    assert parties.stop.error is None
    assert await submit(parties.health(), parties.world.order()) == STAGES


@pytest.mark.parametrize("error", BROKEN_STORES)
async def test_failing_census_node_is_asked_again(parties: Parties, error: BrokerError) -> None:
    """A census node with a fault of its own may be restarted: the same ticket and set go there again, charged once."""
    order, link = parties.world.order(), parties.lying()

    async def fail(requests: Requests) -> Responses:
        del requests
        raise on_the_wire(error)
        yield CountResponse()

    link.scripts.extend([fail, link.honestly])
    assert await submit(parties.health(link, LimitConfig()), order) == STAGES
    assert link.attempts == 2
    assert len(parties.world.charges()) == 1
    assert parties.stop.error is None


@pytest.mark.parametrize("status", [StatusCode.INTERNAL, StatusCode.PERMISSION_DENIED, StatusCode.UNKNOWN])
async def test_error_of_no_known_kind_is_the_peers_misbehaviour(parties: Parties, status: StatusCode) -> None:
    """A status without one of our reasons is not guessed at."""

    async def fail(requests: Requests) -> Responses:
        del requests
        raise AioRpcError(status, Metadata(), Metadata(), details="French: 17")
        yield CountResponse()

    error = await failure(parties.health(parties.lying(fail)), parties.world.order())
    assert error.code == "PEER_MISBEHAVED"
    assert "17" not in str(error)


async def signed_by_somebody(world: World) -> policy_pb2.SignedPolicy:
    """A policy with another key's signature."""
    document = world.policy.document
    return policy_pb2.SignedPolicy(
        document=document, signature=world.secrets.ticket[RESEARCHER].sign(document), key_id="0" * 16
    )


async def altered(world: World) -> policy_pb2.SignedPolicy:
    """The agency's policy with a larger cap under the old signature."""
    return policy_pb2.SignedPolicy(
        document=world.policy.document.replace(b'"0.8"', b'"0.9"'),
        signature=world.secrets.policy.sign(world.policy.document),
        key_id=world.secrets.policy.key_id,
    )


async def no_policy(world: World) -> policy_pb2.SignedPolicy:
    """Signed, and not a policy."""
    return policy_pb2.SignedPolicy(
        document=b"{}", signature=world.secrets.policy.sign(b"{}"), key_id=world.secrets.policy.key_id
    )


@pytest.mark.parametrize("policy", [signed_by_somebody, altered, no_policy])
async def test_policy_that_its_agency_did_not_sign_is_not_obeyed(
    parties: Parties, policy: Callable[[World], object]
) -> None:
    """Delays, scales and limits come from the signed policy only; nothing is accepted under another."""
    link = InMemoryCensus(parties.census, HEALTH, release_at_once, policy=lambda: policy(parties.world))  # type: ignore[arg-type,return-value]  # one of the three above
    assert (await failure(parties.health(link), parties.world.order())).code == "PEER_MISBEHAVED"
    assert not parties.world.verify_health_log().tickets
    assert link.attempts == 0


# --- a ticket that the census node condemns --------------------------------------------------------------------------


def ask_for(variable: str, value: str) -> Callable[[World], Order]:
    """An order with another question than any that is offered."""

    def change(body: ticket_pb2.Ticket) -> None:
        body.question.CopyFrom(ticket_pb2.Question(variable=variable, cells=[ticket_pb2.Cell(values=[value])]))

    return lambda world: world.order(change=change)


def borrow_slot(world: World) -> Order:
    """A slot that another researcher's quote reserved."""
    return world.order(slot=world.reserve(OTHER_RESEARCHER))


def reuse_slot(world: World) -> Order:
    """A slot that has served."""
    first = world.order()
    world.answer(first)
    return world.order(slot=first.body.noise_slot.number)


def outlive_quote(world: World) -> Order:
    """A ticket that lives longer than its slot's reservation."""
    order = world.order(change=lambda body: setattr(body, "expires_ms", body.expires_ms + 60_000))
    world.clock.advance(world.policy.quote_lifetime_ms)
    return order


def shut_down(world: World) -> Order:
    """An order that comes after the end."""
    order = world.order()
    world.shut_down()
    return order


def spend(world: World) -> Order:
    """An order that the budget does not pay for any more: ln 4 pays for one answer at scale 1."""
    world.answer(world.order(scale=1))
    return world.order(scale=1)


def strike_off(world: World) -> Order:
    """An order of a researcher whom the census agency does not know."""
    revoke(world.census.journal, "researcher", RESEARCHER, "the study is over")
    return world.order()


def part_ways(world: World) -> Order:
    """The census agency takes no samples of the health agency any more."""
    revoke(world.census.journal, "health", HEALTH.organisation, "the agreement has ended")
    return world.order()


def change_linkage_key(world: World) -> Order:
    """An order that comes when the census agency has changed the linkage key and the health agency has not."""
    world.relink_census(LinkageKey(bytes(32)))
    return world.order()


CONDEMNED: dict[str, tuple[Callable[[World], Order], str]] = {
    "a slot that nobody reserved": (lambda world: world.order(slot=4711), "SLOT_UNUSABLE"),
    "a slot of another researcher": (borrow_slot, "SLOT_UNUSABLE"),
    "a slot that has served": (reuse_slot, "SLOT_UNUSABLE"),
    "a slot of an expired quote": (outlive_quote, "SLOT_UNUSABLE"),
    "another census release": (
        lambda world: world.order(change=lambda body: setattr(body, "census_release", "2016")),
        "RELEASE_MISMATCH",
    ),
    # Until the other agency has changed it too, and sends the roster of the new chain.
    "another linkage chain": (change_linkage_key, "ROSTER_NOT_IN_FORCE"),
    "a scale that is not admitted": (lambda world: world.order(scale=51), "SCALE_REFUSED"),
    "an unknown variable": (ask_for("religion", "French"), "UNKNOWN_VARIABLE"),
    "an unknown value": (ask_for("mother_tongue", "Klingon"), "UNKNOWN_VALUE"),
    "a budget that is spent": (spend, "BUDGET_EXHAUSTED"),
    "a service that is shut": (shut_down, "SERVICE_SHUT_DOWN"),
    "an unknown researcher": (strike_off, "UNKNOWN_RESEARCHER"),
    # Nothing that the researcher can mend.
    "an unknown health agency": (part_ways, "PEER_FAILED"),
}


@pytest.mark.parametrize("why", CONDEMNED)
async def test_ticket_that_is_condemned_charges_nothing(parties: Parties, why: str) -> None:
    """However often such a ticket comes; what is sent of it is what is sent of any, and our log shows that it was forwarded once."""
    make, code = CONDEMNED[why]
    world, link = parties.world, parties.honest()
    order, service = make(world), parties.health(link)
    with world.unchanged():
        errors = [await failure(service, order) for _ in range(2)]
    assert [error.code for error in errors] == [code, code]
    # A verdict on the ticket is kept and not asked for again.
    assert [call.parts for call in link.calls] == [["head", "bits"]] * (1 if errors[0].ends_ticket else 2)
    ticket = world.verify_health_log().tickets[order.hash.hex()]
    assert ticket.refused == (code if errors[0].ends_ticket else "")
    assert ticket.manifest


async def test_ticket_that_expires_on_its_way_charges_nothing(parties: Parties) -> None:
    """Accepted in time and handed over too late, a ticket is refused by the census node."""
    world, order = parties.world, parties.world.order()
    assert (await failure(parties.health(parties.lying(gone)), order)).code == "PEER_UNAVAILABLE"
    world.clock.now_ms = order.body.expires_ms
    with world.unchanged():
        assert (await failure(parties.health(), order)).code == "TICKET_EXPIRED"


async def test_what_leaves_has_one_size_whoever_is_in_the_sample(parties: Parties) -> None:
    """Nobody, one in a hundred or everybody: as many parts, each of them as long."""
    link = parties.honest()
    for where in ("age > 120", "age = 3", "age >= 0"):
        assert await submit(parties.health(link), parties.world.order(where=where)) == STAGES
    sizes = set()
    for call in link.calls:
        head, *parts = call.sent
        of_head = (len(head.head.sealed_head), head.head.manifest.ByteSize())
        sizes.add((of_head, tuple(part.ByteSize() for part in parts)))
    assert len(link.calls) == 3
    assert len(sizes) == 1


BROKEN_WRITES: list[BrokerError] = [InternalError("STORE_FAILED"), StateUnknownError("STATE_UNKNOWN")]


@pytest.mark.parametrize("broken", BROKEN_WRITES, ids=lambda error: error.code)
async def test_no_byte_leaves_before_it_is_durable_that_the_sample_was_forwarded(
    parties: Parties, monkeypatch: pytest.MonkeyPatch, broken: BrokerError
) -> None:
    """Where the log cannot be written, or nobody knows whether it was, no call is even opened: nobody holds a sample unseen."""
    order, link = parties.world.order(), parties.honest()

    def fail(*_: object, **__: object) -> NoReturn:
        raise broken

    with monkeypatch.context() as patch:
        patch.setattr(HealthNode, "log_forwarded", fail)
        assert (await failure(parties.health(link, LimitConfig()), order)).code == broken.code
    assert link.calls == []
    assert parties.stop.error is broken
    assert not parties.world.verify_health_log().tickets[order.hash.hex()].manifest


async def test_our_log_names_the_sample_when_the_first_byte_of_it_leaves(parties: Parties) -> None:
    """At the instant at which the call is opened the log's file holds the hash of the manifest."""
    order, link, logged = parties.world.order(), parties.lying(), list[str]()

    def opened(requests: Requests) -> Responses:
        logged.append(parties.world.verify_health_log().tickets[order.hash.hex()].manifest)
        return link.honestly(requests)

    link.scripts.append(opened)
    assert await submit(parties.health(link), order) == STAGES
    assert logged == [hash_bytes(link.calls[0].sent[0].head.manifest.manifest).hex()]


# --- a census node that fails ----------------------------------------------------------------------------------------


async def test_refusal_reaches_the_researcher_and_closes_the_ticket(parties: Parties) -> None:
    """A refusal of the census node is passed on with its own code, logged once, and not tried again."""
    world = parties.world
    order, link = world.order(slot=4711), parties.lying()
    link.scripts.append(link.honestly)
    service = parties.health(link, LimitConfig())
    with world.unchanged():
        assert (await failure(service, order)).code == "SLOT_UNUSABLE"
    assert link.attempts == 1
    assert world.verify_health_log().tickets[order.hash.hex()].refused == "SLOT_UNUSABLE"
    assert (await failure(service, order)).code == "SLOT_UNUSABLE"
    assert link.attempts == 1
    service = parties.health(link, node=world.crash_health())
    await service.flow.recover()
    assert (await failure(service, order)).code == "SLOT_UNUSABLE"
    assert link.attempts == 1
    assert await submit(service, world.order()) == STAGES


@pytest.mark.parametrize("when_whole", [False, True], ids=["in the middle", "at the end"])
async def test_refusal_is_heard_whenever_it_is_said(parties: Parties, when_whole: bool) -> None:
    """Also while the health node is writing: a refusal is final and not taken for a line that broke."""
    order = parties.world.order()
    link = parties.lying(refusing(parties.world, "SLOT_UNUSABLE", when_whole=when_whole))
    service = parties.health(link, LimitConfig())
    assert (await failure(service, order)).code == "SLOT_UNUSABLE"
    assert link.attempts == 1
    assert parties.world.verify_health_log().tickets[order.hash.hex()].refused == "SLOT_UNUSABLE"


async def test_refusal_is_logged_with_its_signature(parties: Parties) -> None:
    """The real census node's: what it refused, why, and between which instants, under a key of its card."""
    world = parties.world
    order, shown = world.order(), world.census.publication.size
    operating.shut_down(world.census.journal, "a drill", world.secrets.operator)
    assert (await failure(parties.health(), order)).code == "SERVICE_SHUT_DOWN"
    (event,) = [entry.event for entry in world.health_entries() if isinstance(entry.event, Refused)]
    world.secrets.refusal.verify_key.verify_text(event.refusal.encode(), event.signature)
    refusal = parse_refusal(event.refusal.encode())
    assert (refusal.ticket, refusal.code, refusal.size) == (order.hash.hex(), "SERVICE_SHUT_DOWN", shown)
    assert refusal.manifest == world.verify_health_log().tickets[order.hash.hex()].manifest


async def refuse_unsigned(requests: Requests) -> Responses:
    """Says that it refuses and signs nothing."""
    async for _ in requests:
        pass
    raise on_the_wire(InvalidRequestError("SLOT_UNUSABLE"))
    yield CountResponse()


# Refusals that the census agency could deny, or that say something else than its answer.
DENIABLE: dict[str, Callable[[World], CountScript]] = {
    "unsigned": lambda _: refuse_unsigned,
    "another key": lambda world: refusing(world, "SLOT_UNUSABLE", key=SigningKey.generate(Purpose.REFUSAL, os.urandom)),
    "a key for answers": lambda world: refusing(
        world, "SLOT_UNUSABLE", key=SigningKey(Purpose.REFUSAL, world.secrets.answer.expose())
    ),
    **{
        f"another {name}": partial(lambda world, said: refusing(world, "SLOT_UNUSABLE", **said), said={name: other})
        for name, other in (
            ("code", "POLICY_MISMATCH"),
            ("commitment", "0" * 64),
            ("expires_ms", 1),
            ("health", "other"),
            ("log", "census.test/other"),
            ("manifest", "0" * 64),
            ("policy", "0" * 64),
            ("project", "other"),
            ("release", "0" * 64),
            ("researcher", "other"),
            ("roster", 9),
            ("scale", 1),
            ("slot", 1000),
            ("ticket", "0" * 64),
        )
    },
}


@pytest.mark.parametrize("lie", DENIABLE)
async def test_refusal_that_is_not_signed_as_said_is_the_census_nodes_fault(parties: Parties, lie: str) -> None:
    """It ends no ticket and stands in no log; the same sample is answered when it is handed over again."""
    order = parties.world.order()
    link = parties.lying(DENIABLE[lie](parties.world))
    service = parties.health(link)
    error = await failure(service, order)
    assert (error.code, error.details["peer"]) == ("PEER_MISBEHAVED", "census")
    assert parties.world.verify_health_log().tickets[order.hash.hex()].is_open
    link.scripts[:] = [link.honestly]
    assert await submit(service, order) == STAGES


async def gone(requests: Requests) -> Responses:
    """Nobody there."""
    del requests
    raise AioRpcError(StatusCode.UNAVAILABLE, Metadata(), Metadata())
    yield CountResponse()


async def busy(requests: Requests) -> Responses:
    """Too much in hand."""
    del requests
    raise on_the_wire(RefusedError("BUSY", retry_seconds=1))
    yield CountResponse()


async def hang_up(requests: Requests) -> Responses:
    """Ends the call without a word."""
    del requests
    return
    yield CountResponse()


async def hang_up_in_the_middle(requests: Requests) -> Responses:
    """Ends the call while the sample comes."""
    await anext(requests)
    return
    yield CountResponse()


async def hang_up_at_the_end(requests: Requests) -> Responses:
    """Takes the sample and ends the call without a word."""
    async for _ in requests:
        pass
    return
    yield CountResponse()


@pytest.mark.parametrize("trouble", [gone, busy, hang_up, hang_up_in_the_middle, hang_up_at_the_end])
async def test_passing_trouble_is_retried_with_the_same_ticket_and_set(parties: Parties, trouble: CountScript) -> None:
    """Down, busy or cut off: the health node hands the same ticket and set over again, sealed anew, charged once."""
    order, link = parties.world.order(), parties.lying(trouble)
    link.scripts.append(link.honestly)
    assert await submit(parties.health(link, LimitConfig()), order) == STAGES
    assert link.attempts == 2
    assert len(parties.world.charges()) == 1


async def test_connection_lost_after_the_charge_is_no_second_charge(parties: Parties) -> None:
    """The worst moment to lose the line: the census node has charged and the health node has not heard of it."""
    world, order, link = parties.world, parties.world.order(), parties.lying()

    async def lost_after_the_charge(requests: Requests) -> Responses:
        async for response in link.honestly(requests):
            if response.HasField("charged"):
                raise AioRpcError(StatusCode.UNAVAILABLE, Metadata(), Metadata())
            yield response

    link.scripts.extend([lost_after_the_charge, link.honestly])
    assert await submit(parties.health(link, LimitConfig()), order) == STAGES
    assert len(world.charges()) == 1
    # Sealed anew, under the same signed manifest, which our log names once.
    (first, *first_bits), (second, *second_bits) = (call.sent for call in link.calls)
    assert first.head.manifest == second.head.manifest
    assert first.head.sealed_head != second.head.sealed_head
    assert all(one.bits != other.bits for one, other in zip(first_bits, second_bits, strict=True))
    (forwarded,) = (entry.event for entry in world.health_entries() if isinstance(entry.event, Forwarded))
    assert forwarded.manifest == world.charges()[0].manifest


BETWEEN_AGENCIES = [
    InvalidRequestError("UNKNOWN_KEY", key="0" * 16, subject="manifest"),
    InvalidRequestError("WRONG_ORGANISATION", subject="sample"),
    InvalidRequestError("SEALED_WRONGLY", subject="frame key"),
    InvalidRequestError("TICKET_REUSED"),
]


@pytest.mark.parametrize("error", BETWEEN_AGENCIES, ids=lambda error: error.code)
async def test_what_is_wrong_between_the_agencies_is_no_verdict_on_a_ticket(
    parties: Parties, error: BrokerError
) -> None:
    """A ticket may have been charged at an attempt before: a key that is not known meanwhile must not lose its answer.

    Nor is it the researcher's fault.
    """
    world, order, link = parties.world, parties.world.order(), parties.lying()

    async def charge_and_hang_up(requests: Requests) -> Responses:
        async for response in link.honestly(requests):
            if response.HasField("charged"):
                raise AioRpcError(StatusCode.UNAVAILABLE, Metadata(), Metadata())
            yield response

    async def refuse(requests: Requests) -> Responses:
        del requests
        raise on_the_wire(error)
        yield CountResponse()

    link.scripts.extend([charge_and_hang_up, refuse, link.honestly])
    told = await failure(parties.health(link, LimitConfig()), order)
    assert (told.code, told.details) == ("PEER_FAILED", {"peer": "health", "reason": error.code})
    assert world.verify_health_log().tickets[order.hash.hex()].is_open
    assert await submit(parties.health(link), order) == STAGES
    assert len(world.charges()) == 1


async def test_census_node_without_a_registry_is_no_verdict_on_a_ticket(parties: Parties) -> None:
    """It says what is missing, to the researcher too, and takes the ticket when there is one."""
    order, link = parties.world.order(), parties.lying()

    async def refuse(requests: Requests) -> Responses:
        del requests
        raise on_the_wire(RefusedError("NOTHING_LOADED", what="registry", role="census"))
        yield CountResponse()

    link.scripts.extend([refuse, link.honestly])
    service = parties.health(link)
    assert (await failure(service, order)).code == "NOTHING_LOADED"
    assert await submit(service, order) == STAGES


@pytest.mark.parametrize("where", ["Count", "GetPolicy"])
async def test_what_the_health_agency_lacks_is_not_the_researchers_fault(parties: Parties, where: str) -> None:
    """With the census agency revoked, or our own certificate expired, a researcher cannot do anything about it."""
    world, order = parties.world, parties.world.order()
    service = parties.health()
    if where == "Count":
        # The policy is known from before.
        assert await submit(service, world.order()) == STAGES
    revoke(parties.node.journal, "census", CENSUS.organisation, "a mistake")
    told = await failure(service, order)
    assert (told.code, told.details) == ("PEER_FAILED", {"peer": "health", "reason": "NOT_REGISTERED"})


async def silent(requests: Requests) -> Responses:
    """Takes the head and says nothing."""
    async for _ in requests:
        await asyncio.Event().wait()
    yield CountResponse()


async def silent_after_the_sample(requests: Requests) -> Responses:
    """Takes the sample and says nothing."""
    async for _ in requests:
        pass
    await asyncio.Event().wait()
    yield CountResponse()


@pytest.mark.parametrize("hang", [silent, silent_after_the_sample])
async def test_census_node_that_hangs_holds_no_question_for_ever(parties: Parties, hang: CountScript) -> None:
    """An attempt has a deadline: its place is free again, and the ticket is open for another attempt."""
    order, link = parties.world.order(), parties.lying(hang)
    limits = LimitConfig(max_queries=1, forward_deadline_ms=0, attempt_deadline_ms=100)
    service = parties.health(link, limits)
    assert (await failure(service, order)).code == "PEER_UNAVAILABLE"
    assert parties.world.verify_health_log().tickets[order.hash.hex()].is_open
    # Long enough for an honest attempt on a slow machine.
    service = parties.health(parties.honest(), LimitConfig(max_queries=1))
    assert await submit(service, order) == STAGES
    assert len(parties.world.charges()) == 1


async def test_charge_is_found_again_after_a_night(parties: Parties) -> None:
    """The line is lost at the charge, and when it is back everything has expired or changed: same charge, same answer."""
    world, order, link = parties.world, parties.world.order(), parties.lying()

    async def lost_after_the_charge(requests: Requests) -> Responses:
        async for response in link.honestly(requests):
            if response.HasField("charged"):
                raise AioRpcError(StatusCode.UNAVAILABLE, Metadata(), Metadata())
            yield response

    link.scripts.append(lost_after_the_charge)
    assert (await failure(parties.health(link), order)).code == "PEER_UNAVAILABLE"
    await parties.census.drain()
    sealed = world.sealed(order)
    world.clock.advance(30 * 86_400_000)
    loads = LoadFolder(world.census_folder / "registries", ".npz")
    write_registry(world.make_registry("f" * 16), loads.file("f" * 16))
    loads.put_in_force(world.census.journal, "f" * 16, "2016", world.linkage, os.urandom, dictionary=CENSUS_DICTIONARY)
    world.adopt(make_policy(max_belief="0.7", scales=(20,)))
    service = parties.health(node=world.crash_health())
    assert await submit(service, order) == STAGES
    assert world.sealed(order) == sealed
    assert len(world.charges()) == 1
    assert world.verify_health_log().tickets[order.hash.hex()].settled


async def test_sample_that_the_census_node_lost_stops_nobody(parties: Parties, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its charge can never be answered: the health node hears that it is the census node's fault, and both go on."""
    world, order, link = parties.world, parties.world.order(), parties.lying()
    asked: list[str] = []

    def lost(samples: SampleFolder, reference: str) -> NoReturn:
        del samples
        asked.append(reference)
        raise InternalError("SAMPLE_LOST")

    link.scripts.append(link.honestly)
    with monkeypatch.context() as patch:
        patch.setattr(SampleFolder, "read", lost)
        error = await failure(parties.health(link), order)
    assert (error.code, error.details["reason"]) == ("PEER_FAILED", "SAMPLE_LOST")
    assert len(asked) == 1
    assert parties.stop.error is None
    assert parties.census_stop.error is None
    assert await submit(parties.health(), world.order()) == STAGES


async def test_deadline_ends_the_retries_and_leaves_the_ticket_open(parties: Parties) -> None:
    """A census node that stays away is said to be away; the same ticket is taken up when it is submitted again."""
    order, link = parties.world.order(), parties.lying(gone)
    service = parties.health(link)
    assert (await failure(service, order)).code == "PEER_UNAVAILABLE"
    assert parties.world.verify_health_log().tickets[order.hash.hex()].is_open
    link.scripts.append(link.honestly)
    assert await submit(service, order) == STAGES


async def test_start_goes_on_with_what_was_accepted(parties: Parties) -> None:
    """After a crash of the health node its question goes on without the researcher: one charge, one answer."""
    world, order = parties.world, parties.world.order()
    assert (await failure(parties.health(parties.lying(gone)), order)).code == "PEER_UNAVAILABLE"
    service = parties.health(node=world.crash_health())
    await service.flow.recover()
    assert await submit(service, order) == STAGES
    assert len(world.charges()) == 1
    assert not world.verify_health_log().open_tickets


class Crowd:
    """A link that counts how many samples are on their way at once, and holds them until it is told to go on."""

    def __init__(self, parties: Parties) -> None:
        self.link = parties.lying(self._counted)
        self.go_on = asyncio.Event()
        self.most = 0
        self._now = 0

    async def _counted(self, requests: Requests) -> Responses:
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            await self.go_on.wait()
            async for response in self.link.honestly(requests):
                yield response
        finally:
            self._now -= 1


async def open_tickets(parties: Parties, number: int) -> list[Order]:
    """Questions that the health node accepted and could not bring to their end."""
    orders = [parties.world.order() for _ in range(number)]
    for order in orders:
        assert (await failure(parties.health(parties.lying(gone)), order)).code == "PEER_UNAVAILABLE"
    return orders


async def test_start_takes_up_no_more_at_once_than_there_are_places(parties: Parties) -> None:
    """After an outage what was accepted goes on a few at a time, however much it is; what is new waits behind it."""
    world = parties.world
    orders = await open_tickets(parties, 7)
    crowd = Crowd(parties)
    limits = LimitConfig(max_queries=2, max_waiting_each=6)
    service = parties.health(crowd.link, limits, world.crash_health())
    await service.flow.recover()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await until(lambda: crowd.link.attempts >= 2)
        new = world.order()
        watching = asyncio.create_task(submit(service, new))
        await until(lambda: new.hash.hex() in world.verify_health_log().tickets)
        assert (await failure(service, world.order())).code == "BUSY"
        crowd.go_on.set()
        assert await watching == STAGES
        await service.flow.drain()
    assert crowd.most == 2
    assert not world.verify_health_log().open_tickets
    # Two places: it may have been in hand together with the last of the others.
    assert new.hash.hex() in [charge.ticket for charge in world.charges()][-2:]
    assert {charge.ticket for charge in world.charges()} == {order.hash.hex() for order in [*orders, new]}


async def test_start_with_the_census_node_away_gives_every_question_its_turn(parties: Parties) -> None:
    """A walk that ends in failure leaves its place: nobody waits for ever, and new questions are taken again."""
    world = parties.world
    orders = await open_tickets(parties, 5)
    link = parties.lying(gone)
    service = parties.health(link, LimitConfig(max_queries=1, forward_deadline_ms=0), world.crash_health())
    async with asyncio.timeout(PATIENCE_SECONDS):
        await service.flow.recover()
        await service.flow.drain()
    assert link.attempts == len(orders)
    assert len(world.verify_health_log().open_tickets) == len(orders)
    link.scripts.append(link.honestly)
    assert await submit(service, world.order()) == STAGES


async def test_question_that_ended_before_its_turn_is_not_forwarded_again(parties: Parties) -> None:
    """Submitted again by its researcher while the node was still reading what is open, it is at its end by its turn."""
    world = parties.world
    orders = await open_tickets(parties, 2)
    node = world.crash_health()
    stale = node.unfinished()
    service = parties.health(limits=LimitConfig(max_queries=1), node=node)
    assert await submit(service, orders[0]) == STAGES
    node.unfinished = lambda: stale  # type: ignore[method-assign]  # as if it had been read before
    await service.flow.recover()
    await service.flow.drain()
    assert parties.stop.error is None
    state = world.verify_health_log()
    assert not state.open_tickets
    assert len(world.charges()) == 2


# --- researchers -----------------------------------------------------------------------------------------------------


async def test_another_researchers_ticket_shows_nothing(parties: Parties) -> None:
    """Who copied a ticket can neither submit it nor watch it."""
    order, service = parties.world.order(), parties.health()
    assert (await failure(service, order, OTHER_RESEARCHER)).code == "UNKNOWN_RESEARCHER"
    assert await submit(service, order) == STAGES
    assert (await failure(service, order, OTHER_RESEARCHER)).code == "UNKNOWN_RESEARCHER"


class Held:
    """A link that holds every sample until it is let through, and tells whose came in which order."""

    def __init__(self, parties: Parties) -> None:
        self.link = parties.lying(self._held)
        self.let_through = asyncio.Semaphore(0)

    async def _held(self, requests: Requests) -> Responses:
        await self.let_through.acquire()
        async for response in self.link.honestly(requests):
            yield response


async def first_stage(service: HealthService, order: Order, researcher: str = RESEARCHER) -> None:
    """Submit and hang up as soon as the question is accepted."""
    set_caller(Identity("university", "researcher", researcher))
    assert (await anext(aiter(service.Submit(order.submission, NO_CONTEXT)))).stage == health_service_pb2.STAGE_ACCEPTED


async def test_one_question_too_many_is_told_to_come_back(parties: Parties) -> None:
    """Beyond the line nothing is accepted, and when to come back is what the configuration says; watching needs no place."""
    first, second, third = (parties.world.order() for _ in range(3))
    held = Held(parties)
    service = parties.health(held.link, LimitConfig(max_queries=1, max_waiting_each=1, retry_seconds=7))
    set_caller(Identity("university", "researcher", RESEARCHER))
    async for response in service.Submit(first.submission, NO_CONTEXT):
        # It has its place, and leaves the line to the next one.
        if response.stage == health_service_pb2.STAGE_FORWARDED:
            break
    await first_stage(service, second)
    for _ in range(3):
        error = await failure(service, third)
        assert (error.code, error.details) == ("BUSY", {"retry_seconds": "7"})
    assert third.hash.hex() not in parties.world.verify_health_log().tickets
    watching = [asyncio.create_task(submit(service, order)) for order in (first, first, second)]
    held.let_through.release()
    held.let_through.release()
    assert await asyncio.gather(*watching) == [STAGES] * 3
    held.let_through.release()
    assert await submit(service, third) == STAGES


async def test_full_line_answers_before_any_work_is_done(parties: Parties, monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeated questions while the line is full make no signature be checked."""
    first, second, third = (parties.world.order() for _ in range(3))
    held = Held(parties)
    service = parties.health(held.link, LimitConfig(max_queries=1, max_waiting_each=1))
    await first_stage(service, first)
    await until(lambda: service.flow.queue.waiting == 0)
    await first_stage(service, second)

    def not_now(*_: object) -> NoReturn:
        raise AssertionError("a question was checked that has no room")

    with monkeypatch.context() as patched:
        patched.setattr(HealthNode, "verify", not_now)
        assert (await failure(service, third)).code == "BUSY"
    for _ in range(3):
        held.let_through.release()
    await service.flow.drain()


async def test_stop_ends_what_waits_and_the_next_start_answers_it(parties: Parties) -> None:
    """A stop finishes the question whose turn it is; those in line are told at once, are durable, and are answered later."""
    world = parties.world
    orders = [world.order() for _ in range(4)]
    held = Held(parties)
    service = parties.health(held.link, LimitConfig(max_queries=1))
    for order in orders:
        await first_stage(service, order)
    watching = [asyncio.create_task(submit(service, order)) for order in orders]
    await asyncio.sleep(0)
    parties.stop.stop()
    heard = await asyncio.gather(*watching[1:], return_exceptions=True)
    assert [error.code for error in heard if isinstance(error, BrokerError)] == ["PEER_UNAVAILABLE"] * 3
    assert (await failure(service, world.order())).code == "PEER_UNAVAILABLE"
    held.let_through.release()
    await service.flow.drain()
    assert await watching[0] == STAGES
    parties.stop = StopSignal()
    again = parties.health(node=world.crash_health())
    await again.flow.recover()
    assert [await submit(again, order) for order in orders] == [STAGES] * 4
    assert sorted(charge.ticket for charge in world.charges()) == sorted(order.hash.hex() for order in orders)


async def test_sample_is_forwarded_no_earlier_than_its_delay(tmp_path: Path) -> None:
    """However fast a cohort is found, it leaves a fixed delay after the question came."""
    # In real time.
    policy = make_policy(tick_ms=50, delay_ms=150)
    world = World(tmp_path, policy, census_clock=system_clock, health_clock=system_clock)
    parties = Parties(world)
    set_caller(Identity("university", "researcher", RESEARCHER))
    start = system_clock()
    async for response in parties.health().Submit(world.order().submission, NO_CONTEXT):
        if response.stage == health_service_pb2.STAGE_FORWARDED:
            assert system_clock() >= start + 150
    world.close()


async def test_cohorts_are_drawn_one_at_a_time(parties: Parties, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many samples may be in memory, no cohort shares the machine with another one, whose size it would show."""
    drawn, under_way, most = HealthNode.sample, set[str](), list[int]()

    def drawing(node: HealthNode, accepted: Accepted) -> Sample:
        under_way.add(accepted.ticket.hash.hex())
        most.append(len(under_way))
        # The first one goes on when the second one waits for it, or does not wait for it.
        while len(most) == 1 and not service.flow._drawing._waiters:
            time.sleep(0.001)
        try:
            return drawn(node, accepted)
        finally:
            under_way.remove(accepted.ticket.hash.hex())

    monkeypatch.setattr(HealthNode, "sample", drawing)
    service = parties.health()
    asking = [submit(service, parties.world.order(name), name) for name in (RESEARCHER, OTHER_RESEARCHER)]
    assert await asyncio.gather(*(asyncio.create_task(each) for each in asking)) == [STAGES] * 2
    assert most == [1, 1]


@pytest.mark.parametrize(
    "error",
    [
        InvalidRequestError("SLOT_UNUSABLE"),
        RefusedError("BUDGET_EXHAUSTED", scale="30"),
        PeerUnavailableError("PEER_UNAVAILABLE", peer="census"),
    ],
)
async def test_failure_is_said_to_everybody_who_watches(parties: Parties, error: BrokerError) -> None:
    """All connections on one question hear the same end."""
    go_on = asyncio.Event()

    async def fail(requests: Requests) -> Responses:
        head = (await anext(requests)).head
        await go_on.wait()
        raise on_the_wire(signed_refusal(parties.world, head, error.code) if error.ends_ticket else error)
        yield CountResponse()

    order = parties.world.order()
    service = parties.health(parties.lying(fail))
    forwarded = 0

    async def follow() -> None:
        nonlocal forwarded
        set_caller(Identity("university", "researcher", RESEARCHER))
        async for response in service.Submit(order.submission, NO_CONTEXT):
            forwarded += response.stage == health_service_pb2.STAGE_FORWARDED

    async def watch() -> BrokerError:
        with pytest.raises(BrokerError) as caught:
            await follow()
        return caught.value

    watching = [asyncio.create_task(watch()) for _ in range(4)]
    # A late caller would hear what the log says of it.
    await until(lambda: forwarded == 4)
    go_on.set()
    heard = await asyncio.gather(*watching)
    assert {failed.code for failed in heard} == {error.code}
    assert all(failed.details == error.details for failed in heard)
