"""`python -m faults.explore_sequences --seeds A..B`: other seeds than the suite runs; failures are shortened and printed."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from faults.sequences import Outcome, SequenceError, describe, draw, run_sequence, shrink
from faults.simulation import Templates


def _run(templates: Templates, seed: int) -> Outcome | str:
    try:
        return run_sequence(templates.for_seed(seed), seed)
    except SequenceError as error:
        return str(error)


def main() -> int:
    """The exit code: 1 if a sequence failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", required=True, metavar="A..B", help="from A up to, and without, B")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--no-shrink", action="store_true", help="print a failing sequence whole")
    arguments = parser.parse_args()
    first, _, beyond = arguments.seeds.partition("..")
    seeds = range(int(first), int(beyond))
    ended: Counter[tuple[str, str]] = Counter()
    charged = answered = failed = 0
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(arguments.jobs) as pool:
        templates = Templates(Path(folder))
        for accounting in ("strict", "per_person"):
            # Before several processes would make it at once.
            templates.of(accounting)
        for seed, outcome in zip(seeds, pool.map(partial(_run, templates), seeds, chunksize=4), strict=True):
            if isinstance(outcome, Outcome):
                ended += outcome.ended
                charged, answered = charged + outcome.charged, answered + outcome.answered
                continue
            failed += 1
            print(f"seed {seed}: {outcome.partition(chr(10))[0]}", flush=True)  # noqa: T201 - a tool's output
            if not arguments.no_shrink:
                print(describe(seed, shrink(templates.for_seed(seed), seed, draw(seed))), flush=True)  # noqa: T201
    for (name, code), times in sorted(ended.items()):
        print(f"{name:14} {code:20} {times}")  # noqa: T201
    print(f"{len(seeds)} sequences, {failed} failed, {charged} charges, {answered} answers delivered")  # noqa: T201
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
