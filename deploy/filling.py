"""Making up both agencies' people and loading them: of many people both at once, each in a process of its own.

For few people a process would take longer than the work, so the same work is done here, one part after the other. The
first failure ends the other process and is raised here; what is left behind is for the caller to remove. A process
whose parent is gone ends when it next has something to say.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Final, TypeAlias

from broker_common.errors import BrokerError, InternalError, error_for
from broker_common.values import Linkage
from census_node.assembly import CensusHome
from deploy.synthetic.population import write_source
from health_node.assembly import HealthHome

_ROLES: Final = ("health", "census")
_MAKING_UP, _LOADING = "Making up people", "Loading health data and the census registry"
# Fewer are made up and loaded before a process has started.
_WORTH_A_PROCESS = 100_000
# How finely progress is told.
_STEPS = 1000
_END_SECONDS = 5.0

Report = Callable[[str], Callable[[int, int], None]]
Said = Callable[[str, int, int], None]
# A process says how far it is (what, done, total), that it is done (None), or its error.
_Message: TypeAlias = tuple[str, int, int] | Exception | tuple[str, dict[str, str]] | None


@dataclass(frozen=True, slots=True)
class Filling:
    """Which people, and where they go: into `people.csv` of both homes, and from there into the nodes' stores."""

    directory: Path
    population: int
    seed: int
    release: str
    linked_by: Linkage = "complementary"


def fill(filling: Filling, report: Report) -> None:
    """Write both sources and load them.

    Raises:
        InvalidRequestError, InternalError: as a home's `load`; INTERNAL, a process ended without a word.
    """
    progress = _Together(report)
    if filling.population < _WORTH_A_PROCESS:
        for role in _ROLES:
            _fill_one(filling, role, partial(progress, role))
        return
    with _processes(filling) as running:
        while running:
            for connection in wait(list(running)):
                assert isinstance(connection, Connection)  # noqa: S101 - nothing else is waited for
                role = running[connection]
                message = _received(connection)
                if message is None:
                    del running[connection]
                else:
                    progress(role, *message)


class _Together:
    """Both agencies' progress as one line: that of the slower one."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._shares: dict[str, dict[str, int]] = {}
        self._lines: dict[str, Callable[[int, int], None]] = {}

    def __call__(self, role: str, what: str, done: int, total: int) -> None:
        shares = self._shares.setdefault(what, {})
        shares[role] = _STEPS * done // max(total, 1)
        if len(shares) == len(_ROLES):
            if what not in self._lines:
                self._lines[what] = self._report(what)
            self._lines[what](min(shares.values()), _STEPS)


def _fill_one(filling: Filling, role: str, say: Said) -> None:
    """One agency's part."""
    home = filling.directory / role
    source = home / "people.csv"
    # SECURITY: records of people are for their owner alone, from the first byte on.
    source.touch(mode=0o600)
    try:
        write_source(
            role,
            source,
            population=filling.population,
            seed=filling.seed,
            linked_by=filling.linked_by,
            progress=partial(say, _MAKING_UP),
        )
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InternalError("STORE_FAILED") from error
    node = HealthHome(home) if role == "health" else CensusHome(home)
    node.load(source, filling.release, progress=partial(say, _LOADING))


@contextmanager
def _processes(filling: Filling) -> Iterator[dict[Connection, str]]:
    """Both agencies' parts under way, by what each is heard through; none is left in the end."""
    # Not forked: a fork of a process with threads may stop for ever.
    context = multiprocessing.get_context("spawn")
    children: list[SpawnProcess] = []
    running: dict[Connection, str] = {}
    try:
        for role in _ROLES:
            ours, theirs = context.Pipe(duplex=False)
            running[ours] = role
            child = context.Process(target=_in_process, args=(filling, role, theirs), daemon=True)
            child.start()
            theirs.close()
            children.append(child)
        yield dict(running)
    finally:
        for child in children:
            child.terminate()
        for child in children:
            child.join(_END_SECONDS)
            if child.is_alive():
                child.kill()
                child.join()
        for connection in running:
            connection.close()


def _in_process(filling: Filling, role: str, connection: Connection) -> None:
    # A Ctrl-C in the terminal reaches our parent too, which ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def say(what: str, done: int, total: int) -> None:
        connection.send((what, done, total))

    message: _Message = None
    try:
        _fill_one(filling, role, say)
    except BrokenPipeError:
        # Nobody is there any more.
        return
    except BrokerError as error:
        message = (error.code, error.details)
    except (OSError, ValueError) as error:
        message = error
    connection.send(message)


def _received(connection: Connection) -> tuple[str, int, int] | None:
    """How far a process is, or None once it is done; what went wrong in it is raised."""
    try:
        message: _Message = connection.recv()
    except EOFError:
        raise InternalError("INTERNAL") from None
    if isinstance(message, Exception):
        raise message
    if message is None:
        return None
    if isinstance(message[1], Mapping):
        code, details = message[0], message[1]
        raise error_for(code, details)
    return message
