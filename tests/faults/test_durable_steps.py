"""Every durable step of the three nodes fails, or happens and is reported failed; then the node starts again.

| node | step | what is durable after it | killed before and after it in | fails in |
|---|---|---|---|---|
| census | sample file written, flushed, named in its folder | a sample that no charge names | process/test_crashes | here, each system call |
| census | charge committed | entry, pending row, maybe shutdown | process/test_crashes | here |
| census | answer committed | sealed answer instead of the pending row | process/test_crashes | here |
| census | sample removed | a file that no row has the key of, or none | process/test_crashes | here, each system call |
| census | ledger: snapshot, carry, erasure, changed key | see test_ledger_cuts | there | there, each system call |
| census | release committed | the answer may leave | process/test_crashes | here |
| census | delivery committed | the answer was fetched | process/test_crashes | here |
| census | slot secrets written, flushed, named | secrets that no entry commits to | process/test_crashes | here, each system call |
| census | slots committed | slots that a quote may name | process/test_crashes | here |
| census | slot secret wiped | nothing of the noise | process/test_crashes | here, each system call |
| census | checkpoint put into the witness store | the log cannot be rolled back | - | here, each system call |
| both | cosignature committed | it may be said | - | unit/storage/test_witnessing |
| census | roster: folder, key, file, their names; key overwritten, both removed | see test_rosters | - | here, each system call |
| census | roster kept, in force, erased | row, entry, row | - | here |
| health | roster numbered | entry and row, before anything leaves | - | here |
| census | sweep at start | only samples that a charge names | process/test_crashes | here |
| both | load file written, flushed, renamed | a file that the log does not name | process/test_killed_commands | here, each system call |
| both | load committed | new questions use it | process/test_killed_commands | here |
| both | loads before forgotten | fewer files | process/test_killed_commands | here, each system call |
| census | policy adopted | entry, maybe shutdown | commit only: protocol/test_budget_races | here |
| census | shutdown committed | no further charge | process/test_killed_commands | here |
| health | submission committed | ticket, criteria, salt | process/test_crashes | here |
| health | attempt committed | a sample may be out | process/test_crashes | here |
| health | reported charge committed | proof of the charge | process/test_crashes | here |
| health | settled committed | the ticket is closed | process/test_crashes | here |
| health | refusal committed | the ticket is closed, uncharged | process/test_crashes | here |
| researcher | question stored | opening key and ticket, before it leaves | process/test_killed_commands | here, each statement |
| researcher | answer stored | the answer instead of its key | process/test_killed_commands | here, each statement |
| researcher | refusal stored | the question is closed for now | process/test_killed_commands | here, each statement |

The statements inside a transaction fail one by one in test_journal_faults; a disk that is really full is in
process/test_full_disk. The oracle is always the same: both logs replay, with one charge and one answer for a ticket, or
neither, and another question is answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from fakes.connections import WatchedConnection, break_statements, fault, watch_journals
from fakes.deployment import run_here
from fakes.desk_arrays import cards_by_person
from fakes.links import InMemoryCensus, roster_sender, send_roster
from fakes.world import HEALTH, Order, World
from faults.failing_calls import FailingCalls
from protocol.pair import STAGES, Pair
from protocol.rosters import MadeRoster, requests_of
from tripartite.v1 import answer_pb2

from broker_common.errors import BrokerError
from broker_common.privacy.delays import DECLARED_STEP
from broker_common.rpc.server import StopSignal
from broker_common.storage.journal import Journal
from broker_common.storage.witnessing import WitnessStore
from broker_common.tlog.entries import Delivered, Rostered, Slots
from census_node.assembly import CensusHome
from census_node.config import LimitConfig as CensusLimits
from census_node.ledger.samples import KeptSample
from census_node.operator.proposals import make_proposal
from census_node.registry.rosters import RosterBook
from census_node.release.publication import Publication, verify_witnessed
from census_node.release.slot_secrets import SlotSecrets
from census_node.release.slots import BATCH
from census_node.service import CensusService
from deploy.local import Plan, lay_out
from health_node.assembly import HealthHome
from researcher_node.answers.store import Answers

WAYS = pytest.mark.parametrize("happens", [False, True], ids=["lost", "stored but reported failed"])


# --- commits ---------------------------------------------------------------------------------------------------------


def break_commit(
    step: str, *journals: Journal[Any], happens: bool, patch: pytest.MonkeyPatch | None = None
) -> list[str]:
    """The first commit that holds an entry of this kind, or `answer`, fails; says when it has.

    Of these journals, and with `patch` of those that are opened from here on.
    """
    failed: list[str] = []

    def fails(watched: WatchedConnection, statement: str) -> bool:
        if statement != "COMMIT" or step not in watched.stored or failed:
            return False
        failed.append(step)
        return True

    for journal in journals:
        break_statements(journal.db, fails, happens=happens)
    if patch is not None:
        watch_journals(patch, **fault(fails, happens=happens))
    return failed


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Three parties."""
    made = World(tmp_path)
    yield made
    made.close()


