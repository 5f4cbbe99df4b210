"""A node's own counters: stable names, few labels, whole files, and a silence that is noticed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fakes.clock import FakeClock

from broker_common.errors import REASONS
from broker_common.monitoring import MONITOR_FILE, Monitor, read_figures, refusals_by_code

# The handbook names them; alert rules rely on them.
NAMES = {
    "tripartite_answer_seconds_bucket",
    "tripartite_answer_seconds_count",
    "tripartite_answer_seconds_sum",
    "tripartite_answers_total",
    "tripartite_calls_total",
    "tripartite_connections_refused_total",
    "tripartite_peer_last_contact_timestamp_seconds",
    "tripartite_questions_in_hand",
    "tripartite_questions_waiting",
    "tripartite_started_timestamp_seconds",
    "tripartite_ticks_missed_total",
    "tripartite_written_timestamp_seconds",
}


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands still."""
    return FakeClock(5_000)


@pytest.fixture
def monitor(clock: FakeClock) -> Monitor:
    """A monitor that has counted one of everything."""
    made = Monitor("census", clock)
    made.called("Quote", "ok")
    made.called("Quote", "BUSY")
    made.called("Count", "BUSY")
    made.refused("HANDSHAKE_FAILED")
    made.answered(1.5)
    made.missed_tick()
    made.in_hand(3)
    made.heard_of_peer()
    return made


def test_what_is_counted_is_read_back(monitor: Monitor, tmp_path: Path) -> None:
    """The dashboard reads from the file what the node has counted."""
    monitor.write(tmp_path)
    figures = read_figures(tmp_path)
    assert refusals_by_code(figures) == {"BUSY": 2}
    assert figures.total("tripartite_calls_total") == 3
    assert figures.total("tripartite_answers_total") == 1
    assert figures.total("tripartite_questions_in_hand") == 3
    assert figures.total("tripartite_ticks_missed_total") == 1
    assert figures.total("tripartite_peer_last_contact_timestamp_seconds") == 5


def test_a_peer_that_was_never_heard_of_has_a_time(tmp_path: Path, clock: FakeClock) -> None:
    """That of the start: a metric that is missing fires no alert, and the peer is gone all the same."""
    Monitor("census", clock).write(tmp_path)
    assert read_figures(tmp_path).total("tripartite_peer_last_contact_timestamp_seconds") == clock() / 1000


def test_names_are_those_of_the_handbook(monitor: Monitor, tmp_path: Path) -> None:
    """None is added, renamed or lost unseen."""
    monitor.write(tmp_path)
    names = {name for name, _, _ in read_figures(tmp_path).samples if not name.endswith("_created")}
    assert names == NAMES


def test_no_label_names_anybody(monitor: Monitor, tmp_path: Path) -> None:
    """Roles, methods, outcomes, reasons and the bounds of buckets are all that there is."""
    monitor.write(tmp_path)
    labels = {name for _, pairs, _ in read_figures(tmp_path).samples for name, _ in pairs}
    assert labels <= {"role", "method", "outcome", "reason", "le"}


def test_a_process_that_falls_silent_is_noticed(monitor: Monitor, tmp_path: Path, clock: FakeClock) -> None:
    """Figures that are no longer written are those of a process that is gone or stuck."""
    monitor.write(tmp_path)
    figures = read_figures(tmp_path)
    assert not figures.is_stale(clock() + 10_000)
    assert figures.is_stale(clock() + 10_001)


def test_a_home_that_was_never_served_has_no_figures(tmp_path: Path) -> None:
    """Nothing is an empty page and counts as silence."""
    figures = read_figures(tmp_path)
    assert (figures.text, figures.samples, figures.is_stale(0)) == (b"", (), True)


def test_the_file_is_whole_and_for_the_operator(monitor: Monitor, tmp_path: Path) -> None:
    """Replaced in one step, readable by nobody else; a half-written one is never read."""
    monitor.write(tmp_path)
    monitor.write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [MONITOR_FILE]
    assert (tmp_path / MONITOR_FILE).stat().st_mode & 0o077 == 0


def test_help_texts_end_as_sentences(monitor: Monitor, tmp_path: Path) -> None:
    """A reader who looks a metric up reads a sentence."""
    monitor.write(tmp_path)
    text = (tmp_path / MONITOR_FILE).read_text()
    helps = re.findall(r"^# HELP (tripartite_\w+) (.*)$", text, re.MULTILINE)
    assert helps
    assert all(sentence.endswith(".") for _, sentence in helps)


def test_a_flood_of_refusals_leaves_the_file_as_it_is(monitor: Monitor, tmp_path: Path) -> None:
    """Ten thousand refusals change digits; there is one line for a call and a code, and codes are those of the handbook."""
    for code in REASONS:
        monitor.called("Quote", code)
    monitor.write(tmp_path)
    before = (tmp_path / MONITOR_FILE).read_bytes()
    for _ in range(100):
        for code in REASONS:
            monitor.called("Quote", code)
            monitor.refused("HANDSHAKE_FAILED")
    monitor.write(tmp_path)
    after = (tmp_path / MONITOR_FILE).read_bytes()
    assert after.count(b"\n") == before.count(b"\n")
    assert len(after) < 1.1 * len(before)
    assert {labels["outcome"] for labels, _ in read_figures(tmp_path).values("tripartite_calls_total")} <= {
        "ok",
        *REASONS,
    }
