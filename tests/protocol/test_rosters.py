"""Rosters between two nodes: sent, kept, joined, in force; and what comes of an agency that sends anything else."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
import pytest
from fakes.desk_arrays import cards_by_person
from fakes.links import InMemoryCensus, RosterContext, count, roster_sender, send_roster, stream
from fakes.patience import PATIENCE_SECONDS, until
from fakes.samples import sample_of
from fakes.timed_loop import LoopClock, TimedLoop, in_desk_time, working
from fakes.world import HEALTH, OTHER_HEALTH, OrderedSample, World, make_policy
from grpc import StatusCode
from grpc.aio import AioRpcError, Metadata
from protocol.pair import at_work
from protocol.rosters import MadeRoster, Request, halves_of_rows, requests_of
from tripartite.v1 import census_service_pb2, roster_pb2

from broker_common.crypto.certificates import Identity
from broker_common.crypto.commitments import hash_bytes
from broker_common.crypto.frames import FRAME_BYTES, TAG_BYTES, FrameSealer
from broker_common.crypto.linkage import LinkageKey
from broker_common.crypto.sample_bits import Bound
from broker_common.errors import BrokerError, InvalidRequestError, PeerUnavailableError, RefusedError
from broker_common.privacy.delays import DECLARED_STEP
from broker_common.rpc.server import StopSignal
from broker_common.storage.clock import system_clock
from broker_common.storage.journal import Journal
from broker_common.tlog.entries import Charged, Revoked, Rostered
from broker_common.tlog.health_state import HealthState
from census_node.config import LimitConfig
from census_node.registry import joining
from census_node.registry import rosters as kept_rosters
from census_node.registry.joining import JoinedRoster
from census_node.registry.reception import AdmittedRoster, RosterReception
from census_node.registry.rosters import KeptRoster, People, RosterBook, RosterFolder
from census_node.registry.staging import RosterName
from census_node.service import CensusService
from health_node.roster.book import RosterBook as SentBook

FRAMES = DECLARED_STEP // 16_384


class Unrostered(World):
    """A world in which no roster was ever sent."""

    def give_roster(self, agency: Identity) -> None:
        """None."""

    def _number_roster(self, journal: Journal[HealthState], load: str) -> None:
        """None."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Three parties, as many places declared as may be declared at least, and no roster yet."""
    made = Unrostered(tmp_path, make_policy(), places=DECLARED_STEP)
    yield made
    made.close()


class Agencies:
    """Both services of a world at work, and the link between them."""

    def __init__(self, world: World, **limits: int) -> None:
        self.world = world
        self.limits = LimitConfig(**limits)
        self.health = world.open_health()
        # Cause of death.
        self.deaths: list[str] = []

    async def __aenter__(self) -> Self:
        self.start_census()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop_census()

    def start_census(self) -> None:
        """A census node on what is on disk."""
        self.deaths.clear()
        self.census = CensusService(self.world.census, self.limits, StopSignal(), people=DECLARED_STEP)
        self.working = asyncio.create_task(self.census.run())
        self.link = InMemoryCensus(self.census, HEALTH)
        self.start_sender()

    async def stop_census(self) -> None:
        """Its loop ends; what is on disk stays."""
        self.working.cancel()
        await asyncio.wait({self.working})

    def start_sender(self) -> None:
        """The health node's work on rosters, from its start on."""
        self.deaths.clear()
        self.sender = roster_sender(self.world, self.health, self.link.stub)

    async def crash_census(self) -> None:
        """The census node dies, and another one starts on what it left."""
        await self.stop_census()
        self.world.crash_census()
        self.world.census.recover()
        self.start_census()

    def crash_health(self) -> None:
        """The health node dies, and another one starts on what it left."""
        self.health = self.world.crash_health()
        self.start_sender()

    def die(self, *_: object, **__: object) -> NoReturn:
        """A call that nobody comes back from."""
        self.deaths.append("here")
        raise _Died

    async def bring(self) -> None:
        """Send what is due, and let the census node do what it does of itself; ends when somebody dies."""
        sending = asyncio.create_task(self.sender.send_due())
        await until(lambda: sending.done() or self.deaths)
        if self.deaths:
            sending.cancel()
            await asyncio.wait({sending})
            raise _Died
        await sending
        await self.round()
        if self.deaths:
            raise _Died

    async def round(self) -> None:
        """The census node's work on rosters beside everything else, once."""
        await self.census._rosters.round()

    async def refused(self, parts: list[Request], code: str) -> None:
        """The roster is refused, with this code; log, roster in force and files are as before."""
        rosters, log = self.kept(), self.world.census.journal.state.size
        files = self.files()
        with pytest.raises(BrokerError) as caught:
            await send_roster(self.census, requests_of(parts), HEALTH)
        assert caught.value.code == code
        await self.round()
        assert (self.kept(), self.world.census.journal.state.size, self.files()) == (rosters, log, files)

    def kept(self) -> list[KeptRoster]:
        """The census node's files of rosters."""
        with self.world.census.journal.reading():
            return RosterBook(self.world.census.journal.db).all()

    def has_kept(self, rosters: int) -> bool:
        """Whether it keeps so many."""
        return len(self.kept()) == rosters

    def files(self) -> list[str]:
        """The names of its files."""
        return sorted(path.name for path in (self.world.census_folder / "rosters").glob("*"))

    def in_force(self) -> list[tuple[str, int]]:
        """Every roster that came into force, as the log says, in order."""
        return [(event.health, event.number) for event in self.world.events(Rostered)]

    def sent(self) -> list[Rostered]:
        """Every roster that the health log says was about to be sent."""
        return list(self.world.verify_health_log().rosters_sent.values())

    def joined(self, agency: Identity = HEALTH) -> JoinedRoster | None:
        """An agency's roster in force, if samples of its places can be counted now."""
        with self.world.census.journal.reading() as state:
            roster = state.rosters.get(agency.organisation)
        if roster is None:
            return None
        try:
            return self.world.census.rosters.usable(agency.organisation, roster.number)
        except BrokerError:
            return None

    def verify_joined(self, people: int | None = None) -> None:
        """Who stands in the roster in force is exactly whom the census knows of it, at their places."""
        joined = self.joined()
        assert joined is not None
        with self.world.census.journal.reading() as state:
            cards = self.world.census.registries.store(state.load, state.commitments).cards
        persons = dict(
            zip(zip(cards.high.tolist(), cards.low.tolist(), strict=True), cards.persons.tolist(), strict=True)
        )
        expected: dict[int, set[int]] = {}
        high, low = halves_of_rows(self.world.people[:people])
        for place, name in enumerate(zip(high.tolist(), low.tolist(), strict=True)):
            if name in persons:
                expected.setdefault(persons[name], set()).add(place)
        assert cards_by_person(joined.cards) == expected
        assert joined.cards.declared == DECLARED_STEP


