"""A health node that uses a ticket for more than it was signed for gets nothing more; one that retries loses nothing."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from fakes.dictionaries import CENSUS_DICTIONARY
from fakes.links import count, stream
from fakes.patience import PATIENCE_SECONDS
from fakes.registries import write_registry
from fakes.world import HEALTH, OTHER_HEALTH, RESEARCHER, OrderedSample, World, charge_and_answer, make_policy
from protocol.pair import at_work
from tripartite.v1 import census_service_pb2

from broker_common.crypto.commitments import SALT_BYTES
from broker_common.crypto.linkage import LinkageKey
from broker_common.errors import BrokerError, RefusedError
from broker_common.privacy.delays import DECLARED_STEP
from broker_common.rpc.server import StopSignal
from broker_common.storage.journal import Checkpointed
from broker_common.storage.loads import LoadFolder
from broker_common.tlog.entries import Charged, Released
from census_node.config import LimitConfig
from census_node.query.flow import Charge
from census_node.release.slots import Slot
from census_node.service import CensusService


@pytest.fixture
async def service(world: World) -> CensusService:
    """The service of the world's census node, whose desk a test sets to work."""
    limits = LimitConfig(max_queries=16, cosignature_wait_ms=int(1000 * PATIENCE_SECONDS))
    return CensusService(world.census, limits, StopSignal(), people=DECLARED_STEP)


async def hand_over(service: CensusService, messages: Sequence[census_service_pb2.CountRequest]) -> list[bytes]:
    """Call Count to its end; gives what was said."""
    said = count(service, stream(messages), HEALTH)
    return [response.SerializeToString(deterministic=True) async for response in said]


def test_another_set_for_a_charged_ticket_is_refused(world: World) -> None:
    """One ticket, one sample: differencing two samples under one ticket is refused, before and after the release."""
    order = world.order()
    salt = os.urandom(SALT_BYTES)
    world.charge(order, world.sample(order, salt=salt))
    without_one = world.sample(order, world.people[1:], salt)
    with world.refusing("TICKET_REUSED"):
        world.charge(order, without_one)
    world.release(order)
    with world.refusing("TICKET_REUSED"):
        world.charge(order, without_one)
    world.crash_census()
    with world.refusing("TICKET_REUSED"):
        world.charge(order, without_one)
    assert [charge.ticket for charge in world.charges()].count(order.hash.hex()) == 1


def test_same_people_under_another_salt_are_another_set(world: World) -> None:
    """The health node commits once: a second commitment to the same people is refused too."""
    order = world.order()
    world.charge(order)
    with world.refusing("TICKET_REUSED"):
        world.charge(order)


def test_query_id_of_a_charged_ticket_serves_no_other(world: World) -> None:
    """One query id, one ticket: a second ticket under the same id, even of the same researcher, is refused."""
    first = world.order()
    world.answer(first)
    second = world.order(change=lambda body: setattr(body, "query_id", first.body.query_id))
    with world.refusing("TICKET_REUSED"):
        world.charge(second)


def test_retry_is_charged_once_and_answered_with_the_same_bytes(world: World) -> None:
    """The same ticket and set again, in a fresh attempt: one charge, one noise, one sealed answer."""
    order = world.order()
    sample = world.sample(order)
    sealed = world.answer(order, sample)
    for _ in range(3):
        assert world.answer(order, sample) == sealed
    assert len(world.charges()) == len(world.events(Released)) == 1


def test_retry_after_a_restart_is_charged_once_and_answered_with_the_same_bytes(world: World) -> None:
    """The promise is the log's, not the memory's: it holds for a node that was started again."""
    order = world.order()
    sample = world.sample(order)
    sealed = world.answer(order, sample)
    world.census.journal.close()
    world.open_census()
    assert world.answer(order, sample) == sealed
    assert len(world.charges()) == 1


def test_retry_proves_the_first_charge(world: World) -> None:
    """The answer to a retry about the one charge does not depend on what the node has done since, in any bit."""
    order = world.order()
    sample = world.sample(order)
    first = charge_and_answer(world.census, world.admit(world.messages(sample)))
    world.verify_honest_query()
    again = charge_and_answer(world.census, world.admit(world.messages(sample)))
    assert again == first
    assert world.census_log.verifier.verify_checkpoint(first.note).size == first.index + 1
    world.crash_census()
    assert charge_and_answer(world.census, world.admit(world.messages(sample))) == first


async def test_retries_while_the_first_attempt_still_runs_are_one_query(world: World, service: CensusService) -> None:
    """Sixteen attempts at once, each sealed anew: one charge, one answer, and all of them hear the same."""
    order = world.order()
    sample = world.sample(order)
    async with at_work(service):
        attempts = [hand_over(service, world.messages(sample)) for _ in range(16)]
        heard = await asyncio.gather(*attempts)
    assert len(world.charges()) == len(world.events(Released)) == 1
    assert heard == [heard[0]] * 16
    assert world.open(order, world.sealed(order)).scale == 30
    world.verify_honest_query()


