"""Processes of the program that need not import it: one process that has imported everything forks for each of them.

Importing is two thirds of what a command costs, and tests start hundreds. All else is as if the program had been started:
each has memory, files, signals, a session and an exit code of its own. `tripartite up` and `tripartite demo` start the
installed program as users do, and so does a test that looks at a command line or at an environment.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TextIO

import click

PROGRAM = Path(sys.executable).with_name("tripartite")
_MOST_BYTES = 1 << 17
# Modules that commands import when they run.
_PRELOADED = (
    "broker_common.__main__",
    "broker_common.audit.on_site.walk",
    "broker_common.dashboard.running",
    "census_node.assembly",
    "census_node.operator.dashboard",
    "deploy.local",
    "deploy.synthetic.registers",
    "health_node.assembly",
    "health_node.operator.dashboard",
    "researcher_node.answers.listing",
    "researcher_node.answers.own_use",
    "researcher_node.asking.quoting",
    "researcher_node.asking.warnings",
    "researcher_node.assembly",
    "researcher_node.study.opened",
    "researcher_node.study.report",
    "researcher_node.trust.checking",
)


class Process:
    """A forked process as tests use it, with the words of `subprocess.Popen`."""

    def __init__(self, words: Sequence[str | Path], told: socket.socket) -> None:
        self.args = [str(word) for word in words]
        self._told = told.makefile("r", encoding="ascii")
        self._socket = told
        self.pid = int(self._told.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._socket], [], [], timeout)[0]:
            self.returncode = int(self._told.readline())
            self._told.close()
            self._socket.close()
        return self.returncode


_started: dict[int, Process] = {}


def start(
    words: Sequence[str | Path],
    stdout: int,
    stderr: int,
    *,
    stdin: int | None = None,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
) -> Process:
    """Start `PROGRAM ...`, or `python script ...`, with nothing on standard input unless told, and `env` besides our environment."""
    told, telling = socket.socketpair()
    environ = {**os.environ, **(env or {})}
    request = {"words": [str(word) for word in words], "cwd": str(cwd or Path.cwd()), "environ": environ}
    with telling, Path(os.devnull).open("rb") as nothing:
        fds = [nothing.fileno() if stdin is None else stdin, stdout, stderr, telling.fileno()]
        socket.send_fds(_nursery(), [json.dumps(request).encode()], fds)
    process = Process(words, told)
    _started[process.pid] = process
    return process


@dataclass(frozen=True)
class Piped:
    """A process and the ends of its pipes that are ours; its standard error only if it was not sent elsewhere."""

    process: Process
    stdin: TextIO
    stdout: TextIO
    stderr: TextIO


@contextmanager
def piped(words: Sequence[str | Path], *, stderr: int | None = None) -> Iterator[Piped]:
    """A process with its standard input open; it is told to end, and has ended, with the block."""
    pipes = [os.pipe() for _ in range(3)]
    (reading, typing), *said = pipes
    ours = [os.fdopen(typing, "w", encoding="utf-8"), *(os.fdopen(ours, encoding="utf-8") for ours, _ in said)]
    theirs = [reading, *(writing for _, writing in said)]
    try:
        try:
            process = start(words, theirs[1], theirs[2] if stderr is None else stderr, stdin=reading)
        finally:
            for fd in theirs:
                os.close(fd)
        try:
            yield Piped(process, *ours)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()
    finally:
        for file in ours:
            file.close()


def running() -> list[Process]:
    """All that were started here and have not ended; their command lines are those of the nursery."""
    for pid, process in list(_started.items()):
        if process.poll() is not None:
            del _started[pid]
    return list(_started.values())


@cache
def _nursery() -> socket.socket:
    """Where to send requests. It ends with this process, however that ends: it alone holds this end."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        # -P: this folder is not searched for modules. A session of its own: what ends the test run does not end it half way.
        words = [sys.executable, "-P", __file__, str(its.fileno())]
        # The usual umask, whatever a test that runs just then has set: what is forked later shares by it.
        process = subprocess.Popen(words, pass_fds=[its.fileno()], start_new_session=True, umask=0o022)

    def close() -> None:
        ours.close()
        process.wait()

    atexit.register(close)
    return ours


# --- the nursery ---------------------------------------------------------------------------------------------------------


def _serve(requests: socket.socket) -> list[str]:
    """Fork for every request, and tell how each process ended. Returns in each child, with its words."""
    # Processes that have not ended: each has its pid and where to tell, by what becomes readable when it ends.
    running: dict[int, tuple[int, int]] = {}
    while True:
        ready = select.select([requests.fileno(), *running], [], [])[0]
        for end in running.keys() & set(ready):
            _tell_end(end, *running.pop(end))
        if requests.fileno() not in ready:
            continue
        content, fds, *_ = socket.recv_fds(requests, _MOST_BYTES, 4)
        if not content:
            os._exit(0)
        *standard, telling = fds
        child = os.fork()
        if child == 0:
            requests.close()
            for fd in (telling, *running, *(told for _, told in running.values())):
                os.close(fd)
            return _forked(json.loads(content), standard)
        for fd in standard:
            os.close(fd)
        _tell(telling, child)
        running[os.pidfd_open(child)] = (child, telling)


def _tell_end(end: int, child: int, telling: int) -> None:
    """Tell the exit code of a process that has ended."""
    os.close(end)
    _tell(telling, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os.close(telling)


def _tell(telling: int, number: int) -> None:
    # The one who asked may be gone.
    with contextlib.suppress(ConnectionError):
        os.write(telling, f"{number}\n".encode())


def _forked(request: dict[str, object], standard: list[int]) -> list[str]:
    """Be a process of its own, with the files, folder and environment that were asked for."""
    os.setsid()
    for number, fd in enumerate(standard):
        os.dup2(fd, number)
        os.close(fd)
    # The interpreter's own are of the files that it began with.
    sys.stdin = sys.__stdin__ = os.fdopen(0, encoding="utf-8", closefd=False)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", encoding="utf-8", closefd=False)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # type: ignore[misc]
    os.chdir(str(request["cwd"]))
    os.environ.clear()
    os.environ.update(request["environ"])  # type: ignore[call-overload]
    words = request["words"]
    assert isinstance(words, list)
    return words


def _read_ahead() -> None:
    """Read what every command reads once: which commands are installed, and the marks and words of both languages."""
    # Imported here: not where tests import this module.
    from broker_common.cli import program  # noqa: PLC0415
    from broker_common.language import LANGUAGES, language  # noqa: PLC0415

    program.list_commands(click.Context(program))
    for code in LANGUAGES:
        language(code).exact("0")


def _end_at_once(codes: list[int]) -> None:
    """The last of all that is done at exit: taking the modules apart takes longer than most commands."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(codes[-1])


def _main() -> None:
    # The exit code of an exception that nobody catches; what is registered first is called last.
    codes = [1]
    atexit.register(_end_at_once, codes)
    for command in entry_points(group="tripartite.commands"):
        command.load()
    for module in _PRELOADED:
        __import__(module)
    _read_ahead()
    gc.freeze()
    words = _serve(socket.socket(fileno=int(sys.argv[1])))
    try:
        _run(words)
        codes.append(0)
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        codes.append(ended.code or 0)


def _run(words: list[str]) -> None:
    """Be what was asked for."""
    if words[0] != sys.executable:
        sys.argv = words
        from broker_common.__main__ import main  # noqa: PLC0415 - not where tests import this module

        main()
        return
    sys.argv = words[1:]
    sys.path.insert(0, str(Path(words[1]).parent))
    runpy.run_path(words[1], run_name="__main__")


if __name__ == "__main__":
    _main()
