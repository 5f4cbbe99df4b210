"""`/metrics`: what a node counts of itself, and what its log says. The names are documented in the handbook and stay.

SECURITY: nothing here follows from the ledger of persons, samples, registries or answers, and no label names anybody.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from broker_common.monitoring import Figures

_STEPS = 20


@dataclass(frozen=True, slots=True)
class LogFigures:
    """A log's metrics; None where a log has no such figure."""

    size: int
    newest_ms: int
    # As far as the other agency has to have cosigned it.
    due_size: int
    due_ms: int
    is_shut_down: bool | None
    answers: int | None
    open_questions: int
    worst_belief: float | None
    max_belief: float | None
    witnessed_size: int | None
    witnessed_ms: int | None
    # When keys of the node or of a peer changed last; 0: never.
    keys_changed_ms: int
    # Role, whether it is the node's own, when it ends.
    certificate_ends: Sequence[tuple[str, bool, int]]


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node as seen from outside."""

    role: str
    is_running: bool
    # Figures of the disk that the home is on.
    free_share: float
    is_load_refused: bool
    # Entries that were folded, and whether folding had to stop.
    folded: int
    has_log_problem: bool


def metrics_text(facts: NodeFacts, node: Figures, log: LogFigures | None) -> bytes:
    """The page that Prometheus scrapes."""
    registry = CollectorRegistry()
    role = facts.role

    def gauge(name: str, help_text: str, value: float | None) -> None:
        each = Gauge(f"tripartite_{name}", help_text, ["role"], registry=registry)
        if value is not None:
            each.labels(role).set(value)

    gauge("up", "1 while the node's process holds its home.", float(facts.is_running))
    # SECURITY: in bytes it would tell between two ticks when something was kept or wiped.
    free = math.floor(facts.free_share * _STEPS) / _STEPS
    gauge("home_free_share", "Free share of the disk of the home, rounded down to twentieths.", free)
    gauge("load_refused", "1 if the last load was refused.", float(facts.is_load_refused))
    gauge("log_folded_entries", "Entries of the log that the dashboard has read.", facts.folded)
    gauge("log_problem", "1 if the log cannot be read or breaks its own rules.", float(facts.has_log_problem))
    if log is not None:
        gauge("log_entries", "Entries in the log.", log.size)
        gauge("log_newest_timestamp_seconds", "Time of the newest entry.", log.newest_ms / 1000)
        gauge("log_due_entries", "Entries that the other agency has to have cosigned.", log.due_size)
        gauge("log_due_timestamp_seconds", "Time of the newest of these.", log.due_ms / 1000)
        gauge("shut_down", "1 while the service is shut down.", _number(log.is_shut_down))
        gauge("log_answers", "Answers that were charged, from the log.", log.answers)
        gauge("questions_open", "Charged and not released, or submitted and not at their end.", log.open_questions)
        gauge("worst_belief", "What nobody can have come to believe about one person.", log.worst_belief)
        gauge("max_belief", "The limit in force.", log.max_belief)
        gauge("witnessed_entries", "Size of the newest cosigned checkpoint.", log.witnessed_size or 0)
        gauge("witnessed_timestamp_seconds", "When that was cosigned.", _seconds(log.witnessed_ms))
        gauge("keys_changed_timestamp_seconds", "When a key changed last; 0: never.", log.keys_changed_ms / 1000)
        _certificates(registry, role, log.certificate_ends)
    return bytes(generate_latest(registry)) + node.text


def _certificates(registry: CollectorRegistry, role: str, ends: Sequence[tuple[str, bool, int]]) -> None:
    gauge = Gauge(
        "tripartite_certificate_end_timestamp_seconds",
        "When the first certificate ends, of this node, of its peers by role, of its dashboard and of the operators.",
        ["role", "party"],
        registry=registry,
    )
    first: dict[str, int] = {}
    for peer, is_own, end_ms in ends:
        party = "own" if is_own else peer
        first[party] = min(first.get(party, end_ms), end_ms)
    for party, end_ms in sorted(first.items()):
        gauge.labels(role, party).set(end_ms / 1000)


def _number(value: bool | None) -> float | None:
    return None if value is None else float(value)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
