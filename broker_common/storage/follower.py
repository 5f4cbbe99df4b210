"""Following a journal from outside: the same fold as replay, read only, published as immutable views.

A follower has a connection of its own and takes no lock that a charge needs. It reads entries in batches, so that the first
fold of a long log shows its progress, and publishes a new view when it has read all that there is and
after nothing else that a node writes. A view never changes after it was published; any number of readers may hold one.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeAlias, TypeVar

from broker_common.errors import BrokerError, InternalError
from broker_common.storage.database import Database
from broker_common.storage.journal import store_errors
from broker_common.tlog.entries import Entry, parse_entry
from broker_common.tlog.replay import LogState, ReplayError

StateT = TypeVar("StateT", bound=LogState)
ViewT = TypeVar("ViewT")


class Notes(Protocol):
    """Notes about a log beside its state."""

    def take(self, state: LogState, entry: Entry, /) -> None:
        """The state has just taken in this entry."""


NotesT = TypeVar("NotesT", bound=Notes)
# Entries that are read in one go: a tenth of a second of folding.
_BATCH = 4096
# Between looks at a journal that has not changed.
_LOOK_SECONDS = 0.25
# Between attempts while another process holds the file, or it cannot be read.
_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Head:
    """Data beside the entries: the newest checkpoint, and the witnesses' cosignatures of this log and of theirs."""

    checkpoint: str
    # (log, witness, size, note), by log and witness.
    cosigned: tuple[tuple[str, str, int, str], ...]


# Size of the log that was published last, and what stood beside it.
_Shown: TypeAlias = tuple[int, Head | None]


@dataclass(frozen=True, slots=True)
class Followed(Generic[ViewT]):
    """A follower's present view."""

    # Ascends with every publication, so that a reader can ask for what is newer.
    version: int
    # Entries that are folded, and entries that there are.
    done: int
    total: int
    # None until the first fold is complete.
    view: ViewT | None
    # Why following has stopped, or cannot go on for now; empty while all is well.
    problem: str = ""

    @property
    def is_complete(self) -> bool:
        return self.view is not None and self.done >= self.total


class Follower(Generic[StateT, NotesT, ViewT]):
    """Follows one journal in a thread of its own, from `start` to `stop`."""

    def __init__(
        self,
        path: Path,
        *,
        fresh_state: Callable[[], StateT],
        fresh_notes: Callable[[], NotesT],
        view: Callable[[StateT, NotesT, Head], ViewT],
        batch: int = _BATCH,
    ) -> None:
        """Whenever a log has to be read from its beginning, state and notes begin anew; `view` makes what is published."""
        self._path = path
        self._fresh_state = fresh_state
        self._fresh_notes = fresh_notes
        self._view = view
        self._batch = batch
        self._changed = threading.Condition()
        self._followed: Followed[ViewT] = Followed(0, 0, 0, None)
        self._listeners: list[Callable[[], object]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="follower", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Return when the thread has ended."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def followed(self) -> Followed[ViewT]:
        return self._followed

    @property
    def version(self) -> int:
        """Ascends with every publication."""
        return self._followed.version

    def on_news(self, tell: Callable[[], object]) -> None:
        """Call `tell`, from the follower's thread, after every publication."""
        self._listeners.append(tell)

    def wait_beyond(self, version: int, seconds: float) -> Followed[ViewT]:
        """The newest publication, as soon as it is newer than `version` or so many seconds have passed."""
        with self._changed:
            self._changed.wait_for(lambda: self._followed.version > version or self._stopping.is_set(), seconds)
            return self._followed

    # --- the thread ------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        while not self._stopping.is_set():
            try:
                with store_errors():
                    self._follow_connection()
            except ReplayError as error:
                self._publish(problem=str(error))
                return
            except BrokerError as error:
                self._publish(problem=error.text)
                if error.code == "INTEGRITY":
                    return
                # The store may come back; everything is folded anew from its file.
                self._stopping.wait(_RETRY_SECONDS)

    def _follow_connection(self) -> None:
        # Not "mode=ro": a database with a write-ahead log could then not be opened while no node serves it.
        connection = sqlite3.connect(
            f"{self._path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA query_only=ON")
            db, version = Database(connection), -1
            state, notes = self._fresh_state(), self._fresh_notes()
            shown: _Shown = (0, None)
            while not self._stopping.is_set():
                ((seen,),) = connection.execute("PRAGMA data_version")
                if seen != version:
                    version = seen
                    shown = self._catch_up(db, state, notes, shown)
                self._stopping.wait(_LOOK_SECONDS)
        finally:
            connection.close()

    def _catch_up(self, db: Database, state: StateT, notes: NotesT, shown: _Shown) -> _Shown:
        """Fold what is new, a batch at a time; gives what is then shown."""
        is_behind = True
        while is_behind and not self._stopping.is_set():
            total, rows, head = self._read(db, state.size)
            if total < state.size:
                raise InternalError("INTEGRITY", problem="the log on disk is shorter than what was read before")
            for sequence, data in rows:
                try:
                    entry = parse_entry(data if isinstance(data, bytes) else b"")
                except ValueError as error:
                    raise InternalError("INTEGRITY", problem=f"entry {sequence} is damaged") from error
                state.apply(entry)
                notes.take(state, entry)
            is_behind = state.size < total
            if is_behind:
                self._publish(done=state.size, total=total)
            elif (total, head) != shown:
                # SECURITY: a node also commits what stands in no log. When it does would tell everybody how long it has worked.
                shown = (total, head)
                self._publish(done=state.size, total=total, view=self._view(state, notes, head))
        return shown

    def _read(self, db: Database, size: int) -> tuple[int, list[tuple[int, object]], Head]:
        """How many entries there are, the next ones after `size`, and the head, all of one instant.

        Nothing is folded meanwhile: a snapshot that is held for long keeps the node from starting its write-ahead log over.
        """
        db.execute("BEGIN")
        try:
            ((newest,),) = db.execute("select max(sequence) from entries")
            rows = db.execute(
                "select sequence, entry from entries where sequence >= ? order by sequence limit ?", [size, self._batch]
            ).fetchall()
            return 0 if newest is None else newest + 1, rows, _head(db)
        finally:
            db.execute("ROLLBACK")

    def _publish(
        self, *, done: int | None = None, total: int | None = None, view: ViewT | None = None, problem: str = ""
    ) -> None:
        before = self._followed
        with self._changed:
            self._followed = Followed(
                before.version + 1,
                before.done if done is None else done,
                before.total if total is None else total,
                before.view if view is None else view,
                problem,
            )
            self._changed.notify_all()
        for tell in self._listeners:
            tell()


def _head(db: Database) -> Head:
    checkpoint = next((str(note) for (note,) in db.execute("select checkpoint from head")), "")
    tables = {str(name) for (name,) in db.execute("select name from sqlite_master where type = 'table'")}
    rows = (
        db.execute("select log, witness, size, note from cosigned order by log, witness")
        if "cosigned" in tables
        else ()
    )
    return Head(checkpoint, tuple((str(log), str(witness), int(size), str(note)) for log, witness, size, note in rows))
