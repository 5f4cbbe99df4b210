"""Many researchers at once: `make bench-load`, or `python -m benchmarks.load --researchers 32 --seconds 120 --people 1000000`.

A deployment of its own (`init`, `up`), with as many registered researchers as are wanted, each with a home and keys. Each asks
one question after the other, of mixed sizes, until the time is over; the first one is greedy, keeps many in line, and has a
process of its own, so that the others wait for the nodes and not for it. With
`--tiny N` N questions are asked instead of for a time, all of few people. At the end every home is exported and the
exports are replayed, by the commands that an auditor uses.

Printed are answers a second, p50 and p99 by size, how often a busy node was asked again, the slowest researcher's answers as
a share of the fastest's (the greedy one aside), each node's memory before, at most and after, and what the replay says. No figure is
asserted here; `tests/process/test_load.py` asserts what does not depend on the machine.

Neither the rate of quotes nor the quota is in force. The budget does not end the run: accounting is per person under a limit of belief so near to one that a person has room for
thousands of answers, and who has none is dropped without a word.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.machine import usage_of
from benchmarks.results import FOLDER, put, say
from fakes.deployment import FRENCH, Deployment, Up, make, node_pids, run
from fakes.homes import address_of, set_limits

from broker_common.errors import BrokerError
from broker_common.storage.durable import replace_file
from broker_common.tlog.parties import peer_name
from census_node.assembly import CensusHome
from deploy.local import PROJECT
from health_node.assembly import HealthHome
from researcher_node.asking.proposal import Precision, Wanted
from researcher_node.asking.session import Session, StageHandler
from researcher_node.assembly import ResearcherHome
from researcher_node.config import AgencyPeer, ResearcherConfig

# Roughly nobody, a hundredth, a fifth and everybody of made-up people: all alike for the nodes.
SIZES = {"tiny": "age > 104", "small": "age = 40", "medium": "age >= 65", "everybody": "age >= 0"}
# Shares of a hundred questions.
_MIX = {"tiny": 50, "small": 30, "medium": 15, "everybody": 5}
MAX_BELIEF = "0." + 50 * "9"
_GREEDY = "greedy"
# To a signed ticket, to the word that it was accepted, in line, and from its turn to the answer.
_PHASES = ("ticket", "accepted", "in line", "answer")
_SCALE = 50
_WAIT_SECONDS = 600.0
_LOOK_SECONDS = 0.25
# At least: answers a second, and answers of the slowest researcher as a share of those of the fastest.
_LEAST_ANSWERS = 62.0
_LEAST_FAIRNESS = 0.95
# After a refusal.
_PAUSE_SECONDS = 0.5
_WHOLE = 1_000_000
_CORES = os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Plan:
    """The run."""

    people: int
    researchers: int
    seconds: float
    tick_ms: int
    # How many questions the first researcher has at once; the others have one.
    greedy: int
    # Instead of a time: so many questions of few people, in all.
    tiny: int = 0


@dataclass(slots=True)
class Load:
    """Result of the run."""

    # Seconds from a question's text to its answer, by size; those of the greedy researcher are apart.
    took: dict[str, list[float]] = field(default_factory=lambda: {size: [] for size in (*SIZES, _GREEDY)})
    # The same by what was waited for, the greedy one's aside.
    waited: dict[str, list[float]] = field(default_factory=lambda: {phase: [] for phase in _PHASES})
    answered: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    busy: int = 0
    seconds: float = 0.0
    memory: dict[str, list[float]] = field(default_factory=dict)
    # Processor seconds so far: of each node, and of all researchers together.
    cpu: dict[str, list[float]] = field(default_factory=dict)
    replay: dict[str, Any] = field(default_factory=dict)

    def add(self, other: Load) -> None:
        """Add the work of another process at the same time."""
        for size, took in other.took.items():
            self.took[size] += took
        for phase, waited in other.waited.items():
            self.waited[phase] += waited
        # Not `update`, which would lose who had no answer.
        for name, number in other.answered.items():
            self.answered[name] += number
        self.refused += other.refused
        for role, seen in other.cpu.items():
            so_far = self.cpu.get(role, [0.0, 0.0])
            self.cpu[role] = [mine + theirs for mine, theirs in zip(so_far, seen, strict=True)]
        self.busy += other.busy
        self.seconds = max(self.seconds, other.seconds)

    def fairness(self, greedy: str) -> float:
        """The slowest researcher's answers as a share of the fastest's; the greedy one aside."""
        counts = [number for name, number in self.answered.items() if name != greedy]
        fastest = max(counts, default=0)
        return min(counts) / fastest if fastest else 0.0

    def report(self, plan: Plan) -> dict[str, Any]:
        """Everything, for a program."""
        answers = self.answered.total()
        return {
            "people": plan.people,
            "researchers": plan.researchers,
            "tick_ms": plan.tick_ms,
            "seconds": round(self.seconds, 1),
            "answers": answers,
            "answers_per_second": round(answers / self.seconds, 2),
            "milliseconds": {
                size: {
                    "answers": len(took),
                    "p50": percentile(took, 50),
                    "p99": percentile(took, 99),
                    # Medians of the first fifth and of the last one: growth with age shows here.
                    "p50_first": percentile(took[: 1 + len(took) // 5], 50),
                    "p50_last": percentile(took[len(took) * 4 // 5 :], 50),
                }
                for size, took in self.took.items()
                if took
            },
            "milliseconds_by_phase": {
                phase: {"p50": percentile(waited, 50), "p99": percentile(waited, 99)}
                for phase, waited in self.waited.items()
                if waited
            },
            "asked_again_when_busy": self.busy,
            "refused": dict(self.refused),
            "fairness": round(self.fairness(name_of(0)), 3),
            "greedy_answers": self.answered[name_of(0)],
            "memory_mib": {
                role: {"start": seen[0], "most": max(seen), "end": seen[-1]} for role, seen in self.memory.items()
            },
            # Hardly depends on what else the machine does.
            "cpu_ms_an_answer": {
                role: round(1000 * (seen[-1] - seen[0]) / answers, 1) if answers else None
                for role, seen in self.cpu.items()
            },
            "replay": {name: self.replay.get(name) for name in ("verified", "answers", "entries", "problems")},
        }


def percentile(took: Sequence[float], percent: int) -> int:
    """In milliseconds."""
    if len(took) == 1:
        return round(1000 * took[0])
    return round(1000 * statistics.quantiles(took, n=100, method="inclusive")[percent - 1])


def name_of(number: int) -> str:
    """A researcher's id; the deployment's own is another one."""
    return f"load-{number}"


def welcome(deployment: Deployment, number: int) -> list[ResearcherHome]:
    """So many more researchers, known to both agencies."""
    health, census = HealthHome(deployment.home("health")), CensusHome(deployment.home("census"))
    cards = (health.own_card(), census.own_card())
    peers = {role: AgencyPeer(address=address_of(deployment.home(role))) for role in ("health", "census")}
    homes = []
    for each in range(number):
        config = ResearcherConfig(
            role="researcher",
            researcher_id=name_of(each),
            organisation=f"university-{each}",
            project=PROJECT,
            health=peers["health"],
            census=peers["census"],
        )
        home = ResearcherHome.create(deployment.directory / name_of(each), config)
        for card in cards:
            home.trust.put(card)
        for agency in (health, census):
            agency.register(home.own_card(), projects=[PROJECT])
        card = home.own_card()
        replace_file(
            deployment.home("auditor") / "trust" / f"{peer_name(card.card.identity)}.card",
            card.signed.to_bytes() + b"\n",
        )
        homes.append(home)
    return homes


class _Run:
    """The questions of one run."""

    def __init__(self, plan: Plan, load: Load) -> None:
        self._plan = plan
        self._load = load
        self._ends = time.perf_counter() + plan.seconds
        self._left = plan.tiny

    def _more(self) -> bool:
        if self._plan.tiny:
            self._left -= 1
            return self._left >= 0
        return time.perf_counter() < self._ends

    async def researcher(self, number: int, home: ResearcherHome) -> None:
        """One researcher, until the run is over."""
        answers = home.open_answers()
        name, places = name_of(number), self._plan.greedy if number == 0 else 1
        self._load.answered[name] += 0
        try:
            async with home.session(answers) as session:
                await asyncio.gather(*(self._asking(name, session, sizes(number + place)) for place in range(places)))
        finally:
            answers.close()

    async def _asking(self, name: str, session: Session, wanted: Iterator[str]) -> None:
        while self._more():
            size = "tiny" if self._plan.tiny else next(wanted)
            times = [time.perf_counter()]
            try:
                asked = await session.prepare(Wanted(SIZES[size], FRENCH, Precision(_SCALE), _WHOLE, PROJECT))
                times.append(time.perf_counter())
                await session.ask(
                    asked,
                    wait_seconds=_WAIT_SECONDS,
                    on_stage=_noting(times),
                    on_busy=self._busy,
                )
            except BrokerError as error:
                self._load.refused[error.code] += 1
                # Or a node that is away for a second would be refused by thousands.
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            self._load.answered[name] += 1
            self._load.took[_GREEDY if name == name_of(0) else size].append(time.perf_counter() - times[0])
            if name != name_of(0):
                # The stages after the second one are part of the answer.
                ends = [*times[1:4], time.perf_counter()]
                for phase, begin, end in zip(_PHASES, times, ends, strict=False):
                    self._load.waited[phase].append(end - begin)

    def _busy(self, seconds: float) -> None:
        del seconds
        self._load.busy += 1


def _noting(times: list[float]) -> StageHandler:
    return lambda _: times.append(time.perf_counter())


def sizes(start: int) -> Iterator[str]:
    """The mix, in a fixed order that is spread evenly; researchers begin at different places of it."""
    ends = []
    for size, share in _MIX.items():
        ends += [((number + 0.5) / share, size) for number in range(share)]
    order = [size for _, size in sorted(ends)]
    at = 7 * start
    while True:
        yield order[at % len(order)]
        at += 1


async def _watch(directory: Path, load: Load) -> None:
    pids = {role: pid for role, pid in node_pids(directory).items() if role != "researcher"}
    while True:
        for role, pid in pids.items():
            usage = usage_of(pid)
            load.memory.setdefault(role, []).append(round(usage.resident / 2**20))
            load.cpu.setdefault(role, []).append(usage.cpu_seconds)
        await asyncio.sleep(_LOOK_SECONDS)


def _ask(homes: Sequence[tuple[int, Path]], plan: Plan) -> Load:
    """The questions of some of the researchers, in a process of their own."""
    load = Load()

    async def all_of_them() -> None:
        running, start = _Run(plan, load), time.perf_counter()
        load.cpu["researchers"] = [0.0, -time.process_time()]
        await asyncio.gather(*(running.researcher(number, ResearcherHome(home)) for number, home in homes))
        load.cpu["researchers"][1] += time.process_time()
        load.seconds = time.perf_counter() - start

    asyncio.run(all_of_them())
    return load


async def _ask_everybody(deployment: Deployment, homes: Sequence[ResearcherHome], plan: Plan) -> Load:
    load = Load()
    watching = asyncio.create_task(_watch(deployment.directory, load))
    numbered = [(number, home.home.path) for number, home in enumerate(homes)]
    parts = [(numbered[:1], replace(plan, tiny=plan.tiny // 2)), (numbered[1:], replace(plan, tiny=-(-plan.tiny // 2)))]
    loop = asyncio.get_running_loop()
    try:
        with ProcessPoolExecutor(len(parts), multiprocessing.get_context("spawn")) as processes:
            for done in await asyncio.gather(*(loop.run_in_executor(processes, _ask, *part) for part in parts)):
                load.add(done)
        await asyncio.sleep(2 * _LOOK_SECONDS)
    finally:
        watching.cancel()
    return load


def replay(deployment: Deployment, homes: Sequence[ResearcherHome]) -> dict[str, Any]:
    """Verdict of an auditor on everybody's export."""
    handed_in = deployment.directory / "handed_in"
    parts = [(home.home.path, "researcher") for home in homes]
    parts += [(deployment.home(role), role) for role in ("researcher", "health", "census")]
    for home, part in parts:
        _ = run("audit", "export", "--home", home, "--to", handed_in / part, "--json").result
    verdict: dict[str, Any] = run("audit", "replay", handed_in, "--home", deployment.home("auditor"), "--json").json
    return verdict


