"""A dashboard as its command serves it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias

from fakes import nursery

Process: TypeAlias = "subprocess.Popen[str] | nursery.Process"
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
    serve = [*words, "--while-stdin-open"]
    with _forked(serve) if is_forked else _started(serve) as (said, process):
        found = ready.match(said.readline())
        assert found is not None
        yield found, process


@contextmanager
def _forked(words: list[str]) -> Iterator[tuple[IO[str], Process]]:
    with nursery.piped([nursery.PROGRAM, *words], stderr=_STDERR) as piped:
        yield piped.stdout, piped.process


@contextmanager
def _started(words: list[str]) -> Iterator[tuple[IO[str], Process]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "broker_common", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout, process
    finally:
        process.terminate()
        process.communicate()
