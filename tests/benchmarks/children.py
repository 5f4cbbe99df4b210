"""Measurements that take a process of their own: the other end of a connection, or what must not share our memory."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType


def module(name: str, *words: str | Path) -> list[str]:
    """The command that runs a module of this package; with `environment`."""
    return [sys.executable, "-m", f"benchmarks.{name}", *map(str, words)]


def environment() -> dict[str, str]:
    """Ours, and where this package is found."""
    places = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places)}


def end_when_told() -> None:
    """Let SIGTERM end this process as Ctrl-C does: with everything that it started."""

    def end(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
