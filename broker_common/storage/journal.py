"""A node's journal: its log and every durable row that goes with it, in one SQLite file, changed in one transaction.

The rows that a node keeps beside the log (what is pending, what waits in an outbox) are written in the same transaction
as the entry they belong to, so that there is no instant at which one stands without the other. The state in memory is
only ever the fold of the entries; at start-up it is folded anew and compared with what was stored.

Several processes may open one journal (a node, and an operator's command): every transaction takes the write lock
first, folds in what others appended, and only then decides.

Failure. An exception inside a transaction leaves nothing behind. A failure of the store itself, and above all of the
commit, whose outcome nobody can know, closes the journal for good: the node stops and starts again from the file.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, ParamSpec, TypeVar

import msgspec
from sqlite_utils import Database

from broker_common.errors import BrokerError, InternalError, InvalidRequestError, RefusedError, StateUnknownError
from broker_common.tlog.entries import Entry, Event, Opened, encode_entry, parse_entry
from broker_common.tlog.merkle import MerkleTree
from broker_common.tlog.note import NoteSigner
from broker_common.tlog.replay import FORMAT_VERSION, LogState, ReplayError
from broker_common.values import Clock

StateT = TypeVar("StateT", bound=LogState)
ResultT = TypeVar("ResultT")
ParametersT = ParamSpec("ParametersT")
# How long another process may hold the journal before BUSY is said.
_BUSY_TIMEOUT_SECONDS = 30
# Signed notes that are kept in memory.
_MOST_NOTES = 64
_DAMAGED = "the database file is damaged"


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """An entry, the signed checkpoint that covers it, and the proof that it does."""

    note: str
    index: int
    proof: list[bytes]
    entry: bytes


class Transaction(Generic[StateT]):
    """The operations while the write lock is held; everything becomes durable together, or nothing does."""

    def __init__(self, journal: Journal[StateT]) -> None:
        self._journal = journal
        self.appended = False

    @property
    def db(self) -> Database:
        return self._journal.db

    @property
    def state(self) -> StateT:
        """The state including what this transaction has appended so far."""
        return self._journal.state

    def append(self, event: Event, *, at_ms: int | None = None) -> Entry:
        """Log `event` as the next entry; `at_ms` is the instant that was decided on, if one was, in place of the clock's.

        Raises:
            InternalError: INTEGRITY, the event breaks a rule of the log; INTERNAL, it does not fit into an entry.
                The transaction must not go on.
        """
        self.appended = True
        return self._journal._append(event, at_ms)  # noqa: SLF001 - a transaction is the journal's own hand


class Journal(Generic[StateT]):
    """One node's journal. Thread-safe; transactions are serial."""

    def __init__(
        self,
        path: Path,
        *,
        fresh_state: Callable[[], StateT],
        signer: Callable[[StateT], NoteSigner],
        clock: Clock,
        tables: Callable[[Database], None],
        new: bool = False,
    ) -> None:
        """Open an existing journal: replay, verify the stored checkpoint, compare the stored state.

        `signer` gives the keys that a log in a given state is signed with.

        `new` is for `create` alone: an empty file is a lost ledger everywhere else.

        Raises:
            InvalidRequestError: HOME_INVALID, there is no journal. A missing ledger is never replaced by an empty one.
            InvalidRequestError: SECRET_MISSING, the key that the log is signed with is not here.
            InternalError: FORMAT_UNKNOWN, another version of the program made it.
            InternalError: INTEGRITY, the file is damaged or does not agree with itself.
        """
        if not path.is_file():
            raise InvalidRequestError(
                "HOME_INVALID",
                home=str(path.parent),
                role=fresh_state().role,
                problem=f"{path.name} is missing",
                remedy="Never go on with a new one: what was charged would be forgotten. See 'When a node refuses to start' in "
                "docs/recover.md.",
            )
        self._path = path
        self._fresh_state = fresh_state
        self._signer = signer
        self._clock = clock
        self._lock = threading.RLock()
        self._broken: BrokerError | None = None
        # The one that is under way.
        self._transaction: Transaction[StateT] | None = None
        # Who signed last, and what of late.
        self._notes: tuple[NoteSigner | None, dict[tuple[int, bytes], str]] = (None, {})
        # SQLite's version of the file when all entries of others were last folded in.
        self._version: int | None = None
        self.db = _connect(path)
        try:
            with store_errors():
                tables(self.db)
            with self._one_snapshot():
                self._reset()
                if not new:
                    self._verify_stored()
        except BaseException:
            self.db.close()
            raise

    @classmethod
    def create(
        cls,
        path: Path,
        *,
        fresh_state: Callable[[], StateT],
        signer: Callable[[StateT], NoteSigner],
        clock: Clock,
        tables: Callable[[Database], None],
    ) -> Journal[StateT]:
        """Make a new journal whose first entry opens the log. Refuses to touch an existing one."""
        if path.exists():
            raise InvalidRequestError(
                "HOME_INVALID",
                home=str(path.parent),
                role=f"new {fresh_state().role}",
                problem=f"{path.name} already exists",
                remedy="Nothing was changed. A journal is made once, with its home.",
            )
        path.touch(mode=0o600)
        journal = cls(path, fresh_state=fresh_state, signer=signer, clock=clock, tables=tables, new=True)
        with journal.transaction() as transaction:
            origin = signer(journal.state).name
            transaction.append(Opened(origin=origin, role=journal.state.role, format=FORMAT_VERSION))
        return journal

    def close(self) -> None:
        with self._lock:
            self.db.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Transaction[StateT]]:
        """Hold the write lock; commit at the end of the block. Inside another one it is a part of that, and fails with it.

        Raises:
            StateUnknownError: STATE_UNKNOWN, the commit failed and its outcome cannot be known.
            InternalError: STORE_FAILED, something else about the store failed; nothing was written.
            RefusedError: BUSY, another process did not let go of the journal.
        """
        with self._lock:
            self._verify_usable()
            if self._transaction is not None:
                # The lock is this thread's.
                yield self._transaction
                return
            transaction = Transaction(self)
            self._begin()
            self._transaction = transaction
            try:
                with store_errors():
                    self._catch_up()
                    yield transaction
                    if transaction.appended:
                        self._write_head()
            except BaseException as error:
                self._abandon(transaction, error)
                raise
            finally:
                self._transaction = None
            self._commit()

    @contextlib.contextmanager
    def reading(self) -> Iterator[StateT]:
        """The state including what other processes have appended. Do not keep it beyond the block."""
        with self._lock:
            self._verify_usable()
            try:
                with store_errors():
                    self._catch_up()
                    yield self.state
            except InternalError as error:
                # The fold in memory may have stopped half way.
                if error.stops_node:
                    self._broken = error
                raise

    @contextlib.contextmanager
    def at_one_instant(self) -> Iterator[StateT]:
        """As `reading`; rows that are read in the block are of the same instant as the state."""
        with self._lock:
            self._verify_usable()
            with self._one_snapshot(), self.reading() as state:
                yield state

    async def glance(
        self, look: Callable[ParametersT, ResultT], /, *args: ParametersT.args, **kwargs: ParametersT.kwargs
    ) -> ResultT:
        """The result of `look`, which reads a little of the state or of the rows and waits for nothing but the journal.

        At once while nobody holds the journal, in a thread otherwise: handing it over takes longer than it does.
        """
        return await self.glance_in(None, look, *args, **kwargs)

    async def glance_in(
        self,
        threads: Executor | None,
        look: Callable[ParametersT, ResultT],
        /,
        *args: ParametersT.args,
        **kwargs: ParametersT.kwargs,
    ) -> ResultT:
        """The same for callers that wait in threads of their own; None: in the shared ones."""
        if self._lock.acquire(blocking=False):
            try:
                return look(*args, **kwargs)
            finally:
                self._lock.release()
        call = partial(copy_context().run, look, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(threads, call)

    def checkpoint(self, size: int | None = None) -> str:
        """The signed note for the log as it is now, or as it was with `size` entries."""
        with self._lock:
            # SECURITY: after an uncertain write the tree may hold entries that the file does not.
            self._verify_usable()
            return self._note(self._tree.size if size is None else size)

    def root(self, size: int) -> bytes:
        """The root of the log as it was with `size` entries; IndexError if it never had so many."""
        with self._lock:
            self._verify_usable()
            return self._tree.root(size)

    def inclusion_proof(self, index: int, size: int) -> list[bytes]:
        """RFC 6962 proof that entry `index` is in the log of `size` entries; IndexError if there is no such entry."""
        with self._lock:
            self._verify_usable()
            return self._tree.inclusion_proof(index, size)

    def consistency_proof(self, old_size: int, size: int) -> list[bytes]:
        """RFC 6962 proof that the log of `size` entries goes on from that of `old_size`; IndexError if it never had so many."""
        with self._lock:
            self._verify_usable()
            return self._tree.consistency_proof(old_size, size)

    def prove(self, index: int) -> Checkpointed:
        """The entry at `index`, with the signed checkpoint of the log that ends with it, and the proof.

        SECURITY: not the log as it is now. How far it has grown meanwhile would tell what other queries were doing at
        an instant that nobody is to know.
        """
        with self._lock, store_errors():
            self._verify_usable()
            ((entry,),) = self.db.execute("select entry from entries where sequence = ?", [index])
            return Checkpointed(
                self._note(index + 1), index, self._tree.inclusion_proof(index, index + 1), bytes(entry)
            )

    def _note(self, size: int) -> str:
        signer, root = self._signer(self.state), self._tree.root(size)
        # One answer asks for the note of its charge several times.
        signed, notes = self._notes
        if signed != signer or len(notes) > _MOST_NOTES:
            signed, notes = self._notes = signer, {}
        if (size, root) not in notes:
            notes[size, root] = signer.sign_checkpoint(size, root)
        return notes[size, root]

    def now(self) -> int:
        """The clock, but never earlier than the log: what has expired stays expired when the clock is set back."""
        with self._lock:
            return max(self._clock(), self.state.time_ms)

    def start_log_over(self) -> bool:
        """Start the write-ahead log over, which holds what rows have lost; False while another process reads or writes.

        SECURITY: without waiting inside SQLite, which would keep others from the journal meanwhile.
        """
        with self._lock, store_errors():
            self._verify_usable()
            self.db.execute("PRAGMA busy_timeout=0")
            try:
                ((busy, *_),) = self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                self.db.execute(f"PRAGMA busy_timeout={1000 * _BUSY_TIMEOUT_SECONDS}")
        return not busy

    @property
    def is_broken(self) -> bool:
        """True after a failure that closed the journal for good."""
        return self._broken is not None

    def _append(self, event: Event, at_ms: int | None) -> Entry:
        entry = Entry(
            sequence=self.state.size,
            time_ms=self.state.time_of(event, self._clock() if at_ms is None else at_ms),
            policy=self.state.policy_hash,
            event=event,
        )
        try:
            data = encode_entry(entry)
        except ValueError as error:
            raise InternalError("INTERNAL") from error
        self._fold(entry, data)
        self.db.execute("insert into entries (sequence, entry) values (?, ?)", [entry.sequence, data])
        return entry

    def _fold(self, entry: Entry, data: bytes) -> None:
        try:
            self.state.apply(entry)
        except ReplayError as error:
            if error.code == "FORMAT" and isinstance(entry.event, Opened):
                raise InternalError(
                    "FORMAT_UNKNOWN", home=str(self._path.parent), found=entry.event.format, known=FORMAT_VERSION
                ) from error
            raise InternalError("INTEGRITY", problem=str(error)) from error
        self._tree.append(data)

    def _catch_up(self) -> None:
        # Changes whenever another connection has written anything, and never for what this one writes. Asked before the
        # rows are read: what is written in between is found the next time.
        ((version,),) = self.db.conn.execute("PRAGMA data_version")
        if version == self._version:
            return
        rows = self.db.execute(
            "select sequence, entry from entries where sequence >= ? order by sequence", [self.state.size]
        )
        for sequence, data in rows:
            try:
                # A column of SQLite holds values of any type.
                entry = parse_entry(data if isinstance(data, bytes) else b"")
            except ValueError as error:
                raise InternalError("INTEGRITY", problem=f"entry {sequence} is damaged") from error
            if sequence != entry.sequence:
                raise InternalError("INTEGRITY", problem=f"entry {sequence} is out of place")
            self._fold(entry, data)
        ((newest,),) = self.db.execute("select max(sequence) from entries")
        # Longer is no contradiction: another process may have appended since the query above.
        if (-1 if newest is None else newest) < self.state.size - 1:
            raise InternalError("INTEGRITY", problem="the log on disk is shorter than the log in memory")
        self._version = version

    def _write_head(self) -> None:
        self.db.execute(
            "insert or replace into head (id, checkpoint, state) values (0, ?, ?)",
            [self.checkpoint(), _canonical(self.state.summary())],
        )

    def _begin(self) -> None:
        try:
            self.db.conn.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            # The low byte is the primary code; there are several ways of being busy.
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
                # Another process holds the lock, a backup perhaps. Nothing was begun, so nothing is uncertain.
                raise RefusedError("BUSY", retry_seconds=_BUSY_TIMEOUT_SECONDS) from error
            self._broken = InternalError("STORE_FAILED")
            raise self._broken from error

    def _commit(self) -> None:
        # CRASH: before the commit nothing of this transaction exists; after it, all of it does.
        try:
            self.db.conn.execute("COMMIT")
        except BaseException as error:
            self._broken = StateUnknownError("STATE_UNKNOWN")
            raise self._broken from error

    def _abandon(self, transaction: Transaction[StateT], error: BaseException) -> None:
        with contextlib.suppress(sqlite3.Error):
            self.db.conn.execute("ROLLBACK")
        if isinstance(error, BrokerError) and error.stops_node:
            self._broken = error
        elif self.db.conn.in_transaction:
            # Nothing may be read or signed any more: this connection still sees what will never be committed.
            self._broken = InternalError("STORE_FAILED")
        elif transaction.appended:
            # The fold in memory has run ahead of the file: fold again from the file.
            try:
                self._reset()
            except InternalError as failure:
                self._broken = failure
                raise

    def _reset(self) -> None:
        self.state = self._fresh_state()
        self._tree = MerkleTree()
        self._version = None
        with store_errors():
            self._catch_up()

    def _verify_usable(self) -> None:
        if self._broken is not None:
            raise self._broken

    @contextlib.contextmanager
    def _one_snapshot(self) -> Iterator[None]:
        """Everything read in the block is from one instant, although other processes go on appending."""
        with store_errors():
            self.db.execute("BEGIN")
        try:
            yield
        finally:
            with store_errors():
                self.db.execute("ROLLBACK")

    def _verify_stored(self) -> None:
        """Compare what start-up folded with the checkpoint and summary that the last transaction stored."""
        with store_errors():
            head = next(iter(self.db.query("select checkpoint, state from head")), None)
        if head is None:
            raise InternalError("INTEGRITY", problem="the stored checkpoint is missing")
        verifier = self._signer(self.state).verifier
        try:
            # A number in the note's place becomes a text that is no note.
            checkpoint = verifier.verify_checkpoint(str(head["checkpoint"]))
        except InvalidRequestError as error:
            raise InternalError("INTEGRITY", problem=f"the stored checkpoint is not ours, {error}") from error
        if (checkpoint.size, checkpoint.root) != (self._tree.size, self._tree.root()):
            raise InternalError("INTEGRITY", problem="the entries do not lead to the stored checkpoint")
        if head["state"] != _canonical(self.state.summary()):
            raise InternalError("INTEGRITY", problem="the entries do not lead to the stored state")


@contextlib.contextmanager
def rows_of(path: Path) -> Iterator[Database]:
    """The rows of a journal that a node may be writing to: without its locks, and without a fold of its log."""
    with (
        store_errors(),
        contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as connection,
    ):
        connection.execute("PRAGMA query_only=ON")
        yield Database(connection, execute_plugins=False)


def _connect(path: Path) -> Database:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=_BUSY_TIMEOUT_SECONDS)
    db = Database(connection, execute_plugins=False)
    try:
        with store_errors():
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=FULL")
            # Deleted rows are overwritten, not just unlinked. Secrets are kept out of this file altogether: its
            # write-ahead log would hold on to them.
            db.execute("PRAGMA secure_delete=ON")
            db.table("entries").create(
                {"sequence": int, "entry": bytes}, pk="sequence", if_not_exists=True, ignore=True
            )
            db.table("head").create(
                {"id": int, "checkpoint": str, "state": str}, pk="id", if_not_exists=True, ignore=True
            )
    except BaseException:
        connection.close()
        raise
    return db


@contextlib.contextmanager
def store_errors() -> Iterator[None]:
    """An SQLite failure in the block becomes STORE_FAILED, or INTEGRITY if the file itself is damaged."""
    try:
        yield
    except UnicodeDecodeError as error:
        # A damaged file names its tables in something that is no text.
        raise InternalError("INTEGRITY", problem=_DAMAGED) from error
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
            raise InternalError("INTEGRITY", problem=_DAMAGED) from error
        raise InternalError("STORE_FAILED") from error


def _canonical(summary: dict[str, str | int]) -> str:
    return msgspec.json.encode(summary, order="sorted").decode()
