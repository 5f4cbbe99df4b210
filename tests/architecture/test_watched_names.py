"""Every name under which a node says something to its watchers: metrics, labels, alert rules, and keys of log lines.

A name that is not here is not in the product. Nobody adds one without reading what may never be said: aggregates of ledgers,
drops, exact counts, noisy answers, sizes and durations of cohorts, and who or what was asked about.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from architecture.sources import ROOT, modules, nodes_of
from fakes.clock import FakeClock

from broker_common.dashboard.metrics import LogFigures, NodeFacts, metrics_text
from broker_common.errors import REASONS
from broker_common.monitoring import Monitor, read_figures
from broker_common.rpc.callers import ALLOWED_ROLES

# Metric names are documented with their labels; `role`, which every one but one has, is left out there.
DOCUMENTED = re.compile(r"`tripartite_(\w+?)(?:\{([\w,]+)\})?`")
# A histogram's parts, and when a process has made its counters.
PARTS = re.compile(r"_(bucket|count|sum|created)\Z")
# Words that no name may have in it: they stand for what is never said.
NEVER = re.compile(
    r"people|person|household|cohort|sample|exhaust|drop|linked|noisy|criteri|pseudonym|units|band|researcher|project|query|ticket",
)
LABELS = {"role", "method", "outcome", "reason", "party", "le"}
# Each with why it says nothing of anybody's record. Codes, places in the code and texts of errors are fixed or for operators.
LOG_KEYS = {
    *("code", "error", "kind", "place", "rpc", "path", "reason", "outcome", "cause", "problem", "text", "remedy"),
    *("address", "serial", "load", "purpose", "retry_seconds"),
    # A connection that TLS refused: the host that was asked for, the certificate, and the library's reason.
    *("host", "fingerprint", "detail"),
    # Which party: peers by role and name, users of dashboards.
    *("agency", "peer", "role", "name", "researcher", "by"),
    # A charge that cannot be answered: the log names it too.
    "ticket",
}


def documented() -> dict[str, set[str]]:
    """Names of metrics with their labels, as the handbook has them."""
    text = (ROOT / "docs" / "watching.md").read_text("utf-8")
    return {name: set(labels.split(",")) - {""} for name, labels in DOCUMENTED.findall(text)}


@pytest.fixture
def said(tmp_path: Path) -> list[tuple[str, dict[str, str]]]:
    """Every sample of both nodes' `/metrics`, with something in each."""
    samples = []
    for role in ("census", "health"):
        monitor = Monitor(role, FakeClock())
        monitor.called("Quote", "ok")
        monitor.refused("HANDSHAKE_FAILED")
        monitor.heard_of_peer()
        monitor.write(tmp_path)
        facts = NodeFacts(role, True, 0.5, False, 1, False)
        log = LogFigures(
            size=1,
            newest_ms=1,
            due_size=1,
            due_ms=1,
            is_shut_down=False,
            answers=1,
            open_questions=1,
            worst_belief=0.5,
            max_belief=0.6,
            witnessed_size=1,
            witnessed_ms=1,
            keys_changed_ms=1,
            certificate_ends=[("health", False, 1), ("census", True, 1)],
        )
        (tmp_path / "monitor.prom").write_bytes(metrics_text(facts, read_figures(tmp_path), log))
        samples += [(name, dict(labels)) for name, labels, _ in read_figures(tmp_path).samples]
    return samples


def test_every_metric_is_in_the_handbook_with_its_labels(said: list[tuple[str, dict[str, str]]]) -> None:
    """None is added, renamed or lost, and none gets another label, without the handbook."""
    found: dict[str, set[str]] = {}
    for name, labels in said:
        whole = PARTS.sub("", name.removeprefix("tripartite_"))
        if name.endswith("_created"):
            continue
        found.setdefault(whole, set()).update(labels)
    assert {name: labels - {"role", "le"} for name, labels in found.items()} == documented()
    assert set().union(*found.values()) == LABELS


def test_no_metric_is_of_people_samples_or_who_asks(said: list[tuple[str, dict[str, str]]]) -> None:
    """No metric is, by its name, its labels and their values."""
    for name, labels in said:
        assert not NEVER.search(name), name
        for label, value in labels.items():
            assert not NEVER.search(label), name
            assert label == "le" or re.fullmatch(r"[A-Za-z_]+", value), (name, value)


def test_methods_and_outcomes_are_a_few_fixed_words() -> None:
    """Labels grow with the program, not with who calls it: methods are those of the protocol, outcomes codes of errors."""
    calls = [
        node
        for path in modules("broker_common")
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "called"
    ]
    assert [ast.unparse(call) for call in calls] == ["self._monitor.called(method.rpartition('/')[2], outcome)"]
    assert len(ALLOWED_ROLES) < 50
    assert len(REASONS) < 300


@pytest.mark.parametrize("file", ["alerts.yml", "alerts_test.yml", "grafana.json"])
def test_alerts_and_boards_use_documented_metrics(file: str) -> None:
    """Nothing is asked of a metric that is not there."""
    text = (ROOT / "deploy" / "monitoring" / file).read_text("utf-8")
    names = {PARTS.sub("", name) for name in re.findall(r"\btripartite_(\w+)", text)}
    assert names
    assert names <= documented().keys()


def log_calls() -> Iterator[tuple[str, ast.Call]]:
    """Every line that the product logs."""
    for path in modules("broker_common", "census_node", "health_node", "researcher_node"):
        for node in nodes_of(path):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id in {"_log", "log", "logger"}
                and node.func.attr in {"debug", "info", "warning", "error", "critical", "exception"}
            ):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def test_log_lines_are_fixed_sentences_with_known_keys() -> None:
    """No event is made of values, and no key is one under which a count, a size, a criterion or a duration would stand."""
    seen, open_keys = set(), []
    for place, call in log_calls():
        (event,) = call.args
        is_fixed = isinstance(event, ast.Constant) or re.fullmatch(r"texts\.[A-Z_]+", ast.unparse(event))
        assert is_fixed, place
        seen |= {keyword.arg for keyword in call.keywords if keyword.arg}
        open_keys += [place.partition(":")[0] for keyword in call.keywords if keyword.arg is None]
    assert seen == LOG_KEYS
    # Where something went wrong that nobody foresaw; and spans, which an operator must ask for (`log_stages`).
    assert open_keys == ["broker_common/logs.py", "broker_common/tracing.py"]
