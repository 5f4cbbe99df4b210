"""A serving node's dashboard: a process beside it, which ends with it and is started again if it fails.

A process of its own, so that no page and no scrape takes the interpreter from a charge.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path

import structlog

from broker_common.dashboard.config import DashboardConfig
from broker_common.logs import log_stream

__all__ = ["dashboard_beside"]

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
            # What a node says on standard output is its ready line and nothing else. The dashboard's lines are whole: they go
            # where the node's own go, past the pipe that catches a library's.
            stdout=log_stream().fileno(),
            stderr=log_stream().fileno(),
            # A Ctrl-C in the terminal reaches the node, which ends its dashboard.
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        try:
            code = await child.wait()
        finally:
            await _end(child)
        _log.error("the dashboard has ended and is started again", code=code)
        await asyncio.sleep(_PAUSE_SECONDS)


async def _end(child: asyncio.subprocess.Process) -> None:
    if child.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        child.terminate()
    try:
        await asyncio.wait_for(child.wait(), _STOP_SECONDS)
    except TimeoutError:
        child.kill()
        await child.wait()
