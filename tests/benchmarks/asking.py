"""Questions asked through the researcher's own session, one after the other, with everything timed that can be seen.

From outside: the quote, all of the preparation (reading the question, quote, its proof, the ticket), and the time from
Submit to the opened and verified answer. From inside: what both nodes say of their stages to their operators' logs, and what
the system says of their processors.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.deployments import SCALE
from benchmarks.machine import usage_of
from benchmarks.results import milliseconds
from fakes.deployment import Deployment, node_pids

from researcher_node.asking.proposal import Precision, Wanted
from researcher_node.asking.session import Quoted, Session
from researcher_node.assembly import ResearcherHome

COUNT = "mother_tongue = 'French'"
_WAIT_SECONDS = 120.0
# For the nodes to write what they measured of a question that is answered.
_LOG_SECONDS = 5.0
_STAGES_LINE = re.compile(r"\bevent=stages\b(.*)$", re.MULTILINE)
# The one that ends first comes first.
_NODES = ("census", "health")
_STAGE = re.compile(r"(?<!\S)([a-z]+)=([0-9]+\.[0-9]+)(?!\S)")


@dataclass(slots=True)
class Timed:
    """One question: seconds, and milliseconds of stages by node."""

    quote: float = 0.0
    prepare: float = 0.0
    answer: float = 0.0
    stages: dict[str, dict[str, float]] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)


@contextlib.asynccontextmanager
async def session_at(deployment: Deployment) -> AsyncIterator[Session]:
    """A session of the deployment's researcher."""
    home = ResearcherHome(deployment.home("researcher"))
    answers = home.open_answers()
    try:
        async with home.session(answers) as session:
            yield session
    finally:
        answers.close()


class Asker:
    """Asks in one session at one running deployment; `log` is where its nodes write to."""

    def __init__(self, session: Session, directory: Path, log: Path, *, scale: int = SCALE) -> None:
        self._session = session
        self._scale = scale
        self._log = log
        self._pids = {role: pid for role, pid in node_pids(directory).items() if role in {"census", "health"}}
        self._quote: Callable[[str, Precision], Any] = session.quote
        self._quoted = 0.0
        session.quote = self._timed_quote  # type: ignore[method-assign]

    async def _timed_quote(self, count: str, precision: Precision) -> Quoted:
        started = time.perf_counter()
        quoted: Quoted = await self._quote(count, precision)
        self._quoted = time.perf_counter() - started
        return quoted

    async def ask(self, where: str, *, on_stage: Callable[[int], None] = lambda _: None) -> Timed:
        """One question, and what both nodes say of it."""
        offset, before = self._log.stat().st_size, self._cpu()
        timed = await self.ask_quietly(where, on_stage=on_stage)
        timed.stages = await self._stages_since(offset)
        timed.cpu = {role: seconds - before[role] for role, seconds in self._cpu().items()}
        return timed

    async def ask_quietly(self, where: str, *, on_stage: Callable[[int], None] = lambda _: None) -> Timed:
        """One question, seen from outside alone: several may be under way at once."""
        timed, started = Timed(), time.perf_counter()
        wanted = Wanted(where, COUNT, Precision(scale=self._scale), 1_000_000, "official-languages")
        asked = await self._session.prepare(wanted)
        prepared = time.perf_counter()
        await self._session.ask(asked, wait_seconds=_WAIT_SECONDS, on_stage=on_stage)
        timed.quote, timed.prepare = self._quoted, prepared - started
        timed.answer = time.perf_counter() - prepared
        return timed

    def _cpu(self) -> dict[str, float]:
        nodes = {role: usage_of(pid).cpu_seconds for role, pid in self._pids.items()}
        return {**nodes, "researcher": usage_of(os.getpid()).cpu_seconds}

    async def _stages_since(self, offset: int) -> dict[str, dict[str, float]]:
        deadline = time.monotonic() + _LOG_SECONDS
        while time.monotonic() < deadline:
            with self._log.open("rb") as log:
                log.seek(offset)
                lines = _STAGES_LINE.findall(log.read().decode())
            found = [{name: float(value) for name, value in _STAGE.findall(line)} for line in lines]
            if len(found) > len(_NODES):
                # Nodes that were ended in the middle of a question bring it to its end after their start.
                return {}
            if len(found) == len(_NODES):
                # The health node hands over and waits: it begins before the census node, and ends after it.
                return dict(zip(_NODES, sorted(found, key=lambda stages: stages["total"]), strict=True))
            await asyncio.sleep(0.005)
        raise TimeoutError("the nodes do not say how long their stages took")


def summary(rounds: list[Timed]) -> dict[str, Any]:
    """Medians and p99 of the rounds of one question."""
    return {
        "answer": milliseconds([timed.answer for timed in rounds]),
        "prepare": milliseconds([timed.prepare for timed in rounds]),
        "quote": milliseconds([timed.quote for timed in rounds]),
        "stages": {role: _medians([timed.stages[role] for timed in rounds if timed.stages]) for role in _NODES},
        "cpu_seconds": {role: sum(timed.cpu[role] for timed in rounds) / len(rounds) for role in rounds[0].cpu},
    }


def _medians(rounds: list[dict[str, float]]) -> Mapping[str, float]:
    names = list(dict.fromkeys(name for stages in rounds for name in stages))
    return {name: milliseconds([stages.get(name, 0.0) / 1000 for stages in rounds])["median"] for name in names}