@WAYS
@pytest.mark.parametrize("step", ["charged", "answer", "released", "delivered"])
async def test_commit_of_the_census_node(world: World, step: str, happens: bool) -> None:
    """The node stops; what the file holds decides at the next start, and the researcher has one answer or none."""
    pair, order = Pair(world, forward_deadline_ms=0), world.order()
    failed = break_commit(step, world.census.journal, happens=happens)
    outcome = await pair.submit(order)
    await pair.settle()
    if step == "delivered":
        assert outcome == STAGES
        # Not a byte of it before it is known that the delivery is logged, or not.
        assert await pair.collect(order) == "STATE_UNKNOWN"
    else:
        assert outcome == "PEER_FAILED"
        assert pair.census_stop.error is not None
        assert pair.census_stop.error.code == "STATE_UNKNOWN"
    assert failed
    assert world.census.journal.is_broken
    pair.restart_census()
    is_charged = step != "charged" or happens
    assert await pair.submit(order) == (STAGES if is_charged else "SLOT_UNUSABLE")
    await pair.settle()
    if is_charged:
        assert await pair.collect(order) == world.sealed(order)
        assert [event.ticket for event in world.events(Delivered)] == [order.hash.hex()]
    pair.verify(order, answered=is_charged)
    pair.verify_nothing_held()
    await pair.verify_usable()


@WAYS
@pytest.mark.parametrize("step", ["submitted", "forwarded", "reported_charge", "settled", "refused"])
async def test_commit_of_the_health_node(world: World, step: str, happens: bool) -> None:
    """The node stops, and its successor brings the ticket to the same end."""
    pair = Pair(world, forward_deadline_ms=0)
    order = world.order(slot=4711) if step == "refused" else world.order()
    failed = break_commit(step, pair.node.journal, happens=happens)
    assert await pair.submit(order) == "STATE_UNKNOWN"
    await pair.settle()
    assert failed
    assert pair.health_stop.error is not None
    assert pair.health_stop.error.code == "STATE_UNKNOWN"
    assert pair.census_stop.error is None
    await pair.restart_health()
    await pair.settle()
    assert await pair.submit(order) == ("SLOT_UNUSABLE" if step == "refused" else STAGES)
    await pair.settle()
    pair.verify(order, answered=step != "refused")
    assert not world.verify_health_log().open_tickets
    pair.verify_nothing_held()
    await pair.verify_usable()


# --- files -----------------------------------------------------------------------------------------------------------


