"""A dashboard as its command serves it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fakes import nursery
from fakes.nursery import PROGRAM

_STDERR = 2
_ADDRESS = re.compile(r"dashboard on (http://127\.0\.0\.1:\d+)/\?key=(\S+)")


@dataclass(frozen=True)
class Dashboard:
    """One dashboard's process, its address and its key."""

    address: str
    key: str
    process: nursery.Process

    @property
    def with_key(self) -> str:
        return f"{self.address}/?key={self.key}"


@contextmanager
def dashboard(home: Path, role: str, *, port: int = 0) -> Iterator[Dashboard]:
    """The dashboard of a home, as its command serves it; 0: on any free port."""
    with pages_of(_ADDRESS, role, "dashboard", "--home", str(home), "--port", str(port)) as (found, process):
        yield Dashboard(found[1], found[2], process)


@contextmanager
def pages_of(ready: re.Pattern[str], *words: str) -> Iterator[tuple[re.Match[str], nursery.Process]]:
    """A command that serves pages, and the line in which it says that it is ready."""
    with nursery.piped([PROGRAM, *words, "--while-stdin-open"], stderr=_STDERR) as piped:
        found = ready.match(piped.stdout.readline())
        assert found is not None
        yield found, piped.process