async def test_retry_that_is_verified_while_the_charge_commits_is_told_of_it(
    world: World, service: CensusService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever moment of the first attempt a retry falls into, it is never told that its slot is unusable."""
    sample = world.sample(world.order())
    is_held, verifying, charged = world.census.slots.is_held, threading.Semaphore(0), threading.Event()
    asked = itertools.count()

    def first_is_charged_meanwhile(slot: Slot, researcher: str, now_ms: int) -> bool:
        if next(asked) == 0:
            # Until the retry is being verified too.
            verifying.acquire()
        else:
            verifying.release()
            charged.wait()
        return is_held(slot, researcher, now_ms)

    charge = world.census.charging.charge

    def told(*arguments: Any, **named: Any) -> Charge:
        made = charge(*arguments, **named)
        charged.set()
        return made

    monkeypatch.setattr(world.census.slots, "is_held", first_is_charged_meanwhile)
    monkeypatch.setattr(world.census.charging, "charge", told)
    async with at_work(service):
        first, retry = await asyncio.gather(*(hand_over(service, world.messages(sample)) for _ in range(2)))
    assert first == retry
    assert len(world.charges()) == 1


def test_two_nodes_on_one_journal_charge_a_ticket_once(world: World) -> None:
    """The store decides, not one process: the second one tries again, and is told of the charge that there is."""
    order = world.order()
    sample = world.sample(order)
    first = world.census
    admitted = world.admit(world.messages(sample))
    kept = first.keeping.keep(admitted)
    second = world.open_census()
    world.hold(second, order.body.noise_slot.number)
    proved = charge_and_answer(second, world.admit(world.messages(sample)))
    with world.unchanged(), pytest.raises(RefusedError, match="BUSY"):
        first.charging.charge(admitted, kept, at_ms=first.clock())
    assert charge_and_answer(first, admitted) == proved
    assert len(world.charges()) == 1
    world.verify_honest_query()


async def test_two_samples_racing_for_one_ticket_leave_one(world: World, service: CensusService) -> None:
    """Two sets for one ticket at the same moment: one is charged, the other is refused."""
    order = world.order()
    salt = os.urandom(SALT_BYTES)
    samples = [world.sample(order, people, salt) for people in (world.people, world.people[1:])]

    async def race(sample: OrderedSample) -> str:
        try:
            await hand_over(service, world.messages(sample))
        except BrokerError as error:
            return error.code
        return sample.set_commitment.hex()

    async with at_work(service):
        outcomes = set(await asyncio.gather(*map(race, samples)))
    assert "TICKET_REUSED" in outcomes
    (charge,) = world.charges()
    assert charge.submitted in outcomes
    world.verify_honest_query()


def test_charge_names_what_the_ticket_and_the_manifest_say(world: World) -> None:
    """The entry holds the ticket's scale, slot, question and researcher and the manifest's commitment, and no sizes."""
    order = world.order(scale=20)
    sample = world.sample(order)
    world.answer(order, sample)
    (charge,) = world.charges()
    body = order.body
    assert (charge.ticket, charge.query) == (order.hash.hex(), body.query_id.hex())
    assert (charge.scale, charge.slot, charge.researcher) == (20, body.noise_slot.number, RESEARCHER)
    assert charge.submitted == sample.set_commitment.hex()
    assert charge.active != charge.submitted
    assert set(Charged.__struct_fields__) == {
        *("query", "ticket", "slot", "scale", "units", "question", "researcher", "project", "health"),
        *("load", "roster", "manifest", "submitted", "active", "ledger", "total"),
    }


# --- good for ever ---------------------------------------------------------------------------------------------------


def expire(world: World) -> None:
    """A year passes: ticket, quote and slot are long gone."""
    world.clock.advance(365 * 86_400_000)


def reload_census(world: World) -> None:
    """The operator loads another census, under another release."""
    loads = LoadFolder(world.census_folder / "registries", ".npz")
    write_registry(world.make_registry("f" * 16), loads.file("f" * 16))
    loads.put_in_force(world.census.journal, "f" * 16, "2016", world.linkage, os.urandom, dictionary=CENSUS_DICTIONARY)


def change_linkage_key(world: World) -> None:
    """The operator changes the linkage key: the old pseudonyms are in no registry in force."""
    world.relink_census(LinkageKey(bytes(32)))


def adopt_another_policy(world: World) -> None:
    """The operator adopts a policy with a smaller cap and without the ticket's scale."""
    policy = world.policy
    world.order_policy(make_policy(max_belief="0.7", scales=(20,)))
    # Tickets of before are still made.
    world.policy = policy


def shut_down(world: World) -> None:
    """The operator ends the service."""
    world.shut_down()


def restart(world: World) -> None:
    """The node forgets every reservation."""
    world.crash_census()


def everything(world: World) -> None:
    """All of it."""
    for change in (expire, reload_census, adopt_another_policy, shut_down, restart):
        change(world)


@pytest.mark.parametrize(
    "change", [expire, reload_census, change_linkage_key, adopt_another_policy, shut_down, restart, everything]
)
@pytest.mark.parametrize("released", [False, True])
def test_charged_ticket_is_good_for_ever_for_its_one_answer(
    world: World, change: Callable[[World], None], released: bool
) -> None:
    """Whatever expired or changed since: brought again it has the same charge, proof and byte-identical answer."""
    order = world.order()
    sample = world.sample(order)
    first = charge_and_answer(world.census, world.admit(world.messages(sample)))
    if released:
        world.release(order)
    stored = world.census.released.waiting_answer(order.body.query_id.hex())
    assert stored is not None
    change(world)
    for _ in range(2):
        assert charge_and_answer(world.census, world.admit(world.messages(sample))) == first
        world.release(order)
        assert world.sealed(order) == stored.sealed
    assert world.open(order, stored.sealed).scale == 30
    assert len(world.charges()) == len(world.events(Released)) == 1


@pytest.mark.parametrize("change", [expire, reload_census, change_linkage_key, adopt_another_policy, shut_down])
def test_charge_that_was_not_answered_yet_is_answered_whatever_changed(
    world: World, monkeypatch: pytest.MonkeyPatch, change: Callable[[World], None]
) -> None:
    """Charged, and then the node died: the answer is made on the load and under the policy of the charge."""
    order = world.order()
    sample = world.sample(order)
    admitted = world.admit(world.messages(sample))
    with monkeypatch.context() as patch:
        patch.setattr(world.census.answers, "make", lambda *_: None)
        charge_and_answer(world.census, admitted)
    change(world)
    world.crash_census()
    charge_and_answer(world.census, world.admit(world.messages(sample)))
    world.release(order)
    assert world.open(order, world.sealed(order)).policy_hash == world.policy.hash
    assert len(world.charges()) == 1


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (expire, "TICKET_EXPIRED"),
        (reload_census, "RELEASE_MISMATCH"),
        (change_linkage_key, "ROSTER_NOT_IN_FORCE"),
        (adopt_another_policy, "POLICY_MISMATCH"),
        (shut_down, "SERVICE_SHUT_DOWN"),
        (restart, "SLOT_UNUSABLE"),
    ],
)
def test_ticket_that_was_not_charged_is_good_for_its_time_only(
    world: World, change: Callable[[World], None], code: str
) -> None:
    """The same changes refuse every ticket that was not paid for, another one of the same researcher too."""
    charged, other = world.order(), world.order()
    world.charge(charged)
    change(world)
    with world.unchanged(), pytest.raises(BrokerError, match=code):
        world.charge(other)


