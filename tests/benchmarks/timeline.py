"""One query as a picture: what both nodes were doing when, on one clock: `make bench`, or `python -m benchmarks.timeline`.

Both nodes run under `traced_node`. After a warm-up the question is asked several times, and the round whose time is the median
is drawn: the researcher's view above, then the stages of both nodes. White between the bars of a node is time that no stage
accounts for: the other node's turn, the event loop, the network.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from benchmarks.asking import Asker, session_at
from benchmarks.children import end_when_told
from benchmarks.cohorts import Cohort, HealthSource
from benchmarks.deployments import made, node_alone, set_rules
from benchmarks.end_to_end import PEOPLE
from benchmarks.results import FOLDER, progress, say, store
from fakes.deployment import Deployment, Node
from matplotlib.figure import Figure
from tripartite.v1 import health_service_pb2

_ROUNDS: Final = 11
_WARM_UP: Final = 3
_SAMPLE: Final = 1_000_000
_NODES: Final = ("health", "census")
# For a node to write down a query that is answered.
_SETTLE_SECONDS: Final = 0.3


def measure(directory: Path, people: int, sample: int) -> dict[str, Any]:
    """The spans of the median round, in milliseconds after Submit."""
    deployment, _ = made(directory, people)
    set_rules(deployment, tick_ms=0)
    cohort = HealthSource(deployment.home("health") / "people.csv").near(sample)
    with tempfile.TemporaryDirectory(prefix="tripartite-bench-") as folder:
        traces = {role: Path(folder) / role for role in _NODES}
        traced = Path(__file__).with_name("traced_node.py")
        nodes: list[Node] = []
        try:
            for role in reversed(_NODES):
                node = node_alone(deployment, role, [sys.executable, traced, traces[role]])
                nodes.append(node)
                node.wait_ready()
            rounds = asyncio.run(_asked(deployment, nodes[0].stderr_file, cohort, traces))
        finally:
            for node in nodes:
                node.end()
    median = sorted(rounds, key=lambda one: one["answer"])[len(rounds) // 2]
    return {"people": people, "where": cohort.where, "sample": cohort.people, "rounds": len(rounds), **median}


async def _asked(deployment: Deployment, log: Path, cohort: Cohort, traces: dict[str, Path]) -> list[dict[str, Any]]:
    rounds = []
    async with session_at(deployment) as session:
        asker = Asker(session, deployment.directory, log)
        for number in range(_WARM_UP + _ROUNDS):
            progress(f"round {number} of {_WARM_UP + _ROUNDS}")
            told: dict[str, float] = {}

            def tell(stage: int, told: dict[str, float] = told) -> None:
                name = health_service_pb2.Stage.Name(health_service_pb2.Stage.ValueType(stage))
                told[name.removeprefix("STAGE_").lower()] = time.perf_counter()

            timed = await asker.ask_quietly(cohort.where, on_stage=tell)
            ended = time.perf_counter()
            await asyncio.sleep(_SETTLE_SECONDS)
            if number < _WARM_UP:
                continue
            begun = ended - timed.answer

            def after(instant: float, begun: float = begun) -> float:
                return 1000 * (instant - begun)

            spans = {
                role: [
                    (name, after(start), after(end))
                    for name, start, end in json.loads(path.read_text(encoding="utf-8").splitlines()[-1])
                ]
                for role, path in traces.items()
            }
            told_ms = {name: after(instant) for name, instant in told.items()}
            rounds.append({"answer": after(ended), "told": told_ms, "spans": spans})
    return rounds


def draw(result: dict[str, Any], path: Path) -> None:
    """The picture."""
    lanes: list[tuple[str, list[tuple[str, float, float]]]] = []
    for role in _NODES:
        spans = result["spans"][role]
        names = sorted(
            {name for name, _, _ in spans} - {"total"}, key=lambda name: min(s for n, s, _ in spans if n == name)
        )
        lanes += [(f"{role}: {name}", [span for span in spans if span[0] == name]) for name in ("total", *names)]
    figure = Figure(figsize=(9, 0.8 + 0.26 * (len(lanes) + 1)), layout="constrained")
    axes = figure.subplots()
    whole = result["answer"]
    axes.barh(0, whole, color="#444444", height=0.7)
    colours = {"health": "#2a7f62", "census": "#28559a"}
    for place, (name, spans) in enumerate(lanes, start=1):
        role, _, stage = name.partition(": ")
        for _, start, end in spans:
            axes.barh(
                place,
                max(end - start, whole / 1000),
                left=start,
                color=colours[role],
                alpha=0.3 if stage == "total" else 1,
                height=0.7,
            )
        taken = sum(end - start for _, start, end in spans)
        axes.text(max(end for _, _, end in spans) + whole / 200, place, f"{taken:.1f}", va="center", fontsize=7)
    labels: list[tuple[float, str]] = []
    for name, instant in result["told"].items():
        axes.axvline(instant, color="#999999", linewidth=0.6, linestyle=":")
        if labels and instant - labels[-1][0] < whole / 20:
            labels[-1] = (labels[-1][0], f"{labels[-1][1]}, {name}")
        else:
            labels.append((instant, name))
    for instant, text in labels:
        axes.text(instant, -0.75, text, fontsize=6, ha="left", va="bottom")
    axes.set_yticks(range(len(lanes) + 1), ["researcher: Submit to answer", *(name for name, _ in lanes)], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel(f"milliseconds after Submit; {result['sample']:,} of {result['people']:,} people", fontsize=8)
    axes.tick_params(axis="x", labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def sentences(result: dict[str, Any]) -> str:
    """Sentences on the dominant step, and on the next one."""
    stages = sorted(
        ((taken, f"{role}: {name}") for role in _NODES for name, taken in _taken(result["spans"][role]).items()),
        reverse=True,
    )
    if len(stages) < 2:
        return "The nodes have no spans that say more."
    (most, first), (less, second), *_ = stages
    return (
        f"Most of the time goes to *{first}* ({most:.0f} ms, {100 * most / result['answer']:.0f} % of the whole). "
        f"The next longest is *{second}* ({less:.0f} ms)."
    )


def _taken(spans: list[tuple[str, float, float]]) -> dict[str, float]:
    """Milliseconds by stage: its time on the clock, counted once where it was entered several times at once."""
    taken: dict[str, float] = {}
    for name in {name for name, _, _ in spans} - {"total"}:
        reached = 0.0
        for _, start, end in sorted(span for span in spans if span[0] == name):
            taken[name] = taken.get(name, 0.0) + max(0.0, end - max(start, reached))
            reached = max(reached, end)
    return taken


def _lines(result: dict[str, Any]) -> list[str]:
    return [
        f"{role:8} {name:12} from {start:9.1f} to {end:9.1f}: {end - start:8.1f} ms"
        for role in _NODES
        for name, start, end in result["spans"][role]
    ]


def main() -> None:
    """Measure, and keep."""
    end_when_told()
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--people", type=int, default=PEOPLE)
    parser.add_argument(
        "--directory", type=Path, help="a deployment to use, or where to make one; else one that is removed"
    )
    parser.add_argument("--sample", type=int, default=_SAMPLE)
    parser.add_argument("--results", type=Path, default=FOLDER)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tripartite-bench-") as folder:
        result = measure(asked.directory or Path(folder) / "deployment", asked.people, asked.sample)
    path = store(asked.results, "timeline", result)
    say(json.dumps(result) if asked.json else "\n".join(_lines(result)))
    progress(f"kept in {path}")


if __name__ == "__main__":
    main()
