"""No test depends on how busy the machine is: what has made tests depend on it is not written again."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest
from architecture.sources import without_collector
from fakes.patience import PATIENCE_SECONDS

TESTS = Path(__file__).parents[1]
# Benchmarks measure time and promise nothing; `guided` and `explore` are the fuzzer's own tools.
MODULES = [path for path in sorted(TESTS.rglob("*.py")) if "benchmarks" not in path.parts]
CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time", "time_ns"}
# Their argument at this place is a limit in seconds.
LIMITS = {"timeout": 0, "wait_for": 1, "settimeout": 0, "wait": 0, "join": 0, "result": 0, "acquire": 1}
# Reasons by file: why it may do what no other may.
SHORT_LIMITS = {
    "faults/sequences.py": "time is virtual",
    "faults/simulation.py": "time is virtual",
    "privacy/wiretap.py": "a peer that no longer listens is not waited for; nothing fails",
    "integration/test_slow_clients.py": "how long an attacker goes on sending",
    "process/test_modes.py": "between looks at what no event tells of",
    "unit/census_node/ledger/test_book.py": "time for an erasure that does not wait, as it should not; nothing fails",
    "unit/census_node/operator/test_staff_figures.py": "time for a computation that must wait; nothing fails",
    "unit/health_node/operator/test_cohort_figures.py": "time for a computation that must wait; nothing fails",
    "unit/rpc/test_server.py": "time for an end that must not come; nothing fails",
    "unit/storage/test_clock.py": "a clock made up for the test",
    "faults/test_journal_faults.py": "how long somebody holds a lock",
}
SLEEPS = {
    "fakes/deployment.py": "between looks at what no event tells of",
    "unit/census_node/query/timed_desk.py": "time is virtual",
    "faults/memory_grpc.py": "time is virtual",
    "privacy/neighbours.py": "people ask one after the other",
    "fakes/patience.py": "between looks at what no event tells of, and lingering",
    "privacy/recorded.py": "until a ticket has expired: longer does no harm",
    "faults/sequences.py": "time is virtual",
    "faults/simulation.py": "time is virtual",
    "integration/test_slow_clients.py": "a client that is slow",
    "process/late_node.py": "a node that does not keep up",
    "process/test_large_loads.py": "a kill at any moment",
    "process/test_random_kills.py": "kills at any moment",
    "protocol/test_census_service.py": "a sender that is slow; nothing may be early",
    "protocol/test_health_service.py": "between looks at what no event tells of",
    "protocol/test_quote_flood.py": "time is virtual",
    "protocol/test_rosters.py": "time is virtual",
    "unit/health_node/test_service.py": "time is virtual",
    "statistical/test_fair_queue_times.py": "time is virtual",
    "statistical/test_release_times.py": "time is virtual, or a question is asked at a random instant",
}
READINGS = {
    "fakes/deployment.py": "the end of patience",
    "privacy/handshakes.py": "certificates that are valid now",
    "process/test_large_loads.py": "moments of kills follow from how long a load takes here",
    "process/test_random_kills.py": "the end of patience",
    "vectors/homes/step9.py": "a tool that made a home once, at a time of its own",
}


@lru_cache(maxsize=1)
def calls(tree: ast.AST) -> list[tuple[ast.Call, str, str]]:
    """Every call, with the name that is called and what it is an attribute of; the rules ask for the same tree's in turn."""
    return list(_calls(tree))


