"""A node's log as files: C2SP tlog-tiles, the node's own signed checkpoint, and what the two agencies saw of each other.

    checkpoint          the log as it is now, signed by its node
    cosigned            the newest checkpoint of this log that the other agency has cosigned, if there is one
    witnessed           the newest checkpoint of the other agency's log that this node has cosigned, if there is one
    tile/...            the entries and their hashes

All of it is of one instant: no note is of a longer log than the one that is exported, and none is older than what its
entries say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from sqlite_utils import Database

from broker_common.audit.export_folder import ExportFolder
from broker_common.audit.findings import Report
from broker_common.errors import InternalError, InvalidRequestError
from broker_common.storage.journal import Journal, store_errors
from broker_common.tlog.merkle import CompactTree, leaf_hash
from broker_common.tlog.note import Checkpoint, parse_checkpoint
from broker_common.tlog.replay import LogState
from broker_common.tlog.tiles import CHECKPOINT_PATH, entry_bundles, hash_tiles, tile_paths

__all__ = ["COSIGNED", "WITNESSED", "ExportReport", "export_log"]

COSIGNED = "cosigned"
WITNESSED = "witnessed"
_TILES = "tile"
# How often a log says how far it is, in entries.
_REPORT_EVERY = 1024
StateT = TypeVar("StateT", bound=LogState)


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What an export holds now."""

    # Entries of a log, or questions of a researcher.
    size: int
    # Files that are new or have changed.
    written: int


def export_log(journal: Journal[StateT], folder: ExportFolder, report: Report) -> ExportReport:
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
    checkpoint = parse_checkpoint(note)
    # 1. What never changes, checked against what is there: from here on the folder holds this history or none.
    partial: dict[str, bytes] = {}
    for name, content in _tiles(journal, checkpoint, _held(folder), folder, report):
        if ".p/" in name:
            partial[name] = content
        else:
            folder.put_final(name, content)
    # 2. What the next export replaces.
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
    """The checkpoint of an earlier export to this folder."""
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
        if not db.table("cosigned").exists():
            return ""
        query = f"select note from cosigned where {column} = ? order by size desc limit 1"  # noqa: S608 - own names
        return next((str(row["note"]) for row in db.query(query, [origin])), "")
