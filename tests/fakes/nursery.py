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
from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("tripartite")
_MOST_BYTES = 1 << 17
# Modules that commands import when they run.
_PRELOADED = (
    *("census_node.assembly", "health_node.assembly", "researcher_node.assembly", "researcher_node.answers.listing"),
    *("broker_common.dashboard.running", "census_node.operator.dashboard", "health_node.operator.dashboard"),
    *("deploy.local", "deploy.synthetic.registers"),
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
    words: Sequence[str | Path], stdout: int, stderr: int, *, cwd: Path | None = None, env: dict[str, str] | None = None
) -> Process:
    """Start `PROGRAM ...`, or `python script ...`, with nothing on standard input, and `env` besides our environment."""
    told, telling = socket.socketpair()
    environ = {**os.environ, **(env or {})}
    request = {"words": [str(word) for word in words], "cwd": str(cwd or Path.cwd()), "environ": environ}
    with telling, Path(os.devnull).open("rb") as nothing:
        fds = [nothing.fileno(), stdout, stderr, telling.fileno()]
        socket.send_fds(_nursery(), [json.dumps(request).encode()], fds)
    process = Process(words, told)
    _started[process.pid] = process
    return process


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
    """Fork for every request. Returns in each child, with its words."""
    woken, waking = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waking)
    telling: dict[int, int] = {}
    while True:
        waited: list[socket.socket | int] = [requests, woken]
        ready, _, _ = select.select(waited, [], [])
        if woken in ready:
            os.read(woken, _MOST_BYTES)
            _tell_ends(telling)
        if requests not in ready:
            continue
        content, fds, *_ = socket.recv_fds(requests, _MOST_BYTES, 4)
        if not content:
            os._exit(0)
        *standard, told = fds
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            requests.close()
            for fd in (woken, waking, told, *telling.values()):
                os.close(fd)
            return _forked(json.loads(content), standard)
        telling[pid] = told
        os.write(told, f"{pid}\n".encode())
        for fd in standard:
            os.close(fd)


def _tell_ends(telling: dict[int, int]) -> None:
    """Tell of every child that has ended, how."""
    while telling:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        told = telling.pop(pid)
        # The one who asked may be gone.
        with contextlib.suppress(BrokenPipeError):
            os.write(told, f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os.close(told)


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
    from babel.numbers import get_decimal_symbol  # noqa: PLC0415 - as below
    from click import Context  # noqa: PLC0415

    from broker_common.cli import program  # noqa: PLC0415

    # Kept by those who have read them once: the list of commands, and how numbers are written.
    program.list_commands(Context(program))
    for language in ("en_CA", "fr_CA"):
        get_decimal_symbol(language)
    for module in _PRELOADED:
        __import__(module)
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
