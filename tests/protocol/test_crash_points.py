"""A node that dies between any two durable steps goes on from its files: one charge, one noise, one answer.

Dying is abandoning the node and starting another one on a copy of the bytes that its files hold at that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fakes.connections import at, watch
from fakes.world import RESEARCHER, Order, OrderedSample, World, charge_and_answer, make_policy, release
from protocol.dishonest import signed_refusal
from tripartite.v1 import sample_pb2

from broker_common.crypto.commitments import hash_bytes
from broker_common.errors import InvalidRequestError
from broker_common.privacy.accounting import price
from broker_common.tlog.entries import Delivered, Released
from health_node.node import Accepted, HealthNode
from health_node.query.forwarding import Sample, VerifiedCharge, make_manifest


class PowerCutError(Exception):
    """Raised where the power goes."""


def cut(*_: object, **__: object) -> None:
    """The end of everything in memory."""
    raise PowerCutError


def charge_only(world: World, sample: OrderedSample) -> None:
    """Up to the durable charge, and no further."""
    admitted = world.admit(world.messages(sample))
    kept = world.census.keeping.keep(admitted)
    world.census.charging.charge(admitted, kept, at_ms=world.census.clock())


@pytest.fixture(params=["strict", "per_person"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Under either accounting."""
    made = World(tmp_path, make_policy(accounting=request.param))
    yield made
    made.close()


# --- the census node -------------------------------------------------------------------------------------------------


def finish_by_recovery(world: World, sample: OrderedSample) -> None:
    """A node's own recovery after a start."""
    del sample
    for attempt in world.census.recover():
        release(world.census, attempt.verify_claim().ticket_hash)


def finish_by_retry(world: World, sample: OrderedSample) -> None:
    """The health node's retry after no answer: the same sample, in a fresh attempt."""
    charge_and_answer(world.census, world.admit(world.messages(sample)))
    world.release(sample.order)


Finish = Callable[[World, OrderedSample], None]
BOTH_WAYS = pytest.mark.parametrize("finish", [finish_by_recovery, finish_by_retry])


def verify_one_answer(world: World, order: Order) -> bytes:
    """The ticket has one charge and one released answer, which opens; gives the sealed bytes."""
    assert [charge.ticket for charge in world.charges()] == [order.hash.hex()]
    sealed = world.sealed(order)
    (released,) = world.events(Released)
    assert (released.ticket, released.answer) == (order.hash.hex(), hash_bytes(sealed).hex())
    answer = world.open(order, sealed)
    assert (answer.scale, answer.charged) == (30, price(30))
    assert world.verify_log().charged_units == price(30)
    world.verify_honest_query()
    return sealed


@pytest.mark.parametrize("step", ["insert into entries", "insert into pending"])
def test_death_inside_the_charge_leaves_nothing(world: World, step: str) -> None:
    """Before the commit nothing exists: no charge, no pending row; asking again works."""
    order = world.order()
    admitted = world.admit(world.messages(world.sample(order)))
    watch(world.census.journal.db, before=at(step, cut))
    with world.unchanged(), pytest.raises(PowerCutError):
        charge_and_answer(world.census, admitted)
    world.crash_census()
    assert world.census.recover() == []
    assert world.charges() == []
    world.verify_honest_query()


@BOTH_WAYS
def test_death_after_the_charge(world: World, finish: Finish) -> None:
    """Charged and not answered: the answer is made after the start, and paid for once."""
    order = world.order()
    sample = world.sample(order)
    charge_only(world, sample)
    world.crash_census()
    finish(world, sample)
    verify_one_answer(world, order)


@BOTH_WAYS
@pytest.mark.parametrize("step", ["add_noise", "pad_answer", "SealingKey", "WaitingAnswer"])
def test_death_while_the_answer_is_made(
    world: World, monkeypatch: pytest.MonkeyPatch, finish: Finish, step: str
) -> None:
    """Counted and not stored: what was counted is lost, and counted again from what the charge fixed."""
    order = world.order()
    sample = world.sample(order)
    admitted = world.admit(world.messages(sample))
    with monkeypatch.context() as patch:
        patch.setattr(f"census_node.query.answering.{step}", cut)
        with pytest.raises(PowerCutError):
            charge_and_answer(world.census, admitted)
    world.crash_census()
    finish(world, sample)
    verify_one_answer(world, order)


