"""The one place that reads the wall clock; everything else takes a clock as a parameter."""

from __future__ import annotations

import time

__all__ = ["system_clock"]


def system_clock() -> int:
    """Milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000
