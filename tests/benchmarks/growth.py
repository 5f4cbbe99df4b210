"""How cost grows: `make bench-growth`, or `python -m benchmarks.growth [--axis NAME] [--most NUMBER]`.

Along each axis one thing grows and everything else stays: the population, the terms of the criteria, the entries of the census
log, the questions that were answered before. Samples are near 10,000, or near 1,000 of few people; nothing grows with them. Questions are asked one after the other at
tick 0 through the researcher's own session; of each step the median and p99 of some rounds are kept, with how long the census
node took to start and what it held. Every axis can be run alone; `--most` leaves out its larger steps.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from benchmarks.asking import Asker, Timed, session_at
from benchmarks.children import end_when_told
from benchmarks.cohorts import HealthSource
from benchmarks.deployments import SCALE, made, set_rules, started_alone
from benchmarks.end_to_end import PEOPLE
from benchmarks.long_log import LONG_LOG_SCALE, lengthen
from benchmarks.machine import usage_of
from benchmarks.results import FOLDER, heading, load, milliseconds, progress, put, say
from fakes.deployment import Deployment, node_pids

NAME: Final = "growth"
_ROUNDS: Final = 15
_WARM_UP: Final = 3
_SMALL_PEOPLE: Final = 100_000
_SAMPLE: Final = 10_000
_SMALL_SAMPLE: Final = 1_000
# Few people have any of these, so that more terms take away few; each is one more column to look at.
_RARE: Final = (
    *(f"diagnosis <> '{code}'" for code in ("schizophrenia", "parkinson_disease", "epilepsy", "dementia", "stroke")),
    *(f"procedure <> '{code}'" for code in ("kidney_transplant", "heart_valve_surgery", "coronary_bypass", "dialysis")),
    *("hospital_visits < 60000", "emergency_visits < 60000", "birth_year > 1881", "age < 129"),
    *(f"census_division <> '{name}'" for name in ("Manitoulin", "Rainy River", "Haliburton", "Prince Edward")),
    *(f"procedure <> '{code}'" for code in ("mastectomy", "hysterectomy", "angioplasty", "chemotherapy")),
)

Row: TypeAlias = dict[str, Any]


class Wish(argparse.Namespace):
    """Measurements to make."""

    axis: str | None = None
    most: int | None = None
    people: int = PEOPLE
    directory: Path | None = None
    rounds: int = _ROUNDS
    results: Path = FOLDER
    json: bool = False


class Axis(NamedTuple):
    """One thing that grows, its steps, and how they are measured, one after the other, in a folder of its own."""

    title: str
    steps: tuple[int, ...]
    measure: Callable[[Wish, tuple[int, ...], Path], Iterator[Row]]


# --- what is common ------------------------------------------------------------------------------------------------------


@contextmanager
def _asking(deployment: Deployment, scale: int = SCALE) -> Iterator[Callable[[str, int], Row]]:
    """A running deployment, and how to ask it the same question many times."""
    with deployment.up() as up:

        async def rounds(where: str, count: int) -> list[Timed]:
            async with session_at(deployment) as session:
                asker = Asker(session, deployment.directory, up.stderr_file, scale=scale)
                timed = [await asker.ask_quietly(where) for _ in range(_WARM_UP + count)]
                return timed[_WARM_UP:]

        def ask(where: str, count: int) -> Row:
            row = _row(asyncio.run(rounds(where, count)))
            memory = usage_of(node_pids(deployment.directory)["census"])
            return {**row, "resident": memory.resident, "peak": memory.peak}

        yield ask


def _row(timed: list[Timed]) -> Row:
    return {
        "answer": milliseconds([one.answer for one in timed]),
        "prepare": milliseconds([one.prepare for one in timed]),
    }


def _source(deployment: Deployment) -> HealthSource:
    return HealthSource(deployment.home("health") / "people.csv")


def _whole(wish: Wish, folder: Path) -> Deployment:
    deployment, _ = made(wish.directory or folder / "deployment", wish.people)
    set_rules(deployment, tick_ms=0)
    return deployment


# --- axes --------------------------------------------------------------------------------------------------------------


def _population(wish: Wish, steps: tuple[int, ...], folder: Path) -> Iterator[Row]:
    for people in steps:
        ready = wish.directory if people == wish.people else None
        deployment, about = made(ready or folder / str(people), people)
        set_rules(deployment, tick_ms=0)
        cohort = _source(deployment).near(_SAMPLE)
        seconds, _ = started_alone(deployment, "census")
        with _asking(deployment) as ask:
            row = ask(cohort.where, wish.rounds)
        phases = about["seconds"].items() if about else ()
        loading = sum(taken for phase, taken in phases if phase.startswith("Loading"))
        yield {"step": people, "people": people, "sample": cohort.people, "start": seconds, "loading": loading, **row}


def _terms(wish: Wish, steps: tuple[int, ...], folder: Path) -> Iterator[Row]:
    deployment = _whole(wish, folder)
    few = _source(deployment).near_by_age(_SAMPLE)
    with _asking(deployment) as ask:
        for terms in steps:
            yield {
                "step": terms,
                "people": wish.people,
                "sample": few.people,
                **ask(" and ".join([few.where, *_RARE[: terms - 1]]), wish.rounds),
            }


def _log(wish: Wish, steps: tuple[int, ...], folder: Path) -> Iterator[Row]:
    deployment, _ = made(folder / "deployment", _SMALL_PEOPLE, accounting="strict")
    set_rules(deployment, tick_ms=0, scale=LONG_LOG_SCALE)
    where = _source(deployment).near(_SMALL_SAMPLE).where
    # Its witness store begins with its first start, not later.
    started_alone(deployment, "census")
    for entries in steps:
        length = lengthen(deployment.home("census"), entries)
        seconds, _ = started_alone(deployment, "census")
        with _asking(deployment, LONG_LOG_SCALE) as ask:
            yield {"step": length, "people": _SMALL_PEOPLE, "start": seconds, **ask(where, wish.rounds)}


def _queries(_: Wish, steps: tuple[int, ...], folder: Path) -> Iterator[Row]:
    deployment, _about = made(folder / "deployment", _SMALL_PEOPLE)
    set_rules(deployment, tick_ms=0)
    where = _source(deployment).near(_SMALL_SAMPLE).where
    answered = 0
    with _asking(deployment) as ask:
        for step in steps:
            # The last ones before the step are those that are looked at.
            looked_at = min(step, _ROUNDS)
            for count in (step - answered - looked_at - 2 * _WARM_UP, looked_at):
                if count > 0:
                    row = ask(where, count)
            answered = step
            yield {"step": step, "people": _SMALL_PEOPLE, **row}


AXES: Final[Mapping[str, Axis]] = {
    "population": Axis("people", (100_000, 1_000_000, 5_000_000, PEOPLE), _population),
    "terms": Axis("terms of the criteria", (1, 2, 5, 10, 20), _terms),
    "log": Axis("entries of the census log", (1_000, 10_000, 100_000, 1_000_000), _log),
    "queries": Axis("questions answered before", (1, 10, 100, 1_000, 10_000), _queries),
}


# --- for people ------------------------------------------------------------------------------------------------------


def titled(axis: Axis, rows: list[Row]) -> str:
    """The growing axis, and the number of people."""
    people = {row["people"] for row in rows}
    return axis.title if len(people) > 1 else f"{axis.title}, of {people.pop():,} people"


def table(result: dict[str, Any]) -> list[str]:
    """The measurements, as lines of Markdown."""
    lines = []
    for name, axis in AXES.items():
        rows = result.get(name)
        if not rows:
            continue
        lines += heading(
            titled(axis, rows),
            "answer, median",
            "p99",
            "preparation",
            "census node ready after",
            "resident",
            "loaded in",
        )
        for row in rows:
            start, loaded = (f"{row[key]:.1f} s" if row.get(key) else "-" for key in ("start", "loading"))
            lines.append(
                f"| {row['step']:,} | {row['answer']['median']:.1f} ms | {row['answer']['p99']:.1f} ms | "
                f"{row['prepare']['median']:.1f} ms | {start} | {row['resident'] / 2**20:.0f} MiB | {loaded} |"
            )
        lines.append("")
    return lines[:-1]


def main() -> None:
    """Measure, keep after every axis, and print."""
    end_when_told()
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--axis", choices=AXES, help="one axis alone")
    parser.add_argument("--most", type=int, help="leave out the steps beyond")
    parser.add_argument(
        "--people", type=int, default=PEOPLE, help="of the largest population, and for samples and terms"
    )
    parser.add_argument("--directory", type=Path, help="a deployment of so many people, or where to make one")
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--results", type=Path, default=FOLDER)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    wish = parser.parse_args(namespace=Wish())
    for name, axis in AXES.items():
        if wish.axis in {None, name}:
            steps = tuple(step for step in axis.steps if wish.most is None or step <= wish.most)
            rows = []
            with tempfile.TemporaryDirectory(prefix="tripartite-bench-") as folder:
                for row in axis.measure(wish, steps, Path(folder)):
                    progress(f"{row['step']:,} {axis.title}: {row['answer']['median']:.1f} ms")
                    rows.append(row)
            put(wish.results, NAME, name, rows)
    result = load(wish.results, NAME) or {}
    say(json.dumps(result) if wish.json else "\n".join(table(result)))


if __name__ == "__main__":
    main()
