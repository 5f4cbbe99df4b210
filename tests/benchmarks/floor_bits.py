"""The desk's own work on a sample, beside the floor in one run: `python -m benchmarks.floor_bits --people N`.

The product marks, commits to, seals and opens the sample and makes its passes; socket and flush are the floor's own in both.
Samples are of nobody, 10,000 people, a million and everybody; rounds take turns.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.end_to_end import MOST_RATIO, MOST_SPREAD
from benchmarks.extras import extra
from benchmarks.floor import CELLS, MOST, PRICE, Floor, timed
from benchmarks.results import FOLDER, heading, progress, say, store, verdict
from fakes.desk_arrays import question_of

from broker_common.crypto.sample_bits import Bound, SampleBits
from broker_common.crypto.sampling import WHOLE_MILLIONTHS, SamplingKey
from broker_common.crypto.sealing import UnsealingKey
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import Column, ColumnType, Dictionary
from census_node.ledger.passes import JOINED, Bits, CardPlaces, Passes, PersonCharges
from health_node.people.store import People, PeopleStore, build_people_store
from health_node.query.marks import mark_sample

_PEOPLE = 15_000_000
_ROUNDS = 15
# People with this number or a larger one match: one comparison, no matter who they are.
_DICTIONARY = Dictionary((Column(name="number", type=ColumnType.INTEGER, description="N.", maximum=2**31 - 2),))
_BOUND = Bound(bytes(32), bytes(32))
_SALT = bytes(32)


class Run:
    """Everything that is measured, of one size."""

    def __init__(self, folder: Path, people: int) -> None:
        self.people, self._floor = people, Floor(folder, people)
        self.declared = self._floor.declared
        generator = np.random.default_rng(1)
        self._number = generator.permutation(people).astype(np.int32) + np.int32(1)
        high = np.sort(generator.integers(0, 2**64, people, dtype=np.uint64))
        path = folder / "store.people"
        low = np.arange(people, dtype=np.uint64)
        build_people_store(path, People(high, low, {"number": self._number}), _DICTIONARY, places=self.declared)
        self.store = PeopleStore(path, _DICTIONARY)
        none = np.empty(0, np.uint32)
        self._cards = CardPlaces.of(self._floor.places | np.uint32(JOINED), none, none, self.declared)
        self._passes = Passes()
        self._charges = PersonCharges(self._passes, np.zeros(people, np.uint32))
        self._here, self._active = self._passes.bits(people), self._passes.bits(people)
        self._question = question_of(self._floor.values, CELLS)
        self._polars = extra("polars")
        self._frame = None if self._polars is None else self._polars.DataFrame({"number": self._number})
        self._key = UnsealingKey(bytes(96))

    @property
    def filtered_by(self) -> str:
        """Polars; NumPy where it is not installed."""
        return "NumPy (polars is not installed)" if self._polars is None else "Polars"

    def floor(self, matching: int) -> dict[str, float]:
        """Seconds of each part of the floor."""
        least = self.people + 1 - matching
        return self._floor.measure(lambda: self._filter(least), self._number >= least)

    def product(self, matching: int) -> dict[str, float]:
        """Seconds of each part as the product does it; how many there are is verified."""
        condition = parse_condition(f"number >= {self.people + 1 - matching}", _DICTIONARY)
        marking, bits = timed(lambda: mark_sample(self.store, condition, WHOLE_MILLIONTHS, SamplingKey(bytes(32))))
        assert int(np.bitwise_count(bits).sum()) == matching
        sample = SampleBits(bits, _SALT)
        return {
            "filter": marking,
            "sealing": timed(lambda: self._seal_and_open(sample))[0],
            "passes": timed(lambda: self._answer(bits))[0],
            **self._floor.moving(bits),
        }

    def close(self) -> None:
        self._floor.close()
        self._passes.close()
        self.store.close()

    def _filter(self, least: int) -> object:
        if self._frame is None:
            return np.packbits(self._number >= least)
        return self._frame.lazy().select(self._polars.col("number") >= least).collect()

    def _seal_and_open(self, sample: SampleBits) -> None:
        commitment = sample.commitment(_BOUND)
        sealed = sample.seal(self._key.sealing_key, _BOUND)
        SampleBits.unseal(sealed, [self._key], _BOUND, commitment, declared=self.declared, people=self.people)

    def _answer(self, bits: Bits) -> list[int]:
        self._passes.find(bits, self._cards, self._here)
        self._charges.fit(self._here, self._active, price=PRICE, most=MOST)
        self._charges.charge(self._active, PRICE)
        return self._passes.count(self._active, self._question)


def _medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Milliseconds of each part, and of all together."""
    parts = {name: 1000 * float(np.median([each[name] for each in rounds])) for name in rounds[0]}
    return {**parts, "all": 1000 * float(np.median([sum(each.values()) for each in rounds]))}


def table(result: dict[str, Any]) -> list[str]:
    """The result as lines of Markdown."""
    samples = {int(size): pair for size, pair in result["samples"].items()}
    parts = next(iter(samples.values()))[0]
    lines = heading("median ms, the product's / the floor's", *(f"{size:,}" for size in samples))
    for part in parts:
        pairs = " | ".join(f"{product[part]:.1f} / {floor[part]:.1f}" for floor, product in samples.values())
        lines.append(f"| {part} | {pairs} |")
    return lines


def verdicts(result: dict[str, Any]) -> list[str]:
    """Every bar, met or missed, as lines of Markdown."""
    pairs = [(product["all"], floor["all"]) for floor, product in result["samples"].values()]
    medians = [median for median, _ in pairs]
    ratio, spread = max(median / floor for median, floor in pairs), max(medians) / min(medians) - 1
    return [
        verdict(ratio, MOST_RATIO, "times the floor for the work of the desk alone, in the worst case"),
        verdict(spread, MOST_SPREAD, "of the shortest median separates it from the longest, for the desk alone"),
    ]


def main() -> None:
    """Measure, keep, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--people", type=int, default=_PEOPLE)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    asked = parser.parse_args()
    matching = dict.fromkeys(min(size, asked.people) for size in (0, 10_000, 1_000_000, asked.people))
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder), asked.people)
        progress(f"{asked.people:,} people, {run.declared:,} declared places; the floor filters with {run.filtered_by}")
        rounds: dict[int, list[tuple[dict[str, float], dict[str, float]]]] = {size: [] for size in matching}
        for _ in range(asked.rounds + 1):
            for size in matching:
                rounds[size].append((run.floor(size), run.product(size)))
        run.close()
    result: dict[str, Any] = {"people": asked.people, "declared": run.declared, "filtered by": run.filtered_by}
    result["samples"] = {
        # The first round fetches what later ones find.
        str(size): [_medians([pair[which] for pair in measured[1:]]) for which in (0, 1)]
        for size, measured in rounds.items()
    }
    say("\n".join([*table(result), "", *verdicts(result)]))
    progress(f"kept in {store(FOLDER, 'bits', result)}")


if __name__ == "__main__":
    main()
