"""Every RPC over real mutual TLS, fed with what no client of ours would send, at fixed seeds.

The promise of every test is the same (`undisturbed`): each call ends in time with an error of our table, nothing is
charged but whole valid queries, no bug is logged, the node serves an honest query afterwards, and the logs replay.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import random  # noqa: TID251 - a seeded script of attacks, no secret
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import pytest
from fakes.patience import PATIENCE_SECONDS, until
from fakes.world import CENSUS, HEALTH, HEALTH_ORIGIN, OTHER, OWNER, Order, World
from fuzz.mutator import mutations
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from grpc import aio
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from integration.loopback import Loopback, call, hand_over
from msgspec.structs import replace
from protocol.rosters import MadeRoster
from structlog.testing import capture_logs
from tripartite.v1 import (
    answer_pb2,
    card_service_pb2,
    census_service_pb2,
    condition_pb2,
    health_service_pb2,
    inbox_service_pb2,
    log_service_pb2,
    ticket_pb2,
)

from broker_common.crypto.cards import MAX_CARD_BYTES, CardSignature, SignedCard
from broker_common.crypto.certificates import Identity, Role
from broker_common.crypto.signing import Purpose
from broker_common.errors import REASONS, BrokerError, ExitCode
from broker_common.query.messages import parse_message
from broker_common.rpc.callers import ALLOWED_ROLES
from broker_common.rpc.channel import MAX_MESSAGE_BYTES
from broker_common.rpc.status import broker_error
from broker_common.tlog.note import NoteSigner
from census_node.config import LimitConfig
from census_node.query.reservations import NOTHING_RESERVED
from census_node.query.streams import Streams
from census_node.registry.rosters import RosterBook

SEED = "tripartite"
MUTATIONS = 60
CENSUS_RPCS = census_service_pb2.DESCRIPTOR.services_by_name["CensusService"].methods_by_name
HEALTH_RPCS = health_service_pb2.DESCRIPTOR.services_by_name["HealthService"].methods_by_name
CARD_RPCS = card_service_pb2.DESCRIPTOR.services_by_name["CardService"].methods_by_name
LOG_RPCS = log_service_pb2.DESCRIPTOR.services_by_name["LogService"].methods_by_name
PROBE_RPCS = health_pb2.DESCRIPTOR.services_by_name["Health"].methods_by_name
REFLECTION: Any = reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"].methods_by_name["ServerReflectionInfo"]
INBOX_RPCS = inbox_service_pb2.DESCRIPTOR.services_by_name["InboxService"].methods_by_name
# Who may call what: everybody here is registered and authorised, so that every message reaches its handler.
UNARY: dict[str, tuple[Role, Identity, Any]] = {
    "GetPolicy": ("census", OWNER, CENSUS_RPCS["GetPolicy"]),
    "census GetDictionary": ("census", OWNER, CENSUS_RPCS["GetDictionary"]),
    "Quote": ("census", OWNER, CENSUS_RPCS["Quote"]),
    "Collect": ("census", OWNER, CENSUS_RPCS["Collect"]),
    "health GetDictionary": ("health", OWNER, HEALTH_RPCS["GetDictionary"]),
    "Submit": ("health", OWNER, HEALTH_RPCS["Submit"]),
    "Deliver": ("researcher", CENSUS, INBOX_RPCS["Deliver"]),
    "census Exchange": ("census", HEALTH, CARD_RPCS["Exchange"]),
    "health Exchange": ("health", OWNER, CARD_RPCS["Exchange"]),
    "GetCheckpoint": ("census", OWNER, LOG_RPCS["GetCheckpoint"]),
    "GetInclusionProof": ("census", OWNER, LOG_RPCS["GetInclusionProof"]),
    "GetConsistencyProof": ("census", HEALTH, LOG_RPCS["GetConsistencyProof"]),
    "Witness": ("census", HEALTH, LOG_RPCS["Witness"]),
    "Check": ("census", OWNER, PROBE_RPCS["Check"]),
    "List": ("health", OWNER, PROBE_RPCS["List"]),
    "Watch": ("researcher", CENSUS, PROBE_RPCS["Watch"]),
}
STREAMS = (CENSUS_RPCS["Count"], CENSUS_RPCS["SendRoster"], REFLECTION)
# A bad request is its caller's fault, or a refusal. Nobody else is to blame.
CALLERS_FAULT = {code for code, reason in REASONS.items() if reason.family.exit_code < ExitCode.PEER_UNAVAILABLE}
# A message over the limit never reaches us: the transport answers, with a status that is not ours. So do the standard
# services, where a question is well-formed and nobody has the answer.
NOT_OURS = "PEER_MISBEHAVED"


@contextlib.asynccontextmanager
async def undisturbed(
    world: World,
    caplog: pytest.LogCaptureFixture,
    charged: Iterable[Order] = (),
    *,
    reflection: bool = False,
    deadline_ms: int = int(1000 * PATIENCE_SECONDS),
) -> AsyncIterator[Loopback]:
    """Serving nodes. In the end, of all that happened inside nothing was charged but, perhaps, the orders `charged`."""
    # Leftovers of earlier tests would be found, and complained of, in the middle of this one.
    gc.collect()
    with capture_logs() as logs, caplog.at_level(logging.WARNING):
        nodes = Loopback(world)
        nodes.reflection = reflection
        # Health nodes that say how long they want to be kept waiting for news of the log must not keep a test waiting.
        patient = LimitConfig(
            max_queries=16,
            header_deadline_ms=nodes.census_limits.header_deadline_ms,
            sample_deadline_ms=nodes.census_limits.sample_deadline_ms,
            witness_wait_ms=1,
        )
        nodes.census_limits = replace(patient, header_deadline_ms=deadline_ms, sample_deadline_ms=deadline_ms)
        async with nodes:
            yield nodes
            nodes.census._limits = patient
            nodes.census._streams = Streams(most=patient.max_queries, deadline_ms=patient.sample_deadline_ms)
            async with nodes.channel(HEALTH, "census") as channel:
                order = world.order()
                heard = await hand_over(channel, world.messages(world.sample(order)))
            assert heard == ["charged", "released"]
        assert {signal.error for signal in nodes.stops.values()} == {None}
    tickets = [charge.ticket for charge in world.charges()]
    assert set(tickets) <= {each.hash.hex() for each in (*charged, order)}
    assert len(set(tickets)) == len(tickets)
    world.verify_log()
    world.verify_health_log()
    assert [line for line in logs if line["event"] == "unforeseen"] == []
    assert [record.getMessage() for record in caplog.records] == []


async def said(nodes: Loopback, role: Role, identity: Identity, method: MethodDescriptor, *wire: bytes) -> str:
    """A caller's answer, in time."""
    async with asyncio.timeout(PATIENCE_SECONDS), nodes.channel(identity, role) as channel:
        return await call(channel, method, *wire)