def measure(directory: Path, plan: Plan) -> Load:
    """Make a deployment in `directory`, load it, stop it and audit it."""
    deployment = make(
        directory, "--max-belief", MAX_BELIEF, population=plan.people, tick_ms=plan.tick_ms, accounting="per_person"
    )
    deployment.order_policy(researcher_answers=0)
    set_limits(deployment.home("census"), quotes_per_minute=1_000_000, quote_burst=1_000_000)
    homes = welcome(deployment, plan.researchers)
    up = Up(directory)
    try:
        up.wait_ready()
        load = asyncio.run(_ask_everybody(deployment, homes, plan))
    finally:
        up.end()
    load.replay = replay(deployment, homes)
    return load


def verdicts(report: dict[str, Any]) -> list[str]:
    """Verdicts for 32 researchers and a million people."""
    bars = (("answers_per_second", _LEAST_ANSWERS, "answers a second"), ("fairness", _LEAST_FAIRNESS, "fairness"))
    lines = [
        f"- {'pass' if report[key] >= least else 'MISS'}: {report[key]:g} {what}; at least {least:g}"
        for key, least, what in bars
    ]
    cpu = {role: taken for role, taken in report["cpu_ms_an_answer"].items() if taken}
    if cpu:
        # Hardly depends on what else the machine does.
        taken = " + ".join(f"{each:g} ({role})" for role, each in cpu.items())
        most = _CORES * 1000 / sum(cpu.values())
        lines[0] += (
            f"; an answer takes {taken} ms of processor time, so that {_CORES} cores make at most {most:.0f} a second"
        )
    return [*lines, f"- {'pass' if report['replay']['verified'] else 'MISS'}: both logs and all receipts replay"]


