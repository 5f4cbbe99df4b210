"""A serving node's dashboard: a process beside it, which ends with it and is started again if it fails.

A process of its own, so that no page and no scrape takes the interpreter from a charge.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import structlog

from broker_common.agency.config import DashboardConfig
from broker_common.children import end_child
from broker_common.dashboard.log_picture import WARN_CERTIFICATE_MS, Certificate, certificates_of
from broker_common.logs import log_stream
from broker_common.storage.journal import Journal, StateT
from broker_common.values import Clock

_log = structlog.get_logger()
# After a dashboard that failed.
_PAUSE_SECONDS = 5.0
# For a dashboard to end that was told to.
_STOP_SECONDS = 5.0


async def dashboard_beside(role: str, home: Path, config: DashboardConfig) -> None:
    """Keep the dashboard of a home running until cancelled; nothing is run where none is configured, or a service of its own runs it."""
    while config.address and config.with_node:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "broker_common",
            role,
            "dashboard",
            "--home",
            str(home),
            "--configured",
            "--while-stdin-open",
            stdin=asyncio.subprocess.PIPE,
            # A node's standard output is its ready line and nothing else. The dashboard's lines are whole: they go where the
            # node's own go, past the pipe that catches a library's.
            stdout=log_stream().fileno(),
            stderr=log_stream().fileno(),
            # A Ctrl-C in the terminal reaches the node, which ends its dashboard.
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        try:
            code = await child.wait()
        finally:
            await end_child(child, _STOP_SECONDS)
        _log.error("the dashboard has ended and is started again", code=code)
        await asyncio.sleep(_PAUSE_SECONDS)


# Between two lines about the same certificate.
_DAY_MS = 86_400_000
# Between looks: an end is said within a minute. A look reads what the node has in memory.
_LOOK_SECONDS = 30.0
# A certificate, whether it has ended, and the day on which that was said.
_Said: TypeAlias = tuple[Certificate, bool, int]


async def watch_certificates(journal: Journal[StateT], clock: Clock) -> None:
    """Log certificates that end soon or have ended, once a day each, until cancelled."""

    def look() -> tuple[Certificate, ...]:
        with journal.reading() as state:
            return certificates_of(state)

    said: frozenset[_Said] = frozenset()
    while True:
        said = say_certificate_ends(said, await journal.glance(look), clock())
        await asyncio.sleep(_LOOK_SECONDS)


def say_certificate_ends(said: frozenset[_Said], certificates: Iterable[Certificate], now_ms: int) -> frozenset[_Said]:
    """Log what was not said today; gives what is said now."""
    ending = [each for each in certificates if each.end_ms - now_ms < WARN_CERTIFICATE_MS]
    found = {(each, each.end_ms <= now_ms): now_ms // _DAY_MS for each in ending}
    for (each, has_ended), day in found.items():
        if (each, has_ended, day) in said:
            continue
        tell, event = (
            (_log.error, "a certificate has ended") if has_ended else (_log.warning, "a certificate ends soon")
        )
        tell(
            event,
            party="this node" if each.is_own else f"{each.role} {each.name}",
            ends=datetime.fromtimestamp(each.end_ms / 1000, UTC).isoformat(timespec="seconds"),
            days=max(0, each.end_ms - now_ms) // _DAY_MS,
            remedy="tripartite keys rotate tls" if each.is_own else "that party renews it and hands over its card",
        )
    return frozenset((each, has_ended, day) for (each, has_ended), day in found.items())