def test_noise_is_drawn_once_however_often_the_node_dies(world: World) -> None:
    """Made three times from one charge, by three starts of the node, the answer is the same number."""
    order = world.order()
    sample = world.sample(order)
    charge_only(world, sample)
    noisy = []
    for finish in (finish_by_recovery, finish_by_retry, finish_by_recovery):
        before = world.census_folder
        world.crash_census()
        finish(world, sample)
        noisy.append(world.open(order, world.sealed(order)).noisy_count)
        world.census_folder = before
    assert len(set(noisy)) == 1


def test_two_charges_of_the_same_people_draw_different_noise(world: World) -> None:
    """The seed is fixed by the charge, not by the question: the same question asked 20 times gives many numbers."""
    noisy = set()
    for _ in range(20):
        order = world.order()
        noisy.add(world.open(order, world.answer(order, world.sample(order))).noisy_count)
    # At scale 30 the chance of 20 draws within 5 values is below 10^-12.
    assert len(noisy) > 5


@BOTH_WAYS
def test_death_after_the_answer_is_stored(world: World, finish: Finish) -> None:
    """Stored and not released: it is these bytes that go out, and the release is logged once."""
    order = world.order()
    sample = world.sample(order)
    world.charge(order, sample)
    stored = world.census.released.waiting_answer(order.body.query_id.hex())
    assert stored is not None
    world.crash_census()
    with pytest.raises(AssertionError, match="the answer is not out"):
        world.sealed(order)
    finish(world, sample)
    assert verify_one_answer(world, order) == stored.sealed


@BOTH_WAYS
def test_death_after_the_release(world: World, finish: Finish) -> None:
    """Released and not delivered: the same bytes wait for their researcher, and delivery is logged once."""
    order = world.order()
    sample = world.sample(order)
    sealed = world.answer(order, sample)
    world.crash_census()
    finish(world, sample)
    query = order.body.query_id.hex()
    assert world.census.released.undelivered([RESEARCHER]) == {RESEARCHER: [query]}
    waiting = world.census.released.waiting_answer(query)
    assert waiting is not None
    assert waiting.sealed == sealed
    world.census.released.delivered(order.hash.hex(), "inbox")
    world.crash_census()
    world.census.released.delivered(order.hash.hex(), "collect")
    assert world.census.released.undelivered([RESEARCHER]) == {}
    assert world.events(Delivered) == [Delivered(ticket=order.hash.hex(), by="inbox")]
    assert verify_one_answer(world, order) == sealed


def test_reservations_end_with_the_process_and_slots_do_not_come_back(world: World) -> None:
    """After a crash no slot that was used is given out again."""
    used = []
    for _ in range(3):
        order = world.order()
        used.append(order.body.noise_slot.number)
        world.answer(order)
        world.crash_census()
    assert world.reserve() not in used
    assert len(set(used)) == 3


def test_older_copy_of_the_entries_is_not_taken_for_the_newer(world: World) -> None:
    """A log that lost its last charge does not lead to its stored checkpoint, and the node refuses to start."""
    world.answer(world.order())
    world.census.journal.db.execute("delete from entries where sequence = (select max(sequence) from entries)")
    with pytest.raises(Exception, match="INTEGRITY"):
        world.crash_census()


# --- the health node -------------------------------------------------------------------------------------------------


def accept(world: World, health: HealthNode, order: Order) -> Accepted:
    """Submit the ticket."""
    return health.accept(order.submission, health.verify(order.submission, RESEARCHER, world.policy))


def hand_over(world: World, order: Order, sample: Sample) -> VerifiedCharge:
    """The census node's proof to the health node."""
    proved = charge_and_answer(world.census, world.admit(world.messages(OrderedSample(order, sample))))
    return VerifiedCharge(proved.index, proved.note)


def forward(world: World, health: HealthNode, accepted: Accepted) -> sample_pb2.SignedManifest:
    """Log what precedes an attempt; gives the signed manifest."""
    manifest = make_manifest(health.sample(accepted))
    return health.log_forwarded(manifest, world.secrets.manifest, people=1)