async def all_said(
    nodes: Loopback, role: Role, identity: Identity, method: MethodDescriptor, messages: Iterable[bytes]
) -> list[str]:
    """A caller's answers for one message after the other."""
    async with nodes.channel(identity, role) as channel:
        heard = []
        for message in messages:
            async with asyncio.timeout(PATIENCE_SECONDS):
                heard.append(await call(channel, method, message))
        return heard


def examples(world: World) -> dict[str, Message]:
    """A request to each RPC that is right."""
    order = world.order()
    return {
        "GetPolicy": census_service_pb2.GetPolicyRequest(),
        "census GetDictionary": census_service_pb2.CensusServiceGetDictionaryRequest(),
        "Quote": census_service_pb2.QuoteRequest(question=order.body.question, scale=30),
        "Collect": census_service_pb2.CollectRequest(query_id=order.body.query_id, wait_ms=1),
        "health GetDictionary": health_service_pb2.HealthServiceGetDictionaryRequest(),
        "Submit": order.submission,
        "Deliver": inbox_service_pb2.DeliverRequest(
            answer=answer_pb2.SealedAnswer(query_id=order.body.query_id, sealed=bytes(2000))
        ),
        "census Exchange": card_service_pb2.ExchangeRequest(card=world.parties[HEALTH].card.signed.to_bytes()),
        "health Exchange": card_service_pb2.ExchangeRequest(card=world.parties[OWNER].card.signed.to_bytes()),
        "GetCheckpoint": log_service_pb2.GetCheckpointRequest(),
        "GetInclusionProof": log_service_pb2.GetInclusionProofRequest(index=3, size=5),
        "GetConsistencyProof": log_service_pb2.GetConsistencyProofRequest(old_size=3, size=5),
        "Witness": witness_request(world),
        "Check": health_pb2.HealthCheckRequest(service="tripartite.v1"),
        "List": health_pb2.HealthListRequest(),  # type: ignore[attr-defined]  # younger than its stubs
        "Watch": health_pb2.HealthCheckRequest(service="tripartite.v1"),
    }