def in_order(rows: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """A copy that may be changed."""
    return rows.copy()


# --- what should happen ----------------------------------------------------------------------------------------------


async def test_roster_of_a_load_comes_into_force_by_itself(world: World) -> None:
    """Sent once, named by both logs in the same words, joined with the registry; its file and key are the only ones."""
    async with Agencies(world) as agencies:
        await agencies.bring()
        assert agencies.in_force() == [(HEALTH.organisation, 1)]
        assert world.events(Rostered) == agencies.sent()
        agencies.verify_joined()
        assert len(agencies.files()) == 2
        world.verify_log()


async def test_nothing_of_a_roster_leaves_before_the_log_names_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the first byte arrives, the health log commits to the roster already."""
    async with Agencies(world) as agencies:
        seen: list[int] = []
        honestly = agencies.link.take_roster

        async def watched(
            requests: AsyncIterator[Request], context: RosterContext
        ) -> census_service_pb2.SendRosterResponse:
            seen.append(len(agencies.sent()))
            return await honestly(requests, context)

        monkeypatch.setattr(agencies.link, "take_roster", watched)
        await agencies.bring()
        assert seen == [1]


async def test_same_roster_again_is_told_the_same_and_changes_nothing(world: World) -> None:
    """After a restart of the health node the roster is offered again: neither log grows, and its frames are not read."""
    async with Agencies(world) as agencies:
        await agencies.bring()
        log, files = world.census.journal.state.size, agencies.files()
        agencies.crash_health()
        await agencies.bring()
        assert (world.census.journal.state.size, agencies.files()) == (log, files)
        assert [event.number for event in agencies.sent()] == [1]
        made = MadeRoster(world=world, rows=world.people, number=2)
        await send_roster(agencies.census, requests_of(made.parts()), HEALTH)
        again = iter(made.parts())
        await send_roster(agencies.census, stream([next(again)]), HEALTH)


async def test_next_load_replaces_the_roster_and_erases_the_one_before(world: World) -> None:
    """One is in force, the one before has neither file nor key, and its number and sizes are still known."""
    async with Agencies(world) as agencies:
        await agencies.bring()
        before = agencies.files()
        world.load_health(300)
        await agencies.bring()
        assert agencies.in_force() == [(HEALTH.organisation, 1), (HEALTH.organisation, 2)]
        assert world.events(Rostered) == agencies.sent()
        agencies.verify_joined(300)
        assert len(agencies.files()) == 2
        assert not set(before) & set(agencies.files())
        erased, kept = agencies.kept()
        assert (erased.people, erased.file, erased.places) == (len(world.people), "", DECLARED_STEP)
        assert kept.people == 300


async def test_registry_load_joins_the_roster_again(world: World) -> None:
    """Another load of the registry needs no roster: the one in force is joined with it, and no entry says so."""
    async with Agencies(world) as agencies:
        await agencies.bring()
        load = world.load_census()
        await agencies.round()
        joined = agencies.joined()
        assert joined is not None
        assert joined.load == load
        agencies.verify_joined()
        assert agencies.in_force() == [(HEALTH.organisation, 1)]


async def test_two_agencies_have_rosters_of_their_own(world: World) -> None:
    """Numbers, files and places of one agency say nothing of another's."""
    async with Agencies(world) as agencies:
        await agencies.bring()
        theirs = MadeRoster(world=world, rows=world.people[100:], sender=OTHER_HEALTH)
        await send_roster(agencies.census, requests_of(theirs.parts()), OTHER_HEALTH)
        await agencies.round()
        assert agencies.in_force() == [(HEALTH.organisation, 1), (OTHER_HEALTH.organisation, 1)]
        agencies.verify_joined()
        joined = agencies.joined(OTHER_HEALTH)
        assert joined is not None
        assert len(cards_by_person(joined.cards)) == sum(place % 4 != 3 for place in range(100, 400))


async def test_changed_linkage_key_needs_a_new_roster_and_gets_one(world: World) -> None:
    """Until both agencies have changed it nothing switches; then the roster of the new chain comes into force by itself."""
    async with Agencies(world) as agencies:
        await agencies.bring()
        key = LinkageKey(bytes(range(32)))
        world.relink_health(agencies.health, key)
        with pytest.raises(BrokerError, match="LINKAGE_MISMATCH"):
            await agencies.sender.send_due()
        agencies.verify_joined()
        world.relink_census(key)
        await agencies.round()
        assert agencies.joined() is None
        await agencies.bring()
        world.follow(key)
        agencies.verify_joined()
        assert agencies.in_force() == [(HEALTH.organisation, 1), (HEALTH.organisation, 2)]
        world.verify_log()


async def test_roster_is_written_down_sealed_and_for_its_owner_alone(world: World) -> None:
    """No pseudonym stands in any file of the census node outside its registry, and nobody else can read the folder."""
    async with Agencies(world) as agencies:
        await agencies.bring()
        folder = world.census_folder / "rosters"
        assert folder.stat().st_mode & 0o777 == 0o700
        for path in folder.iterdir():
            assert path.stat().st_mode & 0o777 == 0o600
            assert world.people[7].tobytes() not in path.read_bytes()
        for path in world.census_folder.glob("journal.db*"):
            assert world.people[7].tobytes() not in path.read_bytes()


async def test_number_of_frames_follows_from_declared_places_alone(world: World) -> None:
    """One person or four hundred: a watcher of the line counts the same messages of the same lengths."""
    few, many = (MadeRoster(world=world, rows=world.people[:people]).parts() for people in (1, 400))
    assert [part.ByteSize() for part in few] == [part.ByteSize() for part in many]
    assert len(few) == 1 + FRAMES


async def test_file_of_a_roster_shows_no_number_of_people(world: World) -> None:
    """One person or four hundred: every frame is sealed and written, and the file has one size."""
    async with Agencies(world) as agencies:
        sizes = set()
        for number, people in enumerate([0, 1, 400], start=1):
            made = MadeRoster(world=world, rows=world.people[:people], number=number)
            await send_roster(agencies.census, requests_of(made.parts()), HEALTH)
            await agencies.round()
            (path,) = (world.census_folder / "rosters").glob("*.roster")
            sizes.add(path.stat().st_size)
        assert sizes == {FRAMES * (FRAME_BYTES + TAG_BYTES)}


# --- deaths ----------------------------------------------------------------------------------------------------------


class _Died(Exception):  # noqa: N818 - nobody catches it but the test
    """A node died here."""


def gone() -> AioRpcError:
    """The other side's view of a node that died."""
    return AioRpcError(StatusCode.UNAVAILABLE, Metadata(), Metadata())


def die_after(agencies: Agencies, name: str, patch: pytest.MonkeyPatch) -> None:
    """The census node dies when it has done this about rosters."""
    rosters = agencies.world.census.rosters
    done = getattr(rosters, name)

    def both(*args: object, **named: object) -> None:
        done(*args, **named)
        agencies.die()

    patch.setattr(rosters, name, both)


def die_leaving_files(agencies: Agencies) -> None:
    """The next one starts from the disk as it is now: later tidying does not count."""
    agencies.world.census_folder = agencies.world.copy_census()
    agencies.die()


def half_way(agencies: Agencies, patch: pytest.MonkeyPatch) -> None:
    """Half of the frames are written."""
    begin = agencies.world.census.rosters.begin

    def begun(admitted: AdmittedRoster) -> RosterReception:
        reception = begin(admitted)
        add, added = reception.add, itertools.count()

        def adding(frame: roster_pb2.RosterFrame) -> None:
            add(frame)
            if next(added) == FRAMES // 2:
                die_leaving_files(agencies)

        patch.setattr(reception, "add", adding)
        return reception

    patch.setattr(agencies.world.census.rosters, "begin", begun)


def before_it_is_kept(agencies: Agencies, patch: pytest.MonkeyPatch) -> None:
    """The file is whole, and no row names it."""

    def finished(reception: RosterReception) -> None:
        reception.finish(0)
        die_leaving_files(agencies)

    patch.setattr(agencies.world.census.rosters, "keep", finished)


def lost_reply(agencies: Agencies, patch: pytest.MonkeyPatch) -> None:
    """The census node has it and says so to nobody."""
    honestly = agencies.link.take_roster

    async def lost(requests: AsyncIterator[Request], context: RosterContext) -> None:
        await honestly(requests, context)
        raise gone()

    patch.setattr(agencies.link, "take_roster", lost)


def numbered(agencies: Agencies, patch: pytest.MonkeyPatch) -> None:
    """Nothing has left yet."""
    patch.setattr(agencies.link, "SendRoster", agencies.die)


# Who dies, and how.
STEPS: dict[str, tuple[str, Callable[[Agencies, pytest.MonkeyPatch], None]]] = {
    "numbered": ("health", numbered),
    "header": ("census", lambda a, patch: patch.setattr(a.world.census.rosters, "begin", a.die)),
    "half way": ("census", half_way),
    "before it is kept": ("census", before_it_is_kept),
    "kept, not acknowledged": ("census", lambda a, patch: die_after(a, "keep", patch)),
    "lost reply": ("health", lost_reply),
    "acknowledged, not noted": ("health", lambda a, patch: patch.setattr(SentBook, "acknowledge", a.die)),
    "joined": ("census", lambda a, patch: patch.setattr(a.world.census.rosters, "switch", a.die)),
    "in force": ("census", lambda a, patch: die_after(a, "switch", patch)),
    "erasing": ("census", lambda a, patch: patch.setattr(RosterBook, "erase", a.die)),
}


AFTER_THE_SWITCH = {"lost reply", "acknowledged, not noted", "erasing"}


@pytest.mark.parametrize("step", STEPS)
async def test_death_at_any_step_costs_a_retry_and_nothing_else(
    world: World, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever node dies, at any step of the second roster: the first serves meanwhile, then the second; both logs agree."""
    async with Agencies(world) as agencies:
        await agencies.bring()
        world.load_health(300)
        with monkeypatch.context() as patch:
            STEPS[step][1](agencies, patch)
            with pytest.raises((_Died, BrokerError)):
                await agencies.bring()
        if step != "in force":
            agencies.verify_joined(300 if step in AFTER_THE_SWITCH else None)
        if STEPS[step][0] == "census":
            await agencies.crash_census()
        else:
            agencies.crash_health()
        await agencies.bring()
        agencies.verify_joined(300)
        assert agencies.in_force() == [(HEALTH.organisation, 1), (HEALTH.organisation, 2)]
        assert world.events(Rostered) == agencies.sent()
        assert len(agencies.files()) == 2
        world.verify_log()


async def test_census_node_that_is_away_gets_the_roster_when_it_comes_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has to do anything: the sender goes on trying, and has one number for all its attempts."""
    async with Agencies(world) as agencies:
        away, tried = agencies.link.take_roster, asyncio.Event()
        attempts: list[int] = []

        async def absent(requests: AsyncIterator[Request], context: RosterContext) -> object:
            attempts.append(1)
            if len(attempts) < 3:
                raise gone()
            try:
                return await away(requests, context)
            finally:
                tried.set()

        monkeypatch.setattr(agencies.link, "take_roster", absent)
        running = asyncio.create_task(agencies.sender.run())
        async with asyncio.timeout(PATIENCE_SECONDS):
            await tried.wait()
        running.cancel()
        await asyncio.wait({running})
        await agencies.round()
        agencies.verify_joined()
        assert [event.number for event in agencies.sent()] == [1]


@in_desk_time
async def test_census_node_that_is_away_for_long_has_the_roster_seconds_after_it_is_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an hour as after a minute it is asked every five seconds; the roster of before is in force meanwhile."""
    loop, hour, tried = asyncio.get_running_loop(), 3600, list[float]()
    async with Agencies(world) as agencies:
        await agencies.bring()
        world.load_health(300)
        send_due, back = agencies.sender.send_due, loop.time() + hour

        async def away() -> None:
            tried.append(loop.time())
            if loop.time() < back:
                raise PeerUnavailableError("PEER_UNAVAILABLE", peer="census")
            await send_due()

        monkeypatch.setattr(agencies.sender, "send_due", away)
        running = asyncio.create_task(agencies.sender.run())
        await asyncio.sleep(hour - 1)
        agencies.verify_joined()
        await asyncio.sleep(7)
        await agencies.round()
        running.cancel()
        await asyncio.wait({running})
        agencies.verify_joined(300)
        assert max(later - earlier for earlier, later in itertools.pairwise(tried)) <= 5.1
        assert agencies.in_force() == [(HEALTH.organisation, 1), (HEALTH.organisation, 2)]


async def test_newer_load_while_the_census_node_was_away_skips_the_older_roster(world: World) -> None:
    """Numbers ascend, none has to follow at once: what was never received never comes into force."""
    async with Agencies(world) as agencies:
        with pytest.MonkeyPatch.context() as patch:
            numbered(agencies, patch)
            with pytest.raises(_Died):
                await agencies.sender.send_due()
        agencies.deaths.clear()
        world.load_health(300)
        await agencies.bring()
        assert [event.number for event in agencies.sent()] == [1, 2]
        assert agencies.in_force() == [(HEALTH.organisation, 2)]
        agencies.verify_joined(300)


async def test_staged_roster_gives_way_to_a_newer_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """If two rosters come before either could be joined, the newer one comes into force and the other is erased."""
    async with Agencies(world) as agencies:
        with monkeypatch.context() as patch:
            patch.setattr(world.census.rosters, "join_due", list)
            for number, people in ((1, 400), (2, 300)):
                made = MadeRoster(world=world, rows=world.people[:people], number=number)
                sending = asyncio.create_task(send_roster(agencies.census, requests_of(made.parts()), HEALTH))
                await until(partial(agencies.has_kept, number))
                # Its connection is lost: it does not hear of the switch.
                sending.cancel()
                await asyncio.wait({sending})
        await agencies.round()
        assert agencies.in_force() == [(HEALTH.organisation, 2)]
        agencies.verify_joined(300)
        assert len(agencies.files()) == 2


@pytest.mark.parametrize("suffix", [".rosterkey", ".roster"])
@pytest.mark.parametrize("damage", ["gone", "changed", "cut short"])
async def test_damaged_roster_is_taken_again_from_its_agency(world: World, suffix: str, damage: str) -> None:
    """The census node joins nothing of it; the same roster, which its agency offers at its next start, heals it."""
    async with Agencies(world) as agencies:
        await agencies.bring()
        (path,) = (world.census_folder / "rosters").glob(f"*{suffix}")
        content = path.read_bytes()
        path.write_bytes(bytes([content[0] ^ 1]) + content[1:] if damage == "changed" else content[:7])
        if damage == "gone":
            path.unlink()
        await agencies.crash_census()
        await agencies.round()
        assert agencies.joined() is None
        assert agencies.files() == []
        await agencies.bring()
        agencies.verify_joined()
        assert agencies.in_force() == [(HEALTH.organisation, 1)]


async def test_lost_roster_is_sent_again_by_itself(world: World) -> None:
    """No node starts anew: the sender asks every few minutes whether its roster is still there."""
    async with Agencies(world) as agencies:
        await agencies.bring()
        for path in (world.census_folder / "rosters").iterdir():
            path.unlink()
        # It is missed when it is read the next time.
        world.load_census()
        await agencies.sender.send_due()
        assert agencies.files() == []
        world.clock.advance(300_000)
        await agencies.sender.send_due()
        await agencies.round()
        agencies.verify_joined()


async def test_passing_error_of_the_disk_erases_no_roster(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many open files at one instant: the roster is sound, stays where it is, and is joined in a later round."""
    async with Agencies(world) as agencies:
        await agencies.bring()
        files = agencies.files()
        await agencies.crash_census()

        def failing(*_: object) -> bytes:
            raise OSError(errno.EMFILE, "Too many open files")

        with monkeypatch.context() as patch:
            patch.setattr(Path, "read_bytes", failing)
            await agencies.round()
        assert agencies.files() == files
        await agencies.round()
        agencies.verify_joined()


async def test_roster_that_cannot_be_joined_keeps_no_other_from_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong with one agency's roster, the next one's is joined."""
    honestly = RosterFolder.pieces

    def failing(folder: RosterFolder, roster: KeptRoster) -> Iterator[People]:
        if roster.health == HEALTH.organisation:
            raise ZeroDivisionError
        return honestly(folder, roster)

    monkeypatch.setattr(RosterFolder, "pieces", failing)
    async with Agencies(world) as agencies:
        sending = asyncio.create_task(agencies.sender.send_due())
        await until(agencies.kept)
        theirs = MadeRoster(world=world, rows=world.people[100:], sender=OTHER_HEALTH)
        await send_roster(agencies.census, requests_of(theirs.parts()), OTHER_HEALTH)
        assert agencies.in_force() == [(OTHER_HEALTH.organisation, 1)]
        sending.cancel()
        await asyncio.wait({sending})


# --- an agency that sends something else -----------------------------------------------------------------------------


def swapped(world: World) -> MadeRoster:
    """Two people in the wrong order."""
    rows = in_order(world.people)
    rows[[5, 6]] = rows[[6, 5]]
    return MadeRoster(world=world, rows=rows, number=2)


def repeated(world: World) -> MadeRoster:
    """Somebody twice."""
    rows = in_order(world.people)
    rows[6] = rows[5]
    return MadeRoster(world=world, rows=rows, number=2)


LIES: dict[str, tuple[Callable[[World], MadeRoster], str]] = {
    "not ascending": (swapped, "BAD_FRAMES"),
    "a duplicate": (repeated, "BAD_FRAMES"),
    "fewer people than it says": (lambda w: MadeRoster(world=w, rows=w.people[:9], number=2, people=10), "BAD_FRAMES"),
    "more people than it says": (lambda w: MadeRoster(world=w, rows=w.people[:9], number=2, people=8), "BAD_FRAMES"),
    "padding that is not zero": (
        lambda w: MadeRoster(
            world=w, rows=w.people[:16_384], number=2, padding=bytes(16 * (DECLARED_STEP - 400) - 1) + b"\1"
        ),
        "BAD_FRAMES",
    ),
    "cut short": (
        lambda w: MadeRoster(world=w, rows=w.people, number=2, padding=bytes(16 * (16_384 * 9 - 400))),
        "BAD_FRAMES",
    ),
    "beyond its declared places": (
        lambda w: MadeRoster(world=w, rows=w.people, number=2, padding=bytes(16 * (DECLARED_STEP + 16_384 - 400))),
        "BAD_FRAMES",
    ),
    "more people than places": (
        lambda w: MadeRoster(world=w, rows=w.people, number=2, people=DECLARED_STEP + 1),
        "BAD_FRAMES",
    ),
    "places that cannot be declared": (
        lambda w: MadeRoster(world=w, rows=w.people, number=2, places=16_384),
        "BAD_FRAMES",
    ),
    "no places": (lambda w: MadeRoster(world=w, rows=w.people[:0], number=2, places=0), "BAD_FRAMES"),
    "more places than a place can say": (
        lambda w: MadeRoster(world=w, rows=w.people, number=2, places=2**31 + DECLARED_STEP, padding=b""),
        "BAD_FRAMES",
    ),
    "other places than it commits to": (
        lambda w: MadeRoster(world=w, rows=w.people, number=2, committed_places=2 * DECLARED_STEP),
        "COMMITMENT_MISMATCH",
    ),
    "the same keys for ids of another form": (
        lambda w: MadeRoster(world=w, rows=w.people, number=2, linkage=w.secrets.linkage.of_form("text").chain_id),
        "LINKAGE_MISMATCH",
    ),
    "another linkage chain": (
        lambda w: MadeRoster(world=w, rows=w.people, number=2, linkage="0" * 16),
        "LINKAGE_MISMATCH",
    ),
    "a used number": (lambda w: MadeRoster(world=w, rows=w.people, number=1), "ROSTER_REUSED"),
    "number 0": (lambda w: MadeRoster(world=w, rows=w.people, number=0), "MALFORMED_MESSAGE"),
    "a number that no log can hold": (
        lambda w: MadeRoster(world=w, rows=w.people, number=2**53),
        "MALFORMED_MESSAGE",
    ),
    "another agency's key": (
        lambda w: MadeRoster(world=w, rows=w.people, number=2, key=w.secrets.other_manifest),
        "UNKNOWN_KEY",
    ),
}


@pytest.mark.parametrize("lie", LIES)
async def test_roster_that_is_not_what_it_claims_is_refused(world: World, lie: str) -> None:
    """The roster in force serves, nothing of the refused one stays, and an honest one is taken afterwards."""
    async with Agencies(world) as agencies:
        await agencies.bring()
        make, code = LIES[lie]
        await agencies.refused(make(world).parts(), code)
        agencies.verify_joined()
        world.load_health(300)
        await agencies.bring()
        agencies.verify_joined(300)


def flipped(part: Request) -> Request:
    """One bit of a frame's ciphertext changed."""
    sealed = part.frame.ciphertext
    changed = bytes([sealed[0] ^ 1]) + sealed[1:]
    return Request(frame=roster_pb2.RosterFrame(index=part.frame.index, last=part.frame.last, ciphertext=changed))


def said_last(part: Request) -> Request:
    """A frame in the middle that is said to be the last."""
    frame = roster_pb2.RosterFrame(index=part.frame.index, last=True, ciphertext=part.frame.ciphertext)
    return Request(frame=frame)


TAMPERED: dict[str, tuple[Callable[[list[Request]], list[Request]], str]] = {
    "nothing": (lambda _: [], "MALFORMED_MESSAGE"),
    "no header": (lambda parts: parts[1:], "MALFORMED_MESSAGE"),
    "header alone": (lambda parts: parts[:1], "BAD_FRAMES"),
    "two headers": (lambda parts: [parts[0], *parts], "BAD_FRAMES"),
    "an empty message": (lambda parts: [*parts[:3], Request(), *parts[3:]], "BAD_FRAMES"),
    "a frame lost": (lambda parts: [*parts[:3], *parts[4:]], "BAD_FRAMES"),
    "a frame twice": (lambda parts: [*parts[:3], *parts[2:]], "BAD_FRAMES"),
    "two frames in the wrong order": (lambda parts: [parts[0], parts[2], parts[1], *parts[3:]], "BAD_FRAMES"),
    "the last frame lost": (lambda parts: parts[:-1], "BAD_FRAMES"),
    "a frame after the last": (lambda parts: [*parts, parts[-1]], "BAD_FRAMES"),
    "a changed frame": (lambda parts: [*parts[:3], flipped(parts[3]), *parts[4:]], "SEALED_WRONGLY"),
    "a frame that is said to be the last": (lambda parts: [*parts[:3], said_last(parts[3])], "SEALED_WRONGLY"),
}


@pytest.mark.parametrize("tampered", TAMPERED)
async def test_roster_that_was_changed_on_the_way_is_refused(world: World, tampered: str) -> None:
    """Whatever somebody between the agencies does to its messages."""
    async with Agencies(world) as agencies:
        await agencies.bring()
        change, code = TAMPERED[tampered]
        await agencies.refused(change(MadeRoster(world=world, rows=world.people, number=2).parts()), code)
        agencies.verify_joined()


async def test_signature_of_a_sample_is_none_of_a_roster(world: World) -> None:
    """The manifest key signs both: a roster's manifest that is signed as a sample's is signed by nobody."""
    async with Agencies(world) as agencies:
        made = MadeRoster(world=world, rows=world.people)
        parts, key = made.parts(), world.secrets.manifest
        signed = parts[0].header.manifest
        signed.signature = key.sign(signed.manifest)
        await agencies.refused(parts, "BAD_SIGNATURE")


async def test_payload_of_another_manifest_does_not_open(world: World) -> None:
    """A sealed payload from one roster cannot be put before another."""
    async with Agencies(world) as agencies:
        parts = MadeRoster(world=world, rows=world.people).parts()
        other = MadeRoster(world=world, rows=world.people, number=2).parts()
        parts[0].header.sealed_key = other[0].header.sealed_key
        await agencies.refused(parts, "SEALED_WRONGLY")


async def test_agency_without_a_card_sends_no_roster(world: World) -> None:
    """A roster comes from a registered health agency, and is signed by its own key."""
    async with Agencies(world) as agencies:
        parts = MadeRoster(world=world, rows=world.people).parts()
        with pytest.raises(BrokerError, match="UNKNOWN_KEY"):
            await send_roster(agencies.census, requests_of(parts), OTHER_HEALTH)
        assert agencies.kept() == []


async def test_number_below_the_newest_is_refused(world: World) -> None:
    """An agency whose home was restored from a copy cannot bring an old roster back."""
    async with Agencies(world) as agencies:
        for number in (1, 3):
            made = MadeRoster(world=world, rows=world.people, number=number)
            await send_roster(agencies.census, requests_of(made.parts()), HEALTH)
        await agencies.round()
        await agencies.refused(MadeRoster(world=world, rows=world.people, number=2).parts(), "ROSTER_OLD")


async def test_rosters_that_come_too_often_are_told_to_come_back(world: World) -> None:
    """An agency that loads without end fills no disk of the census agency's; a repeat is no further roster."""
    async with Agencies(world, rosters_per_hour=2) as agencies:
        for number in (1, 2):
            made = MadeRoster(world=world, rows=world.people, number=number)
            await send_roster(agencies.census, requests_of(made.parts()), HEALTH)
            await send_roster(agencies.census, requests_of(made.parts()), HEALTH)
        await agencies.round()
        third = MadeRoster(world=world, rows=world.people, number=3).parts()
        await agencies.refused(third, "BUSY")
        world.clock.advance(3_600_001)
        await send_roster(agencies.census, requests_of(third), HEALTH)


async def test_rosters_that_fail_at_their_end_count_like_others(world: World) -> None:
    """A whole stream with a wrong last frame is not free: an agency has so many attempts an hour, whatever comes of them."""
    async with Agencies(world, rosters_per_hour=2) as agencies:
        parts = MadeRoster(world=world, rows=world.people).parts()
        for _ in range(2):
            await agencies.refused(parts[:-1], "BAD_FRAMES")
        await agencies.refused(parts, "BUSY")
        world.clock.advance(3_600_001)
        await send_roster(agencies.census, requests_of(parts), HEALTH)


async def test_roster_of_more_places_than_the_node_takes_is_refused_at_its_header(world: World) -> None:
    """It would fill the disk: nothing but its header is read."""
    async with Agencies(world, max_places=2 * DECLARED_STEP) as agencies:
        made = MadeRoster(world=world, rows=world.people, places=3 * DECLARED_STEP)
        context = RosterContext()
        with pytest.raises(BrokerError, match="BAD_FRAMES"):
            await send_roster(agencies.census, requests_of(made.parts()[:1]), HEALTH, context)
        assert not context.proceeds.is_set()


@pytest.mark.parametrize(
    "what", [(kept_rosters, "create_for_owner"), (FrameSealer, "seal_frame")], ids=["its files", "a frame"]
)
async def test_full_disk_costs_the_roster_and_stops_nobody(
    what: tuple[Any, str], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One agency's roster finds no room: it is told to come back, nothing of it stays, and the node serves the others."""
    async with Agencies(world) as agencies:
        await agencies.bring()
        parts = MadeRoster(world=world, rows=world.people, number=2).parts()
        with monkeypatch.context() as patch:
            patch.setattr(*what, no_room)
            await agencies.refused(parts, "BUSY")
        agencies.verify_joined()
        await send_roster(agencies.census, requests_of(parts), HEALTH)


def no_room(*_: object) -> bytes:
    """A disk that is full."""
    raise OSError(errno.ENOSPC, "No space left on device")


async def test_stream_that_ends_while_its_file_is_made_leaves_no_file(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer that hangs up at the wrong instant again and again fills no disk."""
    async with Agencies(world) as agencies:
        begin, making, go_on = world.census.rosters.begin, threading.Event(), threading.Event()

        def slowly(admitted: AdmittedRoster) -> RosterReception:
            reception = begin(admitted)
            making.set()
            assert go_on.wait(PATIENCE_SECONDS)
            return reception

        monkeypatch.setattr(world.census.rosters, "begin", slowly)
        parts = MadeRoster(world=world, rows=world.people).parts()
        call = asyncio.create_task(send_roster(agencies.census, requests_of(parts), HEALTH))
        assert await asyncio.to_thread(making.wait, PATIENCE_SECONDS)
        call.cancel()
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.wait({call})
        assert call.cancelled()
        assert agencies.files() == []


async def test_stream_without_a_header_gives_its_place_back(world: World) -> None:
    """A header has as long as a sample's: silence does not hold an agency's place for as long as a roster may take."""
    async with Agencies(world, header_deadline_ms=20) as agencies:

        async def silent() -> AsyncIterator[Request]:
            await asyncio.Event().wait()
            yield Request()

        with pytest.raises(BrokerError, match="PEER_UNAVAILABLE"):
            await send_roster(agencies.census, silent(), HEALTH)


@in_desk_time
async def test_sender_does_not_hurry_with_a_roster_that_was_found_wrong(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A roster that the census node refuses for good is offered once a minute, and not its whole content every five seconds."""
    loop, tried = asyncio.get_running_loop(), list[float]()

    async def refusing() -> None:
        tried.append(loop.time())
        raise InvalidRequestError("BAD_FRAMES", problem="a drill")

    async with Agencies(world) as agencies:
        monkeypatch.setattr(agencies.sender, "send_due", refusing)
        running = asyncio.create_task(agencies.sender.run())
        began = loop.time()
        await asyncio.sleep(130)
        running.cancel()
        await asyncio.wait({running})
    assert [round(at - began) for at in tried] == [0, 60, 120]


async def test_second_roster_beside_one_under_way_is_told_to_come_back(world: World) -> None:
    """One at a time of each agency, whatever it waits for; another agency is not held up."""
    async with Agencies(world) as agencies:
        began, silent = asyncio.Event(), asyncio.Event()
        parts = MadeRoster(world=world, rows=world.people).parts()

        async def dawdling() -> AsyncIterator[Request]:
            for part in parts[:3]:
                yield part
            began.set()
            await silent.wait()

        first = asyncio.create_task(send_roster(agencies.census, dawdling(), HEALTH))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await began.wait()
        with pytest.raises(BrokerError, match="BUSY"):
            await send_roster(agencies.census, requests_of(parts), HEALTH)
        theirs = MadeRoster(world=world, rows=world.people, sender=OTHER_HEALTH)
        await send_roster(agencies.census, requests_of(theirs.parts()), OTHER_HEALTH)
        silent.set()
        with pytest.raises(BrokerError, match="BAD_FRAMES"):
            await first
        await send_roster(agencies.census, requests_of(parts), HEALTH)


async def test_sender_that_falls_silent_loses_its_stream(world: World) -> None:
    """At the deadline: nothing of it stays, and the agency's next roster is taken."""
    async with Agencies(world, roster_deadline_ms=20) as agencies:
        parts = MadeRoster(world=world, rows=world.people).parts()

        async def silent() -> AsyncIterator[Request]:
            for part in parts[:3]:
                yield part
            await asyncio.Event().wait()

        with pytest.raises(BrokerError, match="PEER_UNAVAILABLE"):
            await send_roster(agencies.census, silent(), HEALTH)
        assert (agencies.kept(), agencies.files()) == ([], [])
        agencies.limits = LimitConfig()
        agencies.start_census()
        await agencies.bring()
        agencies.verify_joined()


async def test_registry_load_between_joining_and_switch_is_joined_first(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both come at once: the roster does not come into force on a load that it was not joined with."""
    rosters = world.census.rosters
    switch, outcomes = rosters.switch, list[int | None]()

    def loaded_meanwhile(health: str, number: int, *, at_ms: int) -> int | None:
        if not outcomes:
            with monkeypatch.context() as patch:
                patch.setattr(rosters, "join_due", list)
                world.load_census()
        outcomes.append(switch(health, number, at_ms=at_ms))
        return outcomes[-1]

    monkeypatch.setattr(rosters, "switch", loaded_meanwhile)
    async with Agencies(world) as agencies:
        await agencies.bring()
        assert outcomes[0] is None
        assert agencies.in_force() == [(HEALTH.organisation, 1)]
        agencies.verify_joined()


async def test_revoked_agency_has_no_roster_put_in_force(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Revoked between reception and switch: the log would refuse the entry, so that the node does not write it, and serves."""
    keep, revoked = world.census.rosters.keep, list[str]()

    def revoked_then(reception: RosterReception) -> None:
        keep(reception)
        with world.census.journal.transaction() as transaction:
            transaction.append(Revoked(role="health", name=HEALTH.organisation, note="a drill"))
        revoked.append(HEALTH.organisation)

    monkeypatch.setattr(world.census.rosters, "keep", revoked_then)
    async with Agencies(world) as agencies:
        sending = asyncio.create_task(agencies.sender.send_due())
        await until(lambda: revoked)
        await agencies.round()
        assert agencies.in_force() == []
        sending.cancel()
        await asyncio.wait({sending})
    world.verify_log()


async def test_revoked_agency_leaves_no_roster_behind(world: World) -> None:
    """Who is in its data is nobody's business any more: file and key go, and nothing is joined."""
    async with Agencies(world) as agencies:
        await agencies.bring()
        with world.census.journal.transaction() as transaction:
            transaction.append(Revoked(role="health", name=HEALTH.organisation, note="a drill"))
        await agencies.round()
        assert agencies.files() == []
        assert agencies.joined() is None


async def test_another_manifest_with_the_same_commitment_is_another_roster(world: World) -> None:
    """A number stands for one manifest: nothing else in it may change under the same people."""
    async with Agencies(world) as agencies:
        salt = bytes(32)
        made = MadeRoster(world=world, rows=world.people, salt=salt)
        await send_roster(agencies.census, requests_of(made.parts()), HEALTH)
        await agencies.round()
        other = MadeRoster(world=world, rows=world.people, salt=salt, linkage="another")
        await agencies.refused(other.parts(), "ROSTER_REUSED")


def test_every_attempt_is_sealed_anew(world: World) -> None:
    """Two attempts of one roster share no ciphertext, but the manifest to the byte."""
    made = MadeRoster(world=world, rows=world.people)
    one, other = made.parts(), made.parts()
    assert one[0].header.manifest == other[0].header.manifest
    assert one[0].header.sealed_key != other[0].header.sealed_key
    assert all(a.frame.ciphertext != b.frame.ciphertext for a, b in zip(one[1:], other[1:], strict=True))


# --- samples of it -----------------------------------------------------------------------------------------------------


def sample_of_roster(world: World, made: MadeRoster) -> OrderedSample:
    """A sample of everybody on a roster."""
    order = world.order()
    bound = Bound(order.hash, hash_bytes(made.signed().manifest))
    return OrderedSample(
        order, sample_of(range(len(made.rows)), bound, declared=made.places, roster=made.number, salt=os.urandom(32))
    )


async def test_sample_counts_on_the_roster_that_it_names_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Staged: come back. In force: charged. Replaced: refused, and the ticket of a charge is still good."""
    world = World(tmp_path, make_policy(), places=DECLARED_STEP)
    made = MadeRoster(world=world, rows=world.people[:300], number=2)
    first, second = world.sample(world.order()), sample_of_roster(world, made)
    async with Agencies(world) as agencies:
        with monkeypatch.context() as patch:
            patch.setattr(world.census.rosters, "switch", lambda *_, **__: None)
            sending = asyncio.create_task(send_roster(agencies.census, requests_of(made.parts()), HEALTH))
            await until(lambda: len(agencies.kept()) == 3)
            world.census.rosters.join_due()
            with world.unchanged(), pytest.raises(RefusedError, match="BUSY"):
                world.admit(world.messages(second))
            world.answer(first.order, first)
        await sending
        world.answer(second.order, second)
        with world.unchanged(), pytest.raises(InvalidRequestError, match="ROSTER_NOT_IN_FORCE"):
            world.admit(world.messages(world.sample(world.order())))
        world.answer(first.order, first)
    assert [charge.roster for charge in world.charges()] == [1, 2]
    world.close()


async def test_sample_in_line_is_charged_before_its_roster_is_replaced(tmp_path: Path) -> None:
    """The switch waits in its agency's own line: nobody with a place in it is refused."""
    world = World(tmp_path, make_policy(), places=DECLARED_STEP)
    made = MadeRoster(world=world, rows=world.people[:300], number=2)
    agencies = Agencies(world)
    agencies.start_census()
    # The desk does not work yet: what comes is in line.
    await agencies.stop_census()
    service = CensusService(world.census, agencies.limits, StopSignal(), people=DECLARED_STEP)
    requests = world.messages(world.sample(world.order()))

    async def ask() -> bool:
        return (await anext(count(service, stream(requests), HEALTH))).HasField("charged")

    asking = asyncio.create_task(ask())
    await until(lambda: service._desk._places)
    async with at_work(service):
        await send_roster(service, requests_of(made.parts()), HEALTH)
        assert await asking
    order = [type(entry.event) for entry in world.entries() if isinstance(entry.event, Charged | Rostered)]
    assert order == [Rostered, Rostered, Charged, Rostered]
    world.close()


# --- when ------------------------------------------------------------------------------------------------------------

TICK_MS = 200


class Ticking:
    """The same in virtual time, with ticks. Made in the loop."""

    def __init__(self, directory: Path, delay_ms: int = 400) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, TimedLoop)
        self.clock = LoopClock(loop, -(-system_clock() // TICK_MS) * TICK_MS)
        policy = make_policy(tick_ms=TICK_MS, delay_ms=delay_ms)
        self.world = Unrostered(
            directory, policy, places=DECLARED_STEP, census_clock=self.clock, health_clock=self.clock
        )

    async def start(self) -> int:
        """Return 70 ms after a tick; gives that instant."""
        await asyncio.sleep((TICK_MS - self.clock() % TICK_MS + 70) / 1000)
        return self.clock()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How long the next joins of a staged roster take, in milliseconds."""
    left: list[int] = []
    join = joining.join

    def slowly(*arguments: Any) -> JoinedRoster:
        working(left.pop() if left else 0)
        return join(*arguments)

    monkeypatch.setattr("census_node.registry.staging.join", slowly)
    return left


@in_desk_time
async def test_acknowledgement_leaves_at_a_tick_that_follows_from_declared_places(
    tmp_path: Path, slow: list[int]
) -> None:
    """Nobody or four hundred, sent or only offered again, joined at once or slowly: one instant after the header."""
    ticking = Ticking(tmp_path)
    async with Agencies(ticking.world) as agencies:
        told: dict[tuple[int, int, bool], int] = {}
        for number, (people, places, takes) in enumerate([(0, 1, 0), (400, 1, 50), (400, 3, 150), (1, 3, 0)], start=1):
            made = MadeRoster(
                world=ticking.world, rows=ticking.world.people[:people], number=number, places=places * DECLARED_STEP
            )
            for again in (False, True):
                start = await ticking.start()
                slow[:] = [] if again else [takes]
                await send_roster(agencies.census, requests_of(made.parts()), HEALTH)
                told[people, places, again] = ticking.clock() - start
        # The delays are 400 ms and 630 ms, counted from 70 ms after a tick.
        assert told == {(people, places, again): {1: 530, 3: 730}[places] for people, places, again in told}
    ticking.world.close()


@in_desk_time
async def test_join_that_outlasts_its_time_moves_an_acknowledgement_by_whole_ticks(
    tmp_path: Path, slow: list[int]
) -> None:
    """How many are linked is not told by any instant between two ticks; nor does the log hold one."""
    ticking = Ticking(tmp_path)
    async with Agencies(ticking.world) as agencies:
        for number, takes in enumerate([199, 617, 1901], start=1):
            made = MadeRoster(world=ticking.world, rows=ticking.world.people, number=number)
            await ticking.start()
            slow[:] = [takes]
            await send_roster(agencies.census, requests_of(made.parts()), HEALTH)
            assert ticking.clock() % TICK_MS == 0
    instants = [entry.time_ms for entry in ticking.world.entries() if isinstance(entry.event, Rostered)]
    assert len(instants) == 3
    assert all(instant % TICK_MS == 0 for instant in instants)
    ticking.world.close()


@in_desk_time
async def test_header_is_answered_at_a_tick_whether_it_is_taken_or_refused(tmp_path: Path) -> None:
    """When it may proceed, and when it is refused, says nothing of what else the node does."""
    ticking = Ticking(tmp_path)
    proceeded: list[int] = []

    class Timed(RosterContext):
        async def send_initial_metadata(self, metadata: tuple[tuple[str, str], ...]) -> None:
            proceeded.append(ticking.clock())
            await super().send_initial_metadata(metadata)

    async with Agencies(ticking.world) as agencies:
        await ticking.start()
        made = MadeRoster(world=ticking.world, rows=ticking.world.people)
        await send_roster(agencies.census, requests_of(made.parts()), HEALTH, Timed())
        (instant,) = proceeded
        assert instant % TICK_MS == 0
        await ticking.start()
        wrong = MadeRoster(world=ticking.world, rows=ticking.world.people, number=2, linkage="another")
        with pytest.raises(BrokerError, match="LINKAGE_MISMATCH"):
            await send_roster(agencies.census, requests_of(wrong.parts()), HEALTH)
        assert ticking.clock() % TICK_MS == 0
    ticking.world.close()


@in_desk_time
async def test_roster_that_the_delays_do_not_cover_is_refused_at_its_header(tmp_path: Path) -> None:
    """Work on it would overrun every delay, and so tell how long it takes."""
    ticking = Ticking(tmp_path, delay_ms=83)
    async with Agencies(ticking.world) as agencies:
        made = MadeRoster(world=ticking.world, rows=ticking.world.people, places=4 * DECLARED_STEP)
        await agencies.refused(made.parts()[:1], "BAD_FRAMES")
    ticking.world.close()


async def test_header_is_answered_while_a_join_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's header waits for a join, whose length tells how many are linked."""
    joining, go_on = threading.Event(), threading.Event()
    join_due = world.census.rosters.join_due

    def waiting() -> list[RosterName]:
        joining.set()
        assert go_on.wait(PATIENCE_SECONDS)
        return join_due()

    monkeypatch.setattr(world.census.rosters, "join_due", waiting)
    async with Agencies(world) as agencies:
        assert await asyncio.to_thread(joining.wait, PATIENCE_SECONDS)
        context = RosterContext()
        parts = MadeRoster(world=world, rows=world.people).parts()
        sending = asyncio.create_task(send_roster(agencies.census, requests_of(parts), HEALTH, context))
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await context.proceeds.wait()
            assert not sending.done()
        finally:
            go_on.set()
        await sending


@in_desk_time
async def test_agency_sends_one_roster_until_it_is_acknowledged(tmp_path: Path) -> None:
    """Also while an acknowledgement, or that of a repeat, waits for its tick: asleep is at most one call of an agency's."""
    ticking = Ticking(tmp_path)
    parts = MadeRoster(world=ticking.world, rows=ticking.world.people).parts()
    async with Agencies(ticking.world) as agencies:
        for _ in range(2):
            await ticking.start()
            sending = asyncio.create_task(send_roster(agencies.census, requests_of(parts), HEALTH))
            for _ in range(2):
                await asyncio.sleep(TICK_MS / 1000)
                with pytest.raises(BrokerError, match="BUSY"):
                    await send_roster(agencies.census, requests_of(parts), HEALTH)
            await sending
    ticking.world.close()