@pytest.mark.parametrize("died_after", ["accepted", "forwarded", "charged", "reported"])
def test_health_node_dies_on_the_way(world: World, died_after: str) -> None:
    """Wherever the health node dies, it goes on with the same ticket and the same sample: one charge."""
    health, order = world.open_health(), world.order()
    ticket = order.hash.hex()
    accepted = accept(world, health, order)
    before = health.sample(accepted)
    if died_after != "accepted":
        forward(world, health, accepted)
    if died_after in {"charged", "reported"}:
        charge = hand_over(world, order, before)
        if died_after == "reported":
            health.log_charge(ticket, charge)
    health = world.crash_health()
    accepted = health.resume(*health.unfinished())
    again = health.sample(accepted)
    assert again.bits.commitment(again.bound) == before.bits.commitment(before.bound)
    assert accepted.signed_ticket == order.signed
    forward(world, health, accepted)
    health.log_charge(ticket, hand_over(world, order, again))
    health.log_settled(ticket)
    state = world.verify_health_log()
    assert state.tickets[ticket].settled
    assert not state.open_tickets
    world.release(order)
    verify_one_answer(world, order)
    assert world.crash_health().unfinished() == []


def test_settled_ticket_is_not_forwarded_again(world: World) -> None:
    """Submitting a settled ticket again finds it settled, also after a restart."""
    health, order = world.open_health(), world.order()
    accepted = accept(world, health, order)
    forward(world, health, accepted)
    health.log_charge(order.hash.hex(), hand_over(world, order, health.sample(accepted)))
    health.log_settled(order.hash.hex())
    for restarted in (health, world.crash_health()):
        assert accept(world, restarted, order).settled


@pytest.mark.parametrize("charged", [False, True])
def test_ticket_that_expired_during_the_outage_is_forwarded_again(world: World, charged: bool) -> None:
    """Whether it was charged before the crash only the census node knows: it is asked, and its word is the end."""
    health, order = world.open_health(), world.order()
    accepted = accept(world, health, order)
    before = health.sample(accepted)
    if charged:
        forward(world, health, accepted)
        hand_over(world, order, before)
    charged_at = len(world.entries()) - 1
    world.clock.now_ms = order.body.expires_ms
    for started in (health, world.crash_health()):
        accepted = started.resume(*started.unfinished())
        assert not accept(world, started, order).settled
        again = started.sample(accepted)
        assert again.bits.commitment(again.bound) == before.bits.commitment(before.bound)
        if charged:
            assert hand_over(world, order, again).log_index == charged_at
        else:
            with pytest.raises(InvalidRequestError, match="TICKET_EXPIRED"):
                hand_over(world, order, again)
    assert len(world.charges()) == charged


def test_expired_ticket_that_was_never_accepted_is_refused(world: World) -> None:
    """Only a ticket that was taken in time is good for ever; any other expires."""
    health, order = world.open_health(), world.order()
    world.clock.now_ms = order.body.expires_ms
    with pytest.raises(InvalidRequestError, match="TICKET_EXPIRED"):
        accept(world, health, order)
    assert not world.verify_health_log().tickets


def test_refused_ticket_stays_refused(world: World) -> None:
    """A ticket that the census node refused is closed; the same ticket again is not forwarded and hears the same refusal."""
    health, order = world.open_health(), world.order()
    accepted = accept(world, health, order)
    signed = forward(world, health, accepted)
    head = sample_pb2.SampleHead(ticket=accepted.signed_ticket, manifest=signed)
    health.log_refused(order.hash.hex(), signed_refusal(world, head, "SLOT_UNUSABLE"))
    health = world.crash_health()
    assert health.unfinished() == []
    with pytest.raises(InvalidRequestError, match="SLOT_UNUSABLE"):
        accept(world, health, order)
    assert world.verify_health_log().tickets[order.hash.hex()].manifest


def test_charged_ticket_is_never_logged_as_refused(world: World) -> None:
    """Once the census node has proved a charge, a later refusal of a retry does not close the ticket."""
    health, order = world.open_health(), world.order()
    accepted = accept(world, health, order)
    forward(world, health, accepted)
    health.log_charge(order.hash.hex(), hand_over(world, order, health.sample(accepted)))
    health.log_refused(order.hash.hex(), InvalidRequestError("POLICY_MISMATCH"))
    assert world.crash_health().unfinished() == [order.hash.hex()]
