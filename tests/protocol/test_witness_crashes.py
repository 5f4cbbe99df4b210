"""Nodes that die between the steps of witnessing and of committing to noise: a start goes on, and nothing is shown twice.

Dying is abandoning a node and starting another one on a copy of the bytes that its files hold at that moment.
"""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest
from fakes.connections import break_statements
from fakes.patience import NEVER_SECONDS, PATIENCE_SECONDS, linger, until
from fakes.world import CENSUS, HEALTH, RESEARCHER, Order, World
from protocol.log_link import LogLink, census_witness
from protocol.pair import STAGES
from protocol.witnessed import WitnessedPair
from tripartite.v1 import log_service_pb2

from broker_common.crypto.certificates import Identity
from broker_common.errors import PeerUnavailableError, RefusedError
from broker_common.parties.registration import announce, renew
from broker_common.storage.journal import Transaction
from broker_common.storage.witnessing import WitnessStore
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Released, Slots
from broker_common.tlog.note import parse_note
from census_node.query.flow import Charge
from census_node.release.publication import Publication

Response = log_service_pb2.WitnessResponse


class PowerCutError(Exception):
    """Raised where the power goes."""


def cut(*_: object, **__: object) -> None:
    """The end of everything in memory."""
    raise PowerCutError


def secret_files(world: World) -> dict[str, bytes]:
    """Every file of noise secrets."""
    return {path.name: path.read_bytes() for path in (world.census_folder / "slots").glob("*")}


# --- a cosignature that was stored and not said ----------------------------------------------------------------------


async def test_health_node_dies_before_it_has_said_what_it_cosigned(world: World) -> None:
    """Persisted and not sent: the next start says it as soon as it has heard what was seen of its own log, and the answer goes out."""
    pair, order = WitnessedPair(world), world.order()
    asked = asyncio.create_task(pair.submit(order))
    await until(lambda: bool(world.charges()))
    calls: list[str] = []

    async def first_call_alone(request: log_service_pb2.WitnessRequest) -> Response:
        calls.append(request.cosigned)
        if len(calls) > 1:
            await asyncio.Event().wait()
        # Asked without what it has cosigned, an honest census node shows everything that is published.
        return await pair.logs.honestly(request)

    pair.logs.script = first_call_alone
    async with pair.witnessing():
        await until(lambda: len(calls) > 1)
    persisted = pair.cosigned_by_health
    assert persisted is not None
    assert calls == ["", persisted.note]
    with pytest.raises(PeerUnavailableError, match="NOT_WITNESSED"):
        world.release(order)
    asked.cancel()
    await pair.restart_health()
    pair.logs.script, pair.logs.requests = pair.logs.honestly, []
    async with pair.witnessing():
        await until(lambda: bool(world.events(Released)))
        assert [request.cosigned for request in pair.logs.requests[:2]] == ["", persisted.note]
        assert await pair.submit(order) == STAGES
        await pair.settle()
    pair.verify(order, answered=True)


async def test_census_node_dies_before_it_has_said_what_it_cosigned(world: World) -> None:
    """The same the other way round: what it has stored of the health log is said at the next call, byte for byte."""
    pair = WitnessedPair(world)

    async def answered_to_nobody(request: log_service_pb2.WitnessRequest) -> Response:
        await pair.logs.honestly(request)
        raise PowerCutError

    pair.logs.script = answered_to_nobody
    async with pair.witnessing():
        await pair.rounds(1)
    stored = pair.cosigned_by_census
    assert stored is not None
    pair.restart_census()
    said: list[str] = []

    async def overheard(request: log_service_pb2.WitnessRequest) -> Response:
        response = await pair.logs.honestly(request)
        said.append(response.cosigned)
        return response

    pair.logs.script = overheard
    async with pair.witnessing():
        await until(lambda: bool(said))
        await pair.verify_usable()
    assert said[0] == stored.note


async def test_health_node_dies_between_verifying_and_storing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was stored and nothing said: the next start cosigns it."""
    pair = WitnessedPair(world)
    with monkeypatch.context() as patch:
        patch.setattr("broker_common.storage.witnessing.CosignedNote", cut)
        async with pair.witnessing():
            await pair.rounds(2)
    assert pair.cosigned_by_health is None
    assert world.census.publication.newer_than(0) is not None
    await pair.restart_health()
    async with pair.witnessing():
        await pair.verify_usable()


# --- a checkpoint that the store holds and nobody has seen -----------------------------------------------------------


def test_death_between_witness_store_and_publication(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is ahead of what anybody has seen and not of the log: the start goes on, and the answer goes out."""
    store = WitnessStore(tmp_path / "elsewhere")
    store.folder.mkdir()
    world = World(tmp_path / "world", witness_store=store)
    order, put = world.order(), WitnessStore.put

    def put_and_die(witness: WitnessStore, note: str) -> None:
        put(witness, note)
        raise PowerCutError

    shown = world.census.publication.newer_than(0)
    with monkeypatch.context() as patch:
        patch.setattr(WitnessStore, "put", put_and_die)
        with pytest.raises(PowerCutError):
            world.charge(order)
    assert world.census.publication.newer_than(0) == shown
    stored = store.read()
    assert stored is not None
    assert parse_note(stored)[0].size == world.verify_log().tickets[order.hash.hex()].index + 1
    world.crash_census()
    verify_recovers(world, order)
    world.close()