@WAYS
async def test_every_system_call_on_a_samples_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, happens: bool
) -> None:
    """Whichever fails, before or after it was made: the node stops, and no answer lacks its charge, no charge its answer."""
    charged: list[bool] = []
    for number in count():
        world = World(tmp_path / str(number))
        pair, order = Pair(world, forward_deadline_ms=0), world.order()
        with monkeypatch.context() as patch:
            calls = FailingCalls(patch, number, world.census_folder / "samples", happens=happens)
            outcome = await pair.submit(order)
            await pair.settle()
        if not calls.reached:
            assert outcome == STAGES
            world.close()
            break
        assert outcome == "PEER_FAILED"
        assert pair.census_stop.error is not None
        assert (pair.census_stop.error.code, "disk" in pair.census_stop.error.hint) == ("STORE_FAILED", True)
        charged.append(bool(world.charges()))
        pair.restart_census()
        assert await pair.submit(order) == (STAGES if charged[-1] else "SLOT_UNUSABLE")
        await pair.settle()
        pair.verify(order, answered=charged[-1])
        pair.verify_nothing_held()
        await pair.verify_usable()
        world.close()
    # The folder, the file and its name before the charge; removing it after the answer.
    assert calls.made == ["mkdir", "open", "fsync", "open", "fsync", "unlink"]
    assert charged == [False] * 5 + [True]


def somebodys(world: World) -> KeptSample:
    """A sample of which nobody is counted."""
    bits = np.zeros(world.places // 8, np.uint8)
    return KeptSample(bytes(32), bytes(32), bits, np.zeros(1, np.uint8), 8)


@WAYS
def test_every_system_call_of_the_sweep_at_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, happens: bool
) -> None:
    """A start that cannot wipe what no charge names says so, and the next one wipes it."""
    world = World(tmp_path)
    for number in count():
        world.crash_census()
        name = world.census._samples.write(somebodys(world), os.urandom).partition(":")[0]
        with monkeypatch.context() as patch:
            calls = FailingCalls(patch, number, world.census_folder / "samples", happens=happens)
            code = outcome_of(world.census.recover)
        assert code == ("STORE_FAILED" if calls.failed else "")
        if calls.failed:
            world.crash_census()
            assert world.census.recover() == []
        assert not (world.census_folder / "samples" / f"{name}.sample").exists()
        if not calls.reached:
            break
    assert calls.made == ["unlink"]
    world.verify_honest_query()
    world.close()


# --- rosters ---------------------------------------------------------------------------------------------------------

# One is in force when a world begins.
FIRST, SECOND = 1, 2


async def bring_roster(world: World, number: int = SECOND) -> str:
    """A roster is sent and comes into force; the code of what went wrong, or nothing."""
    service = CensusService(world.census, CensusLimits(), StopSignal(), people=world.places)
    made = MadeRoster(world=world, rows=world.people, number=number, salt=bytes(32))
    # Round by round, so that whatever fails is heard here.
    desk = asyncio.create_task(service._desk.run())
    sending = asyncio.create_task(send_roster(service, requests_of(made.parts()), HEALTH))
    try:
        while not sending.done():
            await service._rosters.round()
        await sending
        # The replaced file is erased behind it.
        await service._rosters.round()
    except BrokerError as error:
        return error.code
    finally:
        for task in (desk, sending):
            task.cancel()
        await asyncio.gather(desk, sending, return_exceptions=True)
    return ""


def verify_rosters(world: World, numbers: list[int]) -> None:
    """These came into force, the last of them is joined, and nothing lies about but its file and key."""
    assert [event.number for event in world.events(Rostered) if event.health == HEALTH.organisation] == numbers
    joined = world.census.rosters.usable(HEALTH.organisation, numbers[-1])
    assert len(cards_by_person(joined.cards)) == len(world.in_census)
    # One for each of both agencies.
    assert len(list((world.census_folder / "rosters").iterdir())) == 2 * 2
    world.verify_log()


