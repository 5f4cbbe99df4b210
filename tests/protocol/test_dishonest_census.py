"""A census agency that cheats: what each attack is caught by, and that nothing was gained before it was.

The attacker has every key and every file of the census node, and changes its code where it likes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.dictionaries import CENSUS_DICTIONARY
from fakes.links import NO_CONTEXT
from fakes.patience import PATIENCE_SECONDS, until
from fakes.quotes import Offer
from fakes.world import CENSUS, CENSUS_ORIGIN, FRENCH, HEALTH, RESEARCHER, World, charge_and_answer, release
from msgspec import structs
from protocol.dishonest import LogSession, charged_otherwise, known_census_log, release_anyway
from protocol.log_link import census_witness, log_service
from protocol.pair import STAGES
from protocol.witnessed import WitnessedPair
from tripartite.v1 import answer_pb2, census_service_pb2, log_service_pb2

from broker_common.crypto.certificates import Identity
from broker_common.crypto.commitments import SlotSecret, commit_slot
from broker_common.errors import BrokerError, InternalError, InvalidRequestError, PeerUnavailableError
from broker_common.query.question import parse_question
from broker_common.rpc.callers import set_caller
from broker_common.rpc.server import StopSignal
from broker_common.storage.witnessing import WitnessStore
from broker_common.tlog.entries import Released, Slots, encode_entry, parse_entry
from broker_common.tlog.note import NoteSigner, parse_note
from census_node.config import LimitConfig
from census_node.service import CensusService
from researcher_node.trust.census_log import RememberedCheckpoint, verify_slot
from researcher_node.trust.checking import Outcome, check_receipts

LIMITS = LimitConfig()


# --- drawing noise again ---------------------------------------------------------------------------------------------


def test_redrawing_noise_by_aborting_after_the_count(world: World) -> None:
    """Caught by the noise seed: slot, ticket and set fix it, so that counting again gives the same number.

    Five times the census agency looks at the answer, puts back its files as they were before the charge, noise secrets
    and all, and charges the same ticket again.
    """
    order = world.order()
    sample = world.sample(order)
    before = world.copy_census()
    noisy = []
    for _ in range(5):
        world.census_folder = before
        world.crash_census()
        world.hold(world.census, order.body.noise_slot.number)
        noisy.append(world.open(order, world.answer(order, sample)).noisy_count)
    assert len(set(noisy)) == 1


async def test_redrawing_noise_by_aborting_a_charge_that_was_shown(world: World) -> None:
    """Caught by the health node's witness: a log without the charge does not go on from the one that it has cosigned."""
    pair, fork = WitnessedPair(world), world.fork_census()
    order = world.order()
    async with pair.witnessing():
        assert await pair.submit(order) == STAGES
    cosigned = pair.cosigned_by_health
    assert cosigned is not None
    # The files from before the charge, and other entries in its place, more of them.
    while fork.journal.state.size <= cosigned.size:
        world.grow_census(fork)
    pair.logs.service = log_service(world, fork, LIMITS)
    pair.logs.script = lambda request: pair.logs.honestly(_without_cosigned(request))
    async with pair.witnessing():
        await pair.rounds(3)
    assert pair.cosigned_by_health == cosigned
    assert order.hash.hex() in [charge.ticket for charge in world.charges()]


def _without_cosigned(request: log_service_pb2.WitnessRequest) -> log_service_pb2.WitnessRequest:
    """The health node's word as seen by a census node that would rather not have heard it."""
    return log_service_pb2.WitnessRequest(checkpoint=request.checkpoint, wait_ms=0)


