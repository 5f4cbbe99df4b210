"""Tickets that were altered, forged, borrowed, outdated or made up are refused by both nodes, and nothing is charged."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from fakes.world import HEALTH, OTHER_RESEARCHER, RESEARCHER, Order, World, charge_and_answer
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tripartite.v1 import condition_pb2, health_service_pb2, sample_pb2, ticket_pb2

from broker_common.crypto.commitments import SlotSecret, commit_slot
from broker_common.crypto.sample_bits import HEAD_BYTES, SealedSample
from broker_common.crypto.sealing import SEALING_KEY_BYTES
from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import BrokerError, InvalidRequestError
from broker_common.query.messages import parse_message
from broker_common.query.question import EVERYONE
from broker_common.query.ticket import MAX_LIFETIME_MS, MAX_TICKET_BYTES, verify_ticket
from census_node.query.admission import Arrived
from health_node.node import HealthNode

Ticket = ticket_pb2.Ticket
Change = Callable[[ticket_pb2.Ticket], object]

# Field 127, a number: no message of ours has it.
UNKNOWN_FIELD = b"\xf8\x07\x01"
# Codes with which a ticket that is not the signed one may be refused; anything else would be obeyed or crash.
NOT_THE_SIGNED_ONE = ("MALFORMED_MESSAGE", "UNKNOWN_RESEARCHER", "UNKNOWN_KEY", "BAD_SIGNATURE")


def hand_to_census(world: World, order: Order) -> None:
    """Walk the ticket to a charge, as a colluding health node would: its sample is perfect."""
    world.charge(order)


def hand_to_health(world: World, health: HealthNode, order: Order, caller: str = RESEARCHER) -> None:
    """Submit the ticket."""
    health.accept(order.submission, health.verify(order.submission, caller, world.policy))


def altered(order: Order, change: Change) -> Order:
    """The order with its ticket changed after it was signed."""
    body = order.body
    change(body)
    signed = ticket_pb2.SignedTicket(
        ticket=body.SerializeToString(deterministic=True), signature=order.signed.signature, key_id=order.signed.key_id
    )
    return Order(signed, order.unsealing_key, order.condition, order.nonce)


def with_unknown_field(message: Message) -> None:
    """Add a field that our protocol does not have."""
    message.MergeFromString(UNKNOWN_FIELD)


def ask_for(variable: str, *values: str) -> Change:
    """Put another question into the ticket, as spelt here."""

    def change(body: Ticket) -> None:
        body.question.CopyFrom(ticket_pb2.Question(variable=variable, cells=[ticket_pb2.Cell(values=values)]))

    return change


def ask_for_cells(*cells: tuple[str, ...]) -> Change:
    """Put a question of several cells into the ticket, as spelt here."""
    question = ticket_pb2.Question(variable="mother_tongue", cells=[ticket_pb2.Cell(values=values) for values in cells])
    return lambda body: body.question.CopyFrom(question)


def setting(**fields: object) -> Change:
    """Set plain fields."""

    def change(body: Ticket) -> None:
        for name, value in fields.items():
            setattr(body, name, value)

    return change


AFTER_SIGNING: dict[str, Change] = {
    "question": ask_for("mother_tongue", "English"),
    "everyone": lambda body: body.question.CopyFrom(EVERYONE.to_wire()),
    "scale": setting(scale=1),
    "answer key": setting(answer_key=os.urandom(SEALING_KEY_BYTES)),
    "slot": lambda body: setattr(body.noise_slot, "number", body.noise_slot.number + 1),
    "fraction": setting(fraction_millionths=1),
    "policy hash": setting(policy_hash=bytes(32)),
    "expiry": lambda body: setting(expires_ms=body.expires_ms + 1)(body),
    "query id": setting(query_id=bytes(16)),
    "project": setting(project_id="another-study"),
    "release": setting(census_release="2016"),
    "criteria": setting(criteria_commitment=bytes(32)),
    "researcher": setting(researcher_id=OTHER_RESEARCHER),
}


@pytest.mark.parametrize("what", AFTER_SIGNING)
def test_ticket_altered_after_signing_is_refused(world: World, what: str) -> None:
    """The carrier of a ticket can change nothing in it: not the question, not the price, not whom the answer is for."""
    forged = altered(world.order(), AFTER_SIGNING[what])
    health = world.open_health()
    with world.refusing(*NOT_THE_SIGNED_ONE):
        hand_to_census(world, forged)
    with world.refusing(*NOT_THE_SIGNED_ONE):
        hand_to_health(world, health, forged)
    assert not world.verify_health_log().tickets


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_single_bit_of_a_ticket_can_be_flipped(world: World, data: st.DataObject) -> None:
    """Any one bit of ticket, signature or key id changed on the way makes the whole ticket worthless to both nodes."""
    wire = bytearray(world.order(slot=0).signed.SerializeToString(deterministic=True))
    bit = data.draw(st.integers(0, 8 * len(wire) - 1), label="bit")
    wire[bit // 8] ^= 1 << bit % 8
    for receive in (verify_at_census, verify_at_health):
        with world.unchanged(), pytest.raises(InvalidRequestError) as caught:
            # As a server reads it: a message that holds anything unknown never reaches a handler.
            receive(world, parse_message(ticket_pb2.SignedTicket, bytes(wire)))
        assert caught.value.code in NOT_THE_SIGNED_ONE


def verify_at_census(world: World, signed: ticket_pb2.SignedTicket) -> None:
    """The first step of admission."""
    nothing = Arrived(signed, sample_pb2.SignedManifest(), SealedSample(b"", []))
    world.census.attempt(HEALTH.organisation, nothing).verify_claim()


def verify_at_health(world: World, signed: ticket_pb2.SignedTicket) -> None:
    """The first step of a submission."""
    verify_ticket(signed, researchers=world.researchers, caller=RESEARCHER)


def test_ticket_signed_by_another_key_is_refused(world: World) -> None:
    """A key that is not registered for the researcher signs nothing, under its own id or under a borrowed one."""
    for key in (world.secrets.ticket[OTHER_RESEARCHER], SigningKey.generate(Purpose.TICKET, os.urandom)):
        forged = world.order(key=key)
        with world.refusing("UNKNOWN_KEY"):
            hand_to_census(world, forged)
        forged.signed.key_id = world.secrets.ticket[RESEARCHER].key_id
        with world.refusing("BAD_SIGNATURE"):
            hand_to_census(world, forged)


def test_signature_made_for_another_purpose_is_no_ticket(world: World) -> None:
    """One key, one purpose: even the same key bytes under another domain prefix sign no ticket."""
    key = SigningKey(Purpose.MANIFEST, world.secrets.ticket[RESEARCHER].expose())
    forged = world.order()
    forged.signed.signature = key.sign(forged.signed.ticket)
    forged.signed.key_id = world.secrets.ticket[RESEARCHER].key_id
    with world.refusing("BAD_SIGNATURE"):
        hand_to_census(world, forged)


def test_wrong_key_id_is_refused(world: World) -> None:
    """A good signature under the name of another key is refused, not searched for."""
    order = world.order()
    order.signed.key_id = "0" * 16
    with world.refusing("UNKNOWN_KEY"):
        hand_to_census(world, order)


def test_unregistered_researcher_is_refused(world: World) -> None:
    """A researcher whom the agencies did not register cannot ask, no matter who signs."""
    order = world.order(change=setting(researcher_id="nobody"))
    with world.refusing("UNKNOWN_RESEARCHER"):
        hand_to_census(world, order)


def test_project_of_nobody_is_refused(world: World) -> None:
    """A study that is not registered for the researcher cannot ask."""
    order = world.order(change=setting(project_id="another-study"))
    with world.refusing("UNKNOWN_PROJECT"):
        hand_to_census(world, order)


def test_ticket_handed_in_by_another_researcher_is_refused(world: World) -> None:
    """Only its owner submits a ticket: who copied one cannot spend it."""
    order, health = world.order(), world.open_health()
    with world.refusing("UNKNOWN_RESEARCHER"):
        hand_to_health(world, health, order, caller=OTHER_RESEARCHER)
    assert not world.verify_health_log().tickets


MADE_WRONGLY: dict[str, tuple[Change, str]] = {
    "short query id": (setting(query_id=bytes(15)), "MALFORMED_MESSAGE"),
    "long query id": (setting(query_id=bytes(17)), "MALFORMED_MESSAGE"),
    "short commitment": (setting(criteria_commitment=bytes(31)), "MALFORMED_MESSAGE"),
    "long policy hash": (setting(policy_hash=bytes(33)), "MALFORMED_MESSAGE"),
    "fraction of nobody": (setting(fraction_millionths=0), "MALFORMED_MESSAGE"),
    "fraction above one": (setting(fraction_millionths=1_000_001), "MALFORMED_MESSAGE"),
    "scale zero": (setting(scale=0), "MALFORMED_MESSAGE"),
    "no question": (lambda body: body.ClearField("question"), "MALFORMED_MESSAGE"),
    "empty question": (lambda body: body.question.Clear(), "MALFORMED_MESSAGE"),
    "no slot": (lambda body: body.ClearField("noise_slot"), "MALFORMED_MESSAGE"),
    "no answer key": (setting(answer_key=b""), "MALFORMED_MESSAGE"),
    "answer key of zeros": (setting(answer_key=bytes(SEALING_KEY_BYTES)), "MALFORMED_MESSAGE"),
    "answer key too long": (setting(answer_key=bytes(SEALING_KEY_BYTES + 1)), "MALFORMED_MESSAGE"),
    "no expiry": (setting(expires_ms=0), "TICKET_EXPIRED"),
    "expiry before 1970": (setting(expires_ms=-1), "TICKET_EXPIRED"),
    "expiry for ever": (setting(expires_ms=2**63 - 1), "TICKET_EXPIRED"),
    "other policy": (setting(policy_hash=bytes(32)), "POLICY_MISMATCH"),
    "other release": (setting(census_release="2016"), "RELEASE_MISMATCH"),
    "scale not admitted": (setting(scale=51), "SCALE_REFUSED"),
    "largest scale there is": (setting(scale=2**32 - 1), "SCALE_REFUSED"),
    "unknown variable": (ask_for("religion", "French"), "UNKNOWN_VARIABLE"),
    "unknown value": (ask_for("mother_tongue", "Klingon"), "UNKNOWN_VALUE"),
    "value of another variable": (ask_for("mother_tongue", "French only"), "UNKNOWN_VALUE"),
    "values out of order": (ask_for("mother_tongue", "French", "English"), "MALFORMED_MESSAGE"),
    "a value twice": (ask_for("mother_tongue", "French", "French"), "MALFORMED_MESSAGE"),
    "no value": (ask_for("mother_tongue"), "MALFORMED_MESSAGE"),
    "unknown field": (with_unknown_field, "MALFORMED_MESSAGE"),
    "unknown field in the question": (lambda body: with_unknown_field(body.question), "MALFORMED_MESSAGE"),
    "unknown field in a cell": (lambda body: with_unknown_field(body.question.cells[0]), "MALFORMED_MESSAGE"),
    "no cell": (lambda body: body.question.ClearField("cells"), "MALFORMED_MESSAGE"),
    "a value in two cells": (ask_for_cells(("English", "French"), ("French",)), "MALFORMED_MESSAGE"),
    "the rest twice": (ask_for_cells(("French",), (), ()), "MALFORMED_MESSAGE"),
    "more cells than there are": (ask_for_cells(*((f"{number:02}",) for number in range(17))), "MALFORMED_MESSAGE"),
    "a cell of unknown values": (ask_for_cells(("French",), ("Klingon",)), "UNKNOWN_VALUE"),
    "unknown field in the slot": (lambda body: with_unknown_field(body.noise_slot), "MALFORMED_MESSAGE"),
}


@pytest.mark.parametrize("what", MADE_WRONGLY)
def test_ticket_that_its_researcher_made_wrongly_is_refused(world: World, what: str) -> None:
    """A good signature does not help a ticket that asks for what is not offered."""
    change, code = MADE_WRONGLY[what]
    order = world.order(change=change)
    with world.refusing(code):
        hand_to_census(world, order)


def test_ticket_longer_than_any_honest_one_is_refused(world: World) -> None:
    """Size is checked before anything is parsed or verified."""
    order = world.order()
    order.signed.ticket = bytes(MAX_TICKET_BYTES + 1)
    with world.refusing("MALFORMED_MESSAGE"):
        verify_at_census(world, order.signed)


def test_ticket_expires_at_its_last_millisecond(world: World) -> None:
    """The instant of expiry is already too late; the clock alone decides."""
    order = world.order()
    world.clock.now_ms = order.body.expires_ms
    with world.refusing("TICKET_EXPIRED"):
        hand_to_census(world, order)


def test_ticket_living_longer_than_a_quote_may_is_refused(world: World) -> None:
    """A ticket cannot be made today for a time when nobody remembers it."""
    too_long = world.clock() + MAX_LIFETIME_MS + 1
    order = world.order(change=setting(expires_ms=too_long))
    with world.refusing("TICKET_EXPIRED"):
        hand_to_census(world, order)


# --- slots -----------------------------------------------------------------------------------------------------------


def test_slot_that_nobody_reserved_is_refused(world: World) -> None:
    """Noise is drawn at places that a quote gave out, not at places of the asker's choice."""
    for slot in (5, 2**53, 2**64 - 1):
        order = world.order(slot=slot)
        with world.refusing("SLOT_UNUSABLE"):
            hand_to_census(world, order)