def show(report: dict[str, Any]) -> None:
    """For a reader."""
    say(
        f"{report['people']:,} people, {report['researchers']} researchers, tick {report['tick_ms']} ms: "
        f"{report['answers']} answers in {report['seconds']} s, {report['answers_per_second']} a second"
    )
    for size, figures in report["milliseconds"].items():
        ages = f"first fifth {figures['p50_first']}, last {figures['p50_last']}"
        say(
            f"  {size:10} {figures['answers']:6} answers   p50 {figures['p50']:7} ms ({ages})   p99 {figures['p99']:7} ms"
        )
    phases = (f"{phase} {ms['p50']} / {ms['p99']}" for phase, ms in report["milliseconds_by_phase"].items())
    say(f"  of these, p50 / p99: {', '.join(phases)}")
    say(f"  busy, asked again: {report['asked_again_when_busy']}; refused: {report['refused'] or 'none'}")
    say(f"  slowest researcher / fastest: {report['fairness']}; the greedy one: {report['greedy_answers']} answers")
    for role, seen in report["memory_mib"].items():
        say(f"  {role:7} memory: {seen['start']} MiB at the start, {seen['most']} at most, {seen['end']} at the end")
    say(f"  replay: {json.dumps(report['replay'])}")
    for line in verdicts(report):
        say(line)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--people", type=int, default=int(os.environ.get("PEOPLE", "1000000")))
    parser.add_argument("--researchers", type=int, default=int(os.environ.get("RESEARCHERS", "32")))
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("SECONDS", "120")))
    parser.add_argument("--tick-ms", type=int, default=0)
    parser.add_argument("--greedy", type=int, default=60, help="questions that the first researcher has at once")
    parser.add_argument("--tiny", type=int, default=0, metavar="N", help="N questions of few people instead of a time")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    plan = Plan(asked.people, asked.researchers, asked.seconds, asked.tick_ms, asked.greedy, asked.tiny)
    with tempfile.TemporaryDirectory(prefix="tripartite-load-") as folder:
        report = measure(Path(folder) / "deployment", plan).report(plan)
    put(FOLDER, "load", "tiny" if asked.tiny else "mixed", report)
    if asked.json:
        say(json.dumps(report))
    else:
        show(report)


if __name__ == "__main__":
    main()
