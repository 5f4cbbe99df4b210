"""Somebody who is refused hundreds of times: the log, the figures and the page stay as small as they were."""

from __future__ import annotations

import socket
from pathlib import Path

import httpx
import pytest
from fakes.dashboards import dashboard
from fakes.deployment import make, wait_until
from fakes.homes import address_of
from fakes.patience import PATIENCE_SECONDS

from broker_common.logs import MOST_REFUSALS
from broker_common.monitoring import MONITOR_FILE, read_figures

pytestmark = pytest.mark.process

KNOCKS = 5 * MOST_REFUSALS
REFUSED = "tripartite_connections_refused_total"


def knock(address: str) -> None:
    """Come without TLS, and be refused."""
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), PATIENCE_SECONDS) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n" * 4)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(4096):
            pass


def test_a_flood_of_refused_connections_is_counted_and_fills_nothing(tmp_path: Path) -> None:
    """Each is counted; the log has so many lines of them; metrics have one more line, and the page shows the number."""
    deployment = make(tmp_path / "deployment", population=10)
    home = deployment.home("census")
    with deployment.node("census") as node, dashboard(home, "census") as shown:
        address = address_of(home)
        knock(address)
        wait_until(lambda: read_figures(home).total(REFUSED) >= 1, "the first one is counted")
        before = (home / MONITOR_FILE).read_bytes()
        for _ in range(KNOCKS):
            knock(address)
        wait_until(lambda: read_figures(home).total(REFUSED) == KNOCKS + 1, "every one is counted")
        after = (home / MONITOR_FILE).read_bytes()
        assert after.count(b"\n") == before.count(b"\n")
        lines = [line for line in node.stderr.splitlines() if "connection refused" in line]
        # Whatever time it takes: each further minute begins with a line that says what the one before left out.
        minutes = 1 + sum("left_out" in line for line in lines)
        assert 0 < len(lines) <= minutes * MOST_REFUSALS
        with httpx.Client(base_url=shown.address) as client:
            text = client.get("/metrics").text
            # One for the reason, and one that is there from the start so that a rule sees it grow.
            assert text.count(REFUSED + "{") == 2
            answer = client.get("/", params={"key": shown.key})
            cookie = answer.headers["set-cookie"].partition(";")[0]
            page = client.get("/activity", headers={"cookie": cookie}).text
        assert f">{KNOCKS + 1}" in page
