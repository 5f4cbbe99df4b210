"""A command that kills itself, as the power would, at one durable step: `crashing_node.py STEP WHEN health serve --home ...`.

STEP is the kind of a log entry, or `answer` for the storing of a sealed answer, which is not logged; or one of `CALLS`, for
what is durable outside a journal's log; or one of `CALLS_FOR_A_QUESTION`, which count only while one is under way; or how a file's name ends (`.key`, `.people`, `.npz`), for the instant at which a whole
new file of that name takes its place. WHEN is `before` or `after` the commit of the transaction that holds it, or the call.
Everything else is the product as it is.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

# As pytest sees them: what tests share is imported as `fakes.NAME`.
sys.path.insert(0, str(Path(__file__).parents[1]))

from fakes.connections import WatchedConnection, connecting

from broker_common.cli import main
from broker_common.crypto.sample_bits import SampleBits
from broker_common.storage.loads import LoadFolder
from broker_common.storage.witnessing import Witnessing, WitnessStore
from census_node.ledger.samples import SampleFolder
from census_node.registry.rosters import RosterWriter
from census_node.release.publication import Publication
from census_node.release.slot_secrets import SlotSecrets
from researcher_node.answers.store import Answers
from researcher_node.study.record import Record

_ANSWER = "answer"
CALLS: dict[str, tuple[type, str]] = {
    "sample file": (SampleFolder, "write"),
    "wipe": (SampleFolder, "wipe"),
    "slot secrets": (SlotSecrets, "write"),
    "slot wipe": (SlotSecrets, "wipe"),
    "slot sweep": (SlotSecrets, "sweep"),
    "witness store": (WitnessStore, "put"),
    "sample sealed": (SampleBits, "seal"),
    "sample opened": (SampleBits, "unseal"),
    "roster file": (RosterWriter, "finish"),
    "load file": (Path, "replace"),
    "old loads": (LoadFolder, "forget_except"),
    "attempt": (Record, "assign"),
    "question": (Answers, "put"),
    "received": (Answers, "receive"),
    "refusal": (Answers, "refuse"),
}
# The same calls are made for noise slots, and for what peers say in between. The owner's `_journal` is the node's.
CALLS_FOR_A_QUESTION: dict[str, tuple[type, str]] = {
    "entrusted": (Publication, "entrust"),
    "shown": (Publication, "show"),
    # Cosignatures: of the other agency's log, by this one; and of our own, by the other one.
    "cosigned": (Witnessing, "cosign"),
    "cosignature": (Witnessing, "take"),
}


def _is_under_way(owner: Any) -> bool:
    """Whether a question is charged and not out, or its sample may have left and it is not settled: as either node sees it."""
    state = owner._journal.state
    # A question that waits for its roster is not under way: what is logged of that roster is cosigned as well.
    handed_over = [ticket for ticket in getattr(state, "open_tickets", ()) if state.tickets[ticket].manifest]
    return bool(handed_over or getattr(state, "unreleased", None))


def _die_at_call(owner: type, name: str, when: str, condition: Callable[[Any], bool]) -> None:
    call: Callable[..., Any] = getattr(owner, name)

    def called(*arguments: Any, **options: Any) -> Any:
        if not condition(arguments[0]):
            return call(*arguments, **options)
        if when == "before":
            _die()
        call(*arguments, **options)
        _die()

    setattr(owner, name, called)


def _die_at_commit(step: str, when: str) -> None:
    def dying(watched: WatchedConnection, statement: str) -> None:
        if statement == "COMMIT" and step in watched.stored:
            _die()

    sqlite3.connect = connecting(**{when: dying})


def _die_at_file(ending: str, when: str) -> None:
    replace = Path.replace

    def replacing(path: Path, target: Path) -> Path:
        is_the_step = target.name.endswith(ending)
        if is_the_step and when == "before":
            _die()
        replaced = replace(path, target)
        if is_the_step:
            _die()
        return replaced

    Path.replace = replacing  # type: ignore[assignment,method-assign]


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("a kill that leaves its process alive")


if __name__ == "__main__":
    if sys.argv[1] in CALLS:
        _die_at_call(*CALLS[sys.argv[1]], sys.argv[2], lambda _: True)
    elif sys.argv[1] in CALLS_FOR_A_QUESTION:
        _die_at_call(*CALLS_FOR_A_QUESTION[sys.argv[1]], sys.argv[2], _is_under_way)
    elif sys.argv[1].startswith("."):
        _die_at_file(*sys.argv[1:3])
    else:
        _die_at_commit(*sys.argv[1:3])
    main(sys.argv[3:])
