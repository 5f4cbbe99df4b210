"""The operator log: one line an event on standard error, as text or as JSON, with the request that it belongs to.

No line holds a pseudonym, a criterion, a count or an answer: callers log codes, names of calls and ids, never contents.

Thousands of refusals a minute must not fill the disk: of refusals of one kind so many a minute have
lines, and the first line of the next minute says how many had none. The metrics count every one.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from traceback import extract_tb
from typing import Literal, TextIO, TypeAlias

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

_log = structlog.get_logger()
LogFormat: TypeAlias = Literal["text", "json"]
# The stream that lines go to, if one was given.
_streams: list[TextIO] = []
# Lines a minute about refusals of one kind.
MOST_REFUSALS = 60
_MINUTE = 60.0
# "standard error": what a library writes of strangers, where it is quoted.
_REFUSALS = frozenset({"refused", "connection refused", "standard error"})


class Sparing:
    """Leaves out lines about refusals that are too many. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # For each kind: the start of its minute, and the count since. Kinds are few: calls, codes and reasons.
        self._counts: dict[tuple[str, ...], tuple[float, int]] = {}

    def __call__(self, logger: WrappedLogger, name: str, line: EventDict) -> EventDict:
        """The line, if it is to be written."""
        del logger, name
        if line["event"] not in _REFUSALS:
            return line
        kind = tuple(str(line.get(each, "")) for each in ("event", "rpc", "code", "reason"))
        now = self._clock()
        with self._lock:
            begun, count = self._counts.get(kind, (now, 0))
            left_out = 0
            if now - begun >= _MINUTE:
                left_out, begun, count = max(0, count - MOST_REFUSALS), now, 0
            self._counts[kind] = begun, count + 1
        if count >= MOST_REFUSALS:
            raise structlog.DropEvent
        return {**line, "left_out": left_out} if left_out else line


def log_stream() -> TextIO:
    """Where lines go: standard error as it is now, unless another stream was given."""
    return _streams[0] if _streams else sys.stderr


def log_as(form: LogFormat, stream: TextIO | None = None) -> None:
    """Log in this form from here on, to standard error unless another stream is given."""
    _streams[:] = [] if stream is None else [stream]
    last: Processor = structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"])
    if form == "json":
        last = structlog.processors.JSONRenderer(sort_keys=True)
    structlog.configure(
        processors=[
            Sparing(),
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            last,
        ],
        # Standard error as it is when a line is written: our caller may have put another one in its place.
        logger_factory=lambda *_: structlog.PrintLogger(log_stream()),
        # Loggers are made when modules are imported, before a serving node says how it wants its log.
        cache_logger_on_first_use=False,
    )


def log_unforeseen(error: BaseException, **where: str) -> None:
    """Log a bug: its type and its place, never its message, which may quote what somebody asked or who they are."""
    place = [
        f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in extract_tb(error.__traceback__)
    ]
    _log.error("unforeseen", kind=type(error).__name__, place=place, **where)
