"""Cohorts of people by their events, beside bare passes over the same bytes: `python -m benchmarks.events --people N --events N`.

The store has an event table with one of 100,000 codes in a graph, a day and a length, and a list of as many codes; some people
have no events, many a few, and one has a hundred thousand. The floor of a condition is one comparison with every number of each column
that it speaks of, in as many threads and blocks, and a bit packed for each: nobody learns anything with less. Rounds take turns.
Processor time, of all threads divided by their number, says what an idle machine would take.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from benchmarks.floor import timed
from benchmarks.machine import usage_of
from benchmarks.results import FOLDER, heading, milliseconds, progress, say, store, verdict

from broker_common.crypto.sampling import WHOLE_MILLIONTHS, SamplingKey
from broker_common.privacy.delays import declared_for
from broker_common.query.condition import Condition
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import Code, Column, ColumnType, Dictionary, EventTable
from health_node.config import LimitConfig
from health_node.people.cohort import Scratch
from health_node.people.encoding import Encoding, Stored
from health_node.people.store import PEOPLE_IN_BLOCK, People, PeopleStore, build_people_store
from health_node.people.tables import Blocks, Rows, declared_of, offsets_of
from health_node.query.marks import mark_sample, price

_PEOPLE, _EVENTS = 15_000_000, 300_000_000
_ROUNDS: Final = 7
_CODES: Final = 100_000
_MOST_OF_ONE: Final = 100_000
_PIECE: Final = 1 << 22
_FIRST, _DAYS = date(2000, 1, 1).toordinal(), 8000
_MOST_SECONDS: Final = 2.0
_THREADS: Final = 2


def _codes() -> tuple[Code, ...]:
    """A tree of ten at each branch, ten levels less one deep, whose leaves are everywhere in the list."""
    return tuple(
        Code(f"c{number:05}", f"Code {number}", under=(f"c{number // 10:05}",) if number else ())
        for number in range(_CODES)
    )


@cache
def _dictionary() -> Dictionary:
    """Ages, and two lists of events."""
    codes = _codes()
    stays = EventTable(
        "stay",
        "In a hospital.",
        (
            Column(name="cause", type=ColumnType.CODE, description="Cause.", codes=codes),
            Column(name="admitted", type=ColumnType.DATE, description="First day."),
            Column(name="days", type=ColumnType.INTEGER, description="Length.", maximum=250),
        ),
    )
    return Dictionary(
        (
            Column(name="age", type=ColumnType.INTEGER, description="Age.", maximum=130),
            Column(name="diagnosis", type=ColumnType.CODE, multi_valued=True, description="Many codes.", codes=codes),
        ),
        (stays,),
    )


# Criteria, and the columns of the table that they name.
_CRITERIA: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "age >= 65": {},
    "any(stay)": {},
    "any(stay where days > 30)": {"stay": ("days",)},
    "any(stay where cause under 'c00021')": {"stay": ("cause",)},
    "any(stay where cause under 'c00021' and admitted between '2005-01-01' and '2005-12-31')": {
        "stay": ("cause", "admitted")
    },
    "count(stay where cause under 'c00021' and admitted >= '2005-01-01') >= 3 and age >= 65": {
        "stay": ("cause", "admitted")
    },
    "diagnosis under 'c00021'": {"diagnosis": ("diagnosis",)},
    "any(stay where cause under 'c00021' and admitted between '2005-01-01' and '2005-12-31' and days > 3) and not "
    "any(stay where cause under 'c00003' and admitted < '2005-01-01') and age >= 65": {
        "stay": ("cause", "admitted", "days", "cause", "admitted")
    },
}


def _counts(people: int, rows: int, seed: int) -> npt.NDArray[np.int64]:
    """How many rows each has: none for a third, most of a few, and one a hundred thousand."""
    generator = np.random.default_rng(seed)
    weights = generator.exponential(size=people) * (generator.random(people) > 1 / 3)
    counts: npt.NDArray[np.int64] = np.floor(weights * ((rows - _MOST_OF_ONE) / weights.sum())).astype(np.int64)
    counts[people // 2] += rows - int(counts.sum())
    return counts


def _rows(table: EventTable | Column, offsets: npt.NDArray[np.int64], declared: int) -> Rows:
    columns = table.columns if isinstance(table, EventTable) else (table,)

    def pieces() -> Iterator[Mapping[str, Stored]]:
        generator = np.random.default_rng(7)
        for first in range(0, int(offsets[-1]), _PIECE):
            size = min(_PIECE, int(offsets[-1]) - first)
            yield {column.name: _numbers(column, generator, size) for column in columns}

    return Rows(offsets, declared, pieces)


def _numbers(column: Column, generator: np.random.Generator, size: int) -> Stored:
    encoding = Encoding.of(column)
    low, high = (_FIRST, _FIRST + _DAYS) if column.type is ColumnType.DATE else (0, encoding.top)
    numbers: Stored = generator.integers(low, high, size, encoding.kind, endpoint=True)
    return numbers


class Seconds(NamedTuple):
    """Seconds by the clock, and of the processor for each thread."""

    clock: float
    processor: float


def both_timed(step: Callable[[], object]) -> Seconds:
    """Time of a step."""
    before = time.process_time()
    clock, _ = timed(step)
    return Seconds(clock, (time.process_time() - before) / _THREADS)


class Run:
    """Everything that is measured, of one size."""

    def __init__(self, folder: Path, people: int, events: int) -> None:
        self.events = events
        self.declared = declared_of(
            _dictionary(), declared_for(people), {"stay": declared_for(events), "diagnosis": declared_for(2 * people)}
        )
        generator = np.random.default_rng(1)
        high = np.sort(generator.integers(0, 2**64, people, dtype=np.uint64))
        low = np.arange(people, dtype=np.uint64)
        ages = generator.integers(0, 100, people).astype(np.int32)
        tables = {
            "diagnosis": _rows(
                _dictionary().columns[1], offsets_of(np.full(people, 2)), self.declared.tables["diagnosis"]
            ),
            "stay": _rows(
                _dictionary().events[0], offsets_of(_counts(people, events, 3)), self.declared.tables["stay"]
            ),
        }
        path = folder / "store.people"
        writing, _ = timed(
            lambda: build_people_store(
                path, People(high, low, {"age": ages}, tables), _dictionary(), places=self.declared.places
            )
        )
        self.file_bytes = path.stat().st_size
        progress(f"written in {writing:.0f} s: {self.file_bytes / 2**30:.2f} GiB")
        self.opening, self.store = timed(lambda: PeopleStore(path, _dictionary(), threads=_THREADS))
        path.unlink()
        progress(f"opened in {self.opening:.1f} s")
        self._blocks = Blocks(_THREADS)

    def product(self, condition: Condition) -> Seconds:
        """A whole cohort."""
        return both_timed(lambda: mark_sample(self.store, condition, WHOLE_MILLIONTHS, SamplingKey(bytes(32))))

    def floor(self, columns: Mapping[str, tuple[str, ...]]) -> Seconds:
        """One comparison of each number, and a bit packed; always of the ages."""
        arrays = [self.store._columns["age"]]
        arrays += [self.store._tables[table].columns[name] for table, names in columns.items() for name in names]
        return both_timed(lambda: list(map(self._pass, arrays)))

    def _pass(self, array: Stored) -> None:
        bits = np.zeros(-(-len(array) // 8), np.uint8)

        def step(rows: slice, scratch: Scratch) -> None:
            whole = scratch.borrow()
            marks = whole[: rows.stop - rows.start]
            np.greater_equal(array[rows], array.dtype.type(7), out=marks)
            packed = np.packbits(marks)
            bits[rows.start // 8 :][: len(packed)] = packed
            scratch.give_back(whole)

        self._blocks.each(len(array), PEOPLE_IN_BLOCK, step)

    def close(self) -> None:
        self._blocks.close()
        self.store.close()


def measured(run: Run, rounds: int) -> dict[str, Any]:
    """Milliseconds of each condition, of its floor, and what its price says."""
    conditions = {text: parse_condition(text, _dictionary()) for text in _CRITERIA}
    times: dict[str, list[tuple[Seconds, Seconds]]] = {text: [] for text in conditions}
    for _ in range(rounds + 1):
        for text, condition in conditions.items():
            times[text].append((run.floor(_CRITERIA[text]), run.product(condition)))
    return {
        text: {
            # The first round fetches what later ones find.
            **{
                f"{what}{unit}": milliseconds([getattr(pair[which], name) for pair in pairs[1:]])
                for which, what in enumerate(("floor", "product"))
                for name, unit in (("clock", ""), ("processor", " processor"))
            },
            "priced": 1000
            * price(conditions[text], WHOLE_MILLIONTHS, run.declared, _dictionary())
            / LimitConfig().work_per_second,
        }
        for text, pairs in times.items()
    }


def table(result: Mapping[str, Any]) -> list[str]:
    """The figures as a table."""
    rows = [
        f"| `{text}` | {each['floor']['median']:.0f} | {each['product']['median']:.0f} | "
        f"{each['product']['median'] / each['floor']['median']:.1f} | {each['product processor']['median']:.0f} | "
        f"{each['product processor']['median'] / each['floor processor']['median']:.1f} | {each['priced']:.0f} |"
        for text, each in result["criteria"].items()
    ]
    memory, file = result["memory"], result["file"] / 2**30
    return [
        *heading("criteria", "floor, ms", "cohort, ms", "ratio", "processor, ms", "ratio", "paid for, ms"),
        *rows,
        "",
        (
            f"{result['people']:,} people and {result['events']:,} events in a file of {file:.2f} GiB, opened in {result['opening']:.0f} s; "
            f"{memory['opened'] / 2**30:.2f} GiB of memory when open, {memory['peak'] / 2**30:.2f} GiB at most."
        ),
    ]


def verdicts(result: Mapping[str, Any]) -> list[str]:
    """Whether the slowest cohort is fast enough, as lines of Markdown."""
    return [
        verdict(
            max(each[what]["median"] for each in result["criteria"].values()) / 1000,
            _MOST_SECONDS,
            f"{unit} for the slowest cohort by events",
        )
        for what, unit in (("product", "seconds by the clock"), ("product processor", "seconds of each processor"))
    ]


def main() -> None:
    """Measure, keep, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--people", type=int, default=_PEOPLE)
    parser.add_argument("--events", type=int, default=_EVENTS)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument(
        "--folder", type=Path, help="where the store is written; the system's folder for temporary files"
    )
    asked = parser.parse_args()
    progress(f"{asked.people:,} people, {asked.events:,} events of {_CODES:,} codes")
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        run = Run(Path(folder), asked.people, asked.events)
        opened = usage_of(os.getpid())
        result: dict[str, Any] = {
            "people": asked.people,
            "events": asked.events,
            "file": run.file_bytes,
            "opening": run.opening,
        }
        result["criteria"] = measured(run, asked.rounds)
        run.close()
    after = usage_of(os.getpid())
    result["memory"] = {"opened": opened.resident, "peak": after.peak, "after": after.resident}
    say("\n".join([*table(result), "", *verdicts(result)]))
    progress(f"kept in {store(FOLDER, 'events', result)}")


if __name__ == "__main__":
    main()
