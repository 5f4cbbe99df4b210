"""Instructions and allocations of the desk's passes, counted: `python -m benchmarks.instructions [PEOPLE]`.

Valgrind runs the passes for samples of nobody, everybody, half, one and a cluster, then for other shares of linked and of
dropped people, and counts what the processor is told to do, by all threads, from mark to mark. Printed is the count of each
step as a ratio to that of half a sample: 1 to within what the interpreter's threads wait for each other; and how often memory was
asked for, from the fewest times to the most. Below stand passes with a planted fault, so that one sees what a fault looks like.
Nothing is asserted.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from benchmarks.children import environment, module
from benchmarks.results import say
from fakes.desk_arrays import question_of
from fakes.planted_passes import Compressing, EarlyExit, IndexList, Skipping, SparseWrite, Where

from census_node.ledger.passes import JOINED, CardPlaces, Homes, HouseholdCharges, Passes, PersonCharges

_PEOPLE = 200_000
_CAP, _PRICE = 100, 7
_SHARES = (0.0, 0.5, 1.0)
# A function of the interpreter that nothing else calls; Valgrind writes down its counts before each call.
_MARK = "sys_getallocatedblocks"
# The C library's, which NumPy and the interpreter call.
_ALLOCATING = {"malloc", "calloc", "realloc", "posix_memalign"}
_USUAL = "half"
# Done first and not counted: the interpreter rewrites what it runs for the first few times.
_WARMING = "warming up"


def samples(declared: int) -> dict[str, np.ndarray]:
    """A mark for each place."""
    at = np.arange(declared)
    return {
        _USUAL: at % 2 == 0,
        "nobody": at < 0,
        "everybody": at >= 0,
        "one": at == declared // 3,
        "clustered": at // (declared // 10) == 3,
    }


def worlds(declared: int) -> Iterator[tuple[str, np.ndarray, float, float]]:
    """Name, sample, share of linked people, share of dropped ones."""
    yield _WARMING, samples(declared)[_USUAL], 0.5, 0.5
    for name, sample in samples(declared).items():
        yield name, sample, 0.5, 0.5
    for share in _SHARES:
        yield f"{share:.0%} linked", samples(declared)[_USUAL], share, 0.5
        yield f"{share:.0%} dropped", samples(declared)[_USUAL], 0.5, share


def steps(people: int, declared: int) -> Iterator[tuple[str, str, Callable[[], object]]]:
    """Name of the world, name of the step, and the step itself."""
    generator = np.random.default_rng(3)
    home_of = generator.integers(0, people // 3, people).astype(np.uint32)
    values = generator.integers(0, 12, people).astype(np.uint8)
    question = question_of(values, [{0}, {1, 2}, None])
    order, drawn = generator.permutation(declared)[:people].astype(np.uint32), generator.random(people)
    with Passes() as passes, Skipping() as skipping, Compressing() as compressing:
        here, active = passes.bits(people), passes.bits(people)
        for name, sample, linked, dropped in worlds(declared):
            places = order | ((drawn < linked) * np.uint32(JOINED))
            further = np.arange(0, people, 40, dtype=np.uint32)
            cards = CardPlaces.of(places, further, order[further] ^ np.uint32(1), declared)
            charged = (generator.permutation(drawn) < dropped) * np.uint32(_CAP)
            persons, bits = PersonCharges(passes, charged.copy()), np.packbits(sample)
            homes = HouseholdCharges(passes, charged[: people // 3].copy(), Homes(home_of, people // 3))
            yield name, "find", partial(passes.find, bits, cards, here)
            for subject, charges in (("person", persons), ("household", homes)):
                yield name, f"fit {subject}", partial(charges.fit, here, active, price=_PRICE, most=_CAP)
                yield name, f"charge {subject}", partial(charges.charge, active, _PRICE)
            passes.find(bits, cards, here)
            persons = PersonCharges(passes, charged.copy())
            persons.fit(here, active, price=_PRICE, most=_CAP)
            yield name, "count", partial(passes.count, active, question)
            for kind in (Where, IndexList, SparseWrite, EarlyExit):
                planted = kind(passes, charged.copy())
                yield name, f"planted {kind.__name__}", partial(planted.charge, active, _PRICE)
            yield name, "planted Skipping", partial(skipping.find, bits, cards, here)
            yield name, "planted Compressing", partial(compressing.count, active, question)


def run(people: int) -> None:
    """Do every step twice, with a mark before and after the second time: whatever is made once is made by then."""
    declared = -(-people // 4096) * 4096
    for name, step, do in steps(people, declared):
        do()
        sys.getallocatedblocks()
        do()
        sys.getallocatedblocks()
        say(f"{name}\t{step}")


class Counts(NamedTuple):
    """Instructions between two marks."""

    instructions: int
    allocations: int


def counted(people: int) -> dict[str, dict[str, Counts]]:
    """Instructions of each step in each world."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--dump-before={_MARK}", f"--callgrind-out-file={folder}/out"]
        done = subprocess.run(
            [*command, "--combine-dumps=no", *module("instructions", "--run", str(people))],
            # Without the interpreter's own heap every allocation is seen.
            env={**environment(), "PYTHONHASHSEED": "0", "PYTHONMALLOC": "malloc"},
            capture_output=True,
            text=True,
            check=True,
        )
        dumps = sorted(Path(folder).glob("out.*"), key=lambda path: int(path.suffix[1:]))
        totals = [_counts(path.read_text(encoding="utf-8")) for path in dumps]
    found: dict[str, dict[str, Counts]] = {}
    # The second mark of each pair ends what the first one began.
    for line, counts in zip(done.stdout.splitlines(), totals[1::2], strict=False):
        name, step = line.split("\t")
        if name != _WARMING:
            found.setdefault(step, {})[name] = counts
    return found


def _counts(dump: str) -> Counts:
    found = re.search(r"^(?:totals|summary): (\d+)", dump, re.MULTILINE)
    # A function has a number in a dump, and its name where the number stands for the first time.
    names = dict(re.findall(r"^c?fn=\((\d+)\) (.+)$", dump, re.MULTILINE))
    calls = re.findall(r"^cfn=\((\d+)\).*\ncalls=(\d+)", dump, re.MULTILINE)
    allocations = sum(int(times) for number, times in calls if names.get(number) in _ALLOCATING)
    return Counts(int(found.group(1)) if found else 0, allocations)


def main() -> None:
    """Count, and print."""
    if sys.argv[1:2] == ["--run"]:
        run(int(sys.argv[2]))
        return
    if not shutil.which("valgrind"):
        say("valgrind is not installed: nothing was counted")
        return
    people = int(sys.argv[1]) if sys.argv[1:] else _PEOPLE
    for step, counts in counted(people).items():
        usual = counts[_USUAL].instructions
        ratios = {name: each.instructions / usual for name, each in counts.items()}
        allocations = [each.allocations for each in counts.values()]
        say(f"{step}: {usual / people:.2f} instructions a person for {_USUAL} of a sample")
        say("  " + "  ".join(f"{name} {ratio:.4f}" for name, ratio in ratios.items()))
        say(f"  largest over smallest: {max(ratios.values()) / min(ratios.values()):.4f}")
        say(f"  allocations: {min(allocations)} to {max(allocations)}")


if __name__ == "__main__":
    main()