@WAYS
async def test_every_system_call_on_a_rosters_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, happens: bool
) -> None:
    """Whichever fails while a second roster comes, takes its place or is erased: the next start goes on from there."""
    for number in count():
        world = World(tmp_path / str(number))
        with monkeypatch.context() as patch:
            calls = FailingCalls(patch, number, world.census_folder / "rosters", happens=happens)
            code = await bring_roster(world)
        if not calls.reached:
            assert code == ""
            verify_rosters(world, [FIRST, SECOND])
            world.close()
            break
        # A failure while it comes costs another attempt; the node stops for a key that it cannot erase.
        assert code == (("BUSY" if number < 7 else "STORE_FAILED") if calls.failed else "")
        world.crash_census()
        world.census.recover()
        assert await bring_roster(world) == ""
        verify_rosters(world, [FIRST, SECOND])
        world.close()
    # The folder; the key; the file, and the name of both; the key of the one before is overwritten and removed, then its file.
    assert calls.made == ["mkdir", "open", "fsync", "open", "fsync", "open", "fsync", "fsync", "unlink", "unlink"]


@WAYS
@pytest.mark.parametrize("commit", [0, 1, 2], ids=["kept", "in force", "erased"])
async def test_commits_of_a_roster(tmp_path: Path, commit: int, happens: bool) -> None:
    """The census node stops; what the file holds decides at the next start, and each number comes into force once."""
    world = World(tmp_path)
    commits = count()
    journal = world.census.journal
    break_statements(
        journal.db, lambda _, statement: statement == "COMMIT" and next(commits) == commit, happens=happens
    )
    assert await bring_roster(world) == "STATE_UNKNOWN"
    assert journal.is_broken
    world.crash_census()
    world.census.recover()
    assert await bring_roster(world) == ""
    verify_rosters(world, [FIRST, SECOND])
    world.close()


@WAYS
async def test_commit_of_a_number_for_a_roster(tmp_path: Path, happens: bool) -> None:
    """The health node stops before a byte of it leaves; its successor sends the same roster, or the first one."""
    world = World(tmp_path, places=DECLARED_STEP)
    service = CensusService(world.census, CensusLimits(), StopSignal(), people=world.places)
    working = asyncio.create_task(service.run())
    link = InMemoryCensus(service, HEALTH)
    health = world.open_health()
    # Which a roster is due for.
    world.load_health(len(world.people))
    failed = break_commit("rostered", health.journal, happens=happens)
    with pytest.raises(BrokerError, match="STATE_UNKNOWN"):
        await roster_sender(world, health, link.stub).send_due()
    assert failed
    with world.census.journal.reading():
        assert [roster.number for roster in RosterBook(world.census.journal.db).of(HEALTH.organisation)] == [FIRST]
    health = world.crash_health()
    await roster_sender(world, health, link.stub).send_due()
    await service._rosters.round()
    working.cancel()
    await asyncio.wait({working})
    verify_rosters(world, [FIRST, SECOND])
    assert world.verify_health_log().rosters_sent[SECOND] == world.events(Rostered)[-1]
    world.close()


def batches(world: World) -> list[tuple[int, int]]:
    """First slot, and first that is not void, of every batch in the census log."""
    return [(event.first, event.void_below) for event in world.events(Slots)]


@WAYS
def test_commit_of_noise_slots(world: World, happens: bool) -> None:
    """A start whose first entry may be there or not: the next one knows, and makes what is there void."""
    world.crash_census()
    shown = world.census.publication.newer_than(0)
    failed = break_commit("slots", world.census.journal, happens=happens)
    assert outcome_of(world.census.recover) == "STATE_UNKNOWN"
    assert failed
    assert world.census.publication.newer_than(0) == shown
    world.crash_census()
    assert world.census.recover() == []
    first = 2 * BATCH if happens else BATCH
    assert batches(world) == [(at, at) for at in range(0, first + 1, BATCH)]
    assert [path.name for path in (world.census_folder / "slots").iterdir()] == [f"{first:016d}.slots"]
    assert world.reserve() == first
    world.verify_honest_query()


