"""Loads: whole stores that replace each other. The log says which one is in force, and commits to its content.

A load is one file, written whole under a fresh id before the log names it, never changed afterwards, and removed when
neither new questions nor open ones need it. The commitment is salted, because a log entry must not show how many people
there are or whether anything changed.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

from sqlite_utils import Database

from broker_common.crypto.commitments import SALT_BYTES, commit_load
from broker_common.errors import InternalError, InvalidRequestError, RefusedError
from broker_common.query.dictionary import Dictionary
from broker_common.storage.durable import exclusive, is_held, make_folder
from broker_common.storage.journal import Journal, Transaction
from broker_common.tlog.entries import Entry, Loaded, Relinked
from broker_common.tlog.replay import StoreState
from broker_common.values import Randomness

SPILLED = ".source-spill-"
"""How the name of a folder begins, in the home, where a database sorts rows of people during a load."""

_ID_BYTES = 8
_CHUNK_BYTES = 1 << 20
StoreStateT = TypeVar("StoreStateT", bound=StoreState)

Stamp: TypeAlias = tuple[int, int, int, int]
"""Of a file: inode, size, and when content and entry were changed, in nanoseconds."""

WithEntry: TypeAlias = Callable[[Transaction[StoreStateT], Entry], None]
"""Called in the transaction that logs a load, with its entry: what it writes stands and falls with it."""


@dataclass(frozen=True, slots=True)
class LoadFolder:
    """The folder of one node's loads."""

    path: Path
    suffix: str

    @staticmethod
    def create_tables(db: Database) -> None:
        db.table("loads").create({"load": str, "salt": bytes}, pk="load", if_not_exists=True, ignore=True)

    def file(self, load: str) -> Path:
        return self.path / f"{load}{self.suffix}"

    @contextmanager
    def loading(self, randomness: Randomness) -> Iterator[str]:
        """The id of a load that is about to be written; one process at a time.

        Raises:
            RefusedError: LOADING, another process is at it.
            InternalError: STORE_FAILED.
        """
        try:
            make_folder(self.path)
        except OSError as error:
            raise InternalError("STORE_FAILED") from error
        with exclusive(self._lock) as held:
            if not held:
                raise RefusedError("LOADING")
            # Left by a load that was killed.
            for unfinished in self.path.glob(".*.part*"):
                unfinished.unlink(missing_ok=True)
            for spilled in self.path.parent.glob(f"{SPILLED}*"):
                shutil.rmtree(spilled)
            yield randomness(_ID_BYTES).hex()

    def put_in_force(
        self,
        journal: Journal[StoreStateT],
        load: str,
        release: str,
        linkage: str,
        randomness: Randomness,
        *,
        dictionary: Dictionary,
        with_entry: WithEntry[StoreStateT] | None = None,
    ) -> None:
        """Log that the written load, whose pseudonyms come from chain `linkage`, replaces the one before.

        `dictionary` is the one that its values were read under.

        Raises:
            InvalidRequestError: LOAD_REFUSED, the linkage key was changed meanwhile, or another dictionary adopted.
        """
        salt, commitment = self._commit(load, randomness)
        with journal.transaction() as transaction:
            if transaction.state.linkage not in {"", linkage}:
                raise _outrun("the linkage key was changed")
            newest = transaction.state.newest_dictionary
            if newest is not None and newest.dictionary != dictionary.hash.hex():
                raise _outrun("another dictionary was adopted")
            # CRASH: a file that the log does not name is swept away by `forget_except`.
            entry = transaction.append(
                Loaded(
                    load=load,
                    release=release,
                    linkage=linkage,
                    dictionary=dictionary.hash.hex(),
                    commitment=commitment,
                )
            )
            transaction.db.table("loads").insert({"load": load, "salt": salt})
            if with_entry is not None:
                with_entry(transaction, entry)

    def put_relinked_in_force(
        self,
        journal: Journal[StoreStateT],
        load: str,
        *,
        replaced: str,
        linkage: str,
        randomness: Randomness,
        only_if: Callable[[StoreStateT], None] | None = None,
    ) -> None:
        """Log that the written load holds the people of load `replaced` under the pseudonyms of chain `linkage`.

        `only_if` raises where the log, as it is then, does not allow it.

        Raises:
            RefusedError: LOADING, another load was put in force meanwhile.
        """
        salt, commitment = self._commit(load, randomness)
        with journal.transaction() as transaction:
            if transaction.state.load != replaced:
                raise RefusedError("LOADING")
            if only_if is not None:
                only_if(transaction.state)
            # CRASH: as above.
            transaction.append(
                Relinked(load=load, previous=transaction.state.linkage, linkage=linkage, commitment=commitment)
            )
            transaction.db.table("loads").insert({"load": load, "salt": salt})

    def verify(
        self,
        journal: Journal[StoreStateT],
        load: str,
        commitments: Mapping[str, str],
        *,
        content_hash: bytes | None = None,
    ) -> None:
        """Return only if the load's file is the one that the log committed to; `content_hash` is the file's, if known.

        Raises:
            InternalError: INTEGRITY.
        """
        with journal.reading():
            row = next(iter(journal.db.query("select salt from loads where load = ?", [load])), None)
        content_hash = content_hash or self.content_hash(load)
        if row is None or commit_load(row["salt"], content_hash).hex() != commitments.get(load):
            raise InternalError("INTEGRITY", problem=f"the store of load {load} is not the one that was loaded")

    def is_loading(self) -> bool:
        """Whether a process is at it. A load that was written before and is not in the log afterwards never will be, if not.

        Raises:
            InternalError: STORE_FAILED.
        """
        try:
            return is_held(self._lock)
        except OSError as error:
            raise InternalError("STORE_FAILED") from error

    @property
    def _lock(self) -> Path:
        return self.path.with_suffix(".lock")

    def written(self) -> list[str]:
        return sorted(path.name.removesuffix(self.suffix) for path in self.path.glob(f"[!.]*{self.suffix}"))

    def forget_except(self, kept: Collection[str]) -> None:
        """Remove every load that is not among those kept."""
        files = {self.file(load) for load in kept}
        try:
            for path in self.path.glob(f"*{self.suffix}"):
                if path not in files:
                    path.unlink(missing_ok=True)
        except OSError as error:
            raise InternalError("STORE_FAILED") from error

    def _commit(self, load: str, randomness: Randomness) -> tuple[bytes, str]:
        """A fresh salt, and the commitment to a load's file under it."""
        salt = randomness(SALT_BYTES)
        return salt, commit_load(salt, self.content_hash(load)).hex()

    def stamp(self, load: str) -> Stamp:
        """A value that changes when a load's file is replaced or written to.

        Raises:
            InternalError: INTEGRITY, it is not there.
        """
        try:
            found = self.file(load).stat()
        except OSError as error:
            raise _unreadable(load, error) from error
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def content_hash(self, load: str) -> bytes:
        """Content hash of a load's file.

        Raises:
            InternalError: INTEGRITY, it cannot be read.
        """
        digest = hashlib.sha256()
        try:
            with self.file(load).open("rb") as file:
                while chunk := file.read(_CHUNK_BYTES):
                    digest.update(chunk)
        except OSError as error:
            raise _unreadable(load, error) from error
        return digest.digest()


def _outrun(what: str) -> InvalidRequestError:
    return InvalidRequestError("LOAD_REFUSED", problem=f"{what} while it was read", remedy="Load it again.")


def _unreadable(load: str, error: OSError) -> InternalError:
    return InternalError("INTEGRITY", problem=f"the store of load {load} cannot be read ({error.strerror})")
