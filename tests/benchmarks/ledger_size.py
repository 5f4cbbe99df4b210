"""What the ledgers of persons take: `make bench-ledgers`, or `python -m benchmarks.ledger_size [PEOPLE]`.

Fifteen million people who were all charged before: the ledgers are written as a snapshot and read back as at a node's start.
Printed is the memory that reading them took that cannot be given back (the pseudonyms stay in the file), by ledger, and how
long it took. Then samples of several sizes are decided on and charged, beside the floor in the same run: taking, comparing,
adding and putting back one number a person in NumPy, with the positions given. Nothing is asserted: the figures depend on
the machine, the ratio hardly.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from broker_common.privacy.accounting import price_units
from census_node.ledgers import Ledgers, Room
from census_node.linked import Linked
from census_node.snapshots import SnapshotFolder
from census_node.submitted_ledger import Column, SubmittedLedger
from census_node.unit_ledger import UnitLedger

__all__ = ["main"]

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


def anonymous_mib() -> float:
    """Memory of this process that is no file's."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    raise OSError("this system does not say what memory is anonymous")


def fastest(step: Callable[[], object]) -> float:
    """Milliseconds of the fastest of a few rounds."""
    times = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def say(text: str) -> None:
    """Print."""
    sys.stdout.write(text + "\n")


def measure(path: Path, people: int) -> None:
    """Write, read, charge."""
    folder = SnapshotFolder(path)
    ledgers, pseudonyms = made(people)
    start = time.perf_counter()
    name, content = folder.write(ledgers, os.urandom)
    say(
        f"{people:,} people: a snapshot of {(path / name).stat().st_size / 2**20:.0f} MiB, "
        f"written in {time.perf_counter() - start:.1f} s"
    )
    del ledgers
    before, start = anonymous_mib(), time.perf_counter()
    ledgers = folder.read(name, content)
    took, sizes = (
        anonymous_mib() - before,
        [
            array.nbytes / 1e6
            for array in (ledgers.submitted.all_units(), ledgers.units.persons, ledgers.units.households)
        ],
    )
    say(
        f"read in {time.perf_counter() - start:.1f} s; {took:.0f} MiB of memory: {sizes[0]:.0f} MB by submitted pseudonym, "
        f"{sizes[1]:.0f} MB by person, {sizes[2]:.0f} MB by household"
    )
    say("   sample  ms: decide and charge   floor   ratio")
    generator, flat = np.random.default_rng(2), np.zeros(people, np.uint32)
    for size in _SAMPLES:
        rows = np.sort(generator.choice(people, size=min(size, people), replace=False)).astype(np.uint32)
        sample = Linked(np.ascontiguousarray(pseudonyms[rows]), rows, rows // 2)

        def charge(sample: Linked = sample) -> None:
            decision = ledgers.decide(sample, _ROOM)
            ledgers.apply(sample, decision, price=_ROOM.price, organisation="health", digest=b"")

        def floor(rows: npt.NDArray[np.uint32] = rows) -> None:
            for _ in range(2):
                fits = flat[rows] + np.uint32(_ROOM.price) <= np.uint32(_ROOM.most)
                flat[rows[fits]] += np.uint32(_ROOM.price)

        ours, least = fastest(charge), fastest(floor)
        say(f"{size:9,}  {ours:21.1f}  {least:6.1f}  {ours / least:6.1f}")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("people", nargs="?", type=int, default=_PEOPLE)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        measure(Path(directory), asked.people)


if __name__ == "__main__":
    main()
