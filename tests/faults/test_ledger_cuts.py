"""The power goes at every durable step of the ledger; then a node starts on what the files hold.

| step | what is durable after it |
|---|---|
| sample written, flushed, named in its folder | a sample that no charge names: swept away at the start |
| charge committed | entry, pending row, step; the sample is named |
| answer committed | sealed answer instead of the pending row |
| snapshot written, flushed, renamed | a file that no step names: swept away |
| snapshot's step committed | the next start begins from it |
| erasure committed | rows name nobody; files that no row names are swept away |
| sample removed; superfluous files removed | nothing of the membership |
| write-ahead log started over | nothing of the rows before |
| carry written, load committed | subjects take over with the load, or nobody does |
| change of the key committed | new pseudonyms, or the old ones; the same charges |

The oracle: the ledger is that of the charges, loads and changes of the key that the log holds; every file that a row
names is there and no other; a charge that was under way is charged once by its retry; everything goes on.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fakes.connections import at, watch
from faults.failing_calls import FailingCalls, path_of
from unit.census_node.ledger.ledger_world import PERSONS, Asked, LedgerWorld, Links

from broker_common.errors import InternalError
from broker_common.storage.journal import Journal

# Card 0 gets a person and a household of their own, card 5 moves, card 6 goes, card 7 comes.
MOVED: Links = {0: (5, 2), 1: (0, 0), 2: (1, 0), 3: (1, 0), 4: (2, 0), 5: (3, 0), 7: (6, 1)}


@dataclass(frozen=True)
class Cut:
    """The files of one instant, and the act that was under way."""

    step: str
    act: str
    folder: Path


@dataclass(frozen=True)
class Lived:
    """A life, its cuts, what the world was like after so many events, and by act the sample that it charged."""

    world: LedgerWorld
    cuts: list[Cut]
    memories: dict[int, dict[str, Any]]
    samples: dict[str, Asked]


class Camera:
    """Copies a home before every call that makes its files durable, and before and after every commit."""

    def __init__(self, world: LedgerWorld, patch: pytest.MonkeyPatch) -> None:
        self.cuts: list[Cut] = []
        self.act = ""
        self._world = world
        self._is_copying = False
        for name in FailingCalls.NAMES:
            patch.setattr(os, name, self._watched(name, getattr(os, name)))
        start_over = Journal.start_log_over

        def starting_over(journal: Journal[Any]) -> bool:
            self._shoot("log")
            done = start_over(journal)
            self._shoot("log started over")
            return done

        watch(
            world.node.journal.db,
            before=at("COMMIT", partial(self._shoot, "commit")),
            after=at("COMMIT", partial(self._shoot, "committed")),
        )
        patch.setattr(Journal, "start_log_over", starting_over)

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **options: Any) -> Any:
            if self._is_copying:
                return call(*arguments, **options)
            target = arguments[0]
            path = path_of(target)
            if path.is_relative_to(self._world.folder):
                # Unflushed writes may be there in part.
                self._shoot(name, half=path if name == "fsync" and path.is_file() else None)
            return call(*arguments, **options)

        return watched

    def _shoot(self, step: str, half: Path | None = None) -> None:
        self._is_copying = True
        folder = self._world.copy()
        self._is_copying = False
        self.cuts.append(Cut(step, self.act, folder))
        if half is not None:
            torn = Path(shutil.copytree(folder, folder.with_name(folder.name + "-torn")))
            path = torn / half.relative_to(self._world.folder)
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
            self.cuts.append(Cut("fsync, torn", self.act, torn))


def events_in(world: LedgerWorld) -> int:
    """How many charges, loads and changes of the key the log holds."""
    with world.node.journal.reading() as state:
        return len(state.tickets) + len(state.commitments)


def live(world: LedgerWorld, camera: Camera) -> tuple[dict[int, dict[str, Any]], dict[str, Asked]]:
    """One life; what the world was like after so many events, and by act the sample that it charged."""
    memories, samples = {events_in(world): world.remember()}, {}
    acts: tuple[tuple[str, Callable[[], object]], ...] = (
        ("charge 1", lambda: world.charge({0, 5, 8}, 2)),
        ("charge 2", lambda: world.charge({0, 1, 9}, 2)),
        ("compact and erase", world.retire),
        ("charge 3", lambda: world.charge({2, 6, 8}, 2)),
        ("load", lambda: world.load(MOVED)),
        ("relink", world.relink),
        ("charge 4", lambda: world.charge({0, 5, 7, 9}, 30)),
        ("erase after the change of the key", world.retire),
        ("load again", lambda: world.load(PERSONS)),
        ("charge 5", lambda: world.charge({0, 2, 9}, 30)),
    )
    ask = world.ask

    def noted(*arguments: Any, **options: Any) -> Asked:
        samples[camera.act] = ask(*arguments, **options)
        return samples[camera.act]

    world.ask = noted  # type: ignore[method-assign]  # the same, and noted
    for camera.act, act in acts:
        act()
        memories[events_in(world)] = world.remember()
    del world.ask
    return memories, samples


@pytest.fixture(scope="module")
def lived() -> Iterator[Lived]:
    """One life that was cut everywhere. Nothing depends on what a disk does besides, so that memory will do."""
    shared = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - a fresh folder inside it
    with tempfile.TemporaryDirectory(prefix="cuts-", dir=shared) as folder:
        world = LedgerWorld(Path(folder) / "census")
        with pytest.MonkeyPatch.context() as patch:
            camera = Camera(world, patch)
            memories, samples = live(world, camera)
        yield Lived(world, camera.cuts, memories, samples)
        world.close()


def test_every_cut_leaves_the_ledgers_of_what_was_logged(lived: Lived) -> None:
    """Started on the files of any instant, the node is where the log is, and a retry charges what was not charged."""
    memories, samples = lived.memories, lived.samples
    for cut in lived.cuts:
        there = lived.world.elsewhere(cut.folder, memories[min(memories)])
        there.recall(memories[events_in(there)])
        there.skip_slots(64)
        try:
            there.verify()
            there.verify_files()
            retry = samples.get(cut.act)
            if retry is not None:
                _verify_retry(there, retry)
            there.node.maintain()
            there.charge({1, 9}, 30)
            there.verify()
            there.retire()
            there.restart()
            there.verify()
            there.verify_files()
        except Exception as error:
            raise AssertionError(f"cut at {cut.step} of {cut.act}: {error!r}") from error
        finally:
            there.close()


def _verify_retry(there: LedgerWorld, asked: Asked) -> None:
    """The same sample again, where it was not charged: it is decided on anew."""
    with there.node.journal.reading() as state:
        was_charged = asked.ticket.hex() in state.tickets
        has_slot = asked.number in state.open_slots
    if not was_charged and has_slot:
        there.commit(there.ask(asked.cards, asked.scale, number=asked.number))
        there.verify()


def test_every_step_was_cut(lived: Lived) -> None:
    """The test above tests something: each row of the table is among the cuts."""
    by_act = {(cut.act.rstrip(" 12345"), cut.step) for cut in lived.cuts}
    for act, steps in {
        "charge": {"open", "fsync", "fsync, torn", "commit", "committed"},
        "compact and erase": {"fsync", "replace", "commit", "committed", "unlink", "log", "log started over"},
        "load": {"fsync", "replace", "commit", "committed"},
        "relink": {"commit", "committed"},
        "erase after the change of the key": {"commit", "committed", "unlink"},
    }.items():
        assert {(act, step) for step in steps} <= by_act, act
    assert len(lived.cuts) > 60


# --- a disk that fails -------------------------------------------------------------------------------------------------

ACTS: dict[str, Callable[[LedgerWorld], object]] = {
    "charge": lambda world: world.charge({0, 5, 9}, 30),
    "compact and erase": LedgerWorld.retire,
    "load": lambda world: world.load(MOVED),
}


@pytest.mark.parametrize("happens", [False, True], ids=["lost", "stored but reported failed"])
@pytest.mark.parametrize("act", ACTS)
def test_every_call_that_fails_stops_the_node_and_loses_nothing(tmp_path: Path, act: str, happens: bool) -> None:
    """STORE_FAILED; after a start the ledgers are those of the log, the files those that rows name, and it all works."""
    failures = 0
    while True:
        world = LedgerWorld(tmp_path / str(failures))
        world.charge({0, 1, 8}, 2)
        world.charge({2, 9}, 2)
        before = events_in(world), world.remember()
        with pytest.MonkeyPatch.context() as patch:
            failing = FailingCalls(patch, failures, world.folder / "samples", world.folder / "ledgers", happens=happens)
            code = ""
            try:
                ACTS[act](world)
            except InternalError as error:
                code = error.code
                world.recall(before[1])
        assert code == ("STORE_FAILED" if failing.failed else "")
        world.restart()
        # No entry is in the log whose files are not whole.
        assert events_in(world) - before[0] == (0 if code or act == "compact and erase" else 1)
        world.verify()
        world.verify_files()
        world.skip_slots(64)
        for again in ACTS.values():
            again(world)
            world.verify()
        world.verify_files()
        world.close()
        if not failing.reached:
            break
        failures += 1
    assert failures > 2
