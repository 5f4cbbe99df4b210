"""The census node's work for a sample tells nothing: the same steps, the same arrays, the same blocks on disk, no matter who is in it.

One whole walk is followed, from the sealed parts to the stored answer: every step of the interpreter in the node's own modules and in
those that it is made of, line by line; every call of NumPy with the shapes and types that it reads, fills and makes; and the kept sample's file. All are equal for
every sample, share of linked people and share of dropped ones, of two agencies one after the other. Only the noise sampler is left
out: its steps follow the noise, which is drawn anew for every charge.

Within NumPy's calls `tests/benchmarks/instructions.py` counts the instructions of the processor.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from fakes.dictionaries import CENSUS_DICTIONARY
from fakes.planted_passes import Skipping
from fakes.registries import made_registry
from fakes.watched_arrays import Notes, notes_of, watching
from fakes.world import HEALTH, OTHER_HEALTH, Pseudonyms, World, charge_and_answer, make_policy, make_pseudonyms

import broker_common
import census_node
import census_node.node
from broker_common.privacy.policy import Subject
from broker_common.values import Randomness
from census_node.ledger.book import Decided, LedgerBook
from census_node.ledger.passes import Bits, Counted, Passes
from census_node.ledger.samples import KeptSample, SampleFolder
from census_node.ledger.steps import Step
from census_node.query.answering import Answers
from census_node.registry import Registry

PEOPLE, CENSUS = 200, 300
SAMPLES: dict[str, range] = {
    "half": range(0, PEOPLE, 2),
    "nobody": range(0),
    "everybody": range(PEOPLE),
    "one": range(77, 78),
    "clustered": range(40, 70),
}
USUAL = 0.5
OWN = tuple(str(Path(each.__path__[0])) for each in (broker_common, census_node))
FOLLOWS_NOISE = ("discrete_laplace.py", "noise_stream.py", "table_laplace.py")


class FixedWorld(World):
    """Rosters and a census of always the same sizes; a share of the people of the rosters is linked, everybody or nobody if need be."""

    def __init__(self, folder: Path, subject: Subject, linked: float) -> None:
        self.linked = linked
        super().__init__(folder, make_policy(accounting="per_person", subject=subject), people=PEOPLE)

    def make_registry(self, load: str) -> Registry:
        """The same number of cards, people and households no matter who is linked."""
        ours = self.people[np.arange(PEOPLE) % 10 < 10 * self.linked]
        cards = np.concatenate([ours, make_pseudonyms(CENSUS, seed=9)[: CENSUS - len(ours)]])
        cards = cards[np.lexsort(cards.T[::-1])]
        halves = cards.copy().view(">u8").astype(np.uint64)
        columns = {
            column.name: (np.arange(CENSUS) % len(column.codes)).astype(np.uint8)
            for column in CENSUS_DICTIONARY.columns
        }
        homes = [number // 3 for number in range(CENSUS)]
        return made_registry(load, halves[:, 0].copy(), halves[:, 1].copy(), columns, households=homes)

    def drop(self, share: float) -> None:
        """So many subjects have nothing left."""
        charged = self.census.book._ledger.charged
        charged[:] = (np.arange(len(charged)) % 10 < 10 * share) * np.uint32(self.policy.cap)


@dataclass(frozen=True)
class Work:
    """Work for two agencies' samples, and the files on the disk afterwards."""

    steps: Counter[tuple[str, int]]
    arrays: Notes
    files: list[tuple[int, int]]


_ran: list[tuple[str, int]] = []
_following = threading.Event()


def _follow(frame: FrameType, event: str, argument: Any) -> Any:
    del argument
    name = frame.f_code.co_filename
    if event == "call":
        if not _following.is_set() or not name.startswith(OWN) or name.endswith(FOLLOWS_NOISE):
            return None
        frame.f_trace_opcodes = True
    elif event == "opcode":
        _ran.append((name, frame.f_lineno))
    return _follow


def steps_of(step: Callable[[], object]) -> Counter[tuple[str, int]]:
    """The interpreter's steps by line, in this thread and in those that began to follow when they were made."""
    _ran.clear()
    before = sys.gettrace()
    _following.set()
    sys.settrace(_follow)
    try:
        step()
    finally:
        sys.settrace(before)
        _following.clear()
    return Counter(_ran)


def work(folder: Path, subject: Subject, sample: range, linked: float = USUAL, dropped: float = USUAL) -> Work:
    """Follow one sample of each agency from its sealed parts to its stored answer."""
    # The desk's threads begin with the first sample.
    threading.settrace(_follow)
    try:
        with watching():
            world = FixedWorld(folder, subject, linked)
            try:
                return _work(world, world.people[sample], dropped)
            finally:
                world.close()
    finally:
        threading.settrace(None)