def test_charged_ticket_is_good_for_its_set_only(world: World) -> None:
    """A charged ticket skips the checks of time and policy only: another set, sender or signature is refused as ever."""
    order = world.order()
    sample = world.sample(order)
    world.answer(order, sample)
    everything(world)
    forged = world.messages(sample)
    forged[0].head.manifest.signature = bytes(64)
    for messages, sender, code in (
        (world.messages(world.sample(order, world.people[1:], sample.sample.bits.salt)), HEALTH, "TICKET_REUSED"),
        (world.messages(sample), OTHER_HEALTH, "UNKNOWN_KEY"),
        (forged, HEALTH, "BAD_SIGNATURE"),
    ):
        with world.unchanged(), pytest.raises(BrokerError, match=code):
            charge_and_answer(world.census, world.admit(messages, sender))


def test_proof_of_a_charge_shows_nothing_that_happened_after_it(world: World) -> None:
    """The log that a charge is proved in ends with it: no matter who else asks meanwhile, the same bytes are said."""
    order = world.order()
    sample = world.sample(order)
    first = world.admit(world.messages(sample))
    prove, before = world.census.journal.prove, len(world.entries())

    def meanwhile(index: int) -> Checkpointed:
        # Another query is charged between this charge and its proof, for the answer as for the health node.
        patch.undo()
        world.answer(world.order())
        return prove(index)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.census.journal, "prove", meanwhile)
        proved = charge_and_answer(world.census, first)
    checkpoint = world.census_log.verifier.verify_checkpoint(proved.note)
    assert checkpoint.size == proved.index + 1 == before + 1
    assert len(world.entries()) > checkpoint.size
    world.release(order)
    answer = world.open(order, world.sealed(order))
    assert (answer.checkpoint, answer.log_index) == (proved.note, proved.index)
    assert list(answer.inclusion_proof) == proved.proof
