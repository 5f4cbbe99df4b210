"""Durable steps that come at the same time, in one transaction.

A commit costs as much for ten entries as for one: the flush, the head with its signature, and handing over to a thread. Nobody
waits so that others may come along: whatever has come while one transaction was under way is the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar

from broker_common.errors import BrokerError
from broker_common.storage.journal import Journal, StateT

ResultT = TypeVar("ResultT")
ParametersT = ParamSpec("ParametersT")


class Writer:
    """Writes to one journal from one event loop."""

    def __init__(self, journal: Journal[StateT]) -> None:
        self._journal = journal
        self._waiting: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def write(
        self, step: Callable[ParametersT, ResultT], /, *args: ParametersT.args, **kwargs: ParametersT.kwargs
    ) -> ResultT:
        """The result of `step`, once its transaction is durable; raises its error.

        A step may be done again, from the beginning, if another one of its transaction has failed.
        """
        done: asyncio.Future[ResultT] = asyncio.get_running_loop().create_future()
        self._waiting.append((partial(copy_context().run, step, *args, **kwargs), done))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        return await done

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                steps, self._waiting = self._waiting, []
                outcomes = await asyncio.to_thread(self._write, [step for step, _ in steps])
                for (_, done), (error, result) in zip(steps, outcomes, strict=True):
                    if done.done():
                        # Nobody waits for it any more.
                        continue
                    if error is None:
                        done.set_result(result)
                    else:
                        done.set_exception(error)
        finally:
            self._writing = None

    def _write(self, steps: Sequence[Callable[[], Any]]) -> list[tuple[Exception | None, Any]]:
        """The outcome of each step: its error, if any, and its result."""
        has_begun = False
        try:
            with self._journal.transaction():
                has_begun = True
                results = [step() for step in steps]
        except Exception as error:  # noqa: BLE001 - raised again for the waiter
            is_of_all = not has_begun or (isinstance(error, BrokerError) and error.stops_node)
            if len(steps) == 1 or is_of_all:
                return [(error, None)] * len(steps)
            # CRASH: nothing of the transaction is left. The step that failed fails by itself, and the others stand.
            return [outcome for step in steps for outcome in self._write([step])]
        return [(None, result) for result in results]
