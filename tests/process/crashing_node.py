"""A command that kills itself, as the power would, at one durable step: `crashing_node.py STEP WHEN health serve --home ...`.

STEP is the kind of a log entry, or `answer` for the storing of a sealed answer, which is not logged; WHEN is `before` or
`after` the commit of the transaction that holds it. Or STEP is how a file's name ends (`.key`, `.duckdb`, `.npz`), and
WHEN is before or after a whole new file of that name takes its place. Everything else is the product as it is.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from broker_common.cli import main
from broker_common.storage.journal import Journal
from broker_common.tlog.entries import Entry, Event
from broker_common.tlog.replay import LogState
from census_node.outbox import Outbox, WaitingAnswer

_ANSWER = "answer"


def _die_at(step: str, when: str) -> None:
    append, commit, put_answer, replace = Journal._append, Journal._commit, Outbox.put_answer, Path.replace
    in_transaction: set[str] = set()

    def appending(journal: Journal[LogState], event: Event, not_before_ms: int) -> Entry:
        in_transaction.add(type(event).__struct_config__.tag)  # type: ignore[arg-type]
        return append(journal, event, not_before_ms)

    def putting(outbox: Outbox, answer: WaitingAnswer) -> None:
        in_transaction.add(_ANSWER)
        put_answer(outbox, answer)

    def committing(journal: Journal[LogState]) -> None:
        is_the_step = step in in_transaction
        in_transaction.clear()
        if is_the_step and when == "before":
            _die()
        commit(journal)
        if is_the_step:
            _die()

    def replacing(path: Path, target: Path) -> Path:
        is_the_step = step.startswith(".") and target.name.endswith(step)
        if is_the_step and when == "before":
            _die()
        replaced = replace(path, target)
        if is_the_step:
            _die()
        return replaced

    Path.replace = replacing  # type: ignore[assignment,method-assign]
    Journal._append = appending  # type: ignore[assignment,method-assign]
    Journal._commit = committing  # type: ignore[assignment,method-assign]
    Outbox.put_answer = putting  # type: ignore[assignment,method-assign]


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    _die_at(*sys.argv[1:3])
    main(sys.argv[3:])
