"""Deployments to measure: made once, with what making them took; used again afterwards.

`python -m benchmarks.deployments DIRECTORY PEOPLE` makes one in a process of its own and keeps its times and its peak of
memory beside it, in `bench.json`.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import tomli_w
from benchmarks.children import environment, module
from benchmarks.machine import Usage, usage_of
from benchmarks.results import progress
from fakes.deployment import Deployment, Node
from fakes.homes import set_limits

from deploy.local import Plan, lay_out

DEFAULT_TICK_MS: Final = 250
# The noise of what is asked here: a budget holds thousands of answers at it, so that the same people can be asked again.
SCALE: Final = 10_000
_MADE: Final = "bench.json"


def made(directory: Path, people: int, *, accounting: str = "per_person") -> tuple[Deployment, dict[str, Any]]:
    """The deployment in `directory`, made if there is none, with both nodes reporting their stages; and how it was made."""
    directory = directory.resolve()
    if not (directory / "census").is_dir():
        progress(f"making {people:,} people")
        words = module("deployments", directory, str(people), accounting)
        subprocess.run(words, check=True, env=environment())
    for role in ("census", "health"):
        config = directory / role / "config.toml"
        settings = {**tomllib.loads(config.read_text(encoding="utf-8")), "log_stages": True}
        config.write_text(tomli_w.dumps(settings), encoding="utf-8")
    # The benchmark measures how fast answers come, not how many one researcher may have.
    set_limits(directory / "census", quotes_per_minute=1_000_000, quote_burst=1_000_000)
    about = directory / _MADE
    return Deployment(directory), json.loads(about.read_text(encoding="utf-8")) if about.is_file() else {}


def set_rules(deployment: Deployment, *, tick_ms: int, scale: int = SCALE) -> None:
    """This tick, a scale that is asked for here, and no quota, whatever was in force before."""
    policy = deployment.json("census", "policy", "show")
    scales = tuple(sorted({*policy["scales"], scale}))
    if (policy["release_tick_ms"], tuple(policy["scales"]), policy["researcher_answers"]) != (tick_ms, scales, 0):
        deployment.order_policy(release_tick_ms=tick_ms, scales=scales, researcher_answers=0)


def started_alone(deployment: Deployment, role: str) -> tuple[float, Usage]:
    """Seconds until one node alone is ready, from its own store; and what it takes then."""
    started = time.perf_counter()
    with deployment.node(role) as node:
        return time.perf_counter() - started, usage_of(node.process.pid)


def node_alone(deployment: Deployment, role: str, launcher: list[str | Path]) -> Node:
    """A serving node that something else launches."""
    return Node(deployment.directory, [*launcher, role, "serve", "--home", deployment.home(role)], ready_lines=1)


def _make(directory: Path, people: int, accounting: str) -> None:
    phases: list[tuple[str, float]] = []

    def report(phase: str) -> Callable[[int, int], None]:
        phases.append((phase, time.perf_counter()))
        progress(phase)
        return lambda _done, _total: None

    plan = Plan(
        population=people,
        seed=1,
        accounting="strict" if accounting == "strict" else "per_person",
        max_belief="0.8",
        release_tick_ms=0,
    )
    lay_out(directory, plan, report)
    ends = [begun for _, begun in phases[1:]] + [time.perf_counter()]
    result = {
        "people": people,
        "seconds": {phase: end - begun for (phase, begun), end in zip(phases, ends, strict=True)},
        "peak": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }
    (directory / _MADE).write_text(json.dumps(result) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _make(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