def test_slot_reserved_for_another_researcher_is_refused(world: World) -> None:
    """A reservation binds the slot to one researcher; who saw its number gains nothing."""
    order = world.order(slot=world.reserve(OTHER_RESEARCHER))
    with world.refusing("SLOT_UNUSABLE"):
        hand_to_census(world, order)


def test_slot_that_served_once_serves_no_other_ticket(world: World) -> None:
    """Two answers never share their noise: the slot of a charged ticket is spent, and stays so after a restart."""
    first = world.order()
    world.answer(first)
    slot = first.body.noise_slot.number
    with world.refusing("SLOT_UNUSABLE"):
        hand_to_census(world, world.order(slot=slot))
    world.crash_census()
    with world.refusing("SLOT_UNUSABLE"):
        hand_to_census(world, world.order(slot=slot))


def test_slot_belongs_to_the_first_ticket_that_brings_it(world: World) -> None:
    """Whichever sample is admitted first has the slot, whatever becomes of it: no later one races it."""
    slot = world.reserve()
    first, second = world.order(slot=slot), world.order(slot=slot)
    world.admit(world.messages(world.sample(first)))
    with world.refusing("SLOT_UNUSABLE"):
        world.charge(second)
    world.charge(first)


def test_slot_is_not_claimed_by_a_sample_that_is_refused(world: World) -> None:
    """A refused sample takes nothing from the ticket that the slot was quoted for."""
    slot = world.reserve()
    order = world.order(slot=slot)
    for wrong in (world.order(slot=slot, scale=51), world.order(slot=slot, change=setting(policy_hash=bytes(32)))):
        with world.unchanged(), pytest.raises(BrokerError):
            world.charge(wrong)
    unsealed = world.messages(world.sample(world.order(slot=slot)))
    unsealed[0].head.sealed_head = bytes(HEAD_BYTES)
    with world.unchanged(), pytest.raises(InvalidRequestError, match="SEALED_WRONGLY"):
        world.admit(unsealed)
    world.charge(order)