async def test_redrawing_noise_with_another_slot_than_the_quoted_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Caught by the health node, which refuses the charge, and by the researcher, who refuses the answer."""
    pair, answers, order = WitnessedPair(world), world.open_answers(), world.order()
    query = world.remember(answers, order)
    async with pair.witnessing():
        monkeypatch.setattr("census_node.query.charging.Charged", charged_otherwise(slot=lambda slot: slot + 1))
        assert await pair.submit(order) == "PEER_MISBEHAVED"
        # Not as soon as it stands in the log: it is let out after that.
        await until(lambda: world.census.released.released_answer(query, RESEARCHER) is not None)
    assert world.charges()[0].slot == order.body.noise_slot.number + 1
    with pytest.raises(PeerUnavailableError, match="PEER_MISBEHAVED"):
        answers.receive(answer_pb2.SealedAnswer(query_id=bytes.fromhex(query), sealed=world.sealed(order)))
    assert answers.get(query).state == "pending"


def test_redrawing_noise_with_the_slot_of_another_ticket(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Caught by the replay of the log: a slot serves one ticket, SLOT_NOT_OPEN for every other."""
    used = world.order()
    world.answer(used)
    order = world.order()
    admitted = world.admit(world.messages(world.sample(order)))
    monkeypatch.setattr("census_node.query.charging.Charged", charged_otherwise(slot=used.body.noise_slot.number))
    with world.unchanged(), pytest.raises(InternalError, match="SLOT_NOT_OPEN"):
        charge_and_answer(world.census, admitted)


@pytest.mark.parametrize("slot", [lambda slot: slot - 1, lambda slot: slot + 10_000], ids=["void", "not committed"])
def test_redrawing_noise_with_a_slot_that_nobody_may_use(
    world: World, monkeypatch: pytest.MonkeyPatch, slot: Callable[[int], int]
) -> None:
    """Caught by the replay of the log: what a restart has made void, or nobody has committed to, is SLOT_NOT_OPEN."""
    world.crash_census().recover()
    admitted = world.admit(world.messages(world.sample(world.order())))
    monkeypatch.setattr("census_node.query.charging.Charged", charged_otherwise(slot=slot))
    with world.unchanged(), pytest.raises(InternalError, match="SLOT_NOT_OPEN"):
        charge_and_answer(world.census, admitted)


# --- committing to noise when it is known what for -------------------------------------------------------------------


async def quote(world: World) -> Offer:
    """An honest quote."""
    service = CensusService(world.census, LIMITS, StopSignal(), people=world.places)
    set_caller(Identity("university", "researcher", RESEARCHER))
    question = parse_question(FRENCH, CENSUS_DICTIONARY).to_wire()
    return Offer.of(await service.Quote(census_service_pb2.QuoteRequest(question=question, scale=30), NO_CONTEXT))


async def test_honest_quote_is_believed(world: World) -> None:
    """The lies below differ from this in one place each."""
    quoted = await quote(world)
    verify_slot(quoted.noise_slot, quoted.shown, known_census_log(world))


def _fresh_commitment(_: World, quoted: Offer) -> None:
    quoted.noise_slot.commitment = commit_slot(SlotSecret(os.urandom(32)), quoted.noise_slot.number)


def _fresh_entry(_: World, quoted: Offer) -> None:
    entry = parse_entry(quoted.slot_entry)
    _fresh_commitment(_, quoted)
    event = Slots(first=quoted.noise_slot.number, void_below=0, commitments=(quoted.noise_slot.commitment.hex(),))
    quoted.slot_entry = encode_entry(structs.replace(entry, event=event))


def _fresh_batch(world: World, quoted: Offer, *, cosigned_by: Identity | None) -> None:
    """Everything as it should be, in the log itself; but nobody has seen the log like that before the quote."""
    world.cosigning = False
    world.census.commit_slots(afresh=True)
    journal = world.census.journal
    entry = world.entries()[-1]
    assert isinstance(entry.event, Slots)
    note = journal.checkpoint()
    if cosigned_by is not None:
        note = world.cosigner(cosigned_by).cosign(note, 1)
    slot = quoted.noise_slot
    slot.number, slot.commitment, slot.checkpoint = entry.event.first, bytes.fromhex(entry.event.commitments[0]), note
    quoted.slot_entry, quoted.slot_index = encode_entry(entry), entry.sequence
    quoted.slot_proof[:] = journal.inclusion_proof(entry.sequence, entry.sequence + 1)


def _fresh_batch_under_the_cosigned_checkpoint(world: World, quoted: Offer) -> None:
    cosigned = quoted.noise_slot.checkpoint
    _fresh_batch(world, quoted, cosigned_by=None)
    quoted.noise_slot.checkpoint = cosigned


