"""The operator log stays readable, and the disk free, when somebody is refused thousands of times a minute."""

from __future__ import annotations

import io
from typing import Any

import pytest
import structlog

from broker_common.logs import MOST_REFUSALS, Sparing, log_as


class Lines:
    """Lines that a limiter lets through, at times that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.sparing = Sparing(lambda: self.now)

    def write(self, event: str, **fields: Any) -> dict[str, Any] | None:
        try:
            return dict(self.sparing(None, "info", {"event": event, **fields}))
        except structlog.DropEvent:
            return None


@pytest.fixture
def lines() -> Lines:
    """A limiter that has seen nothing."""
    return Lines()


@pytest.mark.parametrize(
    ("event", "fields"), [("refused", {"rpc": "/Quote", "code": "BUSY"}), ("connection refused", {"reason": "X"})]
)
def test_a_flood_of_refusals_has_so_many_lines_a_minute(lines: Lines, event: str, fields: dict[str, str]) -> None:
    """Five thousand a minute for five minutes; each minute's first line says how many the minute before left out."""
    said = []
    for minute in range(5):
        lines.now = 60.0 * minute
        said.append([line for _ in range(5000) if (line := lines.write(event, **fields)) is not None])
    assert [len(each) for each in said] == [MOST_REFUSALS] * 5
    assert [each[0].get("left_out") for each in said] == [None, *[5000 - MOST_REFUSALS] * 4]
    assert not any("left_out" in line for each in said for line in each[1:])


def test_a_flood_hides_no_other_line(lines: Lines) -> None:
    """Another code, another call, an answer, a problem: each of them is written."""
    for _ in range(5000):
        lines.write("refused", rpc="/Quote", code="BUSY")
    assert lines.write("refused", rpc="/Quote", code="BUSY") is None
    assert lines.write("refused", rpc="/Quote", code="TICKET_INVALID")
    assert lines.write("refused", rpc="/Submit", code="BUSY")
    assert lines.write("connection refused", reason="BUSY")
    for event in ("answered", "problem", "an action was refused at the dashboard"):
        assert all(lines.write(event) for _ in range(200))


def test_the_operator_log_is_written_through_the_limiter() -> None:
    """As nodes set it up."""
    before = structlog.get_config()
    stream = io.StringIO()
    try:
        log_as("json", stream)
        for _ in range(1000):
            structlog.get_logger().info("connection refused", reason="HANDSHAKE_FAILED")
        structlog.get_logger().info("answered")
    finally:
        structlog.configure(**before)
    assert stream.getvalue().count("HANDSHAKE_FAILED") == MOST_REFUSALS
    assert stream.getvalue().count("answered") == 1
