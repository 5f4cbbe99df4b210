"""How long the parts of one query take, for the operator who tunes a node. Nothing is measured unless its operator asks for it.

    with recording(report):              around one query
        with span("lookup"): ...         around a piece of its work, in any thread

A span may be entered many times: its times are added up. Spans may overlap, so that their sum is no duration. SECURITY: the length of
a span follows the noise, where noise is drawn, and is finer than ticks; the report stays with the operator of the node.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import structlog

_log = structlog.get_logger()
Report = Callable[[Mapping[str, float]], object]
"""Called once, with the milliseconds of each span."""


class _Record:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.milliseconds: dict[str, float] = {}

    def add(self, name: str, milliseconds: float) -> None:
        with self._lock:
            self.milliseconds[name] = self.milliseconds.get(name, 0.0) + milliseconds


# Threads that a query's work is handed to (`asyncio.to_thread`) see the record of their query.
_record: ContextVar[_Record | None] = ContextVar("tracing", default=None)


@contextmanager
def recording(report: Report | None) -> Iterator[None]:
    """Measure the spans of the block, with "total" for all of it; without a `report` nothing is measured."""
    if report is None:
        yield
        return
    record = _Record()
    token = _record.set(record)
    started = time.perf_counter()
    try:
        yield
    finally:
        _record.reset(token)
        record.add("total", 1000 * (time.perf_counter() - started))
        report(record.milliseconds)


@contextmanager
def span(name: str) -> Iterator[None]:
    """Count the block's time to a span of the query that is being recorded, if one is."""
    record = _record.get()
    if record is None:
        yield
        return
    started = time.perf_counter()
    try:
        yield
    finally:
        record.add(name, 1000 * (time.perf_counter() - started))


def log_spans(milliseconds: Mapping[str, float]) -> None:
    """Log how long the spans of a query took. SECURITY: only where the operator asked for it."""
    _log.info("stages", **{name: round(each, 3) for name, each in milliseconds.items()})
