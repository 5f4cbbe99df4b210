"""Questions to a whole deployment, beside the floor: `make bench`, or `python -m benchmarks.end_to_end`.

A deployment is made (or used again), each node is started alone, and then all of them as `tripartite up` does. Samples of
nobody, ten thousand, a million and everybody are asked for in turn, the floor of each measured just before, so that what
disturbs one disturbs both: some dozens of rounds at tick 0, fewer at the default tick. Everybody is charged by that. Printed
are times, the ratio to the floor, how far the medians of the samples lie apart, stages, processor time and memory of each node;
the bars are met or missed, and nothing is asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.asking import Asker, Timed, session_at, summary
from benchmarks.children import end_when_told
from benchmarks.cohorts import Cohort, HealthSource
from benchmarks.deployments import DEFAULT_TICK_MS, made, set_rules, started_alone
from benchmarks.floor import Columns, Floor
from benchmarks.machine import usage_of
from benchmarks.results import FOLDER, heading, milliseconds, progress, say, store, verdict
from fakes.deployment import Deployment, Up, make, node_pids

PEOPLE: Final = 15_000_000
# Wanted; nobody, and everybody who can be found.
SIZES: Final = (0, 10_000, 1_000_000, PEOPLE)
_ROUNDS: Final = 40
_TICK_ROUNDS: Final = 6
_WARM_UP: Final = 3
# A question's work goes on for a while after its answer is out; neither the next floor nor the next question is to meet it.
_REST_SECONDS: Final = 0.1
# At most: times the floor; how far medians lie apart; seconds at the default tick; bytes a person; seconds until a node is ready.
MOST_RATIO: Final = 2.0
MOST_SPREAD: Final = 0.05
_MOST_AT_TICK: Final = 2.0
_MOST_BYTES: Final = 24.0
_MOST_START: Final = 5.0
_NODES: Final = ("census", "health")
# A node without people shows what the interpreter and the libraries take.
_NOBODY: Final = 10


class Wish(argparse.Namespace):
    """Measurements to make."""

    people: int = PEOPLE
    directory: Path
    sizes: Sequence[int] = SIZES
    rounds: int = _ROUNDS
    tick_rounds: int = _TICK_ROUNDS


def measure(wish: Wish) -> dict[str, Any]:
    """All of it; takes as long as making the deployment, and some minutes."""
    deployment, about = made(wish.directory, wish.people)
    set_rules(deployment, tick_ms=0)
    result: dict[str, Any] = {"people": wish.people, "made": about}
    with tempfile.TemporaryDirectory(prefix="tripartite-bench-") as folder:
        empty = make(Path(folder) / "nobody", population=_NOBODY, accounting="per_person")
        result["empty"] = {role: started_alone(empty, role)[1].to_json() for role in _NODES}
    result["start"] = {}
    for role in _NODES:
        progress(f"starting the {role} node alone")
        seconds, usage = started_alone(deployment, role)
        result["start"][role] = {"seconds": seconds, **usage.to_json()}
    source = HealthSource(deployment.home("health") / "people.csv")
    # Criteria by age alone: other criteria would be other work. In a small population several sizes are everybody.
    cohorts = dict.fromkeys(source.near_by_age(min(size, source.people)) for size in wish.sizes)
    columns = Columns(source)
    with tempfile.TemporaryDirectory(dir=deployment.directory) as folder, Floor(Path(folder), source.people) as floor:
        result["filtered by"] = columns.filtered_by
        with deployment.up() as up:
            result["samples"] = asyncio.run(_in_turn(deployment, up, floor, columns, list(cohorts), wish))
            result["memory"] = {role: usage_of(pid).to_json() for role, pid in node_pids(deployment.directory).items()}
            if wish.tick_rounds:
                progress(f"adopting a tick of {DEFAULT_TICK_MS} ms")
                set_rules(deployment, tick_ms=DEFAULT_TICK_MS)
                result["delays"] = _delays(deployment)
                result["tick"] = asyncio.run(_at_the_tick(deployment, up, list(cohorts), wish))
        set_rules(deployment, tick_ms=0)
    return result


async def _in_turn(
    deployment: Deployment, up: Up, floor: Floor, columns: Columns, cohorts: Sequence[Cohort], wish: Wish
) -> dict[str, Any]:
    """Rounds of every sample in turn, at tick 0."""
    rounds: dict[Cohort, list[Timed]] = {cohort: [] for cohort in cohorts}
    floors: dict[Cohort, list[dict[str, float]]] = {cohort: [] for cohort in cohorts}
    floor_work: dict[Cohort, list[float]] = {cohort: [] for cohort in cohorts}
    first: dict[Cohort, float] = {}
    async with session_at(deployment) as session:
        asker = Asker(session, deployment.directory, up.stderr_file)
        for number in range(_WARM_UP + wish.rounds):
            if number % 10 == 0:
                progress(f"round {number} of {_WARM_UP + wish.rounds}")
            for cohort in cohorts:
                await asyncio.sleep(_REST_SECONDS)
                least = floor.measure(partial(columns.find, cohort), columns.mask(cohort))
                timed = await asker.ask(cohort.where)
                first.setdefault(cohort, timed.answer)
                if number >= _WARM_UP:
                    floors[cohort].append(least)
                    floor_work[cohort].append(floor.cpu_seconds)
                    rounds[cohort].append(timed)
    return {
        str(cohort.people): {
            "where": cohort.where,
            "people": cohort.people,
            # Since the nodes were started, with whatever they leave until somebody asks.
            "first": 1000 * first[cohort],
            "floor cpu_seconds": sum(floor_work[cohort]) / len(floor_work[cohort]),
            **_beside_floor(floors[cohort], summary(rounds[cohort])),
        }
        for cohort in cohorts
    }


def _beside_floor(floors: Sequence[dict[str, float]], found: dict[str, Any]) -> dict[str, Any]:
    least = milliseconds([sum(parts.values()) for parts in floors])
    parts = {part: milliseconds([parts[part] for parts in floors])["median"] for part in floors[0]}
    return {"floor": least, "floor parts": parts, "ratio": found["answer"]["median"] / least["median"], **found}


async def _at_the_tick(deployment: Deployment, up: Up, cohorts: Sequence[Cohort], wish: Wish) -> dict[str, Any]:
    """The same at a tick, one after the other."""
    rounds: dict[Cohort, list[Timed]] = {cohort: [] for cohort in cohorts}
    async with session_at(deployment) as session:
        asker = Asker(session, deployment.directory, up.stderr_file)
        for number in range(wish.tick_rounds):
            progress(f"round {number} of {wish.tick_rounds} at the tick")
            for cohort in cohorts:
                rounds[cohort].append(await asker.ask_quietly(cohort.where))
    return {
        str(cohort.people): {
            "answer": milliseconds([timed.answer for timed in of_sample]),
            "prepare": milliseconds([timed.prepare for timed in of_sample]),
        }
        for cohort, of_sample in rounds.items()
    }


def _delays(deployment: Deployment) -> dict[str, int]:
    policy = deployment.json("census", "policy", "show")
    return {name: policy[name] for name in ("forward_delay_ms", "release_tick_ms")}


# --- for people ------------------------------------------------------------------------------------------------------


def table(result: dict[str, Any]) -> list[str]:
    """The result as lines of Markdown, which are also fit to be printed."""
    return [*_times(result), "", *_stages(result), "", *_nodes(result)]


def _times(result: dict[str, Any]) -> list[str]:
    lines = heading(
        "sample",
        "answer, median",
        "p99",
        "floor, median",
        "ratio",
        "preparation",
        "answer at the tick, median",
        "longest",
    )
    for sample, found in result["samples"].items():
        answer, floor = found["answer"], found["floor"]
        at_tick = result.get("tick", {}).get(sample)
        ticked = (
            ("-", "-")
            if at_tick is None
            else tuple(f"{at_tick['answer'][of] / 1000:.2f} s" for of in ("median", "p99"))
        )
        lines.append(
            f"| {found['people']:,} | {answer['median']:.1f} ms | {answer['p99']:.1f} ms | {floor['median']:.1f} ms | "
            f"{found['ratio']:.2f} | {found['prepare']['median']:.1f} ms | {ticked[0]} | {ticked[1]} |"
        )
    return lines


def _stages(result: dict[str, Any]) -> list[str]:
    samples = result["samples"]
    lines = heading("median ms", *(f"{found['people']:,}" for found in samples.values()))
    for part in next(iter(samples.values()))["floor parts"]:
        of = f" ({result['filtered by']})" if part == "filter" else ""
        lines.append(
            f"| floor: {part}{of} | " + " | ".join(f"{s['floor parts'][part]:.2f}" for s in samples.values()) + " |"
        )
    for role in ("health", "census"):
        names = dict.fromkeys(name for found in samples.values() for name in found["stages"][role])
        for name in names:
            times = " | ".join(f"{found['stages'][role].get(name, 0.0):.2f}" for found in samples.values())
            lines.append(f"| {role}: {name} | {times} |")
    for role in ("health", "census", "researcher"):
        times = " | ".join(f"{1000 * found['cpu_seconds'][role]:.0f}" for found in samples.values())
        lines.append(f"| processor time, {role} | {times} |")
    return lines


def _nodes(result: dict[str, Any]) -> list[str]:
    lines = heading(
        "node",
        "ready after",
        "resident then",
        "after the questions",
        "with nobody loaded",
        "bytes a person, at the peak",
    )
    for role in _NODES:
        start, memory, empty = result["start"][role], result["memory"][role], result["empty"][role]
        sizes = [start["resident"], memory["resident"], empty["resident"]]
        lines.append(
            f"| {role} | {start['seconds']:.1f} s | "
            + " | ".join(f"{size / 2**20:.0f} MiB" for size in sizes)
            + f" | {_per_person(result, role, 'peak'):.1f} |"
        )
    made_in = [f"{phase}: {seconds:.0f} s" for phase, seconds in result["made"].get("seconds", {}).items()]
    if not made_in:
        return lines
    peak = f"{result['made']['peak'] / 2**20:.0f} MiB of memory at the most"
    return [*lines, "", f"{'; '.join(made_in)}; {peak}."]


def _per_person(result: dict[str, Any], role: str, measured: str) -> float:
    """Memory of the people: without that of a node without people; mapped files included."""
    taken: float = result["memory"][role][measured] - result["empty"][role]["resident"]
    people: int = result["people"]
    return taken / people


def verdicts(result: dict[str, Any]) -> list[str]:
    """Every bar, met or missed, as lines of Markdown."""
    lines = [
        verdict(found["ratio"], MOST_RATIO, f"times the floor with a sample of {found['people']:,}") + _work(found)
        for found in result["samples"].values()
    ]
    lines.append(
        verdict(_spread(result["samples"]), MOST_SPREAD, "of the shortest median separates it from the longest")
    )
    if "tick" in result:
        slowest = max(found["answer"]["median"] for found in result["tick"].values()) / 1000
        lines.append(verdict(slowest, _MOST_AT_TICK, "seconds at the tick, the longest median"))
        lines.append(
            verdict(
                _spread(result["tick"]),
                MOST_SPREAD,
                "of the shortest median separates it from the longest at the tick",
            )
        )
    everybody = "bytes a person at the census node, at its peak, with everybody charged"
    lines.append(verdict(_per_person(result, "census", "peak"), _MOST_BYTES, everybody))
    for role in _NODES:
        start = result["start"][role]
        ready = verdict(start["seconds"], _MOST_START, f"seconds until the {role} node is ready")
        lines.append(f"{ready}; processor time {start['cpu_seconds']:.1f} s")
    return lines


def _spread(samples: dict[str, Any]) -> float:
    """How far the medians lie apart, as a share of the shortest."""
    medians = [found["answer"]["median"] for found in samples.values()]
    spread: float = max(medians) / min(medians) - 1
    return spread


def _work(found: dict[str, Any]) -> str:
    """The same by processor time, which says less of what else the machine does."""
    work, least = 1000 * sum(found["cpu_seconds"].values()), 1000 * found["floor cpu_seconds"]
    return f"; processor time {work:.0f} ms, the floor's {least:.0f} ms: {work / least:.1f} times"


def main() -> None:
    """Measure, keep, and print."""
    end_when_told()
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--people", type=int, default=PEOPLE)
    parser.add_argument(
        "--directory", type=Path, help="a deployment to use, or where to make one; else one that is removed"
    )
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")], default=SIZES)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--tick-rounds", type=int, default=_TICK_ROUNDS)
    parser.add_argument("--results", type=Path, default=FOLDER)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    wish = parser.parse_args(namespace=Wish())
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tripartite-bench-", dir=os.environ.get("TMPDIR")) as folder:
        if wish.directory is None:
            wish.directory = Path(folder) / "deployment"
        result = measure(wish)
    path = store(wish.results, "end_to_end", result)
    say(json.dumps(result) if wish.json else "\n".join([*table(result), "", *verdicts(result)]))
    progress(f"{time.monotonic() - started:.0f} s; kept in {path}")


if __name__ == "__main__":
    main()