@WAYS
def test_every_system_call_on_slot_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, happens: bool) -> None:
    """A batch whose secrets may not be durable is never committed to; the next start draws others."""
    for number in count():
        world = World(tmp_path / str(number))
        world.crash_census()
        with monkeypatch.context() as patch:
            calls = FailingCalls(patch, number, world.census_folder / "slots", happens=happens)
            code = outcome_of(world.census.recover)
        assert code == ("STORE_FAILED" if calls.failed else "")
        assert batches(world) == ([(0, 0)] if calls.failed else [(0, 0), (BATCH, BATCH)])
        world.crash_census()
        assert world.census.recover() == []
        world.verify_honest_query()
        world.close()
        if not calls.reached:
            break
    # Remains of the previous start are wiped and removed; then the folder, the file and its name.
    assert calls.made == ["fsync", "unlink", "mkdir", "open", "fsync", "open", "fsync"]


@WAYS
async def test_every_system_call_that_wipes_a_slot_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, happens: bool
) -> None:
    """The answer stands and goes out; the node stops, and the next start wipes what this one could not."""
    for number in count():
        world = World(tmp_path / str(number))
        pair, order = Pair(world, forward_deadline_ms=0), world.order()
        slot = order.body.noise_slot
        with monkeypatch.context() as patch:
            calls = FailingCalls(patch, number, world.census_folder / "slots", happens=happens)
            outcome = await pair.submit(order)
            await pair.settle()
        if not calls.reached:
            assert outcome == STAGES
        else:
            assert outcome == "PEER_FAILED"
            assert pair.census_stop.error is not None
            assert pair.census_stop.error.code == "STORE_FAILED"
            pair.restart_census()
            assert await pair.submit(order) == STAGES
            await pair.settle()
        secrets = SlotSecrets(world.census_folder / "slots")
        assert outcome_of(lambda: secrets.read(slot.number, slot.commitment)) == "SAMPLE_LOST"  # noqa: B023
        pair.verify(order, answered=True)
        await pair.verify_usable()
        world.close()
        if not calls.reached:
            break
    assert calls.made == ["fsync"]


@WAYS
def test_every_system_call_of_the_witness_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, world: World, happens: bool
) -> None:
    """Nothing is shown that the store may not hold, and whatever it holds the log goes on from it."""
    journal, log = world.census.journal, world.census_log.verifier
    for number in count():
        store = WitnessStore(tmp_path / f"witness {number}")
        store.folder.mkdir()
        store.put(journal.checkpoint(2))
        publication = Publication(journal, store)
        with monkeypatch.context() as patch:
            calls = FailingCalls(patch, number, store.folder, happens=happens)
            code = outcome_of(lambda: publication.publish(5))  # noqa: B023
        assert code == ("STORE_FAILED" if calls.failed else "")
        assert (publication.newer_than(0) is None) == calls.failed
        held = log.verify_checkpoint(store.read() or "")
        whole = log.verify_checkpoint(journal.checkpoint()).size
        assert held.size in ({2, whole} if calls.failed else {whole})
        verify_witnessed(journal, store)
        publication.publish(5)
        assert store.read() == journal.checkpoint()
        if not calls.reached:
            break
    assert {"open", "fsync", "replace"} <= set(calls.made)


# --- loads and operators' commands -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four homes for a hundred people."""
    directory = tmp_path_factory.mktemp("durable") / "deployment"
    plan = Plan(population=100, seed=1, accounting="strict", max_belief="0.75", release_tick_ms=0)
    lay_out(directory, plan, lambda _: lambda _done, _total: None)
    return directory


LOADS = {"census": "registries", "health": "people"}


def verify_load_in_force(home: Path, role: str) -> str:
    """The store that the log names is there and is the one that was loaded; gives its id."""
    opened: CensusHome | HealthHome = CensusHome(home) if role == "census" else HealthHome(home)
    journal: Journal[Any] = opened.open_journal()
    with journal.reading() as state:
        load: str = state.load
        commitments = state.commitments
    opened.loads.verify(journal, load, commitments)
    journal.close()
    return load


