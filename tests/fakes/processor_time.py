"""A limit on the processor time of what a test runs: how long it has to wait for a processor makes no difference."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TookTooLong(BaseException):
    """Not an Exception: no parser can take it for an error of its own."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise out of whatever computes for longer than this."""

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise TookTooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