def _void_slot(world: World, quoted: Offer) -> None:
    world.census.commit_slots(afresh=True)
    entry = world.entries()[-1]
    quoted.slot_entry, quoted.slot_index = encode_entry(entry), entry.sequence
    cosigned = world.census.publication.cosigned()
    assert cosigned is not None
    quoted.noise_slot.checkpoint = cosigned.note
    quoted.slot_proof[:] = world.census.journal.inclusion_proof(entry.sequence, cosigned.size)


LATE: dict[str, Callable[[World, Offer], None]] = {
    "another commitment than the log's": _fresh_commitment,
    "an entry that is not in the log": _fresh_entry,
    "a checkpoint that nobody has cosigned": lambda world, quoted: _fresh_batch(world, quoted, cosigned_by=None),
    "a checkpoint that another agency has cosigned": lambda world, quoted: _fresh_batch(
        world, quoted, cosigned_by=CENSUS
    ),
    "an entry after the cosigned checkpoint": _fresh_batch_under_the_cosigned_checkpoint,
    "a slot that its entry does not commit to": lambda _, quoted: setattr(
        quoted.noise_slot, "number", quoted.noise_slot.number + 64
    ),
    "a slot of an earlier batch": _void_slot,
}


@pytest.mark.parametrize("what", LATE)
async def test_late_commitment_to_noise(world: World, what: str) -> None:
    """Caught by the researcher, who signs for no slot whose commitment is not under a cosigned checkpoint."""
    quoted = await quote(world)
    LATE[what](world, quoted)
    with pytest.raises(PeerUnavailableError, match="PEER_MISBEHAVED"):
        verify_slot(quoted.noise_slot, quoted.shown, known_census_log(world))


@pytest.mark.parametrize("change", ["commitment", "checkpoint"])
def test_slot_of_the_ticket_exchanged_after_the_quote(world: World, change: str) -> None:
    """Caught by the ticket's signature, and by an honest census node: it serves a slot as it was quoted, or not at all."""
    other = world.order().body.noise_slot
    world.grow_census()
    order = world.order(change=lambda body: setattr(body.noise_slot, change, getattr(other, change)))
    assert getattr(world.offered[order.body.noise_slot.number], change) != getattr(other, change)
    with world.refusing("SLOT_UNUSABLE"):
        world.charge(order)


# --- two histories ---------------------------------------------------------------------------------------------------


async def test_two_histories_shown_to_the_health_agency(world: World) -> None:
    """Caught by the health node's witness: the second history is not cosigned, and no answer leaves from it."""
    pair, fork, order = WitnessedPair(world), world.fork_census(), world.order()
    async with pair.witnessing():
        assert await pair.submit(world.order()) == STAGES
    cosigned = pair.cosigned_by_health
    # The other history has a charge of its own, and is shown from now on.
    world.hold(fork, order.body.noise_slot.number)
    census, world.census = world.census, fork
    charge_and_answer(fork, world.admit(world.messages(world.sample(order))))
    world.census = census
    for _ in range(20):
        world.grow_census(fork)
    pair.logs.service = log_service(world, fork, LIMITS)
    pair.logs.script = lambda request: pair.logs.honestly(_without_cosigned(request))
    async with pair.witnessing() as running:
        await pair.rounds(3)
        assert not running.done()
    assert pair.cosigned_by_health == cosigned
    with pytest.raises(PeerUnavailableError, match="NOT_WITNESSED"):
        release(fork, order.hash.hex())
    assert fork.released.released_answer(order.body.query_id.hex(), RESEARCHER) is None


@pytest.mark.parametrize("cosigned", [False, True], ids=["health honest", "health in league"])
async def test_two_histories_shown_to_a_researcher(world: World, tmp_path: Path, cosigned: bool) -> None:
    """Caught by `answers --check`: a receipt's checkpoint is in the log for ever, or the promise is broken.

    An honest health agency has not cosigned the second history, so that it proves nothing; one that did is no help.
    """
    fork = world.fork_census()
    answers, order = world.open_answers(), world.order()
    query = world.remember(answers, order)
    answers.receive(answer_pb2.SealedAnswer(query_id=bytes.fromhex(query), sealed=world.answer(order)))
    world.cosigning = cosigned
    for _ in range(20):
        world.grow_census(fork)
    if cosigned:
        world.cosign(fork)
    service = log_service(world, fork, LIMITS)
    seen = RememberedCheckpoint(tmp_path / "census.checkpoint")
    report = await check_receipts(LogSession(world, service), seen, answers.receipts())
    assert report.receipts[query].outcome is Outcome.BROKEN
    assert report.error is not None
    assert report.error.code == "PROMISE_BROKEN"
    honest = LogSession(world, log_service(world, world.census, LIMITS))
    world.cosign()
    own = RememberedCheckpoint(tmp_path / "another.checkpoint")
    assert (await check_receipts(honest, own, answers.receipts())).receipts[query].outcome is Outcome.HELD