def test_two_tickets_on_one_slot_admitted_at_once_are_charged_once(world: World) -> None:
    """Should two processes hold one slot for two tickets, the charge looks again, under the lock of the journal."""
    slot = world.reserve()
    first, second = world.order(slot=slot), world.order(slot=slot)
    node = world.census
    admitted = world.admit(world.messages(world.sample(second)))
    world.open_census()
    world.hold(world.census, slot)
    world.answer(first)
    with world.refusing("SLOT_UNUSABLE"):
        charge_and_answer(node, admitted)


def test_slot_that_the_log_commits_to_otherwise_is_refused(world: World) -> None:
    """Should the node itself come to hold another commitment than its log: the charge asks the log, and nothing is spent."""
    number = world.reserve()
    other = commit_slot(SlotSecret(os.urandom(32)), number)
    held = world.census.slots._held
    held[number] = replace(held[number], slot=replace(held[number].slot, commitment=other))
    world.offered[number].commitment = other
    order = world.order(slot=number)
    admitted = world.admit(world.messages(world.sample(order)))
    with world.refusing("SLOT_UNUSABLE"):
        charge_and_answer(world.census, admitted)


def test_slot_of_an_expired_quote_is_refused(world: World) -> None:
    """A reservation ends with its quote, even for a ticket that lives longer."""
    order = world.order(change=lambda body: setting(expires_ms=body.expires_ms + 60_000)(body))
    world.clock.advance(world.policy.quote_lifetime_ms)
    with world.refusing("SLOT_UNUSABLE"):
        hand_to_census(world, order)