def witness_request(world: World) -> log_service_pb2.WitnessRequest:
    """One round of an honest health node, which does not wait for news."""
    cosigned = world.census.publication.cosigned(witness=HEALTH_ORIGIN)
    assert cosigned is not None
    note = NoteSigner(HEALTH_ORIGIN, (world.secrets.health_log,)).sign_checkpoint(7, bytes(range(32)))
    return log_service_pb2.WitnessRequest(cosigned=cosigned.note, checkpoint=note)


def means(wire: bytes, message: Message) -> bool:
    """True when the bytes say exactly this."""
    try:
        return parse_message(type(message), wire) == message
    except BrokerError:
        return False


def test_every_rpc_is_fuzzed() -> None:
    """A new RPC needs a row above, or tests of its streams below."""
    methods = [*(method for _, _, method in UNARY.values()), *STREAMS]
    assert {f"/{method.containing_service.full_name}/{method.name}" for method in methods} == set(ALLOWED_ROLES)


# --- one message -----------------------------------------------------------------------------------------------------


async def test_random_bytes_are_refused_as_malformed(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A malformed message gets a typed refusal, not a status of the library's, and nothing of it is logged."""
    heard = {}
    async with undisturbed(world, caplog) as nodes:
        for rpc, way in UNARY.items():
            chance = random.Random(f"{SEED}/{rpc}")
            garbage = [b"\xff" + chance.randbytes(chance.choice((1, 10, 1000, 100_000))) for _ in range(20)]
            heard[rpc] = set(await all_said(nodes, *way, garbage))
    assert heard == {rpc: {"MALFORMED_MESSAGE"} for rpc in UNARY}


async def test_mutated_messages_are_answered_or_refused(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A right message with a few changes: refused with the code of what is wrong, unless it still says the same."""
    order = world.order()
    right = {**examples(world), "Submit": order.submission}
    words = [b"\xf8\x07\x01", b"\x0a\x00", b"\x12\x80"]
    tried = {
        rpc: list(mutations(f"{SEED}/{rpc}", [right[rpc].SerializeToString()], words, MUTATIONS, 100_000))
        for rpc in UNARY
    }
    whole = [order] if any(means(each, order.submission) for each in tried["Submit"]) else []
    async with undisturbed(world, caplog, whole) as nodes:
        heard = {rpc: set(await all_said(nodes, *way, tried[rpc])) for rpc, way in UNARY.items()}
    for rpc, (_, _, method) in UNARY.items():
        allowed = CALLERS_FAULT | {"OK"} | ({NOT_OURS} if method in PROBE_RPCS.values() else set())
        assert heard[rpc] <= allowed, rpc
        # Operations without an argument, or with a whole card, have nothing else to say; notes have a separate test below.
        has_little_to_say = rpc.endswith(("GetDictionary", "GetCheckpoint", "Exchange", "Witness"))
        assert len(heard[rpc]) > 1 or has_little_to_say, rpc


async def test_messages_at_the_limit_are_read_and_above_it_are_not(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The largest message is refused for what it says, in words that fit into an answer; one byte more for its size."""

    def unknown(size: int) -> bytes:
        """A field of our first free number that fills a message."""
        return b"\xfa\x07" + _varint(size - 5) + bytes(size - 5)

    sizes = (MAX_MESSAGE_BYTES, MAX_MESSAGE_BYTES + 1)
    assert tuple(len(unknown(size)) for size in sizes) == sizes
    async with undisturbed(world, caplog) as nodes:
        heard = {rpc: [await said(nodes, *way, unknown(size)) for size in sizes] for rpc, way in UNARY.items()}
    assert heard == {rpc: ["MALFORMED_MESSAGE", NOT_OURS] for rpc in UNARY}


def _varint(number: int) -> bytes:
    low = bytearray()
    while number >= 128:
        low.append(number & 127 | 128)
        number >>= 7
    return bytes(low) + bytes([number])


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


HUGE_TEXT = "x\u00e9" * 300_000


def _quote(variable: str, *values: str) -> census_service_pb2.QuoteRequest:
    """A quote for a question of one cell, as spelt here."""
    question = ticket_pb2.Question(variable=variable, cells=[ticket_pb2.Cell(values=values)])
    return census_service_pb2.QuoteRequest(question=question, scale=30)


HUGE: dict[str, tuple[str, Message, str]] = {
    "query to collect": ("Collect", census_service_pb2.CollectRequest(query_id=bytes(900_000)), "OK"),
    "query to deliver": (
        "Deliver",
        inbox_service_pb2.DeliverRequest(answer=answer_pb2.SealedAnswer(query_id=bytes(900_000))),
        "UNKNOWN_QUERY",
    ),
    "variable": ("Quote", _quote(HUGE_TEXT, "x"), "MALFORMED_MESSAGE"),
    "value": ("Quote", _quote("mother_tongue", HUGE_TEXT), "MALFORMED_MESSAGE"),
    "list of values": (
        "Quote",
        _quote("mother_tongue", *(f"{number:06}" for number in range(100_000))),
        "MALFORMED_MESSAGE",
    ),
    "list of cells": (
        "Quote",
        census_service_pb2.QuoteRequest(
            question=ticket_pb2.Question(variable="mother_tongue", cells=[ticket_pb2.Cell()] * 100_000), scale=30
        ),
        "MALFORMED_MESSAGE",
    ),
    "variable of a question as long as one may be": ("Quote", _quote("v" * 3_990, "x"), "UNKNOWN_VARIABLE"),
    "value of a question as long as one may be": ("Quote", _quote("mother_tongue", "v" * 3_900), "UNKNOWN_VALUE"),
    "ticket": (
        "Submit",
        health_service_pb2.SubmitRequest(ticket=ticket_pb2.SignedTicket(ticket=bytes(900_000))),
        "MALFORMED_MESSAGE",
    ),
}


async def test_huge_fields_are_refused_in_few_words(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The refusal names what is wrong and arrives: it is never as long as what it refuses."""
    async with undisturbed(world, caplog) as nodes:
        heard = {
            what: await said(nodes, *UNARY[rpc], message.SerializeToString())
            for what, (rpc, message, _) in HUGE.items()
        }
    assert heard == {what: code for what, (_, _, code) in HUGE.items()}


def _negated(times: int, inner: bytes) -> bytes:
    for _ in range(times):
        inner = _field(6, inner)
    return inner


AGE = condition_pb2.Comparison(
    column="age", operator=condition_pb2.OPERATOR_LESS, literal=condition_pb2.Literal(integer=3)
)
LEAF = condition_pb2.Condition(comparison=AGE).SerializeToString()
LITERALS = [condition_pb2.Literal(integer=number) for number in range(100_000)]
CRITERIA: dict[str, tuple[bytes, str]] = {
    "deeper than criteria may be": (_negated(40, LEAF), "CRITERIA_TOO_LARGE"),
    "deeper than a message may be": (_negated(5000, LEAF), "MALFORMED_MESSAGE"),
    "a list that is too long": (
        _field(2, condition_pb2.Membership(column="age", literals=LITERALS[:9000]).SerializeToString()),
        "CRITERIA_TOO_LARGE",
    ),
    "a list of codes that is too long": (
        _field(8, condition_pb2.Under(column="sex", codes=map(str, range(9000))).SerializeToString()),
        "CRITERIA_TOO_LARGE",
    ),
    "more events than there can be": (
        _field(9, condition_pb2.Happened(events="stay", at_least=2**32 - 1).SerializeToString()),
        "MALFORMED_MESSAGE",
    ),
    "events in events, very deep": (
        _field(
            9, condition_pb2.Happened(events="stay", at_least=1).SerializeToString() + _field(2, _field(5, b"") * 3)
        ),
        "UNKNOWN_EVENTS",
    ),
    "a conjunction that is too long": (_field(4, _field(1, LEAF) * 3000), "CRITERIA_TOO_LARGE"),
    "an endless list": (
        _field(2, condition_pb2.Membership(column="age", literals=LITERALS).SerializeToString()),
        "MALFORMED_MESSAGE",
    ),
    "an endless conjunction": (_field(4, _field(1, LEAF) * 30_000), "MALFORMED_MESSAGE"),
    "nothing, a hundred thousand times": (_field(5, b"\x0a\x00" * 100_000), "MALFORMED_MESSAGE"),
    "a huge column": (
        _field(1, condition_pb2.Comparison(column=HUGE_TEXT, literal=AGE.literal).SerializeToString()),
        "UNKNOWN_COLUMN",
    ),
}


async def test_monstrous_criteria_are_refused(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """With a valid ticket, so that they are read: reading is bounded, whatever was sent."""
    order = world.order()
    heard = {}
    async with undisturbed(world, caplog) as nodes:
        for what, (criteria, _) in CRITERIA.items():
            wire = _field(1, order.signed.SerializeToString()) + _field(2, criteria) + _field(3, order.nonce)
            heard[what] = await said(nodes, "health", OWNER, HEALTH_RPCS["Submit"], wire)
    assert heard == {what: code for what, (_, code) in CRITERIA.items()}


# --- cards -----------------------------------------------------------------------------------------------------------


async def test_mutated_cards_are_refused_or_follow_the_one_before(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever a registered peer signs as its card: it is no card, or not its own, or it is what the log then says."""
    party = world.parties[OTHER]
    role, _, method = UNARY["census Exchange"]
    newer = party.changed(serial=2).document.encode()
    words = [b'"serial":3', b'"until_ms":1', b'"until_ms":253402300799999', b"census", b"-----BEGIN", b"\\n", b"ticket"]
    wire = []
    for document in [newer, *mutations(f"{SEED}/cards", [newer], words, MUTATIONS, MAX_CARD_BYTES)]:
        text = document.decode("utf-8", "replace")
        key = party.signing(Purpose.IDENTITY)
        signature = CardSignature(key_id=key.key_id, signature=key.sign_text(text.encode()))
        card = SignedCard(document=text, signatures=(signature,)).to_bytes()
        wire.append(card_service_pb2.ExchangeRequest(card=card).SerializeToString())
    async with undisturbed(world, caplog) as nodes:
        heard = await all_said(nodes, role, OTHER, method, wire)
        registration = world.census.journal.state.parties.peer("researcher", OTHER.name)
    assert heard[0] == "OK"
    assert set(heard) <= CALLERS_FAULT | {"OK"}
    assert "MALFORMED_MESSAGE" in heard
    assert registration is not None
    assert registration.card.card.serial >= 2


# --- logs ------------------------------------------------------------------------------------------------------------


async def test_proofs_are_given_about_what_is_cosigned_and_of_nothing_else(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Any two numbers are answered with a proof that holds or refused as malformed, however large they are."""
    chance = random.Random(f"{SEED}/proofs")
    world.order()
    cosigned = world.census.publication.cosigned()
    assert cosigned is not None
    end = cosigned.size
    numbers = [0, 1, 2, end - 1, end, end + 1, 2**31, 2**53, 2**63, 2**64 - 1]
    pairs = [tuple(chance.choices(numbers, k=2)) for _ in range(150)]
    async with undisturbed(world, caplog) as nodes:
        for rpc, ask in (
            ("GetInclusionProof", lambda a, b: log_service_pb2.GetInclusionProofRequest(index=a, size=b)),
            ("GetConsistencyProof", lambda a, b: log_service_pb2.GetConsistencyProofRequest(old_size=a, size=b)),
        ):
            role, identity, method = UNARY[rpc]
            wire = [ask(one, other).SerializeToString() for one, other in pairs]
            heard = await all_said(nodes, role, identity, method, wire)
            sound = [other <= end and (one < other or (one == other and "Consistency" in rpc)) for one, other in pairs]
            assert heard == ["OK" if each else "MALFORMED_MESSAGE" for each in sound]
            assert 10 < sum(sound) < 140


async def test_whatever_a_health_node_says_of_our_log_does_not_stop_us(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Mutations of each text of a round, kept whole as messages: refused, or taken for what they say."""
    role, identity, method = UNARY["Witness"]
    world.order()
    right = witness_request(world)
    words = ["\u2014 ".encode(), b"\n\n", b"\n7\n", b"=", b"00"]
    wire = [right.SerializeToString()]
    for field in ("cosigned", "checkpoint"):
        for text in mutations(f"{SEED}/{field}", [getattr(right, field).encode()], words, MUTATIONS, 20_000):
            changed = log_service_pb2.WitnessRequest()
            changed.CopyFrom(right)
            setattr(changed, field, text.decode("utf-8", "replace"))
            wire.append(changed.SerializeToString())
    wire.extend(
        log_service_pb2.WitnessRequest(checkpoint=right.checkpoint, consistency_proof=[proof]).SerializeToString()
        for proof in mutations(f"{SEED}/proof", [bytes(32)], words, 10, 100)
    )
    async with undisturbed(world, caplog) as nodes:
        heard = await all_said(nodes, role, identity, method, wire)
    assert heard[0] == "OK"
    assert set(heard) == {"OK", "BAD_SIGNATURE", "MALFORMED_MESSAGE"}


# --- the services that a node has ------------------------------------------------------------------------------------


async def test_reflection_answers_or_refuses_whatever_it_is_asked(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Where an operator has switched it on, it is one more way in: every question is answered or refused."""
    request = reflection_pb2.ServerReflectionRequest
    extension = reflection_pb2.ExtensionRequest(containing_type="tripartite.v1.Ticket", extension_number=1)
    right = [
        message.SerializeToString()
        for message in (
            request(list_services="x"),
            request(file_by_filename="tripartite/v1/ticket.proto"),
            request(file_containing_symbol="tripartite.v1.CensusService"),
            request(file_containing_extension=extension),
            request(all_extension_numbers_of_type="google.protobuf.MethodOptions"),
            request(host=HUGE_TEXT),
        )
    ]
    words = [b"tripartite.v1.", b"google.protobuf.", b"\x3a\x00", b"\xf8\x07\x01", b"\xff", b".", b"/"]
    tried = mutations(f"{SEED}/reflection", right[:-1], words, MUTATIONS, 1000)
    async with undisturbed(world, caplog, reflection=True) as nodes:
        callers: dict[Role, Identity] = {"census": OWNER, "health": OWNER, "researcher": CENSUS}
        for role, identity in callers.items():
            assert await said(nodes, role, identity, REFLECTION, *right) == "OK"
        heard = await all_said(nodes, "census", OWNER, REFLECTION, tried)
    assert set(heard) == {"OK", "MALFORMED_MESSAGE"}


# --- streams of a sample ---------------------------------------------------------------------------------------------

# When a stream ends while we write, the library may put a status of its own in place of its peer's.
CUT_SHORT = "the stream ended while we were writing"
PARTS = {
    "head": "the order's head",
    "bits": "its only part",
    "other head": "the head of another order",
    "other bits": "the part of another order",
    "empty": "a request without a part",
    "garbage": "bytes that are no request",
    "unknown": "a field that nobody knows",
}


def parts(world: World, order: Order) -> dict[str, bytes]:
    """Everything that may come in a stream for this order."""
    head, bits = (message.SerializeToString() for message in world.messages(world.sample(order)))
    other = [message.SerializeToString() for message in world.messages(world.sample(world.order()))]
    return {
        "head": head,
        "bits": bits,
        "other head": other[0],
        "other bits": other[1],
        "empty": b"",
        "garbage": b"\xff\xff\xff",
        "unknown": b"\xf8\x07\x01",
    }


async def count(channel: aio.Channel, wire: Sequence[bytes]) -> str:
    """Say all the parts and hear everything; gives the code of the error, `OK`, or CUT_SHORT."""
    streamed = _count(channel)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            for message in wire:
                try:
                    await streamed.write(message)
                except asyncio.InvalidStateError:
                    break
                except aio.AioRpcError:
                    return CUT_SHORT
            with contextlib.suppress(asyncio.InvalidStateError):
                await streamed.done_writing()
            while await streamed.read() is not aio.EOF:
                pass
    except aio.AioRpcError as error:
        return _code_of(error)
    return "OK"


def is_whole(sequence: Sequence[str]) -> bool:
    """Messages after the last part are ignored."""
    return list(sequence[:2]) == ["head", "bits"]


def sequences(count: int) -> list[list[str]]:
    """Random orders and repetitions; half of them begin as they should."""
    chance = random.Random(f"{SEED}/sequences")
    made = []
    for number in range(count):
        begin = [[], ["head"], ["head"], ["head", "bits"]][number % 4]
        made.append(begin + chance.choices(list(PARTS), k=chance.randint(0, 4)))
    return made


async def test_parts_of_a_sample_in_any_order_are_charged_only_when_whole(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Only those of a hundred streams are charged that are a head and its part."""
    whole: list[Order] = []
    async with undisturbed(world, caplog, whole) as nodes:
        async with nodes.channel(HEALTH, "census") as channel:
            for sequence in sequences(100):
                order = world.order()
                if is_whole(sequence):
                    whole.append(order)
                pieces = parts(world, order)
                wire = [pieces[part] for part in sequence]
                heard = await count(channel, wire)
                assert heard in (("OK", CUT_SHORT) if is_whole(sequence) else (*CALLERS_FAULT, CUT_SHORT)), (
                    sequence,
                    heard,
                )
        await until(lambda: not nodes.census._queries)
        charged = {charge.ticket for charge in world.charges()}
        assert charged == {order.hash.hex() for order in whole}
    assert len(whole) > 5


async def test_mutated_parts_of_a_sample_are_refused(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """One part of an honest attempt is changed a little: nothing is charged, unless it still says the same."""
    chance = random.Random(f"{SEED}/parts")
    whole: list[Order] = []
    async with undisturbed(world, caplog, whole) as nodes, nodes.channel(HEALTH, "census") as channel:
        for number in range(MUTATIONS):
            order = world.order()
            messages = world.messages(world.sample(order))
            wire = [message.SerializeToString() for message in messages]
            at = chance.randrange(len(wire))
            (wire[at],) = mutations(
                f"{SEED}/{number}", [wire[at]], [b"\xf8\x07\x01", b"\x1a\x00"], 1, MAX_MESSAGE_BYTES
            )
            heard = await count(channel, wire)
            is_same = means(wire[at], messages[at])
            assert heard in (("OK", CUT_SHORT) if is_same else (*CALLERS_FAULT, CUT_SHORT)), (number, at, heard)
            if is_same:
                whole.append(order)
        await until(lambda: not nodes.census._queries)
    assert len(world.charges()) == len(whole) + 1


async def test_streams_that_end_half_way_are_refused(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Half-closed after any number of parts: a typed refusal."""
    async with undisturbed(world, caplog) as nodes, nodes.channel(HEALTH, "census") as channel:
        for said_before in range(2):
            wire = list(parts(world, world.order()).values())[:said_before]
            assert await count(channel, wire) == "MALFORMED_MESSAGE"


async def test_streams_that_stop_half_way_are_ended(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Left open without a word after any number of parts: ended, and said to be our wait."""
    serving = undisturbed(world, caplog, deadline_ms=500)
    async with serving as nodes, nodes.channel(HEALTH, "census") as channel:
        for said_before in range(2):
            wire = list(parts(world, world.order()).values())[:said_before]
            assert await left_open(channel, wire) == "PEER_UNAVAILABLE"


# --- streams of a roster ---------------------------------------------------------------------------------------------


async def test_parts_of_a_roster_in_any_order_bring_no_roster(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Cut, repeated, mixed and mutated parts of an honest roster: typed refusals, and nothing of them is kept."""
    chance = random.Random(f"{SEED}/roster")
    whole = [part.SerializeToString() for part in MadeRoster(world=world, rows=world.people, number=2).parts()]
    strange = [b"", b"\xff\xff\xff", b"\xf8\x07\x01"]
    async with undisturbed(world, caplog) as nodes, nodes.channel(HEALTH, "census") as channel:
        for number in range(MUTATIONS):
            wire = whole[: chance.randint(0, 4)] + chance.choices([*whole[:4], *strange], k=chance.randint(0, 3))
            (first,) = mutations(f"{SEED}/roster/{number}", [whole[0]], strange, 1, MAX_MESSAGE_BYTES)
            heard = await call(channel, CENSUS_RPCS["SendRoster"], *(wire if number % 2 else [first, *whole[1:3]]))
            assert heard in CALLERS_FAULT
        with world.census.journal.reading():
            assert {roster.number for roster in RosterBook(world.census.journal.db).all()} == {1}
        # A file and a key for each agency's first one.
        assert len(list((world.census_folder / "rosters").iterdir())) == 2 * 2


async def left_open(channel: aio.Channel, wire: Sequence[bytes]) -> str:
    """Say these parts and no more, without hanging up; gives what is heard in the end."""
    streamed = _count(channel)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            for message in wire:
                await streamed.write(message)
            while await streamed.read() is not aio.EOF:
                pass
    except aio.AioRpcError as error:
        return _code_of(error)
    return "OK"


async def test_abandoned_streams_leave_nothing_behind(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Hung up before the last part, more often than the node has streams: they are free again, nothing is held."""
    async with undisturbed(world, caplog) as nodes:
        for number in range(40):
            order = world.order()
            wire = list(parts(world, order).values())[: number % 2]
            async with nodes.channel(HEALTH, "census") as channel:
                streamed = _count(channel)
                for message in wire:
                    await streamed.write(message)
                streamed.cancel()
        await until(lambda: not nodes.census._queries)
        assert not nodes.census._streams._held
        assert world.census._reservations.reserved("", charged={}) == NOTHING_RESERVED


async def test_abandoned_submissions_go_on_to_one_charge(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A whole valid question whose researcher hangs up is charged once, however often it is sent and abandoned."""
    order = world.order()
    wire = order.submission.SerializeToString()
    async with undisturbed(world, caplog, [order]) as nodes:
        for _ in range(5):
            async with nodes.channel(OWNER, "health") as channel:
                path = "/tripartite.v1.HealthService/Submit"
                stream = channel.unary_stream(path, request_serializer=bytes, response_deserializer=bytes)(wire)
                await stream.read()
                stream.cancel()
        assert await said(nodes, "health", OWNER, HEALTH_RPCS["Submit"], wire) == "OK"
        assert [charge.ticket for charge in world.charges()] == [order.hash.hex()]


def _count(channel: aio.Channel) -> Any:
    path = "/tripartite.v1.CensusService/Count"
    return channel.stream_stream(path, request_serializer=bytes, response_deserializer=bytes)(timeout=PATIENCE_SECONDS)


def _code_of(error: aio.AioRpcError) -> str:
    return broker_error(error, "census").code