async def test_history_that_a_researcher_was_shown_and_is_shown_no_more(world: World, tmp_path: Path) -> None:
    """Caught by `answers --check` without any receipt: what was seen at an earlier check is remembered."""
    fork = world.fork_census()
    for node in (world.census, fork):
        for _ in range(3):
            world.grow_census(node)
        world.cosign(node)
    seen, outcomes = RememberedCheckpoint(tmp_path / "census.checkpoint"), []
    for node in (world.census, fork):
        session = LogSession(world, log_service(world, node, LIMITS))
        outcomes.append((await check_receipts(session, seen, [])).log.outcome)
    assert outcomes == [Outcome.HELD, Outcome.BROKEN]


# --- yesterday's copy ------------------------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path: Path) -> World:
    """A census agency with a witness store, after one answer."""
    store = WitnessStore(tmp_path / "elsewhere")
    store.folder.mkdir()
    world = World(tmp_path / "stored", witness_store=store)
    world.answer(world.order())
    return world


def restore(world: World, folder: Path) -> None:
    """Put a copy in the place of the census home, and start."""
    world.census_folder = folder
    world.crash_census()


def test_restoring_yesterdays_database_while_the_health_node_lies(stored: World) -> None:
    """Caught by the witness store, which no health node has a hand in: the node refuses to serve."""
    yesterday = stored.copy_census()
    for _ in range(2):
        stored.answer(stored.order())
        today = stored.census_folder
        with pytest.raises(InternalError, match="ROLLED_BACK") as caught:
            restore(stored, yesterday)
        assert caught.value.stops_node
        stored.census_folder = today
    stored.crash_census().recover()
    stored.verify_honest_query()
    stored.close()


def test_restoring_a_database_beside_what_was_seen(stored: World) -> None:
    """Caught by the witness store: a history that is longer but goes another way is no continuation."""
    yesterday = stored.copy_census()
    stored.answer(stored.order())
    today = stored.census_folder
    store, stored.witness_store = stored.witness_store, None
    restore(stored, yesterday)
    for _ in range(20):
        stored.grow_census()
    stored.witness_store = store
    other = stored.census_folder
    with pytest.raises(InternalError, match="ROLLED_BACK"):
        restore(stored, other)
    restore(stored, today)
    stored.census.recover()
    stored.verify_honest_query()
    stored.close()


def test_emptying_the_witness_store(stored: World) -> None:
    """Caught by the log itself, which says that it has been shown: an empty store is a lost one."""
    store = stored.witness_store
    assert store is not None
    (store.folder / "checkpoint").unlink()
    with pytest.raises(InternalError, match="ROLLED_BACK"):
        stored.crash_census()
    store.folder.rmdir()
    with pytest.raises(InvalidRequestError, match="FILE_UNUSABLE"):
        stored.crash_census()
    stored.close()


def test_witness_store_with_a_checkpoint_of_somebody_else(stored: World) -> None:
    """Caught by the tree: no matter who signed it, it is not of this log."""
    store = stored.witness_store
    assert store is not None
    store.put(NoteSigner(CENSUS_ORIGIN, (stored.secrets.health_log,)).sign_checkpoint(1, bytes(32)))
    with pytest.raises(InternalError, match="ROLLED_BACK"):
        stored.crash_census()
    stored.close()


def test_answering_without_the_witness_store(stored: World) -> None:
    """Caught by the order of steps: nothing is shown, and so nothing cosigned, before the store holds it."""
    store, order = stored.witness_store, stored.order()
    assert store is not None
    (store.folder / "checkpoint").unlink()
    store.folder.rmdir()
    shown = stored.census.publication.newer_than(0)
    with pytest.raises(InternalError, match="STORE_FAILED"):
        stored.charge(order)
    assert stored.census.publication.newer_than(0) == shown
    with pytest.raises(PeerUnavailableError, match="NOT_WITNESSED"):
        stored.release(order)
    stored.close()


