"""What the census agency keeps in memory of everybody: `make bench-ledgers`, or `python -m benchmarks.ledger_size [PEOPLE]`.

Fifteen million people who were all charged before: their registry and the ledgers are written and read back as at a node's
start. Printed is the memory that reading each took, what cannot be given back and what is a file's, by owner in bytes a
person, and how long it took. Then samples of several sizes are looked up, decided on and charged, beside the floor in the
same run: taking, comparing, adding and putting back one number a person in NumPy, with the positions given. Nothing is
asserted: the figures depend on the machine, the ratio hardly.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
from benchmarks.results import FOLDER, heading, say, store
from fakes.registries import linked

from broker_common.privacy.accounting import price_units
from census_node.dictionary import CENSUS_DICTIONARY
from census_node.ledgers import Ledgers, Room
from census_node.linked import Linked
from census_node.pseudonyms import _MOST_PREFIX_BITS, halves_of
from census_node.registry import Registry
from census_node.snapshots import SnapshotFolder
from census_node.submitted_ledger import Column, SubmittedLedger
from census_node.unit_ledger import UnitLedger
from census_node.units import NAME, Cards, Names

__all__ = ["MOST_BYTES", "RESULT", "main", "table"]

RESULT: Final = "ledgers"
MOST_BYTES: Final = 40.0
ReadT = TypeVar("ReadT")
_PEOPLE = 15_000_000
_SAMPLES = (10_000, 100_000, 1_000_000)
_ROOM = Room(price_units(1_000_000), price_units(1), "person")
_ROUNDS = 5


def made(people: int) -> tuple[Ledgers, npt.NDArray[np.uint8]]:
    """Ledgers in which everybody was charged once, and everybody's pseudonym, ascending."""
    generator = np.random.default_rng(1)
    high = np.sort(generator.integers(0, 2**64, people, dtype=np.uint64))
    low = generator.integers(0, 2**64, people, dtype=np.uint64)
    charged = np.full(people, price_units(30), np.uint32)
    pseudonyms = np.stack([high, low], axis=1).astype(">u8").view(np.uint8)
    units = UnitLedger(charged.copy(), charged[: people // 2].copy())
    return Ledgers(SubmittedLedger(Column(high, low, charged)), units), pseudonyms


def made_of(people: int, pseudonyms: npt.NDArray[np.uint8]) -> Registry:
    """A registry of all of them, two to a household, numbered in no order."""
    generator = np.random.default_rng(3)
    persons = generator.permutation(people).astype(np.uint32)
    columns = {name: generator.integers(0, 3, people, dtype=np.uint8) for name in CENSUS_DICTIONARY.names}
    high, low = halves_of(pseudonyms)
    return Registry("load", high, low, columns, persons, persons // 2, people, people // 2 + 1)


def resident() -> dict[str, int]:
    """Memory of this process in bytes, by what it is: `RssAnon` is no file's."""
    lines = (line.split() for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines())
    return {line[0].rstrip(":"): 1024 * int(line[1]) for line in lines if line[0] in {"RssAnon:", "RssFile:"}}


def reading(owner: str, people: int, read: Callable[[], ReadT]) -> tuple[ReadT, dict[str, float]]:
    """Read something; say what memory that took and how long."""
    before, start = resident(), time.perf_counter()
    made_there = read()
    took = time.perf_counter() - start
    anonymous, of_files = ((resident()[name] - before[name]) / people for name in ("RssAnon", "RssFile"))
    say(f"{owner:9} read in {took:4.1f} s  {anonymous:5.1f} bytes a person in memory  {of_files:5.1f} in files")
    return made_there, {"seconds": took, "in memory": anonymous, "in files": of_files}


def fastest(step: Callable[[], object]) -> float:
    """Milliseconds of the fastest of a few rounds."""
    times = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def measure(path: Path, people: int) -> dict[str, Any]:
    """Write, read, look up, charge; gives what reading took, by owner."""
    folder = SnapshotFolder(path)
    ledgers, pseudonyms = made(people)
    start = time.perf_counter()
    name, content = folder.write(ledgers, os.urandom)
    say(
        f"{people:,} people: a snapshot of {(path / name).stat().st_size / 2**20:.0f} MiB, "
        f"written in {time.perf_counter() - start:.1f} s"
    )
    del ledgers
    households = people // 2 + 1
    names = Names(bytes(32), np.zeros(people, NAME), np.zeros(households, NAME), np.zeros(people, np.uint32))
    made_of(people, pseudonyms).write(path / "load.npz", names, Cards.none())
    del names
    registry, of_registry = reading("registry", people, lambda: Registry.read(path / "load.npz", "load"))
    ledgers, of_ledgers = reading("ledgers", people, lambda: folder.read(name, content))
    units = (ledgers.submitted.all_units(), ledgers.units.persons, ledgers.units.households)
    say(
        "of the ledgers by submitted pseudonym, person, household and directory: "
        + ", ".join(
            f"{size / people:.1f}"
            for size in (*(array.nbytes for array in units), 4 * 2 ** min(_MOST_PREFIX_BITS, people.bit_length()))
        )
    )
    say("   sample  ms: look up  decide  charge   floor   ratio of deciding and charging")
    generator, flat = np.random.default_rng(2), np.zeros(people, np.uint32)
    for size in _SAMPLES:
        rows = np.sort(generator.choice(people, size=min(size, people), replace=False)).astype(np.uint32)
        wanted = np.ascontiguousarray(pseudonyms[rows])
        sample = linked(registry, wanted)

        def charge(sample: Linked = sample) -> tuple[float, float]:
            start = time.perf_counter()
            decision = ledgers.decide(sample, _ROOM)
            decided = time.perf_counter()
            ledgers.apply(sample, decision, price=_ROOM.price, organisation="health", digest=b"")
            return decided - start, time.perf_counter() - decided

        def floor(rows: npt.NDArray[np.uint32] = rows) -> None:
            for _ in range(2):
                fits = flat[rows] + np.uint32(_ROOM.price) <= np.uint32(_ROOM.most)
                flat[rows[fits]] += np.uint32(_ROOM.price)

        look_up = fastest(partial(linked, registry, wanted))
        rounds = np.array([charge() for _ in range(_ROUNDS)]) * 1000
        decide, apply, least = rounds[:, 0].min(), rounds[:, 1].min(), fastest(floor)
        say(f"{size:9,}  {look_up:11.1f}  {decide:6.1f}  {apply:6.1f}  {least:6.1f}  {(decide + apply) / least:6.1f}")
    return {"people": people, "owners": {"registry": of_registry, "ledgers": of_ledgers}}


def table(result: dict[str, Any]) -> list[str]:
    """The result as lines of Markdown."""
    lines = heading("bytes a person", "in memory", "in files", "read in")
    for owner, took in result["owners"].items():
        lines.append(f"| {owner} | {took['in memory']:.1f} | {took['in files']:.1f} | {took['seconds']:.1f} s |")
    kept = sum(took["in memory"] + took["in files"] for took in result["owners"].values())
    return [
        *lines,
        "",
        f"- {'pass' if kept <= MOST_BYTES else 'MISS'}: {kept:.1f} bytes a person; at most {MOST_BYTES:g}",
    ]


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("people", nargs="?", type=int, default=_PEOPLE)
    parser.add_argument("--results", type=Path, default=FOLDER)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        result = measure(Path(directory), asked.people)
    store(asked.results, RESULT, result)


if __name__ == "__main__":
    main()