def test_slot_reserved_before_a_restart_is_refused(world: World) -> None:
    """Reservations live in memory: after a restart one quotes again, and nothing was charged."""
    order = world.order()
    world.crash_census()
    with world.refusing("SLOT_UNUSABLE"):
        hand_to_census(world, order)


def test_oldest_reservation_gives_way(world: World) -> None:
    """Open quotes are bounded for each researcher; the oldest one's ticket is refused, another researcher's is not."""
    other, first = world.order(OTHER_RESEARCHER), world.order()
    for _ in range(world.policy.open_quotes):
        world.reserve()
    with world.refusing("SLOT_UNUSABLE"):
        hand_to_census(world, first)
    world.answer(other)


# --- what only the health node can check -----------------------------------------------------------------------------


def wrong_submissions(order: Order, other: Order) -> Iterator[tuple[health_service_pb2.SubmitRequest, str]]:
    """Submissions whose ticket is perfect and whose criteria are not the ones it was made for."""
    good = order.submission
    yield _changed(good, criteria=other.condition.to_wire()), "COMMITMENT_MISMATCH"
    yield _changed(good, criteria_nonce=other.nonce), "COMMITMENT_MISMATCH"
    yield _changed(good, criteria_nonce=good.criteria_nonce[:31]), "MALFORMED_MESSAGE"
    yield _changed(good, criteria_nonce=good.criteria_nonce + b"\0"), "MALFORMED_MESSAGE"
    yield _changed(good, criteria_nonce=b""), "MALFORMED_MESSAGE"
    nothing = _changed(good)
    nothing.ClearField("criteria")
    yield nothing, "MALFORMED_MESSAGE"
    unknown = _changed(good)
    with_unknown_field(unknown.criteria)
    yield unknown, "MALFORMED_MESSAGE"


