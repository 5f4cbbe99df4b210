"""A serving node's counters of itself, for the monitoring tools of the operator on call: names in Prometheus's form, low in cardinality.

A node writes its figures into `monitor.prom` in its home every second. Its dashboard, which is a process of its own, reads
the file: it adds what the log says and serves both as `/metrics`. A file that is no longer written is how a dead or stuck
process is told from a quiet one. No label names a person, a researcher, a project or a query, and nothing is counted that
depends on who is in a sample.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from broker_common.values import Clock

_log = structlog.get_logger()
MONITOR_FILE = "monitor.prom"
# Between two writings of the figures.
_WRITE_SECONDS = 1.0
# A file that was not written for so long is of a process that is gone or stuck.
STALE_MS = 10_000
_BUCKETS = (0.25, 0.5, 1, 2, 3, 5, 8, 12, 20, 30, 60, 120, 300)


class Monitor:
    """The figures of one node. Thread-safe."""

    def __init__(self, role: str, clock: Clock) -> None:
        self._clock = clock
        self.registry = CollectorRegistry()
        self._calls = Counter(
            "tripartite_calls",
            "Calls that peers have made, by method and outcome (ok, or the error's code).",
            ["role", "method", "outcome"],
            registry=self.registry,
        )
        self._refused = Counter(
            "tripartite_connections_refused",
            "Connections and calls that were refused before a handler saw them, by reason.",
            ["role", "reason"],
            registry=self.registry,
        )
        self._answers = Counter("tripartite_answers", "Answers that were released.", ["role"], registry=self.registry)
        self._late = Counter(
            "tripartite_ticks_missed",
            "Outcomes that were not ready at the tick that was planned for them.",
            ["role"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "tripartite_answer_seconds",
            "From the arrival of a question at this node to its end, at ticks.",
            ["role"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._waiting = Gauge(
            "tripartite_questions_in_hand",
            "Questions that are under way at this node.",
            ["role"],
            registry=self.registry,
        )
        self._peer_seen = Gauge(
            "tripartite_peer_last_contact_timestamp_seconds",
            "When the other agency was last heard of; until then, when the process started.",
            ["role"],
            registry=self.registry,
        )
        self._in_line = Gauge(
            "tripartite_questions_waiting",
            "Questions that wait in line for a place at this node.",
            ["role"],
            registry=self.registry,
        )
        self._started = Gauge(
            "tripartite_started_timestamp_seconds",
            "When the node's process started.",
            ["role"],
            registry=self.registry,
        )
        self._written = Gauge(
            "tripartite_written_timestamp_seconds",
            "When the node wrote these figures.",
            ["role"],
            registry=self.registry,
        )
        self._role = role
        for each in (self._answers, self._late, self._seconds, self._waiting, self._in_line):
            each.labels(role)
        self._refused.labels(role, "HANDSHAKE_FAILED")
        self._started.labels(role).set(clock() / 1000)
        # A peer that is never heard of is gone as well: without a value no rule would notice.
        self._peer_seen.labels(role).set(clock() / 1000)

    def called(self, method: str, outcome: str) -> None:
        self._calls.labels(self._role, method, outcome).inc()

    def refused(self, reason: str) -> None:
        """A connection or a call was refused before anything was done."""
        self._refused.labels(self._role, reason).inc()

    def answered(self, seconds: float) -> None:
        """An answer was released so long after its question came."""
        self._answers.labels(self._role).inc()
        self._seconds.labels(self._role).observe(seconds)

    def missed_tick(self) -> None:
        """An outcome left at a later tick than planned."""
        self._late.labels(self._role).inc()

    def in_hand(self, questions: int) -> None:
        """So many questions are under way."""
        self._waiting.labels(self._role).set(questions)

    def in_line(self, questions: int) -> None:
        """So many questions wait for a place."""
        self._in_line.labels(self._role).set(questions)

    def heard_of_peer(self) -> None:
        self._peer_seen.labels(self._role).set(self._clock() / 1000)

    async def keep_writing(self, home: Path) -> None:
        """Write the figures every second until cancelled; where that fails the silence is what tells."""
        while True:
            try:
                await asyncio.to_thread(self.write, home)
            except OSError as error:
                _log.warning("the node's figures cannot be written", problem=error.strerror)
            await asyncio.sleep(_WRITE_SECONDS)

    def write(self, home: Path) -> None:
        """Put the figures into the home, whole or not at all."""
        self._written.labels(self._role).set(self._clock() / 1000)
        path = home / MONITOR_FILE
        temporary = path.with_name(f".{MONITOR_FILE}.part")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(generate_latest(self.registry))
        temporary.replace(path)


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures that a node last wrote about itself."""

    text: bytes
    # Each sample has a name, labels and a value, in the order of the text.
    samples: tuple[tuple[str, tuple[tuple[str, str], ...], float], ...]
    written_ms: int

    def is_stale(self, now_ms: int) -> bool:
        """True if the process that wrote them is gone or stuck."""
        return not self.written_ms or now_ms - self.written_ms > STALE_MS

    def values(self, name: str) -> Iterator[tuple[dict[str, str], float]]:
        """Every sample of a name with its labels."""
        return ((dict(labels), value) for each, labels, value in self.samples if each == name)

    def total(self, name: str) -> float:
        """The sum of a name's samples."""
        return sum(value for _, value in self.values(name))


def read_figures(home: Path) -> Figures:
    """The figures in a home; nothing if no node has served it yet."""
    try:
        text = (home / MONITOR_FILE).read_bytes()
        families = list(text_string_to_metric_families(text.decode("utf-8")))
    except (OSError, ValueError):
        return Figures(b"", (), 0)
    samples = tuple(
        (sample.name, tuple(sorted(sample.labels.items())), sample.value)
        for family in families
        for sample in family.samples
    )
    written = next((value for name, _, value in samples if name == "tripartite_written_timestamp_seconds"), 0.0)
    return Figures(text, samples, int(written * 1000))


def refusals_by_code(figures: Figures) -> dict[str, float]:
    """How many calls ended with which error since the process started; one that its caller gave up was not refused."""
    counts: dict[str, float] = {}
    for labels, value in figures.values("tripartite_calls_total"):
        if labels["outcome"] not in {"ok", "CANCELLED"}:
            counts[labels["outcome"]] = counts.get(labels["outcome"], 0) + value
    return counts
