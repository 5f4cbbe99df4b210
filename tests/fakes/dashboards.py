"""A dashboard as its command serves it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from fakes import nursery

Process: TypeAlias = "subprocess.Popen[bytes] | nursery.Process"
_STDERR = 2
_ADDRESS = re.compile(r"dashboard on (http://127\.0\.0\.1:\d+)/\?key=(\S+)")


@dataclass(frozen=True)
class Dashboard:
    """One dashboard's process, its address and its key."""

    address: str
    key: str
    process: Process

    @property
    def with_key(self) -> str:
        return f"{self.address}/?key={self.key}"


@contextmanager
def dashboard(home: Path, role: str, *, port: int = 0, is_forked: bool = True) -> Iterator[Dashboard]:
    """The dashboard of a home, as its command serves it; 0: on any free port; not forked: with no memory but its own."""
    words = (role, "dashboard", "--home", str(home), "--port", str(port))
    with pages_of(_ADDRESS, *words, is_forked=is_forked) as (found, process):
        yield Dashboard(found[1], found[2], process)


@contextmanager
def pages_of(ready: re.Pattern[str], *words: str, is_forked: bool = True) -> Iterator[tuple[re.Match[str], Process]]:
    """A command that serves pages, and the line in which it says that it is ready."""
    reading, writing = os.pipe()
    with os.fdopen(reading, encoding="utf-8") as said:
        try:
            process: Process
            if is_forked:
                process = nursery.start([nursery.PROGRAM, *words], writing, _STDERR)
            else:
                process = subprocess.Popen(
                    [sys.executable, "-m", "broker_common", *words], stdin=subprocess.DEVNULL, stdout=writing
                )
        finally:
            os.close(writing)
        try:
            found = ready.match(said.readline())
            assert found is not None
            yield found, process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()