def test_every_checkpoint_that_is_cosigned_stands_in_the_store(stored: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above relies on this, at every step of a question's life: the store is never behind what was shown."""
    store, cosign, compared = stored.witness_store, stored.cosign, []
    assert store is not None

    def witnessed(*arguments: object) -> None:
        shown = stored.census.publication.newer_than(0)
        assert shown is not None
        assert store.read() == shown[1]
        compared.append(shown[0])
        cosign(*arguments)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(stored, "cosign", witnessed)
    stored.verify_honest_query()
    assert compared
    stored.close()


async def test_restoring_yesterdays_database_without_a_store(world: World) -> None:
    """Caught by an honest health node, which shows the larger log that it has cosigned: the node stops."""
    pair, yesterday = WitnessedPair(world), world.copy_census()
    async with pair.witnessing():
        assert await pair.submit(world.order()) == STAGES
    world.census_folder = yesterday
    pair.restart_census()
    request = log_service_pb2.WitnessRequest(cosigned=_note(pair), wait_ms=0)
    with pytest.raises(InternalError, match="ROLLED_BACK") as caught:
        await pair.logs.honestly(request)
    # The server stops on such an error, whichever call it came up in.
    assert caught.value.stops_node
    # To the health node it is the census node's fault, and it goes on.
    async with pair.witnessing() as running:
        await pair.rounds(3)
        assert not running.done()


async def test_restored_database_that_has_outgrown_what_was_seen(world: World) -> None:
    """Caught by an honest health node all the same: what it has cosigned is not in this log."""
    pair, yesterday = WitnessedPair(world), world.copy_census()
    async with pair.witnessing():
        assert await pair.submit(world.order()) == STAGES
    world.census_folder = yesterday
    pair.restart_census()
    for _ in range(20):
        world.grow_census()
    with pytest.raises(InternalError, match="ROLLED_BACK"):
        await pair.logs.honestly(log_service_pb2.WitnessRequest(cosigned=_note(pair), wait_ms=0))


def _note(pair: WitnessedPair) -> str:
    cosigned = pair.cosigned_by_health
    assert cosigned is not None
    return cosigned.note


async def test_health_nodes_own_restored_database(world: World) -> None:
    """Caught by the census node's cosigned note, which it says in every round: the health node stops."""
    pair = WitnessedPair(world, witness_wait_ms=50)
    async with pair.witnessing():
        await until(lambda: pair.cosigned_by_census is not None)
    yesterday = world._copy(world.health_folder)
    async with pair.witnessing():
        assert await pair.submit(world.order()) == STAGES
        size = pair.node.journal.state.size
        await until(lambda: pair.cosigned_by_census is not None and pair.cosigned_by_census.size == size)
    today, world.health_folder = world.health_folder, yesterday
    restored = census_witness(world, world.crash_health(), pair.logs)
    with pytest.raises(InternalError, match="ROLLED_BACK") as caught:
        await asyncio.wait_for(restored.run(), PATIENCE_SECONDS)
    assert caught.value.stops_node
    world.health_folder = today
    await pair.restart_health()
    async with pair.witnessing():
        await pair.verify_usable()


async def test_restored_database_of_the_health_node_that_went_on_otherwise(world: World) -> None:
    """Caught by the same note, of any size: the entries that the census node has seen are not in this log."""
    pair = WitnessedPair(world)
    async with pair.witnessing():
        await until(lambda: pair.cosigned_by_census is not None)
    yesterday = world._copy(world.health_folder)
    world.load_health(300)
    size = len(world.health_entries())
    async with pair.witnessing():
        await until(lambda: pair.cosigned_by_census is not None and pair.cosigned_by_census.size == size)
    for loads in (1, 2, 3):
        world.health_folder = yesterday
        node = world.crash_health()
        for _ in range(loads):
            world.load_health(200)
        restored = census_witness(world, node, pair.logs)
        with pytest.raises(InternalError, match="ROLLED_BACK"):
            await asyncio.wait_for(restored.run(), PATIENCE_SECONDS)


# --- too early, too cheap --------------------------------------------------------------------------------------------


def test_release_before_the_cosignature(world: World) -> None:
    """Caught by the node's own release: without a cosigned checkpoint that covers the charge there is none."""
    order, world.cosigning = world.order(), False
    world.charge(order)
    with world.unchanged(), pytest.raises(PeerUnavailableError, match="NOT_WITNESSED"):
        world.release(order)
    assert world.census.released.released_answer(order.body.query_id.hex(), RESEARCHER) is None
    world.cosign()
    world.release(order)
    assert world.open(order, world.sealed(order)).scale == 30


EARLY: dict[str, Callable[[World], str]] = {
    "the checkpoint before the charge": lambda world: world.census.journal.checkpoint(world.verify_log().size - 1),
    "the first checkpoint": lambda world: world.census.journal.checkpoint(1),
    "a checkpoint of entries to come": lambda world: world.census_log.sign_checkpoint(10**6, bytes(32)),
    "a checkpoint of the health log": lambda world: world.health_log.sign_checkpoint(
        world.verify_log().size, bytes(32)
    ),
    "no checkpoint": lambda _: "none",
}


@pytest.mark.parametrize("what", EARLY)
def test_release_that_is_logged_before_the_cosignature(world: World, what: str) -> None:
    """Caught by the replay of the log: RELEASE_NOT_COSIGNED, for the node at its next start and for every auditor."""
    order, world.cosigning = world.order(), False
    world.charge(order)
    with world.unchanged():
        error = release_anyway(world.census, order, EARLY[what](world))
    assert isinstance(error, InternalError)
    assert "RELEASE_NOT_COSIGNED" in str(error)


def test_release_names_a_checkpoint_that_the_health_agency_cosigned(world: World) -> None:
    """The checkpoint by which the auditor judges a release: log and health agency have signed it, and it covers the charge."""
    order = world.order()
    world.answer(order)
    (released,) = world.events(Released)
    assert world.cosigner(HEALTH).verifier.verify(released.checkpoint).checkpoint.size > next(
        entry.sequence for entry in world.entries() if getattr(entry.event, "ticket", "") == order.hash.hex()
    )
    assert world.census_log.verifier.verify_checkpoint(released.checkpoint) == parse_note(released.checkpoint)[0]


def test_charging_less_than_the_price(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Caught by the replay of the log: CHARGE_WRONG; the totals are recomputed from the scales."""
    admitted = world.admit(world.messages(world.sample(world.order())))
    cheaper = charged_otherwise(units=lambda units: units - 1, total=lambda total: total - 1)
    monkeypatch.setattr("census_node.query.charging.Charged", cheaper)
    with world.unchanged(), pytest.raises(InternalError, match="CHARGE_WRONG"):
        charge_and_answer(world.census, admitted)


async def test_charging_less_than_the_price_without_the_rules_of_the_log(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Caught by the health node and by the researcher, each alone, when the census node's own replay looks away."""
    pair, answers, order = WitnessedPair(world), world.open_answers(), world.order()
    query = world.remember(answers, order)
    monkeypatch.setattr("broker_common.tlog.census_state.price", lambda _, **__: 1)
    monkeypatch.setattr("census_node.query.charging.Charged", charged_otherwise(units=1, total=1))
    async with pair.witnessing():
        assert await pair.submit(order) == "PEER_MISBEHAVED"
        await until(lambda: world.census.released.released_answer(query, RESEARCHER) is not None)
    with pytest.raises(PeerUnavailableError, match="PEER_MISBEHAVED"):
        answers.receive(answer_pb2.SealedAnswer(query_id=bytes.fromhex(query), sealed=world.sealed(order)))
    assert answers.get(query).state == "pending"


def test_charging_nothing(world: World) -> None:
    """Caught by the release, which finds no charge, and by the replay of the log: RELEASE_WITHOUT_CHARGE."""
    order = world.order()
    with world.unchanged(), pytest.raises(KeyError):
        world.release(order)
    event = Released(ticket=order.hash.hex(), answer="0" * 64, checkpoint=order.body.noise_slot.checkpoint)
    with (
        world.unchanged(),
        pytest.raises(BrokerError, match="RELEASE_WITHOUT_CHARGE"),
        world.census.journal.transaction() as transaction,
    ):
        transaction.append(event)