def _work(world: FixedWorld, people: Pseudonyms, dropped: float) -> Work:
    agencies = ((HEALTH, world.secrets.manifest), (OTHER_HEALTH, world.secrets.other_manifest))

    def ask(people: Pseudonyms) -> Callable[[], None]:
        sent = [(world.messages(world.sample(world.order(), people), key), agency) for agency, key in agencies]

        def walk() -> None:
            for messages, agency in sent:
                charge_and_answer(world.census, world.admit(messages, agency))

        return walk

    # The first charge says who is a subject, and makes what is made once.
    ask(world.people[::2])()
    world.drop(dropped)
    walk = ask(people)
    steps: list[Counter[tuple[str, int]]] = []
    arrays = notes_of(lambda: steps.append(steps_of(walk)))
    stats = [path.stat() for path in SampleFolder(world.census_folder / "samples").path.iterdir()]
    return Work(steps[0], arrays, [(stat.st_size, stat.st_blocks) for stat in stats])


@pytest.fixture(autouse=True)
def no_flushes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Durability is not examined here."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def verify_equal(folder: Path, subject: Subject) -> None:
    """Return only if the work is the same for every sample, share of linked people and share of dropped ones."""
    usual = work(folder / "usual", subject, SAMPLES["half"])
    for name in ("nobody", "everybody", "one", "clustered"):
        verify_same(work(folder / name, subject, SAMPLES[name]), usual)
    for share in (0.0, 1.0):
        verify_same(work(folder / f"linked {share}", subject, SAMPLES["half"], linked=share), usual)
        verify_same(work(folder / f"dropped {share}", subject, SAMPLES["half"], dropped=share), usual)


def verify_same(one: Work, other: Work) -> None:
    """With what differs in the message."""
    assert one.steps - other.steps == other.steps - one.steps == Counter()
    assert one.arrays - other.arrays == other.arrays - one.arrays == Counter()
    assert one.files == other.files
    assert len(one.files) == 4


@pytest.mark.parametrize("subject", ["person", "household"])
def test_work_for_a_sample_is_the_same_whoever_is_in_it(tmp_path: Path, subject: Subject) -> None:
    """Nobody, everybody, half, one, a cluster; any people linked; any people dropped; of one agency and then of another."""
    verify_equal(tmp_path, subject)


# --- the same comparison finds what is planted -----------------------------------------------------------------------


def early_exit(patch: pytest.MonkeyPatch) -> None:
    """A charge of nobody is not applied."""
    charged = LedgerBook.charged

    def hurried(book: LedgerBook, decided: Decided, step: Step | None, place: int) -> None:
        if decided.active.any():
            charged(book, decided, step, place)

    patch.setattr(LedgerBook, "charged", hurried)


def index_list(patch: pytest.MonkeyPatch) -> None:
    """Active people are looked up before they are counted."""
    count = Passes.count

    def looked_up(passes: Passes, active: Bits, counted: Counted) -> list[int]:
        np.take(counted.values, np.flatnonzero(np.unpackbits(active, count=len(counted.values))))
        return count(passes, active, counted)

    patch.setattr(Passes, "count", looked_up)


def where_linked(patch: pytest.MonkeyPatch) -> None:
    """Places are looked up where a card is joined, and nowhere else."""
    patch.setattr(census_node.node, "Passes", Skipping)


def sparse_file(patch: pytest.MonkeyPatch) -> None:
    """A kept sample of nobody is a hole in the disk: of the same size, and of fewer blocks."""
    write = SampleFolder.write

    def sparsely(folder: SampleFolder, sample: KeptSample, randomness: Randomness) -> str:
        reference = write(folder, sample, randomness)
        if not sample.bits.any():
            file = folder.path / f"{reference.partition(':')[0]}.sample"
            size = file.stat().st_size
            os.truncate(file, 0)
            os.truncate(file, size)
        return reference

    # It could not be read again; what is compared is what was written.
    patch.setattr(SampleFolder, "write", sparsely)
    patch.setattr(Answers, "make", lambda *_: None)


@pytest.mark.parametrize("plant", [early_exit, index_list, where_linked, sparse_file])
def test_work_that_tells_who_is_in_a_sample_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    """Each of these is easy to write; those within a pass are planted in `test_equal_passes`."""
    plant(monkeypatch)
    usual = work(tmp_path / "usual", "person", SAMPLES["half"])
    with pytest.raises(AssertionError):
        verify_same(work(tmp_path / "nobody", "person", SAMPLES["nobody"], linked=0.0), usual)