def test_death_before_the_witness_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Charged and answered, and shown to nobody: the start shows it, and the answer goes out."""
    store = WitnessStore(tmp_path / "elsewhere")
    store.folder.mkdir()
    world = World(tmp_path / "world", witness_store=store)
    order = world.order()
    with monkeypatch.context() as patch:
        patch.setattr(WitnessStore, "put", cut)
        with pytest.raises(PowerCutError):
            world.charge(order)
    with pytest.raises(PeerUnavailableError, match="NOT_WITNESSED"):
        world.release(order)
    world.crash_census()
    verify_recovers(world, order)
    world.close()


def verify_recovers(world: World, order: Order) -> None:
    """A start releases the one answer that there is, and the node is usable."""
    assert [each.verify_claim().ticket_hash for each in world.census.recover()] == [order.hash.hex()]
    world.release(order)
    assert world.open(order, world.sealed(order)).scale == 30
    assert len(world.charges()) == 1
    world.verify_honest_query()


# --- noise secrets, their entry, its publication ---------------------------------------------------------------------


@pytest.mark.parametrize("when", ["at a start", "while serving"])
def test_death_between_noise_secrets_and_their_entry(world: World, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """Secrets that nothing commits to are wiped at the next start, which writes others under the same numbers."""
    if when == "at a start":
        world.crash_census()
    else:
        world.use_up_slots()
    before = secret_files(world)
    with monkeypatch.context() as patch, world.unchanged():
        patch.setattr("census_node.node.Slots", cut)
        with pytest.raises(PowerCutError):
            world.census.commit_slots(afresh=when == "at a start")
    (left,) = set(secret_files(world)) - set(before)
    secrets = secret_files(world)[left]
    world.crash_census().recover()
    assert secret_files(world)[left] != secrets
    assert secrets[:32] not in b"".join(secret_files(world).values())
    assert world.events(Slots)[-1].first == int(left.removesuffix(".slots"))
    world.verify_honest_query()


def test_death_between_the_entry_of_noise_slots_and_its_publication(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Committed and shown to nobody: those slots are void after the start, and their secrets gone."""
    world.use_up_slots()
    with monkeypatch.context() as patch:
        patch.setattr(Publication, "publish", cut)
        with pytest.raises(PowerCutError):
            world.census.commit_slots()
    lost = world.events(Slots)[-1]
    secrets = secret_files(world)[f"{lost.first:016d}.slots"]
    world.crash_census().recover()
    assert world.events(Slots)[-1].void_below == world.events(Slots)[-1].first == lost.first + len(lost.commitments)
    assert not set(world.verify_log().open_slots) & set(range(lost.first, lost.first + len(lost.commitments)))
    assert secrets[:32] not in b"".join(secret_files(world).values())
    world.verify_honest_query()


def test_noise_slots_that_another_process_kept_from_the_log(world: World) -> None:
    """A backup holds the journal when a batch is due: that quote is told to come back, and the next one finds slots."""
    world.use_up_slots()
    before = secret_files(world)
    held = [1]
    break_statements(
        world.census.journal.db,
        lambda _, statement: statement == "BEGIN IMMEDIATE" and bool(held and held.pop()),
        code=sqlite3.SQLITE_BUSY,
    )
    with world.unchanged(), pytest.raises(RefusedError, match="BUSY"):
        world.reserve()
    # Nobody has committed to what was drawn: it gives way to what is drawn next.
    drawn = secret_files(world)
    assert world.reserve() == max(world.offered)
    assert len(secret_files(world)) == len(before) + 1
    assert not set(secret_files(world).values()) & (set(drawn.values()) - set(before.values()))
    world.verify_honest_query()


