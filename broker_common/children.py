"""Processes of our own: how one that was started is ended."""

from __future__ import annotations

import asyncio
import contextlib


async def end_child(child: asyncio.subprocess.Process, seconds: float) -> None:
    """Tell a process to end; it is killed if it has not ended after so long."""
    if child.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        child.terminate()
    try:
        await asyncio.wait_for(child.wait(), seconds)
    except TimeoutError:
        child.kill()
        await child.wait()
