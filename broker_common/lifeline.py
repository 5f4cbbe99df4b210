"""A process that ends with its parent: standard input is the lifeline."""

from __future__ import annotations

import os
import signal
import sys
import threading

__all__ = ["watch_lifeline"]

_PIECE = 4096


def watch_lifeline() -> None:
    """Stop this process when standard input ends."""
    threading.Thread(target=_stop_at_end_of_input, daemon=True).start()


def _stop_at_end_of_input() -> None:
    # A parent that dies, however it dies, closes the pipe: no node is left behind holding a port.
    while os.read(sys.stdin.fileno(), _PIECE):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
