"""A dashboard as its command serves it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_ADDRESS = re.compile(r"dashboard on (http://127\.0\.0\.1:\d+)/\?key=(\S+)")


@dataclass(frozen=True)
class Dashboard:
    """One dashboard's process, its address and its key."""

    address: str
    key: str
    process: subprocess.Popen[str]

    @property
    def with_key(self) -> str:
        return f"{self.address}/?key={self.key}"


@contextmanager
def dashboard(home: Path, role: str, *, port: int = 0) -> Iterator[Dashboard]:
    """The dashboard of a home, as its command serves it; 0: on any free port."""
    with pages_of(_ADDRESS, role, "dashboard", "--home", str(home), "--port", str(port)) as (found, process):
        yield Dashboard(found[1], found[2], process)


@contextmanager
def pages_of(ready: re.Pattern[str], *words: str) -> Iterator[tuple[re.Match[str], subprocess.Popen[str]]]:
    """A command that serves pages, and the line in which it says that it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-m", "broker_common", *words, "--while-stdin-open"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = ready.match(process.stdout.readline())
        assert found is not None
        yield found, process
    finally:
        process.terminate()
        process.communicate()