def test_secret_of_an_unanswered_charge_outlives_every_restart(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often the node starts and makes slots void: the one that a charge waits to be answered from is kept."""
    order = world.order()
    with monkeypatch.context() as patch:
        patch.setattr("census_node.query.answering.pad_answer", cut)
        with pytest.raises(PowerCutError):
            world.charge(order)
        for _ in range(3):
            world.crash_census()
            with pytest.raises(PowerCutError):
                world.census.recover()
    world.crash_census()
    verify_recovers(world, order)


def test_spent_secret_is_gone_when_its_answer_is_stored(world: World) -> None:
    """A later thief of the disk cannot make the noise again: the secret is overwritten, its neighbours are not."""
    first, second = world.order(), world.order()
    ((name, secrets),) = secret_files(world).items()
    at = 32 * first.body.noise_slot.number
    world.charge(first)
    after = secret_files(world)[name]
    assert after[at : at + 32] == bytes(32)
    assert after[:at] + after[at + 32 :] == secrets[:at] + secrets[at + 32 :]
    world.answer(second)


# --- the peer is gone ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("census_restarts", [0, 1, 2])
@pytest.mark.parametrize("health_restarts", [False, True], ids=["same health node", "health node restarted"])
async def test_health_node_disappears_between_charge_and_cosignature(
    world: World, census_restarts: int, health_restarts: bool
) -> None:
    """The answer waits, in the same process or over restarts of the census node, and goes out when the peer is back."""
    pair, order = WitnessedPair(world, cosignature_wait_ms=100), world.order()
    assert await pair.submit(order) == "NOT_WITNESSED"
    for _ in range(census_restarts):
        pair.restart_census()
        await linger()
        assert await pair.collect(order) == b""
    assert world.events(Released) == []
    if health_restarts:
        await pair.restart_health()
    pair.be_patient()
    async with pair.witnessing():
        await until(lambda: bool(world.events(Released)))
        assert isinstance(await pair.collect(order), bytes)
        assert await pair.submit(order) == STAGES
        await pair.settle()
        await pair.verify_usable()
    assert len(world.events(Released)) == 2
    pair.verify(order, answered=True)


async def test_census_node_stops_while_an_answer_waits(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop is not held up by a health agency that is away, and what waits goes out after the next start."""
    pair, order = WitnessedPair(world, cosignature_wait_ms=int(1000 * NEVER_SECONDS)), world.order()
    # Shorter than it is: nothing that the census node waits for comes.
    monkeypatch.setattr("census_node.service._DRAIN_SECONDS", 0.01)
    said: list[str] = []
    pair.passing = said.append
    asked = asyncio.create_task(pair.submit(order))
    await until(lambda: "said charged" in said)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await pair.census.drain()
        # Nothing is left that would write to a journal which is about to be closed.
        await until(lambda: not pair.census._queries)
    assert world.events(Released) == []
    asked.cancel()
    pair.restart_census()
    async with pair.witnessing():
        await until(lambda: world.census.released.released_answer(order.body.query_id.hex(), RESEARCHER) is not None)
    pair.verify(order, answered=True)


async def test_cosignature_that_comes_while_the_release_is_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release that dies with its node is made at the next start, once, under the same cosigned checkpoint."""
    pair, order = WitnessedPair(world), world.order()
    append = Transaction.append

    def dying(transaction: Transaction[CensusState], event: object, **options: int) -> object:
        if isinstance(event, Released):
            raise PowerCutError
        return append(transaction, event, **options)  # type: ignore[arg-type]  # what it was called with

    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "append", dying)
        async with pair.witnessing():
            await pair.submit(order)
    assert world.events(Released) == []
    index = world.verify_log().tickets[order.hash.hex()].index
    cosigned = world.census.cosigned(Charge(HEALTH.organisation, order.hash.hex(), index))
    assert cosigned is not None
    pair.restart_census()
    await until(lambda: world.census.released.released_answer(order.body.query_id.hex(), RESEARCHER) is not None)
    (released,) = world.events(Released)
    assert released.checkpoint == cosigned
    pair.verify(order, answered=True)


async def test_two_witnesses_of_one_health_agency_disturb_nobody(world: World) -> None:
    """Two processes on one journal, as in a hand-over: both cosign, and what is cosigned is one history."""
    pair = WitnessedPair(world)
    second_link = LogLink(pair.logs.service, pair.logs._sender)
    second = asyncio.create_task(census_witness(world, pair.node, second_link).run())
    async with pair.witnessing() as first:
        for _ in range(3):
            assert await pair.submit(world.order()) == STAGES
        assert not first.done()
        assert not second.done()
    second.cancel()
    await asyncio.wait({second})
    world.verify_log()
    world.verify_health_log()


# --- keys that end ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agency", [HEALTH, CENSUS], ids=["health", "census"])
@pytest.mark.parametrize("purpose", ["witness", "log"])
async def test_keys_that_end_while_nothing_is_cosigned(world: World, agency: Identity, purpose: str) -> None:
    """A last cosignature under keys that have ended since keeps nobody from cosigning what comes next."""
    pair = WitnessedPair(world, witness_wait_ms=50)
    async with pair.witnessing():
        assert await pair.submit(world.order()) == STAGES
        await pair.rounds(1)
    party = world.parties[agency]
    for _ in range(2):
        # The second time those that have ended leave the card.
        world.clock.advance(1)
        card = party.renew(purpose, now_ms=world.clock(), from_ms=world.clock(), until_ms=world.clock())
        if agency == CENSUS:
            announce(world.census.journal, card.signed)
            renew(pair.node.journal, card)
        else:
            announce(pair.node.journal, card.signed)
            renew(world.census.journal, card)
    pair.restart_census()
    async with pair.witnessing():
        await until(pair.is_cosigned)
        assert await pair.submit(world.order()) == STAGES