def verify_next_load(home: Path, role: str) -> None:
    """Loading again works, and leaves the one file that is in force."""
    assert run_here(role, "load", "--home", home, "--json").code == 0
    load = verify_load_in_force(home, role)
    assert [path.name.partition(".")[0] for path in (home / LOADS[role]).iterdir()] == [load]


@WAYS
@pytest.mark.parametrize("role", LOADS)
def test_every_system_call_of_a_load(
    deployment: Path, monkeypatch: pytest.MonkeyPatch, role: str, happens: bool
) -> None:
    """The load before or the new one is in force, whole; the operator is told of the disk, and loads again."""
    home = deployment / role
    for number in count():
        with monkeypatch.context() as patch:
            calls = FailingCalls(patch, number, home / LOADS[role], happens=happens)
            outcome = run_here(role, "load", "--home", home, "--json")
        if calls.failed:
            assert (outcome.error["code"], "disk" in outcome.error["hint"]) == ("STORE_FAILED", True), outcome
            assert "Traceback" not in outcome.stderr
        verify_load_in_force(home, role)
        verify_next_load(home, role)
        if not calls.reached:
            break
    assert outcome.code == 0
    assert {"fsync", "replace", "unlink"} <= set(calls.made)


@WAYS
@pytest.mark.parametrize("role", LOADS)
def test_commit_of_a_load(deployment: Path, monkeypatch: pytest.MonkeyPatch, role: str, happens: bool) -> None:
    """The operator is told that it is not known, and the next command knows."""
    home = deployment / role
    before = verify_load_in_force(home, role)
    with monkeypatch.context() as patch:
        assert_unknown(lambda: run_here(role, "load", "--home", home, "--json"), patch, "loaded", happens=happens)
    assert (verify_load_in_force(home, role) == before) != happens
    verify_next_load(home, role)


@WAYS
def test_commit_of_a_policy(deployment: Path, monkeypatch: pytest.MonkeyPatch, happens: bool) -> None:
    """The policy before or the new one is in force."""
    home = CensusHome(deployment / "census")
    with home.journal() as journal:
        assert journal.state.policy is not None
        policy = msgspec.structs.replace(journal.state.policy, max_belief="0.75", open_quotes=7 + happens)
    with monkeypatch.context() as patch:
        failed = break_commit("adopted", happens=happens, patch=patch)
        with pytest.raises(BrokerError) as caught:
            home.adopt(make_proposal(policy, home.private_policy_key()))
        assert (caught.value.code, failed) == ("STATE_UNKNOWN", ["adopted"])
    shown = run_here("census", "policy", "--home", deployment / "census", "--json").result
    assert (shown["policy_hash"] == policy.hash.hex()) == happens
    if not happens:
        home.adopt(make_proposal(policy, home.private_policy_key()))
    shown = run_here("census", "policy", "--home", deployment / "census", "--json").result
    assert shown["policy_hash"] == policy.hash.hex()


@WAYS
def test_commit_of_a_shutdown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, happens: bool) -> None:
    """Shut or not, the log says; the command given again shuts it once."""
    plan = Plan(population=10, seed=1, accounting="strict", max_belief="0.75", release_tick_ms=0)
    lay_out(tmp_path / "deployment", plan, lambda _: lambda _done, _total: None)
    home = tmp_path / "deployment" / "census"
    command = ("census", "shutdown", "--home", home, "--reason", "a drill", "--json")
    with monkeypatch.context() as patch:
        assert_unknown(lambda: run_here(*command), patch, "shutdown", happens=happens)
    state = run_here("census", "status", "--home", home, "--json").result["state"]
    assert state == ("shutdown" if happens else "serving")
    for _ in range(2):
        assert run_here(*command).result["state"] == "shutdown"
    assert run_here("census", "status", "--home", home, "--json").result["state"] == "shutdown"