def _changed(
    request: health_service_pb2.SubmitRequest,
    *,
    criteria: condition_pb2.Condition | None = None,
    criteria_nonce: bytes | None = None,
) -> health_service_pb2.SubmitRequest:
    return health_service_pb2.SubmitRequest(
        ticket=request.ticket,
        criteria=request.criteria if criteria is None else criteria,
        criteria_nonce=request.criteria_nonce if criteria_nonce is None else criteria_nonce,
    )


def test_criteria_other_than_those_committed_to_are_refused(world: World) -> None:
    """A ticket stands for one condition: the health node opens the commitment before it looks at any record."""
    health = world.open_health()
    for request, code in wrong_submissions(world.order(), world.order(where="age < 20")):
        with world.refusing(code):
            health.accept(request, health.verify(request, RESEARCHER, world.policy))
    assert not world.verify_health_log().tickets


@pytest.mark.parametrize("what", ["other policy", "no expiry", "unknown field", "no answer key"])
def test_health_node_refuses_before_it_draws_a_sample(world: World, what: str) -> None:
    """The health node makes every check that it can, before anything is accepted."""
    change, code = MADE_WRONGLY[what]
    order, health = world.order(change=change), world.open_health()
    with world.refusing(code):
        hand_to_health(world, health, order)
    assert not world.verify_health_log().tickets


def test_second_ticket_with_a_used_query_id_is_refused_by_the_health_node(world: World) -> None:
    """One query id, one ticket: a researcher cannot have two samples under one name."""
    health, first = world.open_health(), world.order()
    hand_to_health(world, health, first)
    second = world.order(change=setting(query_id=first.body.query_id))
    with world.refusing("TICKET_REUSED"):
        hand_to_health(world, health, second)
    assert list(world.verify_health_log().tickets) == [first.hash.hex()]


def test_submitting_again_is_no_second_ticket(world: World) -> None:
    """The same ticket again is a retry: one acceptance, one sample, one salt."""
    health, order = world.open_health(), world.order()
    samples = [
        health.sample(health.accept(order.submission, health.verify(order.submission, RESEARCHER, world.policy)))
        for _ in range(2)
    ]
    assert len({sample.bits.commitment(sample.bound) for sample in samples}) == 1
    assert len(world.verify_health_log().tickets) == 1
