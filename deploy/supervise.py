"""`up`: the three nodes as child processes, until a signal. Children stop with their parent, however it ends.

A child that was killed by a signal is started again; one that stopped by itself said why, and stays down, because a node
that refuses to serve must not be made to try again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Self

from broker_common.children import end_child
from broker_common.errors import ExitCode, InternalError, InvalidRequestError
from broker_common.language import said
from deploy import texts

ROLES = ("census", "health", "researcher")
_RESTART_SECONDS = 0.5
_STOP_SECONDS = 20.0
_READY_SECONDS = 120.0
# A terminal shows so many lines at once.
_SHOWN_LINES = 40


def told_to_stop() -> asyncio.Event:
    """Set on SIGINT or SIGTERM from here on."""
    told = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    return told


@contextmanager
def node_log(file: Path, say: Callable[[str], None]) -> Iterator[BinaryIO]:
    """Where nodes log to instead of the terminal; its end is said where something failed."""
    try:
        with file.open("ab") as log:
            yield log
    except Exception as error:
        # A wrong wish is no fault of a node.
        if not isinstance(error, InvalidRequestError) or error.code != "INVALID_VALUE":
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()[-_SHOWN_LINES:]
            say("\n".join([said(texts.NODES_LOGGED), *lines]))
        raise


class Nodes:
    """The nodes of one deployment. Use as an async context: on entry all are ready, on exit all have stopped.

    The nodes' log goes to our stderr, or into `log`.
    """

    def __init__(self, directory: Path, *, say: Callable[[str], None], log: BinaryIO | None = None) -> None:
        self._directory = directory
        self._say = say
        self._log = log
        self._children: dict[str, asyncio.subprocess.Process] = {}
        self._watchers: list[asyncio.Task[None]] = []
        self._stopping = False

    async def __aenter__(self) -> Self:
        try:
            async with asyncio.timeout(_READY_SECONDS):
                for role in ROLES:
                    self._say(await self._start(role))
        except TimeoutError:
            await self.stop()
            raise InternalError("INTERNAL") from None
        except BaseException:
            await self.stop()
            raise
        self._watchers = [asyncio.create_task(self._watch(role)) for role in ROLES]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Stop every child, politely first. The health node before the others: what it has under way needs them to end."""
        self._stopping = True
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        for roles in (("health",), ("census", "researcher")):
            await asyncio.gather(
                *(end_child(self._children[role], _STOP_SECONDS) for role in roles if role in self._children)
            )

    async def _start(self, role: str) -> str:
        """Start a node; gives its ready line."""
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "broker_common",
            role,
            "serve",
            "--home",
            str(self._directory / role),
            "--while-stdin-open",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._log,
            # A Ctrl-C in the terminal reaches us alone; the children are told by us.
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self._children[role] = child
        assert child.stdout is not None  # noqa: S101 - it is a pipe
        line = await child.stdout.readline()
        if not line:
            raise ChildFailedError(role, await child.wait())
        return line.decode().rstrip("\n")

    async def _watch(self, role: str) -> None:
        while not self._stopping:
            code = await self._children[role].wait()
            if code >= 0:
                self._say(said(texts.NODE_STOPPED if code == 0 else texts.NODE_ENDED, role=said(role), code=code))
                return
            self._say(said(texts.NODE_KILLED, role=said(role), signal=-code))
            await asyncio.sleep(_RESTART_SECONDS)
            if not await self._restart(role):
                return

    async def _restart(self, role: str) -> bool:
        """Start a node again; False if it stopped by itself."""
        while True:
            try:
                await self._start(role)
            except ChildFailedError as error:
                if not error.may_pass:
                    self._say(said(texts.NODE_ENDED, role=said(role), code=error.child_code))
                    return False
                await asyncio.sleep(_RESTART_SECONDS)
            else:
                self._say(said(texts.NODE_BACK, role=said(role)))
                return True


class ChildFailedError(InternalError):
    """A node ended before it was ready; it has said why on stderr."""

    def __init__(self, role: str, code: int) -> None:
        super().__init__("INTERNAL")
        self.role = role
        # The node's own exit code tells more than ours; a node that was killed has none.
        self.child_code = code if code > 0 else int(ExitCode.INTERNAL)
        # Killed, or somebody else is serving the home or holding its port just now.
        self.may_pass = code < 0 or code == ExitCode.REFUSED