def assert_unknown(command: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, step: str, *, happens: bool) -> None:
    """The command fails with the one error that says so, and its hint says what to see to."""
    failed = break_commit(step, happens=happens, patch=monkeypatch)
    outcome = command()
    assert failed == [step], outcome
    assert (outcome.code, outcome.error["code"]) == (6, "STATE_UNKNOWN")
    assert "disk" in outcome.error["hint"]
    assert "Traceback" not in outcome.stderr


# --- the researcher's store ------------------------------------------------------------------------------------------


def is_after(number: int, watched: WatchedConnection, _statement: str) -> bool:
    """Whether so many statements were run before."""
    return len(watched.statements) > number


def outcome_of(step: Callable[[], object]) -> str:
    """The code with which it fails; empty if it does not."""
    try:
        step()
    except BrokerError as error:
        return error.code
    return ""


def sealed_answer(world: World, order: Order) -> answer_pb2.SealedAnswer:
    """The answer as it is delivered."""
    return answer_pb2.SealedAnswer(query_id=order.body.query_id, sealed=world.answer(order))


def every_statement(
    world: World, prepare: Callable[[Answers, Order], object], step: Callable[[Answers, Order], object], happens: bool
) -> Iterator[tuple[Answers, Order, str]]:
    """The store, opened anew after each statement of `step` has failed in turn, and the code that was said."""
    for number in count():
        order = world.order()
        answers = world.open_answers()
        prepare(answers, order)
        connection = break_statements(answers._db, partial(is_after, number), happens=happens)
        code = outcome_of(lambda order=order, answers=answers: step(answers, order))  # type: ignore[misc]
        answers.close()
        # The traceback of the failure holds the rows that a statement before the failing one was reading.
        gc.collect()
        if number >= len(connection.statements):
            break
        # Closed again: a process with the store open keeps the next one from starting its log over, which tries many times.
        with contextlib.closing(world.open_answers()) as reopened:
            yield reopened, order, code


def queries(answers: Answers) -> list[str]:
    """Every question in the store."""
    return [asked.query for asked in answers.all()]


@WAYS
def test_every_statement_that_stores_a_question(world: World, happens: bool) -> None:
    """A question that may not be stored is not asked: its key would be lost. It says so, and others can be asked."""
    for answers, order, code in every_statement(world, lambda *_: None, world.remember, happens):
        assert code == "STORE_FAILED"
        query = order.body.query_id.hex()
        if query in queries(answers):
            assert answers.get(query).state == "pending"
        following = world.order()
        world.remember(answers, following)
        assert answers.receive(sealed_answer(world, following)).state == "answered"


@WAYS
def test_every_statement_that_stores_an_answer(world: World, happens: bool) -> None:
    """The answer is there whole or its key still is; delivered again, it is there."""
    sealed: dict[bytes, answer_pb2.SealedAnswer] = {}

    def prepare(answers: Answers, order: Order) -> None:
        world.remember(answers, order)
        sealed[order.hash] = sealed_answer(world, order)

    failing = every_statement(world, prepare, lambda answers, order: answers.receive(sealed[order.hash]), happens)
    for answers, order, code in failing:
        assert code == "STORE_FAILED"
        assert answers.get(order.body.query_id.hex()).state in {"pending", "answered"}
        received = answers.receive(sealed[order.hash])
        assert received.noisy_count == world.open(order, sealed[order.hash].sealed).noisy_count


@WAYS
def test_every_statement_that_stores_a_refusal(world: World, happens: bool) -> None:
    """A refusal that is not stored leaves the question pending; either way a later answer is taken."""

    def refuse(answers: Answers, order: Order) -> None:
        answers.refuse(order.body.query_id.hex(), "SLOT_UNUSABLE")

    for answers, order, code in every_statement(world, world.remember, refuse, happens):
        assert code == "STORE_FAILED"
        assert answers.get(order.body.query_id.hex()).state in {"pending", "refused"}
        assert answers.receive(sealed_answer(world, order)).state == "answered"