def _calls(tree: ast.AST) -> Iterator[tuple[ast.Call, str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                yield node, node.func.id, ""
            elif isinstance(node.func, ast.Attribute):
                owner = node.func.value
                yield node, node.func.attr, owner.id if isinstance(owner, ast.Name) else "another"


def number(node: ast.expr | None, names: dict[str, float]) -> float | None:
    """Value of an expression made of literals and of the module's own constants."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.Name(id=name):
            return names.get(name)
        case ast.BinOp(left=left, right=right, op=ast.Mult() | ast.Div() as operator):
            one, other = number(left, names), number(right, names)
            if one is None or not other:
                return None
            return one * other if isinstance(operator, ast.Mult) else one / other
    return None


def constants(tree: ast.Module) -> dict[str, float]:
    """The module's own numbers, and those of `fakes.patience`."""
    found = {"PATIENCE_SECONDS": PATIENCE_SECONDS}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = number(node.value, found)
            if value is not None:
                found[node.targets[0].id] = value
    return found


def short_limits(tree: ast.Module) -> Iterator[ast.Call]:
    """Calls with a limit that a busy machine may need."""
    names = constants(tree)
    for call, name, _ in calls(tree):
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        at = LIMITS.get(name, len(call.args))
        limit = number(given.get("timeout", call.args[at] if at < len(call.args) else None), names)
        if limit is not None and limit < PATIENCE_SECONDS:
            yield call


def sleeps(tree: ast.Module) -> Iterator[ast.Call]:
    """Calls that let time pass; `sleep(0)` lets others go on and no time pass."""
    for call, name, owner in calls(tree):
        if name == "sleep" and owner in {"", "time", "asyncio"} and number(call.args[0], {}) != 0:
            yield call


def readings(tree: ast.Module) -> Iterator[ast.Call]:
    """Looks at the machine's clocks."""
    for call, name, owner in calls(tree):
        if owner == "time" and name in CLOCKS:
            yield call


def impatient_settings(tree: ast.Module) -> Iterator[ast.Call]:
    """Settings of hypothesis that measure time, or bring back the check of the profile that does."""
    for call, name, _ in calls(tree):
        given = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords if name == "settings"}
        if name == "settings" and (
            "deadline" in given or "too_slow" not in given.get("suppress_health_check", "too_slow")
        ):
            yield call


RULES = {
    "a limit that is shorter than patience": (short_limits, SHORT_LIMITS),
    "a sleep": (sleeps, SLEEPS),
    "a look at a clock of the machine": (readings, READINGS),
    "a deadline of hypothesis": (impatient_settings, {}),
}


def test_no_test_depends_on_how_busy_the_machine_is() -> None:
    """Waits end with events, time is virtual; the exceptions have their reasons, and none is out of date."""
    found: dict[tuple[str, str], list[int]] = {}
    with without_collector():
        for path in MODULES:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for rule, (finds, _) in RULES.items():
                lines = [call.lineno for call in finds(tree)]
                if lines:
                    found[rule, str(path.relative_to(TESTS))] = lines
    allowed = {(rule, file) for rule, (_, files) in RULES.items() for file in files}
    assert {place: lines for place, lines in found.items() if place not in allowed} == {}
    assert allowed <= set(found), "nothing of it is there any more"


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("a limit that is shorter than patience", "asyncio.timeout(10)"),
        ("a limit that is shorter than patience", "SHORT = 2 * 3\nasyncio.wait_for(stop, SHORT / 2)"),
        ("a limit that is shorter than patience", "connect(address, timeout=PATIENCE_SECONDS / 20)"),
        ("a limit that is shorter than patience", "thread.join(1)"),
        ("a limit that is shorter than patience", "pytest.mark.timeout(5)"),
        ("a sleep", "asyncio.sleep(0.1)"),
        ("a sleep", "time.sleep(PAUSE)"),
        ("a look at a clock of the machine", "time.monotonic()"),
        ("a deadline of hypothesis", "settings(deadline=200)"),
        ("a deadline of hypothesis", "settings(suppress_health_check=[HealthCheck.function_scoped_fixture])"),
    ],
)
def test_each_rule_finds_what_it_forbids(rule: str, line: str) -> None:
    """A rule that finds nothing would look like tests that are right."""
    finds, _ = RULES[rule]
    assert list(finds(ast.parse(line)))


@pytest.mark.parametrize(
    "line", ["asyncio.timeout(PATIENCE_SECONDS)", "asyncio.sleep(0)", "'-'.join(words)", "settings()"]
)
def test_no_rule_finds_what_is_right(line: str) -> None:
    """Patience, letting others go on, and what only looks alike."""
    assert [call for finds, _ in RULES.values() for call in finds(ast.parse(line))] == []
