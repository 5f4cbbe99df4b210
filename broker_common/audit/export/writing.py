"""A node's log as files: C2SP tlog-tiles, the node's own signed checkpoint, and what the two agencies saw of each other.

    checkpoint          the log as it is now, signed by its node
    cosigned            the newest checkpoint of this log that the other agency has cosigned, if there is one
    witnessed           the newest checkpoint of the other agency's log that this node has cosigned, if there is one
    dictionaries/...    the document of every dictionary that the log says was adopted
    tile/...            the entries and their hashes

All of it is of one instant: no note is of a longer log than the one that is exported, and none is older than what its
entries say. Files that can never change must equal what would be written now: an export that differs is evidence, and is
never overwritten.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from broker_common.audit import texts
from broker_common.audit.export.documents import file_of
from broker_common.audit.findings import Report
from broker_common.errors import InternalError, InvalidRequestError
from broker_common.storage.database import Database
from broker_common.storage.dictionary.adopted import Dictionaries
from broker_common.storage.durable import (
    SHARED_FILE,
    create_for_owner,
    make_folder,
    make_shared_folder,
    sync_directory,
)
from broker_common.storage.journal import Journal, store_errors
from broker_common.storage.loads import StoreStateT
from broker_common.tlog.merkle import CompactTree, leaf_hash
from broker_common.tlog.note import Checkpoint, parse_checkpoint
from broker_common.tlog.replay import LogState
from broker_common.tlog.tiles import CHECKPOINT_PATH, entry_bundles, hash_tiles, tile_paths

_CONFIG = "config.toml"


class ExportFolder:
    """One part of what is handed in: the export of one home."""

    def __init__(self, path: Path) -> None:
        """Make the folder, and the folders above it.

        Raises:
            InvalidRequestError: INVALID_VALUE, it is a home.
        """
        if (path / _CONFIG).exists():
            raise InvalidRequestError(
                "INVALID_VALUE", name="--to", problem=texts.EXPORT_TO_HOME, remedy=texts.EXPORT_ELSEWHERE
            )
        self.path = path
        self.written = 0
        self._touched = {path}
        make_shared_folder(path)

    def read(self, name: str) -> bytes | None:
        """The file of this name; None if there is none."""
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return None

    def put_final(self, name: str, content: bytes, *, mode: int = SHARED_FILE) -> None:
        """Write what can never change, unless it is there already.

        Raises:
            InvalidRequestError: EXPORT_DIFFERS, something else is there.
        """
        there = self.read(name)
        if there is None:
            self._write(name, content, mode)
        elif there != content:
            raise InvalidRequestError("EXPORT_DIFFERS", file=str(self.path / name))

    def put_secret(self, name: str, content: bytes) -> None:
        """The same for what nobody but its owner may read, in a folder that nobody else enters."""
        path = self.path / name
        make_folder(path.parent)
        # An earlier version left both open to others.
        path.parent.chmod(0o700)
        if path.exists():
            path.chmod(0o600)
        self.put_final(name, content, mode=0o600)

    def put(self, name: str, content: bytes) -> None:
        """Write what may have changed since, if it has."""
        if self.read(name) != content:
            self._write(name, content, SHARED_FILE)

    def flush(self) -> None:
        """Make everything so far durable under its name."""
        for directory in sorted(self._touched):
            sync_directory(directory)
        self._touched.clear()

    def names(self, below: str) -> Iterator[str]:
        """Every file under a folder of the export."""
        for directory, _, files in os.walk(self.path / below):
            yield from (str((Path(directory) / file).relative_to(self.path)) for file in sorted(files))

    def remove(self, name: str) -> None:
        """Remove what a later export stands in for, and its folder if that is empty then."""
        path = self.path / name
        path.unlink()
        if not any(path.parent.iterdir()):
            path.parent.rmdir()

    def _write(self, name: str, content: bytes, mode: int) -> None:
        path = self.path / name
        make_shared_folder(path.parent)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            with create_for_owner(temporary) as file:
                os.fchmod(file.fileno(), mode)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            # CRASH: before this line the old file stands, after it the new one; `flush` makes the names durable.
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        self._touched.add(path.parent)
        self.written += 1


COSIGNED = "cosigned"
WITNESSED = "witnessed"
_TILES = "tile"
# How often a log says how far it is, in entries.
_REPORT_EVERY = 1024
StateT = TypeVar("StateT", bound=LogState)


@dataclass(frozen=True, slots=True)
class ExportReport:
    """Present content of an export."""

    # Entries of a log, or questions of a researcher.
    size: int
    # Files that are new or have changed.
    written: int


def export_log(
    journal: Journal[StoreStateT], dictionaries: Dictionaries, folder: ExportFolder, report: Report
) -> ExportReport:
    """Export a log up to its current size, whether a node serves it at the moment or not.

    Raises:
        InvalidRequestError: EXPORT_DIFFERS, the folder holds another history, or more of this one.
    """
    with journal.at_one_instant() as state:
        notes = {
            COSIGNED: _newest_note(journal.db, "log", state.origin),
            WITNESSED: _newest_note(journal.db, "witness", state.origin),
        }
        note = journal.checkpoint()
        documents = list(state.adoptions)
    checkpoint = parse_checkpoint(note)
    # 1. Files that never change are checked first: from here on the folder holds this history or none.
    partial: dict[str, bytes] = {}
    for name, content in _tiles(journal, checkpoint, _held(folder), folder, report):
        if ".p/" in name:
            partial[name] = content
        else:
            folder.put_final(name, content)
    for document in documents:
        folder.put_final(file_of(document), dictionaries.document(document))
    # 2. Files that the next export replaces.
    for name, content in partial.items():
        folder.put(name, content)
    for name, text in notes.items():
        if text:
            folder.put(name, text.encode())
    folder.flush()
    # 3. CRASH: the checkpoint comes after everything that it covers; until then the old one stands, with its tiles.
    folder.put(CHECKPOINT_PATH, note.encode())
    folder.flush()
    wanted = set(tile_paths(checkpoint.size))
    for name in list(folder.names(_TILES)):
        if name not in wanted:
            folder.remove(name)
    return ExportReport(checkpoint.size, folder.written)


def _held(folder: ExportFolder) -> Checkpoint | None:
    there = folder.read(CHECKPOINT_PATH)
    if there is None:
        return None
    try:
        return parse_checkpoint(there.decode())
    except ValueError as error:
        raise InvalidRequestError("EXPORT_DIFFERS", file=str(folder.path / CHECKPOINT_PATH)) from error


def _tiles(
    journal: Journal[StateT], checkpoint: Checkpoint, held: Checkpoint | None, folder: ExportFolder, report: Report
) -> Iterator[tuple[str, bytes]]:
    """Every bundle and tile. The log is compared with an earlier export before anything after that is given out."""
    differs = InvalidRequestError("EXPORT_DIFFERS", file=str(folder.path / CHECKPOINT_PATH))
    if held is not None and (held.origin != checkpoint.origin or held.size > checkpoint.size):
        raise differs
    tree = CompactTree()

    def leaves() -> Iterator[bytes]:
        for entry in _entries(journal, checkpoint.size):
            leaf = leaf_hash(entry)
            tree.append_leaf(leaf)
            if held is not None and tree.size == held.size and tree.root() != held.root:
                raise differs
            if tree.size % _REPORT_EVERY == 0:
                report(tree.size, 2 * checkpoint.size)
            yield leaf

    yield from hash_tiles(leaves())
    if tree.root() != checkpoint.root:
        raise InternalError("INTEGRITY", problem="the entries do not lead to the signed checkpoint")
    for done, bundle in enumerate(entry_bundles(_entries(journal, checkpoint.size))):
        report(checkpoint.size + done * checkpoint.size // (checkpoint.size // 256 + 1), 2 * checkpoint.size)
        yield bundle
    report(1, 1)


def _entries(journal: Journal[StateT], size: int) -> Iterator[bytes]:
    with store_errors():
        for row in journal.db.query("select entry from entries where sequence < ? order by sequence", [size]):
            yield bytes(row["entry"])


def _newest_note(db: Database, column: str, origin: str) -> str:
    """The newest note on a log, or by a witness; empty if there is none."""
    with store_errors():
        if not db.has_table("cosigned"):
            return ""
        query = f"select note from cosigned where {column} = ? order by size desc limit 1"  # noqa: S608 - own names
        return next((str(row["note"]) for row in db.query(query, [origin])), "")
